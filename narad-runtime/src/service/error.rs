//! Why a node did not do what it was asked.

use std::time::Duration;

use narad_core::ids::Offset;

/// Why a node did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// No leader could be reached.
    #[error("the cluster has no leader at the moment; try again")]
    NoLeader,
    /// There is no such member.
    #[error("there is no member {0:?}")]
    UnknownMember(String),
    /// There is no such topic.
    #[error("there is no topic {0:?}")]
    UnknownTopic(String),
    /// The topic has no such partition.
    #[error("topic {topic:?} has no partition {partition}")]
    UnknownPartition {
        /// The topic.
        topic: String,
        /// The partition asked for.
        partition: u32,
    },
    /// There is nothing of that name in quarantine.
    #[error("there is nothing called {0:?} in the quarantine; list it again, it may be gone")]
    NotInQuarantine(String),
    /// It could never end; nothing was changed.
    #[error("this cannot be done: {}", .0.join("; "))]
    Blocked(Vec<String>),
    /// The cluster refused it; nothing was changed.
    #[error("the cluster refused: {0}")]
    Rejected(String),
    /// A value is outside its range.
    #[error("{0}")]
    Invalid(String),
    /// It may have been done, or may be done yet.
    #[error("the outcome is not known; ask again, or look before you do anything else")]
    OutcomeUnknown,
    /// Another node owns the partition.
    #[error("another node owns this partition")]
    NotOwner {
        /// Where the owner serves HTTP, as `host:port`, if it is known.
        owner: Option<String>,
    },
    /// The partition is about to flip to another owner.
    #[error("the partition is about to move; try again in a moment")]
    Frozen,
    /// The owner is cut off from the leader and may have been succeeded.
    #[error("the owner has no lease at the moment; try again")]
    NoLease,
    /// The owner does not serve the partition yet.
    #[error("the owner does not serve this partition yet; try again")]
    NotServing,
    /// The offsets belong to an earlier reign.
    #[error("the partition has changed hands since these records were read; they will come again")]
    StaleEpoch,
    /// Too many records are handed out.
    #[error("{max} records are handed out and not acknowledged: acknowledge some first")]
    TooManyInFlight {
        /// How many may be.
        max: usize,
    },
    /// Too many records are acknowledged ahead of one that is not.
    #[error("too much is acknowledged ahead: acknowledge the record at offset {frontier} first")]
    TooFarAhead {
        /// The record that is waited for.
        frontier: Offset,
    },
    /// What is left for consumers, or holds the rest back, cannot be read.
    #[error(
        "the records from offset {from} to before {to} of {topic}/{partition} are damaged on the \
         owner's disk: to go on without them, give them up with `narad topic skip \
         {topic}/{partition} --from {from} --to {to}`"
    )]
    Damaged {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The first of them.
        from: Offset,
        /// Offset after the last one.
        to: Offset,
    },
    /// There is no room left.
    #[error(
        "the node's disk is full: move partitions away, or drop what narad cluster salvage lists"
    )]
    DiskFull,
    /// The node's ingress log is full: what it has accepted waits for its owners.
    #[error("this node has accepted as much as it may hold; send to another node, or in a moment")]
    Full {
        /// After how long there may be room again.
        retry_after: Duration,
    },
    /// The node is to become empty.
    #[error("this node is being decommissioned; send to another node")]
    Draining,
    /// The node's ingress log cannot be written at the moment, or the node is stopping.
    #[error("this node accepts nothing at the moment ({0}); send to another node, or try again")]
    NotAccepting(String),
    /// It is more than the node could ever take at once.
    #[error("{0}")]
    TooLarge(String),
    /// Too much is under way.
    #[error("the node is busy; try again in a moment")]
    Busy,
    /// The node cannot go on: its disk has failed or is full.
    #[error("this node has stopped, and its log says why: ask another node")]
    Stopped,
    /// The node was taken out of the cluster.
    #[error("this node was removed from the cluster: ask another node, and stop this one")]
    Removed,
    /// A fault of the node.
    #[error("the node failed: {0}")]
    Internal(String),
}

/// Gives every variant its name for programs, and lists the names.
macro_rules! codes {
    ($($variant:pat => $code:literal,)+) => {
        impl ServiceError {
            /// Every name that [`ServiceError::code`] gives.
            pub const CODES: &[&str] = &[$($code),+];

            /// Returns the name of it, for programs; stable.
            #[must_use]
            pub const fn code(&self) -> &'static str {
                match self {
                    $($variant => $code,)+
                }
            }
        }
    };
}

codes! {
    Self::NoLeader => "no_leader",
    Self::UnknownMember(_) => "unknown_member",
    Self::UnknownTopic(_) => "unknown_topic",
    Self::UnknownPartition { .. } => "unknown_partition",
    Self::NotInQuarantine(_) => "not_in_quarantine",
    Self::Blocked(_) => "blocked",
    Self::Rejected(_) => "rejected",
    Self::Invalid(_) => "invalid",
    Self::OutcomeUnknown => "outcome_unknown",
    Self::NotOwner { .. } => "not_owner",
    Self::Frozen => "frozen",
    Self::NoLease => "no_lease",
    Self::NotServing => "not_serving",
    Self::StaleEpoch => "stale_epoch",
    Self::TooManyInFlight { .. } => "too_many_in_flight",
    Self::TooFarAhead { .. } => "too_far_ahead",
    Self::Damaged { .. } => "damaged_records",
    Self::DiskFull => "disk_full",
    Self::Full { .. } => "full",
    Self::Draining => "draining",
    Self::NotAccepting(_) => "not_accepting",
    Self::TooLarge(_) => "too_large",
    Self::Busy => "busy",
    Self::Stopped => "stopped",
    Self::Removed => "removed",
    Self::Internal(_) => "internal",
}
