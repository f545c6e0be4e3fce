//! Topics: names for groups of partitions.

use crate::ids::{Name, PartitionId, ProposalId, TopicId};

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Topic {
    /// The log index of its creation.
    pub id: TopicId,
    /// Its name, for people. A name that is created again is another topic (H26).
    pub name: Name,
    /// How many partitions it has; 1 to [`Topic::PARTITIONS_MAX`].
    pub partitions: u32,
    /// The topic it is fed from: a child is kept off its parent's node where balance allows (R81).
    pub parent: Option<TopicId>,
    /// The proposal that created it, so that its duplicate is answered with this topic (H3).
    pub created_by: ProposalId,
}

impl Topic {
    /// Most partitions of one topic.
    pub const PARTITIONS_MAX: u32 = 100_000;

    /// Returns the ids of its partitions, in order.
    pub fn partition_ids(&self) -> impl Iterator<Item = PartitionId> + use<> {
        let topic = self.id;
        (0..self.partitions).map(move |index| PartitionId { topic, index })
    }
}
