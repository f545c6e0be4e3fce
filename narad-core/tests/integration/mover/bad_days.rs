//! Errors in numbers: what is tried again, how often, and what people are told.

use core::time::Duration;

use narad_core::ids::*;
use narad_core::mover::Outcome;
use narad_core::mover::*;
use narad_core::peer::Refusal;

use super::source::Source;
use super::world::{Twist, World, config};

fn world() -> World {
    let mut source = Source::new(0);
    source.produce(60);
    World::new(source)
}

fn index_of(name: &str) -> usize {
    let mut world = world();
    world.run();
    world.operations.iter().position(|operation| *operation == name).unwrap()
}

/// R60: a thousand transient errors, then success; each is followed by a pause.
#[test]
fn a_thousand_errors_and_then_success() {
    let mut world = world();
    for index in 3..1_003 {
        world.twists.insert(index, Twist::Fail(Fault::Unreachable));
    }
    world.run();
    world.assert_moved();
    assert!(world.now.since_origin() > Duration::from_mins(225), "{:?}", world.now);
    assert!(world.notes.contains(&Note::Waiting(Waiting::SourceUnreachable)));
    assert!(world.notes.contains(&Note::Resumed));
}

/// L1, field fault 11: what fails again and again counts as stuck and holds no slot; what goes on
/// holds one again.
#[test]
fn a_stuck_move_holds_no_slot() {
    let mut world = world();
    for index in 3..23 {
        world.twists.insert(index, Twist::Fail(Fault::DiskFull));
    }
    while world.operations.len() < 20 {
        assert!(world.step());
    }
    let progress = world.mover.progress();
    assert_eq!(progress.waiting, Some(Waiting::DiskFull));
    assert!(!progress.holds_slot);
    while world.mover.progress().passes == 0 {
        assert!(world.step());
    }
    assert!(world.mover.progress().holds_slot);
    world.run();
    world.assert_moved();
}

/// H20, `case_052`: no leader, or no space, and the source is not frozen.
#[test]
fn an_obstacle_is_found_before_the_freeze() {
    for (name, fault, waiting) in [
        ("reach_leader", Fault::TimedOut, Waiting::LeaderUnreachable),
        ("probe", Fault::DiskFull, Waiting::DiskFull),
        ("probe", Fault::TimedOut, Waiting::Disk),
    ] {
        let mut world = world();
        let index = index_of(name);
        world.twists.insert(index, Twist::Fail(fault));
        while world.operations.len() < index + 3 {
            assert_eq!(world.count("prepare"), 0);
            assert!(world.step());
        }
        assert!(world.notes.contains(&Note::Waiting(waiting)), "{:?}", world.notes);
        world.run();
        world.assert_moved();
        assert_eq!(world.count("prepare"), 1);
    }
}

/// H41: the answer to a Prepare is lost: the same try asks again, and gets the same freeze.
#[test]
fn a_lost_freeze_is_asked_for_again() {
    let mut world = world();
    world.twists.insert(index_of("prepare"), Twist::LoseAnswer);
    world.run();
    world.assert_moved();
    assert_eq!(world.count("prepare"), 2);
    assert_eq!(world.source.freezes, 1);
    assert_eq!(world.mover.progress().attempts, 1);
}

/// H20, L2: a source that says when it may be frozen again is not asked before.
#[test]
fn the_freeze_duty_of_the_source_is_respected() {
    let mut world = world();
    let refusal = Refusal::FrozenTooOften { retry_after_ms: 90_000 };
    let index = index_of("prepare");
    world.twists.insert(index, Twist::Fail(Fault::Refused(refusal)));
    while world.count("prepare") == 0 {
        assert!(world.step());
    }
    let asked = world.now;
    while world.count("prepare") == 1 {
        assert!(world.step());
    }
    assert!(world.now.since(asked) >= Duration::from_secs(90));
    assert!(world.notes.contains(&Note::Waiting(Waiting::FreezeDuty)));
    world.run();
    world.assert_moved();
}

/// H22: a tail that takes longer than the TTL is drained under one freeze, which is renewed by
/// progress and by nothing else.
#[test]
fn a_long_drain_renews_its_freeze() {
    let mut config = config();
    config.passes_max = 1;
    config.freeze_ttl = Duration::from_secs(4);
    let mut source = Source::new(0);
    source.produce(300);
    let mut world = World::with(config, source);
    world.write_percent = 100;
    world.nanos_per_byte = 5_000_000;
    world.run();
    world.assert_moved();
    assert!(world.count("renew") >= 3, "{}", world.count("renew"));
    assert_eq!(world.source.freezes, 1);
    assert_eq!(world.count("prepare"), 1);
}

