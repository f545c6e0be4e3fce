//! One move, and a death at every step of it.

use narad_core::node::Event;

use super::moving::{is_at, move_to, one_partition};
use super::world::{World, ms, n};

/// How many events a move without faults takes, from the wish to the peace after it.
fn length() -> u64 {
    let (mut world, partition) = one_partition(3, 20);
    let before = world.steps;
    move_to(&mut world, partition, 2);
    world.until("the move", World::SECOND * 20, |world| is_at(world, partition, 2));
    world.steps - before
}

fn moves_all_the_same(what: &str, stride: usize, disturb: impl Fn(&mut World)) {
    for step in (0..length() + 20).step_by(stride) {
        let (mut world, partition) = one_partition(3, 20);
        move_to(&mut world, partition, 2);
        for _ in 0..step {
            world.step();
        }
        disturb(&mut world);
        world.check_nothing_is_lost();
        // A wish that was lost with its node is wished again.
        world.run(World::SECOND * 2);
        if world.log.state.assignment(partition).unwrap().owner != n(2) {
            move_to(&mut world, partition, 2);
        }
        let name = format!("{what} after {step} steps");
        world.until(&name, World::SECOND * 60, |world| is_at(world, partition, 2));
        world.run(World::SECOND);
        world.check_everything_is_visible();
        world.check_everybody_was_answered();
        for machine in [1, 2, 3] {
            let area = world.machines[&n(machine)].disk.get(&partition);
            let left =
                area.map_or(0, |area| area.installed.len() + usize::from(area.staging.is_some()));
            assert_eq!(left, usize::from(machine == 2), "{name}: n{machine} holds {area:?}");
        }
    }
}

fn restart(world: &mut World, id: u64, pause: u64) {
    world.crash(n(id));
    world.run(ms(pause));
    world.start(n(id));
}

/// R40, R58, R61, H6, H27, T26: the source may die and return at every step.
#[test]
fn the_source_may_restart_at_every_step() {
    moves_all_the_same("the source restarts", 3, |world| restart(world, 1, 300));
}

/// R40, R57, R61, H4, H27, L2: the destination may die and return at every step.
#[test]
fn the_destination_may_restart_at_every_step() {
    moves_all_the_same("the destination restarts", 3, |world| restart(world, 2, 300));
}

/// R5, R11, R79: the leader may die and return at every step; whoever follows it goes on.
#[test]
fn the_leader_may_restart_at_every_step() {
    moves_all_the_same("the leader restarts", 4, |world| restart(world, 3, 1_500));
}

/// Both ends lose power at once.
#[test]
fn both_ends_may_restart_at_every_step() {
    moves_all_the_same("both ends restart", 5, |world| {
        world.crash(n(1));
        world.crash(n(2));
        world.run(ms(300));
        world.start(n(2));
        world.run(ms(700));
        world.start(n(1));
    });
}

/// H27, L1: a snapshot jumps over the entries that either end waits for.
#[test]
fn a_snapshot_may_jump_over_every_entry() {
    moves_all_the_same("both ends jump", 5, |world| {
        world.machines.get_mut(&n(1)).unwrap().lag = ms(400);
        world.machines.get_mut(&n(2)).unwrap().lag = ms(400);
        world.run(ms(60));
        world.jump(n(1));
        world.jump(n(2));
        world.machines.get_mut(&n(1)).unwrap().lag = ms(0);
        world.machines.get_mut(&n(2)).unwrap().lag = ms(0);
    });
}

/// A log that fails is opened again, but not under a freeze that somebody was told of.
#[test]
fn the_log_may_fail_at_every_step() {
    moves_all_the_same("the log fails", 3, |world| {
        let partition = world.log.state.assignments().next().unwrap().0;
        for id in [1, 2] {
            let life = world.machines[&n(id)].processes;
            world.tell(n(id), life, Event::Poisoned(partition));
        }
    });
}

/// R62, H2, H22: the two ends lose sight of one another at every step, for longer than a freeze.
#[test]
fn the_link_between_the_ends_may_be_cut_at_every_step() {
    moves_all_the_same("the link is cut", 5, |world| {
        world.separate(&[1], &[2]);
        world.run(World::SECOND * 3);
        world.cut.clear();
    });
}

/// H2, H28, L2: no leader can be reached at every step, for longer than a freeze.
#[test]
fn the_quorum_may_be_lost_at_every_step() {
    moves_all_the_same("nobody leads", 5, |world| {
        world.separate(&[3], &[1, 2]);
        world.separate(&[1], &[2]);
        world.run(World::SECOND * 3);
        world.cut.clear();
    });
}
