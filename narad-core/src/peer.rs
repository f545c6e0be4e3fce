//! What nodes ask one another. Plain values: the runtime encodes them, the simulator delays them.
//!
//! Every request is answered at most once; a lost answer is Unknown, never a refusal (case F20).
//! Bulk bytes travel on connections of their own and are not described here (case C60).

use alloc::vec::Vec;

use crate::config::Policy;
use crate::cursor::Acks;
use crate::ids::{
    Attempt, Incarnation, LogIndex, MoveId, Name, NodeId, PartitionId, StoreUuid, Token,
};
use crate::metastore::{Addresses, Entry};
use crate::partition::{Capture, Listing, Staged};

/// One node's question to another. The asker is known from the connection, never from the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Request {
    /// To the leader: "I am alive in this life". The answer renews the owner lease (H9, H31).
    Heartbeat {
        /// The asker's life.
        incarnation: Incarnation,
        /// Moves to the asker that cannot go on: they hold no slot of those that may be under way
        /// at once (L1, case 140). At most [`Request::STUCK_MAX`]; more are not looked at.
        stuck: Vec<(PartitionId, MoveId)>,
    },
    /// To the leader: append this to the log.
    Propose(Entry),
    /// To any member, from a node that has no id yet: admit me.
    Join {
        /// The name it wants.
        name: Name,
        /// The identity of its disk.
        store_uuid: StoreUuid,
        /// Where it listens.
        addrs: Addresses,
    },
    /// To a source: what do you have? Opens, or keeps open, the session of that move.
    List {
        /// The partition.
        partition: PartitionId,
        /// The plan; the source refuses one that its applied row has passed (H45).
        move_id: MoveId,
        /// Staged extents whose bytes the source is to compare with its own (H16).
        check: Vec<Staged>,
    },
    /// To a source: freeze, and say what the copy must reproduce.
    Prepare {
        /// The partition.
        partition: PartitionId,
        /// The try; the same try gets the same answer (H41).
        attempt: Attempt,
        /// Longest tail that the driver may send along, in bytes; zero for none.
        tail_bytes_max: u64,
    },
    /// To a source: the copy under this freeze has come this far.
    Renew {
        /// The partition.
        partition: PartitionId,
        /// The freeze.
        token: Token,
        /// Bytes staged; a freeze is renewed only by more than last time (H22).
        staged_bytes: u64,
    },
    /// To a source: the try that this freeze was for is given up; revoke it (case T26).
    Release {
        /// The partition.
        partition: PartitionId,
        /// The freeze.
        token: Token,
    },
    /// To an owner, from a past one: this was acknowledged here and the flip has not carried it
    /// (H28, R52). Asking twice changes nothing.
    TakeAcks {
        /// The partition.
        partition: PartitionId,
        /// What was acknowledged.
        acks: Acks,
    },
}

impl Request {
    /// Most stuck moves that one heartbeat names.
    pub const STUCK_MAX: usize = 1024;
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Answer {
    /// To `Heartbeat`: a read barrier that began after its receipt stands at this index. The lease
    /// counts once the asker has applied it.
    Heartbeat {
        /// The index.
        index: LogIndex,
    },
    /// To `Propose`: it was handed to the log; its fate shows when it is applied.
    Accepted,
    /// To `Join`: the member that the asker now is.
    Joined {
        /// Its id.
        node: NodeId,
        /// Where the members listen: the asker must answer whoever leads before its own replica
        /// says who that is.
        peers: Vec<(NodeId, Addresses)>,
        /// What the cluster agrees on: an asker that was told another policy must not go on, and
        /// not become a voter that is missed.
        policy: Policy,
    },
    /// To `List`.
    Listing(Listing),
    /// To `Prepare`.
    Capture(Capture),
    /// To `Renew`, `Release` and `TakeAcks`.
    Noted,
    /// The request was understood and is not granted.
    Refused(Refusal),
}

/// Why a request is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Refusal {
    /// The node does not lead; ask the one that it believes does.
    #[error("this node does not lead")]
    NotLeader {
        /// Who does, if anybody.
        leader: Option<NodeId>,
    },
    /// The asker is taken to be dead and must register its next life: it gets no lease (H32), and
    /// nothing is frozen for it (S14).
    #[error("the asker was declared dead: it must register again")]
    AskerDead,
    /// The node does not own the partition.
    #[error("this node does not own the partition")]
    NotOwner,
    /// The row that the node has applied names another plan or another target (H41, H45).
    #[error("this node knows of no such move")]
    NoSuchMove,
    /// The node has not caught up with the plan yet; ask again.
    #[error("this node has not applied that move yet")]
    NotYet,
    /// The node may not commit now (no lease, or not registered), so it must not freeze either.
    #[error("this node may not serve the partition now")]
    NotServing,
    /// Another try holds a freeze that is not over yet.
    #[error("the partition is frozen for another attempt")]
    FrozenElsewhere,
    /// The partition has been frozen too much of the time lately (H20).
    #[error("the partition has been frozen too much lately, ask again in {retry_after_ms} ms")]
    FrozenTooOften {
        /// How long to wait at least.
        retry_after_ms: u64,
    },
    /// An append under way did not end in time (field fault 4).
    #[error("an append has not ended, the freeze was given up")]
    AppendStuck,
    /// The freeze is over or was never issued.
    #[error("the node holds no such freeze")]
    NoSuchFreeze,
    /// The source's own disk failed while answering.
    #[error("the disk of the source failed")]
    Disk,
    /// The member could not be admitted.
    #[error("not admitted: {0}")]
    NotAdmitted(crate::metastore::Reason),
    /// No leader could be reached in time; the outcome is not known.
    #[error("no leader answered in time, the outcome is unknown")]
    Unknown,
}

/// Names one request of a peer until it is answered; minted by the driver, which knows whose it is.
///
/// Means nothing outside the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId(pub u64);
