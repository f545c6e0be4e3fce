//! The first seam: where an embedder keeps records.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::Offset;

/// An embedder's own log, as small as Narad can do with: named logs of records, each with a note.
///
/// A node has many logs in one store: its own (`node`), one for each partition that it serves or has
/// served (`p/3-1/m7-n2-i4-a1`), at most one copy that grows for each (`s/3-1`), and what was set
/// aside (`t/…`). Narad makes the names; they consist of `a-z`, `0-9`, `-` and `/`, and are at most
/// [`LOG_NAME_BYTES_MAX`] long. A store may have logs of other names for itself: Narad touches only
/// those that begin as above, see [`is_own`].
///
/// Extents, checksums, manifests, high watermarks and everything else that the protocol needs is made
/// of this by Narad. For a log that is made of segment files and should be copied as files, see
/// `store::PartitionStore` (feature `log`).
///
/// # Contract
///
/// 1. **Durable on return.** Whatever a method has done survives a power loss once it has returned
///    `Ok`. What it has not returned from may have happened, or not, or in part where this says so.
/// 2. **Only what is durable is shown.** [`open`](Self::open) and [`read`](Self::read) tell of nothing
///    that a power loss could take back: an append under way is not there before it is durable (H16).
/// 3. **A failed append leaves a prefix.** Of the records of an append that has failed, or that the
///    process did not outlive, the first few may be there, whole and in order, and nothing else.
/// 4. **Names are never replaced.** [`create`](Self::create) and [`rename`](Self::rename) refuse a name
///    that is there (H18); a rename is atomic, and takes records and note along.
/// 5. **Opening never creates** (S3), and nothing is ever repaired by leaving records out in the
///    middle: a log that cannot be read in full is [`StoreFault::Failed`]. That goes for a medium that
///    has gone bad, too: damage is reported by whoever meets it, [`open`](Self::open) or
///    [`read`](Self::read), and never served.
/// 6. Calls for different logs come at the same time, from many tasks. Calls that write one log come
///    one after the other; it is read meanwhile.
///
/// A method may block its thread: Narad calls it where that does no harm.
/// `narad_runtime::conformance` (feature `conformance`) checks all of this.
#[async_trait]
pub trait PartitionStore: Send + Sync + fmt::Debug + 'static {
    /// Returns the names of all logs, in any order.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    async fn list(&self) -> Result<Vec<String>, StoreFault>;

    /// Looks at a log; `None` if there is none of that name.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    async fn open(&self, log: &str) -> Result<Option<Kept>, StoreFault>;

    /// Creates an empty log whose first record will be at `start`.
    ///
    /// # Errors
    ///
    /// [`StoreFault::Exists`] if the name is taken, [`StoreFault::Full`].
    async fn create(&self, log: &str, start: Offset, note: Bytes) -> Result<(), StoreFault>;

    /// Appends records, at least one, the first of which gets the offset `at`.
    ///
    /// # Errors
    ///
    /// [`StoreFault::NoSuchLog`]; [`StoreFault::NotAtEnd`] if the log does not end at `at`, and nothing
    /// was appended then; [`StoreFault::Full`].
    async fn append(&self, log: &str, at: Offset, records: &[Bytes]) -> Result<(), StoreFault>;

    /// Reads records from an offset on: at least one if there is one, and no more than fit into
    /// `bytes_max` otherwise. None at the end of the log.
    ///
    /// # Errors
    ///
    /// [`StoreFault::NoSuchLog`]; [`StoreFault::OutOfRange`] below its start or past its end.
    async fn read(
        &self,
        log: &str,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<Bytes>, StoreFault>;

    /// Removes the records at and past `end`, for good: they do not come back behind what is appended
    /// there. A log that ends there already stays as it is. Where all go, the start stays what it is, and
    /// so does the note.
    ///
    /// # Errors
    ///
    /// [`StoreFault::NoSuchLog`]; [`StoreFault::OutOfRange`] below its start or past its end.
    async fn cut(&self, log: &str, end: Offset) -> Result<(), StoreFault>;

    /// Replaces the note of a log. The old one or the new one is there after a crash, never a mixture.
    /// Notes are at most [`NOTE_BYTES_MAX`] long.
    ///
    /// # Errors
    ///
    /// [`StoreFault::NoSuchLog`], [`StoreFault::Full`].
    async fn write_note(&self, log: &str, note: Bytes) -> Result<(), StoreFault>;

    /// Gives a log another name.
    ///
    /// # Errors
    ///
    /// [`StoreFault::NoSuchLog`], [`StoreFault::Exists`].
    async fn rename(&self, log: &str, to: &str) -> Result<(), StoreFault>;

    /// Deletes a log. One that is not there is no error.
    ///
    /// # Errors
    ///
    /// If the store fails; the log is there then, whole.
    async fn remove(&self, log: &str) -> Result<(), StoreFault>;
}

