//! How a world begins: machines with what is on their disks, and the state that the log starts from.

use std::collections::BTreeMap;

use narad_core::config::{Config, Policy};
use narad_core::effects::OpId;
use narad_core::ids::{Incarnation, LogIndex, Name, NodeId, ProposalId, StoreUuid};
use narad_core::metastore::{Addresses, Applied, Command, Configuration, Entry, Reply, State};
use narad_runtime::disk::MemDisk;
use narad_runtime::log::LogLimits;
use narad_runtime::raft::{
    Batch, Configuration as Voters, Cut, HardState, MemStore, Position, RaftStore, Snapshot, Term,
};
use narad_runtime::store::identity::{self, Identity};
use narad_runtime::wire::Wire as _;

use super::clients::Clients;
use super::copy::RATE_MIN;
use super::ingress::Accepting;
use super::machine::Machine;
use super::observe::{At, Recorder, Sink};
use super::script::Script;
use super::{Due, World};
use crate::clock::Clock;
use crate::metastore::{AbstractLog, Faults, Pace};
use crate::net::{Net, Wire};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::scenario::{MetastoreKind, Scenario};
use crate::time::Time;
use crate::trace::Kind;

/// The wall clock when a world begins: the first day of 2026.
const WALL_MS: i64 = 1_767_225_600_000;

/// What follows from a scenario and does not change.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) scenario: Scenario,
    pub(crate) seed: u64,
    pub(crate) policy: Policy,
    pub(crate) config: Config,
    pub(crate) log_limits: LogLimits,
}

impl World {
    /// Makes the world of a scenario, with every founder about to start.
    ///
    /// # Panics
    ///
    /// If the scenario's policy or topics are refused by the machines; a scenario that was checked
    /// has no such thing.
    pub(crate) fn new(scenario: &Scenario, seed: u64, sink: Option<Sink>) -> Self {
        let root = Random::root(seed);
        let cluster = &scenario.cluster;
        let (policy, config) = (cluster.policy(), cluster.config(seed));
        let log_limits =
            LogLimits { segment_bytes: cluster.segment_bytes.0, ..LogLimits::default() };
        let setup = Setup { scenario: scenario.clone(), seed, policy, config, log_limits };
        // What happens every now and then becomes steps with times.
        let planned = scenario.planned(&mut root.branch("plan"));
        let genesis = genesis(&setup);
        let log = (cluster.metastore == MetastoreKind::Abstract).then(|| {
            let (pace, faults) = abstract_log(scenario);
            AbstractLog::new(genesis.clone(), pace, faults, &root.branch("log"))
        });
        let machines: Vec<Machine> = (0..cluster.machines() as usize)
            .map(|at| machine(&setup, at, &genesis, &root.branch("machine").branch_no(at as u64)))
            .collect();
        let mut world = Self {
            now: Time::ZERO,
            queue: super::Queue::default(),
            up: vec![false; machines.len()],
            machines,
            by_node: Vec::new(),
            net: Net::new(wire(scenario), &root.branch("net")),
            log,
            log_due: Time::NEVER,
            script: Script::new(planned.steps.clone(), &scenario.expects),
            clients: Clients::new(&scenario.workload, scenario.head.safety, rate(&setup), &root),
            oracle: Oracle::new(setup.config.clone()),
            recorder: Recorder::new(sink),
            chance: root.branch("world"),
            is_live_phase: false,
            committed: LogIndex(0),
            clogged: BTreeMap::new(),
            asked: BTreeMap::new(),
            next_ask: 0,
            replies: BTreeMap::new(),
            proposed: BTreeMap::new(),
            expectations: Vec::new(),
            setup,
            touched: None,
            doomed: Vec::new(),
            endings: std::collections::VecDeque::new(),
            frozen: BTreeMap::new(),
            longest: BTreeMap::new(),
            violations: Vec::new(),
            judged: 0,
            nobody: nobody(),
            actions: super::Actions { listens: true, ..super::Actions::default() },
        };
        world.begin_all(&genesis);
        world
    }

    fn begin_all(&mut self, genesis: &State) {
        for topic in genesis.topics() {
            self.recorder.name_topic(topic.id.0, topic.name.as_str());
        }
        self.tell_limits();
        self.plan_steps();
        self.plan_election();
        self.plan_expectations();
        for at in 0..self.setup.scenario.cluster.nodes as usize {
            let node = NodeId(at as u64 + 1);
            self.remember_node(node, at);
            self.machines[at].wanted = true;
            let shift = self.machines[at].latency.below(20_000_000);
            self.schedule(Time(shift), Due::Start(at));
        }
        let all: Vec<_> = genesis.assignments().map(|(partition, _)| partition).collect();
        for partition in all {
            self.attend(partition);
        }
        self.preload(genesis);
    }
}

