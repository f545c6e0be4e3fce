//! One partition that is, or was, live on this node: its gate beside its log, under one mutex.
//!
//! Everything here blocks: on the disk, or on an append that must end first. The node loop and
//! the produce path call it from threads that may wait.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use narad_core::effects::Effects;
use narad_core::freeze::gate::{
    Acknowledged, Appended as Ended, Authority, Command, Gate, NotFrozen, Refused, Signal, Standing,
};
use narad_core::ids::{Attempt, ByteCount, Epoch, Incarnation, Offset, PartitionId, Token};
use narad_core::partition::{Capture, Listing, Position, Staged};
use narad_core::time::Instant;

use crate::log::{LogError, Record};
use crate::store::PartitionLog;

/// Reads what a slot needs to know of the node as a whole.
pub trait Standpoint: Send + Sync {
    /// Returns the node's clock.
    fn now(&self) -> Instant;
    /// Returns what the node as a whole may do.
    fn authority(&self) -> Authority;
}

/// Names a freeze until it has a token.
type Ticket = u64;

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
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The gate did not freeze.
    #[error(transparent)]
    NotFrozen(#[from] NotFrozen),
    /// No log is open here.
    #[error("the partition is not open on this node: look the owner up again")]
    NotOpen,
}

/// One partition's gate and log.
pub struct Slot {
    partition: PartitionId,
    standpoint: Arc<dyn Standpoint>,
    inner: Mutex<Inner>,
    /// Told whenever an append ends or a freeze is answered.
    ended: Condvar,
}

struct Inner {
    gate: Gate<Ticket>,
    log: Option<Arc<dyn PartitionLog>>,
    appending: bool,
    tickets: Ticket,
    /// Answers of freezes that had to wait for an append.
    answered: Option<(Ticket, Result<Capture, SlotError>)>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("partition", &self.partition).finish_non_exhaustive()
    }
}

impl Slot {
    /// Makes a slot with a closed gate and no log.
    pub fn new(partition: PartitionId, standpoint: Arc<dyn Standpoint>) -> Self {
        let gate = Gate::new(partition);
        let inner = Inner { gate, log: None, appending: false, tickets: 0, answered: None };
        Self { partition, standpoint, inner: Mutex::new(inner), ended: Condvar::new() }
    }

    /// Appends records, makes them durable, and says whether they may be acknowledged.
    ///
    /// # Errors
    ///
    /// If the gate refuses, before or after the append, or if the log fails. A record that was
    /// refused after the append stays hidden; its sender tries again (S11). After
    /// [`LogError::Poisoned`] the log must be opened anew.
    pub fn commit(
        &self,
        records: &[Record],
        claimed: Option<Epoch>,
    ) -> Result<Committed, SlotError> {
        let (admission, log) = {
            let mut inner = self.lock();
            let log = inner.open_log()?;
            let (now, authority) = (self.standpoint.now(), self.standpoint.authority());
            let admission = inner.gate.admit(now, authority, claimed)?;
            inner.appending = true;
            (admission, log)
        };
        let epoch = admission.epoch();
        let appended = log.append(records, epoch);

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
        inner.take_signals(&mut signals);
        drop(inner);
        self.ended.notify_all();

        let appended = appended?;
        exposed?;
        Ok(Committed { first: appended.first, end: appended.end, epoch })
    }

    /// Takes an opened log; the gate stays closed.
    pub fn attach(&self, log: Arc<dyn PartitionLog>) {
        self.lock().log = Some(log);
    }

    /// Changes how the gate stands.
    pub fn stand(&self, standing: Standing) {
        let mut inner = self.lock();
        self.command(&mut inner, Command::Stand(standing));
        drop(inner);
        self.ended.notify_all();
    }

