//! A disk in memory that can lose what was not synced.
//!
//! # Divergence from reality
//!
//! - A rename between two directories is one step: it is lost or kept as a whole, and a sync of
//!   either directory keeps it.
//! - A failed sync drops the file's unsynced writes for good, while reads go on showing them until
//!   the next crash, as a page cache does.
//! - A write is torn at sector boundaries only; the sector's size is a parameter.
//! - Time stands still: every file was modified at the instant that [`MemDisk::set_now`] gave.

mod fault;
mod state;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use fault::{Keep, Step, Unsynced};
use state::State;

use super::{Disk, DiskError, DiskFile, Entry, Metadata, Open};

/// A directory tree in memory, with a durable and a volatile side.
///
/// Clones share the same tree.
///
/// # Examples
///
/// What is synced, and whose name is synced, survives:
///
/// ```
/// use narad_runtime::disk::mem::Keep;
/// use narad_runtime::disk::{Disk, MemDisk, Open, read_whole};
/// use std::path::Path;
///
/// let disk = MemDisk::new();
/// let file = disk.open(Path::new("a"), Open::Create)?;
/// file.write_at(0, b"kept")?;
/// file.sync()?;
/// disk.sync_dir(Path::new(""))?;
/// file.write_at(4, b" lost")?;
///
/// disk.crash(Keep::Nothing);
/// assert_eq!(read_whole(&disk, Path::new("a"), 100)?.as_deref(), Some(&b"kept"[..]));
/// # Ok::<(), narad_runtime::disk::DiskError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemDisk {
    state: Arc<Mutex<State>>,
}

impl MemDisk {
    /// Creates an empty disk with 512-byte sectors and no quota.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the unit in which a write is torn, in bytes; at least one.
    pub fn set_sector(&self, bytes: usize) {
        self.lock().sector = bytes.max(1);
    }

    /// Sets how many bytes all files together may have; `None` for no limit.
    pub fn set_quota(&self, bytes: Option<u64>) {
        self.lock().quota = bytes;
    }

    /// Sets the wall clock that modification times are taken from, in milliseconds since 1970.
    pub fn set_now(&self, now_ms: i64) {
        self.lock().now_ms = now_ms;
    }

    /// Returns how many changing steps were done since the disk was made.
    pub fn steps(&self) -> u64 {
        self.lock().steps
    }

    /// Switches the power off after `steps` more changing steps; everything fails from then on,
    /// until [`MemDisk::crash`].
    pub fn stop_after(&self, steps: u64) {
        self.lock().stop_after = Some(steps);
    }

    /// Lets one coming step fail with an I/O error, after `skip` steps of its kind that succeed.
    pub fn fail(&self, step: Step, skip: u64) {
        self.lock().faults.push((step, skip));
    }

    /// Drops what was not synced, except for what `keep` says, and switches the power on again.
    ///
    /// Every file that is open stays unusable. Quota and clock stay; planned failures are
    /// forgotten.
    pub fn crash(&self, keep: Keep) {
        self.lock().crash(&mut keep.chooser());
    }

    /// Like [`MemDisk::crash`], with a caller's own choice for each unsynced change.
    pub fn crash_with(&self, mut keep: impl FnMut(Unsynced) -> bool) {
        self.lock().crash(&mut keep);
    }

    /// Inverts bits of one byte on the medium itself, as bit rot does.
    ///
    /// # Panics
    ///
    /// If there is no such byte.
    pub fn rot(&self, path: &Path, position: usize, mask: u8) {
        let mut state = self.lock();
        let file = state.file_mut(path).expect("bit rot needs a file");
        file.now[position] ^= mask;
        if let Some(byte) = file.durable.get_mut(position) {
            *byte ^= mask;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for MemDisk {
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn DiskFile>, DiskError> {
        let mut state = self.lock();
        state.check_power("open", path)?;
        let inode = match (state.find(path), mode) {
            (Some(inode), _) => inode,
            (None, Open::Existing) => {
                return Err(DiskError::NotFound { action: "open", path: path.to_path_buf() });
            }
            (None, Open::Create) => {
                state.step(Step::Create, "create", path)?;
                state.create_file(path)?
            }
        };
        let life = state.life;
        Ok(Arc::new(MemFile { disk: self.clone(), inode, life, path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.step(Step::Rename, "rename", from)?;
        state.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.step(Step::SyncDir, "sync directory", path)?;
        state.sync_dir(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>, DiskError> {
        let state = self.lock();
        state.check_power("list", path)?;
        state.list(path)
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.step(Step::Remove, "remove", path)?;
        state.remove(path, false)
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.step(Step::Remove, "remove directory", path)?;
        state.remove(path, true)
    }

    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.check_power("create directory", path)?;
        let mut made = PathBuf::new();
        for part in path.components() {
            made.push(part);
            if state.find(&made).is_none() {
                state.step(Step::Create, "create directory", &made)?;
                state.create_dir(&made)?;
            }
        }
        Ok(())
    }

    fn metadata(&self, path: &Path) -> Result<Option<Metadata>, DiskError> {
        let state = self.lock();
        state.check_power("look at", path)?;
        Ok(state.metadata(path))
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let state = self.lock();
        state.check_power("measure", Path::new(""))?;
        Ok(state.quota.unwrap_or(u64::MAX).saturating_sub(state.used()))
    }
}

#[derive(Debug)]
struct MemFile {
    disk: MemDisk,
    inode: u64,
    life: u64,
    path: PathBuf,
}

impl MemFile {
    fn lock(&self, action: &'static str) -> Result<MutexGuard<'_, State>, DiskError> {
        let state = self.disk.lock();
        state.check_power(action, &self.path)?;
        if state.life == self.life {
            Ok(state)
        } else {
            Err(state::broken(action, &self.path, "the file was opened before the crash"))
        }
    }
}

impl DiskFile for MemFile {
    fn read_at(&self, position: u64, buf: &mut [u8]) -> Result<usize, DiskError> {
        let mut state = self.lock("read")?;
        state.fault(Step::Read, "read", &self.path)?;
        let content = &state.content(self.inode).now;
        let from = usize::try_from(position).map_or(content.len(), |at| at.min(content.len()));
        let read = buf.len().min(content.len() - from);
        buf[..read].copy_from_slice(&content[from..from + read]);
        Ok(read)
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let mut state = self.lock("write")?;
        state.step(Step::Write, "write", &self.path)?;
        state.write(self.inode, position, bytes, &self.path)
    }

    fn set_len(&self, length: u64) -> Result<(), DiskError> {
        let mut state = self.lock("set the length of")?;
        state.step(Step::SetLen, "set the length of", &self.path)?;
        state.set_len(self.inode, length);
        Ok(())
    }

    fn length(&self) -> Result<u64, DiskError> {
        Ok(self.lock("measure")?.content(self.inode).now.len() as u64)
    }

    fn sync(&self) -> Result<(), DiskError> {
        let mut state = self.lock("sync")?;
        if let Err(failed) = state.step(Step::Sync, "sync", &self.path) {
            state.drop_unsynced(self.inode);
            return Err(failed);
        }
        state.sync(self.inode);
        Ok(())
    }
}
