//! A few nodes, a network in memory, and what must hold whatever happens to them.

use narad_core::ids::{LogIndex, NodeId};
use narad_runtime::raft::{
    Committed, Configuration, MemStore, Outgoing, Output, Raft, RaftConfig, RaftError, RaftLogging,
    ReadId, Role, Term,
};
use protobuf::Message as _;
use raft::eraftpb::Message;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

pub(crate) fn n(id: u64) -> NodeId {
    NodeId(id)
}

/// A small integer generator (xorshift64*), the only source of chance here.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    pub(crate) fn per_mille(&mut self, share: u64) -> bool {
        self.below(1000) < share
    }
}

/// A state machine that remembers all that it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) applied: u64,
    pub(crate) entries: Vec<Vec<u8>>,
    pub(crate) members: Configuration,
}

impl Machine {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let entries = self.entries.iter().flat_map(|entry| {
            let length = u32::try_from(entry.len()).expect("short").to_le_bytes();
            [&length[..], entry].concat()
        });
        entries.collect()
    }

    pub(crate) fn decode(index: LogIndex, mut data: &[u8], members: Configuration) -> Self {
        let mut entries = Vec::new();
        while let Some((length, rest)) = data.split_first_chunk::<4>() {
            let (entry, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
            entries.push(entry.to_vec());
            data = rest;
        }
        Self { applied: index.0, entries, members }
    }

    pub(crate) fn apply(&mut self, committed: &Committed) {
        let index = committed.index().0;
        assert_eq!(index, self.applied + 1, "entries come in order, each once");
        self.applied = index;
        match committed {
            Committed::Entry { data, .. } => self.entries.push(data.to_vec()),
            Committed::Configuration { configuration, .. } => self.members = configuration.clone(),
            Committed::Empty { .. } => {}
        }
    }
}

pub(crate) struct Node {
    /// None while it is down.
    pub(crate) raft: Option<Raft<MemStore>>,
    pub(crate) disk: MemStore,
    pub(crate) machine: Machine,
    pub(crate) reads: Vec<(ReadId, LogIndex)>,
    /// The changes of the members that it saw, by context, with whether they took effect.
    pub(crate) changes: Vec<(Vec<u8>, bool)>,
    pub(crate) restores: usize,
    life: u64,
    out: Output,
}

/// What the network does to each message, in parts of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) drop: u64,
    pub(crate) duplicate: u64,
    pub(crate) reorder: u64,
    /// Leaves a message for a later tick.
    pub(crate) delay: u64,
}

pub(crate) struct Cluster {
    pub(crate) nodes: BTreeMap<u64, Node>,
    pub(crate) weather: Weather,
    /// Nodes whose messages do not pass, either way.
    pub(crate) cut_off: BTreeSet<u64>,
    pub(crate) chance: Chance,
    /// How many messages arrived, and a summary of all of them.
    pub(crate) delivered: u64,
    pub(crate) hash: u64,
    /// Which messages the network keeps back, and those that it kept.
    pub(crate) hold: Box<dyn Fn(&Message) -> bool>,
    pub(crate) held: Vec<(u64, Outgoing)>,
    pub(crate) tune: fn(&mut RaftConfig),
    /// Whether nodes make snapshots when asked to.
    pub(crate) snapshots: bool,
    /// Whether messages are sent as soon as they may be, or with the output of a turn.
    pub(crate) voices: bool,
    spoken: Arc<Mutex<Vec<(u64, Outgoing)>>>,
    seed: u64,
    queue: VecDeque<(u64, Outgoing)>,
    /// Who led each term.
    leaders: BTreeMap<Term, NodeId>,
    /// What each index was found to hold.
    truth: BTreeMap<u64, Committed>,
}

impl Cluster {
    pub(crate) fn new(voters: &[u64], seed: u64) -> Self {
        Self::tuned(voters, seed, |_| {})
    }

    pub(crate) fn tuned(voters: &[u64], seed: u64, tune: fn(&mut RaftConfig)) -> Self {
        let mut cluster = Self {
            nodes: BTreeMap::new(),
            weather: Weather::default(),
            cut_off: BTreeSet::new(),
            chance: Chance::new(seed),
            delivered: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            hold: Box::new(|_| false),
            held: Vec::new(),
            tune,
            snapshots: true,
            voices: true,
            spoken: Arc::default(),
            seed,
            queue: VecDeque::new(),
            leaders: BTreeMap::new(),
            truth: BTreeMap::new(),
        };
        let ids: Vec<NodeId> = voters.iter().copied().map(NodeId).collect();
        for id in voters {
            let mut disk = MemStore::new(n(*id));
            Raft::bootstrap(&mut disk, &ids, Machine::default().encode()).expect("an empty disk");
            cluster.add(*id, disk);
        }
        cluster
    }

