//! The state as plain data (R7), and data that no log could have made.

use super::{Vec, World};
use crate::ids::{Epoch, Generation, Incarnation, MoveId, NodeId, Offset, StoreUuid, TopicId};
use crate::metastore::{Parts, PartsError, State, Status};

/// Everything that can differ does: a forced reign, a move under way, a dead and a retired node.
fn rich() -> World {
    let mut world = World::moving(5);
    world.report(0, 5);
    world.kill(1);
    world.applies(2, world.forced(0, 10).command());
    world.relocate(0, 3, 20);
    world.assign(1, 2);
    world.plan(1, 3);
    world.drain(5, true);
    world.drained_out(5);
    world.applies(9, super::Command::Retire { node: NodeId(5), receipt: None });
    world.create("other", 2);
    world
}

/// R7, H24h: owner, target, tombstones and the index survive a snapshot.
#[test]
fn a_snapshot_is_the_whole_state() {
    let world = rich();
    let parts = world.state.to_parts();
    let again = State::from_parts(parts.clone()).expect("the parts are the state's own");
    assert_eq!(again, world.state);
    assert_eq!(again.to_parts(), parts);
    assert!(State::from_parts(State::new().to_parts()).is_ok());
}

/// Each kind of damage is refused, and says where it is.
#[test]
fn parts_that_no_log_makes_are_refused() {
    type Damage = fn(&mut Parts);
    let row: &[Damage] = &[
        |p| p.assignments.swap(0, 1),
        |p| p.assignments[1] = p.assignments[0].clone(),
        |p| p.assignments[1].0.index = 4,
        |p| p.assignments[0].1.lineage[1].start = Offset(21),
        |p| p.assignments[0].1.lineage[1].epoch = Epoch(1),
        |p| p.assignments[0].1.lineage[1].data.move_id = MoveId(0),
        |p| p.assignments[0].1.lineage[1].data.move_id = MoveId(4),
        |p| p.assignments[0].1.owner = NodeId(9),
        |p| p.assignments[0].1.owner = NodeId(5),
        |p| p.assignments[1].1.target = Some(NodeId(9)),
        |p| p.assignments[1].1.target = Some(NodeId(5)),
        |p| p.assignments[1].1.target = Some(NodeId(2)),
        |p| p.assignments[1].1.move_id = MoveId(0),
        |p| p.assignments[0].1.move_id = MoveId(2),
        |p| p.assignments[0].1.move_id = MoveId(u64::MAX),
        |p| p.assignments[0].1.epoch = Epoch(4),
        |p| p.assignments[0].1.min_end = Offset(9),
        |p| p.assignments[0].1.lineage.clear(),
        |p| p.assignments[0].1.lineage[0].epoch = Epoch(0),
        |p| p.assignments[0].1.lineage[0].owner = NodeId(3),
        |p| p.assignments[0].1.lineage[0].start = Offset(11),
        |p| p.assignments[0].1.lineage_cut = true,
        |p| {
            let last = p.assignments[0].1.lineage[2];
            p.assignments[0].1.lineage.extend([last; 80]);
        },
    ];
    let member: &[Damage] = &[
        |p| p.members.swap(0, 1),
        |p| p.members[1] = p.members[0].clone(),
        |p| p.members[0].id = NodeId(0),
        |p| p.newest_node = NodeId(4),
        |p| p.newest_node = NodeId(u64::MAX),
        |p| p.members[1].store_uuid = p.members[0].store_uuid,
        |p| p.members[1].name = p.members[0].name.clone(),
        |p| p.members[0].addrs.peer = "x".repeat(256),
        |p| p.members[0].status = Status::Dead(Generation(7)),
        |p| {
            p.members[0].status = Status::Dead(Generation(0));
            p.members[0].deaths = Generation(0);
        },
        |p| p.members[0].deaths = Generation(u64::MAX),
        |p| p.members[4].draining = false,
        |p| p.members[1].incarnation = Incarnation(0),
    ];
    let topic: &[Damage] = &[
        |p| p.topics.swap(0, 1),
        |p| p.topics[1].id = TopicId(p.applied.0 + 1),
        |p| p.topics[1].id = p.topics[0].id,
        |p| p.topics[1].name = p.topics[0].name.clone(),
        |p| p.topics[1].partitions = 0,
        |p| p.topics[1].partitions = 100_001,
        |p| p.topics[1].parent = Some(p.topics[1].id),
        |p| p.topics[0].parent = Some(p.topics[1].id),
    ];
    let refusal = |damage: &Damage| {
        let mut parts = rich().state.to_parts();
        // An unregistered member that has died before is refused, too.
        parts.members[1].deaths = Generation(1);
        damage(&mut parts);
        State::from_parts(parts).expect_err("the damage is found")
    };
    for (number, damage) in row.iter().enumerate() {
        assert!(matches!(refusal(damage), PartsError::Row { .. }), "row damage {number}");
    }
    for (number, damage) in member.iter().enumerate() {
        assert!(matches!(refusal(damage), PartsError::Member { .. }), "member damage {number}");
    }
    for (number, damage) in topic.iter().enumerate() {
        assert!(matches!(refusal(damage), PartsError::Topic { .. }), "topic damage {number}");
    }
}

/// A snapshot of a newer cluster, a refused policy, and more than fits.
#[test]
fn a_header_that_does_not_fit_is_refused() {
    let parts = rich().state.to_parts();
    for found in [0, 2, u32::MAX] {
        let newer = Parts { version: found, ..parts.clone() };
        assert_eq!(State::from_parts(newer), Err(PartsError::Version { found }));
    }
    let mut unsafe_policy = parts.clone();
    unsafe_policy.policy.max_in_flight = 0;
    assert!(matches!(State::from_parts(unsafe_policy), Err(PartsError::Policy(_))));
    let mut long = parts.clone();
    long.remembered = core::iter::repeat_n(parts.remembered[0], 1025).collect();
    assert!(matches!(State::from_parts(long), Err(PartsError::TooMany { .. })));
    let crowd = |count: u64| -> Vec<_> {
        let one = &parts.members[0];
        (1..=count)
            .map(|id| {
                let mut member = one.clone();
                (member.id, member.store_uuid) = (NodeId(id), StoreUuid(u128::from(id)));
                member
            })
            .collect()
    };
    let crowded = Parts { members: crowd(10_001), ..parts.clone() };
    assert!(matches!(State::from_parts(crowded), Err(PartsError::TooMany { .. })));
}
