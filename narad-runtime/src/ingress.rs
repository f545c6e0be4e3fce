//! The ingress log: what a node has accepted for any partition and not yet brought to its owner.
//!
//! # Purpose
//!
//! A write-ahead log of the node's own. A record is acknowledged when it is durable here, whatever
//! state its partition is in (L4, R46, H23); the dispatcher brings it to the partition's owner
//! afterwards. It is a [segment log](crate::log) in a directory of its own whose records are
//! [parcels](Parcel), and whose consumer is the dispatcher: the checkpoint is its position.
//!
//! # States
//!
//! ```text
//!  directory ──open──▶ Open ──write or sync fails──▶ Poisoned
//!                       ▲                                │   accepts nothing, reads on
//!                       └────────────reopen──────────────┘
//!
//!  start ≤ checkpoint ≤ next       [checkpoint, next) is not dispatched, or not all of it:
//!                                  ranges in it that are, or were given up, are remembered
//! ```
//!
//! # Invariants
//!
//! 1. A parcel that was answered is durable: one write and one sync precede the answer, shared by
//!    all who came together (R2).
//! 2. The dispatcher learns of every parcel, in the order of positions, before its producer is
//!    answered; of those in the log at its opening from [`Found`]. Were it told by the producers, a
//!    checkpoint could pass a record of which it does not know yet.
//! 3. A position that was answered is never given again.
//! 4. A segment is removed once the checkpoint behind it is durable, and not before (S1).
//! 5. After a failed write or sync nothing is accepted until the log is opened again; the failed sync
//!    is never repeated on the same file (H17). A full disk is no such failure.
//! 6. Memory is bounded by the [limits](Limits), however much waits on the disk.
//!
//! # After a restart
//!
//! Everything from the checkpoint on is found again, dispatched or not, but for the ranges that the
//! checkpoint names beside it: duplicates, never gaps. So is whether accept was shut for good. A last
//! append that was torn is cut; nobody was told that it was accepted. One that is whole stays, though
//! its producers may not have been answered.
//!
//! # Example
//!
//! What was accepted and not dispatched is there after a power loss:
//!
//! ```
//! use narad_core::dispatch::Route;
//! use narad_core::ids::{Seq, TopicId};
//! use narad_runtime::disk::{MemDisk, mem::Keep};
//! use narad_runtime::ingress::{IngressLog, Limits, Parcel};
//! use narad_runtime::log::Record;
//! use std::{path::Path, sync::Arc};
//!
//! let disk = Arc::new(MemDisk::new());
//! let dir = Path::new("ingress");
//! IngressLog::create(&*disk, dir)?;
//! let (log, _) = IngressLog::open(disk.clone(), dir, Limits::default(), |_| {})?;
//! let record = Record { value: "hello".into(), ..Record::default() };
//! let parcel = Parcel { topic: TopicId(1), route: Route::Any, record };
//! log.append(vec![parcel.clone(); 3])?;
//! log.checkpoint(Seq(2))?;
//!
//! disk.crash(Keep::Nothing);
//! let (log, found) = IngressLog::open(disk, dir, Limits::default(), |_| {})?;
//! let waiting: Vec<Seq> = found.waybills.map(|waybill| waybill.seq).collect();
//! assert_eq!(waiting, [Seq(2)]);
//! assert_eq!(log.read(waiting, 1 << 20)?.parcels, [(Seq(2), parcel)]);
//! # Ok::<(), narad_runtime::ingress::IngressError>(())
//! ```

mod cache;
mod commit;
mod door;
mod error;
mod parcel;
mod read;
mod reserve;
mod scan;
mod shut;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use narad_core::dispatch::{Checkpoint, Waybill};
use narad_core::ids::{ByteCount, Offset, Seq};
use narad_core::partition::Position;

pub use commit::{Accepted, Committer, Ticket};
pub use door::{Door, Load, Pass};
pub use error::IngressError;
pub use parcel::Parcel;
pub use read::{Read, Waybills};
pub use scan::{Scan, scan};

use crate::disk::{Disk, parent};
use crate::foreground::Foreground;
use crate::group::{self, Group};
use crate::log::side::{Stand, position_path, remove_if_present};
use crate::log::{FormatError, LogError, LogLimits, Recovery, SegmentLog, lock};
use crate::store::PartitionLog as _;
use cache::Cache;
use commit::{Answer, Batch};

/// The limits of an ingress log. How much may wait on the disk is for the dispatcher to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of a segment and of a record, without its address. Segments are given up as a whole,
    /// so larger ones keep more that was dispatched.
    pub log: LogLimits,
    /// Most bytes that one append takes, unless a single batch is larger; default 4 MiB.
    pub append_bytes_max: usize,
    /// Most bytes that may wait for an append; default 64 MiB. Larger lets more producers in while
    /// the disk is slow, and costs as much memory.
    pub waiting_bytes_max: usize,
    /// Most bytes of parcels that are kept in memory after they were appended or read; default 64
    /// MiB. Smaller makes the dispatcher read the disk, once for every partition.
    pub cache_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            log: LogLimits::default(),
            append_bytes_max: 4 << 20,
            waiting_bytes_max: 64 << 20,
            cache_bytes_max: 64 << 20,
        }
    }
}

