//! From the request to freeze to the flip, and what may come between.

use alloc::vec;

use super::super::*;
use super::bench::*;
use crate::ids::{AttemptNo, Digest, Epoch, MoveId, Offset};
use crate::metastore::{Applied, Reason, Reply};
use crate::partition::{Boundary, Listing, Manifest, Sidecar};
use crate::peer::Refusal;

/// R18, R19, R42, S8: freeze, verify, install, flip, each on the answer of the one before.
#[test]
fn the_freeze_is_as_short_as_its_steps() {
    let mut bench = Bench::preparing();
    let pass = |bench: &mut Bench, ms| bench.now = bench.now.after(Duration::from_millis(ms));
    pass(&mut bench, 1);
    let effects = bench.answer(Outcome::Prepare(Ok(capture(100))));
    let boundary =
        Boundary { start: Offset(0), end: Offset(10), hwm: Offset(10), digest: Some(Digest(77)) };
    assert_eq!(
        effects,
        [
            Does::Note(Note::Frozen { token: token(), tail_bytes: 0 }),
            Does::Run(Operation::Verify(boundary)),
        ]
    );
    pass(&mut bench, 3);
    let effects = bench.answer(Outcome::Verify(Ok(verified())));
    let sidecar = Sidecar { start: Offset(0), hwm: Offset(10), position: position() };
    let manifest =
        Manifest { position: position(), attempt: Some(attempt(0)), ..manifest(vec![staged(100)]) };
    let install = Operation::Install { attempt: attempt(0), sidecar, manifest };
    assert_eq!(effects, [Does::Run(install)]);
    pass(&mut bench, 4);
    assert_eq!(bench.answer(Outcome::Install(Ok(()))), [flip()]);
    pass(&mut bench, 7);
    let won = Proposed::Replied(Reply::Applied(Applied::Won(Epoch(4))));
    let moved = Note::Moved {
        attempt: attempt(0),
        copied_bytes: 100,
        passes: 1,
        freeze: Some(Freeze {
            tail_bytes: 0,
            inline: true,
            predicted: FreezeCost::FIXED_DEFAULT,
            lasted: Duration::from_millis(15),
            steps: Steps {
                prepare: Duration::from_millis(1),
                drain: Duration::ZERO,
                verify: Duration::from_millis(3),
                install: Duration::from_millis(4),
                flip: Duration::from_millis(7),
            },
        }),
    };
    assert_eq!(bench.answer(Outcome::Propose(won)), [Does::Note(moved)]);
    assert!(bench.mover.is_over());
    assert_eq!(bench.tell(Event::Wake), []);
    assert_eq!(bench.tell(Event::Row(None)), []);
}

/// R57, H2, F20: after an unknown outcome the same command follows, and when the freeze has
/// lasted for too long, `Resolve`; the directory is touched only once the log has burned the try.
#[test]
fn an_unknown_flip_is_repeated_and_then_resolved() {
    let mut bench = Bench::flipping();
    let mut repeated = 0;
    loop {
        let effects = bench.answer(Outcome::Propose(Proposed::Unknown));
        let unknown = Does::Note(Note::FlipUnknown { attempt: attempt(0) });
        if bench.mover.deadline().is_none() {
            let [note, run] = release();
            assert_eq!(effects, [unknown, note, run, resolve(attempt(0))]);
            break;
        }
        assert_eq!(effects, [unknown]);
        assert_eq!(bench.wake(), [flip()]);
        repeated += 1;
    }
    assert!(repeated > 5);
    assert_eq!(bench.answer(Outcome::Release(Ok(()))), []);
    let effects = bench.answer(Outcome::Propose(Proposed::Unknown));
    assert_eq!(effects, [Does::Note(Note::Waiting(Waiting::LeaderUnreachable))]);
    assert_eq!(bench.wake(), [resolve(attempt(0))]);
    let burned = Proposed::Replied(Reply::Applied(Applied::Burned));
    let effects = bench.answer(Outcome::Propose(burned));
    let resolved = Note::Resolved { attempt: attempt(0), won: None };
    let restage = Operation::Restage { attempt: attempt(0) };
    assert_eq!(effects, [Does::Note(resolved), Does::Run(restage)]);
    // What was verified once is not copied again, and the next try has the next number.
    let effects = bench.answer(Outcome::Restage(Ok(())));
    let list = Operation::List { source: A, move_id: MoveId(4), check: vec![] };
    assert_eq!(effects, [Does::Run(list)]);
}