    /// Adds a node on a disk, and starts it.
    pub(crate) fn add(&mut self, id: u64, disk: MemStore) {
        let node = Node {
            raft: None,
            disk,
            machine: Machine::default(),
            reads: Vec::new(),
            changes: Vec::new(),
            restores: 0,
            life: 0,
            out: Output::default(),
        };
        self.nodes.insert(id, node);
        self.restart(id);
    }

    pub(crate) fn config(&self, id: u64, life: u64) -> RaftConfig {
        let mut config = RaftConfig::new(n(id), life);
        config.election_seed = Some(self.seed);
        config.logging = RaftLogging::Silent;
        (self.tune)(&mut config);
        config
    }

    pub(crate) fn crash(&mut self, id: u64) {
        let node = self.node(id);
        node.raft = None;
        node.disk.crash();
    }

    pub(crate) fn restart(&mut self, id: u64) {
        let config = self.config(id, self.nodes[&id].life + 1);
        let (voices, spoken) = (self.voices, Arc::clone(&self.spoken));
        let node = self.node(id);
        node.life += 1;
        let (mut raft, restored) = Raft::open(config, node.disk.clone()).expect("a sound disk");
        if voices {
            raft.speak_by(Box::new(move |message| {
                spoken.lock().expect("nobody panics").push((id, message));
            }));
        }
        node.raft = Some(raft);
        node.machine = restored.map_or_else(Machine::default, |restored| {
            Machine::decode(restored.index, &restored.data, restored.configuration)
        });
        self.work(id);
    }

    pub(crate) fn node(&mut self, id: u64) -> &mut Node {
        self.nodes.get_mut(&id).expect("a node of this cluster")
    }

    /// Returns a node's running half.
    pub(crate) fn raft(&mut self, id: u64) -> &mut Raft<MemStore> {
        self.node(id).raft.as_mut().expect("it runs")
    }

    pub(crate) fn machine(&self, id: u64) -> &Machine {
        &self.nodes[&id].machine
    }

    /// Lets a node do what there is to do.
    pub(crate) fn work(&mut self, id: u64) {
        let snapshots = self.snapshots;
        loop {
            let node = self.nodes.get_mut(&id).expect("a node of this cluster");
            let Some(raft) = node.raft.as_mut() else { return };
            let result = raft.ready(&mut node.out);
            let out = std::mem::take(&mut node.out);
            if let Some(restored) = &out.restored {
                let (index, data) = (restored.index, &restored.data);
                node.machine = Machine::decode(index, data, restored.configuration.clone());
                node.restores += 1;
            }
            for committed in &out.committed {
                node.machine.apply(committed);
                if let Committed::Configuration { context, refused, .. } = committed {
                    node.changes.push((context.to_vec(), refused.is_none()));
                }
            }
            node.reads.extend(&out.reads);
            let stopped = match result {
                Ok(()) => false,
                Err(RaftError::Storage(_)) => true,
                Err(other) => panic!("node {id}: {other}"),
            };
            if stopped {
                assert!(matches!(raft.ready(&mut node.out), Err(RaftError::Stopped)));
                node.raft = None;
            } else if out.wants_snapshot && snapshots {
                let (index, data) = (LogIndex(node.machine.applied), node.machine.encode());
                raft.offer_snapshot(index, data).expect("it was asked for");
            }
            self.judge(id, &out);
            if let Some(raft) = self.nodes.get_mut(&id).and_then(|node| node.raft.as_mut()) {
                raft.speak();
            }
            // What was said before a failure is under way, like anything else.
            self.queue.extend(self.spoken.lock().expect("nobody panics").drain(..));
            self.queue.extend(out.messages.into_iter().map(|message| (id, message)));
            if stopped || !(out.more || out.wants_snapshot && snapshots) {
                return;
            }
        }
    }

    /// No two leaders of one term, and no index with two contents.
    fn judge(&mut self, id: u64, out: &Output) {
        if let Some(now) = out.leadership.filter(|now| now.role == Role::Leader) {
            let first = *self.leaders.entry(now.term).or_insert(n(id));
            assert_eq!(first, n(id), "two leaders in term {}", now.term);
        }
        for committed in &out.committed {
            let index = committed.index().0;
            let first = self.truth.entry(index).or_insert_with(|| committed.clone());
            assert_eq!(first, committed, "node {id} holds something else at {index}");
        }
    }

