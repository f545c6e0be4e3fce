//! The live log of one partition on its owner: opened, exposed, closed.
//!
//! # Purpose
//!
//! A row says who serves a partition and from which directory. This machine brings its node's disk
//! in line with that: it opens the directory, makes visible what must be, and closes it when the
//! row has moved on. Who may append meanwhile is the [hand-off](crate::freeze::Handoff)'s matter.
//!
//! # States
//!
//! ```text
//!            row names us            opened                exposed
//! Absent ───────────────▶ Opening ───────────▶ Exposing ───────────▶ Open
//!    ▲                       │ failed      │ nothing to expose ────▶  │
//!    │                       ▼             │ too short                │ row moved on, or poisoned
//!    ├──── pause ──────── Resting ◀────────┼──────────────┐           │
//!    │                                     ▼              │           ▼
//!    └──────────────────────────────── Closing ───────────┘ ◀─────────┘
//! ```
//!
//! # Invariants
//!
//! 1. A log that ends before the row's `min_end` is never open for service: its disk is not the one
//!    that the row means (H25, S3).
//! 2. An empty log is made only where the row says that none ever held a record (S3).
//! 3. The high watermark is left exactly as it was installed, unless the owner wrote in this epoch
//!    before and restarted, or took over from a dead owner (R41, H42, H43).
//! 4. One operation at a time.
//!
//! # After a restart
//!
//! The machine starts `Absent` and opens what the row names. The façade asks for nothing before
//! this node's own life is registered, so that no stale row is acted upon (H6, case M133).

use core::mem;
use core::time::Duration;

use crate::effects::{Deadline, Effects, OpId, Ops};
use crate::ids::{Attempt, Epoch, Incarnation, NodeId, Offset};
use crate::metastore::{Assignment, Residue};
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

/// Something the façade tells the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Time passed.
    Wake,
    /// An operation ended.
    Done(OpId, Outcome),
    /// What this node is to serve, as its own replica has it; `None` if nothing.
    Want(Option<Want>),
    /// A write or an fsync failed: the log must be opened anew before anything else (fsync errors
    /// are never retried on the same file).
    Poisoned,
}

/// What a row asks of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Want {
    /// The live directory.
    pub data: Attempt,
    /// The reign.
    pub epoch: Epoch,
    /// Where the log must reach at least.
    pub min_end: Offset,
    /// Whether the reign began without the old owner's freeze: what was captured must be exposed
    /// (H43).
    pub forced: bool,
}

impl Want {
    /// Returns what a row asks of a node.
    #[must_use]
    pub fn of(row: &Assignment, node: NodeId) -> Option<Self> {
        let forced = row.lineage.last().is_some_and(|reign| reign.residue != Residue::None);
        (row.owner == node).then_some(Self {
            data: row.data,
            epoch: row.epoch,
            min_end: row.min_end,
            forced,
        })
    }

    /// Returns where an empty log begins, if the directory may be one that was never made: no try
    /// of a move is of life zero.
    fn birth(&self) -> Option<Offset> {
        let born_here = self.data.no.incarnation == Incarnation(0);
        (born_here || is_planted(Bug::ShortLogServed)).then_some(self.min_end)
    }
}

/// Work with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Open the directory, cut a torn tail, say what is there.
    Open {
        /// The directory.
        data: Attempt,
        /// Where an empty log begins if the directory is absent; `None` if it must be there.
        birth: Option<Offset>,
    },
    /// Append and fsync a control frame that makes everything durable visible.
    Expose {
        /// The reign.
        epoch: Epoch,
    },
    /// Wait for the append under way and close the files.
    Close,
}

/// How an operation ended. Variants mirror [`Operation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// See [`Operation::Open`].
    Open(Result<Opened, Fault>),
    /// See [`Operation::Expose`].
    Expose(Result<(), Fault>),
    /// See [`Operation::Close`].
    Close,
}

/// What an opened log says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opened {
    /// Offset after its last durable record.
    pub end: Offset,
    /// The last reign in which a frame was written by its owner here.
    pub served: Option<Epoch>,
}

