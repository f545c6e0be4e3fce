//! Binds the Narad state machines to tikv raft, files and sockets.

#[cfg(feature = "log")]
pub mod broker;
#[cfg(feature = "net")]
pub mod clock;
#[cfg(feature = "log")]
pub mod disk;
#[cfg(feature = "log")]
pub mod log;
#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "net")]
pub mod node_loop;
#[cfg(feature = "raft")]
pub mod raft;
#[cfg(feature = "raft")]
pub mod replica;
#[cfg(feature = "log")]
pub mod store;
#[cfg(feature = "net")]
pub mod transfer;
pub mod wire;
