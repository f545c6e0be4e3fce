//! Reading, damage, retention, positions.

use std::path::Path;
use std::sync::Arc;

use narad_core::ids::{ByteCount, Epoch, Incarnation, LogGeneration, Offset};
use narad_core::partition::{Checksum, Position, Staged};
use narad_runtime::disk::mem::{Keep, Step};
use narad_runtime::disk::{Disk as _, MemDisk, Open, read_whole};
use narad_runtime::log::{FormatError, LogError, LogLimits, Record, Retention, SegmentLog};
use narad_runtime::store::PartitionLog;
use proptest::prelude::*;

use crate::world::{
    DIR, E1, SMALL, batch, dyn_disk, fill, filled, list, open, record, segment, visible,
};

const ALL_AGED: Retention = Retention { bytes_max: None, age_ms_max: Some(1000) };

fn default_log(disk: &MemDisk) -> SegmentLog {
    SegmentLog::create(disk, Path::new(DIR), Offset(0)).expect("fresh");
    SegmentLog::open(dyn_disk(disk), Path::new(DIR), LogLimits::default()).expect("opens")
}

/// R41, S4, `case_043`: what was never exposed is not shown, neither before nor after a restart, and
/// its offsets are not given again.
#[test]
fn hidden_records_stay_hidden_until_a_commit_passes_them() {
    let disk = MemDisk::new();
    let log = filled(&disk, 3, 5);
    assert_eq!(visible(&log).len(), 3);
    assert!(matches!(log.read(Offset(4), 1), Err(LogError::AheadOfHwm { hwm: Offset(3), .. })));
    assert_eq!(log.read_durable(Offset(3), 1 << 20).expect("salvage sees them").len(), 2);
    drop(log);
    let log = open(&disk);
    assert_eq!(log.bounds().hwm, Offset(3));
    fill(&log, 6, 6);
    assert_eq!(visible(&log).len(), 6);
    assert!(matches!(log.expose(Offset(7)), Err(LogError::AheadOfHwm { .. })));
}

/// H42: the high watermark reaches the disk with the next frame, or by itself on a quiet partition.
#[test]
fn a_control_frame_makes_the_high_watermark_durable() {
    let disk = MemDisk::new();
    let log = filled(&disk, 5, 5);
    log.persist_hwm(E1).expect("works");
    disk.crash(Keep::Nothing);
    assert_eq!(open(&disk).bounds().hwm, Offset(5));
}

/// An owner of a past reign cannot write any more.
#[test]
fn an_epoch_never_goes_back() {
    let disk = MemDisk::new();
    let log = filled(&disk, 0, 0);
    log.expose_all(Epoch(4)).expect("works");
    let refused = log.append(&[record(0)], Epoch(3));
    assert!(matches!(refused, Err(LogError::StaleEpoch { given: Epoch(3), log: Epoch(4) })));
    drop(log);
    assert_eq!(open(&disk).bounds().epoch, Epoch(4));
}

/// A log of many anchors and frames gives every offset, wherever a reader begins.
#[test]
fn a_reader_may_begin_anywhere() {
    let disk = MemDisk::new();
    let log = default_log(&disk);
    let wide = |n: u64| Record { value: vec![b'x'; 3000].into(), ..record(n) };
    for first in (0..400).step_by(20) {
        log.append(&(first..first + 20).map(wide).collect::<Vec<_>>(), E1).expect("space");
    }
    log.expose_all(E1).expect("works");
    let reopened =
        SegmentLog::open(dyn_disk(&disk), Path::new(DIR), LogLimits::default()).expect("opens");
    for log in [&log, &reopened] {
        for from in (0..400).rev().step_by(7) {
            let read = log.read(Offset(from), 10_000).expect("whole");
            assert_eq!(read[0], (Offset(from), wide(from)));
            assert!(read.len() <= 4);
        }
        assert_eq!(log.read(Offset(0), usize::MAX).expect("whole").len(), 400);
        assert_eq!(log.read(Offset(400), 1).expect("at the end"), []);
    }
}

