//! A note beside the log that nothing is accepted any more (H37).
//!
//! A node that leaves says in the replicated log that nothing is left on it. Its word may be decided
//! after it has restarted, and before it has learned that it was to leave.

use std::path::{Path, PathBuf};

use super::reserve;
use crate::disk::{self, Disk, DiskError};
use crate::log::LogError;
use crate::log::side::remove_if_present;

fn path(dir: &Path) -> PathBuf {
    dir.join("shut")
}

pub(super) fn is_shut(disk: &dyn Disk, dir: &Path) -> Result<bool, DiskError> {
    Ok(disk.metadata(&path(dir))?.is_some())
}

pub(super) fn shut(disk: &dyn Disk, dir: &Path) -> Result<(), LogError> {
    if is_shut(disk, dir)? {
        // It may have been put there by a step that failed after that.
        return Ok(disk.sync_dir(dir)?);
    }
    reserve::spend(disk, dir, || Ok(disk::write_atomically(disk, &path(dir), b"")?))
}

pub(super) fn unshut(disk: &dyn Disk, dir: &Path) -> Result<(), LogError> {
    remove_if_present(disk, &path(dir))?;
    Ok(disk.sync_dir(dir)?)
}
