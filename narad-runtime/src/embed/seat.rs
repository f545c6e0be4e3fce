//! One partition that is, or was, live on this node: its gate beside its log, under one mutex.
//!
//! The mutex is never held while the store is asked. An append is admitted under it, written without
//! it, and checked again under it; a freeze captures under it, so that nothing is appended behind what
//! was captured (S9).

mod listing;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use narad_core::effects::{Effects, OpId};
use narad_core::freeze::gate::{
    Acknowledged, Appended, Authority, Command, Gate, Refused, Signal, Standing,
};
use narad_core::freeze::handoff::FreezeFault;
use narad_core::host::{Fault, Opened};
use narad_core::ids::{Attempt, Epoch, Incarnation, LogGeneration, Offset, PartitionId, Token};
use narad_core::partition::{Capture, Position};
use tokio::sync::Notify;

use super::error::AppendError;
use super::extents::Extents;
use super::names;
use super::note::LogNote;
use super::store::{PartitionStore, RECORD_BYTES_MAX, StoreFault};
use crate::clock::Clock;

pub(super) use listing::{CopyFault, prefix, scan};

/// Most bytes that are read from a store at once.
pub(super) const READ_BYTES: usize = 1 << 20;

/// What the gates of one node read.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) authority: RwLock<Authority>,
}

impl Ground {
    pub(super) fn authority(&self) -> Authority {
        *self.authority.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records that are durable and may be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Offset of the first one.
    pub first: Offset,
    /// Offset after the last one.
    pub end: Offset,
    /// The reign (S2).
    pub epoch: Epoch,
}

/// One partition's gate and log.
pub(super) struct Seat {
    partition: PartitionId,
    ground: Arc<Ground>,
    store: Arc<dyn PartitionStore>,
    inner: Mutex<Inner>,
    /// Held by whoever writes the log.
    writer: tokio::sync::Mutex<()>,
    /// Told when a freeze is answered.
    answered: Notify,
}

struct Inner {
    gate: Gate<OpId>,
    log: Option<Open>,
    /// Openings of a log in this process.
    openings: u64,
    answers: Vec<(OpId, Result<Capture, FreezeFault>)>,
}

struct Open {
    name: Arc<str>,
    opening: u64,
    start: Offset,
    end: Offset,
    hwm: Offset,
    note: LogNote,
    /// All records, once somebody wanted to copy them.
    extents: Option<Extents>,
    /// A write has failed: only a new opening says what is there.
    is_poisoned: bool,
}

/// An open log as it is now.
#[derive(Clone, Debug)]
struct View {
    name: Arc<str>,
    opening: u64,
    start: Offset,
    end: Offset,
    hwm: Offset,
    epoch: Epoch,
}

impl Seat {
    pub(super) fn new(
        partition: PartitionId,
        ground: Arc<Ground>,
        store: Arc<dyn PartitionStore>,
    ) -> Self {
        let gate = Gate::new(partition);
        let inner = Inner { gate, log: None, openings: 0, answers: Vec::new() };
        let (writer, answered) = (tokio::sync::Mutex::default(), Notify::new());
        Self { partition, ground, store, inner: Mutex::new(inner), writer, answered }
    }

    /// Appends records, makes them durable, and says whether they may be acknowledged. Must be run to
    /// its end: a gate whose admission is lost admits nothing more.
    pub(super) async fn append(&self, records: &[Bytes]) -> Result<Committed, AppendError> {
        if records.is_empty() {
            return Err(AppendError::Empty);
        }
        if let Some(long) = records.iter().find(|record| record.len() > RECORD_BYTES_MAX) {
            return Err(AppendError::TooLarge { bytes: long.len() });
        }
        let _writer = self.writer.lock().await;
        let (admission, name, first, mut note) = {
            let mut inner = self.lock();
            let log = inner.log.as_ref().filter(|log| !log.is_poisoned);
            let log = log.ok_or(AppendError::Refused(Refused::NotServing))?;
            let (name, first, note) = (Arc::clone(&log.name), log.end, log.note.clone());
            let (now, authority) = (self.ground.clock.now(), self.ground.authority());
            (inner.gate.admit(now, authority, None)?, name, first, note)
        };
        let epoch = admission.epoch();
        // That somebody wrote in this reign is known before anything of it is: a restarted owner
        // exposes what it finds only then (R41, H42).
        let noted = if note.epoch == epoch {
            Ok(())
        } else {
            note.epoch = epoch;
            self.store.write_note(&name, note.encode()).await
        };
        let appended = match noted {
            Ok(()) => self.store.append(&name, first, records).await,
            Err(fault) => Err(fault),
        };
        let end = Offset(first.0 + records.len() as u64);
        let outcome = match &appended {
            Ok(()) => Appended::Durable { end },
            Err(_) => Appended::Failed,
        };
        let mut inner = self.lock();
        let log = inner.log.as_mut().expect("a log that is written to stays open");
        match &appended {
            Ok(()) => {
                log.end = end;
                log.note.epoch = epoch;
                if let Some(extents) = &mut log.extents {
                    for record in records {
                        extents.push(record);
                    }
                }
            }
            Err(_) => log.is_poisoned = true,
        }
        let (now, authority) = (self.ground.clock.now(), self.ground.authority());
        let mut signals = Effects::default();
        let acknowledged = inner.gate.recheck(now, authority, admission, outcome, &mut signals);
        if let (Ok(Acknowledged { hwm, .. }), Some(log)) = (&acknowledged, &mut inner.log) {
            log.hwm = log.hwm.max(*hwm);
        }
        inner.take_signals(self.partition, &mut signals);
        drop(inner);
        self.answered.notify_waiters();
        appended?;
        acknowledged?;
        Ok(Committed { first, end, epoch })
    }

