//! Real node machines on the abstract log.

use std::collections::{BTreeMap, BTreeSet};

use narad_core::config::{Config, Policy};
use narad_core::ids::{Incarnation, LogIndex, Name, StoreUuid};
use narad_core::metastore::{Addresses, Command, Status};
use narad_core::node::Identity;
use narad_core::partition::Recovered;
use narad_core::peer::RequestId;

use super::*;
use crate::metastore::{AbstractLog, Faults, Output, Pace, Reach, founded};
use crate::random::Random;
use crate::time::Time;

const HOP: Duration = Duration::from_millis(1);

fn n(id: u64) -> NodeId {
    NodeId(id)
}

fn who(node: NodeId) -> (Name, StoreUuid, Addresses) {
    let name = Name::new(format!("{node}")).expect("it is a name");
    (name, StoreUuid(node.0.into()), Addresses::default())
}

/// Nodes that are cut off from all others.
#[derive(Debug, Default)]
struct Wires(BTreeSet<NodeId>);

impl Reach for Wires {
    fn talks(&self, a: NodeId, b: NodeId) -> bool {
        !self.0.contains(&a) && !self.0.contains(&b)
    }

    fn is_up(&self, _: NodeId) -> bool {
        true
    }
}

/// Machines with nothing on their disks, which all see true time.
struct Cluster {
    log: AbstractLog,
    wires: Wires,
    now: Time,
    lives: BTreeMap<NodeId, u64>,
    replicas: BTreeMap<NodeId, AbstractReplica>,
    queue: BTreeMap<(Time, u64), (NodeId, Event)>,
    asked: BTreeMap<RequestId, (NodeId, OpId)>,
    sequence: u64,
    /// Appends that the driver was given, and keeps.
    kept: Vec<(NodeId, OpId, Entry)>,
    keeps: bool,
    /// Barriers and surveys.
    passed: u64,
}

impl Cluster {
    fn new(nodes: u64, faults: Faults) -> Self {
        let genesis = founded((1..=nodes).map(n), &Policy::default(), who);
        let mut cluster = Self {
            log: AbstractLog::new(genesis, Pace::default(), faults, &Random::root(5)),
            wires: Wires::default(),
            now: Time::ZERO,
            lives: BTreeMap::new(),
            replicas: BTreeMap::new(),
            queue: BTreeMap::new(),
            asked: BTreeMap::new(),
            sequence: 0,
            kept: Vec::new(),
            keeps: false,
            passed: 0,
        };
        for id in 1..=nodes {
            cluster.start(n(id));
        }
        cluster
    }

    fn local(&self) -> Instant {
        Instant::from_origin(self.now.since(Time::ZERO))
    }

    fn start(&mut self, id: NodeId) {
        let life = self.lives.entry(id).or_default();
        *life += 1;
        let (name, store_uuid, addrs) = who(id);
        let me = Identity { node: id, name, store_uuid, addrs };
        let config = Config::new(id.0);
        let (life, timeout) = (Incarnation(*life), config.request_timeout);
        let state = self.log.start(self.now, id, &self.wires);
        let (mut first, mut out) = (Effects::default(), Actions::default());
        let now = self.local();
        let node = Node::new(now, me, life, config, state, BTreeSet::new(), &mut first);
        let mut access = Access { now: self.now, log: &mut self.log, reach: &self.wires };
        let mut replica =
            AbstractReplica::new(now, id, node, timeout, &mut first, &mut access, &mut out)
                .expect("nothing is unknown");
        if self.keeps {
            replica.hand_out_appends();
        }
        self.replicas.insert(id, replica);
        self.carry_out(id, out);
    }

    fn stop(&mut self, id: NodeId) {
        self.replicas.remove(&id);
        self.queue.retain(|_, (to, _)| *to != id);
        self.log.stop(self.now, id, &self.wires);
    }

