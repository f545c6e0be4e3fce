//! What was set aside, until nobody can want it back.

use std::path::Path;

use narad_core::ids::{ByteCount, PartitionId};

use super::kept::{Receipt, load_receipt, trashed_dir};
use super::layout::{TRASH, log_dir, parse_trash_name, partition_dir, staging_dir, trash_name};
use super::segment_store::SegmentStore;
use super::{StoreError, What};
use crate::disk::{Disk, DiskError};
use crate::log::lock;

/// One thing in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trashed {
    /// Its name below `.trash`.
    pub name: String,
    /// Whose it was.
    pub partition: PartitionId,
    /// What it was.
    pub what: What,
    /// When it was set aside, in milliseconds of the wall clock since 1970.
    pub set_aside_ms: i64,
    /// Its size.
    pub bytes: ByteCount,
    /// Which of its records were accepted once more, if any were.
    pub receipt: Option<Receipt>,
}

/// What one round of sweeping has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Files that were deleted.
    pub files: usize,
    /// Bytes that were freed.
    pub bytes: ByteCount,
    /// Whether another round has something to do.
    pub more: bool,
}

/// Moves a directory into the trash.
///
/// Order: rename; the trash; the directory it was in. So it never has no name at all.
pub(super) fn set_aside(
    store: &SegmentStore,
    p: PartitionId,
    what: What,
    now_ms: i64,
) -> Result<(), StoreError> {
    let trash = Path::new(TRASH);
    let from = match what {
        What::Staging => {
            lock(&*store.staging(p)?).check_idle()?;
            staging_dir(p)
        }
        What::Installed(attempt) => {
            store.check_closed(p, attempt)?;
            drop(store.take_opening(p, attempt));
            log_dir(p, attempt)
        }
    };
    if store.exists(&from)? {
        let used = store.disk.list(trash)?;
        let used = used.iter().filter_map(|entry| parse_trash_name(&entry.name));
        let number = used.map(|(_, number, ..)| number).max().map_or(0, |last| last + 1);
        store.disk.rename(&from, &trash.join(trash_name(now_ms, number, p, what)))?;
    }
    if what == What::Staging {
        store.forget_staging(p);
    }
    store.disk.sync_dir(trash)?;
    super::install::sync_if_present(&*store.disk, &partition_dir(p))
}

/// Lists the trash, oldest first. Foreign names are left alone.
pub(super) fn list(disk: &dyn Disk) -> Result<Vec<Trashed>, StoreError> {
    let mut trashed = Vec::new();
    for entry in disk.list(Path::new(TRASH))? {
        let Some((set_aside_ms, _, partition, what)) = parse_trash_name(&entry.name) else {
            continue;
        };
        let dir = Path::new(TRASH).join(&entry.name);
        let (bytes, receipt) = (dir_bytes(disk, &dir)?, load_receipt(disk, &dir)?);
        trashed.push(Trashed { name: entry.name, partition, what, set_aside_ms, bytes, receipt });
    }
    trashed.sort_by_key(|one| one.set_aside_ms);
    Ok(trashed)
}

/// Deletes a bounded part of what is old enough.
pub(super) fn sweep(
    disk: &dyn Disk,
    older_than_ms: i64,
    files_max: usize,
) -> Result<Swept, StoreError> {
    let trash = Path::new(TRASH);
    let mut swept = Swept::default();
    // Names begin with the time, so the list is oldest first.
    for entry in disk.list(trash)? {
        let old = parse_trash_name(&entry.name).is_some_and(|(ms, ..)| ms < older_than_ms);
        if !old {
            continue;
        }
        let dir = trash.join(&entry.name);
        for file in disk.list(&dir)? {
            if swept.files >= files_max {
                swept.more = true;
                return Ok(swept);
            }
            remove_file(disk, &dir.join(file.name), &mut swept)?;
        }
        disk.remove_dir(&dir)?;
    }
    disk.sync_dir(trash)?;
    Ok(swept)
}

/// Deletes one thing, whatever its age.
pub(super) fn remove(disk: &dyn Disk, name: &str) -> Result<Swept, StoreError> {
    let dir = trashed_dir(name)?;
    if disk.metadata(&dir)?.is_none() {
        return Err(StoreError::NoSuchTrash { name: name.to_owned() });
    }
    let mut swept = Swept::default();
    for file in disk.list(&dir)? {
        remove_file(disk, &dir.join(file.name), &mut swept)?;
    }
    disk.remove_dir(&dir)?;
    disk.sync_dir(Path::new(TRASH))?;
    Ok(swept)
}

fn remove_file(disk: &dyn Disk, path: &Path, swept: &mut Swept) -> Result<(), DiskError> {
    let bytes = disk.metadata(path)?.map_or(0, |found| found.bytes);
    disk.remove_file(path)?;
    swept.files += 1;
    swept.bytes.0 += bytes;
    Ok(())
}

/// Sums the files of a directory.
pub(super) fn dir_bytes(disk: &dyn Disk, dir: &Path) -> Result<ByteCount, DiskError> {
    let mut bytes = 0;
    for entry in disk.list(dir)? {
        let found = disk.metadata(&dir.join(entry.name))?;
        bytes += found.filter(|found| !found.is_dir).map_or(0, |found| found.bytes);
    }
    Ok(ByteCount(bytes))
}
