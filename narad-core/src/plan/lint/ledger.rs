//! What every node has before and after a plan.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::Finding;
use crate::ids::{NodeId, PartitionId};
use crate::plan::Explained;
use crate::plan::placement::{Partition, Placement, Role};

/// One receiver's partitions, before or after.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u64,
    pinned: u64,
    /// Those that could move now.
    free: u64,
}

/// A plan, applied to maps.
pub(super) struct Ledger<'a> {
    placement: &'a Placement,
    before: BTreeMap<NodeId, Count>,
    after: BTreeMap<NodeId, Count>,
    places: BTreeMap<PartitionId, NodeId>,
    planned: u64,
    reported: u64,
    /// Movable partitions of leaving nodes.
    leaving: Vec<PartitionId>,
    /// The least that a receiver ends up with, and how many may have one more.
    level: u64,
    ceils: u64,
    gives: BTreeMap<NodeId, u64>,
    takes: BTreeMap<NodeId, u64>,
}

/// Returns whether a plan may move the partition.
fn is_free(placement: &Placement, row: &Partition) -> bool {
    let alive = placement.node(row.owner).is_some_and(|node| node.role != Role::Dead);
    row.target.is_none() && !row.pinned && alive
}

impl<'a> Ledger<'a> {
    pub(super) fn new(placement: &'a Placement, plan: &Explained) -> Self {
        let receivers = placement.nodes().iter().filter(|node| node.role == Role::Receiver);
        let empty: BTreeMap<_, _> = receivers.map(|node| (node.id, Count::default())).collect();
        let (mut before, mut after) = (empty.clone(), empty);
        let moves: BTreeMap<_, _> =
            plan.all().map(|planned| (planned.partition, planned.to)).collect();
        let mut places = BTreeMap::new();
        let (mut gives, mut takes) = (BTreeMap::new(), BTreeMap::new());
        let mut leaving = Vec::new();
        for row in placement.partitions() {
            let from = row.target.unwrap_or(row.owner);
            let to = moves.get(&row.id).copied().unwrap_or(from);
            let free = is_free(placement, row);
            let stays = u64::from(free && to == from);
            for (counts, node, free) in
                [(&mut before, from, u64::from(free)), (&mut after, to, stays)]
            {
                if let Some(count) = counts.get_mut(&node) {
                    count.all += 1;
                    count.pinned += u64::from(row.pinned);
                    count.free += free;
                }
            }
            if free && !before.contains_key(&from) {
                leaving.push(row.id);
            }
            if from != to {
                *gives.entry(from).or_default() += 1;
                *takes.entry(to).or_default() += 1;
            }
            places.insert(row.id, to);
        }
        let total = before.values().map(|count| count.all).sum::<u64>() + leaving.len() as u64;
        let (level, ceils) = pour(&before, total);
        let planned = moves.len() as u64;
        let reported = u64::from(plan.report.moves_min);
        Self {
            placement,
            before,
            after,
            places,
            planned,
            reported,
            leaving,
            level,
            ceils,
            gives,
            takes,
        }
    }

    /// Checks counts: the number of moves, and what every node ends up with.
    pub(super) fn balance(&self, findings: &mut Vec<Finding>) {
        if self.before.is_empty() {
            return;
        }
        let fewest = self.leaving.len() as u64 + self.fewest(&self.before);
        let (planned, rest) = (self.planned, self.fewest(&self.after));
        if planned + rest != fewest {
            findings.push(Finding::NotFewest { planned, rest, fewest });
        }
        if self.reported != fewest {
            findings.push(Finding::Misreported { reported: self.reported, fewest });
        }
        let stays = |id: &&PartitionId| self.places.get(id) == self.owner(**id).as_ref();
        findings.extend(self.leaving.iter().filter(stays).map(|&id| Finding::LeftBehind(id)));
        for (&node, before) in &self.before {
            let (gives, takes) = (self.gives.contains_key(&node), self.takes.contains_key(&node));
            if gives && takes {
                findings.push(Finding::GivesAndTakes(node));
            }
            if gives && before.all <= self.level {
                findings.push(Finding::WithinShareGives(node));
            }
        }
        // What remains above a share must be out of reach: still in flight to its node.
        for (&node, after) in &self.after {
            if after.free > 0 && after.all > after.pinned.max(self.level + 1) {
                findings.push(Finding::AboveShare(node));
            }
        }
        let keepers = self.after.iter().filter(|(_, count)| {
            count.free > 0 && count.all > self.level && count.pinned <= self.level
        });
        let keepers: Vec<_> = keepers.map(|(&node, _)| node).collect();
        if let Some(&last) = keepers.last()
            && keepers.len() as u64 > self.ceils
        {
            findings.push(Finding::AboveShare(last));
        }
    }

