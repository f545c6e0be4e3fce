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
//! [`Handoff`] (it owns it and it is to move away), and one [`Mover`] (it is to move here).
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

mod asks;
mod reconcile;
mod reports;
mod requests;
mod translate;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::config::Config;
use crate::controller::{self, Change, Controller};
use crate::effects::{Deadline, Effects, OpId, Ops};
use crate::freeze::{self, Authority, Handoff};
use crate::host::{self, Host};
use crate::ids::{
    Attempt, Generation, Incarnation, LogIndex, Name, NodeId, Offset, PartitionId, StoreUuid, Token,
};
use crate::lease::{self, Lease};
use crate::metastore::{
    Addresses, Command, Configuration, Entry, Halt, Outcome as Fold, Reply, State, Status,
};
use crate::mover::{self, Mover};
use crate::partition::{
    Boundary, Capture, Listing, Manifest, Recovered, Sidecar, Staged, Verified,
};
use crate::peer;
use crate::proposals::{Proposals, Proposed};
use crate::time::Instant;

pub use asks::{Ask, AskError, Said};

/// Names one question of a peer; minted by the driver, used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId(pub u64);

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
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

/// Something the node asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// An observation; nothing answers it.
    Note(Note),
    /// The node can go on no more; the process ends with this.
    Stop(Stop),
}

/// Why a node can go on no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The log holds something that this version cannot apply.
    #[error(transparent)]
    Halted(#[from] Halt),
}

/// Work with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Append an entry to the log, which this node leads.
    Append(Entry),
    /// A read barrier: answered once everything committed before it began is applied here.
    Barrier,
    /// A read barrier, and how far each replica has come.
    Survey,
    /// Change who takes part in the log.
    Configure(Change),
    /// Hand the lead to another voter.
    Transfer {
        /// Who is to lead.
        to: NodeId,
    },
    /// Ask a peer.
    Call {
        /// The peer.
        to: NodeId,
        /// The question.
        request: peer::Request,
    },
    /// Make the next incarnation durable.
    NextIncarnation,
    /// Say what is on the disk of a partition.
    Inspect(PartitionId),
    /// Work on the live log of a partition.
    Host(PartitionId, host::Operation),
    /// Work on the staging area of a partition.
    Stage(PartitionId, Staging),
    /// Work on the gate of a partition.
    Gate(PartitionId, Gating),
    /// Say how far consumers can see in live logs.
    Hwms(Vec<PartitionId>),
}

/// Work on the staging area of a partition that moves here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Staging {
    /// Copy a range of one extent from the source.
    Copy {
        /// The source.
        source: NodeId,
        /// The extent.
        base: Offset,
        /// Where in it, in bytes.
        position: u64,
        /// How much, in bytes.
        bytes: u64,
    },
    /// Make staged bytes durable, then the manifest that vouches for them.
    Checkpoint(Manifest),
    /// Drop staged bytes beyond these.
    Trim(Vec<Staged>),
    /// Find out whether so many bytes fit, and whether the disk takes a write at all.
    Probe {
        /// How much is still to come.
        bytes: u64,
    },
    /// Read back what is staged.
    Verify(Boundary),
    /// Make the copy a directory of its own, named by the attempt.
    Install {
        /// The attempt.
        attempt: Attempt,
        /// What is kept beside the log.
        sidecar: Sidecar,
        /// What the copy was made from.
        manifest: Manifest,
    },
    /// Make an installed directory the staging area again.
    Restage(Attempt),
    /// Move something to quarantine.
    SetAside(mover::What),
}

/// Work on the gate of a partition that is owned here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gating {
    /// Note whether the partition may be flipped away.
    InPlay(bool),
    /// List what is durable.
    List {
        /// This node's life.
        incarnation: Incarnation,
        /// Staged extents to compare with.
        check: Vec<Staged>,
    },
    /// Stop accept and commit, and capture the boundary.
    Freeze {
        /// This node's life.
        incarnation: Incarnation,
    },
    /// Go on.
    Thaw(Token),
    /// Forget every freeze: the life that they were made in is over.
    Void,
}

/// How an operation ended. Variants mirror [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// See [`Operation::Append`]: whether it was handed to the log.
    Append(bool),
    /// See [`Operation::Barrier`]; `None` if no leader confirmed it in time.
    Barrier(Option<LogIndex>),
    /// See [`Operation::Survey`]; `None` if no barrier was reached in time.
    Survey(Option<(LogIndex, BTreeMap<NodeId, LogIndex>)>),
    /// See [`Operation::Configure`]: whether it was handed to the log.
    Configure(bool),
    /// See [`Operation::Transfer`]: it was asked for.
    Transfer,
    /// See [`Operation::Call`].
    Call(Result<peer::Answer, CallFault>),
    /// See [`Operation::NextIncarnation`]; `None` if the disk failed.
    NextIncarnation(Option<Incarnation>),
    /// See [`Operation::Inspect`]; `None` if the disk failed.
    Inspect(Option<Recovered>),
    /// See [`Operation::Host`].
    Host(host::Outcome),
    /// See [`Operation::Stage`].
    Stage(StagingOutcome),
    /// See [`Operation::Gate`].
    Gate(GatingOutcome),
    /// See [`Operation::Hwms`].
    Hwms(Vec<(PartitionId, crate::ids::Epoch, Offset)>),
}
