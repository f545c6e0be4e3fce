//! What every node is told, under any faults.

use std::collections::{BTreeMap, BTreeSet};

use narad_core::config::{Config, Policy};
use narad_core::controller::Change;
use narad_core::effects::{Effects, OpId};
use narad_core::ids::{
    Incarnation, LogIndex, Name, NodeId, PartitionId, ProposalId, StoreUuid, TopicId,
};
use narad_core::metastore::{Addresses, Command, Configuration, Entry, State};
use narad_core::node::{Effect, Event, Identity, Node, Outcome};
use narad_core::time::Instant;
use proptest::prelude::*;

use super::*;
use crate::metastore::founded;

const MILLI: u64 = 1_000_000;

fn n(id: u64) -> NodeId {
    NodeId(id)
}

fn who(node: NodeId) -> (Name, StoreUuid, Addresses) {
    let name = Name::new(format!("{node}")).expect("it is a name");
    (name, StoreUuid(node.0.into()), Addresses::default())
}

fn entry(sequence: u64) -> Entry {
    let proposal = ProposalId { node: n(900), incarnation: Incarnation(1), sequence };
    let partition = PartitionId { topic: TopicId(0), index: 0 };
    Entry { proposal, by: n(900), command: Command::SetPin { partition, on: true } }
}

