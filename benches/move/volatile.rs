//! A disk whose syncs do nothing, for what is compared with tools that sync nothing.

use std::path::Path;
use std::sync::Arc;

use narad_runtime::disk::{Disk, DiskError, DiskFile, Entry, Metadata, Open};
use rustix::fd::BorrowedFd;

/// Another disk without its durability.
#[derive(Debug)]
pub(crate) struct Volatile(pub(crate) Arc<dyn Disk>);

impl Disk for Volatile {
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn DiskFile>, DiskError> {
        Ok(Arc::new(VolatileFile(self.0.open(path, mode)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.0.rename(from, to)
    }

    fn sync_dir(&self, _: &Path) -> Result<(), DiskError> {
        Ok(())
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>, DiskError> {
        self.0.list(path)
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        self.0.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.0.remove_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        self.0.create_dir_all(path)
    }

    fn metadata(&self, path: &Path) -> Result<Option<Metadata>, DiskError> {
        self.0.metadata(path)
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.0.free_bytes()
    }
}

#[derive(Debug)]
struct VolatileFile(Arc<dyn DiskFile>);

impl DiskFile for VolatileFile {
    fn read_at(&self, position: u64, buf: &mut [u8]) -> Result<usize, DiskError> {
        self.0.read_at(position, buf)
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.0.write_at(position, bytes)
    }

    fn set_len(&self, length: u64) -> Result<(), DiskError> {
        self.0.set_len(length)
    }

    fn length(&self) -> Result<u64, DiskError> {
        self.0.length()
    }

    fn sync(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }

    fn reserve(&self, position: u64, length: u64) -> Result<(), DiskError> {
        self.0.reserve(position, length)
    }
}
