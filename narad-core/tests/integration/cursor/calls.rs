//! One call after another: what each answers, and the cases of the catalogue.

use narad_core::cursor::{Acks, Answer, Cursor, Limits, Lineage, Refused, Run, Span, Taken};
use narad_core::ids::{Delivery, Epoch, Offset};
use narad_core::partition::Position;

use super::*;

/// S11, R51: what runs out comes again before what is new, lowest first, and says that it does.
#[test]
fn what_runs_out_comes_before_what_is_new() {
    let mut cursor = fresh(5);
    let first = cursor.reserve(at(0), 3, VISIBILITY).unwrap();
    assert_eq!((offsets(&first), first.until), (vec![0, 1, 2], at(30)));
    assert_eq!(cursor.ack(at(1), handles(&first)[1]), Ok(Answer::Acked));
    let again = cursor.reserve(at(30), 9, VISIBILITY).unwrap();
    let run = |first, end, delivery| Run {
        first: Offset(first),
        end: Offset(end),
        delivery: Delivery(delivery),
    };
    assert_eq!(again.runs, [run(0, 1, 2), run(2, 3, 2), run(3, 5, 1)]);
    assert_eq!(again.len(), 4);
    assert!(cursor.reserve(at(31), 9, VISIBILITY).unwrap().is_empty(), "nothing is left");
}

/// A late acknowledgement counts until another consumer has the record; then it does not.
#[test]
fn late_is_not_too_late_while_nobody_else_has_it() {
    let mut cursor = fresh(2);
    let reserved = handles(&cursor.reserve(at(0), 2, VISIBILITY).unwrap());
    assert_eq!(cursor.ack(at(99), reserved[1]), Ok(Answer::Acked));
    assert_eq!(cursor.extend(at(99), reserved[0], VISIBILITY), Err(Refused::Expired));
    assert_eq!(cursor.nack(at(99), reserved[0], VISIBILITY), Err(Refused::Expired));
    let second = handles(&cursor.reserve(at(99), 1, VISIBILITY).unwrap())[0];
    let superseded = Refused::Superseded { by: Delivery(2) };
    assert_eq!(cursor.ack(at(100), reserved[0]), Err(superseded));
    assert_eq!(cursor.nack(at(100), reserved[0], VISIBILITY), Err(superseded));
    assert_eq!(cursor.extend(at(100), reserved[0], VISIBILITY), Err(superseded));
    // The second consumer gives up: the first one's work is good again.
    cursor.nack(at(100), second, VISIBILITY).unwrap();
    assert_eq!(cursor.ack(at(101), reserved[0]), Ok(Answer::Acked));
    assert_eq!(cursor.ack(at(101), second), Ok(Answer::AlreadyAcked));
    assert_eq!(cursor.nack(at(101), second, VISIBILITY), Err(Refused::AlreadyAcked));
    assert_eq!(*cursor.position(), position(Some(2), &[]));
    assert_eq!(cursor.deadline(), None);
}

/// A record that was handed back rests for its delay; one that is extended stays where it is.
#[test]
fn a_record_rests_and_a_reservation_is_extended() {
    let mut cursor = fresh(3);
    let reserved = handles(&cursor.reserve(at(0), 3, VISIBILITY).unwrap());
    cursor.nack(at(1), reserved[0], Duration::ZERO).unwrap();
    assert_eq!(cursor.deadline().unwrap().at, at(1), "somebody may wait for it");
    assert!(cursor.wake(at(1)));
    cursor.nack(at(1), reserved[1], Duration::from_secs(9)).unwrap();
    assert_eq!(cursor.deadline().unwrap().at, at(10));
    assert_eq!(cursor.extend(at(1), reserved[2], 2 * VISIBILITY), Ok(at(61)));
    assert_eq!(offsets(&cursor.reserve(at(9), 9, VISIBILITY).unwrap()), [0]);
    assert!(!cursor.wake(at(9)));
    assert!(cursor.wake(at(10)));
    assert_eq!(offsets(&cursor.reserve(at(40), 9, VISIBILITY).unwrap()), [0, 1]);
}

