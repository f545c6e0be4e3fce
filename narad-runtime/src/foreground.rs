//! Producers first: how long their commits take, and how much of the disk is therefore left to copies.
//!
//! ```text
//! producers ── Foreground::time ──▶ Courtesy ──▶ Foreground::share ── Throttle ── copies
//! ```
//!
//! While commits take much longer than they usually do, the share of copies is halved again and again;
//! while they do not, or nobody produces, it grows back step by step. It never falls below
//! [`Courtesy::SHARE_MIN`], so that a move always goes on.

use std::sync::Mutex;
use std::time::Duration;

/// What producers and copies of one node share: the former tell how long they wait, the latter ask how
/// fast they may go.
#[derive(Debug)]
pub struct Foreground {
    origin: std::time::Instant,
    courtesy: Mutex<Courtesy>,
}

impl Default for Foreground {
    fn default() -> Self {
        Self { origin: std::time::Instant::now(), courtesy: Mutex::default() }
    }
}

impl Foreground {
    /// Does a producer's work, a durable commit, and takes note of how long that took; what is refused
    /// does not count, since it may not have come to the disk.
    ///
    /// # Errors
    ///
    /// Those of the work.
    pub fn time<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let begin = std::time::Instant::now();
        let done = work()?;
        self.observe(begin.elapsed());
        Ok(done)
    }

    /// Takes note of how long a durable commit took.
    pub fn observe(&self, took: Duration) {
        crate::log::lock(&self.courtesy).observe(self.origin.elapsed(), took);
    }

    /// Returns how much of their rate copies may use now, in thousandths.
    pub fn share(&self) -> u32 {
        crate::log::lock(&self.courtesy).share(self.origin.elapsed())
    }
}

/// The arithmetic: commits come in, a share comes out. Time is counted from any origin.
///
/// # Examples
///
/// Copies yield while a commit takes a hundred times as long as before, and come back:
///
/// ```
/// use narad_runtime::foreground::Courtesy;
/// use std::time::Duration;
///
/// let (mut courtesy, ms) = (Courtesy::default(), Duration::from_millis);
/// for at in 0..100 {
///     courtesy.observe(ms(10 * at), ms(1));
/// }
/// assert_eq!(courtesy.share(ms(1_000)), 1000);
/// courtesy.observe(ms(1_050), ms(100));
/// assert_eq!(courtesy.share(ms(1_100)), 500);
/// assert_eq!(courtesy.share(ms(3_000)), 1000);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Courtesy {
    /// What a commit usually takes, in microseconds; `None` before the first.
    usual_us: Option<u64>,
    /// Which window is open, counted in windows.
    window: u64,
    /// Commits of that window, and how long they took together.
    commits: u64,
    total_us: u64,
    /// How much of the full share is taken away, in thousandths.
    withheld: u32,
}

impl Courtesy {
    /// Time over which commits are taken together.
    pub const WINDOW: Duration = Duration::from_millis(100);

    /// The smallest share, in thousandths: a move that yields still goes at a tenth of its rate.
    pub const SHARE_MIN: u32 = 100;

    /// What the share grows by in a window in which nobody suffers, in thousandths: from the smallest
    /// share to the whole in 1.8 s.
    pub const GROWTH: u32 = 50;

    /// Producers suffer once commits take so many times as long as they usually do...
    pub const TOLERANCE: u64 = 4;

    /// ...and longer than this: a disk or a processor that somebody else uses as well takes as much now
    /// and then, and nobody is the worse for it.
    pub const UNNOTICED: Duration = Duration::from_millis(5);

    /// Takes note of a commit that has just ended.
    pub fn observe(&mut self, now: Duration, took: Duration) {
        self.advance(now);
        self.commits += 1;
        self.total_us = self.total_us.saturating_add(micros(took));
    }

    /// Returns the share of copies, in thousandths; from [`SHARE_MIN`](Self::SHARE_MIN) to 1000.
    pub fn share(&mut self, now: Duration) -> u32 {
        self.advance(now);
        1000 - self.withheld
    }

    /// Closes the windows that have passed.
    fn advance(&mut self, now: Duration) {
        let window = u64::try_from(now.as_nanos() / Self::WINDOW.as_nanos()).unwrap_or(u64::MAX);
        let passed = window.saturating_sub(self.window);
        if passed == 0 {
            return;
        }
        self.window = window;
        let mut quiet = passed;
        if let Some(mean_us) = self.total_us.checked_div(self.commits) {
            (self.commits, self.total_us) = (0, 0);
            if self.suffers(mean_us) {
                let share = (1000 - self.withheld) / 2;
                self.withheld = 1000 - share.max(Self::SHARE_MIN);
                quiet -= 1;
            }
            self.learn(mean_us);
        }
        let growth = u64::from(Self::GROWTH).saturating_mul(quiet);
        self.withheld = self.withheld.saturating_sub(u32::try_from(growth).unwrap_or(u32::MAX));
    }

