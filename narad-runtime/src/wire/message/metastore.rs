//! Identities and rows of the replicated state.

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct PartitionId {
    #[prost(uint64, tag = "1")]
    pub(crate) topic: u64,
    #[prost(uint32, tag = "2")]
    pub(crate) index: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct AttemptNo {
    #[prost(uint64, tag = "1")]
    pub(crate) incarnation: u64,
    #[prost(uint32, tag = "2")]
    pub(crate) n: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Attempt {
    #[prost(uint64, tag = "1")]
    pub(crate) move_id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) destination: u64,
    #[prost(message, optional, tag = "3")]
    pub(crate) no: Option<AttemptNo>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct FreezeNo {
    #[prost(uint64, tag = "1")]
    pub(crate) incarnation: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) counter: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Token {
    #[prost(uint64, tag = "1")]
    pub(crate) epoch: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) no: Option<FreezeNo>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ProposalId {
    #[prost(uint64, tag = "1")]
    pub(crate) node: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) incarnation: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) sequence: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Addresses {
    #[prost(string, tag = "1")]
    pub(crate) peer: String,
    #[prost(string, tag = "2")]
    pub(crate) http: String,
}

/// A duration.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Span {
    #[prost(uint64, tag = "1")]
    pub(crate) seconds: u64,
    /// Below a second.
    #[prost(uint32, tag = "2")]
    pub(crate) nanoseconds: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Policy {
    #[prost(uint32, tag = "1")]
    pub(crate) max_in_flight: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) moves_per_source: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) moves_per_destination: u32,
    #[prost(bool, tag = "4")]
    pub(crate) paused: bool,
    #[prost(uint32, tag = "5")]
    pub(crate) min_voters: u32,
    #[prost(uint32, tag = "6")]
    pub(crate) voters_max: u32,
    #[prost(uint64, tag = "7")]
    pub(crate) copy_rate_bytes_per_second: u64,
    #[prost(message, optional, tag = "8")]
    pub(crate) lease: Option<Span>,
    #[prost(uint32, tag = "9")]
    pub(crate) clock_rate_error_percent: u32,
    #[prost(message, optional, tag = "10")]
    pub(crate) lease_margin: Option<Span>,
    #[prost(message, optional, tag = "11")]
    pub(crate) dead_timeout: Option<Span>,
    #[prost(message, optional, tag = "12")]
    pub(crate) force_promote_after: Option<Span>,
    #[prost(uint64, tag = "13")]
    pub(crate) copy_in_bytes_per_second: u64,
    #[prost(uint64, tag = "14")]
    pub(crate) copy_out_bytes_per_second: u64,
    #[prost(uint64, tag = "15")]
    pub(crate) cluster_copy_rate_bytes_per_second: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Member {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) addrs: Option<Addresses>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) store_uuid: Vec<u8>,
    #[prost(uint64, tag = "5")]
    pub(crate) incarnation: u64,
    #[prost(oneof = "Status", tags = "6, 7")]
    pub(crate) status: Option<Status>,
    #[prost(uint64, tag = "8")]
    pub(crate) deaths: u64,
    #[prost(bool, tag = "9")]
    pub(crate) draining: bool,
    #[prost(bool, tag = "10")]
    pub(crate) drained_out: bool,
    #[prost(bool, tag = "11")]
    pub(crate) retired: bool,
    #[prost(message, optional, tag = "12")]
    pub(crate) timing: Option<Timing>,
    #[prost(uint64, tag = "13")]
    pub(crate) drains: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Timing {
    #[prost(message, optional, tag = "1")]
    pub(crate) reach: Option<Span>,
    #[prost(message, optional, tag = "2")]
    pub(crate) silence: Option<Span>,
    #[prost(message, optional, tag = "3")]
    pub(crate) promote_after: Option<Span>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(crate) enum Status {
    /// Always true.
    #[prost(bool, tag = "6")]
    Alive(bool),
    /// The certificate.
    #[prost(uint64, tag = "7")]
    Dead(u64),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Configuration {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) voters: Vec<u64>,
    #[prost(uint64, repeated, tag = "2")]
    pub(crate) voters_outgoing: Vec<u64>,
    #[prost(uint64, repeated, tag = "3")]
    pub(crate) learners: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Topic {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(uint32, tag = "3")]
    pub(crate) partitions: u32,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) parent: Option<u64>,
    #[prost(message, optional, tag = "5")]
    pub(crate) created_by: Option<ProposalId>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Assignment {
    #[prost(uint64, tag = "1")]
    pub(crate) owner: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) epoch: u64,
    #[prost(message, optional, tag = "3")]
    pub(crate) data: Option<Attempt>,
    #[prost(uint64, tag = "4")]
    pub(crate) min_end: u64,
    #[prost(message, repeated, tag = "5")]
    pub(crate) lineage: Vec<Reign>,
    #[prost(bool, tag = "6")]
    pub(crate) lineage_cut: bool,
    #[prost(uint64, optional, tag = "7")]
    pub(crate) target: Option<u64>,
    #[prost(uint64, tag = "8")]
    pub(crate) move_id: u64,
    #[prost(message, optional, tag = "9")]
    pub(crate) burned: Option<AttemptNo>,
    #[prost(message, optional, tag = "10")]
    pub(crate) revoked: Option<FreezeNo>,
    #[prost(uint64, optional, tag = "11")]
    pub(crate) reported_hwm: Option<u64>,
    #[prost(bool, tag = "12")]
    pub(crate) pinned: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Reign {
    #[prost(uint64, tag = "1")]
    pub(crate) epoch: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) start: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) owner: u64,
    #[prost(message, optional, tag = "4")]
    pub(crate) data: Option<Attempt>,
    #[prost(enumeration = "Residue", tag = "5")]
    pub(crate) residue: i32,
}

