//! The consumers' side of one partition on its owner: what is handed out, what is acknowledged.
//!
//! # Purpose
//!
//! A partition is a queue with one committed position (there are no groups). Consumers reserve
//! records, and acknowledge, hand back or extend each by its [`Handle`]; what is not acknowledged in
//! time is handed out again, lowest first. The cursor is plain memory: the runtime keeps it beside the
//! [gate](crate::freeze::gate) and the log, under the same mutex, and calls it inline. One cursor
//! serves one opening of a log.
//!
//! # States
//!
//! Of a record below the high watermark; from each of them an acknowledgement leads to the last:
//!
//! ```text
//!        reserve            nack, later
//!  new ──────────▶ held ──────────────────▶ resting       acknowledged
//!                  │  ▲                        │
//!     nack at once │  │ reserve                │ time is up
//!    or time is up ▼  │                        │
//!                  free ◀──────────────────────┘
//! ```
//!
//! Of the cursor:
//!
//! ```text
//!            capture               moved
//!  Serving ───────────▶ Captured ─────────▶ Moved
//!     │ ◀──── thaw ────────┘                  ▲
//!     └──────────────── moved ────────────────┘
//! ```
//!
//! Consumers notice nothing of a capture (R48): records are reserved and acknowledged as before.
//! What is acknowledged from then on counts here, in case of a thaw, and is what
//! [`Cursor::forwardable`] tells of, in case of a flip (H28, R52).
//!
//! # Reigns
//!
//! A handle carries the reign in which its record was handed out. An acknowledgement of an earlier
//! reign counts for what lies below the beginning of the next one, where both have the same
//! records; past that it is void, since another record may have its offset by now (H15, H44, S7).
//! Reservations do not travel (R51): an older handle is good for an acknowledgement and for nothing
//! else.
//!
//! # The driver's part
//!
//! - Whether this node may reserve and acknowledge at all is the gate's word:
//!   [`may_reserve`](crate::freeze::Gate::may_reserve), and
//!   [`may_ack`](crate::freeze::Gate::may_ack) with no reign claimed, since the cursor judges reigns
//!   better. Both are asked first, under the same mutex.
//! - [`Cursor::advance`] follows the high watermark, [`Cursor::trim`] retention.
//! - Under a freeze, [`Cursor::capture`] comes before the high watermark is read (R50, case O65);
//!   [`Cursor::thaw`] when the freeze ends without a flip, for whatever reason; [`Cursor::moved`]
//!   once a row of a later reign is applied. What is forwardable then goes to the present owner,
//!   again and again until that has answered [`Cursor::take`]; doing it twice changes nothing.
//! - At [`Cursor::deadline`] the driver calls [`Cursor::wake`], and tells waiting consumers if that
//!   says so. It asks for the deadline after every call: a record that was handed back is free at
//!   once.
//! - The position is made durable lazily: [`Cursor::to_save`].
//!
//! # Invariants
//!
//! 1. An acknowledged record is not handed out again while the cursor lives.
//! 2. Every record from the frontier up to the next new one is either acknowledged or known as
//!    reserved, resting or free: none is forgotten (S11).
//! 3. At most [`Limits::in_flight_max`] records are in flight, and with those that are acknowledged
//!    ahead they are at most [`Position::ACKED_AHEAD_MAX`] plus one (asserted), so that there is
//!    always room to acknowledge what was handed out.
//! 4. The frontier never goes back, and nothing at or above the high watermark is acknowledged
//!    (S7).
//! 5. A record is held by one handle at a time.
//!
//! # After a restart
//!
//! Only the position is left: everything else that was handed out is handed out again, with its
//! deliveries counted from one. An acknowledgement of an earlier opening of the same reign counts.
//!
//! # Example
//!
//! What one consumer does not finish in time, another gets; a late answer is then refused:
//!
//! ```
//! use core::time::Duration;
//! use narad_core::cursor::{Answer, Cursor, Found, Limits, Lineage, Refused};
//! use narad_core::ids::{Delivery, Offset};
//! use narad_core::time::Instant;
//! # use narad_core::ids::{Attempt, Epoch, MoveId, NodeId};
//! # use narad_core::metastore::{Assignment, Reign, Residue};
//! # let (owner, data, epoch) = (NodeId(1), Attempt::birth(NodeId(1)), Epoch(1));
//! # let reign = Reign { epoch, start: Offset(0), owner, data, residue: Residue::None };
//! # let row = Assignment {
//! #     owner, epoch, data, min_end: Offset(0), lineage: vec![reign], lineage_cut: false, target: None,
//! #     move_id: MoveId(1), burned: None, revoked: None, reported_hwm: None, pinned: false,
//! # };
//!
//! let found = Found { of: row.epoch, hwm: Offset(3), ..Found::default() };
//! let mut cursor = Cursor::resume(Limits::default(), Lineage::of(&row), found);
//! let (now, second) = (Instant::ORIGIN, Duration::from_secs(1));
//!
//! let slow = cursor.reserve(now, 1, second).expect("served here").handles().next().expect("one");
//! let quick: Vec<_> = cursor.reserve(now, 9, 9 * second).expect("served here").handles().collect();
//! assert_eq!(cursor.ack(now, quick[1]), Ok(Answer::Acked));
//! assert_eq!(cursor.position().acked_ahead, [Offset(2)]);
//!
//! let now = now.after(second);
//! let again = cursor.reserve(now, 9, second).expect("served here").handles().next().expect("one");
//! assert_eq!((again.offset, again.delivery), (Offset(0), Delivery(2)));
//! assert_eq!(cursor.ack(now, slow), Err(Refused::Superseded { by: Delivery(2) }));
//! assert_eq!(cursor.ack(now, again), Ok(Answer::Acked));
//! assert_eq!(cursor.position().committed, Some(Offset(1)));
//! ```

