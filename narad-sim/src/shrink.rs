//! Looks for the simplest scenario that still fails in the same way.
//!
//! It is greedy: of the simpler scenarios that [`Laboratory::shrinks`] offers, the boldest that still
//! violates the same invariant becomes the scenario to simplify next, until none does.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::guard;
use crate::lab::Laboratory;
use crate::outcome::{Summary, Violation};
use crate::sweep::in_order;

/// How far to look.
#[derive(Clone, Copy, Debug)]
pub struct Budget<'a> {
    /// Most runs.
    pub runs: u64,
    /// How many seeds each simpler scenario is tried with: what is taken away shifts what is drawn.
    pub tries: u64,
    /// How many threads.
    pub jobs: NonZeroUsize,
    /// Set to end it with what has been found.
    pub interrupt: &'a AtomicBool,
}

/// The simplest scenario that was found.
#[derive(Clone, Debug)]
pub struct Shrunk<S> {
    /// The scenario, with its seed.
    pub scenario: S,
    /// The seed that it fails with.
    pub seed: u64,
    /// What does not hold.
    pub violation: Violation,
    /// How many events it takes.
    pub events: u64,
    /// How many runs were made.
    pub runs: u64,
    /// How many of them became the scenario to simplify next.
    pub steps: u64,
    /// Whether nothing simpler that is on offer fails; otherwise the budget ended the search.
    pub minimal: bool,
}

/// Told how far a search is: runs, and the simplest so far.
pub type Report<'a, S> = &'a mut dyn FnMut(u64, &S, u64);

/// Simplifies a scenario; returns nothing if it does not fail with this seed.
pub fn shrink<L: Laboratory>(
    lab: &L,
    scenario: L::Scenario,
    seed: u64,
    budget: Budget<'_>,
    report: Report<'_, L::Scenario>,
) -> Option<Shrunk<L::Scenario>> {
    let first = guard::run(lab, &scenario, seed, None, crate::lab::Stop::when(budget.interrupt));
    let violation = first.summary.gravest()?.clone();
    let wanted = violation.invariant.clone();
    let events = first.summary.events;
    let mut best = Shrunk { scenario, seed, violation, events, runs: 1, steps: 0, minimal: false };
    // Steps can be taken away one by one, chance cannot.
    if let Some(explicit) = lab.explicit(&best.scenario, seed) {
        let stop = crate::lab::Stop::when(budget.interrupt);
        let Summary { violations, events, .. } =
            guard::run(lab, &explicit, seed, None, stop).summary;
        best.runs += 1;
        if let Some(violation) = violations.into_iter().find(|it| it.invariant == wanted) {
            best = Shrunk { scenario: explicit, violation, events, ..best };
        }
    }
    // What has been tried fails no better the second time.
    let mut tried = BTreeSet::from([lab.text(&best.scenario)]);
    let stopped = || budget.interrupt.load(Ordering::Relaxed);
    loop {
        let mut candidates = lab.shrinks(&best.scenario);
        candidates.retain(|candidate| tried.insert(lab.text(candidate)));
        let left = budget.runs.saturating_sub(best.runs);
        let all = candidates.len() as u64 * budget.tries.max(1);
        let runs = AtomicU64::new(0);
        let mut found: Option<(u64, Summary)> = None;
        in_order(
            0..all.min(left),
            budget.jobs,
            budget.interrupt,
            |number, stop| {
                let (candidate, seed) = pick(&candidates, number, budget.tries, best.seed)?;
                let finished = guard::run(lab, candidate, seed, None, stop);
                runs.fetch_add(1, Ordering::Relaxed);
                finished.complete.then_some(finished.summary)
            },
            |number, summary| {
                report(best.runs + number + 1, &best.scenario, best.events);
                if summary.violations.iter().any(|violation| violation.invariant == wanted) {
                    found = Some((number, summary));
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            },
        );
        let Some((number, summary)) = found else {
            best.runs += runs.load(Ordering::Relaxed);
            best.minimal = all <= left && !stopped();
            return Some(best);
        };
        let (candidate, seed) = pick(&candidates, number, budget.tries, best.seed)?;
        let mut scenario = candidate.clone();
        lab.adjust(&mut scenario, seed, None);
        let same = |violation: &&Violation| violation.invariant == wanted;
        let violation = summary.violations.iter().find(same)?.clone();
        // Counted by the order, so that the figure does not depend on how many threads ran ahead.
        let (runs, steps) = (best.runs + number + 1, best.steps + 1);
        best = Shrunk {
            scenario,
            seed,
            violation,
            events: summary.events,
            runs,
            steps,
            minimal: false,
        };
    }
}

/// The candidate and the seed of one try.
fn pick<S>(candidates: &[S], number: u64, tries: u64, seed: u64) -> Option<(&S, u64)> {
    let tries = tries.max(1);
    let at = usize::try_from(number / tries).ok()?;
    Some((candidates.get(at)?, seed.wrapping_add(number % tries)))
}
