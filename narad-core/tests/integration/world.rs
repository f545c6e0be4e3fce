//! A small cluster: real node machines and gates; a log, a network and disks that tests may break.
//!
//! Everything happens at one virtual clock, in one order, drawn from one seed. An operation is
//! performed by one event and answered by the next, so that a crash can fall between the two.
//!
//! # Divergence from reality
//!
//! The log is one list, not a Raft group: an entry is committed when it is appended, which needs a
//! leader that reaches a majority of the voters. A deposed leader goes on believing that it leads;
//! what it appends is lost, or is committed much later. Appends to a partition never tear.

pub(crate) mod checks;
pub(crate) mod disk;
pub(crate) mod log;
mod perform;
mod process;
mod view;
pub(crate) mod workload;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use narad_core::config::{Config, Policy};
use narad_core::effects::OpId;
use narad_core::freeze::Authority;
use narad_core::freeze::gate::Gate;
use narad_core::ids::*;
use narad_core::metastore::State;
use narad_core::node::{Ask, AskError, AskId, Event, Node, Note, Operation, Outcome, Said};
use narad_core::peer::{Answer, Request, RequestId};
use narad_core::time::Instant;

use self::disk::Disk;
use self::log::Log;
use self::workload::Workload;

/// What the network and the log do to what passes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Of a hundred messages, so many are lost, and so many are delivered twice.
    pub(crate) drop_percent: u64,
    pub(crate) twice_percent: u64,
    /// Of a hundred appends, so many are said to be handed over and never come.
    pub(crate) lose_append_percent: u64,
    /// Of a hundred appends, so many are committed twice, the second time much later.
    pub(crate) museum_percent: u64,
    /// Longest delay of a message, an operation or an applied entry, beyond a millisecond.
    pub(crate) delay_ms_max: u64,
}

/// One machine: what outlives a process, and the process.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) disk: Disk,
    pub(crate) incarnation: u64,
    /// What the process had applied when it last took a snapshot.
    pub(crate) snapshot: State,
    pub(crate) process: Option<Process>,
    pub(crate) processes: u64,
    /// Who it believes to lead.
    pub(crate) believes: Option<NodeId>,
    /// How much later than committed its entries are applied.
    pub(crate) lag: Duration,
    /// Records that it has accepted and that have not arrived anywhere.
    pub(crate) backlog: u32,
    pub(crate) accepts: bool,
    /// What was accepted once more, by content; durable.
    pub(crate) ingress: BTreeSet<u64>,
    /// Whether nothing more can be accepted.
    pub(crate) is_full: bool,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) node: Node,
    pub(crate) gates: BTreeMap<PartitionId, Gate<OpId>>,
    /// Logs that are open, by the directory that they are in.
    pub(crate) open: BTreeMap<PartitionId, Attempt>,
    pub(crate) authority: Authority,
    /// Barriers that wait for an entry to be applied; a survey if the flag is set.
    pub(crate) barriers: BTreeMap<OpId, (Option<LogIndex>, bool)>,
    /// Operations that have no answer yet.
    pub(crate) running: BTreeSet<OpId>,
}

/// Something that will happen.
#[derive(Clone, Debug)]
pub(crate) enum Due {
    Perform(NodeId, u64, OpId, Operation),
    Tell(NodeId, u64, Event),
    Request {
        from: NodeId,
        life: u64,
        op: OpId,
        to: NodeId,
        request: Request,
    },
    Answer {
        to: NodeId,
        life: u64,
        op: OpId,
        from: NodeId,
        answer: Answer,
    },
    /// A barrier reaches the leader.
    Barrier(NodeId, u64, OpId),
    GiveUp(NodeId, u64, OpId),
    Apply(NodeId),
    /// An entry of the museum is committed again.
    Commit(Box<narad_core::metastore::Entry>),
    Election,
    Produce(PartitionId),
    EndAppend(NodeId, u64, PartitionId),
}

