//! What may happen next, and what it does.

use std::collections::VecDeque;

use narad_core::effects::Effects;
use narad_core::freeze::gate::Appended;
use narad_core::ids::{NodeId, Offset};
use narad_core::metastore::{Command, Status};
use narad_core::node::{CallFault, Event, Outcome};
use narad_core::peer::{Answer, RequestId};

use super::tell;
use super::world::{Acked, Append, Message, Running, World, policy};
use super::{Breakage, Order};

/// One event. Messages and operations go by their place in the world in which they are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Apply(u8),
    Perform(u8, u8),
    Deliver(u8),
    Admit(u8),
    Write(u8),
    Ack(u8),
    Plan(u8),
    Restart(u8),
    Heal(u8),
    /// A late message arrives.
    Arrive(u8),
    CatchUp(u8),
    /// Nothing else can happen: time passes.
    Pause,
    // What follows are faults.
    /// A message never arrives, and whoever waits for it is told so.
    Lose(u8),
    /// Whoever waits is told that nothing came; the message arrives all the same, at any time.
    Late(u8),
    Duplicate(u8),
    /// A message takes its time; nobody is told.
    Hold(u8),
    /// A node applies nothing for now.
    Lag(u8),
    /// The end of an append takes its time.
    Dawdle(u8),
    Crash(u8),
    Cut(u8),
    /// Cut off from the other nodes, too.
    Isolate(u8),
    /// The leader declares a node dead that it has not heard of for long enough.
    MarkDead(u8),
    Cancel,
    /// Time passes although something else could happen.
    Expire,
}

impl Action {
    pub(super) const fn is_fault(self) -> bool {
        match self {
            Self::Lose(_)
            | Self::Late(_)
            | Self::Duplicate(_)
            | Self::Hold(_)
            | Self::Lag(_)
            | Self::Dawdle(_)
            | Self::Crash(_)
            | Self::Cut(_)
            | Self::Isolate(_)
            | Self::Cancel
            | Self::MarkDead(_)
            | Self::Expire => true,
            Self::Apply(_)
            | Self::Perform(..)
            | Self::Deliver(_)
            | Self::Admit(_)
            | Self::Write(_)
            | Self::Ack(_)
            | Self::Plan(_)
            | Self::Restart(_)
            | Self::Heal(_)
            | Self::Arrive(_)
            | Self::CatchUp(_)
            | Self::Pause => false,
        }
    }
}

fn small(number: usize) -> u8 {
    u8::try_from(number).expect("a small world")
}

fn node(number: u8) -> NodeId {
    NodeId(number.into())
}

fn number(node: NodeId) -> u8 {
    u8::try_from(node.0).expect("a small world")
}

impl World {
    /// Returns everything that may happen next. `cut` counts what only the budget forbids.
    pub(super) fn actions(&self, cut: &mut u64) -> Vec<Action> {
        if !self.is_fine()
            && let Some(work) = self.work_under_way()
        {
            return self.around(work, cut);
        }
        let mut actions = self.progress();
        let quiet = actions.is_empty();
        let mut faults = Vec::new();
        match self.rules.order {
            Order::Prompt => {
                actions.truncate(1);
                self.faults_of(actions.first().copied(), &mut faults);
            }
            Order::Any | Order::Fine => {
                for at in self.distinct_messages() {
                    self.faults_of(Some(Action::Deliver(at)), &mut faults);
                }
            }
        }
        self.faults_of_nodes(quiet, &mut faults);
        self.environment(&mut actions, cut);
        for (left, fault) in faults {
            if left > 0 && self.budget.faults > 0 {
                actions.push(fault);
            } else {
                *cut += 1;
            }
        }
        if quiet {
            if self.budget.pauses > 0 || !self.is_disturbed() {
                actions.push(Action::Pause);
            } else {
                *cut += 1;
            }
        }
        actions
    }

