//! Records that stay behind are appended once more, so that the log before them can go.

use alloc::collections::BTreeMap;

use super::interface::Seqs;
use super::ledger::Ledger;
use super::queue::low;
use super::upkeep::Carrying;
use super::{Dispatch, Effect, LogFault, Note, Operation};
use crate::effects::Effects;
use crate::ids::{Seq, TopicId};
use crate::metastore::State;
use crate::time::Instant;

/// What is gathered for one carry.
struct Load {
    records: Carrying,
    seqs: Seqs,
    bytes: u64,
    records_max: usize,
    bytes_max: u64,
    /// Only what is older than this is carried.
    window: u32,
}

impl Load {
    fn is_full(&self) -> bool {
        self.records.len() >= self.records_max || self.bytes >= self.bytes_max
    }

    /// Takes a record if it is old enough and there is room.
    fn take(&mut self, ledger: &Ledger, low: u32, bytes: u32) -> bool {
        if self.is_full() || ledger.age(low) > self.window {
            return false;
        }
        self.records.push(low);
        self.seqs.push(ledger.seq(low));
        self.bytes += u64::from(bytes);
        true
    }
}

impl Dispatch {
    /// Whether the log is long because of a few records that stay behind: they are little of a
    /// quarter of what may be there, or not all of what is nearly full.
    pub(super) fn is_pinned(&self) -> bool {
        let pinned = |span: u64, waiting: u64, max: u64| {
            let eighth = span / 8;
            (span >= max / 4 && waiting <= eighth * 2)
                || (span >= max / 8 * 7 && waiting <= eighth * 7)
        };
        let ledger = &self.ledger;
        let bytes = (ledger.span_bytes_min(), ledger.waiting_bytes());
        let records = (ledger.span_records(), ledger.waiting_records());
        pinned(bytes.0, bytes.1, self.tuning.backlog_bytes_max)
            || pinned(records.0, records.1, self.tuning.backlog_records_max)
    }

    /// Carries some of the oldest records, of those that are not under way.
    pub(super) fn begin_carry(&mut self, now: Instant, out: &mut Effects<Effect>) {
        let window = (self.ledger.span_records() / 8).max(64);
        let mut load = Load {
            records: Carrying::new(),
            seqs: Seqs::default(),
            bytes: 0,
            records_max: self.tuning.batch.records,
            bytes_max: self.tuning.batch.bytes,
            window: u32::try_from(window).unwrap_or(u32::MAX),
        };
        for topic in self.topics.values_mut() {
            let before = load.records.len();
            for unplaced in topic.unplaced.iter() {
                load.take(&self.ledger, unplaced.low, unplaced.bytes());
            }
            for item in topic.loose.iter() {
                load.take(&self.ledger, item.low, item.bytes());
            }
            for lane in topic.lanes.values_mut() {
                if lane.is_sending() {
                    continue;
                }
                let bound = lane.batch.iter().flat_map(|batch| &batch.items);
                for item in bound.chain(lane.numbered.iter()).chain(lane.keyed.iter()) {
                    lane.carrying |= load.take(&self.ledger, item.low, item.bytes());
                }
            }
            topic.carrying = load.records.len() > before;
            if load.is_full() {
                break;
            }
        }
        if load.records.is_empty() {
            self.carry.put_off(now.after(self.tuning.retry_max));
            return;
        }
        let op = self.ops.mint();
        self.carry.begin(op, load.records);
        out.push(Effect::Run(op, Operation::Carry(load.seqs)));
    }

    /// The copies are durable: the records go by their new positions. What has been dropped since,
    /// or is under way again, has no use for its copy.
    pub(super) fn carry_done(
        &mut self,
        now: Instant,
        state: &State,
        result: Result<Seq, LogFault>,
        out: &mut Effects<Effect>,
    ) {
        let carried = self.carry.end().unwrap_or_default();
        if let Ok(first) = result {
            self.carry.put_off(now);
            self.carried(&carried, first, out);
        } else {
            out.push(Effect::Note(Note::LogFault));
            self.carry.put_off(now.after(self.tuning.retry_max));
        }
        let touched = self.topics.values().filter(|topic| topic.carrying);
        let touched: alloc::vec::Vec<TopicId> = touched.map(|topic| topic.id).collect();
        for id in touched {
            if let Some(topic) = self.topics.get_mut(&id) {
                topic.carrying = false;
                for lane in topic.lanes.values_mut() {
                    lane.carrying = false;
                }
            }
            self.look_at_lanes(now, state, id, out);
            self.unstall(id);
        }
    }

    fn carried(&mut self, carried: &Carrying, first: Seq, out: &mut Effects<Effect>) {
        let positions = first.0..;
        let new: BTreeMap<u32, Seq> = carried.iter().copied().zip(positions.map(Seq)).collect();
        let (mut records, mut moved_bytes) = (0, 0);
        let ledger = &mut self.ledger;
        let mut rename = |old: &mut u32, bytes: u32| {
            if let Some(&seq) = new.get(old) {
                ledger.insert(seq, bytes);
                ledger.remove(ledger.seq(*old), bytes);
                *old = low(seq);
                records += 1;
                moved_bytes += u64::from(bytes);
            }
        };
        for topic in self.topics.values_mut().filter(|topic| topic.carrying) {
            for unplaced in topic.unplaced.iter_mut() {
                let bytes = unplaced.bytes();
                rename(&mut unplaced.low, bytes);
            }
            let loose = topic.loose.iter_mut();
            let lanes = topic.lanes.values_mut().filter(|lane| !lane.is_sending());
            let lanes = lanes.flat_map(|lane| {
                let bound = lane.batch.iter_mut().flat_map(|batch| &mut batch.items);
                bound.chain(lane.numbered.iter_mut()).chain(lane.keyed.iter_mut())
            });
            for item in loose.chain(lanes) {
                let bytes = item.bytes();
                rename(&mut item.low, bytes);
            }
        }
        let end = Seq(first.0.saturating_add(carried.len() as u64));
        self.ledger.advance(end);
        self.progress.carried += u64::from(records);
        out.push(Effect::Note(Note::Carried { records, bytes: moved_bytes }));
    }
}
