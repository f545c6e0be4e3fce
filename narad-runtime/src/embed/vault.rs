//! The copies that grow on this node, and what becomes of them.
//!
//! A copy is one log of the store to which whole records are appended in their order, with its manifest
//! as the note. What lies past the manifest is cut when a later process goes on with the copy.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use narad_core::ids::{Attempt, ByteCount, Offset, PartitionId};
use narad_core::mover::{Fault, What};
use narad_core::partition::{Boundary, Checksum, Manifest, Recovered, Sidecar, Staged, Verified};

use super::extents::{Extents, RECORDS, frame_bytes};
use super::names;
use super::note::LogNote;
use super::seat::{prefix, scan};
use super::store::{PartitionStore, StoreFault};

/// The directories of a node that are not live.
#[derive(Debug)]
pub(super) struct Vault {
    store: Arc<dyn PartitionStore>,
    copies: Mutex<BTreeMap<PartitionId, Arc<tokio::sync::Mutex<Option<Copy>>>>>,
}

/// One copy that grows, as far as this process knows it.
#[derive(Debug)]
struct Copy {
    /// What was appended.
    extents: Extents,
    /// The first part of it, as the store gives it back.
    read_back: Extents,
    note: LogNote,
}

/// What is still to be brought of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Nothing: this is how far it is staged.
    Nothing(Staged),
    /// Records from here on.
    From(Offset),
}

impl Vault {
    pub(super) fn new(store: Arc<dyn PartitionStore>) -> Self {
        Self { store, copies: Mutex::default() }
    }

