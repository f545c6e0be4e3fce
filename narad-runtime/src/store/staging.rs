//! The copy of one partition while it grows.
//!
//! What is staged is what this process has written itself and checked while it streamed, or what the
//! manifest of an earlier process vouches for. The latter is read back before anything builds on it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use narad_core::ids::{ByteCount, LogGeneration, Offset, PartitionId};
use narad_core::partition::{Checksum, Manifest, Staged};
use narad_core::planted::{Bug, is_planted};

use super::{Problem, StoreError, layout, manifest};
use crate::disk::{self, Disk, DiskError, DiskFile, Open};
use crate::log::check::Checker;
use crate::log::side::{Segments, remove_if_present, segment_path};
use crate::log::{FormatError, check_segment};

/// One partition's copy, as known in memory.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) partition: PartitionId,
    pub(super) dir: PathBuf,
    manifest: Result<Option<Manifest>, FormatError>,
    pub(super) extents: BTreeMap<Offset, StagedExtent>,
    pub(super) ready: Ready,
}

/// What was done early for an installation, so that it has less to do under a freeze.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Segments in the directory that are no extents of the copy; `None` if nobody has looked.
    pub(super) strangers: Option<Vec<Offset>>,
    /// The life that the log will have, durable.
    pub(super) generation: Option<LogGeneration>,
    /// The index of sealed segments, durable.
    pub(super) segments: Option<Segments>,
}

/// How far one extent is staged.
#[derive(Debug)]
pub(super) struct StagedExtent {
    pub(super) bytes: u64,
    pub(super) checksum: Checksum,
    /// The check of those bytes; `None` if only the manifest vouches for them, and while a writer
    /// has it.
    pub(super) checker: Option<Checker>,
    /// Whether the file is known to end with those bytes.
    pub(super) is_exact: bool,
    /// The file, if it has bytes that no sync has covered. The same handle wrote them, so that a
    /// failed write-back is reported to it.
    pub(super) unsynced: Option<Arc<dyn DiskFile>>,
    pub(super) busy: bool,
}

impl StagedExtent {
    pub(super) fn staged(&self, base: Offset) -> Staged {
        Staged { base, bytes: ByteCount(self.bytes), checksum: self.checksum }
    }
}

impl Staging {
    /// Reads what an earlier process left. Extents that are shorter than the manifest says are not
    /// vouched for, so they are left out and reported.
    pub(super) fn load(disk: &dyn Disk, p: PartitionId) -> Result<(Self, Vec<Problem>), DiskError> {
        let dir = layout::staging_dir(p);
        let mut found = manifest::load(disk, &dir)?;
        let mut problems = Vec::new();
        let mut extents = BTreeMap::new();
        match &mut found {
            Ok(None) => {}
            Err(error) => {
                let why = format!("{error}; the copy is kept as it is until it is set aside");
                problems.push(Problem { path: manifest::path(&dir), why });
            }
            Ok(Some(manifest)) => {
                let mut vouched = Vec::new();
                for staged in &manifest.extents {
                    let path = segment_path(&dir, staged.base);
                    let length = disk.metadata(&path)?.map_or(0, |found| found.bytes);
                    if length < staged.bytes.0 {
                        let why = format!(
                            "the manifest vouches for {} bytes, there are {length}; the extent is copied again",
                            staged.bytes
                        );
                        problems.push(Problem { path, why });
                        continue;
                    }
                    vouched.push(*staged);
                    extents.insert(staged.base, vouched_for(staged));
                }
                manifest.extents = vouched;
            }
        }
        let ready = Ready::default();
        Ok((Self { partition: p, dir, manifest: found, extents, ready }, problems))
    }

