//! What each event does.

use std::collections::VecDeque;

use narad_core::effects::Effects;
use narad_core::freeze::gate::Appended;
use narad_core::ids::{Attempt, LogIndex, NodeId, Offset};
use narad_core::metastore::{Applied, Command, Reply, Status};
use narad_core::node::{CallFault, Event, Loss, Outcome};
use narad_core::peer::{Answer, RequestId};

use super::action::{Action, node};
use super::world::{Acked, Append, Message, Running, World};
use super::{Breakage, Order, tell};

impl World {
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
            Action::Declare => {
                self.budget.declares -= 1;
                self.declare_lost();
            }
            Action::Delete => {
                self.budget.deletes -= 1;
                let topic = self.rules.partition.topic;
                self.command(Command::DeleteTopic { topic });
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
        let index = LogIndex(at + 1);
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
        if let Some(outcome) = self.perform(id, op, *operation, &mut events) {
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
                // The smallest name that is free, so that equal worlds use equal names.
                let free = |id: &u64| !process.asked.contains_key(id);
                let questions = process.asked.len() as u64;
                let id = (1..=questions + 1).find(free).expect("one more than there are");
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

    /// Returns what a node that knows everything would have an operator give up.
    pub(super) fn loss(&self) -> Option<Loss> {
        let last = self.log.last();
        let mut fresh = self.nodes().filter(|id| self.applied(*id) == last);
        let asked = fresh.find_map(|id| self.process(id))?;
        asked.node.loss(self.rules.partition).ok()
    }

    fn declare_lost(&mut self) {
        let (Some(Loss { generation, to, end, .. }), Some(row)) = (self.loss(), self.row()) else {
            return;
        };
        let data = Attempt { move_id: row.move_id, ..Attempt::birth(to) };
        let (partition, expect) = (self.rules.partition, row.expect());
        let receipt = "accepted".to_owned();
        let declare =
            Command::DeclareLost { partition, expect, generation, to, data, end, receipt };
        if let Reply::Applied(Applied::Won(epoch)) = self.command(declare) {
            self.may_show(epoch, end.0);
            self.ghost.edit().declared = epoch;
        }
    }

    pub(super) fn is_dead(&self, id: NodeId) -> bool {
        self.member(id).is_some_and(|member| matches!(member.status, Status::Dead(_)))
    }
}
