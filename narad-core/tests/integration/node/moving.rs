//! Moves that nothing disturbs, and what every test here begins with.

use narad_core::ids::*;
use narad_core::metastore::{Applied, Command, Reply};
use narad_core::mover;
use narad_core::node::{Ask, Note, Said};

use super::world::{World, ms, n};

pub(super) fn topic(world: &mut World, name: &str, partitions: u32) -> TopicId {
    let name = Name::new(name).unwrap();
    let create = Command::CreateTopic { name, partitions, parent: None };
    match world.say(create) {
        Reply::Applied(Applied::Created(topic)) => topic,
        other => panic!("{other:?}"),
    }
}

pub(super) fn settle(world: &mut World) {
    world.until("everything is settled", World::SECOND * 60, World::is_settled);
}

/// A cluster with one partition, on node 1, which does not lead; some records are in it.
pub(super) fn one_partition(nodes: u64, seed: u64) -> (World, PartitionId) {
    let mut world = World::new(nodes, seed);
    let topic = topic(&mut world, "orders", 1);
    settle(&mut world);
    let partition = PartitionId { topic, index: 0 };
    assert_eq!(world.log.state.assignment(partition).unwrap().owner, n(1));
    world.elect(n(3));
    world.produce_every(ms(40));
    world.run(ms(600));
    (world, partition)
}

pub(super) fn move_to(world: &mut World, partition: PartitionId, to: u64) {
    let via = if world.is_up(n(3)) { n(3) } else { n(1) };
    world.ask(via, Ask::Move { partition, to: n(to) });
}

pub(super) fn owner(world: &World, partition: PartitionId) -> Option<NodeId> {
    world.log.state.assignment(partition).map(|row| row.owner)
}

pub(super) fn is_at(world: &World, partition: PartitionId, at: u64) -> bool {
    let row = world.log.state.assignment(partition).expect("it exists");
    row.owner == n(at)
        && row.target.is_none()
        && world.is_up(n(at))
        && world.node(n(at)).serving(partition) == Some(row.epoch)
}

/// R89, R5, L7: a node that joins gets its part, without a word from anybody.
#[test]
fn a_rebalance_starts_by_itself_when_a_node_joins() {
    let mut world = World::new(3, 1);
    topic(&mut world, "orders", 8);
    settle(&mut world);
    world.produce_every(ms(100));
    world.run(World::SECOND * 2);
    world.join(n(4));
    world.run(World::SECOND * 5);
    settle(&mut world);
    assert_eq!(world.log.state.owned_count(n(4)), 2);
    assert!(world.log.state.configuration().voters.contains(&n(4)), "it learnt, then got a vote");
    assert!(world.work.acked.len() > 100);
    world.run(World::SECOND * 2);
    world.check_everything_is_visible();
    world.check_everybody_was_answered();
}

/// R75, R76, S14: a large rebalance drains gradually, never more at once than may.
#[test]
fn a_large_rebalance_keeps_to_the_slots() {
    let mut world = World::new(2, 3);
    for at in 0..6 {
        topic(&mut world, &format!("topic-{at}"), 8);
    }
    settle(&mut world);
    for id in 3..=6 {
        world.join(n(id));
    }
    let mut busiest = 0;
    while !world.is_settled() || world.log.state.owned_count(n(6)) == 0 {
        assert!(world.now.since_origin() < World::SECOND * 120, "{}", world.describe());
        world.step();
        world.check_slots();
        busiest = busiest.max(world.log.state.targeted().len());
    }
    assert!(busiest >= 4, "at most two moves leave each of two nodes, and {busiest} ran");
    let moved = world
        .notes
        .iter()
        .filter(|(_, note)| matches!(note, Note::Mover(_, mover::Note::Moved { .. })));
    assert_eq!(moved.count(), 32, "R71: exactly the surplus moves");
}

/// H23, R84: ninety topics of one partition each leave a node, although none has a sibling.
#[test]
fn ninety_topics_of_one_partition_leave_a_node() {
    let mut world = World::new(4, 4);
    for at in 0..90 {
        topic(&mut world, &format!("single-{at}"), 1);
    }
    settle(&mut world);
    assert!((22..=23).contains(&world.log.state.owned_count(n(2))), "K107: they are spread");
    world.produce_every(ms(2_000));
    world.ask(n(1), Ask::Decommission(n(2)));
    world.until("node 2 is out", World::SECOND * 120, |world| {
        !world.log.state.configuration().contains(n(2))
    });
    settle(&mut world);
    world.check_everything_is_visible();
}

/// An operator's move pins: the planner leaves the partition there until it is unpinned.
#[test]
fn an_operators_move_stays_until_it_is_unpinned() {
    let mut world = World::new(2, 5);
    let topic = topic(&mut world, "orders", 2);
    settle(&mut world);
    let partition = PartitionId { topic, index: 0 };
    let from = owner(&world, partition).unwrap();
    let to = if from == n(1) { n(2) } else { n(1) };
    let ask = world.ask(n(1), Ask::Move { partition, to });
    world.run(World::SECOND * 5);
    assert!(matches!(world.replies[&ask], Ok(Said::Done(Applied::Planned(_)))));
    let row = world.log.state.assignment(partition).unwrap();
    assert_eq!((row.owner, row.pinned), (to, true));
    assert_eq!(world.log.state.owned_count(to), 1, "balance comes from the other one");
    world.ask(n(1), Ask::Pin { partition, on: false });
    world.run(World::SECOND);
    assert!(!world.log.state.assignment(partition).unwrap().pinned);
}

/// R41, R20, S4: what was hidden at the source stays hidden at the destination until something new
/// is committed there.
#[test]
fn hidden_records_stay_hidden_until_the_next_commit() {
    let (mut world, partition) = one_partition(3, 6);
    world.work.every = ms(0);
    world.run(ms(100));
    let log = world.live_mut(n(1), partition).unwrap();
    log.append(1_000_001, Epoch(1));
    let hwm = log.hwm;
    assert!(hwm < log.end());
    move_to(&mut world, partition, 2);
    world.until("the move", World::SECOND * 20, |world| is_at(world, partition, 2));
    world.run(ms(50));
    let log = world.live(n(2), partition).unwrap();
    assert_eq!((log.hwm, log.end()), (hwm, hwm + 1));
    assert_eq!(world.produce(partition), 1);
    world.run(ms(50));
    let log = world.live(n(2), partition).unwrap();
    assert_eq!(log.hwm, log.end(), "the commit exposes what was before it");
}
