//! Turning a copy into a log, and back.

use std::collections::BTreeSet;
use std::mem;
use std::path::Path;
use std::sync::Arc;

use narad_core::ids::{Attempt, Epoch, Offset, PartitionId};
use narad_core::partition::{Manifest, Sidecar, Staged};
use narad_core::planted::{Bug, is_planted};

use super::segment_store::{SegmentStore, segment_bases};
use super::staging::{StagedExtent, Staging};
use super::verify::staged_by;
use super::{PartitionStore as _, StoreError, What, layout, manifest};
use crate::disk::{self, Disk, DiskError, Open, Replacement, SyncStep};
use crate::log::check::Checker;
use crate::log::frame::FILE_HEADER;
use crate::log::side::{
    self, Sealed, Segments, encode_sidecar, position_path, remove_if_present, segment_path,
};
use crate::log::{Ending, Opening, create_segment, ending, lock};

/// Extension of a file that an installation has not named yet; a checkpoint has another.
const UNNAMED: &str = "new";

impl SegmentStore {
    /// Order: whatever of the segments is not durable, with sidecar, index and manifest under other
    /// names; their names; the staging directory; rename; the partition's directory and those above.
    ///
    /// Nothing here is of the size of the partition, or needs a system call for an extent that is
    /// durable: it happens under a freeze.
    pub(super) fn install_staging(
        &self,
        attempt: Attempt,
        sidecar: &Sidecar,
        manifest: &Manifest,
    ) -> Result<(), StoreError> {
        let p = manifest.partition;
        let from = layout::staging_dir(p);
        let to = layout::log_dir(p, attempt);
        let mut opening = None;
        if self.exists(&to)? {
            if self.exists(&from)? {
                return Err(StoreError::NameTaken { partition: p, attempt });
            }
        } else {
            if !self.exists(&from)? && !manifest.extents.is_empty() {
                return Err(StoreError::NoStaging { partition: p });
            }
            let staging = self.staging(p)?;
            let turn = Arc::clone(&lock(&staging).turn);
            let _turn = lock(&turn);
            lock(&staging).prepare_install(&*self.disk, attempt, sidecar, manifest)?;
            self.disk.rename(&from, &to)?;
            self.forget_staging(p);
            opening = lock(&staging).opening(sidecar);
        }
        if !is_planted(Bug::InstalledNameNotSynced) {
            self.disk.sync_dir(&layout::partition_dir(p))?;
        }
        self.sync_parents(p)?;
        self.keep_opening(p, attempt, opening);
        Ok(())
    }

    /// Order: rename; the partition's directory.
    pub(super) fn restage_log(
        &self,
        p: PartitionId,
        attempt: Attempt,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        self.check_closed(p, attempt)?;
        drop(self.take_opening(p, attempt));
        let from = layout::log_dir(p, attempt);
        if self.exists(&from)? {
            self.set_aside(p, What::Staging, now_ms)?;
            self.disk.rename(&from, &layout::staging_dir(p))?;
            self.forget_staging(p);
        } else if !lock(&*self.staging(p)?).was_installed_as(attempt) {
            return Err(StoreError::NoSuchLog { partition: p, attempt });
        }
        self.disk.sync_dir(&layout::partition_dir(p))?;
        Ok(())
    }
}

impl Staging {
    /// Whether this copy is the log of that attempt, renamed back already.
    fn was_installed_as(&self, attempt: Attempt) -> bool {
        self.manifest().is_some_and(|manifest| manifest.attempt == Some(attempt))
    }

    /// Does of an installation what can be done before the last bytes are there.
    pub(super) fn get_ready(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        if disk.metadata(&self.dir)?.is_none() || self.check_idle().is_err() {
            return Ok(());
        }
        let bases = segment_bases(disk, &self.dir)?;
        let strangers = bases.into_iter().filter(|base| !self.extents.contains_key(base));
        self.ready.strangers = Some(strangers.collect());
        for (&base, extent) in &mut self.extents {
            if !extent.is_exact {
                let found = disk.metadata(&segment_path(&self.dir, base))?;
                extent.is_exact = found.is_some_and(|found| found.bytes == extent.bytes);
            }
        }
        if self.ready.generation.is_none() {
            self.ready.generation = Some(side::next_generation(disk, &self.dir)?);
        }
        if let Some(manifest) = self.manifest().cloned() {
            let segments = self.describe(manifest.start, manifest.hwm, manifest.epoch);
            if self.ready.segments.as_ref() != Some(&segments) {
                disk::write_atomically(disk, &Segments::path(&self.dir), &segments.encode())?;
                self.ready.segments = Some(segments);
            }
            // Making a file takes as long as syncing one.
            let (sidecar, later) = likely(&manifest);
            self.unnamed_sidecar(disk, &sidecar)?.sync(disk)?;
            self.unnamed_manifest(disk, &later)?.sync(disk)?;
        }
        Ok(())
    }