/// L5: what another call has noticed to be free is still told of.
#[test]
fn a_waiting_consumer_is_told_whoever_notices_first() {
    let mut cursor = fresh(3);
    let reserved = handles(&cursor.reserve(at(0), 3, VISIBILITY).unwrap());
    cursor.extend(at(1), reserved[2], 9 * VISIBILITY).unwrap();
    cursor.ack(at(30), reserved[2]).unwrap();
    assert!(cursor.deadline().unwrap().at <= at(30));
    assert!(cursor.wake(at(30)));
    assert_eq!(cursor.deadline(), None, "told once");
    // One of two is left over.
    let one = cursor.reserve(at(60), 1, VISIBILITY).unwrap();
    cursor.give_back(at(60), &one, Offset(0));
    assert!(cursor.deadline().unwrap().at <= at(60));
    let _two = cursor.reserve(at(60), 2, VISIBILITY).unwrap();
    assert_eq!(cursor.deadline().unwrap().at, at(90));
}

/// What could not be read was not delivered.
#[test]
fn what_is_given_back_was_never_handed_out() {
    let mut cursor = fresh(4);
    let reserved = cursor.reserve(at(0), 4, VISIBILITY).unwrap();
    cursor.give_back(at(0), &reserved, Offset(2));
    let again = cursor.reserve(at(1), 4, VISIBILITY).unwrap();
    assert_eq!(again.runs[0].delivery, Delivery(1));
    assert_eq!(offsets(&again), [2, 3]);
    cursor.give_back(at(1), &reserved, Offset(9));
    assert!(cursor.reserve(at(1), 4, VISIBILITY).unwrap().is_empty());
    // What another consumer has by now is not taken from it.
    let other = cursor.reserve(at(99), 4, VISIBILITY).unwrap();
    cursor.give_back(at(99), &reserved, Offset(0));
    assert!(cursor.reserve(at(99), 4, VISIBILITY).unwrap().is_empty());
    assert_eq!(other.runs[0].delivery, Delivery(2));
}

/// Nobody can hide a record for ever, and no number from outside is too large.
#[test]
fn what_comes_from_outside_is_cut_to_size() {
    let mut cursor = fresh(1);
    let longest = Limits::default().visibility_max;
    let held = cursor.reserve(at(0), usize::MAX, Duration::MAX).unwrap();
    assert_eq!(held.until, at(0).after(longest));
    assert_eq!(cursor.extend(at(5), handles(&held)[0], Duration::MAX), Ok(at(5).after(longest)));
    cursor.nack(at(5), handles(&held)[0], Duration::MAX).unwrap();
    assert_eq!(cursor.deadline().unwrap().at, at(5).after(longest));
    let beyond = Refused::OutOfRange { hwm: Offset(1) };
    assert_eq!(cursor.ack(at(5), handle(1, u64::MAX - 1, 1)), Err(beyond));
    assert_eq!(cursor.acknowledge_up_to(EPOCH, Offset(u64::MAX)), Err(beyond));
    // At the last number there is.
    assert!(cursor.ack(at(5), handle(1, u64::MAX, u64::MAX)).is_err());
    assert!(cursor.acknowledge(EPOCH, Offset(u64::MAX)).is_err());
    let wild = Acks {
        epoch: EPOCH,
        spans: vec![
            Span { first: Offset(9), end: Offset(u64::MAX) },
            Span { first: Offset(7), end: Offset(2) },
        ],
    };
    assert_eq!(cursor.take(&wild), Ok(Taken { counted: 0, dropped: true }));
    assert_eq!(*cursor.position(), Position::default());
}

/// `case_071`: nobody has consumed is another thing than everybody is at zero.
#[test]
fn a_position_is_none_until_somebody_acknowledges() {
    let mut cursor = fresh(9);
    let _held = cursor.reserve(at(0), 9, VISIBILITY).unwrap();
    cursor.trim(Offset(3));
    assert_eq!(cursor.capture(), Position::default());
    assert_eq!(cursor.backlog(), 6);
    cursor.acknowledge(EPOCH, Offset(5)).unwrap();
    assert_eq!(*cursor.position(), position(None, &[5]));
    cursor.trim(Offset(4));
    assert_eq!(*cursor.position(), position(None, &[5]));
    let mut trimmed = cursor.clone();
    trimmed.trim(Offset(5));
    assert_eq!(*trimmed.position(), position(Some(6), &[]));
    cursor.acknowledge(EPOCH, Offset(4)).unwrap();
    assert_eq!(*cursor.position(), position(Some(6), &[]));
    assert_eq!(cursor.acknowledge_up_to(EPOCH, Offset(6)), Ok(Answer::AlreadyAcked));
    assert_eq!(cursor.acknowledge_up_to(EPOCH, Offset(9)), Ok(Answer::Acked));
    assert_eq!((cursor.backlog(), cursor.in_flight()), (0, 0));
}

