//! Proposals whose answers are lost, plans that change, topics that go.

use narad_core::ids::*;
use narad_core::metastore::Command;
use narad_core::mover::Note as Moves;
use narad_core::node::{Ask, AskError, Note};

use super::moving::{is_at, move_to, one_partition, settle, topic};
use super::world::{Faults, World, ms, n};

/// H1, H2, H3, H5, R12: flips and revokes are lost, doubled and come back late; the partition moves
/// to and fro, and nobody loses a record.
#[test]
fn flips_may_be_lost_doubled_and_late() {
    let mut unknown = 0;
    for seed in 0..12 {
        let (mut world, partition) = one_partition(3, 100 + seed);
        world.faults = Faults {
            lose_append_percent: 35,
            museum_percent: 45,
            drop_percent: 5,
            twice_percent: 10,
            delay_ms_max: 30,
        };
        for round in 0..3 {
            move_to(&mut world, partition, 2 + round % 2);
            world.run(World::SECOND * 6);
            world.check_nothing_is_lost();
        }
        world.heal();
        settle(&mut world);
        world.run(World::SECOND * 12);
        world.check_everything_is_visible();
        let is_unknown =
            |note: &&(NodeId, Note)| matches!(note.1, Note::Mover(_, Moves::FlipUnknown { .. }));
        unknown += world.notes.iter().filter(is_unknown).count();
    }
    assert!(unknown > 5, "the schedule is about unknown outcomes: {unknown}");
}

/// H26, H47, field fault 30: the topic goes at every step of a move; the move ends, and nothing
/// is left of it on either disk.
#[test]
fn a_topic_may_go_at_every_step_of_a_move() {
    for step in (0..160).step_by(7) {
        let (mut world, partition) = one_partition(3, 50);
        move_to(&mut world, partition, 2);
        for _ in 0..step {
            world.step();
        }
        world.ask(n(3), Ask::DeleteTopic(partition.topic));
        let name = format!("nothing is left after {step} steps");
        world.until(&name, World::SECOND * 30, |world| {
            world.machines.values().all(|machine| machine.disk.is_empty())
        });
        assert_eq!(world.log.state.assignment(partition), None);
        assert_eq!(world.node(n(2)).moves().count(), 0);
        world.run(World::SECOND * 2);
        world.check_everybody_was_answered();
    }
}

/// H21, R56, R57: another target at every step, also while the source is frozen for the first.
#[test]
fn the_target_may_change_at_every_step() {
    for step in (0..160).step_by(5) {
        let (mut world, partition) = one_partition(4, 51);
        move_to(&mut world, partition, 2);
        for _ in 0..step {
            world.step();
        }
        // A wish that meets a row which has moved on is wished again.
        for _ in 0..5 {
            let ask = world.ask(n(3), Ask::Move { partition, to: n(4) });
            world.until("an answer", World::SECOND * 3, |world| world.replies.contains_key(&ask));
            if world.replies[&ask].is_ok() {
                break;
            }
        }
        let name = format!("the move after {step} steps");
        world.until(&name, World::SECOND * 30, |world| is_at(world, partition, 4));
        world.run(World::SECOND * 2);
        world.check_everything_is_visible();
        let holders = world.machines.values().filter(|machine| !machine.disk.is_empty()).count();
        assert_eq!(holders, 1, "{name}: nobody else holds anything");
    }
}

/// R10, R13, R57, R94: a plan is given up at every step; the source goes on, and the copy goes.
#[test]
fn a_move_may_be_aborted_at_every_step() {
    for step in (0..160).step_by(5) {
        let (mut world, partition) = one_partition(3, 52);
        move_to(&mut world, partition, 2);
        for _ in 0..step {
            world.step();
        }
        world.ask(n(3), Ask::Abort(partition));
        world.run(World::SECOND * 4);
        let row = world.log.state.assignment(partition).unwrap().clone();
        assert_eq!(row.target, None, "after {step} steps");
        assert!(is_at(&world, partition, row.owner.0), "after {step} steps");
        let before = world.work.acked.len();
        world.run(World::SECOND);
        assert!(world.work.acked.len() > before, "L2: nothing stays frozen after {step} steps");
        world.check_everything_is_visible();
        let holders = world.machines.values().filter(|machine| !machine.disk.is_empty()).count();
        assert_eq!(holders, 1, "after {step} steps");
    }
}

