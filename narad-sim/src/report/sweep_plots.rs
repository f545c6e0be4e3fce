//! The plots of a sweep: how long partitions were frozen, and what the load did to moves.

use std::collections::BTreeMap;

use crate::outcome::Summary;

use super::chart::{self, Axis, Look, Series};
use super::scale;
use super::text;
use super::thin;

/// Dots in one plot at most: more would be a blot, and a heavy page.
const DOTS_MAX: usize = 3_000;
/// Groups along the load axis, where the rows do not have a few loads of their own.
const GROUPS_MAX: usize = 24;
/// Scenarios with a curve of their own.
const CURVES_MAX: usize = 5;

const LOAD: &str = "W/B: write rate over copy rate";
const NO_LOAD: &str = "no run says its write_over_copy";
const NOTHING: &str = "no run has any";
const NO_FREEZE: &str = "nothing was frozen";

/// Returns the plots, each with the name of its file.
pub(super) fn plots(rows: &[Summary]) -> Vec<(String, String)> {
    [
        ("freeze-over-load", freeze_over_load(rows)),
        ("convergence-over-load", convergence_over_load(rows)),
        ("duplicates-over-load", duplicates_over_load(rows)),
        ("copied-over-load", copied_over_load(rows)),
        ("freeze-distribution", freeze_distribution(rows)),
        ("freeze-cumulative", freeze_cumulative(rows)),
    ]
    .into_iter()
    .map(|(name, svg)| (format!("{name}.svg"), svg))
    .collect()
}

/// Returns the value at that share of the sorted numbers.
pub(super) fn quantile(sorted: &[u64], share: f64) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
}

fn load(row: &Summary) -> Option<f64> {
    row.write_over_copy.filter(|load| load.is_finite() && *load >= 0.0)
}

/// Returns how often a note says that copying stopped without having caught up.
fn not_converged(row: &Summary) -> u64 {
    let is_meant = |name: &str| name.ends_with("not-converged");
    row.notes.iter().filter(|(name, _)| is_meant(name)).map(|(_, times)| times).sum()
}

fn freeze_over_load(rows: &[Summary]) -> String {
    let frozen = |row: &Summary| row.freezes_us.iter().map(|us| (*us).max(1) as f64).collect();
    over_load(
        rows,
        "Freeze time over W/B",
        Measure { label: "freeze", tick: scale::time, log: true, floor: None },
        ["each freeze", "median", "95 of 100 are shorter"],
        frozen,
    )
}

fn convergence_over_load(rows: &[Summary]) -> String {
    let share = |row: &Summary| {
        if row.moves_planned == 0 {
            return Vec::new();
        }
        let failed = not_converged(row).min(row.moves_planned);
        vec![(row.moves_planned - failed) as f64 * 100.0 / row.moves_planned as f64]
    };
    over_load(
        rows,
        "Moves whose copy caught up, over W/B",
        Measure { label: "share of moves", tick: scale::percent, log: false, floor: Some(100.0) },
        ["each run", "mean", ""],
        share,
    )
}

fn duplicates_over_load(rows: &[Summary]) -> String {
    let share = |row: &Summary| {
        if row.delivered == 0 {
            return Vec::new();
        }
        vec![row.duplicates as f64 * 100.0 / row.delivered as f64]
    };
    over_load(
        rows,
        "Deliveries of a record delivered before, over W/B",
        Measure {
            label: "share of deliveries",
            tick: scale::percent,
            log: false,
            floor: Some(1.0),
        },
        ["each run", "mean", ""],
        share,
    )
}

fn copied_over_load(rows: &[Summary]) -> String {
    let each = |row: &Summary| {
        if row.moves_done == 0 {
            return Vec::new();
        }
        vec![(row.copied_bytes as f64 / row.moves_done as f64).max(1.0)]
    };
    over_load(
        rows,
        "Bytes copied for each finished move, over W/B",
        Measure { label: "bytes a move", tick: scale::bytes, log: true, floor: None },
        ["each run", "median", ""],
        each,
    )
}

/// What is plotted upwards. `floor`: the axis reaches at least so high.
struct Measure {
    label: &'static str,
    tick: fn(f64) -> String,
    log: bool,
    floor: Option<f64>,
}

