//! For every invariant: facts that must raise it, and facts that must not.

mod consumers;
mod flips;
mod healed;
mod ingress;
mod lives;
mod plans;
mod records;
mod reports;
mod speed;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use narad_core::config::{Config, Policy};
use narad_core::dispatch::{BatchNo, Route};
use narad_core::effects::Effects;
use narad_core::freeze::gate::Standing;
use narad_core::ids::*;
use narad_core::metastore::{Addresses, Command, Configuration, Entry, Expect, Fence, State};
use narad_core::node::{Effect, Event, Identity, Node, Operation, Outcome};
use narad_core::partition::{Capture, Listing, Position, Recovered};
use narad_core::time::Instant;

use super::{ConsumerFact, Directory, Fact, IngressFact, LogView, Look, Oracle, Origin};
use crate::time::Time;

/// A world of the test's own making.
#[derive(Default)]
pub(super) struct Sight {
    now: Time,
    nodes: BTreeMap<NodeId, Node>,
    leader: Option<NodeId>,
    /// Nodes that nobody reaches.
    apart: BTreeSet<NodeId>,
    logs: BTreeMap<(NodeId, PartitionId, Directory), LogView>,
    writers: BTreeSet<NodeId>,
    ingress: BTreeMap<NodeId, Vec<u64>>,
    rest: BTreeMap<NodeId, (Seq, Seq)>,
    shut: BTreeSet<NodeId>,
    /// Whether the clocks of nodes, which show the true time, can be looked at.
    has_clocks: bool,
}

impl Look for Sight {
    fn now(&self) -> Time {
        self.now
    }
    fn local(&self, _: NodeId) -> Option<Instant> {
        let now = self.now.since(Time::ZERO);
        self.has_clocks.then(|| Instant::from_origin(now))
    }
    fn up(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }
    fn node(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(&node)
    }
    fn leader(&self) -> Option<NodeId> {
        self.leader
    }
    fn talks(&self, a: NodeId, b: NodeId) -> bool {
        !self.apart.contains(&a) && !self.apart.contains(&b)
    }
    fn would_ack(&self, node: NodeId, _: PartitionId) -> bool {
        self.writers.contains(&node)
    }
    fn log(&self, node: NodeId, partition: PartitionId, directory: Directory) -> Option<LogView> {
        self.logs.get(&(node, partition, directory)).cloned()
    }
    fn directories(&self, node: NodeId, partition: PartitionId) -> Vec<Directory> {
        let of = |(at, p, directory): &(NodeId, PartitionId, Directory)| {
            ((*at, *p) == (node, partition)).then_some(*directory)
        };
        self.logs.keys().filter_map(of).collect()
    }
    fn ingress(&self, node: NodeId) -> Vec<u64> {
        self.ingress.get(&node).cloned().unwrap_or_default()
    }
    fn ingress_rest(&self, node: NodeId) -> Option<(Seq, Seq)> {
        self.rest.get(&node).copied()
    }
    fn found_shut(&self, node: NodeId) -> bool {
        self.shut.contains(&node)
    }
}

/// An oracle, and the world that it watches.
struct Bench {
    oracle: Oracle,
    sight: Sight,
    index: u64,
    sequence: u64,
    nodes: u64,
    topic: TopicId,
}

const N1: NodeId = NodeId(1);
const N2: NodeId = NodeId(2);

impl Bench {
    /// Nodes 1 to `nodes`, registered in life 1 and voting; a topic of four partitions, the first
    /// of which is on node 1, which serves it.
    fn cluster(nodes: u64) -> Self {
        let mut bench = Self {
            oracle: Oracle::new(Config::new(1)),
            sight: Sight { leader: Some(NodeId(1)), ..Sight::default() },
            index: 0,
            sequence: 0,
            nodes,
            topic: TopicId(0),
        };
        let voters: BTreeSet<NodeId> = (1..=nodes).map(NodeId).collect();
        let mut state = State::new();
        let configuration = Configuration { voters, ..Configuration::default() };
        state.configure(LogIndex(0), configuration).unwrap();
        for node in 1..=nodes {
            bench.tell(Fact::Started { node: NodeId(node), life: Incarnation(1) });
            bench.tell(Fact::Restored { node: NodeId(node), state: &state });
        }
        for node in 1..=nodes {
            bench.commit(node, join(node));
        }
        for node in 1..=nodes {
            bench.register(node, 1);
        }
        let name = Name::new("orders").unwrap();
        bench.commit(1, Command::CreateTopic { name, partitions: 4, parent: None });
        bench.topic = TopicId(bench.index);
        bench.assign(0, 1);
        let birth = Attempt::birth(N1);
        bench.set_log(1, birth, 0, &[], 0);
        bench.open(1, birth, 0);
        bench.serve(1, 1, 1);
        bench
    }

