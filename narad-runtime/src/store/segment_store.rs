//! The store over segment files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use narad_core::ids::{Attempt, ByteCount, Offset, PartitionId, TopicId};
use narad_core::partition::{Boundary, Manifest, Recovered, Sidecar, Staged, Verified};
use narad_core::planted::{Bug, is_planted};

use super::behind::Syncer;
use super::layout::{self, CREATING, PARTITIONS, STAGING, TRASH};
use super::staging::{self, Staging};
use super::{
    Found, Kept, PartitionLog, PartitionStore, Problem, Receipt, StageWriter, StoreError, Swept,
    Trashed, What, kept, manifest, trash, writer,
};
use crate::disk::{Disk, DiskError, Open, parent};
use crate::log::{FormatError, LogError, LogLimits, Record, SegmentLog, lock, side};

/// A [`PartitionStore`] of segment files on a [`Disk`].
#[derive(Debug)]
pub struct SegmentStore {
    pub(super) disk: Arc<dyn Disk>,
    limits: LogLimits,
    /// Who syncs behind those who write copies; nobody where the disk does not want it.
    syncer: Option<Syncer>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<(PartitionId, Attempt), Weak<SegmentLog>>,
    /// Logs that somebody is opening right now.
    opening: BTreeSet<(PartitionId, Attempt)>,
    /// What is known of the copies; read from the disk at first use.
    staging: BTreeMap<PartitionId, Arc<Mutex<Staging>>>,
    /// Partitions whose directories are durable up to the root.
    durable: BTreeSet<PartitionId>,
}

impl State {
    fn check_closed(&self, p: PartitionId, attempt: Attempt) -> Result<(), StoreError> {
        let held = self.open.get(&(p, attempt)).and_then(Weak::upgrade);
        if held.is_some_and(|log| !log.is_closed()) || self.opening.contains(&(p, attempt)) {
            return Err(StoreError::Open { partition: p, attempt });
        }
        Ok(())
    }
}

impl SegmentStore {
    /// Takes a disk as a store, making its two top directories durable.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn new(disk: Arc<dyn Disk>, limits: LogLimits) -> Result<Self, StoreError> {
        disk.create_dir_all(Path::new(PARTITIONS))?;
        disk.create_dir_all(Path::new(TRASH))?;
        disk.sync_dir(Path::new(""))?;
        let syncer = disk.syncs_behind().then(Syncer::default);
        Ok(Self { disk, limits, syncer, state: Mutex::default() })
    }

    pub(super) fn exists(&self, path: &Path) -> Result<bool, DiskError> {
        Ok(self.disk.metadata(path)?.is_some())
    }

    /// Makes a partition's directory and every one above it durable; once per process, since they
    /// are removed only when one begins.
    pub(super) fn sync_parents(&self, p: PartitionId) -> Result<(), DiskError> {
        if lock(&self.state).durable.contains(&p) {
            return Ok(());
        }
        let partition = layout::partition_dir(p);
        for dir in [parent(&partition), Path::new(PARTITIONS), Path::new("")] {
            self.disk.sync_dir(dir)?;
        }
        lock(&self.state).durable.insert(p);
        Ok(())
    }

    pub(super) fn check_closed(&self, p: PartitionId, attempt: Attempt) -> Result<(), StoreError> {
        lock(&self.state).check_closed(p, attempt)
    }

    fn open_closed(&self, p: PartitionId, attempt: Attempt) -> Result<Arc<SegmentLog>, StoreError> {
        let dir = layout::log_dir(p, attempt);
        if !self.exists(&dir)? {
            return Err(StoreError::NoSuchLog { partition: p, attempt });
        }
        self.sync_name(p)?;
        let open = || SegmentLog::open(Arc::clone(&self.disk), &dir, self.limits);
        let log = match open() {
            // All that the file saves is deliveries: without it records come again (S11).
            Err(LogError::Format { path, source })
                if path == side::position_path(&dir)
                    && !matches!(source, FormatError::Version { .. }) =>
            {
                tracing::error!(
                    partition = %p, %source,
                    "where its consumers stand is damaged: what they had may be delivered again"
                );
                side::remove_if_present(&*self.disk, &path)?;
                open()?
            }
            opened => opened?,
        };
        Ok(Arc::new(log))
    }

    /// Removes what partitions that have left it behind: directories with nothing in them. Only before
    /// anybody works here.
    fn prune(&self, topic: TopicId) -> Result<bool, StoreError> {
        let dir = layout::topic_dir(topic);
        let mut left = false;
        for entry in self.disk.list(&dir)? {
            let path = dir.join(&entry.name);
            let own = entry.is_dir && layout::number::<u32>(&entry.name).is_some();
            if own && self.disk.list(&path)?.is_empty() {
                self.disk.remove_dir(&path)?;
            } else {
                left = true;
            }
        }
        if !left {
            self.disk.remove_dir(&dir)?;
        }
        Ok(left)
    }

    /// Makes the name of a log durable before records go into it: whoever gave it that name may have
    /// ended, or met an error, before the name was (H17). A name that can be seen proves nothing.
    fn sync_name(&self, p: PartitionId) -> Result<(), DiskError> {
        if is_planted(Bug::BornNameNotSynced) || is_planted(Bug::InstalledNameNotSynced) {
            return Ok(());
        }
        self.disk.sync_dir(&layout::partition_dir(p))?;
        self.sync_parents(p)
    }

    /// Returns what is known of a partition's copy, reading it from the disk at first use.
    pub(super) fn staging(&self, p: PartitionId) -> Result<Arc<Mutex<Staging>>, StoreError> {
        let mut state = lock(&self.state);
        if let Some(known) = state.staging.get(&p) {
            return Ok(Arc::clone(known));
        }
        let (found, _) = Staging::load(&*self.disk, p)?;
        let found = Arc::new(Mutex::new(found));
        state.staging.insert(p, Arc::clone(&found));
        Ok(found)
    }

    /// Forgets a copy whose directory has got another name.
    pub(super) fn forget_staging(&self, p: PartitionId) {
        lock(&self.state).staging.remove(&p);
    }

    fn numbered<T: std::str::FromStr>(
        &self,
        dir: &Path,
        found: &mut Found,
    ) -> Result<Vec<T>, StoreError> {
        let mut numbers = Vec::new();
        for entry in self.disk.list(dir)? {
            match layout::number(&entry.name).filter(|_| entry.is_dir) {
                Some(number) => numbers.push(number),
                None => found.problems.push(Problem {
                    path: dir.join(entry.name),
                    why: "nothing that Narad makes has such a name; move it away".to_owned(),
                }),
            }
        }
        Ok(numbers)
    }

    fn recover_partition(
        &self,
        p: PartitionId,
        found: &mut Found,
    ) -> Result<Recovered, StoreError> {
        let dir = layout::partition_dir(p);
        let mut recovered = Recovered::default();
        for entry in self.disk.list(&dir)? {
            let path = dir.join(&entry.name);
            if entry.name == STAGING && entry.is_dir {
                let (staging, problems) = Staging::load(&*self.disk, p)?;
                recovered.staging = staging.manifest().cloned();
                recovered.unlisted = recovered.staging.is_none();
                found.problems.extend(problems);
            } else if let Some(attempt) = layout::parse_attempt(&entry.name) {
                let manifest = manifest::load(&*self.disk, &path)?.unwrap_or_else(|error| {
                    let path = manifest::path(&path);
                    found.problems.push(Problem { path, why: error.to_string() });
                    None
                });
                recovered.installed.push((attempt, manifest));
            } else if !entry.name.starts_with(CREATING) {
                let why = "nothing that Narad makes has such a name; move it away".to_owned();
                found.problems.push(Problem { path, why });
            }
        }
        recovered.installed.sort_by_key(|(attempt, _)| *attempt);
        Ok(recovered)
    }
}

