//! What may happen next.

use narad_core::host;
use narad_core::ids::NodeId;
use narad_core::metastore::Member;
use narad_core::node::Operation;

use super::Order;
use super::world::{Message, Running, World, policy};

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
    /// An operator gives up what the dead owner has.
    Declare,
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
    /// An operator deletes the topic.
    Delete,
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
            | Self::Delete
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
            | Self::Declare
            | Self::Pause => false,
        }
    }
}

fn small(number: usize) -> u8 {
    u8::try_from(number).expect("a small world")
}

pub(super) fn node(number: u8) -> NodeId {
    NodeId(number.into())
}

pub(super) fn number(node: NodeId) -> u8 {
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
        if quiet && !self.is_at_rest() {
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
        if self.row().is_some() {
            faults.push((budget.deletes, Action::Delete));
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
    fn must_wait(&self, id: NodeId, operation: &Operation) -> bool {
        matches!(operation, Operation::Host(_, host::Operation::Close))
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
        if self.loss().is_some() {
            if self.budget.declares > 0 {
                actions.push(Action::Declare);
            } else {
                *cut += 1;
            }
        }
        let is_first = |at: &usize| *at == 0 || self.held[*at].name() != self.held[*at - 1].name();
        let late = (0..self.held.len()).filter(is_first).map(small);
        actions.extend(late.map(Action::Arrive));
        let Some(row) = self.row().filter(|row| row.target.is_none()) else { return };
        for to in self.nodes().filter(|to| *to != row.owner) {
            if self.budget.moves == 0 {
                *cut += 1;
            } else if self.member(to).is_some_and(Member::is_receiver) {
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
}
