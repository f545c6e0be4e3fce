//! Big clusters in six states.

use narad_core::ids::{NodeId, PartitionId, TopicId};
use narad_core::plan::{Node, Partition, Placement, Role, Topic};

use crate::Options;
use crate::bars::Threshold;

/// Partitions of one topic, where there are many topics.
const PER_TOPIC: u32 = 100;

/// How big a cluster is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) partitions: u32,
    pub(super) nodes: u32,
}

impl Size {
    /// A million partitions on a thousand nodes; fewer if a partition is smaller than 1 GiB.
    pub(super) fn of(options: &Options) -> Self {
        let mib = u32::try_from(options.bytes >> 20).unwrap_or(u32::MAX).min(1024);
        let part = |whole: u32| whole / 1024 * mib + whole % 1024 * mib / 1024;
        Self { partitions: part(1_000_000), nodes: part(1000) }
    }

    pub(super) const fn tenth(self) -> Self {
        Self { partitions: self.partitions / 10, nodes: self.nodes / 10 }
    }

    pub(super) const fn tenth_of_partitions(self) -> Self {
        Self { partitions: self.partitions / 10, nodes: self.nodes }
    }
}

/// What partitions have to do with one another.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kin {
    /// Nothing: all are of one topic, and only counts matter.
    Alone,
    /// Topics of a hundred partitions, each to be spread.
    Topics,
    /// And every fourth of them fans out from the one before.
    Families,
}

impl Kin {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Alone => "counts",
            Self::Topics => "spread",
            Self::Families => "spread, anti-affinity",
        }
    }

    /// What a plan may take, in tallies.
    pub(super) const fn most(self) -> Threshold {
        match self {
            Self::Alone => Threshold::AtMost(12.0),
            Self::Topics | Self::Families => Threshold::AtMost(25.0),
        }
    }

    fn per_topic(self, size: Size) -> u32 {
        match self {
            Self::Alone => size.partitions,
            Self::Topics | Self::Families => PER_TOPIC,
        }
    }

    fn parent(self, topic: u32) -> Option<TopicId> {
        match self {
            Self::Families if topic % 4 == 3 => Some(TopicId(u64::from(topic))),
            Self::Alone | Self::Topics | Self::Families => None,
        }
    }
}

/// Where a partition is and where it goes, `u32::MAX` for nowhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) owner: u32,
    pub(super) target: u32,
}

/// What has happened to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    Balanced,
    Join,
    Drain,
    Random,
    Skewed,
    Double,
}

impl Scene {
    pub(super) const ALL: [Self; 6] =
        [Self::Balanced, Self::Join, Self::Drain, Self::Random, Self::Skewed, Self::Double];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Join => "join",
            Self::Drain => "drain",
            Self::Random => "random",
            Self::Skewed => "skewed",
            Self::Double => "double",
        }
    }

    /// Returns the placement, and its owners and targets in a dense array.
    pub(super) fn build(self, size: Size, kin: Kin) -> (Placement, Vec<Ends>) {
        let nodes = match self {
            Self::Join => size.nodes + 1,
            Self::Double => size.nodes * 2,
            Self::Balanced | Self::Drain | Self::Random | Self::Skewed => size.nodes,
        };
        let role = |node| match self {
            Self::Drain if node == 7 => Role::Leaving,
            _ => Role::Receiver,
        };
        let id = |node: u32| NodeId(u64::from(node) + 1);
        let owners = self.owners(size);
        let per_topic = kin.per_topic(size);
        let topic = |topic: u32| TopicId(u64::from(topic) + 1);
        let rows = (0..).zip(&owners).map(|(n, owner)| {
            let partition = PartitionId { topic: topic(n / per_topic), index: n % per_topic };
            Partition::settled(partition, id(*owner))
        });
        let topics = (0..size.partitions.div_ceil(per_topic))
            .map(|nth| Topic { id: topic(nth), parent: kin.parent(nth) });
        let nodes = (0..nodes).map(|node| Node { id: id(node), role: role(node) });
        let placement = Placement::new(nodes.collect(), topics.collect(), rows.collect());
        let ends = owners.into_iter().map(|owner| Ends { owner, target: u32::MAX }).collect();
        (placement.expect("every id is listed once"), ends)
    }

    fn owners(self, size: Size) -> Vec<u32> {
        let (count, mut state) = (u64::from(size.nodes), 42_u64);
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let owner = |n: u32| match self {
            Self::Balanced | Self::Join | Self::Drain => u64::from(n) * 2_654_435_761 % count,
            Self::Random | Self::Double => random() % count,
            Self::Skewed => {
                // u^3, in millionths.
                let u = u128::from(random() % 1_000_000);
                u64::try_from(u * u * u * u128::from(count) / 10_u128.pow(18)).unwrap_or(0)
            }
        };
        let owners = (0..size.partitions).map(owner);
        owners.map(|owner| u32::try_from(owner).unwrap_or(0)).collect()
    }
}
