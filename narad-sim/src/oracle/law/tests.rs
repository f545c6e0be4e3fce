use narad_core::ids::{Incarnation, StoreUuid};
use narad_core::metastore::Addresses;

use super::*;
use crate::oracle::tests::Sight;

fn name(text: &str) -> narad_core::ids::Name {
    narad_core::ids::Name::new(text).expect("it is a name")
}

fn entry(by: u64, sequence: u64, command: Command) -> Entry {
    let node = NodeId(by);
    let proposal = ProposalId { node, incarnation: Incarnation(1), sequence };
    Entry { proposal, by: node, command }
}

fn join(node: u64) -> Command {
    let (store_uuid, addrs) = (StoreUuid(node.into()), Addresses::default());
    Command::Join { name: name(&format!("n{node}")), store_uuid, addrs }
}

/// Applies entries to a state and rules them; returns what was wrong.
fn ruled(
    commands: impl IntoIterator<Item = (u64, Command)>,
    spoil: impl Fn(&mut Outcome),
) -> Vec<String> {
    let (mut state, mut law) = (State::new(), Law::default());
    let (sight, mut sink) = (Sight::default(), super::super::sink::Sink::default());
    let mut cx = Cx { event: 0, now: crate::time::Time::ZERO, look: &sight, sink: &mut sink };
    for (at, (by, command)) in (1..).zip(commands) {
        let entry = entry(by, at, command);
        let mut outcome = state.apply(LogIndex(at), &entry).expect("every command is known");
        spoil(&mut outcome);
        law.compare(LogIndex(at), &entry, &outcome, &state, &mut cx);
    }
    law.compare_all(&state, &mut cx);
    sink.violations.iter().map(|violation| violation.invariant.clone()).collect()
}

#[test]
fn the_fold_of_the_machines_is_right() {
    assert_eq!(ruled((1..=3).map(|node| (node, join(node))), |_| {}), [""; 0]);
}

#[test]
fn a_wrong_answer_is_noticed() {
    let spoil = |outcome: &mut Outcome| outcome.reply = Reply::Rejected(Reason::NameTaken);
    assert_eq!(ruled([(1, join(1))], spoil), ["S16"]);
}

/// What nobody has proposed yet is ruled alike, thousands of times.
#[test]
fn what_might_come_is_ruled_alike() {
    let (mut state, mut law) = (State::new(), Law::default());
    let mut probes = probe::Probes::default();
    let (sight, mut sink) = (Sight::default(), super::super::sink::Sink::default());
    let mut cx = Cx { event: 0, now: crate::time::Time::ZERO, look: &sight, sink: &mut sink };
    let mut commands: Vec<(u64, Command)> = Vec::new();
    for node in 1..=4 {
        commands.push((node, join(node)));
        let (store_uuid, addrs) = (StoreUuid(node.into()), Addresses::default());
        let incarnation = Incarnation(1);
        let node_id = NodeId(node);
        commands.push((node, Command::Register { node: node_id, store_uuid, incarnation, addrs }));
    }
    commands.push((1, Command::CreateTopic { name: name("orders"), partitions: 3, parent: None }));
    for index in 0..3 {
        let partition = PartitionId { topic: TopicId(9), index };
        let node = NodeId(u64::from(index) + 1);
        commands.push((1, Command::AssignPartition { partition, node }));
        let expect = narad_core::metastore::Expect {
            owner: node,
            epoch: narad_core::ids::Epoch(1),
            move_id: narad_core::ids::MoveId(1),
        };
        commands.push((1, Command::SetTarget { partition, expect, to: NodeId(4) }));
    }
    for round in 0..400 {
        let (by, command) = commands.get(round).cloned().unwrap_or((1, join(1)));
        let at = LogIndex(round as u64 + 1);
        let entry = entry(by, at.0, command);
        let outcome = state.apply(at, &entry).expect("every command is known");
        law.compare(at, &entry, &outcome, &state, &mut cx);
        probes.follow(at, &entry, (&state, &law), &mut cx);
    }
    assert_eq!(sink.violations, []);
}
