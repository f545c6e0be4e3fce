//! A log and those who listen to it.

use std::collections::{BTreeMap, BTreeSet};

use narad_core::config::{Config, Policy};
use narad_core::effects::{Effects, OpId};
use narad_core::ids::{Incarnation, Name, PartitionId, ProposalId, StoreUuid, TopicId};
use narad_core::metastore::{Addresses, Command};
use narad_core::node::{Effect, Event, Identity, Node, Outcome};
use narad_core::time::Instant;

use super::super::*;
use crate::metastore::founded;

/// How many machines there may be.
pub(super) const NODES: u64 = 5;

const MILLI: u64 = 1_000_000;

pub(super) fn n(id: u64) -> NodeId {
    NodeId(id)
}

pub(super) fn who(node: NodeId) -> (Name, StoreUuid, Addresses) {
    let name = Name::new(format!("{node}")).expect("it is a name");
    (name, StoreUuid(node.0.into()), Addresses::default())
}

pub(super) fn entry(sequence: u64) -> Entry {
    let proposal = ProposalId { node: n(900), incarnation: Incarnation(1), sequence };
    let partition = PartitionId { topic: TopicId(0), index: 0 };
    Entry { proposal, by: n(900), command: Command::SetPin { partition, on: true } }
}

/// An operation's name, which only a node can give.
pub(super) fn op(number: u64) -> OpId {
    let (name, store_uuid, addrs) = who(n(1));
    let me = Identity { node: n(1), name, store_uuid, addrs };
    let (life, state) = (Incarnation(number), founded([n(1)], &Policy::default(), who));
    let mut out = Effects::default();
    let held = [PartitionId { topic: TopicId(1), index: 0 }].into();
    let mut node = Node::new(Instant::ORIGIN, me, life, Config::new(1), state, held, &mut out);
    node.handle(Instant::ORIGIN, Event::Leader(Some(n(1))), &mut out);
    loop {
        let named = out.drain().find_map(|effect| match effect {
            Effect::Run(op, _) => Some(op),
            _ => None,
        });
        if let Some(op) = named {
            return op;
        }
        let due = node.deadline().expect("it is not registered yet");
        node.handle(due.at, Event::Wake, &mut out);
    }
}

#[derive(Debug, Default)]
pub(super) struct Wires {
    pub(super) cut: BTreeSet<(NodeId, NodeId)>,
    pub(super) paused: BTreeSet<NodeId>,
}

impl Reach for Wires {
    fn talks(&self, a: NodeId, b: NodeId) -> bool {
        !self.cut.contains(&(a.min(b), a.max(b)))
    }

    fn is_up(&self, node: NodeId) -> bool {
        !self.paused.contains(&node)
    }
}

/// One process, as far as the log matters.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) applied: LogIndex,
    pub(super) believes: Option<NodeId>,
    /// What was committed when each barrier began.
    pub(super) barriers: BTreeMap<OpId, LogIndex>,
}

/// A log and those who listen to it; every check is made when something is told.
pub(super) struct World {
    pub(super) log: AbstractLog,
    pub(super) wires: Wires,
    pub(super) now: Time,
    pub(super) processes: BTreeMap<NodeId, Process>,
    /// Where the log begins.
    born: LogIndex,
    /// What each index was to whoever was told of it.
    pub(super) history: BTreeMap<LogIndex, Event>,
    pub(super) restored: Vec<State>,
    /// Entries that a leader with a majority took.
    pub(super) taken: Vec<u64>,
    pub(super) entries: u64,
    pub(super) ops: u64,
    pub(super) passed: u64,
    pub(super) saved: Option<Durable>,
}

impl World {
    pub(super) fn new(voters: u64, faults: Faults, seed: u64) -> Self {
        let genesis = founded((1..=voters).map(n), &Policy::default(), who);
        let pace = Pace { snapshot_entries: 8, keep_entries: 4, ..Pace::default() };
        let mut world = Self {
            born: genesis.applied(),
            log: AbstractLog::new(genesis, pace, faults, &Random::root(seed)),
            wires: Wires::default(),
            now: Time::ZERO,
            processes: BTreeMap::new(),
            history: BTreeMap::new(),
            restored: Vec::new(),
            taken: Vec::new(),
            entries: 0,
            ops: 0,
            passed: 0,
            saved: None,
        };
        for id in 1..=voters {
            world.start(n(id));
        }
        world.run(3_000);
        world
    }

    pub(super) fn start(&mut self, node: NodeId) {
        if self.processes.contains_key(&node) {
            return;
        }
        let state = self.log.start(self.now, node, &self.wires);
        let applied = state.applied();
        self.restored.push(state);
        let process = Process { applied, believes: None, barriers: BTreeMap::new() };
        self.processes.insert(node, process);
    }

    pub(super) fn stop(&mut self, node: NodeId) {
        if self.processes.remove(&node).is_some() {
            self.log.stop(self.now, node, &self.wires);
        }
    }

