//! Operations of a node: how each is begun, carried out, answered, and ended early.

mod carry;
mod endings;
mod hazard;

use std::time::Duration;

use narad_core::dispatch::SendFault;
use narad_core::effects::OpId;
use narad_core::ids::{NodeId, PartitionId};
use narad_core::metastore::Entry;
use narad_core::mover::Fault;
use narad_core::node::{
    CallFault, Event, Gating, Operation, Outcome, Shipping, Staging, StagingOutcome,
};
use narad_core::peer::Request;
use narad_runtime::copy::Reach;

use self::endings::{ending_of, failed};
use super::deliver::{Shipment, sent};
use super::machine::Running;
use super::message::{Message, Payload};
use super::script::{Moment, Verdict};
use super::{Due, Local, World};
use crate::scenario::vocabulary::operation_name;
use crate::scenario::{Ending, Failure, Stage};
use crate::time::Time;
use crate::trace::Kind;

/// What an operation is about.
struct About {
    name: &'static str,
    peer: Option<NodeId>,
    partition: Option<PartitionId>,
    entry: Option<Entry>,
}

impl World {
    fn about(operation: &Operation) -> About {
        let peer = match operation {
            Operation::Call { to, .. }
            | Operation::Transfer { to }
            | Operation::Ship(Shipping::Send { to, .. }) => Some(*to),
            Operation::Stage(_, Staging::Copy { source, .. }) => Some(*source),
            _ => None,
        };
        let entry = match operation {
            Operation::Append(entry) | Operation::Call { request: Request::Propose(entry), .. } => {
                Some(entry.clone())
            }
            _ => None,
        };
        let partition = super::message::partition_of(operation);
        About { name: operation_name(operation), peer, partition, entry }
    }

    fn meet_operation(
        &mut self,
        stage: Stage,
        machine: usize,
        operation: &Operation,
        ending: Option<Ending>,
    ) -> Verdict {
        if !self.script.watches(stage) {
            return Verdict::Pass;
        }
        let About { name, peer, partition, entry } = Self::about(operation);
        let peer = peer.and_then(|peer| self.machine_of(peer));
        let moment = Moment {
            peer,
            partition,
            entry: entry.as_ref(),
            ending,
            ..Moment::new(stage, name, machine)
        };
        self.meet(moment)
    }

    /// Starts an operation.
    pub(super) fn begin(&mut self, machine: usize, op: OpId, operation: Operation) {
        // An earlier effect of the same call may have ended the process.
        let Some(process) = self.machines[machine].process.as_mut() else { return };
        let name = operation_name(&operation);
        let running = Running::new(name, operation.clone());
        let before = process.running.insert(op, running);
        assert!(before.is_none(), "an operation is started once: {name}");
        let partition = super::message::partition_of(&operation);
        self.recorder.line(self.now, Kind::Effect, name, Some(machine), None, partition);
        self.proposed(machine, &operation);
        self.beats(machine, op, &operation);
        match self.meet_operation(Stage::Effect, machine, &operation, None) {
            Verdict::Pass | Verdict::Corrupt | Verdict::Gone => self.begin_now(machine, op),
            Verdict::Drop => self.never_begun(machine, op),
            Verdict::Later(at) => {
                self.lose_patience_later(machine, op, &operation);
                self.local(machine, at, Local::Begin(op, Box::new(operation)));
            }
            Verdict::Hold(label) => {
                self.lose_patience_later(machine, op, &operation);
                let life = self.machines[machine].life;
                let what = Local::Begin(op, Box::new(operation));
                self.script.keep(label, Due::Local { machine, life, what });
            }
            Verdict::Record(label) => {
                let due = Due::Again { machine, operation: Box::new(operation) };
                self.script.record(label, due);
                self.is_copied(machine, op);
                self.begin_now(machine, op);
            }
            Verdict::Twice(at) => {
                self.is_copied(machine, op);
                self.begin_now(machine, op);
                self.schedule(at, Due::Again { machine, operation: Box::new(operation) });
            }
            Verdict::Fail(fault) => self.fail_operation(machine, op, fault),
            Verdict::Crash(steps, keep, lasting) => {
                if let Some(process) = self.machines[machine].process.as_mut()
                    && let Some(running) = process.running.get_mut(&op)
                {
                    running.crash = Some((steps, keep, lasting));
                }
                self.begin_now(machine, op);
            }
        }
    }

