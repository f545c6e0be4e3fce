//! What is left on the disk of partitions that this node neither serves nor receives.
//!
//! A directory goes to quarantine only if the state behind a barrier proves it dead (S10); staging
//! goes only while its source is alive, because it may be the last copy (case C54).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::retries::Retries;
use super::routes::Route;
use super::salvage::Residue;
use super::{Node, Note, Operation, Outcome, Staging, StagingOutcome};
use crate::effects::Deadline;
use crate::host::Host;
use crate::ids::{Attempt, PartitionId};
use crate::metastore::{Status, Verdict};
use crate::mover::What;
use crate::partition::Recovered;
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

/// Which partitions have anything on this disk, and what is being done about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sweeps {
    /// Anything at all is on the disk.
    pub(super) held: BTreeSet<PartitionId>,
    /// Those of them of which something has changed since the last look.
    dirty: BTreeSet<PartitionId>,
    /// A look or a removal is under way.
    busy: BTreeSet<PartitionId>,
    /// What a sweep has found.
    found: BTreeMap<PartitionId, Found>,
    /// Holds records that nobody else is known to have (H14).
    pub(super) residue: BTreeSet<PartitionId>,
    retries: Retries,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Found {
    /// What is yet to be set aside.
    doomed: Vec<What>,
    /// What is to be accepted once more.
    residues: Vec<Residue>,
    /// Whether something stays.
    keeps: bool,
}

impl Sweeps {
    pub(super) fn holding(held: BTreeSet<PartitionId>) -> Self {
        Self { dirty: held.clone(), held, ..Self::default() }
    }

    pub(super) fn touch(&mut self, partition: PartitionId) {
        if self.held.contains(&partition) {
            self.dirty.insert(partition);
        }
    }

    /// Returns whether nothing was under way.
    pub(super) fn begin(&mut self, partition: PartitionId) -> bool {
        self.busy.insert(partition)
    }

    pub(super) fn end(&mut self, partition: PartitionId) {
        self.busy.remove(&partition);
    }

    pub(super) fn retry_at(&mut self, partition: PartitionId, at: Instant) {
        self.retries.add(partition, at);
    }

    /// Removes and returns the partitions that are to be looked at again.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<PartitionId> {
        self.retries.take_due(now)
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        Some(Deadline { at: self.retries.first()?, why: "look at the disk again" })
    }

    /// Returns whether the whole disk has been looked at since anything changed, and nothing on it
    /// is missing elsewhere.
    pub(super) fn is_clean(&self) -> bool {
        self.busy.is_empty() && self.dirty.is_empty() && self.residue.is_empty()
    }
}

impl Node {
    /// Looks for what can be set aside, if something has changed since the last look.
    pub(super) fn sweep(&mut self, partition: PartitionId) {
        let held = self.sweeps.held.contains(&partition);
        if !held || self.sweeps.busy.contains(&partition) || !self.sweeps.dirty.remove(&partition) {
            return;
        }
        self.sweeps.busy.insert(partition);
        self.run(Operation::Barrier, Route::Sweep(partition));
    }

    pub(super) fn sweep_goes_on(&mut self, partition: PartitionId, outcome: &Outcome) {
        if let Outcome::Barrier(Some(_)) = outcome {
            self.run(Operation::Inspect(partition), Route::Sweep(partition));
        } else if let Outcome::Inspect(Some(found)) = outcome {
            let found = self.judge(partition, found);
            self.sweeps.found.insert(partition, found);
            self.set_next_aside(partition);
        } else if let Outcome::Stage(StagingOutcome::SetAside(Ok(()))) = outcome {
            self.set_next_aside(partition);
        } else {
            self.sweeps.found.remove(&partition);
            self.sweeps.end(partition);
            self.sweeps.touch(partition);
            self.sweeps.retry_at(partition, self.now.after(self.config.retry_max));
        }
    }

    fn set_next_aside(&mut self, partition: PartitionId) {
        let found = self.sweeps.found.get_mut(&partition);
        if let Some(what) = found.and_then(|found| found.doomed.pop()) {
            self.note(Note::SetAside(partition, what));
            let staging = Staging::SetAside(what);
            self.run(Operation::Stage(partition, staging), Route::Sweep(partition));
            return;
        }
        let found = self.sweeps.found.remove(&partition);
        let keeps = found.as_ref().is_none_or(|found| found.keeps);
        for residue in found.into_iter().flat_map(|found| found.residues) {
            self.salvage(partition, residue);
        }
        let used = self.hosts.contains_key(&partition)
            || self.movers.contains_key(&partition)
            || self.sweeps.dirty.contains(&partition);
        if !keeps && !used {
            self.sweeps.held.remove(&partition);
        }
        self.sweeps.end(partition);
        self.inbox.push_back(super::routes::Internal::Reconcile(partition));
    }

    /// Judges what is on the disk, and remembers whether some of it is nowhere else.
    fn judge(&mut self, partition: PartitionId, found: &Recovered) -> Found {
        let row = self.state.assignment(partition);
        let moving_here = row.is_some_and(|row| row.target == Some(self.me.node));
        if moving_here || self.movers.contains_key(&partition) {
            return Found { doomed: Vec::new(), residues: Vec::new(), keeps: true };
        }
        // What the owner still has open is looked at again once it is closed.
        let open = self.hosts.get(&partition).and_then(Host::directory);
        let verdict = |attempt: Attempt| self.state.verdict(partition, attempt);
        let dead = |attempt: &Attempt| verdict(*attempt) == Verdict::Dead;
        let attempts = || found.installed.iter().map(|(attempt, _)| *attempt);
        let mut doomed: Vec<What> = attempts()
            .filter(|attempt| dead(attempt) && open != Some(*attempt))
            .map(What::Installed)
            .collect();
        let copy = found.staging.as_ref();
        let behind = copy.and_then(|manifest| self.left_in_staging(partition, manifest));
        let is_staged = found.staging.is_some() || found.unlisted;
        if is_staged && behind.is_none() && self.is_source_safe(partition, found) {
            doomed.push(What::Staging);
        }
        let mut residues: Vec<Residue> = attempts()
            .filter(|attempt| open != Some(*attempt))
            .filter_map(|data| self.left_in(partition, data))
            .collect();
        let residue = behind.is_some()
            || attempts().any(|attempt| {
                matches!(verdict(attempt), Verdict::Residue { .. } | Verdict::Forgotten)
            });
        residues.extend(behind);
        let all = found.installed.len() + usize::from(is_staged);
        if residue {
            self.sweeps.residue.insert(partition);
        } else {
            self.sweeps.residue.remove(&partition);
        }
        Found { keeps: doomed.len() < all, doomed, residues }
    }

    /// Whether whatever is staged is known to be elsewhere, too (case C54): with an owner that is
    /// alive, or with this node if it owns the partition and has its directory (H25); or nobody
    /// wants it any more.
    fn is_source_safe(&self, partition: PartitionId, found: &Recovered) -> bool {
        let Some(row) = self.state.assignment(partition) else {
            let birth = Attempt::birth(self.me.node);
            return self.state.verdict(partition, birth) == Verdict::Dead;
        };
        let live_is_here = found.installed.iter().any(|(attempt, _)| *attempt == row.data);
        let owner = self.state.member(row.owner);
        let alive = owner.is_some_and(|owner| owner.status == Status::Alive)
            || is_planted(Bug::StagingOfDeadSwept);
        if row.owner == self.me.node { live_is_here } else { alive }
    }
}
