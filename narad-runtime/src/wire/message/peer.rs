//! What nodes ask one another, and what a log looks like from outside.

use prost::{Enumeration, Message, Oneof};

use super::command::{Entry, Join};
use super::metastore::{Addresses, Attempt, PartitionId, Policy, Reason, Token};

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Extent {
    #[prost(uint64, tag = "1")]
    pub(crate) base: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) end: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) bytes: u64,
    #[prost(fixed32, tag = "4")]
    pub(crate) checksum: u32,
    #[prost(bool, tag = "5")]
    pub(crate) sealed: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Staged {
    #[prost(uint64, tag = "1")]
    pub(crate) base: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) bytes: u64,
    #[prost(fixed32, tag = "3")]
    pub(crate) checksum: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Position {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) committed: Option<u64>,
    #[prost(uint64, repeated, tag = "2")]
    pub(crate) acked_ahead: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Listing {
    #[prost(uint64, tag = "1")]
    pub(crate) incarnation: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) generation: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) epoch: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) start: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) end: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) hwm: u64,
    #[prost(message, repeated, tag = "7")]
    pub(crate) extents: Vec<Extent>,
    #[prost(uint64, repeated, tag = "8")]
    pub(crate) agreed: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Capture {
    #[prost(message, optional, tag = "1")]
    pub(crate) token: Option<Token>,
    #[prost(message, optional, tag = "2")]
    pub(crate) listing: Option<Listing>,
    #[prost(message, optional, tag = "3")]
    pub(crate) position: Option<Position>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) digest: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Request {
    #[prost(oneof = "RequestKind", tags = "1, 2, 3, 4, 5, 6, 7, 8")]
    pub(crate) kind: Option<RequestKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum RequestKind {
    #[prost(message, tag = "1")]
    Heartbeat(Heartbeat),
    #[prost(message, tag = "2")]
    Propose(Entry),
    #[prost(message, tag = "3")]
    Join(Join),
    #[prost(message, tag = "4")]
    List(List),
    #[prost(message, tag = "5")]
    Prepare(Prepare),
    #[prost(message, tag = "6")]
    Renew(Renew),
    #[prost(message, tag = "7")]
    Release(Release),
    #[prost(message, tag = "8")]
    TakeAcks(TakeAcks),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Heartbeat {
    #[prost(uint64, tag = "1")]
    pub(crate) incarnation: u64,
    #[prost(message, repeated, tag = "2")]
    pub(crate) stuck: Vec<Stuck>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Stuck {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(uint64, tag = "2")]
    pub(crate) move_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct List {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(uint64, tag = "2")]
    pub(crate) move_id: u64,
    #[prost(message, repeated, tag = "3")]
    pub(crate) check: Vec<Staged>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Prepare {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(message, optional, tag = "2")]
    pub(crate) attempt: Option<Attempt>,
    /// A peer that does not know it sends no tail, and one that does not say it gets none.
    #[prost(uint64, tag = "3")]
    pub(crate) tail_bytes_max: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Renew {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(message, optional, tag = "2")]
    pub(crate) token: Option<Token>,
    #[prost(uint64, tag = "3")]
    pub(crate) staged_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Release {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(message, optional, tag = "2")]
    pub(crate) token: Option<Token>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TakeAcks {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    /// The past owner's reign.
    #[prost(uint64, tag = "2")]
    pub(crate) epoch: u64,
    /// First offset of each range.
    #[prost(uint64, repeated, tag = "3")]
    pub(crate) firsts: Vec<u64>,
    /// Offset after the last one of each.
    #[prost(uint64, repeated, tag = "4")]
    pub(crate) ends: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answer {
    #[prost(oneof = "AnswerKind", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(crate) kind: Option<AnswerKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum AnswerKind {
    /// The read index.
    #[prost(uint64, tag = "1")]
    Heartbeat(u64),
    /// Always true.
    #[prost(bool, tag = "2")]
    Accepted(bool),
    #[prost(message, tag = "3")]
    Joined(Joined),
    #[prost(message, tag = "4")]
    Listing(Listing),
    #[prost(message, tag = "5")]
    Capture(Capture),
    /// Always true.
    #[prost(bool, tag = "6")]
    Noted(bool),
    #[prost(message, tag = "7")]
    Refused(Refusal),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Joined {
    #[prost(uint64, tag = "1")]
    pub(crate) node: u64,
    #[prost(message, repeated, tag = "2")]
    pub(crate) peers: Vec<Peer>,
    #[prost(message, optional, tag = "3")]
    pub(crate) policy: Option<Policy>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Peer {
    #[prost(uint64, tag = "1")]
    pub(crate) node: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) addrs: Option<Addresses>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Refusal {
    #[prost(enumeration = "RefusalKind", tag = "1")]
    pub(crate) kind: i32,
    /// With `NotLeader`.
    #[prost(uint64, optional, tag = "2")]
    pub(crate) leader: Option<u64>,
    /// With `FrozenTooOften`.
    #[prost(uint64, tag = "3")]
    pub(crate) retry_after_ms: u64,
    /// With `NotAdmitted`.
    #[prost(enumeration = "Reason", tag = "4")]
    pub(crate) reason: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum RefusalKind {
    Unspecified = 0,
    NotLeader = 1,
    AskerDead = 2,
    NotOwner = 3,
    NoSuchMove = 4,
    NotYet = 5,
    NotServing = 6,
    FrozenElsewhere = 7,
    FrozenTooOften = 8,
    AppendStuck = 9,
    NoSuchFreeze = 10,
    Disk = 11,
    NotAdmitted = 12,
    Unknown = 13,
}
