//! What consumers are handed and acknowledge, through freezes, flips and restarts.

use std::task::{Context, Poll};

use narad_core::cursor::{
    Acks, Answer, Handle, Limits, Lineage, Refused as Denied, Reserved, Span,
};
use narad_core::ids::{Delivery, MoveId};
use narad_core::metastore::{Assignment, Reign, Residue};
use narad_core::partition::Position;

use super::*;
use crate::disk::mem::Keep;

mod bounds;

const SECOND: Duration = Duration::from_secs(1);
const NEXT: Epoch = Epoch(2);

/// A clock that stands still until it is told otherwise, and a lease.
pub(super) struct FakeClock {
    now: Mutex<Instant>,
    lease_until: Mutex<Instant>,
}

impl FakeClock {
    pub(super) fn new() -> Arc<Self> {
        let lease_until = Mutex::new(Instant::ORIGIN.after(Duration::from_hours(1)));
        Arc::new(Self { now: Mutex::new(Instant::ORIGIN), lease_until })
    }

    pub(super) fn pass(&self, time: Duration) {
        let mut now = self.now.lock().unwrap();
        *now = now.after(time);
    }
}

impl Standpoint for FakeClock {
    fn now(&self) -> Instant {
        *self.now.lock().unwrap()
    }

    fn authority(&self) -> Authority {
        Authority { registered: Some(LIFE), lease_until: *self.lease_until.lock().unwrap() }
    }
}

/// One owner of the partition.
struct Owner {
    clock: Arc<FakeClock>,
    disk: MemDisk,
    slot: Arc<Slot>,
}

/// The reigns up to one, each of which began at the offset beside it.
pub(super) fn lineage(starts: &[(u64, u64)]) -> Lineage {
    let (owner, data) = (NodeId(1), Attempt::birth(NodeId(1)));
    let reign = |&(epoch, start): &(u64, u64)| Reign {
        epoch: Epoch(epoch),
        start: Offset(start),
        owner,
        data,
        residue: Residue::None,
    };
    Lineage::of(&Assignment {
        owner,
        epoch: Epoch(starts.last().expect("at least one").0),
        data,
        min_end: Offset(0),
        lineage: starts.iter().map(reign).collect(),
        lineage_cut: false,
        target: None,
        move_id: MoveId(1),
        burned: None,
        revoked: None,
        reported_hwm: None,
        pinned: false,
    })
}

fn first_reign() -> Lineage {
    lineage(&[(1, 0)])
}

impl Owner {
    /// An owner in its first reign, with so many records.
    fn of(records: usize) -> Self {
        Self::with(records, Limits::default())
    }

    fn with(count: usize, limits: Limits) -> Self {
        let (clock, disk) = (FakeClock::new(), MemDisk::new());
        SegmentLog::create(&disk, Path::new("log"), Offset(0)).unwrap();
        let slot = Slot::with_limits(PARTITION, Arc::clone(&clock) as _, limits);
        let owner = Self { clock, disk, slot: Arc::new(slot) };
        owner.open(first_reign(), EPOCH);
        owner.produce(count);
        owner
    }

    /// Opens the log and lets consumers go on.
    fn open(&self, lineage: Lineage, epoch: Epoch) {
        let disk = Arc::new(self.disk.clone());
        let log = SegmentLog::open(disk, Path::new("log"), LogLimits::default()).unwrap();
        log.expose_all(epoch).unwrap();
        self.slot.attach(Arc::new(log));
        self.slot.resume(lineage);
        self.serve(epoch);
    }

    fn serve(&self, epoch: Epoch) {
        self.slot.stand(Standing::Serving { epoch, life: LIFE, in_play: true });
    }

    fn produce(&self, count: usize) {
        if count > 0 {
            self.slot.commit(&records(count), None).unwrap();
        }
    }

    fn reserve(&self, max: usize) -> Vec<Handle> {
        let (log, reserved) = self.slot.reserve(max, 10 * SECOND).unwrap();
        for handle in reserved.handles() {
            assert_eq!(log.read(handle.offset, 1).unwrap()[0].0, handle.offset, "visible");
        }
        reserved.handles().collect()
    }

    fn offsets(&self, max: usize) -> Vec<u64> {
        self.reserve(max).iter().map(|handle| handle.offset.0).collect()
    }

    fn freeze(&self, n: u64) -> Capture {
        self.slot.begin_freeze(ticket(n), EPOCH, LIFE);
        self.slot.take_answer(ticket(n)).expect("nothing is under way").unwrap()
    }

