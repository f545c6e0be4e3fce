//! Rows by 32-bit index, for the planner's own parts.

use alloc::vec::Vec;
use core::ops::Range;

use super::{NONE, Partition, Placement, PlacementError, Topic};
use crate::ids::NodeId;

impl Placement {
    /// Returns the index of the partition's owner.
    pub(in crate::plan) fn owner_of(&self, partition: u32) -> u32 {
        self.owners[partition as usize]
    }

    /// Returns the index of the node where the partition ends up if nothing more is planned.
    pub(in crate::plan) fn place_of(&self, partition: u32) -> u32 {
        self.places[partition as usize]
    }

    /// Returns where every partition ends up if nothing more is planned.
    pub(in crate::plan) fn places(&self) -> &[u32] {
        &self.places
    }

    /// Returns what keeps the partition where it is.
    pub(in crate::plan) fn mark_of(&self, partition: u32) -> Marks {
        self.marks[partition as usize]
    }

    /// Returns whether nothing keeps any partition where it is.
    pub(in crate::plan) const fn is_all_free(&self) -> bool {
        self.marked == 0
    }

    /// Returns what keeps every partition where it is.
    pub(in crate::plan) fn marks(&self) -> &[Marks] {
        &self.marks
    }

    /// Returns whether any move has a priority.
    pub(in crate::plan) const fn has_priorities(&self) -> bool {
        self.has_priorities
    }

    /// Returns the start order of the partition's move within its class.
    pub(in crate::plan) fn priority_of(&self, partition: u32) -> u8 {
        if self.has_priorities { self.partitions[partition as usize].priority } else { 0 }
    }

    /// Returns whether the rows of the two topics match by position: none is missing in either.
    pub(in crate::plan) fn are_aligned(&self, one: u32, other: u32) -> bool {
        self.topic_rows[one as usize].is_whole && self.topic_rows[other as usize].is_whole
    }

    /// Finds the partitions of all topics that are related to this one, if those of one index have
    /// one position in all of them.
    pub(in crate::plan) fn relatives_by_position(
        &self,
        topic: u32,
        found: &mut Option<Vec<Range<u32>>>,
    ) {
        let related = self.related_topics(topic);
        if related.iter().all(|&other| self.are_aligned(topic, other)) {
            let found = found.get_or_insert_default();
            found.clear();
            found.extend(related.iter().map(|&other| self.rows_of(other)));
        } else {
            *found = None;
        }
    }

    /// Returns the topics that are related to this one.
    pub(in crate::plan) fn related_topics(&self, topic: u32) -> &[u32] {
        &self.topic_rows[topic as usize].relatives
    }

    /// Returns the index of the partition's topic.
    pub(in crate::plan) fn topic_of(&self, partition: u32) -> u32 {
        self.topic_of[partition as usize]
    }

    /// Returns the indices of the topic's partitions.
    pub(in crate::plan) fn rows_of(&self, topic: u32) -> Range<u32> {
        let rows = &self.topic_rows[topic as usize];
        rows.start..rows.end
    }

    /// Returns whether any topic fans out from a listed one.
    pub(in crate::plan) fn has_relatives(&self) -> bool {
        self.topic_rows.iter().any(|rows| !rows.relatives.is_empty())
    }

    /// Returns whether the partition's topic has a parent or a child.
    pub(in crate::plan) fn is_related(&self, partition: u32) -> bool {
        !self.topic_rows[self.topic_of(partition) as usize].relatives.is_empty()
    }

    /// Returns the partitions that this one prefers not to share a node with: those of the same
    /// index in its topic's parent and children (R81, K106).
    pub(in crate::plan) fn relatives(&self, partition: u32) -> impl Iterator<Item = u32> + '_ {
        let topic = &self.topic_rows[self.topic_of(partition) as usize];
        // A row of a whole topic says by its position which index it has.
        let index = if topic.is_whole {
            partition - topic.start
        } else {
            self.partitions[partition as usize].id.index
        };
        topic.relatives.iter().filter_map(move |&relative| self.row(relative, index))
    }

    /// Finds the partition of a topic by its index; at once if none of the topic is missing.
    pub(in crate::plan) fn row(&self, topic: u32, index: u32) -> Option<u32> {
        let rows = self.rows_of(topic);
        if self.topic_rows[topic as usize].is_whole {
            return rows.start.checked_add(index).filter(|row| rows.contains(row));
        }
        let guess = rows.start.checked_add(index).filter(|guess| rows.contains(guess));
        if let Some(guess) = guess
            && self.partitions[guess as usize].id.index == index
        {
            return Some(guess);
        }
        let span = &self.partitions[rows.start as usize..rows.end as usize];
        let at = span.binary_search_by_key(&index, |partition| partition.id.index).ok()?;
        u32::try_from(at).ok().map(|at| rows.start + at)
    }
}

