//! Moves from their capture to their flip, and directories afterwards.

use super::*;
use crate::oracle::{DiskChange, End};

/// Three records acknowledged on node 1, two of them consumed, and the partition on its way to
/// node 2, whose copy is installed.
fn captured() -> (Bench, Attempt, Capture) {
    let mut bench = Bench::cluster(3);
    let birth = Attempt::birth(N1);
    bench.write(1, birth, 1, &[11, 12, 13]);
    bench.deliver(1, 1, 0, &[11, 12, 13], 3);
    bench.consume(1, 1, 1, 0);
    bench.consume(1, 1, 1, 2);
    bench.stand_at(1, 1, 1, 3);
    bench.plan(2);
    bench.list(1, birth, 2);
    let (attempt, token) = (bench.attempt(0), bench.token(1));
    let capture = bench.capture(1, birth, token, at(1, &[2]));
    bench.set_log(2, attempt, 0, &[11, 12, 13], 3);
    (bench, attempt, capture)
}

fn flipped() -> (Bench, Attempt) {
    let (mut bench, attempt, capture) = captured();
    let flip = bench.flip(attempt, &capture);
    bench.commit(2, flip);
    (bench, attempt)
}

#[test]
fn a_whole_move_breaks_nothing() {
    let (mut bench, attempt) = flipped();
    bench.close(1);
    let partition = bench.p(0);
    bench.open_at(2, attempt, &at(1, &[2]));
    bench.serve(2, 2, 1);
    bench.sight.writers.insert(N2);
    bench.write(2, attempt, 2, &[14]);
    bench.deliver(2, 2, 1, &[12], 4);
    bench.consume(2, 2, 2, 1);
    bench.stand_at(2, 2, 3, 4);
    let directory = Directory::Installed(Attempt::birth(N1));
    bench.tell(Fact::SettingAside { node: N1, partition, directory });
    bench.sight.logs.remove(&(N1, partition, directory));
    bench.oracle.finish_safety(0, &bench.sight);
    bench.holds();
    assert_eq!(bench.oracle.tally.done, 1);
}

/// Covers S1: the copy lacks a record that was acknowledged, and so (S8) is not the source's.
#[test]
fn a_flip_to_a_copy_that_lacks_a_record_is_found() {
    let (mut bench, attempt, capture) = captured();
    bench.set_log(2, attempt, 0, &[11, 99, 13], 3);
    let flip = bench.flip(attempt, &capture);
    bench.commit(2, flip);
    bench.breaks(&["S1", "S8"]);
}

/// Covers S1 and its exception: what was on a destroyed disk only is excused, nothing else.
#[test]
fn only_the_disk_that_held_a_record_excuses_its_loss() {
    for (destroyed, found) in [(N2, &[][..]), (NodeId(3), &["S1"][..])] {
        let (mut bench, attempt) = flipped();
        bench.tell(Fact::Disk { node: destroyed, change: DiskChange::Lost });
        bench.set_log(2, attempt, 0, &[], 0);
        bench.oracle.finish_safety(0, &bench.sight);
        bench.breaks(found);
    }
}

/// Covers S1 and S8: bits that rot in staging rot in the copy that the same life makes of it; a
/// later life reads what it finds.
#[test]
fn rot_in_staging_excuses_the_copy_of_the_same_life() {
    for (restarted, found) in [(false, &[][..]), (true, &["S1", "S8"][..])] {
        let (mut bench, attempt, capture) = captured();
        let (node, partition, data) = (N2, bench.p(0), attempt);
        let change = DiskChange::Rotted(partition, Directory::Staging);
        bench.tell(Fact::Disk { node, change });
        if restarted {
            bench.tell(Fact::Ended { node, how: End::Killed });
            bench.tell(Fact::Started { node, life: Incarnation(2) });
        }
        bench.tell(Fact::Installed { node, partition, data });
        bench.log_mut(2, attempt).records.remove(1);
        let flip = bench.flip(attempt, &capture);
        bench.commit(2, flip);
        bench.breaks(found);
    }
}

