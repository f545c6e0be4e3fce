//! What the calls of a cursor are made of: what counts, and what there is room for.

use super::interface::{Answer, Handle, Refused, Span, Taken};
use super::reservations::{Hold, Reservation};
use super::{Cursor, Stage};
use crate::ids::{Delivery, Epoch, Offset};
use crate::partition::Position;
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

impl Cursor {
    pub(super) const fn serves(&self) -> Result<(), Refused> {
        match self.stage {
            Stage::Serving | Stage::Captured(_) => Ok(()),
            Stage::Moved(_) => Err(Refused::Moved),
        }
    }

    /// Returns where the records of a reign end that are the same here.
    pub(super) fn end_of(&self, reign: Epoch) -> Result<Offset, Refused> {
        self.serves()?;
        if is_planted(Bug::AckOfAnyReign) {
            return Ok(Offset(u64::MAX));
        }
        if reign > self.epoch() {
            return Err(Refused::Moved);
        }
        Ok(self.lineage.end_of(reign).unwrap_or(Offset(u64::MAX)))
    }

    /// Whether the records below an offset, as they were seen in a reign, are the same here and
    /// visible.
    pub(super) fn admits(&self, reign: Epoch, end: Offset) -> Result<(), Refused> {
        if end > self.end_of(reign)? {
            return Err(Refused::OtherEpoch { epoch: self.epoch() });
        }
        if end > self.hwm {
            return Err(Refused::OutOfRange { hwm: self.hwm });
        }
        Ok(())
    }

    /// Whether no other delivery than this one holds a record.
    pub(super) fn not_superseded(&self, offset: Offset, delivery: Delivery) -> Result<(), Refused> {
        match self.reservations.get(offset) {
            Some(Reservation { delivery: by, hold: Hold::Held { .. } }) if by != delivery => {
                Err(Refused::Superseded { by })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a handle holds its record.
    pub(super) fn holds(&mut self, now: Instant, handle: Handle) -> Result<Delivery, Refused> {
        let Handle { epoch, offset, delivery } = handle;
        self.reservations.expire(now);
        self.admits(epoch, after(offset))?;
        if epoch < self.epoch() {
            return Err(Refused::OtherEpoch { epoch: self.epoch() });
        }
        if self.frontier.is_acked(offset) {
            return Err(Refused::AlreadyAcked);
        }
        self.not_superseded(offset, delivery)?;
        match self.reservations.get(offset) {
            Some(Reservation { hold: Hold::Held { .. }, .. }) => Ok(delivery),
            Some(_) | None => Err(Refused::Expired),
        }
    }

    /// Acknowledges a record below the high watermark.
    pub(super) fn settle(&mut self, offset: Offset) -> Result<Answer, Refused> {
        if self.frontier.is_acked(offset) {
            return Ok(Answer::AlreadyAcked);
        }
        if !self.has_room_ahead(offset, Position::ACKED_AHEAD_MAX) {
            return Err(Refused::TooFarAhead { frontier: self.frontier.at() });
        }
        self.frontier.ack(offset);
        self.reservations.remove(offset);
        self.passed();
        Ok(Answer::Acked)
    }

    pub(super) fn take_span(&mut self, span: Span, taken: &mut Taken) {
        let acked = |this: &Self| this.frontier.at().0 + this.frontier.ahead() as u64;
        let before = acked(self);
        if span.first <= self.frontier.at() {
            if span.end > self.frontier.at() {
                self.frontier.ack_below(span.end);
                self.passed();
            }
        } else {
            for offset in (span.first.0..span.end.0).map(Offset) {
                if self.frontier.is_acked(offset) {
                    continue;
                }
                if !self.has_room_ahead(offset, Position::ACKED_AHEAD_MAX / 2) {
                    taken.dropped = true;
                    break;
                }
                self.frontier.ack(offset);
                self.reservations.remove(offset);
                self.is_unsaved = true;
            }
        }
        taken.counted += acked(self) - before;
    }

    /// Whether a record may be acknowledged ahead of the frontier, so that those in flight still
    /// can be, all of them.
    pub(super) fn has_room_ahead(&self, offset: Offset, ahead_max: usize) -> bool {
        let others = self.in_flight() - usize::from(self.reservations.get(offset).is_some());
        let ahead = self.frontier.ahead();
        offset == self.frontier.at()
            || (ahead < ahead_max && ahead + others <= Position::ACKED_AHEAD_MAX)
    }

    /// Returns the lowest visible record that was never handed out and is not acknowledged.
    pub(super) fn next_new(&mut self) -> Option<Offset> {
        let skips = !is_planted(Bug::AckedAheadHandedOut);
        while skips && self.next < self.hwm && self.frontier.is_acked(self.next) {
            self.next = self.next.next();
        }
        (self.next < self.hwm).then_some(self.next)
    }

    /// Returns what keeps new records from being handed out.
    pub(super) fn holds_back_new(&self) -> Option<Refused> {
        let max = self.limits.in_flight_max.max(1);
        if self.in_flight() >= max {
            Some(Refused::TooManyInFlight { max })
        } else if self.in_flight() + self.frontier.ahead() > Position::ACKED_AHEAD_MAX {
            Some(Refused::TooFarAhead { frontier: self.frontier.at() })
        } else {
            None
        }
    }

    /// The frontier may have moved: what it has passed is in flight no more.
    pub(super) fn passed(&mut self) {
        self.is_unsaved = true;
        let frontier = self.frontier.at();
        self.reservations.remove_below(frontier);
        self.next = self.next.max(frontier);
        self.check_bounds();
    }

    pub(super) fn check_bounds(&self) {
        let ahead = self.frontier.ahead();
        assert!(
            self.in_flight() + ahead <= Position::ACKED_AHEAD_MAX + 1,
            "what is handed out can be acknowledged"
        );
    }
}

/// Returns the offset after one that may come from anywhere.
pub(super) const fn after(offset: Offset) -> Offset {
    Offset(offset.0.saturating_add(1))
}
