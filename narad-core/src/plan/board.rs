//! The planner's working copy of a placement: where everything ends up.

use alloc::vec::Vec;

use super::limits::Step;
use super::placement::{NONE, Placement, Role};

/// What a plan may do with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Settled on a live owner and unpinned.
    Movable,
    /// Settled on a live owner, but an operator keeps it there.
    Pinned,
    /// Mid-move.
    Moving,
    /// Settled on a dead owner.
    Stranded,
}

/// A placement in which movable partitions can be put elsewhere.
#[derive(Debug)]
pub(super) struct Board<'a> {
    pub(super) placement: &'a Placement,
    /// The node where each partition ends up, or [`NONE`] while that is being decided.
    pub(super) place: Vec<u32>,
}

impl<'a> Board<'a> {
    pub(super) fn new(placement: &'a Placement) -> Self {
        Self { placement, place: placement.places().to_vec() }
    }

    /// Returns the move that brings the partition to its place.
    pub(super) fn step(&self, partition: u32) -> Step {
        Step { partition, to: self.place(partition) }
    }

    pub(super) fn place(&self, partition: u32) -> u32 {
        self.place[partition as usize]
    }

    /// Returns the partition's owner.
    pub(super) fn owner(&self, partition: u32) -> u32 {
        self.placement.owner_of(partition)
    }

    /// Returns the size of the partition's log.
    pub(super) fn bytes(&self, partition: u32) -> u64 {
        self.placement.partitions()[partition as usize].bytes.0
    }

    pub(super) fn role(&self, node: u32) -> Role {
        self.placement.nodes()[node as usize].role
    }

    pub(super) fn kind(&self, partition: u32) -> Kind {
        let marks = self.placement.mark_of(partition);
        if marks.is_moving() {
            Kind::Moving
        } else if self.role(self.owner(partition)) == Role::Dead {
            Kind::Stranded
        } else if marks.is_pinned() {
            Kind::Pinned
        } else {
            Kind::Movable
        }
    }

    pub(super) fn is_movable(&self, partition: u32) -> bool {
        self.kind(partition) == Kind::Movable
    }

    /// Counts the relatives of `partition` that end up on `node` (R81).
    pub(super) fn conflicts(&self, partition: u32, node: u32) -> u32 {
        let here = |relative: &u32| self.place(*relative) == node;
        // At most one relative for each topic, and those fit 32 bits.
        self.placement.relatives(partition).filter(here).map(|_| 1).sum()
    }

    /// Counts the pairs of relatives that end up on one live node.
    pub(super) fn conflicts_everywhere(&self) -> u64 {
        if !self.placement.has_relatives() {
            return 0;
        }
        let each = (0..)
            .zip(&self.place)
            .filter(|&(_, &node)| node != NONE && self.role(node) != Role::Dead);
        each.map(|(partition, &node)| u64::from(self.conflicts(partition, node))).sum::<u64>() / 2
    }
}
