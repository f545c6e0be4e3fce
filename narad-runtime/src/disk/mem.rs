//! A disk in memory that can lose what was not synced.
//!
//! # Divergence from reality
//!
//! - A rename between two directories is one step: it is lost or kept as a whole, and a sync of
//!   either directory keeps it.
//! - Unsynced changes of names survive a crash each by itself, in no order, as on a filesystem without
//!   a journal; a real one often keeps a beginning of them.
//! - A failed sync drops the file's unsynced writes for good, while reads go on showing them until
//!   the next crash, as a page cache does. A cache that gives them up earlier is a
//!   [stale read](Mishap::Stale).
//! - A write is torn at sector boundaries, and within a sector only by [`Keep::Torn`]; the sector's
//!   size is a parameter. What is torn reads as a mixture, never as an error.
//! - A step is all or nothing while the power is on, except for a write that the quota cuts short.
//! - Steps take no time, and time stands still: every file was modified at the instant that
//!   [`MemDisk::set_now`] gave.

mod content;
mod fault;
mod tree;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fault::Faults;
pub use fault::{Fault, FaultId, Keep, Mishap, Step, Survival, Unsynced};
use tree::{Tree, broken};

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

/// What is on a disk at one instant, to be put back later. Cheap: content is shared until it changes.
#[derive(Clone)]
pub struct Image(Arc<Tree>);

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("used", &self.0.used()).finish_non_exhaustive()
    }
}

impl MemDisk {
    /// Creates an empty disk with 512-byte sectors and no quota.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a disk that holds what an image shows, for whoever wants to look at it apart.
    #[must_use]
    pub fn of(image: &Image) -> Self {
        let disk = Self::new();
        disk.restore(image);
        disk
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

    /// Returns the bytes of all files that have a name.
    pub fn used(&self) -> u64 {
        self.lock().tree.used()
    }

    /// Returns how many changing steps were done since the disk was made. A driver that wants to
    /// know what one operation takes subtracts.
    pub fn steps(&self) -> u64 {
        let state = self.lock();
        state.done.iter().sum::<u64>() - state.done[Step::Read as usize]
    }

    /// Returns how many steps of one kind were done since the disk was made.
    pub fn steps_of(&self, step: Step) -> u64 {
        self.lock().done[step as usize]
    }

    /// Switches the power off after `steps` more changing steps; everything fails from then on,
    /// until [`MemDisk::crash`].
    pub fn stop_after(&self, steps: u64) {
        self.lock().stop_after = Some(steps);
    }

    /// Takes [`stop_after`](Self::stop_after) back; returns whether the power was off already, in
    /// which case it stays off.
    pub fn cancel_stop(&self) -> bool {
        let mut state = self.lock();
        let is_off = state.stop_after == Some(0);
        if !is_off {
            state.stop_after = None;
        }
        is_off
    }

    /// Lets one coming step fail with an I/O error, after `skip` steps of its kind that succeed.
    pub fn fail(&self, step: Step, skip: u64) {
        self.inject(Fault::new(step).after(skip));
    }

    /// Lets something go wrong. Where several faults meet a step, the earliest is the one that counts.
    pub fn inject(&self, fault: Fault) -> FaultId {
        self.lock().faults.inject(fault)
    }

    /// Takes a fault back, if it is still to come.
    pub fn clear(&self, fault: FaultId) {
        self.lock().faults.clear(fault);
    }

    /// Takes all faults back.
    pub fn clear_faults(&self) {
        self.lock().faults.clear_all();
    }

    /// Drops what was not synced, except for what `keep` says, and switches the power on again.
    ///
    /// Every file that is open stays unusable. Quota, clock and lasting faults stay; other planned
    /// faults are forgotten.
    pub fn crash(&self, keep: Keep) {
        self.crash_with(keep.chooser());
    }

    /// Like [`MemDisk::crash`], with a caller's own choice for each unsynced change.
    pub fn crash_with<S: Into<Survival>>(&self, mut keep: impl FnMut(Unsynced) -> S) {
        let mut state = self.lock();
        let sector = state.sector;
        state.tree.crash(sector, &mut |what| keep(what).into());
        state.faults.crash();
        state.begin_life();
    }

    /// Ends the process that uses the disk, while the machine goes on: every file that is open
    /// becomes unusable, and what was written and not synced is seen by the next process, but may
    /// still be lost to a [crash](Self::crash). Faults stay.
    pub fn kill(&self) {
        let mut state = self.lock();
        state.tree.close_all();
        state.begin_life();
    }

    /// Returns what a [crash](Self::crash) at this instant would leave. Changes nothing.
    #[must_use]
    pub fn image(&self, keep: Keep) -> Image {
        let (mut tree, sector) = {
            let state = self.lock();
            (state.tree.clone(), state.sector)
        };
        tree.crash(sector, &mut keep.chooser());
        Image(Arc::new(tree))
    }

    /// Puts what an image shows in the place of everything, durably, as if the disk had been replaced
    /// while the power was off. Quota, clock, faults and counters stay.
    pub fn restore(&self, image: &Image) {
        let mut state = self.lock();
        state.tree = Tree::clone(&image.0);
        state.begin_life();
    }

    /// Inverts bits of one byte on the medium itself, as bit rot does.
    ///
    /// # Panics
    ///
    /// If there is no such byte.
    pub fn rot(&self, path: &Path, position: usize, mask: u8) {
        let mut state = self.lock();
        let file = state.tree.find_file(path).expect("bit rot needs a file");
        state.tree.change(file, |content| content.rot(position, mask));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything about a disk.
#[derive(Debug)]
struct State {
    tree: Tree,
    /// Files opened in an earlier life are dead.
    life: u64,
    /// Steps by their kind.
    done: [u64; Step::ALL.len()],
    stop_after: Option<u64>,
    faults: Faults,
    quota: Option<u64>,
    now_ms: i64,
    sector: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            tree: Tree::default(),
            life: 0,
            done: [0; Step::ALL.len()],
            stop_after: None,
            faults: Faults::default(),
            quota: None,
            now_ms: 0,
            sector: 512,
        }
    }
}

impl State {
    fn check_power(&self, action: &'static str, path: &Path) -> Result<(), DiskError> {
        match self.stop_after {
            Some(0) => Err(broken(action, path, "the power is off")),
            Some(_) | None => Ok(()),
        }
    }

