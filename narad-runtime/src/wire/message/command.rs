//! Entries of the replicated log: the most durable format of all.

use prost::{Message, Oneof};

use super::metastore::{Addresses, Attempt, Expect, PartitionId, Policy, ProposalId, Token};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    #[prost(message, optional, tag = "1")]
    pub(crate) proposal: Option<ProposalId>,
    #[prost(uint64, tag = "2")]
    pub(crate) by: u64,
    /// The cluster version that a node needs in order to apply it.
    #[prost(uint32, tag = "3")]
    pub(crate) version: u32,
    /// The tag of the command, so that an unknown one can be named.
    #[prost(uint32, tag = "4")]
    pub(crate) command_tag: u32,
    // Tags 16 and up are commands.
    #[prost(
        oneof = "Command",
        tags = "16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35"
    )]
    pub(crate) command: Option<Command>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Command {
    #[prost(message, tag = "16")]
    Join(Join),
    #[prost(message, tag = "17")]
    Register(Register),
    #[prost(message, tag = "18")]
    MarkDead(MarkDead),
    #[prost(message, tag = "19")]
    Report(Report),
    #[prost(message, tag = "20")]
    SetDraining(SetDraining),
    #[prost(message, tag = "21")]
    DrainedOut(DrainedOut),
    #[prost(message, tag = "22")]
    Retire(Retire),
    #[prost(message, tag = "23")]
    CreateTopic(CreateTopic),
    #[prost(message, tag = "24")]
    DeleteTopic(DeleteTopic),
    #[prost(message, tag = "25")]
    AssignPartition(AssignPartition),
    #[prost(message, tag = "26")]
    SetTarget(SetTarget),
    #[prost(message, tag = "27")]
    ClearTarget(ClearTarget),
    #[prost(message, tag = "28")]
    CompleteMove(CompleteMove),
    #[prost(message, tag = "29")]
    Resolve(Resolve),
    #[prost(message, tag = "30")]
    Revoke(Revoke),
    #[prost(message, tag = "31")]
    ReclaimReady(ReclaimReady),
    #[prost(message, tag = "32")]
    SetPolicy(Policy),
    #[prost(message, tag = "33")]
    SetPin(SetPin),
    #[prost(message, tag = "34")]
    DeclareLost(DeclareLost),
    #[prost(message, tag = "35")]
    RaiseVersion(RaiseVersion),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Join {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) store_uuid: Vec<u8>,
    #[prost(message, optional, tag = "3")]
    pub(crate) addrs: Option<Addresses>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Register {
    #[prost(uint64, tag = "1")]
    pub(crate) node: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) store_uuid: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub(crate) incarnation: u64,
    #[prost(message, optional, tag = "4")]
    pub(crate) addrs: Option<Addresses>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct MarkDead {
    #[prost(uint64, tag = "1")]
    pub(crate) node: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) incarnation: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Report {
    #[prost(uint64, tag = "1")]
    pub(crate) node: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) incarnation: u64,
    #[prost(message, repeated, tag = "3")]
    pub(crate) hwms: Vec<ReportedHwm>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ReportedHwm {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(uint64, tag = "2")]
    pub(crate) epoch: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) hwm: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct SetDraining {
    #[prost(uint64, tag = "1")]
    pub(crate) node: u64,
    #[prost(bool, tag = "2")]
    pub(crate) on: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct DrainedOut {
    #[prost(uint64, tag = "1")]
    pub(crate) node: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) incarnation: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) drain: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Retire {
    #[prost(uint64, tag = "1")]
    pub(crate) node: u64,
    #[prost(string, optional, tag = "2")]
    pub(crate) receipt: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateTopic {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(uint32, tag = "2")]
    pub(crate) partitions: u32,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) parent: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct DeleteTopic {
    #[prost(uint64, tag = "1")]
    pub(crate) topic: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct AssignPartition {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(uint64, tag = "2")]
    pub(crate) node: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct SetTarget {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(message, optional, tag = "2")]
    pub(crate) expect: Option<Expect>,
    #[prost(uint64, tag = "3")]
    pub(crate) to: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ClearTarget {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(uint64, tag = "2")]
    pub(crate) move_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompleteMove {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(message, optional, tag = "2")]
    pub(crate) expect: Option<Expect>,
    #[prost(message, optional, tag = "3")]
    pub(crate) attempt: Option<Attempt>,
    #[prost(oneof = "Fence", tags = "4, 5")]
    pub(crate) fence: Option<Fence>,
    #[prost(uint64, tag = "6")]
    pub(crate) end: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) hwm: u64,
    #[prost(uint64, optional, tag = "8")]
    pub(crate) committed: Option<u64>,
    #[prost(bytes = "vec", tag = "9")]
    pub(crate) digest: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(crate) enum Fence {
    /// The freeze.
    #[prost(message, tag = "4")]
    Normal(Token),
    /// The death certificate.
    #[prost(uint64, tag = "5")]
    Forced(u64),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Resolve {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(message, optional, tag = "2")]
    pub(crate) attempt: Option<Attempt>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Revoke {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(message, optional, tag = "2")]
    pub(crate) token: Option<Token>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ReclaimReady {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(uint64, tag = "2")]
    pub(crate) node: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) epoch: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct SetPin {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(bool, tag = "2")]
    pub(crate) on: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeclareLost {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(message, optional, tag = "2")]
    pub(crate) expect: Option<Expect>,
    #[prost(uint64, tag = "3")]
    pub(crate) generation: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) to: u64,
    #[prost(message, optional, tag = "5")]
    pub(crate) data: Option<Attempt>,
    #[prost(uint64, tag = "6")]
    pub(crate) end: u64,
    #[prost(string, tag = "7")]
    pub(crate) receipt: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct RaiseVersion {
    #[prost(uint32, tag = "1")]
    pub(crate) to: u32,
}
