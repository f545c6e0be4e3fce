//! The destination's disk: what a crash leaves is what a manifest names.

use std::collections::BTreeMap;

use narad_core::ids::*;
use narad_core::partition::*;

use super::source::{RECORD, checksum, digest};

#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    pub(super) files: BTreeMap<Offset, Vec<u8>>,
    pub(super) manifest: Option<Manifest>,
    pub(super) sidecar: Option<Sidecar>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    pub(super) staging: Option<Directory>,
    pub(super) installed: BTreeMap<Attempt, Directory>,
    pub(super) set_aside: u32,
}

impl Directory {
    pub(super) fn write(&mut self, base: Offset, position: u64, bytes: &[u8]) -> Staged {
        let file = self.files.entry(base).or_default();
        let position = usize::try_from(position).unwrap();
        assert!(position <= file.len(), "a copy leaves no hole: {base:?} {position}");
        let end = position + bytes.len();
        file.resize(file.len().max(end), 0);
        file[position..end].copy_from_slice(bytes);
        Staged { base, bytes: ByteCount(end as u64), checksum: checksum(&file[..end]) }
    }

    /// What a manifest names must be there, bit for bit (invariant 4 of the mover).
    pub(super) fn checkpoint(&mut self, manifest: &Manifest) {
        for staged in &manifest.extents {
            let file = self.files.get(&staged.base).expect("a manifest names what is staged");
            let named = usize::try_from(staged.bytes.0).unwrap();
            assert!(file.len() >= named, "{staged:?} is shorter on disk");
            assert_eq!(checksum(&file[..named]), staged.checksum, "{staged:?}");
        }
        self.manifest = Some(manifest.clone());
    }

    pub(super) fn trim(&mut self, keep: &[Staged]) {
        let named: BTreeMap<_, _> =
            keep.iter().map(|staged| (staged.base, staged.bytes.0)).collect();
        self.files.retain(|base, _| named.contains_key(base));
        for (base, file) in &mut self.files {
            file.truncate(usize::try_from(named[base]).unwrap());
        }
        // A crash right now must not leave a manifest that vouches for what is gone.
        for staged in self.manifest.iter().flat_map(|manifest| &manifest.extents) {
            let named = named.get(&staged.base).copied().unwrap_or(0);
            assert!(named >= staged.bytes.0, "{staged:?} was trimmed while it was vouched for");
        }
    }

    pub(super) fn verify(&self, start: Offset) -> Verified {
        let mut end = self.files.keys().next().map_or(start.0, |first| first.0);
        let first = end;
        for (base, file) in &self.files {
            if base.0 != end {
                break;
            }
            for record in file.chunks_exact(usize::try_from(RECORD).unwrap()) {
                let offset = u64::from_le_bytes(record[..8].try_into().unwrap());
                assert_eq!(offset, end, "records are contiguous");
                end += 1;
            }
        }
        let files = self.files.iter().map(|(base, file)| (base.0, file.as_slice()));
        Verified { start: Offset(first), end: Offset(end), digest: digest(files) }
    }

    fn after_crash(&mut self) {
        let named: BTreeMap<_, _> = self
            .manifest
            .iter()
            .flat_map(|manifest| &manifest.extents)
            .map(|staged| (staged.base, staged.bytes.0))
            .collect();
        self.files.retain(|base, _| named.contains_key(base));
        for (base, file) in &mut self.files {
            file.truncate(usize::try_from(named[base]).unwrap());
        }
    }
}

impl Disk {
    /// Loses what was not durable.
    pub(super) fn crash(&mut self) {
        if let Some(staging) = &mut self.staging {
            staging.after_crash();
        }
        if self.staging.as_ref().is_some_and(|staging| staging.manifest.is_none()) {
            self.staging = None;
        }
    }

    pub(super) fn recovered(&self) -> Recovered {
        Recovered {
            staging: self.staging.as_ref().and_then(|staging| staging.manifest.clone()),
            unlisted: self.staging.as_ref().is_some_and(|staging| staging.manifest.is_none()),
            installed: self
                .installed
                .iter()
                .map(|(&attempt, directory)| (attempt, directory.manifest.clone()))
                .collect(),
        }
    }
}
