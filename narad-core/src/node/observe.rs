//! What a node lets others see of itself.

use super::{Effect, Identity, Node, Salvaged};
use crate::dispatch::{self, Backlog};
use crate::effects::OpId;
use crate::freeze::Authority;
use crate::ids::{Epoch, Incarnation, NodeId, PartitionId};
use crate::metastore::State;
use crate::mover::journal::Journal;
use crate::mover::{Mover, Progress, What};
use crate::plan::Placement;
use crate::{controller, freeze, host, lease, mover};

/// Something worth knowing; the driver turns it into log lines and metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// Of a move to this node.
    Mover(PartitionId, mover::Note),
    /// Of a move away from this node.
    Handoff(PartitionId, freeze::handoff::Note),
    /// Of a partition that this node owns.
    Host(PartitionId, host::Note),
    /// Of this node's leading.
    Controller(controller::Note),
    /// Of this node's registration and lease.
    Lease(lease::Note),
    /// Who leads has changed.
    Leader(Option<NodeId>),
    /// Of the way of accepted records.
    Dispatch(dispatch::Note),
    /// Records that a flip had not captured were accepted once more (H14).
    Salvaged {
        /// The partition.
        partition: PartitionId,
        /// The reign that began without them.
        epoch: Epoch,
        /// What was accepted.
        salvaged: Salvaged,
    },
    /// A past owner, this node, has told the present one what was acknowledged here (R52).
    AcksForwarded {
        /// The partition.
        partition: PartitionId,
        /// The present owner.
        to: NodeId,
    },
    /// A directory that is proved dead goes to quarantine.
    SetAside(PartitionId, What),
    /// This node was taken out for good: it can be stopped and wiped.
    Retired,
    /// The answer of an operation that is not under way.
    Stale(OpId),
}

/// How often what others keep copies of has changed, so that they need not compare it every time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct News {
    /// Entries that have changed members or who of them votes, and snapshots.
    pub members: u64,
    /// Entries that have changed topics, and snapshots.
    pub topics: u64,
}

impl Node {
    /// Returns the replicated state as far as this node has applied it.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Returns who this node is.
    pub const fn identity(&self) -> &Identity {
        &self.me
    }

    /// Returns this node's present life.
    pub const fn incarnation(&self) -> Incarnation {
        self.lease.incarnation()
    }

    /// Returns whether this node's present life is registered.
    pub fn is_registered(&self) -> bool {
        self.is_registered_now()
    }

    /// Returns how often members and topics have changed in this life.
    pub const fn news(&self) -> News {
        self.news
    }

    /// Returns who leads, as far as this node knows.
    pub const fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// Returns whether this node has been taken out for good.
    pub fn is_retired(&self) -> bool {
        self.state.member(self.me.node).is_some_and(|me| me.retired)
    }

    /// Returns the reign in which this node serves a partition, if it does.
    pub fn serving(&self, partition: PartitionId) -> Option<Epoch> {
        self.handoffs.get(&partition)?;
        self.hosts.get(&partition)?.open()
    }

    /// Returns why a partition that this node owns cannot be served, if that is so.
    pub fn fault(&self, partition: PartitionId) -> Option<host::Fault> {
        self.hosts.get(&partition)?.fault()
    }

    /// Returns how the moves to this node are coming on.
    pub fn moves(&self) -> impl Iterator<Item = (PartitionId, Progress)> + '_ {
        self.movers.iter().map(|(partition, mover)| (*partition, Mover::progress(mover)))
    }

    /// Keeps a [journal](crate::mover::journal) of each move to this node from now on; nothing else
    /// changes.
    pub fn keep_journals(&mut self) {
        self.journals.get_or_insert_default();
    }

    /// Returns the newest journal of moves of a partition to this node, if journals are kept.
    pub fn journal(&self, partition: PartitionId) -> Option<&Journal> {
        self.journals.as_ref()?.newest(partition)
    }

    /// Returns until when this node's owner lease lasts, and whether it can commit at all; in its
    /// [`Authority`].
    pub const fn authority(&self) -> Authority {
        self.lease.authority()
    }

    /// Returns what the planner of this node looks at; only a leader's knows which moves are stuck.
    /// `None` only while the state refers to what it lacks, which no applied state does.
    pub fn placement(&self) -> Option<Placement> {
        self.controller.placement(&self.state)
    }

    /// Returns what was accepted here and has not arrived at its owner.
    pub fn backlog(&self) -> Backlog {
        self.dispatch.backlog()
    }

    /// Returns what became of the records that were accepted here in this life.
    pub const fn dispatched(&self) -> dispatch::Progress {
        self.dispatch.progress()
    }

    /// Returns the partitions of which this disk holds something that a decommission must wait for:
    /// records that nobody else is known to have, or that are too old to be judged (H14, H37).
    pub fn left_behind(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.sweeps.residue.iter().copied()
    }

    pub(super) fn note(&mut self, note: Note) {
        self.out.push(Effect::Note(note));
    }
}
