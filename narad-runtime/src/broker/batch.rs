//! Group commit: producers that meet at one partition share one append and one fsync.
//!
//! Whoever finds nobody at work appends for all who wait; the others sleep until their answer is
//! there. No thread of its own is needed, and nothing is held back to make batches larger.

use std::fmt;
use std::sync::Arc;

use narad_core::freeze::gate::Refused;
use narad_core::ids::{Epoch, Offset};

use super::slot::{Committed, Slot, SlotError};
use crate::foreground::Foreground;
use crate::group::{self, Abandoned, Group, Limits, Part};
use crate::log::{LogError, Record};

/// Why a batch was not committed. Nothing of it was acknowledged; it may be there all the same.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProduceError {
    /// The gate refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] Arc<LogError>),
    /// No log is open here.
    #[error("the partition is not open on this node: look the owner up again")]
    NotOpen,
    /// Too much waits for this partition already.
    #[error("too much waits to be written to this partition: try again in a moment")]
    Busy,
    /// Whoever appended for all ended in the midst of it.
    #[error("the append ended without an answer: try again, the records may be there twice then")]
    Abandoned,
}

impl From<SlotError> for ProduceError {
    fn from(error: SlotError) -> Self {
        match error {
            SlotError::Refused(refused) => Self::Refused(refused),
            SlotError::Log(error) => Self::Log(Arc::new(error)),
            // No append ends with the latter.
            SlotError::NotOpen | SlotError::Consumer(_) => Self::NotOpen,
        }
    }
}

/// The producers of one partition.
pub struct Batcher {
    slot: Arc<Slot>,
    group: Group<Batch, Result<Committed, ProduceError>>,
    foreground: Option<Arc<Foreground>>,
}

/// What one producer wants to be written.
struct Batch {
    records: Vec<Record>,
    bytes: usize,
    claimed: Option<Epoch>,
}

impl Part for Batch {
    fn bytes(&self) -> usize {
        self.bytes
    }

    /// One append claims one reign.
    fn joins(&self, other: &Self) -> bool {
        self.claimed == other.claimed
    }
}

impl fmt::Debug for Batcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl Batcher {
    /// Most bytes that one append takes, unless a single batch is larger.
    pub const APPEND_BYTES_MAX: usize = 4 << 20;

    /// Most bytes that may wait for one partition.
    pub const WAITING_BYTES_MAX: usize = 64 << 20;

    /// Makes the batcher of a slot.
    pub fn new(slot: Arc<Slot>) -> Self {
        let limits = Limits {
            write_bytes_max: Self::APPEND_BYTES_MAX,
            waiting_bytes_max: Self::WAITING_BYTES_MAX,
        };
        Self { slot, group: Group::new(limits), foreground: None }
    }

    /// Tells how long each commit takes.
    #[must_use]
    pub(crate) fn timed_by(mut self, foreground: Arc<Foreground>) -> Self {
        self.foreground = Some(foreground);
        self
    }

    /// Commits records; blocks until they are acknowledged or refused.
    ///
    /// # Errors
    ///
    /// See [`ProduceError`].
    pub fn produce(
        &self,
        records: Vec<Record>,
        claimed: Option<Epoch>,
    ) -> Result<Committed, ProduceError> {
        let bytes = records.iter().map(Record::encoded_bytes).sum();
        let part = Batch { records, bytes, claimed };
        match self.group.produce(part, |batch| self.write(batch)) {
            Ok(Ok(answer)) => answer,
            Ok(Err(Abandoned)) => Err(ProduceError::Abandoned),
            Err(group::Refused::Full | group::Refused::Closed) => Err(ProduceError::Busy),
        }
    }

    /// Commits a batch, and each part of it alone if one part is why it cannot be written at all.
    fn write(&self, batch: Vec<Batch>) -> Vec<Result<Committed, ProduceError>> {
        let claimed = batch.first().and_then(|first| first.claimed);
        let sizes: Vec<usize> = batch.iter().map(|part| part.records.len()).collect();
        let records: Vec<Record> =
            batch.iter().flat_map(|part| part.records.iter().cloned()).collect();
        let commit = || self.slot.commit(&records, claimed);
        let committed = match &self.foreground {
            Some(foreground) => foreground.time(commit),
            None => commit(),
        };
        match committed {
            Ok(committed) => shares(&committed, &sizes),
            Err(SlotError::Log(LogError::RecordTooLarge { .. } | LogError::EmptyAppend))
                if batch.len() > 1 =>
            {
                let alone = |part: Batch| Ok(self.slot.commit(&part.records, part.claimed)?);
                batch.into_iter().map(alone).collect()
            }
            Err(error) => {
                let error = ProduceError::from(error);
                sizes.iter().map(|_| Err(error.clone())).collect()
            }
        }
    }
}

/// Says to each part of a batch which offsets are its own.
fn shares(committed: &Committed, sizes: &[usize]) -> Vec<Result<Committed, ProduceError>> {
    let mut first = committed.first;
    let share = |&records: &usize| {
        let end = Offset(first.0 + records as u64);
        let own = Committed { first, end, epoch: committed.epoch };
        first = end;
        Ok(own)
    };
    sizes.iter().map(share).collect()
}
