//! One node: the façade that owns every machine, and the only one that a driver binds.
//!
//! # Purpose
//!
//! A driver turns the outside into [`Event`]s and [`Effect`]s into the outside, and decides
//! nothing. In between, this machine folds the replicated log into [`State`], brings its
//! partitions in line with their rows, and passes questions and answers to the machine that they
//! are for.
//!
//! # States
//!
//! ```text
//!                    own life applied                    declared dead
//!  Starting ───────────────────────────▶ Registered ───────────────────▶ Starting (next life)
//!     commits nothing, moves nothing        │ retired
//!                                           ▼
//!                                        Retired: serves nothing, for good
//! ```
//!
//! For each partition that concerns this node there is at most one [`Host`] (it owns it), one
//! [`Handoff`] (it owns it and its log is open), and one [`Mover`] (it is to move here).
//!
//! # Invariants
//!
//! 1. Rows are acted upon only while this node's own life is registered (H6, case M133).
//! 2. A directory is set aside only if the replicated state proves it dead (S10).
//! 3. One inspection, one move, one host per partition at a time: no two machines write to one
//!    directory.
//! 4. An entry that cannot be applied stops the node: skipping it would let replicas diverge.
//!
//! # After a restart
//!
//! The driver gives what its snapshot held; the log is replayed as events. Nothing is served
//! before the new life's registration has been applied.

mod acks;
mod agenda;
mod asks;
mod dispatching;
mod leaving;
mod logs;
mod observe;
mod operation;
mod partitions;
mod proposing;
mod reports;
mod requests;
mod retries;
mod routes;
mod salvage;
mod sources;
mod sweep;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::config::Config;
use crate::controller::{self, Controller};
use crate::dispatch::{self, Dispatch, Room, Waybill};
use crate::effects::{Deadline, Effects, OpId, Ops};
use crate::freeze::{Authority, Handoff, handoff};
use crate::host::{self, Host};
use crate::ids::{Incarnation, LogIndex, Name, NodeId, PartitionId, Seq, StoreUuid};
use crate::lease::{self, Lease};
use crate::metastore::{Addresses, Configuration, Entry, Halt, State};
use crate::mover::journal::Journals;
use crate::mover::{self, FreezeCost, Mover};
use crate::peer::{self, RequestId};
use crate::proposals::Proposals;
use crate::time::Instant;

pub use asks::{Ask, AskError, Loss, Said};
pub use observe::{News, Note};
pub use operation::{
    CallFault, Gating, GatingOutcome, Operation, Outcome, Salvaged, Shipping, ShippingOutcome,
    Staging, StagingOutcome,
};

use acks::Acknowledged;
use agenda::{Agenda, Key};
use leaving::Leaving;
use reports::Reports;
use routes::{Internal, Route, Ticket};
use salvage::Salvages;
use sources::Deaths;
use sweep::Sweeps;

/// Names one question of an operator or client; minted by the driver, used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AskId(pub u64);

/// Who a node is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its id, also in the Raft log.
    pub node: NodeId,
    /// Its name.
    pub name: Name,
    /// The identity of its disk.
    pub store_uuid: StoreUuid,
    /// Where it listens.
    pub addrs: Addresses,
}

/// Something the driver tells the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Time passed.
    Wake,
    /// An operation ended.
    Done(OpId, Outcome),
    /// The log committed an entry; entries come in order, each once per life.
    Committed {
        /// Its position.
        index: LogIndex,
        /// What it says.
        entry: Entry,
    },
    /// The log committed a change of who takes part in it.
    Configured {
        /// Its position.
        index: LogIndex,
        /// The configuration from there on.
        configuration: Configuration,
    },
    /// The log committed an entry that says nothing.
    Skipped {
        /// Its position.
        index: LogIndex,
    },
    /// A snapshot replaced everything applied so far.
    Restored(Box<State>),
    /// Who leads the log has changed, or is not known.
    Leader(Option<NodeId>),
    /// A peer asks.
    Request {
        /// Names the question.
        id: RequestId,
        /// Who asks, as the connection proved; `None` for a node that has no id yet.
        from: Option<NodeId>,
        /// What it asks.
        request: peer::Request,
    },
    /// An operator or client asks.
    Ask {
        /// Names the question.
        id: AskId,
        /// What is asked.
        ask: Ask,
    },
    /// A write or an fsync of a live log failed; its file must not be used again.
    Poisoned(PartitionId),
    /// These records are durable in this node's ingress log. Each is told once, in ascending order,
    /// and before its producer is answered.
    Accepted(Vec<Waybill>),
    /// The process is about to end: nothing more is brought to owners, and what has arrived is noted.
    /// See [`Node::has_stopped`].
    Stopping,
}