/// What the beginning of a reign left on the disk of the owner before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Residue {
    Unspecified = 0,
    None = 1,
    Pending = 2,
    Reclaimed = 3,
}

/// The whole replicated state.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Parts {
    #[prost(uint64, tag = "1")]
    pub(crate) applied: u64,
    #[prost(uint32, tag = "2")]
    pub(crate) version: u32,
    #[prost(uint64, tag = "3")]
    pub(crate) newest_node: u64,
    #[prost(message, optional, tag = "4")]
    pub(crate) policy: Option<Policy>,
    #[prost(message, optional, tag = "5")]
    pub(crate) configuration: Option<Configuration>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) members: Vec<Member>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) topics: Vec<Topic>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) rows: Vec<Row>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) remembered: Vec<ProposalId>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Row {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(message, optional, tag = "2")]
    pub(crate) assignment: Option<Assignment>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Expect {
    #[prost(uint64, tag = "1")]
    pub(crate) owner: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) epoch: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) move_id: u64,
}

/// Why a command changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Reason {
    Unspecified = 0,
    Gone = 1,
    UnknownMember = 2,
    UnknownTopic = 3,
    NotYours = 4,
    OwnerChanged = 5,
    EpochChanged = 6,
    MoveChanged = 7,
    NotTarget = 8,
    AttemptBurned = 9,
    TokenRevoked = 10,
    TokenStale = 11,
    NotDead = 12,
    CopyBehind = 13,
    Forgotten = 14,
    NotOwner = 15,
    NodeDead = 16,
    NodeDraining = 17,
    NodeRetired = 18,
    NodeUnregistered = 19,
    AlreadyThere = 20,
    AlreadyAssigned = 21,
    NameTaken = 22,
    WrongStore = 23,
    StaleIncarnation = 24,
    NotDraining = 25,
    NotDrainedOut = 26,
    OwnsPartitions = 27,
    IsTarget = 28,
    BelowMinVoters = 29,
    NoHealthyMajority = 30,
    NeedsReceipt = 31,
    OutOfRange = 32,
    UnsafeTiming = 33,
    TopicBusy = 34,
}