    /// Notes where consumers stand, durably. Refused while the partition is frozen: what comes after
    /// the capture would not move along.
    pub(super) async fn commit(&self, position: Position) -> Result<(), AppendError> {
        let _writer = self.writer.lock().await;
        let (name, note) = {
            let mut inner = self.lock();
            let (now, authority) = (self.ground.clock.now(), self.ground.authority());
            inner.gate.may_ack(now, authority, None)?;
            if inner.gate.is_frozen() {
                return Err(Refused::Frozen.into());
            }
            let log = inner.log.as_mut().filter(|log| !log.is_poisoned);
            let log = log.ok_or(AppendError::Refused(Refused::NotServing))?;
            let stands = position.committed.unwrap_or(log.start);
            let last = position.acked_ahead.last().map_or(stands, |offset| offset.next());
            let is_ascending = position.acked_ahead.is_sorted_by(|a, b| a < b)
                && position.acked_ahead.first().is_none_or(|first| *first >= stands)
                && position.acked_ahead.len() <= Position::ACKED_AHEAD_MAX;
            if stands.max(last) > log.hwm || !is_ascending {
                return Err(AppendError::NoPosition { hwm: log.hwm });
            }
            log.note.position = position;
            (Arc::clone(&log.name), log.note.clone())
        };
        let written = self.store.write_note(&name, note.encode()).await;
        Ok(written?)
    }

    /// Returns where consumers stand.
    pub(super) fn position(&self) -> Option<Position> {
        Some(self.lock().log.as_ref()?.note.position.clone())
    }

    /// Carries out `Operation::Host(Open)`.
    pub(super) async fn open(&self, data: Attempt, birth: Option<Offset>) -> Result<Opened, Fault> {
        let _writer = self.writer.lock().await;
        let name: Arc<str> = names::log(self.partition, data).into();
        let opened = self.open_log(&name, birth).await;
        let log = opened.inspect_err(|fault| {
            tracing::error!(partition = %self.partition, log = &*name, %fault, "cannot open the log");
        })?;
        let served = Some(log.note.epoch).filter(|epoch| *epoch > Epoch(0));
        let opened = Opened { end: log.end, served };
        let mut inner = self.lock();
        inner.openings += 1;
        inner.log = Some(Open { opening: inner.openings, ..log });
        Ok(opened)
    }

    async fn open_log(&self, name: &Arc<str>, birth: Option<Offset>) -> Result<Open, Fault> {
        let mut kept = self.store.open(name).await.map_err(host_fault)?;
        if let (None, Some(start)) = (&kept, birth) {
            let note = LogNote { hwm: start, ..LogNote::default() }.encode();
            self.store.create(name, start, note).await.map_err(host_fault)?;
            kept = self.store.open(name).await.map_err(host_fault)?;
        }
        let kept = kept.ok_or(Fault::Missing)?;
        let mut note = LogNote::decode(&kept.note).map_err(|_| Fault::Disk)?;
        note.generation = LogGeneration(note.generation.0 + 1);
        self.store.write_note(name, note.encode()).await.map_err(host_fault)?;
        let hwm = note.hwm.max(kept.start).min(kept.end);
        let (start, end, name) = (kept.start, kept.end, Arc::clone(name));
        Ok(Open { name, opening: 0, start, end, hwm, note, extents: None, is_poisoned: false })
    }

    /// Carries out `Operation::Host(Expose)`.
    pub(super) async fn expose(&self, epoch: Epoch) -> Result<(), Fault> {
        let _writer = self.writer.lock().await;
        let (name, note) = {
            let inner = self.lock();
            let log = inner.log.as_ref().ok_or(Fault::Missing)?;
            (Arc::clone(&log.name), LogNote { epoch, hwm: log.end, ..log.note.clone() })
        };
        self.store.write_note(&name, note.encode()).await.map_err(host_fault)?;
        let mut inner = self.lock();
        if let Some(log) = &mut inner.log {
            log.hwm = note.hwm;
            log.note = note;
        }
        Ok(())
    }

