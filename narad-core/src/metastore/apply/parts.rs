//! The state as plain data, for snapshots.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::index::Index;
use super::{SUPPORTED_VERSION, State};
use crate::config::{ConfigError, Policy};
use crate::ids::{
    Epoch, Generation, Incarnation, LogIndex, NodeId, PartitionId, ProposalId, TopicId,
};
use crate::metastore::assignment::{Assignment, Reign};
use crate::metastore::member::{Configuration, Member, Status};
use crate::metastore::topic::Topic;

/// Everything in a [`State`] that cannot be derived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Parts {
    /// The last entry that went into it.
    pub applied: LogIndex,
    /// The cluster version.
    pub version: u32,
    /// The highest id that a member was ever given; zero if none was.
    pub newest_node: NodeId,
    /// What the cluster agrees on.
    pub policy: Policy,
    /// The Raft configuration.
    pub configuration: Configuration,
    /// All members, the retired ones too, ascending by id.
    pub members: Vec<Member>,
    /// All topics, ascending by id.
    pub topics: Vec<Topic>,
    /// All rows, ascending by partition.
    pub assignments: Vec<(PartitionId, Assignment)>,
    /// Operators' proposals that took effect, oldest first.
    pub remembered: Vec<ProposalId>,
}

/// Why parts do not make a state. Whoever sent them is broken or newer, or they were damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartsError {
    /// They were written at a version that this build does not have.
    #[error(
        "the snapshot is of cluster version {found}, this build knows 1 to {max}: \
         upgrade this node first",
        max = SUPPORTED_VERSION
    )]
    Version {
        /// Theirs.
        found: u32,
    },
    /// The policy would be refused.
    #[error("the snapshot's policy is refused ({0}): take the snapshot from another node")]
    Policy(#[from] ConfigError),
    /// A member is not as any entry could have made it.
    #[error("member {member} in the snapshot {fault}: take the snapshot from another node")]
    Member {
        /// Which.
        member: NodeId,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A topic is not as any entry could have made it.
    #[error("topic {topic} in the snapshot {fault}: take the snapshot from another node")]
    Topic {
        /// Which.
        topic: TopicId,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A row is not as any entry could have made it.
    #[error("partition {partition} in the snapshot {fault}: take the snapshot from another node")]
    Row {
        /// Which.
        partition: PartitionId,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// There is more of something than any entry would have let in.
    #[error("the snapshot has {found} {what}, at most {max} fit: take it from another node")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        found: usize,
        /// How many there can be.
        max: usize,
    },
}

/// Half of the range, which no real cluster reaches: above it, a counter could run out.
const COUNTER_MAX: u64 = u64::MAX >> 1;

impl State {
    /// Returns the state as plain data.
    #[must_use]
    pub fn to_parts(&self) -> Parts {
        Parts {
            applied: self.applied,
            version: self.version,
            newest_node: self.newest_node,
            policy: self.policy.clone(),
            configuration: self.configuration.clone(),
            members: self.members.values().cloned().collect(),
            topics: self.topics.values().cloned().collect(),
            assignments: self.assignments.iter().map(|(&p, row)| (p, row.clone())).collect(),
            remembered: self.remembered.iter().copied().collect(),
        }
    }

    /// Makes a state of plain data, and the index that the data does not have.
    ///
    /// # Errors
    ///
    /// If no log could have made such a state: an id that is there twice, a reference to nothing,
    /// a row that contradicts itself, a number that could run out.
    pub fn from_parts(parts: Parts) -> Result<Self, PartsError> {
        check_header(&parts)?;
        check_members(&parts)?;
        check_topics(&parts)?;
        let mut state = Self {
            applied: parts.applied,
            version: parts.version,
            newest_node: parts.newest_node,
            policy: parts.policy,
            configuration: parts.configuration,
            members: parts.members.into_iter().map(|member| (member.id, member)).collect(),
            topics: parts.topics.into_iter().map(|topic| (topic.id, topic)).collect(),
            assignments: BTreeMap::new(),
            remembered: parts.remembered.into(),
            index: Index::default(),
        };
        let mut last = None;
        for (partition, row) in &parts.assignments {
            let sorted = last.replace(*partition).is_none_or(|last| last < *partition);
            check(sorted, "is out of order")
                .and_then(|()| state.check_row(*partition, row))
                .map_err(|fault| PartsError::Row { partition: *partition, fault })?;
        }
        state.assignments = parts.assignments.into_iter().collect();
        state.index = Index::recount(&state);
        Ok(state)
    }

    fn check_row(&self, partition: PartitionId, row: &Assignment) -> Result<(), &'static str> {
        let topic = self.topics.get(&partition.topic);
        check(topic.is_some_and(|topic| partition.index < topic.partitions), "is of no topic")?;
        check(self.staying(row.owner).is_ok(), "is owned by nobody")?;
        if let Some(target) = row.target {
            check(self.staying(target).is_ok(), "moves to nobody")?;
            check(target != row.owner, "moves to its owner")?;
        }
        check(
            row.epoch.0 <= COUNTER_MAX && row.move_id.0 <= COUNTER_MAX,
            "has outlandish numbers",
        )?;
        check_lineage(row)
    }
}

fn check(holds: bool, fault: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(fault) }
}

