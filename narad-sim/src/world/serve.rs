//! What a node does for producers that have found it, and with its logs in time.

use std::time::Duration;

use narad_core::dispatch::SendFault;
use narad_core::ids::{ByteCount, Epoch, Offset, PartitionId};
use narad_core::node::Event;
use narad_runtime::broker::SlotError;
use narad_runtime::disk::{MemDisk, mem};
use narad_runtime::log::{Record, Retention, scan};
use narad_runtime::store::{PartitionStore, log_dir};

use super::machine::{Batch, Incoming};
use super::message::{Message, Payload, Produce, Produced};
use super::records::id_of;
use super::script::{Moment, Verdict};
use super::{Due, Local, World};
use crate::oracle::Fact;
use crate::scenario::vocabulary::COMMIT;
use crate::scenario::{Ending, Stage};
use crate::time::Time;
use crate::trace::Kind;

impl World {
    /// Between two times that consumers' positions are made durable (R53).
    pub(super) const FLUSH_EVERY: Duration = Duration::from_secs(1);
    /// Between two looks at the quarantine.
    pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(5);
    const APPEND_RECORDS_MAX: usize = 256;

    /// Records have reached the node that some dispatcher takes for the owner.
    pub(super) fn produced_at(&mut self, machine: usize, from: usize, produce: Produce) {
        self.take_in(machine, produce.partition, Incoming::Produced { from, produce });
    }

    /// Records are to be appended, behind those that wait already.
    pub(super) fn take_in(&mut self, machine: usize, partition: PartitionId, incoming: Incoming) {
        let process = self.machines[machine].process.as_mut().expect("it runs");
        let appending = process.appends.entry(partition).or_default();
        appending.waiting.push_back(incoming);
        if appending.batch.is_none() {
            self.begin_batch(machine, partition);
        }
    }

    /// Asks the gate for leave to write all that waits.
    fn begin_batch(&mut self, machine: usize, partition: PartitionId) {
        let now = self.now;
        let disk = &self.setup.scenario.disk;
        let range = disk.sync.least..=disk.sync.most;
        let it = &mut self.machines[machine];
        let Some(process) = it.process.as_mut() else { return };
        process.ground.set_now(it.clock.local(now));
        let Some(appending) = process.appends.get_mut(&partition) else { return };
        if appending.batch.is_some() || appending.waiting.is_empty() {
            return;
        }
        let seat = process.broker.seat(partition);
        // One append claims one reign.
        let claimed = appending.waiting.front().and_then(Incoming::claimed);
        let joins = |one: &Incoming| one.claimed() == claimed;
        let pending = match seat.slot.begin(claimed) {
            Ok(pending) => pending,
            Err(error) => {
                let others = appending.waiting.iter().position(|one| !joins(one));
                let all = others.unwrap_or(appending.waiting.len());
                let refused: Vec<_> = appending.waiting.drain(..all).collect();
                self.recorder.count("refused");
                self.reply_to_senders(machine, refused, &Err(error.send_fault()));
                // Whoever claims another reign may be luckier.
                return self.begin_batch(machine, partition);
            }
        };
        let mut from = Vec::with_capacity(appending.waiting.len().min(Self::APPEND_RECORDS_MAX));
        let mut records: Vec<Record> = Vec::new();
        while records.len() < Self::APPEND_RECORDS_MAX {
            let Some(next) = appending.waiting.pop_front_if(|one| joins(one)) else { break };
            records.append(&mut next.records());
            from.push(next);
        }
        let (epoch, node) = (pending.epoch(), it.node);
        let ids = records.iter().map(id_of).collect();
        appending.batch = Some(Batch { pending, from, records, ids, appended: None });
        let delay = it.slower_by + it.latency.duration(range);
        let at = self.after_disk(machine, delay);
        if let Some(node) = node {
            self.observe(Fact::Admitted { node, partition, epoch });
        }
        self.meet_commit(Stage::Effect, machine, partition, at, Local::Append(partition));
    }

    /// Goes on with an append, unless a step holds it up.
    fn meet_commit(
        &mut self,
        stage: Stage,
        machine: usize,
        partition: PartitionId,
        at: Time,
        next: Local,
    ) {
        let moment = Moment { partition: Some(partition), ..Moment::new(stage, COMMIT, machine) };
        self.meet_write(moment, machine, at, next);
    }

