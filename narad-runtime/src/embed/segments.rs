//! The default store: each log in segment files of its own.
//!
//! ```text
//! <log, with + for />~<n>/        the log; the highest n counts, others are left-overs of a cut
//!     log/ segments ..            the records
//!     note                        the note
//! tmp-<n>/                        what is not complete yet; deleted when the store is opened
//! ```
//!
//! Whatever appears or vanishes does so by the rename of a directory. A cut writes the log anew: it is
//! rare, and nothing that was acknowledged is ever cut.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::{Epoch, Offset};

use super::store::{Kept, NOTE_BYTES_MAX, PartitionStore, StoreFault};
use crate::disk::{self, Disk, DiskError};
use crate::log::{LogError, LogLimits, Record, SegmentLog};
use crate::store::PartitionLog;

/// Logs in segment files, over a [`Disk`].
#[derive(Debug)]
pub struct SegmentFiles {
    disk: Arc<dyn Disk>,
    limits: LogLimits,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The generation of each log's directory.
    logs: BTreeMap<String, u64>,
    open: BTreeMap<String, Arc<SegmentLog>>,
    temporary: u64,
}

impl SegmentFiles {
    /// Opens the store on a disk that is its own.
    ///
    /// # Errors
    ///
    /// If the disk cannot be read, or left-overs cannot be deleted.
    pub fn open(disk: Arc<dyn Disk>, limits: LogLimits) -> Result<Self, StoreFault> {
        let mut known = Known::default();
        for entry in disk.list(root()).map_err(disk_fault)? {
            let Some((log, generation)) = read_name(&entry.name) else {
                remove_all(&*disk, Path::new(&entry.name)).map_err(disk_fault)?;
                continue;
            };
            let older = match known.logs.get(&log) {
                Some(found) if *found > generation => Some(generation),
                found => {
                    let found = found.copied();
                    known.logs.insert(log.clone(), generation);
                    found
                }
            };
            if let Some(older) = older {
                remove_all(&*disk, &dir(&log, older)).map_err(disk_fault)?;
            }
        }
        Ok(Self { disk, limits, known: Mutex::new(known) })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing under this mutex is left half done by a panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dir_of(known: &Known, log: &str) -> Result<PathBuf, StoreFault> {
        let missing = || StoreFault::NoSuchLog { log: log.to_owned() };
        known.logs.get(log).map(|generation| dir(log, *generation)).ok_or_else(missing)
    }

    /// Opens the segments of a log, if they are not.
    fn segments(&self, log: &str) -> Result<(PathBuf, Arc<SegmentLog>), StoreFault> {
        let mut known = self.known();
        let dir = Self::dir_of(&known, log)?;
        if let Some(open) = known.open.get(log) {
            return Ok((dir, Arc::clone(open)));
        }
        let opened = SegmentLog::open(Arc::clone(&self.disk), &dir.join("log"), self.limits);
        let opened = Arc::new(opened.map_err(log_fault)?);
        known.open.insert(log.to_owned(), Arc::clone(&opened));
        Ok((dir, opened))
    }

    /// Makes a directory complete, then gives it its name.
    fn publish(
        &self,
        known: &mut Known,
        log: &str,
        generation: u64,
        start: Offset,
        note: &[u8],
        fill: impl FnOnce(&Path) -> Result<(), StoreFault>,
    ) -> Result<(), StoreFault> {
        known.temporary += 1;
        let temporary = PathBuf::from(format!("tmp-{}", known.temporary));
        remove_all(&*self.disk, &temporary).map_err(disk_fault)?;
        SegmentLog::create(&*self.disk, &temporary.join("log"), start).map_err(log_fault)?;
        fill(&temporary.join("log"))?;
        disk::write_atomically(&*self.disk, &temporary.join("note"), note).map_err(disk_fault)?;
        self.disk.sync_dir(&temporary).map_err(disk_fault)?;
        self.disk.rename(&temporary, &dir(log, generation)).map_err(disk_fault)?;
        // From here on it may be there, whatever becomes of the sync.
        known.logs.insert(log.to_owned(), generation);
        self.disk.sync_dir(root()).map_err(disk_fault)
    }

    /// Takes a directory's name away durably, then deletes it.
    fn retract(&self, known: &mut Known, dir: &Path) -> Result<(), StoreFault> {
        known.temporary += 1;
        let temporary = PathBuf::from(format!("tmp-{}", known.temporary));
        self.disk.rename(dir, &temporary).map_err(disk_fault)?;
        self.disk.sync_dir(root()).map_err(disk_fault)?;
        remove_all(&*self.disk, &temporary).map_err(disk_fault)
    }

    fn check(open: &SegmentLog, log: &str, offset: Offset) -> Result<(), StoreFault> {
        let bounds = open.bounds();
        let is_there = offset >= bounds.start && offset <= bounds.end;
        is_there.then_some(()).ok_or(StoreFault::OutOfRange { log: log.to_owned(), offset })
    }
}

#[async_trait]
impl PartitionStore for SegmentFiles {
    async fn list(&self) -> Result<Vec<String>, StoreFault> {
        Ok(self.known().logs.keys().cloned().collect())
    }

