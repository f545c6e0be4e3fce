//! What the planner looks at: who owns what, where it is going, who may receive.

mod dense;

use alloc::vec;
use alloc::vec::Vec;

use self::dense::{Index, Marks, TopicRows, topic_rows, twice};

use super::Move;
use crate::ids::{ByteCount, NodeId, PartitionId, TopicId};

/// The dense index that stands for no row.
pub(super) const NONE: u32 = u32::MAX;

/// What a node may be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Role {
    /// Alive, not draining, not retired: owns partitions and takes more (R83).
    Receiver,
    /// Alive, but draining or retired: serves what it owns and gives all of it away (R84).
    Leaving,
    /// Dead: what it owns waits on its disk for its return (R80).
    Dead,
}

/// One node, as the planner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Node {
    /// Its name.
    pub id: NodeId,
    /// What it may be asked to do.
    pub role: Role,
}

/// One topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Topic {
    /// Its name.
    pub id: TopicId,
    /// The topic that it fans out from: the two partitions of one index prefer different nodes
    /// (R81). A parent that is no longer in the table asks for nothing.
    pub parent: Option<TopicId>,
}

/// One partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Partition {
    /// Its name.
    pub id: PartitionId,
    /// The node that serves it now.
    pub owner: NodeId,
    /// The node that it is moving to. It counts there and is not planned again (R73).
    pub target: Option<NodeId>,
    /// Whether an operator keeps it where it is, or where it is going. It counts as load.
    pub pinned: bool,
    /// Whether its move cannot progress. Such a move holds no slot (S14, K101).
    pub stuck: bool,
    /// The size of its log. Of two equally good plans the one that copies less is taken.
    pub bytes: ByteCount,
    /// The start order within one class of moves, 0 to 255: higher first. Zero unless somebody cares.
    pub priority: u8,
}

impl Partition {
    /// Describes a settled, unpinned, empty partition.
    #[must_use]
    pub const fn settled(id: PartitionId, owner: NodeId) -> Self {
        let bytes = ByteCount(0);
        Self { id, owner, target: None, pinned: false, stuck: false, bytes, priority: 0 }
    }
}

/// A consistent picture of nodes, topics and partitions.
///
/// Rows are kept in the order of their ids, so the order in which they were given never matters.
/// Inside, every row has a dense 32-bit index. Takes about 70 bytes for each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Rows", into = "Rows"))]
pub struct Placement {
    nodes: Vec<Node>,
    topics: Vec<Topic>,
    partitions: Vec<Partition>,
    /// The rows again by dense index, for the planner's hot loops: nine bytes a partition.
    owners: Vec<u32>,
    /// Where each ends up if nothing more is planned.
    places: Vec<u32>,
    marks: Vec<Marks>,
    /// How many rows have a mark.
    marked: usize,
    topic_of: Vec<u32>,
    topic_rows: Vec<TopicRows>,
    /// Whether any has a priority.
    has_priorities: bool,
}

/// Why rows are no placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Two rows for one node.
    #[error("node {0} is listed twice; list every node once")]
    DuplicateNode(NodeId),
    /// Two rows for one topic.
    #[error("topic {0} is listed twice; list every topic once")]
    DuplicateTopic(TopicId),
    /// Two rows for one partition.
    #[error("partition {0} is listed twice; list every partition once")]
    DuplicatePartition(PartitionId),
    /// A topic that is its own parent.
    #[error("topic {0} is its own parent; name another parent or none")]
    OwnParent(TopicId),
    /// Another row for a partition that is not listed.
    #[error("partition {0} is not listed; list the placement anew")]
    Unlisted(PartitionId),
    /// A partition of a topic that is not listed.
    #[error("partition {0} belongs to no listed topic; list the topic or drop the partition")]
    UnknownTopic(PartitionId),
    /// A partition owned by a node that is not listed.
    #[error("partition {partition} is owned by node {node}, which is not listed; list the node")]
    UnknownOwner {
        /// The partition.
        partition: PartitionId,
        /// Its owner.
        node: NodeId,
    },
    /// A partition that moves to a node that is not listed.
    #[error("partition {partition} moves to node {node}, which is not listed; list the node")]
    UnknownTarget {
        /// The partition.
        partition: PartitionId,
        /// Its target.
        node: NodeId,
    },
    /// A partition that moves to its own owner.
    #[error("partition {0} moves to its own owner; a settled partition has no target")]
    TargetIsOwner(PartitionId),
    /// More rows of one kind than a dense index can name.
    #[error("a placement has fewer than 2^32 - 1 rows of a kind; split the cluster")]
    TooMany,
}

