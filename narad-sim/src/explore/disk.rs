//! One node's disk of the one partition: directories of records, of which a crash leaves what was
//! made durable.
//!
//! # Divergence from reality
//!
//! A record is a number, an extent never seals, an append is durable at once or not at all.

use std::collections::BTreeMap;
use std::time::Duration;

use narad_core::ids::{Attempt, ByteCount, Digest, Epoch, Incarnation, LogGeneration, Offset};
use narad_core::mover::Copied;
use narad_core::partition::{
    Boundary, Checksum, Extent, Listing, Manifest, Position, Recovered, Sidecar, Staged, Verified,
};

/// Bytes of one record.
pub(super) const RECORD: u64 = 16;

/// A log, staged or installed. Its only extent begins at `start`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Directory {
    pub(super) start: u64,
    /// The contents, by offset from `start`; `None` if the extent does not even exist.
    pub(super) records: Option<Vec<u8>>,
    /// What consumers can see; after a crash, what the last frame says of it.
    pub(super) hwm: u64,
    framed_hwm: u64,
    position: Position,
    /// The last reign in which its owner wrote a frame here.
    pub(super) served: Option<Epoch>,
    generation: u64,
    pub(super) manifest: Option<Manifest>,
}

/// Everything that one disk has of the partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Area {
    pub(super) staging: Option<Directory>,
    pub(super) installed: BTreeMap<Attempt, Directory>,
}

fn checksum(records: &[u8]) -> Checksum {
    Checksum(
        records.iter().fold(0x811c_9dc5, |sum: u32, record| {
            (sum ^ u32::from(*record)).wrapping_mul(0x0100_0193)
        }),
    )
}

fn count(bytes: u64) -> usize {
    usize::try_from(bytes / RECORD).expect("a small world has few records")
}

impl Directory {
    pub(super) fn born(start: u64) -> Self {
        Self { start, hwm: start, framed_hwm: start, ..Self::default() }
    }

    pub(super) fn contents(&self) -> &[u8] {
        self.records.as_deref().unwrap_or_default()
    }

    /// Returns the contents from an offset on.
    pub(super) fn contents_from(&self, offset: u64) -> &[u8] {
        let at = usize::try_from(offset.saturating_sub(self.start));
        at.ok().and_then(|at| self.contents().get(at..)).unwrap_or_default()
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.contents().len() as u64
    }

    /// Returns the offset of a record.
    pub(super) fn offset_of(&self, content: u8) -> Option<u64> {
        let at = self.contents().iter().position(|record| *record == content)?;
        Some(self.start + at as u64)
    }

    /// Appends one durable record; its frame carries the high watermark before it.
    pub(super) fn append(&mut self, content: u8, epoch: Epoch) -> u64 {
        self.records.get_or_insert_default().push(content);
        self.framed_hwm = self.hwm;
        self.served = Some(epoch);
        self.end()
    }

    /// Opens the log after a start: only the watermark of the last frame is known.
    pub(super) fn open(&mut self) {
        self.hwm = self.framed_hwm;
        self.generation += 1;
    }

    /// Writes the control frame that makes everything visible.
    pub(super) fn expose(&mut self, epoch: Epoch) {
        (self.hwm, self.framed_hwm) = (self.end(), self.end());
        self.served = Some(epoch);
    }

    pub(super) fn digest(&self) -> Digest {
        let seed = u128::from(self.start) + 7;
        Digest(self.contents().iter().fold(seed, |sum, record| sum * 251 + u128::from(*record) + 1))
    }

    pub(super) fn list(&self, life: Incarnation, epoch: Epoch, check: &[Staged]) -> Listing {
        let extent = self.records.as_ref().map(|records| Extent {
            base: Offset(self.start),
            end: Offset(self.end()),
            bytes: ByteCount(records.len() as u64 * RECORD),
            checksum: checksum(records),
            sealed: false,
        });
        let agrees = |staged: &&Staged| {
            staged.base.0 == self.start
                && self
                    .contents()
                    .get(..count(staged.bytes.0))
                    .is_some_and(|records| checksum(records) == staged.checksum)
        };
        Listing {
            incarnation: life,
            generation: LogGeneration(self.generation),
            epoch,
            start: Offset(self.start),
            end: Offset(self.end()),
            hwm: Offset(self.hwm),
            extents: extent.into_iter().collect(),
            agreed: check.iter().filter(agrees).map(|staged| staged.base).collect(),
        }
    }

