//! Looking at a log without changing it.

use std::path::Path;

use narad_core::ids::{Attempt, ByteCount, NodeId, Offset};
use narad_core::partition::Position;
use narad_runtime::disk::mem::Keep;
use narad_runtime::disk::{Disk as _, MemDisk};
use narad_runtime::log::{LogError, Retention, Scan, SegmentLog, scan};
use narad_runtime::store::{PartitionLog, PartitionStore as _, log_dir, staging_dir};
use proptest::prelude::*;

use crate::world::{
    DIR, E1, P, SMALL, batch, dyn_disk, filled, list, new_store, open, pull, record, segment,
    source,
};

fn look(disk: &MemDisk) -> Scan {
    let steps = disk.steps();
    let found = scan(disk, Path::new(DIR)).expect("readable");
    assert_eq!(disk.steps(), steps, "looking changes nothing");
    found
}

/// Compares what was found with what opening the log finds.
fn assert_agrees(found: &Scan, log: &SegmentLog) {
    let bounds = log.bounds();
    assert_eq!((found.start, found.hwm, found.end), (bounds.start, bounds.hwm, bounds.end));
    assert_eq!((found.epoch, &found.position), (bounds.epoch, &log.position()));
    assert_eq!(found.torn_bytes, log.recovery().cut_bytes);
    let readable = |offset: Offset| {
        let read = log.read_durable(offset, 1);
        read.ok().and_then(|read| read.into_iter().next())
    };
    let read: Vec<_> = (bounds.start.0..bounds.end.0).map(Offset).filter_map(readable).collect();
    assert_eq!(found.records, read);
}

#[test]
fn hidden_and_visible_records_are_found_and_told_apart() {
    let disk = MemDisk::new();
    let log = filled(&disk, 5, 9);
    log.set_position(Position { committed: Some(Offset(3)), acked_ahead: Vec::new() }).unwrap();
    let found = look(&disk);
    assert_eq!((found.start, found.hwm, found.end), (Offset(0), Offset(5), Offset(9)));
    assert_eq!(found.position.committed, Some(Offset(3)));
    let expected: Vec<_> = (0..9).map(|n| (Offset(n), record(n))).collect();
    assert_eq!(found.records, expected);
    assert_eq!((found.damage.len(), found.torn_bytes), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After any crash, and with any byte of the disk damaged, it says what opening then finds.
    #[test]
    fn it_says_what_opening_finds(
        sizes in proptest::collection::vec(1..5_u64, 1..9),
        (steps, seed) in (0..80_u64, any::<u64>()),
        retained in proptest::option::of(300..1500_u64),
    ) {
        let disk = MemDisk::new();
        SegmentLog::create(&disk, Path::new(DIR), Offset(0)).unwrap();
        disk.stop_after(steps + 8);
        let live = || -> Result<(), LogError> {
            let log = SegmentLog::open(dyn_disk(&disk), Path::new(DIR), SMALL)?;
            for &size in &sizes {
                let done = log.append(&batch(log.bounds().end.0, size), E1)?;
                log.expose(done.end)?;
            }
            let keep = Retention { bytes_max: retained.map(ByteCount), age_ms_max: None };
            log.retain(&keep, 0).map(|_| ())
        };
        // The power may go off before the end.
        drop(live());
        disk.crash(Keep::Seeded(seed));
        let found = look(&disk);
        assert_agrees(&found, &open(&disk));
    }

    #[test]
    fn damage_costs_the_records_it_hits(at in 0..2_000_usize, mask in 1..=255_u8) {
        let disk = MemDisk::new();
        drop(filled(&disk, 12, 12));
        let paths: Vec<_> = disk.list(Path::new(DIR)).unwrap();
        let segments: Vec<_> = paths.iter().filter(|entry| entry.name.starts_with("0000")).collect();
        let path = Path::new(DIR).join(&segments[at % (segments.len() - 1)].name);
        let bytes = disk.metadata(&path).unwrap().expect("listed").bytes;
        disk.rot(&path, at % usize::try_from(bytes).unwrap(), mask);
        let found = look(&disk);
        prop_assert!(!found.damage.is_empty());
        for (offset, found) in &found.records {
            prop_assert_eq!(found, &record(offset.0));
        }
        prop_assert!(found.records.len() >= 8, "{}", found.records.len());
        prop_assert_eq!((found.start, found.end), (Offset(0), Offset(12)));
    }
}

#[test]
fn a_copy_that_grows_can_be_looked_at() {
    let (disk, _store, log) = source(6, 9);
    let original = scan(&disk, &log_dir(P, Attempt::birth(NodeId(1)))).unwrap();
    let disk = MemDisk::new();
    let store = new_store(&disk);
    let mut listing = list(&*log, &[]);
    let rest = listing.extents.split_off(1);
    pull(&*log, &store, &listing, 50).unwrap();
    let found = scan(&disk, &staging_dir(P)).unwrap();
    assert_eq!(found.end, rest[0].base);
    assert_eq!(found.records, original.records[..found.records.len()]);
    assert_eq!(found.records.last().map(|(offset, _)| offset.next()), Some(rest[0].base));

    // The next extent has come half.
    let half = rest[0].bytes.0 / 2;
    let mut bytes = vec![0; usize::try_from(half).unwrap()];
    log.read_at(rest[0].base, 0, &mut bytes).unwrap();
    let mut writer = store.stage_writer(P, rest[0].base, 0).unwrap();
    writer.write(&bytes).unwrap();
    drop(writer);
    let found = scan(&disk, &staging_dir(P)).unwrap();
    assert!(found.torn_bytes > 0 && found.end >= rest[0].base, "{found:?}");
}

#[test]
fn a_directory_without_segments_is_no_log() {
    let disk = MemDisk::new();
    drop(filled(&disk, 1, 1));
    disk.remove_file(&segment(Path::new(DIR), 0)).unwrap();
    let found = scan(&disk, Path::new(DIR));
    assert!(matches!(found, Err(LogError::NoSegments { .. })), "{found:?}");
}