impl Placement {
    /// Checks rows, in any order, and takes them as a placement.
    ///
    /// # Errors
    ///
    /// If an id is listed twice, a row names an unlisted one, a topic is its own parent, or a
    /// partition moves to its own owner.
    ///
    /// # Examples
    ///
    /// Mistakes are found here, so that planning cannot fail:
    ///
    /// ```
    /// use narad_core::ids::{NodeId, PartitionId, TopicId};
    /// use narad_core::plan::{Partition, Placement, PlacementError, Topic};
    ///
    /// let topic = Topic { id: TopicId(1), parent: None };
    /// let orphan = Partition::settled(PartitionId { topic: topic.id, index: 0 }, NodeId(9));
    /// assert_eq!(
    ///     Placement::new(vec![], vec![topic], vec![orphan]),
    ///     Err(PlacementError::UnknownOwner { partition: orphan.id, node: NodeId(9) }),
    /// );
    /// ```
    pub fn new(
        mut nodes: Vec<Node>,
        mut topics: Vec<Topic>,
        mut partitions: Vec<Partition>,
    ) -> Result<Self, PlacementError> {
        let rows_max = NONE as usize;
        if nodes.len() >= rows_max || topics.len() >= rows_max || partitions.len() >= rows_max {
            return Err(PlacementError::TooMany);
        }
        nodes.sort_unstable_by_key(|node| node.id);
        topics.sort_unstable_by_key(|topic| topic.id);
        partitions.sort_unstable_by_key(|partition| partition.id);
        if let Some(id) = twice(&nodes, |node| node.id) {
            return Err(PlacementError::DuplicateNode(id));
        }
        if let Some(id) = twice(&topics, |topic| topic.id) {
            return Err(PlacementError::DuplicateTopic(id));
        }
        if let Some(id) = twice(&partitions, |partition| partition.id) {
            return Err(PlacementError::DuplicatePartition(id));
        }
        if let Some(topic) = topics.iter().find(|topic| topic.parent == Some(topic.id)) {
            return Err(PlacementError::OwnParent(topic.id));
        }
        let node_ids = Index::of(nodes.iter().map(|node| node.id));
        let (mut owners, mut places) = (Vec::new(), Vec::new());
        owners.reserve_exact(partitions.len());
        places.reserve_exact(partitions.len());
        for row in &partitions {
            let (owner, place) = ends(row, |node| node_ids.find(node))?;
            owners.push(owner);
            places.push(place);
        }
        let marks: Vec<Marks> = partitions.iter().map(Marks::of).collect();
        let marked = marks.iter().filter(|marks| !marks.is_free()).count();
        let has_priorities = partitions.iter().any(|row| row.priority > 0);
        let topic_rows = topic_rows(&topics, &partitions)?;
        let mut topic_of = vec![NONE; partitions.len()];
        for (topic, rows) in (0..).zip(&topic_rows) {
            topic_of[rows.start as usize..rows.end as usize].fill(topic);
        }
        Ok(Self {
            nodes,
            topics,
            partitions,
            owners,
            places,
            marks,
            marked,
            topic_of,
            topic_rows,
            has_priorities,
        })
    }

