//! What may be asked of the replicated state, and what it answers.

use alloc::string::String;
use alloc::vec::Vec;

use super::assignment::Expect;
use super::member::Addresses;
use crate::config::Policy;
use crate::ids::{
    Attempt, Digest, Drain, Epoch, Generation, Incarnation, MoveId, Name, NodeId, Offset,
    PartitionId, ProposalId, StoreUuid, Token, TopicId,
};

/// One entry of the replicated log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Entry {
    /// Lets the proposer know its entry again; the same proposal may be in the log twice.
    pub proposal: ProposalId,
    /// Who asks: set from the authenticated peer, never by the caller (S18).
    pub by: NodeId,
    /// What is asked.
    pub command: Command,
}

/// A guarded compare-and-swap on the replicated state.
///
/// Applying one never panics, and applying it twice changes nothing the second time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Admits a data directory as a new member, or finds the member that it already is.
    Join {
        /// Its name; unique among members that are not retired.
        name: Name,
        /// The identity of its disk.
        store_uuid: StoreUuid,
        /// Where it listens.
        addrs: Addresses,
    },
    /// Begins a life of a node (H6, H34).
    Register {
        /// The node; must be the asker.
        node: NodeId,
        /// The identity of its disk; another one is refused (H25).
        store_uuid: StoreUuid,
        /// The life; higher than the member's last, or equal to it (then nothing changes).
        incarnation: Incarnation,
        /// Where it listens now.
        addrs: Addresses,
    },
    /// Declares a node dead: the leader has not heard of that life for `dead_timeout` (H19).
    MarkDead {
        /// The node.
        node: NodeId,
        /// The life that the leader has not heard of.
        incarnation: Incarnation,
    },
    /// Reports how far consumers can see in partitions that are moving away (H12).
    Report {
        /// The owner; must be the asker.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
        /// Partition, epoch and high watermark; at most [`Command::REPORT_MAX`].
        hwms: Vec<(PartitionId, Epoch, Offset)>,
    },
    /// Starts or cancels a decommission (R82, R94).
    SetDraining {
        /// The node.
        node: NodeId,
        /// Whether it drains.
        on: bool,
    },
    /// Says that nothing is left on a draining node and that it accepts nothing more (H37).
    DrainedOut {
        /// The node; must be the asker.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
        /// The decommission that it speaks of: once that is cancelled, the node accepts again, and
        /// the next one begins with what it has accepted meanwhile (H37, case 18).
        drain: Drain,
    },
    /// Takes a drained node out for good (H24).
    Retire {
        /// The node.
        node: NodeId,
        /// The operator's word that what a Dead node still holds may be given up; a live node
        /// needs none.
        receipt: Option<String>,
    },
    /// Creates a topic; its partitions are assigned by separate commands.
    CreateTopic {
        /// Its name; free among topics that exist.
        name: Name,
        /// How many partitions; 1 to `Topic::PARTITIONS_MAX`.
        partitions: u32,
        /// The topic that feeds it.
        parent: Option<TopicId>,
    },
    /// Deletes a topic with all its rows (H26, H47).
    DeleteTopic {
        /// The topic.
        topic: TopicId,
    },
    /// Gives a partition its first owner; only if it has none (case M135, H40).
    AssignPartition {
        /// The partition.
        partition: PartitionId,
        /// The owner; must be a receiver.
        node: NodeId,
    },
    /// Plans a move; only while fewer than half of the topic's other partitions are on the move, or
    /// none (S14, H23).
    SetTarget {
        /// The partition.
        partition: PartitionId,
        /// The row that the planner saw (H29).
        expect: Expect,
        /// Where to; a receiver, and not the owner.
        to: NodeId,
    },
    /// Gives a plan up.
    ClearTarget {
        /// The partition.
        partition: PartitionId,
        /// The plan.
        move_id: MoveId,
    },
    /// Flips ownership to the target.
    CompleteMove {
        /// The partition.
        partition: PartitionId,
        /// The row that the move was begun for.
        expect: Expect,
        /// The try; its destination must be the asker and the target.
        attempt: Attempt,
        /// Why no record can land behind the copy.
        fence: Fence,
        /// Offset after the last record of the copy.
        end: Offset,
        /// Its high watermark.
        hwm: Offset,
        /// Its committed consumer offset.
        committed: Option<Offset>,
        /// Its content, summarised.
        digest: Digest,
    },
    /// Asks for the fate of a try, and burns it if it has not won (H2).
    Resolve {
        /// The partition.
        partition: PartitionId,
        /// The try; its destination must be the asker.
        attempt: Attempt,
    },
    /// Ends a freeze in the log, so that no flip that rests on it can apply (H1).
    Revoke {
        /// The partition.
        partition: PartitionId,
        /// The freeze; the asker must be the owner.
        token: Token,
    },
    /// Says that everything which the flip to `epoch` did not capture has been produced again
    /// (H14).
    ReclaimReady {
        /// The partition.
        partition: PartitionId,
        /// The old owner; must be the asker.
        node: NodeId,
        /// The reign that ended its own.
        epoch: Epoch,
    },
    /// Replaces the policy.
    SetPolicy(Policy),
    /// Pins a partition where it is, or lets the planner have it again.
    SetPin {
        /// The partition.
        partition: PartitionId,
        /// Whether it is pinned.
        on: bool,
    },
    /// Accepts that a Dead owner's unique records are gone (H39): the one stated exception to S1.
    DeclareLost {
        /// The partition.
        partition: PartitionId,
        /// The row that the operator saw.
        expect: Expect,
        /// The death certificate.
        generation: Generation,
        /// The node whose verified copy becomes live, or where an empty log does.
        to: NodeId,
        /// The directory that becomes live on `to`: an attempt of the row's present move that is
        /// not burned. An empty log is named by incarnation 0, which no real attempt carries.
        data: Attempt,
        /// Where the new log begins to append.
        end: Offset,
        /// The operator's word.
        receipt: String,
    },
    /// Admits the commands of a newer version, once every member runs it.
    RaiseVersion {
        /// The version.
        to: u32,
    },
}