/// H22, L2: a tail that cannot be drained within the longest freeze ends the try: the source goes
/// on, and the next try begins with what was copied.
#[test]
fn the_longest_freeze_is_kept() {
    let mut config = config();
    config.passes_max = 1;
    config.freeze_ttl = Duration::from_secs(4);
    config.freeze_max = Duration::from_secs(10);
    let mut source = Source::new(0);
    source.produce(300);
    let mut world = World::with(config, source);
    world.write_percent = 200;
    world.nanos_per_byte = 5_000_000;
    world.until("release", 1);
    assert!(world.source.freeze.is_none());
    world.write_percent = 10;
    world.run();
    world.assert_moved();
    assert!(world.notes.contains(&Note::Waiting(Waiting::FreezeMax)));
    assert!(world.source.freezes >= 2);
}

/// H22, L2: a disk that hangs while the copy is installed freezes the source no longer than that either.
#[test]
fn an_installation_that_hangs_ends_with_the_longest_freeze() {
    let mut world = world();
    world.until("install", 1);
    let installed = world.inbox.pop_back().expect("it was answered");
    let longest = world.mover.deadline().expect("the source is frozen");
    world.now = longest.at;
    world.deliver(Event::Wake);
    world.flush();
    assert_eq!((world.count("release"), world.mover.progress().phase), (1, Phase::Closing));
    world.inbox.push_back(installed);
    world.run();
    world.assert_moved();
    assert!(world.notes.contains(&Note::Waiting(Waiting::FreezeMax)));
}

/// R21, R42, `case_049`, H16: a bit flips on the destination's disk: the copy is not installed, and
/// in the end it is copied again.
#[test]
fn a_flipped_bit_is_found_before_the_flip() {
    let mut world = world();
    while world.count("verify") == 0 {
        if world.count("prepare") == 1 {
            let staging = world.disk.staging.as_mut().unwrap();
            let file = staging.files.values_mut().next().unwrap();
            if file[12] & 0x80 == 0 {
                file[12] |= 0x80;
            }
        }
        assert!(world.step());
    }
    assert_eq!(world.count("install"), 0);
    world.run();
    world.assert_moved();
    let unverifiable = |note: &&Note| matches!(note, Note::CopyUnverifiable(_));
    assert_eq!(world.notes.iter().filter(unverifiable).count(), 2);
}

/// Field fault 13: damage at the source stops this move with the place in its reason; when it is
/// repaired, the move goes on.
#[test]
fn damage_at_the_source_is_named() {
    let mut world = world();
    world.source.damaged = Some(20);
    for _ in 0..200 {
        assert!(world.step());
    }
    let progress = world.mover.progress();
    let damaged = Waiting::Damaged { base: Offset(20), position: 0 };
    assert_eq!(progress.waiting, Some(damaged));
    assert!(!progress.holds_slot);
    assert!(world.now.since_origin() > Duration::from_mins(1), "it does not spin");
    world.source.damaged = None;
    world.run();
    world.assert_moved();
}

/// A listing that contradicts itself is refused with a reason, whatever it says.
#[test]
fn a_listing_that_contradicts_itself_is_refused() {
    let good = world().source.list(&[]);
    let mut bad = vec![good.clone(); 6];
    bad[0].hwm = Offset(61);
    bad[1].start = Offset(1);
    bad[2].extents.swap(0, 1);
    bad[3].extents.remove(1);
    bad[4].extents[0].bytes = ByteCount(u64::MAX);
    bad[5].end = Offset(59);
    for listing in bad {
        let mut world = world();
        world.until("list", 1);
        for event in &mut world.inbox {
            if let Event::Done(_, Outcome::List(result)) = event {
                *result = Ok(listing.clone());
            }
        }
        while world.mover.progress().waiting.is_none() {
            assert!(world.step());
        }
        assert_eq!(world.mover.progress().waiting, Some(Waiting::SourceMalformed));
        world.run();
        world.assert_moved();
    }
}

/// R25, case C60: chunks are bounded in length and number.
#[test]
fn requests_are_bounded() {
    let mut source = Source::new(0);
    source.produce(400);
    let mut world = World::new(source);
    let mut most = 0;
    while !world.mover.is_over() {
        let running =
            world.inbox.iter().filter(|event| matches!(event, Event::Done(_, Outcome::Copy(_))));
        most = most.max(running.count());
        assert!(world.step());
    }
    assert_eq!(most, 3);
    world.assert_moved();
}
