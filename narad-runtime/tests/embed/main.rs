//! Nodes over an embedder's own parts, and the batteries that those parts are tried with.

mod flawed_metastore;
mod flawed_peer;
mod flawed_store;
mod nodes;
mod promotion;
#[cfg(feature = "raft")]
mod raft;
#[cfg(feature = "log")]
mod segment_files;
mod tcp;
