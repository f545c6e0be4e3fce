//! Accepts once more what a flip has not captured (H14).
//!
//! A past owner comes back after a forced flip or a declared loss, with records from the beginning
//! of the next reign on that no owner has. They go the way of any accepted record; once they are
//! durable in the ingress log, the log is told so, and only then does the directory count as dead.
//!
//! A copy that was behind when its partition was declared lost is another such directory: its node
//! begins the next reign with an empty log, and accepts once more what the copy holds.

use alloc::collections::BTreeSet;

use super::routes::{Route, Ticket};
use super::{Node, Note, Operation, Salvaged, Shipping};
use crate::ids::{Attempt, Epoch, Offset, PartitionId};
use crate::metastore::{Command, Reply, Verdict};
use crate::mover::What;
use crate::partition::Manifest;
use crate::planted::{Bug, is_planted};
use crate::proposals::Proposed;

/// What a past reign has left in one directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Residue {
    pub(super) what: What,
    /// The reign that began without it.
    pub(super) epoch: Epoch,
    /// Its first record; `None`: the first that consumers have not acknowledged.
    pub(super) start: Option<Offset>,
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
        let skipped = is_planted(Bug::SalvageSkipped);
        if skipped || self.salvages.accepted.contains(&(partition, residue)) {
            self.reclaim(partition, residue);
            return;
        }
        let Residue { what, start, .. } = residue;
        let shipping = Shipping::Salvage { partition, what, from: start };
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

    /// Returns what a past reign has left in a directory: past what the next one has captured, or all
    /// of it if that began with nothing.
    pub(super) fn left_in(&self, partition: PartitionId, data: Attempt) -> Option<Residue> {
        let Verdict::Residue { epoch, start } = self.state.verdict(partition, data) else {
            return None;
        };
        let row = self.state.assignment(partition)?;
        let next = row.lineage.iter().find(|reign| reign.epoch == epoch)?;
        let start = Some(start).filter(|_| !next.began_empty());
        Some(Residue { what: What::Installed(data), epoch, start })
    }

    /// Returns what a copy holds that was behind when its partition was declared lost, from where
    /// consumers stood: the reign after the copied one began here, with an empty log.
    pub(super) fn left_in_staging(
        &self,
        partition: PartitionId,
        manifest: &Manifest,
    ) -> Option<Residue> {
        let row = self.state.assignment(partition)?;
        let reigns = row.lineage.iter().zip(row.lineage.iter().skip(1));
        let mut after = reigns.filter(|(copied, _)| copied.epoch == manifest.epoch);
        let (_, next) = after.next()?;
        let is_mine = next.owner == self.me.node && next.began_empty();
        let start = Some(manifest.position.committed.unwrap_or(manifest.start));
        let residue = Residue { what: What::Staging, epoch: next.epoch, start };
        let is_accepted = self.salvages.accepted.contains(&(partition, residue));
        (is_mine && !is_accepted).then_some(residue)
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
            // The row remembers it from now on.
            self.salvages.accepted.remove(&(partition, residue));
            self.touch(partition);
        } else {
            self.salvage_later(partition, residue);
        }
    }

    fn reclaim(&mut self, partition: PartitionId, residue: Residue) {
        if residue.what == What::Staging {
            // No row names a copy.
            self.salvages.under_way.remove(&(partition, residue));
            self.touch(partition);
            return;
        }
        let command = Command::ReclaimReady { partition, node: self.me.node, epoch: residue.epoch };
        self.propose(command, Ticket::Reclaim(partition, residue));
    }

    fn salvage_later(&mut self, partition: PartitionId, residue: Residue) {
        self.salvages.under_way.remove(&(partition, residue));
        self.sweeps.touch(partition);
        self.sweeps.retry_at(partition, self.now.after(self.config.retry_max));
    }
}
