//! Binds the Narad state machines to tikv raft, files and sockets.

#[cfg(feature = "raft")]
pub mod raft;
