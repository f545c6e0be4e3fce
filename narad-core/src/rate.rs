//! Rates in whole bytes per second, smoothed without a float.

use core::time::Duration;

/// A smoothed rate: each sample moves it a quarter of the way.
///
/// The first sample is taken as it is. A quarter forgets a burst within a few passes of a copy and
/// still hides the jitter of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rate {
    bytes_per_second: Option<u64>,
}

impl Rate {
    /// Takes a sample; one that lasted no time says nothing.
    pub(crate) fn observe(&mut self, bytes: u64, elapsed: Duration) {
        let Some(sample) = Self::of(bytes, elapsed) else { return };
        self.bytes_per_second = Some(match self.bytes_per_second {
            None => sample,
            Some(rate) if sample >= rate => rate + ((sample - rate) >> 2),
            Some(rate) => rate - ((rate - sample) >> 2),
        });
    }

    /// Returns the rate of one sample in bytes per second; `None` if it lasted no time.
    pub(crate) fn of(bytes: u64, elapsed: Duration) -> Option<u64> {
        (u128::from(bytes) * 1_000_000_000).checked_div(elapsed.as_nanos()).map(saturate)
    }

    /// Returns bytes per second; zero before the first sample.
    pub(crate) fn bytes_per_second(self) -> u64 {
        self.bytes_per_second.unwrap_or(0)
    }

    /// Returns how many milliseconds so many bytes take, rounded up; `None` if that is unknown.
    pub(crate) fn millis_for(self, bytes: u64) -> Option<u64> {
        if bytes == 0 {
            return Some(0);
        }
        match self.bytes_per_second() {
            0 => None,
            rate => Some(saturate((u128::from(bytes) * 1_000).div_ceil(u128::from(rate)))),
        }
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R26: the prediction is tail over bandwidth.
    #[test]
    fn a_prediction_is_bytes_over_rate_rounded_up() {
        let mut rate = Rate::default();
        assert_eq!(rate.millis_for(1), None);
        assert_eq!(rate.millis_for(0), Some(0));
        rate.observe(1_000, Duration::from_secs(1));
        assert_eq!(rate.bytes_per_second(), 1_000);
        assert_eq!(rate.millis_for(1_000), Some(1_000));
        assert_eq!(rate.millis_for(1), Some(1));
        assert_eq!(rate.millis_for(1_001), Some(1_001));
    }

    #[test]
    fn a_sample_moves_the_rate_a_quarter_of_the_way() {
        let mut rate = Rate::default();
        rate.observe(1_000, Duration::from_secs(1));
        rate.observe(2_000, Duration::from_secs(1));
        assert_eq!(rate.bytes_per_second(), 1_250);
        rate.observe(250, Duration::from_secs(1));
        assert_eq!(rate.bytes_per_second(), 1_000);
        rate.observe(0, Duration::from_secs(1));
        assert_eq!(rate.bytes_per_second(), 750);
    }

    #[test]
    fn no_sample_overflows() {
        let mut rate = Rate::default();
        rate.observe(u64::MAX, Duration::ZERO);
        assert_eq!(rate.bytes_per_second(), 0);
        rate.observe(u64::MAX, Duration::from_nanos(1));
        rate.observe(u64::MAX, Duration::from_nanos(1));
        assert_eq!(rate.bytes_per_second(), u64::MAX);
        rate.observe(1, Duration::MAX);
        assert_eq!(rate.millis_for(u64::MAX), Some(1_334));
    }
}
