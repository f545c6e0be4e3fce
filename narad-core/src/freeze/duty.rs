//! How much of the time a partition has been frozen lately.

use alloc::vec::Vec;
use core::time::Duration;

use crate::config::Config;
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

/// The share of the last [`Config::DUTY_WINDOW`] for which one partition was frozen.
///
/// A destination that fails every attempt would otherwise keep its source frozen nearly all the
/// time, although each freeze ends (H20, case T26). A new freeze is allowed while the past ones
/// leave room for another that makes no progress: `freeze_ttl`, or half the allowance where that is
/// less. A freeze that *does* make progress may last longer (H22, R31); what it overdraws is waited
/// for before the next one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Duty {
    allowance: Duration,
    least: Duration,
    /// Ended freezes, oldest first, as (end, length); at most [`Duty::PAST_MAX`].
    past: Vec<(Instant, Duration)>,
}

impl Duty {
    /// Most freezes remembered; beyond that the two oldest are remembered as one that took as long
    /// as both and ended with the later, which never shows less than there was.
    const PAST_MAX: usize = 32;

    pub(crate) fn new(config: &Config) -> Self {
        let allowance = Config::DUTY_WINDOW * config.freeze_duty_percent / 100;
        Self { allowance, least: config.freeze_ttl.min(allowance / 2), past: Vec::new() }
    }

    /// Remembers a freeze that has ended now.
    pub(crate) fn record(&mut self, since: Instant, now: Instant) {
        self.forget(now);
        if now == since {
            return;
        }
        if self.past.len() == Self::PAST_MAX {
            let (_, oldest) = self.past.remove(0);
            self.past[0].1 += oldest;
        }
        self.past.push((now, now.since(since)));
    }

    /// Returns whether another freeze may begin.
    ///
    /// # Errors
    ///
    /// How long to wait, if the past freezes leave no room for one.
    pub(crate) fn allows(&mut self, now: Instant) -> Result<(), Duration> {
        if is_planted(Bug::FreezesWithoutDuty) {
            return Ok(());
        }
        self.forget(now);
        let room = self.allowance.saturating_sub(self.least);
        let frozen: Duration = self.past.iter().map(|past| within(*past, now)).sum();
        let Some(mut excess) = frozen.checked_sub(room).filter(|excess| !excess.is_zero()) else {
            return Ok(());
        };
        for past @ (end, _) in &self.past {
            let counted = within(*past, now);
            if excess <= counted {
                // The window's far edge must move this deep into this freeze.
                let edge = end.since_origin().saturating_sub(counted.saturating_sub(excess));
                let until = Instant::from_origin(edge).after(Config::DUTY_WINDOW);
                return Err(until.since(now));
            }
            excess = excess.saturating_sub(counted);
        }
        Ok(())
    }

    fn forget(&mut self, now: Instant) {
        self.past.retain(|(end, _)| now.since(*end) < Config::DUTY_WINDOW);
    }
}

/// Returns how much of a past freeze lies within the window that ends now.
fn within((end, length): (Instant, Duration), now: Instant) -> Duration {
    length.min(Config::DUTY_WINDOW.saturating_sub(now.since(end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(ms))
    }

    /// Covers H20 and case T26: two freezes that ran into their TTL use up the tenth of ten
    /// minutes; the third waits until the first leaves the window.
    #[test]
    fn a_third_failed_freeze_waits_for_the_window() {
        let mut duty = Duty::new(&Config::new(1));
        duty.record(at(0), at(30_000));
        assert_eq!(duty.allows(at(40_000)), Ok(()));
        duty.record(at(40_000), at(70_000));
        assert_eq!(duty.allows(at(70_000)), Err(Duration::from_secs(560)));
        assert_eq!(duty.allows(at(629_999)), Err(Duration::from_millis(1)));
        assert_eq!(duty.allows(at(630_000)), Ok(()));
    }

    /// Covers H22: a long freeze that made progress is paid for before the next one.
    #[test]
    fn a_freeze_of_minutes_is_followed_by_a_long_rest() {
        let mut duty = Duty::new(&Config::new(1));
        duty.record(at(0), at(300_000));
        assert_eq!(duty.allows(at(300_000)), Err(Duration::from_secs(570)));
    }

    proptest! {
        /// Covers L2: freezes that make no progress, begun whenever that is allowed, never exceed
        /// the share over any window; waiting as told is always enough, and exactly so.
        #[test]
        fn the_share_holds_over_any_window(
            lengths in proptest::collection::vec(1_u64..=30_000, 1..80),
            gaps in proptest::collection::vec(0_u64..20_000, 80),
            percent in 1_u32..=100,
        ) {
            let config = Config { freeze_duty_percent: percent, ..Config::new(1) };
            let mut duty = Duty::new(&config);
            let mut exact: Vec<(Instant, Duration)> = Vec::new();
            let mut now = at(0);
            for (length, gap) in lengths.into_iter().zip(gaps) {
                now = now.after(Duration::from_millis(gap));
                if let Err(wait) = duty.allows(now) {
                    prop_assert!(duty.allows(now.after(wait.saturating_sub(Duration::from_nanos(1)))).is_err());
                    now = now.after(wait);
                    prop_assert_eq!(duty.allows(now), Ok(()));
                }
                let length = Duration::from_millis(length).min(duty.least);
                let began = now;
                now = now.after(length);
                duty.record(began, now);
                exact.push((now, length));
                let frozen: Duration = exact.iter().map(|past| within(*past, now)).sum();
                prop_assert!(frozen <= duty.allowance, "{frozen:?} of {:?}", duty.allowance);
                prop_assert!(duty.past.len() <= Duty::PAST_MAX);
            }
        }
    }
}