    /// Counts a step, unless the power is off or it was told to fail; returns what else goes wrong.
    fn step(
        &mut self,
        step: Step,
        action: &'static str,
        path: &Path,
    ) -> Result<Option<Mishap>, DiskError> {
        self.check_power(action, path)?;
        let mishap = self.faults.meet(step, action, path)?;
        if let (Some(left), true) = (&mut self.stop_after, step != Step::Read) {
            *left -= 1;
        }
        self.done[step as usize] += 1;
        Ok(mishap)
    }

    fn begin_life(&mut self) {
        self.life += 1;
        self.stop_after = None;
    }

    fn write(
        &mut self,
        file: usize,
        position: u64,
        bytes: &[u8],
        lost: bool,
        path: &Path,
    ) -> Result<(), DiskError> {
        let mut fitting = bytes;
        if let Some(quota) = self.quota {
            let length = self.tree.content(file).length();
            let room = quota.saturating_sub(self.tree.used()) + length.saturating_sub(position);
            // A full disk takes what still fits, as a real one may.
            fitting = &bytes[..usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len())];
        }
        let now_ms = self.now_ms;
        self.tree.change(file, |content| {
            content.write(position, fitting, lost);
            content.modified_ms = now_ms;
        });
        if fitting.len() < bytes.len() {
            return Err(DiskError::Full { action: "write", path: path.to_path_buf() });
        }
        Ok(())
    }
}

