//! What the tests share: small logs, and a driver that copies one as a node would.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use narad_core::ids::{
    Attempt, AttemptNo, ByteCount, Epoch, Incarnation, LogGeneration, MoveId, NodeId, Offset,
    PartitionId, TopicId,
};
use narad_core::partition::{Boundary, Listing, Manifest, Position, Sidecar, Staged};
use narad_runtime::disk::{Disk, MemDisk};
use narad_runtime::log::{LogLimits, Record, SegmentLog};
use narad_runtime::store::{PartitionLog, PartitionStore, Refusal, SegmentStore, StoreError};

pub(crate) const P: PartitionId = PartitionId { topic: TopicId(7), index: 2 };
pub(crate) const E1: Epoch = Epoch(1);
pub(crate) const DIR: &str = "log";
/// A few records fill a segment.
pub(crate) const SMALL: LogLimits = LogLimits { segment_bytes: 400, record_bytes_max: 1 << 20 };

pub(crate) fn record(n: u64) -> Record {
    Record {
        key: n.is_multiple_of(2).then(|| format!("key-{n}").into()),
        value: format!("value of {n}").into(),
        timestamp_ms: i64::try_from(n).expect("small"),
        headers: vec![("n".to_owned(), n.to_string().into())],
    }
}

pub(crate) fn batch(first: u64, count: u64) -> Vec<Record> {
    (first..first + count).map(record).collect()
}

pub(crate) fn attempt(move_id: u64, n: u32) -> Attempt {
    let no = AttemptNo { incarnation: Incarnation(1), n };
    Attempt { move_id: MoveId(move_id), destination: NodeId(2), no }
}

