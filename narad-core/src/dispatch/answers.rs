//! What becomes of a batch when its owner has answered, or nobody has.

use alloc::vec::Vec;

use super::lane::{Batch, Sending, Topic};
use super::queue::Kind;
use super::{Dispatch, Effect, Note, SendFault};
use crate::effects::{Effects, OpId};
use crate::ids::{Epoch, PartitionId};
use crate::metastore::State;
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

impl Dispatch {
    pub(super) fn answered(
        &mut self,
        now: Instant,
        state: &State,
        op: OpId,
        result: Result<(), SendFault>,
        out: &mut Effects<Effect>,
    ) {
        let partition =
            self.sends.remove(&op).expect("only answers to what is under way come here");
        let batch = self.batch_of(partition).expect("what is under way has its batch");
        let sending = batch.sending.take().expect("it is under way");
        let home = batch.strays_of.map(|index| PartitionId { index, ..partition });
        let is_over = self.topics.get(&partition.topic).is_some_and(|topic| topic.is_over);
        let peer = self.peers.entry(sending.to).or_default();
        peer.held = peer.held.saturating_sub(1);
        let answered_since = peer.answered_at.is_some_and(|at| at >= sending.at);
        match result {
            Ok(()) => {
                peer.answers(now);
                self.taken(partition, out);
            }
            Err(fault) => {
                if fault.is_answer() {
                    peer.answers(now);
                }
                self.progress.refused.count(fault);
                // If it has answered others since, it is the partition that hangs.
                let is_silent = fault == SendFault::Unreachable
                    || (fault == SendFault::TimedOut && !answered_since);
                if is_silent {
                    self.silent(now, state, sending, out);
                }
                if is_over {
                    self.let_go_of_last(partition, out);
                } else {
                    self.refused(now, partition, fault, sending.epoch, out);
                }
            }
        }
        self.look(now, state, partition, out);
        if let Some(home) = home {
            self.look(now, state, home, out);
        }
        let idle = self.topics.get(&partition.topic).is_some_and(Topic::is_idle);
        if is_over && idle {
            self.topics.remove(&partition.topic);
        }
        self.unstall(partition.topic);
        self.unstall_for_slot();
    }

    fn batch_of(&mut self, partition: PartitionId) -> Option<&mut Batch> {
        let topic = self.topics.get_mut(&partition.topic)?;
        topic.lanes.get_mut(&partition.index)?.batch.as_mut()
    }

    /// A batch has arrived, or the piece of it that was sent.
    fn taken(&mut self, partition: PartitionId, out: &mut Effects<Effect>) {
        let Some(topic) = self.topics.get_mut(&partition.topic) else { return };
        let Some(lane) = topic.lanes.get_mut(&partition.index) else { return };
        let Some(mut batch) = lane.batch.take() else { return };
        let mut strays = 0;
        for item in batch.items.drain(..batch.piece) {
            self.ledger.remove(self.ledger.seq(item.low), item.bytes());
            self.progress.dispatched += 1;
            self.pace.bytes += u64::from(item.bytes());
            strays += u32::from(item.kind() == Kind::Stray);
        }
        let n = batch.n + 1;
        topic.numbers.insert(partition.index, n);
        lane.let_go();
        if let Some(from) = batch.strays_of.filter(|_| strays > 0) {
            self.progress.rerouted += u64::from(strays);
            let from = PartitionId { index: from, ..partition };
            out.push(Effect::Note(Note::Rerouted { from, to: partition, records: strays }));
        }
        if !batch.items.is_empty() {
            let piece = batch.piece.min(batch.items.len());
            lane.batch = Some(Batch { n, piece, frozen_in: None, ..batch });
        }
        if lane.noted.take().is_some() {
            out.push(Effect::Note(Note::Resumed(partition)));
        }
    }

    /// A batch was not taken, or nobody knows: it is sent again after a pause. If nothing of it has
    /// ever left, and the node cannot be reached, its records are as if they had not been sent.
    fn refused(
        &mut self,
        now: Instant,
        partition: PartitionId,
        fault: SendFault,
        epoch: Epoch,
        out: &mut Effects<Effect>,
    ) {
        let Some(topic) = self.topics.get_mut(&partition.topic) else { return };
        let Some(lane) = topic.lanes.get_mut(&partition.index) else { return };
        if lane.noted != Some(fault) {
            lane.noted = Some(fault);
            out.push(Effect::Note(Note::Held { partition, fault }));
        }
        lane.hold(now);
        lane.pause = Some(now.after(self.pauses.after(lane.failures)));
        lane.failures = lane.failures.saturating_add(1);
        let Some(mut batch) = lane.batch.take() else { return };
        batch.has_left |= fault.left();
        batch.frozen_in = (fault == SendFault::Frozen).then_some(epoch);
        if fault == SendFault::TooLarge {
            batch.piece = batch.piece.div_ceil(2);
        }
        if let SendFault::Stale { newest } = fault
            && (newest.ingress, newest.life) == (self.me, self.life)
        {
            // It has taken a later one than this machine remembers: twice is better than never.
            batch.n = batch.n.max(newest.n.saturating_add(1));
        }
        let is_unsent = !batch.has_left && fault == SendFault::Unreachable;
        let is_let_go = fault == SendFault::TimedOut && is_planted(Bug::BoundGoesElsewhere);
        if is_unsent || is_let_go {
            topic.scatter(partition.index, batch);
        } else {
            lane.batch = Some(batch);
        }
    }

    /// A node does not answer: it is left alone for a while, and then sent one batch at a time. What
    /// was sent before that was noted says nothing new.
    fn silent(&mut self, now: Instant, state: &State, sending: Sending, out: &mut Effects<Effect>) {
        let peer = self.peers.entry(sending.to).or_default();
        if peer.failed_at.is_some_and(|at| sending.at < at) {
            return;
        }
        peer.rests_until = Some(now.after(self.pauses.after(peer.failures)));
        peer.failures = peer.failures.saturating_add(1);
        peer.failed_at = Some(now);
        let lanes: Vec<PartitionId> = peer.lanes.iter().copied().collect();
        for partition in lanes {
            self.look(now, state, partition, out);
        }
    }

    /// The last batch of a topic that is gone was not taken.
    fn let_go_of_last(&mut self, partition: PartitionId, out: &mut Effects<Effect>) {
        let topic = self.topics.get_mut(&partition.topic);
        let lane = topic.and_then(|topic| topic.lanes.get_mut(&partition.index));
        let Some(batch) = lane.and_then(|lane| lane.batch.take()) else { return };
        self.drop_items(partition.topic, batch.items, out);
    }
}
