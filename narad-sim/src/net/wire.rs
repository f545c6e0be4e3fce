//! How links behave, unless one is made worse than others.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Slow;

/// How every link behaves. All chances are 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// Time from one end to the other, evenly spread.
    pub delay: RangeInclusive<Duration>,
    /// The chance of a delay that is spread up to `tail_max` instead; it holds up what follows.
    pub tail: f64,
    /// Longest delay.
    pub tail_max: Duration,
    /// Bytes a second and direction, shared by all lanes; zero is without limit.
    pub bandwidth: u64,
    /// The chance that a message is lost.
    pub loss: f64,
    /// The chance that a message arrives a second time soon after.
    pub duplicate: f64,
    /// The chance that a copy of a message turns up much later: from a second to `museum_max`.
    pub museum: f64,
    /// How old a message of the museum may be.
    pub museum_max: Duration,
    /// The chance that a message is overtaken by those sent after it.
    pub reorder: f64,
    /// The chance that a stream ends in mid-chunk.
    pub reset: f64,
    /// The chance that a chunk arrives with bytes that were not sent.
    pub garbage: f64,
}

impl Default for Wire {
    /// A good local network: 0.2 to 2 ms, 100 MiB/s, nothing lost.
    fn default() -> Self {
        Self {
            delay: Duration::from_micros(200)..=Duration::from_millis(2),
            tail: 0.0,
            tail_max: Duration::from_secs(30),
            bandwidth: 100 << 20,
            loss: 0.0,
            duplicate: 0.0,
            museum: 0.0,
            museum_max: Duration::from_mins(5),
            reorder: 0.0,
            reset: 0.0,
            garbage: 0.0,
        }
    }
}

impl Wire {
    /// Returns the bandwidth of a link that is worse than others, in bytes a second.
    pub(super) const fn bandwidth_of(&self, slow: Slow) -> u64 {
        if slow.bandwidth > 0 { slow.bandwidth } else { self.bandwidth }
    }

    /// Returns the same wire without faults: delays and bandwidth stay, the tail goes.
    #[must_use]
    pub fn healed(&self) -> Self {
        Self {
            tail: 0.0,
            loss: 0.0,
            duplicate: 0.0,
            museum: 0.0,
            reorder: 0.0,
            reset: 0.0,
            garbage: 0.0,
            ..self.clone()
        }
    }
}
