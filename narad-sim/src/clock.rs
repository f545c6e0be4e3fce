//! What one machine takes for the time.
//!
//! A machine has two clocks. The *monotonic* one is all that its machines ever see: it never goes
//! backwards, but may run fast or slow, leap forwards, or stand still while the machine is
//! suspended (H9, H19). The *wall clock* is for people, and may say anything.
//!
//! All of it is exact integer arithmetic: [`Clock::when`] is the inverse of [`Clock::local`] to the
//! nanosecond, so that a node that is woken at its deadline finds that it has come.
//!
//! # Divergence from reality
//!
//! A change of rate rounds the clock down to a whole nanosecond. The wall clock does not drift by
//! itself; it is off by what [`Clock::jump_wall`] made it, or stands still.

use std::time::Duration;

use narad_core::time::Instant;

use crate::time::Time;

/// How many parts a rate is counted in.
const MILLION: u64 = 1_000_000;

/// The clocks of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// When the clock was last changed.
    changed: Time,
    /// What it showed then, in nanoseconds since its origin.
    shown: u64,
    /// Local nanoseconds in a million true ones.
    rate: u64,
    is_stopped: bool,
    wall: Wall,
}

/// What the wall clock shows, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wall {
    /// It is so far ahead of true time.
    Ahead(i64),
    /// It shows the same all the time.
    Stopped(i64),
}

impl Clock {
    /// How much slower than true time a clock can be: 999,999 ppm, which is a millionth of it.
    pub const PPM_MIN: i64 = -999_999;

    /// How much faster than true time a clock can be: 9,000,000 ppm, which is ten times as fast.
    pub const PPM_MAX: i64 = 9_000_000;

    /// Starts a clock that is right, at its origin, with a wall clock that shows `wall_ms`.
    pub fn new(now: Time, wall_ms: i64) -> Self {
        let wall = Wall::Ahead(wall_ms.saturating_sub(millis(now)));
        Self { changed: now, shown: 0, rate: MILLION, is_stopped: false, wall }
    }

    /// Returns what the monotonic clock shows. `now` is no earlier than its last change.
    pub fn local(&self, now: Time) -> Instant {
        Instant::from_origin(Duration::from_nanos(self.nanos(now)))
    }

    /// Returns the first true time, from the last change on, at which the clock shows `local` or
    /// more: [`Time::NEVER`] while it is stopped short of it.
    pub fn when(&self, local: Instant) -> Time {
        let Ok(wanted) = u64::try_from(local.since_origin().as_nanos()) else {
            return Time::NEVER;
        };
        let missing = wanted.saturating_sub(self.shown);
        if missing == 0 {
            return self.changed;
        }
        if self.is_stopped {
            return Time::NEVER;
        }
        let (whole, rest) = (missing / self.rate, missing % self.rate);
        let passed =
            whole.saturating_mul(MILLION).saturating_add((rest * MILLION).div_ceil(self.rate));
        Time(self.changed.0.saturating_add(passed))
    }

    /// Makes the clock run fast, or slow if `ppm` is negative: parts per million of true time,
    /// [`PPM_MIN`](Self::PPM_MIN) to [`PPM_MAX`](Self::PPM_MAX), beyond which it is cut off.
    pub fn set_rate(&mut self, now: Time, ppm: i64) {
        self.settle(now);
        let ppm = ppm.clamp(Self::PPM_MIN, Self::PPM_MAX);
        self.rate = MILLION.saturating_add_signed(ppm);
    }

    /// Returns by how much the rate is off, in parts per million.
    pub fn ppm(&self) -> i64 {
        i64::try_from(self.rate).unwrap_or(i64::MAX) - 1_000_000
    }

    /// Makes the clock leap forwards, as it does over a suspension that it goes on in.
    pub fn jump(&mut self, now: Time, by: Duration) {
        self.settle(now);
        self.shown = self.shown.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Makes the clock stand still, as one does that does not count suspended time.
    pub fn stop(&mut self, now: Time) {
        self.settle(now);
        self.is_stopped = true;
    }

    /// Lets the clock go on from where it stands.
    pub fn go(&mut self, now: Time) {
        self.settle(now);
        self.is_stopped = false;
    }

    /// Moves the origin to `now`: the next process counts from its own start. Rate and standstill
    /// are the machine's, and stay.
    pub fn restart(&mut self, now: Time) {
        self.settle(now);
        self.shown = 0;
    }

    /// Returns what the wall clock shows, in milliseconds since 1970.
    pub fn wall_ms(&self, now: Time) -> i64 {
        match self.wall {
            Wall::Ahead(ahead) => millis(now).saturating_add(ahead),
            Wall::Stopped(shown) => shown,
        }
    }

    /// Moves the wall clock by so many milliseconds, backwards if `by_ms` is negative.
    pub fn jump_wall(&mut self, by_ms: i64) {
        self.wall = match self.wall {
            Wall::Ahead(ahead) => Wall::Ahead(ahead.saturating_add(by_ms)),
            Wall::Stopped(shown) => Wall::Stopped(shown.saturating_add(by_ms)),
        };
    }

    /// Makes the wall clock show the same from now on.
    pub fn stop_wall(&mut self, now: Time) {
        self.wall = Wall::Stopped(self.wall_ms(now));
    }

    /// Lets the wall clock go on from what it shows.
    pub fn go_wall(&mut self, now: Time) {
        self.wall = Wall::Ahead(self.wall_ms(now).saturating_sub(millis(now)));
    }

    /// Counts from here on, so that what follows changes nothing that was shown before.
    fn settle(&mut self, now: Time) {
        self.shown = self.nanos(now);
        self.changed = self.changed.max(now);
    }

    fn nanos(&self, now: Time) -> u64 {
        if self.is_stopped {
            return self.shown;
        }
        let passed = now.0.saturating_sub(self.changed.0);
        // A product of the whole would not fit: 2^64 ns times ten.
        let (whole, rest) = (passed / MILLION, passed % MILLION);
        let passed = whole.saturating_mul(self.rate).saturating_add(rest * self.rate / MILLION);
        self.shown.saturating_add(passed)
    }
}

fn millis(time: Time) -> i64 {
    i64::try_from(time.0 / MILLION).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(nanos: u64) -> Instant {
        Instant::from_origin(Duration::from_nanos(nanos))
    }

    /// Something that happens to a clock.
    #[derive(Clone, Debug)]
    enum Change {
        Rate(i64),
        Jump(u64),
        Stop,
        Go,
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (-1_100_000..10_000_000_i64).prop_map(Change::Rate),
            (-50_000..50_000_i64).prop_map(Change::Rate),
            (0..100 * SECOND).prop_map(Change::Jump),
            Just(Change::Stop),
            Just(Change::Go),
        ]
    }

