//! The seam under everything that Narad keeps in files.
//!
//! A [`Disk`] is a directory tree with the durability of a real one: a write lasts only once its
//! file was synced, a name only once its directory was synced. [`RealDisk`] is a directory of the
//! machine; [`MemDisk`] forgets on demand whatever was not synced, so that tests can crash between
//! any two steps.
//!
//! All paths are relative to the disk's root and have normal components only.

pub mod mem;
mod real;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

pub use mem::MemDisk;
pub use real::RealDisk;

/// A directory tree whose durability is under the caller's control.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens a file for reading and writing.
    ///
    /// # Errors
    ///
    /// [`DiskError::NotFound`] if it is missing and `mode` is [`Open::Existing`].
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn DiskFile>, DiskError>;

    /// Renames a file or a directory in one step; durable once both parents are synced.
    ///
    /// An existing file at `to` is replaced; an existing directory there is an error.
    ///
    /// # Errors
    ///
    /// If either name cannot be changed.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    ///
    /// If the device refuses; the names must then be taken as lost.
    fn sync_dir(&self, path: &Path) -> Result<(), DiskError>;

    /// Lists a directory, ascending by name.
    ///
    /// # Errors
    ///
    /// [`DiskError::NotFound`] if there is none.
    fn list(&self, path: &Path) -> Result<Vec<Entry>, DiskError>;

    /// Removes a file's name.
    ///
    /// # Errors
    ///
    /// [`DiskError::NotFound`] if there is none.
    fn remove_file(&self, path: &Path) -> Result<(), DiskError>;

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// If it is missing or not empty.
    fn remove_dir(&self, path: &Path) -> Result<(), DiskError>;

    /// Creates a directory and its missing parents; a present one is left as it is.
    ///
    /// # Errors
    ///
    /// If one of them cannot be created.
    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError>;

    /// Returns what a name stands for, or `None` if it stands for nothing.
    ///
    /// # Errors
    ///
    /// If the answer cannot be found out; "unknown" is never "absent".
    fn metadata(&self, path: &Path) -> Result<Option<Metadata>, DiskError>;

    /// Returns the bytes that an unprivileged process may still write.
    ///
    /// # Errors
    ///
    /// If the filesystem does not say.
    fn free_bytes(&self) -> Result<u64, DiskError>;

    /// Returns whether what is written waits in memory until it is synced, so that it pays to sync a
    /// long file behind its writer, on another thread: the sync at its end is short then, and nobody
    /// else's sync waits behind it. Default false: then every sync is its caller's own step.
    fn syncs_behind(&self) -> bool {
        false
    }
}