impl World {
    /// Writes down the limits that a report compares with.
    fn tell_limits(&mut self) {
        let (policy, config) = (&self.setup.policy, &self.setup.config);
        let text = format!(
            "freeze_max={:?} freeze_duty_percent={} max_in_flight={} lease={:?} dead_timeout={:?} \
             force_promote_after={:?}",
            config.freeze_max,
            config.freeze_duty_percent,
            policy.max_in_flight,
            policy.lease,
            policy.dead_timeout,
            policy.force_promote_after
        );
        self.recorder.said(self.now, Kind::Note, "limits", At::default(), || text);
    }
}

fn machine(setup: &Setup, at: usize, genesis: &State, random: &Random) -> Machine {
    let founder = at < setup.scenario.cluster.nodes as usize;
    let name = Name::new(format!("n{}", at + 1)).expect("it is a plain name");
    let disk = MemDisk::new();
    disk.set_quota(setup.scenario.disk.capacity.map(|bytes| bytes.0));
    let node = founder.then_some(NodeId(at as u64 + 1));
    let is_raft = setup.scenario.cluster.metastore == MetastoreKind::Raft;
    let mut log = is_raft.then(|| MemStore::new(NodeId(0)));
    if let Some(node) = node {
        // It has been admitted and has run once before: the state that it starts from says so.
        let me = Identity::open(&disk, &name, || Ok(store_uuid(at)));
        let mut me = me.expect("an empty disk takes an identity");
        me.join(&disk, World::CLUSTER, node).expect("it belongs to nobody yet");
        identity::next_incarnation(&disk).expect("a good disk counts");
        Accepting::create(&disk).expect("a good disk takes an empty log");
        log = is_raft.then(|| founded(node, genesis));
    }
    Machine {
        name,
        node,
        disk,
        log,
        clock: Clock::new(Time::ZERO, WALL_MS),
        process: None,
        life: 0,
        paused: None,
        stuck_until: Time::ZERO,
        paused_since: Time::ZERO,
        paused_for: std::time::Duration::ZERO,
        disk_stuck_until: Time::ZERO,
        slower_by: std::time::Duration::ZERO,
        throttled_until: Time::ZERO,
        saved: BTreeMap::new(),
        wanted: false,
        gave_up: false,
        joins_through: None,
        latency: random.branch("latency"),
        wake_at: Time::NEVER,
        lags_until: Time::ZERO,
    }
}

/// The identity of a machine's first disk.
pub(super) const fn store_uuid(at: usize) -> StoreUuid {
    StoreUuid(at as u128 + 1)
}

pub(super) fn addresses(at: usize) -> Addresses {
    Addresses { peer: format!("n{}:7400", at + 1), http: format!("n{}:7401", at + 1) }
}

/// Returns a share of Raft's log that begins with the state that the world begins with.
fn founded(node: NodeId, genesis: &State) -> MemStore {
    let mut store = MemStore::new(node);
    let position = Position { index: genesis.applied(), term: Term(1) };
    let voters = genesis.configuration();
    let first = Batch {
        cut: Some(Cut::Whole(position)),
        hard_state: Some(HardState { term: position.term, vote: None, commit: position.index }),
        snapshot: Some(Snapshot {
            position,
            configuration: Voters {
                voters: voters.voters.clone(),
                learners: voters.learners.clone(),
                ..Voters::default()
            },
            data: genesis.to_parts().to_bytes().into(),
        }),
        must_sync: true,
        ..Batch::default()
    };
    store.commit(&first).expect("a store in memory takes its first entry");
    store
}