impl PartitionStore for SegmentStore {
    fn inspect(&self, p: PartitionId) -> Result<Recovered, StoreError> {
        if self.disk.metadata(&layout::partition_dir(p))?.is_none() {
            return Ok(Recovered::default());
        }
        self.recover_partition(p, &mut Found::default())
    }

    fn probe(&self, p: PartitionId, bytes: u64) -> Result<(), StoreError> {
        let dir = layout::partition_dir(p);
        self.disk.create_dir_all(&dir)?;
        let path = dir.join(layout::PROBE);
        if self.disk.free_bytes()? < bytes {
            let (action, source) = ("copy to", io::Error::from(io::ErrorKind::StorageFull));
            return Err(DiskError::new(action, &dir, source).into());
        }
        let file = self.disk.open(&path, Open::Create)?;
        let written = file.write_at(0, &[0; 512]).and_then(|()| file.sync());
        drop(file);
        self.disk.remove_file(&path)?;
        Ok(written?)
    }

    fn recover(&self) -> Result<Found, StoreError> {
        let mut found = Found::default();
        let topics: Vec<u64> = self.numbered(Path::new(PARTITIONS), &mut found)?;
        for topic in topics.into_iter().map(TopicId) {
            if !self.prune(topic)? {
                continue;
            }
            let partitions: Vec<u32> = self.numbered(&layout::topic_dir(topic), &mut found)?;
            for index in partitions {
                let p = PartitionId { topic, index };
                let recovered = self.recover_partition(p, &mut found)?;
                found.partitions.push((p, recovered));
            }
        }
        found.partitions.sort_by_key(|(p, _)| *p);
        Ok(found)
    }

    /// Order: segment, its directory, the directory that holds it under a temporary name; rename;
    /// the partition's directory and those above.
    fn create(&self, p: PartitionId, attempt: Attempt, start: Offset) -> Result<(), StoreError> {
        let dir = layout::log_dir(p, attempt);
        let partition = layout::partition_dir(p);
        if !self.exists(&dir)? {
            let making = partition.join(format!("{CREATING}{attempt}"));
            self.disk.create_dir_all(&making)?;
            for left_over in self.disk.list(&making)? {
                self.disk.remove_file(&making.join(left_over.name))?;
            }
            SegmentLog::create(&*self.disk, &making, start)?;
            self.disk.rename(&making, &dir)?;
        }
        if is_planted(Bug::BornNameNotSynced) {
            return Ok(());
        }
        self.disk.sync_dir(&partition)?;
        self.sync_parents(p)?;
        Ok(())
    }