/// A record above the limit is refused by a typed error, and the log goes on.
#[test]
fn a_record_above_the_limit_is_refused() {
    let disk = MemDisk::new();
    let log = default_log(&disk);
    let large = Record { value: vec![0; 5 << 20].into(), ..Record::default() };
    let refused = log.append(&[record(0), large], E1);
    assert!(
        matches!(refused, Err(LogError::RecordTooLarge { bytes_max, .. }) if bytes_max == 4 << 20)
    );
    assert!(matches!(log.append(&[], E1), Err(LogError::EmptyAppend)));
    assert_eq!(log.append(&[record(0)], E1).expect("fine").first, Offset(0));
}

/// `case_048`: damage in front of a later append was durable once: it is reported and stays, and a
/// reader can go on behind it.
#[test]
fn damage_before_a_later_append_is_reported_and_not_cut() {
    // Bytes 24.. are frames of 52 + payload; hit a header and a payload of the second frame.
    for (name, inside) in [("header", 3), ("length", 9), ("payload", 70)] {
        let disk = MemDisk::new();
        let log = default_log(&disk);
        fill(&log, 4, 4);
        let second = 24 + 52 + record(0).encoded_bytes();
        disk.rot(&segment(Path::new(DIR), 0), second + inside, 0x10);
        let log =
            SegmentLog::open(dyn_disk(&disk), Path::new(DIR), LogLimits::default()).expect("opens");
        let recovery = log.recovery();
        assert_eq!(recovery.cut_bytes, 0, "{name}");
        assert_eq!(recovery.damage.len(), 1, "{name}: {recovery:?}");
        assert_eq!(recovery.damage[0].offset, Offset(1), "{name}");
        assert_eq!(recovery.damage[0].position, second as u64, "{name}");
        log.expose_all(E1).expect("works");
        assert_eq!(log.bounds().end, Offset(4));
        // The good part first, then the error that says where to go on.
        assert_eq!(log.read(Offset(0), 1 << 20).expect("the first is good").len(), 1, "{name}");
        let Err(LogError::Damaged { segment, position, resume }) = log.read(Offset(1), 1) else {
            panic!("{name}: damage was not seen");
        };
        assert_eq!((segment, position, resume), (Offset(0), second as u64, Offset(2)), "{name}");
        assert_eq!(log.read(resume, 1 << 20).expect("good again").len(), 2, "{name}");
    }
}

/// `case_048`, field fault 13: a damaged sealed segment does not keep the log from opening.
#[test]
fn damage_in_a_sealed_segment_does_not_block_opening() {
    let disk = MemDisk::new();
    let log = filled(&disk, 12, 12);
    assert!(list(&log, &[]).extents.len() > 2, "several segments");
    drop(log);
    disk.rot(&segment(Path::new(DIR), 0), 100, 1);
    // With the index the segment is not read again; without it, its damage shows.
    assert!(!open(&disk).recovery().rescanned);
    disk.remove_file(&Path::new(DIR).join("segments")).expect("there");
    let log = open(&disk);
    assert!(log.recovery().rescanned);
    assert_eq!(log.recovery().damage.len(), 1);
    log.expose_all(E1).expect("works");
    let Err(LogError::Damaged { segment: Offset(0), resume, .. }) = log.read(Offset(0), 1) else {
        panic!("damage was not seen");
    };
    assert!(log.read(resume, 1 << 20).expect("good again").len() > 8);
}

/// The `segments` file is only a shortcut: a damaged one costs time, not records.
#[test]
fn a_damaged_index_of_segments_is_rebuilt_by_reading() {
    let disk = MemDisk::new();
    let log = filled(&disk, 12, 12);
    let before = list(&log, &[]);
    log.close().expect("works");
    disk.rot(&Path::new(DIR).join("segments"), 20, 4);
    let log = open(&disk);
    assert!(log.recovery().rescanned && log.recovery().damage.is_empty());
    let after = list(&log, &[]);
    assert_eq!(after.extents, before.extents);
    assert_eq!(after.generation, LogGeneration(2));
}

/// S3, S5: offsets whose records are gone are not given a second time.
#[test]
fn offsets_of_a_lost_segment_are_not_given_again() {
    let disk = MemDisk::new();
    let log = filled(&disk, 12, 12);
    let last = list(&log, &[]).extents.last().expect("some").base;
    log.set_position(Position { committed: Some(Offset(12)), acked_ahead: vec![] }).expect("fine");
    log.close().expect("works");
    disk.remove_file(&segment(Path::new(DIR), last.0)).expect("there");
    let log = open(&disk);
    assert_eq!(log.recovery().damage[0].offset, last);
    assert_eq!(log.append(&[record(12)], E1).expect("works").first, Offset(12));
    let gap = log.read(last, 1);
    assert!(matches!(gap, Err(LogError::Damaged { resume: Offset(12), .. })), "{gap:?}");
}

