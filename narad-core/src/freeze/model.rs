//! An exhaustive walk through the small schedules of one source, one destination and the log.
//!
//! The gate and the handoff are the real ones; the disk, the network, the replicated row and the
//! destination are a few lines each. Every operation may run at any time, every message may arrive
//! late or twice, a commit may be applied late, outcomes may stay unknown, and the source may
//! crash or begin another life. Each budget below is spent in every possible place.

use core::hash::{Hash, Hasher};
use std::collections::BTreeSet;
use std::hash::DefaultHasher;
use std::vec::Vec;

use self::world::{Budget, Planted, Step, World};

mod world;

/// Walks through every schedule; returns how many states there are, or the first bad schedule.
fn walk(budget: Budget, planted: Planted) -> Result<usize, (&'static str, Vec<Step>)> {
    let mut seen = BTreeSet::new();
    let mut open = Vec::from([(World::new(budget, planted), Vec::new())]);
    while let Some((world, path)) = open.pop() {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        if !seen.insert(hasher.finish()) {
            continue;
        }
        let steps = world.steps();
        let bad = world.violation().or_else(|| world.unfinished().filter(|_| steps.is_empty()));
        if let Some(bad) = bad {
            return Err((bad, path));
        }
        for step in steps {
            let (mut next, mut path) = (world.clone(), path.clone());
            next.step(step);
            path.push(step);
            open.push((next, path));
        }
    }
    Ok(seen.len())
}

fn holds(budget: Budget) {
    let states = walk(budget, Planted::Nothing).unwrap_or_else(|(bad, path)| {
        panic!("{bad}: {path:?}");
    });
    assert!(states > 1000, "the walk went nowhere: {states} states");
}

const NONE: Budget = Budget {
    appends: 0,
    prepares: 0,
    attempts: 1,
    releases: 0,
    unknowns: 0,
    crashes: 0,
    lives: 0,
    plans: 0,
};

/// Covers S9, L2, H1, H2, H20, R18, R38, R40 and `case_022` to `case_026`: TTL, release, late flips
/// and unknown outcomes of the revoke, in every order.
#[test]
fn the_log_alone_ends_a_freeze() {
    holds(Budget { appends: 2, prepares: 1, releases: 1, unknowns: 1, ..NONE });
}

/// Covers H4, H21, H41 and case F17: two tries of one destination, the older one repeated late.
#[test]
fn two_attempts_share_one_freeze_at_most() {
    holds(Budget { appends: 1, prepares: 2, attempts: 2, ..NONE });
}

/// Covers H6, H34, `case_027` and case M133: the source crashes at every point.
#[test]
fn a_crash_of_the_source_voids_its_freezes() {
    holds(Budget { appends: 1, prepares: 1, crashes: 1, unknowns: 1, ..NONE });
}

/// Covers H32: the source begins another life without a restart, at every point.
#[test]
fn a_new_life_voids_the_freezes_of_the_old_one() {
    holds(Budget { appends: 2, prepares: 1, lives: 1, ..NONE });
}

/// Covers H5, H21, H41 and H45: the plan changes at every point, to the same target again.
#[test]
fn a_later_plan_ends_every_freeze_of_an_earlier_one() {
    holds(Budget { appends: 1, prepares: 1, plans: 1, unknowns: 1, ..NONE });
}

/// Covers H1, H2, H5, H6, H7, H34: without any one of these rules the walk finds the loss that the
/// rule prevents, so the walk can fail.
#[test]
fn every_rule_that_is_left_out_is_missed() {
    let all = Budget { appends: 1, prepares: 1, unknowns: 1, ..NONE };
    for (planted, budget) in [
        (Planted::ThawOnExpiry, all),
        (Planted::UnknownIsDone, all),
        (Planted::CheckThenAppend, all),
        (Planted::FreezeOutlivesLife, Budget { crashes: 1, ..all }),
        (Planted::ServeUnregistered, Budget { crashes: 1, ..all }),
        (Planted::MoveIdIgnored, Budget { plans: 1, ..all }),
    ] {
        let found = walk(budget, planted);
        assert!(found.is_err(), "{planted:?}: nothing found in {found:?} states");
    }
}
