//! Records of an embedder's log as the protocol sees them: extents of framed bytes with checksums.
//!
//! An extent holds the records of one stretch of [`RECORDS`] offsets, each as four bytes of length,
//! least significant first, and its own bytes. Both ends of a move make the same extents of the same
//! records, whatever their stores are.

use bytes::Bytes;
use narad_core::ids::{ByteCount, Digest, Offset};
use narad_core::partition::{Checksum, Extent};
use xxhash_rust::xxh3::Xxh3;

use super::store::RECORD_BYTES_MAX;

/// Offsets of one extent.
pub(super) const RECORDS: u64 = 4096;

/// Bytes before each record.
const HEADER: usize = 4;

/// The extents of a log, or of the first part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extents {
    start: Offset,
    end: Offset,
    pieces: Vec<Piece>,
}

/// One extent as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) base: Offset,
    pub(super) end: Offset,
    pub(super) bytes: u64,
    pub(super) checksum: u32,
}

impl Extents {
    pub(super) const fn new(start: Offset) -> Self {
        Self { start, end: start, pieces: Vec::new() }
    }

    pub(super) const fn start(&self) -> Offset {
        self.start
    }

    /// Offset after the last record.
    pub(super) const fn end(&self) -> Offset {
        self.end
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(super) fn piece(&self, base: Offset) -> Option<&Piece> {
        let at = self.pieces.binary_search_by_key(&base, |piece| piece.base).ok()?;
        self.pieces.get(at)
    }

    /// Takes the next record.
    pub(super) fn push(&mut self, record: &[u8]) {
        let begins = self.pieces.is_empty() || self.end.0.is_multiple_of(RECORDS);
        if begins {
            self.pieces.push(Piece { base: self.end, end: self.end, bytes: 0, checksum: 0 });
        }
        self.end = self.end.next();
        let piece = self.pieces.last_mut().expect("one is pushed where there was none");
        piece.end = self.end;
        piece.bytes += frame_bytes(record);
        piece.checksum = crc32c::crc32c_append(piece.checksum, &header(record));
        piece.checksum = crc32c::crc32c_append(piece.checksum, record);
    }

    /// What a listing names; an empty log is one empty extent.
    pub(super) fn listed(&self) -> Vec<Extent> {
        let extent = |piece: &Piece| Extent {
            base: piece.base,
            end: piece.end,
            bytes: ByteCount(piece.bytes),
            checksum: Checksum(piece.checksum),
            sealed: piece.end.0.is_multiple_of(RECORDS),
        };
        let empty = Piece { base: self.start, end: self.start, bytes: 0, checksum: 0 };
        let mut listed: Vec<Extent> = self.pieces.iter().map(extent).collect();
        if listed.is_empty() {
            listed.push(Extent { sealed: false, ..extent(&empty) });
        }
        listed
    }

    /// All of it, summarised.
    pub(super) fn digest(&self) -> Digest {
        let mut summary = Xxh3::new();
        summary.update(&self.start.0.to_le_bytes());
        for piece in &self.pieces {
            summary.update(&piece.base.0.to_le_bytes());
            summary.update(&piece.bytes.to_le_bytes());
            summary.update(&piece.checksum.to_le_bytes());
        }
        Digest(summary.digest128())
    }

    /// The first of these extents that the other does not have alike.
    pub(super) fn differs_at(&self, other: &Self) -> Option<Offset> {
        let differing = self.pieces.iter().enumerate();
        let mut differing = differing.filter(|(at, piece)| other.pieces.get(*at) != Some(piece));
        differing.next().map(|(_, piece)| piece.base)
    }
}

/// The checksum of the first bytes of an extent, which may end within a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    left: u64,
    checksum: u32,
}

impl Prefix {
    pub(super) const fn new(bytes: u64) -> Self {
        Self { left: bytes, checksum: 0 }
    }

    /// Takes the next record. Returns whether more is needed.
    pub(super) fn push(&mut self, record: &[u8]) -> bool {
        for part in [&header(record)[..], record] {
            let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(part.len());
            self.checksum = crc32c::crc32c_append(self.checksum, &part[..length]);
            self.left -= length as u64;
        }
        self.left > 0
    }

    /// The checksum, if there were as many bytes.
    pub(super) fn finish(self) -> Option<Checksum> {
        (self.left == 0).then_some(Checksum(self.checksum))
    }
}

pub(super) const fn frame_bytes(record: &[u8]) -> u64 {
    (HEADER + record.len()) as u64
}

/// Puts records together for the way.
pub(super) fn frames(records: &[Bytes]) -> Bytes {
    let mut bytes = Vec::new();
    for record in records {
        bytes.extend_from_slice(&header(record));
        bytes.extend_from_slice(record);
    }
    bytes.into()
}

/// Takes records apart; `None` if the bytes are not whole frames.
pub(super) fn unframe(mut bytes: Bytes) -> Option<Vec<Bytes>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let header = bytes.first_chunk::<HEADER>()?;
        let length = usize::try_from(u32::from_le_bytes(*header)).ok()?;
        let whole = HEADER + length;
        if length > RECORD_BYTES_MAX || bytes.len() < whole {
            return None;
        }
        records.push(bytes.split_to(whole).slice(HEADER..));
    }
    Some(records)
}

fn header(record: &[u8]) -> [u8; HEADER] {
    u32::try_from(record.len()).expect("a record is at most a mebibyte").to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stretches_begin_at_the_grid_wherever_the_log_does() {
        let mut extents = Extents::new(Offset(RECORDS - 2));
        assert_eq!(extents.listed().len(), 1);
        for _ in 0..5 {
            extents.push(b"abc");
        }
        let listed = extents.listed();
        let spans: Vec<_> =
            listed.iter().map(|e| (e.base.0, e.end.0, e.bytes.0, e.sealed)).collect();
        assert_eq!(spans, [(RECORDS - 2, RECORDS, 14, true), (RECORDS, RECORDS + 3, 21, false)]);
    }

    proptest! {
        /// Case C46: a prefix has the checksum that a growing extent had at that length.
        #[test]
        fn a_prefix_is_what_the_extent_was(
            records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 1..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let records: Vec<Bytes> = records.into_iter().map(Bytes::from).collect();
            let bytes = frames(&records);
            prop_assert_eq!(unframe(bytes.clone()), Some(records.clone()));
            let cut = cut.index(bytes.len() + 1);
            let mut prefix = Prefix::new(cut as u64);
            for record in &records {
                prefix.push(record);
            }
            prop_assert_eq!(prefix.finish(), Some(Checksum(crc32c::crc32c(&bytes[..cut]))));
            let mut extents = Extents::new(Offset(0));
            for record in &records {
                extents.push(record);
            }
            prop_assert_eq!(extents.pieces()[0].checksum, crc32c::crc32c(&bytes));
            let torn = bytes.slice(..bytes.len() - 1);
            prop_assert_eq!(unframe(torn), None);
        }
    }
}