    /// Returns the nodes, by id.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the topics, by id.
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    /// Returns the partitions, by id.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// Returns one node.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        let at = self.nodes.binary_search_by_key(&id, |node| node.id).ok()?;
        self.nodes.get(at)
    }

    /// Returns one partition.
    pub fn partition(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.get(self.index_of(id)?)
    }

    /// Sets the targets of started moves, as the metastore would: a move of a partition that has
    /// another owner by now, or a target already, is skipped. Returns how many were set.
    pub fn apply(&mut self, moves: &[Move]) -> usize {
        moves.iter().filter(|planned| self.start(planned)).count()
    }

    /// Sets one target; returns false, and changes nothing, if the move no longer fits.
    fn start(&mut self, planned: &Move) -> bool {
        let Some(row) = self.partition(planned.partition) else { return false };
        let fits = row.owner == planned.from && row.target.is_none() && planned.to != planned.from;
        fits && self.replace(Partition { target: Some(planned.to), ..*row }).is_ok()
    }

    /// Ends the move of one partition: its target becomes its owner. Returns false, and changes
    /// nothing, if there is no such partition or it does not move.
    pub fn complete(&mut self, id: PartitionId) -> bool {
        let Some(row) = self.partition(id) else { return false };
        let Some(owner) = row.target else { return false };
        self.replace(Partition { owner, target: None, stuck: false, ..*row }).is_ok()
    }

    /// Replaces one listed row by another of the same id.
    ///
    /// # Errors
    ///
    /// If the partition or a node of the row is not listed, or the row moves to its own owner.
    pub fn replace(&mut self, row: Partition) -> Result<(), PlacementError> {
        let at = self.index_of(row.id).ok_or(PlacementError::Unlisted(row.id))?;
        let node = |id| self.nodes.binary_search_by_key(&id, |node: &Node| node.id);
        let node = |id| node(id).ok().and_then(|at| u32::try_from(at).ok());
        let (owner, place) = ends(&row, node)?;
        self.has_priorities |= row.priority > 0;
        self.owners[at] = owner;
        self.places[at] = place;
        self.marked -= usize::from(!self.marks[at].is_free());
        self.marks[at] = Marks::of(&row);
        self.marked += usize::from(!self.marks[at].is_free());
        self.partitions[at] = row;
        Ok(())
    }

    /// Gives a listed node another role, or lists a node whose id is greater than all that are.
    ///
    /// Returns false, and changes nothing, for any other node: it has to be listed anew, with
    /// [`Placement::new`].
    pub fn set_node(&mut self, node: Node) -> bool {
        match self.nodes.binary_search_by_key(&node.id, |node| node.id) {
            Ok(at) => self.nodes[at] = node,
            Err(at) if at == self.nodes.len() && at + 1 < NONE as usize => self.nodes.push(node),
            Err(_) => return false,
        }
        true
    }

    /// Finds a partition: its topic among the topics, then itself, at once if none is missing.
    pub(super) fn index_of(&self, id: PartitionId) -> Option<usize> {
        let topic = self.topics.binary_search_by_key(&id.topic, |topic| topic.id).ok()?;
        self.row(u32::try_from(topic).ok()?, id.index).map(|row| row as usize)
    }
}

/// Returns the dense indices of a row's owner and of where it ends up.
fn ends(
    row: &Partition,
    find: impl Fn(NodeId) -> Option<u32>,
) -> Result<(u32, u32), PlacementError> {
    let &Partition { id: partition, owner, target, .. } = row;
    let unknown_owner = PlacementError::UnknownOwner { partition, node: owner };
    let from = find(owner).ok_or(unknown_owner)?;
    match target {
        None => Ok((from, from)),
        Some(node) if node == owner => Err(PlacementError::TargetIsOwner(partition)),
        Some(node) => {
            let to = find(node).ok_or(PlacementError::UnknownTarget { partition, node })?;
            Ok((from, to))
        }
    }
}

/// The serialized form: just the rows, checked again when they are read.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Rows {
    nodes: Vec<Node>,
    topics: Vec<Topic>,
    partitions: Vec<Partition>,
}

#[cfg(feature = "serde")]
impl TryFrom<Rows> for Placement {
    type Error = PlacementError;

    fn try_from(rows: Rows) -> Result<Self, PlacementError> {
        Self::new(rows.nodes, rows.topics, rows.partitions)
    }
}

#[cfg(feature = "serde")]
impl From<Placement> for Rows {
    fn from(placement: Placement) -> Self {
        let Placement { nodes, topics, partitions, .. } = placement;
        Self { nodes, topics, partitions }
    }
}
