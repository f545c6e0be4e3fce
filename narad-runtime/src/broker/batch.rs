//! Group commit: producers that meet at one partition share one append and one fsync.
//!
//! Whoever finds nobody at work appends for all who wait; the others sleep until their answer is
//! there. No thread of its own is needed, and nothing is held back to make batches larger.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use narad_core::freeze::gate::Refused;
use narad_core::ids::{Epoch, Offset};

use super::slot::{Committed, Slot, SlotError};
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
}

impl From<SlotError> for ProduceError {
    fn from(error: SlotError) -> Self {
        match error {
            SlotError::Refused(refused) => Self::Refused(refused),
            SlotError::Log(error) => Self::Log(Arc::new(error)),
            SlotError::NotOpen => Self::NotOpen,
        }
    }
}

/// The producers of one partition.
pub struct Batcher {
    slot: Arc<Slot>,
    queue: Mutex<Queue>,
    /// Told whenever a batch has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    writing: bool,
    tickets: u64,
    answers: Vec<(u64, Result<Committed, ProduceError>)>,
}

struct Waiting {
    ticket: u64,
    records: Vec<Record>,
    bytes: usize,
    claimed: Option<Epoch>,
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
        Self { slot, queue: Mutex::default(), ended: Condvar::new() }
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
        let mut queue = self.lock();
        if queue.waiting_bytes.saturating_add(bytes) > Self::WAITING_BYTES_MAX {
            return Err(ProduceError::Busy);
        }
        queue.tickets += 1;
        let ticket = queue.tickets;
        queue.waiting_bytes += bytes;
        queue.waiting.push_back(Waiting { ticket, records, bytes, claimed });
        loop {
            if let Some(at) = queue.answers.iter().position(|(answered, _)| *answered == ticket) {
                return queue.answers.swap_remove(at).1;
            }
            if queue.writing {
                queue = self.ended.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let batch = queue.take_batch();
            queue.writing = true;
            drop(queue);
            let answers = self.write(batch);
            queue = self.lock();
            queue.writing = false;
            queue.answers.extend(answers);
            self.ended.notify_all();
        }
    }

    /// Commits a batch, and each part of it alone if one part is why it cannot be written at all.
    fn write(&self, batch: Vec<Waiting>) -> Vec<(u64, Result<Committed, ProduceError>)> {
        let claimed = batch.first().and_then(|first| first.claimed);
        let sizes: Vec<(u64, u64)> =
            batch.iter().map(|part| (part.ticket, part.records.len() as u64)).collect();
        let records: Vec<Record> =
            batch.iter().flat_map(|part| part.records.iter().cloned()).collect();
        match self.slot.commit(&records, claimed) {
            Ok(committed) => shares(&committed, &sizes),
            Err(SlotError::Log(LogError::RecordTooLarge { .. } | LogError::EmptyAppend))
                if batch.len() > 1 =>
            {
                let alone = |part: Waiting| {
                    let committed = self.slot.commit(&part.records, part.claimed);
                    (part.ticket, committed.map_err(ProduceError::from))
                };
                batch.into_iter().map(alone).collect()
            }
            Err(error) => {
                let error = ProduceError::from(error);
                sizes.into_iter().map(|(ticket, _)| (ticket, Err(error.clone()))).collect()
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Takes from the front what fits into one append; all of it claims the same reign.
    fn take_batch(&mut self) -> Vec<Waiting> {
        let claimed = self.waiting.front().and_then(|first| first.claimed);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.waiting.front() {
            let fits = batch.is_empty() || bytes + next.bytes <= Batcher::APPEND_BYTES_MAX;
            if !fits || next.claimed != claimed {
                break;
            }
            bytes += next.bytes;
            batch.extend(self.waiting.pop_front());
        }
        self.waiting_bytes -= bytes;
        batch
    }
}

/// Says to each part of a batch which offsets are its own.
fn shares(
    committed: &Committed,
    sizes: &[(u64, u64)],
) -> Vec<(u64, Result<Committed, ProduceError>)> {
    let mut first = committed.first;
    let share = |&(ticket, records): &(u64, u64)| {
        let end = Offset(first.0 + records);
        let own = Committed { first, end, epoch: committed.epoch };
        first = end;
        (ticket, Ok(own))
    };
    sizes.iter().map(share).collect()
}