/// H3: what a rejection means for the copy depends on its reason.
#[test]
fn a_rejected_flip_is_told_apart_by_its_reason() {
    for (reason, released) in [
        (Reason::TokenRevoked, false),
        (Reason::TokenStale, false),
        (Reason::AttemptBurned, true),
        (Reason::CopyBehind, true),
    ] {
        let mut bench = Bench::flipping();
        let rejected = Proposed::Replied(Reply::Rejected(reason));
        let mut expected = vec![Does::Note(Note::FlipRejected { attempt: attempt(0), reason })];
        if released {
            expected.extend(release());
        }
        expected.push(Does::Note(Note::Waiting(Waiting::FlipRejected(reason))));
        assert_eq!(bench.answer(Outcome::Propose(rejected)), expected);
        let restage = Operation::Restage { attempt: attempt(0) };
        assert_eq!(bench.wake(), [Does::Run(restage)]);
    }
    for reason in [Reason::MoveChanged, Reason::OwnerChanged, Reason::NotTarget, Reason::Gone] {
        let mut bench = Bench::flipping();
        let rejected = Proposed::Replied(Reply::Rejected(reason));
        let effects = bench.answer(Outcome::Propose(rejected));
        let note = Does::Note(Note::FlipRejected { attempt: attempt(0), reason });
        assert_eq!(effects, [note, Does::Run(Operation::ReadRow)]);
    }
    // Nothing is known after any other: the log is asked.
    let mut bench = Bench::flipping();
    bench.answer(Outcome::Propose(Proposed::Replied(Reply::Rejected(Reason::NodeDead))));
    bench.running.clear();
    assert_eq!(bench.wake(), [resolve(attempt(0))]);
}

/// F5: a row that shows the win ends the move, and it is over once its proposal is answered.
#[test]
fn a_row_may_show_the_win_first() {
    let mut bench = Bench::flipping();
    let won = Assignment {
        owner: B,
        epoch: Epoch(4),
        data: attempt(0),
        target: None,
        move_id: MoveId(5),
        ..row()
    };
    let effects = bench.tell(Event::Row(Some(won)));
    assert!(matches!(effects[..], [Does::Note(Note::Moved { .. })]), "{effects:?}");
    assert!(!bench.mover.is_over());
    assert_eq!(bench.answer(Outcome::Propose(Proposed::Unknown)), []);
    assert!(bench.mover.is_over());
}

/// H21, R56: a row with another plan ends the step: what runs is cancelled and awaited, the
/// freeze is released, and the row is read behind a barrier.
#[test]
fn a_changed_plan_closes_the_step() {
    let mut bench = Bench::preparing();
    bench.answer(Outcome::Prepare(Ok(capture(200))));
    let other = Assignment { target: Some(NodeId(3)), move_id: MoveId(5), ..row() };
    let effects = bench.tell(Event::Row(Some(other.clone())));
    let Does::Run(running) = copy(100, 64) else { unreachable!() };
    let [note, run] = release();
    assert_eq!(effects, [note, run, Does::Cancel(running)]);
    let effects = bench.answer(Outcome::Copy(Err(Fault::Cancelled)));
    assert_eq!(effects, [Does::Run(Operation::ReadRow)]);
    assert_eq!(bench.answer(Outcome::Release(Ok(()))), []);
    // Nobody has said that the owner is alive, so what is staged stays (case C54).
    let effects = bench.answer(Outcome::ReadRow(Ok(Some(other))));
    assert_eq!(effects, [Does::Note(Note::Cancelled { staging_kept: true })]);
    assert!(bench.mover.is_over());
}

/// H2: a row with another plan does not make an unanswered flip lost: the log says what it is.
#[test]
fn a_changed_plan_resolves_a_flip_under_way() {
    let mut bench = Bench::flipping();
    let alive = SourceHealth::Alive { incarnation: Incarnation(8) };
    assert_eq!(bench.tell(Event::Source(A, alive)), []);
    let other = Assignment { target: None, move_id: MoveId(5), ..row() };
    let Does::Run(running) = flip() else { unreachable!() };
    assert_eq!(bench.tell(Event::Row(Some(other.clone()))), [Does::Cancel(running)]);
    let effects = bench.answer(Outcome::Propose(Proposed::Unknown));
    assert_eq!(effects, [Does::Run(Operation::ReadRow)]);
    let effects = bench.answer(Outcome::ReadRow(Ok(Some(other))));
    assert_eq!(effects, [resolve(attempt(0))]);
    let burned = Proposed::Replied(Reply::Applied(Applied::Burned));
    let effects = bench.answer(Outcome::Propose(burned));
    let aside = Operation::SetAside(What::Installed(attempt(0)));
    let resolved = Note::Resolved { attempt: attempt(0), won: None };
    assert_eq!(effects, [Does::Note(resolved), Does::Run(aside)]);
    let effects = bench.answer(Outcome::SetAside(Ok(())));
    assert_eq!(effects, [Does::Note(Note::Cancelled { staging_kept: false })]);
}

