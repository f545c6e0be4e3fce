//! Binds the Narad state machines to tikv raft, files and sockets.

#[cfg(feature = "log")]
pub mod broker;
#[cfg(feature = "log")]
pub mod disk;
#[cfg(feature = "log")]
pub mod log;
#[cfg(feature = "raft")]
pub mod raft;
#[cfg(feature = "raft")]
pub mod replica;
#[cfg(feature = "log")]
pub mod store;
pub mod wire;