    /// Whoever asked a question waits only so long for its answer, also where it is held up.
    fn lose_patience_later(&mut self, machine: usize, op: OpId, operation: &Operation) {
        if let Operation::Call { .. } | Operation::Ship(Shipping::Send { .. }) = operation {
            let limit = self.in_local_time(machine, self.setup.config.request_timeout);
            self.local(machine, limit, Local::GiveUp(op));
        }
    }

    /// Starts an operation that was held up. Where nobody waits for it any more, it still takes its
    /// effect.
    pub(super) fn begin_late(&mut self, machine: usize, op: OpId, operation: Operation) {
        let Some(process) = self.machines[machine].process.as_ref() else { return };
        if process.running.contains_key(&op) {
            self.begin_now(machine, op);
        } else {
            self.again(machine, operation);
        }
    }

    /// A question or a proposal is lost before anybody has it; anything else is never answered.
    fn never_begun(&mut self, machine: usize, op: OpId) {
        let Some(process) = self.machines[machine].process.as_ref() else { return };
        let Some(running) = process.running.get(&op) else { return };
        match running.operation {
            Operation::Call { .. } | Operation::Ship(Shipping::Send { .. }) => {
                let limit = self.in_local_time(machine, self.setup.config.request_timeout);
                self.local(machine, limit, Local::GiveUp(op));
            }
            Operation::Append(_) => {
                let soon = self.now.after(Duration::from_micros(10));
                self.local(machine, soon, Local::Done(op, Box::new(Outcome::Append(true))));
            }
            _ => {}
        }
    }

    fn is_copied(&mut self, machine: usize, op: OpId) {
        let process = self.machines[machine].process.as_mut();
        if let Some(running) = process.and_then(|process| process.running.get_mut(&op)) {
            running.is_copied = true;
        }
    }

    /// Has a question asked, an entry appended, or a batch sent once more; nobody waits for the answer.
    pub(super) fn again(&mut self, machine: usize, operation: Operation) {
        if self.machines[machine].process.is_none() {
            return;
        }
        match operation {
            Operation::Call { to, request } => self.call(machine, self.nobody, to, request),
            Operation::Append(entry) => self.append_entry(machine, self.nobody, &entry),
            Operation::Ship(Shipping::Send { to, partition, epoch, batch, records: seqs }) => {
                let shipment = Shipment { to, partition, epoch, batch, seqs };
                // Nobody waits for what comes of it.
                let _ = self.ship(machine, self.nobody, shipment);
            }
            _ => {}
        }
    }

    /// Starts an operation that nothing meddles with.
    pub(super) fn begin_now(&mut self, machine: usize, op: OpId) {
        let Some(process) = self.machines[machine].process.as_ref() else { return };
        let Some(running) = process.running.get(&op) else { return };
        match &running.operation.clone() {
            Operation::Call { .. } | Operation::Ship(Shipping::Send { .. }) => {
                let limit = self.in_local_time(machine, self.setup.config.request_timeout);
                self.local(machine, limit, Local::GiveUp(op));
                self.perform(machine, op);
            }
            Operation::Stage(_, Staging::Copy { .. }) => {
                let limit = self.in_local_time(machine, 2 * self.setup.config.request_timeout);
                self.local(machine, limit, Local::GiveUp(op));
                self.perform(machine, op);
            }
            operation => {
                let delay = self.half_latency(machine, operation);
                let at = self.after_disk(machine, delay);
                self.local(machine, at, Local::Perform(op));
            }
        }
    }

    /// Draws how long one half of an operation takes.
    pub(super) fn half_latency(&mut self, machine: usize, operation: &Operation) -> Duration {
        let is_disk = match operation {
            Operation::NextIncarnation
            | Operation::Inspect(_)
            | Operation::Host(..)
            | Operation::Stage(..)
            | Operation::Ship(
                Shipping::Checkpoint(_) | Shipping::Carry(_) | Shipping::Salvage { .. },
            ) => true,
            Operation::Gate(_, gating) => {
                matches!(gating, Gating::List { .. } | Gating::Freeze { .. })
            }
            Operation::Append(_)
            | Operation::Barrier
            | Operation::Survey
            | Operation::Configure(_)
            | Operation::Transfer { .. }
            | Operation::Call { .. }
            | Operation::Ship(Shipping::Send { .. })
            | Operation::Watermarks(_)
            | Operation::CloseAccept
            | Operation::OpenAccept => false,
        };
        let disk = &self.setup.scenario.disk;
        let range = disk.operation.least..=disk.operation.most;
        let it = &mut self.machines[machine];
        if is_disk {
            let mut takes = it.slower_by + it.latency.duration(range);
            if it.latency.happens(disk.slow.0) {
                takes += it.latency.duration(disk.slow_for.least..=disk.slow_for.most);
            }
            takes
        } else {
            Duration::from_micros(1 + it.latency.below(10))
        }
    }

