//! What a node does for consumers.

use std::collections::BTreeSet;
use std::ops::Range;

use narad_core::cursor::{self, Answer, Handle, Lineage, Reserved};
use narad_core::freeze::gate::Standing;
use narad_core::ids::{Epoch, Offset, PartitionId};
use narad_runtime::broker::{Slot, SlotError};
use narad_runtime::log::LogError;
use narad_runtime::store::PartitionLog;

use super::World;
use super::message::{Ack, Fetch, Fetched, Message, Payload, Settle};
use super::records::id_of;
use super::traffic::address;
use crate::oracle::{ConsumerFact, Fact, Read};
use crate::trace::Kind;

impl World {
    /// A consumer wants records to work on.
    pub(super) fn fetched_at(&mut self, machine: usize, from: usize, fetch: &Fetch) {
        let now = self.now;
        let partition = fetch.partition;
        let bandwidth = self.net.bandwidth(address(machine), address(from));
        let bytes_max = Self::fetch_bytes_max(bandwidth);
        let it = &mut self.machines[machine];
        let process = it.process.as_mut().expect("it runs");
        process.ground.set_now(it.clock.local(now));
        let seat = process.broker.find(partition);
        let reserved = seat.map_or(Err(SlotError::NotOpen), |seat| {
            let (log, reserved) = seat.slot.reserve(fetch.most, fetch.visibility)?;
            Ok((seat.slot, log, reserved))
        });
        let outcome = match reserved {
            Ok((slot, log, reserved)) => {
                self.goes_on(machine, fetch, reserved.epoch);
                let (records, back) = read_reserved(&slot, &*log, &reserved, bytes_max);
                let hwm = log.bounds().hwm;
                if let Some(node) = self.machines[machine].node {
                    let (reserved, most) = (&reserved, fetch.most);
                    self.observe(Fact::Consumers(ConsumerFact::Reserved {
                        node,
                        partition,
                        reserved,
                        most,
                        back,
                        hwm,
                    }));
                }
                self.handed_out(partition, machine, reserved.epoch, hwm, &records);
                if self.clients.reads_plainly() {
                    let next = records.last().map(|(last, _)| last.next());
                    self.read_plainly(machine, partition, next);
                }
                let offsets: BTreeSet<Offset> = records.iter().map(|(offset, _)| *offset).collect();
                let given = |handle: &Handle| offsets.contains(&handle.offset);
                let records: Vec<Handle> = reserved.handles().filter(given).collect();
                let more = reserved.len() >= fetch.most || records.len() < reserved.len();
                Fetched::Records { records, more }
            }
            // Others have taken as much as there may be.
            Err(SlotError::Consumer(
                cursor::Refused::TooManyInFlight { .. } | cursor::Refused::TooFarAhead { .. },
            )) => Fetched::Records { records: Vec::new(), more: false },
            Err(_) => {
                if let Some(node) = self.machines[machine].node {
                    self.observe(Fact::ReadRefused(node, partition));
                }
                Fetched::Refused
            }
        };
        let payload = Payload::Fetched { request: fetch.request, outcome };
        let life = self.machines[machine].life;
        self.send(Message { from: machine, to: from, life, payload, line: 0 });
    }

    /// Tells of a reader that was in an earlier reign and would go on in this one.
    fn goes_on(&mut self, machine: usize, fetch: &Fetch, epoch: Epoch) {
        let Some(was) = fetch.was.filter(|(of, _)| *of < epoch) else { return };
        let it = &self.machines[machine];
        let (Some(node), Some(process)) = (it.node, it.process.as_ref()) else { return };
        let row = process.replica.node().state().assignment(fetch.partition);
        if let Some(row) = row.filter(|row| row.epoch == epoch) {
            let from = Lineage::of(row).clamped(was.0, was.1);
            self.observe(Fact::GoesOn { node, partition: fetch.partition, was, from });
        }
    }

    /// Somebody reads without asking for work: from an offset on, or from where consumers stand.
    fn read_plainly(&mut self, machine: usize, partition: PartitionId, from: Option<Offset>) {
        const BYTES_MAX: usize = 4 << 10;
        let it = &self.machines[machine];
        let (Some(node), Some(process)) = (it.node, it.process.as_ref()) else { return };
        let Some(slot) = process.broker.find(partition).map(|seat| seat.slot) else { return };
        let (Ok((log, epoch)), Ok(position)) = (slot.readable(), slot.position()) else { return };
        let bounds = log.bounds();
        let from = from.or(position.committed).unwrap_or_default().max(bounds.start);
        let Ok(records) = log.read(from, BYTES_MAX) else { return };
        for run in records.chunk_by(|(one, _), (next, _)| one.next() == *next) {
            let ids: Vec<u64> = run.iter().map(|(_, record)| id_of(record)).collect();
            let (first, hwm, how) = (run[0].0, bounds.hwm, Read::Plain);
            self.observe(Fact::Consumers(ConsumerFact::Delivered {
                node,
                partition,
                epoch,
                first,
                ids: &ids,
                hwm,
                how,
            }));
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
            self.observe(Fact::Consumers(ConsumerFact::Delivered {
                node,
                partition,
                epoch,
                first,
                ids: &ids,
                hwm,
                how,
            }));
        }
    }

