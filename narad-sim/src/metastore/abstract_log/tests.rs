//! What every node is told, under any faults.

mod script;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use narad_core::controller::Change;
use narad_core::node::Event;

use self::world::{World, n};
use super::*;

fn quiet() -> World {
    World::new(3, Faults::default(), 1)
}

fn leader(world: &World) -> NodeId {
    world.log.leader().expect("somebody leads")
}

/// A world in which nothing happens costs nothing.
#[test]
fn nothing_is_due_while_nothing_happens() {
    let mut world = quiet();
    assert_eq!(world.log.next_due(), Time::NEVER);
    assert!(world.append(leader(&world)));
    world.run(1_000);
    assert_eq!(world.log.next_due(), Time::NEVER);
    assert_eq!(world.committed().get(&1), Some(&1));
}

/// H24: a leader that is cut off goes on believing, and what it appends is lost.
#[test]
fn a_deposed_leader_goes_on_believing() {
    let mut world = World::new(3, Faults { stubborn: 1.0, ..Faults::default() }, 1);
    let old = leader(&world);
    for other in (1..=3).map(n).filter(|other| *other != old) {
        world.wires.cut.insert((old.min(other), old.max(other)));
    }
    world.changed();
    world.run(60_000);
    let new = leader(&world);
    assert_ne!(new, old);
    assert_eq!(world.log.believes(old), Some(old));
    assert!(world.append(old) && world.append(new));
    world.barrier(old, false);
    world.run(60_000);
    assert_eq!(world.passed, 0, "a barrier needs a majority");
    world.heal();
    world.check_at_rest();
    assert_eq!(world.committed(), [(2, 1)].into());
    assert_eq!((world.log.believes(old), world.passed), (Some(new), 1));
}

/// `check_quorum`: one that is not stubborn steps down.
#[test]
fn a_leader_without_a_majority_steps_down() {
    let mut world = quiet();
    let old = leader(&world);
    for other in (1..=3).map(n).filter(|other| *other != old) {
        world.stop(other);
    }
    world.run(10_000);
    assert_eq!((world.log.leader(), world.log.believes(old)), (None, None));
    assert!(!world.append(old));
    assert_eq!(world.log.next_due(), Time::NEVER);
    world.heal();
    world.check_at_rest();
}

/// H2: entries are lost, or committed twice, or late, when that is on.
#[test]
fn faults_strike_entries() {
    let fate = |faults: Faults| {
        let mut world = World::new(3, faults, 1);
        for _ in 0..50 {
            assert!(world.append(leader(&world)));
        }
        world.run(100);
        let soon: u32 = world.committed().values().sum();
        world.run(60_000);
        (soon, world.committed().values().sum::<u32>())
    };
    assert_eq!(fate(Faults::default()), (50, 50));
    assert_eq!(fate(Faults { lose: 1.0, ..Faults::default() }), (0, 0));
    let (soon, all) = fate(Faults { late: 1.0, ..Faults::default() });
    assert!(soon < 10 && all == 50, "{soon} {all}");
    let (soon, all) = fate(Faults { twice: 1.0, ..Faults::default() });
    assert!((50..60).contains(&soon) && all == 100, "{soon} {all}");
}

/// H27: a leader change may lose what was not committed, from some entry on.
#[test]
fn a_new_reign_may_forget() {
    for (forget, kept) in [(0.0, 1), (1.0, 0)] {
        let mut world = World::new(3, Faults { forget, ..Faults::default() }, 1);
        let old = leader(&world);
        assert!(world.append(old));
        world.stop(old);
        world.run(10_000);
        assert_ne!(leader(&world), old);
        assert_eq!(world.committed().len(), kept);
    }
}

/// H8, H27: a node lags as long as it is told to; a restart tells it again what it knew, without
/// a leader.
#[test]
fn a_node_lags_and_catches_up() {
    let mut world = quiet();
    let slow = (1..=3).map(n).find(|node| *node != leader(&world)).expect("there are three");
    world.log.set_lag(world.now, slow, Duration::from_secs(5));
    world.log.hold(slow);
    assert!(world.append(leader(&world)));
    world.run(4_000);
    let behind = world.processes[&slow].applied;
    assert!(behind < world.log.last());
    world.log.release(world.now, slow);
    world.run(4_000);
    assert_eq!(world.processes[&slow].applied, behind);
    world.run(2_000);
    assert_eq!(world.processes[&slow].applied, world.log.last());

    world.stop(slow);
    for other in (1..=3).map(n).filter(|other| *other != slow) {
        world.wires.cut.insert((slow.min(other), slow.max(other)));
    }
    world.start(slow);
    world.run(6_000);
    assert_eq!(world.processes[&slow].applied, world.log.last());
    assert_eq!(world.processes[&slow].believes, None);
}