    fn tell(&mut self, id: NodeId, event: Box<Event>) {
        let now = self.local();
        let Some(replica) = self.replicas.get_mut(&id) else { return };
        let mut out = Actions::default();
        let mut access = Access { now: self.now, log: &mut self.log, reach: &self.wires };
        let input = Input::Event(event);
        replica.handle(now, input, &mut access, &mut out).expect("nothing is unknown");
        self.carry_out(id, out);
    }

    fn later(&mut self, to: NodeId, event: Event) {
        self.sequence += 1;
        self.queue.insert((self.now.after(HOP), self.sequence), (to, event));
    }

    fn carry_out(&mut self, id: NodeId, out: Actions) {
        for effect in out.effects {
            match effect {
                Effect::Run(op, Operation::Call { to, request }) => {
                    self.sequence += 1;
                    let name = RequestId(self.sequence);
                    self.asked.insert(name, (id, op));
                    if self.wires.talks(id, to) {
                        self.later(to, Event::Request { id: name, from: Some(id), request });
                    }
                }
                Effect::Run(op, Operation::Append(entry)) => self.kept.push((id, op, entry)),
                Effect::Run(op, Operation::Inspect(_)) => {
                    self.later(id, Event::Done(op, Outcome::Inspect(Some(Recovered::default()))));
                }
                Effect::Run(_, operation) => panic!("nobody should ask for {operation:?}"),
                Effect::Answer(name, answer) => {
                    let (to, op) = self.asked.remove(&name).expect("it was asked");
                    if self.wires.talks(id, to) {
                        self.later(to, Event::Done(op, Outcome::Call(Ok(answer))));
                    }
                }
                _ => {}
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now.after(time);
        loop {
            while let Some(output) = self.log.poll(self.now, &self.wires) {
                if let Output::Tell { node, event } = output {
                    if let Event::Done(op, _) = &*event {
                        let waits = self.replicas[&node].barriers.contains_key(op);
                        assert!(waits, "{node:?} has given {op:?} up");
                        self.passed += 1;
                    }
                    self.tell(node, event);
                }
            }
            let wake = |(id, replica): (&NodeId, &AbstractReplica)| {
                Some((Time::from_start(replica.deadline()?.at.since_origin()), *id))
            };
            let woken = self.replicas.iter().filter_map(wake).min();
            let queued = self.queue.first_key_value().map(|((at, _), _)| *at);
            let next = woken.map(|(at, _)| at).into_iter().chain(queued).min();
            let next = next.unwrap_or(Time::NEVER).min(self.log.next_due());
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if queued.is_some_and(|at| at <= self.now) {
                let (_, (id, event)) = self.queue.pop_first().expect("it was there");
                self.tell(id, Box::new(event));
            } else if let Some((_, id)) = woken.filter(|(at, _)| *at <= self.now) {
                self.tell(id, Box::new(Event::Wake));
            }
        }
    }

    fn leader(&self) -> NodeId {
        self.log.leader().expect("somebody leads")
    }

    /// Every node has the same state, and that is the log's.
    fn check_same(&self) {
        for (id, replica) in &self.replicas {
            assert_eq!(replica.node().state(), self.log.state(), "{id:?}");
        }
    }
}

/// R41: real nodes register their lives on the log, keep their leases through it, and agree.
#[test]
fn nodes_register_and_agree() {
    let mut cluster = Cluster::new(5, Faults::default());
    cluster.run(Duration::from_mins(1));
    cluster.check_same();
    for id in 1..=5 {
        let member = cluster.log.state().member(n(id)).expect("it has joined");
        assert_eq!((member.incarnation, member.status), (Incarnation(1), Status::Alive));
    }
}

/// H6, H9: a node that is cut off is declared dead by the others, through barriers and appends of
/// whoever leads; back again, it registers its next life.
#[test]
fn a_node_that_is_cut_off_is_declared_dead() {
    let mut cluster = Cluster::new(3, Faults { stubborn: 1.0, ..Faults::default() });
    cluster.run(Duration::from_secs(10));
    let old = cluster.leader();
    cluster.wires.0.insert(old);
    cluster.log.reach_changed(cluster.now, &cluster.wires);
    cluster.run(Duration::from_mins(1));
    assert_ne!(cluster.leader(), old);
    assert!(matches!(cluster.log.state().member(old).expect("it is").status, Status::Dead(_)));
    cluster.stop(old);
    cluster.wires.0.clear();
    cluster.start(old);
    cluster.run(Duration::from_mins(1));
    cluster.check_same();
    let member = cluster.log.state().member(old).expect("it has joined");
    assert_eq!((member.incarnation, member.status), (Incarnation(2), Status::Alive));
}

/// H8: a node that is started again begins where its disk says, and is told the rest.
#[test]
fn a_restart_begins_with_an_image() {
    let mut cluster = Cluster::new(3, Faults { skip: 0.3, lag: 0.3, ..Faults::default() });
    cluster.run(Duration::from_secs(10));
    for round in 0..10 {
        let id = n(1 + round % 3);
        cluster.stop(id);
        cluster.run(Duration::from_secs(1));
        cluster.start(id);
        cluster.run(Duration::from_secs(10));
    }
    cluster.log.set_faults(Faults::default());
    cluster.run(Duration::from_secs(10));
    cluster.check_same();
    let lives: u64 = cluster.lives.values().sum();
    assert_eq!(lives, 13);
}

/// H2: a driver that carries appends may keep one, and carry it much later.
#[test]
fn an_append_may_be_left_to_the_driver() {
    let mut cluster = Cluster::new(1, Faults::default());
    cluster.stop(n(1));
    cluster.keeps = true;
    cluster.start(n(1));
    cluster.run(Duration::from_secs(10));
    let registered = cluster.log.last();
    let (id, op, entry) = cluster.kept.remove(0);
    assert!(matches!(entry.command, Command::Register { .. }));
    let now = cluster.local();
    let mut out = Actions::default();
    let mut access = Access { now: cluster.now, log: &mut cluster.log, reach: &cluster.wires };
    let replica = cluster.replicas.get_mut(&id).expect("it runs");
    replica.append(now, op, entry, &mut access, &mut out).expect("nothing is unknown");
    cluster.carry_out(id, out);
    cluster.run(Duration::from_millis(100));
    assert_eq!(cluster.log.last(), LogIndex(registered.0 + 1));
    let member = cluster.log.state().member(n(1)).expect("it has joined");
    assert_eq!(member.incarnation, Incarnation(2));
}

/// A barrier that no leader confirms is given up on the node's own clock, and begun again.
#[test]
fn a_barrier_is_given_up() {
    let mut cluster = Cluster::new(3, Faults { deaf: 1.0, ..Faults::default() });
    cluster.run(Duration::from_secs(20));
    assert_eq!(cluster.passed, 0);
    assert!(cluster.replicas.values().any(|replica| !replica.barriers.is_empty()));
    cluster.log.set_faults(Faults::default());
    cluster.run(Duration::from_secs(20));
    assert!(cluster.passed > 0);
}

/// A barrier that was given up is not answered once its entry is applied after all.
#[test]
fn a_barrier_that_was_given_up_is_not_answered() {
    let mut cluster = Cluster::new(3, Faults::default());
    cluster.run(Duration::from_secs(10));
    let leader = cluster.leader();
    cluster.log.hold(leader);
    let other = (1..=3).map(n).find(|node| *node != leader).expect("there are three");
    cluster.stop(other);
    cluster.start(other);
    cluster.run(Duration::from_secs(20));
    let begun = |cluster: &Cluster| cluster.replicas[&leader].barriers.len();
    assert!(begun(&cluster) > 0, "its own replica holds the leader up");
    cluster.log.release(cluster.now, leader);
    cluster.run(Duration::from_secs(10));
    cluster.check_same();
}
