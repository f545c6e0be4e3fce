//! One partition's row: who serves it, where it should end up, and what may still flip it.

use alloc::vec::Vec;

use crate::ids::{Attempt, AttemptNo, Epoch, FreezeNo, MoveId, NodeId, Offset};

/// The row of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Assignment {
    /// Who serves it now: produce and consume land here (R8).
    pub owner: NodeId,
    /// The owner's reign.
    pub epoch: Epoch,
    /// The directory that is live on the owner's disk.
    pub data: Attempt,
    /// The log on the live directory reaches at least here; an owner that finds less has lost its
    /// disk and must not serve (H25, S3).
    pub min_end: Offset,
    /// Past reigns and the present one, oldest first; at most [`Assignment::LINEAGE_MAX`].
    pub lineage: Vec<Reign>,
    /// Whether older reigns than the first of `lineage` have been forgotten.
    pub lineage_cut: bool,
    /// Where it should end up; `None` when stable (R9).
    pub target: Option<NodeId>,
    /// The present plan: whatever names an older one can no longer flip this row (H5).
    pub move_id: MoveId,
    /// Tries of the present move up to here can no longer win.
    pub burned: Option<AttemptNo>,
    /// Freezes of the present epoch up to here can no longer fence a flip.
    pub revoked: Option<FreezeNo>,
    /// The highest watermark that the owner reported in this epoch, across its lives (H12, H36).
    pub reported_hwm: Option<Offset>,
    /// Whether the planner must leave it where an operator put it.
    pub pinned: bool,
}

impl Assignment {
    /// Most reigns that a row remembers.
    pub const LINEAGE_MAX: usize = 64;

    /// Returns what a command that acts upon this very row must expect.
    #[must_use]
    pub const fn expect(&self) -> Expect {
        Expect { owner: self.owner, epoch: self.epoch, move_id: self.move_id }
    }
}

/// One owner's time with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reign {
    /// Its number.
    pub epoch: Epoch,
    /// First offset that was appended in it: what a position of an older epoch is clamped to
    /// (H15).
    pub start: Offset,
    /// Who reigned.
    pub owner: NodeId,
    /// The directory that was live; the attempt that won (H3, H35).
    pub data: Attempt,
}

/// The part of a row that a guarded command must have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Expect {
    /// The owner.
    pub owner: NodeId,
    /// Its reign.
    pub epoch: Epoch,
    /// The plan.
    pub move_id: MoveId,
}
