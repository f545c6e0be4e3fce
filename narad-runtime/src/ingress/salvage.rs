//! Accepting once more what a flip has not captured (H14).

use std::sync::Arc;

use narad_core::dispatch::Route;
use narad_core::ids::{Attempt, Offset, PartitionId};
use narad_core::node::Salvaged;

use super::{Door, IngressError, IngressLog, Load, Parcel};
use crate::log::LogError;
use crate::store::{PartitionLog, PartitionStore, StoreError};

/// Bytes that are read and accepted at once.
const PIECE_BYTES: usize = 1 << 20;

/// Why records were not salvaged, or not all of them. They are there as before, and are tried again.
#[derive(Debug, thiserror::Error)]
pub enum SalvageError {
    /// The directory cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The directory cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// There is no room for more now.
    #[error("the ingress log of this node is full: what is in it has to be dispatched first")]
    Full,
    /// The ingress log failed.
    #[error(transparent)]
    Ingress(#[from] IngressError),
}

impl IngressLog {
    /// Accepts, for their partition, the records that a directory of this node holds from an offset
    /// on, hidden ones included. The dispatcher knows of all of them when this returns. Blocks.
    ///
    /// Damaged records are passed over with an error in the log: they hold up nothing that is sound
    /// (`case_048`).
    ///
    /// # Errors
    ///
    /// See [`SalvageError`]; some of the records may have been accepted then.
    pub fn salvage(
        &self,
        door: &Arc<Door>,
        store: &dyn PartitionStore,
        partition: PartitionId,
        data: Attempt,
        from: Offset,
    ) -> Result<Salvaged, SalvageError> {
        let log = store.open(partition, data)?;
        let salvaged = self.take_all(door, &*log, partition, from);
        if let Err(error) = log.close() {
            tracing::debug!(%partition, %data, %error, "a past log was not closed cleanly");
        }
        salvaged
    }

    fn take_all(
        &self,
        door: &Arc<Door>,
        log: &dyn PartitionLog,
        partition: PartitionId,
        from: Offset,
    ) -> Result<Salvaged, SalvageError> {
        let bounds = log.bounds();
        let (mut next, mut bytes) = (from.max(bounds.start), 0);
        while next < bounds.end {
            let records = match log.read_durable(next, PIECE_BYTES) {
                Ok(records) => records,
                Err(LogError::Damaged { resume, .. }) if resume > next => {
                    tracing::error!(
                        %partition, from = %next, end = %resume,
                        "records that a promotion had not captured are damaged, and lost"
                    );
                    next = resume;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let Some((last, _)) = records.last() else { break };
            next = last.next();
            let parcel = |(_, record)| Parcel {
                topic: partition.topic,
                route: Route::Partition(partition.index),
                record,
            };
            let parcels: Vec<Parcel> = records.into_iter().map(parcel).collect();
            let load = Load::of(&parcels);
            bytes += load.bytes;
            let _pass = door.enter_again(load).map_err(|_| SalvageError::Full)?;
            self.append(parcels)?;
        }
        Ok(Salvaged { from, end: next.max(from), bytes })
    }
}