/// An operation's name, which only a node can give.
fn op(number: u64) -> OpId {
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
struct Wires {
    cut: BTreeSet<(NodeId, NodeId)>,
    paused: BTreeSet<NodeId>,
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
struct Process {
    applied: LogIndex,
    believes: Option<NodeId>,
    /// What was committed when each barrier began.
    barriers: BTreeMap<OpId, LogIndex>,
}

/// A log and those who listen to it; every check is made when something is told.
struct World {
    log: AbstractLog,
    wires: Wires,
    now: Time,
    processes: BTreeMap<NodeId, Process>,
    /// What each index was to whoever was told of it.
    history: BTreeMap<LogIndex, Event>,
    restored: Vec<State>,
    /// Entries that a leader with a majority took.
    taken: Vec<u64>,
    entries: u64,
    ops: u64,
    passed: u64,
    saved: Option<Durable>,
}

impl World {
    fn new(voters: u64, faults: Faults, seed: u64) -> Self {
        let genesis = founded((1..=voters).map(n), &Policy::default(), who);
        let pace = Pace { snapshot_entries: 8, keep_entries: 4, ..Pace::default() };
        let mut world = Self {
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

    fn start(&mut self, node: NodeId) {
        if self.processes.contains_key(&node) {
            return;
        }
        let state = self.log.start(self.now, node, &self.wires);
        let applied = state.applied();
        self.restored.push(state);
        let process = Process { applied, believes: None, barriers: BTreeMap::new() };
        self.processes.insert(node, process);
    }

    fn stop(&mut self, node: NodeId) {
        if self.processes.remove(&node).is_some() {
            self.log.stop(self.now, node, &self.wires);
        }
    }

    fn run(&mut self, millis: u64) {
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

    fn take(&mut self, output: Output) {
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

    fn append(&mut self, node: NodeId) -> bool {
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

    fn barrier(&mut self, node: NodeId, is_survey: bool) {
        if let Some(process) = self.processes.get_mut(&node) {
            self.ops += 1;
            let op = op(self.ops);
            process.barriers.insert(op, self.log.last());
            self.log.barrier(self.now, node, op, is_survey);
        }
    }

    fn changed(&mut self) {
        self.log.reach_changed(self.now, &self.wires);
    }

    /// Makes everything whole, and lets it come to rest.
    fn heal(&mut self) {
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
    fn committed(&self) -> BTreeMap<u64, u32> {
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
    fn check_snapshots(&mut self) {
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

    fn check_at_rest(&mut self) {
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

#[derive(Clone, Debug)]
enum Act {
    Append(u64),
    AppendAnywhere,
    Barrier(u64, bool),
    Cut(u64, u64),
    Heal,
    Stop(u64),
    Start(u64),
    Pause(u64),
    Resume(u64),
    Unseat(Option<u64>),
    Transfer(u64),
    Hold(u64),
    Release(u64),
    Lag(u64, u64),
    Jump(u64),
    Configure(Change),
    Save(u64),
    Restore(u64),
}

const NODES: u64 = 5;

fn act() -> impl Strategy<Value = Act> {
    let node = || 1..=NODES;
    let change = prop_oneof![
        node().prop_map(|node| Change::AddLearner(n(node))),
        node().prop_map(|node| Change::Promote(n(node))),
        node().prop_map(|node| Change::Remove(n(node))),
        (node(), node())
            .prop_map(|(add, remove)| Change::Replace { add: n(add), remove: n(remove) }),
        Just(Change::LeaveJoint),
    ];
    prop_oneof![
        4 => node().prop_map(Act::Append),
        8 => Just(Act::AppendAnywhere),
        4 => (node(), any::<bool>()).prop_map(|(node, survey)| Act::Barrier(node, survey)),
        2 => (node(), node()).prop_map(|(a, b)| Act::Cut(a, b)),
        1 => Just(Act::Heal),
        1 => node().prop_map(Act::Stop),
        2 => node().prop_map(Act::Start),
        1 => node().prop_map(Act::Pause),
        1 => node().prop_map(Act::Resume),
        1 => prop::option::of(node()).prop_map(Act::Unseat),
        1 => node().prop_map(Act::Transfer),
        1 => node().prop_map(Act::Hold),
        1 => node().prop_map(Act::Release),
        1 => (node(), 0..3_000_u64).prop_map(|(node, millis)| Act::Lag(node, millis)),
        1 => node().prop_map(Act::Jump),
        2 => change.prop_map(Act::Configure),
        1 => node().prop_map(Act::Save),
        1 => node().prop_map(Act::Restore),
    ]
}

fn perform(world: &mut World, act: &Act) {
    match act {
        Act::Append(node) => {
            world.append(n(*node));
        }
        Act::AppendAnywhere => {
            if let Some(leader) = world.log.leader() {
                world.append(leader);
            }
        }
        Act::Barrier(node, is_survey) => world.barrier(n(*node), *is_survey),
        Act::Cut(a, b) if a != b => {
            world.wires.cut.insert((n(*a.min(b)), n(*a.max(b))));
            world.changed();
        }
        Act::Cut(..) => {}
        Act::Heal => {
            world.wires.cut.clear();
            world.changed();
        }
        Act::Stop(node) => world.stop(n(*node)),
        Act::Start(node) => world.start(n(*node)),
        Act::Pause(node) => {
            world.wires.paused.insert(n(*node));
            world.changed();
        }
        Act::Resume(node) => {
            world.wires.paused.remove(&n(*node));
            world.changed();
        }
        Act::Unseat(to) => {
            world.log.unseat(world.now, to.map(n), Why::Chance, &world.wires);
        }
        Act::Transfer(to) => {
            if let Some(leader) = world.log.leader() {
                world.log.transfer(world.now, leader, n(*to));
            }
        }
        Act::Hold(node) => world.log.hold(n(*node)),
        Act::Release(node) => world.log.release(world.now, n(*node)),
        Act::Lag(node, millis) => {
            world.log.set_lag(world.now, n(*node), Duration::from_millis(*millis));
        }
        Act::Jump(node) => {
            world.log.jump(world.now, n(*node), &world.wires);
        }
        Act::Configure(change) => {
            if let Some(leader) = world.log.leader() {
                world.log.configure(world.now, leader, *change, &world.wires);
            }
        }
        Act::Save(node) => world.saved = Some(world.log.save(n(*node))),
        Act::Restore(node) => {
            world.stop(n(*node));
            let durable = world.saved.clone().unwrap_or_default();
            world.log.restore(n(*node), durable);
        }
    }
}

fn faults() -> impl Strategy<Value = Faults> {
    let chance = || prop_oneof![2 => Just(0.0), 1 => Just(0.2), 1 => Just(0.8)];
    let entries = (chance(), chance(), chance(), chance());
    let nodes = (chance(), chance(), chance());
    (entries, nodes).prop_map(|((lose, late, twice, forget), (stubborn, skip, lag))| Faults {
        lose,
        late,
        twice,
        forget,
        stubborn,
        skip,
        lag,
        ..Faults::default()
    })
}

fn script() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let wait = prop_oneof![3 => 0..5_u64, 2 => 0..200_u64, 1 => 0..4_000_u64];
    prop::collection::vec((wait, act()), 0..80)
}

proptest! {
    /// S16, R41: all are told the same entries, in the same order, each once a life, or skip them
    /// with a snapshot that is what they come to; a barrier passes at no index below what was
    /// committed when it began; in the end everybody has everything.
    #[test]
    fn all_are_told_the_same(seed: u64, voters in 1..=NODES, faults in faults(), script in script()) {
        let mut world = World::new(voters, faults, seed);
        for (wait, act) in &script {
            perform(&mut world, act);
            world.run(*wait);
        }
        world.heal();
        world.check_at_rest();
    }

    /// H2, H24: an entry that a leader with a majority took is in the log once, whatever happens
    /// to nodes and links, as long as no fault of the log itself is on.
    #[test]
    fn what_a_leader_took_is_kept_unless_a_fault_is_on(seed: u64, stubborn: bool, script in script()) {
        let stubborn = f64::from(u8::from(stubborn));
        let mut world = World::new(3, Faults { stubborn, ..Faults::default() }, seed);
        for (wait, act) in &script {
            // What nobody is told one by one is not in the history either.
            if !matches!(act, Act::Jump(_)) {
                perform(&mut world, act);
                world.run(*wait);
            }
        }
        world.heal();
        world.check_at_rest();
        let skipped = world.history.len() as u64 + 5 < world.log.last().0;
        let committed = world.committed();
        for taken in &world.taken {
            prop_assert!(skipped || committed.get(taken) == Some(&1), "{taken}");
        }
    }

    /// S17: the same seed and script tell the same.
    #[test]
    fn a_seed_means_the_same_twice(seed: u64, faults in faults(), script in script()) {
        let run = || {
            let mut world = World::new(3, faults, seed);
            for (wait, act) in &script {
                perform(&mut world, act);
                world.run(*wait);
            }
            (world.history, world.log.next_due(), world.log.planned)
        };
        prop_assert_eq!(run(), run());
    }
}

fn quiet() -> World {
    World::new(3, Faults::default(), 1)
}

fn leader(world: &World) -> NodeId {
    world.log.leader().expect("somebody leads")
}

/// A world in which nothing happens costs nothing.
#[test]
fn nothing_is_due_while_nothing_happens() {
    let mut world = quiet();
    assert_eq!(world.log.next_due(), Time::NEVER);
    assert!(world.append(leader(&world)));
    world.run(1_000);
    assert_eq!(world.log.next_due(), Time::NEVER);
    assert_eq!(world.committed().get(&1), Some(&1));
}

/// H24: a leader that is cut off goes on believing, and what it appends is lost.
#[test]
fn a_deposed_leader_goes_on_believing() {
    let mut world = World::new(3, Faults { stubborn: 1.0, ..Faults::default() }, 1);
    let old = leader(&world);
    for other in (1..=3).map(n).filter(|other| *other != old) {
        world.wires.cut.insert((old.min(other), old.max(other)));
    }
    world.changed();
    world.run(60_000);
    let new = leader(&world);
    assert_ne!(new, old);
    assert_eq!(world.log.believes(old), Some(old));
    assert!(world.append(old) && world.append(new));
    world.barrier(old, false);
    world.run(60_000);
    assert_eq!(world.passed, 0, "a barrier needs a majority");
    world.heal();
    world.check_at_rest();
    assert_eq!(world.committed(), [(2, 1)].into());
    assert_eq!((world.log.believes(old), world.passed), (Some(new), 1));
}

/// `check_quorum`: one that is not stubborn steps down.
#[test]
fn a_leader_without_a_majority_steps_down() {
    let mut world = quiet();
    let old = leader(&world);
    for other in (1..=3).map(n).filter(|other| *other != old) {
        world.stop(other);
    }
    world.run(10_000);
    assert_eq!((world.log.leader(), world.log.believes(old)), (None, None));
    assert!(!world.append(old));
    assert_eq!(world.log.next_due(), Time::NEVER);
    world.heal();
    world.check_at_rest();
}

/// H2: entries are lost, or committed twice, or late, when that is on.
#[test]
fn faults_strike_entries() {
    let fate = |faults: Faults| {
        let mut world = World::new(3, faults, 1);
        for _ in 0..50 {
            assert!(world.append(leader(&world)));
        }
        world.run(100);
        let soon: u32 = world.committed().values().sum();
        world.run(60_000);
        (soon, world.committed().values().sum::<u32>())
    };
    assert_eq!(fate(Faults::default()), (50, 50));
    assert_eq!(fate(Faults { lose: 1.0, ..Faults::default() }), (0, 0));
    let (soon, all) = fate(Faults { late: 1.0, ..Faults::default() });
    assert!(soon < 10 && all == 50, "{soon} {all}");
    let (soon, all) = fate(Faults { twice: 1.0, ..Faults::default() });
    assert!((50..60).contains(&soon) && all == 100, "{soon} {all}");
}

/// H27: a leader change may lose what was not committed, from some entry on.
#[test]
fn a_new_reign_may_forget() {
    for (forget, kept) in [(0.0, 1), (1.0, 0)] {
        let mut world = World::new(3, Faults { forget, ..Faults::default() }, 1);
        let old = leader(&world);
        assert!(world.append(old));
        world.stop(old);
        world.run(10_000);
        assert_ne!(leader(&world), old);
        assert_eq!(world.committed().len(), kept);
    }
}

/// H8, H27: a node lags as long as it is told to; a restart tells it again what it knew, without
/// a leader.
#[test]
fn a_node_lags_and_catches_up() {
    let mut world = quiet();
    let slow = (1..=3).map(n).find(|node| *node != leader(&world)).expect("there are three");
    world.log.set_lag(world.now, slow, Duration::from_secs(5));
    world.log.hold(slow);
    assert!(world.append(leader(&world)));
    world.run(4_000);
    let behind = world.processes[&slow].applied;
    assert!(behind < world.log.last());
    world.log.release(world.now, slow);
    world.run(4_000);
    assert_eq!(world.processes[&slow].applied, behind);
    world.run(2_000);
    assert_eq!(world.processes[&slow].applied, world.log.last());

    world.stop(slow);
    for other in (1..=3).map(n).filter(|other| *other != slow) {
        world.wires.cut.insert((slow.min(other), slow.max(other)));
    }
    world.start(slow);
    world.run(6_000);
    assert_eq!(world.processes[&slow].applied, world.log.last());
    assert_eq!(world.processes[&slow].believes, None);
}

/// H27: a node that was away for long is given a snapshot, as is one that a scenario skips ahead.
#[test]
fn a_snapshot_skips_entries() {
    let mut world = quiet();
    let slow = (1..=3).map(n).find(|node| *node != leader(&world)).expect("there are three");
    world.stop(slow);
    for _ in 0..40 {
        assert!(world.append(leader(&world)));
    }
    world.run(1_000);
    let before = world.restored.len();
    world.start(slow);
    world.run(1_000);
    assert_eq!(world.restored.len(), before + 2);
    world.check_at_rest();

    world.log.hold(slow);
    assert!(world.append(leader(&world)));
    world.run(1_000);
    assert!(world.log.jump(world.now, slow, &world.wires));
    assert!(!world.log.jump(world.now, leader(&world), &world.wires));
    world.run(1);
    assert_eq!(world.processes[&slow].applied, world.log.last());
}

/// R86, S15: a machine that joins is no member, a learner, a voter; then it takes the place of
/// another in a joint step, and that hears no more.
#[test]
fn members_come_and_go() {
    let mut world = quiet();
    let lead = leader(&world);
    let configure = |world: &mut World, change| {
        let said = world.log.configure(world.now, lead, change, &world.wires);
        let again = world.log.configure(world.now, lead, change, &world.wires);
        assert!(!again, "one change at a time");
        world.run(1_000);
        said
    };
    world.start(n(4));
    world.run(1_000);
    assert_eq!(world.processes[&n(4)].applied, LogIndex(0));
    assert_eq!(world.processes[&n(4)].believes, None);
    assert!(!configure(&mut world, Change::Promote(n(4))), "only a learner is promoted");
    assert!(configure(&mut world, Change::AddLearner(n(4))));
    assert_eq!(world.processes[&n(4)].applied, world.log.last());
    assert_eq!(world.processes[&n(4)].believes, Some(lead));
    let gone = (1..=3).map(n).find(|node| *node != lead).expect("there are three");
    assert!(configure(&mut world, Change::Replace { add: n(4), remove: gone }));
    let joint = |event: &Event| match event {
        Event::Configured { configuration, .. } => !configuration.voters_outgoing.is_empty(),
        _ => false,
    };
    assert_eq!(world.history.values().filter(|event| joint(event)).count(), 1);
    let voters: BTreeSet<NodeId> = (1..=4).map(n).filter(|node| *node != gone).collect();
    let settled = Configuration { voters, ..Configuration::default() };
    assert_eq!(*world.log.state().configuration(), settled);
    assert!(world.append(lead));
    world.run(5_000);
    assert!(world.processes[&gone].applied < world.log.last());
    assert!(configure(&mut world, Change::Remove(n(4))));
}

/// R88: a leader hands over; a survey says how far each has come, to the leader alone.
#[test]
fn the_lead_is_handed_over() {
    let mut world = quiet();
    let old = leader(&world);
    let to = (1..=3).map(n).find(|node| *node != old).expect("there are three");
    assert_eq!(world.log.matched(to), BTreeMap::new());
    let last = world.log.last();
    assert_eq!(world.log.matched(old), (1..=3).map(|id| (n(id), last)).collect());
    world.log.transfer(world.now, old, to);
    world.run(1_000);
    assert_eq!(leader(&world), to);
    assert_eq!(world.log.believes(old), Some(to));
    world.check_at_rest();
}
