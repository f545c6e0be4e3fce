//! The clock that the machines are given.

use std::fmt;
use std::time::Duration;

use narad_core::time::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Tells a node the time. The machines have no clock of their own.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Returns the present, since an origin that stays the same while the process runs. Must never go
    /// back, and must go on while the machine is suspended: a lease counts on it (H9, H19). Its rate
    /// may be off by [`clock_rate_error_percent`](narad_core::config::Policy::clock_rate_error_percent).
    fn now(&self) -> Instant;

    /// Returns the wall clock in milliseconds of the Unix epoch; it may jump. From it the quarantine
    /// of what was set aside counts, and nothing else.
    fn wall_ms(&self) -> i64 {
        wall_ms()
    }
}

/// Reads `CLOCK_BOOTTIME`, which goes on while the machine is suspended: a lease must not outlive
/// the night that its owner slept through (H9, H19).
#[derive(Clone, Copy, Debug)]
pub struct BootClock {
    origin: Duration,
}

impl BootClock {
    /// Takes the present for the origin.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: since_boot() }
    }

    /// Returns the present.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_origin(since_boot().saturating_sub(self.origin))
    }
}

impl Clock for BootClock {
    fn now(&self) -> Instant {
        Self::now(self)
    }
}

impl Default for BootClock {
    fn default() -> Self {
        Self::new()
    }
}

fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Returns the wall clock in milliseconds of the Unix epoch, for time stamps that people read.
#[must_use]
pub fn wall_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
