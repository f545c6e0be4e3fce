//! Narad inside a service that owns its log, its decisions and its connections.
//!
//! ```text
//!              your service
//!     append, read, commit, ask, until
//!                   │
//!                 Narad ───────────── one node; any number of them in one process
//!        ┌──────────┼───────────┐
//!        ▼          ▼           ▼
//! PartitionStore Metastore     Peer   Clock          yours, each a small trait
//!    records     decisions   messages  time
//! ```
//!
//! The machines are those of `narad-core`, and the loop that drives them is the one that a whole server
//! has ([`node_loop`](crate::node_loop)); what it runs over is yours. The feature `embed` brings tokio,
//! and neither the segment log nor Raft nor HTTP, if it is taken alone: `default-features = false,
//! features = ["embed"]`. The traits are made with `async-trait`, and records are those of `bytes`.
//!
//! # A tour
//!
//! 1. Give every node a [`PartitionStore`]: nine methods over named logs of records. Over an engine that
//!    has transactions it is a page of code; `examples/embed_redb.rs` is one.
//! 2. Give all nodes of a cluster the same [`Metastore`]: an ordered sequence of opaque records, with
//!    three outcomes of a proposal. Who owns what and who leads is in those records, and [`Ledger`] is
//!    what they come to.
//! 3. Give every node a [`Peer`], which carries questions to other nodes and theirs to this one.
//! 4. [`Narad::builder`], [`Builder::start`], [`Narad::ready`]. The first node founds the cluster, others
//!    join it; each is told from others by its store.
//! 5. [`Narad::create_topic`], then [`Narad::append`] at any node, [`Narad::read`] and [`Narad::commit`]
//!    at the [owner](Narad::owner). A new partition has none for a moment: an append waits for it, and
//!    [`Narad::until`] can. Partitions are spread and moved by themselves; [`Narad::ask`] moves
//!    one by hand, drains a node off, changes the policy.
//! 6. Try your parts with `narad_runtime::conformance` (feature `conformance`) before you trust them.
//!
//! | part | of your own | in memory | that lasts |
//! |---|---|---|---|
//! | [`PartitionStore`] | your log | [`memory::MemoryStore`] | `SegmentFiles` (feature `log`) |
//! | [`Metastore`] | your database, etcd, a consensus library | [`memory::MemoryMetastore`] | `RaftMetastore` (feature `raft`) |
//! | [`Peer`] | your RPC | [`memory::MemoryPeer`] | [`TcpPeer`] |
//! | [`Clock`](crate::clock::Clock) | a test's | | [`BootClock`](crate::clock::BootClock), the default |
//!
//! `RaftMetastore` begins with the replicas that found it; others join, and any of them leaves, while it
//! runs: `RaftMetastore::join`, `add_learner`, `promote`, `remove`.
//!
//! A node with the segment log, tikv Raft and TCP, all in one, is `server::Server` (feature `cli`).
//!
//! # What is promised
//!
//! - A record that [`Narad::append`] has acknowledged is in exactly one place, durable and visible, until
//!   your store drops it, whatever moves, as long as the store, the metastore and the clock keep their
//!   contracts. It may be there twice if an append whose outcome was unknown is repeated.
//! - Records of one appender that waits for each answer stay in order.
//! - An owner that is cut off stops acknowledging before another one may begin: see
//!   [`Policy`](narad_core::config::Policy) for the times.
//! - Nothing is global: no static, no environment variable, no signal handler, no logger. Log lines are
//!   `tracing` events. Nothing panics across this API; a node whose invariant is broken ends with
//!   [`Ended::Panicked`], and its calls with an error.
//! - [`Narad::shutdown`] and dropping the node stop all that it has begun.
//!
//! # Examples
//!
//! Two nodes, a partition, and a move, all in memory:
//!
//! ```
//! use narad_core::ids::{Name, PartitionId};
//! use narad_core::node::Ask;
//! use narad_runtime::embed::Narad;
//! use narad_runtime::embed::memory::{MemoryMetastore, MemoryPeer, MemoryStore};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (metastore, network) = (MemoryMetastore::default(), MemoryPeer::default());
//! let node = |name| {
//!     let builder = Narad::builder().name(name).store(MemoryStore::default());
//!     builder.metastore(metastore.clone()).peer(network.another())
//! };
//! let a = node(Name::new("a")?).start().await?;
//! let b = node(Name::new("b")?).start().await?;
//! b.ready().await?;
//!
//! let orders = PartitionId { topic: a.create_topic(Name::new("orders")?, 1).await?, index: 0 };
//! a.append(orders, vec!["first".into(), "second".into()]).await?;
//! let to = if a.owner(orders) == Some(a.node()) { &b } else { &a };
//! a.ask(Ask::Move { partition: orders, to: to.node() }).await?;
//! to.until(move |node| node.serving(orders).is_some()).await?;
//! assert_eq!(to.bounds(orders)?.1.0, 2);
//! a.shutdown().await?;
//! b.shutdown().await?;
//! # Ok(())
//! # }
//! ```

mod builder;
#[doc(hidden)]
pub mod decoders;
mod error;
mod extents;
mod follow;
mod hands;
mod ledger;
pub mod memory;
mod messages;
mod metastore;
mod names;
mod narad;
mod note;
mod peer;
#[cfg(feature = "raft")]
mod raft;
mod salvage;
mod seat;
mod seats;
#[cfg(feature = "log")]
mod segments;
mod service;
mod store;
mod tcp;
mod thinker;
mod throttle;
mod vault;

pub use builder::Builder;
pub use error::{AppendError, Ended, StartError};
pub use ledger::{Folded, Ledger, LedgerError, Record};
pub use metastore::{COMPACT_EVERY, DECISION_BYTES_MAX, Metastore, Proposed, Update, Watch};
pub use narad::Narad;
pub use note::BadNote;
pub use peer::{Inbound, KeptReachable, MESSAGE_BYTES_MAX, Peer, Whom};
#[cfg(feature = "raft")]
pub use raft::{MembersError, RaftMetastore, RaftMetastoreError, Replicas};
pub use seat::Committed;
#[cfg(feature = "log")]
pub use segments::SegmentFiles;
pub use store::{
    Kept, LOG_NAME_BYTES_MAX, NOTE_BYTES_MAX, PartitionStore, RECORD_BYTES_MAX, StoreFault, is_own,
};
pub use tcp::TcpPeer;