    /// Adds what may go wrong with the next thing, each with the budget that it needs.
    fn faults_of(&self, next: Option<Action>, faults: &mut Vec<(u8, Action)>) {
        let budget = &self.budget;
        let prompt = self.rules.order == Order::Prompt;
        match next {
            Some(Action::Deliver(at)) => {
                faults.push((budget.losses, Action::Lose(at)));
                if prompt {
                    faults.push((budget.delays, Action::Hold(at)));
                }
                if matches!(&*self.wire[usize::from(at)], Message::Answer { .. }) {
                    return;
                }
                if self.is_awaited(at) {
                    faults.push((budget.losses, Action::Late(at)));
                }
                faults.push((budget.duplicates, Action::Duplicate(at)));
            }
            Some(Action::Apply(id)) if prompt => faults.push((budget.delays, Action::Lag(id))),
            Some(Action::Ack(id)) if prompt => faults.push((budget.delays, Action::Dawdle(id))),
            _ => {}
        }
    }

    fn faults_of_nodes(&self, quiet: bool, faults: &mut Vec<(u8, Action)>) {
        let budget = &self.budget;
        for id in self.nodes().filter(|id| self.process(*id).is_some()) {
            faults.push((budget.crashes, Action::Crash(number(id))));
            if !self.machine(id).cut {
                faults.push((budget.cuts, Action::Cut(number(id))));
                faults.push((budget.cuts, Action::Isolate(number(id))));
            }
        }
        for id in self.nodes().filter(|id| self.is_silent(*id)) {
            faults.push((budget.kills, Action::MarkDead(number(id))));
        }
        if self.row().is_some_and(|row| row.target.is_some()) {
            faults.push((budget.cancels, Action::Cancel));
        }
        if !quiet {
            faults.push((budget.expiries, Action::Expire));
        }
    }

    /// Returns the first operation that is yet to be carried out.
    fn work_under_way(&self) -> Option<Action> {
        let mut all = self.progress().into_iter();
        all.find(|action| matches!(action, Action::Perform(..)))
    }

    /// Unless the search is fine, a node's disk is done before anything else happens, but a crash
    /// of whoever takes part. A log only grows, so a copy brings the same whenever it is made.
    fn around(&self, work: Action, cut: &mut u64) -> Vec<Action> {
        let mut actions = vec![work];
        let up = self.nodes().filter(|id| self.process(*id).is_some());
        for id in up {
            if self.budget.crashes > 0 && self.budget.faults > 0 {
                actions.push(Action::Crash(number(id)));
            } else {
                *cut += 1;
            }
        }
        actions
    }

    /// Returns what goes on by itself.
    pub(super) fn progress(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for id in self.nodes() {
            let machine = self.machine(id);
            let Some(process) = &machine.process else { continue };
            if let Some(append) = process.append.as_ref().filter(|append| !append.slow) {
                let next = if append.durable.is_none() { Action::Write } else { Action::Ack };
                actions.push(next(number(id)));
            }
            if !machine.cut && !machine.lagging && self.log.after(self.applied(id)).is_some() {
                actions.push(Action::Apply(number(id)));
            }
            for (at, running) in process.running.values().enumerate() {
                if let Running::Pending(operation) = running
                    && !self.must_wait(id, operation)
                {
                    actions.push(Action::Perform(number(id), small(at)));
                }
            }
        }
        actions.extend(self.distinct_messages().into_iter().map(Action::Deliver));
        actions
    }

    /// Closing waits for the append under way.
    fn must_wait(&self, id: NodeId, operation: &narad_core::node::Operation) -> bool {
        use narad_core::node::Operation;
        matches!(operation, Operation::Host(_, narad_core::host::Operation::Close))
            && self.process(id).is_some_and(|process| process.append.is_some())
    }