    /// The next owner, on a copy of what was captured: all records are alike.
    fn successor_of(capture: &Capture) -> Self {
        let end = usize::try_from(capture.listing.hwm.0).unwrap();
        let next = Self::with(end, Limits::default());
        next.slot.stand(Standing::Closed);
        next.slot.log().unwrap().set_position(capture.position.clone()).unwrap();
        let log = next.slot.detach().unwrap();
        log.close().unwrap();
        next.open(lineage(&[(1, 0), (2, end as u64)]), NEXT);
        next
    }
}

fn position(committed: u64, ahead: &[u64]) -> Position {
    let acked_ahead = ahead.iter().copied().map(Offset).collect();
    Position { committed: Some(Offset(committed)), acked_ahead }
}

fn denied<T: fmt::Debug>(result: Result<T, SlotError>) -> Denied {
    match result.expect_err("refused") {
        SlotError::Consumer(denied) => denied,
        other => panic!("not by the cursor: {other}"),
    }
}

fn refused<T: fmt::Debug>(result: Result<T, SlotError>) -> Refused {
    match result.expect_err("refused") {
        SlotError::Refused(refused) => refused,
        other => panic!("not by the gate: {other}"),
    }
}

#[test]
fn what_is_not_acknowledged_in_time_is_handed_out_again() {
    let owner = Owner::of(3);
    let first = owner.reserve(9);
    assert_eq!(owner.offsets(9), [0; 0], "they are somebody's");
    assert_eq!(owner.slot.ack(first[1]).unwrap(), Answer::Acked);
    assert_eq!(owner.slot.consumer_deadline(), Some(Instant::ORIGIN.after(10 * SECOND)));
    assert_eq!(owner.slot.extend(first[2], 30 * SECOND).unwrap(), 30 * SECOND);
    owner.clock.pass(10 * SECOND);
    let again = owner.reserve(9);
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].offset, again[0].delivery), (Offset(0), Delivery(2)));
    assert_eq!(denied(owner.slot.ack(first[0])), Denied::Superseded { by: Delivery(2) });
    assert_eq!(owner.slot.ack(again[0]).unwrap(), Answer::Acked);
    assert_eq!(owner.slot.ack(first[1]).unwrap(), Answer::AlreadyAcked);
    assert_eq!(owner.slot.position().unwrap(), position(2, &[]));
    owner.clock.pass(20 * SECOND);
    assert_eq!(denied(owner.slot.extend(first[2], SECOND)), Denied::Expired);
}

#[test]
fn what_is_handed_back_is_free_at_once_or_later() {
    let owner = Owner::of(2);
    let held = owner.reserve(9);
    owner.slot.nack(held[0], Duration::ZERO).unwrap();
    owner.slot.nack(held[1], 5 * SECOND).unwrap();
    assert_eq!(owner.offsets(9), [0]);
    owner.clock.pass(5 * SECOND);
    let again = owner.reserve(9);
    assert_eq!((again[0].offset, again[0].delivery), (Offset(1), Delivery(2)));
    assert_eq!(denied(owner.slot.nack(held[1], SECOND)), Denied::Superseded { by: Delivery(2) });
}

/// R54: what a driver could not read is not lost for others, nor counted as a delivery.
#[test]
fn what_is_given_back_was_never_handed_out() {
    let owner = Owner::of(4);
    let (_, reserved) = owner.slot.reserve(9, SECOND).unwrap();
    owner.slot.give_back(&reserved, Offset(2));
    let again = owner.reserve(9);
    assert_eq!(again.iter().map(|one| one.offset.0).collect::<Vec<_>>(), [2, 3]);
    assert!(again.iter().all(|one| one.delivery == Delivery(1)));
}

/// R48, `case_071`: consumers notice nothing of a freeze, while nothing can be appended; who has
/// acknowledged nothing has a position of nothing, which is not zero.
#[test]
fn consuming_goes_on_through_a_freeze() {
    let owner = Owner::of(4);
    let held = owner.reserve(2);
    let capture = owner.freeze(1);
    assert_eq!(refused(owner.slot.commit(&records(1), None)), Refused::Frozen);
    owner.slot.ack(held[0]).unwrap();
    owner.slot.extend(held[1], 60 * SECOND).unwrap();
    let more = owner.reserve(9);
    owner.slot.nack(more[0], Duration::ZERO).unwrap();
    assert_eq!(owner.offsets(9), [2]);
    assert_eq!(capture.position, Position::default(), "as it was when the freeze took hold");
}

