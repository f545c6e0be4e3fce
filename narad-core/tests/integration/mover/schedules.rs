//! Any schedule: answers in any order, failures, crashes, changes of plan, late flips.

use narad_core::mover::*;
use proptest::prelude::*;

use super::row::B;
use super::source::Source;
use super::world::{Twist, World};

/// One byte decides what happens before one event: most values let things go on.
fn disturb(world: &mut World, byte: u8) {
    let next = world.operations.len();
    let mut at_next = |twist| {
        world.twists.insert(next, twist);
    };
    match byte {
        1 => at_next(Twist::LoseAnswer),
        2 => at_next(Twist::ApplyLate),
        3 => at_next(Twist::Fail(Fault::Unreachable)),
        4 => at_next(Twist::Fail(Fault::TimedOut)),
        5 => at_next(Twist::Fail(Fault::DiskFull)),
        6 => at_next(Twist::Fail(Fault::Disk)),
        7 => world.restart_source(),
        8 => world.happen(Twist::SourceFlap(60)),
        9 => world.happen(Twist::Replan),
        10 => world.happen(Twist::Cancel),
        11 => world.crash(true),
        12 => world.crash(false),
        13 => world.happen(Twist::Reap),
        14..=20 => world.produce(u64::from(byte)),
        21..=23 if !world.museum.is_empty() => world.apply_late(0),
        // Long enough to be promoted over.
        24 => world.happen(Twist::SourceFlap(600)),
        25 => world.now = world.now.after(core::time::Duration::from_secs(31)),
        // Answers overtake one another.
        26..=60 => {
            let overtaking = usize::from(byte) % world.inbox.len().max(1);
            let swappable = |event: Option<&Event>| matches!(event, Some(Event::Done(..)));
            if swappable(world.inbox.front()) && swappable(world.inbox.get(overtaking)) {
                world.inbox.swap(0, overtaking);
            }
        }
        61.. | 0 | 21..=23 => {}
    }
}

fn schedule() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![6 => 61..=255u8, 3 => 26..=60u8, 1 => 1..=25u8];
    proptest::collection::vec(byte, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// R2, R12, R31, R56, R58, R60, S1, S3, H2, H3, H4, H27, `case_012`, `case_045`: on every schedule
    /// the owner has its data (asserted after each event), nothing that may become live is
    /// touched, an ended move is quiet, and once the disturbances stop the move completes.
    #[test]
    fn every_schedule_ends_well(
        schedule in schedule(),
        records in 0u64..120,
        hidden in 0u64..4,
        write_percent in 0u64..90,
    ) {
        let mut source = Source::new(0);
        source.produce(records);
        source.hidden = hidden.min(records);
        let mut world = World::new(source);
        world.write_percent = write_percent;
        for byte in schedule {
            disturb(&mut world, byte);
            let at_rest = world.mover.is_over() && world.inbox.is_empty() && world.out.is_empty();
            if !at_rest && !world.step() {
                break;
            }
        }
        world.twists.clear();
        world.run();
        let row = world.replicated.row.clone().unwrap();
        if row.owner != B {
            prop_assert_eq!(row.target, None, "{:?}", world.mover.progress());
            world.replicated.set_target(Some(B));
            world.tell_row();
            world.run();
        }
        world.assert_moved();
        while !world.museum.is_empty() {
            world.apply_late(0);
        }
        world.assert_moved();
    }

    /// R29, R33: on every schedule, a try has at most `passes_max` passes and at most one note of
    /// a cutover that did not converge.
    #[test]
    fn passes_are_bounded_on_every_schedule(
        schedule in schedule(),
        passes_max in 1u32..6,
        write_percent in 0u64..200,
    ) {
        let mut source = Source::new(0);
        source.produce(60);
        let mut config = super::world::config();
        config.passes_max = passes_max;
        let mut world = World::with(config, source);
        world.write_percent = write_percent;
        for byte in schedule {
            disturb(&mut world, byte);
            let at_rest = world.mover.is_over() && world.inbox.is_empty() && world.out.is_empty();
            if !at_rest && !world.step() {
                break;
            }
        }
        world.twists.clear();
        world.write_percent = 0;
        world.run();
        let mut since_pass = 0;
        for note in &world.notes {
            match note {
                Note::PassEnded { pass, .. } => {
                    prop_assert!(*pass <= passes_max);
                    since_pass = 0;
                }
                Note::NotConverged { passes, .. } => {
                    prop_assert!(*passes <= passes_max);
                    since_pass += 1;
                    prop_assert!(since_pass == 1, "noted twice: {:?}", world.notes);
                }
                _ => {}
            }
        }
    }
}
