//! Bringing accepted records to the owners of their partitions.

use crate::ids::{Seq, TopicId};

/// Where an accepted record is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Route {
    /// To the partition with this number, which the producer asked for.
    Partition(u32),
    /// To the partition that the hash of its key chooses: `Key(h)` belongs to `h % partitions`.
    Key(u64),
    /// Wherever there is room.
    Any,
}

/// What the core knows of one record in a node's ingress log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Waybill {
    /// Its position in the ingress log.
    pub seq: Seq,
    /// The topic.
    pub topic: TopicId,
    /// Where in the topic.
    pub route: Route,
    /// What it takes in the ingress log, in bytes.
    pub bytes: u32,
}
