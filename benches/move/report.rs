//! What came of it: a table or JSON lines.

use std::error::Error;
use std::path::Path;

use serde::Serialize;

use super::bars::{Bar, Threshold};
use super::machine::Machine;
use super::stats::{median, percentile};
use super::{Options, plot};

/// One bar of one variant, measured.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// The bar.
    pub(crate) bar: Bar,
    /// Which of its variants: what Narad is beside.
    pub(crate) beside: String,
    /// The unit of both sides.
    pub(crate) unit: &'static str,
    /// Narad's samples.
    pub(crate) ours: Vec<f64>,
    /// The other side's samples, one for each of Narad's if they were paired.
    pub(crate) theirs: Vec<f64>,
    /// The ratio that counts, ours over theirs.
    pub(crate) ratio: f64,
    /// The lowest and the highest ratio of a pair.
    pub(crate) range: [f64; 2],
    /// What is enough.
    pub(crate) threshold: Threshold,
    /// Whether it is.
    pub(crate) met: bool,
}

impl Row {
    /// Makes a row of pairs: the median of their ratios counts.
    pub(crate) fn of_pairs(
        bar: Bar,
        beside: impl Into<String>,
        unit: &'static str,
        pairs: &[(f64, f64)],
        threshold: Threshold,
    ) -> Self {
        let ratios: Vec<f64> = pairs.iter().map(|(ours, theirs)| ours / theirs).collect();
        let ratio = median(&ratios);
        Self {
            bar,
            beside: beside.into(),
            unit,
            ours: pairs.iter().map(|pair| pair.0).collect(),
            theirs: pairs.iter().map(|pair| pair.1).collect(),
            ratio,
            range: [percentile(&ratios, 0.0), percentile(&ratios, 1.0)],
            threshold,
            met: threshold.is_met_by(ratio),
        }
    }
}

#[derive(Debug, Serialize)]
struct Skipped {
    bar: Bar,
    skipped: String,
}

/// Collects rows; prints each as it comes.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, rows: Vec::new() }
    }

    /// Takes a measured row.
    pub(crate) fn row(&mut self, row: Row) {
        if self.json {
            line(&row);
        } else {
            let Row { bar, beside, unit, ours, theirs, ratio, range, threshold, met } = &row;
            say(&format!(
                "{bar:?}  {beside:<44} {:>10.3} / {:>10.3} {unit:<8} = {ratio:>7.3} [{:.3}..{:.3}]  {}  {}",
                median(ours),
                median(theirs),
                range[0],
                range[1],
                in_words(*threshold),
                if *met { "met" } else { "MISSED" },
            ));
        }
        self.rows.push(row);
    }

    /// Says why a bar is not measured.
    pub(crate) fn skip(&mut self, bar: Bar, why: &str) {
        if self.json {
            line(&Skipped { bar, skipped: why.to_owned() });
        } else {
            say(&format!("{bar:?}  skipped: {why}"));
        }
    }

    /// Ends with what the machine was, and the plots.
    pub(crate) fn finish(
        &self,
        options: &Options,
        svg: Option<&Path>,
    ) -> Result<(), Box<dyn Error>> {
        let machine = Machine::look(options);
        if self.json {
            line(&machine);
        } else {
            say(&machine.to_string());
        }
        if let Some(dir) = svg {
            std::fs::create_dir_all(dir)?;
            for (name, rows) in plots(&self.rows) {
                std::fs::write(dir.join(format!("{name}.svg")), plot::draw(name, &rows))?;
            }
        }
        Ok(())
    }
}

/// Groups rows by the plot that they belong to, in the order in which they were measured.
fn plots(rows: &[Row]) -> Vec<(&'static str, Vec<&Row>)> {
    let mut plots: Vec<(&'static str, Vec<&Row>)> = Vec::new();
    for row in rows {
        let name = row.bar.group().name();
        match plots.iter_mut().find(|plot| plot.0 == name) {
            Some(plot) => plot.1.push(row),
            None => plots.push((name, vec![row])),
        }
    }
    plots
}

fn in_words(threshold: Threshold) -> String {
    match threshold {
        Threshold::AtLeast(least) => format!(">= {least}"),
        Threshold::AtMost(most) => format!("<= {most}"),
        Threshold::Within(least, most) => format!("{least}..{most}"),
        Threshold::None => "reported".to_owned(),
    }
}

fn line(value: &impl Serialize) {
    say(&serde_json::to_string(value).expect("plain data"));
}

#[expect(clippy::print_stdout, reason = "a benchmark's result")]
fn say(line: &str) {
    println!("{line}");
}

/// Says what went wrong.
#[expect(clippy::print_stderr, reason = "a command's complaint")]
pub(crate) fn complain(line: &str) {
    eprintln!("bench_move: {line}");
}
