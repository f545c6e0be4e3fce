//! One node alone, whose operations a test answers.

use std::collections::{BTreeMap, BTreeSet};

use narad_core::config::Config;
use narad_core::dispatch::Room;
use narad_core::effects::{Effects, OpId};
use narad_core::freeze::Authority;
use narad_core::host;
use narad_core::ids::*;
use narad_core::metastore::*;
use narad_core::node::Outcome;
use narad_core::node::{Effect, Event, Gating, GatingOutcome, Identity, Node, Note, Operation};
use narad_core::partition::{Capture, Listing, Position};
use narad_core::peer::{Answer, Request, RequestId};
use narad_core::time::Instant;

use super::world::{ms, n};

/// Node 1 of a cluster of three, alive and registered; its operations are answered by the test,
/// those of its disk and its gates at once.
pub(super) struct Bench {
    pub(super) node: Node,
    pub(super) state: State,
    pub(super) out: Effects<Effect>,
    pub(super) now: Instant,
    pub(super) answers: BTreeMap<RequestId, Answer>,
    pub(super) notes: Vec<Note>,
    /// What waits for the test.
    pub(super) open: Vec<(OpId, Operation)>,
    /// Whether the gates wait for the test as well.
    pub(super) gates_wait: bool,
    pub(super) authority: Authority,
    /// The last one that was published.
    pub(super) room: Option<Room>,
    pub(super) freezes: u64,
    sequence: u64,
}

impl Bench {
    pub(super) fn new() -> Self {
        let mut state = State::new();
        let voters: BTreeSet<NodeId> = (1..=3).map(n).collect();
        state.configure(LogIndex(1), Configuration { voters, ..Configuration::default() }).unwrap();
        let me = Identity {
            node: n(1),
            name: Name::new("narad-1").unwrap(),
            store_uuid: StoreUuid(1),
            addrs: Addresses::default(),
        };
        let mut out = Effects::default();
        let now = Instant::from_origin(ms(10_000));
        let (config, held) = (Config::new(1), BTreeSet::new());
        let node = Node::new(now, me, Incarnation(1), config, state.clone(), held, &mut out);
        let mut bench = Self {
            node,
            state,
            out,
            now,
            answers: BTreeMap::new(),
            notes: vec![],
            open: vec![],
            gates_wait: false,
            authority: Authority::NONE,
            room: None,
            freezes: 0,
            sequence: 0,
        };
        for id in 1..=3 {
            let name = Name::new(format!("narad-{id}")).unwrap();
            let (store_uuid, addrs) = (StoreUuid(id.into()), Addresses::default());
            bench.commit(id, Command::Join { name, store_uuid, addrs });
            bench.register(id, 1);
        }
        bench
    }

    pub(super) fn leading() -> Self {
        let mut bench = Self::new();
        bench.tell(Event::Leader(Some(n(1))));
        bench
    }

    pub(super) fn register(&mut self, id: u64, life: u64) {
        let (store_uuid, addrs) = (StoreUuid(id.into()), Addresses::default());
        let (node, incarnation) = (n(id), Incarnation(life));
        self.commit(id, Command::Register { node, store_uuid, incarnation, addrs });
    }

    pub(super) fn commit(&mut self, by: u64, command: Command) {
        self.sequence += 1;
        let proposal =
            ProposalId { node: n(by), incarnation: Incarnation(900), sequence: self.sequence };
        let index = LogIndex(self.state.applied().0 + 1);
        let entry = Entry { proposal, by: n(by), command };
        let reply = self.state.apply(index, &entry).unwrap().reply;
        assert!(matches!(reply, Reply::Applied(_)), "{entry:?}: {reply:?}");
        self.tell(Event::Committed { index, entry });
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.node.handle(self.now, event, &mut self.out);
        let effects: Vec<Effect> = self.out.drain().collect();
        for effect in effects {
            match effect {
                Effect::Run(op, operation) => self.run(op, operation),
                Effect::Answer(id, answer) => {
                    assert_eq!(self.answers.insert(id, answer), None, "answered twice");
                }
                Effect::Note(note) => self.notes.push(note),
                Effect::Authority(authority) => self.authority = authority,
                Effect::Room(room) => self.room = Some(room),
                Effect::Cancel(_) | Effect::Reply(..) => {}
                Effect::Stop(stop) => panic!("{stop}"),
            }
        }
    }

    pub(super) fn run(&mut self, op: OpId, operation: Operation) {
        let listing = |epoch| Listing {
            incarnation: Incarnation(1),
            generation: LogGeneration(1),
            epoch,
            start: Offset(0),
            end: Offset(0),
            hwm: Offset(0),
            extents: vec![],
            agreed: vec![],
        };
        let outcome = match operation {
            Operation::Host(_, host::Operation::Open { .. }) => {
                let opened = host::Opened { end: Offset(0), served: None };
                Outcome::Host(host::Outcome::Open(Ok(opened)))
            }
            Operation::Host(_, host::Operation::Close) => Outcome::Host(host::Outcome::Close),
            Operation::Gate(_, Gating::Stand(_)) if !self.gates_wait => {
                Outcome::Gate(GatingOutcome::Stand)
            }
            Operation::Gate(_, Gating::Resume(_)) => Outcome::Gate(GatingOutcome::Resume),
            Operation::Gate(_, Gating::List { .. }) => {
                Outcome::Gate(GatingOutcome::List(Some(listing(Epoch(1)))))
            }
            Operation::Gate(_, Gating::Freeze { epoch, life }) => {
                self.freezes += 1;
                let no = FreezeNo { incarnation: life, counter: self.freezes };
                let capture = Capture {
                    token: Token { epoch, no },
                    listing: listing(epoch),
                    position: Position::default(),
                    digest: Digest(0),
                };
                Outcome::Gate(GatingOutcome::Freeze(Ok(capture)))
            }
            operation => {
                self.open.push((op, operation));
                return;
            }
        };
        self.tell(Event::Done(op, outcome));
    }

    /// Asks as a peer, and returns what was answered at once.
    pub(super) fn ask(&mut self, id: u64, from: Option<u64>, request: Request) -> Option<Answer> {
        let (id, from) = (RequestId(id), from.map(n));
        self.tell(Event::Request { id, from, request });
        self.answers.get(&id).cloned()
    }

    /// Takes the newest operation of that kind that waits.
    #[track_caller]
    pub(super) fn take(&mut self, is_it: impl Fn(&Operation) -> bool) -> OpId {
        let at = self.open.iter().rposition(|(_, operation)| is_it(operation));
        let at = at.unwrap_or_else(|| panic!("not among {:#?}", self.open));
        self.open.remove(at).0
    }

    pub(super) fn assign(&mut self, partitions: u32) -> TopicId {
        let name = Name::new("orders").unwrap();
        self.commit(2, Command::CreateTopic { name, partitions, parent: None });
        let topic = TopicId(self.state.applied().0);
        for index in 0..partitions {
            let partition = PartitionId { topic, index };
            self.commit(2, Command::AssignPartition { partition, node: n(1) });
        }
        topic
    }

    pub(super) fn target(&mut self, partition: PartitionId, to: u64) -> MoveId {
        let expect = self.state.assignment(partition).unwrap().expect();
        self.commit(2, Command::SetTarget { partition, expect, to: n(to) });
        self.state.assignment(partition).unwrap().move_id
    }
}