    /// Adds what comes from outside and is no fault.
    fn environment(&self, actions: &mut Vec<Action>, cut: &mut u64) {
        for id in self.nodes() {
            match self.process(id) {
                None => actions.push(Action::Restart(number(id))),
                Some(process) => {
                    if self.machine(id).cut {
                        actions.push(Action::Heal(number(id)));
                    }
                    if self.machine(id).lagging {
                        actions.push(Action::CatchUp(number(id)));
                    }
                    if process.append.as_ref().is_some_and(|append| append.slow) {
                        actions.push(Action::Ack(number(id)));
                    }
                }
            }
            if self.would_admit(id) {
                if self.budget.records > 0 {
                    actions.push(Action::Admit(number(id)));
                } else {
                    *cut += 1;
                }
            }
        }
        let is_first = |at: &usize| *at == 0 || self.held[*at].name() != self.held[*at - 1].name();
        let late = (0..self.held.len()).filter(is_first).map(small);
        actions.extend(late.map(Action::Arrive));
        let Some(row) = self.row().filter(|row| row.target.is_none()) else { return };
        for to in self.nodes().filter(|to| *to != row.owner) {
            if self.budget.moves == 0 {
                *cut += 1;
            } else if self.member(to).is_some_and(narad_core::metastore::Member::is_receiver) {
                actions.push(Action::Plan(number(to)));
            }
        }
    }

    /// Returns the places of messages, of equal ones the first.
    fn distinct_messages(&self) -> Vec<u8> {
        let is_first = |at: &usize| *at == 0 || self.wire[*at].name() != self.wire[*at - 1].name();
        (0..self.wire.len()).filter(is_first).map(small).collect()
    }

    fn is_awaited(&self, at: u8) -> bool {
        let (from, op) = self.wire[usize::from(at)].asker();
        self.process(from).is_some_and(|process| process.running.contains_key(&op))
    }

    pub(super) fn would_admit(&self, id: NodeId) -> bool {
        let Some(process) = self.process(id) else { return false };
        process.append.is_none()
            && self.live(id).is_some()
            && process.gate.clone().admit(self.now, process.authority, None).is_ok()
    }

    /// Whether the leader has not heard of a living member for long enough.
    pub(super) fn is_silent(&self, id: NodeId) -> bool {
        let unheard = self.now.since(self.heard[Self::at(id)]);
        self.is_alive(id) && unheard >= policy().dead_timeout
    }

    /// Lets one thing happen.
    pub(super) fn take(&mut self, action: Action) {
        if action.is_fault() {
            self.budget.faults = self.budget.faults.saturating_sub(1);
        }
        match action {
            Action::Apply(id) => self.apply(node(id)),
            Action::Perform(id, at) => self.perform_pending(node(id), at),
            Action::Deliver(at) => {
                let message = self.wire.remove(usize::from(at));
                self.deliver((*message).clone());
            }
            Action::Admit(id) => self.admit(node(id)),
            Action::Write(id) => self.write(node(id)),
            Action::Ack(id) => self.acknowledge(node(id)),
            Action::Plan(to) => self.plan(node(to)),
            Action::Restart(id) => self.start(node(id)),
            Action::Heal(id) => {
                let machine = self.edit(node(id));
                (machine.cut, machine.isolated) = (false, false);
            }
            Action::CatchUp(id) => self.edit(node(id)).lagging = false,
            Action::Arrive(at) => {
                let message = self.held.remove(usize::from(at));
                self.deliver((*message).clone());
            }
            Action::Hold(at) => {
                self.budget.delays -= 1;
                let message = self.wire.remove(usize::from(at));
                self.held.push(message);
            }
            Action::Lag(id) => {
                self.budget.delays -= 1;
                self.edit(node(id)).lagging = true;
            }
            Action::Dawdle(id) => {
                self.budget.delays -= 1;
                if let Some(append) = &mut self.edit_process(node(id)).append {
                    append.slow = true;
                }
            }
            Action::MarkDead(id) => {
                self.budget.kills -= 1;
                let id = node(id);
                let incarnation = self.member(id).expect("it is silent").incarnation;
                self.command(Command::MarkDead { node: id, incarnation });
            }
            Action::Pause => {
                // What is undisturbed comes to its end, however long it takes (L1).
                let counts = u8::from(self.is_disturbed());
                self.budget.pauses = self.budget.pauses.saturating_sub(counts);
                self.stalled = !self.wait();
            }
            Action::Expire => {
                self.budget.expiries -= 1;
                self.stalled = !self.expire();
            }
            Action::Lose(at) => {
                self.budget.losses -= 1;
                let message = self.wire.remove(usize::from(at));
                self.time_out(&message.clone());
            }
            Action::Late(at) => {
                self.budget.losses -= 1;
                let message = self.take_late(at);
                self.time_out(&message);
            }
            Action::Duplicate(at) => {
                self.budget.duplicates -= 1;
                let message = self.take_late(at);
                self.deliver(message);
            }
            Action::Crash(id) => {
                self.budget.crashes -= 1;
                self.crash(node(id));
            }
            Action::Cut(id) => {
                self.budget.cuts -= 1;
                self.edit(node(id)).cut = true;
            }
            Action::Isolate(id) => {
                self.budget.cuts -= 1;
                let machine = self.edit(node(id));
                (machine.cut, machine.isolated) = (true, true);
            }
            Action::Cancel => {
                self.budget.cancels -= 1;
                if let Some(row) = self.row() {
                    let (partition, move_id) = (self.rules.partition, row.move_id);
                    self.command(Command::ClearTarget { partition, move_id });
                }
            }
        }
        self.put_in_order();
        self.check();
    }

