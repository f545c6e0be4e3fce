//! How operations are carried out.

use std::collections::VecDeque;

use narad_core::cursor::Acks;
use narad_core::effects::{Effects, OpId};
use narad_core::freeze::gate::{Command as Ask, Signal, Standing};
use narad_core::freeze::handoff::FreezeFault;
use narad_core::host;
use narad_core::ids::{Epoch, Incarnation, NodeId, Offset};
use narad_core::mover::{Fault, What};
use narad_core::node::{
    Event, Gating, GatingOutcome, Operation, Outcome, Salvaged, Shipping, ShippingOutcome, Staging,
    StagingOutcome,
};
use narad_core::partition::Capture;

use super::Breakage;
use super::disk::{Directory, RECORD};
use super::world::{Running, World};

impl World {
    /// Carries an operation out; nothing if its answer comes later.
    pub(super) fn perform(
        &mut self,
        id: NodeId,
        op: OpId,
        operation: Operation,
        events: &mut VecDeque<Event>,
    ) -> Option<Outcome> {
        Some(match operation {
            Operation::NextIncarnation => {
                let machine = self.edit(id);
                machine.incarnation += 1;
                Outcome::NextIncarnation(Some(Incarnation(machine.incarnation)))
            }
            Operation::Inspect(_) => Outcome::Inspect(Some(self.machine(id).area.inspect())),
            Operation::Host(_, work) => {
                if work == host::Operation::Close
                    && self.process(id).is_some_and(|process| process.append.is_some())
                {
                    // Closing waits for the append under way.
                    let operation = Operation::Host(self.rules.partition, work);
                    self.edit_process(id).running.insert(op, Running::Pending(Box::new(operation)));
                    return None;
                }
                Outcome::Host(self.host(id, work))
            }
            Operation::Stage(_, work) => Outcome::Stage(self.stage(id, work)),
            Operation::Gate(_, work) => Outcome::Gate(self.gate(id, op, work, events)?),
            Operation::Watermarks(partitions) => {
                let seen = self.epoch_at_gate(id).zip(self.live(id).map(|log| log.hwm));
                let seen = seen.map(|(epoch, hwm)| (partitions[0], epoch, Offset(hwm)));
                Outcome::Watermarks(seen.into_iter().collect())
            }
            Operation::Ship(Shipping::Salvage { what, from, .. }) => {
                Outcome::Ship(ShippingOutcome::Salvage(self.salvage(id, what, from)))
            }
            Operation::Ship(
                Shipping::Send { .. } | Shipping::Checkpoint(_) | Shipping::Carry(_),
            ) => unreachable!("nothing is brought to an owner in this world"),
            Operation::CloseAccept => Outcome::CloseAccept(true),
            Operation::OpenAccept => Outcome::OpenAccept,
            Operation::Append(_) => Outcome::Append(false),
            Operation::Survey => Outcome::Survey(None),
            Operation::Configure(_) => Outcome::Configure(false),
            Operation::Transfer { .. } => Outcome::Transfer,
            Operation::Barrier | Operation::Call { .. } => {
                unreachable!("these are begun, not performed")
            }
        })
    }

    /// Accepts once more what a flip has left in a directory: from here on it is in the node's
    /// ingress log, which no crash takes.
    fn salvage(&mut self, id: NodeId, what: What, from: Option<Offset>) -> Option<Salvaged> {
        let area = &self.machine(id).area;
        let log = match what {
            What::Installed(data) => area.installed.get(&data)?,
            What::Staging => area.staging.as_ref()?,
        };
        let from = from.unwrap_or(Offset(log.start));
        let end = Offset(log.end()).max(from);
        let contents: Vec<u8> = log.contents_from(from.0).to_vec();
        let salvaged = Salvaged { from, end, bytes: contents.len() as u64 * RECORD };
        self.ghost.edit().salvaged.extend(contents);
        Some(salvaged)
    }

    fn epoch_at_gate(&self, id: NodeId) -> Option<Epoch> {
        match self.process(id)?.gate.standing() {
            Standing::Closed => None,
            Standing::Reading { epoch } | Standing::Serving { epoch, .. } => Some(epoch),
        }
    }