    fn open(&self, p: PartitionId, attempt: Attempt) -> Result<Arc<dyn PartitionLog>, StoreError> {
        let key = (p, attempt);
        {
            let mut state = lock(&self.state);
            state.check_closed(p, attempt)?;
            state.opening.insert(key);
        }
        // Without the lock: a large log takes a while, and others open meanwhile.
        let opened = self.open_closed(p, attempt);
        let mut state = lock(&self.state);
        state.opening.remove(&key);
        let log = opened?;
        state.open.insert(key, Arc::downgrade(&log));
        Ok(log)
    }

    fn stage_writer(
        &self,
        p: PartitionId,
        base: Offset,
        position: u64,
    ) -> Result<Box<dyn StageWriter>, StoreError> {
        writer::begin(&*self.disk, &self.staging(p)?, self.syncer.as_ref(), base, position)
    }

    fn staged(&self, p: PartitionId) -> Result<Vec<Staged>, StoreError> {
        let staging = self.staging(p)?;
        let staging = lock(&staging);
        staging.check_readable()?;
        Ok(staging.staged())
    }

    fn vouch(&self, p: PartitionId) -> Result<(), StoreError> {
        lock(&*self.staging(p)?).vouch(&*self.disk)
    }

    /// Order: the named files; their names; the manifest; the directories above.
    fn checkpoint(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let p = manifest.partition;
        let staging = self.staging(p)?;
        staging::checkpoint(&staging, &*self.disk, manifest)?;
        self.disk.sync_dir(&layout::partition_dir(p))?;
        self.sync_parents(p)?;
        Ok(())
    }

    /// Order: the manifest; then files are removed, cut and synced; then their names.
    fn trim_staging(&self, p: PartitionId, keep: &[Staged]) -> Result<(), StoreError> {
        let staging = self.staging(p)?;
        let turn = Arc::clone(&lock(&staging).turn);
        let _turn = lock(&turn);
        lock(&staging).trim(&*self.disk, keep)
    }

    fn verify(&self, p: PartitionId, boundary: &Boundary) -> Result<Verified, StoreError> {
        lock(&*self.staging(p)?).verify(&*self.disk, boundary)
    }

    fn install(
        &self,
        attempt: Attempt,
        sidecar: &Sidecar,
        manifest: &Manifest,
    ) -> Result<(), StoreError> {
        self.install_staging(attempt, sidecar, manifest)
    }

    fn restage(&self, p: PartitionId, attempt: Attempt, now_ms: i64) -> Result<(), StoreError> {
        self.restage_log(p, attempt, now_ms)
    }

    fn set_aside(&self, p: PartitionId, what: What, now_ms: i64) -> Result<(), StoreError> {
        trash::set_aside(self, p, what, now_ms)
    }

    fn trash(&self) -> Result<Vec<Trashed>, StoreError> {
        trash::list(&*self.disk)
    }

    fn sweep_trash(&self, older_than_ms: i64, files_max: usize) -> Result<Swept, StoreError> {
        trash::sweep(&*self.disk, older_than_ms, files_max)
    }

    fn drop_trash(&self, name: &str) -> Result<Swept, StoreError> {
        trash::remove(&*self.disk, name)
    }

    fn read_kept(
        &self,
        kept: Kept<'_>,
        from: Option<Offset>,
        each: &mut dyn FnMut(Vec<(Offset, Record)>) -> bool,
    ) -> Result<Option<(Offset, Offset)>, StoreError> {
        kept::read(&*self.disk, kept, from, each)
    }

    fn write_receipt(&self, kept: Kept<'_>, receipt: &Receipt) -> Result<(), StoreError> {
        kept::write_receipt(&*self.disk, kept, receipt)
    }

    fn free_bytes(&self) -> Result<ByteCount, StoreError> {
        Ok(ByteCount(self.disk.free_bytes()?))
    }

    fn data_bytes(&self, p: PartitionId, attempt: Attempt) -> Result<ByteCount, StoreError> {
        let dir = layout::log_dir(p, attempt);
        match trash::dir_bytes(&*self.disk, &dir) {
            Ok(bytes) => Ok(bytes),
            Err(DiskError::NotFound { .. }) => Err(StoreError::NoSuchLog { partition: p, attempt }),
            Err(failed) => Err(failed.into()),
        }
    }
}

/// Lists the segments in a directory, ascending.
pub(super) fn segment_bases(disk: &dyn Disk, dir: &Path) -> Result<Vec<Offset>, DiskError> {
    let entries = disk.list(dir)?;
    let mut bases: Vec<Offset> =
        entries.iter().filter_map(|entry| side::segment_base(&entry.name)).collect();
    bases.sort_unstable();
    Ok(bases)
}