/// Something the node asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Run an operation; exactly one [`Event::Done`] answers it, unless the process ends first.
    Run(OpId, Operation),
    /// End an operation early; its `Done` still follows.
    Cancel(OpId),
    /// Answers a peer.
    Answer(RequestId, peer::Answer),
    /// Answers an operator or client.
    Reply(AskId, Result<Said, AskError>),
    /// What every gate of this node may rely on from now on.
    Authority(Authority),
    /// How much this node accepts from now on. What was let in and not told yet is to be counted off.
    Room(Room),
    /// An observation; nothing answers it.
    Note(Note),
    /// The node can go on no more; the process ends with this.
    Stop(Stop),
}

/// Why a node can go on no more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Stop {
    /// The log holds something that this version cannot apply.
    #[error(transparent)]
    Halted(#[from] Halt),
}

/// Every machine of one node; see the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    me: Identity,
    incarnation: Incarnation,
    config: Config,
    now: Instant,
    state: State,
    leader: Option<NodeId>,
    /// How often this node has begun to lead.
    leaderships: u64,
    ops: Ops,
    routes: BTreeMap<OpId, Route>,
    proposals: Proposals<Ticket>,
    lease: Lease,
    controller: Controller,
    hosts: BTreeMap<PartitionId, Host>,
    handoffs: BTreeMap<PartitionId, Handoff>,
    /// Reigns that are over while their gates may not know it yet.
    closing: BTreeSet<PartitionId>,
    news: News,
    /// How far the log was applied when no gate served a reign that is over.
    stood: LogIndex,
    movers: BTreeMap<PartitionId, Mover>,
    /// What freezes of moves to this node have cost in this process.
    freeze_cost: FreezeCost,
    /// What the movers were told, if somebody wants to know.
    journals: Option<Journals>,
    dispatch: Dispatch,
    /// The last one that was published.
    room: Option<Room>,
    acknowledged: Acknowledged,
    salvages: Salvages,
    agenda: Agenda,
    sweeps: Sweeps,
    /// Failed logs that are opened again once their freeze is over.
    poisoned: BTreeSet<PartitionId>,
    deaths: Deaths,
    reports: Reports,
    leaving: Leaving,
    authority: Authority,
    inbox: VecDeque<Internal>,
    out: Effects<Effect>,
}

impl Node {
    /// Most internal events that one event may lead to; more would be a loop.
    const INTERNAL_MAX: usize = 1 << 22;

    /// Starts a node, for the first time or again.
    ///
    /// `state` is what its snapshot held, `held` are the partitions of which anything is on its
    /// disk. The log from the snapshot on is replayed as events.
    pub fn new(
        now: Instant,
        me: Identity,
        incarnation: Incarnation,
        config: Config,
        state: State,
        held: BTreeSet<PartitionId>,
        out: &mut Effects<Effect>,
    ) -> Self {
        let who =
            lease::Identity { node: me.node, store_uuid: me.store_uuid, addrs: me.addrs.clone() };
        let mut first = Effects::default();
        let term = state.policy().lease;
        let mut node = Self {
            lease: Lease::new(&config, who, incarnation, term, &mut first),
            controller: Controller::new(me.node, incarnation, config.clone()),
            proposals: Proposals::new(me.node, incarnation, config.request_timeout),
            dispatch: Dispatch::new(
                &config,
                me.node,
                incarnation,
                dispatch::Found { next: Seq(0), waybills: [], closed: false },
                &mut Effects::default(),
            ),
            room: None,
            acknowledged: Acknowledged::default(),
            salvages: Salvages::default(),
            ops: Ops::new(incarnation),
            me,
            incarnation,
            config,
            now,
            state: State::new(),
            leader: None,
            leaderships: 0,
            routes: BTreeMap::new(),
            hosts: BTreeMap::new(),
            handoffs: BTreeMap::new(),
            closing: BTreeSet::new(),
            news: News::default(),
            stood: LogIndex(0),
            movers: BTreeMap::new(),
            freeze_cost: FreezeCost::default(),
            journals: None,
            agenda: Agenda::default(),
            sweeps: Sweeps::holding(held),
            poisoned: BTreeSet::new(),
            deaths: Deaths::default(),
            reports: Reports::default(),
            leaving: Leaving::default(),
            authority: Authority::NONE,
            inbox: VecDeque::new(),
            out: Effects::default(),
        };
        node.lease_wants(&mut first);
        node.restored(state);
        node.settle();
        node.hand_out(out);
        node
    }

