//! Records whose bytes are damaged: they never come back, and hold up nothing that is sound
//! (`case_048`).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::interface::Seqs;
use super::lane::{Batch, Lane};
use super::ledger::Ledger;
use super::queue::{Item, Queue};
use super::{Dispatch, Effect, LogFault, Note, SendFault};
use crate::effects::{Effects, OpId};
use crate::ids::{Seq, TopicId};
use crate::metastore::State;
use crate::time::Instant;

/// Takes the damaged records out of whatever they are in.
struct Sieve<'a> {
    ledger: &'a Ledger,
    lost: &'a BTreeSet<Seq>,
    found: Vec<Item>,
}

impl Sieve<'_> {
    fn queue(&mut self, queue: &mut Queue<Item>) {
        queue.retain(|item| self.keeps(*item));
    }

    fn keeps(&mut self, item: Item) -> bool {
        let lost = self.lost.contains(&self.ledger.seq(item.low));
        if lost {
            self.found.push(item);
        }
        !lost
    }

    /// What is left of a batch keeps its number: whoever has taken that has all of it. Only if
    /// nothing is left of what may have been taken under the number, the next records need another.
    fn batch(&mut self, mut batch: Batch) -> (Option<Batch>, Option<u64>) {
        let mut piece = 0;
        let sent = batch.piece;
        let mut index = 0;
        batch.items.retain(|item| {
            let keeps = self.keeps(*item);
            piece += usize::from(keeps && index < sent);
            index += 1;
            keeps
        });
        if piece > 0 {
            return (Some(Batch { piece, ..batch }), None);
        }
        let n = batch.n + u64::from(batch.has_left);
        let piece = batch.items.len();
        let rest = Batch { n, piece, frozen_in: None, ..batch };
        ((piece > 0).then_some(rest), Some(n))
    }
}

impl Dispatch {
    /// What was to be sent or carried cannot be read in part: it goes on without that part.
    pub(super) fn damaged(
        &mut self,
        now: Instant,
        state: &State,
        op: OpId,
        lost: &Seqs,
        out: &mut Effects<Effect>,
    ) {
        if self.sends.contains_key(&op) {
            self.answered(now, state, op, Err(SendFault::Unreadable), out);
        } else {
            self.carry_done(now, state, Err(LogFault), out);
            self.carry.put_off(now);
        }
        let lost: BTreeSet<Seq> = lost.iter().collect();
        let ids: Vec<TopicId> = self.topics.keys().copied().collect();
        let (mut records, mut bytes) = (0, 0);
        for id in ids {
            let found = self.take_out(id, &lost);
            if found.is_empty() {
                continue;
            }
            for item in found {
                self.ledger.remove(self.ledger.seq(item.low), item.bytes());
                records += 1;
                bytes += u64::from(item.bytes());
            }
            self.look_at_lanes(now, state, id, out);
            self.unstall(id);
        }
        if records > 0 {
            self.progress.damaged += records;
            out.push(Effect::Note(Note::Damaged { records, bytes }));
        }
    }

    /// Takes records out of whatever holds them, and returns them.
    fn take_out(&mut self, id: TopicId, lost: &BTreeSet<Seq>) -> Vec<Item> {
        let Some(topic) = self.topics.get_mut(&id) else { return Vec::new() };
        let mut sieve = Sieve { ledger: &self.ledger, lost, found: Vec::new() };
        topic.unplaced.retain(|unplaced| {
            sieve.keeps(Item::new(unplaced.low, 0, unplaced.kind(), unplaced.bytes()))
        });
        sieve.queue(&mut topic.loose);
        for (index, lane) in &mut topic.lanes {
            let Lane { numbered, keyed, batch, .. } = lane;
            sieve.queue(numbered);
            sieve.queue(keyed);
            // A batch under way tells of its own.
            if let Some(resting) = batch.take_if(|batch| batch.sending.is_none()) {
                let (left, next) = sieve.batch(resting);
                *batch = left;
                if let Some(next) = next {
                    topic.numbers.insert(*index, next);
                }
            }
        }
        sieve.found
    }
}
