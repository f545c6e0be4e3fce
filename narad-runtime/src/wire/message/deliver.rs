//! A batch of accepted records on its way to its owner, and what came of it.

use prost::{Enumeration, Message};

use super::metastore::PartitionId;

/// What stands before the bytes of the records. Who sends it is known from the connection.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Deliver {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(uint64, tag = "3")]
    pub(crate) epoch: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) life: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) n: u64,
    #[prost(uint32, tag = "6")]
    pub(crate) records: u32,
    #[prost(uint64, tag = "7")]
    pub(crate) bytes: u64,
}

/// What came of a batch.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Delivered {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(enumeration = "DeliveredKind", tag = "2")]
    pub(crate) kind: i32,
    /// The reign there, of `OtherEpoch`.
    #[prost(uint64, tag = "3")]
    pub(crate) epoch: u64,
    /// The latest that was taken, of `Stale`.
    #[prost(message, optional, tag = "4")]
    pub(crate) newest: Option<BatchNo>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct BatchNo {
    #[prost(uint64, tag = "1")]
    pub(crate) ingress: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) life: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) n: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum DeliveredKind {
    Unspecified = 0,
    Taken = 1,
    Frozen = 2,
    NotServing = 3,
    OtherEpoch = 4,
    NoLease = 5,
    DiskFull = 6,
    Disk = 7,
    Busy = 8,
    Stale = 9,
    NoSuchPartition = 10,
    TooLarge = 11,
}
