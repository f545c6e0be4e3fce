//! The process dies after every event, with and without something else going wrong.

use narad_core::mover::*;

use super::row::{B, C};
use super::source::Source;
use super::world::{Twist, World};

fn world() -> World {
    let mut source = Source::new(0);
    source.produce(75);
    source.hidden = 2;
    source.committed = Some(11);
    let mut world = World::new(source);
    world.write_percent = 20;
    world
}

/// Returns how many events and operations an undisturbed move has.
fn length() -> (usize, usize) {
    let mut world = world();
    let mut events = 0;
    while !world.mover.is_over() {
        assert!(world.step());
        events += 1;
    }
    world.assert_moved();
    (events, world.operations.len())
}

/// Crashes after the k-th event, for each k until the move is over first.
fn crash_everywhere(twist: Option<(usize, Twist)>, check: impl Fn(&World, usize)) {
    for done in [true, false] {
        for crash_after in 0.. {
            assert!(crash_after < 2_000);
            let mut world = world();
            world.check_resume = twist.is_none();
            world.twists.extend(twist);
            let mut ended_first = false;
            for _ in 0..crash_after {
                if world.mover.is_over() || !world.step() {
                    ended_first = true;
                    break;
                }
            }
            if ended_first {
                break;
            }
            world.crash(done);
            world.run();
            check(&world, crash_after);
        }
    }
}

/// R2, R61, H4, H27, `case_012`, `case_053`: whenever the destination dies, the move is flipped once,
/// and no byte that a manifest vouches for is copied again.
#[test]
fn a_crash_after_any_event_still_flips_once() {
    crash_everywhere(None, |world, _| world.assert_moved());
}

/// H2, H3, H20, H41, R57, R58, R60, `case_002` to `case_006`, `case_045`, `case_046`: any operation's failure,
/// or the loss of its answer, costs time only; also if the destination dies afterwards.
#[test]
fn any_operation_may_fail_or_lose_its_answer() {
    let (_, operations) = length();
    let twists = [
        Twist::LoseAnswer,
        Twist::Fail(Fault::Unreachable),
        Twist::Fail(Fault::DiskFull),
        Twist::Fail(Fault::Disk),
    ];
    for index in 0..operations {
        for twist in twists {
            let mut world = world();
            world.twists.insert(index, twist);
            world.run();
            world.assert_moved();
            let unverifiable = |note: &Note| matches!(note, Note::CopyUnverifiable(_));
            assert!(!world.notes.iter().any(unverifiable), "what a failure left was cut off");
        }
    }
}

/// H2, H3, `case_002`, `case_003`, `case_005`, `case_012`: a flip whose answer is lost, or which is applied late,
/// and a crash after any event.
#[test]
fn an_unknown_flip_and_a_crash_flip_once() {
    let (_, operations) = length();
    let flip = operations - 1;
    for twist in [Twist::LoseAnswer, Twist::Fail(Fault::TimedOut), Twist::ApplyLate] {
        crash_everywhere(Some((flip, twist)), |world, _| world.assert_moved());
    }
}

/// H2, H3, `case_006`, `case_010`: flips without an answer, up to more than one freeze can wait for,
/// each of which is applied after any further event. It finds its directory, or is refused.
#[test]
fn a_late_flip_never_finds_its_directory_gone() {
    for lost_flips in [1, 2, 25] {
        for delay in 0..120 {
            for crash in [false, true] {
                let mut world = world();
                world.lost_flips = lost_flips;
                while world.museum.is_empty() {
                    assert!(world.step());
                }
                if crash {
                    world.crash(true);
                }
                for _ in 0..delay {
                    if world.mover.is_over() || !world.step() {
                        break;
                    }
                }
                world.apply_late(0);
                world.run();
                while !world.museum.is_empty() {
                    world.apply_late(0);
                }
                world.assert_moved();
            }
        }
    }
}

/// H6, H16, `case_018`: the source restarts at each operation, and the destination dies some time
/// after that.
#[test]
fn a_restart_of_the_source_is_survived_everywhere() {
    let (_, operations) = length();
    for index in 0..operations {
        let mut one = world();
        one.twists.insert(index, Twist::SourceRestart);
        one.run();
        one.assert_moved();
    }
    for index in (0..operations).step_by(7) {
        crash_everywhere(Some((index, Twist::SourceRestart)), |world, _| world.assert_moved());
    }
}

/// H5, H21, R56, `case_015`, `case_017`: the plan is changed at each operation; nothing of this move
/// flips the row afterwards, and no freeze and no staging is left.
#[test]
fn a_change_of_plan_ends_the_move_everywhere() {
    let (_, operations) = length();
    for index in 0..operations {
        for (twist, target) in [(Twist::Cancel, None), (Twist::Retarget, Some(C))] {
            let mut world = world();
            world.twists.insert(index, twist);
            world.run();
            let row = world.replicated.row.as_ref().unwrap();
            assert_ne!(row.owner, B);
            assert_eq!(row.target, target);
            assert!(world.mover.is_over());
            assert!(world.source.freeze.is_none(), "a freeze is left (R94)");
            assert!(world.disk.staging.is_none() && world.disk.installed.is_empty());
        }
    }
    for index in (0..operations).step_by(9) {
        crash_everywhere(Some((index, Twist::Cancel)), |world, _| {
            let row = world.replicated.row.as_ref().unwrap();
            let cancelled = row.owner != B && world.disk.installed.is_empty();
            assert!(cancelled || world.replicated.flips == 1, "{row:?}");
            assert!(world.mover.is_over());
        });
    }
}