impl Disk for MemDisk {
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn DiskFile>, DiskError> {
        let mut state = self.lock();
        state.check_power("open", path)?;
        let inode = match (state.tree.find(path), mode) {
            (Some(inode), _) => inode,
            (None, Open::Existing) => {
                return Err(DiskError::NotFound { action: "open", path: path.to_path_buf() });
            }
            (None, Open::Create) => {
                state.step(Step::Create, "create", path)?;
                let now_ms = state.now_ms;
                state.tree.create_file(path, now_ms)?
            }
        };
        state.tree.hold(inode);
        let life = state.life;
        Ok(Arc::new(MemFile { disk: self.clone(), inode, life, path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.step(Step::Rename, "rename", from)?;
        state.tree.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        match state.step(Step::SyncDir, "sync directory", path)? {
            Some(Mishap::Lost) => Ok(()),
            Some(_) | None => state.tree.sync_dir(path),
        }
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>, DiskError> {
        let state = self.lock();
        state.check_power("list", path)?;
        state.tree.list(path)
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.step(Step::Remove, "remove", path)?;
        state.tree.remove(path, false)
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.step(Step::Remove, "remove directory", path)?;
        state.tree.remove(path, true)
    }

    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.check_power("create directory", path)?;
        let mut made = PathBuf::new();
        for part in path.components() {
            made.push(part);
            if state.tree.find(&made).is_none() {
                state.step(Step::Create, "create directory", &made)?;
                state.tree.create_dir(&made)?;
            }
        }
        Ok(())
    }

    fn metadata(&self, path: &Path) -> Result<Option<Metadata>, DiskError> {
        let state = self.lock();
        state.check_power("look at", path)?;
        Ok(state.tree.metadata(path))
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let state = self.lock();
        state.check_power("measure", Path::new(""))?;
        Ok(state.quota.unwrap_or(u64::MAX).saturating_sub(state.tree.used()))
    }
}

#[derive(Debug)]
struct MemFile {
    disk: MemDisk,
    inode: usize,
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
            Err(broken(action, &self.path, "the file was opened before the crash"))
        }
    }
}

impl Drop for MemFile {
    fn drop(&mut self) {
        let mut state = self.disk.lock();
        if state.life == self.life {
            state.tree.release(self.inode);
        }
    }
}

impl DiskFile for MemFile {
    fn read_at(&self, position: u64, buf: &mut [u8]) -> Result<usize, DiskError> {
        let mut state = self.lock("read")?;
        let mishap = state.step(Step::Read, "read", &self.path)?;
        let content = state.tree.content(self.inode);
        Ok(match mishap {
            Some(Mishap::Stale) => copy_out(&content.durable(), position, buf),
            Some(Mishap::Misdirected { by }) => {
                copy_out(content.now(), position.saturating_add_signed(by), buf)
            }
            Some(Mishap::Io | Mishap::Full | Mishap::Lost) | None => {
                copy_out(content.now(), position, buf)
            }
        })
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let mut state = self.lock("write")?;
        let mishap = state.step(Step::Write, "write", &self.path)?;
        let by = if let Some(Mishap::Misdirected { by }) = mishap { by } else { 0 };
        let lost = mishap == Some(Mishap::Lost);
        state.write(self.inode, position.saturating_add_signed(by), bytes, lost, &self.path)
    }

    fn set_len(&self, length: u64) -> Result<(), DiskError> {
        let mut state = self.lock("set the length of")?;
        let mishap = state.step(Step::SetLen, "set the length of", &self.path)?;
        let lost = mishap == Some(Mishap::Lost);
        state.tree.change(self.inode, |content| content.set_length(length, lost));
        Ok(())
    }

    fn length(&self) -> Result<u64, DiskError> {
        Ok(self.lock("measure")?.tree.content(self.inode).length())
    }

    fn sync(&self) -> Result<(), DiskError> {
        let mut state = self.lock("sync")?;
        let mishap = state.step(Step::Sync, "sync", &self.path);
        state.tree.change(self.inode, |content| match mishap {
            Ok(Some(Mishap::Lost)) | Err(_) => content.lose_unsynced(),
            Ok(_) => content.sync(),
        });
        mishap.map(|_| ())
    }
}

/// Copies what a file has at a position, and returns how many bytes that was.
fn copy_out(content: &[u8], position: u64, buf: &mut [u8]) -> usize {
    let from = usize::try_from(position).map_or(content.len(), |at| at.min(content.len()));
    let read = buf.len().min(content.len() - from);
    buf[..read].copy_from_slice(&content[from..from + read]);
    read
}
