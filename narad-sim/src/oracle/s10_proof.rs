//! S10, no destructive act without proof. Deleting or renaming a data directory d requires a
//! committed entry (or a read behind a barrier) that shows d is neither data(p) nor the directory
//! of an unresolved token, and residue empty.
//!
//! The fate of a directory is judged from the reigns and the flips that were asked for, not by the
//! machines' own verdict. A state never calls a directory dead that becomes live later, so the
//! newest committed state decides. To be used as staging again, a directory need not be burned: it
//! is enough that no flip to it that was ever asked for can pass any more. Whether what a doomed
//! directory holds is elsewhere is S1's check, made without it. Staging is no data directory, but
//! it may be the last copy while its source is dead (case C54), or while its own node is the owner
//! and has lost the directory (H25). No clock takes part.

use std::time::Duration;

use narad_core::ids::{Attempt, NodeId, Offset};
use narad_core::metastore::{Assignment, Fence, State, Status};

use super::Directory;
use super::part::{Part, Try};
use super::sink::Cx;

/// How long a node may act on what it had applied before.
const JUST_NOW: Duration = Duration::from_millis(200);

/// What the log says of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is data(p).
    Live,
    /// A flip to it may still pass.
    MayWin,
    /// It was live, and records from here on were left behind in it.
    Residue(Offset),
    /// Neither.
    Dead,
}

/// Judges a directory.
pub(super) fn fate(part: &Part, row: Option<&Assignment>, data: Attempt) -> Fate {
    let (Some(row), false) = (row, part.gone) else { return Fate::Dead };
    if let Some(at) = part.reigns.iter().position(|reign| reign.data == data) {
        return match part.reigns.get(at + 1) {
            None => Fate::Live,
            Some(next) if next.left_records() && !next.reclaimed => Fate::Residue(next.start),
            Some(_) => Fate::Dead,
        };
    }
    let burned = row.burned.is_some_and(|burned| data.no <= burned);
    let current = data.move_id == row.move_id && row.target == Some(data.destination) && !burned;
    if current || data.move_id > row.move_id { Fate::MayWin } else { Fate::Dead }
}

/// A directory is about to be set aside. `part`: `None` if it never had an owner; `known`: for how
/// long its owner had been declared dead when the node asked for that, if it is.
pub(super) fn sets_aside(
    part: Option<&Part>,
    state: &State,
    partition: narad_core::ids::PartitionId,
    node: NodeId,
    directory: Directory,
    known: Option<Duration>,
    cx: &mut Cx<'_>,
) {
    let row = state.assignment(partition);
    let Directory::Installed(data) = directory else {
        let Some(row) = row else { return };
        let alive = state.member(row.owner).is_some_and(|owner| owner.status == Status::Alive);
        // Of a move that was given up, too, as far as the node knows of the death.
        let own = cx.look.node(node).map(narad_core::node::Node::state);
        // What it has only just applied came after it had decided.
        let long_dead = known.is_some_and(|known| known > JUST_NOW);
        let knows = long_dead
            && own.is_some_and(|own| {
                own.assignment(partition).is_some_and(|own_row| own_row.owner == row.owner)
                    && own.member(row.owner).is_some_and(|owner| owner.status != Status::Alive)
            });
        let wanted = row.target == Some(node) && long_dead;
        if (wanted || (knows && row.owner != node)) && !alive {
            cx.breach("S10", partition, || {
                format!("{node:?} sets its copy aside while {:?} is dead (C54)", row.owner)
            });
        }
        // Whoever owns what its disk does not have may have nothing else (H25).
        let owns = own.and_then(|own| own.assignment(partition)).is_some_and(|own_row| {
            (own_row.owner, own_row.data) == (node, row.data) && row.owner == node
        });
        let live = Directory::Installed(row.data);
        if owns && cx.look.log(node, partition, live).is_none() {
            cx.breach("S10", partition, || {
                format!("{node:?} sets its copy aside and does not have {} (H25)", row.data)
            });
        }
        return;
    };
    let Some(part) = part else {
        if state.topic(partition.topic).is_some() || partition.topic.0 > state.applied().0 {
            cx.breach("S10", partition, || {
                format!("{node:?} sets {data} aside, unknown to the log")
            });
        }
        return;
    };
    let fate = fate(part, row, data);
    if fate != Fate::Dead {
        cx.breach("S10", partition, || format!("{node:?} sets {data} aside, which is {fate:?}"));
    }
    if part.open.contains(&(node, data)) {
        cx.breach("S10", partition, || format!("{node:?} sets {data} aside, which is open"));
    }
}

/// An installed directory is about to be used as staging again.
pub(super) fn restages(part: &Part, state: &State, node: NodeId, data: Attempt, cx: &mut Cx<'_>) {
    let row = state.assignment(part.id);
    let passes = match fate(part, row, data) {
        Fate::Dead => None,
        Fate::MayWin => row.and_then(|row| {
            let tries = part.tries.get(&data)?;
            tries.iter().find(|asked| can_pass(state, row, asked)).copied()
        }),
        Fate::Live | Fate::Residue(_) => {
            cx.breach("S10", part.id, || format!("{node:?} uses {data} again, which is in use"));
            None
        }
    };
    if let Some(asked) = passes {
        cx.breach("S10", part.id, || {
            format!("{node:?} uses {data} again while {asked:?} may still pass")
        });
    }
}

/// Whether a flip that was asked for may still be applied.
fn can_pass(state: &State, row: &Assignment, asked: &Try) -> bool {
    let Some(owner) = state.member(row.owner) else { return false };
    let fenced = match asked.fence {
        Fence::Normal { token } => {
            token.epoch == row.epoch
                && token.no.incarnation >= owner.incarnation
                && row.revoked.is_none_or(|revoked| token.no > revoked)
        }
        Fence::Forced { generation } => match owner.status {
            Status::Dead(present) => present <= generation,
            Status::Alive => owner.deaths < generation,
        },
    };
    fenced && asked.end >= row.min_end && row.reported_hwm.is_none_or(|least| asked.end >= least)
}