/// Every ask has one answer, also when nobody leads, and when its node jumps to a snapshot.
#[test]
fn an_ask_is_answered_whatever_happens() {
    let mut world = World::new(3, 53);
    topic(&mut world, "orders", 2);
    settle(&mut world);
    world.separate(&[1], &[2, 3]);
    let name = Name::new("audit").unwrap();
    let create = Ask::CreateTopic { name, partitions: 1, parent: None };
    let lonely = world.ask(n(1), create.clone());
    world.run(World::SECOND * 3);
    assert_eq!(world.replies[&lonely], Err(AskError::NoLeader));
    world.cut.clear();
    world.run(World::SECOND * 3);
    world.faults = Faults { lose_append_percent: 100, ..Faults::default() };
    let leader = world.log.leader.unwrap();
    let lost = world.ask(leader, create.clone());
    world.run(World::SECOND * 3);
    assert_eq!(world.replies[&lost], Err(AskError::Unknown));
    let jumped = world.ask(leader, create);
    world.run(ms(20));
    world.jump(leader);
    world.run(ms(20));
    assert_eq!(world.replies[&jumped], Err(AskError::Unknown));
}

/// H12: the first report goes out as soon as the target is applied, then one entry an interval,
/// and none while nothing changes.
#[test]
fn reports_are_prompt_few_and_news() {
    let (mut world, partition) = one_partition(3, 54);
    world.separate(&[1], &[2]);
    let reports = |world: &World| {
        let is_report = |item: &&super::world::log::Item| {
            matches!(item, super::world::log::Item::Entry(entry)
                if matches!(entry.command, Command::Report { .. }))
        };
        world.log.items.iter().filter(is_report).count()
    };
    move_to(&mut world, partition, 2);
    world.until("the target", World::SECOND, |world| {
        world.log.state.assignment(partition).unwrap().target.is_some()
    });
    world.run(ms(60));
    assert_eq!(reports(&world), 1, "the first does not wait");
    assert!(world.log.state.assignment(partition).unwrap().reported_hwm.is_some());
    world.run(World::SECOND * 4);
    let many = reports(&world);
    assert!((7..=9).contains(&many), "one each half second: {many}");
    world.work.every = ms(0);
    world.run(World::SECOND);
    let quiet = reports(&world);
    world.run(World::SECOND * 4);
    assert_eq!(reports(&world), quiet, "nothing new, nothing said");
}

/// H27: a snapshot jumps over the plan, and over the birth of a partition: nobody saw the entry,
/// and both are acted upon all the same.
#[test]
fn a_plan_inside_a_snapshot_is_acted_upon() {
    let (mut world, partition) = one_partition(3, 55);
    world.machines.get_mut(&n(2)).unwrap().lag = World::SECOND * 60;
    move_to(&mut world, partition, 2);
    topic(&mut world, "audit", 3);
    world.run(World::SECOND);
    assert_eq!(world.node(n(2)).moves().count(), 0);
    world.jump(n(2));
    world.machines.get_mut(&n(2)).unwrap().lag = ms(0);
    world.until("the move", World::SECOND * 10, |world| is_at(world, partition, 2));
    settle(&mut world);
}

/// H12: another partition that begins to move in the middle of an interval is reported at once,
/// too.
#[test]
fn each_first_report_is_prompt() {
    let mut world = World::new(3, 56);
    topic(&mut world, "orders", 6);
    settle(&mut world);
    world.elect(n(3));
    world.separate(&[1], &[2]);
    let owned: Vec<PartitionId> = world.log.state.owned_by(n(1)).collect();
    for partition in owned {
        move_to(&mut world, partition, 2);
        world.run(ms(60));
        let row = world.log.state.assignment(partition).unwrap();
        assert!(row.target.is_some() && row.reported_hwm.is_some(), "{partition:?}");
    }
}
