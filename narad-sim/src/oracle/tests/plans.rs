//! What the planner asks for, and how much of it at once.

use super::*;

/// Three nodes, the first of which owns all four partitions and leads.
fn lopsided() -> Bench {
    let mut bench = Bench::cluster(3);
    for index in 1..4 {
        bench.assign(index, 1);
    }
    bench.run_node(1);
    bench
}

fn target(bench: &Bench, partition: PartitionId, to: NodeId) -> Command {
    let expect = bench.state().assignment(partition).unwrap().expect();
    Command::SetTarget { partition, expect, to }
}

/// The moves of a minimal plan.
fn minimal(bench: &Bench) -> Vec<(PartitionId, NodeId)> {
    let placement = narad_core::controller::placement(bench.state(), |_, _| false).unwrap();
    let plan = narad_core::plan::plan(&placement, &narad_core::plan::Limits::UNLIMITED);
    plan.all(&placement).map(|planned| (planned.partition, planned.to)).collect()
}

/// Covers S12 and S13: a minimal plan passes; a move that is none of it, and one too many, do not.
#[test]
fn only_the_moves_of_a_minimal_plan_pass() {
    let mut bench = lopsided();
    for (partition, to) in minimal(&bench) {
        let command = target(&bench, partition, to);
        bench.commit(1, command);
    }
    bench.holds();

    let mut bench = lopsided();
    let planned = minimal(&bench);
    let is_planned = |index: &u32| planned.iter().any(|(moved, _)| moved.index == *index);
    let stays = (0..4).find(|index| !is_planned(index)).unwrap();
    let command = target(&bench, bench.p(stays), N2);
    bench.commit(1, command);
    bench.breaks(&["S12"]);
}

/// All four partitions of a topic on node 1, those of another, even, on the other nodes; the moves
/// of a minimal plan, and one more, which the log lets in: its topic is the even one.
fn one_too_many() -> (Bench, Vec<(PartitionId, NodeId)>) {
    let mut bench = Bench::cluster(3);
    for index in 1..4 {
        bench.assign(index, 1);
    }
    let name = Name::new("returns").unwrap();
    bench.commit(1, Command::CreateTopic { name, partitions: 4, parent: None });
    let even = TopicId(bench.index);
    let first = std::mem::replace(&mut bench.topic, even);
    for index in 0..4 {
        bench.assign(index, 2 + u64::from(index % 2));
    }
    let mut moves = minimal(&bench);
    assert!(!moves.is_empty() && moves.iter().all(|(partition, _)| partition.topic == first));
    moves.push((bench.p(0), NodeId(3)));
    bench.topic = first;
    (bench, moves)
}

/// Covers S13: with the same members, no more moves begin than the first plan had.
#[test]
fn moves_that_go_on_and_on_are_found() {
    let (mut bench, moves) = one_too_many();
    for (partition, to) in &moves {
        bench.holds();
        let command = target(&bench, *partition, *to);
        bench.commit(1, command);
    }
    bench.breaks(&["S13"]);

    // An operator's moves are no plan's.
    let (mut bench, moves) = one_too_many();
    for (partition, to) in &moves {
        let command = target(&bench, *partition, *to);
        bench.commit_from(1, command, Origin::Operator);
    }
    assert_eq!(bench.state().targeted().count(), moves.len());
    bench.holds();
}

/// Covers S14: more moves than the policy allows; those that wait do not count.
#[test]
fn too_many_moves_at_once_are_found() {
    for (waits, found) in [(false, &["S14"][..]), (true, &[][..])] {
        let mut bench = Bench::cluster(3);
        for index in 1..4 {
            bench.assign(index, 1);
        }
        let narrow = Policy { max_in_flight: 1, ..policy() };
        bench.commit_from(1, Command::SetPolicy(narrow), Origin::Operator);
        bench.pass(Duration::from_mins(1));
        let planned = minimal(&bench);
        let (partition, to) = planned[0];
        let command = target(&bench, partition, to);
        bench.commit(1, command);
        bench.holds();
        if waits {
            let waiting = narad_core::mover::Waiting::SourceUnreachable;
            let note = narad_core::mover::Note::Waiting(waiting);
            let note = narad_core::node::Note::Mover(partition, note);
            bench.tell(Fact::Noted(to, &note));
        }
        let (partition, to) = planned[1];
        let command = target(&bench, partition, to);
        bench.commit(1, command);
        bench.breaks(found);
    }
}

/// Covers S14: at most half of a topic is frozen at once; a freeze that the log has ended is none,
/// nor is one for a move whose end came back from the dead, which gave its place to another, nor one
/// that began before its node had applied the death of its destination.
#[test]
fn too_many_frozen_partitions_are_found() {
    for end in 0..5 {
        let mut bench = Bench::cluster(3);
        for index in 1..4 {
            bench.assign(index, 1);
        }
        let plan = |bench: &mut Bench, index: u32, to: u64| {
            let command = target(bench, bench.p(index), NodeId(to));
            bench.commit_from(1, command, Origin::Operator);
        };
        // The third move is let in while the other two do not count.
        plan(&mut bench, 0, 3);
        plan(&mut bench, 1, 3);
        let freeze = |bench: &mut Bench, index: u32| {
            let (node, partition, token) = (N1, bench.p(index), bench.token(index.into()));
            bench.tell(Fact::FrozeBlindly { node, partition, token });
        };
        let token = bench.token(9);
        if end == 4 {
            bench.capture(1, Attempt::birth(N1), token, at(0, &[]));
        }
        bench.kill(3);
        plan(&mut bench, 2, 2);
        assert_eq!(bench.state().targeted().count(), 3);
        if end == 3 {
            bench.register(3, 2);
        }
        if end != 4 {
            bench.capture(1, Attempt::birth(N1), token, at(0, &[]));
        }
        freeze(&mut bench, 1);
        bench.holds();
        if end == 1 {
            let partition = bench.p(1);
            let move_id = bench.state().assignment(partition).unwrap().move_id;
            bench.commit_from(1, Command::ClearTarget { partition, move_id }, Origin::Operator);
        } else if end == 2 {
            let partition = bench.p(0);
            bench.commit(1, Command::Revoke { partition, token });
        }
        freeze(&mut bench, 2);
        bench.breaks(if end == 0 { &["S14"] } else { &[] });
    }
}
