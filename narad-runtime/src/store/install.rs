//! Turning a copy into a log, and back.

use std::path::Path;
use std::sync::Arc;

use narad_core::ids::{Attempt, Offset, PartitionId};
use narad_core::partition::{Manifest, Sidecar, Staged};
use narad_core::planted::{Bug, is_planted};

use super::segment_store::{SegmentStore, segment_bases};
use super::staging::Staging;
use super::verify::staged_by;
use super::{PartitionStore as _, StoreError, What, layout, manifest};
use crate::disk::{Disk, Open, replace};
use crate::log::check::Checker;
use crate::log::frame::FILE_HEADER;
use crate::log::side::{self, Sealed, Segments, position_path, remove_if_present, segment_path};
use crate::log::{Ending, create_segment, ending, lock};

impl SegmentStore {
    /// Order: every segment; sidecar, index and manifest, each synced before its name; the staging
    /// directory; rename; the partition's directory and those above.
    pub(super) fn install_staging(
        &self,
        attempt: Attempt,
        sidecar: &Sidecar,
        manifest: &Manifest,
    ) -> Result<(), StoreError> {
        let p = manifest.partition;
        let from = layout::staging_dir(p);
        let to = layout::log_dir(p, attempt);
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
        }
        if !is_planted(Bug::InstalledNameNotSynced) {
            self.disk.sync_dir(&layout::partition_dir(p))?;
        }
        self.sync_parents(p)?;
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
        for base in segment_bases(disk, &self.dir)? {
            if !manifest.extents.iter().any(|staged| staged.base == base) {
                self.extents.remove(&base);
                remove_if_present(disk, &segment_path(&self.dir, base))?;
            }
        }
        for staged in &manifest.extents {
            self.cut_past(disk, staged.base, staged.bytes.0)?;
            self.sync_extent(disk, staged.base)?;
        }
        let extents = self.finish_last(disk, sidecar.start)?;
        let segments = self.describe(sidecar, manifest);
        let installed = Manifest { extents, attempt: Some(attempt), ..manifest.clone() };
        remove_if_present(disk, &position_path(&self.dir))?;
        replace(disk, &Segments::path(&self.dir), &segments.encode())?;
        replace(disk, &side::sidecar_path(&self.dir), &side::encode_sidecar(sidecar))?;
        replace(disk, &manifest::path(&self.dir), &manifest::encode(&installed))?;
        disk.sync_dir(&self.dir)?;
        Ok(())
    }

    /// Cuts bytes that nothing vouches for.
    fn cut_past(&self, disk: &dyn Disk, base: Offset, bytes: u64) -> Result<(), StoreError> {
        let file = disk.open(&segment_path(&self.dir, base), Open::Existing)?;
        if file.length()? > bytes {
            file.set_len(bytes)?;
            file.sync()?;
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
        let extent = super::staging::StagedExtent {
            bytes: staged.bytes.0,
            checksum: staged.checksum,
            checker: Some(checker),
            unsynced: None,
            busy: false,
        };
        self.extents.insert(staged.base, extent);
    }

    /// Describes all extents but the last as sealed.
    fn describe(&self, sidecar: &Sidecar, manifest: &Manifest) -> Segments {
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
        let epoch = checkers.iter().map(|checker| checker.epoch()).max();
        Segments {
            start: sidecar.start,
            hwm: sidecar.hwm,
            epoch: epoch.unwrap_or_default().max(manifest.epoch),
            sealed: sealed.collect(),
        }
    }
}

/// Syncs a directory, unless it is not there.
pub(super) fn sync_if_present(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    if disk.metadata(dir)?.is_some() {
        disk.sync_dir(dir)?;
    }
    Ok(())
}
