//! A few whole nodes, their gates and disks, a log and what is on the wire: one value.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use narad_core::config::{Config, Policy};
use narad_core::effects::OpId;
use narad_core::freeze::Authority;
use narad_core::freeze::gate::Gate;
use narad_core::ids::{
    Attempt, Epoch, MoveId, Name, NodeId, Offset, PartitionId, StoreUuid, Token,
};
use narad_core::metastore::{Addresses, Assignment, Entry, State};
use narad_core::node::{Identity, Node, Operation};
use narad_core::peer::{Answer, Request};
use narad_core::time::Instant;

use super::budget::Budget;
use super::disk::Area;
use super::hash::Shared;
use super::log::Log;
use super::{Breakage, Order};

/// Whoever leads the log: none of the nodes.
pub(super) const LOG: NodeId = NodeId(99);

/// One machine: what outlives a process, and the process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Machine {
    pub(super) area: Area,
    pub(super) incarnation: u64,
    /// What a process would start from: what the last one had applied when it ended. None while
    /// one runs, which holds it itself.
    pub(super) snapshot: Option<Box<State>>,
    pub(super) process: Option<Process>,
    /// Whether nothing passes between it and the log.
    pub(super) cut: bool,
    /// Whether nothing passes between it and the other nodes either.
    pub(super) isolated: bool,
    /// Whether it applies nothing for now.
    pub(super) lagging: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) node: Node,
    pub(super) gate: Gate<OpId>,
    /// The directory whose log is open.
    pub(super) open: Option<Attempt>,
    pub(super) authority: Authority,
    /// Operations without an answer.
    pub(super) running: BTreeMap<OpId, Running>,
    /// Questions of peers without an answer.
    pub(super) asked: BTreeMap<u64, (NodeId, OpId)>,
    pub(super) append: Option<Append>,
}

/// How far an operation is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Running {
    /// It is yet to be carried out.
    Pending(Box<Operation>),
    /// A message is on its way, or its answer. If it asks for a listing, of which plan.
    Called(Option<MoveId>),
    /// A barrier waits for this entry to be applied here.
    Barrier(u64),
    /// A freeze waits for the append under way.
    Freezing,
}

/// An append under way. The admission itself cannot be cloned; it is what this gate, asked again
/// at that instant, would give.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Append {
    pub(super) before: Gate<OpId>,
    pub(super) at: Instant,
    pub(super) authority: Authority,
    pub(super) epoch: Epoch,
    pub(super) content: u8,
    /// Where the log ends with it, once it is durable.
    pub(super) durable: Option<u64>,
    /// Whether its end takes its time.
    pub(super) slow: bool,
}

/// Something on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Message {
    Request { from: NodeId, op: OpId, to: NodeId, request: Request },
    Answer { to: NodeId, op: OpId, from: NodeId, answer: Answer },
    Proposal { from: NodeId, op: OpId, entry: Entry },
}

impl Message {
    /// Returns whose operation it is about.
    pub(super) const fn asker(&self) -> (NodeId, OpId) {
        match self {
            Self::Request { from, op, .. } | Self::Proposal { from, op, .. } => (*from, *op),
            Self::Answer { to, op, .. } => (*to, *op),
        }
    }

    /// In which order messages arrive if nothing is late: what changes the state first.
    pub(super) const fn rank(&self) -> u8 {
        match self {
            Self::Proposal { .. } => 0,
            Self::Request { .. } => 1,
            Self::Answer { .. } => 2,
        }
    }
}

/// What only somebody who sees everything knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ghost {
    pub(super) produced: u8,
    pub(super) acked: Vec<Acked>,
    /// Accepted once more by some node: these are held, wherever they were before.
    pub(super) salvaged: BTreeSet<u8>,
    /// Freezes that somebody was told of, and on which a flip may still rest.
    pub(super) captures: Vec<Captured>,
    /// Plans whose destination has heard a listing of the source.
    pub(super) sessions: Vec<MoveId>,
    /// Highest watermark that a committed report of the present reign names.
    pub(super) reported: Option<Offset>,
    /// How far consumers may see, by reign.
    pub(super) visible: BTreeMap<Epoch, u64>,
    /// The last reign that began with a declared loss: earlier owners that write on are the stated
    /// exception to S2.
    pub(super) declared: Epoch,
    /// The last reign that served, and its highest watermark.
    pub(super) shown: Option<(Epoch, u64)>,
}

/// One acknowledged record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Acked {
    pub(super) content: u8,
    pub(super) epoch: Epoch,
    pub(super) owner: NodeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Captured {
    pub(super) owner: NodeId,
    pub(super) token: Token,
    pub(super) move_id: MoveId,
}

/// An invariant that does not hold.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    pub(super) invariant: &'static str,
    pub(super) text: String,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) machines: Vec<Shared<Machine>>,
    pub(super) log: Shared<Log>,
    /// When the leader last heard of each node.
    pub(super) heard: Vec<Instant>,
    pub(super) wire: Vec<Shared<Message>>,
    /// Messages that are late; each may arrive at any time.
    pub(super) held: Vec<Shared<Message>>,
    pub(super) ghost: Shared<Ghost>,
    pub(super) budget: Budget,
    pub(super) broken: Option<Broken>,
    /// Whether time has passed in vain: nothing new ever happens.
    pub(super) stalled: bool,
    /// What happens, for people; only while a path is told.
    pub(super) story: Option<Vec<String>>,
    pub(super) rules: Rules,
}

