//! Pauses between attempts, spread so that nodes do not dial in step (case R164).

use std::time::Duration;

/// A doubling pause with jitter.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
    state: u64,
}

impl Backoff {
    /// Starts at the shortest pause.
    pub(crate) const fn new(min: Duration, max: Duration, seed: u64) -> Self {
        Self { min, max, next: min, state: seed }
    }

    /// Returns the next pause: between half of the present step and all of it.
    pub(crate) fn pause(&mut self) -> Duration {
        let step = self.next;
        self.next = step.saturating_mul(2).min(self.max);
        let half = u64::try_from(step.as_nanos() / 2).unwrap_or(u64::MAX);
        let spread = if half == 0 { 0 } else { self.draw() % half };
        step / 2 + Duration::from_nanos(spread)
    }

    /// Begins again at the shortest pause.
    pub(crate) const fn reset(&mut self) {
        self.next = self.min;
    }

    /// One step of splitmix64: small, and more than good enough to spread pauses.
    const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(50);
    const MAX: Duration = Duration::from_secs(2);

    /// R164: bounded below and above, and doubled in between.
    #[test]
    fn case_164_pauses_double_up_to_their_bound() {
        let mut backoff = Backoff::new(MIN, MAX, 1);
        let pauses: Vec<_> = (0..12).map(|_| backoff.pause()).collect();
        let mut step = MIN;
        for pause in pauses {
            assert!(pause >= step / 2 && pause < step, "{pause:?} of {step:?}");
            step = (step * 2).min(MAX);
        }
        backoff.reset();
        assert!(backoff.pause() < MIN);
    }

    /// R164: two nodes do not pause alike, and one node pauses alike every time.
    #[test]
    fn case_164_pauses_depend_on_the_seed_alone() {
        let pauses = |seed| {
            let mut backoff = Backoff::new(MIN, MAX, seed);
            (0..8).map(|_| backoff.pause()).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1), pauses(1));
        assert_ne!(pauses(1), pauses(2));
    }
}
