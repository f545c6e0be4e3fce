//! The schema. A tag is never reused; what is taken out leaves a comment with its tag.
//!
//! Messages have the names of the core types that they stand for.

#[cfg(feature = "net")]
pub(crate) mod call;
pub(crate) mod command;
#[cfg(feature = "log")]
pub(crate) mod deliver;
pub(crate) mod handshake;
pub(crate) mod metastore;
pub(crate) mod peer;
#[cfg(feature = "net")]
pub(crate) mod transfer;
