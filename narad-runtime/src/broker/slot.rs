//! One partition that is, or was, live on this node: its gate beside its log and its consumers, under
//! one mutex.
//!
//! What waits is made of phases that do not. [`Slot::commit`] is [`begin`](Slot::begin), an append
//! outside the mutex, and [`finish`](Slot::finish); [`Slot::freeze`] is
//! [`begin_freeze`](Slot::begin_freeze) and [`take_answer`](Slot::take_answer) once it is there.
//! The node loop and the produce path block on threads of their own; a driver of one thread, such as
//! a simulation, takes the phases one by one and lets anything happen in between.

mod consumers;
mod freezing;
mod receive;
#[cfg(all(test, shuttle))]
mod schedules;
mod settle;
#[cfg(test)]
mod tests;
mod watch;

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use narad_core::cursor;
use narad_core::dispatch::Receiver;
use narad_core::effects::{Effects, OpId};
use narad_core::freeze::gate::{
    Acknowledged, Admission, Appended as Ended, Authority, Command, Gate, Refused, Signal, Standing,
};
use narad_core::freeze::handoff::FreezeFault;
use narad_core::ids::{Epoch, Incarnation, Offset, PartitionId, Token};
use narad_core::partition::{Capture, Listing, Staged};
use narad_core::time::Instant;

use crate::interleave::{Condvar, Mutex, MutexGuard};
use crate::log::{Appended, LogError, Record, Retained, Retention};
use crate::store::PartitionLog;
use consumers::Consumers;
use watch::Watchers;

pub use consumers::{Offsets, Unsaved};
pub use watch::Watch;

/// Reads what a slot needs to know of the node as a whole.
pub trait Standpoint: Send + Sync {
    /// Returns the node's clock.
    fn now(&self) -> Instant;
    /// Returns what the node as a whole may do.
    fn authority(&self) -> Authority;
    /// Is told of each append that has ended, before it is asked whether that may be acknowledged; for
    /// tests that stop a process there.
    fn appended(&self) {}
}

/// A batch that was made durable and may be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Offset of its first record.
    pub first: Offset,
    /// Offset after its last record.
    pub end: Offset,
    /// The reign, for the acknowledgement (S2).
    pub epoch: Epoch,
}

/// Why a slot did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// The gate refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The gate would let it pass, but the consumers' side does not.
    #[error(transparent)]
    Consumer(#[from] cursor::Refused),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// No log is open here.
    #[error("the partition is not open on this node: look the owner up again")]
    NotOpen,
}

/// An append that was admitted, until its outcome comes back to [`Slot::finish`].
///
/// A slot whose pending append is dropped admits nothing more.
#[derive(Debug)]
#[must_use = "a slot whose pending append is lost admits nothing more"]
pub struct Pending {
    admission: Admission,
    log: Arc<dyn PartitionLog>,
}

impl Pending {
    /// Returns the reign in which the append happens.
    pub const fn epoch(&self) -> Epoch {
        self.admission.epoch()
    }

    /// Returns the log that the records go to.
    pub fn log(&self) -> &Arc<dyn PartitionLog> {
        &self.log
    }

    /// Appends records and makes them durable. Blocks on the disk, with no mutex of the slot held.
    ///
    /// # Errors
    ///
    /// As [`PartitionLog::append`].
    pub fn append(&self, records: &[Record]) -> Result<Appended, LogError> {
        self.log.append(records, self.epoch())
    }
}

/// What was asked for waits until the append under way has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an append to the partition is under way: finish it first")]
pub struct AppendUnderWay;

/// How a freeze was answered.
pub type FreezeAnswer = Result<Capture, FreezeFault>;

/// One partition's gate, log and consumers.
pub struct Slot {
    partition: PartitionId,
    standpoint: Arc<dyn Standpoint>,
    limits: cursor::Limits,
    inner: Mutex<Inner>,
    /// Held while a consumers' position is on its way to the disk, so that an older one never
    /// replaces a newer one; taken before `inner`.
    storing: Mutex<()>,
    /// Held while damage is settled, so that none is settled twice.
    settling: Mutex<()>,
    /// Told whenever an append ends or a freeze is answered.
    ended: Condvar,
}

struct Inner {
    gate: Gate<OpId>,
    log: Option<Arc<dyn PartitionLog>>,
    consumers: Consumers,
    /// Which batches of which nodes were taken, as long as the log stays open.
    receiver: Receiver,
    /// An append runs outside the mutex.
    appending: bool,
    /// Answers of freezes, until whoever asked has taken them.
    answered: Vec<(OpId, FreezeAnswer)>,
    /// Threads that wait for `ended`; telling nobody would cost a system call for every append.
    waiting: usize,
    /// Those who wait for a change.
    watchers: Watchers,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("partition", &self.partition).finish_non_exhaustive()
    }
}

impl Slot {
    /// Makes a slot with a closed gate and no log. One slot serves a partition for the whole life
    /// of a process, so that no freeze token repeats.
    pub fn new(partition: PartitionId, standpoint: Arc<dyn Standpoint>) -> Self {
        Self::with_limits(partition, standpoint, cursor::Limits::default())
    }

