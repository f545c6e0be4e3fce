//! The log that decides, where it is the abstract one, and how its lead is handed over.

use std::mem;
use std::time::Duration;

use narad_core::ids::NodeId;
use narad_core::node::Event;

use super::replica::Hearing;
use super::{Due, World};
use crate::metastore::{Output, Why};
use crate::time::Time;

impl World {
    /// Lets the abstract log say all that it has to say now.
    pub(super) fn poll_log(&mut self) {
        self.log_due = Time::NEVER;
        loop {
            let hearing = Hearing { net: &self.net, up: &self.up, by_node: &self.by_node };
            let Some(log) = self.log.as_mut() else { return };
            let Some(output) = log.poll(self.now, &hearing) else { break };
            match output {
                Output::Tell { node, event } => self.tell_of_log(node, event),
                Output::Led { .. } => {}
            }
        }
        self.plan_log();
    }

    fn tell_of_log(&mut self, node: NodeId, event: Box<Event>) {
        let Some(machine) = self.machine_of(node) else { return };
        if self.machines[machine].process.is_none() {
            return;
        }
        let is_entry = matches!(
            *event,
            Event::Committed { .. }
                | Event::Configured { .. }
                | Event::Skipped { .. }
                | Event::Restored(_)
        );
        if is_entry {
            self.applied(machine, Event::clone(&event));
        }
        self.tell_boxed(machine, event);
    }

    /// Sees to it that the abstract log is asked when it has something to say.
    pub(super) fn plan_log(&mut self) {
        let Some(log) = &self.log else { return };
        let due = log.next_due().max(self.now);
        if due < self.log_due {
            self.log_due = due;
            self.schedule(due, Due::Log);
        }
    }

    /// Plans the next change of leaders by chance, if the scenario has such.
    pub(super) fn plan_election(&mut self) {
        let per_minute = self.setup.scenario.abstract_log.elections_per_minute.0;
        if self.log.is_none() || per_minute <= 0.0 || self.is_live_phase {
            return;
        }
        let mean = Duration::from_secs_f64(60.0 / per_minute);
        let pause = self.chance.duration(mean / 4..=mean * 7 / 4);
        self.schedule(self.now.after(pause), Due::Election);
    }

    pub(super) fn change_leader(&mut self) {
        if self.is_live_phase {
            return;
        }
        let hearing = Hearing { net: &self.net, up: &self.up, by_node: &self.by_node };
        if let Some(log) = self.log.as_mut() {
            log.unseat(self.now, None, Why::Chance, &hearing);
        }
        self.plan_election();
        self.plan_log();
    }

    /// Has the lead handed over, behind the controller's back.
    pub(super) fn transfer(&mut self, machine: usize, to: NodeId) {
        let now = self.now;
        let it = &mut self.machines[machine];
        let (Some(process), Some(node)) = (&mut it.process, it.node) else { return };
        if let Some(log) = self.log.as_mut() {
            log.transfer(now, node, to);
            return self.plan_log();
        }
        let local = it.clock.local(now);
        let mut actions = mem::take(&mut self.actions);
        actions.listens = true;
        let fed = process.replica.hand_over(local, to, &mut actions);
        self.after_feeding(machine, actions, fed);
    }
}