    /// Returns when something that takes so long has been done, a stuck disk considered.
    pub(super) fn after_disk(&self, machine: usize, delay: Duration) -> Time {
        let free_at = self.now.max(self.machines[machine].disk_stuck_until);
        free_at.after(delay)
    }

    /// Carries an operation out; its outcome is another event.
    pub(super) fn perform(&mut self, machine: usize, op: OpId) {
        let Some(process) = self.machines[machine].process.as_ref() else { return };
        let Some(running) = process.running.get(&op) else { return };
        let operation = running.operation.clone();
        if let Some(outcome) = self.carry_operation_out(machine, op, operation) {
            self.performed(machine, op, outcome);
        }
    }

    /// Has an outcome told, a little later.
    pub(super) fn performed(&mut self, machine: usize, op: OpId, outcome: Outcome) {
        let Some(process) = self.machines[machine].process.as_ref() else { return };
        let Some(running) = process.running.get(&op) else { return };
        let operation = running.operation.clone();
        let delay = self.half_latency(machine, &operation);
        let at = self.after_disk(machine, delay);
        let ending = ending_of(&outcome);
        let life = self.machines[machine].life;
        let due = |outcome| {
            let what = Local::Done(op, Box::new(outcome));
            Due::Local { machine, life, what }
        };
        match self.meet_operation(Stage::Performed, machine, &operation, ending) {
            Verdict::Pass | Verdict::Twice(_) | Verdict::Record(_) | Verdict::Corrupt => {
                self.schedule(at, due(outcome));
            }
            Verdict::Drop | Verdict::Gone => {}
            Verdict::Later(at) => self.schedule(at, due(outcome)),
            Verdict::Hold(label) => self.script.keep(label, due(outcome)),
            Verdict::Fail(failure) => {
                let failed = failed(failure, &operation).unwrap_or(outcome);
                self.schedule(at, due(failed));
            }
            Verdict::Crash(_, keep, lasting) => self.lose_power(machine, keep, lasting),
        }
    }

    /// Tells a node the outcome of an operation, unless it has been told.
    pub(super) fn done(&mut self, machine: usize, op: OpId, outcome: Outcome) {
        let Some(process) = self.machines[machine].process.as_ref() else { return };
        let Some(running) = process.running.get(&op) else { return };
        let (name, operation) = (running.name, running.operation.clone());
        let ending = ending_of(&outcome);
        let life = self.machines[machine].life;
        let due = |outcome| {
            let what = Local::Told(op, Box::new(outcome));
            Due::Local { machine, life, what }
        };
        match self.meet_operation(Stage::Done, machine, &operation, ending) {
            Verdict::Pass | Verdict::Twice(_) | Verdict::Record(_) | Verdict::Corrupt => {
                self.told(machine, op, name, outcome);
            }
            Verdict::Drop => self.never_answered(machine, op),
            Verdict::Gone => {}
            Verdict::Later(at) => self.schedule(at, due(outcome)),
            Verdict::Hold(label) => self.script.keep(label, due(outcome)),
            Verdict::Fail(failure) => {
                let failed = failed(failure, &operation).unwrap_or(outcome);
                self.told(machine, op, name, failed);
            }
            Verdict::Crash(_, keep, lasting) => self.lose_power(machine, keep, lasting),
        }
    }

    /// The outcome of a question is lost: it is given up in time. Of other work it never comes.
    fn never_answered(&mut self, machine: usize, op: OpId) {
        let limit = self.in_local_time(machine, self.setup.config.request_timeout);
        self.local(machine, limit, Local::GiveUp(op));
    }