/// H5, H30: the same destination is planned again, at each operation: the move goes on under the
/// new plan, and bytes that the source agrees with are not copied again.
#[test]
fn a_plan_that_is_made_again_goes_on_with_the_staged_bytes() {
    let (_, operations) = length();
    for index in 0..operations {
        let mut world = world();
        world.twists.insert(index, Twist::Replan);
        world.run();
        world.assert_moved();
        let size: u64 =
            world.source.segments.iter().map(|segment| segment.bytes.len() as u64).sum();
        let in_flight = u64::from(world.config.chunks_in_flight_max) * world.config.chunk_bytes_max
            + world.source.segment_bytes * 3;
        assert!(world.copied_bytes <= size + in_flight, "{index}: {}", world.copied_bytes);
    }
    for index in (0..operations).step_by(9) {
        crash_everywhere(Some((index, Twist::Replan)), |world, _| world.assert_moved());
    }
}

/// H5, R94: a plan is cancelled, an operation of the clearing up fails or loses its answer, and the
/// same node is planned again while it clears up.
#[test]
fn a_plan_may_be_made_again_while_the_last_one_is_cleared_up() {
    let (_, operations) = length();
    for index in 0..operations {
        for failing in index + 1..index + 5 {
            for again in failing + 1..failing + 4 {
                for failure in [Twist::LoseAnswer, Twist::Fail(Fault::Disk)] {
                    let mut world = world();
                    world.twists.insert(index, Twist::Cancel);
                    world.twists.insert(failing, failure);
                    world.twists.insert(again, Twist::Replan);
                    world.run();
                    let row = world.replicated.row.as_ref().unwrap();
                    if row.owner == B {
                        world.assert_moved();
                    } else {
                        // It was over before it was planned again.
                        assert_eq!(row.target, None);
                        assert!(world.disk.staging.is_none() && world.disk.installed.is_empty());
                    }
                }
            }
        }
    }
}

/// H26, H47, `case_148`: the topic is deleted at each operation: the move ends and leaves nothing.
#[test]
fn a_deleted_topic_ends_the_move_everywhere() {
    let (_, operations) = length();
    for index in 0..operations {
        let mut world = world();
        world.twists.insert(index, Twist::Delete);
        world.run();
        assert!(world.mover.is_over());
        assert!(world.disk.staging.is_none() && world.disk.installed.is_empty());
        assert_eq!(world.notes.last(), Some(&Note::Gone));
    }
}

/// R62, R63, R66, `case_013`, `case_072`, `case_073`: the source dies for good at each operation: the copy is promoted
/// when it reaches what the source reported, and otherwise waits for ever, without a slot.
#[test]
fn the_death_of_the_source_is_survived_where_the_gates_allow() {
    let (_, operations) = length();
    let (mut promoted, mut refused) = (0, 0);
    for index in 0..operations {
        for report in [false, true] {
            let mut world = world();
            world.twists.insert(index, Twist::SourceDeath);
            if report {
                let hwm = narad_core::ids::Offset(world.source.hwm());
                world.replicated.row.as_mut().unwrap().reported_hwm = Some(hwm);
                world.tell_row();
            }
            world.run();
            if world.replicated.flips == 1 {
                world.assert_moved();
                promoted += 1;
                continue;
            }
            refused += 1;
            let progress = world.mover.progress();
            assert!(matches!(progress.waiting, Some(Waiting::PromoteRefused(_))), "{progress:?}");
            assert!(!progress.holds_slot);
            assert_eq!(world.mover.deadline(), None);
            // The source returns after all.
            world.restart_source();
            world.run();
            world.assert_moved();
        }
    }
    assert!(promoted > 5 && refused > 5, "both happen: {promoted} {refused}");
}

/// `case_054`, `case_082`, R66: the source dies at some operation and the destination after any
/// event: what was staged is never set aside (the world asserts it), and is promoted or kept.
#[test]
fn a_double_death_never_costs_the_staged_bytes() {
    let (_, operations) = length();
    for index in (0..operations).step_by(5) {
        crash_everywhere(Some((index, Twist::SourceDeath)), |world, _| {
            if world.replicated.flips == 1 {
                world.assert_moved();
            } else {
                let progress = world.mover.progress();
                let waiting = progress.waiting;
                assert!(matches!(waiting, Some(Waiting::PromoteRefused(_))), "{waiting:?}");
            }
        });
    }
}

/// H10, H11, `case_077`: the source is dead for a minute at each operation; nothing is promoted
/// before two, and the move completes.
#[test]
fn a_source_that_comes_back_in_time_is_not_promoted() {
    let (_, operations) = length();
    for index in 0..operations {
        let mut world = world();
        world.twists.insert(index, Twist::SourceFlap(60));
        world.run();
        world.assert_moved();
        let forced = |note: &Note| matches!(note, Note::Moved { freeze: None, .. });
        assert!(!world.notes.iter().any(forced));
    }
}
