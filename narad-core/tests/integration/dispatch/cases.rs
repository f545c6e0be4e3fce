//! One situation each.

use std::time::Duration;

use narad_core::dispatch::*;
use narad_core::ids::*;

use super::world::{End, ME, World};

const FROZEN: End = End::Fails(SendFault::Frozen);
const TIMED_OUT: End = End::Fails(SendFault::TimedOut);
const UNREACHABLE: End = End::Fails(SendFault::Unreachable);

/// The sends that are under way: to which partition, under which number, which records.
pub(super) fn sends(world: &World) -> Vec<(u32, u64, Vec<u64>)> {
    let sends = world.running.iter().filter_map(|(_, operation)| match operation {
        Operation::Send { partition, batch, records, .. } => {
            Some((partition.index, batch.n, records.iter().map(|seq| seq.0).collect()))
        }
        Operation::Checkpoint(_) | Operation::Carry(_) | Operation::Barrier => None,
    });
    sends.collect()
}

/// The index among the running operations of the send to a partition.
pub(super) fn to(world: &World, index: u32) -> usize {
    let is_it = |operation: &Operation| matches!(operation, Operation::Send { partition, .. } if partition.index == index);
    world.running.iter().position(|(_, operation)| is_it(operation)).expect("it is sent to")
}

pub(super) fn wake_until_sent(world: &mut World) {
    while sends(world).is_empty() {
        assert!(world.wake());
    }
}

/// R43, R46, L4, H23: accept looks at no partition: with every owner dead it still admits.
#[test]
fn accept_looks_at_no_partition() {
    let mut world = World::new(&[3]);
    for node in 1..=3 {
        world.cluster.kill(NodeId(node));
    }
    world.apply_all();
    for index in 0..3 {
        world.produce(Route::Partition(index));
    }
    assert!(sends(&world).is_empty());
    assert_eq!(world.dispatch.backlog().records, 3);
    world.cluster.register(NodeId(2));
    world.apply_all();
    assert_eq!(sends(&world), [(1, 0, vec![1])]);
}

/// R36: what comes while a batch is under way goes with the next one, in the order of acceptance.
#[test]
fn one_batch_at_a_time_in_order() {
    let mut world = World::new(&[3]);
    for _ in 0..3 {
        world.produce(Route::Partition(1));
        world.produce(Route::Key(4));
    }
    assert_eq!(sends(&world), [(1, 0, vec![0])]);
    world.end(0, End::Well);
    let send = to(&world, 1);
    assert_eq!(sends(&world), [(1, 1, vec![1, 2, 3, 4])]);
    world.end(send, End::Well);
    world.finish();
    assert_eq!(world.in_log(world.partition(1)), [0, 1, 2, 3, 4, 5]);
}

/// R37, case R158: a batch whose answer is lost is sent again under its number, and is there once.
#[test]
fn a_lost_answer_is_asked_for_again() {
    let mut world = World::new(&[3]);
    world.produce(Route::Partition(1));
    world.end(0, End::AnswerLost);
    assert!(sends(&world).is_empty(), "after a pause");
    wake_until_sent(&mut world);
    assert_eq!(sends(&world), [(1, 0, vec![0])]);
    world.finish();
    assert_eq!(world.in_log(world.partition(1)), [0]);
    assert_eq!(world.dispatch.progress().refused.timed_out, 1);
}

/// R36, R45, R47, case R163: what a frozen partition has refused waits for it, keyed records that
/// come later go to a sibling, those asked for by number wait.
#[test]
fn a_frozen_partition_keeps_what_is_bound_and_lets_go_of_keys() {
    let mut world = World::new(&[3]);
    let partition = world.partition(1);
    world.freeze(partition);
    world.apply_all();
    world.produce(Route::Key(1));
    assert_eq!(sends(&world), [(1, 0, vec![0])]);
    world.end(0, End::Well);
    world.produce(Route::Key(1));
    world.produce(Route::Partition(1));
    assert_eq!(sends(&world), [(0, 0, vec![1])], "the key goes elsewhere");
    world.settle();
    let rerouted = Note::Rerouted { from: partition, to: world.partition(0), records: 1 };
    assert!(world.notes.contains(&rerouted), "{:?}", world.notes);
    assert_eq!(world.dispatch.progress().rerouted, 1);
    assert!(world.flip(partition));
    world.finish();
    assert_eq!(world.in_log(partition), [0, 2], "at the new owner, in order");
    world.assert_done();
}