/// Covers S1: what retention takes is not missed.
#[test]
fn retention_excuses_what_it_took() {
    let (mut bench, attempt) = flipped();
    bench.set_log(2, attempt, 2, &[13], 3);
    let partition = bench.p(0);
    bench.tell(Fact::Retained { node: N2, partition, start: Offset(2) });
    bench.oracle.finish_safety(0, &bench.sight);
    bench.holds();
    bench.set_log(2, attempt, 3, &[], 3);
    bench.oracle.finish_safety(0, &bench.sight);
    bench.breaks(&["S1"]);
}

/// Covers S8: a capture that nobody made, one that says something else, one that was revoked.
#[test]
fn a_flip_must_rest_on_its_capture() {
    let (mut bench, attempt, mut capture) = captured();
    capture.token.no.counter = 2;
    let flip = bench.flip(attempt, &capture);
    bench.commit(2, flip);
    bench.breaks(&["S8"]);

    let (mut bench, attempt, mut capture) = captured();
    capture.digest = Digest(8);
    let flip = bench.flip(attempt, &capture);
    bench.commit(2, flip);
    bench.breaks(&["S8"]);

    let (mut bench, attempt, capture) = captured();
    let part = bench.oracle.book.parts.values_mut().next().unwrap();
    crate::oracle::s09_freeze_exclusion::revoked(part, capture.token);
    let flip = bench.flip(attempt, &capture);
    bench.commit(2, flip);
    bench.breaks(&["S8"]);
}

/// Covers S8: a copy that is not durable is not there.
#[test]
fn a_flip_to_what_a_loss_of_power_would_take_is_found() {
    let (mut bench, attempt, capture) = captured();
    let directory = Directory::Installed(attempt);
    bench.sight.logs.remove(&(N2, bench.p(0), directory));
    let flip = bench.flip(attempt, &capture);
    bench.commit(2, flip);
    bench.breaks(&["S1", "S8"]);
}

/// Covers S9 and S8: an append under a freeze, one after the flip, and a thaw before its `Revoke`.
#[test]
fn a_source_that_appends_under_its_freeze_is_found() {
    let (mut bench, ..) = captured();
    bench.append(1, Attempt::birth(N1), 1, &[14]);
    bench.breaks(&["S9"]);

    let (mut bench, _) = flipped();
    bench.append(1, Attempt::birth(N1), 1, &[14]);
    bench.breaks(&["S8"]);

    let (mut bench, _, capture) = captured();
    let (node, partition, token) = (N1, bench.p(0), capture.token);
    bench.tell(Fact::Thawed { node, partition, token });
    bench.breaks(&["S9"]);
}

/// Covers S9: after the `Revoke`, a later move or a later life the source may go on.
#[test]
fn a_source_may_go_on_once_no_flip_can_rest_on_its_freeze() {
    for end in 0..3 {
        let (mut bench, _, capture) = captured();
        let (node, partition, token) = (N1, bench.p(0), capture.token);
        match end {
            0 => drop(bench.commit(1, Command::Revoke { partition, token })),
            1 => {
                let move_id = bench.expect().move_id;
                bench.commit(1, Command::ClearTarget { partition, move_id });
            }
            _ => bench.register(1, 2),
        }
        bench.tell(Fact::Thawed { node, partition, token });
        bench.write(1, Attempt::birth(N1), 1, &[14]);
        bench.holds();
    }
}

/// Covers S9: a freeze that no destination was told of may end at any time.
#[test]
fn a_freeze_that_nobody_was_told_of_may_end() {
    let (mut bench, _, mut capture) = captured();
    let (node, partition, token) = (N1, bench.p(0), capture.token);
    bench.commit(1, Command::Revoke { partition, token });
    bench.tell(Fact::Thawed { node, partition, token });
    capture.token = bench.token(2);
    let token = capture.token;
    bench.tell(Fact::Captured { node, partition, capture: &capture });
    bench.tell(Fact::Thawed { node, partition, token });
    bench.write(1, Attempt::birth(N1), 1, &[14]);
    bench.holds();
}

