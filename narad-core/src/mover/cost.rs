//! What a freeze costs: a fixed part, and a part for each byte of the tail (R26).
//!
//! Round trips, syncs, the rename and the commit take as long for a tail of one byte as for one of a
//! mebibyte; the rest goes by bytes. Both are learned from the freezes that were, by the straight line
//! that fits them best, the newer ones more than the older.

use core::time::Duration;

/// A line through the freezes of one node, in whole numbers.
///
/// # Examples
///
/// The first freeze is believed at once, whatever the default says:
///
/// ```
/// use core::time::Duration;
/// use narad_core::mover::{FreezeCost, FreezeRates};
///
/// let mut cost = FreezeCost::default();
/// let rates = FreezeRates::default();
/// assert_eq!(cost.of(0, rates), Some(FreezeCost::FIXED_DEFAULT));
/// cost.observe(0, Duration::from_millis(2));
/// assert_eq!(cost.of(0, rates), Some(Duration::from_millis(2)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FreezeCost {
    means: Option<Means>,
}

/// How fast a tail can be copied, in bytes per second; zero if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FreezeRates {
    /// As the move copies, the throttle included.
    pub copy: u64,
    /// At best, the throttle left out.
    pub way: u64,
    /// Bytes up to which it comes at once.
    pub inline_max: u64,
}

/// Smoothed means over the freezes: each moves them an eighth of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Means {
    /// The tail, in KiB times [`SCALE`].
    tail: i64,
    /// The freeze, in microseconds times [`SCALE`].
    micros: i64,
    /// The variance of the tail, in KiB squared.
    spread: i64,
    /// The covariance of tail and freeze, in KiB times microseconds.
    together: i64,
}

/// Parts of a unit in which means are kept, so that an eighth of a small step is not nothing.
const SCALE: i64 = 256;

impl FreezeCost {
    /// What a freeze without a tail is taken to cost before there was any.
    pub const FIXED_DEFAULT: Duration = Duration::from_millis(5);

    /// How long a KiB of tail is taken to last before anything else is known: a GiB per second.
    const NANOS_PER_KIB_DEFAULT: i64 = 1_000;
    /// How much the default counts against what was seen: as if tails had varied by so many KiB.
    const PRIOR_KIB: i64 = 64;

    /// Takes a freeze with a tail that came at once. Any other goes by the rate at which the move
    /// copies, and is not to be told here.
    ///
    /// One that lasted more than twice as long as predicted counts as one that lasted twice as long,
    /// and one of less than half as half: what happens once in a hundred freezes should not move the
    /// prediction of the other ninety-nine.
    pub fn observe(&mut self, tail_bytes: u64, lasted: Duration) {
        let tail = kib(tail_bytes);
        let micros = i64::try_from(lasted.as_micros()).unwrap_or(i64::MAX).min(1 << 32);
        self.means = Some(match self.means {
            None => Means { tail: tail * SCALE, micros: micros * SCALE, spread: 0, together: 0 },
            Some(means) => {
                let expected = self.micros_inline(tail).max(2);
                means.toward(tail, micros.clamp(expected / 2, expected * 2))
            }
        });
    }

    /// Returns how long a freeze with such a tail would last: copied at so many bytes per second, or,
    /// if it comes at once, as fast as the way to its source lets it; `None` if the rate matters and is
    /// not known.
    pub fn of(&self, tail_bytes: u64, rates: FreezeRates) -> Option<Duration> {
        let copied = |rate: u64| {
            let nanos = (u128::from(tail_bytes) * 1_000_000_000).checked_div(u128::from(rate))?;
            let copied = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            Some(copied.saturating_add(self.fixed()))
        };
        if tail_bytes > rates.inline_max {
            return copied(rates.copy);
        }
        let learned = micros(self.micros_inline(kib(tail_bytes)));
        Some(copied(rates.way).map_or(learned, |copied| copied.max(learned)))
    }

    /// Returns what a freeze without a tail costs.
    pub fn fixed(&self) -> Duration {
        micros(self.micros_inline(0))
    }

    fn micros_inline(&self, tail: i64) -> i64 {
        let (at, micros) = match self.means {
            Some(means) => (means.tail, means.micros),
            None => (0, i64::try_from(Self::FIXED_DEFAULT.as_micros()).unwrap_or(0) * SCALE),
        };
        let beyond = (tail * SCALE - at) * self.nanos_per_kib() / 1_000;
        ((micros + beyond) / SCALE).max(0)
    }

    /// The slope of the line; the less tails have varied, the less it differs from the default.
    fn nanos_per_kib(&self) -> i64 {
        let prior = Self::PRIOR_KIB * Self::PRIOR_KIB;
        let (spread, together) = self.means.map_or((0, 0), |means| (means.spread, means.together));
        let slope = (together * 1_000 + Self::NANOS_PER_KIB_DEFAULT * prior) / (spread + prior);
        slope.max(0)
    }
}

