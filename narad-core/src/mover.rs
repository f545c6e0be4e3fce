//! The destination side of one move.
//!
//! # Purpose
//!
//! Brings one partition onto this node without losing an acknowledged record, whatever fails on
//! the way: copies it while it is in use, freezes the source for the short rest, proves that the
//! copy equals the source, installs it under a name of its own, and flips the ownership in the
//! replicated log. Rebalance and decommission are both this machine (R3).
//!
//! # States
//!
//! ```text
//!            ┌────────────────────────── the row has moved on ───────────────────────┐
//!            ▼                                                                       │
//! Locate ─▶ Settle ─▶ CatchUp ─▶ Preflight ─▶ Prepare ─▶ Drain ─▶ Verify ─▶ Install ─▶ Flip ─▶ Over
//!            ▲  │        │            │          │         │        │         ▲         │
//!            │  │        └────────────┴──────────┴─ Waiting┴────────┘         │         │
//!            │  └─ the source is dead ─▶ Promote ─────────────────────────────┘         │
//!            └──────────── Waiting ◀──── refused, or nobody knows ──────────────────────┘
//! ```
//!
//! *Settle* is where everything meets: it asks the log for the fate of every directory that bears
//! one of this node's tries (`Resolve`), makes what lost the staging area again or sets it aside,
//! and goes on with what the row says. *Closing*, not shown, stands between any step that is given
//! up and what follows: it waits for the step's operations.
//!
//! # Invariants
//!
//! 1. No directory is renamed or set aside, and nothing is staged, while the fate of a proposed
//!    flip is open (H2, H3, H27; asserted where operations are started).
//! 2. A flip is proposed only for a directory that is durable under the name of its attempt (S8,
//!    H4; asserted there, too), and only with a permit (the type of [`crate::promote`]).
//! 3. After an unknown outcome only the byte-identical command or a `Resolve` follows (F20).
//! 4. The manifest never vouches for bytes that are not durable, nor for bytes that are about to
//!    be dropped (H17).
//! 5. Bytes staged under another life of the source, another move or another source are compared
//!    by it before any are added to them (H16, H30).
//! 6. Staging is set aside only while the row's owner is known to be alive, or there is no row any
//!    more (case C54).
//! 7. A pass begins at the earliest one pass interval after the last; every failure is followed by
//!    a pause; passes without a failure are at most `passes_max` per try (R29).
//! 8. At most [`Mover::OPERATIONS_MAX`] operations run, and one event has at most
//!    [`Mover::EFFECTS_MAX`] effects (asserted).
//!
//! # After a restart
//!
//! [`Mover::new`] takes what the disk holds. The row is read behind a barrier; a try of an earlier
//! life that won makes this node the owner, any other is burned before its directory is used
//! again. Staged bytes that the manifest names are compared by the source and are not copied
//! again (R61). There is no re-sending of a flip after a restart, only `Resolve`.
//!
//! # Example
//!
//! A partition that was never written moves without a byte being copied (case C38):
//!
//! ```
//! use narad_core::config::Config;
//! use narad_core::effects::Effects;
//! use narad_core::ids::*;
//! use narad_core::metastore::{Applied, Assignment, Reply};
//! use narad_core::mover::*;
//! use narad_core::partition::*;
//! use narad_core::time::Instant;
//!
//! let partition = PartitionId { topic: TopicId(1), index: 0 };
//! let me = Me { node: NodeId(2), incarnation: Incarnation(1) };
//! let row = Assignment {
//!     owner: NodeId(1), epoch: Epoch(1), data: Attempt::birth(NodeId(1)), min_end: Offset(0),
//!     lineage: vec![], lineage_cut: false, target: Some(NodeId(2)), move_id: MoveId(1),
//!     burned: None, revoked: None, reported_hwm: None, pinned: false,
//! };
//! let listing = Listing {
//!     incarnation: Incarnation(1), generation: LogGeneration(1), epoch: Epoch(1),
//!     start: Offset(0), end: Offset(0), hwm: Offset(0), extents: vec![], agreed: vec![],
//! };
//! let token = Token { epoch: Epoch(1), no: FreezeNo { incarnation: Incarnation(1), counter: 1 } };
//! let now = Instant::ORIGIN;
//! let mut out = Effects::default();
//! let mut mover =
//!     Mover::new(now, me, partition, Config::new(1), Recovered::default(), &mut out);
//! let mut flips = 0;
//! while !mover.is_over() {
//!     for effect in out.drain().collect::<Vec<_>>() {
//!         let Effect::Run(op, operation) = effect else { continue };
//!         let outcome = match operation {
//!             Operation::ReadRow => Outcome::ReadRow(Ok(Some(row.clone()))),
//!             Operation::List { .. } => Outcome::List(Ok(listing.clone())),
//!             Operation::Checkpoint(_) => Outcome::Checkpoint(Ok(())),
//!             Operation::ReachLeader => Outcome::ReachLeader(Ok(())),
//!             Operation::Probe { .. } => Outcome::Probe(Ok(())),
//!             Operation::Prepare { .. } => Outcome::Prepare(Ok(Capture {
//!                 token,
//!                 listing: listing.clone(),
//!                 position: Position::default(),
//!                 digest: Digest(7),
//!             })),
//!             Operation::Verify(boundary) => Outcome::Verify(Ok(Verified {
//!                 start: boundary.start,
//!                 end: boundary.end,
//!                 digest: Digest(7),
//!             })),
//!             Operation::Install { .. } => Outcome::Install(Ok(())),
//!             Operation::Propose(_) => Outcome::Propose(Proposed::Replied(Reply::Applied(
//!                 Applied::Won(Epoch(2)),
//!             ))),
//!             other => panic!("not needed: {other:?}"),
//!         };
//!         flips += u32::from(matches!(outcome, Outcome::Propose(_)));
//!         mover.handle(now, Event::Done(op, outcome), &mut out);
//!     }
//! }
//! assert_eq!(flips, 1);
//! ```

