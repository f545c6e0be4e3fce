//! Topics, and the first owners of their partitions.

use alloc::vec::Vec;

use super::index::Placement;
use super::{State, Turn};
use crate::ids::{Name, NodeId, PartitionId, TopicId};
use crate::metastore::assignment::Assignment;
use crate::metastore::command::{Applied, Reason};
use crate::metastore::topic::Topic;
use crate::planted::{Bug, is_planted};

impl State {
    pub(super) fn create_topic(
        &mut self,
        turn: &mut Turn<'_>,
        name: &Name,
        partitions: u32,
        parent: Option<TopicId>,
    ) -> Result<Applied, Reason> {
        if let Some(namesake) = self.index.topic_names.get(name).and_then(|id| self.topics.get(id))
            && namesake.created_by == turn.proposal
        {
            return Ok(Applied::Created(namesake.id));
        }
        if self.is_remembered(turn) {
            // It was created, and deleted since: its duplicate must not bring it back.
            return Err(Reason::Gone);
        }
        if self.index.topic_names.contains_key(name) {
            return Err(Reason::NameTaken);
        }
        let size = usize::try_from(partitions).unwrap_or(usize::MAX);
        let others = self.assignments.len() + self.index.unassigned.len();
        if !(1..=Topic::PARTITIONS_MAX).contains(&partitions)
            || size > Self::PARTITIONS_MAX.saturating_sub(others)
        {
            return Err(Reason::OutOfRange);
        }
        if parent.is_some_and(|parent| !self.topics.contains_key(&parent)) {
            return Err(Reason::UnknownTopic);
        }
        let again = is_planted(Bug::TopicIdGivenAgain);
        let newest = self.topics.keys().next_back().map_or(0, |newest| newest.0);
        let id = TopicId(if again { newest + 1 } else { turn.index.0 });
        let topic = Topic { id, name: name.clone(), partitions, parent, created_by: turn.proposal };
        self.index.add_topic(&topic);
        self.topics.insert(id, topic);
        turn.changed.topics.push(id);
        Ok(Applied::Created(id))
    }

    /// Removes the rows too, so that whatever still moves one of them ends with `Gone` (H47);
    /// topics that it fed lose their parent.
    pub(super) fn delete_topic(
        &mut self,
        turn: &mut Turn<'_>,
        id: TopicId,
    ) -> Result<Applied, Reason> {
        let topic = self.topics.remove(&id).ok_or(Reason::Gone)?;
        self.index.topic_names.remove(&topic.name);
        self.remember(topic.created_by);
        turn.changed.topics.push(id);
        for child in self.topics.values_mut().filter(|child| child.parent == Some(id)) {
            child.parent = None;
            turn.changed.topics.push(child.id);
        }
        let rows: Vec<_> =
            self.assignments_of_topic(id).map(|(p, row)| (p, Placement::of(row))).collect();
        for (partition, placement) in rows {
            self.assignments.remove(&partition);
            self.index.displace(partition, placement);
            turn.changed.partitions.push(partition);
        }
        for partition in topic.partition_ids() {
            self.index.unassigned.remove(&partition);
        }
        Ok(Applied::Done)
    }

    /// Inserts, and never replaces: a leader that does not know of the row yet must not make the
    /// partition anew on an empty disk (case 135).
    pub(super) fn assign_partition(
        &mut self,
        turn: &mut Turn<'_>,
        partition: PartitionId,
        node: NodeId,
    ) -> Result<Applied, Reason> {
        let topic = self.topics.get(&partition.topic).ok_or(Reason::UnknownTopic)?;
        if partition.index >= topic.partitions {
            return Err(Reason::OutOfRange);
        }
        let row = Assignment::born(node);
        if let Some(present) = self.assignments.get(&partition) {
            let same = present.owner == node && present.epoch == row.epoch;
            return if same { Ok(Applied::Done) } else { Err(Reason::AlreadyAssigned) };
        }
        if !is_planted(Bug::BornAnywhere) {
            self.receiver(node)?;
        }
        self.index.unassigned.remove(&partition);
        self.index.place(partition, Placement::of(&row));
        self.assignments.insert(partition, row);
        turn.changed.partitions.push(partition);
        Ok(Applied::Done)
    }
}
