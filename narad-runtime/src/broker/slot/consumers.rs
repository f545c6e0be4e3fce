//! A slot's consumers: what they are handed, what they acknowledge, where they stand.
//!
//! Every call asks the gate first and then the [cursor](narad_core::cursor), under the slot's mutex.
//! Records are read outside of it, and what could not be read is given back.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use narad_core::cursor::{self, Acks, Answer, Cursor, Found, Handle, Lineage, Reserved, Taken};
use narad_core::freeze::gate::{Authority, Refused, Standing};
use narad_core::ids::{Epoch, Offset, PartitionId};
use narad_core::partition::Position;
use narad_core::time::Instant;

use super::{Inner, Slot, SlotError};
use crate::interleave::MutexGuard;
use crate::log::{LogError, lock};
use crate::store::PartitionLog;

/// Where the consumers of a partition stand, and what is left for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// The reign.
    pub epoch: Epoch,
    /// First offset that retention has kept.
    pub start: Offset,
    /// First offset that consumers cannot see.
    pub hwm: Offset,
    /// Offset after the acknowledged prefix, if anything of it was ever acknowledged.
    pub committed: Option<Offset>,
    /// Records that are acknowledged ahead of it.
    pub acked_ahead: u64,
    /// Records that are handed out, or were and wait to be handed out again.
    pub in_flight: u64,
    /// Visible records that are not acknowledged.
    pub backlog: u64,
}

/// The cursor of a slot.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    cursor: Option<Cursor>,
    /// Logs that were attached so far.
    openings: u64,
    /// Which of them the cursor serves.
    opening: u64,
    /// The reign of the cursor was succeeded.
    is_moved: bool,
    /// Somebody was refused because others have or have acknowledged too much.
    is_held_back: bool,
    /// Where it is said that the position may have changed, and whether it is said there.
    unsaved: Option<(PartitionId, Arc<Unsaved>)>,
    is_listed: bool,
}

/// The partitions whose consumers' position may have to be made durable: those that anybody has
/// had anything to do with since it last was.
#[derive(Debug, Default)]
pub struct Unsaved(Mutex<BTreeSet<PartitionId>>);

