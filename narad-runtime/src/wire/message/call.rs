//! Requests and answers as they share one connection.

use bytes::Bytes;
use prost::{Enumeration, Message};

use super::peer::{Answer, Request};

/// A request with the number that its answer will carry.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Call {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) request: Option<Request>,
    /// With `Prepare`: how far the asker has copied. A peer that does not know it sends no tail.
    #[prost(message, optional, tag = "3")]
    pub(crate) reach: Option<Reach>,
}

/// How far a destination has copied a log.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Reach {
    /// First offset of the extent that it has not copied whole.
    #[prost(uint64, tag = "1")]
    pub(crate) base: u64,
    /// Bytes of it that it has.
    #[prost(uint64, tag = "2")]
    pub(crate) bytes: u64,
}

/// An answer with the number of its call, or why there is none.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Reply {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) answer: Option<Answer>,
    #[prost(enumeration = "Fault", tag = "3")]
    pub(crate) fault: i32,
    /// With a capture: what lies beyond the asker's reach, if that is short.
    #[prost(bytes = "bytes", tag = "4")]
    pub(crate) tail: Bytes,
    /// With `Refused`: what is wrong, for people.
    #[prost(string, tag = "5")]
    pub(crate) message: String,
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Fault {
    Unspecified = 0,
    NotUnderstood = 1,
    Dropped = 2,
    TooLong = 3,
    Refused = 4,
}
