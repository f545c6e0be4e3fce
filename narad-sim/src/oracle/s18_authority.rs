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
    let Speaker::Of(due) = speaker(turn) else { return };
    let said = turn.entry.by;
    let real = turn.asked.map_or(said, |asked| asked.by);
    if due != Some(said) || due != Some(real) {
        let subject = Subject::Node(real);
        cx.breach("S18", subject, || {
            format!("it asks, as {said:?}, what {due:?} may ask: {:?}", turn.entry.command)
        });
    }
}

/// Who may ask for a command.
enum Speaker {
    Anybody,
    /// This node; none if there is no such role.
    Of(Option<NodeId>),
}

fn speaker(turn: &Turn<'_>) -> Speaker {
    let row = turn.row.as_ref();
    match &turn.entry.command {
        Command::CompleteMove { .. } | Command::Resolve { .. } => {
            Speaker::Of(row.and_then(|row| row.target))
        }
        Command::Revoke { .. } => Speaker::Of(row.map(|row| row.owner)),
        Command::Register { node, .. }
        | Command::Report { node, .. }
        | Command::DrainedOut { node, .. }
        | Command::ReclaimReady { node, .. } => Speaker::Of(Some(*node)),
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
        | Command::RaiseVersion { .. } => Speaker::Anybody,
    }
}
