//! The heads of bulk copies; the bytes themselves follow raw.

use prost::{Enumeration, Message};

use super::metastore::PartitionId;

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct CopyRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) partition: Option<PartitionId>,
    #[prost(uint64, tag = "2")]
    pub(crate) base: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) position: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct CopyHead {
    #[prost(enumeration = "CopyStatus", tag = "1")]
    pub(crate) status: i32,
    /// How many raw bytes follow; zero unless the status is `Ok`.
    #[prost(uint64, tag = "2")]
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum CopyStatus {
    Unspecified = 0,
    Ok = 1,
    Gone = 2,
    OutOfRange = 3,
    NotServing = 4,
    Disk = 5,
    Busy = 6,
}