use core::mem;
use core::time::Duration;

use self::frontier::{Base, Frontier};
use self::judge::after;
use self::reservations::{Hold, Reservation, Reservations};
use crate::effects::Deadline;
use crate::ids::{Delivery, Epoch, Offset};
use crate::partition::Position;
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

pub use interface::{Acks, Answer, Found, Handle, Limits, Refused, Reserved, Run, Span, Taken};
pub use lineage::Lineage;

mod frontier;
mod interface;
mod judge;
mod lineage;
mod reservations;

/// The consumers' side of one partition; see the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    limits: Limits,
    lineage: Lineage,
    frontier: Frontier,
    hwm: Offset,
    /// The lowest record that was never handed out here.
    next: Offset,
    reservations: Reservations,
    stage: Stage,
    /// Whether the position has changed since it was last taken to be saved.
    is_unsaved: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Serving,
    /// What was acknowledged when it was captured: acknowledgements since may have to be forwarded.
    Captured(Base),
    /// The partition is another's. `None`: nothing was captured, so the next owner may know
    /// nothing of what was acknowledged here.
    Moved(Option<Base>),
}

impl Cursor {
    /// Goes on from where consumers stood, in a reign that may be another one: whatever is at or
    /// past the beginning of the reign after the found one's is dropped, as is everything at or
    /// past the high watermark (H15, S7, cases O65, O67).
    #[must_use]
    pub fn resume(limits: Limits, lineage: Lineage, found: Found) -> Self {
        let Found { position, of, start, hwm } = found;
        let hwm = hwm.max(start);
        let end = if is_planted(Bug::PositionNotClamped) {
            Offset(u64::MAX)
        } else {
            lineage.end_of(of).map_or(hwm, |end| end.min(hwm))
        };
        let frontier = Frontier::new(position.clone(), start, end);
        let is_unsaved = *frontier.position() != position;
        let next = frontier.at();
        let reservations = Reservations::default();
        let stage = Stage::Serving;
        Self { limits, lineage, frontier, hwm, next, reservations, stage, is_unsaved }
    }

    /// Hands out up to `max` records for `visibility`, lowest first: those that were handed out
    /// before and are free again come before new ones. Fewer come if fewer are visible or allowed;
    /// none if there is nothing to do.
    ///
    /// # Errors
    ///
    /// [`Refused::TooManyInFlight`] or [`Refused::TooFarAhead`] if there are records that only the
    /// limits hold back, and [`Refused::Moved`].
    pub fn reserve(
        &mut self,
        now: Instant,
        max: usize,
        visibility: Duration,
    ) -> Result<Reserved, Refused> {
        self.serves()?;
        self.reservations.expire(now);
        let until = now.after(visibility.min(self.limits.visibility_max));
        let mut reserved = Reserved { epoch: self.epoch(), until, runs: alloc::vec![] };
        let mut left = max;
        let mut held_back = None;
        while left > 0 {
            let free = self.reservations.first_free();
            let Some(offset) = free.or_else(|| self.next_new()) else { break };
            if offset >= self.next {
                held_back = self.holds_back_new();
                if held_back.is_some() {
                    break;
                }
                self.next = offset.next();
            }
            reserved.push(offset, self.reservations.hand_out(offset, until));
            left -= 1;
        }
        self.check_bounds();
        match held_back {
            Some(why) if reserved.is_empty() => Err(why),
            Some(_) | None => Ok(reserved),
        }
    }

