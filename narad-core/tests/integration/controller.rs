//! The leader's policy alone: a state made by commands, a clock in the test's hand, and every
//! operation answered by the test.

mod deaths;
mod passes;
mod voters;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use narad_core::config::{Config, Policy};
use narad_core::controller::{Controller, Effect, Event, Note, Operation, Outcome, Survey};
use narad_core::effects::{Effects, OpId};
use narad_core::ids::*;
use narad_core::metastore::*;
use narad_core::proposals::Proposed;
use narad_core::time::Instant;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A controller on node 1, which leads.
pub(crate) struct Bench {
    pub(crate) controller: Controller,
    pub(crate) state: State,
    pub(crate) now: Instant,
    pub(crate) out: Effects<Effect>,
    pub(crate) notes: Vec<Note>,
    /// How far each replica has come; those that are not here have everything.
    pub(crate) matched: BTreeMap<NodeId, LogIndex>,
    sequence: u64,
}

impl Bench {
    /// Nodes 1 to `nodes`: registered, alive, voting.
    pub(crate) fn new(nodes: u64) -> Self {
        Self::with(nodes, Config::new(1))
    }

    pub(crate) fn with(nodes: u64, config: Config) -> Self {
        let mut bench = Self::configured(nodes, config);
        bench.tell(Event::Leading(true));
        bench
    }

    pub(crate) fn unled(nodes: u64) -> Self {
        Self::configured(nodes, Config::new(1))
    }

    fn configured(nodes: u64, config: Config) -> Self {
        let mut bench = Self {
            controller: Controller::new(NodeId(1), Incarnation(1), config),
            state: State::new(),
            now: Instant::from_origin(SECOND * 1_000),
            out: Effects::default(),
            notes: vec![],
            matched: BTreeMap::new(),
            sequence: 0,
        };
        for id in 1..=nodes {
            bench.join(id);
            bench.register(id, 1);
        }
        bench.vote(1..=nodes, []);
        bench
    }

    pub(crate) fn apply(&mut self, by: u64, command: Command) -> Reply {
        self.sequence += 1;
        let proposal =
            ProposalId { node: NodeId(by), incarnation: Incarnation(1), sequence: self.sequence };
        let index = LogIndex(self.state.applied().0 + 1);
        let entry = Entry { proposal, by: NodeId(by), command };
        let narad_core::metastore::Outcome { reply, changed } =
            self.state.apply(index, &entry).unwrap();
        self.controller.changed(index, &changed);
        reply
    }

    pub(crate) fn done(&mut self, by: u64, command: Command) {
        let reply = self.apply(by, command);
        assert!(matches!(reply, Reply::Applied(_)), "{reply:?}");
    }

    pub(crate) fn join(&mut self, id: u64) {
        let name = Name::new(format!("narad-{id}")).unwrap();
        let (store_uuid, addrs) = (StoreUuid(id.into()), Addresses::default());
        self.done(1, Command::Join { name, store_uuid, addrs });
    }

    pub(crate) fn register(&mut self, id: u64, life: u64) {
        let (store_uuid, addrs) = (StoreUuid(id.into()), Addresses::default());
        let (node, incarnation) = (NodeId(id), Incarnation(life));
        self.done(id, Command::Register { node, store_uuid, incarnation, addrs });
    }

    pub(crate) fn vote(
        &mut self,
        voters: impl IntoIterator<Item = u64>,
        learners: impl IntoIterator<Item = u64>,
    ) {
        let configuration = Configuration {
            voters: voters.into_iter().map(NodeId).collect(),
            learners: learners.into_iter().map(NodeId).collect(),
            ..Configuration::default()
        };
        let index = LogIndex(self.state.applied().0 + 1);
        let changed = self.state.configure(index, configuration).unwrap();
        self.controller.changed(index, &changed);
    }