impl Command {
    /// Most partitions in one `Report`.
    pub const REPORT_MAX: usize = 4096;

    /// Longest receipt, in bytes.
    pub const RECEIPT_MAX: usize = 4096;

    /// Returns the partition that the command is about, if it is about one.
    pub const fn partition(&self) -> Option<PartitionId> {
        match self {
            Self::AssignPartition { partition, .. }
            | Self::SetTarget { partition, .. }
            | Self::ClearTarget { partition, .. }
            | Self::CompleteMove { partition, .. }
            | Self::Resolve { partition, .. }
            | Self::Revoke { partition, .. }
            | Self::ReclaimReady { partition, .. }
            | Self::SetPin { partition, .. }
            | Self::DeclareLost { partition, .. } => Some(*partition),
            Self::Join { .. }
            | Self::Register { .. }
            | Self::MarkDead { .. }
            | Self::Report { .. }
            | Self::SetDraining { .. }
            | Self::DrainedOut { .. }
            | Self::Retire { .. }
            | Self::CreateTopic { .. }
            | Self::DeleteTopic { .. }
            | Self::SetPolicy(_)
            | Self::RaiseVersion { .. } => None,
        }
    }

    /// Returns the lowest cluster version that admits the command: older builds cannot read it.
    pub const fn version(&self) -> u32 {
        match self {
            Self::Join { .. }
            | Self::Register { .. }
            | Self::MarkDead { .. }
            | Self::Report { .. }
            | Self::SetDraining { .. }
            | Self::DrainedOut { .. }
            | Self::Retire { .. }
            | Self::CreateTopic { .. }
            | Self::DeleteTopic { .. }
            | Self::AssignPartition { .. }
            | Self::SetTarget { .. }
            | Self::ClearTarget { .. }
            | Self::CompleteMove { .. }
            | Self::Resolve { .. }
            | Self::Revoke { .. }
            | Self::ReclaimReady { .. }
            | Self::SetPolicy(_)
            | Self::SetPin { .. }
            | Self::DeclareLost { .. }
            | Self::RaiseVersion { .. } => 1,
        }
    }
}

/// Why no record can land behind a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Fence {
    /// The source is frozen under this token, issued in its present life.
    Normal {
        /// The freeze.
        token: Token,
    },
    /// The source is dead under this certificate.
    Forced {
        /// The certificate.
        generation: Generation,
    },
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Reply {
    /// The state is as the command wants it.
    Applied(Applied),
    /// The state is unchanged.
    Rejected(Reason),
}

