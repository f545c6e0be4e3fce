//! Keeps the decisions of a Narad cluster in etcd.
//!
//! [`EtcdMetastore`] is a [`Metastore`](narad_runtime::embed::Metastore) of
//! `narad_runtime::embed`: a cluster that has it runs no Raft of its own. One etcd serves any number of
//! clusters, each under a prefix.
//!
//! ```text
//! narad/                           the prefix
//!   head                           how far the sequence has come: "narad/1 17 <tag>"
//!   log/00000000000000000017       a record, with the tag of the transaction that wrote it
//!   base                           which snapshot stands for the records that are gone
//!   snapshot/…                     its parts
//!   assignments/orders/3           for people: who owns what, and where it moves
//!   members/narad-1  topics/orders  leader
//! ```
//!
//! # How a record is decided
//!
//! By one transaction: if `head` still has the revision that was seen, then put `head`, the next keys of
//! `log/`, and the rows that the records alter. etcd applies it or does not; whichever of two nodes
//! comes second finds another revision and has written nothing.
//!
//! When no answer comes, the same transaction is sent again. It can be applied once at most, however
//! often it is sent, because the first time alters the revision that it asks for; and once another one
//! has altered it, it never will be. So a lost answer is resolved by the next one that arrives, and
//! only [`Unknown`](narad_runtime::embed::Proposed::Unknown) if none does in time.
//!
//! # How a watch leaves nothing out
//!
//! Records have numbers without gaps. A watch first reads what is there, at one revision, and then
//! follows from the next one; whenever the stream breaks, is compacted away by etcd, shows a gap or is
//! silent for long, it reads again from the last number that it has shown. If those records have given
//! way to a snapshot, it shows that.
//!
//! # What etcd has to be
//!
//! Version 3.4 or newer, with the defaults for the size of requests (1.5 MiB) and of transactions (128
//! operations). It keeps old revisions until it is told to forget them: run it with
//! `--auto-compaction-mode=periodic --auto-compaction-retention=1h`, or it fills up. Nothing else may
//! write under the prefix; what is there and cannot be read is reported by name
//! ([`EtcdError::Foreign`]) and never overwritten. The user of etcd needs to read and write the prefix.
//!
//! The rows for people are never read by Narad: whatever is done to them, nothing changes.
//!
//! # Example
//!
//! `examples/etcd_metastore.rs` of this package: three nodes over one etcd, and a partition that moves.
//!
//! ```no_run
//! use narad_etcd::EtcdMetastore;
//!
//! # async fn connected() -> Result<(), narad_etcd::EtcdError> {
//! let metastore = EtcdMetastore::builder(["http://10.0.0.1:2379", "http://10.0.0.2:2379"])
//!     .prefix("narad/production")
//!     .user("narad", "secret")
//!     .connect()
//!     .await?;
//! println!("{} records are decided", metastore.head().await?);
//! # Ok(())
//! # }
//! ```

mod builder;
mod encoding;
mod error;
mod keys;
mod metastore;
mod rows;
mod session;
mod snapshot;
mod view;
mod watch;
mod writer;

pub use builder::{Builder, PATIENCE, REQUEST_TIMEOUT};
pub use error::EtcdError;
/// The options of a connection to etcd, as its client has them.
pub use etcd_client::ConnectOptions;
/// What a connection under TLS needs, for [`ConnectOptions::with_tls`].
#[cfg(feature = "tls")]
pub use etcd_client::{Certificate, Identity, TlsOptions};
pub use metastore::EtcdMetastore;
