//! A little space that is kept for the day on which the disk is full.
//!
//! Giving up old segments needs two small files to be written first. On a disk that the log itself
//! has filled nothing could be written, nothing given up, and nothing accepted ever again.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskError, Open};
use crate::log::LogError;
use crate::log::side::remove_if_present;

/// How much is kept, in bytes: more than the side files of a log of a thousand segments, a position
/// with all its ranges included.
const RESERVE_BYTES: usize = 64 << 10;

/// Returns the file that holds the space.
fn path(dir: &Path) -> PathBuf {
    dir.join("reserve")
}

/// Takes the space, if it is not held; a disk that has none is no failure.
pub(super) fn fill(disk: &dyn Disk, dir: &Path) -> Result<(), DiskError> {
    let path = path(dir);
    let held = disk.metadata(&path)?.map_or(0, |found| found.bytes);
    if held >= RESERVE_BYTES as u64 {
        return Ok(());
    }
    // Written rather than extended, or the file would have a length and no space.
    let filled = disk.open(&path, Open::Create).and_then(|file| {
        file.write_at(0, &vec![0; RESERVE_BYTES])?;
        file.sync()
    });
    match filled {
        Err(error) if error.is_full() => remove_if_present(disk, &path),
        filled => filled,
    }
}

/// Takes a step, and once more with the reserve's space if the disk is full.
pub(super) fn spend<T>(
    disk: &dyn Disk,
    dir: &Path,
    step: impl Fn() -> Result<T, LogError>,
) -> Result<T, LogError> {
    match step() {
        Err(error) if error.is_full() => {
            remove_if_present(disk, &path(dir))?;
            let done = step()?;
            fill(disk, dir)?;
            Ok(done)
        }
        done => done,
    }
}
