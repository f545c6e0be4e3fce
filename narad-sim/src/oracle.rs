//! Watches a world and says which invariant does not hold.

mod fact;
mod look;

pub use fact::{Directory, DiskChange, End, Fact, Origin, Read};
pub use look::{LogView, Look};

use crate::outcome::{Summary, Violation};

/// What has been seen of one run, and what was wrong with it.
#[derive(Debug, Default)]
pub struct Oracle {
    violations: Vec<Violation>,
}

impl Oracle {
    /// Takes in what has become true after event `event` of the run.
    pub fn observe(&mut self, event: u64, fact: Fact<'_>, look: &dyn Look) {
        let _ = (event, fact, look.now());
    }

    /// Judges what must hold once anything may have happened, before the world heals.
    pub fn finish_safety(&mut self, event: u64, look: &dyn Look) {
        let _ = (event, look.now());
    }

    /// Judges what must hold once the world has healed and had its time.
    pub fn finish_liveness(&mut self, event: u64, look: &dyn Look) {
        let _ = (event, look.now());
    }

    /// Returns what did not hold, in the order in which it was seen.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Fills in the figures that follow from facts.
    pub fn summarise(&self, summary: &mut Summary) {
        summary.violations.extend_from_slice(&self.violations);
    }
}
