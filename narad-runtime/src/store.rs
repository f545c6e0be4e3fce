//! What one node keeps of all partitions: logs that are live, logs that were, copies that grow.
//!
//! ```text
//! identity incarnation lock                    whose disk this is (DataDir)
//! partitions/<topic id>/<partition>/
//!     m7-n3-i2-a1/                             a log, live or past, named by the attempt that
//!         00000000000000000000.seg ..          installed it; which one is live says the metastore
//!         segments sidecar position generation manifest
//!     staging/                                 at most one copy that grows
//!         00000000000000000000.seg .. manifest
//! .trash/<ms>-<n>-t7-2-m7-n3-i2-a1/            set aside, deleted after the quarantine
//! ```
//!
//! Paths are made of ids, never of names (H26). Everything is below one root, so a rename never
//! crosses a filesystem (`case_056`).
//!
//! # Invariants
//!
//! 1. A log's name is never replaced and never removed; it is renamed at most (H4, H18).
//! 2. Opening never creates (S3). Only [`PartitionStore::create`] makes an empty log.
//! 3. The manifest vouches for bytes that are durable already; what lies past them is cut before
//!    the copy goes on (`case_044`, `case_045`).
//! 4. Verifying changes nothing on the disk (`case_044`).
//! 5. An unreadable manifest is reported and nothing is built on its staging, which is not touched
//!    here: it may be the only copy that survives. It is set aside as any other, once its source lives
//!    (`case_054`).

mod behind;
pub mod data_dir;
mod error;
pub mod identity;
mod install;
mod kept;
mod layout;
mod manifest;
mod partition_log;
mod segment_store;
mod staging;
mod trash;
mod verify;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use narad_core::ids::{Attempt, ByteCount, Offset, PartitionId};
use narad_core::partition::{Boundary, Manifest, Recovered, Sidecar, Staged, Verified};

use crate::log::Record;

#[cfg(feature = "net")]
pub(crate) use behind::AHEAD_BYTES_MAX;
pub use error::{Refusal, StoreError};
pub use kept::{Kept, Receipt};
pub use layout::{log_dir, parse_attempt, partition_dir, staging_dir};
pub use partition_log::PartitionLog;
pub use segment_store::SegmentStore;
pub use trash::{Swept, Trashed};

/// The disk side of a node, for stores whose logs are files that can be copied as they are. A store of
/// records, over whatever engine, is `embed::PartitionStore`, which is much smaller.
///
/// Every operation that a machine can ask for on a partition's files.
///
/// Every method blocks. An operation that fails, or is cut short by a crash, leaves a state that
/// [`recover`](Self::recover) classifies; all of them may be repeated.
pub trait PartitionStore: Send + Sync + fmt::Debug {
    /// Looks at everything that is on the disk. Changes nothing.
    ///
    /// # Errors
    ///
    /// If the disk cannot be read; a single unreadable file is a [`Problem`] instead.
    fn recover(&self) -> Result<Found, StoreError>;

    /// Looks at what is on the disk of one partition. Changes nothing.
    ///
    /// # Errors
    ///
    /// If the disk cannot be read.
    fn inspect(&self, p: PartitionId) -> Result<Recovered, StoreError>;

    /// Finds out whether so many bytes would fit, and whether a small write and its sync succeed
    /// (H20).
    ///
    /// # Errors
    ///
    /// If they would not, or do not.
    fn probe(&self, p: PartitionId, bytes: u64) -> Result<(), StoreError>;

    /// Creates an empty log that begins at `start`; if it is there already, only its durability is
    /// made sure of.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    fn create(&self, p: PartitionId, attempt: Attempt, start: Offset) -> Result<(), StoreError>;

    /// Opens a log, whose name is durable from then on: it may have been given by somebody who ended,
    /// or met an error, before it was.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchLog`] if it is not there (S3), [`StoreError::Open`] while it is open.
    fn open(&self, p: PartitionId, attempt: Attempt) -> Result<Arc<dyn PartitionLog>, StoreError>;

    /// Begins to write one extent of the copy at an explicit position: its staged length, or less to
    /// repeat bytes whose answer was lost (`case_046`). Bytes past the staged length are cut.
    ///
    /// # Errors
    ///
    /// [`StoreError::WrongPosition`] past the staged length, [`StoreError::Busy`] while another
    /// writer has the extent, [`StoreError::Corrupt`] if the staged bytes changed on the disk,
    /// [`StoreError::Manifest`] if the manifest cannot be read.
    fn stage_writer(
        &self,
        p: PartitionId,
        base: Offset,
        position: u64,
    ) -> Result<Box<dyn StageWriter>, StoreError>;

    /// Writes one piece of one extent of the copy, and returns how far the extent is staged.
    ///
    /// # Errors
    ///
    /// As [`stage_writer`](Self::stage_writer) and [`StageWriter::write`].
    fn stage_at(
        &self,
        p: PartitionId,
        base: Offset,
        position: u64,
        bytes: &[u8],
    ) -> Result<Staged, StoreError> {
        let mut writer = self.stage_writer(p, base, position)?;
        writer.write(bytes)?;
        Ok(writer.finish())
    }

    /// Returns how far every extent of the copy is staged, whether durable or not.
    ///
    /// # Errors
    ///
    /// [`StoreError::Manifest`] if the manifest cannot be read.
    fn staged(&self, p: PartitionId) -> Result<Vec<Staged>, StoreError>;

