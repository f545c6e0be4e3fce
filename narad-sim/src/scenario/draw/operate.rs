//! What operators do in a drawn scenario.

use std::time::Duration;

use super::{Bias, Draft, at};
use crate::scenario::cluster::PolicyChange;
use crate::scenario::name::{TopicName, Who};
use crate::scenario::step::When;
use crate::scenario::{Action, Machine};

/// Something that an operator does at a time.
type Operate<'c> = fn(&mut Draft<'c>, When);

impl<'c> Draft<'c> {
    /// Has something move early, and again and again.
    pub(super) fn operators(&mut self) {
        let end = self.safety_ms() * 4 / 5;
        let busy = if self.leans(Bias::Membership) { 2_500 } else { 6_000 };
        let mut now = self.dice.within(3, 20) * 100;
        let mut first = true;
        while now < end {
            let when = When::at(Duration::from_millis(now));
            self.operate(when, first);
            first = false;
            now += self.dice.within(8, busy / 100) * 100;
        }
    }

    fn operate(&mut self, when: When, first: bool) {
        let membership = if self.leans(Bias::Membership) { 3 } else { 1 };
        let topics = if self.leans(Bias::Topics) { 6 } else { 1 };
        // The first one is a move, or makes the planner move something.
        let weights: [(u64, Operate<'c>); 10] = [
            (10, Self::operate_move),
            (4 * membership, Self::operate_drain),
            (3 * membership, Self::operate_join),
            (if first { 0 } else { 3 * membership }, Self::operate_cancel),
            (if first { 0 } else { 3 }, Self::operate_abort),
            (if first { 0 } else { 2 }, Self::operate_unpin),
            (if first { 0 } else { 2 }, Self::operate_transfer),
            (u64::from(!first), Self::operate_policy),
            (if first { 0 } else { topics }, Self::operate_topic),
            (u64::from(!first), Self::operate_restart),
        ];
        let total: u64 = weights.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.dice.below(total);
        for (weight, act) in weights {
            if drawn < weight {
                act(self, when);
                return;
            }
            drawn -= weight;
        }
    }

    pub(super) fn operate_move(&mut self, when: When) {
        let (partition, to) = (self.partition(), self.member());
        self.push(at(when, Action::Move { partition, to, through: None }));
    }

    fn operate_drain(&mut self, when: When) {
        let node = self.founder();
        if !self.draining.contains(&node) {
            self.draining.push(node);
        }
        self.push(at(when, Action::Drain { node: Who::Node(node), through: None }));
    }

    fn operate_join(&mut self, when: When) {
        match self.spares.pop() {
            Some(node) => {
                let through = self.anyone();
                self.push(at(when, Action::Join { node, through }));
            }
            None => self.operate_move(when),
        }
    }

    fn operate_cancel(&mut self, when: When) {
        match self.draining.pop() {
            Some(node) => {
                self.push(at(when, Action::Cancel { node: Who::Node(node), through: None }));
            }
            None => self.operate_drain(when),
        }
    }

    fn operate_abort(&mut self, when: When) {
        let partition = self.partition();
        self.push(at(when, Action::Abort { partition, through: None }));
    }

    fn operate_unpin(&mut self, when: When) {
        let partition = self.partition();
        self.push(at(when, Action::Unpin { partition }));
    }

    fn operate_transfer(&mut self, when: When) {
        self.push(at(when, Action::Transfer { to: Who::Follower }));
    }

    fn operate_policy(&mut self, when: When) {
        let mut set = PolicyChange::none();
        match self.dice.below(4) {
            0 => set.max_in_flight = Some(*self.dice.pick(&[1, 2, 8])),
            1 => set.paused = Some(self.dice.happens(50)),
            // Shorter than the lease allows: it must be refused.
            2 => set.force_promote_after = Some(Duration::from_millis(100)),
            _ => {
                let leases = [Duration::from_secs(3), Duration::from_secs(2)];
                set.lease = Some(*self.dice.pick(&leases));
            }
        }
        self.push(at(when, Action::Policy { set }));
    }

    /// Deletes a topic, and makes another of the same name.
    fn operate_topic(&mut self, when: When) {
        let which = self.dice.below(self.scenario.topics.len() as u64);
        let topic = &self.scenario.topics[usize::try_from(which).unwrap_or(0)];
        let (topic, partitions) = (TopicName(topic.name.0.clone()), topic.partitions);
        let later = self.dice.millis_by_100(100, 3_000);
        self.push(at(when.clone(), Action::DeleteTopic { topic: topic.clone() }));
        let again = When { at: when.at.map(|at| at + later), ..when };
        self.push(at(again, Action::CreateTopic { topic, partitions, parent: None }));
    }

    /// A rolling restart of all nodes.
    pub(super) fn operate_restart(&mut self, when: When) {
        let (pause, down) =
            (self.dice.millis_by_100(500, 2_500), self.dice.millis_by_100(100, 1_500));
        let mut due = when.at.unwrap_or_default();
        for number in 1..=self.scenario.cluster.nodes {
            if due > self.scenario.head.safety {
                return;
            }
            let node = Who::Node(Machine(number));
            self.push(at(When::at(due), Action::Stop { node, lasting: Some(down) }));
            due += down + pause;
        }
    }

    /// Any machine that takes part by now.
    fn member(&mut self) -> Who {
        let first_spare = self.spares.first().map_or(u32::MAX, |spare| spare.0);
        let all = self.scenario.cluster.machines();
        let joined: Vec<Machine> = (1..=all)
            .filter(|number| *number < first_spare || !self.spares.contains(&Machine(*number)))
            .map(Machine)
            .collect();
        Who::Node(*self.dice.pick(&joined))
    }
}
