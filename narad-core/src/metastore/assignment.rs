//! One partition's row: who serves it, where it should end up, and what may still flip it.

use alloc::vec;
use alloc::vec::Vec;

use crate::ids::{Attempt, AttemptNo, Epoch, FreezeNo, MoveId, NodeId, Offset};
use crate::planted::{Bug, is_planted};

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

    /// Returns the row of a partition that is born on `owner`, empty.
    ///
    /// Its move id is past the one in the name of the birth directory, as after every flip: no
    /// later directory has that name.
    #[must_use]
    pub(crate) fn born(owner: NodeId) -> Self {
        let epoch = Epoch(1);
        let data = Attempt::birth(owner);
        let residue = Residue::None;
        Self {
            owner,
            epoch,
            data,
            min_end: Offset(0),
            lineage: vec![Reign { epoch, start: Offset(0), owner, data, residue }],
            lineage_cut: false,
            target: None,
            move_id: MoveId(1),
            burned: None,
            revoked: None,
            reported_hwm: None,
            pinned: false,
        }
    }

    /// Returns the reign that an attempt won, if it is remembered.
    pub fn reign_of(&self, attempt: Attempt) -> Option<&Reign> {
        let known =
            |reign: &&Reign| reign.epoch == self.epoch || !is_planted(Bug::EarlierWinnersForgotten);
        self.lineage.iter().filter(known).find(|reign| reign.data == attempt)
    }

    /// Whether a try may have won a reign that is no longer remembered.
    pub fn has_forgotten(&self, attempt: Attempt) -> bool {
        let oldest = self.lineage.first();
        self.lineage_cut && oldest.is_some_and(|reign| attempt.move_id < reign.data.move_id)
    }

    /// Ends the present reign and the present move: `owner` reigns from `start` on.
    pub(crate) fn crown(&mut self, owner: NodeId, data: Attempt, start: Offset, residue: Residue) {
        if self.lineage.len() >= Self::LINEAGE_MAX {
            self.lineage.remove(0);
            self.lineage_cut = true;
        }
        let kept = is_planted(Bug::EpochNotBumped);
        let epoch = if kept { self.epoch } else { self.epoch.next() };
        self.lineage.push(Reign { epoch, start, owner, data, residue });
        self.owner = owner;
        self.epoch = epoch;
        self.data = data;
        self.min_end = self.min_end.max(start);
        if !is_planted(Bug::FloorOutlivesTheReign) {
            self.revoked = None;
        }
        self.reported_hwm = None;
        self.replan(None);
    }

    /// Begins the next move, with or without a target: no flip of an older one can apply (H5).
    pub(crate) fn replan(&mut self, target: Option<NodeId>) {
        if target.is_some() || self.target.is_none() || !is_planted(Bug::MoveIdNotBumped) {
            self.move_id = self.move_id.next();
        }
        self.target = target;
        self.burned = None;
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
    /// What its beginning left on the disk of the owner before it (H14).
    pub residue: Residue,
}

impl Reign {
    /// Whether it began with an empty log although it succeeded another: the partition was declared
    /// lost. No copy is of life zero.
    pub const fn began_empty(&self) -> bool {
        self.data.no.incarnation.0 == 0 && !matches!(self.residue, Residue::None)
    }
}

/// Records of a past owner that the flip which ended its reign did not capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Residue {
    /// There are none: the partition was born here, or the old owner was frozen when it flipped.
    None,
    /// The old owner was dead: it may hold records from the reign's start on, and must produce
    /// them again before its directory may go (H14, H39).
    Pending,
    /// It was dead, and has said since that all of them have been produced again.
    Reclaimed,
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