    /// Takes what is the only thing that can happen, until there is a choice. Returns how many
    /// events that were.
    pub(super) fn go_on(&mut self) -> u32 {
        let mut steps = 0;
        while let Some(only) = self.only_choice() {
            self.take(only);
            steps += 1;
        }
        steps
    }

    /// Returns what happens next if nothing else can, once all faults are spent.
    pub(super) fn only_choice(&self) -> Option<Action> {
        if self.budget.faults > 0 || self.broken.is_some() {
            return None;
        }
        let actions = self.actions(&mut 0);
        let &[only] = actions.as_slice() else { return None };
        Some(only).filter(|only| *only != Action::Pause)
    }

    /// Returns a message that will arrive later, or once more.
    fn take_late(&mut self, at: u8) -> Message {
        let at = usize::from(at);
        if self.rules.order == Order::Prompt {
            let message = self.wire.remove(at);
            self.held.push(message.clone());
            return (*message).clone();
        }
        (*self.wire[at]).clone()
    }

    fn plan(&mut self, to: NodeId) {
        self.budget.moves -= 1;
        let Some(row) = self.row() else { return };
        let (partition, expect) = (self.rules.partition, row.expect());
        self.command(Command::SetTarget { partition, expect, to });
    }

    fn apply(&mut self, id: NodeId) {
        let at = self.applied(id);
        let Some(entry) = self.log.after(at).cloned() else { return };
        let index = narad_core::ids::LogIndex(at + 1);
        self.tell(id, Event::Committed { index, entry });
        self.answer_barriers(id);
    }

    fn perform_pending(&mut self, id: NodeId, at: u8) {
        let process = self.edit_process(id);
        let op = process.running.keys().nth(usize::from(at)).copied().expect("it is enabled");
        let Some(Running::Pending(operation)) = process.running.remove(&op) else {
            unreachable!("only what is pending is performed")
        };
        let mut events = VecDeque::new();
        if let Some(outcome) = self.perform(id, op, operation, &mut events) {
            events.push_back(Event::Done(op, outcome));
        }
        for event in events {
            self.tell(id, event);
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Request { from, op, to, request } => {
                let Some(process) = self.edit(to).process.as_mut() else {
                    return self.done(from, op, Outcome::Call(Err(CallFault::Unreachable)));
                };
                let free = |id: &u64| !process.asked.contains_key(id);
                let id = (1..).find(free).expect("few questions are open");
                process.asked.insert(id, (from, op));
                let (id, from) = (RequestId(id), Some(from));
                self.tell(to, Event::Request { id, from, request });
            }
            Message::Answer { to, op, answer, .. } => {
                let asked = self.process(to).and_then(|process| process.running.get(&op));
                if let (Answer::Listing(_), Some(Running::Called(Some(plan)))) = (&answer, asked)
                    && !self.ghost.sessions.contains(plan)
                {
                    let plan = *plan;
                    self.ghost.edit().sessions.push(plan);
                }
                self.done(to, op, Outcome::Call(Ok(answer)));
            }
            Message::Proposal { from, op, entry } => {
                let reply = self.commit(&entry);
                self.tell_story(|| format!("the log says {}", tell::reply(&reply)));
                self.done(from, op, Outcome::Call(Ok(Answer::Accepted)));
            }
        }
    }

