//! What nodes accept, and what becomes of it.

use super::*;
use crate::oracle::{DiskChange, End};

/// Covers S1: what was accepted is on the disk until it has arrived.
#[test]
fn an_accepted_record_is_on_the_disk_until_it_arrives() {
    let mut bench = Bench::cluster(3);
    bench.ingest(2, Route::Any, 0, &[11, 12]);
    bench.take(1, 0, (2, 1), 0, &[0]);
    bench.sight.ingress.insert(N2, vec![12]);
    bench.tell(Fact::Ended { node: N2, how: End::PowerLost });
    bench.holds();
    bench.sight.ingress.insert(N2, vec![]);
    bench.tell(Fact::Ended { node: N2, how: End::PowerLost });
    bench.breaks(&["S1"]);

    // A disk that was lost has to hold nothing.
    let mut bench = Bench::cluster(3);
    bench.ingest(2, Route::Any, 0, &[11]);
    bench.tell(Fact::Disk { node: N2, change: DiskChange::Lost });
    bench.sight.ingress.clear();
    bench.oracle.finish_safety(0, &bench.sight);
    bench.holds();
}

/// Covers S1: a checkpoint that passes a record which has not arrived; one that was carried may go.
#[test]
fn a_checkpoint_passes_what_has_arrived() {
    let mut bench = Bench::cluster(3);
    bench.ingest(2, Route::Any, 0, &[11, 12, 13]);
    bench.take(1, 0, (2, 1), 0, &[0]);
    bench.tell(Fact::Ingress(IngressFact::Carried { node: N2, seqs: &[Seq(1)], first: Seq(3) }));
    bench.tell(Fact::Ingress(IngressFact::Checkpointing { node: N2, spent: &Seq(2).into() }));
    bench.take(1, 0, (2, 1), 1, &[3]);
    bench.holds();
    bench.tell(Fact::Ingress(IngressFact::Checkpointing { node: N2, spent: &Seq(4).into() }));
    bench.breaks(&["S1"]);

    // Of a topic that is gone, nothing has to arrive.
    let mut bench = Bench::cluster(3);
    bench.ingest(2, Route::Any, 0, &[11]);
    let topic = bench.topic;
    bench.commit(1, Command::DeleteTopic { topic });
    bench.tell(Fact::Ingress(IngressFact::Checkpointing { node: N2, spent: &Seq(1).into() }));
    bench.holds();
}

/// Covers S15: a node says that it is drained while something that it has accepted waits.
#[test]
fn a_node_with_a_backlog_is_not_drained() {
    for arrived in [true, false] {
        let mut bench = Bench::cluster(4);
        bench.ingest(3, Route::Any, 0, &[11]);
        if arrived {
            bench.take(1, 0, (3, 1), 0, &[0]);
        }
        let node = NodeId(3);
        bench.commit_from(1, Command::SetDraining { node, on: true }, Origin::Operator);
        let (incarnation, drain) = (Incarnation(1), Drain(1));
        bench.commit(3, Command::DrainedOut { node, incarnation, drain });
        assert_eq!(bench.broken().contains(&"S15"), !arrived);
    }
}

/// Covers S15, H37: a node accepts something after its word, and is retired on that.
#[test]
fn a_node_with_a_backlog_is_not_retired() {
    for accepts in [true, false] {
        let mut bench = Bench::cluster(4);
        let node = NodeId(3);
        bench.commit_from(1, Command::SetDraining { node, on: true }, Origin::Operator);
        let (incarnation, drain) = (Incarnation(1), Drain(1));
        bench.commit(3, Command::DrainedOut { node, incarnation, drain });
        bench.holds();
        if accepts {
            bench.ingest(3, Route::Any, 0, &[11]);
        }
        bench.commit(1, Command::Retire { node, receipt: None });
        assert_eq!(bench.broken().contains(&"S15"), accepts);
    }
}

/// Covers S11: the same record again, where neither end has begun anew; at a seam it may come.
#[test]
fn a_record_arrives_twice_only_at_a_seam() {
    let mut bench = Bench::cluster(3);
    let data = Attempt::birth(N1);
    bench.ingest(2, Route::Any, 0, &[11, 12]);
    bench.take(1, 0, (2, 1), 0, &[0]);
    bench.open(1, data, 0);
    bench.take(1, 0, (2, 1), 0, &[0]);
    bench.take(1, 0, (2, 2), 0, &[0, 1]);
    bench.holds();
    assert_eq!(bench.oracle.arrived_again(), 2);
    bench.take(1, 0, (2, 2), 1, &[1]);
    bench.breaks(&["S11"]);
}

/// Covers S11: a record whose batch may have been taken goes to no other partition.
#[test]
fn a_record_goes_to_one_partition() {
    let mut bench = Bench::cluster(3);
    bench.assign(1, 1);
    bench.ingest(2, Route::Key(4), 0, &[11]);
    bench.take(1, 0, (2, 1), 0, &[0]);
    bench.take(1, 1, (2, 2), 0, &[0]);
    bench.holds();
    bench.take(1, 0, (2, 2), 0, &[0]);
    bench.breaks(&["S11"]);
}

