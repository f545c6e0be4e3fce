//! Requests and answers as they share one connection.

use prost::{Enumeration, Message};

use super::peer::{Answer, Request};

/// A request with the number that its answer will carry.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Call {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) request: Option<Request>,
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
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Fault {
    Unspecified = 0,
    NotUnderstood = 1,
    Dropped = 2,
    TooLong = 3,
}