/// Plots numbers of each run over its load: dots, their middle by load, and the 95th of 100.
fn over_load(
    rows: &[Summary],
    title: &str,
    measure: Measure,
    [each, middle, upper]: [&str; 3],
    of: impl Fn(&Summary) -> Vec<f64>,
) -> String {
    let mut points: Vec<(f64, f64)> = rows
        .iter()
        .filter_map(|row| Some((load(row)?, of(row))))
        .flat_map(|(load, numbers)| numbers.into_iter().map(move |number| (load, number)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (low, high) = range(points.iter().map(|(_, number)| *number), measure.log);
    let x_high = points.last().map_or(1.0, |(load, _)| load * 1.02).max(1.0);
    let x = Axis { label: LOAD, low: 0.0, high: x_high, log: false, tick: scale::plain };
    let y = Axis {
        label: measure.label,
        low: if measure.log { low } else { 0.0 },
        high: measure.floor.map_or(high, |floor| high.max(floor)),
        log: measure.log,
        tick: measure.tick,
    };
    let groups = groups(&points);
    let at = |share: f64| -> Vec<(f64, f64)> {
        groups
            .iter()
            .map(|(load, numbers)| {
                let last = (numbers.len() - 1) as f64;
                (*load, numbers[(last * share).round() as usize])
            })
            .collect()
    };
    let mean = || -> Vec<(f64, f64)> {
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
        groups.iter().map(|(load, numbers)| (*load, mean(numbers))).collect()
    };
    let all = points.len();
    let dots: Vec<(f64, f64)> = points
        .into_iter()
        .enumerate()
        .filter(|(number, _)| thin::is_chosen(*number, all.min(DOTS_MAX), all))
        .map(|(_, point)| point)
        .collect();
    let name = if dots.len() < all {
        format!("{each} ({} of {} drawn)", text::count(dots.len() as u64), text::count(all as u64))
    } else {
        each.to_owned()
    };
    let middle_points = if middle == "mean" { mean() } else { at(0.5) };
    let mut series = vec![
        Series { name, look: Look::Dots, colour: 0, points: dots },
        Series { name: middle.to_owned(), look: Look::Line, colour: 1, points: middle_points },
    ];
    if !upper.is_empty() {
        let name = upper.to_owned();
        series.push(Series { name, look: Look::Dashed, colour: 2, points: at(0.95) });
    }
    let nothing = if rows.iter().any(|row| load(row).is_some()) { NOTHING } else { NO_LOAD };
    chart::plot(title, x, y, &series, nothing)
}

/// Returns the lowest and the highest, with room for a logarithm.
fn range(numbers: impl Iterator<Item = f64>, log: bool) -> (f64, f64) {
    let (low, high) = numbers
        .fold((f64::INFINITY, 0f64), |(low, high), number| (low.min(number), high.max(number)));
    if !low.is_finite() {
        return (1.0, 10.0);
    }
    if log { (low.max(1.0) * 0.8, high.max(1.0) * 1.25) } else { (low, high * 1.05) }
}

/// Groups points, which are sorted, by their load: by each load if they are few, else by equal
/// steps. The numbers of a group are sorted.
fn groups(points: &[(f64, f64)]) -> Vec<(f64, Vec<f64>)> {
    let mut by_load: BTreeMap<u64, (f64, Vec<f64>)> = BTreeMap::new();
    // Loads are not negative, so their bits are in their order.
    for (load, number) in points {
        by_load.entry(load.to_bits()).or_insert((*load, Vec::new())).1.push(*number);
    }
    let mut groups: Vec<_> = by_load.into_values().collect();
    if groups.len() > GROUPS_MAX {
        let high = points.last().map_or(1.0, |(load, _)| *load);
        let step = scale::nice_step(high, 12);
        let mut steps: BTreeMap<u64, (f64, Vec<f64>)> = BTreeMap::new();
        for (load, number) in points {
            let group = (load / step) as u64;
            steps.entry(group).or_insert(((group as f64 + 0.5) * step, Vec::new())).1.push(*number);
        }
        groups = steps.into_values().collect();
    }
    for (_, numbers) in &mut groups {
        numbers.sort_by(f64::total_cmp);
    }
    groups
}

fn freeze_axis(rows: &[Summary]) -> Axis {
    let all = rows.iter().flat_map(|row| &row.freezes_us).map(|us| (*us).max(1) as f64);
    let (low, high) = range(all, true);
    Axis { label: "freeze", low, high, log: true, tick: scale::time }
}

/// Counts freezes by length, five columns to a power of ten.
fn freeze_distribution(rows: &[Summary]) -> String {
    const COLUMNS: f64 = 5.0;
    let mut columns: BTreeMap<i32, u64> = BTreeMap::new();
    for us in rows.iter().flat_map(|row| &row.freezes_us) {
        let column = ((*us).max(1) as f64).log10() * COLUMNS;
        *columns.entry(column.floor() as i32).or_default() += 1;
    }
    let edge = |column: i32| 10f64.powf(f64::from(column) / COLUMNS);
    let most = columns.values().copied().max().unwrap_or(1) as f64;
    let (first, last) = (
        columns.keys().next().copied().unwrap_or(0),
        columns.keys().next_back().copied().unwrap_or(0) + 1,
    );
    let points = if columns.is_empty() {
        Vec::new()
    } else {
        let height = |column: i32| columns.get(&column).copied().unwrap_or(0) as f64;
        (first..=last).map(|column| (edge(column), height(column))).collect()
    };
    let x = Axis { low: edge(first), high: edge(last), ..freeze_axis(rows) };
    let y = Axis { label: "freezes", low: 0.0, high: most * 1.05, log: false, tick: scale::plain };
    let series = Series { name: "freezes".to_owned(), look: Look::Columns, colour: 0, points };
    chart::plot("How long freezes lasted", x, y, &[series], NO_FREEZE)
}

/// Shows which share of freezes is at most so long, for the scenarios with the most of them.
fn freeze_cumulative(rows: &[Summary]) -> String {
    let mut by_name: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for row in rows {
        by_name.entry(&row.scenario).or_default().extend(&row.freezes_us);
    }
    let mut curves: Vec<_> = by_name.into_iter().filter(|(_, all)| !all.is_empty()).collect();
    curves.sort_by_key(|(name, all)| (std::cmp::Reverse(all.len()), *name));
    let rest: Vec<u64> = curves.iter().skip(CURVES_MAX).flat_map(|(_, all)| all.clone()).collect();
    curves.truncate(CURVES_MAX);
    if !rest.is_empty() {
        curves.push(("all others", rest));
    }
    let series: Vec<Series> = curves
        .into_iter()
        .enumerate()
        .map(|(colour, (name, mut all))| {
            all.sort_unstable();
            let points = (0..=200)
                .map(|step| f64::from(step) / 200.0)
                .map(|share| (quantile(&all, share).max(1) as f64, share * 100.0))
                .collect();
            Series { name: text::clipped(name, 40), look: Look::Steps, colour, points }
        })
        .collect();
    let y =
        Axis { label: "share of freezes", low: 0.0, high: 100.0, log: false, tick: scale::percent };
    chart::plot("Freezes at most so long", freeze_axis(rows), y, &series, NO_FREEZE)
}
