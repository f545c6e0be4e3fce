//! Binds the Narad state machines to tikv raft, files and sockets.

pub mod wire;
