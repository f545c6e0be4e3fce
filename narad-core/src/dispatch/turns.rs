//! Whose turn it is to be sent a batch.

use alloc::collections::VecDeque;
use core::ops::Bound;

use super::lane::{Sending, Topic, is_live};
use super::{BatchNo, Dispatch, Effect, Operation};
use crate::effects::Effects;
use crate::ids::{NodeId, PartitionId, TopicId};
use crate::metastore::State;
use crate::time::Instant;

/// Among the nodes, the one turn of all that may go anywhere. Zero names no node.
pub(super) const LOOSE: NodeId = NodeId(0);

/// What is known of a node that is sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    /// Partitions with something to send there, in turn.
    pub(super) lanes: VecDeque<PartitionId>,
    /// Batches under way to it.
    pub(super) held: usize,
    /// How often in a row it did not answer.
    pub(super) failures: u32,
    /// When that was noted last.
    pub(super) failed_at: Option<Instant>,
    /// When it last answered.
    pub(super) answered_at: Option<Instant>,
    /// It is sent nothing before.
    pub(super) rests_until: Option<Instant>,
}

/// What a topic waits for whose records may go anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stalled {
    /// A partition that takes records.
    ForPartition,
    /// A batch that ends: a partition is there, and its node has its share.
    ForSlot,
}

enum Pick {
    Found(u32),
    Not(Stalled),
}

impl Peer {
    /// It has answered.
    pub(super) fn answers(&mut self, now: Instant) {
        self.recover();
        self.answered_at = Some(now);
    }

    /// It is tried as if it had never failed.
    pub(super) fn recover(&mut self) {
        self.failures = 0;
        self.rests_until = None;
    }
}

impl Dispatch {
    /// Looks at whatever is due.
    pub(super) fn ring(&mut self, now: Instant, state: &State, out: &mut Effects<Effect>) {
        while let Some(&(at, partition)) = self.alarms.first().filter(|(at, _)| *at <= now) {
            self.alarms.remove(&(at, partition));
            self.look(now, state, partition, out);
            self.unstall(partition.topic);
        }
        let mut rested = false;
        for peer in self.peers.values_mut() {
            if peer.rests_until.is_some_and(|until| until <= now) {
                peer.rests_until = None;
                rested = true;
            }
        }
        if rested {
            self.unstall_all();
        }
    }

    /// Sends what may be sent, in turn: one batch for each node that has its share, one of what may
    /// go anywhere, and so on.
    pub(super) fn serve(&mut self, now: Instant, state: &State, out: &mut Effects<Effect>) {
        // Turns until everybody has had one in vain.
        let mut left = self.peers.len() + 1;
        while left > 0 && self.sends.len() < self.tuning.in_flight_max {
            let after = (Bound::Excluded(self.last_served), Bound::Unbounded);
            let who = self.peers.range(after).next().map_or(LOOSE, |(&node, _)| node);
            self.last_served = who;
            let served = if who == LOOSE {
                self.serve_loose(now, state, out)
            } else {
                self.serve_node(now, state, who, out)
            };
            left = if served { self.peers.len() + 1 } else { left - 1 };
        }
    }

    /// Whether a node may be sent another batch: never more than are left for others, and one at a
    /// time if it does not answer (invariant 6).
    fn may_send(&self, node: NodeId) -> bool {
        let free = self.tuning.in_flight_max.saturating_sub(self.sends.len());
        let Some(peer) = self.peers.get(&node) else { return free > 0 };
        match peer.failures {
            0 => peer.held < free,
            _ => peer.rests_until.is_none() && peer.held == 0 && free > 0,
        }
    }

    fn serve_node(
        &mut self,
        now: Instant,
        state: &State,
        node: NodeId,
        out: &mut Effects<Effect>,
    ) -> bool {
        if !self.may_send(node) {
            return false;
        }
        while let Some(partition) =
            self.peers.get_mut(&node).and_then(|peer| peer.lanes.pop_front())
        {
            let topic = self.topics.get_mut(&partition.topic);
            let lane = topic.and_then(|topic| topic.lanes.get_mut(&partition.index));
            let Some(lane) = lane.filter(|lane| lane.turn_at == Some(node)) else { continue };
            lane.turn_at = None;
            let is_owner = state.assignment(partition).is_some_and(|row| row.owner == node);
            if is_owner && lane.is_ready(now) && self.send(now, state, partition, false, out) {
                return true;
            }
            self.look(now, state, partition, out);
        }
        let peer = self.peers.get(&node);
        if peer.is_some_and(|peer| peer.held == 0 && peer.failures == 0) {
            self.peers.remove(&node);
        }
        false
    }

