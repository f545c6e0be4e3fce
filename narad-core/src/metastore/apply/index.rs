//! What is looked up often, kept in step with the rows so that no reader scans them.

use alloc::collections::{BTreeMap, BTreeSet};

use super::State;
use crate::ids::{Name, NodeId, PartitionId, StoreUuid, TopicId};
use crate::metastore::assignment::Assignment;
use crate::metastore::member::Member;
use crate::metastore::topic::Topic;

/// The derived tables. Equal states have equal ones, so nothing empty is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Index {
    /// Every member's disk, the retired ones' too: a tombstone is found by it (H24h).
    pub(super) stores: BTreeMap<StoreUuid, NodeId>,
    /// Members that are not retired.
    pub(super) member_names: BTreeMap<Name, NodeId>,
    pub(super) topic_names: BTreeMap<Name, TopicId>,
    /// Partitions without a row.
    pub(super) unassigned: BTreeSet<PartitionId>,
    /// Rows with a target.
    pub(super) targeted: BTreeSet<PartitionId>,
    pub(super) owned: PerNode,
    /// Rows whose target is the node.
    pub(super) inbound: PerNode,
    /// Rows with a target whose owner is the node.
    pub(super) outbound: PerNode,
}

/// The part of a row that the index depends on.
#[derive(Clone, Copy)]
pub(super) struct Placement {
    owner: NodeId,
    target: Option<NodeId>,
}

/// A set of partitions for each node that has any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PerNode(BTreeMap<NodeId, BTreeSet<PartitionId>>);

impl Index {
    /// Builds the index from nothing.
    pub(super) fn recount(state: &State) -> Self {
        let mut index = Self::default();
        for member in state.members.values() {
            index.add_member(member);
        }
        for topic in state.topics.values() {
            index.add_topic(topic);
        }
        for (&partition, row) in &state.assignments {
            index.unassigned.remove(&partition);
            index.place(partition, Placement::of(row));
        }
        index
    }

    pub(super) fn add_member(&mut self, member: &Member) {
        self.stores.insert(member.store_uuid, member.id);
        if !member.retired {
            self.member_names.insert(member.name.clone(), member.id);
        }
    }

    /// Adds a topic, all of whose partitions are without a row.
    pub(super) fn add_topic(&mut self, topic: &Topic) {
        self.topic_names.insert(topic.name.clone(), topic.id);
        self.unassigned.extend(topic.partition_ids());
    }

    pub(super) fn place(&mut self, partition: PartitionId, at: Placement) {
        self.owned.insert(at.owner, partition);
        if let Some(target) = at.target {
            self.targeted.insert(partition);
            self.inbound.insert(target, partition);
            self.outbound.insert(at.owner, partition);
        }
    }

    pub(super) fn displace(&mut self, partition: PartitionId, at: Placement) {
        self.owned.remove(at.owner, partition);
        if let Some(target) = at.target {
            self.targeted.remove(&partition);
            self.inbound.remove(target, partition);
            self.outbound.remove(at.owner, partition);
        }
    }
}

impl Placement {
    pub(super) const fn of(row: &Assignment) -> Self {
        Self { owner: row.owner, target: row.target }
    }
}

impl PerNode {
    pub(super) fn of(&self, node: NodeId) -> impl Iterator<Item = PartitionId> + '_ {
        self.0.get(&node).into_iter().flatten().copied()
    }

    pub(super) fn count(&self, node: NodeId) -> usize {
        self.0.get(&node).map_or(0, BTreeSet::len)
    }

    fn insert(&mut self, node: NodeId, partition: PartitionId) {
        self.0.entry(node).or_default().insert(partition);
    }

    fn remove(&mut self, node: NodeId, partition: PartitionId) {
        if let Some(partitions) = self.0.get_mut(&node) {
            partitions.remove(&partition);
            if partitions.is_empty() {
                self.0.remove(&node);
            }
        }
    }
}