/// Retention removes what somebody holds: it is gone, and its acknowledgement has nothing to do.
#[test]
fn the_frontier_passes_what_retention_has_removed() {
    let mut cursor = fresh(10);
    let held = handles(&cursor.reserve(at(0), 3, VISIBILITY).unwrap());
    cursor.ack(at(0), held[2]).unwrap();
    cursor.trim(Offset(2));
    assert_eq!((cursor.in_flight(), cursor.position().committed), (0, Some(Offset(3))));
    assert_eq!(cursor.ack(at(0), held[0]), Ok(Answer::AlreadyAcked));
    cursor.trim(Offset(12));
    assert!(cursor.reserve(at(0), 9, VISIBILITY).unwrap().is_empty());
    cursor.advance(Offset(13));
    cursor.advance(Offset(9));
    assert_eq!(offsets(&cursor.reserve(at(0), 9, VISIBILITY).unwrap()), [12]);
}

/// The position is written when it has changed, and again if the disk did not take it.
#[test]
fn a_changed_position_is_saved_once() {
    let mut cursor = fresh(2);
    assert_eq!(cursor.to_save(), None);
    cursor.acknowledge(EPOCH, Offset(1)).unwrap();
    assert_eq!(cursor.to_save(), Some(position(None, &[1])));
    assert_eq!(cursor.to_save(), None);
    cursor.save_failed();
    assert_eq!(cursor.to_save(), Some(position(None, &[1])));
    cursor.acknowledge(EPOCH, Offset(1)).unwrap();
    assert_eq!(cursor.to_save(), None, "nothing has changed");
}

/// Everything has a limit, and what is handed out can always be acknowledged.
#[test]
fn a_stuck_record_holds_up_a_bounded_window() {
    let mut cursor = fresh(9_000);
    let stuck = handles(&cursor.reserve(at(0), 1, VISIBILITY).unwrap())[0];
    let mut acked = 0;
    let full = loop {
        match cursor.reserve(at(0), 100, VISIBILITY) {
            Ok(reserved) => {
                for handle in reserved.handles() {
                    assert_eq!(cursor.ack(at(0), handle), Ok(Answer::Acked));
                    acked += 1;
                }
            }
            Err(refused) => break refused,
        }
    };
    assert_eq!(full, Refused::TooFarAhead { frontier: Offset(0) });
    assert_eq!(acked, Position::ACKED_AHEAD_MAX);
    assert_eq!(cursor.acknowledge(EPOCH, Offset(8_000)), Err(full));
    assert_eq!(cursor.ack(at(0), stuck), Ok(Answer::Acked));
    assert_eq!(cursor.position().committed, Some(Offset(1 + acked as u64)));

    let many = cursor.reserve(at(0), 9_000, VISIBILITY).unwrap();
    let max = Limits::default().in_flight_max;
    assert_eq!(many.len(), max);
    assert_eq!(cursor.reserve(at(1), 1, VISIBILITY), Err(Refused::TooManyInFlight { max }));
    // Also by offset, and in the worst order, there is room for all of them.
    for handle in handles(&many).into_iter().rev() {
        assert_eq!(cursor.acknowledge(EPOCH, handle.offset), Ok(Answer::Acked));
    }
}

