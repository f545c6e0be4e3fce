//! Binds the Narad state machines to tikv raft, files and sockets, and makes a small broker of them.
//!
//! Nothing in this crate decides anything about the protocol: [`narad_core`] does. What is here
//! carries out the operations that its machines ask for, and reports how each of them ended.
//!
//! ```text
//!            HTTP                            other nodes
//!             │                                   │
//!        http, service                      net, transfer
//!             │                                   │
//!             ▼              inbox                ▼
//!          broker ◀── hands ◀────── node_loop ◀───┘      one thread has the machine
//!     gate + log, 1 mutex             │
//!             │                    replica               Raft + narad_core::node
//!             ▼                       │
//!    storage, store, log, disk      raft, wire
//! ```
//!
//! # What to use
//!
//! | you want | take | feature |
//! |---|---|---|
//! | to run the command | the binary `narad` | `cli` |
//! | whole nodes inside your program | `server::Server`, with `settings::Settings` | `cli` |
//! | to produce and consume | `client::Client` | `http` |
//! | nodes over your own log, database and connections | `embed::Narad` | `embed` |
//! | to try those parts | `conformance` | `conformance` |
//! | the API over a node of your own | `http::router` over a `service::Service` | `http` |
//! | your own segment files in a whole node | `store::PartitionStore` | `log` |
//! | the machines by themselves | `narad_core` | |
//! | the segment log by itself | `log`, over a `disk::Disk` | `log` |
//! | a replicated log by itself | `raft::Raft`, over a `raft::RaftStore` | `raft` |
//!
//! `default` has all of them but `conformance`. `log` and `raft` are synchronous and link no async
//! runtime; `embed` brings tokio and neither of the two, `net` builds on all three, `http` adds to it, and
//! `cli` to that. The encodings in [`wire`] are always there.
//!
//! # What is kept where
//!
//! A node's data directory holds its identity and incarnation, the replicated log (`raft.redb`), the
//! last known addresses of its peers (`peers`), and its partitions; `store` draws the tree. Records
//! are in segment files only; the replicated log holds who serves what, as a snapshot and the entries
//! since.

#[cfg(feature = "log")]
pub mod broker;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "http")]
pub mod client;
#[cfg(feature = "embed")]
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "log")]
pub mod copy;
#[cfg(feature = "cli")]
pub mod demo;
#[cfg(feature = "log")]
pub mod disk;
#[cfg(feature = "embed")]
pub mod embed;
#[cfg(feature = "log")]
pub mod foreground;
#[cfg(feature = "log")]
mod group;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "log")]
pub mod ingress;
#[cfg(feature = "log")]
pub mod log;
#[cfg(feature = "http")]
pub mod metrics;
#[cfg(any(feature = "raft", feature = "embed"))]
pub mod mind;
#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "embed")]
pub mod node_loop;
#[cfg(feature = "raft")]
pub mod raft;
#[cfg(feature = "raft")]
pub mod replica;
#[cfg(feature = "log")]
pub mod salvage;
#[cfg(feature = "cli")]
pub mod server;
#[cfg(feature = "http")]
pub mod service;
#[cfg(feature = "cli")]
pub mod settings;
#[cfg(feature = "log")]
pub mod storage;
#[cfg(feature = "log")]
pub mod store;
#[cfg(feature = "net")]
pub mod transfer;
#[cfg(feature = "http")]
mod units;
pub mod wire;
