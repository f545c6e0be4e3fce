//! Placements for tests.

use std::collections::BTreeMap;

use narad_core::ids::{NodeId, PartitionId, TopicId};
use narad_core::plan::{
    Explained, Limits, Move, Node, Partition, Placement, Role, Topic, plan as compact,
};

pub(crate) use Role::{Dead, Leaving, Receiver};

/// Plans in full.
pub(crate) fn plan(placement: &Placement, limits: &Limits) -> Explained {
    compact(placement, limits).explain(placement)
}

/// Nodes 1, 2, .. with these roles.
pub(crate) fn nodes(roles: &[Role]) -> Vec<Node> {
    (1..).map(NodeId).zip(roles).map(|(id, &role)| Node { id, role }).collect()
}

pub(crate) fn topic(id: u64) -> Topic {
    Topic { id: TopicId(id), parent: None }
}

pub(crate) fn child(id: u64, parent: u64) -> Topic {
    Topic { id: TopicId(id), parent: Some(TopicId(parent)) }
}

pub(crate) fn id(topic: u64, index: u32) -> PartitionId {
    PartitionId { topic: TopicId(topic), index }
}

/// Partitions 0, 1, .. of a topic, settled on these nodes.
pub(crate) fn settled(topic: u64, owners: &[u64]) -> Vec<Partition> {
    let ids = (0..).map(|index| id(topic, index));
    ids.zip(owners).map(|(id, &owner)| Partition::settled(id, NodeId(owner))).collect()
}

/// One topic, whose partitions are settled on these nodes.
pub(crate) fn one_topic(roles: &[Role], owners: &[u64]) -> Placement {
    placement(roles, vec![topic(1)], settled(1, owners))
}

pub(crate) fn placement(
    roles: &[Role],
    topics: Vec<Topic>,
    partitions: Vec<Partition>,
) -> Placement {
    Placement::new(nodes(roles), topics, partitions).expect("a valid placement")
}

/// The same rows with another role for one node; a node that is not there joins.
pub(crate) fn with_role(placement: &Placement, node: u64, role: Role) -> Placement {
    let others = placement.nodes().iter().copied().filter(|other| other.id != NodeId(node));
    let nodes = others.chain([Node { id: NodeId(node), role }]).collect();
    Placement::new(nodes, placement.topics().to_vec(), placement.partitions().to_vec())
        .expect("still valid")
}

/// The same rows with one partition changed.
pub(crate) fn with(
    placement: &Placement,
    id: PartitionId,
    change: impl Fn(&mut Partition),
) -> Placement {
    let mut partitions = placement.partitions().to_vec();
    partitions.iter_mut().filter(|row| row.id == id).for_each(change);
    Placement::new(placement.nodes().to_vec(), placement.topics().to_vec(), partitions)
        .expect("still valid")
}

/// Completes all moves in flight.
pub(crate) fn complete_all(placement: &mut Placement) {
    for id in in_flight(placement) {
        assert!(placement.complete(id));
    }
}

pub(crate) fn in_flight(placement: &Placement) -> Vec<PartitionId> {
    let moving = placement.partitions().iter().filter(|row| row.target.is_some());
    moving.map(|row| row.id).collect()
}

/// How many partitions end up on each node once everything in flight and in the plan is done.
pub(crate) fn ends_with(placement: &Placement, plan: &Explained) -> BTreeMap<NodeId, usize> {
    let moves = moves(plan);
    let mut counts: BTreeMap<_, _> = placement.nodes().iter().map(|node| (node.id, 0)).collect();
    for row in placement.partitions() {
        let place = moves.get(&row.id).copied().unwrap_or(row.target.unwrap_or(row.owner));
        *counts.get_mut(&place).expect("a listed node") += 1;
    }
    counts
}

/// Where every planned partition goes.
pub(crate) fn moves(plan: &Explained) -> BTreeMap<PartitionId, NodeId> {
    plan.all().map(|&Move { partition, to, .. }| (partition, to)).collect()
}
