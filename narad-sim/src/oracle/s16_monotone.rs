//! S16, monotone: epoch, move id, token floor, incarnation, certificate generation, high watermark
//! within an epoch, applied index: never decrease.
//!
//! Rows and members are compared with what they were before each entry that touches them. That the
//! applied index of a process only grows, that a life is later than the one before, and that two
//! nodes never apply different entries at one index, is checked where these are kept (the book).

use narad_core::ids::{NodeId, Offset, PartitionId};
use narad_core::metastore::{Assignment, Changed, Member, State};

use super::book::Turn;
use super::part::{Part, Reign};
use super::sink::Cx;

/// Compares what an entry touched with what it was.
pub(super) fn folded(state: &State, turn: &Turn<'_>, changed: &Changed, cx: &mut Cx<'_>) {
    if let Some(before) = &turn.row {
        for partition in &changed.partitions {
            if let Some(after) = state.assignment(*partition) {
                row(*partition, before, after, cx);
            }
        }
    }
    let after = turn.member.as_ref().and_then(|before| state.member(before.id));
    if let (Some(before), Some(after)) = (&turn.member, after) {
        member(before, after, cx);
    }
}

fn row(partition: PartitionId, before: &Assignment, after: &Assignment, cx: &mut Cx<'_>) {
    let same_epoch = before.epoch == after.epoch;
    let same_move = before.move_id == after.move_id;
    let fell = if after.epoch < before.epoch {
        Some("its epoch")
    } else if after.move_id < before.move_id {
        Some("its move id")
    } else if after.min_end < before.min_end {
        Some("its least end")
    } else if same_epoch && after.revoked < before.revoked {
        Some("the floor of its tokens")
    } else if same_move && after.burned < before.burned {
        Some("the floor of its attempts")
    } else if same_epoch && after.reported_hwm < before.reported_hwm {
        Some("its reported high watermark")
    } else {
        None
    };
    if let Some(what) = fell {
        cx.breach("S16", partition, || format!("{what} falls: {before:?}, then {after:?}"));
    }
}

fn member(before: &Member, after: &Member, cx: &mut Cx<'_>) {
    let fell = after.incarnation < before.incarnation
        || after.deaths < before.deaths
        || after.drains < before.drains
        || (before.retired && !after.retired);
    if fell {
        cx.breach("S16", before.id, || format!("it goes back: {before:?}, then {after:?}"));
    }
}

/// An owner says how far consumers can see: never less than what they could see in its reign.
///
/// An owner that restarts exposes what is durable before it serves, so that this holds across its
/// lives; a disk that was changed behind its back is no owner's fault.
pub(super) fn says_visible(part: &Part, reign: &Reign, node: NodeId, hwm: Offset, cx: &mut Cx<'_>) {
    let unseen = reign.visible == Offset(u64::MAX);
    if hwm < reign.visible && !unseen && !part.is_damaged(node, reign.data) {
        cx.breach("S16", part.id, || {
            let (epoch, before) = (reign.epoch, reign.visible);
            format!("{node:?} has the high watermark {hwm:?} in {epoch:?}, it was at {before:?}")
        });
    }
}
