//! Records that keep the ingress log long are appended once more.

use narad_core::config::Config;
use narad_core::dispatch::*;
use narad_core::ids::*;

use super::world::{End, World, config};

fn is_carry(operation: &Operation) -> bool {
    matches!(operation, Operation::Carry(_))
}

/// Lets everything but carries end well.
fn settle_sends(world: &mut World) {
    while let Some(at) = world.running.iter().position(|(_, it)| !is_carry(it)) {
        world.end(at, End::Well);
    }
}

/// A world whose log is nearly all delivered, but for a few records that a dead owner keeps.
fn pinned() -> World {
    let mut world = World::with(Config { backlog_records_max: 1024, ..config() }, &[1, 3]);
    let (single, other) = (world.topic(0), world.topic(1));
    let owner = NodeId(1);
    world.cluster.kill(owner);
    world.apply_all();
    for _ in 0..6 {
        assert!(world.accept(single, Route::Key(1), 10, 1));
    }
    for hash in 0..300 {
        assert!(world.accept(other, Route::Key(hash), 10, 1));
        settle_sends(&mut world);
    }
    world
}

/// A few records that a dead owner keeps do not keep the log: they are carried to its end, and the
/// checkpoint follows.
#[test]
fn a_stuck_record_does_not_pin_the_log() {
    let mut world = pinned();
    assert!(world.dispatch.checkpoint() < Seq(64));
    let carry = world.running.iter().position(|(_, it)| is_carry(it)).unwrap();
    world.end(carry, End::Well);
    let next = world.running.iter().position(|(_, it)| is_carry(it));
    if let Some(next) = next {
        world.end(next, End::Well);
    }
    assert_eq!(world.dispatch.checkpoint(), Seq(world.next.0 - 6));
    assert_eq!(world.dispatch.backlog().records, 6);
    assert_eq!(world.dispatch.progress().carried, 6);
    assert!(world.notes.iter().any(|note| matches!(note, Note::Carried { .. })));
    while world.checkpoint <= Seq(256) {
        assert!(world.wake(), "and the old segments go");
        settle_sends(&mut world);
    }
    world.crash();
    assert_eq!(world.dispatch.backlog().records, 6, "the carried ones are found");
    world.cluster.register(NodeId(1));
    world.finish();
    let partition = PartitionId { topic: world.topic(0), index: 0 };
    assert_eq!(world.in_log(partition), [0, 1, 2, 3, 4, 5]);
    world.assert_done();
}

/// While records are carried they are not sent, and then go on in their order, with later ones after
/// them.
#[test]
fn carried_records_keep_their_place() {
    let mut world = pinned();
    let single = world.topic(0);
    assert!(world.accept(single, Route::Partition(0), 10, 1));
    assert!(world.accept(single, Route::Key(1), 10, 1));
    world.cluster.register(NodeId(1));
    world.apply_all();
    let carry = world.running.iter().position(|(_, it)| is_carry(it)).unwrap();
    assert_eq!(world.running.len(), 1, "nothing else is under way: {:?}", world.running);
    world.end(carry, End::Well);
    world.finish();
    let partition = PartitionId { topic: single, index: 0 };
    let last = world.accepted.len();
    assert_eq!(world.in_log(partition), [0, 1, 2, 3, 4, 5, last - 2, last - 1]);
    world.assert_done();
}

/// A carry that fails, or may have failed, changes nothing, and is tried again later.
#[test]
fn a_failed_carry_is_tried_again() {
    for how in [End::AnswerLost, End::Lost] {
        let mut world = pinned();
        let carry = world.running.iter().position(|(_, it)| is_carry(it)).unwrap();
        world.end(carry, how);
        assert!(world.dispatch.checkpoint() < Seq(64));
        assert!(world.notes.contains(&Note::LogFault));
        while !world.running.iter().any(|(_, it)| is_carry(it)) {
            assert!(world.wake());
            settle_sends(&mut world);
        }
        world.settle();
        world.cluster.register(NodeId(1));
        world.finish();
        world.assert_done();
    }
}

/// A topic that is deleted while its records are carried: their copies are nobody's.
#[test]
fn a_topic_may_go_while_it_is_carried() {
    let mut world = pinned();
    let single = world.topic(0);
    world.delete_topic(single);
    world.apply_all();
    settle_sends(&mut world);
    assert_eq!(world.dispatch.backlog().records, 0);
    let end = world.next;
    world.settle();
    assert_eq!(world.dispatch.backlog().records, 0);
    assert!(world.next > end, "the copies are there");
    world.finish();
    assert_eq!(world.dispatch.checkpoint(), world.next);
}

/// Also when most of the log waits, there is room in the end for those who deliver.
#[test]
fn a_log_that_is_half_stuck_still_accepts() {
    let mut world = World::with(Config { backlog_records_max: 1024, ..config() }, &[1, 3]);
    let (single, other) = (world.topic(0), world.topic(1));
    world.cluster.kill(NodeId(1));
    world.apply_all();
    assert!(world.accept(single, Route::Key(1), 10, 500));
    for hash in 0..2000 {
        assert!(
            world.accept(other, Route::Key(hash), 10, 1),
            "{hash}: {:?}",
            world.dispatch.room()
        );
        world.settle();
    }
    assert_eq!(world.dispatch.backlog().records, 500);
    world.cluster.register(NodeId(1));
    world.finish();
    let partition = PartitionId { topic: single, index: 0 };
    let expected: Vec<usize> = (0..500).collect();
    assert_eq!(world.in_log(partition), expected);
    world.assert_done();
}

/// A topic becomes known while its records are carried: those that are on their way by then go by
/// their old positions, which stay.
#[test]
fn what_is_sent_while_it_is_carried_stays_where_it_was() {
    let mut world = World::with(Config { backlog_records_max: 1024, ..config() }, &[3]);
    let (known, unknown) = (world.topic(0), world.cluster.create(1));
    for _ in 0..3 {
        assert!(world.accept(unknown, Route::Key(1), 10, 1));
    }
    for hash in 0..300 {
        assert!(world.accept(known, Route::Key(hash), 10, 1));
        let is_other = |it: &Operation| !is_carry(it) && *it != Operation::Barrier;
        while let Some(at) = world.running.iter().position(|(_, it)| is_other(it)) {
            world.end(at, End::Well);
        }
    }
    let carry = world.running.iter().position(|(_, it)| is_carry(it)).unwrap();
    let Operation::Carry(seqs) = &world.running[carry].1 else { unreachable!() };
    assert_eq!(seqs.count(), 3);
    world.apply_all();
    world.end(carry, End::Well);
    world.wake();
    let is_checkpoint = |it: &Operation| matches!(it, Operation::Checkpoint(_));
    while let Some(at) = world.running.iter().position(|(_, it)| is_checkpoint(it)) {
        world.end(at, End::Well);
    }
    world.finish();
    world.assert_done();
    let partition = PartitionId { topic: unknown, index: 0 };
    assert_eq!(world.in_log(partition), [0, 1, 2]);
}
