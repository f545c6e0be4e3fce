//! What a source's listing costs: it is taken once per copy pass, and once under the freeze.

use divan::{Bencher, black_box};
use narad_core::ids::{ByteCount, Epoch, Incarnation, LogGeneration, Offset};
use narad_core::partition::{Checksum, Extent, Listing};
use narad_core::peer::Answer;
use narad_runtime::wire::Wire;

/// Listings from one segment to 64 GiB in segments of 64 MiB.
const EXTENTS: [u64; 3] = [1, 32, 1024];

fn main() {
    divan::main();
}

fn listing(extents: u64) -> Listing {
    const RECORDS: u64 = 65_536;
    Listing {
        incarnation: Incarnation(1),
        generation: LogGeneration(1),
        epoch: Epoch(1),
        start: Offset(0),
        end: Offset(extents * RECORDS),
        hwm: Offset(extents * RECORDS),
        extents: (0..extents)
            .map(|n| Extent {
                base: Offset(n * RECORDS),
                end: Offset((n + 1) * RECORDS),
                bytes: ByteCount(64 << 20),
                checksum: Checksum(0),
                sealed: n + 1 < extents,
            })
            .collect(),
        agreed: Vec::new(),
    }
}

/// Adds up what a destination must fetch.
#[divan::bench(args = EXTENTS)]
fn bytes(bencher: Bencher<'_, '_>, extents: u64) {
    let listing = listing(extents);
    bencher.bench(|| black_box(&listing).bytes());
}

/// Copies a listing, as the machine that keeps one across passes does.
#[divan::bench(args = EXTENTS)]
fn clone(bencher: Bencher<'_, '_>, extents: u64) {
    let listing = listing(extents);
    bencher.bench(|| black_box(&listing).clone());
}

/// Makes bytes of a listing, as its source does.
#[divan::bench(args = EXTENTS)]
fn encode(bencher: Bencher<'_, '_>, extents: u64) {
    let answer = Answer::Listing(listing(extents));
    bencher.bench(|| black_box(&answer).to_bytes());
}

/// Makes a listing of bytes, as its destination does.
#[divan::bench(args = EXTENTS)]
fn decode(bencher: Bencher<'_, '_>, extents: u64) {
    let bytes = Answer::Listing(listing(extents)).to_bytes();
    bencher.bench(|| Answer::from_bytes(black_box(&bytes)));
}
