//! What is known of the records that nodes have accepted, until each has arrived at an owner.
//!
//! A record is named by its position in its node's log, which outlives the node's process; one that
//! was carried has two. What is told when it is durable counts from then on, answered or not.

use std::collections::{BTreeMap, BTreeSet};

use narad_core::dispatch::{Checkpoint, Route};
use narad_core::ids::{Incarnation, NodeId, PartitionId, Seq, TopicId};

use super::sets::Ids;
use crate::time::Time;

/// All ingress logs.
#[derive(Debug, Default)]
pub(super) struct Ingress {
    pub(super) logs: BTreeMap<NodeId, Log>,
    /// What no disk has to hold any more: its node's was lost, or the node was given up.
    pub(super) excused: Ids,
    /// Every record that was answered with 202, and where.
    pub(super) promised: Vec<Promise>,
    /// When a decommission of a node last began or was cancelled.
    pub(super) left: BTreeMap<NodeId, Time>,
    /// When a node was last declared dead.
    pub(super) death: Time,
    /// Records that were appended once more at a seam.
    pub(super) again: u64,
}

/// A record that a producer was told is safe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) id: u64,
    pub(super) node: NodeId,
    pub(super) topic: TopicId,
}

/// One node's log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Which record is where, from the last checkpoint on.
    at: BTreeMap<Seq, Seq>,
    /// Where records were that are behind the checkpoint now.
    past: BTreeMap<Seq, Seq>,
    /// The records, by the position where each was accepted.
    pub(super) records: BTreeMap<Seq, Record>,
    /// The position after the last that is known.
    pub(super) next: Seq,
    /// Up to where it has been given up.
    pub(super) checkpoint: Seq,
    /// When something was last accepted or carried.
    pub(super) grew: Time,
    /// When something of it last arrived.
    pub(super) moved: Time,
    /// When it could last not be written.
    pub(super) faulty: Option<Time>,
    /// The life that sends, and since when.
    pub(super) life: Incarnation,
    pub(super) since: Time,
    /// The last record of each partition that was appended there by number, and by key.
    pub(super) order: BTreeMap<PartitionId, Order>,
    /// What was accepted for a partition by number, however long ago: what was salvaged is among it.
    pub(super) salvaged: BTreeSet<u64>,
    /// Partitions whose keyed records may have gone elsewhere in this life.
    pub(super) disturbed: BTreeSet<PartitionId>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) id: u64,
    pub(super) topic: TopicId,
    pub(super) route: Route,
    pub(super) bytes: u64,
    /// Its last position.
    last: Seq,
    pub(super) arrived: bool,
    /// Where it was last appended, and acknowledged.
    pub(super) taken: Option<Taken>,
}

/// Where a record has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// The life that has sent it.
    pub(super) life: Incarnation,
    pub(super) partition: PartitionId,
    /// The owner, and which opening of its log.
    pub(super) owner: (NodeId, u64),
}

/// How far a partition has come with what one life of one node has sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) owner: (NodeId, u64),
    pub(super) numbered: Option<Seq>,
    pub(super) keyed: Option<Seq>,
}

impl Log {
    /// Records are durable from a position on.
    pub(super) fn accept(
        &mut self,
        (topic, route): (TopicId, Route),
        first: Seq,
        ids: &[u64],
        bytes: u64,
        now: Time,
    ) {
        let each = bytes / (ids.len() as u64).max(1);
        for (seq, id) in (first.0..).map(Seq).zip(ids) {
            let record = Record {
                id: *id,
                topic,
                route,
                bytes: each,
                last: seq,
                arrived: false,
                taken: None,
            };
            self.at.insert(seq, seq);
            self.records.insert(seq, record);
            if let Route::Partition(_) = route {
                self.salvaged.insert(*id);
            }
        }
        self.next = self.next.max(Seq(first.0 + ids.len() as u64));
        self.grew = now;
    }

