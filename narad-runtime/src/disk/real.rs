//! A directory of the machine as a [`Disk`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::{Disk, DiskError, DiskFile, Entry, Metadata, Open};

/// A directory of the machine.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
}

impl RealDisk {
    /// Takes a directory as a disk, creating it if it is missing.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn new(root: impl Into<PathBuf>) -> Result<Self, DiskError> {
        let root = root.into();
        fs::create_dir_all(&root).map_err(|e| DiskError::new("create", &root, e))?;
        Ok(Self { root })
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the number of the device that a path is on, for the check that a rename stays on
    /// one filesystem (`case_056`).
    ///
    /// # Errors
    ///
    /// If the path is missing.
    pub fn device(&self, path: &Path) -> Result<u64, DiskError> {
        let found = fs::metadata(self.resolve(path)?);
        Ok(found.map_err(|e| DiskError::new("look at", path, e))?.dev())
    }

    fn resolve(&self, path: &Path) -> Result<PathBuf, DiskError> {
        if path.components().all(|part| matches!(part, Component::Normal(_))) {
            Ok(self.root.join(path))
        } else {
            Err(DiskError::Outside { path: path.to_path_buf() })
        }
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn DiskFile>, DiskError> {
        let (action, create) = match mode {
            Open::Existing => ("open", false),
            Open::Create => ("create", true),
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).truncate(false);
        let file =
            options.open(self.resolve(path)?).map_err(|e| DiskError::new(action, path, e))?;
        Ok(Arc::new(RealFile { file, path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let target = self.resolve(to)?;
        // The system would quietly replace an empty directory.
        if target.is_dir() {
            let taken = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(DiskError::new("rename onto", to, taken));
        }
        fs::rename(self.resolve(from)?, target).map_err(|e| DiskError::new("rename", from, e))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        File::open(self.resolve(path)?)
            .and_then(|dir| dir.sync_all())
            .map_err(|e| DiskError::new("sync directory", path, e))
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>, DiskError> {
        let fail = |e| DiskError::new("list", path, e);
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.resolve(path)?).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let is_dir = entry.file_type().map_err(fail)?.is_dir();
            entries.push(Entry { name: entry.file_name().to_string_lossy().into_owned(), is_dir });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        fs::remove_file(self.resolve(path)?).map_err(|e| DiskError::new("remove", path, e))
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        fs::remove_dir(self.resolve(path)?).map_err(|e| DiskError::new("remove directory", path, e))
    }

    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        fs::create_dir_all(self.resolve(path)?)
            .map_err(|e| DiskError::new("create directory", path, e))
    }

    fn metadata(&self, path: &Path) -> Result<Option<Metadata>, DiskError> {
        match fs::symlink_metadata(self.resolve(path)?) {
            Ok(found) => Ok(Some(Metadata {
                is_dir: found.is_dir(),
                bytes: found.len(),
                modified_ms: found
                    .mtime()
                    .saturating_mul(1000)
                    .saturating_add(found.mtime_nsec() / 1_000_000),
            })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(DiskError::new("look at", path, e)),
        }
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let found = rustix::fs::statvfs(&self.root)
            .map_err(|e| DiskError::new("measure", Path::new(""), e.into()))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn syncs_behind(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
    path: PathBuf,
}

impl RealFile {
    fn fail(&self, action: &'static str) -> impl Fn(io::Error) -> DiskError + '_ {
        move |e| DiskError::new(action, &self.path, e)
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, position: u64, buf: &mut [u8]) -> Result<usize, DiskError> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, position + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.fail("read")(e)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.write_all_at(bytes, position).map_err(self.fail("write"))
    }

    fn set_len(&self, length: u64) -> Result<(), DiskError> {
        self.file.set_len(length).map_err(self.fail("set the length of"))
    }

    fn length(&self) -> Result<u64, DiskError> {
        Ok(self.file.metadata().map_err(self.fail("measure"))?.len())
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(self.fail("sync"))
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, position: u64, length: u64) -> Result<(), DiskError> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        if length == 0 {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, position, length) {
            // The last is a signal; it is only a hint, so that is not worth another try.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => Ok(()),
            Err(error) => Err(self.fail("set space aside for")(error.into())),
        }
    }

    #[cfg(target_os = "linux")]
    fn is_cached(&self, position: u64) -> bool {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};
        let mut byte = [0];
        let read = preadv2(
            &self.file,
            &mut [io::IoSliceMut::new(&mut byte)],
            position,
            ReadWriteFlags::NOWAIT,
        );
        !matches!(read, Err(Errno::AGAIN))
    }

    #[cfg(target_os = "linux")]
    fn evict(&self, position: u64, length: u64) {
        use rustix::fs::{Advice, fadvise};
        let Some(length) = std::num::NonZeroU64::new(length) else { return };
        // A hint: a filesystem that does not take it keeps the pages.
        let _ = fadvise(&self.file, position, Some(length), Advice::DontNeed);
    }
}