    /// Takes records of a reservation back, from an offset on, as if they had not been handed out:
    /// for a driver that could not read or send them all.
    pub fn give_back(&mut self, now: Instant, reserved: &Reserved, from: Offset) {
        for handle in reserved.handles().filter(|handle| handle.offset >= from) {
            if let Some(known) = self.reservations.get(handle.offset)
                && handle.epoch == self.epoch()
                && known.delivery == handle.delivery
            {
                let before = Delivery(known.delivery.0 - 1);
                self.reservations.release(now, handle.offset, before);
            }
        }
    }

    /// Acknowledges a record that was handed out. Late is not too late while nobody else has the
    /// record; so it is for what was handed out before a restart, or in an earlier reign.
    ///
    /// # Errors
    ///
    /// [`Refused::Superseded`], [`Refused::OtherEpoch`], [`Refused::OutOfRange`],
    /// [`Refused::TooFarAhead`], [`Refused::Moved`]; then nothing has changed.
    pub fn ack(&mut self, now: Instant, handle: Handle) -> Result<Answer, Refused> {
        let Handle { epoch, offset, delivery } = handle;
        self.reservations.expire(now);
        self.admits(epoch, after(offset))?;
        if epoch == self.epoch() {
            self.not_superseded(offset, delivery)?;
        }
        self.settle(offset)
    }

    /// Acknowledges a record by its offset, whoever has it now. `claimed` is the reign in which the
    /// consumer has seen it.
    ///
    /// # Errors
    ///
    /// As [`Cursor::ack`], but for the first.
    pub fn acknowledge(&mut self, claimed: Epoch, offset: Offset) -> Result<Answer, Refused> {
        self.admits(claimed, after(offset))?;
        self.settle(offset)
    }

    /// Acknowledges every record below an offset. `claimed` is the reign in which the consumer has
    /// seen them.
    ///
    /// # Errors
    ///
    /// [`Refused::OtherEpoch`] if one of them is void, [`Refused::OutOfRange`],
    /// [`Refused::Moved`]; then nothing has changed.
    pub fn acknowledge_up_to(&mut self, claimed: Epoch, end: Offset) -> Result<Answer, Refused> {
        self.admits(claimed, end)?;
        if self.frontier.position().committed.is_some_and(|committed| committed >= end) {
            return Ok(Answer::AlreadyAcked);
        }
        self.frontier.ack_below(end);
        self.passed();
        Ok(Answer::Acked)
    }

    /// Hands a record back: it is free at once, or after a delay, which is cut to
    /// [`Limits::visibility_max`].
    ///
    /// # Errors
    ///
    /// If the handle does not hold the record, for whatever reason.
    pub fn nack(&mut self, now: Instant, handle: Handle, delay: Duration) -> Result<(), Refused> {
        let delivery = self.holds(now, handle)?;
        let until = now.after(delay.min(self.limits.visibility_max));
        if until > now {
            let hold = Hold::Resting { until };
            self.reservations.set(handle.offset, Reservation { delivery, hold });
        } else {
            self.reservations.release(now, handle.offset, delivery);
        }
        Ok(())
    }

    /// Lets a consumer keep a record for `visibility` from now on, and returns until when.
    ///
    /// # Errors
    ///
    /// If the handle does not hold the record, for whatever reason.
    pub fn extend(
        &mut self,
        now: Instant,
        handle: Handle,
        visibility: Duration,
    ) -> Result<Instant, Refused> {
        let delivery = self.holds(now, handle)?;
        let until = now.after(visibility.min(self.limits.visibility_max));
        let hold = Hold::Held { until };
        self.reservations.set(handle.offset, Reservation { delivery, hold });
        Ok(until)
    }

    /// Lets time pass. Returns whether a record has become free since the last time, so that whoever
    /// waits for one should ask again.
    pub fn wake(&mut self, now: Instant) -> bool {
        self.reservations.expire(now);
        self.reservations.tell()
    }

