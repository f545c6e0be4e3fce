//! Crashes at every step of a log's life.

use std::path::Path;

use narad_core::ids::{ByteCount, Offset};
use narad_core::partition::Position;
use narad_runtime::disk::mem::{Keep, Step};
use narad_runtime::disk::{Disk as _, MemDisk};
use narad_runtime::log::{LogError, LogLimits, Retention, SegmentLog};
use narad_runtime::store::PartitionLog;
use proptest::prelude::*;

use crate::world::{DIR, E1, SMALL, batch, dyn_disk, fill, filled, open, record, visible};

/// What a client was told before the power went off.
#[derive(Debug, Default)]
struct Told {
    /// Records below this offset were acknowledged.
    acked: u64,
    committed: Option<Offset>,
    start: Offset,
}

/// Appends until the power goes off; every batch of the run is told apart by its offsets.
fn live(disk: &MemDisk, told: &mut Told) -> Result<(), LogError> {
    SegmentLog::create(disk, Path::new(DIR), Offset(0))?;
    let log = SegmentLog::open(dyn_disk(disk), Path::new(DIR), SMALL)?;
    log.expose_all(E1)?;
    for size in [1, 3, 2, 4, 1, 2] {
        let first = log.bounds().end.0;
        let done = log.append(&batch(first, size), E1)?;
        log.expose(done.end)?;
        told.acked = done.end.0;
        if first == 6 {
            log.set_position(Position { committed: Some(Offset(5)), acked_ahead: Vec::new() })?;
            told.committed = Some(Offset(5));
            let keep = Retention { bytes_max: Some(ByteCount(600)), age_ms_max: None };
            told.start = log.retain(&keep, 0)?.start;
        }
    }
    Ok(())
}

fn check_after_crash(disk: &MemDisk, told: &Told, context: &str) {
    if told.acked == 0 {
        // Nothing was promised; a creation that was cut short is repeated.
        SegmentLog::create(disk, Path::new(DIR), Offset(0)).expect("repeatable");
    }
    let log = open(disk);
    log.expose_all(E1).expect("the disk works again");
    let bounds = log.bounds();
    assert!(bounds.end.0 >= told.acked, "{context}: {told:?} {bounds:?}");
    assert!(bounds.start >= told.start && bounds.start.0 <= told.acked.max(1), "{context}");
    let records = visible(&log);
    for (offset, found) in &records {
        assert_eq!(*found, record(offset.0), "{context}");
    }
    let whole: Vec<u64> = (bounds.start.0..bounds.end.0).collect();
    assert_eq!(records.iter().map(|(o, _)| o.0).collect::<Vec<_>>(), whole, "{context}");
    assert!(log.position().committed >= told.committed, "{context}");
    assert_eq!(log.recovery().damage, [], "{context}");

    // What was shown after the first recovery stays, whatever the next crash takes.
    disk.crash(Keep::Nothing);
    let log = open(disk);
    assert_eq!(log.bounds().end, bounds.end, "{context}");
    assert_eq!(log.bounds().hwm, bounds.hwm, "{context}");
    fill(&log, bounds.end.0 + 2, bounds.end.0 + 2);
    assert_eq!(visible(&log).len() as u64, bounds.end.0 + 2 - bounds.start.0, "{context}");
}

/// R2, H16, H17, H42, `case_051`: whatever step the power fails at and whatever of the unsynced
/// bytes and names survives, every acknowledged record is there with its own content.
#[test]
fn every_acknowledged_record_survives_a_crash_after_any_step() {
    let disk = MemDisk::new();
    live(&disk, &mut Told::default()).expect("nothing fails");
    let steps = disk.steps();
    assert!(steps > 50, "the run is long enough to mean something: {steps}");
    let keeps = [Keep::Nothing, Keep::Everything, Keep::First(1), Keep::First(4)];
    let keeps = keeps.into_iter().chain((0..6).map(Keep::Seeded));
    for keep in keeps {
        for step in 0..=steps {
            let disk = MemDisk::new();
            disk.set_sector(16);
            disk.stop_after(step);
            let mut told = Told::default();
            let _ = live(&disk, &mut told);
            disk.crash(keep);
            check_after_crash(&disk, &told, &format!("{keep:?} after step {step}"));
        }
    }
}

/// H16: an append of several frames may lose any of its sectors; what is cut was never
/// acknowledged, and what precedes it stays.
#[test]
fn a_torn_append_of_many_frames_is_cut_to_whole_frames() {
    for seed in 0..12 {
        let disk = MemDisk::new();
        disk.set_sector(4096);
        SegmentLog::create(&disk, Path::new(DIR), Offset(0)).expect("fresh");
        let limits = LogLimits::default();
        let log = SegmentLog::open(dyn_disk(&disk), Path::new(DIR), limits).expect("opens");
        log.append(&batch(0, 3), E1).expect("space is left");
        let mut large = batch(3, 12);
        for record in &mut large {
            record.value = vec![7; 100_000].into();
        }
        // The write is done, its sync is not.
        disk.stop_after(1);
        log.append(&large, E1).expect_err("the power is off");
        disk.crash(Keep::Seeded(seed));
        let log = SegmentLog::open(dyn_disk(&disk), Path::new(DIR), limits).expect("opens");
        let end = log.expose_all(E1).expect("works").0;
        assert!((3..15).contains(&end), "{end}");
        let read = log.read(Offset(0), 1 << 30).expect("whole frames only");
        assert_eq!(read.len() as u64, end);
        assert!(read.iter().skip(3).all(|(o, r)| *r == large[usize::try_from(o.0).unwrap() - 3]));
    }
}