impl Unsaved {
    /// Takes them.
    pub fn take(&self) -> BTreeSet<PartitionId> {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl Consumers {
    /// Notes that another log was attached: the cursor serves it no more.
    pub(super) const fn next_opening(&mut self) {
        self.openings += 1;
    }

    /// Follows a log's bounds.
    pub(super) fn see(&mut self, log: &dyn PartitionLog) {
        if let Some(cursor) = self.current() {
            let bounds = log.bounds();
            cursor.advance(bounds.hwm);
            cursor.trim(bounds.start);
        }
    }

    /// Says where consumers stand, for a flip; `None` if they were never served here.
    pub(super) fn capture(&mut self) -> Option<Position> {
        Some(self.current()?.capture())
    }

    /// Says that the position may have changed.
    fn list(&mut self) {
        if !self.is_listed
            && let Some((partition, unsaved)) = &self.unsaved
        {
            lock(&unsaved.0).insert(*partition);
            self.is_listed = true;
        }
    }

    /// Returns the position if it is to be made durable. Until something else is done with the
    /// cursor there is no other.
    fn take_unsaved(&mut self) -> Option<Position> {
        self.is_listed = false;
        let cursor = self.cursor.as_mut().filter(|_| self.opening == self.openings);
        cursor.and_then(Cursor::to_save)
    }

    /// Returns the cursor of the last log that was attached, to do something with it.
    fn current(&mut self) -> Option<&mut Cursor> {
        self.list();
        self.cursor.as_mut().filter(|_| self.opening == self.openings)
    }
}

impl Slot {
    /// Has it said in a list when the consumers' position may have to be made durable.
    #[must_use]
    pub fn listed_in(mut self, unsaved: &Arc<Unsaved>) -> Self {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.consumers.unsaved = Some((self.partition, Arc::clone(unsaved)));
        self
    }

    /// Lets consumers go on at the attached log: where they stood when it was open before in the same
    /// reign, or else where the log says. Without a log nothing changes.
    pub fn resume(&self, lineage: Lineage) {
        let mut inner = self.lock();
        let Some(log) = inner.log.clone() else { return };
        let (of, bounds, stored) = (lineage.epoch(), log.bounds(), log.position());
        let consumers = &mut inner.consumers;
        let known = consumers.cursor.take().filter(|cursor| cursor.epoch() == of);
        let position = known.map_or_else(|| stored.clone(), |known| known.position().clone());
        let found = Found { position, of, start: bounds.start, hwm: bounds.hwm };
        let mut cursor = Cursor::resume(self.limits, lineage, found);
        if *cursor.position() != stored {
            cursor.save_failed();
        }
        consumers.cursor = Some(cursor);
        consumers.opening = consumers.openings;
        consumers.is_moved = false;
        consumers.list();
        self.release(inner);
    }

    /// Ends the service in a reign that is over, and returns what was acknowledged in it that the
    /// next owner may not know of (H28). `forced`: whether the next reign began without this one's
    /// capture.
    pub fn hand_over(&self, forced: bool) -> Acks {
        let mut inner = self.lock();
        let Some(cursor) = &mut inner.consumers.cursor else { return Acks::default() };
        cursor.moved(forced);
        let acks = cursor.forwardable();
        inner.consumers.is_moved = true;
        self.release(inner);
        acks
    }

    /// Takes what was acknowledged at a past owner; `None` if consumers are not served here now.
    pub fn take_acks(&self, acks: &Acks) -> Option<Taken> {
        let mut inner = self.lock();
        let (_, cursor) = self.acking(&mut inner).ok()?;
        let taken = cursor.take(acks).ok()?;
        self.room_is_made(inner);
        Some(taken)
    }

    /// Hands out up to `max` records for `visibility`, lowest first, and the log to read them from.
    /// None if there is nothing to do; [watch](Self::watch) for more, also until the
    /// [deadline](Self::consumer_deadline).
    ///
    /// # Errors
    ///
    /// If they may not be handed out here now, and [`SlotError::Consumer`] if there are records which
    /// only the limits hold back.
    pub fn reserve(
        &self,
        max: usize,
        visibility: Duration,
    ) -> Result<(Arc<dyn PartitionLog>, Reserved), SlotError> {
        let mut inner = self.lock();
        let (now, authority) = (self.standpoint.now(), self.standpoint.authority());
        if !inner.gate.may_reserve(now, authority) {
            return Err(inner.refusal(now, authority));
        }
        let log = inner.open_log()?;
        let reserved = inner.cursor()?.reserve(now, max, visibility);
        inner.consumers.is_held_back |= reserved.is_err();
        self.tell(inner, now);
        Ok((log, reserved?))
    }

    /// Takes records of a reservation back, from an offset on, as if they had not been handed out.
    pub fn give_back(&self, reserved: &Reserved, from: Offset) {
        let mut inner = self.lock();
        let now = self.standpoint.now();
        if let Some(cursor) = inner.consumers.current() {
            cursor.give_back(now, reserved, from);
        }
        self.tell(inner, now);
    }

    /// Acknowledges a record that was handed out.
    ///
    /// # Errors
    ///
    /// If this node may not take it now, or [`SlotError::Consumer`] with what the cursor says.
    pub fn ack(&self, handle: Handle) -> Result<Answer, SlotError> {
        let mut inner = self.lock();
        let (now, cursor) = self.acking(&mut inner)?;
        let answer = cursor.ack(now, handle)?;
        self.room_is_made(inner);
        Ok(answer)
    }

    /// Hands a record back: it is free at once, or after a delay.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn nack(&self, handle: Handle, delay: Duration) -> Result<(), SlotError> {
        let mut inner = self.lock();
        let (now, cursor) = self.acking(&mut inner)?;
        let known = cursor.deadline().map(|deadline| deadline.at);
        cursor.nack(now, handle, delay)?;
        self.tell_sooner(inner, now, known);
        Ok(())
    }

    /// Lets a consumer keep a record for `visibility` from now on, and returns for how long it does:
    /// there is a limit.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn extend(&self, handle: Handle, visibility: Duration) -> Result<Duration, SlotError> {
        let mut inner = self.lock();
        let (now, cursor) = self.acking(&mut inner)?;
        let known = cursor.deadline().map(|deadline| deadline.at);
        let until = cursor.extend(now, handle, visibility)?;
        self.tell_sooner(inner, now, known);
        Ok(until.since(now))
    }