    /// Carries out `Operation::Host(Close)`: waits for an append under way.
    pub(super) async fn close(&self) {
        let _writer = self.writer.lock().await;
        let Some(log) = self.lock().log.take() else { return };
        if log.is_poisoned {
            return;
        }
        // Nothing relies on it: it spares the next opening an exposure, and old owners' readers.
        let note = LogNote { hwm: log.hwm, ..log.note };
        if let Err(fault) = self.store.write_note(&log.name, note.encode()).await {
            tracing::warn!(partition = %self.partition, %fault, "the log was not closed cleanly");
        }
    }

    /// Reads visible records.
    pub(super) async fn read(
        &self,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<(Offset, Bytes)>, AppendError> {
        let view = self.readable().ok_or(AppendError::Refused(Refused::NotServing))?;
        if from < view.start || from > view.hwm {
            return Err(AppendError::OutOfRange { start: view.start, hwm: view.hwm });
        }
        if from == view.hwm {
            return Ok(Vec::new());
        }
        let records = self.store.read(&view.name, from, bytes_max.min(READ_BYTES)).await?;
        Ok((from.0..view.hwm.0).map(Offset).zip(records).collect())
    }

    /// Carries out `Gating::Freeze`: waits for an append under way.
    pub(super) async fn freeze(
        &self,
        ticket: OpId,
        epoch: Epoch,
        life: Incarnation,
    ) -> Result<Capture, FreezeFault> {
        if let Err(fault) = self.warm().await {
            // The capture will fail, and says so.
            tracing::warn!(partition = %self.partition, %fault, "cannot read for a freeze");
        }
        self.command(Command::Freeze { ticket, epoch, life });
        loop {
            let answered = self.answered.notified();
            let mut answered = std::pin::pin!(answered);
            answered.as_mut().enable();
            if let Some(answer) = self.lock().take_answer(ticket) {
                return answer;
            }
            answered.await;
        }
    }

    /// Obeys the node.
    pub(super) fn command(&self, command: Command<OpId>) {
        let mut inner = self.lock();
        let (now, authority) = (self.ground.clock.now(), self.ground.authority());
        let mut signals = Effects::default();
        inner.gate.command(now, authority, command, &mut signals);
        inner.take_signals(self.partition, &mut signals);
        drop(inner);
        self.answered.notify_waiters();
    }

    /// Returns reign and high watermark, if the log is open.
    pub(super) fn watermark(&self) -> Option<(Epoch, Offset)> {
        self.readable().map(|view| (view.epoch, view.hwm))
    }

    /// Returns what consumers can see.
    pub(super) fn bounds(&self) -> Option<(Offset, Offset)> {
        self.readable().map(|view| (view.start, view.hwm))
    }

    /// Whether a write has failed, so that the log must be opened again.
    pub(super) fn is_poisoned(&self) -> bool {
        self.lock().log.as_ref().is_some_and(|log| log.is_poisoned)
    }

    fn readable(&self) -> Option<View> {
        let inner = self.lock();
        let epoch = match inner.gate.standing() {
            Standing::Reading { epoch } | Standing::Serving { epoch, .. } => epoch,
            Standing::Closed => return None,
        };
        let log = inner.log.as_ref().filter(|log| !log.is_poisoned)?;
        let Open { opening, start, end, hwm, .. } = *log;
        Some(View { name: Arc::clone(&log.name), opening, start, end, hwm, epoch })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing under this mutex is left half done by a panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take_answer(&mut self, ticket: OpId) -> Option<Result<Capture, FreezeFault>> {
        let at = self.answers.iter().position(|(answered, _)| *answered == ticket)?;
        Some(self.answers.swap_remove(at).1)
    }

    /// Captures for the freeze that has taken hold, with the mutex still held.
    fn take_signals(&mut self, partition: PartitionId, signals: &mut Effects<Signal<OpId>>) {
        for signal in signals.drain() {
            let answer = match signal {
                Signal::Frozen { ticket, token } => (ticket, self.capture(partition, token)),
                Signal::NotFrozen { ticket, why } => (ticket, Err(why.into())),
            };
            self.answers.push(answer);
        }
    }

    fn capture(&self, partition: PartitionId, token: Token) -> Result<Capture, FreezeFault> {
        let captured = self.log.as_ref().filter(|log| !log.is_poisoned).and_then(|log| {
            let position = log.note.position.clone();
            let listing = log.listing(token.no.incarnation, token.epoch, Vec::new())?;
            Some(Capture { token, listing, position, digest: log.extents.as_ref()?.digest() })
        });
        captured.ok_or_else(|| {
            tracing::error!(%partition, ?token, "the log cannot be listed under a freeze");
            FreezeFault::Unreadable { token }
        })
    }
}

fn host_fault(fault: StoreFault) -> Fault {
    match fault {
        StoreFault::NoSuchLog { .. } => Fault::Missing,
        StoreFault::Full => Fault::DiskFull,
        fault => {
            tracing::error!(%fault, "the store failed");
            Fault::Disk
        }
    }
}
