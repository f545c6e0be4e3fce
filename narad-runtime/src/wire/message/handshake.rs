//! The first two frames of every connection. Their layout is the same in all protocol versions.

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Hello {
    #[prost(fixed32, tag = "1")]
    pub(crate) magic: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) version_min: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) version_max: u32,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(crate) cluster: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) node: Option<u64>,
    #[prost(bytes = "vec", tag = "6")]
    pub(crate) store_uuid: Vec<u8>,
    #[prost(enumeration = "Purpose", tag = "7")]
    pub(crate) purpose: i32,
    #[prost(string, optional, tag = "8")]
    pub(crate) listens_at: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Purpose {
    Unspecified = 0,
    Control = 1,
    Snapshot = 2,
    Bulk = 3,
    Join = 4,
    Delivery = 5,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Welcome {
    #[prost(oneof = "WelcomeKind", tags = "1, 2")]
    pub(crate) kind: Option<WelcomeKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum WelcomeKind {
    #[prost(message, tag = "1")]
    Accepted(Accepted),
    #[prost(message, tag = "2")]
    Refused(Refused),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Accepted {
    #[prost(uint32, tag = "1")]
    pub(crate) version: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) node: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) cluster: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) store_uuid: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Refused {
    #[prost(enumeration = "RefusedWhy", tag = "1")]
    pub(crate) why: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum RefusedWhy {
    Unspecified = 0,
    WrongCluster = 1,
    UnknownNode = 2,
    VersionMismatch = 3,
    UnknownPurpose = 4,
    Busy = 5,
    NotServing = 6,
    WrongIdentity = 7,
    TakenOut = 8,
}