    /// Brings the directory into the state in which a log is opened.
    fn prepare_install(
        &mut self,
        disk: &dyn Disk,
        attempt: Attempt,
        sidecar: &Sidecar,
        manifest: &Manifest,
    ) -> Result<(), StoreError> {
        self.check_idle()?;
        self.vouch(disk)?;
        for staged in &manifest.extents {
            let extent = self.extents.get(&staged.base);
            if extent.map(|extent| extent.staged(staged.base)) != Some(*staged) {
                return Err(StoreError::NotStaged { base: staged.base });
            }
        }
        disk.create_dir_all(&self.dir)?;
        self.remove_others(disk, manifest)?;
        let inexact = |(&base, extent): (&Offset, &StagedExtent)| {
            (!extent.is_exact).then_some((base, extent.bytes))
        };
        let inexact: Vec<(Offset, u64)> = self.extents.iter().filter_map(inexact).collect();
        for (base, bytes) in inexact {
            self.cut_past(disk, base, bytes)?;
        }
        let extents = self.finish_last(disk, sidecar.start)?;
        remove_if_present(disk, &position_path(&self.dir))?;
        if self.ready.generation.is_none() {
            self.ready.generation = Some(side::next_generation(disk, &self.dir)?);
        }
        let installed = Manifest { extents, attempt: Some(attempt), ..manifest.clone() };
        let mut files =
            vec![self.unnamed_sidecar(disk, sidecar)?, self.unnamed_manifest(disk, &installed)?];
        let segments = self.describe(sidecar.start, sidecar.hwm, manifest.epoch);
        if !self.ready.segments.as_ref().is_some_and(|known| known.covers(&segments)) {
            let path = Segments::path(&self.dir);
            files.push(Replacement::write(disk, &path, UNNAMED, &segments.encode())?);
        }
        self.sync_with(disk, &files)?;
        for file in files {
            file.take_over(disk)?;
        }
        disk.sync_dir(&self.dir)?;
        Ok(())
    }

    fn unnamed_sidecar(
        &self,
        disk: &dyn Disk,
        sidecar: &Sidecar,
    ) -> Result<Replacement, DiskError> {
        let path = side::sidecar_path(&self.dir);
        Replacement::write(disk, &path, UNNAMED, &encode_sidecar(sidecar))
    }

    fn unnamed_manifest(
        &self,
        disk: &dyn Disk,
        manifest: &Manifest,
    ) -> Result<Replacement, DiskError> {
        let path = manifest::path(&self.dir);
        Replacement::write(disk, &path, UNNAMED, &manifest::encode(manifest))
    }

    /// Makes durable whatever of the extents is not, and some files with them.
    fn sync_with(&mut self, disk: &dyn Disk, files: &[Replacement]) -> Result<(), StoreError> {
        let extents = self.unsynced();
        let of_extents = extents.iter().map(|extent| Box::new(|| extent.sync(disk)) as SyncStep);
        let of_files = files.iter().map(|file| Box::new(|| file.sync(disk)) as SyncStep);
        let steps: Vec<SyncStep<'_>> = of_extents.chain(of_files).collect();
        let mut synced = disk.sync_each(&steps).into_iter();
        drop(steps);
        let mut lost = Ok(());
        for (extent, synced) in extents.iter().zip(synced.by_ref()) {
            lost = lost.and(self.synced(disk, extent, synced).map(|_| ()));
        }
        lost?;
        for synced in synced {
            synced?;
        }
        Ok(())
    }

