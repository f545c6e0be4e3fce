//! Whatever the small files beside a log hold, with a right checksum or without: they are content or
//! an error, and what they claim leads to nothing worse.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;
use std::sync::Arc;

use narad_core::ids::{Epoch, Name, Offset, PartitionId, StoreUuid, TopicId};
use narad_fuzz::{forge, logs};
use narad_runtime::disk::MemDisk;
use narad_runtime::log::{Record, SegmentLog};
use narad_runtime::store::identity::{self, Identity};
use narad_runtime::store::{PartitionLog as _, PartitionStore, SegmentStore, What};

narad_fuzz::target!("side_files", |input| {
    let Some((&[kind, mend], body)) = input.split_first_chunk() else { return };
    let bytes = |magic| if mend == 0 { body.to_vec() } else { forge::side_file(magic, body) };
    match kind % 7 {
        0 => beside_log("segments", &bytes(*b"NSEG")),
        1 => beside_log("sidecar", &bytes(*b"NSID")),
        2 => beside_log("position", &bytes(*b"NPOS")),
        3 => beside_log("generation", &bytes(*b"NGEN")),
        4 => manifest(&bytes(*b"NMAN")),
        5 => identity(&bytes(*b"NIDY")),
        _ => incarnation(&bytes(*b"NINC")),
    }
});

/// Puts the file beside a log of several segments.
fn beside_log(name: &str, bytes: &[u8]) {
    let (disk, dir) = (MemDisk::new(), Path::new("log"));
    SegmentLog::create(&disk, dir, Offset(3)).expect("memory");
    let log = SegmentLog::open(Arc::new(disk.clone()), dir, logs::LIMITS).expect("just created");
    for _ in 0..9 {
        let record = Record { value: vec![7; 60].into(), ..Record::default() };
        let done = log.append(&[record], Epoch(2)).expect("memory");
        log.expose(done.end).expect("durable");
    }
    log.close().expect("memory");
    logs::put(&disk, &dir.join(name), bytes).expect("memory");
    logs::survives(&disk, dir);
}

fn manifest(bytes: &[u8]) {
    let partition = PartitionId { topic: TopicId(7), index: 2 };
    let (disk, staging) = (MemDisk::new(), Path::new("partitions/7/2/staging"));
    let segment = forge::segment_of_one_frame(0, 1, &[0; 20]);
    logs::put(&disk, &logs::segment(staging, 0), &segment).expect("memory");
    logs::put(&disk, &staging.join("manifest"), bytes).expect("memory");
    let store = SegmentStore::new(Arc::new(disk), logs::LIMITS).expect("memory");
    let found = store.recover().expect("one unreadable file is a problem, not an error");
    let recovered = store.inspect(partition).expect("memory");
    assert!(found.partitions.iter().all(|(p, found)| *p == partition && *found == recovered));
    if let Some(manifest) = recovered.staging {
        assert!(manifest.extents.is_sorted_by(|a, b| a.base < b.base));
        let _ = store.staged(partition);
        let _ = store.vouch(partition);
        let _ = store.checkpoint(&manifest);
        if let Ok(mut writer) = store.stage_writer(partition, Offset(0), 0) {
            let _ = writer.write(&segment);
        }
        let _ = store.trim_staging(partition, &manifest.extents);
    }
    store.set_aside(partition, What::Staging, 5).expect("whatever it is, it can be set aside");
    assert_eq!(store.trash().expect("memory").len(), 1);
}

fn identity(bytes: &[u8]) {
    let disk = MemDisk::new();
    logs::put(&disk, Path::new("identity"), bytes).expect("memory");
    let name = Name::new("narad-1").expect("allowed");
    let draw = || Ok(StoreUuid(1));
    let Ok(found) = Identity::open(&disk, &name, draw) else { return };
    assert_eq!(found.name, name, "a disk of another member is refused");
    assert_eq!(Identity::open(&disk, &name, draw).expect("it was read before"), found);
}

fn incarnation(bytes: &[u8]) {
    let disk = MemDisk::new();
    logs::put(&disk, Path::new("incarnation"), bytes).expect("memory");
    let Ok(first) = identity::next_incarnation(&disk) else { return };
    let second = identity::next_incarnation(&disk);
    assert!(second.is_ok_and(|second| second > first), "each start has a number of its own");
}
