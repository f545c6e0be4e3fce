//! A node's data directory, held by one process at a time.

use std::fs::{self, File, TryLockError};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use narad_core::ids::{Incarnation, Name, NodeId, StoreUuid};

use super::StoreError;
use super::identity::{Identity, has_started, next_incarnation};
use super::layout::{PARTITIONS, TRASH};
use crate::disk::{Disk, DiskError, RealDisk};

/// A node's data directory; the lock is free again when this is dropped.
#[derive(Debug)]
pub struct DataDir {
    disk: Arc<RealDisk>,
    identity: Identity,
    _lock: File,
}

impl DataDir {
    /// Opens a data directory, or makes one where there is nothing.
    ///
    /// Order: the lock, then the identity, then the directories; so a directory with data and no
    /// identity has lost it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Locked`] while another process has it, [`StoreError::OtherFilesystem`] if a
    /// part of it is mounted from elsewhere (`case_056`), [`StoreError::NoPartitions`] if a node has
    /// run on it and its records are gone, and the errors of [`Identity::open`].
    pub fn open(path: &Path, name: &Name) -> Result<Self, StoreError> {
        let disk = Arc::new(RealDisk::new(path)?);
        let lock = take_lock(path)?;
        let identity = Identity::open(&*disk, name, draw)?;
        // They are older than the first start, so they were lost, or are mounted later.
        if has_started(&*disk)? && disk.metadata(Path::new(PARTITIONS))?.is_none() {
            return Err(StoreError::NoPartitions { path: path.join(PARTITIONS) });
        }
        for part in [PARTITIONS, TRASH].map(Path::new) {
            disk.create_dir_all(part)?;
            if disk.device(part)? != disk.device(Path::new(""))? {
                return Err(StoreError::OtherFilesystem { path: part.into() });
            }
        }
        disk.sync_dir(Path::new(""))?;
        Ok(Self { disk, identity, _lock: lock })
    }

    /// Returns the directory as a disk.
    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk) as Arc<dyn Disk>
    }

    /// Returns whose directory it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Remembers the membership, once and for all.
    ///
    /// # Errors
    ///
    /// As [`Identity::join`].
    pub fn join(&mut self, cluster: u128, node: NodeId) -> Result<(), StoreError> {
        self.identity.join(&*self.disk, cluster, node)
    }

    /// Tells whether a process has ever been counted on this directory.
    ///
    /// # Errors
    ///
    /// If the directory cannot be read.
    pub fn has_started(&self) -> Result<bool, StoreError> {
        has_started(&*self.disk)
    }

    /// Counts a start of the process, durably before it is returned (H6).
    ///
    /// # Errors
    ///
    /// If the counter cannot be read or written.
    pub fn next_incarnation(&self) -> Result<Incarnation, StoreError> {
        next_incarnation(&*self.disk)
    }
}

fn take_lock(path: &Path) -> Result<File, StoreError> {
    let name = Path::new("lock");
    let fail = |error| DiskError::new("lock", name, error);
    let file = fs::OpenOptions::new().create(true).append(true).open(path.join(name));
    let file = file.map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(fail(error).into()),
    }
}

/// Draws the identity of a new directory from the system's entropy.
fn draw() -> Result<StoreUuid, StoreError> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| DiskError::new("read", source, error))?;
    Ok(StoreUuid(u128::from_le_bytes(bytes)))
}
