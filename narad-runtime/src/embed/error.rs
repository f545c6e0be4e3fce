//! What an embedded node refuses, and why.

use narad_core::config::ConfigError;
use narad_core::freeze::gate::Refused;
use narad_core::ids::{Name, NodeId, Offset};

use super::ledger::LedgerError;
use super::note::BadNote;
use super::store::{RECORD_BYTES_MAX, StoreFault};

/// Why records were not appended, read or acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Not now, or not here.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Another node owns the partition.
    #[error("node {owner} owns the partition: ask there")]
    NotOwner {
        /// The owner, as far as this node knows.
        owner: NodeId,
    },
    /// Nobody does.
    #[error("the partition has no owner: create the topic, or wait for its first assignment")]
    NoOwner,
    /// The owner was asked, and nobody can say what became of it.
    #[error("the outcome is unknown: append again, the records may be there twice then")]
    Unknown,
    /// Nothing to append.
    #[error("an append needs at least one record")]
    Empty,
    /// A record is too long.
    #[error("a record of {bytes} bytes is above the limit of {max}: split it", max = RECORD_BYTES_MAX)]
    TooLarge {
        /// Its bytes.
        bytes: usize,
    },
    /// Consumers cannot see as far.
    #[error("consumers see offsets {start} to {hwm}: go on within them")]
    OutOfRange {
        /// The first one.
        start: Offset,
        /// The one after the last.
        hwm: Offset,
    },
    /// Nobody can stand there.
    #[error("a position is ascending and at most {hwm}: what was not read cannot be acknowledged")]
    NoPosition {
        /// The offset after the last that consumers can see.
        hwm: Offset,
    },
    /// The store failed. Records of an append may be there all the same, hidden.
    #[error(transparent)]
    Store(#[from] StoreFault),
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

impl AppendError {
    /// Whether nothing was done, and it may be done in a moment, here or at another node.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::NotOwner { .. } | Self::NoOwner)
    }
}

/// Why a node does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A part was not given.
    #[error("the builder has no {part}: call `.{part}(..)` before `.start()`")]
    Missing {
        /// The part.
        part: &'static str,
    },
    /// No tokio runtime runs here.
    #[error("a node needs a tokio runtime: start it within one")]
    NoRuntime,
    /// Limits or timing are not sound.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The cluster agrees on another policy.
    #[error("the cluster agrees on another policy: give none, or the same")]
    PolicyDiffers,
    /// Another node has the name.
    #[error("the cluster has a node called {name} with another store: choose another name")]
    NameTaken {
        /// The name.
        name: Name,
    },
    /// The node was taken out for good.
    #[error("node {node} was retired: begin with an empty store and another name")]
    Retired {
        /// The node.
        node: NodeId,
    },
    /// The metastore did not answer.
    #[error("the metastore does not answer: {doing}")]
    NoMetastore {
        /// What was tried.
        doing: &'static str,
    },
    /// The metastore refused what it must take.
    #[error("the metastore refused it: {reason}")]
    Rejected {
        /// Why.
        reason: String,
    },
    /// The transport does not start.
    #[error("the transport does not start: {reason}")]
    Peer {
        /// Why.
        reason: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreFault),
    /// The store holds a note that cannot be read.
    #[error(transparent)]
    Note(#[from] BadNote),
    /// The metastore holds what cannot be folded.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The system gives no thread.
    #[error("the system gives no thread: {reason}")]
    Thread {
        /// Why.
        reason: String,
    },
}

/// Why a node ended by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// The log holds what this build cannot apply.
    #[error(transparent)]
    Stopped(#[from] narad_core::node::Stop),
    /// The metastore showed what cannot be folded.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// An invariant was broken. That is a fault of Narad, or of the memory: the node must not go on.
    #[error("the node has panicked: see the message before this, and report it")]
    Panicked,
}