/// S3, H25: a directory without segments is never taken for an empty log.
#[test]
fn an_empty_directory_is_no_log() {
    let disk = MemDisk::new();
    let open = || SegmentLog::open(dyn_disk(&disk), Path::new(DIR), SMALL);
    assert!(open().is_err());
    disk.create_dir_all(Path::new(DIR)).expect("works");
    assert!(matches!(open(), Err(LogError::NoSegments { .. })));
    assert_eq!(disk.list(Path::new(DIR)).expect("there"), []);
}

/// A segment of a newer binary is refused by name, and not cut as a torn one.
#[test]
fn a_newer_segment_is_refused_and_kept() {
    let disk = MemDisk::new();
    drop(filled(&disk, 1, 1));
    let path = segment(Path::new(DIR), 0);
    let file = disk.open(&path, Open::Existing).expect("there");
    let mut header = [0; 24];
    file.read_at(0, &mut header).expect("works");
    header[8] = 9;
    let checksum = crc32c::crc32c(&header[..20]);
    header[20..].copy_from_slice(&checksum.to_le_bytes());
    file.write_at(0, &header).expect("works");
    let length = file.length().expect("works");
    let refused = SegmentLog::open(dyn_disk(&disk), Path::new(DIR), SMALL);
    let Err(LogError::Format { source, .. }) = refused else { panic!("opened") };
    assert_eq!(source, FormatError::Version { found: 9, known: 1 });
    assert_eq!(file.length().expect("works"), length);
}

/// The index of a newer binary is refused too, since its segments may be of a newer kind.
#[test]
fn a_newer_index_is_refused() {
    let disk = MemDisk::new();
    drop(filled(&disk, 12, 12));
    let path = Path::new(DIR).join("segments");
    let mut bytes = read_whole(&disk, &path, 10_000).expect("works").expect("there");
    bytes[4] = 7;
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    disk.open(&path, Open::Existing).expect("there").write_at(0, &bytes).expect("works");
    let refused = SegmentLog::open(dyn_disk(&disk), Path::new(DIR), SMALL);
    let Err(LogError::Format { source, .. }) = refused else { panic!("opened") };
    assert_eq!(source, FormatError::Version { found: 7, known: 1 });
}

/// `case_039`: an aged-out log is an empty segment at its end, and keeps its offsets.
#[test]
fn an_aged_out_log_keeps_its_place() {
    let disk = MemDisk::new();
    let log = filled(&disk, 12, 12);
    let kept = log.retain(&ALL_AGED, 900).expect("works");
    assert_eq!((kept.start, kept.segments), (Offset(0), 0), "nothing is old enough");
    let kept = log.retain(&ALL_AGED, 5000).expect("works");
    assert_eq!(kept.start, Offset(12));
    assert!(kept.bytes > ByteCount(1000));
    drop(log);
    disk.crash(Keep::Nothing);
    let empty = disk.metadata(&segment(Path::new(DIR), 12)).expect("works").expect("durable");
    assert_eq!(empty.bytes, 24, "what is listed of an empty segment is durable");
    let log = open(&disk);
    let bounds = log.bounds();
    assert_eq!((bounds.start, bounds.hwm, bounds.end), (Offset(12), Offset(12), Offset(12)));
    assert!(matches!(log.read(Offset(3), 1), Err(LogError::BelowStart { start: Offset(12), .. })));
    assert!(matches!(log.read_at(Offset(0), 0, &mut [0]), Err(LogError::Gone { base: Offset(0) })));
    assert_eq!(log.append(&[record(12)], E1).expect("works").first, Offset(12));
}