/// Covers S9: a source that is behind the log freezes for a move that is over already.
#[test]
fn a_freeze_of_a_move_that_is_over_may_end() {
    for gone in [true, false] {
        let (mut bench, _, mut capture) = captured();
        let (node, partition, token) = (N1, bench.p(0), capture.token);
        bench.commit(1, Command::Revoke { partition, token });
        capture.token = bench.token(2);
        let token = capture.token;
        if gone {
            bench.commit(1, Command::DeleteTopic { topic: partition.topic });
        }
        bench.tell(Fact::Captured { node, partition, capture: &capture });
        bench.tell(Fact::CaptureTold { node, partition, token });
        bench.tell(Fact::Thawed { node, partition, token });
        assert_eq!(bench.broken(), if gone { &[][..] } else { &["S9"] });
    }
}

/// Covers S7: a capture without an acknowledgement, a flip without the captured position, a new
/// owner that forgets or falls back, one that runs ahead.
#[test]
fn positions_survive_a_flip() {
    let mut bench = Bench::cluster(3);
    let birth = Attempt::birth(N1);
    bench.write(1, birth, 1, &[11, 12]);
    bench.consume(1, 1, 1, 1);
    bench.plan(2);
    let token = bench.token(1);
    bench.capture(1, birth, token, at(0, &[]));
    bench.breaks(&["S7"]);

    let (mut bench, attempt, mut capture) = captured();
    capture.position = at(2, &[]);
    let flip = bench.flip(attempt, &capture);
    bench.commit(2, flip);
    bench.breaks(&["S7"]);

    for (position, found) in [(at(1, &[]), true), (at(0, &[2]), true), (at(1, &[2]), false)] {
        let (mut bench, attempt) = flipped();
        let (node, partition) = (N2, bench.p(0));
        let (data, end, hwm) = (attempt, Offset(3), Offset(3));
        bench.tell(Fact::Opened { node, partition, data, end, hwm, position: &position });
        bench.breaks(if found { &["S7"] } else { &[] });
    }

    let (mut bench, _) = flipped();
    bench.stand_at(2, 2, 2, 3);
    bench.breaks(&["S7"]);
}

/// Covers S7: how late an old owner may take acknowledgements, and that wild clocks excuse it.
#[test]
fn an_old_owner_takes_acknowledgements_for_a_lease_at_most() {
    for (wild, found) in [(false, &["S7"][..]), (true, &[][..])] {
        let (mut bench, _) = flipped();
        bench.pass(policy().lease_reach());
        bench.consume(1, 1, 1, 1);
        bench.holds();
        bench.pass(Duration::from_secs(1));
        bench.tell(Fact::ClockBound(!wild));
        bench.consume(1, 1, 1, 1);
        bench.breaks(found);
    }
}

/// Covers S10: the live directory, one that may win, one with records that are nowhere else.
#[test]
fn nothing_is_set_aside_without_proof() {
    let birth = Directory::Installed(Attempt::birth(N1));

    let (mut bench, attempt) = flipped();
    let partition = bench.p(0);
    let directory = Directory::Installed(attempt);
    bench.tell(Fact::SettingAside { node: N2, partition, directory });
    bench.breaks(&["S1", "S10"]);

    let (mut bench, attempt, _) = captured();
    let directory = Directory::Installed(attempt);
    bench.tell(Fact::SettingAside { node: N2, partition, directory });
    bench.breaks(&["S10"]);

    let (mut bench, _) = flipped();
    bench.tell(Fact::SettingAside { node: N1, partition, directory: birth });
    bench.breaks(&["S10"]);
    bench.close(1);

    let (mut bench, _) = flipped();
    bench.close(1);
    bench.tell(Fact::SettingAside { node: N1, partition, directory: birth });
    bench.holds();
}

/// Covers S10 and H2: a directory is used again once its flip was burned or its freeze revoked.
#[test]
fn a_directory_whose_flip_may_pass_is_not_used_again() {
    for end in 0..3 {
        let (mut bench, attempt, capture) = captured();
        let (partition, token) = (bench.p(0), capture.token);
        let proposal = ProposalId { node: N2, incarnation: Incarnation(1), sequence: 77 };
        let entry = Entry { proposal, by: N2, command: bench.flip(attempt, &capture) };
        bench.tell(Fact::Proposed { node: N2, entry: &entry, origin: Origin::Node });
        match end {
            0 => {}
            1 => drop(bench.commit(2, Command::Resolve { partition, attempt })),
            _ => drop(bench.commit(1, Command::Revoke { partition, token })),
        }
        bench.tell(Fact::Restaging { node: N2, partition, data: attempt });
        bench.breaks(if end == 0 { &["S10"] } else { &[] });
    }
}

