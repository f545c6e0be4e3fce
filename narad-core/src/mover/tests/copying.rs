//! From the row to a staged copy, and what may come between.

use alloc::vec;
use alloc::vec::Vec;

use super::super::*;
use super::bench::*;
use crate::ids::{MoveId, Offset};
use crate::partition::{Checksum, Listing, Manifest, Staged};

/// R13, R15, R24: from the row to the first bytes; the session is durable before any is copied.
#[test]
fn the_session_is_durable_before_the_first_copy() {
    let mut bench = Bench::listing();
    let effects = bench.answer(Outcome::List(Ok(listing(100))));
    assert_eq!(effects, [Does::Run(Operation::Checkpoint(manifest(vec![])))]);
    assert_eq!(bench.answer(Outcome::Checkpoint(Ok(()))), [copy(0, 64)]);
    bench.now = bench.now.after(Duration::from_millis(1));
    assert_eq!(bench.answer(Outcome::Copy(Ok(copied(64)))), [copy(64, 36)]);
    let effects = bench.answer(Outcome::Copy(Ok(copied(100))));
    assert_eq!(effects, [Does::Run(Operation::Checkpoint(manifest(vec![staged(100)])))]);
    let effects = bench.answer(Outcome::Checkpoint(Ok(())));
    assert_eq!(effects, [Does::Note(Note::PassEnded { pass: 1, copied_bytes: 100 })]);
    assert_eq!(bench.mover.deadline().map(|deadline| deadline.why), Some("next pass"));
}

/// H22: of a way that may bring next to nothing in a minute little is asked for at first; once it is
/// known to be fast, as much as may be.
#[test]
fn little_is_asked_of_a_way_that_is_not_known() {
    const MIB: u64 = 1 << 20;
    let mut bench = Bench::asking_for(32 * MIB, Recovered::default());
    bench.answer(Outcome::ReadRow(Ok(Some(row()))));
    bench.answer(Outcome::List(Ok(listing(100 * MIB))));
    assert_eq!(bench.answer(Outcome::Checkpoint(Ok(()))), [copy(0, MIB)]);
    bench.now = bench.now.after(Duration::from_millis(1));
    assert_eq!(bench.answer(Outcome::Copy(Ok(copied(MIB)))), [copy(MIB, 32 * MIB)]);
}

/// H16, H17: bytes that the source does not vouch for are first forgotten by the manifest and
/// then dropped.
#[test]
fn the_manifest_forgets_before_the_disk_does() {
    let found = Recovered { staging: Some(manifest(vec![staged(64)])), ..Recovered::default() };
    let mut bench = Bench::new(found);
    bench.answer(Outcome::ReadRow(Ok(Some(row()))));
    let effects = bench.answer(Outcome::List(Ok(listing(100))));
    let dropped = Does::Note(Note::Dropped { extents: 1, bytes: 64 });
    assert_eq!(effects, [dropped, Does::Run(Operation::Checkpoint(manifest(vec![])))]);
    let effects = bench.answer(Outcome::Checkpoint(Ok(())));
    assert_eq!(effects, [Does::Run(Operation::Trim { keep: vec![] })]);
    assert_eq!(bench.answer(Outcome::Trim(Ok(()))), [copy(0, 64)]);
}

/// H16: a source that shows another life is asked to compare before anything is added.
#[test]
fn another_life_of_the_source_is_compared_first() {
    let mut bench = Bench::listing();
    bench.answer(Outcome::List(Ok(listing(100))));
    bench.answer(Outcome::Checkpoint(Ok(())));
    bench.answer(Outcome::Copy(Ok(copied(64))));
    bench.answer(Outcome::Copy(Ok(copied(100))));
    bench.answer(Outcome::Checkpoint(Ok(())));
    bench.wake();
    let reborn = Listing { incarnation: Incarnation(9), ..listing(200) };
    assert_eq!(bench.answer(Outcome::List(Ok(reborn))), []);
    let list = Operation::List { source: A, move_id: MoveId(4), check: vec![staged(100)] };
    assert_eq!(bench.wake(), [Does::Run(list)]);
}