pub(crate) fn dyn_disk(disk: &MemDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

pub(crate) fn open(disk: &MemDisk) -> SegmentLog {
    SegmentLog::open(dyn_disk(disk), Path::new(DIR), SMALL).expect("the log opens")
}

/// Creates and opens a log whose records `0..visible` are exposed and `visible..end` hidden.
pub(crate) fn filled(disk: &MemDisk, visible: u64, end: u64) -> SegmentLog {
    SegmentLog::create(disk, Path::new(DIR), Offset(0)).expect("a fresh disk");
    let log = open(disk);
    fill(&log, visible, end);
    log
}

pub(crate) fn fill(log: &dyn PartitionLog, visible: u64, end: u64) {
    for n in log.bounds().end.0..end {
        let done = log.append(&[record(n)], E1).expect("space is left");
        assert_eq!(done.first, Offset(n));
        if n < visible {
            log.expose(done.end).expect("below the end");
        }
    }
}

pub(crate) fn visible(log: &dyn PartitionLog) -> Vec<(Offset, Record)> {
    let bounds = log.bounds();
    let mut records = Vec::new();
    let mut next = bounds.start;
    while next < bounds.hwm {
        let read = log.read(next, 100).expect("undamaged");
        next = read.last().expect("below the high watermark there is a record").0.next();
        records.extend(read);
    }
    records
}

/// The path of the segment with this base, in a directory.
pub(crate) fn segment(dir: &Path, base: u64) -> PathBuf {
    dir.join(format!("{base:020}.seg"))
}

pub(crate) fn new_store(disk: &MemDisk) -> SegmentStore {
    SegmentStore::new(dyn_disk(disk), SMALL).expect("the disk works")
}

/// A node's disk with one filled log, born there.
pub(crate) fn source(visible: u64, end: u64) -> (MemDisk, SegmentStore, Arc<dyn PartitionLog>) {
    let disk = MemDisk::new();
    let store = new_store(&disk);
    let born = Attempt::birth(NodeId(1));
    store.create(P, born, Offset(0)).expect("a fresh disk");
    let log = store.open(P, born).expect("just created");
    fill(&*log, visible, end);
    (disk, store, log)
}

pub(crate) fn list(log: &dyn PartitionLog, check: &[Staged]) -> Listing {
    log.listing(Incarnation(1), E1, check).expect("listed")
}

/// Copies what is missing, in pieces of `piece` bytes; returns how many bytes were written.
pub(crate) fn pull(
    log: &dyn PartitionLog,
    store: &dyn PartitionStore,
    listing: &Listing,
    piece: usize,
) -> Result<u64, StoreError> {
    let mut copied = 0;
    for extent in &listing.extents {
        let staged = store.staged(P)?;
        let staged = staged.iter().find(|staged| staged.base == extent.base);
        let mut at = staged.map_or(0, |staged| staged.bytes.0);
        if staged.is_some() && at == extent.bytes.0 {
            continue;
        }
        let mut writer = store.stage_writer(P, extent.base, at)?;
        let mut buf = vec![0; piece];
        while at < extent.bytes.0 {
            let read = log.read_at(extent.base, at, &mut buf)?;
            writer.write(&buf[..read])?;
            at += read as u64;
            copied += read as u64;
        }
        let staged = writer.finish();
        assert_eq!((staged.bytes, staged.checksum), (extent.bytes, extent.checksum));
    }
    Ok(copied)
}

pub(crate) fn manifest(listing: &Listing, extents: Vec<Staged>) -> Manifest {
    Manifest {
        partition: P,
        move_id: MoveId(7),
        source: NodeId(1),
        source_incarnation: listing.incarnation,
        generation: listing.generation,
        epoch: listing.epoch,
        start: listing.start,
        hwm: listing.hwm,
        position: Position::default(),
        extents,
        attempt: None,
    }
}

pub(crate) fn empty_manifest() -> Manifest {
    let listing = Listing {
        incarnation: Incarnation(1),
        generation: LogGeneration(1),
        epoch: E1,
        start: Offset(0),
        end: Offset(0),
        hwm: Offset(0),
        extents: Vec::new(),
        agreed: Vec::new(),
    };
    manifest(&listing, Vec::new())
}

/// Makes what is staged durable, as a copy does after each extent.
pub(crate) fn checkpoint(store: &dyn PartitionStore, listing: &Listing) -> Manifest {
    let manifest = manifest(listing, store.staged(P).expect("readable"));
    store.checkpoint(&manifest).expect("the disk works");
    manifest
}

pub(crate) fn boundary(log: &dyn PartitionLog) -> Boundary {
    let bounds = log.bounds();
    let (start, end, hwm) = (bounds.start, bounds.end, bounds.hwm);
    Boundary { start, end, hwm, digest: Some(log.digest()) }
}

pub(crate) fn sidecar(log: &dyn PartitionLog) -> Sidecar {
    let bounds = log.bounds();
    Sidecar { start: bounds.start, hwm: bounds.hwm, position: log.position() }
}

/// Copies, verifies, installs and opens, as a move without trouble does.
pub(crate) fn relocate(
    log: &dyn PartitionLog,
    store: &dyn PartitionStore,
    attempt: Attempt,
) -> Arc<dyn PartitionLog> {
    let listing = list(log, &[]);
    pull(log, store, &listing, 37).expect("copied");
    let manifest = checkpoint(store, &listing);
    let verified = store.verify(P, &boundary(log)).expect("the copy is whole");
    assert_eq!((verified.end, verified.digest), (log.bounds().end, log.digest()));
    store.install(attempt, &sidecar(log), &manifest).expect("installed");
    store.open(P, attempt).expect("installed")
}

pub(crate) fn bytes(staged: &[Staged]) -> u64 {
    staged.iter().map(|staged| staged.bytes).map(|ByteCount(bytes)| bytes).sum()
}

/// The directory of the copy of [`P`].
pub(crate) fn staging() -> PathBuf {
    Path::new("partitions/7/2/staging").to_path_buf()
}

pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> Refusal {
    match result {
        Err(StoreError::Refused { why, .. }) => why,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
