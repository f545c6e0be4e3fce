//! L6: salvage completes and old dirs are reclaimed.
//!
//! Judged at the end of the healing, on the disks of nodes that are there: a directory that the log
//! proves dead must be gone, and so must staging that nobody wants while its source is alive. What
//! was left behind must have been produced again, unless the node reports that it still holds it.
//! Nothing is judged of a partition whose plan or owner changed a moment ago.
//!
//! Before the log is told that this has happened, everything that is left behind and that nobody has
//! consumed is in the node's ingress log, or was.
//!
//! A receipt of salvage names what was left behind, exactly, and all of it is in the node's ingress
//! log or has arrived from there. At the end of the healing every ingress log of a node that is there
//! is empty and given up, unless a partition that it may have something for is not served, or its
//! disk fails.

use narad_core::ids::{Epoch, NodeId, Offset, PartitionId};
use narad_core::node::Salvaged;

use super::book::Book;
use super::healing::Healed;
use super::part::{Began, Part};
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

/// A node says what it has accepted once more.
pub(super) fn salvaged(
    book: &Book,
    node: NodeId,
    (partition, epoch): (PartitionId, Epoch),
    salvaged: Salvaged,
    cx: &mut Cx<'_>,
) {
    let Some(part) = book.parts.get(&partition).filter(|part| !part.gone) else { return };
    let at = part.reigns.iter().position(|reign| reign.epoch == epoch);
    let pair = at.and_then(|at| Some((part.reigns.get(at.checked_sub(1)?)?, part.reigns.get(at)?)));
    if pair.is_some_and(|(_, new)| new.began == Began::Declared) {
        // A copy that was behind may be among it.
        return;
    }
    let Some((old, new)) = pair.filter(|(old, _)| old.owner == node) else {
        cx.breach("L6", partition, || format!("{node:?} salvages what it never had in {epoch:?}"));
        return;
    };
    if part.is_damaged(node, old.data) {
        return;
    }
    let directory = Directory::Installed(old.data);
    let Some(view) = cx.look.log(node, partition, directory) else { return };
    let from = view.start.max(new.start);
    let is_exact = (salvaged.from, salvaged.end) == (from, view.end.max(from));
    if !is_exact {
        cx.breach("L6", partition, || {
            format!(
                "{node:?} salvages {:?} to {:?}, and {from:?} to {:?} was left behind",
                salvaged.from, salvaged.end, view.end
            )
        });
    }
    let log = book.ingress.logs.get(&node);
    let is_known = |id: &u64| log.is_some_and(|log| log.salvaged.contains(id));
    let mut left =
        view.records.iter().filter(|(offset, _)| *offset >= from && *offset < salvaged.end);
    if left.any(|(_, id)| !is_known(id)) {
        cx.breach("L6", partition, || format!("{node:?} has not accepted all that it salvages"));
    }
}

/// The log is told that what an old owner has left behind was accepted once more: whatever nobody has
/// consumed of it has been, whether or not it was ever acknowledged.
pub(super) fn reclaimed(
    book: &Book,
    (node, partition, epoch): (NodeId, PartitionId, Epoch),
    cx: &mut Cx<'_>,
) {
    let Some(part) = book.parts.get(&partition).filter(|part| !part.gone) else { return };
    let pair = part.reigns.windows(2).find(|pair| pair[1].epoch == epoch);
    let Some([old, new]) = pair.filter(|pair| pair[0].owner == node) else { return };
    let Some(view) = cx.look.log(node, partition, Directory::Installed(old.data)) else { return };
    if part.is_damaged(node, old.data) {
        return;
    }
    let log = book.ingress.logs.get(&node);
    let is_accepted = |id: &u64| log.is_some_and(|log| log.salvaged.contains(id));
    let is_consumed = |offset: Offset| {
        let reign = part.lineage(old.epoch, offset);
        reign.is_none_or(|reign| reign.consumed.contains(offset.0 - reign.start.0))
    };
    let from = if new.began == Began::Declared { view.start } else { view.start.max(new.start) };
    let mut left = view.records.iter().filter(|(offset, _)| *offset >= from);
    if let Some((offset, id)) = left.find(|(at, id)| !is_accepted(id) && !is_consumed(*at)) {
        cx.breach("L6", partition, || {
            format!("{node:?} gives up what it has left behind, and has not accepted record {id} at {offset:?}")
        });
    }
}

/// Judges a node's ingress log once everything had its time.
pub(super) fn check_ingress(book: &Book, node: NodeId, all: &Healed<'_>, cx: &mut Cx<'_>) {
    if let Some(why) = ingress_is_stuck(book, node, all, cx) {
        cx.breach("L6", node, || why);
    }
}

/// Returns what is left in a node's ingress log for no reason, while nothing of it arrives.
pub(super) fn ingress_is_stuck(
    book: &Book,
    node: NodeId,
    all: &Healed<'_>,
    cx: &Cx<'_>,
) -> Option<String> {
    let moment = all.config.retry_max * 4
        + all.config.request_timeout * 4
        + all.config.checkpoint_interval * 2;
    let log = book.ingress.logs.get(&node);
    let moved = log.map(|log| log.grew.max(log.moved)).unwrap_or_default();
    let is_faulty = log.and_then(|log| log.faulty).is_some_and(|at| cx.now.since(at) <= moment);
    let calm = moved.max(all.leaderless).max(all.witness(node).apart);
    let had_its_time = cx.now.since(calm) > moment && !is_faulty;
    ingress_waits(book, node, all, cx).filter(|_| had_its_time)
}

/// Returns what is left in a node's ingress log, if nothing stands in the way of its leaving.
pub(super) fn ingress_waits(
    book: &Book,
    node: NodeId,
    all: &Healed<'_>,
    cx: &Cx<'_>,
) -> Option<String> {
    let retired = all.state.member(node).is_none_or(|member| member.retired);
    let machines = cx.look.node(node).filter(|_| !retired && all.is_well(node))?;
    let (checkpoint, next) = cx.look.ingress_rest(node)?;
    let backlog = machines.backlog();
    if backlog.records == 0 && checkpoint == next {
        return None;
    }
    // Whatever has no owner that takes it, now, may wait for one.
    let is_free = all.state.assignments().all(|(partition, row)| {
        let owner = cx.look.node(row.owner).filter(|_| all.is_well(row.owner));
        let served = owner.is_some_and(|owner| owner.serving(partition) == Some(row.epoch));
        let part = book.parts.get(&partition);
        served && cx.look.talks(node, row.owner) && part.is_some_and(|part| !part.has_holes())
    });
    let records = backlog.records;
    (is_free && all.state.unassigned().len() == 0).then(|| {
        format!("{records} records wait in its ingress log, given up to {checkpoint:?} of {next:?}")
    })
}
