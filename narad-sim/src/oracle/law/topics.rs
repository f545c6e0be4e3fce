//! Topics and the first owners of their partitions.

use narad_core::ids::{Attempt, AttemptNo, Epoch, Incarnation, MoveId, Name, NodeId, Offset};
use narad_core::ids::{PartitionId, TopicId};
use narad_core::metastore::{Applied, Assignment, Reason, Reign, Residue, Topic};

use super::{Case, Law};

const OF_A_TOPIC_MAX: u32 = 100_000;
const OF_ALL_MAX: u64 = 1_000_000;

impl Law {
    pub(super) fn create_topic(
        &mut self,
        case: &mut Case<'_>,
        name: &Name,
        partitions: u32,
        parent: Option<TopicId>,
    ) -> Result<Applied, Reason> {
        let proposal = case.entry.proposal;
        let namesake = self.topics.values().find(|topic| topic.name == *name);
        if let Some(same) = namesake.filter(|topic| topic.created_by == proposal) {
            return Ok(Applied::Created(same.id));
        }
        if self.is_remembered(case) {
            return Err(Reason::Gone);
        }
        if namesake.is_some() {
            return Err(Reason::NameTaken);
        }
        let others: u64 = self.topics.values().map(|topic| u64::from(topic.partitions)).sum();
        let fits = others + u64::from(partitions) <= OF_ALL_MAX;
        if partitions == 0 || partitions > OF_A_TOPIC_MAX || !fits {
            return Err(Reason::OutOfRange);
        }
        if parent.is_some_and(|parent| !self.topics.contains_key(&parent)) {
            return Err(Reason::UnknownTopic);
        }
        let id = TopicId(case.index.0);
        let topic = Topic { id, name: name.clone(), partitions, parent, created_by: proposal };
        self.topics.insert(id, topic);
        case.touched.topics.insert(id);
        Ok(Applied::Created(id))
    }

    pub(super) fn delete_topic(
        &mut self,
        case: &mut Case<'_>,
        id: TopicId,
    ) -> Result<Applied, Reason> {
        let topic = self.topics.remove(&id).ok_or(Reason::Gone)?;
        self.remember(topic.created_by);
        case.touched.topics.insert(id);
        for child in self.topics.values_mut().filter(|child| child.parent == Some(id)) {
            child.parent = None;
            case.touched.topics.insert(child.id);
        }
        case.touched.partitions.extend(self.rows.keys().filter(|p| p.topic == id));
        self.rows.retain(|partition, _| partition.topic != id);
        Ok(Applied::Done)
    }

    pub(super) fn assign(
        &mut self,
        case: &mut Case<'_>,
        partition: PartitionId,
        node: NodeId,
    ) -> Result<Applied, Reason> {
        let topic = self.topics.get(&partition.topic).ok_or(Reason::UnknownTopic)?;
        if partition.index >= topic.partitions {
            return Err(Reason::OutOfRange);
        }
        if let Some(row) = self.rows.get(&partition) {
            let same = (row.owner, row.epoch) == (node, Epoch(1));
            return if same { Ok(Applied::Done) } else { Err(Reason::AlreadyAssigned) };
        }
        self.receiver(node)?;
        self.rows.insert(partition, born(node));
        case.touched.partitions.insert(partition);
        Ok(Applied::Done)
    }
}

/// The row of a partition that nobody has moved yet.
fn born(owner: NodeId) -> Assignment {
    let (epoch, start) = (Epoch(1), Offset(0));
    let no = AttemptNo { incarnation: Incarnation(0), n: 0 };
    let data = Attempt { move_id: MoveId(0), destination: owner, no };
    Assignment {
        owner,
        epoch,
        data,
        min_end: start,
        lineage: vec![Reign { epoch, start, owner, data, residue: Residue::None }],
        lineage_cut: false,
        target: None,
        move_id: MoveId(1),
        burned: None,
        revoked: None,
        reported_hwm: None,
        pinned: false,
    }
}
