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
        // What a slower writer leaves in one pass interval may be more than the lag that is aimed at;
        // a freeze that is as short as wanted is no failure to converge.
        let slower = sight.copy_rate > sight.write_rate;
        let short = freeze_ms.is_some_and(|ms| u128::from(ms) <= config.freeze_target.as_millis());
        let give_up = |reason| {
            if slower && short { Judgement::Converged } else { Judgement::NotConverged(reason) }
        };
        if capped {
            return give_up(NotConverged::PassesMax);
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
            return give_up(NotConverged::Stalled);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows the same tail, above the lag that is aimed at, until copying stops.
    fn judged(write_rate: u64, freeze_ms: u64) -> Judgement {
        let config = Config::new(1);
        let mut convergence = Convergence::default();
        let tail = config.lag_bytes * 4;
        let (copy_rate, freeze_ms) = (150 << 20, Some(freeze_ms));
        let sight = Sight { tail, freeze_ms, copy_rate, write_rate, throttled: false };
        for passes in 1..=config.passes_max {
            convergence.passes = passes;
            let judgement = convergence.judge(sight, &config);
            if judgement != Judgement::Copy {
                return judgement;
            }
        }
        panic!("copying never stops (R29)");
    }

    /// R27, R33: what a slower writer leaves in one pass interval is cut over without complaint if
    /// the freeze is as short as wanted; a long freeze, or a faster writer, is said to be one.
    #[test]
    fn a_short_freeze_of_a_slower_writer_is_no_failure_to_converge() {
        let target_ms = u64::try_from(Config::new(1).freeze_target.as_millis()).expect("short");
        let failed = Judgement::NotConverged(NotConverged::Stalled);
        assert_eq!(judged(50 << 20, target_ms), Judgement::Converged);
        assert_eq!(judged(50 << 20, target_ms + 1), failed);
        assert_ne!(judged(150 << 20, target_ms), Judgement::Converged);
    }
}