    pub(super) fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref().ok().and_then(Option::as_ref)
    }

    pub(super) fn check_readable(&self) -> Result<(), StoreError> {
        match &self.manifest {
            Ok(_) => Ok(()),
            Err(source) => {
                Err(StoreError::Manifest { path: manifest::path(&self.dir), source: *source })
            }
        }
    }

    pub(super) fn check_idle(&self) -> Result<(), StoreError> {
        if self.extents.values().any(|extent| extent.busy) {
            return Err(StoreError::Busy { partition: self.partition });
        }
        Ok(())
    }

    pub(super) fn staged(&self) -> Vec<Staged> {
        self.extents.iter().map(|(&base, extent)| extent.staged(base)).collect()
    }

    /// Reads back what only the manifest vouches for.
    pub(super) fn vouch(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        self.check_readable()?;
        for (&base, extent) in &mut self.extents {
            if extent.checker.is_none() && !extent.busy {
                let checker = check_segment(disk, &self.dir, base, extent.bytes)?;
                if checker.fed() != extent.bytes || checker.checksum() != extent.checksum {
                    return Err(StoreError::Corrupt { base });
                }
                extent.checker = Some(checker);
            }
        }
        Ok(())
    }

    /// Makes the named extents durable, then the manifest.
    pub(super) fn checkpoint(
        &mut self,
        disk: &dyn Disk,
        manifest: &Manifest,
    ) -> Result<(), StoreError> {
        self.check_readable()?;
        for staged in &manifest.extents {
            let extent = self.extents.get(&staged.base);
            let vouched = extent.is_some_and(|extent| {
                extent.bytes > staged.bytes.0 || extent.staged(staged.base) == *staged
            });
            if !vouched {
                return Err(StoreError::NotStaged { base: staged.base });
            }
        }
        disk.create_dir_all(&self.dir)?;
        for staged in &manifest.extents {
            self.sync_extent(disk, staged.base)?;
        }
        disk.sync_dir(&self.dir)?;
        disk::write_atomically(disk, &manifest::path(&self.dir), &manifest::encode(manifest))?;
        self.manifest = Ok(Some(manifest.clone()));
        Ok(())
    }

    /// Syncs one extent. After a failure its bytes are unknown and a second sync would prove
    /// nothing, so the extent goes (H17).
    pub(super) fn sync_extent(&mut self, disk: &dyn Disk, base: Offset) -> Result<(), StoreError> {
        let Some(extent) = self.extents.get_mut(&base) else {
            return Err(StoreError::NotStaged { base });
        };
        let Some(file) = &extent.unsynced else { return Ok(()) };
        if is_planted(Bug::CopyNotSynced) {
            return Ok(());
        }
        let synced = file.sync();
        self.synced(disk, base, synced)
    }

    /// Takes in how the sync of one extent went.
    pub(super) fn synced(
        &mut self,
        disk: &dyn Disk,
        base: Offset,
        synced: Result<(), DiskError>,
    ) -> Result<(), StoreError> {
        if let Err(source) = synced {
            self.extents.remove(&base);
            self.ready = Ready::default();
            remove_if_present(disk, &segment_path(&self.dir, base))?;
            return Err(StoreError::Lost { base, source });
        }
        if let Some(extent) = self.extents.get_mut(&base)
            && !extent.busy
        {
            extent.unsynced = None;
        }
        Ok(())
    }

    /// Keeps at most what `keep` says.
    pub(super) fn trim(&mut self, disk: &dyn Disk, keep: &[Staged]) -> Result<(), StoreError> {
        self.check_readable()?;
        self.check_idle()?;
        self.ready = Ready::default();
        let kept = |base: Offset| keep.iter().find(|staged| staged.base == base);
        let shorter = |staged: &Staged| {
            kept(staged.base).map(|keep| if keep.bytes < staged.bytes { *keep } else { *staged })
        };
        if let Ok(Some(manifest)) = &mut self.manifest {
            let extents: Vec<Staged> = manifest.extents.iter().filter_map(shorter).collect();
            if extents != manifest.extents {
                let trimmed = Manifest { extents, ..manifest.clone() };
                let bytes = manifest::encode(&trimmed);
                disk::write_atomically(disk, &manifest::path(&self.dir), &bytes)?;
                *manifest = trimmed;
            }
        }
        for staged in self.staged() {
            let path = segment_path(&self.dir, staged.base);
            let left = shorter(&staged);
            if left == Some(staged) {
                continue;
            }
            // Out of memory before out of the file: a failure half-way vouches for nothing.
            self.extents.remove(&staged.base);
            match left {
                None => remove_if_present(disk, &path)?,
                Some(left) => {
                    let file = disk.open(&path, Open::Existing)?;
                    file.set_len(left.bytes.0)?;
                    file.sync()?;
                    self.extents.insert(left.base, vouched_for(&left));
                }
            }
        }
        if disk.metadata(&self.dir)?.is_some() {
            disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }
}

fn vouched_for(staged: &Staged) -> StagedExtent {
    StagedExtent {
        bytes: staged.bytes.0,
        checksum: staged.checksum,
        checker: None,
        is_exact: false,
        unsynced: None,
        busy: false,
    }
}