/// Returns the state of a cluster that has run before: members that are registered, and the topics.
fn genesis(setup: &Setup) -> State {
    let mut state = State::new();
    let founders = setup.scenario.cluster.nodes as usize;
    let nodes = (1..=founders as u64).map(NodeId);
    let voters = nodes.clone().take(setup.policy.voters_max as usize).collect();
    let learners = nodes.skip(setup.policy.voters_max as usize).collect();
    let configuration = Configuration { voters, learners, ..Configuration::default() };
    state.configure(LogIndex(1), configuration).expect("nothing was applied before");
    let mut say = |by: NodeId, command: Command| {
        let index = LogIndex(state.applied().0 + 1);
        let proposal = ProposalId { node: by, incarnation: Incarnation(0), sequence: index.0 };
        let folded = state.apply(index, &Entry { proposal, by, command });
        let reply = folded.expect("every build knows these commands").reply;
        assert!(matches!(reply, Reply::Applied(_)), "the scenario cannot begin: {reply:?}");
        reply
    };
    say(NodeId(1), Command::SetPolicy(setup.policy.clone()));
    for at in 0..founders {
        let (node, store_uuid, addrs) = (NodeId(at as u64 + 1), store_uuid(at), addresses(at));
        let name = Name::new(format!("n{}", at + 1)).expect("it is a plain name");
        say(node, Command::Join { name, store_uuid, addrs: addrs.clone() });
        let incarnation = Incarnation(1);
        say(node, Command::Register { node, store_uuid, incarnation, addrs });
    }
    let mut ids = BTreeMap::new();
    for topic in &setup.scenario.topics {
        let parent = topic.parent.as_ref().and_then(|parent| ids.get(&parent.0).copied());
        let name = Name::new(topic.name.0.clone()).expect("a scenario's topics have names");
        let create = Command::CreateTopic { name, partitions: topic.partitions, parent };
        let Reply::Applied(Applied::Created(id)) = say(NodeId(1), create) else {
            unreachable!("a topic that is created says what it is called");
        };
        ids.insert(topic.name.0.clone(), id);
        if topic.owners.is_empty() {
            continue;
        }
        for index in 0..topic.partitions {
            let owner = topic.owners[index as usize % topic.owners.len()];
            let partition = narad_core::ids::PartitionId { topic: id, index };
            let node = NodeId(u64::from(owner.0));
            say(NodeId(1), Command::AssignPartition { partition, node });
            if topic.pinned {
                say(NodeId(1), Command::SetPin { partition, on: true });
            }
        }
    }
    state
}

/// Names what nobody waits for: an operation of a life that no node begins.
fn nobody() -> OpId {
    OpId::new(Incarnation(u64::MAX), 0)
}

/// Returns how many records a second go to each partition.
fn rate(setup: &Setup) -> f64 {
    /// What a record's frame has besides its value, about.
    const OVERHEAD: u64 = 60;
    let produce = &setup.scenario.workload.produce;
    let Some(ratio) = &produce.write_over_copy else { return produce.per_second.0 };
    // Bytes that one move may copy a second: what policy and network leave of it.
    let throttle = match setup.policy.copy_rate_bytes_per_second {
        0 => 0,
        rate => rate.max(RATE_MIN),
    };
    let limits = [throttle, setup.scenario.network.bandwidth.0];
    let copied = limits.into_iter().filter(|limit| *limit > 0).min().unwrap_or(200 << 20);
    let bytes = produce.value_bytes.0 + OVERHEAD;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let records = copied as f64 / bytes as f64;
    ratio.0 * records
}

fn wire(scenario: &Scenario) -> Wire {
    let net = &scenario.network;
    let mut wire = Wire {
        delay: net.delay.least..=net.delay.most,
        bandwidth: net.bandwidth.0,
        loss: net.loss.0,
        duplicate: net.duplicate.0,
        reorder: net.reorder.0,
        reset: net.reset.0,
        garbage: net.garbage.0,
        ..Wire::default()
    };
    if let Some(tail) = &net.heavy_tail {
        (wire.tail, wire.tail_max) = (tail.chance.0, tail.up_to);
    }
    if let Some(museum) = &net.museum {
        (wire.museum, wire.museum_max) = (museum.chance.0, museum.up_to);
    }
    wire
}

fn abstract_log(scenario: &Scenario) -> (Pace, Faults) {
    let log = &scenario.abstract_log;
    let raft = &scenario.cluster.raft;
    let pace = Pace {
        hop: log.apply.least..=log.apply.most,
        election: raft.tick * raft.election_ticks_min..=raft.tick * raft.election_ticks_max,
        snapshot_entries: log.snapshot_entries,
        keep_entries: raft.keep_entries.min(log.snapshot_entries),
    };
    let changes = log.elections_per_minute.0 > 0.0;
    let believes = if changes && !log.deposed_believes.most.is_zero() { 0.5 } else { 0.0 };
    let faults = Faults {
        lose: log.lost.0,
        late: log.late.0,
        twice: log.twice.0,
        late_max: log.late_by.most,
        // What a change of leaders may bring: entries that do not survive it, a leader that has not
        // heard of it, a node that is given a snapshot.
        forget: if changes { 0.2 } else { 0.0 },
        stubborn: log.stubborn.0.max(believes),
        skip: if changes { 0.05 } else { 0.0 },
        ..Faults::default()
    };
    (pace, faults)
}
