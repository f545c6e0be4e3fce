//! One node's disk: directories of records, of which a crash leaves what was made durable.

use std::collections::BTreeMap;

use narad_core::ids::*;
use narad_core::mover::Copied;
use narad_core::partition::*;

/// Bytes of one record.
pub(crate) const RECORD: u64 = 16;
/// Records of one extent.
const EXTENT: u64 = 4;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Directory {
    /// Extents by base; a record is its content.
    pub(crate) files: BTreeMap<u64, Vec<u64>>,
    pub(crate) start: u64,
    /// What consumers can see; after a crash, what the last frame says of it.
    pub(crate) hwm: u64,
    framed_hwm: u64,
    pub(crate) position: Position,
    pub(crate) served: Option<Epoch>,
    pub(crate) generation: u64,
    pub(crate) manifest: Option<Manifest>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Area {
    pub(crate) staging: Option<Directory>,
    pub(crate) installed: BTreeMap<Attempt, Directory>,
}

pub(crate) type Disk = BTreeMap<PartitionId, Area>;

pub(crate) fn checksum(records: &[u64]) -> Checksum {
    let fold = |sum: u32, record: &u64| {
        record
            .to_le_bytes()
            .iter()
            .fold(sum, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    };
    Checksum(records.iter().fold(0x811c_9dc5, fold))
}

impl Directory {
    pub(crate) fn end(&self) -> u64 {
        self.files.last_key_value().map_or(self.start, |(base, file)| base + file.len() as u64)
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.files.iter().flat_map(|(base, file)| (*base..).zip(file.iter().copied()))
    }

    pub(crate) fn holds(&self, content: u64) -> bool {
        self.records().any(|(_, record)| record == content)
    }

    pub(crate) fn born(start: u64) -> Self {
        Self { start, hwm: start, framed_hwm: start, ..Self::default() }
    }

    /// Appends one durable record; its frame carries the high watermark before it.
    pub(crate) fn append(&mut self, content: u64, epoch: Epoch) -> u64 {
        let end = self.end();
        let full = self.files.last_key_value().is_none_or(|(_, file)| file.len() as u64 >= EXTENT);
        if full {
            self.files.insert(end, Vec::new());
        }
        self.files.last_entry().expect("just made").get_mut().push(content);
        self.framed_hwm = self.hwm;
        self.served = Some(epoch);
        end + 1
    }

    /// Cuts nothing (every append is durable), but only knows the watermark of the last frame.
    pub(crate) fn open(&mut self) {
        self.hwm = self.framed_hwm;
        self.generation += 1;
    }

    pub(crate) fn expose(&mut self, epoch: Epoch) {
        self.hwm = self.end();
        self.framed_hwm = self.hwm;
        self.served = Some(epoch);
    }

    pub(crate) fn digest(&self) -> Digest {
        let fold = |sum: u128, (base, file): (&u64, &Vec<u64>)| {
            (sum ^ u128::from(*base) ^ (u128::from(checksum(file).0) << 32))
                .wrapping_mul(0x0100_0000_0000_0000_0000_013b)
        };
        Digest(self.files.iter().fold(7, fold))
    }

    pub(crate) fn list(&self, life: Incarnation, epoch: Epoch, check: &[Staged]) -> Listing {
        let last = self.files.last_key_value().map(|(base, _)| *base);
        let extents = self.files.iter().map(|(base, file)| Extent {
            base: Offset(*base),
            end: Offset(base + file.len() as u64),
            bytes: ByteCount(file.len() as u64 * RECORD),
            checksum: checksum(file),
            sealed: Some(*base) != last,
        });
        let agrees = |staged: &&Staged| {
            self.read(staged.base, 0, staged.bytes.0).is_some_and(|records| {
                records.len() as u64 * RECORD == staged.bytes.0
                    && checksum(&records) == staged.checksum
            })
        };
        Listing {
            incarnation: life,
            generation: LogGeneration(self.generation),
            epoch,
            start: Offset(self.start),
            end: Offset(self.end()),
            hwm: Offset(self.hwm),
            extents: extents.collect(),
            agreed: check.iter().filter(agrees).map(|staged| staged.base).collect(),
        }
    }

    pub(crate) fn read(&self, base: Offset, position: u64, bytes: u64) -> Option<Vec<u64>> {
        let file = self.files.get(&base.0)?;
        let at = |byte: u64| usize::try_from(byte / RECORD).unwrap().min(file.len());
        Some(file[at(position)..at(position + bytes)].to_vec())
    }

    fn trim(&mut self, keep: &[Staged]) {
        let named: BTreeMap<u64, u64> =
            keep.iter().map(|staged| (staged.base.0, staged.bytes.0 / RECORD)).collect();
        self.files.retain(|base, _| named.contains_key(base));
        for (base, file) in &mut self.files {
            file.truncate(usize::try_from(named[base]).unwrap());
        }
    }
}

impl Area {
    /// Loses what no manifest vouches for.
    pub(crate) fn crash(&mut self) {
        let Some(staging) = &mut self.staging else { return };
        match staging.manifest.clone() {
            Some(manifest) => staging.trim(&manifest.extents),
            None => self.staging = None,
        }
    }

    pub(crate) fn inspect(&self) -> Recovered {
        let installed =
            self.installed.iter().map(|(attempt, found)| (*attempt, found.manifest.clone()));
        Recovered {
            staging: self.staging.as_ref().and_then(|staging| staging.manifest.clone()),
            unlisted: self.staging.as_ref().is_some_and(|staging| staging.manifest.is_none()),
            installed: installed.collect(),
        }
    }

    pub(crate) fn write(&mut self, base: Offset, position: u64, records: &[u64]) -> Copied {
        let file = self.staging.get_or_insert_default().files.entry(base.0).or_default();
        file.truncate(usize::try_from(position / RECORD).unwrap());
        assert_eq!(file.len() as u64 * RECORD, position, "a copy leaves no hole");
        file.extend(records);
        let bytes = ByteCount(file.len() as u64 * RECORD);
        let staged = Staged { base, bytes, checksum: checksum(file) };
        Copied { staged, throttled: std::time::Duration::ZERO }
    }

    pub(crate) fn checkpoint(&mut self, manifest: Manifest) {
        let staging = self.staging.get_or_insert_default();
        for staged in &manifest.extents {
            let named = staging.read(staged.base, 0, staged.bytes.0).expect("it is staged");
            assert_eq!(checksum(&named), staged.checksum, "a manifest vouches for what is there");
        }
        staging.manifest = Some(manifest);
    }

    pub(crate) fn trim_to(&mut self, keep: &[Staged]) {
        self.staging.get_or_insert_default().trim(keep);
    }

    pub(crate) fn verify(&self, boundary: &Boundary) -> Verified {
        let empty = Directory { start: boundary.start.0, ..Directory::default() };
        let staging = self.staging.as_ref().filter(|staging| !staging.files.is_empty());
        let copy = staging.unwrap_or(&empty);
        let start = copy.files.keys().next().copied().unwrap_or(copy.start);
        let mut end = start;
        for (base, file) in &copy.files {
            if *base != end {
                break;
            }
            end += file.len() as u64;
        }
        Verified { start: Offset(start), end: Offset(end), digest: copy.digest() }
    }

    pub(crate) fn install(&mut self, attempt: Attempt, sidecar: Sidecar, manifest: Manifest) {
        let mut copy = self.staging.take().unwrap_or_default();
        assert!(!self.installed.contains_key(&attempt), "a live name is never replaced");
        copy.start = sidecar.start.0;
        copy.hwm = sidecar.hwm.0;
        copy.framed_hwm = sidecar.hwm.0;
        copy.position = sidecar.position;
        copy.served = None;
        copy.manifest = Some(Manifest { attempt: Some(attempt), ..manifest });
        self.installed.insert(attempt, copy);
    }
}