    fn host(&mut self, id: NodeId, work: host::Operation) -> host::Outcome {
        match work {
            host::Operation::Open { data, birth } => {
                let rash = self.process(id).is_some_and(|process| process.open.is_some());
                let installed = &mut self.edit(id).area.installed;
                if let (false, Some(start)) = (installed.contains_key(&data), birth) {
                    installed.insert(data, Directory::born(start.0));
                }
                let Some(log) = installed.get_mut(&data) else {
                    return host::Outcome::Open(Err(host::Fault::Missing));
                };
                if !rash {
                    log.open();
                }
                let opened = host::Opened { end: Offset(log.end()), served: log.served };
                self.edit_process(id).open = Some(data);
                if rash && !self.is_breaking(Breakage::ServeUnregistered) {
                    self.violate("panic", format!("{id:?} opens a log twice"));
                }
                host::Outcome::Open(Ok(opened))
            }
            host::Operation::Expose { epoch } => {
                self.check_append(id, "exposes its log");
                self.check_expose(id, epoch);
                if let Some(log) = self.edit_live(id) {
                    log.expose(epoch);
                    let end = log.end();
                    self.may_show(epoch, end);
                }
                host::Outcome::Expose(Ok(()))
            }
            host::Operation::Close => {
                self.edit_process(id).open = None;
                host::Outcome::Close
            }
        }
    }

    fn gate(
        &mut self,
        id: NodeId,
        op: OpId,
        work: Gating,
        events: &mut VecDeque<Event>,
    ) -> Option<GatingOutcome> {
        let (outcome, ask) = match work {
            Gating::Stand(standing) => (Some(GatingOutcome::Stand), Ask::Stand(standing)),
            Gating::Thaw(token) => (Some(GatingOutcome::Thaw), Ask::Thaw { token }),
            Gating::Freeze { epoch, life } => {
                self.edit_process(id).running.insert(op, Running::Freezing);
                (None, Ask::Freeze { ticket: op, epoch, life })
            }
            // Nobody consumes.
            Gating::Resume(_) => return Some(GatingOutcome::Resume),
            Gating::HandOver { .. } => return Some(GatingOutcome::HandOver(Acks::default())),
            Gating::Take(_) => return Some(GatingOutcome::Take(None)),
            Gating::List { incarnation, check } => {
                let log = self.epoch_at_gate(id).zip(self.live(id));
                let listing = log.map(|(epoch, log)| log.list(incarnation, epoch, &check));
                return Some(GatingOutcome::List(listing));
            }
        };
        let (now, mut signals) = (self.now, Effects::default());
        let process = self.edit_process(id);
        let authority = process.authority;
        process.gate.command(now, authority, ask, &mut signals);
        self.signalled(id, signals, events);
        outcome
    }

    /// Answers freezes, capturing while nothing else happens.
    pub(super) fn signalled(
        &mut self,
        id: NodeId,
        mut signals: Effects<Signal<OpId>>,
        events: &mut VecDeque<Event>,
    ) {
        for signal in signals.drain() {
            let (ticket, result) = match signal {
                Signal::NotFrozen { ticket, why } => (ticket, Err(FreezeFault::NotFrozen(why))),
                Signal::Frozen { ticket, token } => {
                    let capture = self.live(id).map(|log| Capture {
                        token,
                        listing: log.list(token.no.incarnation, token.epoch, &[]),
                        position: log.position().clone(),
                        digest: log.digest(),
                    });
                    (ticket, capture.ok_or(FreezeFault::Unreadable { token }))
                }
            };
            self.edit_process(id).running.remove(&ticket);
            let outcome = Outcome::Gate(GatingOutcome::Freeze(result));
            events.push_back(Event::Done(ticket, outcome));
        }
    }

    fn stage(&mut self, id: NodeId, work: Staging) -> StagingOutcome {
        match work {
            Staging::Copy { source, base, position, bytes } => {
                let live = self.live(source).filter(|_| self.talks(id, source));
                let read = live.ok_or(Fault::Unreachable);
                let read =
                    read.and_then(|log| log.read(base, position, bytes).ok_or(Fault::ExtentGone));
                let area = &mut self.edit(id).area;
                StagingOutcome::Copy(read.map(|read| area.write(base, position, &read)))
            }
            Staging::Checkpoint(manifest) => {
                self.edit(id).area.checkpoint(manifest);
                StagingOutcome::Checkpoint(Ok(()))
            }
            Staging::Trim(keep) => {
                self.edit(id).area.trim(&keep);
                StagingOutcome::Trim(Ok(()))
            }
            Staging::Probe { .. } => StagingOutcome::Probe(Ok(())),
            Staging::Verify(boundary) => {
                StagingOutcome::Verify(Ok(self.machine(id).area.verify(&boundary)))
            }
            Staging::Install { attempt, sidecar, manifest } => {
                self.edit(id).area.install(attempt, sidecar, manifest);
                StagingOutcome::Install(Ok(()))
            }
            Staging::Restage(attempt) => {
                self.check_restage(id, attempt);
                self.edit(id).area.restage(attempt);
                StagingOutcome::Restage(Ok(()))
            }
            Staging::SetAside(what) => {
                self.check_set_aside(id, what);
                let area = &mut self.edit(id).area;
                match what {
                    What::Staging => area.staging = None,
                    What::Installed(attempt) => {
                        area.installed.remove(&attempt);
                    }
                }
                StagingOutcome::SetAside(Ok(()))
            }
        }
    }
}