/// H16: a source that dies before it could compare the staged bytes with its new life is not
/// promoted over.
#[test]
fn a_copy_that_was_not_compared_is_not_promoted() {
    let mut bench = Bench::listing();
    bench.answer(Outcome::List(Ok(listing(100))));
    bench.answer(Outcome::Checkpoint(Ok(())));
    bench.answer(Outcome::Copy(Ok(copied(64))));
    bench.answer(Outcome::Copy(Ok(copied(100))));
    bench.answer(Outcome::Checkpoint(Ok(())));
    bench.wake();
    let reborn = Listing { incarnation: Incarnation(9), ..listing(200) };
    bench.answer(Outcome::List(Ok(reborn)));
    let dead = SourceHealth::Dead {
        generation: Generation(1),
        since: Instant::ORIGIN,
        promote_after: Duration::ZERO,
    };
    assert_eq!(bench.tell(Event::Source(A, dead)), []);
    // What the new life has shown is remembered all the same.
    let shown = Manifest { hwm: Offset(20), ..manifest(vec![staged(100)]) };
    assert_eq!(bench.wake(), [Does::Run(Operation::Checkpoint(shown))]);
    let refusal = crate::promote::Refusal::NotCompared;
    let waiting = Does::Note(Note::Waiting(Waiting::PromoteRefused(refusal)));
    assert_eq!(bench.answer(Outcome::Checkpoint(Ok(()))), [waiting]);
}

/// H5, H30: the same node under a new plan: a session of its own, the staged bytes compared, and
/// the passes counted anew.
#[test]
fn a_new_plan_has_its_own_session() {
    let mut bench = Bench::preparing();
    let again = Assignment { move_id: MoveId(6), ..row() };
    bench.tell(Event::Row(Some(again.clone())));
    let effects = bench.answer(Outcome::Prepare(Err(Fault::Cancelled)));
    assert_eq!(effects, [Does::Run(Operation::ReadRow)]);
    bench.now = bench.now.after(Duration::from_secs(1));
    let effects = bench.answer(Outcome::ReadRow(Ok(Some(again))));
    let list = Operation::List { source: A, move_id: MoveId(6), check: vec![staged(100)] };
    assert_eq!(effects, [Does::Run(list)]);
    let agreed = Listing { agreed: vec![Offset(0)], ..listing(164) };
    let effects = bench.answer(Outcome::List(Ok(agreed)));
    let manifest = Manifest { move_id: MoveId(6), hwm: Offset(16), ..manifest(vec![staged(100)]) };
    assert_eq!(effects, [Does::Run(Operation::Checkpoint(manifest))]);
    assert_eq!(bench.answer(Outcome::Checkpoint(Ok(()))), [copy(100, 64)]);
    bench.answer(Outcome::Copy(Ok(copied(164))));
    let effects = bench.answer(Outcome::Checkpoint(Ok(())));
    assert_eq!(effects, [Does::Note(Note::PassEnded { pass: 1, copied_bytes: 64 })]);
}

/// H17: after a failed checkpoint only what an earlier one made durable counts, and the disk is
/// cut to it before anything is copied.
#[test]
fn a_failed_checkpoint_takes_bytes_back() {
    let mut bench = Bench::listing();
    bench.answer(Outcome::List(Ok(listing(100))));
    bench.answer(Outcome::Checkpoint(Ok(())));
    bench.answer(Outcome::Copy(Ok(copied(64))));
    bench.answer(Outcome::Copy(Ok(copied(100))));
    let effects = bench.answer(Outcome::Checkpoint(Err(Fault::Disk)));
    assert_eq!(effects, [Does::Note(Note::Waiting(Waiting::Disk))]);
    bench.wake();
    let effects = bench.answer(Outcome::List(Ok(listing(100))));
    assert_eq!(effects, [Does::Run(Operation::Checkpoint(manifest(vec![])))]);
    let effects = bench.answer(Outcome::Checkpoint(Ok(())));
    assert_eq!(effects, [Does::Run(Operation::Trim { keep: vec![] })]);
    assert_eq!(bench.answer(Outcome::Trim(Ok(()))), [copy(0, 64)]);
}

