//! Chance, as a tree: every subsystem draws from a branch of its own.
//!
//! A draw that is added in one place shifts no draw anywhere else, so that a seed goes on meaning
//! nearly the same world while the world is changed, and a shrunk scenario fails like the one that
//! it was made from.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// One stream of chance.
#[derive(Clone, Debug)]
pub struct Random {
    key: u64,
    stream: ChaCha8Rng,
}

impl Random {
    /// Returns the root of a seed's tree.
    #[must_use]
    pub fn root(seed: u64) -> Self {
        Self { key: seed, stream: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// Returns the branch of a name. The same name gives the same branch, whatever was drawn
    /// before.
    #[must_use]
    pub fn branch(&self, name: &str) -> Self {
        Self::root(xxh3_64_with_seed(name.as_bytes(), self.key))
    }

    /// Returns the branch of a number.
    #[must_use]
    pub fn branch_no(&self, number: u64) -> Self {
        Self::root(xxh3_64_with_seed(&number.to_le_bytes(), self.key))
    }

    /// Draws any number.
    pub fn any(&mut self) -> u64 {
        self.stream.next_u64()
    }

    /// Draws a number below `limit`; zero if that is zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        let wide = u128::from(self.any()) * u128::from(limit);
        // The upper half of a product is no larger than either factor.
        u64::try_from(wide >> 64).unwrap_or(limit)
    }

    /// Draws a number of a range.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = (*range.start(), (*range.end()).max(*range.start()));
        match (high - low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.any(),
        }
    }

    /// Draws a time of a range, to the nanosecond.
    pub fn duration(&mut self, range: RangeInclusive<Duration>) -> Duration {
        let nanos = |time: &Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.within(nanos(range.start())..=nanos(range.end())))
    }

    /// Returns true with the probability `chance`, 0 to 1.
    pub fn happens(&mut self, chance: f64) -> bool {
        // 53 bits are what a float holds exactly.
        #[expect(clippy::cast_precision_loss, reason = "the shift leaves no more than 53 bits")]
        let drawn = (self.any() >> 11) as f64 / (1_u64 << 53) as f64;
        drawn < chance
    }

    /// Draws one of several, or nothing if there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let at = usize::try_from(self.below(choices.len() as u64)).ok()?;
        choices.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_does_not_depend_on_what_was_drawn_before() {
        let mut drawn = Random::root(7);
        drawn.any();
        assert_eq!(drawn.branch("net").any(), Random::root(7).branch("net").any());
        assert_ne!(Random::root(7).branch("net").any(), Random::root(7).branch("disk").any());
    }

    #[test]
    fn a_range_is_met_at_both_ends() {
        let mut random = Random::root(1);
        let drawn: Vec<u64> = (0..200).map(|_| random.within(3..=5)).collect();
        assert!(
            drawn.contains(&3) && drawn.contains(&5) && drawn.iter().all(|n| (3..=5).contains(n))
        );
        assert!(!random.happens(0.0) && random.happens(1.0));
    }
}