/// Covers S10 (case C54): staging stays while its source is dead.
#[test]
fn the_copy_of_a_dead_source_is_not_set_aside() {
    let mut bench = Bench::cluster(3);
    bench.plan(2);
    let (node, partition, directory) = (N2, bench.p(0), Directory::Staging);
    bench.tell(Fact::SettingAside { node, partition, directory });
    bench.holds();
    bench.kill(1);
    // It may have decided before.
    bench.tell(Fact::SettingAside { node, partition, directory });
    bench.holds();
    bench.pass(Duration::from_secs(1));
    bench.tell(Fact::SettingAside { node, partition, directory });
    bench.breaks(&["S10"]);
}

/// Covers S10 and H25: an owner without its directory keeps what is staged, which may be all that is
/// left.
#[test]
fn an_owner_without_its_directory_keeps_its_copy() {
    for lost in [false, true] {
        let (mut bench, attempt) = flipped();
        bench.run_node(2);
        let (node, partition) = (N2, bench.p(0));
        if lost {
            bench.sight.logs.remove(&(N2, partition, Directory::Installed(attempt)));
        }
        bench.tell(Fact::SettingAside { node, partition, directory: Directory::Staging });
        bench.breaks(if lost { &["S10"] } else { &[] });
    }
}

/// Three records on node 1, of which node 2 has two, and node 1 has been dead for as long as a
/// forced flip must wait.
fn orphaned(listed: bool) -> (Bench, Attempt, Generation) {
    let mut bench = Bench::cluster(3);
    let birth = Attempt::birth(N1);
    bench.write(1, birth, 1, &[11, 12, 13]);
    bench.plan(2);
    if listed {
        bench.list(1, birth, 2);
    }
    let attempt = bench.attempt(0);
    bench.set_log(2, attempt, 0, &[11, 12], 2);
    let generation = bench.kill(1);
    let due = bench.state().member(N1).unwrap().timing.promote_after;
    bench.pass(due);
    (bench, attempt, generation)
}

/// Covers S6, S1: a forced flip leaves records behind on a disk that survives; with that disk they
/// may go.
#[test]
fn what_a_forced_flip_leaves_behind_is_not_lost() {
    let (mut bench, attempt, generation) = orphaned(true);
    let flip = bench.forced(attempt, generation, 2, 2);
    bench.commit(2, flip);
    bench.holds();
    let partition = bench.p(0);
    let directory = Directory::Installed(Attempt::birth(N1));
    bench.close(1);
    bench.tell(Fact::SettingAside { node: N1, partition, directory });
    bench.breaks(&["S1", "S10"]);

    let (mut bench, attempt, generation) = orphaned(true);
    let flip = bench.forced(attempt, generation, 2, 2);
    bench.commit(2, flip);
    bench.tell(Fact::Disk { node: N1, change: DiskChange::Lost });
    bench.sight.logs.remove(&(N1, partition, directory));
    bench.oracle.finish_safety(0, &bench.sight);
    bench.holds();
}

/// Covers S6: without a listing under this move, behind a report, or too soon after the death.
#[test]
fn a_forced_flip_needs_its_evidence() {
    let (mut bench, attempt, generation) = orphaned(false);
    let flip = bench.forced(attempt, generation, 2, 2);
    bench.commit(2, flip);
    bench.breaks(&["S6"]);

    // The fold itself is asked to let these pass: what it looks at is changed before it.
    let (mut bench, attempt, generation) = orphaned(true);
    let part = bench.oracle.book.parts.values_mut().next().unwrap();
    part.reigns[0].reported = Offset(3);
    let flip = bench.forced(attempt, generation, 2, 2);
    bench.commit(2, flip);
    bench.breaks(&["S6"]);

    let (mut bench, attempt, generation) = orphaned(true);
    bench.oracle.book.nodes.get_mut(&N1).unwrap().died = Some(bench.sight.now);
    let flip = bench.forced(attempt, generation, 2, 2);
    bench.commit(2, flip);
    bench.breaks(&["S6"]);
}