/// H16, `case_049`: a range that does not fit what is staged is asked for once more; if it does not
/// fit again, what is staged is not what was written, and the extent is copied from its beginning.
#[test]
fn what_does_not_fit_twice_is_copied_from_the_beginning() {
    fn resume(bench: &mut Bench) -> Vec<Does> {
        let misfit = Outcome::Copy(Err(Fault::Mismatch { base: Offset(0) }));
        if let [Does::Run(Operation::Checkpoint(_))] = bench.answer(misfit)[..] {
            bench.answer(Outcome::Checkpoint(Ok(())));
        }
        bench.wake();
        let mut effects = bench.answer(Outcome::List(Ok(listing(100))));
        loop {
            let outcome = match effects.last() {
                Some(Does::Run(Operation::Checkpoint(_))) => Outcome::Checkpoint(Ok(())),
                Some(Does::Run(Operation::Trim { .. })) => Outcome::Trim(Ok(())),
                _ => return effects,
            };
            effects = bench.answer(outcome);
        }
    }
    let mut bench = Bench::listing();
    bench.answer(Outcome::List(Ok(listing(100))));
    bench.answer(Outcome::Checkpoint(Ok(())));
    bench.answer(Outcome::Copy(Ok(copied(64))));
    assert_eq!(resume(&mut bench), [copy(64, 36)]);
    assert_eq!(resume(&mut bench), [copy(0, 64)]);
}

/// Field fault 13, `case_048`: an extent that is copied whole twice and is both times the same other
/// than its source lists is damaged there, and said to be; one that differs from itself is copied again.
#[test]
fn the_same_mismatch_twice_is_the_sources() {
    /// Copies all of it with such a checksum, and returns what it waits for then.
    fn copied_as(bench: &mut Bench, checksum: u32) -> Option<Waiting> {
        let staged = Staged { checksum: Checksum(checksum), ..staged(100) };
        loop {
            let outcome = match &bench.running.first().expect("something runs").1 {
                Operation::List { .. } => Outcome::List(Ok(listing(100))),
                Operation::Checkpoint(_) => Outcome::Checkpoint(Ok(())),
                Operation::Trim { .. } => Outcome::Trim(Ok(())),
                Operation::Copy { position: 0, .. } => Outcome::Copy(Ok(copied(64))),
                Operation::Copy { .. } => Outcome::Copy(Ok(Copied { staged, ..copied(100) })),
                other => panic!("{other:?}"),
            };
            bench.answer(outcome);
            if bench.running.is_empty() {
                let waiting = bench.mover.progress().waiting;
                bench.wake();
                return waiting;
            }
        }
    }
    let mut bench = Bench::listing();
    assert_eq!(copied_as(&mut bench, 7), Some(Waiting::CopyUnverifiable));
    assert_eq!(copied_as(&mut bench, 8), Some(Waiting::CopyUnverifiable));
    let before = bench.now;
    let damaged = Waiting::Damaged { base: Offset(0), position: 0 };
    assert_eq!(copied_as(&mut bench, 8), Some(damaged));
    assert!(bench.now.since(before) >= Duration::from_secs(30), "it does not spin");
    assert!(!bench.mover.progress().holds_slot, "L1: nothing but a repair helps");
    assert_eq!(copied_as(&mut bench, 8), Some(damaged));
    // The file is restored.
    copied_as(&mut bench, 100);
    assert_eq!(bench.mover.progress().waiting, None);
    assert!(bench.mover.progress().holds_slot);
}

/// Rule 2: an answer that is not this machine's is noted and changes nothing.
#[test]
fn a_stale_answer_is_noted() {
    let mut bench = Bench::listing();
    let (op, _) = bench.running[0].clone();
    bench.answer(Outcome::List(Err(Fault::Unreachable)));
    let before = bench.mover.clone();
    let effects = bench.tell(Event::Done(op, Outcome::List(Ok(listing(100)))));
    assert_eq!(effects, [Does::Note(Note::Stale(op))]);
    assert_eq!(bench.mover, before);
}

/// R62, R63: with a dead source the machine wants to be woken when it may promote, and not
/// before.
#[test]
fn a_dead_source_sets_the_deadline() {
    let mut bench = Bench::listing();
    let dead = SourceHealth::Dead {
        generation: Generation(1),
        since: bench.now,
        promote_after: Duration::from_millis(150),
    };
    assert_eq!(bench.tell(Event::Source(A, dead)), []);
    let due = bench.now.after(Duration::from_millis(150));
    assert_eq!(bench.mover.deadline().map(|deadline| deadline.at), Some(due));
    let effects = bench.answer(Outcome::List(Err(Fault::TimedOut)));
    assert_eq!(effects, [Does::Note(Note::Waiting(Waiting::SourceDead))]);
    while bench.now < due {
        bench.wake();
        if bench.now < due {
            bench.answer(Outcome::List(Err(Fault::TimedOut)));
        }
    }
    let refusal = crate::promote::Refusal::NeverReached;
    assert_eq!(bench.mover.progress().waiting, Some(Waiting::PromoteRefused(refusal)));
    assert_eq!(bench.mover.deadline(), None);
    assert!(!bench.mover.progress().holds_slot);
    // News of the source ends the wait at once.
    let alive = SourceHealth::Alive { incarnation: Incarnation(9) };
    let effects = bench.tell(Event::Source(A, alive));
    assert!(matches!(effects[..], [Does::Run(Operation::List { .. })] | []), "{effects:?}");
}

