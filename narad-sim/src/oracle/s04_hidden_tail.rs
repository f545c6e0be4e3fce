//! S4, hidden tail. After recovery or a move, what consumers see is a subset of what the source
//! had made visible, until a new commit advances the high watermark past it.
//!
//! Every reign has a limit: what its flip said was visible, which is no more than was visible
//! before; raised by every acknowledgement in the reign, and by a control frame, which is a commit
//! of its own, where one is due: after a takeover without the old owner's freeze (H43), and when an
//! owner restarts that had begun to write in its reign (H42). Whatever is opened, listed or
//! delivered past the limit is a breach. No clock takes part.

use narad_core::cursor::Reserved;
use narad_core::ids::{Attempt, Epoch, NodeId, Offset};

use super::part::{Part, Reign};
use super::s16_monotone;
use super::sink::Cx;

/// Records are acknowledged up to `end`.
pub(super) fn acknowledged(reign: &mut Reign, end: Offset) {
    reign.visible = reign.visible.max(end);
}

/// A control frame exposes what is durable.
pub(super) fn exposed(part: &mut Part, node: NodeId, epoch: Epoch, hwm: Offset, cx: &mut Cx<'_>) {
    let Some(reign) = part.reign(epoch) else {
        cx.breach("S4", part.id, || format!("{node:?} exposes a log of unknown {epoch:?}"));
        return;
    };
    s16_monotone::says_visible(part, reign, node, hwm, cx);
    let due = reign.wrote || reign.left_records();
    if !due && hwm > reign.visible {
        cx.breach("S4", part.id, || {
            let limit = reign.visible;
            format!("{node:?} exposes up to {hwm:?} without a new commit; {limit:?} was visible")
        });
    }
    if let Some(reign) = part.reign_mut(epoch) {
        reign.visible = reign.visible.max(hwm);
    }
}

/// A cursor has handed records out, whether or not they could be read then.
pub(super) fn reserved(
    part: &Part,
    node: NodeId,
    reserved: &Reserved,
    hwm: Offset,
    cx: &mut Cx<'_>,
) {
    if let Some(run) = reserved.runs.iter().find(|run| run.end > hwm) {
        cx.breach("S4", part.id, || {
            format!("{node:?} hands out up to {:?}, visible is {hwm:?}", run.end)
        });
    }
}

/// A gate begins to serve, or its log is ready again: what was visible in its reign is so again, and
/// of a reign that began without the old owner's freeze everything is (H42, H43).
pub(super) fn serves(part: &mut Part, node: NodeId, epoch: Epoch, cx: &mut Cx<'_>) {
    let Some((end, hwm, visible)) = part.opened.remove(&node) else { return };
    let reign = part.reign(epoch).filter(|reign| reign.owner == node);
    let Some(reign) = reign.filter(|reign| !part.is_damaged(node, reign.data)) else { return };
    let due = if reign.left_records() { end } else { visible.min(reign.visible) };
    if hwm < due {
        cx.breach("S16", part.id, || {
            format!("{node:?} serves {epoch:?} up to {hwm:?} only, {due:?} is visible")
        });
    }
}

/// A log is ready that was opened anew below a gate that stood as serving all the while.
pub(super) fn reopened(part: &mut Part, node: NodeId, epoch: Epoch, cx: &mut Cx<'_>) {
    if part.serving.iter().any(|serving| (serving.node, serving.epoch) == (node, epoch)) {
        serves(part, node, epoch, cx);
    }
}

/// A log is open for service.
pub(super) fn opened(part: &Part, node: NodeId, data: Attempt, hwm: Offset, cx: &mut Cx<'_>) {
    let reign = part.reigns.iter().rev().find(|reign| (reign.owner, reign.data) == (node, data));
    // Where exposing is due, a life may have ended in the middle of it.
    if let Some(reign) = reign.filter(|reign| !reign.wrote && !reign.left_records()) {
        limited(part, reign, node, hwm, "opens with", cx);
    }
}

/// An owner says how far consumers can see, in a listing or a capture.
pub(super) fn says(part: &Part, node: NodeId, epoch: Epoch, hwm: Offset, cx: &mut Cx<'_>) {
    if let Some(reign) = part.reign(epoch) {
        limited(part, reign, node, hwm, "says", cx);
    }
}

/// Records from `first` to `end` were read below `hwm`.
pub(super) fn delivered(
    part: &Part,
    node: NodeId,
    epoch: Epoch,
    end: Offset,
    hwm: Offset,
    cx: &mut Cx<'_>,
) {
    let Some(reign) = part.reign(epoch) else {
        cx.breach("S4", part.id, || format!("{node:?} serves consumers in unknown {epoch:?}"));
        return;
    };
    if end > hwm {
        cx.breach("S4", part.id, || {
            format!("{node:?} delivers up to {end:?}, past its high watermark {hwm:?}")
        });
    }
    limited(part, reign, node, hwm, "shows", cx);
}

/// A flip says how far its copy can be seen.
pub(super) fn flipped(part: &Part, old: Epoch, hwm: Offset, cx: &mut Cx<'_>) {
    if let Some(reign) = part.reign(old) {
        limited(part, reign, reign.owner, hwm, "is flipped away with", cx);
    }
}

fn limited(part: &Part, reign: &Reign, node: NodeId, hwm: Offset, does: &str, cx: &mut Cx<'_>) {
    if hwm > reign.visible {
        let (epoch, limit) = (reign.epoch, reign.visible);
        cx.breach("S4", part.id, || {
            format!("{node:?} {does} the high watermark {hwm:?}; in {epoch:?} {limit:?} is visible")
        });
    }
}
