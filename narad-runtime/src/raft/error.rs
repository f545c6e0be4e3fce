//! What can go wrong, and what to do then.

use super::output::Term;
use super::store::Position;
use narad_core::ids::{LogIndex, NodeId};
use std::io;
use std::path::PathBuf;

/// Why a store could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process, or this one, has the file open.
    #[error("{} is open already: stop the other process that uses this data directory", path.display())]
    AlreadyOpen {
        /// The file.
        path: PathBuf,
    },
    /// A store was to be made where something exists.
    #[error("{} exists already: open it, or choose an empty data directory", path.display())]
    AlreadyExists {
        /// The file.
        path: PathBuf,
    },
    /// The file is none that this crate wrote.
    #[error("{} is not a raft store of narad ({reason}): check the data directory", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What gave it away.
        reason: String,
    },
    /// The file was written by a later version.
    #[error("{} has format {found}, this version knows {known}: upgrade this node", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The latest format that is known here.
        known: u64,
    },
    /// The file was damaged.
    #[error(
        "{} is damaged ({reason}): do not repair it; remove this node from the cluster and join \
         again with an empty data directory",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// The device failed.
    #[error(
        "the raft store failed while {doing} ({source}): check the disk, then start the node again"
    )]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a node cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum RaftError {
    /// The store failed. The node has stopped: what it would have promised next is not durable.
    #[error(transparent)]
    Storage(#[from] StoreError),
    /// An earlier error stopped the node.
    #[error("this raft node stopped after an earlier error: end the process and start it again")]
    Stopped,
    /// The numbers of the configuration contradict each other.
    #[error("the raft configuration is invalid: {0}")]
    Config(String),
    /// The store is another node's.
    #[error("this store is node {stored}'s, not node {asked}'s: check the data directory")]
    WrongNode {
        /// Whose it is.
        stored: NodeId,
        /// Who was to start on it.
        asked: NodeId,
    },
    /// A store that was to be bootstrapped holds something already.
    #[error("this store is in use already: a cluster is bootstrapped once, on empty stores")]
    NotEmpty,
    /// What the store holds contradicts itself.
    #[error(
        "the raft store contradicts itself ({reason}): remove this node from the cluster and join \
         again with an empty data directory"
    )]
    Inconsistent {
        /// The contradiction.
        reason: String,
    },
    /// A committed entry cannot be understood. Skipping it would let replicas diverge.
    #[error("the committed entry at {index} cannot be decoded: upgrade this node")]
    UnknownEntry {
        /// Which one.
        index: LogIndex,
    },
}

/// Why a peer's message was not taken. None of them changes this node.
///
/// The consensus library ends the process on most of these; they are caught before it sees them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The node has stopped.
    #[error("this raft node stopped after an earlier error: end the process and start it again")]
    Stopped,
    /// More bytes than the configuration allows.
    #[error("a message of {bytes} bytes exceeds the limit of {max}: raise message_bytes_max")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: u64,
    },
    /// No message at all.
    #[error("not a raft message: {0}")]
    Undecodable(String),
    /// Meant for another node.
    #[error("a message for node {to} arrived at node {me}: check the peers' addresses")]
    NotForMe {
        /// Whom it names.
        to: NodeId,
        /// Who got it.
        me: NodeId,
    },
    /// Sent under another name than the connection's.
    #[error("a message says it is from node {says}, but its connection is node {from}'s")]
    Impersonation {
        /// Whom it names.
        says: NodeId,
        /// Whose connection it came over.
        from: NodeId,
    },
    /// A kind of message that no peer has a reason to send.
    #[error("a peer may not send {0}")]
    Forbidden(&'static str),
    /// A field that contradicts the rest of the message.
    #[error("a malformed {kind}: {reason}")]
    Malformed {
        /// The message's kind.
        kind: &'static str,
        /// What is wrong.
        reason: &'static str,
    },
    /// A term so far ahead that no honest cluster can have reached it.
    #[error("a message of term {term} at a node of term {mine}")]
    TermJump {
        /// The message's.
        term: Term,
        /// This node's.
        mine: Term,
    },
    /// A leader believes that this node holds entries which it does not hold.
    ///
    /// So it is when a node lost its disk and came back under its old id: give it a new one.
    #[error(
        "the leader counts on entry {index}, this log ends at {last}: if this node lost its disk, \
         remove it and join again under a new id"
    )]
    BeyondLog {
        /// What the message counts on.
        index: LogIndex,
        /// The last entry here.
        last: LogIndex,
    },
    /// Two nodes claim to lead in one term.
    #[error("node {from} claims to lead term {term}, which node {leader} leads")]
    SecondLeader {
        /// Who claims.
        from: NodeId,
        /// Who leads.
        leader: NodeId,
        /// The term.
        term: Term,
    },
    /// An answer of a node that is no member here.
    #[error("node {0} is no member of this configuration")]
    UnknownPeer(NodeId),
    /// A request that only a leader answers, or an answer that only the leader gives.
    #[error("a message to or from a node that does not lead")]
    NotLeader,
    /// A late message that would let this node lead before its log is durable.
    #[error("a message that has to wait until this node's log is durable")]
    Early,
    /// Too many reads wait already.
    #[error("{0} reads wait already")]
    Busy(usize),
}

