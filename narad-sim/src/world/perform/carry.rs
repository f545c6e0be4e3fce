//! What operations do.

use std::time::Duration;

use narad_core::effects::OpId;
use narad_core::host;
use narad_core::ids::PartitionId;
use narad_core::node::{Gating, GatingOutcome, Operation, Outcome, Shipping, Staging};
use narad_runtime::copy::{CancelFlag, CopyRequest};
use narad_runtime::store::identity;

use crate::oracle::Fact;
use crate::world::copy::Nobody;
use crate::world::deliver::Shipment;
use crate::world::{Local, World};

impl World {
    /// Does what an operation asks for; nothing comes back of one that ends later.
    pub(super) fn carry_operation_out(
        &mut self,
        machine: usize,
        op: OpId,
        operation: Operation,
    ) -> Option<Outcome> {
        let now = self.now;
        let it = &mut self.machines[machine];
        let now_ms = it.clock.wall_ms(now);
        it.disk.set_now(now_ms);
        let process = it.process.as_mut().expect("it runs");
        process.ground.set_now(it.clock.local(now));
        Some(match operation {
            Operation::Call { to, request } => {
                self.call(machine, op, to, request);
                return None;
            }
            Operation::Append(entry) => {
                self.append_entry(machine, op, &entry);
                return None;
            }
            // The replica carries these to the log itself.
            Operation::Barrier => Outcome::Barrier(None),
            Operation::Survey => Outcome::Survey(None),
            Operation::Configure(_) => Outcome::Configure(false),
            Operation::Transfer { .. } => Outcome::Transfer,
            Operation::NextIncarnation => {
                let next = identity::next_incarnation(&it.disk).ok();
                if let (Some(life), Some(node)) = (next, it.node) {
                    process.incarnation = life;
                    self.observe(Fact::Started { node, life });
                }
                Outcome::NextIncarnation(next)
            }
            Operation::Inspect(partition) => Outcome::Inspect(process.storage.inspect(partition)),
            Operation::Host(partition, host::Operation::Close)
                if process.appends.get(&partition).is_some_and(|append| append.batch.is_some()) =>
            {
                // Closing waits for the append under way.
                let soon = self.now.after(Duration::from_micros(50));
                self.local(machine, soon, Local::Perform(op));
                return None;
            }
            Operation::Host(partition, work) => {
                let crash = process.running.get(&op).and_then(|running| running.crash);
                self.about_to_host(machine, partition, work);
                self.arm(machine, crash);
                let process = self.machines[machine].process.as_ref().expect("it runs");
                let outcome = process.storage.host(partition, work);
                if self.crashed_within(machine, crash) {
                    return None;
                }
                self.hosted(machine, partition, work, &outcome);
                Outcome::Host(outcome)
            }
            Operation::Stage(partition, Staging::Copy { source, base, position, bytes }) => {
                let range = CopyRequest { partition, base, position, bytes };
                return self.begin_copy(machine, op, source, range);
            }
            Operation::Stage(partition, work) => {
                return self.stage(machine, op, partition, work, now_ms);
            }
            Operation::Gate(partition, gating) => {
                let slot = process.broker.seat(partition).slot;
                Outcome::Gate(match gating {
                    Gating::Stand(standing) => {
                        slot.stand(standing);
                        self.stood(machine, partition, standing);
                        GatingOutcome::Stand
                    }
                    Gating::Thaw(token) => {
                        slot.thaw(token);
                        self.thawed(machine, partition, token);
                        GatingOutcome::Thaw
                    }
                    Gating::List { incarnation, check } => {
                        GatingOutcome::List(slot.list(incarnation, &check).ok())
                    }
                    Gating::Resume(lineage) => {
                        slot.resume(lineage);
                        self.resumed(machine, partition);
                        GatingOutcome::Resume
                    }
                    Gating::HandOver { forced } => GatingOutcome::HandOver(slot.hand_over(forced)),
                    Gating::Take(acks) => {
                        let taken = slot.take_acks(&acks);
                        self.stand_at(machine, partition);
                        GatingOutcome::Take(taken)
                    }
                    Gating::Freeze { epoch, life } => {
                        slot.begin_freeze(op, epoch, life);
                        process.freezing.insert(op, partition);
                        self.answer_freezes(machine, partition);
                        return None;
                    }
                })
            }
            Operation::Watermarks(partitions) => {
                Outcome::Watermarks(process.storage.watermarks(&partitions))
            }
            Operation::Ship(Shipping::Checkpoint(spent)) => {
                return self.checkpoint_ingress(machine, op, &spent);
            }
            Operation::Ship(Shipping::Carry(seqs)) => return self.carry(machine, op, &seqs),
            Operation::Ship(Shipping::Salvage { partition, what, from }) => {
                return self.salvage(machine, op, partition, (what, from));
            }
            Operation::Ship(Shipping::Send { to, partition, epoch, batch, records: seqs }) => {
                let shipment = Shipment { to, partition, epoch, batch, seqs };
                return self.ship(machine, op, shipment);
            }
            Operation::CloseAccept => return self.close_accept(machine, op),
            Operation::OpenAccept => {
                self.open_accept(machine);
                Outcome::OpenAccept
            }
        })
    }

    /// Hands out the answers of freezes that have taken hold, or will not.
    pub(in crate::world) fn answer_freezes(&mut self, machine: usize, partition: PartitionId) {
        let Some(process) = self.machines[machine].process.as_mut() else { return };
        if process.freezing.is_empty() {
            return;
        }
        let Some(seat) = process.broker.find(partition) else { return };
        let waiting: Vec<OpId> = process
            .freezing
            .iter()
            .filter(|(_, of)| **of == partition)
            .map(|(op, _)| *op)
            .collect();
        for op in waiting {
            let Some(answer) = seat.slot.take_answer(op) else { continue };
            if let Some(process) = self.machines[machine].process.as_mut() {
                process.freezing.remove(&op);
            }
            self.froze(machine, partition, &answer);
            let outcome = Outcome::Gate(GatingOutcome::Freeze(answer));
            self.performed(machine, op, outcome);
        }
    }

    /// Does work on the directories of a partition that are not live.
    fn stage(
        &mut self,
        machine: usize,
        op: OpId,
        partition: PartitionId,
        work: Staging,
        now_ms: i64,
    ) -> Option<Outcome> {
        self.about_to_stage(machine, partition, &work);
        let process = self.machines[machine].process.as_ref()?;
        let crash = process.running.get(&op).and_then(|running| running.crash);
        let installed = match &work {
            Staging::Install { attempt, .. } => Some(*attempt),
            _ => None,
        };
        self.arm(machine, crash);
        let process = self.machines[machine].process.as_ref()?;
        let (nobody, stop) = (Nobody, CancelFlag::default());
        let outcome = process.storage.stage(partition, work, now_ms, &nobody, &stop);
        if self.crashed_within(machine, crash) {
            return None;
        }
        self.staged(machine, partition, installed, &outcome);
        Some(Outcome::Stage(outcome))
    }
}
