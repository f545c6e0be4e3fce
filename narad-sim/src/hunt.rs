//! Plants bugs one by one, and looks how long a sweep takes to notice.
//!
//! A bug counts as found if a run fails with it and does not without it.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::guard;
use crate::lab::{Bug, Laboratory, NoSuchBug, Stop};
use crate::outcome::{Verdict, Violation};
use crate::scenario::DrawOptions;
use crate::sweep::in_order;

/// How hard to look for one bug.
#[derive(Clone, Copy)]
pub struct Effort<'a> {
    /// Most runs.
    pub seeds: u64,
    /// How many threads.
    pub jobs: NonZeroUsize,
    /// Asked before each run whether time is up.
    pub is_over: &'a (dyn Fn() -> bool + Sync),
    /// Set to end it with what has been found.
    pub interrupt: &'a AtomicBool,
}

impl std::fmt::Debug for Effort<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Effort").field("seeds", &self.seeds).finish_non_exhaustive()
    }
}

/// What became of one planted bug.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hunted {
    /// Its name.
    pub bug: String,
    /// Whether a run failed by it.
    pub found: bool,
    /// How many runs it took, or were made in vain.
    pub seeds: u64,
    /// The seed of the run that failed.
    pub seed: Option<u64>,
    /// The name of the scenario of the run that failed.
    pub scenario: Option<String>,
    /// Whether it was a hint of the bug, and not drawn evenly.
    pub hinted: bool,
    /// How that run ended.
    pub verdict: Option<Verdict>,
    /// What noticed it.
    pub violation: Option<Violation>,
    /// The invariants that should notice it.
    pub expected: Vec<String>,
    /// Runs that failed without the bug, too: false alarms, or real bugs.
    pub alarms: u64,
}

/// Looks for one bug. No bug is planted afterwards.
///
/// # Errors
///
/// If this build has no such bug.
pub fn hunt<L: Laboratory>(lab: &L, bug: &Bug, effort: Effort<'_>) -> Result<Hunted, NoSuchBug> {
    // One in two is drawn evenly: whoever wrote the hint may be wrong.
    let hint = |number: u64| lab.hint(&bug.name, number).filter(|_| number.is_multiple_of(2));
    let drawn = DrawOptions::default();
    let of = |number: u64| hint(number).unwrap_or_else(|| lab.draw(number, &drawn));
    let mut hunted = Hunted {
        bug: bug.name.clone(),
        found: false,
        seeds: 0,
        seed: None,
        scenario: None,
        hinted: false,
        verdict: None,
        violation: None,
        expected: bug.invariants.clone(),
        alarms: 0,
    };
    while hunted.seeds < effort.seeds && !effort.interrupt.load(Ordering::Relaxed) {
        lab.plant(Some(&bug.name))?;
        let mut failed = None;
        in_order(
            (hunted.seeds..effort.seeds).take_while(|_| !(effort.is_over)()),
            effort.jobs,
            effort.interrupt,
            |number, stop| {
                let finished = guard::run(lab, &of(number), number, None, stop);
                finished.complete.then_some(finished.summary)
            },
            |number, summary| {
                hunted.seeds = number + 1;
                if summary.violations.is_empty() {
                    return ControlFlow::Continue(());
                }
                failed = Some((number, summary));
                ControlFlow::Break(())
            },
        );
        lab.plant(None)?;
        let Some((number, summary)) = failed else { break };
        let clean = guard::run(lab, &of(number), number, None, Stop::when(effort.interrupt));
        if !clean.summary.violations.is_empty() {
            hunted.alarms += 1;
            continue;
        }
        hunted.found = true;
        hunted.seed = Some(number);
        hunted.scenario = Some(summary.scenario.clone());
        hunted.hinted = hint(number).is_some();
        hunted.verdict = Some(summary.verdict());
        hunted.violation = summary.gravest().cloned();
        break;
    }
    Ok(hunted)
}

/// All hunts in figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bag {
    /// How many bugs were found.
    pub found: u64,
    /// How many were planted.
    pub total: u64,
    /// How many runs it took to find one, in the middle; nothing if none was found.
    pub median_seeds: Option<u64>,
    /// The names of those that were not found.
    pub missed: Vec<String>,
    /// Runs that failed with no bug planted.
    pub alarms: u64,
}

impl Bag {
    /// Counts hunts.
    #[must_use]
    pub fn of(hunts: &[Hunted]) -> Self {
        let mut seeds: Vec<u64> = hunts.iter().filter(|it| it.found).map(|it| it.seeds).collect();
        seeds.sort_unstable();
        let missed = hunts.iter().filter(|it| !it.found).map(|it| it.bug.clone());
        Self {
            found: seeds.len() as u64,
            total: hunts.len() as u64,
            // Of an even number, the one above the middle: the worse figure.
            median_seeds: seeds.get(seeds.len() / 2).copied(),
            missed: missed.collect(),
            alarms: hunts.iter().map(|it| it.alarms).sum(),
        }
    }
}