/// H8: a process begins with the last image that its node had applied, and not before.
#[test]
fn a_restart_begins_with_the_last_image() {
    let mut world = quiet();
    let born = world.restored[0].applied();
    for _ in 0..20 {
        assert!(world.append(leader(&world)));
        world.run(100);
    }
    let node = leader(&world);
    let applied = world.processes[&node].applied;
    world.stop(node);
    world.start(node);
    let begun = world.processes[&node].applied;
    assert!(begun > born && begun.0 + 8 > applied.0, "{begun:?} of {applied:?}");
    world.run(5_000);
    world.check_at_rest();
}

/// Platform facts: a leader answers no barrier before it has committed an entry of its own.
#[test]
fn a_barrier_waits_for_the_first_entry_of_a_reign() {
    let mut world = quiet();
    let heir = world.log.unseat(world.now, None, Why::Chance, &world.wires).expect("one can");
    world.barrier(heir, false);
    let op = *world.processes[&heir].barriers.keys().next().expect("it waits");
    world.log.confirm(heir, op, &world.wires);
    world.run(0);
    assert_eq!(world.passed, 0);
    world.run(1_000);
    assert_eq!(world.passed, 1);
}

/// H27: a node that was away for long is given a snapshot, as is one that a scenario skips ahead.
#[test]
fn a_snapshot_skips_entries() {
    let mut world = quiet();
    let slow = (1..=3).map(n).find(|node| *node != leader(&world)).expect("there are three");
    world.stop(slow);
    for _ in 0..40 {
        assert!(world.append(leader(&world)));
    }
    world.run(1_000);
    let before = world.restored.len();
    world.start(slow);
    world.run(1_000);
    assert_eq!(world.restored.len(), before + 2);
    world.check_at_rest();

    world.log.hold(slow);
    assert!(world.append(leader(&world)));
    world.run(1_000);
    assert!(world.log.jump(world.now, slow, &world.wires));
    assert!(!world.log.jump(world.now, leader(&world), &world.wires));
    world.run(1);
    assert_eq!(world.processes[&slow].applied, world.log.last());
}

/// R86, S15: a machine that joins is no member, a learner, a voter; then it takes the place of
/// another in a joint step, and that hears no more.
#[test]
fn members_come_and_go() {
    let mut world = quiet();
    let lead = leader(&world);
    let configure = |world: &mut World, change| {
        let said = world.log.configure(world.now, lead, change, &world.wires);
        let again = world.log.configure(world.now, lead, change, &world.wires);
        assert!(!again, "one change at a time");
        world.run(1_000);
        said
    };
    for _ in 0..40 {
        assert!(world.append(lead));
    }
    world.start(n(4));
    world.run(1_000);
    assert_eq!(world.processes[&n(4)].applied, LogIndex(0));
    assert_eq!(world.processes[&n(4)].believes, None);
    assert!(!configure(&mut world, Change::Promote(n(4))), "only a learner is promoted");
    assert!(configure(&mut world, Change::AddLearner(n(4))));
    assert_eq!(world.processes[&n(4)].applied, world.log.last());
    assert_eq!(world.processes[&n(4)].believes, Some(lead));
    let gone = (1..=3).map(n).find(|node| *node != lead).expect("there are three");
    assert!(configure(&mut world, Change::Replace { add: n(4), remove: gone }));
    let joint = |event: &Event| match event {
        Event::Configured { configuration, .. } => !configuration.voters_outgoing.is_empty(),
        _ => false,
    };
    assert_eq!(world.history.values().filter(|event| joint(event)).count(), 1);
    let voters: BTreeSet<NodeId> = (1..=4).map(n).filter(|node| *node != gone).collect();
    let settled = Configuration { voters, ..Configuration::default() };
    assert_eq!(*world.log.state().configuration(), settled);
    assert!(world.append(lead));
    world.run(5_000);
    assert!(world.processes[&gone].applied < world.log.last());
    assert!(configure(&mut world, Change::Remove(n(4))));
}

/// R88: a leader hands over; a survey says how far each has come, to the leader alone.
#[test]
fn the_lead_is_handed_over() {
    let mut world = quiet();
    let old = leader(&world);
    let to = (1..=3).map(n).find(|node| *node != old).expect("there are three");
    assert_eq!(world.log.matched(to), BTreeMap::new());
    let last = world.log.last();
    assert_eq!(world.log.matched(old), (1..=3).map(|id| (n(id), last)).collect());
    world.log.transfer(world.now, old, to);
    world.run(1_000);
    assert_eq!(leader(&world), to);
    assert_eq!(world.log.believes(old), Some(to));
    world.check_at_rest();
}
