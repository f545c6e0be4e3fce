//! Binds the Narad state machines to tikv raft, files and sockets.

#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "net")]
pub mod transfer;
pub mod wire;
