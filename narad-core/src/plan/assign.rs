//! Where new partitions are born.

use alloc::vec::Vec;

use super::limits::Limits;
use super::placement::{Node, Partition, Placement, PlacementError, Role, Topic};
use super::plan;
use crate::ids::{NodeId, PartitionId};

/// Why new partitions have no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    /// No node receives.
    #[error("no node receives partitions; add a node or cancel a drain")]
    NoReceiver,
    /// The partitions are no addition to the placement.
    #[error(transparent)]
    Placement(#[from] PlacementError),
}

/// Chooses the first owner of new partitions, `indices` of `topic`, in their order.
///
/// They go where they leave the least to rebalance: to the nodes with the fewest partitions, apart
/// from the partitions of the same index in the topic's parent and children (R81), and then spread
/// over nodes (K107, K112). Nothing that exists moves. The topic may be new or grow.
///
/// # Errors
///
/// If no node receives, or an index exists already.
///
/// # Examples
///
/// Topics of one partition do not pile up on the first node:
///
/// ```
/// use narad_core::ids::{NodeId, TopicId};
/// use narad_core::plan::{Node, Placement, Role, Topic, assign};
///
/// let nodes = [1, 2, 3].map(|id| Node { id: NodeId(id), role: Role::Receiver });
/// let empty = Placement::new(nodes.into(), vec![], vec![])?;
/// let topic = Topic { id: TopicId(7), parent: None };
/// assert_eq!(assign(&empty, topic, 0..3)?, [NodeId(1), NodeId(2), NodeId(3)]);
/// # Ok::<(), narad_core::plan::AssignError>(())
/// ```
pub fn assign(
    placement: &Placement,
    topic: Topic,
    indices: core::ops::Range<u32>,
) -> Result<Vec<NodeId>, AssignError> {
    if !placement.nodes().iter().any(|node| node.role == Role::Receiver) {
        return Err(AssignError::NoReceiver);
    }
    // The new partitions drain off a node that does not exist; all others are pinned.
    let nowhere = NodeId(0);
    let nodes = placement.nodes().iter().copied().filter(|node| node.id != nowhere);
    let nodes = nodes.chain([Node { id: nowhere, role: Role::Leaving }]).collect();
    let others = placement.topics().iter().copied().filter(|other| other.id != topic.id);
    let topics = others.chain([topic]).collect();
    let pinned = placement.partitions().iter().map(|row| Partition { pinned: true, ..*row });
    let id = |index| PartitionId { topic: topic.id, index };
    let born = indices.clone().map(|index| Partition::settled(id(index), nowhere));
    let whole = Placement::new(nodes, topics, pinned.chain(born).collect())?;

    let mut births: Vec<_> = plan(&whole, &Limits::UNLIMITED).moves;
    births.sort_unstable_by_key(|planned| planned.partition);
    Ok(births.into_iter().map(|planned| planned.to).collect())
}
