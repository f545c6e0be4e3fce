//! Where choices come from.

use std::time::Duration;

use crate::random::Random;

/// All of a hundred.
pub(super) const PERCENT: u64 = 100;

/// A source of choices: chance, or what a fuzzer or a property test feeds.
pub trait Choices {
    /// Chooses a number below `limit`; zero if that is zero. Zero is the plainest choice.
    fn below(&mut self, limit: u64) -> u64;
}

impl Choices for Random {
    fn below(&mut self, limit: u64) -> u64 {
        Self::below(self, limit)
    }
}

/// Choices that are read from bytes; zeros once these run out.
///
/// Shorter bytes make plainer scenarios, so that a fuzzer's own shrinking is worth something.
#[derive(Clone, Debug)]
pub struct Tape<'a> {
    bytes: &'a [u8],
}

impl<'a> Tape<'a> {
    /// Begins at the first byte.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl Choices for Tape<'_> {
    fn below(&mut self, limit: u64) -> u64 {
        if limit <= 1 {
            return 0;
        }
        let width = if limit <= 1 << 8 {
            1
        } else if limit <= 1 << 16 {
            2
        } else {
            8
        };
        let (now, later) = self.bytes.split_at(self.bytes.len().min(width));
        self.bytes = later;
        now.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte)) % limit
    }
}

/// Choices with words for the usual ones.
pub(super) struct Dice<'c> {
    choices: &'c mut dyn Choices,
}

impl<'c> Dice<'c> {
    pub(super) fn new(choices: &'c mut dyn Choices) -> Self {
        Self { choices }
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.choices.below(limit)
    }

    /// A number from `least` to `most`.
    pub(super) fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// Whether something of so many percent happens; it does not where choices have run out.
    pub(super) fn happens(&mut self, percent: u64) -> bool {
        self.below(PERCENT) + percent >= PERCENT
    }

    /// Something, with a probability.
    pub(super) fn maybe<T>(
        &mut self,
        percent: u64,
        draw: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        self.happens(percent).then(|| draw(self))
    }

    /// One of several, of which there is at least one; the first is the plainest.
    pub(super) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        let at = usize::try_from(self.below(from.len() as u64)).unwrap_or(0);
        &from[at]
    }

    pub(super) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.within(least, most))
    }

    /// A time that is easy to read.
    pub(super) fn millis_by_100(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.within(least / 100, most / 100) * 100)
    }

    pub(super) fn secs(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_secs(self.within(least, most))
    }
}