    fn p(&self, index: u32) -> PartitionId {
        PartitionId { topic: self.topic, index }
    }

    fn tell(&mut self, fact: Fact<'_>) {
        self.oracle.observe(self.index, fact, &self.sight);
    }

    fn pass(&mut self, time: Duration) {
        self.sight.now = self.sight.now.after(time);
    }

    /// Commits an entry and has every node apply it.
    fn commit(&mut self, by: u64, command: Command) -> Entry {
        self.commit_from(by, command, Origin::Node)
    }

    fn commit_from(&mut self, by: u64, command: Command, origin: Origin) -> Entry {
        self.sequence += 1;
        let proposal =
            ProposalId { node: NodeId(by), incarnation: Incarnation(1), sequence: self.sequence };
        let entry = Entry { proposal, by: NodeId(by), command };
        self.pass(Duration::from_millis(1));
        self.tell(Fact::Proposed { node: NodeId(by), entry: &entry, origin });
        self.apply(&entry);
        entry
    }

    fn apply(&mut self, entry: &Entry) {
        self.pass(Duration::from_millis(1));
        self.index += 1;
        for node in 1..=self.nodes {
            let index = LogIndex(self.index);
            self.tell(Fact::Applied { node: NodeId(node), index, entry });
        }
    }

    fn register(&mut self, node: u64, life: u64) {
        let (store_uuid, addrs) = (StoreUuid(node.into()), Addresses::default());
        let incarnation = Incarnation(life);
        let node_id = NodeId(node);
        self.commit(node, Command::Register { node: node_id, store_uuid, incarnation, addrs });
    }

    fn kill(&mut self, node: u64) -> Generation {
        let incarnation = self.state().member(NodeId(node)).unwrap().incarnation;
        self.commit(1, Command::MarkDead { node: NodeId(node), incarnation });
        self.state().member(NodeId(node)).unwrap().deaths
    }

    fn assign(&mut self, index: u32, node: u64) {
        let partition = self.p(index);
        self.commit(1, Command::AssignPartition { partition, node: NodeId(node) });
    }

    fn state(&self) -> &State {
        self.oracle.state().unwrap()
    }

    fn expect(&self) -> Expect {
        self.state().assignment(self.p(0)).unwrap().expect()
    }

    /// An operator moves the first partition.
    fn plan(&mut self, to: u64) {
        let (partition, expect, to) = (self.p(0), self.expect(), NodeId(to));
        self.commit_from(1, Command::SetTarget { partition, expect, to }, Origin::Operator);
    }

    fn attempt(&self, n: u32) -> Attempt {
        let row = self.state().assignment(self.p(0)).unwrap();
        let destination = row.target.unwrap();
        let no = AttemptNo { incarnation: Incarnation(1), n };
        Attempt { move_id: row.move_id, destination, no }
    }

    fn token(&self, counter: u64) -> Token {
        let row = self.state().assignment(self.p(0)).unwrap();
        let incarnation = self.state().member(row.owner).unwrap().incarnation;
        Token { epoch: row.epoch, no: FreezeNo { incarnation, counter } }
    }

    fn set_log(&mut self, node: u64, data: Attempt, start: u64, ids: &[u64], hwm: u64) {
        let directory = Directory::Installed(data);
        let key = (NodeId(node), self.p(0), directory);
        self.sight.logs.insert(key, view(start, ids, hwm));
    }

    fn log_mut(&mut self, node: u64, data: Attempt) -> &mut LogView {
        let key = (NodeId(node), self.p(0), Directory::Installed(data));
        self.sight.logs.get_mut(&key).unwrap()
    }

    fn open(&mut self, node: u64, data: Attempt, committed: u64) {
        self.open_at(node, data, &at(committed, &[]));
    }

    fn open_at(&mut self, node: u64, data: Attempt, position: &Position) {
        let log = self.log_mut(node, data);
        let (end, hwm) = (log.end, log.hwm);
        let (node, partition) = (NodeId(node), self.p(0));
        self.tell(Fact::Opened { node, partition, data, end, hwm, position });
    }

    fn serve(&mut self, node: u64, epoch: u64, life: u64) {
        let (epoch, life) = (Epoch(epoch), Incarnation(life));
        let standing = Standing::Serving { epoch, life, in_play: true };
        let (node, partition) = (NodeId(node), self.p(0));
        self.tell(Fact::Stood { node, partition, standing });
    }