    fn apply(clock: &mut Clock, now: Time, change: &Change) {
        match change {
            Change::Rate(ppm) => clock.set_rate(now, *ppm),
            Change::Jump(by) => clock.jump(now, Duration::from_nanos(*by)),
            Change::Stop => clock.stop(now),
            Change::Go => clock.go(now),
        }
    }

    proptest! {
        /// H9, H19: a monotonic clock never goes backwards, whatever happens to it, and the time
        /// at which it shows something is the first at which it does.
        #[test]
        fn a_clock_is_monotone_and_has_an_inverse(
            changes in prop::collection::vec((0..20 * SECOND, change()), 0..20),
            ahead in 0..100 * SECOND,
        ) {
            let mut clock = Clock::new(Time(5), 0);
            let (mut now, mut shown) = (Time(5), Instant::ORIGIN);
            for (wait, change) in &changes {
                let wanted = clock.local(now).after(Duration::from_nanos(ahead));
                let first = clock.when(wanted);
                if first != Time::NEVER {
                    prop_assert!(clock.local(first) >= wanted);
                    prop_assert!(first <= now || clock.local(Time(first.0 - 1)) < wanted);
                }
                now = Time(now.0 + wait);
                prop_assert!(clock.local(now) >= shown);
                shown = clock.local(now);
                apply(&mut clock, now, change);
                prop_assert!(clock.local(now) >= shown);
                shown = clock.local(now);
            }
        }
    }

    /// H19: five per cent fast is three seconds a minute.
    #[test]
    fn a_rate_is_exact() {
        let mut clock = Clock::new(Time::ZERO, 0);
        clock.set_rate(Time::ZERO, 50_000);
        assert_eq!(clock.local(Time(60 * SECOND)), at(63 * SECOND));
        assert_eq!(clock.when(at(63 * SECOND)), Time(60 * SECOND));
        assert_eq!(clock.ppm(), 50_000);
    }

    /// H19: a clock that does not count suspended time wakes nobody meanwhile.
    #[test]
    fn a_stopped_clock_shows_the_same_until_it_goes_on() {
        let mut clock = Clock::new(Time::ZERO, 0);
        clock.stop(Time(SECOND));
        assert_eq!(clock.local(Time(100 * SECOND)), at(SECOND));
        assert_eq!(clock.when(at(SECOND + 1)), Time::NEVER);
        assert_eq!(clock.when(at(SECOND)), Time(SECOND));
        clock.go(Time(100 * SECOND));
        assert_eq!(clock.when(at(SECOND + 1)), Time(100 * SECOND + 1));
    }

    /// A new process counts from its own start, on the machine's same bad crystal.
    #[test]
    fn a_restart_moves_the_origin_and_keeps_the_rate() {
        let mut clock = Clock::new(Time::ZERO, 0);
        clock.set_rate(Time::ZERO, -100_000);
        clock.restart(Time(10 * SECOND));
        assert_eq!(clock.local(Time(10 * SECOND)), Instant::ORIGIN);
        assert_eq!(clock.local(Time(20 * SECOND)), at(9 * SECOND));
    }

    /// Fault model, 2: the wall clock may jump, stand still and go backwards.
    #[test]
    fn a_wall_clock_may_go_backwards_and_stand_still() {
        let mut clock = Clock::new(Time(SECOND), 1_000_000);
        assert_eq!(clock.wall_ms(Time(2 * SECOND)), 1_001_000);
        clock.jump_wall(-5_000);
        assert_eq!(clock.wall_ms(Time(2 * SECOND)), 996_000);
        clock.stop_wall(Time(2 * SECOND));
        assert_eq!(clock.wall_ms(Time(9 * SECOND)), 996_000);
        clock.go_wall(Time(9 * SECOND));
        assert_eq!(clock.wall_ms(Time(10 * SECOND)), 997_000);
        assert_eq!(clock.local(Time(10 * SECOND)), at(9 * SECOND));
    }
}
