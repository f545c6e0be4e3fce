//! What a copy needs from its source: extents, prefix checks, raw bytes, the digest.

use std::path::Path;
use std::sync::Arc;

use narad_core::ids::{ByteCount, Digest, Epoch, Incarnation, Offset};
use narad_core::partition::{Checksum, Extent, Listing, Staged};
use xxhash_rust::xxh3::Xxh3;

use super::check::Checker;
use super::side;
use super::{LogError, SegmentLog};
use crate::copy::ExtentFile;
use crate::disk::{Disk, DiskError, DiskFile, Open};

/// Piece in which files are read, in bytes.
pub(crate) const READ_BYTES: usize = 1 << 20;

/// Reads the first `length` bytes of a segment, or all of it, through a check.
pub(crate) fn check_segment(
    disk: &dyn Disk,
    dir: &Path,
    base: Offset,
    length: u64,
) -> Result<Checker, DiskError> {
    let file = disk.open(&side::segment_path(dir, base), Open::Existing)?;
    let mut checker = Checker::new(base);
    pieces(&*file, length, |piece| checker.feed(piece))?;
    Ok(checker)
}

/// Summarises a partition: the list of (base, length, checksum) of its extents.
pub(crate) fn digest_of(extents: impl IntoIterator<Item = Staged>) -> Digest {
    let mut hash = Xxh3::new();
    for Staged { base, bytes, checksum } in extents {
        hash.update(&base.0.to_le_bytes());
        hash.update(&bytes.0.to_le_bytes());
        hash.update(&checksum.0.to_le_bytes());
    }
    Digest(hash.digest128())
}

impl SegmentLog {
    pub(crate) fn list(
        &self,
        incarnation: Incarnation,
        epoch: Epoch,
        check: &[Staged],
    ) -> Result<Listing, LogError> {
        self.check_open()?;
        let mut listing = {
            let view = self.view();
            let last = view.segments.len().saturating_sub(1);
            let extents = view.segments.iter().enumerate().map(|(at, segment)| Extent {
                base: segment.base,
                end: segment.end,
                bytes: ByteCount(segment.bytes),
                checksum: segment.checksum,
                sealed: at < last,
            });
            Listing {
                incarnation,
                generation: self.generation,
                epoch,
                start: view.start(),
                end: view.end(),
                hwm: view.hwm,
                extents: extents.collect(),
                agreed: Vec::new(),
            }
        };
        // Durable bytes never change, so the prefixes can be read without any lock.
        for staged in check {
            if self.agrees(&listing, staged)? {
                listing.agreed.push(staged.base);
            }
        }
        Ok(listing)
    }

    /// Whether the first bytes of our extent are those that were staged.
    fn agrees(&self, listing: &Listing, staged: &Staged) -> Result<bool, LogError> {
        let at = listing.extents.binary_search_by_key(&staged.base, |extent| extent.base);
        let Some(extent) = at.ok().and_then(|at| listing.extents.get(at)) else {
            return Ok(false);
        };
        if staged.bytes == extent.bytes {
            return Ok(staged.checksum == extent.checksum);
        }
        if staged.bytes > extent.bytes {
            return Ok(false);
        }
        let mut checksum = 0;
        let Some(file) = self.open_segment(extent.base)? else { return Ok(false) };
        let read = pieces(&*file, staged.bytes.0, |piece| {
            checksum = crc32c::crc32c_append(checksum, piece);
        })?;
        Ok(read == staged.bytes.0 && Checksum(checksum) == staged.checksum)
    }

    pub(crate) fn digest_now(&self) -> Digest {
        let view = self.view();
        digest_of(view.segments.iter().map(|segment| Staged {
            base: segment.base,
            bytes: ByteCount(segment.bytes),
            checksum: segment.checksum,
        }))
    }

    pub(crate) fn read_raw(
        &self,
        base: Offset,
        position: u64,
        buf: &mut [u8],
    ) -> Result<usize, LogError> {
        let left = self.durable_at(base, position)? - position;
        let length = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        let file = self.open_segment(base)?.ok_or(LogError::Gone { base })?;
        Ok(file.read_at(position, &mut buf[..length])?)
    }

    /// Opens a segment for a copy that sends from it, if its disk has files of which that can be
    /// done. Not the file that readers share: two copies would take it from each other.
    pub(crate) fn open_raw(
        &self,
        base: Offset,
        position: u64,
    ) -> Result<Option<ExtentFile>, LogError> {
        let durable_bytes = self.durable_at(base, position)?;
        match self.disk.open(&side::segment_path(&self.dir, base), Open::Existing) {
            Ok(file) if file.descriptor().is_some() => Ok(Some(ExtentFile { file, durable_bytes })),
            Ok(_) => Ok(None),
            Err(DiskError::NotFound { .. }) => Err(LogError::Gone { base }),
            Err(failed) => Err(failed.into()),
        }
    }

    /// Returns the durable length of a segment that reaches up to a position.
    fn durable_at(&self, base: Offset, position: u64) -> Result<u64, LogError> {
        self.check_open()?;
        let durable = self.view().segment(base).map(|segment| segment.bytes);
        let durable = durable.ok_or(LogError::Gone { base })?;
        if position > durable {
            return Err(LogError::NotDurable { base, asked: position, durable });
        }
        Ok(durable)
    }

    /// Opens a segment, or returns `None` if retention has just removed it.
    pub(super) fn open_segment(&self, base: Offset) -> Result<Option<Arc<dyn DiskFile>>, LogError> {
        let opened = self.view().opened.clone();
        if let Some((_, file)) = opened.filter(|(opened, _)| *opened == base) {
            return Ok(Some(file));
        }
        match self.disk.open(&side::segment_path(&self.dir, base), Open::Existing) {
            Ok(file) => {
                self.view().opened = Some((base, Arc::clone(&file)));
                Ok(Some(file))
            }
            Err(DiskError::NotFound { .. }) => Ok(None),
            Err(failed) => Err(failed.into()),
        }
    }
}

/// Reads the first `length` bytes of a file piece by piece and returns how many there were.
fn pieces(file: &dyn DiskFile, length: u64, mut take: impl FnMut(&[u8])) -> Result<u64, DiskError> {
    let length = length.min(file.length()?);
    let mut buf = vec![0; usize::try_from(length).map_or(READ_BYTES, |l| l.min(READ_BYTES))];
    let mut at = 0;
    while at < length {
        let want = usize::try_from(length - at).map_or(buf.len(), |left| left.min(buf.len()));
        let read = file.read_at(at, &mut buf[..want])?;
        if read == 0 {
            break;
        }
        take(&buf[..read]);
        at += read as u64;
    }
    Ok(at)
}