/// Covers S11: in a partition, records stand in the order in which a node has accepted them.
#[test]
fn records_arrive_in_the_order_of_acceptance() {
    for (route, ordered) in
        [(Route::Partition(0), true), (Route::Key(4), true), (Route::Any, false)]
    {
        let mut bench = Bench::cluster(3);
        bench.ingest(2, route, 0, &[11, 12, 13]);
        bench.take(1, 0, (2, 1), 0, &[0, 2]);
        bench.holds();
        bench.take(1, 0, (2, 1), 1, &[1]);
        assert_eq!(bench.broken(), if ordered { &["S11"][..] } else { &[] });
    }
    // Carried records keep their place; keyed ones may come home late from a shut partition.
    let mut bench = Bench::cluster(3);
    bench.ingest(2, Route::Partition(0), 0, &[11, 12]);
    bench.tell(Fact::Ingress(IngressFact::Carried { node: N2, seqs: &[Seq(0)], first: Seq(2) }));
    bench.take(1, 0, (2, 1), 0, &[2, 1]);
    bench.ingest(2, Route::Key(4), 3, &[14, 15]);
    let held = narad_core::dispatch::Note::Held {
        partition: bench.p(0),
        fault: narad_core::dispatch::SendFault::Frozen,
    };
    bench.tell(Fact::Noted(N2, &narad_core::node::Note::Dispatch(held)));
    bench.take(1, 0, (2, 1), 1, &[4, 3]);
    bench.holds();
}

/// Covers S11: what a life has sent that is over may come late, to an owner that has begun anew and
/// so cannot tell. It names a carried record by a place that comes after all others by now. What the
/// present life sends is judged as ever.
#[test]
fn late_batches_of_a_life_that_is_over_are_out_of_order() {
    let mut bench = Bench::cluster(3);
    bench.ingest(2, Route::Partition(0), 0, &[11, 12]);
    bench.sight.ingress.insert(N2, vec![11, 12]);
    bench.take(1, 0, (2, 1), 0, &[0]);
    bench.tell(Fact::Ingress(IngressFact::Carried { node: N2, seqs: &[Seq(0)], first: Seq(2) }));
    bench.tell(Fact::Ended { node: N2, how: End::Stopped });
    bench.tell(Fact::Started { node: N2, life: Incarnation(2) });
    bench.open(1, Attempt::birth(N1), 0);
    bench.take(1, 0, (2, 1), 1, &[2, 1]);
    bench.holds();
    bench.take(1, 0, (2, 2), 0, &[1, 2]);
    bench.holds();
    bench.take(1, 0, (2, 2), 1, &[0]);
    bench.breaks(&["S11"]);
}

/// Covers L6: what is left in an ingress log although everything is served.
#[test]
fn a_log_that_is_not_given_up_is_found() {
    for rest in [Seq(1), Seq(2)] {
        let mut bench = Bench::cluster(3);
        bench.run_node(2);
        bench.ingest(2, Route::Any, 0, &[11, 12]);
        bench.take(1, 0, (2, 1), 0, &[0, 1]);
        bench.sight.rest.insert(N2, (rest, Seq(2)));
        bench.commit(1, Command::DeleteTopic { topic: bench.topic });
        bench.tell(Fact::Liveness);
        bench.pass(bench.oracle.patience() * 2);
        bench.oracle.finish_liveness(0, &bench.sight);
        assert_eq!(bench.broken().contains(&"L6"), rest < Seq(2), "{:?}", bench.broken());
    }
}

/// Node 1 leaves two records of three behind, which node 2 has not copied when it is promoted. Returns
/// how much has been breached by that.
fn left(bench: &mut Bench) -> usize {
    let data = Attempt::birth(N1);
    bench.write(1, data, 1, &[11, 12, 13]);
    bench.plan(2);
    bench.list(1, data, 2);
    let generation = bench.kill(1);
    bench.pass(Duration::from_hours(1));
    let attempt = bench.attempt(0);
    bench.set_log(2, attempt, 0, &[11], 1);
    let flip = bench.forced(attempt, generation, 1, 1);
    bench.commit(2, flip);
    bench.oracle.violations().len()
}

/// Covers L6: what was left behind is given up once all of it was accepted again, and no sooner.
#[test]
fn what_is_left_behind_is_not_given_up_too_soon() {
    for (ids, is_early) in [(&[12, 13][..], false), (&[12], true), (&[], true)] {
        let mut bench = Bench::cluster(3);
        left(&mut bench);
        bench.ingest(1, Route::Partition(0), 0, ids);
        let (partition, epoch) = (bench.p(0), Epoch(2));
        bench.commit(1, Command::ReclaimReady { partition, node: N1, epoch });
        assert_eq!(bench.broken().contains(&"L6"), is_early, "{ids:?}: {:?}", bench.broken());
    }
}

/// Covers L6: a receipt of salvage says what was left behind, all of which was accepted again.
#[test]
fn a_receipt_of_salvage_is_exact() {
    let salvage = |bench: &mut Bench, from: u64, end: u64| {
        let salvaged =
            narad_core::node::Salvaged { from: Offset(from), end: Offset(end), bytes: 9 };
        let (partition, epoch) = (bench.p(0), Epoch(2));
        let note = narad_core::node::Note::Salvaged { partition, epoch, salvaged };
        bench.tell(Fact::Noted(N1, &note));
    };
    let mut bench = Bench::cluster(3);
    let before = left(&mut bench);
    bench.ingest(1, Route::Partition(0), 0, &[12, 13]);
    salvage(&mut bench, 1, 3);
    assert_eq!(bench.oracle.violations().len(), before, "{:?}", bench.oracle.violations());
    for (from, end, ids) in [(1, 2, &[12, 13][..]), (2, 3, &[12, 13]), (1, 3, &[12])] {
        let mut bench = Bench::cluster(3);
        left(&mut bench);
        bench.ingest(1, Route::Partition(0), 0, ids);
        salvage(&mut bench, from, end);
        assert!(bench.broken().contains(&"L6"), "{from} to {end} with {ids:?}");
    }
}
