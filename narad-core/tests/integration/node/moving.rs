//! Moves that nothing disturbs, and what they leave behind.

use narad_core::ids::*;
use narad_core::metastore::{Applied, Command, Reply};
use narad_core::node::{Ask, Said};

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
    assert!(world.work.acked.len() > 100);
    world.run(World::SECOND * 2);
    world.check_everything_is_visible();
}

/// R82, R84, R86, R93: a follower is drained, retired and taken out of the voters.
#[test]
fn a_follower_is_decommissioned() {
    let mut world = World::new(4, 2);
    topic(&mut world, "orders", 8);
    settle(&mut world);
    world.produce_every(ms(100));
    let ask = world.ask(n(2), Ask::Decommission(n(3)));
    world.until("it is retired", World::SECOND * 60, |world| {
        world.log.state.member(n(3)).is_some_and(|member| member.retired)
            && !world.log.state.configuration().contains(n(3))
    });
    assert_eq!(world.replies[&ask], Ok(Said::Done(Applied::Done)));
    world.check_everything_is_visible();
}
