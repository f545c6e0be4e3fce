//! Operations of a node: how each is begun, carried out, answered, and ended early.

use std::time::Duration;

use narad_core::effects::OpId;
use narad_core::host;
use narad_core::ids::PartitionId;
use narad_core::mover::{Fault, What};
use narad_core::node::{
    CallFault, Event, Gating, GatingOutcome, Operation, Outcome, Staging, StagingOutcome,
};
use narad_runtime::store::identity;

use super::message::{Message, Payload};
use super::script::{Failure, Moment, Stage, Verdict};
use super::{Local, World, names};
use crate::oracle::Fact;
use crate::time::Time;
use crate::trace::Kind;

impl World {
    /// Starts an operation that nothing meddles with.
    pub(super) fn begin_now(&mut self, machine: usize, op: OpId) {
        let process = self.machines[machine].process.as_ref().expect("it has just spoken");
        let Some(running) = process.running.get(&op) else { return };
        match &running.operation {
            Operation::Call { .. } => {
                let limit = self.in_local_time(machine, self.setup.config.request_timeout);
                self.local(machine, limit, Local::GiveUp(op));
                self.perform(machine, op);
            }
            Operation::Stage(_, Staging::Copy { .. }) => {
                let limit = self.in_local_time(machine, self.setup.copy_timeout);
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
            | Operation::Stage(..) => true,
            Operation::Gate(_, gating) => matches!(gating, Gating::List { .. } | Gating::Freeze { .. }),
            Operation::Append(_)
            | Operation::Barrier
            | Operation::Survey
            | Operation::Configure(_)
            | Operation::Transfer { .. }
            | Operation::Call { .. }
            | Operation::Watermarks(_)
            | Operation::CloseAccept
            | Operation::OpenAccept => false,
        };
        let range = self.setup.disk_latency.clone();
        let it = &mut self.machines[machine];
        if is_disk {
            it.slower_by + it.latency.duration(range) / 2
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
        let (name, operation) = (running.name, running.operation.clone());
        if let Some(outcome) = self.carry_operation_out(machine, op, operation) {
            self.performed(machine, op, name, outcome);
        }
    }

    /// Has an outcome told, a little later.
    pub(super) fn performed(
        &mut self,
        machine: usize,
        op: OpId,
        name: &'static str,
        outcome: Outcome,
    ) {
        let Some(process) = self.machines[machine].process.as_ref() else { return };
        let Some(running) = process.running.get(&op) else { return };
        let partition = names::partition_at(&running.operation);
        let operation = running.operation.clone();
        let delay = self.half_latency(machine, &operation);
        let at = self.after_disk(machine, delay);
        let what = Local::Done(op, Box::new(outcome));
        let moment = Moment { stage: Stage::Performed, name, machine, peer: None, partition };
        match self.meet(moment) {
            Verdict::Pass | Verdict::Twice(_) => self.local(machine, at, what),
            Verdict::Drop => {}
            Verdict::Later(at) => self.local(machine, at, what),
            Verdict::Hold(label) => {
                let life = self.machines[machine].life;
                self.script.keep(label, super::Due::Local { machine, life, what });
            }
            Verdict::Fail(failure) => self.fail_operation(machine, op, failure),
        }
    }

    fn carry_operation_out(
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
                if let Some(next) = next {
                    process.incarnation = next;
                    self.observe(Fact::NewLife { machine, incarnation: next });
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
                Outcome::Host(process.storage.host(partition, work))
            }
            Operation::Stage(partition, Staging::Copy { source, base, position, bytes }) => {
                let range = super::message::Range { partition, base, position, bytes };
                return self.begin_copy(machine, op, source, range);
            }
            Operation::Stage(partition, work) => {
                let destructive = what_is_touched(&work);
                if let Some(what) = destructive {
                    self.observe(Fact::Touching { machine, partition, what });
                }
                let process = self.machines[machine].process.as_mut().expect("it runs");
                let outcome = process.storage.stage(partition, work, now_ms);
                self.staged(machine, partition, &outcome);
                Outcome::Stage(outcome)
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
                        self.observe(Fact::Thawed { machine, partition, token });
                        GatingOutcome::Thaw
                    }
                    Gating::List { incarnation, check } => {
                        GatingOutcome::List(slot.list(incarnation, &check).ok())
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
            // A record is acknowledged by its owner alone, so a node that owns nothing has
            // accepted nothing that has not arrived.
            Operation::CloseAccept => Outcome::CloseAccept(true),
            Operation::OpenAccept => Outcome::OpenAccept,
        })
    }

    /// Hands out the answers of freezes that have taken hold, or will not.
    pub(super) fn answer_freezes(&mut self, machine: usize, partition: PartitionId) {
        let Some(process) = self.machines[machine].process.as_mut() else { return };
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
            if let Ok(capture) = &answer {
                self.captured(machine, partition, capture);
            }
            let outcome = Outcome::Gate(GatingOutcome::Freeze(answer));
            self.performed(machine, op, "freeze", outcome);
        }
    }

