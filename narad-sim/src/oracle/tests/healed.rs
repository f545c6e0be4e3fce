//! A world that has healed.

use super::*;
use crate::oracle::sink::{Cx, Sink};
use crate::oracle::{End, s11_delivery};
use narad_core::cursor::{Reserved, Run};
use narad_core::mover::Waiting;
use narad_core::node::CallFault;

/// A world in which node 1 leads, the second node's machines run on what is committed, and nothing
/// answers them.
fn healing(bench: &mut Bench) {
    bench.tell(Fact::Liveness);
}

fn later(bench: &mut Bench) {
    let patience = bench.oracle.patience();
    for _ in 0..3 {
        bench.pass(patience);
        bench.tell(Fact::Tick);
    }
}

/// Covers L1: a move whose mover stands still without a reason.
#[test]
fn a_move_that_is_silently_stuck_is_found() {
    let mut bench = Bench::cluster(3);
    bench.plan(2);
    bench.run_node(1);
    bench.run_node(2);
    healing(&mut bench);
    bench.tell(Fact::Tick);
    bench.holds();
    later(&mut bench);
    bench.breaks(&["L1"]);
}

/// Covers L1: a source that does not answer is no reason while it is there; but a move that waited
/// for something true a moment ago may have met one slow answer since.
#[test]
fn a_reason_that_is_not_so_counts_for_a_moment_after_one_that_was() {
    for told in [true, false] {
        let mut bench = Bench::cluster(3);
        bench.plan(2);
        bench.run_node(1);
        let index = bench.state().applied();
        bench.run_node_with(2, |operation| match operation {
            Operation::Inspect(_) => Some(Outcome::Inspect(Some(Recovered::default()))),
            Operation::Barrier => Some(Outcome::Barrier(Some(index))),
            Operation::Call { .. } => Some(Outcome::Call(Err(CallFault::TimedOut))),
            _ => None,
        });
        let waiting = bench.sight.nodes[&N2].moves().next().unwrap().1.waiting;
        assert_eq!(waiting, Some(Waiting::SourceUnreachable));
        healing(&mut bench);
        let patience = bench.oracle.patience();
        for _ in 0..3 {
            bench.pass(patience);
            if told {
                let plan = &mut bench.oracle.book.parts.values_mut().next().unwrap().plan;
                plan.told = Some((bench.sight.now, Waiting::CopyUnverifiable));
            }
            bench.tell(Fact::Tick);
        }
        assert_eq!(bench.broken().contains(&"L1"), !told);
    }
}

/// Covers L1: a target that is not there is a reason.
#[test]
fn a_move_to_a_node_that_is_down_is_not_silent() {
    let mut bench = Bench::cluster(3);
    bench.plan(2);
    healing(&mut bench);
    later(&mut bench);
    bench.holds();
    assert_eq!(bench.oracle.waiting(&bench.sight).len(), 2, "the move, and the owner");
    assert!(!bench.oracle.is_settled(&bench.sight));
}

/// Covers L2: a freeze that nobody ends, with a destination and without one; a dead node's is
/// over with it.
#[test]
fn a_freeze_that_does_not_end_is_found() {
    let config = Config::new(1);
    for (held, after, found) in [
        (true, config.freeze_ttl * 2, &[][..]),
        (true, config.freeze_max * 2, &["L2"][..]),
        (false, config.freeze_ttl * 2, &["L2"][..]),
    ] {
        let mut bench = Bench::cluster(3);
        bench.run_node(1);
        bench.plan(2);
        if held {
            bench.run_node(2);
            assert_eq!(bench.sight.nodes[&N2].moves().count(), 1);
        }
        let token = bench.token(1);
        bench.capture(1, Attempt::birth(N1), token, at(0, &[]));
        healing(&mut bench);
        bench.pass(after);
        bench.tell(Fact::Tick);
        let broken: Vec<&str> = bench.broken().into_iter().filter(|name| *name != "L1").collect();
        assert_eq!(broken, found, "{held} {after:?}");
    }
    let mut bench = Bench::cluster(3);
    bench.plan(2);
    let token = bench.token(1);
    bench.capture(1, Attempt::birth(N1), token, at(0, &[]));
    bench.tell(Fact::Ended { node: N1, how: End::Killed });
    healing(&mut bench);
    later(&mut bench);
    bench.holds();
    assert_eq!(bench.oracle.book.parts.values().next().unwrap().frozen_for.len(), 1);
}