/// `case_041`: age goes by the records, so a copy is not a new life; a timestamp from the future
/// counts as the file's last change.
#[test]
fn age_goes_by_the_records_and_never_by_the_future() {
    let disk = MemDisk::new();
    disk.set_now(10_000);
    let log = filled(&disk, 0, 0);
    let future = Record { timestamp_ms: i64::MAX, ..record(0) };
    log.append(&[future], E1).expect("works");
    log.expose_all(E1).expect("works");
    assert_eq!(log.retain(&ALL_AGED, 10_500).expect("works").start, Offset(0));
    assert_eq!(log.retain(&ALL_AGED, 11_500).expect("works").start, Offset(1));
}

/// Retention never takes a hidden record, nor the growing segment for its size.
#[test]
fn retention_spares_hidden_records() {
    let disk = MemDisk::new();
    let log = filled(&disk, 2, 12);
    let keep = Retention { bytes_max: Some(ByteCount(0)), age_ms_max: Some(1) };
    let start = log.retain(&keep, i64::MAX).expect("works").start;
    assert!(start <= Offset(2), "{start:?}");
    log.expose_all(E1).expect("works");
    assert!(log.retain(&keep, i64::MAX).expect("works").start == Offset(12));
}

/// A retention that was cut short leaves either start, and no hole.
#[test]
fn retention_may_be_cut_short_anywhere() {
    let keep = Retention { bytes_max: Some(ByteCount(500)), age_ms_max: None };
    for seed in 0..4 {
        for step in 0.. {
            let disk = MemDisk::new();
            let log = filled(&disk, 12, 12);
            disk.stop_after(step);
            let done = log.retain(&keep, 0);
            disk.crash(Keep::Seeded(seed));
            let log = open(&disk);
            log.expose_all(E1).expect("works");
            assert_eq!(log.recovery().damage, [], "seed {seed} step {step}");
            let bounds = log.bounds();
            assert_eq!(visible(&log).len() as u64, 12 - bounds.start.0);
            let files = disk.list(Path::new(DIR)).expect("works");
            let files = files.iter().filter(|entry| entry.name.contains(".seg")).count();
            assert_eq!(files, list(&log, &[]).extents.len(), "no left-over keeps its space");
            if let Ok(done) = done {
                assert_eq!(bounds.start, done.start);
                break;
            }
        }
    }
}

/// H16: what is listed is durable, and a prefix is compared byte by byte.
#[test]
fn a_listing_agrees_to_the_same_prefix_only() {
    let disk = MemDisk::new();
    let log = filled(&disk, 12, 12);
    let extent = list(&log, &[]).extents[0];
    let mut bytes = vec![0; 1000];
    let length = log.read_at(extent.base, 0, &mut bytes).expect("works");
    assert_eq!(length as u64, extent.bytes.0);
    let staged = |length: usize, checksum: u32| Staged {
        base: extent.base,
        bytes: ByteCount(length as u64),
        checksum: Checksum(checksum),
    };
    let agrees = |staged: Staged| !list(&log, &[staged]).agreed.is_empty();
    assert!(agrees(staged(length, crc32c::crc32c(&bytes[..length]))));
    assert!(agrees(staged(100, crc32c::crc32c(&bytes[..100]))));
    assert!(agrees(staged(0, 0)));
    assert!(!agrees(staged(100, crc32c::crc32c(&bytes[..99]))));
    assert!(!agrees(staged(length + 1, crc32c::crc32c(&bytes[..length]))));
    assert!(!agrees(Staged { base: Offset(999), ..staged(0, 0) }));
    assert!(matches!(
        log.read_at(extent.base, extent.bytes.0 + 1, &mut bytes),
        Err(LogError::NotDurable { .. })
    ));
    assert_eq!(log.read_at(extent.base, extent.bytes.0, &mut bytes).expect("the end"), 0);
}

/// H16: only what a sync has covered is listed.
#[test]
fn a_failed_append_is_not_listed() {
    let disk = MemDisk::new();
    let log = filled(&disk, 2, 2);
    let before = log.listing(Incarnation(1), E1, &[]).expect("works");
    disk.fail(Step::Sync, 0);
    log.append(&[record(2)], E1).expect_err("the sync failed");
    assert_eq!(log.listing(Incarnation(1), E1, &[]).expect("works"), before);
    // The bytes can be read, but a prefix of them is nothing that a copy may build on.
    let file = disk.open(&segment(Path::new(DIR), 0), Open::Existing).expect("there");
    let mut bytes = vec![0; 1000];
    let length = file.read_at(0, &mut bytes).expect("works");
    assert!(length as u64 > before.extents[0].bytes.0);
    let checksum = Checksum(crc32c::crc32c(&bytes[..length]));
    let staged = Staged { base: Offset(0), bytes: ByteCount(length as u64), checksum };
    assert_eq!(list(&log, &[staged]).agreed, []);
}

