//! What goes in and out of a [`Lease`](super::Lease).

use core::time::Duration;

use crate::effects::OpId;
use crate::ids::{Incarnation, LogIndex, NodeId, StoreUuid};
use crate::metastore::{Addresses, Command, Member, Reason, Status};
use crate::peer::Refusal;
use crate::proposals::Proposed;

/// Who registers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// The identity of its disk.
    pub store_uuid: StoreUuid,
    /// Where it listens.
    pub addrs: Addresses,
}

/// The own row of the members, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OwnRow {
    /// The life that is registered.
    pub incarnation: Incarnation,
    /// Whether it is taken to be alive.
    pub status: Status,
}

impl From<&Member> for OwnRow {
    fn from(member: &Member) -> Self {
        Self { incarnation: member.incarnation, status: member.status }
    }
}

/// Something the driver tells the machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Event {
    /// Time passed.
    Wake,
    /// An operation ended.
    Done(OpId, Outcome),
    /// The node's replica has applied entries.
    Applied {
        /// The own row there, if there is one.
        member: Option<OwnRow>,
        /// The lease in the policy there.
        lease: Duration,
    },
    /// Entries are applied up to here, and no gate of this node serves a reign that is over there.
    Stood(LogIndex),
    /// Who leads, as far as this node's consensus knows.
    Leader(Option<NodeId>),
}

/// Something the machine asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Effect {
    /// Run an operation; exactly one [`Event::Done`] answers it, unless the process ends first.
    Run(OpId, Operation),
    /// End an operation early; its `Done` still follows.
    Cancel(OpId),
    /// An observation; nothing answers it.
    Note(Note),
}

/// Work with an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Operation {
    /// Say to a leader that this life is alive. A node that leads asks itself the same way.
    Heartbeat {
        /// Whom.
        to: NodeId,
        /// The life.
        incarnation: Incarnation,
    },
    /// Propose the `Register` of the present life.
    Propose(Command),
    /// Make the next life durable. The answer is larger than every life before (H6).
    NextIncarnation {
        /// The present life.
        after: Incarnation,
    },
}

/// How an operation ended. Variants mirror [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outcome {
    /// See [`Operation::Heartbeat`]: the barrier's index, or why there is none.
    Heartbeat(Result<LogIndex, HeartbeatFault>),
    /// See [`Operation::Propose`].
    Propose(Proposed),
    /// See [`Operation::NextIncarnation`].
    NextIncarnation(Result<Incarnation, DiskFault>),
}

/// Why a heartbeat renews nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum HeartbeatFault {
    /// No answer came.
    #[error("no answer came from the leader: check that it can be reached")]
    Unreachable,
    /// The asked node refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The next life could not be made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[error("the next incarnation could not be made durable: look at the disk of this node")]
pub struct DiskFault;

/// Something worth knowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Note {
    /// The life is registered: commits may begin.
    Registered(Incarnation),
    /// A `Register` was refused; it is tried again.
    RegisterRejected(Reason),
    /// The leader says that this node is Dead; the own row will say so too (H32).
    DeclaredDead,
    /// A later life has begun: every freeze of an earlier one is void.
    NewLife(Incarnation),
    /// The next life could not be made durable; it is tried again.
    DiskFault,
    /// A later life than this one is registered: another process, or an older disk image, runs as
    /// this node. It never serves; an operator must look (H25).
    Superseded {
        /// The registered life.
        by: Incarnation,
    },
    /// The lease has been renewed after there was none.
    Leased,
    /// The answer of an operation that is not under way.
    Stale(OpId),
}
