//! What a [`Dispatch`](super::Dispatch) shows of itself: room, backlog, progress.

use core::time::Duration;

use super::interface::SendFault;

/// Why a record is not accepted here. Nothing of it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Refused {
    /// The ingress log is full.
    #[error("the ingress log of this node is full: try another node, or again in {retry_after:?}")]
    Full {
        /// When there is room again, as far as one can tell.
        retry_after: Duration,
    },
    /// The node is being decommissioned.
    #[error("this node is being decommissioned: send to another node")]
    Draining,
    /// It would not even fit into an empty log.
    #[error("{bytes} bytes do not fit into an ingress log of {max}: send less at once")]
    TooLarge {
        /// What was to be accepted.
        bytes: u64,
        /// What the whole log may hold.
        max: u64,
    },
}

/// What may be accepted now: one small value, to be published to whoever accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    /// Records.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether the node is being decommissioned.
    pub draining: bool,
    /// How long from now there is room again, as it looks, if there is none.
    pub retry_after: Duration,
    /// The bytes that the whole log may hold.
    pub bytes_max: u64,
}

impl Room {
    /// Says whether so much may be accepted. It never looks at a topic or a partition (L4, H23).
    ///
    /// # Errors
    ///
    /// If it does not fit, or the node is being decommissioned.
    pub const fn admit(&self, records: u64, bytes: u64) -> Result<(), Refused> {
        if self.draining {
            return Err(Refused::Draining);
        }
        if bytes > self.bytes_max {
            return Err(Refused::TooLarge { bytes, max: self.bytes_max });
        }
        if records > self.records || bytes > self.bytes {
            return Err(Refused::Full { retry_after: self.retry_after });
        }
        Ok(())
    }
}

/// What has been accepted and not yet arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Backlog {
    /// Records that wait or are under way. Nothing is left on the node when it is zero (H37).
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the log from its oldest such record to its end.
    pub span_bytes: u64,
}

/// What has been done in this life, in records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Progress {
    /// Accepted, or found at the start.
    pub accepted: u64,
    /// Taken by an owner.
    pub dispatched: u64,
    /// Of those, keyed ones that a sibling took.
    pub rerouted: u64,
    /// Of topics that are no more.
    pub dropped: u64,
    /// Damaged in the ingress log: accepted, and lost.
    pub damaged: u64,
    /// Appended to the ingress log once more.
    pub carried: u64,
    /// Batches that were not taken, by reason.
    pub refused: Refusals,
}

/// Batches that were not taken, by reason: each counts the
/// [fault](super::SendFault) of the same name, in batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Refusals {
    /// The owner could not be reached; nothing of the batch had left the node.
    pub unreachable: u64,
    /// The records could not be read from the ingress log.
    pub unreadable: u64,
    /// Nobody answered in time: it may have been taken.
    pub timed_out: u64,
    /// The partition was frozen by a move.
    pub frozen: u64,
    /// The owner did not serve it, or not yet.
    pub not_serving: u64,
    /// The owner was in another reign.
    pub other_epoch: u64,
    /// The owner had no lease for a partition that moves.
    pub no_lease: u64,
    /// The owner's disk was full.
    pub disk_full: u64,
    /// The owner's disk failed.
    pub disk: u64,
    /// The owner had no room for it at that moment.
    pub busy: u64,
    /// A newer batch of this node had come first.
    pub stale: u64,
    /// The owner knows of no such partition.
    pub no_such_partition: u64,
    /// The batch was longer than the owner takes.
    pub too_large: u64,
}

impl Refusals {
    /// Counts one.
    pub(super) const fn count(&mut self, fault: SendFault) {
        let counter = match fault {
            SendFault::Unreachable => &mut self.unreachable,
            SendFault::Unreadable => &mut self.unreadable,
            SendFault::TimedOut => &mut self.timed_out,
            SendFault::Frozen => &mut self.frozen,
            SendFault::NotServing => &mut self.not_serving,
            SendFault::OtherEpoch { .. } => &mut self.other_epoch,
            SendFault::NoLease => &mut self.no_lease,
            SendFault::DiskFull => &mut self.disk_full,
            SendFault::Disk => &mut self.disk,
            SendFault::Busy => &mut self.busy,
            SendFault::Stale { .. } => &mut self.stale,
            SendFault::NoSuchPartition => &mut self.no_such_partition,
            SendFault::TooLarge => &mut self.too_large,
        };
        *counter += 1;
    }
}
