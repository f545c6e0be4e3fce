//! Operations: how each is begun, and what performing it does.

use narad_core::cursor::{Acks, Taken};
use narad_core::effects::{Effects, OpId};
use narad_core::freeze::gate::{Command as GateCommand, Gate, Signal, Standing};
use narad_core::freeze::handoff::FreezeFault;
use narad_core::host;
use narad_core::ids::*;
use narad_core::mover::{Fault, What};
use narad_core::node::{
    Event, Gating, GatingOutcome, Operation, Outcome, Salvaged, Shipping, ShippingOutcome, Staging,
    StagingOutcome,
};
use narad_core::partition::Capture;

use super::disk::{Directory, RECORD};
use super::{Due, World, ms};

impl World {
    /// Starts an operation; it is performed later.
    pub(super) fn begin(&mut self, id: NodeId, life: u64, op: OpId, operation: Operation) {
        match operation {
            Operation::Barrier | Operation::Survey => {
                let survey = operation == Operation::Survey;
                let process = self.process(id, life).expect("it runs");
                process.barriers.insert(op, (None, survey));
                let delay = self.delay();
                self.schedule(delay, Due::Barrier(id, life, op));
                self.schedule(ms(900), Due::GiveUp(id, life, op));
            }
            Operation::Call { to, request } => {
                self.send(id, to, Due::Request { from: id, life, op, to, request });
                self.schedule(ms(1_000), Due::GiveUp(id, life, op));
            }
            operation => {
                let delay = self.delay();
                self.schedule(delay, Due::Perform(id, life, op, operation));
            }
        }
    }

    pub(super) fn cancel(&mut self, id: NodeId, life: u64, op: OpId) {
        let (now, Some(process)) = (self.now, self.process(id, life)) else { return };
        let authority = process.authority;
        let mut signals = Effects::default();
        for gate in process.gates.values_mut() {
            gate.command(now, authority, GateCommand::GiveUp { ticket: op }, &mut signals);
        }
        self.signalled(id, life, None, signals);
    }

    /// Does what was asked for; the answer is another event.
    pub(super) fn perform(&mut self, id: NodeId, life: u64, op: OpId, operation: Operation) {
        if self.process(id, life).is_none() {
            return;
        }
        if let Operation::Host(partition, host::Operation::Close) = &operation
            && self.work.is_appending(id, *partition)
        {
            // Closing waits for the append under way.
            return self.schedule(ms(1), Due::Perform(id, life, op, operation));
        }
        let outcome = match operation {
            Operation::Append(entry) => Outcome::Append(self.append(id, entry)),
            Operation::Configure(change) => Outcome::Configure(self.configure(id, change)),
            Operation::Transfer { to } => {
                self.transfer(to);
                Outcome::Transfer
            }
            Operation::NextIncarnation => {
                let machine = self.machines.get_mut(&id).unwrap();
                machine.incarnation += 1;
                Outcome::NextIncarnation(Some(Incarnation(machine.incarnation)))
            }
            Operation::Inspect(partition) => {
                let area = self.machines[&id].disk.get(&partition);
                Outcome::Inspect(Some(area.map(super::disk::Area::inspect).unwrap_or_default()))
            }
            Operation::Host(partition, work) => Outcome::Host(self.host(id, life, partition, work)),
            Operation::Stage(partition, work) => Outcome::Stage(self.stage(id, partition, work)),
            Operation::Gate(partition, work) => match self.gate(id, life, op, partition, work) {
                Some(outcome) => Outcome::Gate(outcome),
                None => return,
            },
            Operation::Watermarks(partitions) => {
                let seen = partitions.into_iter().filter_map(|partition| {
                    let epoch = self.epoch_at_gate(id, partition)?;
                    let log = self.live(id, partition)?;
                    Some((partition, epoch, Offset(log.hwm)))
                });
                Outcome::Watermarks(seen.collect())
            }
            Operation::Ship(Shipping::Salvage { partition, what, from }) => {
                let machine = self.machines.get_mut(&id).unwrap();
                let area = &machine.disk[&partition];
                let directory = match what {
                    What::Staging => area.staging.as_ref().unwrap(),
                    What::Installed(data) => &area.installed[&data],
                };
                let committed = directory.position.committed;
                let from = from.or(committed).unwrap_or(Offset(directory.start));
                let end = Offset(directory.end()).max(from);
                let missing = directory.records().filter(|(offset, _)| *offset >= from.0);
                let salvaged = Salvaged { from, end, bytes: RECORD * (end.0 - from.0) };
                let is_full = machine.is_full;
                if !is_full {
                    machine.ingress.extend(missing.map(|(_, content)| content));
                }
                let salvaged = (!is_full).then_some(salvaged);
                Outcome::Ship(ShippingOutcome::Salvage(salvaged))
            }
            Operation::Ship(
                Shipping::Send { .. } | Shipping::Checkpoint(_) | Shipping::Carry(_),
            ) => unreachable!("nothing is accepted in this world"),
            Operation::CloseAccept => {
                let machine = self.machines.get_mut(&id).unwrap();
                machine.accepts = false;
                let empty = machine.backlog == 0;
                machine.backlog = machine.backlog.saturating_sub(1);
                Outcome::CloseAccept(empty)
            }
            Operation::OpenAccept => {
                self.machines.get_mut(&id).unwrap().accepts = true;
                Outcome::OpenAccept
            }
            Operation::Barrier | Operation::Survey | Operation::Call { .. } => {
                unreachable!("these are begun, not performed")
            }
        };
        self.answer_soon(id, life, op, outcome);
    }