/// A store that others have a hold of, too.
#[async_trait]
impl<T: PartitionStore + ?Sized> PartitionStore for Arc<T> {
    async fn list(&self) -> Result<Vec<String>, StoreFault> {
        (**self).list().await
    }

    async fn open(&self, log: &str) -> Result<Option<Kept>, StoreFault> {
        (**self).open(log).await
    }

    async fn create(&self, log: &str, start: Offset, note: Bytes) -> Result<(), StoreFault> {
        (**self).create(log, start, note).await
    }

    async fn append(&self, log: &str, at: Offset, records: &[Bytes]) -> Result<(), StoreFault> {
        (**self).append(log, at, records).await
    }

    async fn read(&self, log: &str, from: Offset, most: usize) -> Result<Vec<Bytes>, StoreFault> {
        (**self).read(log, from, most).await
    }

    async fn cut(&self, log: &str, end: Offset) -> Result<(), StoreFault> {
        (**self).cut(log, end).await
    }

    async fn write_note(&self, log: &str, note: Bytes) -> Result<(), StoreFault> {
        (**self).write_note(log, note).await
    }

    async fn rename(&self, log: &str, to: &str) -> Result<(), StoreFault> {
        (**self).rename(log, to).await
    }

    async fn remove(&self, log: &str) -> Result<(), StoreFault> {
        (**self).remove(log).await
    }
}

/// Longest name of a log, in bytes.
pub const LOG_NAME_BYTES_MAX: usize = 160;

/// Longest note of a log, in bytes.
pub const NOTE_BYTES_MAX: usize = 4 << 20;

/// Longest record, in bytes: 1 MiB.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// Returns whether a log of this name is Narad's.
#[must_use]
pub fn is_own(log: &str) -> bool {
    log == "node" || ["p/", "s/", "t/"].iter().any(|class| log.starts_with(class))
}

/// What a store says of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Offset of its first record. It may grow where the embedder drops old records; never while the
    /// partition is frozen.
    pub start: Offset,
    /// Offset after its last durable record; its start if it is empty.
    pub end: Offset,
    /// What was noted last.
    pub note: Bytes,
}

/// Why a store did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreFault {
    /// There is no log of that name.
    #[error("there is no log {log}")]
    NoSuchLog {
        /// The name.
        log: String,
    },
    /// There is one already.
    #[error("there is a log {log} already; a name is never replaced")]
    Exists {
        /// The name.
        log: String,
    },
    /// An append somewhere else than at the end.
    #[error("log {log} ends at {end}, so that nothing can be appended at {at}: open it again")]
    NotAtEnd {
        /// The name.
        log: String,
        /// Where it ends.
        end: Offset,
        /// Where the records were to go.
        at: Offset,
    },
    /// An offset that the log does not have.
    #[error("log {log} has no offset {offset}: open it again")]
    OutOfRange {
        /// The name.
        log: String,
        /// The offset.
        offset: Offset,
    },
    /// There is no room.
    #[error("the store is full: make room")]
    Full,
    /// Something else.
    #[error("the store failed: {reason}")]
    Failed {
        /// What went wrong.
        reason: String,
    },
}

impl StoreFault {
    /// Makes a fault of an engine's error.
    pub fn failed(error: impl fmt::Display) -> Self {
        Self::Failed { reason: error.to_string() }
    }
}
