//! Records between producers, logs and consumers.

use super::*;
use crate::oracle::{AcceptFault, DiskChange, End, Read};

const BIRTH: Attempt = Attempt::birth(N1);

const fn refused(node: NodeId, why: AcceptFault) -> Fact<'static> {
    Fact::Ingress(IngressFact::AcceptRefused { node, records: 1, bytes: 100, why })
}

/// Covers S2: two nodes that would acknowledge, found when a gate stands and when a node's
/// authority changes; wild clocks excuse it, a frozen one does not count.
#[test]
fn two_writers_are_found() {
    let mut bench = Bench::cluster(3);
    bench.sight.writers.insert(N1);
    bench.serve(2, 1, 1);
    // The log names another owner for that epoch: a gate that stands is not yet a writer.
    bench.holds();
    bench.sight.writers.insert(N2);
    let authority = narad_core::freeze::gate::Authority::NONE;
    bench.tell(Fact::Authority { node: N2, authority });
    bench.breaks(&["S2"]);

    let mut bench = Bench::cluster(3);
    bench.tell(Fact::ClockBound(false));
    bench.tell(Fact::ClockBound(true));
    bench.sight.writers.extend([N1, N2]);
    bench.serve(2, 1, 1);
    bench.holds();
}

/// Covers S2: an acknowledgement in an epoch that the log gives to another node.
#[test]
fn an_acknowledgement_of_another_owner_is_found() {
    let mut bench = Bench::cluster(3);
    bench.tell(Fact::ClockBound(false));
    let (node, partition, epoch, first) = (N2, bench.p(0), Epoch(1), Offset(0));
    bench.tell(Fact::Acknowledged { node, partition, epoch, first, ids: &[11] });
    bench.breaks(&["S2"]);
}

/// Covers S16: below a gate that serves on, a log that was opened anew is judged once it is ready.
#[test]
fn a_log_that_is_opened_anew_shows_what_was_visible() {
    for (hwm, is_found) in [(2, false), (1, true)] {
        let mut bench = Bench::cluster(3);
        let (node, partition) = (N1, bench.p(0));
        bench.tell(Fact::Closed { node, partition });
        let part = bench.oracle.book.parts.values_mut().next().unwrap();
        part.reigns[0].visible = Offset(2);
        bench.set_log(1, BIRTH, 0, &[11, 12], hwm);
        bench.open(1, BIRTH, 0);
        // The row has changed while the log was opened.
        bench.serve(1, 1, 1);
        bench.holds();
        let opened = narad_core::host::Note::Opened { epoch: Epoch(1), end: Offset(2) };
        let note = narad_core::node::Note::Host(partition, opened);
        bench.tell(Fact::Noted(node, &note));
        if is_found { bench.breaks(&["S16"]) } else { bench.holds() }
    }
}

/// Covers S3: a log that is too short, one with a gap, one that is not there, one made anew.
#[test]
fn serving_without_the_data_is_found() {
    let mut bench = Bench::cluster(3);
    bench.close(1);
    let part = bench.oracle.book.parts.values_mut().next().unwrap();
    (part.reigns[0].start, part.reigns[0].visible) = (Offset(2), Offset(2));
    bench.set_log(1, BIRTH, 2, &[], 2);
    bench.open(1, BIRTH, 0);
    bench.serve(1, 1, 1);
    bench.holds();
    bench.close(1);
    bench.set_log(1, BIRTH, 0, &[11], 1);
    bench.open(1, BIRTH, 0);
    bench.holds();
    bench.serve(1, 1, 1);
    // What was visible is not, either.
    bench.breaks(&["S16", "S3"]);

    let mut bench = Bench::cluster(3);
    bench.close(1);
    bench.set_log(1, BIRTH, 0, &[11, 12, 13], 0);
    bench.log_mut(1, BIRTH).records.remove(1);
    bench.open(1, BIRTH, 0);
    bench.serve(1, 1, 1);
    bench.breaks(&["S3"]);

    let mut bench = Bench::cluster(3);
    bench.close(1);
    bench.open(1, BIRTH, 0);
    bench.sight.logs.clear();
    bench.serve(1, 1, 1);
    bench.breaks(&["S3"]);

    let mut bench = Bench::cluster(3);
    let (node, partition, data) = (N1, bench.p(0), BIRTH);
    bench.tell(Fact::Creating { node, partition, data, start: Offset(0) });
    bench.holds();
    bench.oracle.book.parts.values_mut().next().unwrap().reigns[0].start = Offset(2);
    bench.tell(Fact::Creating { node, partition, data, start: Offset(0) });
    bench.breaks(&["S3"]);
}

