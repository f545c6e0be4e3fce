//! How long a machine waits before it tries again.

use core::time::Duration;

use crate::config::Config;

/// The pauses between the tries of one machine: doubling from [`Config::retry_min`] to
/// [`Config::retry_max`], each shortened by up to half, so that nodes which failed together do not
/// try again together (case R164).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pauses {
    min: Duration,
    max: Duration,
    random: u64,
}

impl Pauses {
    /// Starts the pauses of one machine; `salt` tells it from the node's other machines.
    pub(crate) const fn new(config: &Config, salt: u64) -> Self {
        Self {
            min: config.retry_min,
            max: config.retry_max,
            random: mix(config.jitter_seed ^ salt),
        }
    }

    /// Returns a pause for what may be tried again because something has changed: some of the
    /// shortest, up to half, so that nodes which learn of it together do not come together (case R164).
    pub(crate) fn shortly(&mut self) -> Duration {
        self.random = mix(self.random);
        self.min / 32 * (1 + u32::from(self.random.to_be_bytes()[0] >> 4))
    }

    /// Returns the pause after so many failures in a row, the first of which is number 0.
    pub(crate) fn after(&mut self, failures: u32) -> Duration {
        let doubled = self.min.saturating_mul(2_u32.saturating_pow(failures)).min(self.max);
        self.random = mix(self.random);
        let sixteenths = u32::from(self.random.to_be_bytes()[0] >> 5);
        doubled.saturating_sub(doubled / 16 * sixteenths)
    }
}

/// Spreads every bit of `seed` over the whole result; a permutation of the 64-bit numbers.
const fn mix(seed: u64) -> u64 {
    let a = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let b = (a ^ (a >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let c = (b ^ (b >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    c ^ (c >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers case R164: the pauses double, stay within their bounds, and differ between seeds.
    #[test]
    fn pauses_double_up_to_the_longest_and_differ_between_machines() {
        let config = Config::new(7);
        let mut one = Pauses::new(&config, 1);
        let mut other = Pauses::new(&config, 2);
        let mut differ = false;
        for failures in [0, 1, 2, 7, 8, 31, 32, u32::MAX] {
            let full = config.retry_min * 2_u32.saturating_pow(failures.min(10));
            let full = full.min(config.retry_max);
            let pause = one.after(failures);
            assert!(pause <= full && pause >= full / 2, "{failures}: {pause:?} of {full:?}");
            differ |= pause != other.after(failures);
        }
        assert!(differ);
    }
}