/// H23, case T29: a topic with one partition waits for it, and holds up no other topic.
#[test]
fn a_single_partition_is_waited_for() {
    let mut world = World::new(&[1, 3]);
    let (single, other) = (world.topic(0), world.topic(1));
    let partition = world.partition(0);
    world.freeze(partition);
    world.apply_all();
    for _ in 0..5 {
        assert!(world.accept(single, Route::Any, 100, 1));
        assert!(world.accept(single, Route::Key(9), 100, 1));
        assert!(world.accept(other, Route::Key(9), 100, 1));
        world.settle();
    }
    assert_eq!(world.dispatch.progress().dispatched, 5);
    assert_eq!(world.dispatch.backlog().records, 10);
    world.thaw(partition);
    world.finish();
    assert_eq!(world.dispatch.progress().rerouted, 0);
    world.assert_done();
}

/// R37, case R164: a row that changes makes another try worthwhile, shortly and not at once.
#[test]
fn a_flip_ends_a_long_pause() {
    let mut world = World::new(&[3]);
    let partition = world.partition(1);
    world.freeze(partition);
    world.apply_all();
    world.produce(Route::Partition(1));
    for _ in 0..12 {
        world.settle();
        world.wake();
    }
    world.settle();
    assert!(world.flip(partition));
    world.apply_all();
    let wait = world.dispatch.deadline().unwrap().at.since(world.now);
    assert!(wait < world.config.retry_min, "{wait:?}");
    world.wake();
    world.settle();
    assert_eq!(world.in_log(partition), [0]);
}

/// R45, R53, case R159: nothing new goes to a dead owner; keys go to a sibling, what was sent to it
/// waits for whoever owns the partition next.
#[test]
fn a_dead_owner_is_left() {
    let mut world = World::new(&[3]);
    let partition = world.partition(1);
    world.produce(Route::Key(1));
    let batch = to(&world, 1);
    world.end(batch, End::Lost);
    world.cluster.plan(partition);
    world.cluster.kill(NodeId(2));
    world.apply_all();
    world.produce(Route::Key(1));
    assert_eq!(sends(&world), [(0, 0, vec![1])]);
    world.settle();
    assert_eq!(world.dispatch.backlog().records, 1, "the bound one");
    assert!(world.flip(partition));
    world.finish();
    assert_eq!(world.in_log(partition), [0]);
    world.assert_done();
}

/// An ingress log that cannot be read is read again after a pause.
#[test]
fn what_cannot_be_read_is_not_asked_for_at_once() {
    let mut world = World::new(&[3]);
    world.produce(Route::Any);
    world.end(0, End::Fails(SendFault::Unreadable));
    assert!(sends(&world).is_empty());
    world.finish();
    world.assert_done();
}

/// A batch that never left binds nothing: its keyed records leave a dead owner.
#[test]
fn what_never_left_is_not_bound() {
    let mut world = World::new(&[3]);
    world.produce(Route::Key(1));
    world.end(0, UNREACHABLE);
    assert!(sends(&world).is_empty());
    world.cluster.kill(NodeId(2));
    world.apply_all();
    assert_eq!(sends(&world), [(0, 0, vec![0])]);
    world.finish();
    assert_eq!(world.in_log(world.partition(0)), [0]);
}

/// R54: a partition that has taken nothing for long is left by keys, whatever holds it up.
#[test]
fn a_partition_that_takes_nothing_for_long_is_left() {
    let mut world = World::new(&[3]);
    world.produce(Route::Key(1));
    let full = End::Fails(SendFault::DiskFull);
    world.end(0, full);
    world.produce(Route::Key(1));
    let since = world.now;
    for _ in 0..100 {
        if world.dispatch.progress().rerouted > 0 {
            break;
        }
        match sends(&world).first() {
            None => assert!(world.wake()),
            Some((1, ..)) => world.end(0, full),
            Some(_) => world.end(0, End::Well),
        }
    }
    assert_eq!(world.now.since(since), world.config.reroute_after);
    assert_eq!(*world.arrived(), [1].into());
}

/// Case R159: a node that hangs has one batch at a time, and the others go on.
#[test]
fn a_node_that_hangs_holds_up_nobody_else() {
    let mut world = World::new(&[30]);
    for index in 0..30 {
        world.produce(Route::Partition(index));
    }
    // Node 2 has every third partition, and hangs.
    let hangs = |index: u32| index % 3 == 1;
    while sends(&world).iter().any(|send| !hangs(send.0)) {
        if let Some(at) = sends(&world).iter().position(|send| !hangs(send.0)) {
            let which = to(&world, sends(&world)[at].0);
            world.end(which, End::Well);
        }
    }
    assert_eq!(world.dispatch.progress().dispatched, 20, "all of nodes 1 and 3");
    for _ in 0..20 {
        while let Some(&(index, ..)) = sends(&world).first() {
            let which = to(&world, index);
            world.end(which, TIMED_OUT);
            assert!(sends(&world).len() <= 1, "it does not answer");
        }
        world.wake();
    }
    world.finish();
    world.assert_done();
}

