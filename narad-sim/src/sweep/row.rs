//! One run of a sweep, as a line of JSON and as a line of CSV.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::outcome::{Summary, Verdict};

/// One run of a sweep. It says nothing about wall time: the same run gives the same row everywhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// How it ended.
    pub verdict: Verdict,
    /// The run in figures.
    #[serde(flatten)]
    pub summary: Summary,
}

impl From<Summary> for Row {
    fn from(summary: Summary) -> Self {
        Self { verdict: summary.verdict(), summary }
    }
}

/// The columns of a CSV file, in their order. Times are in microseconds of simulated time; lists are
/// joined by spaces.
pub const COLUMNS: [&str; 29] = [
    "scenario",
    "seed",
    "verdict",
    "metastore",
    "classes",
    "nodes",
    "partitions",
    "events",
    "simulated_us",
    "acked",
    "delivered",
    "duplicates",
    "moves_planned",
    "moves_done",
    "moves_forced",
    "moves_given_up",
    "freezes",
    "freeze_us_sum",
    "freeze_us_median",
    "freeze_us_max",
    "copied_bytes",
    "write_over_copy",
    "notes",
    "faults",
    "violations",
    "violation",
    "waiting",
    "freezes_us",
    "trace_hash",
];

impl Row {
    /// Returns the cells that stand under [`COLUMNS`].
    #[must_use]
    pub fn cells(&self) -> [String; COLUMNS.len()] {
        let Summary {
            scenario,
            seed,
            metastore,
            classes,
            nodes,
            partitions,
            events,
            simulated_us,
            acked,
            delivered,
            duplicates,
            moves_planned,
            moves_done,
            moves_forced,
            moves_given_up,
            freezes_us,
            copied_bytes,
            write_over_copy,
            notes,
            faults,
            violations,
            waiting,
            trace_hash,
        } = &self.summary;
        let mut sorted = freezes_us.clone();
        sorted.sort_unstable();
        let names: Vec<&str> = violations.iter().map(|it| it.invariant.as_str()).collect();
        let lengths: Vec<String> = freezes_us.iter().map(u64::to_string).collect();
        [
            scenario.clone(),
            seed.to_string(),
            self.verdict.name().into(),
            metastore.clone(),
            classes.join(" "),
            nodes.to_string(),
            partitions.to_string(),
            events.to_string(),
            simulated_us.to_string(),
            acked.to_string(),
            delivered.to_string(),
            duplicates.to_string(),
            moves_planned.to_string(),
            moves_done.to_string(),
            moves_forced.to_string(),
            moves_given_up.to_string(),
            freezes_us.len().to_string(),
            freezes_us.iter().sum::<u64>().to_string(),
            sorted.get(sorted.len() / 2).map_or_else(String::new, u64::to_string),
            sorted.last().map_or_else(String::new, u64::to_string),
            copied_bytes.to_string(),
            write_over_copy.map_or_else(String::new, |ratio| ratio.to_string()),
            counts(notes),
            counts(faults),
            names.join(" "),
            violations.first().map_or_else(String::new, |it| it.text.clone()),
            waiting.join("; "),
            lengths.join(" "),
            format!("{trace_hash:016x}"),
        ]
    }
}

impl Verdict {
    /// Returns its name in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unexpected => "unexpected",
            Self::Unsafe => "unsafe",
            Self::Stuck => "stuck",
            Self::Panicked => "panicked",
        }
    }
}

fn counts(of: &BTreeMap<String, u64>) -> String {
    let pairs: Vec<String> = of.iter().map(|(name, n)| format!("{name}={n}")).collect();
    pairs.join(" ")
}
