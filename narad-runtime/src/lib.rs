//! Binds the Narad state machines to tikv raft, files and sockets.

#[cfg(feature = "http")]
pub mod client;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub mod service;