/// A question of a peer that has no answer yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    from: NodeId,
    life: u64,
    op: OpId,
    to: NodeId,
    there: u64,
    at: Instant,
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) config: Config,
    pub(crate) machines: BTreeMap<NodeId, Machine>,
    pub(crate) log: Log,
    pub(crate) faults: Faults,
    /// Directed links that carry nothing.
    pub(crate) cut: BTreeSet<(NodeId, NodeId)>,
    pub(crate) work: Workload,
    pub(crate) notes: Vec<(NodeId, Note)>,
    pub(crate) replies: BTreeMap<AskId, Result<Said, AskError>>,
    pub(crate) asked: u64,
    pub(crate) steps: u64,
    queue: BTreeMap<(Instant, u64), Due>,
    sequence: u64,
    pub(crate) requests: BTreeMap<RequestId, Asked>,
    random: u64,
    /// How often in a row the same node was woken without time passing.
    spinning: (NodeId, u32),
}

pub(crate) fn n(id: u64) -> NodeId {
    NodeId(id)
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Everything at a tenth of its usual length, so that a death is a matter of seconds.
pub(crate) fn config() -> Config {
    Config {
        heartbeat_interval: ms(500),
        request_timeout: ms(1_000),
        dead_target_after: ms(6_000),
        grace_after_election: ms(3_000),
        controller_interval: ms(500),
        pass_interval: ms(20),
        lag_bytes: 2 * disk::RECORD,
        chunk_bytes_max: 2 * disk::RECORD,
        chunks_in_flight_max: 2,
        freeze_ttl: ms(2_000),
        freeze_max: ms(8_000),
        freeze_admission_max: ms(500),
        retry_min: ms(50),
        retry_max: ms(1_000),
        ..Config::new(5)
    }
}

pub(crate) fn policy() -> Policy {
    Policy {
        lease: ms(2_000),
        lease_margin: ms(100),
        dead_timeout: ms(3_000),
        force_promote_after: ms(4_000),
        ..Policy::default()
    }
}

impl World {
    /// Makes a cluster of so many voters, all started, the first of which leads.
    pub(crate) fn new(nodes: u64, seed: u64) -> Self {
        let mut world = Self {
            now: Instant::ORIGIN,
            config: config(),
            machines: BTreeMap::new(),
            log: Log::default(),
            faults: Faults::default(),
            cut: BTreeSet::new(),
            work: Workload::default(),
            notes: Vec::new(),
            replies: BTreeMap::new(),
            asked: 0,
            steps: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            requests: BTreeMap::new(),
            random: seed,
            spinning: (n(0), 0),
        };
        world.log.bootstrap(nodes, &policy());
        let snapshot = world.log.state.clone();
        for id in 1..=nodes {
            world.add_machine(n(id), snapshot.clone());
        }
        world.log.leader = Some(n(1));
        for id in 1..=nodes {
            world.start(n(id));
        }
        world.elect(n(1));
        world.schedule(ms(500), Due::Election);
        world
    }

    pub(crate) fn add_machine(&mut self, id: NodeId, snapshot: State) {
        let machine = Machine {
            disk: Disk::new(),
            incarnation: 0,
            snapshot,
            process: None,
            processes: 0,
            believes: None,
            lag: Duration::ZERO,
            backlog: 0,
            accepts: true,
            ingress: BTreeSet::new(),
            is_full: false,
        };
        self.machines.insert(id, machine);
    }

    pub(crate) fn is_up(&self, id: NodeId) -> bool {
        self.machines[&id].process.is_some()
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.machines[&id].process.as_ref().expect("it is up").node
    }

    pub(crate) fn process(&mut self, id: NodeId, life: u64) -> Option<&mut Process> {
        let machine = self.machines.get_mut(&id)?;
        if machine.processes != life {
            return None;
        }
        machine.process.as_mut()
    }

    fn life(&self, id: NodeId) -> u64 {
        self.machines[&id].processes
    }

    /// Cuts both directions between each on the left and each on the right.
    pub(crate) fn separate(&mut self, left: &[u64], right: &[u64]) {
        for one in left {
            for other in right {
                self.cut.insert((n(*one), n(*other)));
                self.cut.insert((n(*other), n(*one)));
            }
        }
    }

    /// Makes the network and the log whole, and starts whoever is down.
    pub(crate) fn heal(&mut self) {
        self.cut.clear();
        self.faults = Faults::default();
        let all: Vec<NodeId> = self.machines.keys().copied().collect();
        for id in all {
            self.machines.get_mut(&id).unwrap().lag = Duration::ZERO;
            if !self.is_up(id) {
                self.start(id);
            }
            self.apply_soon(id);
        }
    }

    pub(crate) fn reaches(&self, from: NodeId, to: NodeId) -> bool {
        from == to || !self.cut.contains(&(from, to))
    }

    /// Whether both hear one another, and run.
    fn talk(&self, a: NodeId, b: NodeId) -> bool {
        self.is_up(a) && self.is_up(b) && self.reaches(a, b) && self.reaches(b, a)
    }

    /// Whether a node could have an entry committed.
    pub(crate) fn has_quorum(&self, id: NodeId) -> bool {
        let voters = &self.log.state.configuration().voters;
        let heard = |voter: &&NodeId| self.machines.contains_key(voter) && self.talk(id, **voter);
        voters.contains(&id) && voters.iter().filter(heard).count() > voters.len() / 2
    }

    /// Makes a node the leader, and tells everybody whom it reaches.
    pub(crate) fn elect(&mut self, id: NodeId) {
        assert!(self.has_quorum(id), "{id:?} cannot be elected");
        self.log.leader = Some(id);
        self.log.skip();
        let all: Vec<NodeId> = self.machines.keys().copied().collect();
        for other in all {
            self.meet_leader(other);
            self.apply_soon(other);
        }
    }

    /// A node that hears the leader believes in it.
    fn meet_leader(&mut self, id: NodeId) {
        let Some(leader) = self.log.leader else { return };
        if !self.is_up(id) || !self.talk(id, leader) || !self.takes_part(id) {
            return;
        }
        let machine = self.machines.get_mut(&id).unwrap();
        if machine.believes != Some(leader) {
            machine.believes = Some(leader);
            let life = machine.processes;
            self.schedule(ms(1), Due::Tell(id, life, Event::Leader(Some(leader))));
        }
    }

    pub(crate) fn takes_part(&self, id: NodeId) -> bool {
        self.log.state.configuration().contains(id)
    }

    fn election(&mut self) {
        let lost = self.log.leader.is_none_or(|leader| !self.has_quorum(leader));
        if lost {
            let heir = self.machines.keys().copied().find(|id| self.has_quorum(*id));
            if let Some(heir) = heir {
                self.elect(heir);
            }
        }
        let all: Vec<NodeId> = self.machines.keys().copied().collect();
        for id in all {
            self.meet_leader(id);
            self.apply_soon(id);
        }
        self.schedule(ms(500), Due::Election);
    }

    pub(crate) fn schedule(&mut self, after: Duration, due: Due) {
        self.sequence += 1;
        self.queue.insert((self.now.after(after), self.sequence), due);
    }

    /// A delay as the faults allow it.
    pub(crate) fn delay(&mut self) -> Duration {
        let most = self.faults.delay_ms_max;
        ms(1 + if most > 0 { self.draw(most) } else { 0 })
    }

    /// A number below `limit`.
    pub(crate) fn draw(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    pub(crate) fn happens(&mut self, percent: u64) -> bool {
        percent > 0 && self.draw(100) < percent
    }

    /// Asks a node something; the reply is in `replies`.
    pub(crate) fn ask(&mut self, id: NodeId, ask: Ask) -> AskId {
        self.asked += 1;
        let name = AskId(self.asked);
        let life = self.life(id);
        self.tell(id, life, Event::Ask { id: name, ask });
        name
    }

    /// Lets the next thing happen.
    pub(crate) fn step(&mut self) {
        self.steps += 1;
        let woken = self
            .machines
            .iter()
            .filter_map(|(id, machine)| Some((machine.process.as_ref()?.node.deadline()?.at, *id)))
            .min();
        let next = self.queue.first_key_value().map(|((at, _), _)| *at);
        match (woken, next) {
            (Some((at, id)), next) if next.is_none_or(|next| at <= next) => {
                let same = at <= self.now && self.spinning.0 == id;
                self.spinning = (id, if same { self.spinning.1 + 1 } else { 0 });
                let deadline = self.node(id).deadline();
                assert!(self.spinning.1 < 20, "{id:?} spins on {deadline:?}");
                self.now = self.now.max(at);
                let life = self.life(id);
                self.tell(id, life, Event::Wake);
            }
            (_, Some(at)) => {
                self.spinning = (n(0), 0);
                self.now = self.now.max(at);
                let (_, due) = self.queue.pop_first().expect("it was there");
                self.happen(due);
            }
            (_, None) => panic!("an election is always due"),
        }
        self.check();
    }

    /// Lets things happen for so long.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.next_due() <= end {
            self.step();
        }
        self.now = self.now.max(end);
    }

    /// Returns when the next thing happens.
    fn next_due(&self) -> Instant {
        let queued = self.queue.first_key_value().map(|((at, _), _)| *at);
        let deadlines = self
            .machines
            .values()
            .filter_map(|machine| Some(machine.process.as_ref()?.node.deadline()?.at));
        deadlines.chain(queued).min().expect("an election is always due")
    }

    /// Lets things happen until something is so.
    pub(crate) fn until(&mut self, what: &str, time: Duration, is_so: impl Fn(&Self) -> bool) {
        let end = self.now.after(time);
        while !is_so(self) {
            assert!(self.now < end, "not within {time:?}: {what}\n{}", self.describe());
            self.step();
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Perform(id, life, op, operation) => self.perform(id, life, op, operation),
            Due::Tell(id, life, event) => self.tell(id, life, event),
            Due::Request { from, life, op, to, request } => {
                if self.is_up(to) && self.reaches(from, to) {
                    self.sequence += 1;
                    let id = RequestId(self.sequence);
                    let there = self.life(to);
                    let question = Asked { from, life, op, to, there, at: self.now };
                    self.requests.insert(id, question);
                    let asker = Some(from);
                    self.tell(to, there, Event::Request { id, from: asker, request });
                }
            }
            Due::Answer { to, life, op, from, answer } => {
                if self.reaches(from, to) {
                    self.done(to, life, op, Outcome::Call(Ok(answer)));
                }
            }
            Due::Barrier(id, life, op) => self.barrier_arrives(id, life, op),
            Due::GiveUp(id, life, op) => self.give_up(id, life, op),
            Due::Apply(id) => self.apply(id),
            Due::Commit(entry) => {
                self.commit(&entry);
            }
            Due::Election => self.election(),
            Due::Produce(partition) => self.produce_and_go_on(partition),
            Due::EndAppend(id, life, partition) => self.end_append(id, life, partition),
        }
    }

    /// Sends a message, which the network may lose or deliver twice.
    pub(crate) fn send(&mut self, from: NodeId, to: NodeId, message: Due) {
        if !self.reaches(from, to) {
            return;
        }
        let (lost, twice) = (self.faults.drop_percent, self.faults.twice_percent);
        if from != to && self.happens(lost) {
            return;
        }
        if from != to && self.happens(twice) {
            let late = self.delay() * 20;
            self.schedule(late, message.clone());
        }
        let delay = self.delay();
        self.schedule(delay, message);
    }
}