/// Covers L2: an orphan's time counts from when its node reaches the leader again, and not from later.
#[test]
fn a_freeze_of_a_node_that_is_cut_off_ends_after_that() {
    let mut bench = Bench::cluster(3);
    bench.run_node(1);
    bench.sight.leader = Some(NodeId(3));
    let (node, partition, token) = (N1, bench.p(0), bench.token(1));
    bench.tell(Fact::FrozeBlindly { node, partition, token });
    healing(&mut bench);
    bench.sight.apart.insert(N1);
    later(&mut bench);
    let is_found = |bench: &Bench| bench.broken().contains(&"L2");
    assert!(!is_found(&bench));
    bench.sight.apart.clear();
    bench.pass(Duration::from_secs(1));
    bench.tell(Fact::Tick);
    assert!(!is_found(&bench));
    bench.pass(Config::new(1).freeze_ttl * 2);
    bench.tell(Fact::Tick);
    assert!(is_found(&bench));
}

/// Covers L2: a freeze that begins although the partition was frozen too much lately.
#[test]
fn freezing_too_often_is_found() {
    let mut bench = Bench::cluster(3);
    let (node, partition) = (N1, bench.p(0));
    let freeze = |bench: &mut Bench, counter: u64, secs: u64| {
        let token = bench.token(counter);
        bench.tell(Fact::FrozeBlindly { node, partition, token });
        bench.pass(Duration::from_secs(secs));
        bench.tell(Fact::Thawed { node, partition, token });
    };
    freeze(&mut bench, 1, 60);
    freeze(&mut bench, 2, 30);
    bench.holds();
    freeze(&mut bench, 3, 1);
    bench.breaks(&["L2"]);
}

/// Covers L5: an owner that is there and serves nothing, and one that is not there.
#[test]
fn a_partition_that_nobody_serves_is_found() {
    let mut bench = Bench::cluster(3);
    healing(&mut bench);
    later(&mut bench);
    bench.oracle.finish_liveness(0, &bench.sight);
    let found = bench.broken().contains(&"L5");
    assert!(!found);

    bench.run_node(1);
    bench.oracle.finish_liveness(0, &bench.sight);
    assert!(bench.broken().contains(&"L5"), "{:?}", bench.oracle.violations());
}

/// Covers L3 and L7: a decommission that does not end, partitions that nobody was given.
#[test]
fn a_decommission_that_does_not_end_is_found() {
    let mut bench = Bench::cluster(5);
    bench.run_node(5);
    let drain = Command::SetDraining { node: NodeId(5), on: true };
    bench.commit_from(1, drain, Origin::Operator);
    healing(&mut bench);
    bench.oracle.finish_liveness(0, &bench.sight);
    bench.holds();
    later(&mut bench);
    bench.oracle.finish_liveness(0, &bench.sight);
    bench.breaks(&["L3", "L7"]);

    // Below MinVoters the pre-flight says why.
    let mut bench = Bench::cluster(3);
    bench.run_node(3);
    let drain = Command::SetDraining { node: NodeId(3), on: true };
    bench.commit_from(1, drain, Origin::Operator);
    healing(&mut bench);
    later(&mut bench);
    bench.oracle.finish_liveness(0, &bench.sight);
    bench.breaks(&["L7"]);
}

/// Covers L3: whoever is free to leave only now is not out yet, and will be after a few steps.
#[test]
fn a_decommission_has_time_from_when_nothing_stands_in_its_way() {
    let node = NodeId(5);
    let mut bench = Bench::cluster(5);
    bench.run_node(5);
    healing(&mut bench);
    later(&mut bench);
    bench.commit_from(1, Command::SetDraining { node, on: true }, Origin::Operator);
    let (incarnation, drain) = (Incarnation(1), Drain(1));
    bench.commit(5, Command::DrainedOut { node, incarnation, drain });
    let is_found = |bench: &mut Bench| {
        bench.oracle.finish_liveness(0, &bench.sight);
        bench.broken().contains(&"L3")
    };
    assert!(!is_found(&mut bench));
    bench.commit(1, Command::Retire { node, receipt: None });
    assert!(!is_found(&mut bench));
    later(&mut bench);
    assert!(is_found(&mut bench));
}

/// Covers L6: a directory that may go and stays.
#[test]
fn an_old_directory_that_stays_is_found() {
    let mut bench = Bench::cluster(3);
    bench.run_node(3);
    let no = AttemptNo { incarnation: Incarnation(1), n: 0 };
    let old = Attempt { move_id: MoveId(0), destination: NodeId(3), no };
    healing(&mut bench);
    later(&mut bench);
    bench.oracle.finish_liveness(0, &bench.sight);
    assert!(!bench.broken().contains(&"L6"));
    bench.set_log(3, old, 0, &[], 0);
    bench.oracle.finish_liveness(0, &bench.sight);
    assert!(bench.broken().contains(&"L6"));
}

