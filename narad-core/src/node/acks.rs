//! Lets consumers go on where they stood, here and, after a flip, at the next owner.
//!
//! A flip carries the position that was captured. What is acknowledged at the old owner after the
//! capture is told to the new one (H28, R52), until that has taken it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::retries::Retries;
use super::routes::Route;
use super::{Gating, Node, Note, Operation};
use crate::cursor::{Acks, Lineage, Taken};
use crate::effects::Deadline;
use crate::ids::{Epoch, PartitionId};
use crate::metastore::Residue;
use crate::peer::{Answer, Refusal, Request, RequestId};
use crate::time::Instant;

/// What consumers have acknowledged here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Acknowledged {
    /// Partitions whose consumers were served here, with the reign.
    served: BTreeMap<PartitionId, Epoch>,
    /// Those of them that are another's now, until that one knows what was acknowledged.
    leaving: BTreeMap<PartitionId, Leaving>,
    retries: Retries,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Leaving {
    /// What was acknowledged is being collected.
    Collecting,
    /// It is being told.
    Telling(Acks),
    /// It is told again later.
    Resting(Acks),
}

impl Acknowledged {
    pub(super) fn deadline(&self) -> Option<Deadline> {
        let at = self.retries.first()?;
        Some(Deadline { at, why: "tell an owner again what was acknowledged here" })
    }

    /// Removes and returns the partitions that are to be looked at again.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<PartitionId> {
        self.retries.take_due(now)
    }
}

impl Node {
    /// Lets consumers go on at a log that was opened, in the reign that its row still names.
    pub(super) fn resume_consumers(&mut self, partition: PartitionId, epoch: Epoch) {
        let Some(row) = self.state.assignment(partition).filter(|row| row.epoch == epoch) else {
            return;
        };
        let lineage = Lineage::of(row);
        // What an earlier reign has not told by now is delivered again.
        self.acknowledged.leaving.remove(&partition);
        self.acknowledged.served.insert(partition, epoch);
        self.run(Operation::Gate(partition, Gating::Resume(lineage)), Route::Resume);
    }

    /// Takes the next step with a partition whose consumers were served here and are no more.
    pub(super) fn forward_acks(&mut self, partition: PartitionId) {
        let Some(&served) = self.acknowledged.served.get(&partition) else { return };
        let row = self.state.assignment(partition);
        let is_over = row.is_none_or(|row| row.epoch > served);
        let is_open = self.handoffs.contains_key(&partition) || self.hosts.contains_key(&partition);
        if !is_over || is_open {
            return;
        }
        match self.acknowledged.leaving.remove(&partition) {
            None => {
                let next =
                    row.and_then(|row| row.lineage.iter().find(|reign| reign.epoch > served));
                let forced = next.is_none_or(|next| next.residue != Residue::None);
                self.acknowledged.leaving.insert(partition, Leaving::Collecting);
                let gating = Gating::HandOver { forced };
                self.run(Operation::Gate(partition, gating), Route::HandOver(partition));
            }
            Some(Leaving::Resting(acks)) => self.tell_acks(partition, acks),
            Some(under_way @ (Leaving::Collecting | Leaving::Telling(_))) => {
                self.acknowledged.leaving.insert(partition, under_way);
            }
        }
    }

    pub(super) fn acks_are_collected(&mut self, partition: PartitionId, acks: Acks) {
        if self.acknowledged.leaving.remove(&partition) == Some(Leaving::Collecting) {
            self.tell_acks(partition, acks);
        }
    }

    /// Tells the present owner; nothing if there is nothing to tell, or nobody to be told.
    fn tell_acks(&mut self, partition: PartitionId, acks: Acks) {
        let owner = self.state.assignment(partition).map(|row| row.owner);
        let Some(to) = owner.filter(|owner| *owner != self.me.node && !acks.spans.is_empty())
        else {
            self.acknowledged.served.remove(&partition);
            return;
        };
        self.acknowledged.leaving.insert(partition, Leaving::Telling(acks.clone()));
        let request = Request::TakeAcks { partition, acks };
        self.run(Operation::Call { to, request }, Route::ForwardAcks(partition));
    }

    pub(super) fn acks_are_answered(&mut self, partition: PartitionId, taken: bool) {
        let leaving = self.acknowledged.leaving.remove(&partition);
        let Some(Leaving::Telling(acks)) = leaving else { return };
        if taken {
            self.acknowledged.served.remove(&partition);
            if let Some(to) = self.state.assignment(partition).map(|row| row.owner) {
                self.note(Note::AcksForwarded { partition, to });
            }
            return;
        }
        self.acknowledged.leaving.insert(partition, Leaving::Resting(acks));
        let again = self.now.after(self.config.retry_max);
        self.acknowledged.retries.add(partition, again);
    }

    /// A past owner tells what was acknowledged there.
    pub(super) fn offered_acks(&mut self, id: RequestId, partition: PartitionId, acks: Acks) {
        if self.serving(partition).is_none() {
            self.answer(id, Answer::Refused(Refusal::NotServing));
            return;
        }
        self.run(Operation::Gate(partition, Gating::Take(acks)), Route::TakeAcks(id));
    }

    pub(super) fn acks_are_taken(&mut self, id: RequestId, taken: Option<Taken>) {
        let answer = taken.map_or(Answer::Refused(Refusal::NotServing), |_| Answer::Noted);
        self.answer(id, answer);
    }
}