/// R40, L1: a node that comes back is not left to rest until its time is up.
#[test]
fn a_node_that_registers_again_is_tried_shortly() {
    let mut world = World::new(&[3]);
    world.produce(Route::Partition(1));
    for _ in 0..12 {
        world.end(0, UNREACHABLE);
        wake_until_sent(&mut world);
    }
    world.end(0, UNREACHABLE);
    let since = world.now;
    world.cluster.register(NodeId(2));
    world.apply_all();
    wake_until_sent(&mut world);
    assert!(world.now.since(since) < world.config.retry_min);
    world.finish();
    world.assert_done();
}

/// A timeout of one partition says nothing of a node that answers others meanwhile.
#[test]
fn a_partition_that_hangs_is_not_its_node() {
    let mut world = World::new(&[6]);
    world.produce(Route::Partition(1));
    world.pass(Duration::from_secs(1));
    world.produce(Route::Partition(4));
    let other = to(&world, 4);
    world.end(other, End::Well);
    let hanging = to(&world, 1);
    world.end(hanging, TIMED_OUT);
    world.produce(Route::Partition(4));
    assert_eq!(sends(&world), [(4, 1, vec![2])]);
}

/// R155: an owner that has moved on is asked again once the row here has.
#[test]
fn a_replica_that_is_behind_is_waited_for() {
    let mut world = World::new(&[3]);
    let partition = world.partition(1);
    world.freeze(partition);
    assert!(world.flip(partition));
    world.produce(Route::Partition(1));
    let batch = to(&world, 1);
    world.end(batch, End::Well);
    assert!(world.in_log(partition).is_empty());
    assert_eq!(world.dispatch.progress().refused.not_serving, 1);
    world.finish();
    assert_eq!(world.in_log(partition), [0]);
}

/// A send whose owner is no longer one is given up early, once.
#[test]
fn a_send_to_a_past_owner_is_cancelled() {
    let mut world = World::new(&[3]);
    let partition = world.partition(1);
    world.produce(Route::Partition(1));
    let op = world.running[to(&world, 1)].0;
    world.freeze(partition);
    assert!(world.flip(partition));
    world.apply_all();
    world.handle(Event::Restored);
    assert!(world.cancelled.contains(&op));
    assert_eq!(sends(&world).len(), 1, "its answer is waited for");
    world.finish();
}

/// Case R160: a batch that is too long for the owner goes in pieces, each with its own number, and
/// all of them stay bound.
#[test]
fn a_batch_that_is_too_long_goes_in_pieces() {
    let mut world = World::new(&[3]);
    world.produce(Route::Partition(1));
    for _ in 0..4 {
        world.produce(Route::Key(1));
    }
    world.end(0, End::Well);
    let mut sizes = Vec::new();
    for _ in 0..20 {
        let Some((_, n, records)) = sends(&world).pop() else {
            world.wake();
            continue;
        };
        let batch = to(&world, 1);
        let how = End::Fails(SendFault::TooLarge);
        world.end(batch, if records.len() > 1 { how } else { End::Well });
        sizes.push((n, records.len()));
    }
    assert_eq!(sizes, [(1, 4), (1, 2), (1, 1), (2, 1), (3, 1), (4, 1)]);
    assert_eq!(world.in_log(world.partition(1)), [0, 1, 2, 3, 4]);
}

/// An owner that remembers a later batch than this node: another number, rather than never.
#[test]
fn a_number_that_has_passed_is_skipped() {
    let mut world = World::new(&[3]);
    world.produce(Route::Partition(1));
    let newest = BatchNo { ingress: ME, life: world.life, n: 6 };
    world.end(0, End::Fails(SendFault::Stale { newest }));
    world.wake();
    assert_eq!(sends(&world), [(1, 7, vec![0])]);
}

