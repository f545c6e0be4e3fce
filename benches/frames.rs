//! What checking a log's frames costs, at each of the two places where all of its bytes pass: a copy
//! that is staged, and a log that is opened.

use std::path::Path;
use std::sync::Arc;

use divan::Bencher;
use divan::counter::BytesCount;
use narad_core::ids::{Epoch, Incarnation, LogGeneration, MoveId, NodeId, Offset};
use narad_core::ids::{PartitionId, TopicId};
use narad_core::partition::{Manifest, Position};
use narad_runtime::disk::MemDisk;
use narad_runtime::log::{LogLimits, Record, SegmentLog};
use narad_runtime::store::{PartitionLog, PartitionStore, SegmentStore};

const P: PartitionId = PartitionId { topic: TopicId(1), index: 0 };
/// Bytes of the log, nearly.
const BYTES: usize = 16 << 20;
/// The piece in which a copy arrives.
const PIECE: usize = 256 << 10;

fn main() {
    divan::main();
}

/// A log in memory of one segment, with records of so many bytes, and that segment's bytes.
fn filled(value_bytes: usize) -> (MemDisk, Vec<u8>) {
    let (disk, dir) = (MemDisk::new(), Path::new("log"));
    SegmentLog::create(&disk, dir, Offset(0)).expect("memory");
    let log = open(&disk);
    let batch = vec![Record { value: vec![7; value_bytes].into(), ..Record::default() }; 64];
    for _ in 0..BYTES / (64 * value_bytes) {
        log.append(&batch, Epoch(1)).expect("memory");
    }
    let length = log.listing(Incarnation(1), Epoch(1), &[]).expect("memory").extents[0].bytes.0;
    let mut bytes = vec![0; usize::try_from(length).expect("it fits into memory")];
    let read = log.read_at(Offset(0), 0, &mut bytes).expect("memory");
    assert_eq!(read, bytes.len());
    log.close().expect("memory");
    (disk, bytes)
}

fn open(disk: &MemDisk) -> SegmentLog {
    SegmentLog::open(Arc::new(disk.clone()), Path::new("log"), LogLimits::default())
        .expect("the log is whole")
}

/// Stages a segment as it comes from the network. The disk is memory: what is left is the check and
/// one copy of the bytes.
#[divan::bench(args = [100, 1 << 10, 16 << 10])]
fn stage(bencher: Bencher<'_, '_>, value_bytes: usize) {
    let (_, bytes) = filled(value_bytes);
    let fresh = || {
        let store = SegmentStore::new(Arc::new(MemDisk::new()), LogLimits::default());
        let store = store.expect("memory");
        store.checkpoint(&manifest()).expect("memory");
        store
    };
    bencher.counter(BytesCount::new(bytes.len())).with_inputs(fresh).bench_values(|store| {
        let mut writer = store.stage_writer(P, Offset(0), 0).expect("nobody else");
        bytes.chunks(PIECE).for_each(|piece| writer.write(piece).expect("memory"));
        writer.finish()
    });
}

/// Opens a log, which reads its last segment.
#[divan::bench(args = [100, 1 << 10, 16 << 10])]
fn recover(bencher: Bencher<'_, '_>, value_bytes: usize) {
    let (disk, bytes) = filled(value_bytes);
    bencher.counter(BytesCount::new(bytes.len())).bench_local(|| open(&disk));
}

fn manifest() -> Manifest {
    Manifest {
        partition: P,
        move_id: MoveId(1),
        source: NodeId(1),
        source_incarnation: Incarnation(1),
        generation: LogGeneration(1),
        epoch: Epoch(1),
        start: Offset(0),
        hwm: Offset(0),
        position: Position::default(),
        extents: Vec::new(),
        attempt: None,
    }
}