    /// Whoever waits for a message, or for its answer, is told that none came.
    fn time_out(&mut self, message: &Message) {
        if let Message::Proposal { from, entry, .. } = message
            && let Command::CompleteMove { attempt, .. } = &entry.command
            && self.is_breaking(Breakage::UnknownIsFailed)
        {
            self.edit(*from).area.installed.remove(attempt);
        }
        let (asker, op) = message.asker();
        self.done(asker, op, Outcome::Call(Err(CallFault::TimedOut)));
    }

    fn admit(&mut self, id: NodeId) {
        self.budget.records -= 1;
        let (now, produced) = (self.now, self.ghost.produced + 1);
        self.ghost.edit().produced = produced;
        let unguarded = self.is_breaking(Breakage::CheckThenAppend);
        let process = self.edit_process(id);
        let (before, authority) = (process.gate.clone(), process.authority);
        let admitted = if unguarded {
            before.clone().admit(now, authority, None)
        } else {
            process.gate.admit(now, authority, None)
        };
        let epoch = admitted.expect("it is enabled").epoch();
        let (content, durable, slow) = (produced, None, false);
        let append = Append { before, at: now, authority, epoch, content, durable, slow };
        process.append = Some(append);
        if !self.is_fine() {
            self.write(id);
        }
    }

    fn write(&mut self, id: NodeId) {
        self.check_append(id, "appends a record");
        let Some(append) = self.process(id).and_then(|process| process.append.clone()) else {
            return;
        };
        let end = self.edit_live(id).map(|log| log.append(append.content, append.epoch));
        if let Some(append) = &mut self.edit_process(id).append {
            append.durable = end;
        }
    }

    fn acknowledge(&mut self, id: NodeId) {
        let now = self.now;
        let unguarded = self.is_breaking(Breakage::CheckThenAppend);
        let process = self.edit_process(id);
        let Some(append) = process.append.take() else { return };
        let end = append.durable.expect("it is acknowledged once it is durable");
        let mut before = append.before;
        let admission = before.admit(append.at, append.authority, None).expect("as it did then");
        let mut signals = Effects::default();
        let (outcome, authority) = (Appended::Durable { end: Offset(end) }, process.authority);
        let judged = if unguarded {
            before.recheck(now, authority, admission, outcome, &mut signals)
        } else {
            process.gate.recheck(now, authority, admission, outcome, &mut signals)
        };
        if let Ok(acknowledged) = judged {
            let (content, epoch) = (append.content, acknowledged.epoch);
            if let Some(log) = self.edit_live(id) {
                log.hwm = acknowledged.hwm.0;
            }
            self.may_show(epoch, acknowledged.hwm.0);
            self.ghost.edit().acked.push(Acked { content, epoch, owner: id });
            self.check_epoch_of_ack(id, epoch);
        } else {
            self.tell_story(|| format!("{id:?} does not acknowledge it"));
        }
        let mut events = VecDeque::new();
        self.signalled(id, signals, &mut events);
        for event in events {
            self.tell(id, event);
        }
    }

    /// Produces one record from its beginning to its end.
    pub(super) fn produce_one(&mut self, id: NodeId) {
        self.admit(id);
        if self.is_fine() {
            self.write(id);
        }
        self.acknowledge(id);
    }

    pub(super) fn is_dead(&self, id: NodeId) -> bool {
        self.member(id).is_some_and(|member| matches!(member.status, Status::Dead(_)))
    }
}
