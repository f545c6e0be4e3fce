//! When copying stops: how many passes, at which tail, and how long the source is frozen.

use core::time::Duration;

use narad_core::ids::*;
use narad_core::mover::*;

use super::source::{RECORD, Source};
use super::world::{World, config};

fn world(write_percent: u64) -> World {
    let mut source = Source::new(0);
    source.produce(400);
    let mut world = World::new(source);
    world.write_percent = write_percent;
    world.nanos_per_byte = 100_000;
    world
}

fn not_converged(world: &World) -> Vec<Note> {
    let wanted = |note: &&Note| matches!(note, Note::NotConverged { .. });
    world.notes.iter().filter(wanted).copied().collect()
}

/// R16, R17, R26, R27: while less is written than copied, the tail of the freeze is within
/// `lag_bytes`, and nothing is said of a cutover that did not converge.
#[test]
fn a_slow_writer_is_frozen_with_a_small_tail() {
    for write_percent in [0, 10, 30, 50, 70] {
        let mut world = world(write_percent);
        world.run();
        world.assert_moved();
        assert_eq!(not_converged(&world), [], "{write_percent}");
        let tail = world.frozen_tail.unwrap();
        // Two records may come between the listing and the freeze.
        assert!(tail <= world.config.lag_bytes + 2 * RECORD, "{write_percent}: {tail}");
    }
}

/// R28 to R34, R30, R32, `case_037`: a writer that outpaces the copy gets one note, few passes, and a freeze that is
/// not much longer than the best one would have been.
#[test]
fn a_fast_writer_is_frozen_soon() {
    for write_percent in [100, 130, 200, 300] {
        let mut world = world(write_percent);
        world.config.freeze_ttl = Duration::from_mins(10);
        world.run();
        world.assert_moved();
        assert_eq!(not_converged(&world).len(), 1, "{write_percent}");
        let passes = world.mover.progress().passes;
        assert!(passes <= 5, "{write_percent}: {passes}");
    }
}

/// R28 to R34: nor does it matter what the copy is slow for. Under a throttle each pass would take
/// longer than the one before, and the freeze with it.
#[test]
fn a_fast_writer_is_frozen_soon_under_a_throttle_too() {
    for write_percent in [115, 130, 200, 300] {
        let mut world = world(write_percent);
        world.throttled = Duration::from_millis(1);
        world.config.freeze_ttl = Duration::from_mins(10);
        world.run();
        world.assert_moved();
        assert_eq!(not_converged(&world).len(), 1, "{write_percent}");
        let passes = world.mover.progress().passes;
        assert!(passes <= 5, "{write_percent}: {passes}");
    }
}

/// Time under a throttle is no stall: a tail that shrinks slowly goes on shrinking.
#[test]
fn a_throttled_writer_that_is_slower_than_the_copy_is_frozen_with_a_small_tail() {
    for write_percent in [0, 30, 70] {
        let mut world = world(write_percent);
        world.throttled = Duration::from_millis(1);
        world.run();
        world.assert_moved();
        assert_eq!(not_converged(&world), [], "{write_percent}");
        let tail = world.frozen_tail.unwrap();
        assert!(tail <= world.config.lag_bytes + 2 * RECORD, "{write_percent}: {tail}");
    }
}

/// R29, R33: the cap of passes holds on a tail that shrinks too slowly for the target.
#[test]
fn the_cap_of_passes_is_reached_once() {
    let mut config = config();
    config.passes_max = 4;
    let mut source = Source::new(0);
    source.produce(400);
    let mut world = World::with(config, source);
    world.write_percent = 92;
    world.run();
    world.assert_moved();
    let notes = not_converged(&world);
    let [Note::NotConverged { reason, passes, tail_bytes }] = notes[..] else {
        panic!("{notes:?}")
    };
    assert_eq!((reason, passes), (NotConverged::PassesMax, 4));
    assert!(tail_bytes > world.config.lag_bytes);
}

/// R17: exactly `lag_bytes` left is caught up, one byte more is not.
#[test]
fn the_boundary_of_caught_up_is_exact() {
    for (lag_bytes, prepared) in [(159, false), (160, true), (161, true)] {
        let mut config = config();
        config.lag_bytes = lag_bytes;
        // So that a small tail is not shrunk further.
        config.freeze_target = Duration::from_hours(1);
        let mut source = Source::new(0);
        source.produce(40);
        let mut world = World::with(config, source);
        while world.mover.progress().passes == 0 {
            assert!(world.step());
        }
        // Ten records, 160 bytes, have come since the first listing.
        world.produce(10);
        while world.count("list") == 1 {
            assert!(world.step());
        }
        while world.mover.progress().phase == Phase::CatchUp && world.count("copy") == 9 {
            assert!(world.step());
        }
        let phase = world.mover.progress().phase;
        assert_eq!(phase == Phase::Prepare, prepared, "{lag_bytes}: {phase:?}");
        world.run();
        world.assert_moved();
    }
}

/// R34: below `lag_bytes` the tail is still shrunk while the freeze would be longer than its
/// target, and only while that helps.
#[test]
fn a_small_tail_is_shrunk_towards_the_target() {
    let run = |target: Duration| {
        let mut config = config();
        config.lag_bytes = 1 << 20;
        config.freeze_target = target;
        let mut source = Source::new(0);
        source.produce(400);
        let mut world = World::with(config, source);
        world.write_percent = 40;
        world.nanos_per_byte = 1_000_000;
        world.run();
        world.assert_moved();
        (world.frozen_tail.unwrap(), world.mover.progress().passes)
    };
    let (lazy_tail, lazy_passes) = run(Duration::from_hours(1));
    let (eager_tail, eager_passes) = run(Duration::from_millis(100));
    assert!(eager_tail < lazy_tail, "{eager_tail} {lazy_tail}");
    assert!(lazy_passes <= 1 && eager_passes > lazy_passes && eager_passes < 15);
}

/// R14, R19, R25, `case_050`: the freeze copies the tail and nothing else, and everything else of
/// the partition's size happens before it.
#[test]
fn the_freeze_holds_only_the_tail() {
    let mut world = world(30);
    while world.source.freeze.is_none() {
        assert!(world.step());
    }
    let (before, tail) = (world.copied_bytes, world.frozen_tail.unwrap());
    world.run();
    world.assert_moved();
    assert_eq!(world.copied_bytes - before, tail);
}

/// R34: the machine states rates and a predicted freeze as whole numbers.
#[test]
fn progress_tells_the_predicted_freeze() {
    let mut world = world(50);
    while world.mover.progress().passes < 3 {
        assert!(world.step());
    }
    let progress = world.mover.progress();
    assert!((1..=10_000).contains(&progress.copy_rate), "{progress:?}");
    assert!(progress.write_rate > 0 && progress.write_rate < progress.copy_rate * 2);
    assert!(progress.freeze_ms.is_some());
    assert_eq!(progress.move_id, Some(MoveId(1)));
    assert!(progress.holds_slot && progress.waiting.is_none());
}
