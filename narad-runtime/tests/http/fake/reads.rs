//! Plain reads.

use std::time::Duration;

use narad_core::ids::{Epoch, Offset};
use narad_runtime::service::{Fetched, Position, ServiceError};

use super::Node;

impl Node {
    /// Reads records, and waits for a first one.
    pub(super) async fn read(
        &self,
        topic: &str,
        partition: u32,
        from: Position,
        wait: Duration,
    ) -> Result<Fetched, ServiceError> {
        /// Records of one answer, so that a reader comes more than once.
        const RECORDS_MAX: usize = 2;
        self.owned(topic, partition, |row| {
            row.fetches += 1;
            Ok(())
        })?;
        self.cluster.changed.notify_waiters();
        let read = || {
            self.owned(topic, partition, |row| {
                let start = match from {
                    Position::Committed => row.committed.unwrap_or(0),
                    Position::Offset { at, .. } => at.0,
                };
                let records = row.records.iter().cloned().enumerate();
                let records = records.map(|(offset, record)| (Offset(offset as u64), record));
                let start = usize::try_from(start).expect("small");
                let records: Vec<_> = records.skip(start).take(RECORDS_MAX).collect();
                Ok(Fetched {
                    next: Offset((start + records.len()) as u64),
                    records,
                    start: Offset(0),
                    hwm: Offset(row.records.len() as u64),
                    epoch: Epoch(row.epoch),
                    committed: row.committed.map(Offset),
                })
            })
        };
        let some = async {
            loop {
                let changed = self.cluster.changed.notified();
                match read() {
                    Ok(fetched) if fetched.records.is_empty() => changed.await,
                    other => return other,
                }
            }
        };
        match tokio::time::timeout(wait, some).await {
            Ok(answer) => answer,
            Err(_) => read(),
        }
    }
}
