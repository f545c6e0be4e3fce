//! The second seam: what decides.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::LogIndex;

/// One totally ordered sequence of records that all nodes of a cluster share, and agree about.
///
/// Everything that a cluster decides is a record in it: who owns what, who leads, who is dead. Narad
/// folds the records ([`Ledger`](super::Ledger)) on every node; a metastore orders them and keeps
/// them, and need not look into them. A table with a growing key will do, if writing the next key is
/// conditional; so will a consensus library, or etcd with a transaction on the revision of its head.
///
/// # Contract
///
/// 1. **One order.** Every record has an index, from 1 on, without gaps; whoever watches sees the same
///    record at the same index, ascending, none left out. A [snapshot](Update::Snapshot) stands for all
///    records up to its index.
/// 2. **Decided is decided.** A record that somebody was shown, or that was [`Proposed::Applied`],
///    survives whatever the metastore is said to survive.
/// 3. **Three outcomes.** [`Proposed::Rejected`] is a promise that the record is not there and never
///    will be. Whoever cannot promise that says [`Proposed::Unknown`]: a timeout, a lost connection, a
///    lost reply. A record that was reported unknown may appear later. Unknown is not failed (rule 5 of
///    the crate docs of `narad-core`; H2).
/// 4. **A barrier is no older than its call.** It returns an index at or past that of every record
///    that was decided before the call began, on whatever node. Without contact to the majority, or
///    the master copy, there is no barrier: the owner lease of every node hangs on this (H31).
/// 5. A record may be in the sequence twice if it was proposed once; Narad's records bear that.
///
/// `narad_runtime::conformance` (feature `conformance`) checks this.
#[async_trait]
pub trait Metastore: Send + Sync + fmt::Debug + 'static {
    /// Proposes a record. Many proposals may be under way at once. Ends after a few seconds at most,
    /// with [`Proposed::Unknown`] if there is no answer by then.
    async fn propose(&self, record: Bytes) -> Proposed;

    /// Returns an index that is no older than this call, or `None` if nobody can say now. Ends after a
    /// few seconds at most.
    async fn barrier(&self) -> Option<LogIndex>;

    /// Shows what follows an index: first whatever is decided already, then what is being decided, as
    /// soon as it is. If the records after `after` are no longer kept, it begins with a snapshot.
    async fn watch(&self, after: LogIndex) -> Box<dyn Watch>;

    /// Offers a snapshot that stands for all records up to `index`: they need not be kept any more.
    /// Narad offers one every [`COMPACT_EVERY`] records, from any node, so that one may come that stands for
    /// less than the last: it changes nothing. A watch that has not come as far goes on with the snapshot,
    /// or ends. Does nothing by default.
    async fn compact(&self, index: LogIndex, state: Bytes) {
        drop((index, state));
    }
}

/// A metastore that others have a hold of, too.
#[async_trait]
impl<T: Metastore + ?Sized> Metastore for Arc<T> {
    async fn propose(&self, record: Bytes) -> Proposed {
        (**self).propose(record).await
    }

    async fn barrier(&self) -> Option<LogIndex> {
        (**self).barrier().await
    }

    async fn watch(&self, after: LogIndex) -> Box<dyn Watch> {
        (**self).watch(after).await
    }

    async fn compact(&self, index: LogIndex, state: Bytes) {
        (**self).compact(index, state).await;
    }
}

/// Records between two offers of a snapshot.
pub const COMPACT_EVERY: u64 = 1024;

/// Longest record of a metastore, in bytes: 1 MiB.
pub const DECISION_BYTES_MAX: usize = 1 << 20;

/// What follows an index, one after the other.
#[async_trait]
pub trait Watch: Send {
    /// Waits for the next one. `None` ends the watch: Narad watches again from where it has come to,
    /// after a moment.
    async fn next(&mut self) -> Option<Update>;
}

/// What became of a proposal, as far as the metastore can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposed {
    /// It has a place in the order. What it does there is judged by the fold.
    Applied(LogIndex),
    /// It has none, and never will.
    Rejected {
        /// Why, for people.
        reason: String,
    },
    /// It may have a place, may get one, or may never.
    Unknown,
}

/// One thing that a watch shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// A record.
    Record {
        /// Its place.
        index: LogIndex,
        /// What was proposed.
        record: Bytes,
    },
    /// What stands for all records up to an index: bytes that were offered to
    /// [`Metastore::compact`] with it.
    Snapshot {
        /// The place of the last record that it stands for.
        index: LogIndex,
        /// The bytes.
        state: Bytes,
    },
}

impl Update {
    /// Returns the place of the record, or of the last one that a snapshot stands for.
    pub const fn index(&self) -> LogIndex {
        match self {
            Self::Record { index, .. } | Self::Snapshot { index, .. } => *index,
        }
    }
}
