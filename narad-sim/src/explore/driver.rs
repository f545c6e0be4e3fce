//! The driver of each node: what it does with effects, and how operations are carried out.
//!
//! What touches no disk and waits for nobody is carried out at once (`is_prompt`): nothing that
//! happens elsewhere in between could be told from its happening just before or just after, and a
//! crash in between leaves what a crash just before leaves. What changes a disk, and a copy, which
//! reads another node's, is an event of its own, so that crashes and other events fall around it.

use std::collections::VecDeque;

use narad_core::effects::{Effects, OpId};
use narad_core::freeze::Authority;
use narad_core::freeze::gate::{Command as Ask, Standing};
use narad_core::host;
use narad_core::ids::{Incarnation, LogIndex, NodeId};
use narad_core::metastore::{Command, Entry};
use narad_core::node::{CallFault, Effect, Event, Operation, Outcome, Staging};
use narad_core::partition::Capture;
use narad_core::peer::{Answer, Refusal, Request};
use narad_core::time::Instant;

use super::hash::Shared;
use super::world::{Captured, LOG, Message, Running, World};
use super::{Breakage, Order, tell};

impl World {
    /// Tells a node something, and whatever is done at once because of it.
    pub(super) fn tell(&mut self, id: NodeId, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = self.now;
            let Some(process) = self.edit(id).process.as_mut() else { return };
            let mut out = Effects::default();
            process.node.handle(now, event, &mut out);
            self.obey(id, out, &mut events);
        }
    }

    /// Carries out the first effects of a node.
    pub(super) fn carry_out(&mut self, id: NodeId, out: Effects<Effect>) {
        let mut events = VecDeque::new();
        self.obey(id, out, &mut events);
        for event in events {
            self.tell(id, event);
        }
    }

    /// Answers an operation, unless it has been answered.
    pub(super) fn done(&mut self, id: NodeId, op: OpId, outcome: Outcome) {
        let Some(process) = self.process(id) else { return };
        if process.running.contains_key(&op) {
            self.edit_process(id).running.remove(&op);
            self.tell(id, Event::Done(op, outcome));
        }
    }

    fn obey(&mut self, id: NodeId, mut out: Effects<Effect>, events: &mut VecDeque<Event>) {
        for effect in out.drain() {
            match effect {
                Effect::Run(op, operation) => self.begin(id, op, operation, events),
                Effect::Cancel(op) => self.cancel(id, op, events),
                Effect::Answer(request, answer) => self.answer(id, request.0, answer),
                Effect::Authority(authority) => {
                    let authority = self.granted(authority);
                    self.edit_process(id).authority = authority;
                }
                Effect::Note(note) => self.tell_story(|| format!("{id:?} notes {note:?}")),
                // Nobody produces by way of an ingress log here.
                Effect::Reply(..) | Effect::Room(_) => {}
                Effect::Stop(stop) => {
                    self.violate("panic", format!("{id:?} stops: {stop}"));
                }
            }
        }
    }

    /// What a broken driver would make of the authority.
    pub(super) fn granted(&self, authority: Authority) -> Authority {
        if self.is_breaking(Breakage::LeaseIgnored) {
            let lease_until = Instant::from_origin(std::time::Duration::MAX);
            return Authority { lease_until, ..authority };
        }
        authority
    }

    fn begin(&mut self, id: NodeId, op: OpId, operation: Operation, events: &mut VecDeque<Event>) {
        match operation {
            Operation::Barrier => self.barrier(id, op, events),
            Operation::Call { to, .. } if to != LOG && !self.talks(id, to) => {
                let outcome = Outcome::Call(Err(CallFault::Unreachable));
                events.push_back(Event::Done(op, outcome));
            }
            Operation::Call { to: LOG, request } => self.call_log(id, op, request, events),
            Operation::Call { to, request } => {
                self.tell_story(|| format!("{id:?} asks {to:?}: {}", tell::request(&request)));
                let plan = match &request {
                    Request::List { move_id, .. } => Some(*move_id),
                    Request::Heartbeat { .. }
                    | Request::Propose(_)
                    | Request::Join { .. }
                    | Request::Prepare { .. }
                    | Request::Renew { .. }
                    | Request::Release { .. }
                    | Request::TakeAcks { .. } => None,
                };
                self.edit_process(id).running.insert(op, Running::Called(plan));
                self.wire.push(Shared::new(Message::Request { from: id, op, to, request }));
            }
            operation if self.is_prompt(&operation) => {
                let outcome = self.perform(id, op, operation, events);
                events.extend(outcome.map(|outcome| Event::Done(op, outcome)));
            }
            operation => {
                self.edit_process(id).running.insert(op, Running::Pending(Box::new(operation)));
            }
        }
    }

    pub(super) fn is_fine(&self) -> bool {
        self.rules.order == Order::Fine
    }

    /// Whether an operation is carried out at once; see the [module](self).
    fn is_prompt(&self, operation: &Operation) -> bool {
        match operation {
            Operation::Stage(_, staging) => match staging {
                Staging::Probe { .. } | Staging::Verify(_) => !self.is_fine(),
                Staging::Copy { .. }
                | Staging::Checkpoint(_)
                | Staging::Trim(_)
                | Staging::Install { .. }
                | Staging::Restage(_)
                | Staging::SetAside(_) => false,
            },
            Operation::Host(_, work) => match work {
                host::Operation::Close => !self.is_fine(),
                host::Operation::Open { .. } | host::Operation::Expose { .. } => false,
            },
            Operation::Gate(..) | Operation::Inspect(_) | Operation::Watermarks(_) => {
                !self.is_fine()
            }
            Operation::NextIncarnation | Operation::Ship(_) => false,
            Operation::Barrier
            | Operation::Survey
            | Operation::Call { .. }
            | Operation::Append(_)
            | Operation::Configure(_)
            | Operation::Transfer { .. }
            | Operation::CloseAccept
            | Operation::OpenAccept => true,
        }
    }

    /// Whether a node reaches another one that is up.
    pub(super) fn talks(&self, id: NodeId, to: NodeId) -> bool {
        self.process(to).is_some() && !self.machine(id).isolated && !self.machine(to).isolated
    }

    /// A barrier stands at the end of the log as of now: the least that it can promise.
    fn barrier(&mut self, id: NodeId, op: OpId, events: &mut VecDeque<Event>) {
        let last = self.log.last();
        if self.machine(id).cut {
            events.push_back(Event::Done(op, Outcome::Barrier(None)));
        } else if self.applied(id) >= last {
            events.push_back(Event::Done(op, Outcome::Barrier(Some(LogIndex(last)))));
        } else {
            self.edit_process(id).running.insert(op, Running::Barrier(last));
        }
    }

    pub(super) fn answer_barriers(&mut self, id: NodeId) {
        let applied = self.applied(id);
        let Some(process) = self.process(id) else { return };
        let passed: Vec<(OpId, u64)> = process
            .running
            .iter()
            .filter_map(|(op, running)| match running {
                Running::Barrier(index) if *index <= applied => Some((*op, *index)),
                Running::Barrier(_)
                | Running::Pending(_)
                | Running::Called(_)
                | Running::Freezing => None,
            })
            .collect();
        for (op, index) in passed {
            self.done(id, op, Outcome::Barrier(Some(LogIndex(index))));
        }
    }

    /// The leader answers at once; what may come late or never is what it appends.
    fn call_log(&mut self, id: NodeId, op: OpId, request: Request, events: &mut VecDeque<Event>) {
        if self.machine(id).cut {
            let outcome = Outcome::Call(Err(CallFault::Unreachable));
            return events.push_back(Event::Done(op, outcome));
        }
        match request {
            Request::Propose(entry) => {
                self.tell_story(|| format!("{id:?} proposes {}", tell::command(&entry.command)));
                self.resume_rashly(id, &entry);
                self.edit_process(id).running.insert(op, Running::Called(None));
                self.wire.push(Shared::new(Message::Proposal { from: id, op, entry }));
            }
            Request::Heartbeat { incarnation, .. } => {
                let answer = match self.may_be_leased(id, incarnation) {
                    Ok(()) => {
                        let now = self.now;
                        self.heard[Self::at(id)] = now;
                        Answer::Heartbeat { index: LogIndex(self.log.last()) }
                    }
                    Err(refusal) => Answer::Refused(refusal),
                };
                events.push_back(Event::Done(op, Outcome::Call(Ok(answer))));
            }
            Request::Join { .. }
            | Request::List { .. }
            | Request::Prepare { .. }
            | Request::Renew { .. }
            | Request::Release { .. }
            | Request::TakeAcks { .. } => {
                let outcome = Outcome::Call(Err(CallFault::Malformed));
                events.push_back(Event::Done(op, outcome));
            }
        }
    }

    /// The leader's rule (H32).
    fn may_be_leased(&self, id: NodeId, life: Incarnation) -> Result<(), Refusal> {
        let member = self.member(id).ok_or(Refusal::AskerDead)?;
        match member.incarnation.cmp(&life) {
            std::cmp::Ordering::Less => Err(Refusal::NotYet),
            std::cmp::Ordering::Equal if self.is_alive(id) => Ok(()),
            std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => Err(Refusal::AskerDead),
        }
    }

    /// A broken source goes on as soon as it has asked to (H1).
    fn resume_rashly(&mut self, id: NodeId, entry: &Entry) {
        if let Command::Revoke { token, .. } = entry.command
            && self.is_breaking(Breakage::ResumeOnExpiry)
        {
            let (now, mut signals) = (self.now, Effects::default());
            let process = self.edit_process(id);
            process.gate.command(now, process.authority, Ask::Thaw { token }, &mut signals);
        }
    }

    /// A broken start gives the gate what only a registration gives (H6).
    pub(super) fn serve_unregistered(&mut self, id: NodeId) {
        let row = self.row().map(|row| (row.owner, row.epoch, row.data));
        let Some((owner, epoch, data)) = row else { return };
        let machine = self.edit(id);
        if owner != id || !machine.area.installed.contains_key(&data) {
            return;
        }
        let life = Incarnation(machine.incarnation - 1);
        let Some(process) = machine.process.as_mut() else { return };
        let lease_until = Instant::from_origin(std::time::Duration::MAX);
        process.open = Some(data);
        process.authority = Authority { registered: Some(life), lease_until };
        let standing = Standing::Serving { epoch, life, in_play: false };
        let mut signals = Effects::default();
        process.gate.command(Instant::ORIGIN, Authority::NONE, Ask::Stand(standing), &mut signals);
    }

    fn cancel(&mut self, id: NodeId, op: OpId, events: &mut VecDeque<Event>) {
        let (now, mut signals) = (self.now, Effects::default());
        let process = self.edit_process(id);
        let authority = process.authority;
        process.gate.command(now, authority, Ask::GiveUp { ticket: op }, &mut signals);
        self.signalled(id, signals, events);
    }

    fn answer(&mut self, from: NodeId, request: u64, answer: Answer) {
        let asked = self.edit_process(from).asked.remove(&request);
        let (to, op) = asked.expect("a question is answered once");
        let waits = self.process(to).is_some_and(|process| process.running.contains_key(&op));
        self.tell_story(|| format!("{from:?} answers {to:?}: {}", tell::answer(&answer)));
        if let Answer::Capture(capture) = &answer {
            self.remember_capture(from, capture);
        }
        if waits {
            self.wire.push(Shared::new(Message::Answer { to, op, from, answer }));
        }
    }

    /// From now on somebody may flip on this freeze.
    fn remember_capture(&mut self, owner: NodeId, capture: &Capture) {
        let partition = self.rules.partition;
        let state = self.process(owner).map(|process| process.node.state());
        let row = state.and_then(|state| state.assignment(partition));
        let Some(move_id) = row.map(|row| row.move_id) else { return };
        let captured = Captured { owner, token: capture.token, move_id };
        if !self.ghost.captures.contains(&captured) {
            self.ghost.edit().captures.push(captured);
        }
    }
}
