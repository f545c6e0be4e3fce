//! What the replicated rows say about those for whom something waits.

use super::lane::{Seen, is_live};
use super::{Dispatch, Effect};
use crate::effects::Effects;
use crate::ids::{NodeId, PartitionId, TopicId};
use crate::metastore::{Changed, State};
use crate::time::Instant;

impl Dispatch {
    /// Takes what an entry has changed.
    pub(super) fn applied(
        &mut self,
        now: Instant,
        state: &State,
        changed: &Changed,
        out: &mut Effects<Effect>,
    ) {
        for topic in &changed.topics {
            self.look_at_topic(now, state, *topic, out);
        }
        for node in &changed.members {
            self.member_changed(now, state, *node, out);
        }
        for partition in &changed.partitions {
            self.look(now, state, *partition, out);
            self.unstall(partition.topic);
        }
    }

    /// Looks at everything.
    pub(super) fn restored(&mut self, now: Instant, state: &State, out: &mut Effects<Effect>) {
        let topics: alloc::vec::Vec<TopicId> = self.topics.keys().copied().collect();
        for topic in topics {
            self.look_at_topic(now, state, topic, out);
            self.look_at_lanes(now, state, topic, out);
        }
        for peer in self.peers.values_mut() {
            peer.recover();
        }
        self.unstall_all();
    }

    /// A node may be back, or gone: whatever is its own is tried again, or waits.
    fn member_changed(
        &mut self,
        now: Instant,
        state: &State,
        node: NodeId,
        out: &mut Effects<Effect>,
    ) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.recover();
        }
        for partition in state.owned_by(node) {
            let topic = self.topics.get_mut(&partition.topic);
            if let Some(lane) = topic.and_then(|topic| topic.lanes.get_mut(&partition.index)) {
                let soon = now.after(self.pauses.shortly());
                lane.pause = lane.pause.map(|until| until.min(soon));
                self.look(now, state, partition, out);
            }
        }
        self.unstall_all();
    }

    pub(super) fn look_at_lanes(
        &mut self,
        now: Instant,
        state: &State,
        topic: TopicId,
        out: &mut Effects<Effect>,
    ) {
        let lanes = self.topics.get(&topic).map(|topic| topic.lanes.keys().copied());
        let lanes: alloc::vec::Vec<u32> = lanes.into_iter().flatten().collect();
        for index in lanes {
            self.look(now, state, PartitionId { topic, index }, out);
        }
    }

    /// Looks whether a topic is there, and sorts what waited to know that.
    pub(super) fn look_at_topic(
        &mut self,
        now: Instant,
        state: &State,
        id: TopicId,
        out: &mut Effects<Effect>,
    ) {
        let Some(topic) = self.topics.get_mut(&id) else { return };
        let Some(row) = state.topic(id) else {
            if topic.is_idle() {
                self.topics.remove(&id);
            } else {
                topic.is_over = false;
                self.absent.insert(id);
            }
            return;
        };
        self.absent.remove(&id);
        if topic.partitions.is_none() {
            topic.partitions = Some(row.partitions);
            while let Some(unplaced) = topic.unplaced.pop_front() {
                let (low, bytes) = (unplaced.low, unplaced.bytes());
                topic.place(low, unplaced.kind(), unplaced.route(), bytes);
            }
            self.look_at_lanes(now, state, id, out);
            self.unstall(id);
        }
    }

    /// Brings one partition in line with its row, the time, and what waits for it: whether it has a
    /// turn, whether it is shut, when to look again.
    pub(super) fn look(
        &mut self,
        now: Instant,
        state: &State,
        partition: PartitionId,
        out: &mut Effects<Effect>,
    ) {
        let PartitionId { topic: id, index } = partition;
        let Some(topic) = self.topics.get_mut(&id) else { return };
        let Some(lane) = topic.lanes.get_mut(&index) else { return };
        if let Some(at) = lane.alarm.take() {
            self.alarms.remove(&(at, partition));
        }
        if lane.is_empty() {
            topic.lanes.remove(&index);
            topic.strays.remove(&index);
            return;
        }
        let row = state.assignment(partition);
        let owner = row.map(|row| row.owner).filter(|&owner| is_live(state, owner));
        let seen = row.map(Seen::from);
        if seen != lane.seen {
            let reign = |seen: Option<Seen>| seen.map(|seen| (seen.owner, seen.epoch));
            let tried = lane.pause.is_some();
            if reign(seen) != reign(lane.seen) {
                lane.let_go();
            }
            lane.failures = 0;
            lane.pause = tried.then(|| now.after(self.pauses.shortly()));
            lane.seen = seen;
        }
        if let Some(sending) = lane.batch.as_mut().and_then(|batch| batch.sending.as_mut())
            && owner != Some(sending.to)
            && !sending.is_cancelled
        {
            sending.is_cancelled = true;
            out.push(Effect::Cancel(sending.op));
        }
        let answers = |node| self.peers.get(&node).is_none_or(|peer| peer.failures == 0);
        if !owner.is_some_and(answers) {
            lane.hold(now);
        }
        lane.pause = lane.pause.filter(|&until| until > now);
        let late_at = lane.held_since.map(|since| since.after(self.tuning.reroute_after));
        lane.is_late = late_at.is_some_and(|at| at <= now);
        let late_at = late_at.filter(|_| !lane.is_late);
        lane.alarm = late_at.into_iter().chain(lane.pause).min();
        if let Some(at) = lane.alarm {
            self.alarms.insert((at, partition));
        }
        match owner {
            None => lane.turn_at = None,
            Some(node) if lane.is_ready(now) && lane.turn_at != Some(node) => {
                lane.turn_at = Some(node);
                self.peers.entry(node).or_default().lanes.push_back(partition);
            }
            Some(_) => {}
        }
        if !lane.keyed.is_empty() && lane.is_shut(row, state) {
            topic.strays.insert(index);
            self.give_turn(id);
        } else {
            topic.strays.remove(&index);
        }
    }
}
