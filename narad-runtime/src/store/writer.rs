//! Writing one extent of a copy, by explicit position.

use std::sync::{Arc, Mutex};

use narad_core::ids::{ByteCount, Offset};
use narad_core::partition::{Checksum, Staged};

use super::behind::{Syncer, Written};
use super::staging::{StagedExtent, Staging};
use super::{StageWriter, StoreError};
use crate::disk::{Disk, Open};
use crate::log::check::Checker;
use crate::log::side::segment_path;
use crate::log::{check_segment, lock};

/// Piece in which repeated bytes are compared, in bytes.
const COMPARE_BYTES: usize = 256 << 10;

/// Begins to write an extent.
pub(super) fn begin(
    disk: &dyn Disk,
    staging: &Arc<Mutex<Staging>>,
    syncer: Option<&Syncer>,
    base: Offset,
    position: u64,
) -> Result<Box<dyn StageWriter>, StoreError> {
    let mut state = lock(staging);
    state.check_readable()?;
    if state.extents.get(&base).is_some_and(|extent| extent.busy) {
        return Err(StoreError::Busy { partition: state.partition });
    }
    let left = state.extents.get(&base).and_then(|extent| extent.unsynced.clone());
    let left = match left {
        // A sync behind an earlier writer has failed, and nobody was told yet.
        Some(left) if left.has_failed() => {
            state.discard(disk, base, &left)?;
            if let (true, Err(source)) = (position > 0, left.sync(0, true)) {
                return Err(StoreError::Lost { base, source });
            }
            None
        }
        left => left,
    };
    let known = state.extents.get(&base);
    let staged = known.map_or(0, |extent| extent.bytes);
    if position > staged {
        return Err(StoreError::WrongPosition { base, staged, given: position });
    }
    disk.create_dir_all(&state.dir)?;
    let opened = disk.open(&segment_path(&state.dir, base), Open::Create)?;
    let is_longer = opened.length()? > staged;
    // The handle that wrote what no sync has covered is the one that hears of a failure.
    let file = match left {
        Some(left) => {
            left.touch(staged);
            left
        }
        None => Written::new(opened, staged),
    };
    if is_longer {
        // Bytes of a write whose end nobody saw.
        file.file().set_len(staged)?;
    }
    let checker = match known.and_then(|extent| extent.checker.clone()) {
        Some(checker) => checker,
        None if staged == 0 => Checker::new(base).without_index(),
        None => check_segment(disk, &state.dir, base, staged)?.without_index(),
    };
    let vouched = known.map_or(Checksum(0), |extent| extent.checksum);
    if checker.fed() != staged || checker.checksum() != vouched {
        return Err(StoreError::Corrupt { base });
    }
    let extent = StagedExtent {
        bytes: staged,
        checksum: vouched,
        checker: None,
        unsynced: Some(Arc::clone(&file)),
        busy: true,
    };
    state.extents.insert(base, extent);
    let (staging, syncer) = (Arc::clone(staging), syncer.cloned());
    Ok(Box::new(Writer { staging, base, position, file, syncer, checker }))
}

#[derive(Debug)]
struct Writer {
    staging: Arc<Mutex<Staging>>,
    base: Offset,
    /// Where the next bytes belong; below the staged length while bytes are repeated.
    position: u64,
    file: Arc<Written>,
    /// Who syncs behind this writer.
    syncer: Option<Syncer>,
    checker: Checker,
}

impl Writer {
    /// Compares the part of `bytes` that is staged already, and returns the rest.
    fn skip_repeated<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], StoreError> {
        let left = self.checker.fed() - self.position;
        let length = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (repeated, rest) = bytes.split_at(length);
        let mut buf = vec![0; repeated.len().min(COMPARE_BYTES)];
        for piece in repeated.chunks(COMPARE_BYTES) {
            let read = self.file.file().read_at(self.position, &mut buf[..piece.len()])?;
            if buf[..read] != *piece {
                return Err(StoreError::Differs { base: self.base, position: self.position });
            }
            self.position += read as u64;
        }
        Ok(rest)
    }
}

impl StageWriter for Writer {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let rest = self.skip_repeated(bytes)?;
        if !rest.is_empty() {
            self.file.file().write_at(self.position, rest)?;
            self.checker.feed(rest);
            self.position += rest.len() as u64;
            let grown = self.file.grown(self.position, self.syncer.as_ref());
            grown.map_err(|source| StoreError::Lost { base: self.base, source })?;
        }
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> Result<(), StoreError> {
        // What is repeated has its space.
        let end = self.position.saturating_add(bytes);
        let from = self.checker.fed().min(end);
        Ok(self.file.file().reserve(from, end - from)?)
    }

    fn staged(&self) -> Staged {
        let bytes = ByteCount(self.checker.fed());
        Staged { base: self.base, bytes, checksum: self.checker.checksum() }
    }

    fn finish(self: Box<Self>) -> Staged {
        self.staged()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut staging = lock(&self.staging);
        let extent = staging.extents.get_mut(&self.base);
        let ours = extent.filter(|extent| extent.has(&self.file));
        // Otherwise a failed sync has discarded the extent meanwhile.
        if let Some(extent) = ours {
            extent.bytes = self.checker.fed();
            extent.checksum = self.checker.checksum();
            extent.checker = Some(self.checker.clone());
            extent.busy = false;
        }
    }
}