mod catch_up;
mod close;
mod converge;
mod copy;
mod cost;
mod cx;
mod desk;
mod drain;
mod fit;
mod flip;
mod force;
mod install;
mod installed;
pub mod journal;
mod locate;
mod note;
mod operation;
mod pause;
mod preflight;
mod prepare;
mod progress;
mod settle;
mod stage;
mod state;
mod timeline;
mod verify;

#[cfg(test)]
mod tests;

use core::mem;
use core::time::Duration;

pub use self::cost::{FreezeCost, FreezeRates};
use self::cx::Cx;
use self::desk::Desk;
pub use self::note::{Freeze, NotConverged, Note, Phase, Progress, Steps, Waiting};
pub use self::operation::{Copied, Fault, Operation, Outcome, Proposed, What};
use self::state::State;
use crate::config::Config;
use crate::effects::{Deadline, Effects, OpId};
use crate::ids::{Attempt, Generation, Incarnation, NodeId, PartitionId};
use crate::metastore::Assignment;
use crate::partition::Recovered;
use crate::time::Instant;

/// Who a machine works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Me {
    /// This node.
    pub node: NodeId,
    /// Its present life.
    pub incarnation: Incarnation,
}

/// Something that a mover is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Event {
    /// Time has passed.
    Wake,
    /// An operation has ended.
    Done(OpId, Outcome),
    /// This node's replica applied a change of the row; `None` if the partition is no more.
    Row(Option<Assignment>),
    /// What this node's replica says of the row's owner: once after the start, and at each change.
    Source(NodeId, SourceHealth),
}

/// Whether the owner of a partition is taken to be alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum SourceHealth {
    /// It is.
    Alive {
        /// Its present life.
        incarnation: Incarnation,
    },
    /// It was declared dead.
    Dead {
        /// The certificate.
        generation: Generation,
        /// When this life of this node applied it, on its own clock (H19).
        since: Instant,
        /// How long it must stay dead before its partitions may be promoted.
        promote_after: Duration,
    },
}

/// Something that a mover asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Effect {
    /// Run an operation; exactly one [`Event::Done`] answers it, unless the process ends first.
    Run(OpId, Operation),
    /// End an operation early; its `Done` still follows.
    Cancel(OpId),
    /// Tell people.
    Note(Note),
}

/// One partition on its way to this node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mover {
    desk: Desk,
    state: State,
}

/// How a move ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Over {
    /// This life's flip has won.
    Moved,
    /// The row says that this node is the owner.
    Owner(Attempt),
    /// The row names another target, or none.
    Cancelled { staging_kept: bool },
    /// There is no row any more.
    Gone,
}

impl Mover {
    /// Most operations that run at once.
    pub const OPERATIONS_MAX: usize = desk::OPERATIONS_MAX;

    /// Most effects of one event: every operation cancelled, or as many started, and some notes.
    pub const EFFECTS_MAX: usize = Self::OPERATIONS_MAX + 16;

    /// Starts, or after a restart goes on with, the move that the row has for this node.
    ///
    /// # Panics
    ///
    /// If the configuration has not passed [`Config::check`].
    pub fn new(
        now: Instant,
        me: Me,
        partition: PartitionId,
        config: Config,
        found: Recovered,
        out: &mut Effects<Effect>,
    ) -> Self {
        let mut desk = Desk::new(me, partition, config, found);
        let state = Cx { now, desk: &mut desk, out }.locate();
        Self { desk, state }
    }

    /// Advances the machine by one event.
    ///
    /// # Panics
    ///
    /// If an operation is answered by the outcome of another kind, or an invariant is broken.
    pub fn handle(&mut self, now: Instant, event: Event, out: &mut Effects<Effect>) {
        let effects_before = out.as_slice().len();
        let state = mem::replace(&mut self.state, State::Poisoned);
        let mut cx = Cx { now, desk: &mut self.desk, out };
        self.state = match event {
            Event::Wake => state.wake(&mut cx),
            Event::Done(op, outcome) => {
                if let Some(operation) = cx.desk.answered(op, &outcome) {
                    state.answered(op, &operation, outcome, &mut cx)
                } else {
                    cx.note(Note::Stale(op));
                    state
                }
            }
            Event::Row(row) => {
                cx.desk.learn(row);
                state.row_changed(&mut cx)
            }
            Event::Source(node, health) => {
                if cx.desk.set_health(node, health) {
                    state.health_changed(&mut cx)
                } else {
                    state
                }
            }
        };
        let effects = out.as_slice().len() - effects_before;
        assert!(effects <= Self::EFFECTS_MAX, "{effects} effects of one event");
    }

    /// Returns when the machine wants [`Event::Wake`]; changes with every event.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        match &self.state {
            State::CatchUp(state) => state.deadline(&self.desk),
            State::Preparing(state) => state.deadline(),
            State::Draining(state) => Some(state.deadline(&self.desk)),
            State::Verifying(state) => Some(state.deadline(&self.desk)),
            State::Installing(state) => state.deadline(&self.desk),
            State::Flipping(state) => state.deadline(),
            State::Waiting(state) => state.deadline(),
            State::Locating(_)
            | State::Settling(_)
            | State::Preflight(_)
            | State::Promoting(_)
            | State::Closing(_)
            | State::Over(_)
            | State::Poisoned => None,
        }
    }

    /// Whether the move is over and every operation has been answered. The machine may then be
    /// dropped; whoever drops it looks at the row once more, since a row that came in while the
    /// last answers were out is taken up, and one that comes later is not.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_)) && self.desk.is_idle()
    }
}
