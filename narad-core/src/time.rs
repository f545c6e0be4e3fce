//! The node's clock, as the machines see it.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::time::Duration;

/// A point on one node's monotonic clock.
///
/// Counted from an origin that the driver picks once per process; the runtime reads
/// `CLOCK_BOOTTIME`, which goes on while a virtual machine is suspended (H9, H19). Values of two
/// nodes, or of two runs of one node, mean nothing to each other, so an instant never crosses the
/// wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Instant(Duration);

impl Instant {
    /// The driver's origin.
    pub const ORIGIN: Self = Self(Duration::ZERO);

    /// Returns the instant `since_origin` after the origin.
    #[must_use]
    pub const fn from_origin(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// Returns the time since the origin.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// Returns the instant `delay` later, or the last representable one.
    #[must_use]
    pub const fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay))
    }

    /// Returns the time from `earlier` to here, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// One number of its own width, so that a search over states can tell instants from whatever else
/// a state holds: states in which everything is as long ago behave alike.
impl Hash for Instant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // No duration has more nanoseconds than fit.
        state.write_i128(i128::try_from(self.0.as_nanos()).unwrap_or(i128::MAX));
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let late = Instant::from_origin(Duration::MAX);
        assert_eq!(late.after(Duration::from_secs(1)), late);
        assert_eq!(Instant::ORIGIN.since(late), Duration::ZERO);
        assert_eq!(late.since(Instant::ORIGIN), Duration::MAX);
    }
}
