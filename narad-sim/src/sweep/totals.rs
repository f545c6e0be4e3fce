//! A sweep in figures.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::row::Row;
use crate::outcome::{Verdict, Violation};

/// A sweep in figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Runs that went to their end.
    pub runs: u64,
    /// Events of all of them.
    pub events: u64,
    /// Simulated time of all of them, in seconds.
    pub simulated_s: f64,
    /// How long it took, in seconds.
    pub wall_s: f64,
    /// Simulated time over wall time, all threads together.
    pub speedup: f64,
    /// Simulated time over wall time of one thread.
    pub speedup_per_job: f64,
    /// How many threads there were.
    pub jobs: u64,
    /// Runs in which a safety invariant was violated or the code panicked.
    pub violations: u64,
    /// Runs in which something did not finish and did not say why.
    pub stuck: u64,
    /// Runs that panicked; they count as violations, too.
    pub panics: u64,
    /// Runs that did not meet an expectation, and did nothing worse.
    pub unexpected: u64,
    /// Records acknowledged to producers.
    pub acked: u64,
    /// Records delivered to consumers.
    pub delivered: u64,
    /// Flips.
    pub moves_done: u64,
    /// Freezes.
    pub freezes: u64,
    /// The longest freeze, in microseconds of simulated time.
    pub freeze_us_max: u64,
    /// Runs that failed, the first ones.
    pub failures: Vec<Failure>,
    /// Whether it was ended before all of its runs were done.
    pub interrupted: bool,
    /// What the process exits with: the gravest verdict.
    pub exit: u8,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Its scenario.
    pub scenario: String,
    /// Its seed.
    pub seed: u64,
    /// How it ended.
    pub verdict: Verdict,
    /// The gravest of what did not hold.
    pub violation: Violation,
    /// The command that shows it again.
    pub command: String,
}

impl Totals {
    /// Of how many failed runs the totals tell the seed.
    pub const FAILURES_MAX: usize = 100;

    /// Counts a run; `command` is asked for the line that runs it again if it failed.
    pub fn add(&mut self, row: &Row, command: impl FnOnce() -> String) {
        let summary = &row.summary;
        self.runs += 1;
        self.events += summary.events;
        self.simulated_s += seconds(summary.simulated_us);
        self.acked += summary.acked;
        self.delivered += summary.delivered;
        self.moves_done += summary.moves_done;
        self.freezes += summary.freezes_us.len() as u64;
        let longest = summary.freezes_us.iter().copied().max().unwrap_or(0);
        self.freeze_us_max = self.freeze_us_max.max(longest);
        match row.verdict {
            Verdict::Good => return,
            Verdict::Unexpected => self.unexpected += 1,
            Verdict::Unsafe => self.violations += 1,
            Verdict::Stuck => self.stuck += 1,
            Verdict::Panicked => {
                self.violations += 1;
                self.panics += 1;
            }
        }
        self.exit = self.exit.max(row.verdict as u8);
        let gravest = summary.gravest();
        if self.failures.len() < Self::FAILURES_MAX
            && let Some(violation) = gravest
        {
            self.failures.push(Failure {
                scenario: summary.scenario.clone(),
                seed: summary.seed,
                verdict: row.verdict,
                violation: violation.clone(),
                command: command(),
            });
        }
    }

    /// Sets how long it took on how many threads.
    pub fn took(&mut self, wall: Duration, jobs: usize) {
        self.wall_s = wall.as_secs_f64();
        self.jobs = jobs as u64;
        let wall = self.wall_s.max(1e-9);
        self.speedup = self.simulated_s / wall;
        #[expect(clippy::cast_precision_loss, reason = "a few threads")]
        let threads = jobs.max(1) as f64;
        self.speedup_per_job = self.speedup / threads;
    }

    /// Returns how many runs failed.
    pub const fn failed(&self) -> u64 {
        self.violations + self.stuck + self.unexpected
    }
}

/// Microseconds as seconds, for people.
#[must_use]
pub fn seconds(us: u64) -> f64 {
    Duration::from_micros(us).as_secs_f64()
}