    /// The node begins anew: it finds a carried record in both of its places and brings it twice.
    ///
    /// What its last life has sent may still arrive, and appends its records a second time, which is
    /// the seam of a restart. It names a carried record by its second place, which is a record of
    /// its own from now on: to hold that against the order of acceptance would be wrong, so that only
    /// what the new life sends is.
    pub(super) fn begin_anew(&mut self, life: Incarnation, now: Time) {
        self.sends_in(life, now);
        let copies: Vec<(Seq, Seq)> =
            self.at.iter().filter(|(at, root)| at != root).map(|(at, root)| (*at, *root)).collect();
        for (at, root) in copies {
            let Some(record) = self.records.get(&root).copied() else { continue };
            self.records.insert(at, Record { last: at, taken: None, ..record });
            self.at.insert(at, at);
        }
        for (root, record) in &mut self.records {
            record.last = *root;
        }
        // What is behind the checkpoint has no place of its own any more.
        self.records.retain(|root, _| self.at.contains_key(root));
        self.past.clear();
        self.disturbed.clear();
    }

    /// Records are durable a second time.
    pub(super) fn carry(&mut self, seqs: &[Seq], first: Seq, now: Time) {
        for (new, old) in (first.0..).map(Seq).zip(seqs) {
            let Some(root) = self.at.get(old).copied() else { continue };
            self.at.insert(new, root);
            if let Some(record) = self.records.get_mut(&root) {
                record.last = record.last.max(new);
            }
        }
        self.next = self.next.max(Seq(first.0 + seqs.len() as u64));
        self.grew = now;
    }

    /// What a checkpoint names is given up. Returns what of that has not arrived and is nowhere else.
    pub(super) fn give_up(&mut self, spent: &Checkpoint) -> Vec<Record> {
        let Checkpoint { below, beyond } = spent;
        self.checkpoint = self.checkpoint.max(*below);
        let kept = self.at.split_off(below);
        let mut gone = std::mem::replace(&mut self.at, kept);
        for range in beyond {
            let named: Vec<Seq> = self.at.range(range.clone()).map(|(seq, _)| *seq).collect();
            gone.extend(named.into_iter().filter_map(|seq| self.at.remove_entry(&seq)));
        }
        let is_kept = |seq: Seq| seq >= *below && !beyond.iter().any(|range| range.contains(&seq));
        let mut missed = Vec::new();
        for (seq, root) in gone {
            let Some(record) = self.records.get(&root) else { continue };
            if is_kept(record.last) {
                // A late copy of a batch may still name it so.
                self.past.insert(seq, root);
                continue;
            }
            if !record.arrived {
                missed.push(*record);
            }
            self.records.remove(&root);
        }
        self.past.retain(|_, root| self.records.contains_key(root));
        missed
    }

    /// Returns a record by any of its positions, with the one where it was accepted.
    pub(super) fn find(&mut self, seq: Seq) -> Option<(Seq, &mut Record)> {
        let root = *self.at.get(&seq).or_else(|| self.past.get(&seq))?;
        Some((root, self.records.get_mut(&root)?))
    }

    /// Returns what has not arrived.
    pub(super) fn open(&self) -> impl Iterator<Item = &Record> {
        self.records.values().filter(|record| !record.arrived)
    }

    /// A life sends: what earlier lives have sent says nothing about it.
    pub(super) fn sends_in(&mut self, life: Incarnation, now: Time) {
        if life > self.life {
            self.life = life;
            self.since = now;
            self.order.clear();
        }
    }
}

impl Ingress {
    pub(super) fn log_mut(&mut self, node: NodeId) -> &mut Log {
        self.logs.entry(node).or_default()
    }

    /// Nobody has to hold what a node has accepted any more.
    pub(super) fn excuse(&mut self, node: NodeId) {
        for record in self.logs.get(&node).into_iter().flat_map(Log::open) {
            self.excused.insert(record.id);
        }
    }

    /// A node's disk is another one from here on.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.excuse(node);
        self.logs.remove(&node);
    }

    /// Returns the ids of what a node has accepted and not brought to an owner.
    pub(super) fn open_of(&self, node: NodeId) -> Vec<u64> {
        let mut open: Vec<u64> =
            self.logs.get(&node).into_iter().flat_map(Log::open).map(|it| it.id).collect();
        open.sort_unstable();
        open
    }
}