/// R50, `case_025`, `case_065`: the position is captured under the freeze with what is acknowledged ahead, and
/// never reaches past the high watermark that is read after it, though an append ends in between.
#[test]
fn the_position_is_captured_before_the_high_watermark() {
    let owner = Owner::of(4);
    let held = owner.reserve(9);
    let pending = owner.slot.begin(Some(EPOCH)).unwrap();
    owner.slot.begin_freeze(ticket(1), EPOCH, LIFE);
    for acked in [0, 1, 3] {
        owner.slot.ack(held[acked]).unwrap();
    }
    let appended = pending.append(&records(1));
    owner.slot.finish(pending, appended).unwrap();
    let capture = owner.slot.take_answer(ticket(1)).expect("the append has ended").unwrap();
    assert_eq!((capture.position, capture.listing.hwm), (position(2, &[3]), Offset(5)));
    assert_eq!(owner.offsets(9), [4], "the last record came before the freeze took hold");
}

/// R50, R51, `case_063`, `case_064`: the next owner goes on where consumers stood in memory, with what
/// was acknowledged ahead; what they had in flight it hands out again, counted from one.
#[test]
fn the_next_owner_resumes_and_delivers_again_what_was_in_flight() {
    let owner = Owner::of(5);
    let held = owner.reserve(4);
    owner.slot.ack(held[0]).unwrap();
    owner.slot.ack(held[2]).unwrap();
    let capture = owner.freeze(1);
    let next = Owner::successor_of(&capture);
    let offsets = next.slot.offsets().unwrap();
    assert_eq!((offsets.committed, offsets.acked_ahead), (Some(Offset(1)), 1));
    assert_eq!((offsets.in_flight, offsets.backlog, offsets.epoch), (0, 3, NEXT));
    let again = next.reserve(9);
    assert_eq!(again.iter().map(|one| one.offset.0).collect::<Vec<_>>(), [1, 3, 4]);
    assert!(again.iter().all(|one| one.delivery == Delivery(1) && one.epoch == NEXT));
    // S7: below the seam the old handle still names the same record.
    assert_eq!(next.slot.ack(held[1]).unwrap(), Answer::Acked);
    assert_eq!(denied(next.slot.extend(held[3], SECOND)), Denied::OtherEpoch { epoch: NEXT });
}

/// R52, H28, `case_031`: exactly this interleaving: captured, acknowledged at the source, flipped. The
/// acknowledgement counts at the next owner once it is forwarded; without that the record comes
/// again.
#[test]
fn an_acknowledgement_after_the_capture_is_forwarded() {
    let owner = Owner::of(4);
    let held = owner.reserve(9);
    owner.slot.ack(held[0]).unwrap();
    let capture = owner.freeze(1);
    owner.slot.ack(held[1]).unwrap();
    owner.slot.ack(held[3]).unwrap();
    owner.slot.stand(Standing::Closed);
    let acks = owner.slot.hand_over(false);
    let span = |first, end| Span { first: Offset(first), end: Offset(end) };
    assert_eq!((acks.epoch, &acks.spans[..]), (EPOCH, &[span(1, 2), span(3, 4)][..]));

    let untold = Owner::successor_of(&capture);
    assert_eq!(untold.offsets(9), [1, 2, 3]);
    let told = Owner::successor_of(&capture);
    let taken = told.slot.take_acks(&acks).expect("served there");
    assert_eq!((taken.counted, taken.dropped), (2, false));
    assert_eq!(told.slot.take_acks(&acks).expect("served there").counted, 0, "once more");
    assert_eq!(told.offsets(9), [2]);
}

/// R49, `case_069`: whoever comes to a past owner is told so, whatever it wants.
#[test]
fn a_past_owner_answers_moved() {
    let owner = Owner::of(2);
    let held = owner.reserve(1);
    owner.slot.stand(Standing::Closed);
    assert_eq!(refused(owner.slot.ack(held[0])), Refused::NotServing, "nobody knows yet");
    owner.slot.hand_over(true);
    assert_eq!(denied(owner.slot.ack(held[0])), Denied::Moved);
    assert_eq!(denied(owner.slot.nack(held[0], SECOND)), Denied::Moved);
    assert_eq!(denied(owner.slot.extend(held[0], SECOND)), Denied::Moved);
    assert_eq!(denied(owner.slot.acknowledge(EPOCH, Offset(0))), Denied::Moved);
    assert_eq!(denied(owner.slot.acknowledge_up_to(EPOCH, Offset(1))), Denied::Moved);
    assert_eq!(denied(owner.slot.reserve(1, SECOND).map(drop)), Denied::Moved);
    assert_eq!(owner.slot.take_acks(&Acks::default()), None);
}

