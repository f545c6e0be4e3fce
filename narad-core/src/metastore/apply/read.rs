//! What the state says. Nothing here walks over rows that the asker did not ask for.

use core::time::Duration;

use super::State;
use crate::config::Policy;
use crate::ids::{LogIndex, Name, NodeId, PartitionId, StoreUuid, TopicId};
use crate::metastore::assignment::Assignment;
use crate::metastore::member::{Configuration, Member, Status};
use crate::metastore::topic::Topic;

impl State {
    /// Returns the last entry that was applied.
    pub const fn applied(&self) -> LogIndex {
        self.applied
    }

    /// Returns the cluster version: which commands may be proposed.
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Whether a command that needs `version` may be proposed (`Command::version`).
    pub const fn admits(&self, version: u32) -> bool {
        version <= self.version
    }

    /// Returns what the cluster agrees on.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the Raft configuration as of the last applied change.
    pub const fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Returns the row of a partition; `None` if it has no owner yet, or is no more.
    pub fn assignment(&self, partition: PartitionId) -> Option<&Assignment> {
        self.assignments.get(&partition)
    }

    /// Returns all rows, by partition.
    pub fn assignments(&self) -> impl ExactSizeIterator<Item = (PartitionId, &Assignment)> {
        self.assignments.iter().map(|(&partition, row)| (partition, row))
    }

    /// Returns the rows of one topic, by partition.
    pub fn assignments_of_topic(
        &self,
        topic: TopicId,
    ) -> impl Iterator<Item = (PartitionId, &Assignment)> {
        let (first, last) =
            (PartitionId { topic, index: 0 }, PartitionId { topic, index: u32::MAX });
        self.assignments.range(first..=last).map(|(&partition, row)| (partition, row))
    }

    /// Returns the partitions that have a target.
    pub fn targeted(&self) -> impl ExactSizeIterator<Item = PartitionId> + '_ {
        self.index.targeted.iter().copied()
    }

    /// Returns the partitions of a topic that have a target.
    pub fn targeted_of_topic(&self, topic: TopicId) -> impl Iterator<Item = PartitionId> + '_ {
        let first = PartitionId { topic, index: 0 };
        let last = PartitionId { topic, index: u32::MAX };
        self.index.targeted.range(first..=last).copied()
    }

    /// Returns the partitions that have no owner yet.
    pub fn unassigned(&self) -> impl ExactSizeIterator<Item = PartitionId> + '_ {
        self.index.unassigned.iter().copied()
    }

    /// Returns the partitions that a node owns.
    pub fn owned_by(&self, node: NodeId) -> impl Iterator<Item = PartitionId> + '_ {
        self.index.owned.of(node)
    }

    /// Returns the partitions whose target is the node.
    pub fn targets_of(&self, node: NodeId) -> impl Iterator<Item = PartitionId> + '_ {
        self.index.inbound.of(node)
    }

    /// Returns the partitions that a node owns and that have a target.
    pub fn outbound_of(&self, node: NodeId) -> impl Iterator<Item = PartitionId> + '_ {
        self.index.outbound.of(node)
    }

    /// Returns how many partitions a node owns.
    pub fn owned_count(&self, node: NodeId) -> usize {
        self.index.owned.count(node)
    }

    /// Returns how many partitions have the node as their target.
    pub fn inbound_count(&self, node: NodeId) -> usize {
        self.index.inbound.count(node)
    }

    /// Returns how many partitions that a node owns have a target.
    pub fn outbound_count(&self, node: NodeId) -> usize {
        self.index.outbound.count(node)
    }

    /// Returns a member, retired or not.
    pub fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.get(&node)
    }

    /// Returns the member that goes by a name now; a retired one's name is free again.
    pub fn member_named(&self, name: &str) -> Option<&Member> {
        let name = Name::new(name).ok()?;
        self.members.get(self.index.member_names.get(&name)?)
    }

    /// Returns the member that a data directory is, retired or not.
    pub fn member_of_store(&self, store_uuid: StoreUuid) -> Option<&Member> {
        self.members.get(self.index.stores.get(&store_uuid)?)
    }

    /// Returns all members, the retired ones too, by id.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &Member> {
        self.members.values()
    }

    /// Returns a topic.
    pub fn topic(&self, topic: TopicId) -> Option<&Topic> {
        self.topics.get(&topic)
    }

    /// Returns the topic that goes by a name now.
    pub fn topic_named(&self, name: &str) -> Option<&Topic> {
        let name = Name::new(name).ok()?;
        self.topics.get(self.index.topic_names.get(&name)?)
    }

    /// Returns all topics, by id.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Topic> {
        self.topics.values()
    }

    /// Returns how long the member must have been Dead, since this node applied its death, before
    /// its partitions may be promoted (R63); `None` while it is alive or if it is unknown.
    ///
    /// At least the present `force_promote_after`, and at least what was in force when it was
    /// declared dead: a shorter one counts only for deaths that come after it.
    pub fn promote_after(&self, node: NodeId) -> Option<Duration> {
        let member = self.members.get(&node)?;
        match member.status {
            Status::Alive => None,
            Status::Dead(_) => {
                Some(member.timing.promote_after.max(self.policy.force_promote_after))
            }
        }
    }
}