    /// Returns the least number of partitions that have to leave a receiver: each above its share
    /// must shed down to it, and there are only so many ceil shares.
    fn fewest(&self, counts: &BTreeMap<NodeId, Count>) -> u64 {
        let ceil = self.level + 1;
        let above = |count: &Count| count.all.saturating_sub(count.pinned.max(ceil));
        let claims = counts.values().filter(|count| count.all >= ceil && count.pinned < ceil);
        let refused = (claims.count() as u64).saturating_sub(self.ceils);
        counts.values().map(above).sum::<u64>() + refused
    }

    /// Checks that the most loaded keep the ceil shares, where nobody has a reason to differ.
    pub(super) fn ceil_shares(&self, findings: &mut Vec<Finding>) {
        if self.placement.topics().iter().any(|topic| topic.parent.is_some()) {
            return;
        }
        // Who cannot get below a ceil share yet is not asked.
        let claims = self
            .before
            .iter()
            .filter(|(_, count)| count.all > self.level && count.all - count.free <= self.level);
        let kept = |node: &NodeId| self.after.get(node).map_or(0, |count| count.all) > self.level;
        let (keep, lose): (Vec<_>, Vec<_>) = claims.partition(|(node, _)| kept(node));
        let least = keep.iter().min_by_key(|(_, count)| count.all);
        let most = lose.iter().max_by_key(|(_, count)| count.all);
        if let (Some(&(&less, one)), Some(&(&more, other))) = (least, most)
            && one.all < other.all
        {
            findings.push(Finding::CeilMisplaced { more, less });
        }
    }

    /// Checks that no two partitions could trade places and leave fewer conflicts.
    pub(super) fn conflicts(&self, findings: &mut Vec<Finding>) {
        for row in self.placement.partitions() {
            let Some(&place) = self.places.get(&row.id) else { continue };
            let alone = self.shares_with(row.id, place, row.id) == 0;
            if alone || !is_free(self.placement, row) {
                continue;
            }
            let better = self.placement.partitions().iter().find(|other| {
                other.id != row.id
                    && is_free(self.placement, other)
                    && self.trade_is_free(row, other)
                    && self.trade_helps(row, other)
            });
            if let Some(other) = better {
                let (partition, with) = (row.id, other.id);
                findings.push(Finding::AvoidableConflict { partition, with });
            }
        }
    }

    /// Returns whether the two may have each other's place for no more moves.
    fn trade_is_free(&self, one: &Partition, other: &Partition) -> bool {
        let moves = |row: &Partition, place: Option<&NodeId>| place != Some(&row.owner);
        let (here, there) = (self.places.get(&one.id), self.places.get(&other.id));
        let receives =
            |place: Option<&NodeId>| place.is_some_and(|node| self.before.contains_key(node));
        let now = u8::from(moves(one, here)) + u8::from(moves(other, there));
        let then = u8::from(moves(one, there)) + u8::from(moves(other, here));
        here != there && receives(here) && receives(there) && then <= now
    }

    /// Returns whether fewer conflicts are left if the two trade places.
    fn trade_helps(&self, one: &Partition, other: &Partition) -> bool {
        let place = |row: &Partition| self.places.get(&row.id).copied().unwrap_or_default();
        let (here, there) = (place(one), place(other));
        // They are on two nodes before and after, so whether they are related does not matter.
        let now =
            self.shares_with(one.id, here, other.id) + self.shares_with(other.id, there, one.id);
        let then =
            self.shares_with(one.id, there, other.id) + self.shares_with(other.id, here, one.id);
        then < now
    }

    /// Counts the relatives of a partition on a node, one of them excepted.
    fn shares_with(&self, id: PartitionId, node: NodeId, but: PartitionId) -> usize {
        let topics = self.placement.topics();
        let parent = topics.iter().find(|topic| topic.id == id.topic).and_then(|own| own.parent);
        let related = topics
            .iter()
            .filter(|topic| topic.parent == Some(id.topic) || parent == Some(topic.id));
        let relatives = related.map(|topic| PartitionId { topic: topic.id, index: id.index });
        relatives
            .filter(|&relative| relative != but && self.places.get(&relative) == Some(&node))
            .count()
    }

    fn owner(&self, id: PartitionId) -> Option<NodeId> {
        self.placement.partition(id).map(|row| row.owner)
    }
}

/// Pours partitions onto pinned ones, one by one, always where there are fewest; returns the least
/// that a node ends up with, and how many that were lower have one more.
fn pour(counts: &BTreeMap<NodeId, Count>, total: u64) -> (u64, u64) {
    let mut heap: alloc::collections::BinaryHeap<Reverse<u64>> =
        counts.values().map(|count| Reverse(count.pinned)).collect();
    let pinned: u64 = counts.values().map(|count| count.pinned).sum();
    for _ in pinned..total {
        let Some(mut least) = heap.peek_mut() else { break };
        least.0 += 1;
    }
    let level = heap.peek().map_or(0, |least| least.0);
    let poured: Vec<u64> = heap.into_iter().map(|Reverse(count)| count).collect();
    let at_ceil = poured.iter().filter(|&&count| count == level + 1).count() as u64;
    let by_pins = counts.values().filter(|count| count.pinned == level + 1).count() as u64;
    (level, at_ceil - by_pins)
}
