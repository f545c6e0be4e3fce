//! The throttle: how many bytes a node may move per second, over all its copies.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::CancelFlag;
use crate::foreground::Foreground;
use crate::net::lock;

/// A waiting copy looks this often whether it was cancelled, and whether a clock that others drive
/// has moved.
const SLICE: Duration = Duration::from_millis(20);

/// The credit that an idle throttle gathers: enough that no thread needs to wake more often.
const BURST: Duration = Duration::from_millis(50);

/// The longest wait that a lower rate may inherit from a higher one.
const DEBT: Duration = Duration::from_secs(1);

/// Time over which it is measured what copies reach.
const REACH_WINDOW: Duration = Duration::from_millis(100);

const NANOS: i128 = 1_000_000_000;

/// Why a wait ended early: the copy was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the copy was cancelled")]
pub struct Cancelled;

/// A token bucket that all copies of one node share.
///
/// Bytes are admitted whenever nothing is owed, and owed afterwards, so that a piece may be larger
/// than the bucket and the rate holds all the same. The rate may be changed at any time and counts
/// at once, also for those who wait.
///
/// # Examples
///
/// It only knows the clock that it is given:
///
/// ```
/// use std::time::Duration;
/// use narad_runtime::transfer::{CancelFlag, Throttle};
///
/// let throttle = Throttle::new(|| Duration::ZERO, 1 << 20);
/// assert_eq!(throttle.acquire(4096, &CancelFlag::default()), Ok(Duration::ZERO));
/// throttle.set_rate(0);
/// assert_eq!(throttle.acquire(1 << 30, &CancelFlag::default()), Ok(Duration::ZERO));
/// ```
pub struct Throttle {
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    bucket: Mutex<Bucket>,
    changed: Condvar,
    /// Whom the copies give way to.
    foreground: Option<Arc<Foreground>>,
    /// One that holds as well.
    outer: Option<Arc<Throttle>>,
}

impl Throttle {
    /// The lowest rate, in bytes per second: 64 KiB/s. Lower ones act like it, since a copy that
    /// moves slower cannot be told from a hung one.
    pub const RATE_MIN: u64 = 64 << 10;

    /// Makes a throttle for a rate in bytes per second; 0 is unlimited. The clock is monotonic,
    /// with any origin.
    pub fn new(clock: impl Fn() -> Duration + Send + Sync + 'static, rate: u64) -> Self {
        let bucket = Bucket::new(effective(rate), clock());
        Self {
            clock: Box::new(clock),
            bucket: Mutex::new(bucket),
            changed: Condvar::new(),
            foreground: None,
            outer: None,
        }
    }

    /// Has copies give way while producers suffer: they use the share of their rate that is left to
    /// them then, or of what they last reached if they have no rate.
    #[must_use]
    pub fn yielding_to(mut self, foreground: Arc<Foreground>) -> Self {
        self.foreground = Some(foreground);
        self
    }

    /// Has another throttle hold as well: what a node receives is limited by itself, and together with
    /// what it sends.
    #[must_use]
    pub fn within(mut self, outer: Arc<Self>) -> Self {
        self.outer = Some(outer);
        self
    }

    /// Makes a throttle that runs on the process's monotonic clock.
    pub fn on_real_time(rate: u64) -> Self {
        let origin = std::time::Instant::now();
        Self::new(move || origin.elapsed(), rate)
    }

    /// Returns the rate in bytes per second, as it was given; 0 is unlimited.
    pub fn rate(&self) -> u64 {
        lock(&self.bucket).rate
    }

    /// Changes the rate, in bytes per second; 0 is unlimited.
    pub fn set_rate(&self, rate: u64) {
        let mut bucket = lock(&self.bucket);
        bucket.set_rate((self.clock)(), effective(rate));
        drop(bucket);
        self.changed.notify_all();
    }

