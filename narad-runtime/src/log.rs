//! The segment log: what one partition's records are on disk.
//!
//! # Purpose
//!
//! An append-only log in segment files, over a [`Disk`]. A copy is byte for byte the same files, so
//! the layout is ours and nothing in it depends on the node. Every method blocks on the disk; a log
//! is `Send + Sync`, appends are serialised inside.
//!
//! # States
//!
//! ```text
//!  directory ──open──▶ Open ──write or sync fails──▶ Poisoned
//!      ▲                │                                │
//!      └─────close──────┴───────────────close────────────┘
//!
//!  start ≤ hwm ≤ end        [start, hwm) is visible, [hwm, end) is the hidden tail
//! ```
//!
//! # Invariants
//!
//! 1. An append that returned is durable: one write and one sync precede the return (R2, H17).
//! 2. Nothing at or past the high watermark is shown; only [`expose`](crate::store::PartitionLog::expose) and
//!    [`expose_all`](crate::store::PartitionLog::expose_all) raise it (R41, S4).
//! 3. Offsets are never given twice, and a byte below the durable length never changes.
//! 4. After a failed write or sync nothing is appended, until the log is opened again (H17). A full
//!    disk is no such failure: the attempt is cut off again and space is all that is needed.
//! 5. Only durable bytes are listed or handed to a copy (H16).
//! 6. Opening cuts nothing but a last append that was torn. Damage in front of a later append was
//!    durable once, even if that append is torn itself: it is reported, and stays (`case_048`).
//!
//! # After a restart
//!
//! [`SegmentLog::open`] believes the `segments` file about sealed segments and reads the last one.
//! Each frame carries the high watermark before it, and the first opening as owner is followed by
//! [`expose_all`](crate::store::PartitionLog::expose_all), so an acknowledged record is visible again (H42). The
//! last append is written a second time: after a failed sync its pages look clean without being on
//! the disk. The generation grows by one, so that a copy in progress checks its prefix (H16).
//!
//! # Example
//!
//! A record is durable when `append` returns and visible when it is exposed:
//!
//! ```
//! use narad_core::ids::{Epoch, Offset};
//! use narad_runtime::disk::MemDisk;
//! use narad_runtime::log::{LogLimits, Record, SegmentLog};
//! use narad_runtime::store::PartitionLog;
//! use std::{path::Path, sync::Arc};
//!
//! let disk = Arc::new(MemDisk::new());
//! SegmentLog::create(&*disk, Path::new("log"), Offset(0))?;
//! let log = SegmentLog::open(disk, Path::new("log"), LogLimits::default())?;
//! let done = log.append(&[Record { value: "hello".into(), ..Record::default() }], Epoch(1))?;
//! assert!(log.read(Offset(0), 1 << 20)?.is_empty());
//! log.expose(done.end)?;
//! assert_eq!(log.read(Offset(0), 1 << 20)?[0].1.value, "hello");
//! # Ok::<(), narad_runtime::log::LogError>(())
//! ```

mod altered;
mod append;
pub(crate) mod check;
pub(crate) mod envelope;
mod error;
pub(crate) mod frame;
mod index;
mod join;
mod listing;
mod opening;
mod position;
mod read;
mod record;
mod recover;
mod retain;
mod scan;
pub(crate) mod side;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use narad_core::ids::{Epoch, LogGeneration, Offset};
use narad_core::partition::Checksum;

pub use altered::Altered;
pub use append::Appended;
pub use check::Damage;
pub use envelope::FormatError;
pub use error::LogError;
#[cfg(feature = "net")]
pub(crate) use listing::READ_BYTES;
pub(crate) use listing::{check_segment, digest_of};
pub(crate) use opening::Opening;
pub(crate) use read::Upto;
pub use record::Record;
#[cfg(test)]
pub(crate) use record::tests::any_record;
pub use recover::Recovery;
pub(crate) use recover::{Ending, ending};
pub use retain::{Retained, Retention};
pub use scan::{Scan, scan, scan_each};

use crate::disk::{Disk, DiskError, DiskFile, Open, parent};
use append::Writer;
use index::{SparseIndex, Spots};
use position::Positions;

/// The limits of one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Length at which a segment is sealed and the next begun, in bytes; default 64 MiB. Larger
    /// makes retention coarser and a restart slower, since the last segment is read; smaller makes
    /// more files.
    pub segment_bytes: u64,
    /// Longest record, encoded, in bytes; default 4 MiB, at most 16 MiB.
    pub record_bytes_max: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, record_bytes_max: 4 << 20 }
    }
}