    /// Goes on with a write to a log, unless a step holds it up.
    pub(super) fn meet_write(&mut self, moment: Moment<'_>, machine: usize, at: Time, next: Local) {
        match self.meet(moment) {
            Verdict::Gone => {}
            Verdict::Hold(label) => {
                let life = self.machines[machine].life;
                self.script.keep(label, Due::Local { machine, life, what: next });
            }
            Verdict::Later(later) => self.local(machine, later.max(at), next),
            // It is no message that could be lost or come twice, and no disk fails in it.
            Verdict::Pass
            | Verdict::Drop
            | Verdict::Twice(_)
            | Verdict::Record(_)
            | Verdict::Corrupt
            | Verdict::Fail(_)
            | Verdict::Crash(..) => self.local(machine, at, next),
        }
    }

    /// Writes the batch that was admitted.
    pub(super) fn append_batch(&mut self, machine: usize, partition: PartitionId) {
        let now = self.now;
        let it = &mut self.machines[machine];
        it.disk.set_now(it.clock.wall_ms(now));
        let Some(node) = it.node else { return };
        self.chance_of_error(machine);
        let it = &mut self.machines[machine];
        let process = it.process.as_mut().expect("it runs");
        let Some(batch) = process.appends.get_mut(&partition).and_then(|it| it.batch.as_mut())
        else {
            return;
        };
        let appended = batch.pending.append(&batch.records);
        let epoch = batch.pending.epoch();
        let told = appended.as_ref().ok().map(|appended| appended.first);
        let is_poisoned = appended.is_err();
        batch.appended = Some(appended);
        let ids = batch.ids.clone();
        let pause = Duration::from_micros(1 + it.latency.below(20));
        if let Some(first) = told {
            self.observe(Fact::Appended { node, partition, epoch, first, ids: &ids });
        }
        if is_poisoned {
            let soon = now.after(Duration::from_micros(50));
            self.local(machine, soon, Local::Tell(Box::new(Event::Poisoned(partition))));
        }
        let at = now.after(pause);
        self.meet_commit(Stage::Performed, machine, partition, at, Local::Recheck(partition));
    }

    /// Asks the gate whether what was written may be acknowledged.
    pub(super) fn recheck_batch(&mut self, machine: usize, partition: PartitionId) {
        let now = self.now;
        let it = &mut self.machines[machine];
        let Some(node) = it.node else { return };
        let process = it.process.as_mut().expect("it runs");
        process.ground.set_now(it.clock.local(now));
        let Some(batch) = process.appends.get_mut(&partition).and_then(|it| it.batch.take()) else {
            return;
        };
        let Batch { pending, from, ids, appended, .. } = batch;
        let epoch = pending.epoch();
        let appended = appended.expect("it is judged after it was written");
        let first = appended.as_ref().map(|appended| appended.first);
        let is_durable = appended.is_ok();
        let first = first.unwrap_or(Offset(0));
        let judged = process.broker.seat(partition).slot.finish(pending, appended);
        let ending = if judged.is_ok() { Ending::Ok } else { Ending::Rejected };
        match judged {
            Ok(committed) => {
                self.recorder.records(now, Kind::Ack, machine, partition, ids.len());
                let epoch = committed.epoch;
                self.observe(Fact::Acknowledged { node, partition, epoch, first, ids: &ids });
                self.news(partition);
                self.reply_to_senders(machine, from, &Ok((epoch, first)));
            }
            Err(error) => {
                if is_durable && matches!(error, SlotError::Refused(_)) {
                    self.observe(Fact::AckRefused { node, partition, epoch, first, ids: &ids });
                }
                self.recorder.count("refused");
                self.reply_to_senders(machine, from, &Err(error.send_fault()));
            }
        }
        let moment = Moment {
            partition: Some(partition),
            ending: Some(ending),
            ..Moment::new(Stage::Done, COMMIT, machine)
        };
        if self.meet(moment) == Verdict::Gone {
            return;
        }
        self.answer_freezes(machine, partition);
        self.begin_batch(machine, partition);
    }

