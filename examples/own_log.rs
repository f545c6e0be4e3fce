//! Shows an embedder's own log to Narad, and finds out what is left to copy.
//!
//! Narad does not care how a log is stored. It sees a *listing*: contiguous extents with lengths
//! and checksums, and where the high watermark stands. This program has a log of its own kind,
//! chunks of records in memory, lists it, appends while a first pass copies, and lists it again:
//! the second pass costs only the tail.
//!
//! ```text
//! cargo run --example own_log
//! ```
#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use narad_core::ids::{ByteCount, Epoch, Incarnation, LogGeneration, Offset};
use narad_core::partition::{Checksum, Extent, Listing, Staged};

/// A log that keeps its records in chunks of bounded size.
struct ChunkLog {
    chunks: Vec<Chunk>,
}

/// A run of records; sealed once the next one has begun.
struct Chunk {
    base: u64,
    records: Vec<Vec<u8>>,
}

impl Chunk {
    /// Most records of one chunk.
    const RECORDS_MAX: usize = 100;

    fn bytes(&self) -> impl Iterator<Item = u8> {
        self.records.iter().flatten().copied()
    }

    fn end(&self) -> u64 {
        self.base + self.records.len() as u64
    }
}

impl ChunkLog {
    /// Starts an empty log at offset zero.
    fn new() -> Self {
        Self { chunks: vec![Chunk { base: 0, records: Vec::new() }] }
    }

    fn active(&self) -> &Chunk {
        self.chunks.last().expect("a log has a chunk from its start")
    }

    fn append(&mut self, record: &[u8]) {
        if self.active().records.len() == Chunk::RECORDS_MAX {
            let base = self.active().end();
            self.chunks.push(Chunk { base, records: Vec::new() });
        }
        let active = self.chunks.last_mut().expect("a log has a chunk from its start");
        active.records.push(record.to_vec());
    }

    /// Lists the log as a move's destination wants to see it.
    ///
    /// Everything in this toy is as durable as it will ever be. A log on a disk lists only what it
    /// has synced: bytes past that may never have existed after a crash (H16).
    fn listing(&self) -> Listing {
        let active_base = self.active().base;
        let extents: Vec<Extent> = self
            .chunks
            .iter()
            .map(|chunk| Extent {
                base: Offset(chunk.base),
                end: Offset(chunk.end()),
                bytes: ByteCount(chunk.bytes().count() as u64),
                checksum: checksum(chunk.bytes()),
                sealed: chunk.base != active_base,
            })
            .collect();
        let end = Offset(self.active().end());
        Listing {
            incarnation: Incarnation(1),
            generation: LogGeneration(1),
            epoch: Epoch(1),
            start: Offset(0),
            end,
            hwm: end,
            extents,
            agreed: Vec::new(),
        }
    }
}

/// A checksum of the embedder's choice: the machines compare two of them and compute none.
fn checksum(bytes: impl Iterator<Item = u8>) -> Checksum {
    Checksum(bytes.fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)))
}

/// Returns the bytes of the listing that are not staged yet.
fn left_to_copy(listing: &Listing, staged: &[Staged]) -> ByteCount {
    let have = |base: Offset| staged.iter().find(|s| s.base == base).map_or(0, |s| s.bytes.0);
    ByteCount(listing.extents.iter().map(|extent| extent.bytes.0 - have(extent.base)).sum())
}

/// Copies everything that is listed; a real destination streams it from its source.
fn copy(listing: &Listing) -> Vec<Staged> {
    listing
        .extents
        .iter()
        .map(|extent| Staged { base: extent.base, bytes: extent.bytes, checksum: extent.checksum })
        .collect()
}

/// Checks what every destination relies on: extents lie end to end from `start` to `end`.
fn assert_contiguous(listing: &Listing) {
    let mut at = listing.start;
    for extent in &listing.extents {
        assert_eq!(extent.base, at, "a gap before {:?}", extent.base);
        at = extent.end;
    }
    assert_eq!(at, listing.end, "the extents stop short of the end");
    assert!(listing.start <= listing.hwm && listing.hwm <= listing.end, "hwm out of range");
}

fn main() {
    let mut log = ChunkLog::new();
    for n in 0..1_050 {
        log.append(format!("order {n:06}").as_bytes());
    }

    let first = log.listing();
    assert_contiguous(&first);
    println!(
        "pass 1: {} extents up to offset {}, {} bytes to copy",
        first.extents.len(),
        first.end,
        left_to_copy(&first, &[]),
    );
    let staged = copy(&first);

    // Producers did not wait for the copy.
    for n in 1_050..1_130 {
        log.append(format!("order {n:06}").as_bytes());
    }

    let second = log.listing();
    assert_contiguous(&second);
    let tail = left_to_copy(&second, &staged);
    println!("pass 2: the log has grown to offset {}, {} bytes to copy", second.end, tail);

    assert_eq!(left_to_copy(&first, &staged), ByteCount(0));
    assert_eq!(tail, ByteCount(80 * "order 000000".len() as u64));
    println!("only the tail is left for a freeze");
}
