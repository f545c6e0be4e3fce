//! How fast this node copies.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Spreads copies over time.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// When the bytes that were let pass so far have had their time.
    free_at: Mutex<Option<Instant>>,
}

impl Throttle {
    /// Waits until so many bytes may be asked for, at a rate in bytes per second; 0 is unlimited.
    /// Returns how long that took.
    pub(super) async fn wait(&self, bytes: u64, rate: u64) -> Duration {
        if rate == 0 {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let begin = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = free_at.map_or(now, |at| at.max(now));
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
            let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            *free_at = Some(begin + takes.min(Duration::from_mins(1)));
            begin
        };
        tokio::time::sleep_until(begin).await;
        now.elapsed()
    }
}
