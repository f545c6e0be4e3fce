//! When to stop copying and freeze.

use core::time::Duration;

use super::note::NotConverged;
use crate::config::Config;
use crate::time::Instant;

/// How the tail has developed over the passes of one try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Convergence {
    /// Passes that copied all they set out to.
    pub(super) passes: u32,
    /// The smallest tail that any listing after the first pass showed, and when; time under the
    /// throttle is left out of what has passed since.
    best: Option<(u64, Instant)>,
    /// The smallest tails of late.
    lately: Lately,
    /// The tail at the listing before, and when that was.
    last: Option<(u64, Instant)>,
    /// Listings in a row that showed no smaller tail, those after a throttled pass left out.
    stalled: u32,
    /// Passes in a row, throttled or not, that left a tail no smaller than the one before.
    grown: u32,
    /// Since when.
    growing_since: Option<Instant>,
    /// Passes at the listing before.
    seen: u32,
}

/// The smallest tail of the present window of time and of the one before: what a bursty writer leaves
/// between two bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Lately {
    since: Option<Instant>,
    now: Option<u64>,
    before: Option<u64>,
}

impl Lately {
    fn see(&mut self, tail: u64, now: Instant, window: Duration) {
        if self.since.is_none_or(|since| now.since(since) >= window) {
            *self = Self { since: Some(now), now: None, before: self.now };
        }
        self.now = Some(self.now.map_or(tail, |least| least.min(tail)));
    }

    fn least(self) -> Option<u64> {
        [self.now, self.before].into_iter().flatten().min()
    }
}

/// What a listing shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    /// When.
    pub(super) now: Instant,
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
        let shrank = self.last.is_none_or(|(last, _)| tail < last - last / 8);
        let grew = self.last.is_some_and(|(last, _)| tail >= last);
        // Only a pass that copied what it set out to says anything about the rates.
        let passed = self.passes > self.seen;
        self.seen = self.passes;
        self.grown = if grew { self.grown + u32::from(passed) } else { 0 };
        self.growing_since = grew.then(|| {
            let before = self.last.map_or(sight.now, |(_, at)| at);
            self.growing_since.unwrap_or(before)
        });
        let since_last = self.last.map_or(Duration::ZERO, |(_, at)| sight.now.since(at));
        self.last = Some((tail, sight.now));
        self.count_stall(sight, since_last, config);
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
        // A tail that goes up and down is least between two bursts: there it is cut over (R34).
        let least = self.lately.least().unwrap_or(tail);
        let at_its_least = tail <= least.saturating_add(least / 8);
        let stalled_for = self.best.map_or(Duration::ZERO, |(_, at)| sight.now.since(at));
        let stalled = self.stalled >= config.stall_passes && stalled_for >= config.stall_window;
        // One that only grows has no such place. A faster writer's will not shrink again; a slower
        // one's may do so when its burst is over.
        let growing_for = self.growing_since.map_or(Duration::ZERO, |since| sight.now.since(since));
        let lasting = growing_for >= config.stall_window || sight.write_rate >= sight.copy_rate;
        if (stalled && at_its_least) || (self.grown >= config.stall_passes && lasting) {
            return give_up(NotConverged::Stalled);
        }
        Judgement::Copy
    }

    fn count_stall(&mut self, sight: Sight, since_last: Duration, config: &Config) {
        if self.passes == 0 {
            return;
        }
        let Sight { tail, now, throttled, .. } = sight;
        self.lately.see(tail, now, config.stall_window);
        match self.best {
            Some((best, at)) if tail >= best => {
                if throttled {
                    self.best = Some((best, at.after(since_last)));
                } else {
                    self.stalled += 1;
                }
            }
            Some(_) | None => {
                self.best = Some((tail, now));
                self.stalled = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Shows the same tail, above the lag that is aimed at, until copying stops.
    fn judged(write_rate: u64, freeze_ms: u64) -> Judgement {
        let config = Config::new(1);
        let mut convergence = Convergence::default();
        let tail = config.lag_bytes * 4;
        let (copy_rate, freeze_ms) = (150 << 20, Some(freeze_ms));
        for passes in 1..=config.passes_max {
            let now = Instant::ORIGIN.after(config.pass_interval * passes);
            let sight = Sight { now, tail, freeze_ms, copy_rate, write_rate, throttled: false };
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

    /// Shows tails at an interval until copying stops; returns the tail that it stops at, and when.
    fn cut_over(tails: &[u64], throttled: bool) -> (u64, Duration) {
        let config = Config { passes_max: 1000, ..Config::new(1) };
        let mut convergence = Convergence::default();
        for (at, &mib) in tails.iter().enumerate() {
            let passed = config.pass_interval * u32::try_from(at).unwrap();
            convergence.passes += 1;
            let judgement = convergence.judge(
                Sight {
                    now: Instant::ORIGIN.after(passed),
                    tail: mib << 20,
                    freeze_ms: Some(1000),
                    copy_rate: 150 << 20,
                    write_rate: 50 << 20,
                    throttled,
                },
                &config,
            );
            if judgement != Judgement::Copy {
                assert_eq!(judgement, Judgement::NotConverged(NotConverged::Stalled));
                return (mib, passed);
            }
        }
        panic!("copying never stops (R29)");
    }

    /// R34: a bursty writer is cut over between two bursts, after a window of time without a smaller
    /// tail: three passes may be over before its burst is.
    #[test]
    fn a_bursty_writer_is_cut_over_between_bursts() {
        let burst = [9, 8, 7, 6, 5, 4, 5, 7, 9];
        let tails: Vec<u64> = burst.into_iter().cycle().take(100).collect();
        let (tail, after) = cut_over(&tails, false);
        assert_eq!(tail, 4);
        let window = Config::new(1).stall_window;
        assert!(after >= window && after < 3 * window, "{after:?}");
    }

    /// R34: what was the best once, long ago, is not waited for for ever.
    #[test]
    fn an_old_best_is_not_waited_for() {
        let first = [20, 2];
        let later = [30, 29, 31, 28].into_iter().cycle().take(200);
        let tails: Vec<u64> = first.into_iter().chain(later).collect();
        let (tail, after) = cut_over(&tails, false);
        assert!((28..=31).contains(&tail) && after < Duration::from_secs(3), "{tail} {after:?}");
    }

    /// R33: before anything is known of the rate of the copy, no writer outpaces it.
    #[test]
    fn nobody_outpaces_a_copy_whose_rate_is_not_known() {
        let config = Config::new(1);
        let mut convergence = Convergence::default();
        for passes in 1..=3 {
            let now = Instant::ORIGIN.after(config.pass_interval * passes);
            let (tail, freeze_ms) = (config.lag_bytes * u64::from(4 + passes), None);
            let (copy_rate, write_rate, throttled) = (0, 1, false);
            let sight = Sight { now, tail, freeze_ms, copy_rate, write_rate, throttled };
            convergence.passes = passes;
            assert_eq!(convergence.judge(sight, &config), Judgement::Copy, "{passes}");
        }
    }

    /// Time under the throttle is no stall.
    #[test]
    #[should_panic(expected = "copying never stops")]
    fn throttled_time_is_no_stall() {
        let tails: Vec<u64> = [9, 8, 7].into_iter().cycle().take(200).collect();
        cut_over(&tails, true);
    }
}
