//! Pauses between tries.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Doubles a pause from try to try and draws each between half of it and all of it, so that clients
/// that failed together do not come back together.
#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
    random: u64,
}

impl Backoff {
    /// Begins with `min`; seeded by the process's own randomness.
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self::seeded(min, max, RandomState::new().hash_one(0))
    }

    const fn seeded(min: Duration, max: Duration, seed: u64) -> Self {
        Self { min, max, next: min, random: seed }
    }

    /// Begins anew after a success.
    pub(super) const fn reset(&mut self) {
        self.next = self.min;
    }

    /// Waits.
    pub(super) async fn pause(&mut self) {
        tokio::time::sleep(self.draw()).await;
    }

    fn draw(&mut self) -> Duration {
        let whole = self.next.min(self.max);
        self.next = whole.saturating_mul(2);
        // SplitMix64 (Steele, Lea and Flood, 2014).
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let half_us = u64::try_from(whole.as_micros() / 2).unwrap_or(u64::MAX);
        whole / 2 + Duration::from_micros(mixed % half_us.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::seeded(ms(10), ms(50), 1);
        for whole in [10, 20, 40, 50, 50] {
            let pause = backoff.draw();
            assert!((ms(whole) / 2..=ms(whole)).contains(&pause), "{pause:?} of {whole}");
        }
        backoff.reset();
        assert!(backoff.draw() <= ms(10));
    }

    #[test]
    fn a_pause_of_nothing_is_possible() {
        assert_eq!(Backoff::seeded(Duration::ZERO, Duration::ZERO, 1).draw(), Duration::ZERO);
    }
}