/// Covers S4, S5: the hidden tail of a copy stays hidden, and may be exposed after a death only.
#[test]
fn a_hidden_tail_stays_hidden_after_a_flip() {
    let (mut bench, attempt, capture) = captured();
    let mut hidden = bench.flip(attempt, &capture);
    if let Command::CompleteMove { end, hwm, .. } = &mut hidden {
        (*end, *hwm) = (Offset(4), Offset(4));
    }
    bench.set_log(2, attempt, 0, &[11, 12, 13, 14], 4);
    bench.commit(2, hidden);
    bench.breaks(&["S4", "S8"]);

    let (mut bench, _) = flipped();
    let (node, partition, epoch, hwm) = (N2, bench.p(0), Epoch(2), Offset(4));
    bench.tell(Fact::Exposed { node, partition, epoch, hwm });
    bench.breaks(&["S4"]);

    let (mut bench, attempt, generation) = orphaned(true);
    let flip = bench.forced(attempt, generation, 2, 1);
    bench.log_mut(2, attempt).hwm = Offset(1);
    bench.commit(2, flip);
    bench.tell(Fact::Exposed { node, partition, epoch, hwm: Offset(2) });
    bench.deliver(2, 2, 1, &[12], 2);
    bench.holds();
}

/// Covers S5, H44: after a forced flip an offset is another record.
#[test]
fn a_late_acknowledgement_of_another_record_is_found() {
    let (mut bench, attempt, generation) = orphaned(true);
    let flip = bench.forced(attempt, generation, 2, 2);
    bench.commit(2, flip);
    bench.write(2, attempt, 2, &[21]);
    bench.consume(2, 2, 1, 1);
    bench.holds();
    bench.consume(2, 2, 1, 2);
    bench.breaks(&["S5"]);
}

/// Covers S1 and S2: what an operator declares lost is excused, from then on.
#[test]
fn declaring_a_partition_lost_excuses_what_is_lost_with_it() {
    let mut bench = Bench::cluster(3);
    bench.write(1, Attempt::birth(N1), 1, &[11]);
    let generation = bench.kill(1);
    let (partition, expect) = (bench.p(0), bench.expect());
    let no = AttemptNo { incarnation: Incarnation(0), n: 0 };
    let data = Attempt { move_id: expect.move_id, destination: N2, no };
    let (to, end, receipt) = (N2, Offset(0), String::from("gone"));
    bench.commit(3, Command::DeclareLost { partition, expect, generation, to, data, end, receipt });
    bench.tell(Fact::Creating { node: N2, partition, data, start: Offset(0) });
    bench.set_log(2, data, 0, &[], 0);
    bench.open(2, data, 0);
    bench.serve(2, 2, 1);
    bench.sight.writers.extend([N1, N2]);
    bench.serve(2, 2, 1);
    bench.oracle.finish_safety(0, &bench.sight);
    bench.holds();
}

/// Covers S7: what retention has taken needs no acknowledgement.
#[test]
fn a_capture_may_forget_what_retention_took() {
    let mut bench = Bench::cluster(3);
    let birth = Attempt::birth(N1);
    bench.write(1, birth, 1, &[11, 12, 13]);
    let partition = bench.p(0);
    bench.tell(Fact::Retained { node: N1, partition, start: Offset(2) });
    bench.set_log(1, birth, 2, &[13], 3);
    bench.consume(1, 1, 1, 1);
    bench.plan(2);
    let token = bench.token(1);
    bench.capture(1, birth, token, at(0, &[]));
    bench.holds();
}

/// Covers S3, S8: a hole that the source's disk made is in its copies, too, and no breach of theirs.
#[test]
fn holes_of_a_damaged_source_are_excused_in_its_copy() {
    let (mut bench, attempt, capture) = captured();
    let (partition, birth) = (bench.p(0), Attempt::birth(N1));
    let change = DiskChange::Rotted(partition, Directory::Installed(birth));
    bench.tell(Fact::Disk { node: N1, change });
    bench.log_mut(1, birth).records.remove(1);
    bench.log_mut(2, attempt).records.remove(1);
    let flip = bench.flip(attempt, &capture);
    bench.commit(2, flip);
    bench.open_at(2, attempt, &at(1, &[2]));
    bench.serve(2, 2, 1);
    bench.oracle.finish_safety(0, &bench.sight);
    bench.holds();
}
