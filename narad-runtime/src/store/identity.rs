//! Whose disk this is, and how often it was started.

use std::path::Path;

use narad_core::ids::{Incarnation, Name, NodeId, StoreUuid};
use narad_core::planted::{Bug, is_planted};

use super::StoreError;
use super::layout::{PARTITIONS, TRASH};
use crate::disk::{self, Disk};
use crate::log::envelope::{self, Body, FormatError, Reader};

const IDENTITY: &str = "identity";
const INCARNATION: &str = "incarnation";
const IDENTITY_MAGIC: [u8; 4] = *b"NIDY";
const INCARNATION_MAGIC: [u8; 4] = *b"NINC";
const VERSION: u16 = 1;
const BYTES_MAX: u64 = 4096;

/// Whose disk this is (H25).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Drawn once, when the directory was made.
    pub store: StoreUuid,
    /// The node's name, as people know it.
    pub name: Name,
    /// The cluster, once the node has joined one.
    pub cluster: Option<u128>,
    /// The member's number, once the node has joined.
    pub node: Option<NodeId>,
}

impl Identity {
    /// Reads the identity of a disk; on an empty disk draws one first, durably.
    ///
    /// A disk whose node never got into a cluster is as good as empty: it takes another name. Its
    /// number is drawn anew then, since it may have been told to somebody under the old name.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoIdentity`] if the disk has data without an identity,
    /// [`StoreError::ForeignIdentity`] if it belongs to a member of another name.
    pub fn open(
        disk: &dyn Disk,
        name: &Name,
        draw: impl FnOnce() -> Result<StoreUuid, StoreError>,
    ) -> Result<Self, StoreError> {
        if let Some(found) = read(disk, IDENTITY, IDENTITY_MAGIC, take)? {
            if found.name == *name {
                return Ok(found);
            }
            if found.node.is_some() || has_started(disk)? {
                let (found, given) = (found.name.to_string(), name.to_string());
                return Err(StoreError::ForeignIdentity { found, given });
            }
            let drawn = Self { store: draw()?, name: name.clone(), cluster: None, node: None };
            drawn.write(disk)?;
            return Ok(drawn);
        }
        for trace in [PARTITIONS, TRASH, INCARNATION] {
            if disk.metadata(Path::new(trace))?.is_some() {
                return Err(StoreError::NoIdentity { path: IDENTITY.into() });
            }
        }
        let drawn = Self { store: draw()?, name: name.clone(), cluster: None, node: None };
        drawn.write(disk)?;
        Ok(drawn)
    }

    /// Remembers the membership, once and for all.
    ///
    /// # Errors
    ///
    /// [`StoreError::OtherNode`] or [`StoreError::ForeignIdentity`] if another one is known.
    pub fn join(&mut self, disk: &dyn Disk, cluster: u128, node: NodeId) -> Result<(), StoreError> {
        if let Some(found) = self.node.filter(|&found| found != node) {
            return Err(StoreError::OtherNode { found, given: node });
        }
        if let Some(found) = self.cluster.filter(|&found| found != cluster) {
            let (found, given) = (format!("cluster {found:032x}"), format!("{cluster:032x}"));
            return Err(StoreError::ForeignIdentity { found, given });
        }
        let joined = Self { cluster: Some(cluster), node: Some(node), ..self.clone() };
        joined.write(disk)?;
        *self = joined;
        Ok(())
    }

    fn write(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        let mut body = Body::default();
        body.u128(self.store.0);
        body.list(self.name.as_str().as_bytes(), |body, &byte| {
            body.u8(byte);
        });
        body.option(self.cluster, |body, cluster| {
            body.u128(cluster);
        });
        body.option(self.node, |body, node| {
            body.u64(node.0);
        });
        let bytes = envelope::seal(IDENTITY_MAGIC, VERSION, &body.0);
        Ok(disk::write_atomically(disk, Path::new(IDENTITY), &bytes)?)
    }
}

/// Counts a start of the process, durably before it is returned (H6).
///
/// # Errors
///
/// If the counter cannot be read or written; the process must not go on without it.
pub fn next_incarnation(disk: &dyn Disk) -> Result<Incarnation, StoreError> {
    let last = read(disk, INCARNATION, INCARNATION_MAGIC, |body| Ok(Incarnation(body.counter()?)))?;
    let next = last.unwrap_or_default().next();
    let mut body = Body::default();
    body.u64(next.0);
    let bytes = envelope::seal(INCARNATION_MAGIC, VERSION, &body.0);
    let path = Path::new(INCARNATION);
    disk::replace(disk, path, &bytes)?;
    if !is_planted(Bug::LifeNotDurable) {
        disk.sync_dir(disk::parent(path))?;
    }
    Ok(next)
}

/// Tells whether a process has ever been counted on this disk.
///
/// # Errors
///
/// If the disk does not say.
pub fn has_started(disk: &dyn Disk) -> Result<bool, StoreError> {
    Ok(disk.metadata(Path::new(INCARNATION))?.is_some())
}

fn read<T>(
    disk: &dyn Disk,
    name: &str,
    magic: [u8; 4],
    take: impl FnOnce(&mut Reader<'_>) -> Result<T, FormatError>,
) -> Result<Option<T>, StoreError> {
    let path = Path::new(name);
    let Some(bytes) = disk::read_whole(disk, path, BYTES_MAX)? else { return Ok(None) };
    let decode = || {
        let mut body = envelope::open(magic, VERSION, &bytes)?;
        let found = take(&mut body)?;
        body.finish()?;
        Ok(found)
    };
    decode().map(Some).map_err(|source| StoreError::Format { path: path.into(), source })
}

fn take(body: &mut Reader<'_>) -> Result<Identity, FormatError> {
    let store = StoreUuid(body.u128()?);
    let name = String::from_utf8(body.list(1, Reader::u8)?).ok();
    let name = name.and_then(|name| Name::new(name).ok());
    Ok(Identity {
        store,
        name: name.ok_or(FormatError::Value("the node's name"))?,
        cluster: body.option(Reader::u128)?,
        node: body.option(|body| Ok(NodeId(body.counter()?)))?,
    })
}
