//! Binds the Narad state machines to tikv raft, files and sockets.

#[cfg(feature = "log")]
pub mod disk;
#[cfg(feature = "log")]
pub mod log;
#[cfg(feature = "log")]
pub mod store;