    /// Acknowledges a record by its offset, whoever has it now. `claimed` is the reign in which the
    /// consumer has seen it.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn acknowledge(&self, claimed: Epoch, offset: Offset) -> Result<Answer, SlotError> {
        let mut inner = self.lock();
        let (_, cursor) = self.acking(&mut inner)?;
        let answer = cursor.acknowledge(claimed, offset)?;
        self.room_is_made(inner);
        Ok(answer)
    }

    /// Acknowledges every record below an offset. `claimed` is the reign in which the consumer has
    /// seen them.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn acknowledge_up_to(&self, claimed: Epoch, end: Offset) -> Result<Answer, SlotError> {
        let mut inner = self.lock();
        let (_, cursor) = self.acking(&mut inner)?;
        let answer = cursor.acknowledge_up_to(claimed, end)?;
        self.room_is_made(inner);
        Ok(answer)
    }

    /// Returns when a record is free again that nobody can be given now: a driver calls
    /// [`wake_consumers`](Self::wake_consumers) then. May change with every call.
    pub fn consumer_deadline(&self) -> Option<Instant> {
        Some(self.lock().consumers.current()?.deadline()?.at)
    }

    /// Returns how long it is until the [deadline](Self::consumer_deadline).
    pub fn free_in(&self) -> Option<Duration> {
        self.consumer_deadline().map(|at| at.since(self.standpoint.now()))
    }

    /// Lets time pass: whoever watches is told of records that have become free.
    pub fn wake_consumers(&self) {
        let inner = self.lock();
        self.tell(inner, self.standpoint.now());
    }

    /// Returns where consumers stand.
    ///
    /// # Errors
    ///
    /// If no log is open.
    pub fn position(&self) -> Result<Position, SlotError> {
        let mut inner = self.lock();
        let log = inner.open_log()?;
        let known = inner.consumers.current().map(|cursor| cursor.position().clone());
        Ok(known.unwrap_or_else(|| log.position()))
    }

    /// Returns where consumers stand, and what is left for them.
    ///
    /// # Errors
    ///
    /// If the partition is not open here, or not to be read here.
    pub fn offsets(&self) -> Result<Offsets, SlotError> {
        let mut inner = self.lock();
        let (log, epoch) = inner.readable()?;
        let bounds = log.bounds();
        let mut offsets = Offsets {
            epoch,
            start: bounds.start,
            hwm: bounds.hwm,
            committed: None,
            acked_ahead: 0,
            in_flight: 0,
            backlog: 0,
        };
        // The log's own word where consumers have not been served yet.
        let Position { committed, acked_ahead } = match inner.consumers.current() {
            Some(cursor) => {
                offsets.in_flight = cursor.in_flight() as u64;
                cursor.position().clone()
            }
            None => log.position(),
        };
        let frontier = committed.unwrap_or(bounds.start).max(bounds.start);
        offsets.committed = committed;
        offsets.acked_ahead = acked_ahead.len() as u64;
        offsets.backlog =
            bounds.hwm.0.saturating_sub(frontier.0).saturating_sub(offsets.acked_ahead);
        Ok(offsets)
    }

    /// Makes the consumers' position durable, if it has changed. Blocks on the disk, with the mutex
    /// free.
    ///
    /// # Errors
    ///
    /// If the disk fails; the position then stays to be stored.
    pub fn store_position(&self) -> Result<(), LogError> {
        let log = {
            let mut inner = self.lock();
            inner.consumers.is_listed = false;
            inner.log.clone()
        };
        log.map_or(Ok(()), |log| self.store_position_in(&*log))
    }

    /// Like [`store_position`](Self::store_position), for a log that was just [detached]: nothing is
    /// acknowledged any more.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// [detached]: Self::detach
    pub fn store_position_in(&self, log: &dyn PartitionLog) -> Result<(), LogError> {
        let _storing = self.storing.lock().unwrap_or_else(PoisonError::into_inner);
        let position = self.lock().consumers.take_unsaved();
        let Some(position) = position else { return Ok(()) };
        let stored = log.set_position(position);
        if stored.is_err()
            && let Some(cursor) = self.lock().consumers.current()
        {
            cursor.save_failed();
        }
        stored
    }

    /// Returns the cursor of an acknowledgement, if this node may take one now.
    fn acking<'a>(&self, inner: &'a mut Inner) -> Result<(Instant, &'a mut Cursor), SlotError> {
        let (now, authority) = (self.standpoint.now(), self.standpoint.authority());
        // The cursor judges reigns.
        if inner.gate.may_ack(now, authority, None).is_err() {
            return Err(inner.refusal(now, authority));
        }
        inner.open_log()?;
        Ok((now, inner.cursor()?))
    }

    /// Tells those who wait, if a record has become free.
    fn tell(&self, mut inner: MutexGuard<'_, Inner>, now: Instant) {
        if inner.consumers.current().is_some_and(|cursor| cursor.wake(now)) {
            self.release(inner);
        }
    }

    /// Tells those who wait, if a record has become free, or will sooner than at the
    /// [deadline](Self::consumer_deadline) that they wait for.
    fn tell_sooner(&self, mut inner: MutexGuard<'_, Inner>, now: Instant, known: Option<Instant>) {
        let Some(cursor) = inner.consumers.current() else { return };
        let is_free = cursor.wake(now);
        let next = cursor.deadline();
        if is_free || next.is_some_and(|next| known.is_none_or(|known| next.at < known)) {
            self.release(inner);
        }
    }

    /// Tells those whom only the limits have held back that something was acknowledged.
    fn room_is_made(&self, mut inner: MutexGuard<'_, Inner>) {
        if std::mem::take(&mut inner.consumers.is_held_back) {
            self.release(inner);
        }
    }
}