/// H44, H15, S7: below the beginning of the next reign an older acknowledgement counts, from there
/// on it is void, also if the frontier has passed it.
#[test]
fn an_older_acknowledgement_counts_below_the_next_reign() {
    let lineage = Lineage::of(&row(&[0, 10, 20]));
    let at_reign = found(3, position(Some(5), &[]), 30);
    let mut cursor = Cursor::resume(Limits::default(), lineage, at_reign);
    let void = Refused::OtherEpoch { epoch: Epoch(3) };
    assert_eq!(cursor.ack(at(0), handle(1, 9, 1)), Ok(Answer::Acked));
    assert_eq!(cursor.ack(at(0), handle(1, 10, 1)), Err(void));
    assert_eq!(cursor.ack(at(0), handle(2, 19, 7)), Ok(Answer::Acked));
    assert_eq!(cursor.ack(at(0), handle(2, 20, 7)), Err(void));
    assert_eq!(cursor.ack(at(0), handle(0, 0, 1)), Err(void), "there was no such reign");
    assert_eq!(cursor.ack(at(0), handle(4, 6, 1)), Err(Refused::Moved), "not heard of it yet");
    assert_eq!(cursor.acknowledge_up_to(Epoch(2), Offset(21)), Err(void));
    assert_eq!(cursor.acknowledge_up_to(Epoch(2), Offset(20)), Ok(Answer::Acked));
    cursor.acknowledge_up_to(Epoch(3), Offset(25)).unwrap();
    assert_eq!(cursor.ack(at(0), handle(2, 22, 7)), Err(void));
    assert_eq!(cursor.ack(at(0), handle(2, 12, 7)), Ok(Answer::AlreadyAcked));
    // Older reservations hold nothing, even where the number fits.
    let held = handles(&cursor.reserve(at(0), 1, VISIBILITY).unwrap())[0];
    let older = handle(2, 3, 1);
    assert_eq!(cursor.nack(at(0), older, VISIBILITY), Err(void));
    assert_eq!(cursor.extend(at(0), older, VISIBILITY), Err(void));
    assert_eq!(cursor.extend(at(0), held, VISIBILITY), Ok(at(30)));
}

/// H15: what a reign's end is known of depends on its successor being remembered.
#[test]
fn nothing_counts_of_a_reign_whose_successor_is_forgotten() {
    let mut row = row(&[0, 10, 20, 30]);
    row.lineage.drain(..2);
    row.lineage_cut = true;
    let lineage = Lineage::of(&row);
    let ends = [1, 2, 3, 4].map(|epoch| lineage.end_of(Epoch(epoch)));
    assert_eq!(ends, [Some(Offset(0)), Some(Offset(20)), Some(Offset(30)), None]);
    assert_eq!(lineage.clamped(Epoch(2), Offset(25)), Offset(20));
    assert_eq!(lineage.clamped(Epoch(4), Offset(25)), Offset(25));
}

/// S7, H15, `case_065`, `case_067`: nothing at or past the next reign's beginning, or the high
/// watermark, counts as acknowledged; what a disk says is put in order.
#[test]
fn a_position_is_cut_to_what_is_the_same_here() {
    let resume = |of, position, hwm| {
        let lineage = Lineage::of(&row(&[0, 10]));
        Cursor::resume(Limits::default(), lineage, found(of, position, hwm))
    };
    let mut cursor = resume(1, position(Some(4), &[6, 9, 10, 12]), 20);
    assert_eq!(*cursor.position(), position(Some(4), &[6, 9]));
    assert_eq!(cursor.to_save(), Some(position(Some(4), &[6, 9])));
    assert_eq!(*resume(1, position(Some(15), &[16]), 20).position(), position(Some(10), &[]));
    assert_eq!(*resume(2, position(Some(15), &[16, 19]), 18).position(), position(Some(15), &[16]));
    assert_eq!(*resume(2, position(Some(99), &[]), 18).position(), position(Some(18), &[]));
    assert_eq!(*resume(3, position(Some(9), &[12]), 18).position(), position(Some(0), &[]));
    let wild = position(Some(3), &[9, 7, 3, 2, 9, 4]);
    assert_eq!(*resume(2, wild, 18).position(), position(Some(5), &[7, 9]));
    let mut untouched = resume(2, position(None, &[4]), 18);
    assert_eq!(untouched.to_save(), None);
    assert_eq!(*untouched.position(), position(None, &[4]));
}