    pub(crate) fn topic(
        &mut self,
        name: &str,
        partitions: u32,
        parent: Option<TopicId>,
    ) -> TopicId {
        let name = Name::new(name).unwrap();
        match self.apply(1, Command::CreateTopic { name, partitions, parent }) {
            Reply::Applied(Applied::Created(topic)) => topic,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn policy(&mut self, change: impl FnOnce(&mut Policy)) {
        let mut policy = self.state.policy().clone();
        change(&mut policy);
        self.done(1, Command::SetPolicy(policy));
    }

    pub(crate) fn drain_out(&mut self, id: u64) {
        let node = NodeId(id);
        self.done(1, Command::SetDraining { node, on: true });
        let member = self.state.member(node).unwrap();
        let (incarnation, drain) = (member.incarnation, member.drains);
        self.done(id, Command::DrainedOut { node, incarnation, drain });
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.controller.handle(self.now, &self.state, event, &mut self.out);
    }

    pub(crate) fn hear(&mut self, id: u64) {
        self.hear_stuck(id, []);
    }

    pub(crate) fn hear_stuck(
        &mut self,
        id: u64,
        stuck: impl IntoIterator<Item = (PartitionId, MoveId)>,
    ) {
        let node = NodeId(id);
        let incarnation = self.state.member(node).unwrap().incarnation;
        let stuck: BTreeSet<_> = stuck.into_iter().collect();
        self.tell(Event::Heard { node, incarnation, stuck });
    }

    /// Lets time pass in small steps, as a process does that is awake.
    pub(crate) fn wait(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.now < end {
            self.now = self.now.after(SECOND / 2).min(end);
            if self.controller.deadline().is_some_and(|due| due.at <= self.now) {
                self.tell(Event::Wake);
            }
        }
    }

    /// Takes what was asked for since the last time.
    pub(crate) fn asked(&mut self) -> Vec<(OpId, Operation)> {
        let mut asked = vec![];
        for effect in self.out.drain() {
            match effect {
                Effect::Run(op, operation) => asked.push((op, operation)),
                Effect::Note(note) => self.notes.push(note),
            }
        }
        asked
    }

    fn survey(&self) -> Survey {
        let all = self.state.members().map(|member| (member.id, self.state.applied()));
        let mut matched: BTreeMap<NodeId, LogIndex> = all.collect();
        matched.extend(&self.matched);
        Survey::behind_barrier(self.state.applied(), matched)
    }

    /// Makes a pass and returns what it asks for; nothing of it is answered.
    pub(crate) fn pass(&mut self) -> Vec<(OpId, Operation)> {
        let mut asked = self.asked();
        for _ in 0..5 {
            if let Some((op, Operation::Survey)) = asked.first() {
                let survey = Some(self.survey());
                self.tell(Event::Done(*op, Outcome::Survey(survey)));
                return self.asked();
            }
            assert!(asked.is_empty(), "the pass before is not over: {asked:?}");
            let due = self.controller.deadline().expect("it leads").at;
            self.now = self.now.max(due);
            self.tell(Event::Wake);
            asked = self.asked();
        }
        panic!("no pass begins");
    }

    /// Makes a pass whose commands are applied, and returns what it asked for.
    pub(crate) fn work(&mut self) -> Vec<Operation> {
        let asked = self.pass();
        for (op, operation) in &asked {
            let outcome = match operation {
                Operation::Propose(command) => {
                    let reply = self.apply(1, command.clone());
                    Outcome::Propose(Proposed::Replied(reply))
                }
                Operation::Configure(_) => Outcome::Configure(true),
                Operation::Transfer { .. } => Outcome::Transfer,
                Operation::Survey => unreachable!("a pass is not a survey"),
            };
            self.tell(Event::Done(*op, outcome));
        }
        asked.into_iter().map(|(_, operation)| operation).collect()
    }
}

pub(crate) fn commands(asked: &[Operation]) -> Vec<Command> {
    let command = |operation: &Operation| match operation {
        Operation::Propose(command) => Some(command.clone()),
        Operation::Survey | Operation::Configure(_) | Operation::Transfer { .. } => None,
    };
    asked.iter().filter_map(command).collect()
}
