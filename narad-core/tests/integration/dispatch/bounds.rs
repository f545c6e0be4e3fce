//! What is accepted, how much is under way, and how much memory a record takes.

use std::time::Duration;

use narad_core::config::Config;
use narad_core::dispatch::*;
use narad_core::effects::Effects;
use narad_core::ids::*;

use super::world::{End, World, config};

/// A full log says so, and after how long to come again; what arrives makes room.
#[test]
fn a_full_log_refuses() {
    let mut world = World::with(Config { backlog_bytes_max: 1000, ..config() }, &[1]);
    let topic = world.topic(0);
    assert!(world.accept(topic, Route::Any, 100, 10));
    let Err(Refused::Full { retry_after }) = world.dispatch.admit(1, 1) else { panic!("full") };
    assert_eq!(retry_after, world.config.retry_max, "nothing has arrived yet");
    assert!(matches!(world.dispatch.admit(1, 1001), Err(Refused::TooLarge { .. })));
    world.finish();
    assert_eq!(world.dispatch.backlog().records, 0);
    assert!(world.accept(topic, Route::Any, 100, 3));
}

/// The number of records is bounded as well: each takes memory.
#[test]
fn records_are_counted() {
    let mut world = World::with(Config { backlog_records_max: 128, ..config() }, &[1]);
    let topic = world.topic(0);
    assert!(world.accept(topic, Route::Any, 1, 128));
    assert!(!world.accept(topic, Route::Any, 1, 1));
    world.finish();
    world.assert_done();
}

/// Once records arrive, the refusal names the time that this pace needs.
#[test]
fn the_time_to_come_again_follows_the_pace() {
    let config =
        Config { backlog_bytes_max: 160_000, retry_min: Duration::from_millis(10), ..config() };
    let mut world = World::with(config, &[1]);
    let topic = world.topic(0);
    assert!(world.accept(topic, Route::Any, 100, 1000));
    for _ in 0..20 {
        world.pass(Duration::from_millis(100));
        let send = world.running.iter().position(|(_, it)| matches!(it, Operation::Send { .. }));
        world.end(send.unwrap(), End::Well);
    }
    // 400 bytes every 100 ms, and a sixteenth of the log is 10,000.
    let Room { retry_after, .. } = world.dispatch.room();
    let expected = Duration::from_millis(2500);
    assert!(retry_after.abs_diff(expected) < Duration::from_millis(500), "{retry_after:?}");
}

/// R94, H37: a node that is decommissioned accepts nothing, and sends what it has.
#[test]
fn a_draining_node_accepts_nothing_and_empties() {
    let mut world = World::new(&[3]);
    world.produce(Route::Partition(1));
    let draining = |on| narad_core::metastore::Command::SetDraining { node: super::world::ME, on };
    world.cluster.propose(1, draining(true));
    world.apply_all();
    assert_eq!(world.dispatch.admit(1, 1), Err(Refused::Draining));
    world.finish();
    assert_eq!(world.dispatch.backlog(), Backlog::default());
    world.cluster.propose(1, draining(false));
    world.apply_all();
    assert_eq!(world.dispatch.admit(1, 1), Ok(()));
}

/// Invariant 6: however much waits for however many partitions, so many batches are under way; each
/// partition has its turn.
#[test]
fn batches_under_way_are_bounded_and_shared() {
    let mut world = World::new(&[12]);
    let topic = world.topic(0);
    for index in 0..12 {
        assert!(world.accept(topic, Route::Partition(index), 100, 12));
    }
    let mut turns: Vec<u32> = Vec::new();
    while !world.running.is_empty() {
        assert!(world.running.len() <= 5, "four batches and a checkpoint");
        if let Operation::Send { partition, .. } = world.running[0].1 {
            turns.push(partition.index);
        }
        world.end(0, End::Well);
    }
    assert_eq!(turns.len(), 36);
    for round in turns.chunks(12) {
        let mut round = round.to_vec();
        round.sort_unstable();
        round.dedup();
        assert!(round.len() >= 10, "{turns:?}");
    }
    world.assert_done();
}

/// With one batch at a time everything still has its turn.
#[test]
fn one_batch_is_enough() {
    let mut world = World::with(Config { sends_in_flight_max: 1, ..config() }, &[6, 1]);
    let (many, one) = (world.topic(0), world.topic(1));
    for hash in 0..40 {
        assert!(world.accept(many, Route::Key(hash), 100, 1));
        assert!(world.accept(many, Route::Any, 100, 1));
        assert!(world.accept(one, Route::Any, 100, 1));
    }
    world.finish();
    world.assert_done();
}

/// A record that is longer than a batch goes alone.
#[test]
fn a_long_record_goes_alone() {
    let mut world = World::new(&[1]);
    let topic = world.topic(0);
    for bytes in [300, 5000, 300, 50] {
        assert!(world.accept(topic, Route::Any, bytes, 1));
    }
    world.finish();
    world.assert_done();
    assert_eq!(world.sends, 3);
}

/// What is found at the start is taken as it is, however much it is: its memory is bounded by what
/// the last life accepted.
#[test]
fn a_large_log_is_found_and_sorted() {
    let mut out = Effects::default();
    let topic = World::new(&[3]).topic(0);
    let waybills = (100..200_000).map(|seq| Waybill {
        seq: Seq(seq),
        topic,
        route: Route::Key(seq),
        bytes: 250,
    });
    let found = Found { next: Seq(200_005), waybills, closed: false };
    let life = Incarnation(2);
    let mut dispatch = Dispatch::new(&Config::new(1), NodeId(1), life, found, &mut out);
    assert!(out.is_empty());
    assert_eq!(dispatch.checkpoint(), Seq(100));
    let world = World::new(&[3]);
    dispatch.handle(world.now, &world.cluster.replica, Event::Wake, &mut out);
    let [Effect::Run(_, Operation::Send { records, .. }), ..] = out.as_slice() else {
        panic!("{out:?}")
    };
    assert_eq!((records.count(), records.runs().len()), (1024, 1024));
    assert_eq!(out.as_slice().len(), 3, "one for each partition");
}