    /// Reads back whatever of the copy this process has not seen itself, after a restart. Verifying
    /// does the same; doing it early keeps it out of the freeze (`case_050`).
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] if an extent is no longer what the manifest vouches for.
    fn vouch(&self, p: PartitionId) -> Result<(), StoreError>;

    /// Makes the extents that a manifest names durable, then the manifest.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotStaged`] if it names what is not there, [`StoreError::Lost`] if a sync
    /// failed: that extent is discarded and must be copied again (H17).
    fn checkpoint(&self, manifest: &Manifest) -> Result<(), StoreError>;

    /// Removes extents that are not in `keep` and shortens those that are longer, durably; the
    /// manifest forgets them first.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    fn trim_staging(&self, p: PartitionId, keep: &[Staged]) -> Result<(), StoreError>;

    /// Judges the copy against the boundary, without changing it.
    ///
    /// With a digest the copy must be the source's bytes, damage included (`case_048`). Without one
    /// (the source is dead) it must be contiguous from the start to at least the high watermark, and
    /// a torn last append does not count.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] with the reason (R21, R42).
    fn verify(&self, p: PartitionId, boundary: &Boundary) -> Result<Verified, StoreError>;

    /// Turns the copy into a log of its own name.
    ///
    /// # Errors
    ///
    /// [`StoreError::NameTaken`] if the name is there and the copy too; nothing is replaced (H18).
    fn install(
        &self,
        attempt: Attempt,
        sidecar: &Sidecar,
        manifest: &Manifest,
    ) -> Result<(), StoreError>;

    /// Turns an installed log back into the growing copy, after its attempt can no longer win; a
    /// present copy is set aside first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchLog`], or [`StoreError::Open`] while it is open.
    fn restage(&self, p: PartitionId, attempt: Attempt, now_ms: i64) -> Result<(), StoreError>;

    /// Moves the copy or a log into the trash; absent ones are fine.
    ///
    /// `now_ms` is the wall clock, from which the quarantine counts.
    ///
    /// # Errors
    ///
    /// [`StoreError::Open`] or [`StoreError::Busy`] while it is in use.
    fn set_aside(&self, p: PartitionId, what: What, now_ms: i64) -> Result<(), StoreError>;

    /// Lists the trash, oldest first.
    ///
    /// # Errors
    ///
    /// If the disk cannot be read.
    fn trash(&self) -> Result<Vec<Trashed>, StoreError>;

    /// Deletes what was set aside before `older_than_ms`, oldest first, at most `files_max` files.
    /// The caller repeats it while there is more, so that no delete blocks for long.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    fn sweep_trash(&self, older_than_ms: i64, files_max: usize) -> Result<Swept, StoreError>;

    /// Deletes one thing in the trash, whatever its age.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchTrash`], or if the disk fails; some of its files may be deleted then.
    fn drop_trash(&self, name: &str) -> Result<Swept, StoreError>;

    /// Reads the records of a directory that nobody serves, from an offset on; without one, from the
    /// first that consumers have not acknowledged there, and without those that they have. One
    /// segment is in memory at a time. `each` returns whether to go on; what is damaged is left out.
    ///
    /// Returns where they begin and the end of the log, or `None` if `each` has ended it early.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchTrash`], or if the directory cannot be read.
    fn read_kept(
        &self,
        kept: Kept<'_>,
        from: Option<Offset>,
        each: &mut dyn FnMut(Vec<(Offset, Record)>) -> bool,
    ) -> Result<Option<(Offset, Offset)>, StoreError>;

    /// Keeps a receipt beside a directory's records, durably: which of them were accepted again.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    fn write_receipt(&self, kept: Kept<'_>, receipt: &Receipt) -> Result<(), StoreError>;

    /// Returns the bytes that may still be written.
    ///
    /// # Errors
    ///
    /// If the filesystem does not say.
    fn free_bytes(&self) -> Result<ByteCount, StoreError>;

    /// Returns the bytes of a log's files.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchLog`].
    fn data_bytes(&self, p: PartitionId, attempt: Attempt) -> Result<ByteCount, StoreError>;
}

/// Writes one extent of a copy, checking frames while they stream.
///
/// Dropping it keeps what was written.
pub trait StageWriter: Send + fmt::Debug {
    /// Writes the next bytes; a piece may begin and end anywhere in a frame.
    ///
    /// # Errors
    ///
    /// [`StoreError::Differs`] if repeated bytes are not those that were staged. A failed write
    /// leaves the extent as it was before. [`StoreError::Lost`] if a sync behind the writer failed:
    /// the extent must be copied again (H17).
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError>;

    /// Sets space aside for so many bytes, from where the writing begins.
    ///
    /// # Errors
    ///
    /// If the disk is full; nothing has changed then.
    fn reserve(&mut self, bytes: u64) -> Result<(), StoreError> {
        let _ = bytes;
        Ok(())
    }

    /// Returns how far the extent is staged now, this writer's bytes included.
    fn staged(&self) -> Staged;

    /// Ends the writing. Nothing is durable before a checkpoint.
    fn finish(self: Box<Self>) -> Staged;
}

/// Something that can be set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The growing copy.
    Staging,
    /// A log.
    Installed(Attempt),
}

/// What a restarted process finds on its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Every partition that has a directory, ascending.
    pub partitions: Vec<(PartitionId, Recovered)>,
    /// What could not be understood; none of it was touched.
    pub problems: Vec<Problem>,
}

/// Something on the disk that the store does not understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, relative to the disk's root.
    pub path: PathBuf,
    /// What is wrong with it, and what to do.
    pub why: String,
}