/// Covers S3: a gate that stands over no open log serves nothing, until the log is open; opening
/// what a loss of power would take is found, and a removal under an open log is none of its node's.
#[test]
fn an_owner_serves_once_its_log_is_open() {
    let closed = || {
        let mut bench = Bench::cluster(3);
        bench.close(1);
        bench
    };
    let erased = DiskChange::Erased(closed().p(0), Directory::Installed(BIRTH));
    let open = |bench: &mut Bench| {
        let (node, partition, position) = (N1, bench.p(0), at(0, &[]));
        let (end, hwm) = (Offset(0), Offset(0));
        let data = BIRTH;
        bench.tell(Fact::Opened { node, partition, data, end, hwm, position: &position });
    };

    let mut bench = closed();
    bench.tell(Fact::Disk { node: N1, change: erased });
    bench.sight.logs.clear();
    bench.serve(1, 1, 1);
    bench.holds();
    open(&mut bench);
    bench.breaks(&["S3"]);

    let mut bench = closed();
    bench.oracle.book.parts.values_mut().next().unwrap().reigns[0].start = Offset(2);
    bench.serve(1, 1, 1);
    bench.holds();
    open(&mut bench);
    bench.breaks(&["S3"]);

    let mut bench = closed();
    open(&mut bench);
    bench.tell(Fact::Disk { node: N1, change: erased });
    bench.sight.logs.clear();
    bench.serve(1, 1, 1);
    bench.holds();
}

/// Covers S4 and H42: what was not acknowledged stays hidden until a commit; an owner that
/// restarts exposes what is durable if it wrote in its reign.
#[test]
fn what_nobody_acknowledged_is_not_shown() {
    let mut bench = Bench::cluster(3);
    bench.write(1, BIRTH, 1, &[11]);
    bench.append(1, BIRTH, 1, &[12]);
    bench.deliver(1, 1, 0, &[11], 1);
    bench.holds();
    bench.deliver(1, 1, 1, &[12], 2);
    bench.breaks(&["S4"]);

    let mut bench = Bench::cluster(3);
    bench.append(1, BIRTH, 1, &[11]);
    let (node, partition, epoch, hwm) = (N1, bench.p(0), Epoch(1), Offset(1));
    bench.tell(Fact::Ended { node, how: End::Killed });
    bench.tell(Fact::Started { node, life: Incarnation(2) });
    bench.tell(Fact::Exposed { node, partition, epoch, hwm });
    bench.deliver(1, 1, 0, &[11], 1);
    bench.holds();
    bench.deliver(1, 1, 1, &[12], 1);
    bench.breaks(&["S4"]);
}

/// Covers S5: another content at an offset that was visible.
#[test]
fn an_offset_that_changes_its_content_is_found() {
    let mut bench = Bench::cluster(3);
    bench.write(1, BIRTH, 1, &[11, 12]);
    bench.deliver(1, 1, 0, &[11, 12], 2);
    bench.holds();
    bench.deliver(1, 1, 1, &[99], 2);
    bench.breaks(&["S5"]);
}

/// Covers S7: beyond what was acknowledged, beyond the high watermark, and backwards.
#[test]
fn a_position_is_what_consumers_acknowledged() {
    let begun = || {
        let mut bench = Bench::cluster(3);
        bench.write(1, BIRTH, 1, &[11, 12, 13]);
        bench.consume(1, 1, 1, 0);
        bench.consume(1, 1, 1, 1);
        bench.stand_at(1, 1, 2, 3);
        bench.holds();
        bench
    };
    for (committed, hwm) in [(3, 3), (2, 1), (1, 3)] {
        let mut bench = begun();
        bench.stand_at(1, 1, committed, hwm);
        bench.breaks(&["S7"]);
    }
    // A life may begin behind the one before it: positions are written now and then.
    let mut bench = begun();
    bench.tell(Fact::Ended { node: N1, how: End::Killed });
    bench.tell(Fact::Started { node: N1, life: Incarnation(2) });
    bench.stand_at(1, 1, 1, 3);
    bench.holds();
    // So may a log that is opened again after its disk failed.
    let mut bench = begun();
    bench.open(1, BIRTH, 1);
    bench.stand_at(1, 1, 1, 3);
    bench.holds();
}