/// H17: after a failed sync nothing is appended, and what the page cache still shows becomes durable
/// before anybody may see it.
#[test]
fn a_failed_sync_poisons_the_log_until_it_is_opened_again() {
    let disk = MemDisk::new();
    let log = filled(&disk, 2, 2);
    disk.fail(Step::Sync, 0);
    assert!(matches!(log.append(&[record(2)], E1), Err(LogError::Disk(_))));
    // The next sync would succeed, and prove nothing.
    assert!(matches!(log.append(&[record(2)], E1), Err(LogError::Poisoned { .. })));
    assert!(matches!(log.expose_all(E1), Err(LogError::Poisoned { .. })));
    assert_eq!(visible(&log).len(), 2);

    let log = open(&disk);
    let end = log.expose_all(E1).expect("open again");
    assert_eq!(end, Offset(3), "the page cache still has it");
    disk.crash(Keep::Nothing);
    let log = open(&disk);
    assert_eq!(log.bounds().hwm, end);
    assert_eq!(visible(&log)[2].1, record(2));
}

/// H17: a failed write poisons as well.
#[test]
fn a_failed_write_poisons_the_log() {
    let disk = MemDisk::new();
    let log = filled(&disk, 2, 2);
    disk.fail(Step::Write, 0);
    assert!(matches!(log.append(&[record(2)], E1), Err(LogError::Disk(_))));
    assert!(matches!(log.append(&[record(2)], E1), Err(LogError::Poisoned { .. })));
}

/// `case_052`: a full disk is a clean refusal; the log reads on, and goes on once there is space.
#[test]
fn a_full_disk_refuses_and_leaves_nothing_behind() {
    for room in 0..400 {
        let disk = MemDisk::new();
        let log = filled(&disk, 2, 2);
        disk.set_quota(Some(disk_bytes(&disk) + room));
        let Err(refused) = log.append(&batch(2, 5), E1) else { continue };
        assert!(refused.is_full(), "{refused}");
        assert_eq!(visible(&log).len(), 2);
        disk.set_quota(None);
        // A shorter append: nothing of the refused one may stand behind it.
        log.append(&[record(2)], E1).expect("space is back, no opening is needed");
        disk.crash(Keep::Everything);
        let log = open(&disk);
        assert_eq!(log.expose_all(E1).expect("works"), Offset(3));
        assert_eq!(visible(&log)[2].1, record(2));
    }
}

fn disk_bytes(disk: &MemDisk) -> u64 {
    let entries = disk.list(Path::new(DIR)).expect("listed");
    let bytes = entries.iter().map(|entry| {
        let path = Path::new(DIR).join(&entry.name);
        disk.metadata(&path).expect("known").expect("listed").bytes
    });
    bytes.sum()
}

/// A roll that finds the disk full leaves the old segment growing, and no second one beside it.
#[test]
fn a_full_disk_in_the_middle_of_a_roll_leaves_one_growing_segment() {
    let mut refused = 0;
    for room in 0..300 {
        let disk = MemDisk::new();
        let log = filled(&disk, 2, 2);
        disk.set_quota(Some(disk_bytes(&disk) + room));
        while log.append(&batch(log.bounds().end.0, 1), E1).is_ok() {}
        let end = log.bounds().end;
        disk.set_quota(None);
        // A small control frame fits where the record did not.
        log.expose_all(E1).expect("space is back");
        fill(&log, end.0 + 4, end.0 + 4);
        disk.crash(Keep::Nothing);
        let log = open(&disk);
        assert_eq!(log.bounds().end, Offset(end.0 + 4));
        assert_eq!(log.recovery().damage, []);
        refused += 1;
    }
    assert_eq!(refused, 300);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// R2, R41: any mixture of appends, exposures and crashes; nothing that was acknowledged goes,
    /// nothing that was shown changes, nothing hidden is shown by a crash.
    #[test]
    fn a_log_survives_any_history(
        history in proptest::collection::vec((1..5_u64, any::<bool>(), any::<u8>()), 1..20),
        seed in any::<u64>(),
    ) {
        let disk = MemDisk::new();
        disk.set_sector(32);
        let mut log = filled(&disk, 0, 0);
        let mut exposed = 0;
        for (at, (count, expose, crash)) in history.into_iter().enumerate() {
            let first = log.bounds().end.0;
            if crash < 60 {
                disk.stop_after(u64::from(crash % 4));
                let torn = log.append(&batch(first, count), E1).is_err();
                disk.crash(Keep::Seeded(seed ^ at as u64));
                log = open(&disk);
                let bounds = log.bounds();
                prop_assert!(bounds.hwm.0 <= exposed, "hidden records stay hidden");
                let kept = if torn { first } else { first + count };
                prop_assert!(bounds.end.0 >= kept);
                exposed = log.expose_all(E1).unwrap().0;
            } else {
                let done = log.append(&batch(first, count), E1).unwrap();
                if expose {
                    log.expose(done.end).unwrap();
                    exposed = done.end.0;
                }
            }
            for (offset, found) in visible(&log) {
                prop_assert_eq!(found, record(offset.0));
            }
        }
    }
}