/// R48, R52, H28, `case_031`: the capture changes nothing for consumers; what they acknowledge after
/// it counts here, and is forwarded if the partition moves.
#[test]
fn what_is_acknowledged_after_the_capture_is_forwarded() {
    let mut old = fresh(10);
    let held = handles(&old.reserve(at(0), 8, VISIBILITY).unwrap());
    for n in [0, 2, 6] {
        old.ack(at(1), held[n]).unwrap();
    }
    let captured = old.capture();
    assert_eq!(captured, position(Some(1), &[2, 6]));
    assert_eq!(old.forwardable().spans, []);
    for n in [1, 3, 5] {
        assert_eq!(old.ack(at(2), held[n]), Ok(Answer::Acked));
    }
    let span = |first, end| Span { first: Offset(first), end: Offset(end) };
    let acks = old.forwardable();
    assert_eq!(acks.spans, [span(1, 2), span(3, 4), span(5, 6)]);

    // A thaw loses none of them; a later capture carries them.
    let mut thawed = old.clone();
    thawed.thaw();
    assert_eq!(thawed.capture(), position(Some(4), &[5, 6]));
    assert_eq!(thawed.forwardable().spans, []);

    old.moved(false);
    assert_eq!(old.reserve(at(3), 1, VISIBILITY), Err(Refused::Moved));
    assert_eq!(old.ack(at(3), held[4]), Err(Refused::Moved));
    assert_eq!(old.nack(at(3), held[4], VISIBILITY), Err(Refused::Moved));
    assert_eq!(old.acknowledge(EPOCH, Offset(1)), Err(Refused::Moved));
    assert_eq!(old.take(&acks), Err(Refused::Moved));
    assert_eq!((old.deadline(), old.forwardable()), (None, acks.clone()));
    // A promotion does not carry it, whatever was captured before.
    thawed.moved(true);
    assert_eq!(thawed.forwardable().spans, [span(0, 4), span(5, 7)]);

    let lineage = Lineage::of(&row(&[0, 10]));
    let mut new = Cursor::resume(Limits::default(), lineage, found(1, captured, 10));
    let redelivered = new.reserve(at(0), 2, VISIBILITY).unwrap();
    assert_eq!(offsets(&redelivered), [1, 3]);
    assert_eq!(new.take(&acks), Ok(Taken { counted: 3, dropped: false }));
    assert_eq!(new.take(&acks), Ok(Taken { counted: 0, dropped: false }), "twice is once");
    assert_eq!(*new.position(), position(Some(4), &[5, 6]));
    assert_eq!(new.ack(at(0), handles(&redelivered)[0]), Ok(Answer::AlreadyAcked));
    // The consumer of the old owner finishes here.
    assert_eq!(new.ack(at(0), held[4]), Ok(Answer::Acked));
    assert_eq!(offsets(&new.reserve(at(0), 9, VISIBILITY).unwrap()), [7, 8, 9]);
}

/// H44, H28: a promotion captures nothing, so all is forwarded; what the promoted log has not, is
/// dropped. What retention removed at the old owner was acknowledged by nobody.
#[test]
fn after_a_promotion_everything_is_forwarded_and_cut() {
    let mut old = fresh(3_000);
    old.trim(Offset(3));
    old.acknowledge_up_to(EPOCH, Offset(6)).unwrap();
    old.acknowledge(EPOCH, Offset(8)).unwrap();
    old.acknowledge(EPOCH, Offset(11)).unwrap();
    old.moved(true);
    let span = |first, end| Span { first: Offset(first), end: Offset(end) };
    let acks = old.forwardable();
    assert_eq!(acks.spans, [span(3, 6), span(8, 9), span(11, 12)]);

    let lineage = Lineage::of(&row(&[0, 10]));
    let promoted = found(1, position(Some(1), &[]), 15);
    let mut new = Cursor::resume(Limits::default(), lineage.clone(), promoted.clone());
    assert_eq!(new.take(&acks), Ok(Taken { counted: 4, dropped: true }));
    assert_eq!(*new.position(), position(Some(1), &[3, 4, 5, 8]));
    let later = Acks { epoch: Epoch(3), ..acks };
    assert_eq!(new.take(&later), Err(Refused::Moved));

    // Room is left for those who consume here.
    let found = Found { hwm: Offset(3_000), ..promoted };
    let mut new = Cursor::resume(Limits::default(), lineage, found);
    let many = Acks { epoch: Epoch(2), spans: vec![span(100, 2_000)] };
    let taken = Taken { counted: Position::ACKED_AHEAD_MAX as u64 / 2, dropped: true };
    assert_eq!(new.take(&many), Ok(taken));
    assert!(new.reserve(at(0), 1_000, VISIBILITY).unwrap().len() > 500);
}