    /// Tells a node the outcome of an operation, unless it has been told.
    pub(super) fn done(&mut self, machine: usize, op: OpId, outcome: Outcome) {
        let process = self.machines[machine].process.as_mut().expect("it runs");
        let Some(running) = process.running.remove(&op) else { return };
        let (name, partition) = (running.name, names::partition_at(&running.operation));
        let moment = Moment { stage: Stage::Done, name, machine, peer: None, partition };
        // A message that is kept from its receiver is meddled with on its way, an outcome when it
        // is performed: whatever is asked for here happens beside it.
        let _ = self.meet(moment);
        if self.machines[machine].process.is_none() {
            return;
        }
        self.recorder.line(self.now, Kind::Done, name, Some(machine), None, partition);
        self.tell(machine, Event::Done(op, outcome));
    }

    /// Ends a call or a copy that has had no answer for too long.
    pub(super) fn give_up(&mut self, machine: usize, op: OpId) {
        let process = self.machines[machine].process.as_ref().expect("it runs");
        let Some(running) = process.running.get(&op) else { return };
        match running.operation {
            Operation::Call { .. } => {
                self.done(machine, op, Outcome::Call(Err(CallFault::TimedOut)));
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
        }
    }

    /// Lets an operation fail as a scenario wants it.
    pub(super) fn fail_operation(&mut self, machine: usize, op: OpId, failure: Failure) {
        let Some(process) = self.machines[machine].process.as_ref() else { return };
        let Some(running) = process.running.get(&op) else { return };
        let Some(outcome) = failure.outcome_of(&running.operation) else {
            return self.begin_now(machine, op);
        };
        let delay = Duration::from_micros(100);
        self.local(machine, self.now.after(delay), Local::Done(op, Box::new(outcome)));
    }

    /// Puts a question on the wire.
    fn call(
        &mut self,
        machine: usize,
        op: OpId,
        to: narad_core::ids::NodeId,
        request: narad_core::peer::Request,
    ) {
        let Some(to) = self.machine_of(to) else {
            let outcome = Outcome::Call(Err(CallFault::Unreachable));
            let soon = self.now.after(Duration::from_micros(100));
            return self.local(machine, soon, Local::Done(op, Box::new(outcome)));
        };
        let life = self.machines[machine].life;
        let payload = Payload::Request { op, request: Box::new(request) };
        self.send(Message { from: machine, to, life, payload, line: 0 });
    }
}

/// The directory that work takes away or uses again, if it does.
const fn what_is_touched(work: &Staging) -> Option<What> {
    match work {
        Staging::SetAside(what) => Some(*what),
        Staging::Restage(attempt) => Some(What::Installed(*attempt)),
        Staging::Copy { .. }
        | Staging::Checkpoint(_)
        | Staging::Trim(_)
        | Staging::Probe { .. }
        | Staging::Verify(_)
        | Staging::Install { .. } => None,
    }
}