    async fn open(&self, log: &str) -> Result<Option<Kept>, StoreFault> {
        let (dir, open) = match self.segments(log) {
            Err(StoreFault::NoSuchLog { .. }) => return Ok(None),
            opened => opened?,
        };
        let note = disk::read_whole(&*self.disk, &dir.join("note"), NOTE_BYTES_MAX as u64);
        let note = note.map_err(disk_fault)?;
        let note = note.ok_or_else(|| StoreFault::failed(format!("log {log} has no note")))?;
        let bounds = open.bounds();
        Ok(Some(Kept { start: bounds.start, end: bounds.end, note: note.into() }))
    }

    async fn create(&self, log: &str, start: Offset, note: Bytes) -> Result<(), StoreFault> {
        let mut known = self.known();
        if known.logs.contains_key(log) {
            return Err(StoreFault::Exists { log: log.to_owned() });
        }
        self.publish(&mut known, log, 0, start, &note, |_| Ok(()))
    }

    async fn append(&self, log: &str, at: Offset, records: &[Bytes]) -> Result<(), StoreFault> {
        let (_, open) = self.segments(log)?;
        let end = open.bounds().end;
        if at != end {
            return Err(StoreFault::NotAtEnd { log: log.to_owned(), end, at });
        }
        let record = |value: &Bytes| Record { value: value.clone(), ..Record::default() };
        let records: Vec<Record> = records.iter().map(record).collect();
        let appended = open.append(&records, Epoch(1));
        appended.map(|_| ()).map_err(|error| {
            // Only a new opening says what is there.
            self.known().open.remove(log);
            log_fault(error)
        })
    }

    async fn read(
        &self,
        log: &str,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<Bytes>, StoreFault> {
        let (_, open) = self.segments(log)?;
        Self::check(&open, log, from)?;
        if from == open.bounds().end {
            return Ok(Vec::new());
        }
        let read = open.read_durable(from, bytes_max.max(1)).map_err(log_fault)?;
        Ok(read.into_iter().map(|(_, record)| record.value).collect())
    }

    async fn cut(&self, log: &str, end: Offset) -> Result<(), StoreFault> {
        let (old, open) = self.segments(log)?;
        Self::check(&open, log, end)?;
        if end == open.bounds().end {
            return Ok(());
        }
        let note = disk::read_whole(&*self.disk, &old.join("note"), NOTE_BYTES_MAX as u64);
        let note = note.map_err(disk_fault)?.unwrap_or_default();
        let start = open.bounds().start;
        let copy = |dir: &Path| {
            let new = SegmentLog::open(Arc::clone(&self.disk), dir, self.limits);
            let new = new.map_err(log_fault)?;
            let mut at = start;
            while at < end {
                let left = usize::try_from(end.0 - at.0).unwrap_or(usize::MAX);
                let read = open.read_durable(at, 1 << 20).map_err(log_fault)?;
                let read: Vec<Record> = read.into_iter().take(left).map(|(_, r)| r).collect();
                at = new.append(&read, Epoch(1)).map_err(log_fault)?.end;
            }
            new.close().map_err(log_fault)
        };
        let mut known = self.known();
        let generation = known.logs.get(log).copied().unwrap_or_default() + 1;
        self.publish(&mut known, log, generation, start, &note, copy)?;
        known.open.remove(log);
        self.retract(&mut known, &old)
    }

    async fn write_note(&self, log: &str, note: Bytes) -> Result<(), StoreFault> {
        let dir = Self::dir_of(&self.known(), log)?;
        disk::write_atomically(&*self.disk, &dir.join("note"), &note).map_err(disk_fault)
    }

    async fn rename(&self, log: &str, to: &str) -> Result<(), StoreFault> {
        let mut known = self.known();
        let from = Self::dir_of(&known, log)?;
        if known.logs.contains_key(to) {
            return Err(StoreFault::Exists { log: to.to_owned() });
        }
        known.open.remove(log);
        self.disk.rename(&from, &dir(to, 0)).map_err(disk_fault)?;
        known.logs.remove(log);
        known.logs.insert(to.to_owned(), 0);
        self.disk.sync_dir(root()).map_err(disk_fault)
    }

    async fn remove(&self, log: &str) -> Result<(), StoreFault> {
        let mut known = self.known();
        let Ok(dir) = Self::dir_of(&known, log) else { return Ok(()) };
        known.open.remove(log);
        known.logs.remove(log);
        self.retract(&mut known, &dir)
    }
}

fn root() -> &'static Path {
    // The root of a disk is its empty path.
    Path::new("")
}

fn dir(log: &str, generation: u64) -> PathBuf {
    PathBuf::from(format!("{}~{generation}", log.replace('/', "+")))
}

fn read_name(name: &str) -> Option<(String, u64)> {
    let (log, generation) = name.rsplit_once('~')?;
    Some((log.replace('+', "/"), generation.parse().ok()?))
}

fn remove_all(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    let Some(found) = disk.metadata(path)? else { return Ok(()) };
    if !found.is_dir {
        return disk.remove_file(path);
    }
    for entry in disk.list(path)? {
        remove_all(disk, &path.join(entry.name))?;
    }
    disk.remove_dir(path)
}

fn disk_fault(error: DiskError) -> StoreFault {
    if error.is_full() { StoreFault::Full } else { StoreFault::failed(error) }
}

fn log_fault(error: LogError) -> StoreFault {
    if error.is_full() { StoreFault::Full } else { StoreFault::failed(error) }
}