    /// Removes segments that the manifest does not name.
    fn remove_others(&mut self, disk: &dyn Disk, manifest: &Manifest) -> Result<(), StoreError> {
        let named: BTreeSet<Offset> = manifest.extents.iter().map(|staged| staged.base).collect();
        let strangers = match self.ready.strangers.take() {
            Some(known) => known,
            None => segment_bases(disk, &self.dir)?,
        };
        let unnamed = self.extents.keys().copied().chain(strangers);
        let unnamed: BTreeSet<Offset> = unnamed.filter(|base| !named.contains(base)).collect();
        for base in unnamed {
            self.extents.remove(&base);
            remove_if_present(disk, &segment_path(&self.dir, base))?;
        }
        self.ready.strangers = Some(Vec::new());
        Ok(())
    }

    /// Returns what the log is opened with, if nothing about it is odd.
    fn opening(&mut self, sidecar: &Sidecar) -> Option<Opening> {
        let extents = mem::take(&mut self.extents);
        let checkers = extents.into_values().map(|extent| extent.checker);
        Opening::of_installed(checkers.collect::<Option<_>>()?, sidecar, self.ready.generation?)
    }

    /// Cuts bytes that nothing vouches for.
    fn cut_past(&mut self, disk: &dyn Disk, base: Offset, bytes: u64) -> Result<(), StoreError> {
        let file = disk.open(&segment_path(&self.dir, base), Open::Existing)?;
        if file.length()? > bytes {
            file.set_len(bytes)?;
            if let Err(source) = file.sync() {
                // Next time it would look as if it had been cut.
                self.lose(disk, base)?;
                return Err(StoreError::Lost { base, source });
            }
        }
        Ok(())
    }

    /// Gives the copy the end that an owner can append to: without a torn last append (a dead
    /// source's), or an empty segment if the source had nothing (`case_038`).
    fn finish_last(&mut self, disk: &dyn Disk, start: Offset) -> Result<Vec<Staged>, StoreError> {
        let last = self.extents.last_key_value();
        let Some(last) = last.and_then(|(_, extent)| extent.checker.as_ref()) else {
            create_segment(disk, &self.dir, start)?;
            self.adopt(Checker::of_empty(start));
            return Ok(self.staged());
        };
        let base = last.segment();
        match ending(disk, &self.dir, last)? {
            Ending::Whole => {}
            Ending::Torn { at, kept } => {
                // By the handle that wrote it: what is kept is taken for durable from here on.
                self.sync_extent(disk, base)?;
                if at < FILE_HEADER as u64 {
                    create_segment(disk, &self.dir, base)?;
                } else {
                    self.cut_past(disk, base, at)?;
                }
                self.adopt(*kept);
            }
            Ending::Damaged { next } => {
                create_segment(disk, &self.dir, next)?;
                self.adopt(Checker::of_empty(next));
            }
        }
        Ok(self.staged())
    }

    fn adopt(&mut self, checker: Checker) {
        let staged = staged_by(&checker);
        let extent = StagedExtent {
            bytes: staged.bytes.0,
            checksum: staged.checksum,
            checker: Some(checker),
            is_exact: true,
            unsynced: None,
            busy: false,
        };
        self.extents.insert(staged.base, extent);
    }

    /// Describes all extents but the last as sealed.
    fn describe(&self, start: Offset, hwm: Offset, epoch: Epoch) -> Segments {
        let checkers: Vec<&Checker> =
            self.extents.values().filter_map(|extent| extent.checker.as_ref()).collect();
        let sealed = checkers.windows(2).map(|pair| Sealed {
            base: pair[0].segment(),
            // Where damage hides the end, the next extent says it.
            end: pair[1].segment(),
            bytes: pair[0].fed(),
            checksum: pair[0].checksum(),
            newest_ms: pair[0].newest_ms(),
        });
        let seen = checkers.iter().map(|checker| checker.epoch()).max();
        let epoch = seen.unwrap_or_default().max(epoch);
        Segments { start, hwm, epoch, sealed: sealed.collect() }
    }
}

/// Returns what an installation would write now: of no meaning, but of the right length.
fn likely(manifest: &Manifest) -> (Sidecar, Manifest) {
    let Manifest { start, hwm, ref position, source, .. } = *manifest;
    let attempt = Attempt::birth(source);
    let sidecar = Sidecar { start, hwm, position: position.clone() };
    (sidecar, Manifest { attempt: Some(attempt), ..manifest.clone() })
}

/// Syncs a directory, unless it is not there.
pub(super) fn sync_if_present(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    if disk.metadata(dir)?.is_some() {
        disk.sync_dir(dir)?;
    }
    Ok(())
}