/// Covers S11: what one life took the acknowledgement of is not handed out by it again.
#[test]
fn a_duplicate_without_a_seam_is_found() {
    let mut bench = Bench::cluster(3);
    bench.write(1, BIRTH, 1, &[11, 12]);
    bench.deliver(1, 1, 0, &[11], 2);
    bench.deliver(1, 1, 0, &[11], 2);
    bench.consume(1, 1, 1, 0);
    bench.stand_at(1, 1, 1, 2);
    bench.holds();
    let (node, partition, epoch) = (N1, bench.p(0), Epoch(1));
    let (first, hwm, ids) = (Offset(0), Offset(2), &[11][..]);
    let how = Read::Plain;
    bench.tell(Fact::Consumers(ConsumerFact::Delivered {
        node,
        partition,
        epoch,
        first,
        ids,
        hwm,
        how,
    }));
    bench.holds();
    bench.deliver(1, 1, 0, &[11], 2);
    bench.breaks(&["S11"]);
    assert_eq!((bench.oracle.deliveries.delivered, bench.oracle.deliveries.duplicates), (3, 2));
}

/// Covers S1: a loss of power takes a record that was acknowledged.
#[test]
fn an_acknowledged_record_survives_a_loss_of_power() {
    let mut bench = Bench::cluster(3);
    bench.write(1, BIRTH, 1, &[11, 12]);
    bench.tell(Fact::Ended { node: N1, how: End::PowerLost });
    bench.holds();
    bench.set_log(1, BIRTH, 0, &[11], 1);
    bench.tell(Fact::Ended { node: N1, how: End::PowerLost });
    bench.breaks(&["S1"]);

    let mut bench = Bench::cluster(3);
    bench.write(1, BIRTH, 1, &[11, 12]);
    bench.set_log(1, BIRTH, 0, &[11], 1);
    bench.ingest(3, Route::Partition(0), 0, &[12]);
    bench.tell(Fact::Ended { node: N1, how: End::PowerLost });
    bench.holds();
}

/// Covers L4: acceptance that waits for more than the disk, and refusals for a partition's sake.
#[test]
fn acceptance_waits_for_the_disk_only() {
    let ms = Duration::from_millis;
    let mut bench = Bench::cluster(3);
    let topic = bench.topic;
    bench.tell(Fact::Ingress(IngressFact::Accepted {
        node: N1,
        topic,
        ids: &[1],
        took: ms(900),
        disk: ms(890),
    }));
    bench.tell(refused(N1, AcceptFault::Disk));
    bench.holds();
    bench.tell(Fact::Ingress(IngressFact::Accepted {
        node: N1,
        topic,
        ids: &[2],
        took: ms(900),
        disk: ms(1),
    }));
    bench.breaks(&["L4"]);
}

/// Covers L4: a refusal because the node leaves, which must be so, or have been so just now.
#[test]
fn a_node_that_does_not_leave_accepts() {
    let mut bench = Bench::cluster(4);
    bench.commit_from(1, Command::SetDraining { node: N2, on: true }, Origin::Operator);
    bench.run_node(2);
    bench.tell(refused(N2, AcceptFault::Closed));
    bench.pass(Duration::from_mins(2));
    bench.tell(refused(N2, AcceptFault::Closed));
    bench.holds();
    bench.tell(refused(N1, AcceptFault::Closed));
    bench.breaks(&["L4"]);
}

/// Covers L4, H37: what an earlier life has shut is shut until the log knows the present one, and not
/// for longer.
#[test]
fn a_registered_node_opens_what_it_has_found_shut() {
    let mut bench = Bench::cluster(4);
    bench.run_node(2);
    bench.sight.shut.insert(N2);
    bench.pass(Duration::from_mins(2));
    bench.tell(refused(N2, AcceptFault::Closed));
    bench.breaks(&["L4"]);
}

/// Covers L4: a refusal for want of room, of which there must be next to none.
#[test]
fn a_node_that_has_room_accepts() {
    let most = u64::from(Config::new(1).backlog_records_max);
    let mut bench = Bench::cluster(3);
    bench.run_node(2);
    bench.ingest(2, Route::Any, most - 1, &[11]);
    bench.tell(refused(N2, AcceptFault::Full));
    bench.holds();
    bench
        .tell(Fact::Ingress(IngressFact::Checkpointing { node: N2, spent: &Seq(most / 2).into() }));
    bench.tell(refused(N2, AcceptFault::Full));
    bench.breaks(&["L4"]);
}
