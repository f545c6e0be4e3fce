//! How a process starts and ends.

use std::collections::BTreeMap;

use narad_core::effects::Effects;
use narad_core::freeze::Authority;
use narad_core::freeze::gate::Gate;
use narad_core::ids::{Attempt, Incarnation, NodeId};
use narad_core::node::{CallFault, Event, Node, Outcome};

use super::Breakage;
use super::disk::Directory;
use super::world::{LOG, Message, Process, World, config, identity};

impl World {
    /// Starts the process of a node. A start takes until it has registered, or said that it will.
    pub(super) fn start(&mut self, id: NodeId) {
        let (now, rash) = (self.now, self.is_breaking(Breakage::ServeUnregistered));
        let partition = self.rules.partition;
        let machine = self.edit(id);
        machine.incarnation += 1;
        let life = Incarnation(machine.incarnation);
        let held = Some(partition).filter(|_| !machine.area.is_empty()).into_iter().collect();
        let mut out = Effects::default();
        let snapshot = *machine.snapshot.take().expect("a machine without a process has one");
        let node = Node::new(now, identity(id), life, config(id), snapshot, held, &mut out);
        machine.process = Some(Process {
            node,
            gate: Gate::new(partition),
            open: None,
            authority: Authority::NONE,
            running: BTreeMap::new(),
            asked: BTreeMap::new(),
            append: None,
        });
        self.carry_out(id, out);
        if rash {
            self.serve_unregistered(id);
        }
        self.tell(id, Event::Leader(Some(LOG)));
        let first = self.process(id).and_then(|process| process.node.deadline());
        if let Some(first) = first.filter(|first| first.at > now) {
            self.pass_to(first.at);
        }
    }

    /// Ends the process of a node: its memory is gone, and so is whatever was not durable.
    pub(super) fn crash(&mut self, id: NodeId) {
        let forgetful = self.is_breaking(Breakage::InstallNotDurable);
        let machine = self.edit(id);
        let mut unanswered = Vec::new();
        if let Some(process) = machine.process.take() {
            machine.snapshot = Some(Box::new(process.node.state().clone()));
            unanswered.extend(process.asked.into_values());
        }
        machine.area.crash();
        machine.lagging = false;
        if forgetful {
            let born = |attempt: &Attempt| attempt.no.incarnation == Incarnation(0);
            let served = |directory: &Directory| directory.served.is_some();
            machine.area.installed.retain(|attempt, directory| born(attempt) || served(directory));
        }
        // Connections end with the process; what it has sent may still arrive.
        let is_lost =
            |message: &Message| matches!(message, Message::Answer { to, .. } if *to == id);
        self.wire.retain(|message| !is_lost(message));
        self.held.retain(|message| !is_lost(message));
        for (asker, op) in unanswered {
            self.done(asker, op, Outcome::Call(Err(CallFault::Unreachable)));
        }
    }
}