/// R61, H27, H30: after a restart the fate of what is installed comes first, and the source says
/// which staged bytes are right before any is copied.
#[test]
fn a_restart_resolves_then_checks() {
    let earlier = Attempt { no: AttemptNo { incarnation: Incarnation(0), n: 3 }, ..attempt(0) };
    let found = Recovered {
        installed: vec![
            (Attempt::birth(B), None),
            (earlier, Some(Manifest { attempt: Some(earlier), ..manifest(vec![staged(64)]) })),
        ],
        ..Recovered::default()
    };
    let mut bench = Bench::new(found);
    assert_eq!(bench.answer(Outcome::ReadRow(Ok(Some(row())))), [resolve(earlier)]);
    let burned = Proposed::Replied(Reply::Applied(Applied::Burned));
    let effects = bench.answer(Outcome::Propose(burned));
    let resolved = Note::Resolved { attempt: earlier, won: None };
    let restage = Operation::Restage { attempt: earlier };
    assert_eq!(effects, [Does::Note(resolved), Does::Run(restage)]);
    let effects = bench.answer(Outcome::Restage(Ok(())));
    let list = Operation::List { source: A, move_id: MoveId(4), check: vec![staged(64)] };
    assert_eq!(effects, [Does::Run(list)]);
    let agreed = Listing { agreed: vec![Offset(0)], ..listing(100) };
    let effects = bench.answer(Outcome::List(Ok(agreed)));
    let kept = manifest(vec![staged(64)]);
    assert_eq!(effects, [Does::Run(Operation::Checkpoint(kept))]);
    let effects = bench.answer(Outcome::Checkpoint(Ok(())));
    assert_eq!(effects, [Does::Run(Operation::Trim { keep: vec![staged(64)] })]);
    assert_eq!(bench.answer(Outcome::Trim(Ok(()))), [copy(64, 36)]);
}

/// H35, `case_012`: an attempt that the log says has won is newer than the row that is known:
/// the row is read again before anything is concluded from it.
#[test]
fn a_resolved_win_reads_the_row_again() {
    let won = attempt(0);
    let found = Recovered {
        installed: vec![(won, Some(manifest(vec![staged(100)])))],
        ..Recovered::default()
    };
    let mut bench = Bench::new(found);
    assert_eq!(bench.answer(Outcome::ReadRow(Ok(Some(row())))), [resolve(won)]);
    let reply = Proposed::Replied(Reply::Applied(Applied::Won(Epoch(4))));
    let effects = bench.answer(Outcome::Propose(reply));
    let resolved = Note::Resolved { attempt: won, won: Some(Epoch(4)) };
    assert_eq!(effects, [Does::Note(resolved), Does::Run(Operation::ReadRow)]);
    let owned = Assignment { owner: B, data: won, target: None, move_id: MoveId(5), ..row() };
    let effects = bench.answer(Outcome::ReadRow(Ok(Some(owned))));
    assert_eq!(effects, [Does::Note(Note::AlreadyOwner { data: won })]);
    assert!(bench.mover.is_over());
}

/// H41, R58: each refusal of a freeze has its own consequence.
#[test]
fn each_refusal_of_a_freeze_has_its_consequence() {
    let refused = |refusal| {
        let mut bench = Bench::preparing();
        let effects = bench.answer(Outcome::Prepare(Err(Fault::Refused(refusal))));
        let next = bench.wake();
        (effects, next)
    };
    let again = Operation::Prepare { source: A, attempt: attempt(0), tail_bytes_max: 0 };
    let again = Does::Run(again);
    assert_eq!(refused(Refusal::NotYet), (vec![], vec![again]));
    for refusal in [Refusal::NoSuchMove, Refusal::NotOwner] {
        let waiting = Does::Note(Note::Waiting(Waiting::SourceRefuses(refusal)));
        assert_eq!(refused(refusal), (vec![waiting], vec![Does::Run(Operation::ReadRow)]));
    }
    for refusal in [Refusal::FrozenElsewhere, Refusal::AppendStuck, Refusal::NotServing] {
        let waiting = Does::Note(Note::Waiting(Waiting::SourceRefuses(refusal)));
        let list = Operation::List { source: A, move_id: MoveId(4), check: vec![] };
        assert_eq!(refused(refusal), (vec![waiting], vec![Does::Run(list)]));
    }
}

/// H6: a capture of another life of the source is released, and what is staged is compared.
#[test]
fn a_capture_of_another_life_is_released() {
    let mut bench = Bench::preparing();
    let mut reborn = capture(100);
    reborn.listing.incarnation = Incarnation(9);
    let effects = bench.answer(Outcome::Prepare(Ok(reborn)));
    let [note, run] = release();
    let waiting = Does::Note(Note::Waiting(Waiting::SourceRestarted));
    assert_eq!(effects, [note, run, waiting]);
    let list = Operation::List { source: A, move_id: MoveId(4), check: vec![staged(100)] };
    assert_eq!(bench.wake(), [Does::Run(list)]);
}