    /// Makes a slot whose consumers may take so much.
    pub fn with_limits(
        partition: PartitionId,
        standpoint: Arc<dyn Standpoint>,
        limits: cursor::Limits,
    ) -> Self {
        let inner = Inner {
            gate: Gate::new(partition),
            log: None,
            consumers: Consumers::default(),
            receiver: Receiver::default(),
            appending: false,
            answered: Vec::new(),
            waiting: 0,
            watchers: Watchers::default(),
        };
        let (storing, settling) = (Mutex::default(), Mutex::default());
        let (inner, ended) = (Mutex::new(inner), Condvar::new());
        Self { partition, standpoint, limits, inner, storing, settling, ended }
    }

    /// Returns what consumers may take.
    pub const fn limits(&self) -> &cursor::Limits {
        &self.limits
    }

    /// Returns the partition.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Appends records, makes them durable, and says whether they may be acknowledged.
    ///
    /// One caller at a time; the [batcher](super::batch) sees to that.
    ///
    /// # Errors
    ///
    /// If the gate refuses, before or after the append, or if the log fails. A record that was
    /// refused after the append stays hidden; its sender tries again (S11). After an error of the
    /// disk the log must be opened anew.
    pub fn commit(
        &self,
        records: &[Record],
        claimed: Option<Epoch>,
    ) -> Result<Committed, SlotError> {
        let pending = self.begin(claimed)?;
        let appended = pending.append(records);
        self.standpoint.appended();
        self.finish(pending, appended)
    }

    /// Asks for leave to append. Until the outcome comes back nothing else is admitted, and neither
    /// a freeze nor a [detach](Self::detach) takes hold.
    ///
    /// # Errors
    ///
    /// If no log is open, or the gate refuses.
    pub fn begin(&self, claimed: Option<Epoch>) -> Result<Pending, SlotError> {
        let mut inner = self.lock();
        let log = inner.open_log()?;
        let (now, authority) = (self.standpoint.now(), self.standpoint.authority());
        let admission = inner.gate.admit(now, authority, claimed)?;
        inner.appending = true;
        Ok(Pending { admission, log })
    }