    fn close(&mut self, node: u64) {
        let (node, partition) = (NodeId(node), self.p(0));
        self.tell(Fact::Stood { node, partition, standing: Standing::Closed });
        self.tell(Fact::Closed { node, partition });
    }

    /// Appends records without acknowledging them.
    fn append(&mut self, node: u64, data: Attempt, epoch: u64, ids: &[u64]) -> Offset {
        let (partition, epoch) = (self.p(0), Epoch(epoch));
        let first = self.log_mut(node, data).end;
        self.tell(Fact::Admitted { node: NodeId(node), partition, epoch });
        let log = self.log_mut(node, data);
        log.records.extend((first.0..).map(Offset).zip(ids.iter().copied()));
        log.end = Offset(first.0 + ids.len() as u64);
        self.tell(Fact::Appended { node: NodeId(node), partition, epoch, first, ids });
        first
    }

    /// Appends and acknowledges records.
    fn write(&mut self, node: u64, data: Attempt, epoch: u64, ids: &[u64]) {
        let first = self.append(node, data, epoch, ids);
        let log = self.log_mut(node, data);
        log.hwm = log.end;
        let (node, partition, epoch) = (NodeId(node), self.p(0), Epoch(epoch));
        self.tell(Fact::Acknowledged { node, partition, epoch, first, ids });
    }

    /// A node accepts records, and its disk has them.
    fn ingest(&mut self, node: u64, route: Route, first: u64, ids: &[u64]) {
        let (node, topic, first) = (NodeId(node), self.topic, Seq(first));
        let bytes = 100 * ids.len() as u64;
        self.tell(Fact::Ingress(IngressFact::Ingested { node, topic, route, first, ids, bytes }));
        self.sight.ingress.entry(node).or_default().extend(ids);
    }

    /// An owner has acknowledged a batch that a life of another node has brought.
    fn take(&mut self, node: u64, index: u32, from: (u64, u64), n: u64, seqs: &[u64]) {
        let (node, partition, epoch) = (NodeId(node), self.p(index), Epoch(1));
        let (ingress, life) = from;
        let batch = BatchNo { ingress: NodeId(ingress), life: Incarnation(life), n };
        let seqs: Vec<Seq> = seqs.iter().copied().map(Seq).collect();
        self.tell(Fact::Ingress(IngressFact::Taken { node, partition, epoch, batch, seqs: &seqs }));
    }

    fn list(&mut self, node: u64, data: Attempt, asker: u64) {
        let (partition, row) = (self.p(0), self.state().assignment(self.p(0)).unwrap());
        let (move_id, epoch) = (row.move_id, row.epoch);
        let listing = listing(self.log_mut(node, data), epoch);
        let (node, asker) = (NodeId(node), NodeId(asker));
        self.tell(Fact::Listed { node, partition, asker, move_id, listing: &listing });
    }

    fn capture(&mut self, node: u64, data: Attempt, token: Token, position: Position) -> Capture {
        let listing = listing(self.log_mut(node, data), token.epoch);
        let capture = Capture { token, listing, position, digest: Digest(7) };
        let (node, partition) = (NodeId(node), self.p(0));
        self.tell(Fact::Captured { node, partition, capture: &capture });
        self.tell(Fact::CaptureTold { node, partition, token: capture.token });
        capture
    }

    /// The flip that rests on a capture.
    fn flip(&self, attempt: Attempt, capture: &Capture) -> Command {
        Command::CompleteMove {
            partition: self.p(0),
            expect: self.expect(),
            attempt,
            fence: Fence::Normal { token: capture.token },
            end: capture.listing.end,
            hwm: capture.listing.hwm,
            committed: capture.position.committed,
            digest: capture.digest,
        }
    }

    fn forced(&self, attempt: Attempt, generation: Generation, end: u64, hwm: u64) -> Command {
        Command::CompleteMove {
            partition: self.p(0),
            expect: self.expect(),
            attempt,
            fence: Fence::Forced { generation },
            end: Offset(end),
            hwm: Offset(hwm),
            committed: None,
            digest: Digest(7),
        }
    }

    fn deliver(&mut self, node: u64, epoch: u64, first: u64, ids: &[u64], hwm: u64) {
        let (node, partition) = (NodeId(node), self.p(0));
        let (epoch, first, hwm) = (Epoch(epoch), Offset(first), Offset(hwm));
        let how = super::Read::Reserved;
        self.tell(Fact::Consumers(ConsumerFact::Delivered {
            node,
            partition,
            epoch,
            first,
            ids,
            hwm,
            how,
        }));
    }