    /// Lets one tick pass everywhere.
    pub(crate) fn tick(&mut self) {
        for id in self.ids() {
            if let Some(raft) = self.node(id).raft.as_mut() {
                raft.tick();
            }
            self.work(id);
        }
        self.deliver();
    }

    pub(crate) fn ticks(&mut self, count: usize) {
        (0..count).for_each(|_| self.tick());
    }

    /// Delivers until nothing is under way, except what the weather holds back.
    pub(crate) fn deliver(&mut self) {
        for id in self.ids() {
            self.work(id);
        }
        let mut delayed = VecDeque::new();
        while let Some((from, message)) = self.next() {
            if self.chance.per_mille(self.weather.delay) {
                delayed.push_back((from, message));
                continue;
            }
            if (self.hold)(&decoded(&message.bytes)) {
                self.held.push((from, message));
                continue;
            }
            let to = message.to.0;
            let lost = self.cut_off.contains(&from)
                || self.cut_off.contains(&to)
                || self.chance.per_mille(self.weather.drop);
            if self.chance.per_mille(self.weather.duplicate) {
                self.queue.push_back((from, message.clone()));
            }
            let arrived = !lost && self.arrive(from, &message);
            if let Some(sender) = self.node(from).raft.as_mut() {
                if message.is_snapshot {
                    sender.report_snapshot(message.to, arrived);
                } else if !arrived {
                    sender.report_unreachable(message.to);
                }
            }
            self.work(from);
        }
        self.queue = delayed;
    }

    fn next(&mut self) -> Option<(u64, Outgoing)> {
        if self.queue.len() > 1 && self.chance.per_mille(self.weather.reorder) {
            let at = self.chance.below(self.queue.len() as u64);
            return self.queue.remove(usize::try_from(at).expect("small"));
        }
        self.queue.pop_front()
    }

    fn arrive(&mut self, from: u64, message: &Outgoing) -> bool {
        let to = message.to.0;
        let Some(raft) = self.nodes.get_mut(&to).and_then(|node| node.raft.as_mut()) else {
            return false;
        };
        for byte in [from, to].iter().flat_map(|id| id.to_le_bytes()).chain(message.bytes.clone()) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.delivered += 1;
        if let Err(error) = raft.step(n(from), &message.bytes) {
            assert!(error.is_expected(), "an honest node sent what is refused: {error}");
        }
        self.work(to);
        true
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.nodes.keys().copied().collect()
    }

    /// Returns the leader with the latest term among those that are connected.
    pub(crate) fn leader(&self) -> Option<u64> {
        let connected = self.nodes.iter().filter(|(id, _)| !self.cut_off.contains(id));
        let leaders = connected.filter_map(|(id, node)| {
            let now = node.raft.as_ref()?.status().leadership;
            (now.role == Role::Leader).then_some((now.term, *id))
        });
        leaders.max().map(|(_, id)| id)
    }

    /// Lets time pass until a fact holds; in vain after a minute of it.
    pub(crate) fn until(&mut self, what: &str, fact: impl Fn(&mut Self) -> bool) {
        for _ in 0..600 {
            if fact(self) {
                return;
            }
            self.tick();
        }
        panic!("in vain: {what}");
    }

    pub(crate) fn elect(&mut self) -> u64 {
        self.until("a leader that has committed in its term", |cluster| {
            let Some(leader) = cluster.leader() else { return false };
            let status = cluster.raft(leader).status();
            status.applied == status.last
        });
        self.leader().expect("just found")
    }

    /// Proposes at the leader and waits until it has applied that.
    pub(crate) fn commit(&mut self, data: &[u8]) {
        let leader = self.elect();
        self.raft(leader).propose(b"id".to_vec(), data.to_vec()).expect("it leads");
        self.deliver();
        let data = data.to_vec();
        self.until("a commit", |cluster| cluster.machine(leader).entries.contains(&data));
    }

    /// Waits until all running nodes have applied the same.
    pub(crate) fn agree(&mut self, ids: &[u64]) {
        let ids = ids.to_vec();
        self.until("agreement", |cluster| {
            let first = &cluster.nodes[&ids[0]].machine;
            ids.iter().all(|id| cluster.nodes[id].machine == *first)
        });
    }

    pub(crate) fn members(&self, id: u64) -> &Configuration {
        &self.machine(id).members
    }
}

pub(crate) fn decoded(bytes: &[u8]) -> Message {
    let mut message = Message::default();
    message.merge_from_bytes(bytes).expect("a message");
    message
}

pub(crate) fn set(ids: &[u64]) -> BTreeSet<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}