/// How far a log reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// First offset that retention has kept.
    pub start: Offset,
    /// First offset that consumers cannot see.
    pub hwm: Offset,
    /// Offset after the last durable record.
    pub end: Offset,
    /// Highest epoch that a frame carries.
    pub epoch: Epoch,
}

/// One partition's log in one directory.
#[derive(Debug)]
pub struct SegmentLog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    limits: LogLimits,
    generation: LogGeneration,
    recovery: Recovery,
    /// Held across a write and its sync; whoever needs both locks takes this one first.
    writer: Mutex<Writer>,
    view: Mutex<View>,
    positions: Positions,
    closed: AtomicBool,
}

/// What readers see; changed only after the disk has confirmed.
#[derive(Debug)]
struct View {
    /// Ascending; the last one grows, the others are sealed.
    segments: Vec<Segment>,
    hwm: Offset,
    epoch: Epoch,
    /// The segment that was read last, so that a sequential reader opens each file once.
    opened: Option<(Offset, Arc<dyn DiskFile>)>,
    spots: Spots,
}

/// One segment's durable part.
#[derive(Clone, Debug)]
struct Segment {
    base: Offset,
    end: Offset,
    bytes: u64,
    checksum: Checksum,
    newest_ms: Option<i64>,
    index: SparseIndex,
}

impl View {
    fn start(&self) -> Offset {
        self.segments.first().map_or(Offset(0), |segment| segment.base)
    }

    fn end(&self) -> Offset {
        self.segments.last().map_or(Offset(0), |segment| segment.end)
    }

    fn segment(&self, base: Offset) -> Option<&Segment> {
        let at = self.segments.binary_search_by_key(&base, |segment| segment.base).ok()?;
        self.segments.get(at)
    }

    fn segment_mut(&mut self, base: Offset) -> Option<&mut Segment> {
        let at = self.segments.binary_search_by_key(&base, |segment| segment.base).ok()?;
        self.segments.get_mut(at)
    }
}

impl SegmentLog {
    /// Creates a directory with an empty log that begins at `start`, durably up to its own name;
    /// a left-over of an interrupted creation is completed.
    ///
    /// Order: segment file, its directory, the directory's parent.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn create(disk: &dyn Disk, dir: &Path, start: Offset) -> Result<(), LogError> {
        disk.create_dir_all(dir)?;
        create_segment(disk, dir, start)?;
        disk.sync_dir(dir)?;
        disk.sync_dir(parent(dir))?;
        Ok(())
    }

    /// Opens the log in a directory, cutting a torn last append.
    ///
    /// # Errors
    ///
    /// [`LogError::NoSegments`] if there is none (it is never created here, S3), and whatever makes
    /// it unreadable as a whole.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, limits: LogLimits) -> Result<Self, LogError> {
        let found = recover::recover(&*disk, dir)?;
        let generation = side::next_generation(&*disk, dir)?;
        let writer = Writer::new(found.last_file, found.view.segments.last());
        Ok(Self {
            dir: dir.to_path_buf(),
            limits,
            generation,
            recovery: found.recovery,
            writer: Mutex::new(writer),
            positions: Positions::new(found.stand),
            view: Mutex::new(found.view),
            closed: AtomicBool::new(false),
            disk,
        })
    }

    pub(crate) fn life(&self) -> LogGeneration {
        self.generation
    }

    pub(crate) fn found(&self) -> &Recovery {
        &self.recovery
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn check_open(&self) -> Result<(), LogError> {
        if self.is_closed() { Err(LogError::Closed) } else { Ok(()) }
    }

    fn view(&self) -> MutexGuard<'_, View> {
        lock(&self.view)
    }

    /// Returns whether appends are refused until the log is opened again.
    pub(crate) fn is_poisoned(&self) -> bool {
        lock(&self.writer).check().is_err()
    }

    /// Returns the durable bytes of all segments.
    pub(crate) fn bytes_now(&self) -> u64 {
        self.view().segments.iter().map(|segment| segment.bytes).sum()
    }

    pub(crate) fn bounds_now(&self) -> Bounds {
        let view = self.view();
        Bounds { start: view.start(), hwm: view.hwm, end: view.end(), epoch: view.epoch }
    }
}

/// Locks a mutex whose state is whole between any two statements, so that a panic elsewhere does
/// not take the partition down with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a segment file with its header, durably except for its name. Present content is a
/// left-over that no name and no index vouched for.
pub(crate) fn create_segment(
    disk: &dyn Disk,
    dir: &Path,
    base: Offset,
) -> Result<Arc<dyn DiskFile>, DiskError> {
    let file = disk.open(&side::segment_path(dir, base), Open::Create)?;
    file.set_len(0)?;
    file.write_at(0, &frame::file_header(base))?;
    file.sync()?;
    Ok(file)
}