/// R20, `case_064`, `case_071`: "never committed" is not zero, and where consumers stand survives once
/// it is stored, with what is acknowledged ahead.
#[test]
fn consumers_resume_where_they_stood() {
    let disk = MemDisk::new();
    let log = filled(&disk, 8, 10);
    assert_eq!(log.position(), Position::default());
    let ahead = Position { committed: None, acked_ahead: vec![Offset(3)] };
    log.set_position(ahead.clone()).expect("visible");
    disk.crash(Keep::Nothing);
    let log = open(&disk);
    assert_eq!(log.position(), ahead);
    let stands = Position { committed: Some(Offset(2)), acked_ahead: vec![Offset(3)] };
    log.set_position(stands.clone()).expect("visible");
    let past = Position { committed: Some(Offset(9)), acked_ahead: vec![] };
    assert!(matches!(log.set_position(past), Err(LogError::Position { .. })));
    disk.fail(Step::Sync, 0);
    let next = Position { committed: Some(Offset(4)), acked_ahead: vec![] };
    assert!(matches!(log.set_position(next), Err(LogError::Disk(_))));
    assert_eq!(log.position(), stands, "what the disk may not have is not said to be there");
}

/// `case_032`, `case_033`: a handle of an earlier ownership does nothing any more.
#[test]
fn a_closed_log_writes_nothing() {
    let disk = MemDisk::new();
    let log = filled(&disk, 2, 2);
    log.close().expect("works");
    log.close().expect("again");
    let steps = disk.steps();
    assert!(matches!(log.append(&[record(2)], E1), Err(LogError::Closed)));
    assert!(matches!(log.set_position(Position::default()), Err(LogError::Closed)));
    assert!(matches!(log.retain(&ALL_AGED, 0), Err(LogError::Closed)));
    assert_eq!(disk.steps(), steps);
}

/// Readers and the writer share a log; each sees whole records only.
#[test]
fn readers_go_on_while_the_writer_appends() {
    let disk = MemDisk::new();
    let log = Arc::new(filled(&disk, 1, 1));
    std::thread::scope(|scope| {
        scope.spawn(|| fill(&*log, 200, 200));
        scope.spawn(|| {
            while log.bounds().hwm < Offset(200) {
                for (offset, found) in visible(&*log) {
                    assert_eq!(found, record(offset.0));
                }
            }
        });
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Where others have read before decides how far a read walks, never what it finds.
    #[test]
    fn earlier_reads_do_not_change_what_a_read_finds(
        sizes in proptest::collection::vec(1..6_u64, 1..8),
        reads in proptest::collection::vec((0..40_u64, 1..300_usize), 1..20),
        damage in proptest::option::of((any::<prop::sample::Index>(), 1..=255_u8)),
    ) {
        let disk = MemDisk::new();
        let log = filled(&disk, 0, 0);
        for &size in &sizes {
            let done = log.append(&batch(log.bounds().end.0, size), E1).unwrap();
            log.expose(done.end).unwrap();
        }
        let said = |log: &dyn PartitionLog, (from, bytes_max): (u64, usize)| {
            let from = Offset(from.min(log.bounds().end.0));
            format!("{:?}", log.read(from, bytes_max))
        };
        for &read in &reads {
            said(&log, read);
        }
        if let Some((at, mask)) = damage {
            let path = segment(Path::new(DIR), 0);
            let length = disk.metadata(&path).unwrap().expect("the first segment").bytes;
            disk.rot(&path, at.index(usize::try_from(length).unwrap()), mask);
        }
        for &read in &reads {
            // A log that was opened just now remembers nothing, and cuts nothing that is sealed.
            let other = MemDisk::of(&disk.image(Keep::Everything));
            let fresh = SegmentLog::open(dyn_disk(&other), Path::new(DIR), SMALL);
            let Ok(fresh) = fresh else { continue };
            if fresh.bounds() == log.bounds() {
                prop_assert_eq!(said(&log, read), said(&fresh, read));
            }
        }
    }
}