/// Why a log could not be opened or exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Fault {
    /// There is no such directory.
    #[error("the directory is missing: was the disk replaced?")]
    Missing,
    /// The log ends too early to be the one that the row means.
    #[error("the log ends at {end}, but must reach {min_end}: was an old disk put back?")]
    Short {
        /// Where it ends.
        end: Offset,
        /// Where it must reach.
        min_end: Offset,
    },
    /// The disk is full.
    #[error("the disk is full")]
    DiskFull,
    /// The disk failed.
    #[error("the disk failed")]
    Disk,
}

/// Something the machine asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Run an operation; exactly one [`Event::Done`] answers it, unless the process ends first.
    Run(OpId, Operation),
    /// An observation; nothing answers it.
    Note(Note),
}

/// Something worth knowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Note {
    /// The log is open.
    Opened {
        /// The reign.
        epoch: Epoch,
        /// Where its log ends.
        end: Offset,
    },
    /// The log is closed.
    Closed,
    /// The partition cannot be served although this node owns it.
    Unavailable(Fault),
}

/// The owner's side of one partition, when nobody moves it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    ops: Ops,
    want: Option<Want>,
    retry_pause: Duration,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Absent,
    Opening {
        op: OpId,
        want: Want,
    },
    Exposing {
        op: OpId,
        want: Want,
        opened: Opened,
    },
    Open {
        want: Want,
    },
    /// `fault`: why the log is not to be opened again at once.
    Closing {
        op: OpId,
        want: Want,
        fault: Option<Fault>,
    },
    /// What was wanted failed; something else may be tried at once.
    Resting {
        want: Want,
        until: Instant,
        fault: Fault,
    },
    /// A transition panicked.
    Poisoned,
}

impl Host {
    /// Starts with nothing open. `retry_pause` is the pause after a failure to open.
    #[must_use]
    pub const fn new(incarnation: Incarnation, retry_pause: Duration) -> Self {
        Self { ops: Ops::new(incarnation), want: None, retry_pause, state: State::Absent }
    }

    /// Advances the machine by one event.
    pub fn handle(&mut self, now: Instant, event: Event, out: &mut Effects<Effect>) {
        let state = mem::replace(&mut self.state, State::Poisoned);
        self.state = match event {
            Event::Want(want) => {
                self.want = want;
                state
            }
            Event::Wake => Self::rested(state, now),
            Event::Poisoned => {
                if let State::Open { want } = state {
                    self.close(want, None, out)
                } else {
                    state
                }
            }
            Event::Done(op, outcome) => self.done(now, state, op, outcome, out),
        };
        self.converge(out);
    }

