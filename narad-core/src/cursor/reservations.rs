//! Records that were handed out and are not acknowledged.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::effects::Deadline;
use crate::ids::{Delivery, Offset};
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

/// What was handed out, by offset, by the time at which it is free again, and what is free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Reservations {
    all: BTreeMap<Offset, Reservation>,
    /// Those that are held or rest.
    hidden: BTreeSet<(Instant, Offset)>,
    /// Those that are free.
    free: BTreeSet<Offset>,
    /// Since when some are free that no waiting consumer was told of.
    untold: Option<Instant>,
}

/// How one record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reservation {
    pub(super) delivery: Delivery,
    pub(super) hold: Hold,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Hold {
    /// A consumer has it.
    Held { until: Instant },
    /// It was handed back, and is to be left alone for a while.
    Resting { until: Instant },
    /// It may be handed out again.
    Free,
}

impl Reservations {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, offset: Offset) -> Option<Reservation> {
        self.all.get(&offset).copied()
    }

    /// Returns the lowest record that may be handed out again.
    pub(super) fn first_free(&self) -> Option<Offset> {
        self.free.first().copied()
    }

    /// Hands a record out, and says for how many times now.
    pub(super) fn hand_out(&mut self, offset: Offset, until: Instant) -> Delivery {
        let before = self.get(offset).map(|known| known.delivery).unwrap_or_default();
        let delivery = before.next();
        self.set(offset, Reservation { delivery, hold: Hold::Held { until } });
        delivery
    }

    /// Lets a record be handed out again, as the next one after `delivery`.
    pub(super) fn release(&mut self, now: Instant, offset: Offset, delivery: Delivery) {
        self.set(offset, Reservation { delivery, hold: Hold::Free });
        self.untold = self.untold.or(Some(now));
    }

    /// Changes how a record stands.
    pub(super) fn set(&mut self, offset: Offset, reservation: Reservation) {
        self.remove(offset);
        match reservation.hold {
            Hold::Held { until } | Hold::Resting { until } => {
                self.hidden.insert((until, offset));
            }
            Hold::Free => {
                self.free.insert(offset);
            }
        }
        self.all.insert(offset, reservation);
    }

    /// Forgets a record: it is acknowledged, or gone.
    pub(super) fn remove(&mut self, offset: Offset) {
        let Some(known) = self.all.remove(&offset) else { return };
        match known.hold {
            Hold::Held { until } | Hold::Resting { until } => {
                self.hidden.remove(&(until, offset));
            }
            Hold::Free => {
                self.free.remove(&offset);
            }
        }
        if self.free.is_empty() {
            self.untold = None;
        }
    }

    /// Forgets the records below an offset.
    pub(super) fn remove_below(&mut self, end: Offset) {
        while let Some((&offset, _)) = self.all.first_key_value().filter(|(at, _)| **at < end) {
            self.remove(offset);
        }
    }

    /// Frees what is hidden no longer.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((_, offset)) = self.hidden.first().copied().filter(|(at, _)| *at <= now) {
            if is_planted(Bug::ExpiredForgotten) {
                self.remove(offset);
                continue;
            }
            let delivery = self.get(offset).expect("what is hidden is known").delivery;
            self.release(now, offset, delivery);
        }
    }

    /// Returns whether anything is free that nobody was told of; now somebody is.
    pub(super) fn tell(&mut self) -> bool {
        self.untold.take().is_some()
    }

    /// Returns when somebody should be told that a record is free.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        if let Some(at) = self.untold {
            return Some(Deadline { at, why: "a record is free again" });
        }
        let (at, offset) = self.hidden.first().copied()?;
        let why = match self.get(offset).expect("what is hidden is known").hold {
            Hold::Held { .. } => "a consumer's reservation runs out",
            Hold::Resting { .. } => "a record that was handed back has rested",
            Hold::Free => unreachable!("what is free is not hidden"),
        };
        Some(Deadline { at, why })
    }
}