    fn answer_soon(&mut self, id: NodeId, life: u64, op: OpId, outcome: Outcome) {
        let Some(process) = self.process(id, life) else { return };
        assert!(process.running.remove(&op), "an operation is answered once");
        self.schedule(ms(0), Due::Tell(id, life, Event::Done(op, outcome)));
    }

    /// Returns the log that a running node has open.
    pub(crate) fn live(&self, id: NodeId, partition: PartitionId) -> Option<&Directory> {
        let machine = self.machines.get(&id)?;
        let data = machine.process.as_ref()?.open.get(&partition)?;
        Some(&machine.disk[&partition].installed[data])
    }

    pub(crate) fn live_mut(
        &mut self,
        id: NodeId,
        partition: PartitionId,
    ) -> Option<&mut Directory> {
        let machine = self.machines.get_mut(&id)?;
        let data = machine.process.as_ref()?.open.get(&partition)?;
        machine.disk.get_mut(&partition)?.installed.get_mut(data)
    }

    fn epoch_at_gate(&self, id: NodeId, partition: PartitionId) -> Option<Epoch> {
        let process = self.machines[&id].process.as_ref()?;
        match process.gates.get(&partition)?.standing() {
            Standing::Closed => None,
            Standing::Reading { epoch } | Standing::Serving { epoch, .. } => Some(epoch),
        }
    }

    fn host(
        &mut self,
        id: NodeId,
        life: u64,
        partition: PartitionId,
        work: host::Operation,
    ) -> host::Outcome {
        match work {
            host::Operation::Open { data, birth } => {
                let machine = self.machines.get_mut(&id).unwrap();
                let area = machine.disk.entry(partition).or_default();
                if let (false, Some(start)) = (area.installed.contains_key(&data), birth) {
                    area.installed.insert(data, Directory::born(start.0));
                }
                let Some(log) = area.installed.get_mut(&data) else {
                    return host::Outcome::Open(Err(host::Fault::Missing));
                };
                log.open();
                let opened = host::Opened { end: Offset(log.end()), served: log.served };
                let process = self.process(id, life).expect("it runs");
                assert_eq!(process.open.insert(partition, data), None, "a log is opened once");
                host::Outcome::Open(Ok(opened))
            }
            host::Operation::Expose { epoch } => {
                // A control frame is an append: S9.
                let process = self.process(id, life).expect("it runs");
                let frozen = process.gates.get(&partition).is_some_and(Gate::is_frozen);
                assert!(!frozen, "S9: {id:?} {partition:?} is frozen");
                self.live_mut(id, partition).expect("it is open").expose(epoch);
                host::Outcome::Expose(Ok(()))
            }
            host::Operation::Close => {
                self.work.abandon(id, partition);
                self.process(id, life).expect("it runs").open.remove(&partition);
                host::Outcome::Close
            }
        }
    }

