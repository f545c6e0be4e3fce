//! Disks that fail, are full, or have lost something.

use super::*;
use crate::disk::mem::{Fault, Keep, Step};

/// H17: after a failed sync nothing is accepted, the sync is not repeated, and what waits can still be
/// read and let go of. Opened again, the log goes on.
#[test]
fn a_failed_sync_refuses_until_the_log_is_opened_again() {
    let disk = MemDisk::new();
    let (log, told) = filled(&disk, 1);
    disk.fail(Step::Sync, 0);
    let failed = log.append(parcels(1..3)).expect_err("the sync failed");
    assert!(failed.is_retryable() && failed.needs_reopening(), "{failed}");
    let syncs = disk.steps_of(Step::Sync);
    let refused = log.append(parcels(1..3)).expect_err("poisoned");
    assert!(refused.is_retryable() && refused.needs_reopening(), "{refused}");
    assert_eq!(disk.steps_of(Step::Sync), syncs, "a sync that succeeds would prove nothing");
    assert_eq!(read_all(&log, &seqs(0..1)).len(), 1);
    log.checkpoint(Seq(1)).expect("another file");
    assert_eq!(lock(&told).len(), 1, "nobody hears of what is not durable");

    assert!(log.reopen().expect("the disk works again"));
    assert!(!log.reopen().expect("once is enough"));
    // The page cache still had it: it is durable now, and the dispatcher knows.
    let seqs_told: Vec<Seq> = lock(&told).iter().map(|waybill| waybill.seq).collect();
    assert_eq!(seqs_told, seqs(0..3));
    assert_eq!(log.append(parcels([3])).expect("it accepts").first, Seq(3));
    disk.crash(Keep::Nothing);
    let (log, found, _) = open(&disk);
    assert_eq!((found.checkpoint, found.next), (Seq(1), Seq(4)));
    let read: Vec<Parcel> =
        read_all(&log, &seqs(1..4)).into_iter().map(|(_, parcel)| parcel).collect();
    assert_eq!(read, parcels(1..4));
}

/// H17: the same for every step of an append that may fail, a roll to the next segment included. No
/// position is given twice, whatever failed.
#[test]
fn whatever_step_of_an_append_fails_nothing_acknowledged_is_lost() {
    let mut failures = 0;
    for step in [Step::Write, Step::Sync, Step::Create, Step::Rename, Step::SyncDir, Step::SetLen] {
        for skip in 0..12 {
            let disk = MemDisk::new();
            let (log, told) = filled(&disk, 3);
            let fault = disk.inject(Fault::new(step).after(skip));
            let mut answered = seqs(0..3);
            let mut number = 3;
            while number < 12 {
                match log.append(parcels([number])) {
                    Ok(done) => answered.push(done.first),
                    Err(error) => {
                        failures += 1;
                        assert!(error.is_retryable() && error.needs_reopening(), "{error}");
                        assert!(log.reopen().expect("it failed once"));
                    }
                }
                number += 1;
            }
            disk.clear(fault);
            assert!(answered.is_sorted_by(|a, b| a < b), "{answered:?}");
            let told: Vec<Seq> = lock(&told).iter().map(|waybill| waybill.seq).collect();
            assert_eq!(told, seqs(0..log.next().0), "in order, without a gap");
            disk.crash(Keep::Nothing);
            let (log, found, _) = open(&disk);
            assert!(found.next >= *answered.last().expect("some"));
            assert_eq!(read_all(&log, &answered).len(), answered.len());
        }
    }
    assert!(failures > 20, "the faults were met: {failures}");
}

/// A disk that goes on failing: reading and checkpoints go on, reopening is tried again.
#[test]
fn reopening_is_tried_again_while_the_disk_fails() {
    let disk = MemDisk::new();
    let (log, told) = filled(&disk, 4);
    let fault = disk.inject(Fault::new(Step::Sync).below(DIR).lasting());
    log.append(parcels([4])).expect_err("no sync");
    for _ in 0..3 {
        log.reopen().expect_err("no sync");
        assert_eq!(read_all(&log, &seqs(0..4)).len(), 4);
        assert_eq!(lock(&told).len(), 4);
    }
    disk.clear(fault);
    assert!(log.reopen().expect("it works again"));
    log.append(parcels([5])).expect("it accepts");
}

/// All who shared a write that failed are told so.
#[test]
fn everybody_in_a_write_that_fails_is_told() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 0);
    let tickets = [0, 1, 2].map(|n| log.submit(parcels([n])).expect("room"));
    disk.fail(Step::Sync, 0);
    assert!(log.commit_waiting());
    for ticket in tickets {
        assert!(ticket.wait().expect_err("the sync failed").needs_reopening());
    }
}

/// `case_052`, S1: a log that has filled its disk refuses with a typed error, and is emptied and goes on
/// although nothing else gives any space.
#[test]
fn a_disk_that_the_log_has_filled_is_freed_by_checkpoints() {
    for room in (70_000..72_000).step_by(61) {
        let disk = MemDisk::new();
        disk.set_quota(Some(room));
        let (log, _) = filled(&disk, 0);
        for round in 0..3 {
            let refused = loop {
                match log.append(parcels([log.next().0])) {
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            assert!(refused.is_full() && refused.is_retryable(), "round {round}: {refused}");
            assert!(!refused.needs_reopening(), "{refused}");
            let next = log.next();
            assert!(log.checkpoint(next).expect("the reserve").0 > 0, "round {round} of {room}");
            assert_eq!(log.append(parcels([next.0])).expect("space again").first, next);
        }
        disk.crash(Keep::Nothing);
        assert_eq!(open(&disk).1.waybills.finish().expect("readable"), []);
    }
}

/// A node that starts on the disk that its log has filled can empty it.
#[test]
fn a_log_opens_on_a_full_disk() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 20);
    disk.set_quota(Some(disk.used()));
    log.append(parcels([20])).expect_err("no space");
    disk.crash(Keep::Nothing);
    let (log, found, _) = open(&disk);
    assert_eq!(found.waybills.count(), 20);
    log.checkpoint(Seq(20)).expect("the reserve");
    log.append(parcels([20])).expect("space again");
    assert_eq!(read_all(&log, &[Seq(20)])[0].1, parcel(20));
}