/// What is the same in all worlds of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) partition: PartitionId,
    pub(super) breakage: Option<Breakage>,
    pub(super) order: Order,
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Seconds for what is usually milliseconds to minutes: only the order of deadlines matters.
pub(super) fn config(node: NodeId) -> Config {
    Config {
        heartbeat_interval: secs(6),
        // Whoever is to learn nothing is told so by the wire, at any time.
        request_timeout: secs(100_000),
        pass_interval: Duration::ZERO,
        passes_max: 2,
        stall_passes: 1,
        stall_window: Duration::ZERO,
        lag_bytes: super::disk::RECORD,
        chunks_in_flight_max: 1,
        freeze_ttl: secs(5),
        freeze_max: secs(15),
        freeze_duty_percent: 100,
        freeze_admission_max: secs(3),
        retry_min: secs(1),
        retry_max: secs(16),
        ..Config::new(node.0)
    }
}

/// A lease outlasts the silence after which a node is declared dead, so that the wait before a
/// promotion matters (H9).
pub(super) fn policy() -> Policy {
    let policy = Policy {
        lease: secs(35),
        lease_margin: secs(1),
        dead_timeout: secs(10),
        force_promote_after: secs(40),
        ..Policy::default()
    };
    policy.check().expect("these timings are safe");
    policy
}

pub(super) fn identity(node: NodeId) -> Identity {
    Identity {
        node,
        name: Name::new(format!("n{node}")).expect("a number makes a name"),
        store_uuid: StoreUuid(node.0.into()),
        addrs: Addresses::default(),
    }
}

impl World {
    /// Makes a cluster at rest: the first node owns the partition, of which one record is visible.
    pub(super) fn new(nodes: u8, budget: Budget, breakage: Option<Breakage>, order: Order) -> Self {
        let ids: Vec<NodeId> = (1..=u64::from(nodes)).map(NodeId).collect();
        let (log, topic) = Log::bootstrap(&ids);
        let machine = |_: &NodeId| {
            Shared::new(Machine {
                area: Area::default(),
                incarnation: 0,
                snapshot: Some(Box::new(log.state.clone())),
                process: None,
                cut: false,
                isolated: false,
                lagging: false,
            })
        };
        let partition = PartitionId { topic, index: 0 };
        let nothing = Budget { pauses: 100, records: 1, ..Budget::NONE };
        let mut world = Self {
            now: Instant::ORIGIN,
            machines: ids.iter().map(machine).collect(),
            heard: vec![Instant::ORIGIN; ids.len()],
            log: Shared::new(log),
            wire: Vec::new(),
            held: Vec::new(),
            ghost: Shared::new(Ghost::default()),
            budget: nothing,
            broken: None,
            stalled: false,
            story: None,
            rules: Rules { partition, breakage: None, order },
        };
        for id in &ids {
            world.start(*id);
        }
        world.run_fairly(400);
        world.assign(ids[0]);
        world.run_fairly(400);
        world.produce_one(ids[0]);
        assert!(world.is_at_rest(), "the world begins at rest");
        world.rules.breakage = breakage;
        for id in ids {
            let authority = world.process(id).map(|process| world.granted(process.authority));
            world.edit_process(id).authority = authority.expect("everybody is up");
        }
        world.budget = budget;
        world
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..=self.machines.len() as u64).map(NodeId)
    }

    pub(super) fn at(node: NodeId) -> usize {
        usize::try_from(node.0).expect("few nodes") - 1
    }

    pub(super) fn machine(&self, node: NodeId) -> &Machine {
        &self.machines[Self::at(node)]
    }

    pub(super) fn edit(&mut self, node: NodeId) -> &mut Machine {
        self.machines[Self::at(node)].edit()
    }

    pub(super) fn process(&self, node: NodeId) -> Option<&Process> {
        self.machine(node).process.as_ref()
    }

    /// Returns the process of a node that is known to run.
    pub(super) fn edit_process(&mut self, node: NodeId) -> &mut Process {
        self.edit(node).process.as_mut().expect("it runs")
    }

    pub(super) fn row(&self) -> Option<&Assignment> {
        self.log.state.assignment(self.rules.partition)
    }

    /// Returns how far a node has applied the log.
    pub(super) fn applied(&self, node: NodeId) -> u64 {
        let machine = self.machine(node);
        let running = machine.process.as_ref().map(|process| process.node.state());
        running.or(machine.snapshot.as_deref()).map_or(0, |state| state.applied().0)
    }

    /// Returns the log that a node has open.
    pub(super) fn live(&self, node: NodeId) -> Option<&super::disk::Directory> {
        let machine = self.machine(node);
        machine.area.installed.get(&machine.process.as_ref()?.open?)
    }

    pub(super) fn edit_live(&mut self, node: NodeId) -> Option<&mut super::disk::Directory> {
        let machine = self.edit(node);
        let open = machine.process.as_ref()?.open?;
        machine.area.installed.get_mut(&open)
    }

    pub(super) fn is_breaking(&self, breakage: Breakage) -> bool {
        self.rules.breakage == Some(breakage)
    }

    pub(super) fn tell_story(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(line());
        }
    }

    pub(super) fn violate(&mut self, invariant: &'static str, text: String) {
        if self.broken.is_none() {
            self.broken = Some(Broken { invariant, text });
        }
    }

    /// Has the partition's first owner be that node.
    fn assign(&mut self, node: NodeId) {
        let partition = self.rules.partition;
        self.log.edit().say(narad_core::metastore::Command::AssignPartition { partition, node });
    }
}
