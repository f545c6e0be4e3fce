//! Reading, carrying, and giving segments up.

use super::*;

#[test]
fn a_read_gives_what_fits_and_at_least_one() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 20);
    let size = |n| parcel(n).encoded_bytes();
    let wanted = [3, 9, 17].map(Seq);
    let read = |bytes_max| {
        let read = log.read(wanted, bytes_max).expect("readable");
        read.parcels.into_iter().map(|(seq, _)| seq).collect::<Vec<_>>()
    };
    assert_eq!(read(0), wanted[..1]);
    assert_eq!(read(size(3) + size(9)), wanted[..2]);
    assert_eq!(read(size(3) + size(9) + size(17)), wanted);
    assert_eq!(log.read([], 100).expect("nothing"), Read::default());
}

/// The order in which they are asked for is the order in which they come, cached or not.
#[test]
fn parcels_come_in_the_order_in_which_they_are_asked_for() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 20);
    let wanted = [19, 0, 7, 7, 12].map(Seq);
    let expected = wanted.map(|seq| (seq, parcel(seq.0)));
    assert_eq!(read_all(&log, &wanted), expected);
    assert_eq!(read_all(&log, &wanted), expected);
    let (log, ..) = open(&disk);
    assert_eq!(read_all(&log, &wanted), expected);
}

/// What was just accepted is sent without reading the disk.
#[test]
fn what_was_just_accepted_is_not_read_from_the_disk() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 3);
    let reads = disk.steps_of(crate::disk::mem::Step::Read);
    assert_eq!(read_all(&log, &seqs(0..3)).len(), 3);
    assert_eq!(disk.steps_of(crate::disk::mem::Step::Read), reads);
}

#[test]
fn positions_that_were_never_given_or_given_up_are_errors() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 20);
    assert!(log.read([Seq(20)], 100).is_err());
    assert!(log.checkpoint(Seq(21)).is_err());
    log.checkpoint(Seq(20)).expect("all is dispatched");
    assert!(log.read([Seq(0)], 100).is_err());
    assert_eq!((log.checkpointed(), log.next()), (Seq(20), Seq(20)));
}

/// Whole segments go, once everything in them is dispatched, and a checkpoint never goes back.
#[test]
fn a_checkpoint_gives_up_whole_segments_below_it() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 20);
    let before = bases(&disk);
    assert!(before.len() > 4);
    let bytes = log.bytes();
    assert_eq!(log.checkpoint(Seq(before[2] - 1)).expect("works").0 + log.bytes().0, bytes.0);
    assert_eq!(bases(&disk), before[1..]);
    log.checkpoint(Seq(before[2])).expect("works");
    assert_eq!(bases(&disk), before[2..]);
    assert_eq!(log.checkpoint(Seq(0)).expect("nothing to do"), ByteCount(0));
    assert_eq!(log.checkpointed(), Seq(before[2]));
    assert_eq!(open(&disk).1.checkpoint, Seq(before[2]));
}

/// Records that stick do not hold the log's beginning: they are appended again and let go of.
#[test]
fn what_is_carried_is_there_again_at_the_end() {
    let disk = MemDisk::new();
    let (log, told) = filled(&disk, 40);
    let stuck: Vec<Seq> = (0..40).step_by(3).map(Seq).collect();
    let carried = log.carry(stuck.iter().copied()).expect("space is left");
    assert_eq!((carried.first, carried.end), (Seq(40), Seq(54)));
    let new = seqs(40..54);
    assert_eq!(lock(&told).len(), 40, "it is the dispatcher who asked");
    log.checkpoint(Seq(40)).expect("works");
    let (log, found, _) = open(&disk);
    assert_eq!(found.waybills.map(|waybill| waybill.seq).collect::<Vec<_>>(), new);
    for (old, (_, parcel)) in stuck.iter().zip(read_all(&log, &new)) {
        assert_eq!(parcel, super::parcel(old.0));
    }
    assert!(matches!(log.carry([]), Err(IngressError::Empty)));
}

#[test]
fn what_can_never_be_accepted_is_refused_at_once() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 0);
    assert!(matches!(log.append(Vec::new()), Err(IngressError::Empty)));
    let mut large = parcel(0);
    let bytes_max = SMALL.log.record_bytes_max;
    large.record.value = vec![0; bytes_max].into();
    let refused = log.append(vec![parcel(1), large.clone()]).expect_err("too large");
    assert!(matches!(refused, IngressError::TooLarge { .. }) && !refused.is_retryable());
    let over = large.record.encoded_bytes() - bytes_max;
    large.record.value = vec![0; bytes_max - over].into();
    log.append(vec![large]).expect("the limit is the record's, whatever its address takes");
}

#[test]
fn a_closed_log_is_over() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 2);
    log.close().expect("works");
    assert!(log.append(parcels([2])).is_err());
    assert!(log.checkpoint(Seq(1)).is_err());
}