/// Case R162: a topic that only this replica does not know yet is waited for; nothing is dropped.
#[test]
fn a_topic_that_is_not_known_yet_is_asked_for() {
    let mut world = World::new(&[3]);
    let topic = world.cluster.create(2);
    assert!(world.accept(topic, Route::Key(3), 100, 1));
    assert!(world.accept(topic, Route::Partition(0), 100, 1));
    assert!(world.accept(topic, Route::Any, 100, 1));
    assert!(matches!(world.running[..], [(_, Operation::Barrier)]));
    world.end(0, TIMED_OUT);
    assert!(world.running.is_empty(), "no leader: later");
    world.wake();
    assert!(matches!(world.running[..], [(_, Operation::Barrier)]));
    world.finish();
    assert_eq!(world.dispatch.progress().dropped, 0);
    world.assert_done();
}

/// Case R162, H26: records of a topic that is gone are dropped behind a barrier, with a note; a
/// batch that is under way is waited for.
#[test]
fn records_of_a_deleted_topic_are_dropped() {
    let mut world = World::new(&[3, 1]);
    let topic = world.topic(0);
    for route in [Route::Partition(1), Route::Partition(1), Route::Key(1), Route::Any] {
        world.produce(route);
    }
    world.delete_topic(topic);
    world.apply_all();
    assert_eq!(world.dispatch.backlog().records, 4);
    let barrier =
        world.running.iter().position(|(_, operation)| *operation == Operation::Barrier).unwrap();
    world.end(barrier, End::Well);
    let under_way: u64 = sends(&world).iter().map(|send| send.2.len() as u64).sum();
    assert_eq!(world.dispatch.backlog().records, under_way);
    while !sends(&world).is_empty() {
        let index = sends(&world)[0].0;
        let batch = to(&world, index);
        world.end(batch, End::Fails(SendFault::NoSuchPartition));
    }
    world.finish();
    let progress = world.dispatch.progress();
    assert_eq!((progress.dropped, progress.dispatched), (4, 0));
    assert!(world.notes.iter().any(|note| matches!(note, Note::Dropped { .. })));
    world.wake();
    world.settle();
    assert_eq!(world.dispatch.deadline(), None);
}

/// A number that the topic does not have is no reason to lose a record.
#[test]
fn a_partition_that_never_was_is_any() {
    let mut world = World::new(&[3]);
    world.produce(Route::Partition(77));
    world.finish();
    world.assert_done();
}

/// What may go anywhere goes round.
#[test]
fn loose_records_go_to_all_partitions() {
    let mut world = World::new(&[6]);
    for _ in 0..12 {
        world.produce(Route::Any);
        world.settle();
    }
    for index in 0..6 {
        assert_eq!(world.in_log(world.partition(index)).len(), 2);
    }
}

/// What may go anywhere waits for nobody in particular.
#[test]
fn loose_records_avoid_what_is_stuck() {
    let mut world = World::new(&[3]);
    world.produce(Route::Partition(1));
    world.end(0, TIMED_OUT);
    for _ in 0..9 {
        world.produce(Route::Any);
        world.settle();
    }
    assert_eq!(world.dispatch.backlog().records, 1);
    assert_eq!(world.dispatch.progress().dispatched, 9);
}

/// R39, S11: a restart begins again at the checkpoint: duplicates, never gaps.
#[test]
fn a_restart_sends_again_what_is_not_checkpointed() {
    let mut world = World::new(&[3]);
    for _ in 0..4 {
        world.produce(Route::Key(1));
        world.settle();
    }
    world.crash();
    assert!(world.dispatch.backlog().records > 0);
    world.finish();
    world.assert_done();
    world.wake();
    world.settle();
    world.crash();
    assert_eq!(world.dispatch.backlog().records, 0, "all of it was checkpointed");
    assert_eq!(world.dispatch.deadline(), None);
}

/// An answer of an earlier life, or a second one, is noted.
#[test]
fn a_stale_answer_is_noted() {
    let mut world = World::new(&[3]);
    world.produce(Route::Key(1));
    let op = world.running[0].0;
    world.crash();
    world.handle(Event::Done(op, Outcome::Send(Ok(()))));
    assert_eq!(world.notes.last(), Some(&Note::Stale(op)));
    assert_eq!(world.dispatch.backlog().records, 1);
}

/// A partition that takes nothing is noted when the reason changes, and when it takes again.
#[test]
fn what_holds_a_partition_up_is_noted_once() {
    let mut world = World::new(&[3]);
    let partition = world.partition(1);
    world.produce(Route::Partition(1));
    for how in [FROZEN, FROZEN, End::Fails(SendFault::NoLease), End::Well] {
        let batch = to(&world, 1);
        world.end(batch, how);
        world.wake();
    }
    let held = |fault| Note::Held { partition, fault };
    let noted = [held(SendFault::Frozen), held(SendFault::NoLease), Note::Resumed(partition)];
    assert_eq!(world.notes, noted);
}
