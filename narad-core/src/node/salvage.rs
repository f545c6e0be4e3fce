//! Accepts once more what a flip has not captured (H14).
//!
//! A past owner comes back after a forced flip or a declared loss, with records from the beginning
//! of the next reign on that no owner has. They go the way of any accepted record; once they are
//! durable in the ingress log, the log is told so, and only then does the directory count as dead.

use alloc::collections::BTreeSet;

use super::routes::{Route, Ticket};
use super::{Node, Note, Operation, Salvaged, Shipping};
use crate::ids::{Attempt, Epoch, Offset, PartitionId};
use crate::metastore::{Command, Reply};
use crate::proposals::Proposed;

/// What a past reign has left in one directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Residue {
    pub(super) data: Attempt,
    /// The reign that began without it.
    pub(super) epoch: Epoch,
    /// Its first record.
    pub(super) start: Offset,
}

/// How far this node has come with what past reigns have left on its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Salvages {
    under_way: BTreeSet<(PartitionId, Residue)>,
    /// Accepted in this life: not again, should the log be slow to hear of it.
    accepted: BTreeSet<(PartitionId, Residue)>,
}

impl Node {
    /// Takes the next step with what a sweep has come upon.
    pub(super) fn salvage(&mut self, partition: PartitionId, residue: Residue) {
        if self.salvages.under_way.contains(&(partition, residue)) {
            return;
        }
        self.salvages.under_way.insert((partition, residue));
        if self.salvages.accepted.contains(&(partition, residue)) {
            self.reclaim(partition, residue);
            return;
        }
        let Residue { data, start, .. } = residue;
        let shipping = Shipping::Salvage { partition, data, from: start };
        self.run(Operation::Ship(shipping), Route::Salvage(partition, residue));
    }

    pub(super) fn residue_is_accepted(
        &mut self,
        partition: PartitionId,
        residue: Residue,
        salvaged: Option<Salvaged>,
    ) {
        let Some(salvaged) = salvaged else {
            self.salvage_later(partition, residue);
            return;
        };
        self.salvages.accepted.insert((partition, residue));
        self.note(Note::Salvaged { partition, epoch: residue.epoch, salvaged });
        self.reclaim(partition, residue);
    }

    /// The row changes by it, and the next sweep finds the directory dead.
    pub(super) fn residue_is_reclaimed(
        &mut self,
        partition: PartitionId,
        residue: Residue,
        proposed: &Proposed,
    ) {
        if let Proposed::Replied(Reply::Applied(_)) = proposed {
            self.salvages.under_way.remove(&(partition, residue));
            self.touch(partition);
        } else {
            self.salvage_later(partition, residue);
        }
    }

    fn reclaim(&mut self, partition: PartitionId, residue: Residue) {
        let command = Command::ReclaimReady { partition, node: self.me.node, epoch: residue.epoch };
        self.propose(command, Ticket::Reclaim(partition, residue));
    }

    fn salvage_later(&mut self, partition: PartitionId, residue: Residue) {
        self.salvages.under_way.remove(&(partition, residue));
        self.sweeps.touch(partition);
        self.sweeps.retry_at(partition, self.now.after(self.config.retry_max));
    }
}