    /// Waits until bytes may move, and returns how long that took.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if the flag is raised first; then nothing is owed.
    pub fn acquire(&self, bytes: u64, cancel: &CancelFlag) -> Result<Duration, Cancelled> {
        let outer = match &self.outer {
            Some(outer) => outer.acquire(bytes, cancel)?,
            None => Duration::ZERO,
        };
        let mut begin = None;
        let mut bucket = lock(&self.bucket);
        loop {
            let now = (self.clock)();
            if let Some(foreground) = &self.foreground {
                bucket.set_share(now, foreground.share());
            }
            let Err(wait) = bucket.take(now, bytes) else {
                return Ok(outer + begin.map_or(Duration::ZERO, |begin| now.saturating_sub(begin)));
            };
            begin = begin.or(Some(now));
            if cancel.is_cancelled() {
                return Err(Cancelled);
            }
            let waited = self.changed.wait_timeout(bucket, wait.min(SLICE));
            bucket = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// Returns how many bytes to move at once, up to `max`: so few that a slow copy still shows
    /// progress many times a second.
    pub(crate) fn piece(&self, max: usize) -> usize {
        let max = self.outer.as_ref().map_or(max, |outer| outer.piece(max));
        match lock(&self.bucket).pace {
            0 => max,
            rate => usize::try_from(rate / 20).map_or(max, |piece| piece.clamp(1, max)),
        }
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

const fn effective(rate: u64) -> u64 {
    if rate != 0 && rate < Throttle::RATE_MIN { Throttle::RATE_MIN } else { rate }
}

/// The arithmetic, exact: the balance is in billionths of a byte.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The rate that was asked for.
    rate: u64,
    /// How much of it may be used, in thousandths.
    share: u32,
    /// What comes of both.
    pace: u64,
    balance: i128,
    at: Duration,
    /// What copies reach while nothing holds them back, in bytes per second.
    reached: u64,
    /// Bytes since that was last looked at.
    moved: u64,
    looked_at: Duration,
}

impl Bucket {
    fn new(rate: u64, now: Duration) -> Self {
        Self {
            rate,
            share: 1000,
            pace: rate,
            balance: 0,
            at: now,
            reached: 0,
            moved: 0,
            looked_at: now,
        }
    }

    /// Takes bytes, or says how long to wait.
    fn take(&mut self, now: Duration, bytes: u64) -> Result<(), Duration> {
        self.refill(now);
        if self.pace == 0 {
            self.observe(now, bytes);
            return Ok(());
        }
        if self.balance < 0 {
            let wait = self.balance.unsigned_abs().div_ceil(u128::from(self.pace));
            return Err(Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)));
        }
        self.balance -= i128::from(bytes) * NANOS;
        Ok(())
    }

    fn set_rate(&mut self, now: Duration, rate: u64) {
        self.rate = rate;
        self.change(now);
    }

    fn set_share(&mut self, now: Duration, share: u32) {
        if share != self.share {
            self.share = share;
            self.change(now);
        }
    }

    /// Goes on at what rate and share come to.
    fn change(&mut self, now: Duration) {
        self.refill(now);
        let whole = if self.rate == 0 { self.reached } else { self.rate };
        let rate = match (self.rate, self.share) {
            (0, 1000) => 0,
            (_, share) => u128::from(whole) * u128::from(share) / 1000,
        };
        let rate = effective(u64::try_from(rate).unwrap_or(u64::MAX));
        (self.moved, self.looked_at) = (0, now);
        self.pace = rate;
        self.balance = if rate == 0 { 0 } else { self.balance.max(-worth(rate, DEBT)) };
    }

    /// Measures what copies reach without a limit.
    fn observe(&mut self, now: Duration, bytes: u64) {
        self.moved += bytes;
        let elapsed = now.saturating_sub(self.looked_at);
        if elapsed >= REACH_WINDOW {
            let reached = u128::from(self.moved) * 1_000_000_000 / elapsed.as_nanos();
            self.reached = u64::try_from(reached).unwrap_or(u64::MAX);
            (self.moved, self.looked_at) = (0, now);
        }
    }

    fn refill(&mut self, now: Duration) {
        // A clock that several threads read may seem to step back.
        let elapsed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        let earned = self.balance.saturating_add(worth(self.pace, elapsed));
        self.balance = earned.min(worth(self.pace, BURST));
    }
}

/// What a time is worth at a rate, in billionths of a byte.
fn worth(rate: u64, time: Duration) -> i128 {
    let nanos = i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    i128::from(rate).saturating_mul(nanos)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// Moves pieces until the virtual clock passes `until`; returns the bytes.
    fn run(bucket: &mut Bucket, now: &mut Duration, until: Duration, piece: u64) -> u64 {
        let mut moved = 0;
        loop {
            match bucket.take(*now, piece) {
                Ok(()) => moved += piece,
                Err(wait) if *now + wait >= until => {
                    *now = until;
                    return moved;
                }
                Err(wait) => *now += wait,
            }
        }
    }

    proptest! {
        /// Over any time, a copy moves its rate, give or take one burst and one piece.
        #[test]
        fn the_rate_holds_by_the_clock(
            rate in Throttle::RATE_MIN..1 << 30,
            piece in 1_u64..1 << 20,
            seconds in 1_u64..5,
        ) {
            // Few enough steps for a test.
            let piece = piece.max(rate / 1000);
            let mut bucket = Bucket::new(rate, Duration::ZERO);
            let mut now = Duration::ZERO;
            let moved = run(&mut bucket, &mut now, Duration::from_secs(seconds), piece);
            let due = rate * seconds;
            let slack = piece + rate / 20 + 1;
            prop_assert!(moved + slack >= due && moved <= due + slack, "{moved} of {due}");
        }
    }

    #[test]
    fn a_change_counts_from_its_moment() {
        let rate = 1 << 20;
        let mut bucket = Bucket::new(rate, Duration::ZERO);
        let mut now = Duration::ZERO;
        let second = Duration::from_secs(1);
        let before = run(&mut bucket, &mut now, second, 4096);
        bucket.set_rate(now, 4 * rate);
        let after = run(&mut bucket, &mut now, 2 * second, 4096);
        assert!(before.abs_diff(rate) <= rate / 10, "{before}");
        assert!(after.abs_diff(4 * rate) <= rate / 10, "{after}");
    }

    #[test]
    fn a_debt_of_a_higher_rate_does_not_outlast_a_second() {
        let mut bucket = Bucket::new(1 << 30, Duration::ZERO);
        assert_eq!(bucket.take(Duration::ZERO, 1 << 30), Ok(()));
        bucket.set_rate(Duration::ZERO, Throttle::RATE_MIN);
        assert_eq!(bucket.take(Duration::ZERO, 1), Err(Duration::from_secs(1)));
    }

    #[test]
    fn an_idle_throttle_gathers_no_more_than_a_burst() {
        let mut bucket = Bucket::new(1 << 20, Duration::ZERO);
        bucket.refill(Duration::from_hours(1));
        assert_eq!(bucket.balance, worth(1 << 20, BURST));
        let now = Duration::from_hours(1);
        let at_once = (0..100).filter(|_| bucket.take(now, 4096).is_ok()).count();
        assert_eq!(at_once, (1 << 20) / 20 / 4096 + 1);
    }

    #[test]
    fn rates_too_low_to_show_progress_are_raised() {
        let throttle = Throttle::new(|| Duration::ZERO, 1);
        assert_eq!(throttle.rate(), Throttle::RATE_MIN);
        assert!(throttle.piece(BURST_BYTES) < 4096);
        throttle.set_rate(0);
        assert_eq!((throttle.rate(), throttle.piece(BURST_BYTES)), (0, BURST_BYTES));
    }

    const BURST_BYTES: usize = 1 << 18;

    /// Copies that yield go at the share that is left to them, and at their rate again afterwards.
    #[test]
    fn a_share_scales_the_rate() {
        let rate = 10 << 20;
        let mut bucket = Bucket::new(rate, Duration::ZERO);
        let mut now = Duration::ZERO;
        let second = Duration::from_secs(1);
        bucket.set_share(now, 200);
        let yielding = run(&mut bucket, &mut now, second, 4096);
        bucket.set_share(now, 1000);
        let whole = run(&mut bucket, &mut now, 2 * second, 4096);
        assert!(yielding.abs_diff(rate / 5) <= rate / 50, "{yielding}");
        assert!(whole.abs_diff(rate) <= rate / 10, "{whole}");
        assert_eq!(bucket.rate, rate);
    }

    /// Without a limit it is what they reached before that is shared.
    #[test]
    fn a_share_of_no_limit_is_one_of_what_was_reached() {
        let mut bucket = Bucket::new(0, Duration::ZERO);
        let mut now = Duration::ZERO;
        for _ in 0..100 {
            assert_eq!(bucket.take(now, 1 << 20), Ok(()));
            now += Duration::from_millis(10);
        }
        bucket.set_share(now, 100);
        let until = now + Duration::from_secs(1);
        let moved = run(&mut bucket, &mut now, until, 64 << 10);
        let due = 10 << 20;
        assert!(moved.abs_diff(due) <= due / 10, "{moved}");
        bucket.set_share(now, 1000);
        assert_eq!(bucket.take(now, 1 << 40), Ok(()));
        assert_eq!(bucket.take(now, 1 << 40), Ok(()));
    }

    #[test]
    fn the_narrower_of_two_throttles_holds() {
        let zero = || Duration::ZERO;
        let outer = Arc::new(Throttle::new(zero, 0));
        let inner = Throttle::new(zero, 4 << 20).within(Arc::clone(&outer));
        let cancel = CancelFlag::default();
        assert_eq!(inner.acquire(1 << 20, &cancel), Ok(Duration::ZERO));
        cancel.cancel();
        assert_eq!(inner.acquire(1, &cancel), Err(Cancelled));
        inner.set_rate(0);
        outer.set_rate(1 << 20);
        assert!(inner.piece(BURST_BYTES) < BURST_BYTES);
        assert_eq!(outer.acquire(1 << 20, &CancelFlag::default()), Ok(Duration::ZERO));
        assert_eq!(inner.acquire(1, &cancel), Err(Cancelled));
    }

    /// Waiters hear of a new rate at once, on whatever clock.
    #[test]
    fn a_waiter_is_let_go_by_a_higher_rate() {
        let throttle = Arc::new(Throttle::new(|| Duration::ZERO, Throttle::RATE_MIN));
        let cancel = CancelFlag::default();
        assert_eq!(throttle.acquire(1 << 40, &cancel), Ok(Duration::ZERO));
        let waiter = std::thread::spawn({
            let throttle = Arc::clone(&throttle);
            move || throttle.acquire(1, &CancelFlag::default())
        });
        throttle.set_rate(0);
        assert_eq!(waiter.join().expect("no panic"), Ok(Duration::ZERO));
    }

    /// X169: a wait can be cancelled, and reports what the clock says otherwise.
    #[test]
    fn case_169_a_wait_ends_by_the_clock_or_by_cancelling() {
        let time = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&time);
        let throttle = Arc::new(Throttle::new(
            move || Duration::from_secs(clock.load(Ordering::Acquire)),
            1 << 20,
        ));
        let cancel = CancelFlag::default();
        assert_eq!(throttle.acquire(3 << 20, &cancel), Ok(Duration::ZERO));
        cancel.cancel();
        assert_eq!(throttle.acquire(1, &cancel), Err(Cancelled));
        let waiter = std::thread::spawn({
            let throttle = Arc::clone(&throttle);
            move || throttle.acquire(1, &CancelFlag::default())
        });
        time.store(3, Ordering::Release);
        let took = waiter.join().expect("no panic").expect("not cancelled");
        assert!(took == Duration::ZERO || took == Duration::from_secs(3), "{took:?}");
    }
}