    /// Returns when [`Cursor::wake`] has something to say: at once if a record is free that nobody
    /// was told of. May change with every call.
    pub fn deadline(&self) -> Option<Deadline> {
        self.reservations.deadline()
    }

    /// Lets consumers see more. A lower high watermark than before is passed over.
    pub fn advance(&mut self, hwm: Offset) {
        self.hwm = self.hwm.max(hwm);
    }

    /// Lets retention remove what is below an offset; the frontier passes it.
    pub fn trim(&mut self, start: Offset) {
        if start > self.frontier.start() {
            self.frontier.trim(start);
            self.hwm = self.hwm.max(start);
            self.passed();
        }
    }

    /// Returns where consumers stand, for a flip, and remembers it: what is acknowledged from now
    /// on the flip does not carry. The high watermark is read after it (R50).
    pub fn capture(&mut self) -> Position {
        if let Stage::Serving | Stage::Captured(_) = self.stage {
            self.stage = Stage::Captured(self.frontier.base());
        }
        self.frontier.position().clone()
    }

    /// Forgets a capture: its freeze is over and nothing was flipped.
    pub fn thaw(&mut self) {
        if let Stage::Captured(_) = self.stage {
            self.stage = Stage::Serving;
        }
    }

    /// Ends the service: the partition is another's from now on (R49). What is in flight is handed
    /// out again by the next owner (R51). `forced`: whether the next reign began without this
    /// one's freeze, or is not remembered, so that it carries no capture.
    pub fn moved(&mut self, forced: bool) {
        let base = match mem::replace(&mut self.stage, Stage::Serving) {
            Stage::Serving => None,
            Stage::Captured(base) => Some(base).filter(|_| !forced),
            Stage::Moved(base) => base,
        };
        self.stage = Stage::Moved(base);
        self.reservations = Reservations::default();
    }

    /// Returns what was acknowledged here since the capture, for the next owner. Where no capture was
    /// carried, as by a promotion, this is everything that retention has left: nobody may know of
    /// it.
    pub fn forwardable(&self) -> Acks {
        let base = match &self.stage {
            Stage::Serving => None,
            Stage::Captured(base) => Some(base),
            Stage::Moved(base) => base.as_ref(),
        };
        Acks { epoch: self.epoch(), spans: self.frontier.since(base) }
    }

    /// Takes what was acknowledged at a past owner, whoever has those records now. Taking the same
    /// twice changes nothing. They fill no more than half of the room ahead of the frontier, so
    /// that consumers here can always go on.
    ///
    /// # Errors
    ///
    /// [`Refused::Moved`], also if they are of a reign that this node has not heard of.
    pub fn take(&mut self, acks: &Acks) -> Result<Taken, Refused> {
        let end = self.end_of(acks.epoch)?.min(self.hwm);
        let mut taken = Taken { counted: 0, dropped: acks.spans.len() > Acks::SPANS_MAX };
        let mut looked_at = Offset(0);
        for span in acks.spans.iter().take(Acks::SPANS_MAX) {
            taken.dropped |= span.end > end || span.first < looked_at;
            let first = span.first.max(looked_at);
            looked_at = span.end.max(looked_at);
            self.take_span(Span { first, end: span.end.min(end) }, &mut taken);
        }
        self.check_bounds();
        Ok(taken)
    }

    /// Returns where consumers stand.
    pub const fn position(&self) -> &Position {
        self.frontier.position()
    }

    /// Returns where consumers stand if that has changed since it was last returned here.
    pub fn to_save(&mut self) -> Option<Position> {
        mem::take(&mut self.is_unsaved).then(|| self.position().clone())
    }

    /// Says that what [`Cursor::to_save`] returned is not on the disk: it returns it again.
    pub fn save_failed(&mut self) {
        self.is_unsaved = true;
    }

    /// Returns the reign in which records are handed out here.
    pub const fn epoch(&self) -> Epoch {
        self.lineage.epoch()
    }

    /// Returns how many records are handed out, or were and wait to be handed out again.
    pub fn in_flight(&self) -> usize {
        self.reservations.len()
    }

    /// Returns how many visible records are not acknowledged.
    pub fn backlog(&self) -> u64 {
        let above = self.hwm.0.saturating_sub(self.frontier.at().0);
        above.saturating_sub(self.frontier.ahead() as u64)
    }
}
