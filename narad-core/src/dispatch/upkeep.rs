//! What is done beside sending: checkpoints, and records of topics that are gone.

use alloc::vec::Vec;
use core::mem;

use super::queue::Item;
use super::{Dispatch, Effect, LogFault, NoBarrier, Note, Operation};
use crate::effects::{Effects, OpId};
use crate::ids::{Seq, TopicId};
use crate::metastore::State;
use crate::time::Instant;

/// One thing at a time, again and again; not before it is due.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Chore<T> {
    under_way: Option<(OpId, T)>,
    due: Instant,
    failures: u32,
}

/// What a durable checkpoint says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Noted {
    pub(super) below: Seq,
    /// How many records the ledger had let go of.
    pub(super) arrived: u64,
}

/// The records that are being carried, in order: the lower halves of their positions.
pub(super) type Carrying = Vec<u32>;

impl<T> Default for Chore<T> {
    fn default() -> Self {
        Self { under_way: None, due: Instant::ORIGIN, failures: 0 }
    }
}

impl<T> Chore<T> {
    pub(super) fn is(&self, op: OpId) -> bool {
        self.under_way.as_ref().is_some_and(|(under_way, _)| *under_way == op)
    }

    /// Returns when it is to begin, if it is wanted and not under way.
    pub(super) fn due_for(&self, wanted: bool) -> Option<Instant> {
        (wanted && self.under_way.is_none()).then_some(self.due)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.under_way.is_none() && self.due <= now
    }

    pub(super) const fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub(super) fn begin(&mut self, op: OpId, what: T) {
        self.under_way = Some((op, what));
    }

    pub(super) fn end(&mut self) -> Option<T> {
        self.under_way.take().map(|(_, what)| what)
    }

    pub(super) const fn put_off(&mut self, until: Instant) {
        self.due = until;
    }
}

impl Dispatch {
    /// Most topics that one barrier is asked for.
    const ABSENT_MAX: usize = 64;
    /// So many records that arrived beyond a stuck one are noted as soon as a checkpoint may be.
    const ARRIVED_MANY: u64 = 1_024;
    /// Fewer are noted after so many intervals between checkpoints; none, never.
    const LITTLE_INTERVALS: u32 = 10;

    /// Begins whatever else is due.
    pub(super) fn keep_up(&mut self, now: Instant, out: &mut Effects<Effect>) {
        if self.checkpoint_due().is_some_and(|due| due <= now) {
            self.begin_checkpoint(out);
        }
        if !self.absent.is_empty() && self.barrier.is_due(now) {
            let asked = self.absent.iter().copied().take(Self::ABSENT_MAX).collect();
            let op = self.ops.mint();
            self.barrier.begin(op, asked);
            out.push(Effect::Run(op, Operation::Barrier));
        }
        if self.is_pinned() && self.carry.is_due(now) {
            self.begin_carry(now, out);
        }
    }

    /// Returns when what has arrived is to be noted, if it is not: soon if that shortens the log or is
    /// much, and later if it is a little beyond a record that is stuck. What is being carried is still
    /// read.
    pub(super) fn checkpoint_due(&self) -> Option<Instant> {
        let has_passed = self.ledger.checkpoint() > self.noted.below;
        let arrived = self.ledger.arrived() - self.noted.arrived;
        let is_wanted = (has_passed || arrived > 0) && !self.carry.is_under_way();
        let due = self.checkpoint.due_for(is_wanted)?;
        let is_much = has_passed || arrived >= Self::ARRIVED_MANY;
        let interval = self.tuning.checkpoint_interval;
        let patience = interval.saturating_mul(Self::LITTLE_INTERVALS - 1);
        Some(if is_much { due } else { due.after(patience) })
    }

    pub(super) fn begin_checkpoint(&mut self, out: &mut Effects<Effect>) {
        let (op, spent) = (self.ops.mint(), self.ledger.spent());
        self.checkpoint.begin(op, Noted { below: spent.below, arrived: self.ledger.arrived() });
        out.push(Effect::Run(op, Operation::Checkpoint(spent)));
    }

    pub(super) fn checkpoint_done(
        &mut self,
        now: Instant,
        result: Result<(), LogFault>,
        out: &mut Effects<Effect>,
    ) {
        let Some(noted) = self.checkpoint.end() else { return };
        let interval = self.tuning.checkpoint_interval;
        if result.is_ok() {
            self.noted = noted;
            self.checkpoint.failures = 0;
            self.checkpoint.put_off(now.after(interval));
        } else {
            out.push(Effect::Note(Note::LogFault));
            self.retry_checkpoint(now);
        }
    }

    fn retry_checkpoint(&mut self, now: Instant) {
        let pause = self.pauses.after(self.checkpoint.failures);
        self.checkpoint.failures = self.checkpoint.failures.saturating_add(1);
        self.checkpoint.put_off(now.after(pause.max(self.tuning.checkpoint_interval)));
    }

    /// Drops what waits for a topic that a barrier did not bring: all of it was accepted after the
    /// topic had been created, and the first of it before the barrier began (case R162).
    pub(super) fn barrier_done(
        &mut self,
        now: Instant,
        state: &State,
        result: Result<(), NoBarrier>,
        out: &mut Effects<Effect>,
    ) {
        let asked = self.barrier.end().unwrap_or_default();
        if let Err(NoBarrier) = result {
            let pause = self.pauses.after(self.barrier.failures);
            self.barrier.failures = self.barrier.failures.saturating_add(1);
            self.barrier.put_off(now.after(pause));
            return;
        }
        self.barrier.failures = 0;
        for id in asked {
            self.absent.remove(&id);
            if state.topic(id).is_none() {
                self.forget(id, out);
            } else {
                self.look_at_topic(now, state, id, out);
            }
        }
    }

    /// Lets go of everything that waits for a topic. What is under way is waited for.
    fn forget(&mut self, id: TopicId, out: &mut Effects<Effect>) {
        let Some(topic) = self.topics.get_mut(&id) else { return };
        let mut items: Vec<Item> = Vec::new();
        while let Some(item) = topic.loose.pop_front() {
            items.push(item);
        }
        while let Some(unplaced) = topic.unplaced.pop_front() {
            items.push(Item::new(unplaced.low, 0, unplaced.kind(), unplaced.bytes()));
        }
        topic.strays.clear();
        topic.is_over = true;
        for (index, mut lane) in mem::take(&mut topic.lanes) {
            items.extend(lane.numbered.iter().chain(lane.keyed.iter()));
            (lane.numbered, lane.keyed) = Default::default();
            if lane.is_sending() {
                topic.lanes.insert(index, lane);
                continue;
            }
            items.extend(lane.batch.into_iter().flat_map(|batch| batch.items));
            if let Some(at) = lane.alarm {
                self.alarms.remove(&(at, topic.partition(index)));
            }
        }
        if topic.is_idle() {
            self.topics.remove(&id);
            self.stalled.remove(&id);
        }
        self.drop_items(id, items, out);
    }

    pub(super) fn drop_items(
        &mut self,
        topic: TopicId,
        items: Vec<Item>,
        out: &mut Effects<Effect>,
    ) {
        let (mut records, mut bytes) = (0, 0);
        for item in items {
            self.ledger.remove(self.ledger.seq(item.low), item.bytes());
            records += 1;
            bytes += u64::from(item.bytes());
        }
        if records > 0 {
            self.progress.dropped += records;
            out.push(Effect::Note(Note::Dropped { topic, records, bytes }));
        }
    }
}