/// Field faults 11 and 43: what failed again and again while the source was dead does not make its next
/// life stuck: it is asked at once, and soon again.
#[test]
fn a_source_that_comes_back_is_asked_as_if_for_the_first_time() {
    let mut bench = Bench::listing();
    let dead = SourceHealth::Dead {
        generation: Generation(1),
        since: bench.now,
        promote_after: Duration::from_hours(1),
    };
    bench.tell(Event::Source(A, dead));
    for _ in 0..10 {
        bench.answer(Outcome::List(Err(Fault::Unreachable)));
        bench.wake();
    }
    bench.answer(Outcome::List(Err(Fault::Unreachable)));
    assert!(!bench.mover.progress().holds_slot);
    let alive = SourceHealth::Alive { incarnation: Incarnation(9) };
    let told = bench.now;
    let mut effects = bench.tell(Event::Source(A, alive));
    if effects.is_empty() {
        effects = bench.wake();
    }
    assert!(matches!(effects[..], [Does::Run(Operation::List { .. })]), "{effects:?}");
    assert!(bench.now.since(told) <= Config::new(0).pass_interval, "not at once");
    let not_yet = Fault::Refused(crate::peer::Refusal::NotServing);
    bench.answer(Outcome::List(Err(not_yet)));
    let progress = bench.mover.progress();
    assert!(progress.holds_slot && progress.waiting.is_some(), "{progress:?}");
    let soon = bench.mover.deadline().expect("it asks again").at;
    assert!(soon.since(bench.now) <= Config::new(0).retry_min, "{soon:?}");
}

/// Rule 4: a driver that answers with another kind of outcome has a bug.
#[test]
#[should_panic(expected = "was answered by")]
fn an_answer_of_another_kind_panics() {
    Bench::listing().answer(Outcome::Probe(Ok(())));
}

/// Rule 6 of the crate: two nodes that fail together do not come back together, and one node does
/// the same each time.
#[test]
fn pauses_are_jittered_by_the_seed() {
    let pause = |seed: u64| {
        let mut config = Config::new(seed);
        config.retry_min = Duration::from_secs(1);
        let me = Me { node: B, incarnation: Incarnation(1) };
        let mut out = Effects::default();
        let now = Instant::ORIGIN;
        let mut mover = Mover::new(now, me, PARTITION, config, Recovered::default(), &mut out);
        let Some(Effect::Run(op, _)) = out.drain().next() else { unreachable!() };
        let event = Event::Done(op, Outcome::ReadRow(Err(Fault::Unreachable)));
        mover.handle(now, event, &mut out);
        mover.deadline().unwrap().at.since_origin()
    };
    assert_eq!(pause(1), pause(1));
    assert_ne!(pause(1), pause(2));
    for seed in 0..100 {
        let range = Duration::from_millis(500)..=Duration::from_secs(1);
        assert!(range.contains(&pause(seed)));
    }
}

/// H17, `case_044`: a cancelled copy may have written: what it left is cut off before the copy is
/// read back.
#[test]
fn what_a_cancelled_copy_left_is_cut_off() {
    let mut bench = Bench::listing();
    bench.answer(Outcome::List(Ok(listing(100))));
    bench.answer(Outcome::Checkpoint(Ok(())));
    let dead = SourceHealth::Dead {
        generation: Generation(1),
        since: Instant::ORIGIN,
        promote_after: Duration::ZERO,
    };
    bench.tell(Event::Source(A, dead));
    let Does::Run(running) = copy(0, 64) else { unreachable!() };
    assert_eq!(bench.wake(), [Does::Cancel(running)]);
    let effects = bench.answer(Outcome::Copy(Ok(copied(64))));
    assert_eq!(effects, [Does::Run(Operation::Checkpoint(manifest(vec![])))]);
    let effects = bench.answer(Outcome::Checkpoint(Ok(())));
    assert_eq!(effects, [Does::Run(Operation::Trim { keep: vec![] })]);
}