/// What keeps a partition where it is, in one byte; nothing in most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::plan) struct Marks(u8);

impl Marks {
    const MOVING: u8 = 1;
    const PINNED: u8 = 2;

    pub(super) fn of(row: &Partition) -> Self {
        let moving = if row.target.is_some() { Self::MOVING } else { 0 };
        let pinned = if row.pinned { Self::PINNED } else { 0 };
        Self(moving | pinned)
    }

    /// Whether it is neither mid-move nor pinned.
    pub(in crate::plan) const fn is_free(self) -> bool {
        self.0 == 0
    }

    pub(in crate::plan) const fn is_moving(self) -> bool {
        self.0 & Self::MOVING != 0
    }

    pub(in crate::plan) const fn is_pinned(self) -> bool {
        self.0 & Self::PINNED != 0
    }
}

/// Where a topic's partitions are, and which topics are related to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopicRows {
    pub(super) start: u32,
    pub(super) end: u32,
    /// Whether its partitions are all those from zero on.
    is_whole: bool,
    /// Its parent and its children.
    relatives: Vec<u32>,
}

/// Finds the dense index of a node, directly where the ids are small.
pub(super) struct Index {
    ids: Vec<NodeId>,
    table: Vec<u32>,
}

impl Index {
    /// Ids below this get a direct entry: a cluster's ids count up from one.
    const DIRECT_MAX: u64 = 1 << 16;

    pub(super) fn of(ids: impl Iterator<Item = NodeId>) -> Self {
        let ids: Vec<NodeId> = ids.collect();
        let mut table = Vec::new();
        for (&NodeId(id), index) in
            ids.iter().zip(0..).take_while(|(id, _)| id.0 < Self::DIRECT_MAX)
        {
            let id = usize::try_from(id).unwrap_or(usize::MAX);
            table.resize(id + 1, NONE);
            table[id] = index;
        }
        Self { ids, table }
    }

    pub(super) fn find(&self, id: NodeId) -> Option<u32> {
        let direct = usize::try_from(id.0).ok().and_then(|id| self.table.get(id));
        if let Some(&index) = direct {
            return Some(index).filter(|&index| index != NONE);
        }
        self.ids.binary_search(&id).ok().and_then(|at| u32::try_from(at).ok())
    }
}

/// Returns the first id that two neighbours of a sorted list share.
pub(super) fn twice<T, K: PartialEq>(sorted: &[T], key: impl Fn(&T) -> K) -> Option<K> {
    sorted.windows(2).find(|pair| key(&pair[0]) == key(&pair[1])).map(|pair| key(&pair[0]))
}

/// Finds every topic's partitions, both sorted, and its relatives.
pub(super) fn topic_rows(
    topics: &[Topic],
    partitions: &[Partition],
) -> Result<Vec<TopicRows>, PlacementError> {
    let mut all: Vec<TopicRows> = Vec::with_capacity(topics.len());
    let mut start = 0;
    for topic in topics {
        let rest = &partitions[start..];
        let length = run_length(rest, |partition| partition.id.topic <= topic.id);
        if let Some(first) = rest.first().filter(|first| first.id.topic < topic.id) {
            return Err(PlacementError::UnknownTopic(first.id));
        }
        let end = start + length;
        let dense = |at: usize| u32::try_from(at).map_err(|_| PlacementError::TooMany);
        let last = rest[..length].last().map(|last| last.id.index as usize);
        all.push(TopicRows {
            start: dense(start)?,
            end: dense(end)?,
            // Ids ascend, so none is missing if the last is as great as there are others.
            is_whole: last.is_none_or(|last| last + 1 == length),
            relatives: Vec::new(),
        });
        start = end;
    }
    if let Some(left) = partitions.get(start) {
        return Err(PlacementError::UnknownTopic(left.id));
    }
    for (child, topic) in topics.iter().enumerate() {
        let Some(parent) = topic.parent else { continue };
        let Ok(parent) = topics.binary_search_by_key(&parent, |topic| topic.id) else { continue };
        // Two topics that call each other parent are one relation, entered at the younger.
        let mutual = topics[parent].parent == Some(topic.id);
        if mutual && child < parent {
            continue;
        }
        for (one, other) in [(child, parent), (parent, child)] {
            let other = u32::try_from(other).map_err(|_| PlacementError::TooMany)?;
            all[one].relatives.push(other);
        }
    }
    Ok(all)
}

/// Returns how many come first for which something holds; looks near the beginning first, since
/// most topics are a small part of the rest.
fn run_length<T>(sorted: &[T], holds: impl Fn(&T) -> bool) -> usize {
    let mut near = 1;
    while sorted.get(near).is_some_and(&holds) {
        near *= 2;
    }
    sorted[..sorted.len().min(near)].partition_point(holds)
}
