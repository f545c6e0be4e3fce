//! What goes in and out of a [`Cursor`](super::Cursor).

use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use crate::ids::{Delivery, Epoch, Offset};
use crate::partition::Position;
use crate::time::Instant;

/// What one partition's consumers may take at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Records that may be handed out and not acknowledged, those included that wait to be handed
    /// out again. Default 1,024. Larger lets more consumers work at once; zero counts as one, and
    /// more than [`Position::ACKED_AHEAD_MAX`] plus one has no effect.
    pub in_flight_max: usize,
    /// Longest time for which a record can be kept from the other consumers by one call. Default
    /// 12 h; a longer one is cut to it, so that no record waits for ever for a consumer that died.
    pub visibility_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { in_flight_max: 1024, visibility_max: Duration::from_hours(12) }
    }
}

/// What a cursor goes on from: what the directory holds, or what a flip has brought.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Found {
    /// Where consumers stood.
    pub position: Position,
    /// The reign in which they stood there (H15).
    pub of: Epoch,
    /// First offset that retention has kept.
    pub start: Offset,
    /// First offset that consumers cannot see.
    pub hwm: Offset,
}

/// A consumer's proof that a record was handed out to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Handle {
    /// The reign in which it was.
    pub epoch: Epoch,
    /// The record.
    pub offset: Offset,
    /// Which of its deliveries.
    pub delivery: Delivery,
}

/// Records that were handed out together for as many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Its first record.
    pub first: Offset,
    /// Offset after its last record.
    pub end: Offset,
    /// Which delivery of each of them; more than one says that they may have been seen before.
    pub delivery: Delivery,
}

/// Records that were handed out to one consumer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "what is reserved stays hidden from all other consumers for a while"]
pub struct Reserved {
    /// The reign, for the handles.
    pub epoch: Epoch,
    /// Until when nobody else gets them, unless they are handed back or extended.
    pub until: Instant,
    /// The records, ascending; no run touches the one before it with the same delivery.
    pub runs: Vec<Run>,
}

impl Reserved {
    /// Returns how many records there are.
    pub fn len(&self) -> usize {
        self.handles().count()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns a handle for each record, ascending.
    pub fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        let epoch = self.epoch;
        self.runs.iter().flat_map(move |run| {
            let delivery = run.delivery;
            (run.first.0..run.end.0).map(move |n| Handle { epoch, offset: Offset(n), delivery })
        })
    }

    /// Returns what of it lies in a range, so that it can be handed back by itself.
    pub fn within(&self, range: &Range<Offset>) -> Self {
        let cut = |run: &Run| Run {
            first: run.first.max(range.start),
            end: run.end.min(range.end),
            delivery: run.delivery,
        };
        let runs = self.runs.iter().map(cut).filter(|run| run.first < run.end).collect();
        Self { epoch: self.epoch, until: self.until, runs }
    }

    /// Appends one record, behind all others.
    pub(super) fn push(&mut self, offset: Offset, delivery: Delivery) {
        match self.runs.last_mut() {
            Some(run) if run.end == offset && run.delivery == delivery => run.end = offset.next(),
            Some(_) | None => self.runs.push(Run { first: offset, end: offset.next(), delivery }),
        }
    }
}

/// What became of an acknowledgement that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It counts from now on: the record is not handed out again.
    Acked,
    /// It counted before, or retention has removed the record.
    AlreadyAcked,
}

/// Why a consumer's wish was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// Somebody else has the record now.
    #[error(
        "another consumer has the record now, in delivery {by}: drop it, or extend sooner next time"
    )]
    Superseded {
        /// The delivery that holds.
        by: Delivery,
    },
    /// Nobody holds the record: the reservation ran out, was handed back, or went with an earlier
    /// opening of the log.
    #[error("the reservation is over: reserve again, the record is delivered again")]
    Expired,
    /// The record is acknowledged, so there is nothing to hold or to hand back.
    #[error("the record is acknowledged already: nothing is left to do")]
    AlreadyAcked,
    /// The offset was handed out in an earlier reign, and may be another record in this one (H44).
    #[error("the partition is in epoch {epoch} now: drop the record, it is delivered again")]
    OtherEpoch {
        /// The reign here.
        epoch: Epoch,
    },
    /// Nobody may have seen that record.
    #[error("the offset is at or above the visible end {hwm}: reserve, and acknowledge what comes")]
    OutOfRange {
        /// First offset that consumers cannot see.
        hwm: Offset,
    },
    /// Too many records are acknowledged ahead of one that is not.
    #[error("too much is acknowledged ahead: acknowledge the record at {frontier} first")]
    TooFarAhead {
        /// The record that is waited for.
        frontier: Offset,
    },
    /// Too many records are handed out.
    #[error("{max} records are handed out and not acknowledged: acknowledge some first")]
    TooManyInFlight {
        /// [`Limits::in_flight_max`].
        max: usize,
    },
    /// The partition is another node's (R49).
    #[error("the partition has moved: look the owner up again")]
    Moved,
}

/// A range of acknowledged records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Span {
    /// Its first record.
    pub first: Offset,
    /// Offset after its last record.
    pub end: Offset,
}

/// Acknowledgements that a past owner took and that the flip did not carry (H28, R52).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Acks {
    /// The past owner's reign.
    pub epoch: Epoch,
    /// What was acknowledged, ascending; at most [`Acks::SPANS_MAX`].
    pub spans: Vec<Span>,
}

impl Acks {
    /// Most spans that one cursor has to tell of: what was and what is acknowledged ahead each cut
    /// a line into pieces.
    pub const SPANS_MAX: usize = 2 * Position::ACKED_AHEAD_MAX + 1;
}

/// What became of a past owner's [`Acks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Taken {
    /// Records that count as acknowledged since.
    pub counted: u64,
    /// Whether some were dropped: they name records of no such reign, or no room was left. Those
    /// are delivered again.
    pub dropped: bool,
}