    fn suffers(&self, mean_us: u64) -> bool {
        let Some(usual_us) = self.usual_us else { return false };
        mean_us > usual_us.saturating_mul(Self::TOLERANCE).max(micros(Self::UNNOTICED))
    }

    /// Learns what is usual: soon from good times, and slowly from bad ones, so that a disk that stays
    /// slow is taken as it is after a minute or so.
    fn learn(&mut self, mean_us: u64) {
        let usual_us = self.usual_us.unwrap_or(mean_us);
        let weight = if self.suffers(mean_us) { 512 } else { 16 };
        self.usual_us = Some(if mean_us > usual_us {
            usual_us + (mean_us - usual_us).div_ceil(weight)
        } else {
            usual_us - (usual_us - mean_us) / weight
        });
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Commits that take so long, one after another, until a time.
    fn commits(courtesy: &mut Courtesy, now: &mut Duration, until: Duration, took: Duration) {
        while *now < until {
            *now += took.max(MS);
            courtesy.observe(*now, took);
        }
    }

    #[test]
    fn a_node_without_producers_copies_at_its_full_rate() {
        let mut courtesy = Courtesy::default();
        assert_eq!(courtesy.share(Duration::ZERO), 1000);
        assert_eq!(courtesy.share(Duration::from_hours(1)), 1000);
    }

    #[test]
    fn what_is_usual_is_no_reason_to_yield_however_slow() {
        let (mut courtesy, mut now) = (Courtesy::default(), Duration::ZERO);
        commits(&mut courtesy, &mut now, Duration::from_secs(5), 30 * MS);
        assert_eq!(courtesy.share(now), 1000);
    }

    /// Many times as long as usual, and still nothing that anybody would notice.
    #[test]
    fn short_commits_are_no_reason_either() {
        let (mut courtesy, mut now) = (Courtesy::default(), Duration::ZERO);
        let usual = Duration::from_micros(150);
        commits(&mut courtesy, &mut now, Duration::from_secs(1), usual);
        commits(&mut courtesy, &mut now, Duration::from_secs(2), 4 * MS);
        assert_eq!(courtesy.share(now), 1000);
    }

    #[test]
    fn copies_yield_quickly_to_the_least_and_come_back_step_by_step() {
        let (mut courtesy, mut now) = (Courtesy::default(), Duration::ZERO);
        commits(&mut courtesy, &mut now, Duration::from_secs(1), MS);
        let second = Duration::from_secs(1);
        commits(&mut courtesy, &mut now, 2 * second, 50 * MS);
        assert_eq!(courtesy.share(now), Courtesy::SHARE_MIN);
        let mut before = Courtesy::SHARE_MIN;
        for _ in 0..10 {
            let until = now + Courtesy::WINDOW;
            commits(&mut courtesy, &mut now, until, MS);
            let share = courtesy.share(now);
            assert!(share.saturating_sub(before) <= 2 * Courtesy::GROWTH, "{before} {share}");
            before = share;
        }
        commits(&mut courtesy, &mut now, 5 * second, MS);
        assert_eq!(courtesy.share(now), 1000);
    }

    /// A disk that stays slow is what is usual then, and a copy over it is not held back for ever.
    #[test]
    fn a_disk_that_stays_slow_is_got_used_to() {
        let (mut courtesy, mut now) = (Courtesy::default(), Duration::ZERO);
        commits(&mut courtesy, &mut now, Duration::from_secs(1), MS);
        commits(&mut courtesy, &mut now, Duration::from_mins(3), 20 * MS);
        assert_eq!(courtesy.share(now), 1000);
    }

    proptest! {
        /// A move goes on whatever producers meet, and time that jumps breaks nothing.
        #[test]
        fn the_share_keeps_its_bounds(
            steps in proptest::collection::vec((0_u64..10_000, 0_u64..10_000_000), 0..200),
        ) {
            let (mut courtesy, mut now) = (Courtesy::default(), Duration::ZERO);
            for (pause_ms, took_us) in steps {
                now += Duration::from_millis(pause_ms);
                courtesy.observe(now, Duration::from_micros(took_us));
                let share = courtesy.share(now);
                prop_assert!((Courtesy::SHARE_MIN..=1000).contains(&share), "{share}");
            }
        }
    }
}
