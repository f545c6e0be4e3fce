//! What has arrived is not sent again by a restart, whatever is stuck before it.

use std::time::Duration;

use narad_core::dispatch::*;
use narad_core::ids::*;

use super::cases::sends;
use super::world::{End, World};

fn checkpoints(world: &World) -> Vec<Checkpoint> {
    let checkpoints = world.running.iter().filter_map(|(_, operation)| match operation {
        Operation::Checkpoint(spent) => Some(spent.clone()),
        Operation::Send { .. } | Operation::Carry(_) | Operation::Barrier => None,
    });
    checkpoints.collect()
}

fn beyond(world: &World) -> Vec<(u64, u64)> {
    world.beyond.iter().map(|run| (run.start.0, run.end.0)).collect()
}

/// A dead owner keeps one record of a topic with one partition, and the log's beginning with it.
fn stuck() -> World {
    let mut world = World::new(&[1, 3]);
    world.cluster.kill(NodeId(1));
    world.apply_all();
    assert!(world.accept(world.topic(0), Route::Any, 10, 1));
    world.settle();
    world
}

fn accept_and_deliver(world: &mut World, records: u64) {
    for hash in 0..records {
        let other = world.topic(1);
        assert!(world.accept(other, Route::Key(hash), 10, 1));
        world.settle();
    }
}

/// S11: duplicates only at named seams; a record that waits for a dead owner is none of them.
#[test]
fn a_stuck_record_has_nothing_else_sent_again() {
    let mut world = stuck();
    accept_and_deliver(&mut world, 200);
    world.pass(Duration::from_secs(10));
    world.settle();
    assert_eq!(world.checkpoint, Seq(0));
    assert_eq!(beyond(&world), [(1, 201)]);
    for _ in 0..3 {
        world.crash();
        assert_eq!(world.dispatch.backlog().records, 1);
        accept_and_deliver(&mut world, 1);
        world.pass(Duration::from_secs(10));
        world.settle();
    }
    assert_eq!(beyond(&world), [(1, 204)]);
    world.cluster.register(NodeId(1));
    world.finish();
    world.assert_done();
}

/// A little that arrives beyond a stuck record is noted now and then, much of it as soon as a
/// checkpoint may be, and nothing is written while nothing arrives.
#[test]
fn an_idle_log_writes_nothing() {
    let mut world = stuck();
    let idle = |world: &mut World, seconds: u64| {
        for _ in 0..seconds {
            world.pass(Duration::from_secs(1));
            assert_eq!(checkpoints(world), []);
        }
    };
    idle(&mut world, 30);
    accept_and_deliver(&mut world, 1);
    world.settle();
    assert_eq!(beyond(&world), [(1, 2)]);
    idle(&mut world, 30);
    accept_and_deliver(&mut world, 1);
    world.settle();
    accept_and_deliver(&mut world, 1);
    assert_eq!((checkpoints(&world), beyond(&world)), (vec![], vec![(1, 3)]));
    idle(&mut world, 9);
    world.pass(Duration::from_secs(1));
    assert_eq!(checkpoints(&world).len(), 1);
    world.settle();
    let other = world.topic(1);
    for _ in 0..256 {
        assert!(world.accept(other, Route::Any, 10, 4));
        world.settle();
    }
    world.pass(Duration::from_secs(1));
    assert_eq!(checkpoints(&world).len(), 1);
}

/// A node that is asked to end waits for what is under way, sends nothing more, and notes what has
/// arrived: its next life sends none of that again.
#[test]
fn a_clean_stop_leaves_no_duplicates() {
    let mut world = stuck();
    let other = world.topic(1);
    accept_and_deliver(&mut world, 5);
    assert!(world.accept(other, Route::Key(0), 10, 2));
    assert_eq!(sends(&world).len(), 1);
    world.handle(Event::Stopping);
    assert!(world.accept(other, Route::Key(1), 10, 1), "it still accepts");
    assert_eq!((sends(&world).len(), checkpoints(&world).len()), (1, 0), "and sends nothing");
    world.end(0, End::Well);
    assert_eq!(checkpoints(&world).len(), 1);
    assert!(!world.dispatch.has_stopped());
    world.end(0, End::Well);
    assert!(world.dispatch.has_stopped());
    assert!(world.running.is_empty());
    assert_eq!(world.dispatch.deadline(), None);
    world.crash();
    assert_eq!(world.dispatch.backlog().records, 2, "the stuck one, and the one that was not sent");
}

/// An owner that does not answer holds up the end for [`Dispatch::STOP_WAIT`], and no disk does.
#[test]
fn a_stop_does_not_wait_for_ever() {
    let mut world = stuck();
    let other = world.topic(1);
    accept_and_deliver(&mut world, 5);
    assert!(world.accept(other, Route::Key(0), 10, 1));
    world.handle(Event::Stopping);
    let deadline = world.dispatch.deadline().expect("it does not wait for ever");
    assert_eq!(deadline.at, world.now.after(Dispatch::STOP_WAIT));
    world.wake();
    let at = world.running.iter().position(|(_, it)| matches!(it, Operation::Checkpoint(_)));
    world.end(at.expect("the others are noted"), End::Lost);
    assert!(world.dispatch.has_stopped(), "a checkpoint that failed is not tried again");
    let mut world = World::new(&[1]);
    world.handle(Event::Stopping);
    assert!(world.dispatch.has_stopped(), "there is nothing to wait for");
}