    fn copy_of(&self, partition: PartitionId) -> Arc<tokio::sync::Mutex<Option<Copy>>> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(copies.entry(partition).or_default())
    }

    /// Says what is there of a partition.
    pub(super) async fn inspect(&self, partition: PartitionId) -> Result<Recovered, StoreFault> {
        let mut found = Recovered::default();
        if let Some(kept) = self.store.open(&names::staging(partition)).await? {
            match LogNote::decode(&kept.note) {
                Ok(LogNote { manifest: Some(manifest), .. }) => found.staging = Some(manifest),
                // A copy that ended before its first checkpoint vouches for nothing.
                Ok(LogNote { manifest: None, .. }) => found.staging = None,
                Err(_) => found.unlisted = true,
            }
        }
        for log in self.store.list().await? {
            let Some((_, attempt)) = names::attempt_of(&log).filter(|(of, _)| *of == partition)
            else {
                continue;
            };
            let kept = self.store.open(&log).await?;
            let note = kept.and_then(|kept| LogNote::decode(&kept.note).ok());
            found.installed.push((attempt, note.and_then(|note| note.manifest)));
        }
        found.installed.sort_by_key(|(attempt, _)| *attempt);
        Ok(found)
    }

    /// Begins to bring a range of an extent: says from which record on, or how far it is staged
    /// already, if that is as far as was asked for.
    pub(super) async fn begin(
        &self,
        partition: PartitionId,
        base: Offset,
        position: u64,
        bytes: u64,
    ) -> Result<Wanted, Fault> {
        let copy = self.copy_of(partition);
        let mut copy = copy.lock().await;
        let name = names::staging(partition);
        if copy.is_none() {
            *copy = self.load(&name, true).await?;
        }
        if copy.is_none() {
            let note = LogNote::default();
            self.store.create(&name, base, note.encode()).await.map_err(fault)?;
            *copy = Some(Copy::empty(base, note));
        }
        let copy = copy.as_mut().expect("it is there now");
        if copy.extents.pieces().is_empty() && copy.extents.start() != base {
            // Nothing was ever staged in it.
            self.store.remove(&name).await.map_err(fault)?;
            self.store.create(&name, base, copy.note.encode()).await.map_err(fault)?;
            *copy = Copy::empty(base, copy.note.clone());
        }
        let staged = copy.extents.piece(base).map_or(0, |piece| piece.bytes);
        let reach = position.saturating_add(bytes);
        let is_next = copy.extents.end() == base;
        if position > staged || (staged == 0 && !is_next) {
            return Err(Fault::Mismatch { base });
        }
        if bytes == 0 || staged > position {
            let upto = staged.min(reach);
            return Ok(Wanted::Nothing(self.staged(copy, &name, base, upto).await?));
        }
        if !is_next && copy.extents.end().0.is_multiple_of(RECORDS) {
            // The stretch is full: the source has listed more than there can be.
            return Err(Fault::Mismatch { base });
        }
        Ok(Wanted::From(copy.extents.end()))
    }

    /// Appends what was brought, and says how far the extent is staged: at most as far as was asked
    /// for, even if the last record reaches beyond.
    pub(super) async fn take(
        &self,
        partition: PartitionId,
        base: Offset,
        reach: u64,
        from: Offset,
        records: &[Bytes],
    ) -> Result<Staged, Fault> {
        let copy = self.copy_of(partition);
        let mut slot = copy.lock().await;
        let copy = slot.as_mut().ok_or(Fault::Cancelled)?;
        if copy.extents.end() != from {
            return Err(Fault::Cancelled);
        }
        let name = names::staging(partition);
        let stretch_end = (base.0 / RECORDS + 1) * RECORDS;
        if from.0 + records.len() as u64 > stretch_end {
            return Err(Fault::Malformed);
        }
        if !records.is_empty() {
            let appended = self.store.append(&name, from, records).await;
            if let Err(failed) = appended {
                // How much of it is there shows when it is looked at again.
                *slot = None;
                return Err(fault(failed));
            }
            for record in records {
                copy.extents.push(record);
            }
        }
        let staged = copy.extents.piece(base).map_or(0, |piece| piece.bytes);
        self.staged(copy, &name, base, staged.min(reach)).await
    }

    async fn staged(
        &self,
        copy: &Copy,
        name: &str,
        base: Offset,
        bytes: u64,
    ) -> Result<Staged, Fault> {
        let checksum = match copy.extents.piece(base) {
            Some(piece) if piece.bytes == bytes => Some(Checksum(piece.checksum)),
            Some(piece) => {
                prefix(&*self.store, name, base, piece.end, bytes).await.map_err(fault)?
            }
            None => Some(Checksum(0)),
        };
        let checksum = checksum.ok_or(Fault::Mismatch { base })?;
        Ok(Staged { base, bytes: ByteCount(bytes), checksum })
    }

    /// Carries out `Staging::Checkpoint`: what is staged is durable, so the note is all.
    pub(super) async fn checkpoint(&self, manifest: Manifest) -> Result<(), Fault> {
        let partition = manifest.partition;
        let copy = self.copy_of(partition);
        let mut slot = copy.lock().await;
        let name = names::staging(partition);
        if slot.is_none() {
            *slot = self.load(&name, true).await?;
        }
        if slot.is_none() {
            let note = LogNote::default();
            self.store.create(&name, manifest.start, note.encode()).await.map_err(fault)?;
            *slot = Some(Copy::empty(manifest.start, note));
        }
        let copy = slot.as_mut().expect("it is there now");
        for staged in &manifest.extents {
            let there = copy.extents.piece(staged.base).map_or(0, |piece| piece.bytes);
            if there < staged.bytes.0 {
                return Err(Fault::Mismatch { base: staged.base });
            }
        }
        let note = LogNote { manifest: Some(manifest), ..copy.note.clone() };
        self.store.write_note(&name, note.encode()).await.map_err(fault)?;
        copy.note = note;
        Ok(())
    }

    /// Carries out `Staging::Trim`. Records are contiguous here: with an extent goes what lies behind.
    pub(super) async fn trim(&self, partition: PartitionId, keep: &[Staged]) -> Result<(), Fault> {
        let copy = self.copy_of(partition);
        let mut slot = copy.lock().await;
        let name = names::staging(partition);
        if slot.is_none() {
            *slot = self.load(&name, false).await?;
        }
        let Some(copy) = slot.as_mut() else { return Ok(()) };
        let mut end = copy.extents.start();
        for piece in copy.extents.pieces() {
            let Some(kept) = keep.iter().find(|kept| kept.base == piece.base) else { break };
            if kept.bytes.0 < piece.bytes {
                end = self.boundary(&name, piece.base, piece.end, kept.bytes.0).await?;
                break;
            }
            end = piece.end;
        }
        if let Some(manifest) = &mut copy.note.manifest {
            // The manifest forgets them first.
            let vouched = |staged: &Staged| keep.iter().any(|kept| kept == staged);
            manifest.extents.retain(vouched);
            let note = copy.note.encode();
            self.store.write_note(&name, note).await.map_err(fault)?;
        }
        self.cut(copy, &name, end).await
    }

    /// Returns the end of the first record of an extent that ends at or past a position.
    async fn boundary(
        &self,
        name: &str,
        base: Offset,
        end: Offset,
        bytes: u64,
    ) -> Result<Offset, Fault> {
        let (mut from, mut position) = (base, 0);
        while from < end && position < bytes {
            let records =
                self.store.read(name, from, super::seat::READ_BYTES).await.map_err(fault)?;
            if records.is_empty() {
                break;
            }
            for record in records {
                if position >= bytes || from >= end {
                    break;
                }
                position += frame_bytes(&record);
                from = from.next();
            }
        }
        Ok(from)
    }

    async fn cut(&self, copy: &mut Copy, name: &str, end: Offset) -> Result<(), Fault> {
        if end >= copy.extents.end() {
            return Ok(());
        }
        self.store.cut(name, end).await.map_err(fault)?;
        let mut extents = Extents::new(copy.extents.start());
        scan(&*self.store, name, &mut extents, end).await.map_err(fault)?;
        copy.read_back = extents.clone();
        copy.extents = extents;
        Ok(())
    }

    /// Carries out `Staging::Probe`: reads back what was not read back yet, since nothing of that size
    /// may be left to do in a freeze (case C50), and finds out whether the store takes a write (H20).
    pub(super) async fn probe(&self, partition: PartitionId) -> Result<(), Fault> {
        let copy = self.copy_of(partition);
        let mut slot = copy.lock().await;
        let name = names::staging(partition);
        if slot.is_none() {
            *slot = self.load(&name, true).await?;
        }
        let Some(copy) = slot.as_mut() else { return Ok(()) };
        self.vouch(copy, &name).await?;
        self.store.write_note(&name, copy.note.encode()).await.map_err(fault)
    }

    async fn vouch(&self, copy: &mut Copy, name: &str) -> Result<(), Fault> {
        let Copy { extents, read_back, .. } = copy;
        scan(&*self.store, name, read_back, extents.end()).await.map_err(fault)?;
        match extents.differs_at(read_back) {
            None => Ok(()),
            Some(base) => {
                *read_back = Extents::new(extents.start());
                Err(Fault::Mismatch { base })
            }
        }
    }

    /// Carries out `Staging::Verify`: says what the copy is, read back from the store.
    pub(super) async fn verify(
        &self,
        partition: PartitionId,
        boundary: &Boundary,
    ) -> Result<Verified, Fault> {
        let copy = self.copy_of(partition);
        let mut slot = copy.lock().await;
        let name = names::staging(partition);
        if slot.is_none() {
            *slot = self.load(&name, true).await?;
        }
        let Some(copy) = slot.as_mut() else {
            return Err(Fault::Mismatch { base: boundary.start });
        };
        self.vouch(copy, &name).await?;
        let extents = &copy.extents;
        Ok(Verified { start: extents.start(), end: extents.end(), digest: extents.digest() })
    }

    /// Carries out `Staging::Install`.
    pub(super) async fn install(
        &self,
        attempt: Attempt,
        sidecar: Sidecar,
        manifest: Manifest,
    ) -> Result<(), Fault> {
        let partition = manifest.partition;
        let copy = self.copy_of(partition);
        let mut slot = copy.lock().await;
        let (from, to) = (names::staging(partition), names::log(partition, attempt));
        let Some(kept) = self.store.open(&from).await.map_err(fault)? else {
            let installed = self.store.open(&to).await.map_err(fault)?;
            return if installed.is_some() { Ok(()) } else { Err(Fault::Disk) };
        };
        let generation = LogNote::decode(&kept.note).unwrap_or_default().generation;
        let Sidecar { hwm, position, .. } = sidecar;
        let note =
            LogNote { manifest: Some(manifest), hwm, position, generation, ..LogNote::default() };
        self.store.write_note(&from, note.encode()).await.map_err(fault)?;
        self.store.rename(&from, &to).await.map_err(fault)?;
        *slot = None;
        Ok(())
    }

    /// Carries out `Staging::Restage`.
    pub(super) async fn restage(
        &self,
        partition: PartitionId,
        attempt: Attempt,
        now_ms: i64,
    ) -> Result<(), Fault> {
        let copy = self.copy_of(partition);
        let mut slot = copy.lock().await;
        let (from, to) = (names::log(partition, attempt), names::staging(partition));
        if self.store.open(&from).await.map_err(fault)?.is_none() {
            return Ok(());
        }
        *slot = None;
        self.trash(&to, now_ms).await?;
        self.store.rename(&from, &to).await.map_err(fault)
    }

    /// Carries out `Staging::SetAside`.
    pub(super) async fn set_aside(
        &self,
        partition: PartitionId,
        what: What,
        now_ms: i64,
    ) -> Result<(), Fault> {
        let copy = self.copy_of(partition);
        let mut slot = copy.lock().await;
        match what {
            What::Staging => {
                *slot = None;
                self.trash(&names::staging(partition), now_ms).await
            }
            What::Installed(attempt) => self.trash(&names::log(partition, attempt), now_ms).await,
        }
    }

    async fn trash(&self, log: &str, now_ms: i64) -> Result<(), Fault> {
        for at_ms in now_ms.. {
            match self.store.rename(log, &names::trash(at_ms, log)).await {
                Ok(()) | Err(StoreFault::NoSuchLog { .. }) => return Ok(()),
                Err(StoreFault::Exists { .. }) => {}
                Err(failed) => return Err(fault(failed)),
            }
        }
        unreachable!("some moment is free")
    }

    /// Deletes what was set aside before a moment.
    pub(super) async fn sweep(&self, older_than_ms: i64) -> Result<(), StoreFault> {
        for log in self.store.list().await? {
            if names::trashed_at(&log).is_some_and(|at| at < older_than_ms) {
                self.store.remove(&log).await?;
            }
        }
        Ok(())
    }

    /// Looks at a copy that another process, or an error, has left.
    ///
    /// With `checks`, what its manifest vouches for must be there; without, what is not is forgotten
    /// next.
    async fn load(&self, name: &str, checks: bool) -> Result<Option<Copy>, Fault> {
        let Some(kept) = self.store.open(name).await.map_err(fault)? else { return Ok(None) };
        let note = LogNote::decode(&kept.note).map_err(|_| Fault::Disk)?;
        let vouched = note.manifest.as_ref().map_or(&[][..], |manifest| &manifest.extents);
        let mut extents = Extents::new(kept.start);
        scan(&*self.store, name, &mut extents, kept.end).await.map_err(fault)?;
        let mut end = kept.start;
        for piece in extents.pieces() {
            let Some(staged) = vouched.iter().find(|staged| staged.base == piece.base) else {
                break;
            };
            if staged.bytes.0 < piece.bytes {
                end = self.boundary(name, piece.base, piece.end, staged.bytes.0).await?;
                break;
            }
            end = piece.end;
        }
        let mut copy = Copy { read_back: extents.clone(), extents, note };
        self.cut(&mut copy, name, end).await?;
        let vouched = copy.note.manifest.iter().flat_map(|manifest| &manifest.extents);
        for staged in vouched.filter(|_| checks) {
            let found = self.staged(&copy, name, staged.base, staged.bytes.0).await;
            if found != Ok(*staged) {
                return Err(Fault::Mismatch { base: staged.base });
            }
        }
        Ok(Some(copy))
    }
}

impl Copy {
    fn empty(start: Offset, note: LogNote) -> Self {
        let extents = Extents::new(start);
        Self { read_back: extents.clone(), extents, note }
    }
}

fn fault(fault: StoreFault) -> Fault {
    match fault {
        StoreFault::Full => Fault::DiskFull,
        fault => {
            tracing::warn!(%fault, "work on a copy failed");
            Fault::Disk
        }
    }
}
