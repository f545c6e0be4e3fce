//! A metastore over etcd, against real servers on loopback that each test starts for itself.
//!
//! They need the `etcd` program (Debian: `apt-get install etcd-server`).

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod access;
mod broken;
mod compaction;
mod foreign;
mod kit;
mod moves;
mod outcomes;
mod proxy;
mod rows;
mod sequence;
mod server;
#[cfg(feature = "tls")]
mod tls;

use bytes::Bytes;
use narad_core::ids::LogIndex;
use narad_etcd::EtcdMetastore;
use narad_runtime::embed::{Metastore, Proposed, Update, Watch};
use std::time::Duration;

/// Longest wait for something that is to happen.
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits for something, but not for ever.
async fn soon<T>(what: &str, wanted: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, wanted).await;
    waited.unwrap_or_else(|_| panic!("waited for {what} in vain"))
}

/// Proposes a record, and returns its place.
async fn applied(metastore: &EtcdMetastore, record: impl Into<Bytes>) -> LogIndex {
    match metastore.propose(record.into()).await {
        Proposed::Applied(index) => index,
        other => panic!("{other:?}, because of {:?}", metastore.trouble()),
    }
}

/// Returns the reason of a rejection.
#[track_caller]
fn reason(outcome: Proposed) -> String {
    match outcome {
        Proposed::Rejected { reason } => reason,
        other => panic!("{other:?} is no rejection"),
    }
}

/// Waits for the next record of a watch.
async fn shown(watch: &mut Box<dyn Watch>) -> (LogIndex, Bytes) {
    match soon("a record", watch.next()).await {
        Some(Update::Record { index, record }) => (index, record),
        other => panic!("{other:?} is no record"),
    }
}

/// Watches until a place is reached, and returns the records from `after` to there, which have to
/// come one after the other.
async fn records(metastore: &EtcdMetastore, after: u64, to: u64) -> Vec<Bytes> {
    let mut watch = metastore.watch(LogIndex(after)).await;
    let mut records = Vec::new();
    for due in after + 1..=to {
        let (index, record) = shown(&mut watch).await;
        assert_eq!(index, LogIndex(due));
        records.push(record);
    }
    records
}
