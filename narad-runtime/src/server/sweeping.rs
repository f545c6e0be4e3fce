//! Emptying the quarantine.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::store::PartitionStore;

/// While less is free, the quarantine is emptied before its time: four segments.
const FREE_BYTES_MIN: u64 = 256 << 20;

/// Deletes what has been in quarantine for long enough, a little at a time (field fault 19); all of it,
/// the oldest first, while less than [`FREE_BYTES_MIN`] is free.
pub(super) async fn sweep_trash(
    store: Arc<dyn PartitionStore>,
    quarantine: Duration,
    cancel: CancellationToken,
) {
    const PAUSE: Duration = Duration::from_secs(20);
    /// Between two rounds while there is more: the disk has others to serve.
    const BREATH: Duration = Duration::from_millis(100);
    const FILES_MAX: usize = 16;
    let quarantine_ms = i64::try_from(quarantine.as_millis()).unwrap_or(i64::MAX);
    let mut pause = PAUSE;
    while cancel.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        let store = Arc::clone(&store);
        let now = crate::clock::wall_ms();
        let older_than = now.saturating_sub(quarantine_ms);
        let sweep = move || {
            // What is proved dead makes room for what is not.
            let is_short = store.free_bytes()?.0 < FREE_BYTES_MIN;
            store.sweep_trash(if is_short { now } else { older_than }, FILES_MAX)
        };
        pause = PAUSE;
        match tokio::task::spawn_blocking(sweep).await {
            Ok(Ok(swept)) => {
                tracing::debug!(?swept, "quarantine");
                pause = if swept.more { BREATH } else { PAUSE };
            }
            Ok(Err(error)) => tracing::warn!(%error, "cannot empty the quarantine"),
            Err(_) => return,
        }
    }
}
