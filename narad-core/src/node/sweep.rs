//! What is left on the disk of partitions that this node neither serves nor receives.
//!
//! A directory goes to quarantine only if the state behind a barrier proves it dead (S10); staging
//! goes only while its source is alive, because it may be the last copy (case C54).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::routes::Route;
use super::{Node, Note, Operation, Outcome, Staging, StagingOutcome};
use crate::effects::Deadline;
use crate::ids::{Attempt, PartitionId};
use crate::metastore::{Status, Verdict};
use crate::mover::What;
use crate::partition::Recovered;
use crate::time::Instant;

/// Which partitions have anything on this disk, and what is being done about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sweeps {
    /// Anything at all is on the disk.
    pub(super) held: BTreeSet<PartitionId>,
    /// Something has changed since the last look.
    dirty: BTreeSet<PartitionId>,
    /// A look or a removal is under way.
    busy: BTreeSet<PartitionId>,
    /// What a sweep has yet to set aside.
    doomed: BTreeMap<PartitionId, Vec<What>>,
    /// Holds records that nobody else is known to have (H14).
    pub(super) residue: BTreeSet<PartitionId>,
    retries: BTreeSet<(Instant, PartitionId)>,
}

impl Sweeps {
    pub(super) fn holding(held: BTreeSet<PartitionId>) -> Self {
        Self { held, ..Self::default() }
    }

    pub(super) fn touch(&mut self, partition: PartitionId) {
        self.dirty.insert(partition);
    }

    /// Returns whether nothing was under way.
    pub(super) fn begin(&mut self, partition: PartitionId) -> bool {
        self.busy.insert(partition)
    }

    pub(super) fn end(&mut self, partition: PartitionId) {
        self.busy.remove(&partition);
    }

    pub(super) fn retry_at(&mut self, partition: PartitionId, at: Instant) {
        self.retries.insert((at, partition));
    }

    /// Removes and returns the partitions that are to be looked at again.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<PartitionId> {
        let due: Vec<_> = self.retries.iter().take_while(|(at, _)| *at <= now).copied().collect();
        for retry in &due {
            self.retries.remove(retry);
        }
        due.into_iter().map(|(_, partition)| partition).collect()
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let (at, _) = self.retries.first()?;
        Some(Deadline { at: *at, why: "look at the disk again" })
    }

    /// Returns whether a look or a removal is under way anywhere.
    pub(super) fn is_busy(&self) -> bool {
        !self.busy.is_empty()
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

    pub(super) fn sweep_goes_on(&mut self, partition: PartitionId, outcome: Outcome) {
        match outcome {
            Outcome::Barrier(Some(_)) => {
                self.run(Operation::Inspect(partition), Route::Sweep(partition));
            }
            Outcome::Inspect(Some(found)) => {
                let doomed = self.judge(partition, &found);
                self.sweeps.doomed.insert(partition, doomed);
                self.set_next_aside(partition);
            }
            Outcome::Stage(StagingOutcome::SetAside(Ok(()))) => self.set_next_aside(partition),
            _ => {
                self.sweeps.doomed.remove(&partition);
                self.sweeps.end(partition);
                self.sweeps.touch(partition);
                self.sweeps.retry_at(partition, self.now.after(self.config.retry_max));
            }
        }
    }

    fn set_next_aside(&mut self, partition: PartitionId) {
        let next = self.sweeps.doomed.get_mut(&partition).and_then(Vec::pop);
        if let Some(what) = next {
            self.note(Note::SetAside(partition, what));
            let staging = Staging::SetAside(what);
            self.run(Operation::Stage(partition, staging), Route::Sweep(partition));
            return;
        }
        self.sweeps.doomed.remove(&partition);
        self.sweeps.end(partition);
        self.inbox.push_back(super::routes::Internal::Reconcile(partition));
    }

    /// Returns what may be set aside, and remembers what is left.
    fn judge(&mut self, partition: PartitionId, found: &Recovered) -> Vec<What> {
        let row = self.state.assignment(partition);
        let moving_here = row.is_some_and(|row| row.target == Some(self.me.node));
        if moving_here || self.movers.contains_key(&partition) {
            return Vec::new();
        }
        let verdict = |attempt: Attempt| self.state.verdict(partition, attempt);
        let dead = |attempt: &Attempt| verdict(*attempt) == Verdict::Dead;
        let attempts = || found.installed.iter().map(|(attempt, _)| *attempt);
        let mut doomed: Vec<What> = attempts().filter(dead).map(What::Installed).collect();

        let source_is_safe = match row {
            Some(row) => {
                self.state.member(row.owner).is_some_and(|owner| owner.status == Status::Alive)
            }
            None => dead(&Attempt::birth(self.me.node)),
        };
        if found.staging.is_some() && source_is_safe {
            doomed.push(What::Staging);
        }
        let residue = attempts().any(|attempt| {
            matches!(verdict(attempt), Verdict::Residue { .. } | Verdict::Forgotten)
        });
        let left = found.installed.len() + usize::from(found.staging.is_some()) - doomed.len();
        if residue {
            self.sweeps.residue.insert(partition);
        } else {
            self.sweeps.residue.remove(&partition);
        }
        if left == 0 {
            self.sweeps.held.remove(&partition);
        }
        doomed
    }
}