/// H37: that accept was shut outlasts the process, on a full disk too; that it was opened again does so
/// as well.
#[test]
fn a_log_that_was_shut_is_found_shut() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 20);
    assert!(!open(&disk).1.shut);
    disk.set_quota(Some(disk.used()));
    for round in 0..2 {
        log.shut().expect("the reserve");
        log.shut().expect("once more");
        disk.crash(Keep::Nothing);
        assert!(open(&disk).1.shut, "round {round}");
        log.unshut().expect("it takes no space");
        disk.crash(Keep::Nothing);
        let found = open(&disk).1;
        assert!(!found.shut, "round {round}");
        assert_eq!(found.waybills.count(), 20, "it is no part of the log");
    }
    disk.fail(Step::Sync, 0);
    log.shut().expect_err("not durable, and not said to be");
    log.shut().expect("now it is");
    disk.crash(Keep::Nothing);
    assert!(open(&disk).1.shut);
}

/// `case_048`: damage costs the records that it hits, and is reported; it never counts as dispatched.
#[test]
fn damaged_records_are_reported_and_the_others_go_on() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 12);
    let second = bases(&disk)[1];
    log.close().expect("the disk works");
    // In the first payload of the second segment.
    disk.rot(&segment(second), 24 + 52 + 30, 0xff);
    let (log, found, _) = open(&disk);
    let mut waybills = found.waybills;
    let waiting: Vec<Seq> = waybills.by_ref().map(|waybill| waybill.seq).collect();
    assert_eq!(waybills.finish().expect("readable"), vec![Seq(second)..Seq(second + 1)]);
    let left: Vec<Seq> = (0..12).filter(|&n| n != second).map(Seq).collect();
    assert_eq!(waiting, left);

    let read = log.read(seqs(0..12), usize::MAX).expect("readable");
    assert_eq!(read.lost, [Seq(second)]);
    assert_eq!(read.parcels.len(), 11);
    let refused = log.carry(seqs(second - 1..second + 2)).expect_err("one is damaged");
    assert!(matches!(refused, IngressError::Damaged { seq } if seq.0 == second), "{refused}");
    assert_eq!(log.next(), Seq(12), "all or nothing");
}

/// `case_161`: a beginning that is gone is reported as lost, and the log goes on behind it.
#[test]
fn a_checkpoint_before_the_first_segment_is_clamped_and_reported() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 12);
    log.checkpoint(Seq(1)).expect("the disk works");
    log.close().expect("the disk works");
    let second = bases(&disk)[1];
    disk.remove_file(&segment(0)).expect("it is there");
    let mut waybills = open(&disk).1.waybills;
    let waiting: Vec<Seq> = waybills.by_ref().map(|waybill| waybill.seq).collect();
    assert_eq!(waiting, seqs(second..12));
    assert_eq!(waybills.finish().expect("readable"), vec![Seq(1)..Seq(second)]);
}

/// R53: without a checkpoint everything that is left waits again.
#[test]
fn a_damaged_checkpoint_costs_duplicates_only() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 12);
    log.checkpoint(Seq(8)).expect("the disk works");
    let first = bases(&disk)[0];
    log.close().expect("the disk works");
    disk.rot(&Path::new(DIR).join("position"), 20, 1);
    let (log, found, _) = open(&disk);
    assert!(found.checkpoint_lost && first > 0);
    assert_eq!((found.checkpoint, found.next), (Seq(first), Seq(12)));
    assert_eq!(found.waybills.count() as u64, 12 - first);
    log.checkpoint(Seq(9)).expect("the disk works");
    assert_eq!(open(&disk).1.checkpoint, Seq(9));
}

/// A reading that fails in the middle is no end of what waits.
#[test]
fn waybills_that_cannot_be_read_are_not_taken_for_dispatched() {
    let disk = MemDisk::new();
    drop(filled(&disk, 12));
    let (_log, found, _) = open(&disk);
    disk.inject(Fault::new(Step::Read).after(2).lasting());
    let mut waybills = found.waybills;
    assert!(waybills.by_ref().count() < 12);
    waybills.finish().expect_err("the disk failed");
}

/// A position that was answered is never given again, even by a disk that lies.
#[test]
fn a_log_that_has_shrunk_behind_its_back_is_refused() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 2);
    disk.fail(Step::Sync, 0);
    log.append(parcels([2])).expect_err("no sync");
    disk.open(&segment(0), crate::disk::Open::Existing).expect("there").set_len(24).expect("cut");
    let error = log.reopen().expect_err("two records are gone");
    assert!(
        matches!(error, IngressError::Shrunk { found: Seq(0), acknowledged: Seq(2) }),
        "{error}"
    );
    assert!(!error.is_retryable());
}