    /// Tells a node an outcome that nothing holds up any more.
    pub(super) fn told(&mut self, machine: usize, op: OpId, name: &'static str, outcome: Outcome) {
        let Some(process) = self.machines[machine].process.as_mut() else { return };
        let Some(running) = process.running.remove(&op) else { return };
        let partition = super::message::partition_of(&running.operation);
        self.recorder.line(self.now, Kind::Done, name, Some(machine), None, partition);
        self.beaten(machine, op, &outcome);
        self.learned(machine, &running.operation, &outcome);
        self.tell(machine, Event::Done(op, outcome));
    }

    /// Ends a call or a copy that has had no answer for too long.
    pub(super) fn give_up(&mut self, machine: usize, op: OpId) {
        let process = self.machines[machine].process.as_ref().expect("it runs");
        let Some(running) = process.running.get(&op) else { return };
        let patience = running.patience;
        if patience > self.now {
            return self.local(machine, patience, Local::GiveUp(op));
        }
        match running.operation {
            Operation::Call { .. } => {
                self.done(machine, op, Outcome::Call(Err(CallFault::TimedOut)));
            }
            Operation::Ship(Shipping::Send { .. }) => {
                self.done(machine, op, sent(Err(SendFault::TimedOut)));
            }
            Operation::Stage(_, Staging::Copy { .. }) => {
                let outcome = StagingOutcome::Copy(Err(Fault::TimedOut));
                self.done(machine, op, Outcome::Stage(outcome));
            }
            _ => {}
        }
    }

    pub(super) fn cancel(&mut self, machine: usize, op: OpId) {
        let process = self.machines[machine].process.as_mut().expect("it has just spoken");
        let Some(running) = process.running.get(&op) else { return };
        if let Operation::Stage(_, Staging::Copy { .. }) = running.operation {
            let outcome = Outcome::Stage(StagingOutcome::Copy(Err(Fault::Cancelled)));
            let soon = self.now.after(Duration::from_micros(20));
            self.local(machine, soon, Local::Done(op, Box::new(outcome)));
        } else if let Some(partition) = process.freezing.get(&op).copied() {
            process.broker.seat(partition).slot.give_up(op);
            self.answer_freezes(machine, partition);
        } else if let Operation::Ship(Shipping::Send { .. }) = running.operation {
            let soon = self.now.after(Duration::from_micros(20));
            let outcome = sent(Err(SendFault::TimedOut));
            self.local(machine, soon, Local::Done(op, Box::new(outcome)));
        }
    }

    /// Lets an operation fail as a scenario wants it.
    fn fail_operation(&mut self, machine: usize, op: OpId, failure: Failure) {
        let Some(process) = self.machines[machine].process.as_ref() else { return };
        let Some(running) = process.running.get(&op) else { return };
        let Some(outcome) = failed(failure, &running.operation) else {
            return self.begin_now(machine, op);
        };
        let soon = self.now.after(Duration::from_micros(100));
        self.local(machine, soon, Local::Done(op, Box::new(outcome)));
    }

    /// Appends an entry that this node leads, or believes that it does.
    fn append_entry(&mut self, machine: usize, op: OpId, entry: &Entry) {
        if let Some(process) = self.machines[machine].process.as_mut() {
            process.running.remove(&op);
            self.feed_append(machine, op, entry);
        }
    }

    /// Says with a request to freeze how far its partition is copied; with any other that a copy may
    /// follow, forgets what came with the last.
    fn reach_for(&self, machine: usize, request: &Request) -> Option<Reach> {
        let storage = &self.machines[machine].process.as_ref()?.storage;
        match request {
            Request::Prepare { partition, tail_bytes_max, .. } => {
                Some(storage.reach(*partition, *tail_bytes_max))
            }
            Request::List { partition, .. } | Request::Release { partition, .. } => {
                storage.tails().forget(*partition);
                None
            }
            _ => None,
        }
    }

    /// Puts a question on the wire.
    fn call(&mut self, machine: usize, op: OpId, to: NodeId, request: Request) {
        let Some(to) = self.machine_of(to) else {
            let outcome = Outcome::Call(Err(CallFault::Unreachable));
            let soon = self.now.after(Duration::from_micros(100));
            return self.local(machine, soon, Local::Done(op, Box::new(outcome)));
        };
        let reach = self.reach_for(machine, &request);
        let life = self.machines[machine].life;
        let payload = Payload::Request { op, request: Box::new(request), reach };
        self.send(Message { from: machine, to, life, payload, line: 0 });
    }
}