impl Inner {
    /// Forgets what was captured under a freeze that is over, unless the reign may be over as well.
    pub(super) fn forget_capture(&mut self) {
        let Standing::Serving { epoch, .. } = self.gate.standing() else { return };
        if !self.gate.is_frozen()
            && let Some(cursor) = self.consumers.current()
            && cursor.epoch() == epoch
        {
            cursor.thaw();
        }
    }

    /// Returns the cursor of the present log. That of another reign or opening serves nobody.
    fn cursor(&mut self) -> Result<&mut Cursor, SlotError> {
        let reign = match self.gate.standing() {
            Standing::Serving { epoch, .. } | Standing::Reading { epoch } => Some(epoch),
            Standing::Closed => None,
        };
        let cursor = self.consumers.current().ok_or(Refused::NotServing)?;
        if reign.is_some_and(|reign| reign != cursor.epoch()) {
            return Err(Refused::NotServing.into());
        }
        Ok(cursor)
    }

    /// Says why consumers are not served now: whoever comes to a past owner is told so (R49).
    fn refusal(&self, now: Instant, authority: Authority) -> SlotError {
        if self.consumers.is_moved {
            return cursor::Refused::Moved.into();
        }
        self.gate.may_ack(now, authority, None).err().unwrap_or(Refused::NotServing).into()
    }
}
