//! The page of a sweep.

use std::collections::BTreeMap;

use crate::outcome::{Summary, Verdict};

use super::html::{self, Tile, section};
use super::text::{self, escape, put};
use super::{Page, sweep_plots};

/// Violations and scenarios that are listed at most.
const ROWS_MAX: usize = 500;
/// Runs in the list of the longest freezes.
const LONGEST: usize = 10;

/// Returns the command that runs a row again. What was drawn from the seed needs no file; any
/// other scenario is taken to be in a file of its name.
#[must_use]
pub fn reproduce(row: &Summary) -> String {
    let mut command = "narad-sim run".to_owned();
    let drawn = row.scenario.strip_prefix("drawn");
    if drawn.is_none_or(|rest| !(rest.is_empty() || rest.starts_with('-'))) {
        put!(command, " {}", text::shell_word(&format!("{}.toml", row.scenario)));
    }
    put!(command, " --seed {}", row.seed);
    if row.metastore == "abstract" {
        command.push_str(" --metastore abstract");
    }
    command
}

/// Makes the page of a sweep. The order of the rows does not matter.
pub(super) fn page(rows: &[Summary]) -> Page {
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| {
        (&a.scenario, a.seed, a.trace_hash).cmp(&(&b.scenario, b.seed, b.trace_hash))
    });
    let plots = sweep_plots::plots(&rows);

    let mut body = String::new();
    header(&mut body, &rows);
    violations(&mut body, &rows);
    section(&mut body, "plots", "Plots");
    body.push_str("<div class=\"charts\">\n");
    for (_, svg) in &plots {
        put!(body, "<figure>\n{svg}</figure>\n");
    }
    body.push_str("</div></section>\n");
    scenarios(&mut body, &rows);
    longest_freezes(&mut body, &rows);
    seen(&mut body, &rows);
    body.push_str("</main>\n");

    let title = format!("Sweep of {}: Narad", text::counted(rows.len() as u64, "run"));
    let svgs = plots.into_iter().map(|(name, svg)| (name, html::stand_alone(&svg))).collect();
    Page { html: html::document(&title, &body, ""), svgs }
}

fn sum(rows: &[Summary], of: impl Fn(&Summary) -> u64) -> u64 {
    rows.iter().map(of).fold(0, u64::saturating_add)
}

fn header(out: &mut String, rows: &[Summary]) {
    let runs = rows.len() as u64;
    let of = |verdict: Verdict| sum(rows, |row| u64::from(row.verdict() == verdict));
    put!(
        out,
        "<header>\n<p class=\"kicker\">Narad simulator · sweep</p>\n<h1>{}",
        text::counted(runs, "run")
    );
    let seeds = rows.iter().map(|row| row.seed);
    if let (Some(first), Some(last)) = (seeds.clone().min(), seeds.max()) {
        put!(out, ", seeds {first} to {last}");
    }
    out.push_str("</h1>\n<div class=\"facts\">");
    let bad = runs - of(Verdict::Good);
    if bad == 0 {
        out.push_str("<span class=\"pill good\">✓ every invariant held in every run</span>");
    } else {
        put!(out, "<span class=\"pill bad\">✗ {} not good</span>", text::counted(bad, "run"));
    }
    for (verdict, words) in [
        (Verdict::Unsafe, "safety violated"),
        (Verdict::Stuck, "stuck"),
        (Verdict::Panicked, "panicked"),
        (Verdict::Unexpected, "expectation not met"),
    ] {
        let found = of(verdict);
        if found > 0 {
            put!(out, "<span>{words}: {}</span>", text::count(found));
        }
    }
    out.push_str("</div>\n");
    let mut freezes: Vec<u64> = rows.iter().flat_map(|row| row.freezes_us.clone()).collect();
    freezes.sort_unstable();
    let violations = sum(rows, |row| row.violations.len() as u64);
    let none = String::new;
    html::tiles(
        out,
        &[
            Tile("Runs", text::short(runs), none(), false),
            Tile(
                "Simulated time",
                text::duration(sum(rows, |row| row.simulated_us)),
                none(),
                false,
            ),
            Tile("Events", text::short(sum(rows, |row| row.events)), none(), false),
            Tile(
                "Moves",
                text::short(sum(rows, |row| row.moves_done)),
                format!("of {} planned", text::short(sum(rows, |row| row.moves_planned))),
                false,
            ),
            Tile(
                "Forced",
                text::short(sum(rows, |row| row.moves_forced)),
                "moves".to_owned(),
                false,
            ),
            Tile(
                "Freezes",
                text::short(freezes.len() as u64),
                format!(
                    "median {}, 99 % within {}",
                    text::duration(sweep_plots::quantile(&freezes, 0.5)),
                    text::duration(sweep_plots::quantile(&freezes, 0.99))
                ),
                false,
            ),
            Tile(
                "Acknowledged",
                text::short(sum(rows, |row| row.acked)),
                "records".to_owned(),
                false,
            ),
            Tile(
                "Delivered again",
                text::percent(sum(rows, |row| row.duplicates), sum(rows, |row| row.delivered)),
                format!("of {} deliveries", text::short(sum(rows, |row| row.delivered))),
                false,
            ),
            Tile("Violations", text::count(violations), none(), violations > 0),
        ],
    );
    out.push_str("</header>\n<main>\n");
}

