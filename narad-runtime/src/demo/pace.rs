//! How fast records are produced, so that they neither end before the last act nor drag on after
//! it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Hands out leave to produce.
///
/// An eighth goes at once, so that there is something to move. While the acts go on, what is left is
/// spread over the time they may still take; another eighth is held back in case they take longer.
/// After the last act the rest goes as fast as it can, or as fast as it may.
#[derive(Debug)]
pub(super) struct Pace {
    total: u64,
    /// Most records per second.
    rate: Option<u64>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    granted: u64,
    /// Leave that nobody has taken yet, in millionths of a record.
    credit: u64,
    last: Instant,
    /// When the last act may be over.
    over: Instant,
    all_over: bool,
}

impl Pace {
    const MILLION: u64 = 1_000_000;
    /// Shortest time over which the rest is spread: the acts may take longer than expected.
    const SPREAD_MIN: Duration = Duration::from_secs(5);
    /// Time that what is held back has to last at least.
    const RESERVE_LASTS_SECONDS: u64 = 240;
    /// Time for which unused leave is kept, as a share of a second.
    const KEPT_SHARE: u64 = 4;

    pub(super) fn new(total: u64, rate: Option<u64>, expected: Duration) -> Self {
        let now = Instant::now();
        let state =
            State { granted: 0, credit: 0, last: now, over: now + expected, all_over: false };
        Self { total, rate, state: Mutex::new(state) }
    }

    /// Returns how many records go at once.
    pub(super) const fn at_once(total: u64) -> u64 {
        total / 8
    }

    /// Says how long the acts may still take.
    pub(super) fn expect(&self, left: Duration) {
        self.lock().over = Instant::now() + left;
    }

    /// Says that the last act is over.
    pub(super) fn all_over(&self) {
        self.lock().all_over = true;
    }

    /// Waits for leave to produce at least one record, and takes it for at most so many.
    pub(super) async fn take(&self, most: usize) -> usize {
        const LOOK_AGAIN: Duration = Duration::from_millis(10);
        loop {
            if let Some(count) = self.take_now(Instant::now(), most) {
                return count;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Gives back leave that was not needed.
    pub(super) fn give_back(&self, count: usize) {
        let count = count as u64;
        let mut state = self.lock();
        state.granted = state.granted.saturating_sub(count);
        state.credit = state.credit.saturating_add(count.saturating_mul(Self::MILLION));
    }

    fn take_now(&self, now: Instant, most: usize) -> Option<usize> {
        let mut state = self.lock();
        let count = match self.millionths_per_second(&state, now) {
            None if state.all_over => most as u64,
            None => self.left_at_once(&state).min(most as u64),
            Some(rate) => {
                let passed = now.saturating_duration_since(state.last);
                let micros = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
                let earned = u128::from(rate) * u128::from(micros) / 1_000_000;
                let earned = u64::try_from(earned).unwrap_or(u64::MAX);
                let most_kept = (rate / Self::KEPT_SHARE).max(Self::MILLION);
                state.credit = state.credit.saturating_add(earned).min(most_kept);
                // A third, so that several partitions are written at once.
                let whole = state.credit / Self::MILLION;
                whole.div_ceil(3).min(most as u64)
            }
        };
        state.last = now;
        if count == 0 {
            return None;
        }
        state.credit = state.credit.saturating_sub(count * Self::MILLION);
        state.granted += count;
        usize::try_from(count).ok()
    }

    const fn left_at_once(&self, state: &State) -> u64 {
        Self::at_once(self.total).saturating_sub(state.granted)
    }

    /// Returns the present rate; `None` for as fast as possible.
    fn millionths_per_second(&self, state: &State, now: Instant) -> Option<u64> {
        let most = self.rate.map(|rate| rate.saturating_mul(Self::MILLION));
        if state.all_over || self.left_at_once(state) > 0 {
            return most;
        }
        let reserve = self.total / 8;
        let left = self.total.saturating_sub(reserve).saturating_sub(state.granted);
        let time = state.over.saturating_duration_since(now).max(Self::SPREAD_MIN);
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let spread = left.saturating_mul(Self::MILLION) / time_ms * 1000;
        let least = reserve.saturating_mul(Self::MILLION) / Self::RESERVE_LASTS_SECONDS;
        let own = spread.max(least).max(Self::MILLION / 2);
        Some(most.map_or(own, |most| most.min(own)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all there is for so many seconds, a hundred times a second.
    fn taken(pace: &Pace, from: Instant, seconds: u64) -> u64 {
        let mut taken = 0;
        for tick in 0..seconds * 100 {
            let now = from + Duration::from_millis(tick * 10);
            while let Some(count) = pace.take_now(now, 512) {
                taken += count as u64;
            }
        }
        taken
    }

    #[test]
    fn records_last_until_the_acts_are_over() {
        let pace = Pace::new(100_000, None, Duration::from_secs(40));
        let begin = Instant::now();
        let in_time = taken(&pace, begin, 30);
        assert!((60_000..85_000).contains(&in_time), "{in_time}");
        let late = taken(&pace, begin + Duration::from_secs(30), 90);
        assert!(in_time + late < 100_000, "{in_time} + {late}");
        assert!(late > 10_000, "{late}");
    }

    #[test]
    fn the_rest_goes_as_fast_as_it_may() {
        let free = Pace::new(100_000, None, Duration::from_secs(40));
        free.all_over();
        assert_eq!(free.take_now(Instant::now(), 512), Some(512));
        assert_eq!(free.take_now(Instant::now(), 512), Some(512));
        let slow = Pace::new(100_000, Some(100), Duration::from_secs(40));
        slow.all_over();
        let taken = taken(&slow, Instant::now(), 10);
        assert!((900..1100).contains(&taken), "{taken}");
    }

    #[test]
    fn a_few_records_last_too() {
        let pace = Pace::new(100, None, Duration::from_secs(40));
        let taken = taken(&pace, Instant::now(), 30);
        assert!((10..100).contains(&taken), "{taken}");
    }
}