    /// Closes the gate, waits for the append under way, and lets go of the log.
    pub fn detach(&self) -> Option<Arc<dyn PartitionLog>> {
        self.stand(Standing::Closed);
        let mut inner = self.lock();
        while inner.appending {
            inner = self.ended.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner.log.take()
    }

    /// Freezes accept and commit and captures the boundary; waits for an append under way, but not
    /// longer than `admission_max` (field fault 4).
    ///
    /// # Errors
    ///
    /// If the gate does not freeze, or the log cannot be listed (then the freeze has ended again).
    pub fn freeze(
        &self,
        epoch: Epoch,
        life: Incarnation,
        admission_max: Duration,
    ) -> Result<Capture, SlotError> {
        let mut inner = self.lock();
        inner.tickets += 1;
        let ticket = inner.tickets;
        self.command(&mut inner, Command::Freeze { ticket, epoch, life });
        let until = self.standpoint.now().after(admission_max);
        loop {
            if let Some((answered, result)) = inner.answered.take() {
                assert_eq!(answered, ticket, "one freeze is asked for at a time");
                return result;
            }
            let left = until.since(self.standpoint.now());
            if left.is_zero() {
                self.command(&mut inner, Command::GiveUp { ticket });
                continue;
            }
            let waited = self.ended.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the freeze of a token.
    pub fn thaw(&self, token: Token) {
        let mut inner = self.lock();
        self.command(&mut inner, Command::Thaw { token });
    }

    /// Lists what is durable.
    ///
    /// # Errors
    ///
    /// If no log is open, or it cannot be read.
    pub fn list(
        &self,
        life: Incarnation,
        epoch: Epoch,
        check: &[Staged],
    ) -> Result<Listing, SlotError> {
        let log = self.lock().open_log()?;
        Ok(log.listing(life, epoch, check)?)
    }

    /// Returns the open log, for reads that need no gate.
    ///
    /// # Errors
    ///
    /// If the partition is not open here, or not to be read here.
    pub fn readable(&self) -> Result<(Arc<dyn PartitionLog>, Epoch), SlotError> {
        let inner = self.lock();
        let epoch = match inner.gate.standing() {
            Standing::Reading { epoch } | Standing::Serving { epoch, .. } => epoch,
            Standing::Closed => return Err(SlotError::NotOpen),
        };
        Ok((inner.open_log()?, epoch))
    }

    /// Takes a consumer's acknowledgement.
    ///
    /// # Errors
    ///
    /// If this node may not take it now, if it is of another reign (H44), or if it is out of
    /// range.
    pub fn acknowledge(
        &self,
        claimed: Epoch,
        change: impl FnOnce(&dyn PartitionLog) -> Result<(), LogError>,
    ) -> Result<(), SlotError> {
        let inner = self.lock();
        let log = inner.open_log()?;
        let Standing::Serving { epoch, .. } = inner.gate.standing() else {
            return Err(SlotError::NotOpen);
        };
        if claimed != epoch {
            return Err(Refused::OtherEpoch { current: epoch }.into());
        }
        if !inner.gate.may_ack(self.standpoint.now(), self.standpoint.authority()) {
            return Err(Refused::NoLease.into());
        }
        Ok(change(&*log)?)
    }

    fn command(&self, inner: &mut Inner, command: Command<Ticket>) {
        let (now, authority) = (self.standpoint.now(), self.standpoint.authority());
        let mut signals = Effects::default();
        inner.gate.command(now, authority, command, &mut signals);
        inner.take_signals(&mut signals);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic under this mutex has left the gate as it was before the call or after it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn open_log(&self) -> Result<Arc<dyn PartitionLog>, SlotError> {
        self.log.clone().ok_or(SlotError::NotOpen)
    }

    /// Captures for each freeze that has taken hold, with the mutex still held.
    fn take_signals(&mut self, signals: &mut Effects<Signal<Ticket>>) {
        for signal in signals.drain().collect::<Vec<_>>() {
            let (ticket, result) = match signal {
                Signal::Frozen { ticket, token } => (ticket, self.capture(token)),
                Signal::NotFrozen { ticket, why } => (ticket, Err(why.into())),
            };
            self.answered = Some((ticket, result));
        }
    }

    /// Captures the consumers' position before the high watermark: too low a position costs
    /// duplicates, too high a one loses records (R50, case O65).
    fn capture(&mut self, token: Token) -> Result<Capture, SlotError> {
        let log = self.open_log()?;
        let captured = (|| {
            let position = log.position();
            let listing = log.listing(token.no.incarnation, token.epoch, &[])?;
            let digest = log.digest()?;
            Ok::<_, LogError>(Capture { token, listing, position, digest })
        })();
        // A freeze that captured nothing was never told to anybody, so it may end here.
        if captured.is_err() {
            self.gate.end_untold_freeze(token);
        }
        Ok(captured?)
    }
}
