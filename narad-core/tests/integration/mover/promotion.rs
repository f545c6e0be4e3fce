//! The source is dead: when its copy may be promoted, and exactly how far it must reach.

use core::time::Duration;

use narad_core::ids::*;
use narad_core::metastore::*;
use narad_core::mover::*;
use narad_core::promote::Refusal;

use super::row::{A, B};
use super::source::{RECORD, Source};
use super::world::{Twist, World};

/// A world in which all that was listed is staged, and the source has just died.
fn staged(hidden: u64) -> World {
    let mut source = Source::new(0);
    source.produce(60);
    source.hidden = hidden;
    let mut world = World::new(source);
    while world.mover.progress().passes == 0 {
        assert!(world.step());
    }
    world.kill_source();
    world
}

fn report(world: &mut World, hwm: u64) {
    world.replicated.row.as_mut().unwrap().reported_hwm = Some(Offset(hwm));
    world.tell_row();
}

/// R65, S6, H12: the copy must reach the highest watermark that was ever reported; its end is 60.
#[test]
fn the_gate_is_exact_to_the_record() {
    for (reported, promoted) in [(59, true), (60, true), (61, false)] {
        let mut world = staged(0);
        report(&mut world, reported);
        world.run();
        if promoted {
            world.assert_moved();
            continue;
        }
        let waiting = world.mover.progress().waiting;
        let refusal = Refusal::Behind { end: Offset(60), visible: Offset(61) };
        assert_eq!(waiting, Some(Waiting::PromoteRefused(refusal)));
        assert_eq!(world.replicated.flips, 0);
    }
}

/// R67, R68, H43, `case_080`: the whole verified tail is kept, and what was hidden stays hidden.
#[test]
fn the_hidden_tail_is_kept_and_stays_hidden() {
    let mut world = staged(7);
    world.run();
    world.assert_moved();
    let row = world.replicated.row.clone().unwrap();
    let directory = &world.disk.installed[&row.data];
    let sidecar = directory.sidecar.as_ref().unwrap();
    assert_eq!(sidecar.hwm, Offset(53));
    assert_eq!(directory.verify(Offset(0)).end, Offset(60));
    assert_eq!(row.lineage.last().unwrap().start, Offset(60));
}

/// R63, H19: one millisecond too early is too early, on this node's own clock.
#[test]
fn promotion_waits_to_the_millisecond() {
    let mut world = staged(0);
    let died = world.now;
    let due = died.after(world.promote_after);
    while world.count("verify") == 0 {
        assert!(world.now < due || world.now.since(due) < Duration::from_millis(10));
        assert!(world.step());
        if world.now < due {
            assert_eq!(world.count("verify"), 0);
        }
    }
    world.run();
    world.assert_moved();
    // And with the clock one millisecond short, nothing happens at all.
    let mut world = staged(0);
    while world.mover.progress().phase != Phase::Waiting {
        assert!(world.step());
    }
    let early = died.after(Duration::from_millis(119_999));
    world.now = early;
    world.deliver(Event::Wake);
    world.flush();
    assert_eq!(world.count("verify"), 0);
    assert_eq!(world.replicated.flips, 0);
}

/// H13, S6: a listing that is answered when the source has just been dead for long enough is not gone on
/// with, and what it says of the watermark holds all the same.
#[test]
fn a_listing_that_comes_late_still_says_what_is_visible() {
    let mut world = staged(0);
    let due = world.now.after(world.promote_after);
    while world.mover.progress().phase != Phase::Waiting {
        assert!(world.step());
    }
    // It is reached again, and has not registered yet.
    world.source.reachable = true;
    world.source.produce(1);
    world.until("list", world.count("list") + 1);
    world.now = world.now.max(due);
    world.deliver(Event::Wake);
    assert_eq!(world.mover.progress().phase, Phase::Closing);
    world.run();
    let refusal = Refusal::Behind { end: Offset(60), visible: Offset(61) };
    assert_eq!(world.mover.progress().waiting, Some(Waiting::PromoteRefused(refusal)));
    assert_eq!(world.replicated.flips, 0);
}

/// R64, `case_074`: a source that was never reached is never promoted over.
#[test]
fn a_session_that_never_was_promotes_nothing() {
    let mut source = Source::new(0);
    source.produce(60);
    let mut world = World::new(source);
    world.kill_source();
    world.run();
    let waiting = world.mover.progress().waiting;
    assert_eq!(waiting, Some(Waiting::PromoteRefused(Refusal::NeverReached)));
    assert!(!world.mover.progress().holds_slot, "case_073");
    world.restart_source();
    world.run();
    world.assert_moved();
}

/// H30: a session of an earlier plan promotes nothing, whatever is staged, also after a restart.
#[test]
fn a_session_ends_with_its_plan() {
    for crash in [false, true] {
        let mut world = staged(0);
        world.happen(Twist::Replan);
        if crash {
            world.crash(true);
        }
        world.run();
        let waiting = world.mover.progress().waiting;
        assert_eq!(waiting, Some(Waiting::PromoteRefused(Refusal::NeverReached)), "{crash}");
        assert!(world.disk.staging.is_some(), "case_054: the staged bytes are kept");
    }
}