    /// A consumer says what becomes of a record.
    pub(super) fn acked_at(&mut self, machine: usize, from: usize, ack: Ack) {
        let Ack { request, partition, settle } = ack;
        let now = self.now;
        let it = &mut self.machines[machine];
        let process = it.process.as_mut().expect("it runs");
        process.ground.set_now(it.clock.local(now));
        let slot = process.broker.find(partition).map(|seat| seat.slot);
        let mut kept = None;
        let (taken, acked) = match (&slot, settle) {
            (None, _) => (false, None),
            (Some(slot), Settle::Ack(handle)) => {
                let answer = slot.ack(handle).ok();
                let new = answer == Some(Answer::Acked);
                (answer.is_some(), Some((handle.epoch, handle.offset)).filter(|_| new))
            }
            (Some(slot), Settle::Offset(epoch, offset)) => {
                let answer = slot.acknowledge(epoch, offset).ok();
                let new = answer == Some(Answer::Acked);
                (answer.is_some(), Some((epoch, offset)).filter(|_| new))
            }
            (Some(slot), Settle::Nack(handle, delay)) => {
                kept = slot.nack(handle, delay).ok().map(|()| (handle.offset, delay));
                (kept.is_some(), None)
            }
            (Some(slot), Settle::Extend(handle, by)) => {
                kept = slot.extend(handle, by).ok().map(|by| (handle.offset, by));
                (kept.is_some(), None)
            }
        };
        let local = it.clock.local(now);
        if let (Some((offset, by)), Some(node)) = (kept, it.node) {
            let until = local.after(by);
            self.observe(Fact::Consumers(ConsumerFact::Kept { node, partition, offset, until }));
        }
        if let (Some(acked), Some(slot)) = (acked, &slot) {
            self.consumer_acked(machine, slot, partition, acked);
        }
        let of = Payload::Ack(ack).name();
        let payload = Payload::Acked { request, of, taken };
        let life = self.machines[machine].life;
        self.send(Message { from: machine, to: from, life, payload, line: 0 });
    }

    fn consumer_acked(
        &mut self,
        machine: usize,
        slot: &Slot,
        partition: PartitionId,
        (fetched, offset): (Epoch, Offset),
    ) {
        self.all_acked(machine, slot, partition, fetched, offset..offset.next());
    }

    /// Tells of records that were acknowledged at once.
    pub(super) fn all_acked(
        &mut self,
        machine: usize,
        slot: &Slot,
        partition: PartitionId,
        fetched: Epoch,
        offsets: Range<Offset>,
    ) {
        let Some(node) = self.machines[machine].node else { return };
        let (Some(epoch), Ok(position)) = (reign_of(slot), slot.position()) else { return };
        for offset in (offsets.start.0..offsets.end.0).map(Offset) {
            self.observe(Fact::Consumers(ConsumerFact::ConsumerAck {
                node,
                partition,
                epoch,
                fetched,
                offset,
            }));
        }
        // Only if it has moved past them can it have moved at all.
        if position.committed >= Some(offsets.end) {
            self.stand_at(machine, partition);
        }
    }

    /// Consumers go on at a log that was opened.
    pub(super) fn resumed(&mut self, machine: usize, partition: PartitionId) {
        self.stand_at(machine, partition);
        self.news(partition);
    }

    /// Tells where the consumers of a partition stand at a node.
    pub(super) fn stand_at(&mut self, machine: usize, partition: PartitionId) {
        let it = &self.machines[machine];
        let (Some(node), Some(process)) = (it.node, it.process.as_ref()) else { return };
        let Some(slot) = process.broker.find(partition).map(|seat| seat.slot) else { return };
        let (Some(epoch), Ok(position), Ok(log)) = (reign_of(&slot), slot.position(), slot.log())
        else {
            return;
        };
        let (position, hwm) = (&position, log.bounds().hwm);
        self.observe(Fact::Consumers(ConsumerFact::Position {
            node,
            partition,
            epoch,
            position,
            hwm,
        }));
    }
}

/// Returns the reign in which a slot stands.
fn reign_of(slot: &Slot) -> Option<Epoch> {
    match slot.standing().0 {
        Standing::Serving { epoch, .. } | Standing::Reading { epoch } => Some(epoch),
        Standing::Closed => None,
    }
}

/// Reads reserved records, no more than fit into an answer but at least one. What there was no room
/// for is given back; what cannot be read stays out of the way of what lies behind it.
fn read_reserved(
    slot: &Slot,
    log: &dyn PartitionLog,
    reserved: &Reserved,
    bytes_max: usize,
) -> (Vec<(Offset, u64)>, Option<Offset>) {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for run in &reserved.runs {
        let mut at = run.first;
        while at < run.end {
            if bytes >= bytes_max && !found.is_empty() {
                slot.give_back(reserved, at);
                return (found, Some(at));
            }
            match log.read(at, bytes_max.saturating_sub(bytes).max(1)) {
                Ok(records) if records.is_empty() => {
                    slot.give_back(reserved, at);
                    return (found, Some(at));
                }
                Ok(records) => {
                    // Behind a hole that damage has left.
                    at = at.max(records.first().map_or(at, |(first, _)| *first));
                    for (offset, record) in records.iter().take_while(|(at, _)| *at < run.end) {
                        bytes += record.encoded_bytes();
                        found.push((*offset, id_of(record)));
                        at = offset.next();
                    }
                }
                Err(LogError::Damaged { resume, .. }) => at = resume.max(at.next()),
                // Retention was faster.
                Err(LogError::BelowStart { start, .. }) => at = start.max(at.next()),
                Err(_) => {
                    slot.give_back(reserved, at);
                    return (found, Some(at));
                }
            }
        }
    }
    (found, None)
}