/// R62: a reign that was ended by force carried nothing, so all of it is told.
#[test]
fn after_a_forced_flip_everything_acknowledged_is_told() {
    let owner = Owner::of(3);
    let held = owner.reserve(9);
    owner.slot.ack(held[0]).unwrap();
    owner.freeze(1);
    owner.slot.ack(held[1]).unwrap();
    let acks = owner.slot.hand_over(true);
    assert_eq!(acks.spans, [Span { first: Offset(0), end: Offset(2) }]);
    assert_eq!(Owner::of(0).slot.hand_over(false).spans, [], "nothing was acknowledged");
    let never = Slot::new(PARTITION, FakeClock::new());
    assert_eq!(never.hand_over(true), Acks::default());
}

/// A freeze that ends without a flip leaves nothing behind: the next one captures anew.
#[test]
fn a_thawed_capture_is_forgotten() {
    let owner = Owner::of(3);
    let held = owner.reserve(9);
    let capture = owner.freeze(1);
    owner.slot.ack(held[0]).unwrap();
    owner.slot.thaw(capture.token);
    let capture = owner.freeze(2);
    assert_eq!(capture.position, position(1, &[]));
    owner.slot.stand(Standing::Closed);
    assert_eq!(owner.slot.hand_over(false).spans, [], "the second capture has it all");
}

/// A freeze of which the node knows only that its gate was shut may have led to a flip: what was
/// acknowledged since is kept until that is known.
#[test]
fn a_shut_gate_does_not_forget_the_capture() {
    let owner = Owner::of(3);
    let held = owner.reserve(9);
    owner.freeze(1);
    owner.slot.ack(held[0]).unwrap();
    owner.slot.stand(Standing::Closed);
    assert_eq!(owner.slot.hand_over(false).spans.len(), 1);
    // The same, but it goes on serving: a later freeze carries it.
    let owner = Owner::of(3);
    let held = owner.reserve(9);
    owner.freeze(1);
    owner.slot.ack(held[0]).unwrap();
    owner.slot.stand(Standing::Closed);
    owner.serve(EPOCH);
    assert_eq!(owner.freeze(2).position, position(1, &[]));
    assert_eq!(owner.slot.hand_over(false).spans, []);
}

/// H8, S7: an owner that may have been succeeded hands nothing out and takes nothing.
#[test]
fn without_a_lease_consumers_are_turned_away() {
    let owner = Owner::of(2);
    let held = owner.reserve(1);
    owner.clock.pass(Duration::from_hours(1));
    assert_eq!(refused(owner.slot.reserve(1, SECOND).map(drop)), Refused::NoLease);
    assert_eq!(refused(owner.slot.ack(held[0])), Refused::NoLease);
    assert_eq!(owner.slot.take_acks(&Acks::default()), None);
}

/// R53, `case_068`: a restart delivers again what was not stored, and nothing that was.
#[test]
fn after_a_restart_consumers_resume_from_what_was_stored() {
    let owner = Owner::of(4);
    let held = owner.reserve(9);
    owner.slot.ack(held[0]).unwrap();
    owner.slot.store_position().unwrap();
    owner.slot.ack(held[1]).unwrap();
    owner.disk.crash(Keep::Nothing);
    let restarted = Owner {
        clock: FakeClock::new(),
        disk: owner.disk.clone(),
        slot: Arc::new(Slot::new(PARTITION, FakeClock::new())),
    };
    restarted.open(first_reign(), EPOCH);
    assert_eq!(restarted.slot.position().unwrap(), position(1, &[]));
    assert_eq!(restarted.slot.ack(held[2]).unwrap(), Answer::Acked, "of an earlier opening");
    assert_eq!(restarted.offsets(9), [1, 3]);
}

/// A log that is opened again in the same life, as after a failed write, costs no acknowledgement;
/// reservations end with it.
#[test]
fn a_log_that_is_opened_again_keeps_what_was_acknowledged() {
    let owner = Owner::of(3);
    let held = owner.reserve(9);
    owner.slot.ack(held[0]).unwrap();
    owner.slot.detach().unwrap().close().unwrap();
    assert!(matches!(owner.slot.ack(held[1]), Err(SlotError::NotOpen)));
    let disk = Arc::new(owner.disk.clone());
    let log = SegmentLog::open(disk, Path::new("log"), LogLimits::default()).unwrap();
    log.expose_all(EPOCH).unwrap();
    let log: Arc<dyn PartitionLog> = Arc::new(log);
    owner.slot.attach(Arc::clone(&log));
    assert_eq!(refused(owner.slot.ack(held[1])), Refused::NotServing, "not resumed yet");
    owner.slot.resume(first_reign());
    assert_eq!(owner.offsets(9), [1, 2]);
    assert_eq!(log.position(), Position::default());
    owner.slot.store_position().unwrap();
    assert_eq!(log.position(), position(1, &[]));
}

