//! When to stop copying and freeze.

use super::note::NotConverged;
use crate::config::Config;

/// How the tail has developed over the passes of one try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Convergence {
    /// Passes that copied all they set out to.
    pub(super) passes: u32,
    /// The smallest tail that any listing after the first pass showed.
    best: Option<u64>,
    /// The tail at the listing before.
    last: Option<u64>,
    /// Listings in a row that showed no smaller tail, those after a throttled pass left out.
    stalled: u32,
    /// Passes in a row, throttled or not, that left a tail no smaller than the one before.
    grown: u32,
    /// Passes at the listing before.
    seen: u32,
}

/// What a listing shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    /// Listed bytes that are not staged.
    pub(super) tail: u64,
    /// How long they would take, in milliseconds, if that is known.
    pub(super) freeze_ms: Option<u64>,
    /// Bytes copied per second; zero if unknown.
    pub(super) copy_rate: u64,
    /// Bytes written per second; zero if unknown.
    pub(super) write_rate: u64,
    /// Whether the pass before was held back by the throttle, which is no stall.
    pub(super) throttled: bool,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// Copy what was listed.
    Copy,
    /// Freeze: the tail is small.
    Converged,
    /// Freeze, although it is not.
    NotConverged(NotConverged),
}

impl Convergence {
    /// Judges a listing.
    pub(super) fn judge(&mut self, sight: Sight, config: &Config) -> Judgement {
        let Sight { tail, freeze_ms, .. } = sight;
        // An eighth less is what one more pass must promise to be worth its time.
        let shrank = self.last.is_none_or(|last| tail < last - last / 8);
        let grew = self.last.is_some_and(|last| tail >= last);
        // Only a pass that copied what it set out to says anything about the rates.
        let passed = self.passes > self.seen;
        self.seen = self.passes;
        self.grown = if grew { self.grown + u32::from(passed) } else { 0 };
        self.last = Some(tail);
        self.count_stall(sight);
        let capped = self.passes >= config.passes_max;
        if tail <= config.lag_bytes {
            let target_ms = config.freeze_target.as_millis();
            let short = tail == 0 || freeze_ms.is_some_and(|ms| u128::from(ms) <= target_ms);
            let copy_on = !short && shrank && !capped;
            return if copy_on { Judgement::Copy } else { Judgement::Converged };
        }
        if capped {
            return Judgement::NotConverged(NotConverged::PassesMax);
        }
        let outpaced = sight.copy_rate > 0
            && sight.write_rate >= sight.copy_rate.saturating_add(sight.copy_rate / 4);
        // A throttle that holds for one pass may be somebody else's copy; one under which the tail
        // grows twice is what there is to copy with, and waiting it out would double the tail.
        let steady = self.stalled > 0 || self.grown > 1;
        if steady && grew && outpaced {
            return Judgement::NotConverged(NotConverged::WritesOutpaceCopy);
        }
        // While it shrinks again, the next tail is better than this one (R34).
        let best = self.best.unwrap_or(tail);
        let near_best = tail <= best.saturating_add(best / 8);
        let spent = self.stalled >= config.stall_passes || self.grown >= config.stall_passes;
        if spent && (near_best || grew) {
            return Judgement::NotConverged(NotConverged::Stalled);
        }
        Judgement::Copy
    }

    fn count_stall(&mut self, sight: Sight) {
        if self.passes == 0 {
            return;
        }
        if self.best.is_none_or(|best| sight.tail < best) {
            self.best = Some(sight.tail);
            self.stalled = 0;
        } else if !sight.throttled {
            self.stalled += 1;
        }
    }
}
