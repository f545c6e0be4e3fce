//! Whatever a segment file holds: the log opens or says why not, cuts nothing twice, reads around
//! what is damaged and goes on; and a copy of the same bytes that passes as verified is a log.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;
use std::sync::Arc;

use narad_core::ids::{Attempt, AttemptNo, Epoch, Incarnation, LogGeneration, MoveId, NodeId};
use narad_core::ids::{Offset, PartitionId, TopicId};
use narad_core::partition::{Boundary, Manifest, Position, Sidecar};
use narad_fuzz::{forge, logs};
use narad_runtime::disk::MemDisk;
use narad_runtime::store::{PartitionStore, SegmentStore};

narad_fuzz::target!("segment", |input| {
    let Some((&[how, piece, cut_low, cut_high], bytes)) = input.split_first_chunk() else { return };
    let mut segments = vec![(0, bytes.to_vec())];
    if how & 2 != 0 {
        let cut = usize::from(u16::from_le_bytes([cut_low, cut_high])).min(bytes.len());
        let second = 1 + u64::from(how >> 2);
        segments = vec![(0, bytes[..cut].to_vec()), (second, bytes[cut..].to_vec())];
    }
    if how & 1 != 0 {
        for (base, bytes) in &mut segments {
            forge::mend_segment(*base, bytes);
        }
    }
    let disk = MemDisk::new();
    for (base, bytes) in &segments {
        logs::put(&disk, &logs::segment(Path::new("log"), *base), bytes).expect("memory");
    }
    logs::survives(&disk, Path::new("log"));
    copy(&segments, 1 + usize::from(piece));
});

/// Stages the segments as if a source had listed them, in pieces; what verifies must open.
fn copy(segments: &[(u64, Vec<u8>)], piece: usize) {
    let partition = PartitionId { topic: TopicId(7), index: 2 };
    let store = SegmentStore::new(Arc::new(MemDisk::new()), logs::LIMITS).expect("memory");
    let mut manifest = Manifest {
        partition,
        move_id: MoveId(7),
        source: NodeId(1),
        source_incarnation: Incarnation(1),
        generation: LogGeneration(1),
        epoch: Epoch(1),
        start: Offset(0),
        hwm: Offset(0),
        position: Position::default(),
        extents: Vec::new(),
        attempt: None,
    };
    store.checkpoint(&manifest).expect("memory");
    for (base, bytes) in segments {
        let mut writer = store.stage_writer(partition, Offset(*base), 0).expect("nobody else");
        bytes.chunks(piece).for_each(|piece| writer.write(piece).expect("memory"));
        let staged = writer.finish();
        assert_eq!(staged.bytes.0, bytes.len() as u64);
        manifest.extents.push(staged);
    }
    store.checkpoint(&manifest).expect("memory");
    let boundary = Boundary { start: Offset(0), end: Offset(0), hwm: Offset(0), digest: None };
    let Ok(verified) = store.verify(partition, &boundary) else { return };
    let no = AttemptNo { incarnation: Incarnation(1), n: 0 };
    let attempt = Attempt { move_id: MoveId(7), destination: NodeId(2), no };
    let sidecar = Sidecar { start: Offset(0), hwm: Offset(0), position: Position::default() };
    store.install(attempt, &sidecar, &manifest).expect("memory");
    let log = store.open(partition, attempt).expect("it was verified");
    assert_eq!(log.bounds().end, verified.end, "a log is what the copy was verified as");
}