/// `case_032`, `case_033`: what is left of an earlier ownership neither writes into the log that has
/// taken its place nor answers for it.
#[test]
fn a_cursor_of_an_earlier_log_leaves_the_next_one_alone() {
    let owner = Owner::of(3);
    let held = owner.reserve(9);
    owner.slot.ack(held[0]).unwrap();
    owner.slot.stand(Standing::Closed);
    owner.slot.detach().unwrap().close().unwrap();
    owner.slot.hand_over(true);

    SegmentLog::create(&owner.disk, Path::new("next"), Offset(0)).unwrap();
    let disk = Arc::new(owner.disk.clone());
    let log = SegmentLog::open(disk, Path::new("next"), LogLimits::default()).unwrap();
    let third = Epoch(3);
    log.append(&records(3), third).unwrap();
    log.expose_all(third).unwrap();
    let log: Arc<dyn PartitionLog> = Arc::new(log);
    owner.slot.attach(Arc::clone(&log));
    owner.slot.store_position().unwrap();
    assert_eq!(log.position(), Position::default(), "the other log's position stays its own");
    owner.serve(third);
    assert_eq!(refused(owner.slot.reserve(1, SECOND).map(drop)), Refused::NotServing);
    owner.slot.resume(lineage(&[(1, 0), (2, 0), (3, 0)]));
    assert_eq!(owner.offsets(9), [0, 1, 2]);
    assert_eq!(denied(owner.slot.ack(held[0])), Denied::OtherEpoch { epoch: third });
}

/// `case_064`: a position that could not be stored stays to be stored, and is stored once.
#[test]
fn a_position_that_could_not_be_stored_is_stored_later() {
    let owner = Owner::of(3);
    let held = owner.reserve(1);
    owner.slot.store_position().unwrap();
    let steps = owner.disk.steps();
    owner.slot.store_position().unwrap();
    assert_eq!(owner.disk.steps(), steps, "nothing has changed");
    owner.slot.ack(held[0]).unwrap();
    owner.disk.fail(Step::Sync, 0);
    owner.slot.store_position().expect_err("the disk fails");
    owner.slot.store_position().unwrap();
    assert_eq!(owner.slot.log().unwrap().position(), position(1, &[]));
    // And what was acknowledged last, when the log is let go.
    owner.slot.acknowledge(EPOCH, Offset(1)).unwrap();
    let log = owner.slot.detach().unwrap();
    owner.slot.store_position_in(&*log).unwrap();
    assert_eq!(log.position(), position(2, &[]));
}

/// H44: an acknowledgement by offset names the reign in which the record was seen.
#[test]
fn acknowledgements_by_offset_follow_the_lineage() {
    let owner = Owner::of(3);
    let next = Owner::successor_of(&owner.freeze(1));
    next.produce(2);
    assert_eq!(next.slot.acknowledge_up_to(EPOCH, Offset(2)).unwrap(), Answer::Acked);
    let beyond = next.slot.acknowledge(EPOCH, Offset(3));
    assert_eq!(denied(beyond), Denied::OtherEpoch { epoch: NEXT });
    assert_eq!(next.slot.acknowledge(NEXT, Offset(3)).unwrap(), Answer::Acked);
    assert_eq!(
        denied(next.slot.acknowledge(NEXT, Offset(5))),
        Denied::OutOfRange { hwm: Offset(5) }
    );
    assert_eq!(
        denied(next.slot.acknowledge(Epoch(3), Offset(0))),
        Denied::Moved,
        "not heard of yet"
    );
}

/// Two consumers at once have different records, and neither can acknowledge away the other's.
#[test]
fn two_consumers_share_a_partition() {
    let owner = Owner::of(6);
    let (a, b) = (owner.reserve(2), owner.reserve(2));
    assert_eq!((a[0].offset, b[0].offset), (Offset(0), Offset(2)));
    owner.slot.ack(b[0]).unwrap();
    owner.slot.ack(b[1]).unwrap();
    assert_eq!(owner.slot.position().unwrap().committed, None);
    owner.clock.pass(10 * SECOND);
    let c = owner.reserve(3);
    assert_eq!(c.iter().map(|one| one.offset.0).collect::<Vec<_>>(), [0, 1, 4]);
    assert_eq!(denied(owner.slot.ack(a[0])), Denied::Superseded { by: Delivery(2) });
    owner.slot.ack(c[0]).unwrap();
    owner.slot.ack(c[1]).unwrap();
    assert_eq!(owner.slot.position().unwrap(), position(4, &[]));
}