/// What an applied command has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Applied {
    /// Nothing more.
    Done,
    /// The member that a data directory is.
    Joined(NodeId),
    /// The topic that was created.
    Created(TopicId),
    /// The plan that now stands.
    Planned(MoveId),
    /// The try has won: its destination owns the partition since that epoch (or did).
    Won(Epoch),
    /// The try can no longer win.
    Burned,
    /// The freeze is over, the source may go on.
    Resumed,
}

/// Why a command changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Reason {
    /// The partition, topic or member is no more.
    #[error("it no longer exists")]
    Gone,
    /// No such member.
    #[error("there is no such member")]
    UnknownMember,
    /// No such topic.
    #[error("there is no such topic")]
    UnknownTopic,
    /// The asker may not ask this (S18).
    #[error("only the node concerned may ask this")]
    NotYours,
    /// The owner has changed.
    #[error("the partition has another owner")]
    OwnerChanged,
    /// The epoch has changed.
    #[error("the partition is in another epoch")]
    EpochChanged,
    /// The plan has changed.
    #[error("the move was replaced or cancelled")]
    MoveChanged,
    /// The asker is not the target.
    #[error("the node is not the target")]
    NotTarget,
    /// The try was burned.
    #[error("this attempt was given up for good")]
    AttemptBurned,
    /// The freeze was revoked.
    #[error("the freeze was revoked")]
    TokenRevoked,
    /// The freeze belongs to another epoch or another life of the source.
    #[error("the freeze is of another life of the source")]
    TokenStale,
    /// The certificate does not fit: the node is alive, or dead under another one.
    #[error("the owner is not dead, or not by the word that this was decided on")]
    NotDead,
    /// The copy ends before what is known to have been visible or durable.
    #[error("the copy ends before what consumers could see")]
    CopyBehind,
    /// The reign was forgotten; nothing can be said of this try.
    #[error("the attempt is older than what is remembered; keep its directory")]
    Forgotten,
    /// The node is not the owner.
    #[error("the node is not the owner")]
    NotOwner,
    /// The node is dead.
    #[error("the node is dead")]
    NodeDead,
    /// The node is draining.
    #[error("the node is draining")]
    NodeDraining,
    /// The node has been retired.
    #[error("the node has been retired")]
    NodeRetired,
    /// The node has not registered yet.
    #[error("the node has not registered yet")]
    NodeUnregistered,
    /// The target is the owner.
    #[error("the partition is already there")]
    AlreadyThere,
    /// Half of the topic's partitions are on the move: one more could freeze the rest (S14, H23).
    #[error("half of the topic is on the move: wait for one of its moves to end, or cancel one")]
    TopicBusy,
    /// The partition has an owner already.
    #[error("the partition is already assigned")]
    AlreadyAssigned,
    /// The name is taken.
    #[error("the name is taken")]
    NameTaken,
    /// The disk is another one than the member's.
    #[error("the data directory belongs to another node")]
    WrongStore,
    /// The life is older than the member's.
    #[error("a later life of this node has registered")]
    StaleIncarnation,
    /// The node is not draining, or it is another decommission by now.
    #[error("the node is not being decommissioned")]
    NotDraining,
    /// The node has not said that nothing is left on it.
    #[error("the node has not drained out yet")]
    NotDrainedOut,
    /// The node owns partitions.
    #[error("the node still owns partitions")]
    OwnsPartitions,
    /// A partition is moving to the node.
    #[error("a partition is still moving to the node")]
    IsTarget,
    /// The rest would be fewer voters than the policy's minimum.
    #[error("fewer voters than policy.min_voters would be left")]
    BelowMinVoters,
    /// The rest would not have a healthy majority.
    #[error("the remaining voters would not have a healthy majority")]
    NoHealthyMajority,
    /// A Dead node cannot be given up without the operator's receipt.
    #[error("the node is dead: an operator must accept what is lost with it")]
    NeedsReceipt,
    /// A number or text is outside its range.
    #[error("a value is outside its range")]
    OutOfRange,
    /// The timing would let two owners write; see [`Policy::check`](crate::config::Policy::check).
    #[error("these timings would let two owners write")]
    UnsafeTiming,
}
