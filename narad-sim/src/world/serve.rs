//! What a node does for producers and consumers.

use std::time::Duration;

use narad_core::ids::{ByteCount, Epoch, Offset, PartitionId};
use narad_core::node::Event;
use narad_core::planted::{Bug, is_planted};
use narad_runtime::broker::SlotError;
use narad_runtime::disk::{MemDisk, mem};
use narad_runtime::log::{Record, Retention, scan};
use narad_runtime::store::log_dir;

use super::machine::Batch;
use super::message::{Ack, Fetch, Fetched, Message, Payload, Produce, Produced};
use super::records::id_of;
use super::script::{Moment, Verdict};
use super::traffic::address;
use super::{Due, Local, World};
use crate::oracle::{Fact, Read};
use crate::scenario::vocabulary::COMMIT;
use crate::scenario::{Ending, Stage};
use crate::time::Time;
use crate::trace::Kind;

impl World {
    /// Between two times that consumers' positions are made durable (R53).
    pub(super) const FLUSH_EVERY: Duration = Duration::from_secs(1);
    /// Between two looks at the quarantine.
    pub(super) const SWEEP_EVERY: Duration = Duration::from_mins(1);
    const APPEND_RECORDS_MAX: usize = 256;

    /// Records have reached the node that some dispatcher takes for the owner.
    pub(super) fn produced_at(&mut self, machine: usize, from: usize, life: u64, produce: Produce) {
        let process = self.machines[machine].process.as_mut().expect("it runs");
        let partition = produce.partition;
        let appending = process.appends.entry(partition).or_default();
        appending.waiting.push_back((from, life, produce));
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
        let Ok(pending) = seat.slot.begin(None) else {
            let refused: Vec<_> = appending.waiting.drain(..).collect();
            self.recorder.count("refused");
            return self.reply_to_producers(machine, refused, Produced::Refused);
        };
        let mut from = Vec::with_capacity(appending.waiting.len().min(Self::APPEND_RECORDS_MAX));
        let mut records: Vec<Record> = Vec::new();
        while records.len() < Self::APPEND_RECORDS_MAX {
            let Some((client, life, mut produce)) = appending.waiting.pop_front() else { break };
            if records.is_empty() {
                records = std::mem::take(&mut produce.records);
            } else {
                records.append(&mut produce.records);
            }
            from.push((client, life, produce));
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
                self.reply_to_producers(machine, from, Produced::Acknowledged);
            }
            Err(error) => {
                if is_durable && matches!(error, SlotError::Refused(_)) {
                    self.observe(Fact::AckRefused { node, partition, epoch, first, ids: &ids });
                }
                self.recorder.count("refused");
                self.reply_to_producers(machine, from, Produced::Refused);
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

    fn reply_to_producers(
        &mut self,
        machine: usize,
        to: Vec<(usize, u64, Produce)>,
        outcome: Produced,
    ) {
        let life = self.machines[machine].life;
        for (client, _, produce) in to {
            let payload = Payload::Produced { request: produce.request, outcome };
            self.send(Message { from: machine, to: client, life, payload, line: 0 });
        }
    }

    /// A consumer wants what comes next.
    pub(super) fn fetched_at(&mut self, machine: usize, from: usize, fetch: &Fetch) {
        let process = self.machines[machine].process.as_ref().expect("it runs");
        let partition = fetch.partition;
        let bandwidth = self.net.bandwidth(address(machine), address(from));
        let bytes_max = Self::fetch_bytes_max(bandwidth);
        let next = read_next(process, fetch, bytes_max);
        let outcome = if let Some((epoch, hwm, records, more, next)) = next {
            self.goes_on(machine, fetch, epoch);
            self.handed_out(partition, machine, epoch, hwm, &records);
            Fetched::Records { epoch, records, more, next }
        } else {
            if let Some(node) = self.machines[machine].node {
                self.observe(Fact::ReadRefused(node, partition));
            }
            Fetched::Refused
        };
        let payload = Payload::Fetched { request: fetch.request, outcome };
        let life = self.machines[machine].life;
        self.send(Message { from: machine, to: from, life, payload, line: 0 });
    }

    /// Tells of a consumer that was in an earlier reign and goes on in this one.
    fn goes_on(&mut self, machine: usize, fetch: &Fetch, epoch: Epoch) {
        let Some(was) = fetch.from.filter(|(of, _)| *of < epoch) else { return };
        let it = &self.machines[machine];
        let (Some(node), Some(process)) = (it.node, it.process.as_ref()) else { return };
        if let Some(from) = goes_on_at(process, fetch, epoch) {
            self.observe(Fact::GoesOn { node, partition: fetch.partition, was, from });
        }
    }

    /// Tells of records that a consumer is given, run by run: there are gaps where some were
    /// acknowledged before.
    fn handed_out(
        &mut self,
        partition: PartitionId,
        machine: usize,
        epoch: Epoch,
        hwm: Offset,
        records: &[(Offset, u64)],
    ) {
        let Some(node) = self.machines[machine].node else { return };
        for run in records.chunk_by(|(one, _), (next, _)| one.next() == *next) {
            let ids: Vec<u64> = run.iter().map(|(_, id)| *id).collect();
            let (first, how) = (run[0].0, Read::Reserved);
            self.recorder.records(self.now, Kind::Read, machine, partition, ids.len());
            self.observe(Fact::Delivered { node, partition, epoch, first, ids: &ids, hwm, how });
        }
    }

    /// A consumer acknowledges a record.
    pub(super) fn acked_at(&mut self, machine: usize, from: usize, ack: Ack) {
        let Ack { request, partition, epoch, offset } = ack;
        let now = self.now;
        let it = &mut self.machines[machine];
        let process = it.process.as_mut().expect("it runs");
        process.ground.set_now(it.clock.local(now));
        let mut position = None;
        let taken = process.broker.find(partition).is_some_and(|seat| {
            let taken = seat.slot.acknowledge(epoch, |log| {
                let after = log.ack(offset)?;
                // Only if it has moved past the record can it have moved at all.
                if after.committed > Some(offset) {
                    position = Some((after, log.bounds().hwm));
                }
                Ok(())
            });
            taken.is_ok()
        });
        if let (true, Some(node)) = (taken, it.node) {
            let fetched = epoch;
            self.observe(Fact::ConsumerAck { node, partition, epoch, fetched, offset });
            if let Some((position, hwm)) = &position {
                let hwm = *hwm;
                self.observe(Fact::Position { node, partition, epoch, position, hwm });
            }
        }
        let payload = Payload::Acked { request, taken };
        let life = self.machines[machine].life;
        self.send(Message { from: machine, to: from, life, payload, line: 0 });
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
            Ok(None) | Err(SlotError::Refused(_) | SlotError::NotOpen) => None,
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

    /// Deletes what has been in quarantine for long enough, a little at a time.
    pub(super) fn sweep(&mut self, machine: usize) {
        const FILES_MAX: usize = 16;
        let next = self.in_local_time(machine, Self::SWEEP_EVERY);
        self.local(machine, next, Local::Sweep);
        let quarantine_ms = self.setup.config.quarantine.as_millis();
        let quarantine_ms = i64::try_from(quarantine_ms).unwrap_or(i64::MAX);
        let it = &self.machines[machine];
        let older_than = it.clock.wall_ms(self.now).saturating_sub(quarantine_ms);
        if let Some(process) = &it.process {
            // What cannot be deleted now is tried again at the next look.
            let _ = process.store.sweep_trash(older_than, FILES_MAX);
        }
    }
}

/// Reign, high watermark, what comes next, whether there is more of it, and where.
type Next = (Epoch, Offset, Vec<(Offset, u64)>, bool, Option<Offset>);

fn read_next(process: &super::machine::Process, fetch: &Fetch, bytes_max: usize) -> Option<Next> {
    let seat = process.broker.find(fetch.partition)?;
    let (log, epoch) = seat.slot.readable().ok()?;
    let bounds = log.bounds();
    let position = log.position();
    let committed = position.committed.unwrap_or(bounds.start).max(bounds.start);
    let from = goes_on_at(process, fetch, epoch).map_or(committed, |from| from.max(committed));
    let mut records = log.read(from, bytes_max).ok()?;
    if let Some(most) = fetch.most {
        records.retain(|(offset, _)| !position.acked_ahead.contains(offset));
        records.truncate(most);
    }
    let next = records.last().map(|(last, _)| last.next());
    let more = next.is_some_and(|next| next < bounds.hwm);
    let records = records
        .iter()
        .filter(|(offset, _)| !position.acked_ahead.contains(offset))
        .map(|(offset, record)| (*offset, id_of(record)))
        .collect();
    Some((epoch, bounds.hwm, records, more, next))
}

/// Returns where a consumer goes on that was somewhere before: of an earlier reign, where the next
/// one begins, if it was past that (H15). `None` if it was nowhere, or in a reign that is none here.
fn goes_on_at(process: &super::machine::Process, fetch: &Fetch, epoch: Epoch) -> Option<Offset> {
    let (of, at) = fetch.from?;
    if of == epoch || is_planted(Bug::PositionNotClamped) {
        return Some(at);
    }
    let row = process.replica.node().state().assignment(fetch.partition)?;
    let next = row.lineage.iter().find(|reign| reign.epoch > of)?;
    Some(at.min(next.start))
}