    /// Advances the node by one event.
    pub fn handle(&mut self, now: Instant, event: Event, out: &mut Effects<Effect>) {
        self.now = self.now.max(now);
        match event {
            Event::Wake => self.wake(),
            Event::Done(op, outcome) => self.done(op, outcome),
            Event::Committed { index, entry } => self.committed(index, &entry),
            Event::Configured { index, configuration } => self.configured(index, configuration),
            Event::Skipped { index } => self.skipped(index),
            Event::Restored(state) => self.restored(*state),
            Event::Leader(leader) => self.leader_is(leader),
            Event::Request { id, from, request } => self.requested(id, from, request),
            Event::Ask { id, ask } => self.asked(id, ask),
            Event::Poisoned(partition) => self.tell_host(partition, host::Event::Poisoned),
            Event::Accepted(waybills) => {
                self.inbox.push_back(Internal::Dispatch(dispatch::Event::Accepted(waybills)));
            }
            Event::Stopping => self.inbox.push_back(Internal::Dispatch(dispatch::Event::Stopping)),
        }
        self.settle();
        self.hand_out(out);
    }

    /// Returns when the node wants to be woken.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        [
            self.agenda.first(),
            self.lease.deadline(),
            self.controller.deadline(),
            self.proposals.deadline(),
            self.reports.deadline(),
            self.sweeps.deadline(),
            self.leaving_deadline(),
            self.dispatch.deadline(),
            self.acknowledged.deadline(),
        ]
        .into_iter()
        .fold(None, Deadline::earlier)
    }

    /// Wakes every machine whose time has come.
    fn wake(&mut self) {
        for key in self.agenda.due(self.now) {
            self.inbox.push_back(match key {
                Key::Host(partition) => Internal::Host(partition, host::Event::Wake),
                Key::Handoff(partition) => Internal::Handoff(partition, handoff::Event::Wake),
                Key::Mover(partition) => Internal::Mover(partition, mover::Event::Wake),
            });
        }
        let due = |deadline: Option<Deadline>| deadline.is_some_and(|due| due.at <= self.now);
        if due(self.lease.deadline()) {
            self.inbox.push_back(Internal::Lease(lease::Event::Wake));
        }
        if due(self.controller.deadline()) {
            self.inbox.push_back(Internal::Controller(controller::Event::Wake));
        }
        if due(self.dispatch.deadline()) {
            self.inbox.push_back(Internal::Dispatch(dispatch::Event::Wake));
        }
        for partition in self.acknowledged.take_due(self.now) {
            self.forward_acks(partition);
        }
        for (ticket, proposed) in self.proposals.wake(self.now) {
            self.inbox.push_back(Internal::Proposed(ticket, proposed));
        }
        for partition in self.sweeps.take_due(self.now) {
            self.touch(partition);
        }
    }

    /// Lets the machines tell one another until nobody has anything to say.
    fn settle(&mut self) {
        for _ in 0..Self::INTERNAL_MAX {
            if let Some(internal) = self.inbox.pop_front() {
                self.pass_on(internal);
                continue;
            }
            self.leave();
            self.plan_reports();
            self.gates_stand();
            if self.inbox.is_empty() {
                self.publish_authority();
                self.publish_room();
                return;
            }
        }
        panic!("the machines of a node never fall silent: {:?}", self.inbox.front());
    }

    fn publish_authority(&mut self) {
        let authority = self.lease.authority();
        if authority != self.authority {
            self.authority = authority;
            self.out.push(Effect::Authority(authority));
        }
    }

    fn hand_out(&mut self, out: &mut Effects<Effect>) {
        out.append(&mut self.out);
    }
}