    /// Answers everybody who has sent records: `first` is where those of the first begin.
    fn reply_to_senders(
        &mut self,
        machine: usize,
        senders: Vec<Incoming>,
        result: &Result<(Epoch, Offset), SendFault>,
    ) {
        let life = self.machines[machine].life;
        let mut result = *result;
        for sender in senders {
            let records = sender.len() as u64;
            match sender {
                Incoming::Produced { from: to, produce } => {
                    let taken = result.is_ok();
                    let outcome = if taken { Produced::Acknowledged } else { Produced::Refused };
                    let payload = Payload::Produced { request: produce.request, outcome };
                    self.send(Message { from: machine, to, life, payload, line: 0 });
                }
                Incoming::Delivered { from, life, deliver } => {
                    self.delivery_ended(machine, (from, life), &deliver, result);
                }
            }
            if let Ok((_, first)) = &mut result {
                first.0 += records;
            }
        }
    }

    /// Applies retention to the log of an owner.
    pub(super) fn retain_at(&mut self, machine: usize, partition: PartitionId, keep_bytes: u64) {
        let now_ms = self.machines[machine].clock.wall_ms(self.now);
        let Some(node) = self.machines[machine].node else { return };
        let Some(process) = &self.machines[machine].process else { return };
        let Some(seat) = process.broker.find(partition) else { return };
        let keep = Retention { bytes_max: Some(ByteCount(keep_bytes)), age_ms_max: None };
        let start = match seat.slot.retain(&keep, now_ms) {
            Ok(Some(_)) => seat.slot.log().ok().map(|log| log.bounds().start),
            // What failed half-way may have given records up all the same, on the disk alone.
            Err(SlotError::Log(_)) => self.start_written(machine, partition),
            Ok(None) | Err(SlotError::Refused(_) | SlotError::NotOpen | SlotError::Consumer(_)) => {
                None
            }
        };
        if let Some(start) = start {
            self.observe(Fact::Retained { node, partition, start });
        }
    }

    /// Returns where the live log begins by all that was written to the disk, synced or not.
    fn start_written(&self, machine: usize, partition: PartitionId) -> Option<Offset> {
        let it = &self.machines[machine];
        let state = it.process.as_ref()?.replica.node().state();
        let row = state.assignment(partition).filter(|row| Some(row.owner) == it.node)?;
        let disk = MemDisk::of(&it.disk.image(mem::Keep::Everything));
        Some(scan(&disk, &log_dir(partition, row.data)).ok()?.start)
    }

    /// Makes consumers' positions durable.
    pub(super) fn flush(&mut self, machine: usize) {
        let next = self.in_local_time(machine, Self::FLUSH_EVERY);
        self.local(machine, next, Local::Flush);
        if let Some(process) = &self.machines[machine].process {
            process.broker.flush_positions();
        }
    }

    /// Deletes what has been in quarantine for long enough, a little at a time; all of it, the oldest
    /// first, while less than four segments are free.
    pub(super) fn sweep(&mut self, machine: usize) {
        const FILES_MAX: usize = 16;
        const BREATH: Duration = Duration::from_millis(100);
        let free_min = 4 * self.setup.log_limits.segment_bytes;
        let quarantine_ms = self.setup.config.quarantine.as_millis();
        let quarantine_ms = i64::try_from(quarantine_ms).unwrap_or(i64::MAX);
        let it = &self.machines[machine];
        let now_ms = it.clock.wall_ms(self.now);
        let sweep = |store: &dyn PartitionStore| {
            let is_short = store.free_bytes()?.0 < free_min;
            let older_than = if is_short { now_ms } else { now_ms.saturating_sub(quarantine_ms) };
            store.sweep_trash(older_than, FILES_MAX)
        };
        let swept = it.process.as_ref().map(|process| sweep(&*process.store));
        // What cannot be deleted now is tried again at the next look.
        let swept = swept.and_then(Result::ok).unwrap_or_default();
        self.recorder.count_many("swept", swept.files as u64);
        let pause = if swept.more { BREATH } else { Self::SWEEP_EVERY };
        let next = self.in_local_time(machine, pause);
        self.local(machine, next, Local::Sweep);
    }
}
