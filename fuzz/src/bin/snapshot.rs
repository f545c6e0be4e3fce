//! A snapshot is taken whole or refused; one that is taken can be applied to, and given on.
#![cfg_attr(fuzzing, no_main)]

use narad_core::ids::PartitionId;
use narad_core::ids::{Attempt, AttemptNo, Incarnation, LogIndex, NodeId, ProposalId};
use narad_core::metastore::{Assignment, Command, Entry, Expect, Parts, State};
use narad_runtime::wire::Wire;

narad_fuzz::target!("snapshot", |input| {
    let Ok(parts) = Parts::from_bytes(input) else { return };
    assert_eq!(Parts::from_bytes(&parts.to_bytes()).as_ref(), Ok(&parts));
    let Ok(mut state) = State::from_parts(parts.clone()) else { return };
    assert_eq!(state.to_parts(), parts, "a snapshot is given on as it came");

    let members: Vec<NodeId> = parts.members.iter().map(|member| member.id).take(4).collect();
    for (sequence, command) in commands(&parts, &members).into_iter().enumerate() {
        let by = members.first().copied().unwrap_or(NodeId(1));
        let (incarnation, sequence) = (Incarnation(u64::MAX), sequence as u64);
        let proposal = ProposalId { node: by, incarnation, sequence };
        let index = LogIndex(state.to_parts().applied.0.saturating_add(1));
        if state.apply(index, &Entry { proposal, by, command: command.clone() }).is_ok() {
            State::from_parts(state.to_parts()).unwrap_or_else(|error| {
                panic!("{command:?} left what cannot be restored: {error}")
            });
        }
    }
});

/// What is likely to be asked of any state.
fn commands(parts: &Parts, members: &[NodeId]) -> Vec<Command> {
    let mut commands = Vec::new();
    for (partition, row) in parts.assignments.iter().take(4) {
        for &to in members {
            commands.extend(about_row(*partition, row, to));
        }
    }
    for member in parts.members.iter().take(4) {
        let (node, incarnation) = (member.id, member.incarnation);
        commands.push(Command::MarkDead { node, incarnation });
        commands.push(Command::SetDraining { node, on: true });
        commands.push(Command::DrainedOut { node, incarnation, drain: member.drains });
        commands.push(Command::Retire { node, receipt: None });
        commands.push(Command::Retire { node, receipt: Some("gone".into()) });
    }
    commands.extend(parts.topics.iter().map(|topic| Command::DeleteTopic { topic: topic.id }));
    commands
}

fn about_row(partition: PartitionId, row: &Assignment, to: NodeId) -> [Command; 4] {
    let expect = Expect { owner: row.owner, epoch: row.epoch, move_id: row.move_id };
    let no = AttemptNo { incarnation: Incarnation(1), n: 0 };
    let attempt = Attempt { move_id: row.move_id, destination: to, no };
    [
        Command::SetTarget { partition, expect, to },
        Command::Resolve { partition, attempt },
        Command::ClearTarget { partition, move_id: row.move_id },
        Command::SetPin { partition, on: true },
    ]
}