    /// Takes the outcome of an append and says whether it may be acknowledged.
    ///
    /// A failure is brought here only once nothing of that append can reach the log any more.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn finish(
        &self,
        pending: Pending,
        appended: Result<Appended, LogError>,
    ) -> Result<Committed, SlotError> {
        let Pending { admission, log } = pending;
        let epoch = admission.epoch();
        let mut inner = self.lock();
        let outcome = match &appended {
            Ok(appended) => Ended::Durable { end: appended.end },
            Err(_) => Ended::Failed,
        };
        let (now, authority) = (self.standpoint.now(), self.standpoint.authority());
        let mut signals = Effects::default();
        let acknowledged = inner.gate.recheck(now, authority, admission, outcome, &mut signals);
        inner.appending = false;
        let exposed = match acknowledged {
            Ok(Acknowledged { hwm, .. }) => log.expose(hwm).map_err(SlotError::from),
            Err(refused) => Err(SlotError::from(refused)),
        };
        inner.consumers.see(&*log);
        inner.take_signals(&mut signals);
        self.release(inner);

        let appended = appended?;
        exposed?;
        Ok(Committed { first: appended.first, end: appended.end, epoch })
    }

    /// Takes an opened log. How the gate stands is another matter, and consumers are served once
    /// they [resume](Self::resume).
    pub fn attach(&self, log: Arc<dyn PartitionLog>) {
        let mut inner = self.lock();
        inner.log = Some(log);
        inner.consumers.next_opening();
        inner.receiver = Receiver::default();
    }

    /// Waits for the append under way and lets go of the log; the gate stands as it did.
    pub fn detach(&self) -> Option<Arc<dyn PartitionLog>> {
        let mut inner = self.lock();
        while inner.appending {
            inner = self.wait(inner);
        }
        self.let_go(inner)
    }

    /// Like [`detach`](Self::detach), but does not wait.
    ///
    /// # Errors
    ///
    /// While an append is under way; the log then stays.
    pub fn try_detach(&self) -> Result<Option<Arc<dyn PartitionLog>>, AppendUnderWay> {
        let inner = self.lock();
        if inner.appending { Err(AppendUnderWay) } else { Ok(self.let_go(inner)) }
    }

    fn let_go(&self, mut inner: MutexGuard<'_, Inner>) -> Option<Arc<dyn PartitionLog>> {
        let log = inner.log.take();
        self.release(inner);
        log
    }

    /// Returns the open log, for whoever owns the partition's life: opening, exposing, copying.
    ///
    /// # Errors
    ///
    /// If no log is open.
    pub fn log(&self) -> Result<Arc<dyn PartitionLog>, SlotError> {
        self.lock().open_log()
    }

    /// Changes how the gate stands.
    pub fn stand(&self, standing: Standing) {
        let mut inner = self.lock();
        self.command(&mut inner, Command::Stand(standing));
        self.release(inner);
    }

    /// Lists what is durable.
    ///
    /// # Errors
    ///
    /// If no log is open, or it cannot be read.
    pub fn list(&self, life: Incarnation, check: &[Staged]) -> Result<Listing, SlotError> {
        let (log, epoch) = self.readable()?;
        Ok(log.listing(life, epoch, check)?)
    }

    /// Returns the open log and its reign, for plain reads.
    ///
    /// # Errors
    ///
    /// If the partition is not open here, or not to be read here.
    pub fn readable(&self) -> Result<(Arc<dyn PartitionLog>, Epoch), SlotError> {
        self.lock().readable()
    }

    /// Returns the reign in which this node may acknowledge right now, a freeze apart; `None` if it
    /// may not. To look at: whoever acts goes through [`begin`](Self::begin) or
    /// [`acknowledge`](Self::acknowledge).
    pub fn serving(&self) -> Option<Epoch> {
        let inner = self.lock();
        let (now, authority) = (self.standpoint.now(), self.standpoint.authority());
        match inner.gate.standing() {
            Standing::Serving { epoch, .. } if inner.gate.may_reserve(now, authority) => {
                Some(epoch)
            }
            Standing::Serving { .. } | Standing::Reading { .. } | Standing::Closed => None,
        }
    }

    /// Returns how the gate stands, and whether a freeze holds or waits.
    pub fn standing(&self) -> (Standing, bool) {
        let inner = self.lock();
        (inner.gate.standing(), inner.gate.is_frozen())
    }

    /// Lets retention work on the log; `None` if it may not now, since the partition is frozen or not
    /// served here (field fault 6). Blocks on the disk with the mutex held, so that no freeze begins
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// If no log is open, or the log fails.
    pub fn retain(&self, keep: &Retention, now_ms: i64) -> Result<Option<Retained>, SlotError> {
        let mut inner = self.lock();
        let log = inner.open_log()?;
        if !inner.gate.may_mutate() {
            return Ok(None);
        }
        let retained = log.retain(keep, now_ms);
        inner.consumers.see(&*log);
        self.release(inner);
        Ok(Some(retained?))
    }

    /// Returns whether a record that is durable would be acknowledged now.
    pub fn commits(&self) -> bool {
        let inner = self.lock();
        let (now, authority) = (self.standpoint.now(), self.standpoint.authority());
        inner.log.is_some()
            && !inner.gate.is_frozen()
            && inner.gate.may_ack(now, authority, None).is_ok()
    }

    fn command(&self, inner: &mut Inner, command: Command<OpId>) {
        let (now, authority) = (self.standpoint.now(), self.standpoint.authority());
        let mut signals = Effects::default();
        inner.gate.command(now, authority, command, &mut signals);
        inner.take_signals(&mut signals);
        inner.forget_capture();
    }

    /// Gives the mutex free and tells everybody that something has changed.
    fn release(&self, mut inner: MutexGuard<'_, Inner>) {
        let watchers = inner.watchers.change();
        let is_awaited = inner.waiting > 0;
        drop(inner);
        if is_awaited {
            self.ended.notify_all();
        }
        watchers.for_each(Waker::wake);
    }

    /// Waits until something has ended, or for no reason at all.
    fn wait<'a>(&self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        inner.waiting += 1;
        let mut inner = self.ended.wait(inner).unwrap_or_else(PoisonError::into_inner);
        inner.waiting -= 1;
        inner
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing under this mutex is left half done by a panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn open_log(&self) -> Result<Arc<dyn PartitionLog>, SlotError> {
        self.log.clone().ok_or(SlotError::NotOpen)
    }

    fn readable(&self) -> Result<(Arc<dyn PartitionLog>, Epoch), SlotError> {
        let epoch = match self.gate.standing() {
            Standing::Reading { epoch } | Standing::Serving { epoch, .. } => epoch,
            Standing::Closed => return Err(SlotError::NotOpen),
        };
        Ok((self.open_log()?, epoch))
    }

    /// Captures for the freeze that has taken hold, with the mutex still held.
    fn take_signals(&mut self, signals: &mut Effects<Signal<OpId>>) {
        for signal in signals.drain() {
            let answer = match signal {
                Signal::Frozen { ticket, token } => (ticket, self.capture(token)),
                Signal::NotFrozen { ticket, why } => (ticket, Err(why.into())),
            };
            self.answered.push(answer);
        }
    }

    fn take_answer(&mut self, ticket: OpId) -> Option<FreezeAnswer> {
        let at = self.answered.iter().position(|(answered, _)| *answered == ticket)?;
        Some(self.answered.swap_remove(at).1)
    }

    /// Captures the consumers' position before the high watermark: too low a position costs
    /// duplicates, too high a one loses records (R50, case O65).
    fn capture(&mut self, token: Token) -> Result<Capture, FreezeFault> {
        let captured = self.open_log().and_then(|log| {
            let position = self.consumers.capture().unwrap_or_else(|| log.position());
            let listing = log.listing(token.no.incarnation, token.epoch, &[])?;
            Ok(Capture { token, listing, position, digest: log.digest() })
        });
        captured.map_err(|error| {
            tracing::error!(?token, %error, "the log cannot be listed under a freeze");
            FreezeFault::Unreadable { token }
        })
    }
}