    fn serve_loose(&mut self, now: Instant, state: &State, out: &mut Effects<Effect>) -> bool {
        while let Some(id) = self.turns.pop_front() {
            let Some(topic) = self.topics.get_mut(&id) else { continue };
            topic.has_turn = false;
            if !topic.has_loose() {
                continue;
            }
            let topic = self.topics.get(&id).expect("it was there");
            match self.pick(state, topic) {
                Pick::Found(index) => {
                    let partition = topic.partition(index);
                    let sent = self.send(now, state, partition, true, out);
                    if let Some(topic) = self.topics.get_mut(&id) {
                        topic.cursor = index + 1;
                    }
                    self.give_turn(id);
                    if sent {
                        return true;
                    }
                    debug_assert!(false, "what has a turn has something to send");
                }
                Pick::Not(stalled) => {
                    self.stalled.insert(id, stalled);
                }
            }
        }
        false
    }

    /// Finds a partition that takes records: owned by a live node, with nothing under way or stuck.
    /// One whose node does not answer is the last choice.
    fn pick(&self, state: &State, topic: &Topic) -> Pick {
        let partitions = topic.partitions.unwrap_or(0);
        let mut last_choice = None;
        let mut stalled = Stalled::ForPartition;
        for step in 0..partitions {
            let index = (topic.cursor % partitions + step) % partitions;
            let Some(row) = state.assignment(topic.partition(index)) else { continue };
            let is_free = topic
                .lanes
                .get(&index)
                .is_none_or(|lane| lane.batch.is_none() && !lane.carrying && lane.pause.is_none());
            if !is_free || !is_live(state, row.owner) {
                continue;
            }
            if !self.may_send(row.owner) {
                stalled = Stalled::ForSlot;
            } else if self.peers.get(&row.owner).is_some_and(|peer| peer.failures > 0) {
                last_choice = last_choice.or(Some(index));
            } else {
                return Pick::Found(index);
            }
        }
        last_choice.map_or(Pick::Not(stalled), Pick::Found)
    }

    /// Sends the batch of a partition, or a new one. Returns whether there was anything.
    fn send(
        &mut self,
        now: Instant,
        state: &State,
        partition: PartitionId,
        loose: bool,
        out: &mut Effects<Effect>,
    ) -> bool {
        let row = state.assignment(partition).expect("a partition with a turn has an owner");
        let (to, epoch, index) = (row.owner, row.epoch, partition.index);
        let Some(topic) = self.topics.get_mut(&partition.topic) else { return false };
        let bound = topic.lanes.get_mut(&index).and_then(|lane| lane.batch.take());
        let batch = bound.or_else(|| topic.gather(index, loose, self.tuning.batch, &self.ledger));
        let Some(mut batch) = batch else { return false };
        let op = self.ops.mint();
        let records = batch.seqs(&self.ledger);
        let no = BatchNo { ingress: self.me, life: self.life, n: batch.n };
        batch.sending = Some(Sending { op, to, epoch, at: now, is_cancelled: false });
        let strays_of = batch.strays_of;
        topic.lanes.entry(index).or_default().batch = Some(batch);
        self.sends.insert(op, partition);
        self.peers.entry(to).or_default().held += 1;
        out.push(Effect::Run(op, Operation::Send { to, partition, epoch, batch: no, records }));
        self.look(now, state, partition, out);
        if let Some(home) = strays_of {
            self.look(now, state, PartitionId { index: home, ..partition }, out);
        }
        true
    }

    /// Gives a topic a turn if it has something that may go anywhere, and somewhere to go.
    pub(super) fn give_turn(&mut self, id: TopicId) {
        let Some(topic) = self.topics.get_mut(&id) else { return };
        if topic.has_loose() && !topic.has_turn && !self.stalled.contains_key(&id) {
            topic.has_turn = true;
            self.turns.push_back(id);
        }
    }

    /// Lets a topic look for room again.
    pub(super) fn unstall(&mut self, id: TopicId) {
        self.stalled.remove(&id);
        self.give_turn(id);
    }

    pub(super) fn unstall_all(&mut self) {
        while let Some((id, _)) = self.stalled.pop_first() {
            self.give_turn(id);
        }
    }

    /// Lets those look again that only wait for a batch to end.
    pub(super) fn unstall_for_slot(&mut self) {
        let waiting = self.stalled.iter().filter(|(_, why)| **why == Stalled::ForSlot);
        let waiting: alloc::vec::Vec<TopicId> = waiting.map(|(&id, _)| id).collect();
        for id in waiting {
            self.unstall(id);
        }
    }
}
