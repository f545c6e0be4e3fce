//! Seeds of what is on a disk, taken from the files that a log and a store write.

use std::path::Path;
use std::sync::Arc;

use narad_core::ids::{
    Attempt, ByteCount, Epoch, Incarnation, LogGeneration, MoveId, Name, NodeId, Offset,
    PartitionId, StoreUuid, TopicId,
};
use narad_core::partition::{Manifest, Position, Sidecar, Staged};
use narad_fuzz::{forge, logs};
use narad_runtime::disk::{self, MemDisk};
use narad_runtime::log::{Record, SegmentLog};
use narad_runtime::store::identity::{self, Identity};
use narad_runtime::store::{PartitionLog as _, PartitionStore, SegmentStore};

use crate::Seed;

/// Bytes that a small file has before its body.
const SHELL: usize = 16;
const P: PartitionId = PartitionId { topic: TopicId(7), index: 2 };

pub(crate) fn seeds() -> Vec<Seed> {
    [segments(), side_files()].concat()
}

fn read(disk: &MemDisk, path: impl AsRef<Path>) -> Vec<u8> {
    let read = disk::read_whole(disk, path.as_ref(), 1 << 20).expect("memory");
    read.expect("it was written")
}

fn record(n: u64) -> Record {
    Record {
        key: n.is_multiple_of(2).then(|| "key".into()),
        value: format!("value of {n}").into(),
        timestamp_ms: 1_000 + i64::try_from(n).expect("small"),
        headers: vec![("n".into(), n.to_string().into())],
    }
}

/// A disk with a log of so many records, appended two at a time, the last two of them hidden.
fn log_of(records: u64) -> MemDisk {
    let (disk, dir) = (MemDisk::new(), Path::new("log"));
    SegmentLog::create(&disk, dir, Offset(0)).expect("memory");
    let log = SegmentLog::open(Arc::new(disk.clone()), dir, logs::LIMITS).expect("just created");
    for n in (0..records).step_by(2) {
        let done = log.append(&[record(n), record(n + 1)], Epoch(1)).expect("memory");
        if done.end.0 < records {
            log.expose(done.end).expect("durable");
        }
    }
    log.close().expect("memory");
    disk
}

fn segments() -> Vec<Seed> {
    // How to treat the rest, the size of pieces, and where a second segment begins.
    let file = |how: u8, cut: u16, bytes: &[u8]| {
        let [low, high] = cut.to_le_bytes();
        [&[how, 50, low, high], bytes].concat()
    };
    let small = read(&log_of(4), logs::segment(Path::new("log"), 0));
    let mut damaged = small.clone();
    damaged[forge::FILE_HEADER + forge::FRAME_HEADER + 3] ^= 1;
    let torn = &small[..small.len() - 5];
    let second = forge::segment_of_one_frame(4, 2, &[0; 40]);
    let cut = u16::try_from(small.len()).expect("small");
    let two = [&small[..], &second].concat();
    let one_record = &small[forge::FILE_HEADER + forge::FRAME_HEADER..];
    vec![
        ("segment", "four_records", file(0, 0, &small)),
        ("segment", "torn", file(0, 0, torn)),
        ("segment", "damaged", file(0, 0, &damaged)),
        ("segment", "mended", file(1, 0, &damaged)),
        ("segment", "two_segments", file(2 | 3 << 2, cut, &two)),
        ("segment", "two_segments_mended", file(3 | 3 << 2, cut, &two)),
        ("records", "two", [&[2], one_record].concat()),
        ("records", "none", vec![1]),
    ]
}

fn side_files() -> Vec<Seed> {
    let log = log_of(12);
    let file = |kind: u8, bytes: &[u8]| [&[kind, 1], &bytes[SHELL..]].concat();
    let whole = |kind: u8, bytes: &[u8]| [&[kind, 0], bytes].concat();

    let position = Position { committed: Some(Offset(4)), acked_ahead: vec![Offset(6), Offset(8)] };
    let opened = SegmentLog::open(Arc::new(log.clone()), Path::new("log"), logs::LIMITS);
    opened.expect("just written").set_position(position.clone()).expect("below the end");

    let disk = MemDisk::new();
    let store = SegmentStore::new(Arc::new(disk.clone()), logs::LIMITS).expect("memory");
    let segment = forge::segment_of_one_frame(0, 1, &[0; 20]);
    let manifest = |extents: Vec<Staged>| Manifest {
        partition: P,
        move_id: MoveId(7),
        source: NodeId(1),
        source_incarnation: Incarnation(1),
        generation: LogGeneration(1),
        epoch: Epoch(1),
        start: Offset(0),
        hwm: Offset(1),
        position: position.clone(),
        extents,
        attempt: Some(Attempt::birth(NodeId(1))),
    };
    store.checkpoint(&manifest(Vec::new())).expect("memory");
    let staged = store.stage_at(P, Offset(0), 0, &segment).expect("memory");
    assert_eq!(staged.bytes, ByteCount(segment.len() as u64));
    store.checkpoint(&manifest(vec![staged])).expect("memory");
    let staging = read(&disk, "partitions/7/2/staging/manifest");
    let sidecar = Sidecar { start: Offset(0), hwm: Offset(1), position: position.clone() };
    let attempt = Attempt::birth(NodeId(1));
    store.install(attempt, &sidecar, &manifest(vec![staged])).expect("memory");
    let installed = format!("partitions/7/2/{attempt}/sidecar");

    let name = Name::new("narad-1").expect("allowed");
    let mut identity = Identity::open(&MemDisk::new(), &name, || Ok(StoreUuid(9))).expect("empty");
    let whose = MemDisk::new();
    identity.join(&whose, 5, NodeId(3)).expect("memory");
    identity::next_incarnation(&whose).expect("memory");
    vec![
        ("side_files", "segments", file(0, &read(&log, "log/segments"))),
        ("side_files", "segments_whole", whole(0, &read(&log, "log/segments"))),
        ("side_files", "sidecar", file(1, &read(&disk, installed))),
        ("side_files", "position", file(2, &read(&log, "log/position"))),
        ("side_files", "generation", file(3, &read(&log, "log/generation"))),
        ("side_files", "manifest", file(4, &staging)),
        ("side_files", "manifest_whole", whole(4, &staging)),
        ("side_files", "identity", file(5, &read(&whose, "identity"))),
        ("side_files", "incarnation", file(6, &read(&whose, "incarnation"))),
    ]
}
