//! Accepting parcels: whoever hands some in is answered when they are durable.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

use narad_core::dispatch::Waybill;
use narad_core::ids::{Epoch, Seq};

use super::{IngressError, IngressLog, Parcel};
use crate::group::{self, Part};
use crate::log::{Record, lock};
use crate::store::PartitionLog as _;

/// An ingress log knows no reigns; every frame of it says so.
const NO_REIGN: Epoch = Epoch(0);

/// Where a batch has been put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Position of the first parcel.
    pub first: Seq,
    /// Position after the last one.
    pub end: Seq,
}

/// What one producer hands in.
#[derive(Debug)]
pub(super) struct Batch {
    parcels: Vec<Parcel>,
    bytes: usize,
    /// They are here already, and are appended again.
    carried: bool,
}

impl Part for Batch {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn joins(&self, _: &Self) -> bool {
        true
    }
}

pub(super) type Answer = Result<Accepted, IngressError>;

impl IngressLog {
    /// Accepts parcels; blocks until they are durable. Those who call at the same time share one
    /// write and one sync.
    ///
    /// # Errors
    ///
    /// See [`IngressError`]; nothing of the batch was acknowledged then, but it may be there.
    pub fn append(&self, parcels: Vec<Parcel>) -> Result<Accepted, IngressError> {
        let batch = self.batch(parcels, false)?;
        self.group.produce(batch, |batches| self.commit(batches))??
    }

    /// Hands parcels in without waiting. They are written by a [`Committer`], or by whoever calls
    /// [`commit_waiting`](Self::commit_waiting); dropping the ticket takes nothing back.
    ///
    /// # Errors
    ///
    /// If the batch can never be accepted, or too much waits.
    pub fn submit(&self, parcels: Vec<Parcel>) -> Result<Ticket, IngressError> {
        let batch = self.batch(parcels, false)?;
        Ok(Ticket(self.group.submit(batch)?))
    }

    /// Writes once what was handed in; returns whether there was anything.
    pub fn commit_waiting(&self) -> bool {
        self.group.write_once(|batches| self.commit(batches))
    }

    /// Appends parcels that are here already once more, at the end, in this order and at consecutive
    /// positions, so that their old ones no longer hold the log's beginning. Durable when this
    /// returns. All of them are in memory meanwhile, and the dispatcher is not told.
    ///
    /// # Errors
    ///
    /// [`IngressError::Damaged`] if one cannot be read; nothing was appended then. Otherwise as
    /// [`read`](Self::read) and [`append`](Self::append); they may be there twice then.
    pub fn carry(&self, seqs: impl IntoIterator<Item = Seq>) -> Result<Accepted, IngressError> {
        let read = self.read(seqs, usize::MAX)?;
        if let Some(&seq) = read.lost.first() {
            return Err(IngressError::Damaged { seq });
        }
        let parcels = read.parcels.into_iter().map(|(_, parcel)| parcel).collect();
        let batch = self.batch(parcels, true)?;
        self.group.produce(batch, |batches| self.commit(batches))??
    }

    /// Checks what a batch must be for the log to take it, so that it never costs others theirs.
    fn batch(&self, parcels: Vec<Parcel>, carried: bool) -> Result<Batch, IngressError> {
        if parcels.is_empty() {
            return Err(IngressError::Empty);
        }
        let bytes_max = self.limits.log.record_bytes_max;
        let mut total = 0;
        for parcel in &parcels {
            let bytes = parcel.record.encoded_bytes();
            if bytes > bytes_max && !carried {
                return Err(IngressError::TooLarge { bytes, bytes_max });
            }
            total += parcel.encoded_bytes();
        }
        Ok(Batch { parcels, bytes: total, carried })
    }

    /// Writes batches with one append and tells the dispatcher.
    fn commit(&self, batches: Vec<Batch>) -> Vec<Answer> {
        // Held until the dispatcher knows, so that it learns of positions in their order.
        let _writing = lock(&self.writing);
        let log = self.log();
        let records: Vec<Record> =
            batches.iter().flat_map(|batch| &batch.parcels).map(Parcel::seal).collect();
        let append = || log.append(&records, NO_REIGN);
        let appended = match &self.foreground {
            Some(foreground) => foreground.time(append),
            None => append(),
        };
        drop(records);
        match appended.and_then(|done| log.expose(done.end).map(|()| done)) {
            Ok(done) => self.accept(Seq(done.first.0), batches),
            Err(error) => {
                let error = IngressError::from(error);
                batches.iter().map(|_| Err(error.clone())).collect()
            }
        }
    }

    /// Takes note of batches that are durable, the first of them at a position.
    fn accept(&self, first: Seq, batches: Vec<Batch>) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(batches.len());
        let mut waybills: Vec<Waybill> = Vec::new();
        let mut parcels = Vec::new();
        let mut next = first;
        for batch in batches {
            let end = Seq(next.0 + batch.parcels.len() as u64);
            if !batch.carried {
                let seqs = (next.0..).map(Seq);
                waybills.extend(seqs.zip(&batch.parcels).map(|(seq, parcel)| parcel.waybill(seq)));
            }
            answers.push(Ok(Accepted { first: next, end }));
            parcels.extend(batch.parcels);
            next = end;
        }
        lock(&self.cache).insert(first, parcels);
        if !waybills.is_empty() {
            self.dispatcher.accepted(waybills);
        }
        answers
    }
}

/// A batch that was handed in: a future of its answer, for whatever runs futures.
#[derive(Debug)]
#[must_use = "only the ticket tells whether the records were accepted"]
pub struct Ticket(group::Ticket<Answer>);

impl Ticket {
    /// Takes the answer, if it is there. It is given once.
    pub fn take(&self) -> Option<Result<Accepted, IngressError>> {
        self.0.take().map(flat)
    }

    /// Blocks until the answer is there.
    ///
    /// # Errors
    ///
    /// As [`IngressLog::append`].
    pub fn wait(self) -> Result<Accepted, IngressError> {
        flat(self.0.wait())
    }
}

impl Future for Ticket {
    type Output = Result<Accepted, IngressError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(flat)
    }
}

fn flat(answer: Result<Answer, group::Abandoned>) -> Answer {
    answer?
}

/// A thread that writes what is [handed in](IngressLog::submit), so that nobody else has to block.
///
/// When this is dropped nothing more is taken, what waits is written, and the thread ends.
#[derive(Debug)]
pub struct Committer {
    log: Arc<IngressLog>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the thread of a log. One is enough.
    ///
    /// # Errors
    ///
    /// If the system has no thread to give.
    pub fn start(log: Arc<IngressLog>) -> io::Result<Self> {
        log.group.open();
        let writer = Arc::clone(&log);
        let write = move || writer.group.write_all(|batches| writer.commit(batches));
        let thread = thread::Builder::new().name("narad-ingress".to_owned()).spawn(write)?;
        Ok(Self { log, thread: Some(thread) })
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.log.group.close();
        if let Some(thread) = self.thread.take() {
            // Whoever waited for a writer that panicked was told already.
            let _ = thread.join();
        }
    }
}
