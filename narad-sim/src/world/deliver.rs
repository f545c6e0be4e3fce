//! Accepted records on their way to the owner of their partition, and what the owner makes of them.
//!
//! A batch is a message like any other: it may be lost, late, or come twice. What a node is told
//! when nobody listens there is that nothing was sent, but only if no copy of the batch can have
//! been taken: where there is another one on its way, nobody knows.

use narad_core::dispatch::{BatchNo, Receipt, SendFault, Seqs, send_limit};
use narad_core::effects::OpId;
use narad_core::ids::{Epoch, NodeId, Offset, PartitionId, Seq};
use narad_core::node::{Outcome, ShippingOutcome};
use narad_runtime::log::Record;
use std::sync::Arc;

use super::World;
use super::machine::Incoming;
use super::message::{Message, Payload};
use crate::oracle::{Fact, IngressFact};

/// Records for the owner of a partition.
#[derive(Clone, Debug)]
pub(crate) struct Deliver {
    pub(crate) op: OpId,
    pub(crate) partition: PartitionId,
    pub(crate) epoch: Epoch,
    pub(crate) batch: BatchNo,
    pub(crate) records: Vec<(Seq, Record)>,
    /// There is no other copy of it.
    pub(crate) is_only: bool,
}

/// What is asked of a node that brings records to their owner.
pub(super) struct Shipment {
    pub(super) to: NodeId,
    pub(super) partition: PartitionId,
    pub(super) epoch: Epoch,
    pub(super) batch: BatchNo,
    pub(super) seqs: Seqs,
}

pub(super) const fn sent(result: Result<(), SendFault>) -> Outcome {
    Outcome::Ship(ShippingOutcome::Send(result))
}

impl World {
    /// Reads records back and sends them.
    pub(super) fn ship(&mut self, machine: usize, op: OpId, shipment: Shipment) -> Option<Outcome> {
        let Shipment { to, partition, epoch, batch, seqs } = shipment;
        let Some(to) = self.machine_of(to) else {
            return Some(sent(Err(SendFault::Unreachable)));
        };
        self.chance_of_error(machine);
        let process = self.machines[machine].process.as_ref()?;
        let log = Arc::clone(&process.accepting.log);
        let Ok(read) = log.read(seqs.iter(), usize::MAX) else {
            return Some(sent(Err(SendFault::Unreadable)));
        };
        if !read.lost.is_empty() {
            let lost = read.lost.into_iter().collect();
            return Some(Outcome::Ship(ShippingOutcome::Damaged(lost)));
        }
        let records: Vec<(Seq, Record)> =
            read.parcels.into_iter().map(|(seq, parcel)| (seq, parcel.record)).collect();
        let bytes: usize = records.iter().map(|(_, record)| record.encoded_bytes()).sum();
        self.wait_for_shipment(machine, op, bytes);
        let running = self.machines[machine].process.as_ref()?.running.get(&op);
        let is_only = running.is_some_and(|running| !running.is_copied);
        let deliver = Deliver { op, partition, epoch, batch, records, is_only };
        let life = self.machines[machine].life;
        let payload = Payload::Deliver(Box::new(deliver));
        self.send(Message { from: machine, to, life, payload, line: 0 });
        None
    }

    /// Waits for the answer to a batch.
    fn wait_for_shipment(&mut self, machine: usize, op: OpId, bytes: usize) {
        let limit = send_limit(self.setup.config.request_timeout, bytes as u64);
        let patience = self.in_local_time(machine, limit);
        let process = self.machines[machine].process.as_mut();
        if let Some(running) = process.and_then(|process| process.running.get_mut(&op)) {
            running.patience = patience;
        }
    }

    /// A batch has reached the node that its sender takes for the owner.
    pub(super) fn delivered_at(
        &mut self,
        machine: usize,
        from: usize,
        life: u64,
        deliver: Box<Deliver>,
    ) {
        let process = self.machines[machine].process.as_mut().expect("it runs");
        let seat = process.broker.find(deliver.partition);
        let receipt =
            seat.map_or(Err(SendFault::NotServing), |seat| seat.slot.begin_delivery(deliver.batch));
        match receipt {
            Ok(Receipt::Append) => {
                self.take_in(
                    machine,
                    deliver.partition,
                    Incoming::Delivered { from, life, deliver },
                );
            }
            Ok(Receipt::Taken) => self.answer_delivery(machine, from, life, deliver.op, Ok(())),
            Err(fault) => self.answer_delivery(machine, from, life, deliver.op, Err(fault)),
        }
    }

    /// An append that a batch was part of has ended: `first` is where its own records begin.
    pub(super) fn delivery_ended(
        &mut self,
        machine: usize,
        (from, life): (usize, u64),
        deliver: &Deliver,
        result: Result<(Epoch, Offset), SendFault>,
    ) {
        let Deliver { op, partition, batch, .. } = *deliver;
        let Some(process) = self.machines[machine].process.as_mut() else { return };
        process.broker.seat(partition).slot.end_delivery(batch, result.is_ok());
        if let (Ok((epoch, _)), Some(node)) = (result, self.machines[machine].node) {
            let seqs: Vec<Seq> = deliver.records.iter().map(|(seq, _)| *seq).collect();
            self.observe(Fact::Ingress(IngressFact::Taken {
                node,
                partition,
                epoch,
                batch,
                seqs: &seqs,
            }));
        }
        self.answer_delivery(machine, from, life, op, result.map(|_| ()));
    }

    fn answer_delivery(
        &mut self,
        machine: usize,
        to: usize,
        to_life: u64,
        op: OpId,
        result: Result<(), SendFault>,
    ) {
        let life = self.machines[machine].life;
        let payload = Payload::Delivered { to_life, op, result };
        self.send(Message { from: machine, to, life, payload, line: 0 });
    }

    /// The owner's answer has come back, or nobody was there.
    pub(super) fn shipped(&mut self, machine: usize, op: OpId, result: Result<(), SendFault>) {
        self.done(machine, op, sent(result));
    }

    /// Nobody listens where a batch was sent.
    pub(super) fn not_delivered(&mut self, machine: usize, op: OpId, is_only: bool) {
        if is_only {
            self.shipped(machine, op, Err(SendFault::Unreachable));
        }
        // Otherwise it is given up in time.
    }
}