impl Means {
    fn toward(self, tail: i64, micros: i64) -> Self {
        let off = (tail * SCALE - self.tail, micros * SCALE - self.micros);
        // What the new point adds to the variance when the mean moves an eighth of the way to it.
        let square = |a: i64, b: i64| {
            let product = i128::from(a) * i128::from(b) * 7 / (64 * i128::from(SCALE * SCALE));
            i64::try_from(product).unwrap_or(i64::MAX)
        };
        Self {
            tail: self.tail + off.0 / 8,
            micros: self.micros + off.1 / 8,
            spread: self.spread - self.spread / 8 + square(off.0, off.0),
            together: (self.together - self.together / 8).saturating_add(square(off.0, off.1)),
        }
    }
}

fn kib(bytes: u64) -> i64 {
    i64::try_from(bytes.div_ceil(1024)).unwrap_or(i64::MAX)
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIB: u64 = 1024;
    const AT_ONCE: FreezeRates = FreezeRates { copy: 0, way: 0, inline_max: 1 << 20 };

    fn learned(line: impl Fn(u64) -> u64, tails: impl Iterator<Item = u64>) -> FreezeCost {
        let mut cost = FreezeCost::default();
        for tail in tails {
            cost.observe(tail, Duration::from_micros(line(tail)));
        }
        cost
    }

    /// R26: what a byte costs is told apart from what every freeze costs.
    #[test]
    fn both_parts_of_a_line_are_found() {
        let line = |tail: u64| 1_500 + 4 * tail / KIB;
        let tails = (0..200).map(|n| (n * 97 % 1024) * KIB);
        let cost = learned(line, tails);
        for tail in [0, 100 * KIB, 1024 * KIB] {
            let predicted = cost.of(tail, AT_ONCE).unwrap().as_micros();
            let wanted = u128::from(line(tail));
            assert!(predicted.abs_diff(wanted) <= wanted / 10, "{tail}: {predicted} of {wanted}");
        }
    }

    /// R26: a tail that does not come at once goes by the rate at which the move copies.
    #[test]
    fn a_long_tail_goes_by_the_copy_rate() {
        let cost = learned(|_| 2_000, [0].into_iter());
        let rates = FreezeRates { copy: 10 << 20, way: 1 << 30, inline_max: 1 << 20 };
        assert_eq!(cost.of(30 << 20, rates), Some(Duration::from_millis(3_002)));
        assert_eq!(cost.of(30 << 20, FreezeRates { copy: 0, ..rates }), None);
    }

    /// R26: a tail that comes at once is not faster than the way that it comes, whatever other
    /// freezes were like.
    #[test]
    fn a_slow_way_is_no_faster_for_a_tail_that_comes_at_once() {
        let cost = learned(|_| 2_000, [0].into_iter());
        let slow = FreezeRates { copy: 1 << 20, way: 1 << 20, inline_max: 1 << 20 };
        assert_eq!(cost.of(1 << 20, slow), Some(Duration::from_millis(1_002)));
    }

    /// One freeze that met a stall says little about the next.
    #[test]
    fn an_outlier_moves_the_prediction_by_an_eighth_at_most() {
        let mut cost = learned(|_| 2_000, [0; 50].into_iter());
        cost.observe(0, Duration::from_mins(1));
        assert!(cost.fixed() <= Duration::from_micros(2_250), "{cost:?}");
    }

    /// A node whose freezes have become slower says so after a few of them.
    #[test]
    fn a_lasting_change_is_followed() {
        let mut cost = learned(|_| 2_000, [0; 50].into_iter());
        for _ in 0..24 {
            cost.observe(0, Duration::from_millis(6));
        }
        assert!(cost.fixed() >= Duration::from_millis(5), "{cost:?}");
    }

    proptest! {
        /// No freeze, however odd, makes the prediction overflow, and none makes it negative or
        /// longer than four times the longest there was.
        #[test]
        fn any_freezes_give_a_prediction_in_their_range(
            freezes in proptest::collection::vec((0_u64..=1 << 20, 0_u64..10_000_000), 1..50),
            tail in 0_u64..=1 << 20,
        ) {
            let mut cost = FreezeCost::default();
            for (tail, lasted) in &freezes {
                cost.observe(*tail, Duration::from_micros(*lasted));
            }
            let longest = freezes.iter().map(|freeze| freeze.1).max().unwrap_or(0);
            let predicted = cost.of(tail, AT_ONCE).unwrap().as_micros();
            prop_assert!(predicted <= 4 * u128::from(longest.max(1_050)) + 2_000, "{predicted}");
        }
    }
}
