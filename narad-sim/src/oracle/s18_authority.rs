//! S18, authority. The fold accepts a flip and a `Resolve` only from the target, a `Revoke` only
//! from the owner, a `Register` only from the identity itself.
//!
//! Judged by who really asked: what a scenario forges is known to come from another node than the
//! entry says. Reports, `DrainedOut` and `ReclaimReady` speak for a node as well and are held to
//! the same. An attempt that has lost its plan may be resolved by whoever made it. No clock takes
//! part.

use narad_core::ids::NodeId;
use narad_core::metastore::Command;

use super::book::Turn;
use super::sink::{Cx, Subject};

/// An entry took effect.
pub(super) fn took_effect(turn: &Turn<'_>, cx: &mut Cx<'_>) {
    let Some(due) = speaks_for(turn) else { return };
    let said = turn.entry.by;
    let real = turn.asked.map_or(said, |asked| asked.by);
    if due != Some(said) || due != Some(real) {
        let subject = Subject::Node(real);
        cx.breach("S18", subject, || {
            format!("it asks, as {said:?}, what {due:?} may ask: {:?}", turn.entry.command)
        });
    }
}

/// Returns who may ask for the command: none if anybody may.
fn speaks_for(turn: &Turn<'_>) -> Option<Option<NodeId>> {
    let row = turn.row.as_ref();
    match &turn.entry.command {
        Command::CompleteMove { .. } => Some(row.and_then(|row| row.target)),
        Command::Resolve { .. } => Some(row.and_then(|row| row.target)),
        Command::Revoke { .. } => Some(row.map(|row| row.owner)),
        Command::Register { node, .. }
        | Command::Report { node, .. }
        | Command::DrainedOut { node, .. }
        | Command::ReclaimReady { node, .. } => Some(Some(*node)),
        Command::Join { .. }
        | Command::MarkDead { .. }
        | Command::SetDraining { .. }
        | Command::Retire { .. }
        | Command::CreateTopic { .. }
        | Command::DeleteTopic { .. }
        | Command::AssignPartition { .. }
        | Command::SetTarget { .. }
        | Command::ClearTarget { .. }
        | Command::SetPolicy(_)
        | Command::SetPin { .. }
        | Command::DeclareLost { .. }
        | Command::RaiseVersion { .. } => None,
    }
}