/// An open file, read and written by explicit position only (`case_045`).
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Reads from `position` on and returns how many bytes came; fewer than asked for only at the
    /// end of the file.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn read_at(&self, position: u64, buf: &mut [u8]) -> Result<usize, DiskError>;

    /// Writes all of `bytes` at `position`.
    ///
    /// # Errors
    ///
    /// If the device fails or is full; a part may have been written.
    fn write_at(&self, position: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn set_len(&self, length: u64) -> Result<(), DiskError>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn length(&self) -> Result<u64, DiskError>;

    /// Makes content and length durable, not the name.
    ///
    /// # Errors
    ///
    /// If the device fails. What was written since the last sync must then be taken as gone, and
    /// a later sync that succeeds proves nothing about it (H17).
    fn sync(&self) -> Result<(), DiskError>;

    /// Returns the descriptor of a file whose bytes the system itself can send, or `None` (the
    /// default) where they can only be read. Nobody changes the file through it.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Sets space aside for a range that is about to be written, so that a full disk shows before
    /// the bytes come. The length stays. Does nothing (the default) where that cannot be done.
    ///
    /// # Errors
    ///
    /// [`DiskError::Full`] if there is no space.
    fn reserve(&self, position: u64, length: u64) -> Result<(), DiskError> {
        let _ = (position, length);
        Ok(())
    }

    /// Returns whether the byte at a position is in memory, or would have to be fetched from the
    /// device. Default true.
    fn is_cached(&self, position: u64) -> bool {
        let _ = position;
        true
    }

    /// Gives up the memory that keeps a range, if all of it is synced: whoever reads it next fetches
    /// it from the device. A hint; does nothing by default.
    fn evict(&self, position: u64, length: u64) {
        let _ = (position, length);
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// It must be there.
    Existing,
    /// It is created empty if it is missing; present content stays.
    Create,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The last component of its path.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Length of a file in bytes; of a directory, whatever the filesystem says.
    pub bytes: u64,
    /// Last change of the content, in milliseconds of the wall clock since 1970.
    pub modified_ms: i64,
}

/// Why a disk did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// No space is left.
    #[error("cannot {action} {}: the disk is full; free space, the step is tried again", path.display())]
    Full {
        /// What was tried.
        action: &'static str,
        /// On which path, relative to the disk's root.
        path: PathBuf,
    },
    /// The name stands for nothing.
    #[error("cannot {action} {}: there is no such file or directory", path.display())]
    NotFound {
        /// What was tried.
        action: &'static str,
        /// On which path, relative to the disk's root.
        path: PathBuf,
    },
    /// The device or the filesystem failed.
    #[error("cannot {action} {}: {source}; check the device and the kernel's log", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path, relative to the disk's root.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The process, or the machine, has as many files open as it may.
    #[error(
        "cannot {action} {}: too many files are open; raise the limit (LimitNOFILE, ulimit -n), or \
         spread the partitions over more nodes", path.display()
    )]
    TooManyFiles {
        /// What was tried.
        action: &'static str,
        /// On which path, relative to the disk's root.
        path: PathBuf,
    },
    /// The path would lead out of the disk's root.
    #[error("{} is not a plain path below the data directory; use relative names only", path.display())]
    Outside {
        /// The path.
        path: PathBuf,
    },
}

impl DiskError {
    /// Wraps a system error with what was tried.
    #[must_use]
    pub fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { action, path }
            }
            io::ErrorKind::NotFound => Self::NotFound { action, path },
            _ if [Errno::MFILE, Errno::NFILE]
                .iter()
                .any(|errno| source.raw_os_error() == Some(errno.raw_os_error())) =>
            {
                Self::TooManyFiles { action, path }
            }
            _ => Self::Io { action, path, source },
        }
    }

    /// Returns whether space would help.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}

/// Replaces a small file so that a crash leaves the old content or the new one, never a mixture.
///
/// Order: write a sibling, sync it, rename it over the name, sync the directory.
///
/// # Errors
///
/// If one of the steps fails; then the old content may or may not be replaced after a crash.
pub fn write_atomically(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    replace(disk, path, bytes)?;
    disk.sync_dir(parent(path))
}

/// Like [`write_atomically`] without the last step, for a caller that syncs the directory once for
/// several files.
///
/// # Errors
///
/// If one of the steps fails.
pub fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let sibling = path.with_extension("tmp");
    let file = disk.open(&sibling, Open::Create)?;
    file.set_len(0)?;
    file.write_at(0, bytes)?;
    file.sync()?;
    disk.rename(&sibling, path)
}

/// Reads a small file whole, or returns `None` if there is none.
///
/// # Errors
///
/// If it is longer than `bytes_max` (nothing is allocated for it) or cannot be read.
pub fn read_whole(
    disk: &dyn Disk,
    path: &Path,
    bytes_max: u64,
) -> Result<Option<Vec<u8>>, DiskError> {
    let Some(found) = disk.metadata(path)? else { return Ok(None) };
    let length = usize::try_from(found.bytes).ok().filter(|_| found.bytes <= bytes_max);
    let Some(length) = length else {
        let source = io::Error::new(io::ErrorKind::FileTooLarge, "longer than such a file may be");
        return Err(DiskError::new("read", path, source));
    };
    let mut bytes = vec![0; length];
    let read = disk.open(path, Open::Existing)?.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Returns the directory that holds a path; the disk's root for a single name.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