    /// Returns when the machine wants to be woken.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        match self.state {
            State::Resting { until, .. } if self.want.is_some() => {
                Some(Deadline { at: until, why: "open the log again" })
            }
            State::Absent
            | State::Opening { .. }
            | State::Exposing { .. }
            | State::Open { .. }
            | State::Closing { .. }
            | State::Resting { .. }
            | State::Poisoned => None,
        }
    }

    /// Returns the reign whose log is open, if one is.
    #[must_use]
    pub const fn open(&self) -> Option<Epoch> {
        match &self.state {
            State::Open { want } => Some(want.epoch),
            State::Absent
            | State::Opening { .. }
            | State::Exposing { .. }
            | State::Closing { .. }
            | State::Resting { .. }
            | State::Poisoned => None,
        }
    }

    /// Returns why the partition cannot be served, if that is so.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        match &self.state {
            State::Resting { fault, .. } => Some(*fault),
            State::Absent
            | State::Opening { .. }
            | State::Exposing { .. }
            | State::Open { .. }
            | State::Closing { .. }
            | State::Poisoned => None,
        }
    }

    /// Returns the directory that is open, being opened or being closed: nobody else may touch it.
    #[must_use]
    pub const fn directory(&self) -> Option<Attempt> {
        match &self.state {
            State::Opening { want, .. }
            | State::Exposing { want, .. }
            | State::Open { want }
            | State::Closing { want, .. } => Some(want.data),
            State::Absent | State::Resting { .. } | State::Poisoned => None,
        }
    }

    /// Returns whether nothing is open and nothing is wanted: the façade may drop the machine and
    /// judge the directory.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.want.is_none() && matches!(self.state, State::Absent | State::Resting { .. })
    }

    /// Starts whatever brings the state nearer to what is wanted.
    fn converge(&mut self, out: &mut Effects<Effect>) {
        let state = mem::replace(&mut self.state, State::Poisoned);
        self.state = match (state, self.want) {
            (State::Absent, Some(want)) => self.begin(want, out),
            (State::Resting { want: failed, .. }, Some(want)) if want != failed => {
                self.begin(want, out)
            }
            (State::Open { want: open }, want) if want != Some(open) => self.close(open, None, out),
            (state, _) => state,
        };
    }

    fn done(
        &mut self,
        now: Instant,
        state: State,
        op: OpId,
        outcome: Outcome,
        out: &mut Effects<Effect>,
    ) -> State {
        match (state, outcome) {
            (State::Opening { op: mine, want }, Outcome::Open(result)) if mine == op => {
                match result {
                    Ok(opened) => self.opened(want, opened, out),
                    Err(fault) => self.rest(now, want, fault, out),
                }
            }
            (State::Exposing { op: mine, want, opened }, Outcome::Expose(result)) if mine == op => {
                match result {
                    Ok(()) => self.ready(want, opened, out),
                    // The file may be poisoned: only a new opening says what is durable.
                    Err(fault) => self.close(want, Some(fault), out),
                }
            }
            (State::Closing { op: mine, want, fault }, Outcome::Close) if mine == op => {
                out.push(Effect::Note(Note::Closed));
                match fault {
                    Some(fault) => self.rest(now, want, fault, out),
                    None => State::Absent,
                }
            }
            (state, Outcome::Open(_) | Outcome::Expose(_) | Outcome::Close) => state,
        }
    }

    fn opened(&mut self, want: Want, opened: Opened, out: &mut Effects<Effect>) -> State {
        if self.want != Some(want) {
            return self.close(want, None, out);
        }
        if opened.end < want.min_end && !is_planted(Bug::ShortLogServed) {
            let fault = Fault::Short { end: opened.end, min_end: want.min_end };
            return self.close(want, Some(fault), out);
        }
        let served_before = opened.served == Some(want.epoch) && !is_planted(Bug::AckedStaysHidden);
        let forced = want.forced && !is_planted(Bug::CapturedStaysHidden);
        if served_before || forced || is_planted(Bug::TailExposedAtOpening) {
            let op = self.run(out, Operation::Expose { epoch: want.epoch });
            return State::Exposing { op, want, opened };
        }
        self.ready(want, opened, out)
    }

    fn ready(&mut self, want: Want, opened: Opened, out: &mut Effects<Effect>) -> State {
        if self.want != Some(want) {
            return self.close(want, None, out);
        }
        out.push(Effect::Note(Note::Opened { epoch: want.epoch, end: opened.end }));
        State::Open { want }
    }

    fn begin(&mut self, want: Want, out: &mut Effects<Effect>) -> State {
        let birth = want.birth();
        let op = self.run(out, Operation::Open { data: want.data, birth });
        State::Opening { op, want }
    }

    fn close(&mut self, want: Want, fault: Option<Fault>, out: &mut Effects<Effect>) -> State {
        let op = self.run(out, Operation::Close);
        State::Closing { op, want, fault }
    }

    fn rest(&self, now: Instant, want: Want, fault: Fault, out: &mut Effects<Effect>) -> State {
        out.push(Effect::Note(Note::Unavailable(fault)));
        State::Resting { want, until: now.after(self.retry_pause), fault }
    }

    fn rested(state: State, now: Instant) -> State {
        let is_due = matches!(state, State::Resting { until, .. } if until <= now);
        if is_due { State::Absent } else { state }
    }

    fn run(&mut self, out: &mut Effects<Effect>, operation: Operation) -> OpId {
        let op = self.ops.mint();
        out.push(Effect::Run(op, operation));
        op
    }
}

#[cfg(test)]
mod tests;