    fn consume(&mut self, node: u64, epoch: u64, fetched: u64, offset: u64) {
        let (node, partition) = (NodeId(node), self.p(0));
        let (epoch, fetched, offset) = (Epoch(epoch), Epoch(fetched), Offset(offset));
        self.tell(Fact::Consumers(ConsumerFact::ConsumerAck {
            node,
            partition,
            epoch,
            fetched,
            offset,
        }));
    }

    fn stand_at(&mut self, node: u64, epoch: u64, committed: u64, hwm: u64) {
        let (node, partition) = (NodeId(node), self.p(0));
        let committed = Some(Offset(committed));
        let position = Position { committed, acked_ahead: Vec::new() };
        let (epoch, hwm) = (Epoch(epoch), Offset(hwm));
        self.tell(Fact::Consumers(ConsumerFact::Position {
            node,
            partition,
            epoch,
            position: &position,
            hwm,
        }));
    }

    /// Starts a node's machines, in their next life, on the committed state, alone: they find
    /// nothing on their disk, and nothing else answers them.
    fn run_node(&mut self, node: u64) {
        self.run_node_with(node, |operation| match operation {
            Operation::Inspect(_) => Some(Outcome::Inspect(Some(Recovered::default()))),
            _ => None,
        });
    }

    /// As [`Self::run_node`], with other answers.
    fn run_node_with(&mut self, node: u64, answer: impl Fn(&Operation) -> Option<Outcome>) {
        let id = NodeId(node);
        let me = Identity {
            node: id,
            name: name(node),
            store_uuid: StoreUuid(node.into()),
            addrs: Addresses::default(),
        };
        let life = self.state().member(id).unwrap().incarnation.next();
        let state = self.state().clone();
        let (config, held) = (Config::new(node), BTreeSet::new());
        let mut out = Effects::default();
        let mut machines = Node::new(Instant::ORIGIN, me, life, config, state, held, &mut out);
        self.tell(Fact::Started { node: id, life });
        let (store_uuid, addrs) = (StoreUuid(node.into()), Addresses::default());
        let command = Command::Register { node: id, store_uuid, incarnation: life, addrs };
        let entry = self.commit(node, command);
        let mut events = vec![Event::Committed { index: LogIndex(self.index), entry }];
        while let Some(event) = events.pop() {
            machines.handle(Instant::ORIGIN, event, &mut out);
            events.extend(out.drain().filter_map(|effect| match effect {
                Effect::Run(op, operation) => {
                    answer(&operation).map(|outcome| Event::Done(op, outcome))
                }
                _ => None,
            }));
        }
        self.sight.nodes.insert(id, machines);
    }

    /// The names of the invariants that did not hold, each once.
    fn broken(&self) -> Vec<&str> {
        let names: BTreeSet<&str> =
            self.oracle.violations().iter().map(|v| v.invariant.as_str()).collect();
        names.into_iter().collect()
    }

    #[track_caller]
    fn holds(&self) {
        assert_eq!(self.oracle.violations(), [], "nothing is wrong");
    }

    #[track_caller]
    fn breaks(&self, invariants: &[&str]) {
        assert_eq!(self.broken(), invariants, "{:#?}", self.oracle.violations());
    }
}

fn name(node: u64) -> Name {
    Name::new(format!("n{node}")).unwrap()
}

fn join(node: u64) -> Command {
    let (store_uuid, addrs) = (StoreUuid(node.into()), Addresses::default());
    Command::Join { name: name(node), store_uuid, addrs }
}

fn view(start: u64, ids: &[u64], hwm: u64) -> LogView {
    LogView {
        start: Offset(start),
        end: Offset(start + ids.len() as u64),
        hwm: Offset(hwm),
        records: (start..).map(Offset).zip(ids.iter().copied()).collect(),
    }
}

fn listing(log: &LogView, epoch: Epoch) -> Listing {
    Listing {
        incarnation: Incarnation(1),
        generation: LogGeneration(1),
        epoch,
        start: log.start,
        end: log.end,
        hwm: log.hwm,
        extents: Vec::new(),
        agreed: Vec::new(),
    }
}

fn at(committed: u64, ahead: &[u64]) -> Position {
    Position {
        committed: (committed > 0).then_some(Offset(committed)),
        acked_ahead: ahead.iter().copied().map(Offset).collect(),
    }
}

fn policy() -> Policy {
    Policy::default()
}