    fn gate(
        &mut self,
        id: NodeId,
        life: u64,
        op: OpId,
        partition: PartitionId,
        work: Gating,
    ) -> Option<GatingOutcome> {
        let now = self.now;
        let epoch = self.epoch_at_gate(id, partition);
        let process = self.process(id, life).expect("it runs");
        let authority = process.authority;
        let gate = process.gates.entry(partition).or_insert_with(|| Gate::new(partition));
        let mut signals = Effects::default();
        let outcome = match work {
            Gating::Stand(standing) => {
                gate.command(now, authority, GateCommand::Stand(standing), &mut signals);
                Some(GatingOutcome::Stand)
            }
            Gating::Thaw(token) => {
                gate.command(now, authority, GateCommand::Thaw { token }, &mut signals);
                Some(GatingOutcome::Thaw)
            }
            Gating::Freeze { epoch, life } => {
                let freeze = GateCommand::Freeze { ticket: op, epoch, life };
                gate.command(now, authority, freeze, &mut signals);
                None
            }
            Gating::List { incarnation, check } => {
                let log = epoch.zip(self.live(id, partition));
                let listing = log.map(|(epoch, log)| log.list(incarnation, epoch, &check));
                return Some(GatingOutcome::List(listing));
            }
            // Consumers take nothing here that was not captured.
            Gating::Resume(_) => Some(GatingOutcome::Resume),
            Gating::HandOver { .. } => Some(GatingOutcome::HandOver(Acks::default())),
            Gating::Take(_) => Some(GatingOutcome::Take(Some(Taken::default()))),
        };
        self.signalled(id, life, Some(partition), signals);
        outcome
    }

    /// Answers freezes, capturing while nothing else happens.
    pub(super) fn signalled(
        &mut self,
        id: NodeId,
        life: u64,
        partition: Option<PartitionId>,
        mut signals: Effects<Signal<OpId>>,
    ) {
        for signal in signals.drain().collect::<Vec<_>>() {
            let (ticket, result) = match signal {
                Signal::NotFrozen { ticket, why } => (ticket, Err(FreezeFault::NotFrozen(why))),
                Signal::Frozen { ticket, token } => {
                    let log = partition.and_then(|partition| self.live(id, partition));
                    let capture = log.map(|log| Capture {
                        token,
                        listing: log.list(token.no.incarnation, token.epoch, &[]),
                        position: log.position.clone(),
                        digest: log.digest(),
                    });
                    (ticket, capture.ok_or(FreezeFault::Unreadable { token }))
                }
            };
            let outcome = Outcome::Gate(GatingOutcome::Freeze(result));
            self.answer_soon(id, life, ticket, outcome);
        }
    }

    fn stage(&mut self, id: NodeId, partition: PartitionId, work: Staging) -> StagingOutcome {
        if let Staging::Copy { source, base, position, bytes } = work {
            let read = self.copy_from(id, source, partition, base, position, bytes);
            let area = self.machines.get_mut(&id).unwrap().disk.entry(partition).or_default();
            return StagingOutcome::Copy(read.map(|read| area.write(base, position, &read)));
        }
        if let Staging::SetAside(what) = &work {
            self.check_set_aside(id, partition, *what);
        }
        if let Staging::Restage(attempt) = &work {
            self.check_restage(id, partition, *attempt);
        }
        let area = self.machines.get_mut(&id).unwrap().disk.entry(partition).or_default();
        match work {
            Staging::Copy { .. } => unreachable!("done above"),
            Staging::Checkpoint(manifest) => {
                area.checkpoint(manifest);
                StagingOutcome::Checkpoint(Ok(()))
            }
            Staging::Trim(keep) => {
                area.trim_to(&keep);
                StagingOutcome::Trim(Ok(()))
            }
            Staging::Probe { .. } => StagingOutcome::Probe(Ok(())),
            Staging::Verify(boundary) => StagingOutcome::Verify(Ok(area.verify(&boundary))),
            Staging::Install { attempt, sidecar, manifest } => {
                area.install(attempt, sidecar, manifest);
                StagingOutcome::Install(Ok(()))
            }
            Staging::Restage(attempt) => {
                if let Some(directory) = area.installed.remove(&attempt) {
                    area.staging = Some(directory);
                }
                StagingOutcome::Restage(Ok(()))
            }
            Staging::SetAside(what) => {
                match what {
                    What::Staging => area.staging = None,
                    What::Installed(attempt) => {
                        area.installed.remove(&attempt);
                    }
                }
                let empty = area.staging.is_none() && area.installed.is_empty();
                if empty {
                    self.machines.get_mut(&id).unwrap().disk.remove(&partition);
                }
                StagingOutcome::SetAside(Ok(()))
            }
        }
    }

    fn copy_from(
        &self,
        id: NodeId,
        source: NodeId,
        partition: PartitionId,
        base: Offset,
        position: u64,
        bytes: u64,
    ) -> Result<Vec<u64>, Fault> {
        if !self.is_up(source) || !self.reaches(id, source) || !self.reaches(source, id) {
            return Err(Fault::Unreachable);
        }
        let log = self.live(source, partition).ok_or(Fault::Unreachable)?;
        log.read(base, position, bytes).ok_or(Fault::ExtentGone)
    }
}