fn check_header(parts: &Parts) -> Result<(), PartsError> {
    if !(1..=SUPPORTED_VERSION).contains(&parts.version) {
        return Err(PartsError::Version { found: parts.version });
    }
    parts.policy.check()?;
    at_most("members", parts.members.len(), State::MEMBERS_MAX)?;
    at_most("remembered proposals", parts.remembered.len(), State::REMEMBERED_MAX)?;
    let partitions = parts.topics.iter().map(|topic| topic.partitions as usize);
    at_most("partitions", partitions.fold(0, usize::saturating_add), State::PARTITIONS_MAX)
}

fn at_most(what: &'static str, found: usize, max: usize) -> Result<(), PartsError> {
    if found > max { Err(PartsError::TooMany { what, found, max }) } else { Ok(()) }
}

fn check_members(parts: &Parts) -> Result<(), PartsError> {
    let mut last = NodeId(0);
    let mut stores = BTreeSet::new();
    let mut names = BTreeSet::new();
    for member in &parts.members {
        let sorted = last < member.id;
        last = member.id;
        check(sorted, "is out of order")
            .and_then(|()| check(member.id <= parts.newest_node, "is newer than the newest"))
            .and_then(|()| check(stores.insert(member.store_uuid), "shares its disk"))
            .and_then(|()| check(member.retired || names.insert(&member.name), "shares its name"))
            .and_then(|()| check_member(member))
            .map_err(|fault| PartsError::Member { member: member.id, fault })?;
    }
    let fault = "is the newest, which is an outlandish number";
    check(parts.newest_node.0 <= COUNTER_MAX, fault)
        .map_err(|fault| PartsError::Member { member: parts.newest_node, fault })
}

fn check_member(member: &Member) -> Result<(), &'static str> {
    check(member.addrs.fit(), "has too long an address")?;
    check(member.deaths.0 <= COUNTER_MAX, "has outlandish numbers")?;
    let certified = match member.status {
        Status::Alive => member.incarnation > Incarnation(0) || member.deaths == Generation(0),
        Status::Dead(generation) => generation == member.deaths && generation > Generation(0),
    };
    check(certified, "has a death that is not its last")?;
    check(!member.retired || member.draining, "was retired without a drain")?;
    check(!member.drained_out || member.draining, "was drained out without a drain")
}

fn check_topics(parts: &Parts) -> Result<(), PartsError> {
    let ids: BTreeSet<TopicId> = parts.topics.iter().map(|topic| topic.id).collect();
    let mut names = BTreeSet::new();
    let mut last = None;
    for topic in &parts.topics {
        let sorted = last.replace(topic.id).is_none_or(|last| last < topic.id);
        let sized = (1..=Topic::PARTITIONS_MAX).contains(&topic.partitions);
        // A parent is there before its child, so that nothing feeds itself.
        let fed = topic.parent.is_none_or(|parent| parent < topic.id && ids.contains(&parent));
        check(sorted, "is out of order")
            .and_then(|()| check(topic.id.0 <= parts.applied.0, "is yet to be created"))
            .and_then(|()| check(names.insert(&topic.name), "shares its name"))
            .and_then(|()| check(sized, "has an impossible number of partitions"))
            .and_then(|()| check(fed, "is fed by no earlier topic"))
            .map_err(|fault| PartsError::Topic { topic: topic.id, fault })?;
    }
    Ok(())
}

/// The lineage ends with the present reign; each reign is the next epoch, begins no earlier than
/// the one before, and was won by an attempt of a later move.
fn check_lineage(row: &Assignment) -> Result<(), &'static str> {
    let lineage = &row.lineage;
    check(lineage.len() <= Assignment::LINEAGE_MAX, "remembers too many reigns")?;
    let (Some(first), Some(last)) = (lineage.first(), lineage.last()) else {
        return Err("has no lineage");
    };
    let present = (last.epoch, last.owner, last.data, last.start)
        == (row.epoch, row.owner, row.data, row.min_end);
    check(present, "has a lineage that ends elsewhere")?;
    check(row.lineage_cut == (first.epoch > Epoch(1)), "has a lineage that is cut elsewhere")?;
    check(first.epoch > Epoch(0), "has a reign before the first")?;
    if first.epoch == Epoch(1) {
        let born = Assignment::born(first.owner);
        check(born.lineage.first() == Some(first), "was not born empty")?;
    }
    let follows = |(earlier, later): (&Reign, &Reign)| {
        later.epoch.0.checked_sub(earlier.epoch.0) == Some(1)
            && later.start >= earlier.start
            && later.data.move_id > earlier.data.move_id
    };
    let in_order = lineage.iter().zip(lineage.iter().skip(1)).all(follows);
    check(in_order, "has a lineage that is out of order")?;
    let named = lineage.iter().all(|reign| reign.data.destination == reign.owner);
    check(named, "has the directory of another node")?;
    check(last.data.move_id < row.move_id, "has a plan that is older than its owner")
}
