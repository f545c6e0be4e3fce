//! Where partitions are, as this node has learned it.

use narad_core::cursor::Lineage;
use narad_core::ids::{Epoch, NodeId, PartitionId, TopicId};
use narad_core::node::Node;

use crate::service::ServiceError;

/// Where a partition is, as this node has learned it.
pub(super) struct Place {
    pub(super) partition: PartitionId,
    pub(super) owner: NodeId,
    pub(super) owner_http: Option<String>,
    /// For readers that come from an earlier reign.
    pub(super) lineage: Lineage,
    /// The reigns of which it is known whose they were.
    reigns: Vec<(Epoch, NodeId)>,
}

impl Place {
    pub(super) const fn topic(&self) -> TopicId {
        self.partition.topic
    }

    /// Whether a reign is known to have been a node's.
    pub(super) fn was_of(&self, node: NodeId, epoch: Epoch) -> bool {
        self.reigns.contains(&(epoch, node))
    }
}

/// Finds a partition of a topic by its name.
pub(super) fn place_of(node: &Node, topic: &str, index: u32) -> Result<Place, ServiceError> {
    let state = node.state();
    let found =
        state.topic_named(topic).ok_or_else(|| ServiceError::UnknownTopic(topic.to_owned()))?;
    if index >= found.partitions {
        let (topic, partition) = (topic.to_owned(), index);
        return Err(ServiceError::UnknownPartition { topic, partition });
    }
    let partition = PartitionId { topic: found.id, index };
    // A topic that was just created has no owners yet.
    let row = state.assignment(partition).ok_or(ServiceError::NotServing)?;
    Ok(Place {
        partition,
        owner: row.owner,
        owner_http: state.member(row.owner).map(|owner| owner.addrs.http.clone()),
        lineage: Lineage::of(row),
        reigns: row.lineage.iter().map(|reign| (reign.epoch, reign.owner)).collect(),
    })
}