/// Learns what was accepted.
pub trait Dispatcher: Send + Sync {
    /// Takes what has become durable, in the order of positions and without a gap except for what
    /// was [carried](IngressLog::carry). The producers are answered when this returns, so it must
    /// neither block nor call the log.
    fn accepted(&self, waybills: Vec<Waybill>);
}

impl<F: Fn(Vec<Waybill>) + Send + Sync> Dispatcher for F {
    fn accepted(&self, waybills: Vec<Waybill>) {
        self(waybills);
    }
}

/// What opening an ingress log came upon.
#[derive(Debug)]
pub struct Found {
    /// Everything before it is dispatched.
    pub checkpoint: Seq,
    /// The position that the next parcel gets.
    pub next: Seq,
    /// What waits, from the checkpoint on, without what that names beyond it.
    pub waybills: Waybills,
    /// What the log came upon.
    pub recovery: Recovery,
    /// Whether the checkpoint was unreadable and all that is left in the log waits again (R53).
    pub checkpoint_lost: bool,
    /// Whether accept was [shut](IngressLog::shut), and not opened again since.
    pub shut: bool,
}

/// One node's ingress log in one directory.
pub struct IngressLog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    limits: Limits,
    dispatcher: Box<dyn Dispatcher>,
    foreground: Option<Arc<Foreground>>,
    /// Replaced when the log is opened again.
    log: Mutex<Arc<SegmentLog>>,
    group: Group<Batch, Answer>,
    cache: Mutex<Cache>,
    /// Held across an append; whoever needs both locks takes this one first.
    writing: Mutex<()>,
    /// Held while the checkpoint moves.
    upkeep: Mutex<()>,
}

