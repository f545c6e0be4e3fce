//! One node's replica of the log: of the real one, or of the abstract one.

use std::collections::BTreeSet;

use narad_core::config::Config;
use narad_core::dispatch::{Found, Waybill};
use narad_core::effects::{Deadline, Effects, OpId};
use narad_core::ids::{Incarnation, NodeId, PartitionId};
use narad_core::metastore::{Entry, State};
use narad_core::node::{Effect, Identity, Node};
use narad_core::time::Instant;
use narad_runtime::raft::{MemStore, Raft, RaftConfig};
use narad_runtime::replica::{Actions, Input, Replica, ReplicaError, load};

use crate::metastore::{AbstractLog, AbstractReplica, Access, Reach};
use crate::net::Net;
use crate::time::Time;

/// A replica, whatever carries its log.
#[derive(Debug)]
pub(crate) enum Replicated {
    Raft(Box<Replica<MemStore>>),
    Abstract(Box<AbstractReplica>),
}

/// What a node machine starts with.
pub(crate) struct Seat {
    pub(crate) now: Instant,
    pub(crate) me: Identity,
    pub(crate) incarnation: Incarnation,
    pub(crate) config: Config,
    pub(crate) held: BTreeSet<PartitionId>,
    /// What its ingress log holds.
    pub(crate) accepted: Found<Vec<Waybill>>,
}

impl Seat {
    fn node(self, state: State, first: &mut Effects<Effect>) -> Node {
        let Self { now, me, incarnation, config, held, accepted } = self;
        let mut node = Node::new(now, me, incarnation, config, state, held, first);
        node.resume_ingress(accepted, first);
        node
    }
}

/// Which machines hear one another.
#[derive(Debug)]
pub(crate) struct Hearing<'a> {
    pub(crate) net: &'a Net,
    pub(crate) up: &'a [bool],
    pub(crate) by_node: &'a [Option<usize>],
}

impl Hearing<'_> {
    fn machine(&self, node: NodeId) -> Option<usize> {
        self.by_node.get(usize::try_from(node.0).ok()?).copied().flatten()
    }
}

impl Reach for Hearing<'_> {
    fn talks(&self, a: NodeId, b: NodeId) -> bool {
        match (self.machine(a), self.machine(b)) {
            (Some(a), Some(b)) => {
                self.net.talks(super::traffic::address(a), super::traffic::address(b))
            }
            _ => false,
        }
    }

    fn is_up(&self, node: NodeId) -> bool {
        self.machine(node).is_some_and(|machine| self.up[machine])
    }
}

impl Replicated {
    /// Opens a share of the real log; also returns the state that the node starts from.
    pub(super) fn of_raft(
        config: RaftConfig,
        store: MemStore,
        seat: Seat,
        out: &mut Actions,
    ) -> Result<(Self, State), ReplicaError> {
        let (raft, restored) = Raft::open(config, store)?;
        let state = restored.as_ref().map(load).transpose()?.unwrap_or_default();
        let (now, timeout) = (seat.now, seat.config.request_timeout);
        let mut first = Effects::default();
        let node = seat.node(state.clone(), &mut first);
        let mut replica = Replica::new(now, raft, node, timeout, &mut first, out)?;
        replica.carry_appends();
        Ok((Self::Raft(Box::new(replica)), state))
    }

    /// Takes a place at the abstract log; also returns the state that the node starts from.
    pub(super) fn of_abstract(
        log: &mut AbstractLog,
        hearing: &Hearing<'_>,
        true_now: Time,
        seat: Seat,
        out: &mut Actions,
    ) -> Result<(Self, State), ReplicaError> {
        let state = log.start(true_now, seat.me.node, hearing);
        let (now, me, timeout) = (seat.now, seat.me.node, seat.config.request_timeout);
        let mut first = Effects::default();
        let node = seat.node(state.clone(), &mut first);
        let mut access = Access { now: true_now, log, reach: hearing };
        let mut replica =
            AbstractReplica::new(now, me, node, timeout, &mut first, &mut access, out)?;
        replica.hand_out_appends();
        Ok((Self::Abstract(Box::new(replica)), state))
    }

    pub(crate) fn node(&self) -> &Node {
        match self {
            Self::Raft(replica) => replica.node(),
            Self::Abstract(replica) => replica.node(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        match self {
            Self::Raft(replica) => replica.deadline(),
            Self::Abstract(replica) => replica.deadline(),
        }
    }

    /// Returns the term of Raft; the abstract log has none.
    pub(crate) fn term(&self) -> u64 {
        match self {
            Self::Raft(replica) => replica.raft().leadership().term.0,
            Self::Abstract(_) => 0,
        }
    }

    pub(super) fn handle(
        &mut self,
        now: Instant,
        input: Input<'_>,
        access: Option<&mut Access<'_>>,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        match (self, access) {
            (Self::Raft(replica), _) => replica.handle(now, input, out),
            (Self::Abstract(replica), Some(access)) => replica.handle(now, input, access, out),
            (Self::Abstract(_), None) => unreachable!("an abstract log has its access"),
        }
    }

    pub(super) fn hand_over(
        &mut self,
        now: Instant,
        to: NodeId,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        match self {
            Self::Raft(replica) => replica.hand_over(now, to, out),
            // The abstract log is asked itself.
            Self::Abstract(_) => Ok(()),
        }
    }

    pub(super) fn append(
        &mut self,
        now: Instant,
        op: OpId,
        entry: &Entry,
        access: Option<&mut Access<'_>>,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        match (self, access) {
            (Self::Raft(replica), _) => replica.append(now, op, entry, out),
            (Self::Abstract(replica), Some(access)) => {
                replica.append(now, op, entry.clone(), access, out)
            }
            (Self::Abstract(_), None) => unreachable!("an abstract log has its access"),
        }
    }
}
