//! What a node asks of its ingress log beside accepting: closing, checkpoints, carrying, salvage.

use std::sync::Arc;

use narad_core::dispatch::{Checkpoint, LogFault, Route, Seqs};
use narad_core::effects::OpId;
use narad_core::ids::{Offset, PartitionId, Seq};
use narad_core::mover::What;
use narad_core::node::{Outcome, ShippingOutcome};
use narad_runtime::ingress::{IngressError, Load, Parcel};
use narad_runtime::salvage::salvage;

use crate::oracle::{Fact, IngressFact};
use crate::world::World;
use crate::world::records::id_of;

impl World {
    /// Accepts nothing more, durably, and says so once what was let in is told.
    pub(in crate::world) fn close_accept(&mut self, machine: usize, op: OpId) -> Option<Outcome> {
        let process = self.machines[machine].process.as_ref()?;
        process.accepting.door.close();
        let crash = process.running.get(&op).and_then(|running| running.crash);
        self.arm(machine, crash);
        let log = Arc::clone(&self.machines[machine].process.as_ref()?.accepting.log);
        let noted = log.shut();
        if self.crashed_within(machine, crash) {
            return None;
        }
        if noted.is_err() {
            return Some(Outcome::CloseAccept(false));
        }
        let process = self.machines[machine].process.as_mut()?;
        if process.accepting.is_quiet() {
            return Some(Outcome::CloseAccept(true));
        }
        process.accepting.closing = Some(op);
        None
    }

    pub(super) fn ingress_is_closed(&mut self, machine: usize) {
        let Some(process) = self.machines[machine].process.as_mut() else { return };
        if process.accepting.is_quiet()
            && let Some(op) = process.accepting.closing.take()
        {
            self.performed(machine, op, Outcome::CloseAccept(true));
        }
    }

    pub(in crate::world) fn open_accept(&mut self, machine: usize) {
        if let Some(process) = self.machines[machine].process.as_mut() {
            // Should the note stay, a later life accepts once it is registered.
            drop(process.accepting.log.unshut());
            process.accepting.door.open();
        }
    }

    /// Gives up what was brought to its owners.
    pub(in crate::world) fn checkpoint_ingress(
        &mut self,
        machine: usize,
        op: OpId,
        spent: &Checkpoint,
    ) -> Option<Outcome> {
        if let Some(node) = self.machines[machine].node {
            self.observe(Fact::Ingress(IngressFact::Checkpointing { node, spent }));
        }
        let process = self.machines[machine].process.as_ref()?;
        let crash = process.running.get(&op).and_then(|running| running.crash);
        self.arm(machine, crash);
        let log = Arc::clone(&self.machines[machine].process.as_ref()?.accepting.log);
        let done = log.checkpoint(spent.clone());
        if self.crashed_within(machine, crash) {
            return None;
        }
        let done = done.map(|_| ()).map_err(|_| LogFault);
        Some(Outcome::Ship(ShippingOutcome::Checkpoint(done)))
    }

    /// Appends records that are here already once more.
    pub(in crate::world) fn carry(
        &mut self,
        machine: usize,
        op: OpId,
        seqs: &Seqs,
    ) -> Option<Outcome> {
        let process = self.machines[machine].process.as_ref()?;
        let crash = process.running.get(&op).and_then(|running| running.crash);
        self.arm(machine, crash);
        let log = Arc::clone(&self.machines[machine].process.as_ref()?.accepting.log);
        let carried = log.carry(seqs.iter());
        if self.crashed_within(machine, crash) {
            return None;
        }
        if let (Ok(carried), Some(node)) = (&carried, self.machines[machine].node) {
            let (seqs, first): (Vec<Seq>, _) = (seqs.iter().collect(), carried.first);
            self.observe(Fact::Ingress(IngressFact::Carried { node, seqs: &seqs, first }));
            self.recorder.count_many("carried", seqs.len() as u64);
        }
        let is_poisoned = carried.as_ref().err().is_some_and(IngressError::needs_reopening);
        let outcome = match carried {
            Ok(carried) => ShippingOutcome::Carry(Ok(carried.first)),
            Err(IngressError::Damaged { seq }) => {
                ShippingOutcome::Damaged([seq].into_iter().collect())
            }
            Err(_) => ShippingOutcome::Carry(Err(LogFault)),
        };
        self.performed(machine, op, Outcome::Ship(outcome));
        // Whoever waited for the next write was written with it.
        if self.settle_ingress(machine) {
            self.ingress_is_closed(machine);
        }
        if is_poisoned {
            self.ingress_is_poisoned(machine);
        }
        None
    }

    /// Accepts once more what a flip has left in a directory: all of it is durable and told, or it
    /// is tried again.
    pub(in crate::world) fn salvage(
        &mut self,
        machine: usize,
        op: OpId,
        partition: PartitionId,
        (what, from): (What, Option<Offset>),
    ) -> Option<Outcome> {
        let now_ms = self.machines[machine].clock.wall_ms(self.now);
        let process = self.machines[machine].process.as_ref()?;
        let crash = process.running.get(&op).and_then(|running| running.crash);
        self.arm(machine, crash);
        let process = self.machines[machine].process.as_ref()?;
        let (log, door) = (Arc::clone(&process.accepting.log), Arc::clone(&process.accepting.door));
        let store = Arc::clone(&process.store);
        let (mut accepted, mut is_poisoned) = (Vec::new(), false);
        let mut accept = |parcels: Vec<Parcel>| {
            let load = Load::of(&parcels);
            let Ok(_pass) = door.enter_again(load) else { return false };
            let ids: Vec<u64> = parcels.iter().map(|parcel| id_of(&parcel.record)).collect();
            let appended = log.append(parcels);
            is_poisoned |= appended.as_ref().err().is_some_and(IngressError::needs_reopening);
            let is_durable = appended.is_ok();
            accepted.extend(appended.map(|appended| (appended.first, ids, load.bytes)));
            is_durable
        };
        let salvaged = salvage(&*store, partition, what, from, now_ms, &mut accept);
        if self.crashed_within(machine, crash) {
            return None;
        }
        if let Some(node) = self.machines[machine].node {
            let (topic, route) = (partition.topic, Route::Partition(partition.index));
            for (first, ids, bytes) in &accepted {
                let (first, bytes) = (*first, *bytes);
                self.observe(Fact::Ingress(IngressFact::Ingested {
                    node,
                    topic,
                    route,
                    first,
                    ids,
                    bytes,
                }));
            }
        }
        self.performed(machine, op, Outcome::Ship(ShippingOutcome::Salvage(salvaged)));
        if self.settle_ingress(machine) {
            self.ingress_is_closed(machine);
        }
        if is_poisoned {
            self.ingress_is_poisoned(machine);
        }
        None
    }
}