impl fmt::Debug for IngressLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IngressLog").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl IngressLog {
    /// Creates an empty log, durably up to its own name; one that is there is left as it is. To be
    /// called before a node starts for the first time and never later: a log that is missing then
    /// was lost, and with it what it had acknowledged (S3).
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn create(disk: &dyn Disk, dir: &Path) -> Result<(), IngressError> {
        if disk.metadata(dir)?.is_none() {
            // Under the final name an interrupted creation would look like a log.
            let making = dir.with_extension("creating");
            SegmentLog::create(disk, &making, Offset(0))?;
            disk.rename(&making, dir)?;
        }
        disk.sync_dir(parent(dir))?;
        Ok(())
    }

    /// Opens the log in a directory, cutting a torn last append. The dispatcher learns of what is
    /// accepted from now on; what is there is in [`Found`].
    ///
    /// # Errors
    ///
    /// [`LogError::NoSegments`] if there is none (it is never created here, S3), and whatever makes
    /// it unreadable as a whole.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        limits: Limits,
        dispatcher: impl Dispatcher + 'static,
    ) -> Result<(Self, Found), IngressError> {
        let (log, checkpoint_lost) = match open_log(&disk, dir, &limits) {
            // All that the file saves is duplicates.
            Err(LogError::Format { path, source })
                if path == position_path(dir) && !matches!(source, FormatError::Version { .. }) =>
            {
                remove_if_present(&*disk, &path)?;
                (open_log(&disk, dir, &limits)?, true)
            }
            opened => (opened?, false),
        };
        reserve::fill(&*disk, dir)?;
        let bounds = log.bounds_now();
        let checkpoint = checkpoint_of(&log);
        let log = Arc::new(log);
        let found = Found {
            checkpoint,
            next: Seq(bounds.end.0),
            waybills: Waybills::new(Arc::clone(&log), checkpoint, spent_of(&log)),
            recovery: log.found().clone(),
            checkpoint_lost,
            shut: shut::is_shut(&*disk, dir)?,
        };
        let group = Group::new(group::Limits {
            write_bytes_max: limits.append_bytes_max,
            waiting_bytes_max: limits.waiting_bytes_max,
        });
        let opened = Self {
            disk,
            dir: dir.to_path_buf(),
            limits,
            dispatcher: Box::new(dispatcher),
            foreground: None,
            log: Mutex::new(log),
            group,
            cache: Mutex::new(Cache::new(limits.cache_bytes_max)),
            writing: Mutex::new(()),
            upkeep: Mutex::new(()),
        };
        Ok((opened, found))
    }

    /// Tells how long each append takes.
    #[must_use]
    pub fn timed_by(mut self, foreground: Arc<Foreground>) -> Self {
        self.foreground = Some(foreground);
        self
    }

    /// Opens the log again after a write or sync has failed; returns whether that was needed. The
    /// dispatcher is told of parcels that are there although their producers were told of a failure.
    /// Until this has succeeded nothing is accepted; everything else goes on.
    ///
    /// # Errors
    ///
    /// If the disk still fails; then it is to be tried again. [`IngressError::Shrunk`] if it has
    /// lost what it had confirmed.
    pub fn reopen(&self) -> Result<bool, IngressError> {
        let _writing = lock(&self.writing);
        let _upkeep = lock(&self.upkeep);
        let old = self.log();
        if !old.is_poisoned() {
            return Ok(false);
        }
        let acknowledged = Seq(old.bounds_now().end.0);
        let log = Arc::new(open_log(&self.disk, &self.dir, &self.limits)?);
        let found = Seq(log.bounds_now().end.0);
        if found < acknowledged {
            return Err(IngressError::Shrunk { found, acknowledged });
        }
        let mut waybills = Waybills::new(Arc::clone(&log), acknowledged, Vec::new());
        let unanswered: Vec<Waybill> = waybills.by_ref().collect();
        waybills.finish()?;
        *lock(&self.log) = log;
        if !unanswered.is_empty() {
            self.dispatcher.accepted(unanswered);
        }
        Ok(true)
    }

    /// Says what is dispatched, or not needed for another reason, durably, and removes the segments
    /// that hold nothing but what lies below it; returns the bytes that were freed. A checkpoint below
    /// the present one changes nothing; one at the same position replaces its ranges. Works on a full
    /// disk.
    ///
    /// # Errors
    ///
    /// If a position was never given, the ranges are not what a [`Checkpoint`] promises, or the disk
    /// fails; the checkpoint may be durable then, and is to be set again.
    pub fn checkpoint(&self, spent: impl Into<Checkpoint>) -> Result<ByteCount, IngressError> {
        let Checkpoint { below, beyond } = spent.into();
        let position = Position { committed: Some(Offset(below.0)), ..Position::default() };
        let spent = beyond.iter().map(|range| Offset(range.start.0)..Offset(range.end.0)).collect();
        let stand = Stand { position, spent };
        let _upkeep = lock(&self.upkeep);
        let log = self.log();
        let retained = reserve::spend(&*self.disk, &self.dir, || {
            let now = log.stand_now();
            if now.position.committed <= stand.position.committed && now != stand {
                log.store_stand(stand.clone())?;
            }
            log.drop_before(Offset(below.0))
        })?;
        lock(&self.cache).forget_before(below);
        Ok(retained.bytes)
    }

    /// Notes durably that nothing is accepted any more, for whoever opens the log next. Keeps nobody
    /// out: that is for the [`Door`]. Works on a full disk.
    ///
    /// # Errors
    ///
    /// If the disk fails; it is to be done again then.
    pub fn shut(&self) -> Result<(), IngressError> {
        let _upkeep = lock(&self.upkeep);
        Ok(shut::shut(&*self.disk, &self.dir)?)
    }

    /// Notes durably that records are accepted again.
    ///
    /// # Errors
    ///
    /// If the disk fails; whoever opens the log next may find it shut then.
    pub fn unshut(&self) -> Result<(), IngressError> {
        let _upkeep = lock(&self.upkeep);
        Ok(shut::unshut(&*self.disk, &self.dir)?)
    }

    /// Returns the position before which everything is dispatched.
    pub fn checkpointed(&self) -> Seq {
        checkpoint_of(&self.log())
    }

    /// Returns the position that the next parcel gets.
    pub fn next(&self) -> Seq {
        Seq(self.log().bounds_now().end.0)
    }

    /// Returns the bytes that the log's segments take on the disk, dispatched records in them
    /// included.
    pub fn bytes(&self) -> ByteCount {
        ByteCount(self.log().bytes_now())
    }

    /// Gives the directory free; every later call but this one fails.
    ///
    /// # Errors
    ///
    /// If the checkpoint cannot be written; the log is closed all the same.
    pub fn close(&self) -> Result<(), IngressError> {
        let _writing = lock(&self.writing);
        let _upkeep = lock(&self.upkeep);
        Ok(self.log().close()?)
    }

    fn log(&self) -> Arc<SegmentLog> {
        Arc::clone(&lock(&self.log))
    }
}

/// Opens the segment log, on a full disk too; all that is durable is visible in it.
fn open_log(disk: &Arc<dyn Disk>, dir: &Path, limits: &Limits) -> Result<SegmentLog, LogError> {
    let record_bytes_max = limits.log.record_bytes_max.saturating_add(Parcel::ADDRESS_BYTES);
    let limits = LogLimits { record_bytes_max, ..limits.log };
    let open = || SegmentLog::open(Arc::clone(disk), dir, limits);
    let log = reserve::spend(&**disk, dir, open)?;
    log.expose(log.bounds_now().end)?;
    Ok(log)
}

fn spent_of(log: &SegmentLog) -> Vec<Range<Seq>> {
    let spent = log.stand_now().spent;
    spent.into_iter().map(|range| Seq(range.start.0)..Seq(range.end.0)).collect()
}

fn checkpoint_of(log: &SegmentLog) -> Seq {
    let committed = log.position_now().committed;
    Seq(committed.unwrap_or(log.bounds_now().start).0)
}