    pub(super) fn run(&mut self, millis: u64) {
        let end = Time(self.now.0 + millis * MILLI);
        loop {
            while let Some(output) = self.log.poll(self.now, &self.wires) {
                self.take(output);
            }
            let next = self.log.next_due();
            assert!(next > self.now, "what is due is done");
            if next > end {
                break;
            }
            self.now = next;
        }
        self.now = end;
    }

    pub(super) fn take(&mut self, output: Output) {
        let (node, event) = match output {
            Output::Tell { node, event } => (node, *event),
            Output::Led { .. } => return,
        };
        assert!(self.wires.is_up(node), "{node:?} is paused: {event:?}");
        let process = self.processes.get_mut(&node).expect("only a running node is told");
        let index = match &event {
            Event::Committed { index, .. }
            | Event::Configured { index, .. }
            | Event::Skipped { index } => *index,
            Event::Restored(state) => {
                assert!(state.applied() > process.applied, "a snapshot goes forwards");
                assert!(state.configuration().contains(node), "a snapshot names its receiver");
                let told = self.history.keys().next_back().copied().unwrap_or_default();
                assert!(state.applied() <= told.max(self.born), "somebody was there");
                process.applied = state.applied();
                self.restored.push(State::clone(state));
                return;
            }
            Event::Leader(leader) => {
                assert_ne!(process.believes, *leader, "{node:?} is told nothing new");
                process.believes = *leader;
                return;
            }
            Event::Done(op, outcome) => {
                let began = process.barriers.remove(op).expect("it waits for that");
                let (Outcome::Barrier(Some(index)) | Outcome::Survey(Some((index, _)))) = outcome
                else {
                    panic!("{outcome:?}");
                };
                assert!(*index >= began, "{node:?} misses what was committed before");
                assert!(process.applied >= *index, "{node:?} has not applied it");
                self.passed += 1;
                return;
            }
            other => panic!("{other:?} is not of the log"),
        };
        assert_eq!(index.0, process.applied.0 + 1, "{node:?} is told in order, once");
        process.applied = index;
        let known = self.history.entry(index).or_insert_with(|| event.clone());
        assert_eq!(*known, event, "all are told the same");
    }

    pub(super) fn append(&mut self, node: NodeId) -> bool {
        let Some(process) = self.processes.get(&node) else { return false };
        let believes = process.believes == Some(node);
        self.entries += 1;
        let leads = self.log.leader() == Some(node) && self.log.fit_leader(&self.wires).is_some();
        let taken = self.log.append(self.now, node, entry(self.entries), &self.wires);
        assert_eq!(taken, believes, "who believes that it leads appends");
        if taken && leads {
            self.taken.push(self.entries);
        }
        taken
    }

    pub(super) fn barrier(&mut self, node: NodeId, is_survey: bool) {
        if let Some(process) = self.processes.get_mut(&node) {
            self.ops += 1;
            let op = op(self.ops);
            process.barriers.insert(op, self.log.last());
            self.log.barrier(self.now, node, op, is_survey);
        }
    }

    pub(super) fn changed(&mut self) {
        self.log.reach_changed(self.now, &self.wires);
    }

    /// Makes everything whole, and lets it come to rest.
    pub(super) fn heal(&mut self) {
        self.log.set_faults(Faults::default());
        self.wires = Wires::default();
        for node in (1..=NODES).map(n) {
            self.log.release(self.now, node);
            self.log.set_lag(self.now, node, Duration::ZERO);
            self.start(node);
        }
        self.changed();
        self.run(60_000);
    }

    /// Returns how often each entry was committed.
    pub(super) fn committed(&self) -> BTreeMap<u64, u32> {
        let mut count = BTreeMap::new();
        for event in self.history.values() {
            if let Event::Committed { entry, .. } = event {
                *count.entry(entry.proposal.sequence).or_default() += 1;
            }
        }
        count
    }

    /// Every snapshot is what the entries before it come to; what nobody was told of may be
    /// anything.
    pub(super) fn check_snapshots(&mut self) {
        self.restored.sort_by_key(State::applied);
        let mut folded = State::new();
        for restored in std::mem::take(&mut self.restored) {
            while folded.applied() < restored.applied() {
                let index = LogIndex(folded.applied().0 + 1);
                match self.history.get(&index) {
                    Some(Event::Committed { entry, .. }) => {
                        folded.apply(index, entry).expect("it is known");
                    }
                    Some(Event::Configured { configuration, .. }) => {
                        folded.configure(index, configuration.clone()).expect("it is next");
                    }
                    Some(Event::Skipped { .. }) => folded.skip(index).expect("it is next"),
                    _ => folded = restored.clone(),
                }
            }
            assert_eq!(folded, restored);
        }
    }

    pub(super) fn check_at_rest(&mut self) {
        let leader = self.log.leader().expect("all are up");
        let configuration = self.log.state().configuration().clone();
        for (node, process) in &self.processes {
            if configuration.contains(*node) {
                assert_eq!(process.applied, self.log.last(), "{node:?} has caught up");
                assert_eq!(process.believes, Some(leader), "{node:?} knows the leader");
                assert!(process.barriers.is_empty(), "{node:?}: every barrier has passed");
            }
        }
        self.check_snapshots();
    }
}