/// Covers L6 and S15: a node that the log has retired while it was down never hears of it, and has
/// no barrier by which it could set anything aside; one that only drains has.
#[test]
fn what_a_retired_node_holds_may_stay() {
    for stays in [true, false] {
        let mut bench = Bench::cluster(4);
        bench.run_node(3);
        let (node, incarnation) = (NodeId(3), Incarnation(2));
        let no = AttemptNo { incarnation, n: 0 };
        bench.set_log(3, Attempt { move_id: MoveId(0), destination: node, no }, 0, &[], 0);
        bench.commit_from(1, Command::SetDraining { node, on: true }, Origin::Operator);
        bench.commit(3, Command::DrainedOut { node, incarnation, drain: Drain(1) });
        if !stays {
            bench.commit(1, Command::Retire { node, receipt: None });
            assert!(bench.state().member(node).unwrap().retired);
            assert!(!bench.sight.nodes[&node].is_retired(), "it was not told");
        }
        healing(&mut bench);
        later(&mut bench);
        bench.oracle.finish_liveness(0, &bench.sight);
        assert_eq!(bench.broken().contains(&"L6"), stays);
    }
}

/// A healed world in which one of the two records of a log was never delivered.
fn one_not_delivered() -> Bench {
    let mut bench = Bench::cluster(3);
    bench.run_node(1);
    bench.write(1, Attempt::birth(N1), 1, &[11, 12]);
    bench.deliver(1, 1, 0, &[11], 2);
    healing(&mut bench);
    later(&mut bench);
    bench
}

/// Covers S11: a record that was answered with 202 and never delivered, where it is served.
#[test]
fn a_record_that_was_never_delivered_is_found() {
    let mut bench = one_not_delivered();
    bench.oracle.finish_liveness(0, &bench.sight);
    assert!(bench.broken().contains(&"S11"));

    let mut bench = Bench::cluster(3);
    bench.run_node(1);
    bench.write(1, Attempt::birth(N1), 1, &[11, 12]);
    bench.deliver(1, 1, 0, &[11, 12], 2);
    let (took, disk) = (Duration::ZERO, Duration::ZERO);
    let topic = bench.topic;
    bench.tell(Fact::Ingress(IngressFact::Accepted { node: N1, topic, ids: &[11], took, disk }));
    healing(&mut bench);
    later(&mut bench);
    bench.oracle.finish_liveness(0, &bench.sight);
    assert!(!bench.broken().contains(&"S11"));
}

/// Covers S11: a log that was opened a moment ago is as good as one that delivered a moment ago, and
/// the world goes on until its consumers have had their time.
#[test]
fn consumers_come_to_an_opened_log_within_a_moment() {
    let mut bench = one_not_delivered();
    bench.open(1, Attempt::birth(N1), 2);
    bench.oracle.finish_liveness(0, &bench.sight);
    assert!(!bench.broken().contains(&"S11"));
    let part = bench.oracle.book.parts.values().next().expect("it was born");
    let view =
        Cx { event: 0, now: bench.sight.now, look: &bench.sight, sink: &mut Sink::default() };
    let moment = Duration::from_secs(1);
    assert!(s11_delivery::is_awaited(part, &bench.oracle.deliveries, &[], moment, &view));
    later(&mut bench);
    bench.oracle.finish_liveness(0, &bench.sight);
    assert!(bench.broken().contains(&"S11"));
}

/// Covers S11: what consumers have reserved and not acknowledged comes first, once it is free again.
#[test]
fn nothing_new_is_due_while_consumers_hold_what_they_were_given() {
    for holds in [true, false] {
        let mut bench = Bench::cluster(3);
        bench.sight.has_clocks = true;
        bench.run_node(1);
        bench.write(1, Attempt::birth(N1), 1, &[11, 12]);
        bench.deliver(1, 1, 0, &[11], 2);
        healing(&mut bench);
        later(&mut bench);
        let now = bench.sight.local(N1).expect("there are clocks");
        let until = if holds { now } else { Instant::from_origin(Duration::ZERO) };
        let runs = vec![Run { first: Offset(0), end: Offset(1), delivery: Delivery(1) }];
        let reserved = Reserved { epoch: Epoch(1), until, runs };
        let (node, partition) = (N1, bench.p(0));
        bench.tell(Fact::Consumers(ConsumerFact::Reserved {
            node,
            partition,
            reserved: &reserved,
            most: 1,
            back: None,
            hwm: Offset(2),
        }));
        bench.oracle.finish_liveness(0, &bench.sight);
        assert_eq!(bench.broken().contains(&"S11"), !holds);
    }
}
