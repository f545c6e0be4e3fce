//! L6: salvage completes and old dirs are reclaimed.
//!
//! Judged at the end of the healing, on the disks of nodes that are there: a directory that the log
//! proves dead must be gone, and so must staging that nobody wants while its source is alive. What
//! was left behind must have been produced again, unless the node reports that it still holds it.
//! Nothing is judged of a partition whose plan or owner changed a moment ago.

use narad_core::ids::NodeId;

use super::healing::Healed;
use super::part::Part;
use super::s10_proof::{self, Fate};
use super::sink::Cx;
use super::{Directory, s14_in_flight};

/// Judges what a node's disk holds of a partition.
pub(super) fn check(part: &Part, node: NodeId, all: &Healed<'_>, cx: &mut Cx<'_>) {
    // Whoever the log has retired is told of nothing any more, perhaps not even of that: no barrier
    // of its own proves anything dead, and what it holds is nobody's (S10, S15).
    let retired = all.state.member(node).is_none_or(|member| member.retired);
    let Some(machines) = cx.look.node(node).filter(|_| !retired) else { return };
    let moment = all.config.request_timeout * 4 + all.config.retry_max;
    if cx.now.since(part.plan.moved) <= moment {
        return;
    }
    if part.has_holes() {
        // A copy may be all that is left: an operator decides.
        return;
    }
    let row = all.state.assignment(part.id);
    for directory in cx.look.directories(node, part.id) {
        let stays = match directory {
            Directory::Staging => row.is_none_or(|row| {
                let wanted = row.target == Some(node) || row.owner == node;
                !wanted && !s14_in_flight::is_dead(all.state, row.owner)
            }),
            Directory::Installed(data) => match s10_proof::fate(part, row, data) {
                Fate::Live | Fate::MayWin => false,
                Fate::Residue(_) => !machines.left_behind().any(|left| left == part.id),
                Fate::Dead => !part.open.contains(&(node, data)),
            },
        };
        if stays {
            cx.breach("L6", part.id, || format!("{node:?} still has {directory:?}, which may go"));
        }
    }
}