fn command(row: &Summary) -> String {
    format!("<code class=\"command\">{}</code>", escape(&reproduce(row)))
}

fn violations(out: &mut String, rows: &[Summary]) {
    let found = || rows.iter().flat_map(|row| row.violations.iter().map(move |what| (row, what)));
    let all = found().count();
    if all == 0 {
        return;
    }
    put!(
        out,
        "<section class=\"violations\" id=\"violations\">\n<h2>{}</h2>\n",
        text::counted(all as u64, "violation")
    );
    let mut sorted: Vec<_> = found().collect();
    sorted.sort_by_key(|(row, _)| std::cmp::Reverse(row.verdict()));
    let table: Vec<_> = sorted
        .into_iter()
        .take(ROWS_MAX)
        .map(|(row, what)| {
            vec![
                row.seed.to_string(),
                format!("<strong>{}</strong>", escape(&what.invariant)),
                text::instant(what.at_us),
                escape(&text::clipped(&what.text, 400)),
                command(row),
            ]
        })
        .collect();
    html::table(out, &["#Seed", "Invariant", "At", "What was seen", "Again"], &table);
    if all > ROWS_MAX {
        put!(
            out,
            "<p class=\"soft\">{} more violations are left out; the rows of the sweep have them all.</p>\n",
            text::count((all - ROWS_MAX) as u64)
        );
    }
    out.push_str("</section>\n");
}

fn scenarios(out: &mut String, rows: &[Summary]) {
    let mut by_name: BTreeMap<&str, Vec<&Summary>> = BTreeMap::new();
    for row in rows {
        by_name.entry(&row.scenario).or_default().push(row);
    }
    let all = by_name.len();
    let table: Vec<_> = by_name
        .into_iter()
        .take(ROWS_MAX)
        .map(|(name, rows)| {
            let mut freezes: Vec<u64> =
                rows.iter().flat_map(|row| row.freezes_us.clone()).collect();
            freezes.sort_unstable();
            let at = |share: f64| {
                if freezes.is_empty() {
                    "–".to_owned()
                } else {
                    text::duration(sweep_plots::quantile(&freezes, share))
                }
            };
            let total = |of: fn(&Summary) -> u64| {
                text::count(rows.iter().map(|row| of(row)).fold(0, u64::saturating_add))
            };
            vec![
                escape(name),
                text::count(rows.len() as u64),
                total(|row| row.violations.len() as u64),
                total(|row| row.moves_done),
                total(|row| row.moves_forced),
                text::count(freezes.len() as u64),
                at(0.5),
                at(0.9),
                at(0.99),
                at(1.0),
                total(|row| row.duplicates),
            ]
        })
        .collect();
    if table.is_empty() {
        return;
    }
    section(out, "scenarios", "Scenarios");
    let head = [
        "Scenario",
        "#Runs",
        "#Violations",
        "#Moves",
        "#Forced",
        "#Freezes",
        "#Median",
        "#90 %",
        "#99 %",
        "#Longest",
        "#Duplicates",
    ];
    html::table(out, &head, &table);
    if all > ROWS_MAX {
        put!(out, "<p class=\"soft\">{} more scenarios are left out.</p>\n", all - ROWS_MAX);
    }
    out.push_str("</section>\n");
}

fn longest_freezes(out: &mut String, rows: &[Summary]) {
    let longest = |row: &Summary| row.freezes_us.iter().copied().max();
    let mut sorted: Vec<_> = rows.iter().filter_map(|row| Some((longest(row)?, row))).collect();
    sorted.sort_by_key(|(us, row)| (std::cmp::Reverse(*us), row.seed));
    sorted.truncate(LONGEST);
    if sorted.is_empty() {
        return;
    }
    section(out, "longest", "Longest freezes");
    let table: Vec<_> = sorted
        .into_iter()
        .map(|(us, row)| {
            let load = row.write_over_copy.map_or("–".to_owned(), |load| text::decimal(load, 2));
            vec![text::duration(us), load, escape(&row.scenario), command(row)]
        })
        .collect();
    html::table(out, &["#Freeze", "#W/B", "Scenario", "Again"], &table);
    out.push_str("</section>\n");
}

fn seen(out: &mut String, rows: &[Summary]) {
    let add = |of: fn(&Summary) -> &BTreeMap<String, u64>| {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (name, times) in rows.iter().flat_map(of) {
            let sum = sums.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*times);
        }
        sums
    };
    let (faults, notes) = (add(|row| &row.faults), add(|row| &row.notes));
    let mut classes: BTreeMap<String, u64> = BTreeMap::new();
    rows.iter().flat_map(|row| &row.classes).for_each(|class| {
        *classes.entry(class.clone()).or_default() += 1;
    });
    let mut waiting: BTreeMap<String, u64> = BTreeMap::new();
    rows.iter().flat_map(|row| &row.waiting).for_each(|reason| {
        *waiting.entry(reason.clone()).or_default() += 1;
    });
    section(out, "seen", "What was seen");
    out.push_str("<div class=\"columns\">\n");
    html::counts(out, "Fault", &faults);
    html::counts(out, "Class of faults, by runs that had it", &classes);
    html::counts(out, "Note", &notes);
    html::counts(out, "Not finished at the end", &waiting);
    out.push_str("</div></section>\n");
}