/// R61, R63, `case_054`, `case_082`: after a restart, the manifest still knows the session.
#[test]
fn a_restarted_destination_promotes_what_it_staged() {
    let mut world = staged(0);
    world.crash(true);
    world.run();
    world.assert_moved();
    let moved = world.notes.iter().find(|note| matches!(note, Note::Moved { .. }));
    assert!(matches!(moved, Some(Note::Moved { freeze: None, .. })), "{moved:?}");
}

/// H10, F7: the source registers again after the gate and before the flip: the log refuses, the
/// copy is used again, and the move completes with a freeze.
#[test]
fn a_source_that_returns_before_the_flip_is_frozen_after_all() {
    let mut world = staged(0);
    while world.count("install") == 0 {
        assert!(world.step());
    }
    // The flip is refused before this node hears of the return.
    world.source.restart();
    let incarnation = world.source.incarnation;
    world.replicated.register(incarnation);
    while world.count("flip") == 0 {
        assert!(world.step());
    }
    world.tell_health();
    world.run();
    world.assert_moved();
    let rejected = world
        .notes
        .iter()
        .any(|note| matches!(note, Note::FlipRejected { reason: Reason::NotDead, .. }));
    assert!(rejected);
    assert_eq!(world.count("restage"), 1);
}

/// H10: as above, but this node hears of it while it installs: it does not even propose.
#[test]
fn a_return_that_is_known_stops_the_promotion() {
    let mut world = staged(0);
    world.until("install", 1);
    world.source.restart();
    let incarnation = world.source.incarnation;
    world.replicated.register(incarnation);
    let health = SourceHealth::Alive { incarnation: Incarnation(incarnation) };
    world.deliver(Event::Source(A, health));
    world.run();
    world.assert_moved();
    let forced = |note: &Note| matches!(note, Note::Moved { freeze: None, .. });
    assert!(!world.notes.iter().any(forced));
    assert_eq!(world.count("flip"), 1);
}

/// H16, `case_044`: a copy that failed half-way has left bytes that nobody vouches for: they are
/// cut off before the copy is read back and promoted.
#[test]
fn what_a_failed_copy_left_is_not_promoted() {
    let mut source = Source::new(0);
    source.segment_bytes = 120 * RECORD;
    source.produce(120);
    source.hidden = 100;
    let mut world = World::new(source);
    world.until("copy", 12);
    world.twists.insert(world.operations.len(), Twist::Fail(Fault::Unreachable));
    while world.mover.progress().phase == Phase::CatchUp {
        assert!(world.step());
    }
    world.kill_source();
    world.run();
    world.assert_moved();
    assert!(world.replicated.forced);
    assert_eq!(world.count("trim"), 1);
}

/// H13: the source shows a lower watermark than before; what was visible once must be reached.
#[test]
fn the_highest_watermark_ever_listed_counts() {
    let mut source = Source::new(0);
    source.produce(60);
    let mut world = World::new(source);
    while world.mover.progress().passes == 0 {
        assert!(world.step());
    }
    world.source.hidden = 20;
    world.until("list", 2);
    while world.mover.progress().phase == Phase::CatchUp {
        assert!(world.step());
    }
    world.twists.insert(world.operations.len(), Twist::Fail(Fault::Unreachable));
    world.kill_source();
    world.run();
    world.assert_moved();
    let data = world.replicated.row.as_ref().unwrap().data;
    assert_eq!(world.disk.installed[&data].sidecar.as_ref().unwrap().hwm, Offset(60));
}

/// `case_013`: the source dies while the answer of a normal flip is out: the same flip is proposed
/// again, and wins, since its freeze still stands in the log.
#[test]
fn a_flip_under_way_outlives_its_source() {
    let mut source = Source::new(0);
    source.produce(60);
    let mut world = World::new(source);
    world.lost_flips = 1;
    while world.museum.is_empty() {
        assert!(world.step());
    }
    world.kill_source();
    world.run();
    world.assert_moved();
    assert_eq!(world.count("resolve"), 0);
    let forced = |note: &Note| matches!(note, Note::Moved { freeze: None, .. });
    assert!(!world.notes.iter().any(forced));
}

/// `case_013`, H2: when no answer comes at all, the fate of the flip is resolved before the copy
/// is promoted under another attempt.
#[test]
fn an_unresolved_flip_is_resolved_before_promotion() {
    let mut source = Source::new(0);
    source.produce(60);
    let mut world = World::new(source);
    world.lost_flips = 40;
    while world.museum.is_empty() {
        assert!(world.step());
    }
    world.kill_source();
    while world.count("resolve") == 0 {
        assert!(world.step());
    }
    world.lost_flips = 0;
    world.run();
    world.assert_moved();
    assert!(world.count("restage") >= 1);
    assert_eq!(world.replicated.row.as_ref().unwrap().owner, B);
    while !world.museum.is_empty() {
        world.apply_late(0);
    }
    world.assert_moved();
}

/// R66: a report that the dead source's last words bring in late re-opens the question, both ways.
#[test]
fn a_change_of_the_row_is_judged_again() {
    let mut world = staged(0);
    world.replicated.row.as_mut().unwrap().min_end = Offset(61);
    world.tell_row();
    world.run();
    let refusal = Refusal::BelowMinEnd { end: Offset(60), min_end: Offset(61) };
    assert_eq!(world.mover.progress().waiting, Some(Waiting::PromoteRefused(refusal)));
    world.replicated.row.as_mut().unwrap().min_end = Offset(60);
    world.tell_row();
    world.run();
    world.assert_moved();
}