    pub(super) const fn position(&self) -> &Position {
        &self.position
    }

    /// Returns so many bytes of the extent, or fewer if it is shorter; nothing if it is not there.
    pub(super) fn read(&self, base: Offset, position: u64, bytes: u64) -> Option<Vec<u8>> {
        let records = self.records.as_ref().filter(|_| base.0 == self.start)?;
        let (from, to) = (count(position), count(position + bytes).min(records.len()));
        Some(records.get(from..to)?.to_vec())
    }

    fn trim(&mut self, keep: &[Staged]) {
        let named = keep.iter().find(|staged| staged.base.0 == self.start);
        match (&mut self.records, named) {
            (Some(records), Some(named)) => records.truncate(count(named.bytes.0)),
            (records, _) => *records = None,
        }
    }
}

impl Area {
    /// Loses what no manifest vouches for.
    pub(super) fn crash(&mut self) {
        let Some(staging) = &mut self.staging else { return };
        match staging.manifest.clone() {
            Some(manifest) => staging.trim(&manifest.extents),
            None => self.staging = None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.staging.is_none() && self.installed.is_empty()
    }

    pub(super) fn inspect(&self) -> Recovered {
        let installed =
            self.installed.iter().map(|(attempt, found)| (*attempt, found.manifest.clone()));
        Recovered {
            staging: self.staging.as_ref().and_then(|staging| staging.manifest.clone()),
            installed: installed.collect(),
        }
    }

    pub(super) fn write(&mut self, base: Offset, position: u64, copied: &[u8]) -> Copied {
        let staging = self.staging.get_or_insert_default();
        staging.start = base.0;
        let records = staging.records.get_or_insert_default();
        assert!(count(position) <= records.len(), "a copy leaves no hole");
        records.truncate(count(position));
        records.extend(copied);
        let bytes = ByteCount(records.len() as u64 * RECORD);
        let staged = Staged { base, bytes, checksum: checksum(records) };
        Copied { staged, throttled: Duration::ZERO }
    }

    pub(super) fn checkpoint(&mut self, manifest: Manifest) {
        let staging = self.staging.get_or_insert_default();
        for staged in &manifest.extents {
            let named = staging.contents().get(..count(staged.bytes.0));
            let is_there = staged.base.0 == staging.start
                && named.is_some_and(|records| checksum(records) == staged.checksum);
            assert!(is_there, "a manifest vouches for what is on the disk (H17)");
        }
        staging.manifest = Some(manifest);
    }

    pub(super) fn trim(&mut self, keep: &[Staged]) {
        self.staging.get_or_insert_default().trim(keep);
    }

    pub(super) fn verify(&self, boundary: &Boundary) -> Verified {
        let empty = Directory::born(boundary.start.0);
        let staging = self.staging.as_ref().filter(|staging| staging.records.is_some());
        let copy = staging.unwrap_or(&empty);
        Verified { start: Offset(copy.start), end: Offset(copy.end()), digest: copy.digest() }
    }

    pub(super) fn install(&mut self, attempt: Attempt, sidecar: Sidecar, manifest: Manifest) {
        assert!(!self.installed.contains_key(&attempt), "a live name is never replaced (H18)");
        let mut copy = self.staging.take().unwrap_or_default();
        copy.start = sidecar.start.0;
        (copy.hwm, copy.framed_hwm) = (sidecar.hwm.0, sidecar.hwm.0);
        copy.position = sidecar.position;
        copy.served = None;
        copy.manifest = Some(Manifest { attempt: Some(attempt), ..manifest });
        self.installed.insert(attempt, copy);
    }

    pub(super) fn restage(&mut self, attempt: Attempt) {
        if let Some(directory) = self.installed.remove(&attempt) {
            self.staging = Some(directory);
        }
    }
}
