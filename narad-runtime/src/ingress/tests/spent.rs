//! Ranges beyond the checkpoint: what is in them is not found again, and nothing else is left out.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::disk::mem::Keep;

fn spent(below: u64, beyond: &[(u64, u64)]) -> Checkpoint {
    let beyond = beyond.iter().map(|&(first, end)| Seq(first)..Seq(end)).collect();
    Checkpoint { below: Seq(below), beyond }
}

/// Opens the log and returns where it goes on and what waits, which a scan must find as well.
fn found(disk: &MemDisk) -> (u64, Vec<u64>) {
    let scanned = scan(disk, Path::new(DIR)).expect("readable");
    let (log, mut found, _) = open(disk);
    let waiting: Vec<Seq> = found.waybills.by_ref().map(|waybill| waybill.seq).collect();
    assert_eq!(found.waybills.finish().expect("readable"), []);
    assert_eq!(read_all(&log, &waiting), scanned.waiting);
    (found.next.0, waiting.into_iter().map(|seq| seq.0).collect())
}

/// S11: beside a record that is stuck, what has arrived is not found again.
#[test]
fn what_is_named_is_not_found_again() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 30);
    log.checkpoint(spent(3, &[(4, 9), (12, 28)])).expect("the disk works");
    assert_eq!(log.checkpointed(), Seq(3));
    // A later one replaces the ranges, an earlier one changes nothing.
    log.checkpoint(spent(3, &[(4, 9), (12, 29)])).expect("the disk works");
    log.checkpoint(spent(2, &[(3, 30)])).expect("the disk works");
    drop(log);
    for _ in 0..2 {
        disk.crash(Keep::Nothing);
        assert_eq!(found(&disk), (30, vec![3, 9, 10, 11, 29]));
    }
    let (log, ..) = open(&disk);
    log.checkpoint(Seq(12)).expect("the disk works");
    drop(log);
    assert_eq!(found(&disk), (30, (12..30).collect()), "what is no longer named is found");
    let (log, ..) = open(&disk);
    for wrong in [spent(12, &[(12, 14)]), spent(12, &[(14, 14)]), spent(12, &[(20, 31)])] {
        log.checkpoint(wrong).expect_err("no such checkpoint");
    }
}

/// R53: a position whose bytes are damaged costs duplicates, ranges or not.
#[test]
fn a_damaged_position_with_ranges_is_none() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 10);
    log.checkpoint(spent(1, &[(2, 9)])).expect("the disk works");
    drop(log);
    disk.rot(&position_path(Path::new(DIR)), 30, 0xff);
    let (_, found, _) = open(&disk);
    assert!(found.checkpoint_lost);
    assert_eq!(found.waybills.count(), 10);
}

/// H16: positions that are named were given to somebody: they are not given again, though the end of
/// the log is lost, and what is lost in them is missed by nobody.
#[test]
fn a_named_position_is_never_given_again() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 12);
    log.checkpoint(spent(0, &[(2, 12)])).expect("the disk works");
    let last = *bases(&disk).last().expect("some");
    assert!(last > 2 && last < 12, "{last}");
    drop(log);
    disk.remove_file(&segment(last)).expect("it is there");
    let (log, found, _) = open(&disk);
    let mut waybills = found.waybills;
    let waiting: Vec<u64> = waybills.by_ref().map(|waybill| waybill.seq.0).collect();
    assert_eq!((found.next, waiting), (Seq(12), vec![0, 1]));
    assert_eq!(waybills.finish().expect("readable"), [], "nothing that is needed is lost");
    assert_eq!(log.append(parcels([40])).expect("space is left").first, Seq(12));
}

fn any_spent() -> impl Strategy<Value = (u64, Vec<bool>)> {
    (0..10_u64, proptest::collection::vec(any::<bool>(), 30))
}

/// Makes a checkpoint of what is needed.
fn naming(below: u64, needed: &[bool]) -> Checkpoint {
    let mut beyond: Vec<Range<Seq>> = Vec::new();
    let at = |seq: u64| usize::try_from(seq).expect("small");
    for seq in (below + 1..needed.len() as u64).filter(|&seq| !needed[at(seq)]) {
        match beyond.last_mut() {
            Some(range) if range.end.0 == seq => range.end = Seq(seq + 1),
            Some(_) | None => beyond.push(Seq(seq)..Seq(seq + 1)),
        }
    }
    Checkpoint { below: Seq(below), beyond }
}

/// The positions of 30 that a checkpoint does not name.
fn kept(spent: &Checkpoint) -> BTreeSet<u64> {
    let is_spent = |seq: u64| spent.beyond.iter().any(|range| range.contains(&Seq(seq)));
    (spent.below.0..30).filter(|&seq| !is_spent(seq)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// S11: whatever step of a checkpoint the power fails at, exactly what one of the two does not
    /// name is found: nothing that neither has named is skipped.
    #[test]
    fn a_power_loss_leaves_one_checkpoint_or_the_other(
        first in any_spent(), second in any_spent(), seed: u64,
    ) {
        let (first, second) = (naming(first.0, &first.1), naming(first.0 + second.0, &second.1));
        for step in 0..12 {
            let disk = MemDisk::new();
            disk.set_sector(16);
            let (log, _) = filled(&disk, 30);
            log.checkpoint(first.clone()).expect("the disk works");
            disk.stop_after(step);
            let is_done = log.checkpoint(second.clone()).is_ok();
            drop(log);
            disk.crash(Keep::Torn(seed));
            let (next, waiting) = found(&disk);
            let waiting: BTreeSet<u64> = waiting.into_iter().collect();
            prop_assert_eq!(next, 30);
            prop_assert!(waiting == kept(&second) || (!is_done && waiting == kept(&first)));
        }
    }
}
