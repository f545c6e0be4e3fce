//! The copy of one partition while it grows.
//!
//! What is staged is what this process has written itself and checked while it streamed, or what the
//! manifest of an earlier process vouches for. The latter is read back before anything builds on it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use narad_core::ids::{ByteCount, Offset, PartitionId};
use narad_core::partition::{Checksum, Manifest, Staged};
use narad_core::planted::{Bug, is_planted};

use super::behind::Written;
use super::{Problem, StoreError, layout, manifest};
use crate::disk::{self, Disk, DiskError, Open};
use crate::log::check::Checker;
use crate::log::side::{remove_if_present, segment_path};
use crate::log::{FormatError, check_segment, lock};

/// One partition's copy, as known in memory.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) partition: PartitionId,
    pub(super) dir: PathBuf,
    manifest: Result<Option<Manifest>, FormatError>,
    pub(super) extents: BTreeMap<Offset, StagedExtent>,
    /// Held by whoever changes what is durable, one after the other, across syncs; taken before this
    /// copy's own mutex, which is not.
    pub(super) turn: Arc<Mutex<()>>,
}

/// How far one extent is staged.
#[derive(Debug)]
pub(super) struct StagedExtent {
    pub(super) bytes: u64,
    pub(super) checksum: Checksum,
    /// The check of those bytes; `None` if only the manifest vouches for them, and while a writer
    /// has it.
    pub(super) checker: Option<Checker>,
    /// The file, if it has bytes that no sync has covered.
    pub(super) unsynced: Option<Arc<Written>>,
    pub(super) busy: bool,
}

impl StagedExtent {
    pub(super) fn staged(&self, base: Offset) -> Staged {
        Staged { base, bytes: ByteCount(self.bytes), checksum: self.checksum }
    }

    pub(super) fn has(&self, file: &Arc<Written>) -> bool {
        self.unsynced.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, file))
    }
}

/// A file that is to be synced up to a length.
#[derive(Debug)]
pub(super) struct Unsynced {
    base: Offset,
    bytes: u64,
    file: Arc<Written>,
}

impl Unsynced {
    /// Syncs it, or finds that this was done behind its writer.
    pub(super) fn sync(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        if is_planted(Bug::CopyNotSynced) {
            return Ok(());
        }
        self.file.sync(self.bytes, disk.syncs_behind())
    }
}

/// Makes the extents that a manifest names durable, then the manifest. Whoever writes meanwhile need
/// not wait for a sync.
pub(super) fn checkpoint(
    staging: &Mutex<Staging>,
    disk: &dyn Disk,
    manifest: &Manifest,
) -> Result<(), StoreError> {
    let turn = Arc::clone(&lock(staging).turn);
    let _turn = lock(&turn);
    let (dir, files) = {
        let staging = lock(staging);
        (staging.dir.clone(), staging.unsynced_of(manifest)?)
    };
    disk.create_dir_all(&dir)?;
    for file in files {
        let outcome = file.sync(disk);
        let is_left = lock(staging).synced(disk, &file, outcome)?;
        if is_left {
            // What the broker's readers use has better use for the memory.
            file.file.file().evict(0, file.bytes);
        }
    }
    disk.sync_dir(&dir)?;
    disk::write_atomically(disk, &manifest::path(&dir), &manifest::encode(manifest))?;
    lock(staging).vouched_by(manifest);
    Ok(())
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
        let turn = Arc::default();
        Ok((Self { partition: p, dir, manifest: found, extents, turn }, problems))
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
                let checker = check_segment(disk, &self.dir, base, extent.bytes)?.without_index();
                if checker.fed() != extent.bytes || checker.checksum() != extent.checksum {
                    return Err(StoreError::Corrupt { base });
                }
                extent.checker = Some(checker);
            }
        }
        Ok(())
    }

    /// Returns the files that a manifest needs durable, each with how much of it.
    ///
    /// # Errors
    ///
    /// If the manifest names what is not there.
    pub(super) fn unsynced_of(&self, manifest: &Manifest) -> Result<Vec<Unsynced>, StoreError> {
        self.check_readable()?;
        let mut files = Vec::new();
        for staged in &manifest.extents {
            let extent = self.extents.get(&staged.base).filter(|extent| {
                extent.bytes > staged.bytes.0 || extent.staged(staged.base) == *staged
            });
            let Some(extent) = extent else {
                return Err(StoreError::NotStaged { base: staged.base });
            };
            if let Some(file) = &extent.unsynced {
                let file = Arc::clone(file);
                files.push(Unsynced { base: staged.base, bytes: staged.bytes.0, file });
            }
        }
        Ok(files)
    }

    /// Takes the outcome of a sync, and returns whether the file is left alone from now on. After a
    /// failure the extent's bytes are unknown and a second sync would prove nothing, so the extent
    /// goes (H17).
    pub(super) fn synced(
        &mut self,
        disk: &dyn Disk,
        &Unsynced { base, ref file, .. }: &Unsynced,
        outcome: Result<(), DiskError>,
    ) -> Result<bool, StoreError> {
        if let Err(source) = outcome {
            self.discard(disk, base, file)?;
            return Err(StoreError::Lost { base, source });
        }
        // The last one is read when the copy becomes a log.
        let is_last = self.extents.last_key_value().is_some_and(|(last, _)| *last == base);
        let ours = self.extents.get_mut(&base).filter(|extent| !extent.busy && extent.has(file));
        let Some(extent) = ours.filter(|_| file.is_clean()) else { return Ok(false) };
        extent.unsynced = None;
        Ok(!is_last)
    }

    /// Removes an extent whose bytes are unknown, unless another has taken its place.
    pub(super) fn discard(
        &mut self,
        disk: &dyn Disk,
        base: Offset,
        file: &Arc<Written>,
    ) -> Result<(), StoreError> {
        if self.extents.get(&base).is_some_and(|extent| extent.has(file)) {
            self.extents.remove(&base);
            remove_if_present(disk, &segment_path(&self.dir, base))?;
        }
        Ok(())
    }

    /// Notes that a manifest is durable.
    pub(super) fn vouched_by(&mut self, manifest: &Manifest) {
        self.manifest = Ok(Some(manifest.clone()));
    }

    /// Syncs one extent, for a caller that holds this copy's mutex anyway.
    pub(super) fn sync_extent(&mut self, disk: &dyn Disk, base: Offset) -> Result<(), StoreError> {
        let Some(extent) = self.extents.get(&base) else {
            return Err(StoreError::NotStaged { base });
        };
        let Some(file) = extent.unsynced.clone() else { return Ok(()) };
        let unsynced = Unsynced { base, bytes: extent.bytes, file };
        let outcome = unsynced.sync(disk);
        self.synced(disk, &unsynced, outcome).map(|_| ())
    }

    /// Keeps at most what `keep` says.
    pub(super) fn trim(&mut self, disk: &dyn Disk, keep: &[Staged]) -> Result<(), StoreError> {
        self.check_readable()?;
        self.check_idle()?;
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
        unsynced: None,
        busy: false,
    }
}