impl StepError {
    /// Returns whether a healthy cluster produces it now and then, so that it is no reason to
    /// close the connection or to warn anybody.
    pub fn is_expected(&self) -> bool {
        match self {
            Self::UnknownPeer(_)
            | Self::NotLeader
            | Self::Early
            | Self::Busy(_)
            | Self::Stopped => true,
            Self::TooLarge { .. }
            | Self::Undecodable(_)
            | Self::NotForMe { .. }
            | Self::Impersonation { .. }
            | Self::Forbidden(_)
            | Self::Malformed { .. }
            | Self::TermJump { .. }
            | Self::BeyondLog { .. }
            | Self::SecondLeader { .. } => false,
        }
    }
}

/// Why a proposal was not taken. It is in no log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// The node has stopped.
    #[error("this raft node stopped after an earlier error: end the process and start it again")]
    Stopped,
    /// Another node leads, or none does.
    #[error("this node does not lead: send it to the leader ({leader:?}), or wait for one")]
    NotLeader {
        /// Who does, as far as known.
        leader: Option<NodeId>,
    },
    /// Leadership is on its way to another node.
    #[error("leadership is on its way to another node: try again shortly")]
    Transferring,
    /// Too much is uncommitted.
    #[error("too many bytes are uncommitted: try again once some of them are")]
    Busy,
    /// More bytes than the configuration allows.
    #[error("an entry of {bytes} bytes exceeds the limit of {max}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// Nothing in it, so that it could not be told from the leader's own empty entries.
    #[error("a proposal needs data or a context")]
    Empty,
}

/// Why a change of the members was not taken. It is in no log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigureError {
    /// It could not be proposed.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// An earlier one may not be applied yet. So it is, too, right after an election.
    #[error("an earlier change may still be pending: try again once it is applied")]
    Pending,
    /// The members are in a joint phase.
    #[error("the members are in a joint phase: wait for its end, or leave it")]
    Joint,
    /// There is no joint phase to leave.
    #[error("the members are in no joint phase")]
    NotJoint,
    /// It makes no sense on top of the present members.
    #[error("the change is invalid: {0}")]
    Invalid(String),
}

/// Why leadership was not handed over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The node has stopped.
    #[error("this raft node stopped after an earlier error: end the process and start it again")]
    Stopped,
    /// It is not this node's to hand over.
    #[error("this node does not lead: ask the leader ({leader:?}), or wait for one")]
    NotLeader {
        /// Who leads, as far as known.
        leader: Option<NodeId>,
    },
    /// Only a voter can lead, and only another one.
    #[error("node {0} is not another voter")]
    NotVoter(NodeId),
}

/// Why a snapshot was not taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// The node has stopped.
    #[error("this raft node stopped after an earlier error: end the process and start it again")]
    Stopped,
    /// It claims entries that were not handed out.
    #[error("a snapshot at {index}, but only entries up to {applied} were handed out")]
    NotApplied {
        /// The offered one's last entry.
        index: LogIndex,
        /// The last entry handed out.
        applied: LogIndex,
    },
    /// One at least as new is there.
    #[error("a snapshot at {index}, but there is one at {have:?}: make it of the present state")]
    Outdated {
        /// The offered one's last entry.
        index: LogIndex,
        /// The present one's.
        have: Position,
    },
    /// It could not be sent to a peer.
    #[error("a snapshot of {bytes} bytes exceeds the limit of {max}: raise message_bytes_max")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        max: u64,
    },
}
