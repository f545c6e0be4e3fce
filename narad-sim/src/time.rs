//! The world's own time, which no node can see.

use std::fmt;
use std::time::Duration;

/// A point in true time: nanoseconds since the world began.
///
/// A node sees its own clock, which may run fast, slow or not at all; see [`clock`](crate::clock).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// The last instant: what never happens is due then.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the instant so long after the beginning.
    #[must_use]
    pub fn from_start(elapsed: Duration) -> Self {
        Self(nanos(elapsed))
    }

    /// Returns the instant `delay` later, or [`NEVER`](Self::NEVER).
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(nanos(delay)))
    }

    /// Returns the time from `earlier` to here, or zero if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns whole microseconds since the beginning.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.as_micros();
        write!(f, "{}.{:06}s", micros / 1_000_000, micros % 1_000_000)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
