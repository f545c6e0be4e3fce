//! What a run comes to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How a run ended. The number is the exit code of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every invariant held, everything finished, every expectation was met.
    Good = 0,
    /// An expectation of the scenario was not met.
    Unexpected = 1,
    /// A safety invariant (S1 to S18) was violated.
    Unsafe = 10,
    /// Something did not finish and did not say why (L1 to L7).
    Stuck = 11,
    /// The code under test panicked.
    Panicked = 12,
}

/// An invariant that did not hold, a panic, or an expectation that was not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Its name: `S1` to `S18`, `L1` to `L7`, `panic`, or `expect`.
    pub invariant: String,
    /// When, in microseconds of true time.
    pub at_us: u64,
    /// After which event of the run.
    pub event: u64,
    /// What was seen, for people.
    pub text: String,
}

/// One run in figures: a row of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the scenario.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// `raft` or `abstract`.
    pub metastore: String,
    /// The classes of faults that were on.
    pub classes: Vec<String>,
    /// How many nodes took part.
    pub nodes: u32,
    /// How many partitions there were at the end.
    pub partitions: u32,
    /// Events that happened.
    pub events: u64,
    /// How much true time passed in the world, in microseconds.
    pub simulated_us: u64,
    /// Records that were acknowledged to producers.
    pub acked: u64,
    /// Records that were delivered to consumers, repetitions included.
    pub delivered: u64,
    /// Deliveries of a record that had been delivered before.
    pub duplicates: u64,
    /// Moves that the log planned.
    pub moves_planned: u64,
    /// Flips, forced ones included.
    pub moves_done: u64,
    /// Forced flips.
    pub moves_forced: u64,
    /// Moves that were given up or replaced.
    pub moves_given_up: u64,
    /// How long each freeze lasted, in microseconds.
    pub freezes_us: Vec<u64>,
    /// How many bytes copies brought, tails included.
    pub copied_bytes: u64,
    /// Write rate over copy rate of the workload, where the scenario says so.
    pub write_over_copy: Option<f64>,
    /// How often each note was seen, by its name.
    pub notes: BTreeMap<String, u64>,
    /// How often each fault struck, by its name.
    pub faults: BTreeMap<String, u64>,
    /// What did not hold.
    pub violations: Vec<Violation>,
    /// What had not finished at the end, with the reason that it reports.
    pub waiting: Vec<String>,
    /// Summarises every event of the run; the same for the same seed everywhere (S17).
    pub trace_hash: u64,
}

impl Violation {
    /// Returns how a run ends in which nothing worse than this happens.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.invariant.as_bytes() {
            b"panic" => Verdict::Panicked,
            b"expect" => Verdict::Unexpected,
            [b'L', ..] => Verdict::Stuck,
            _ => Verdict::Unsafe,
        }
    }
}

impl Summary {
    /// Returns the gravest of what happened.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.gravest().map_or(Verdict::Good, Violation::verdict)
    }

    /// Returns the first violation of the gravest kind.
    #[must_use]
    pub fn gravest(&self) -> Option<&Violation> {
        // The last of equals wins, so from the back.
        self.violations.iter().rev().max_by_key(|violation| violation.verdict())
    }
}
