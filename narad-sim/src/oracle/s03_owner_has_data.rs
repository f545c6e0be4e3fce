//! S3, owner has data. `owner(p) = n` implies that n holds `data(p)` complete to `min_end(p)`;
//! opening never creates an empty log when `min_end > 0`.
//!
//! Checked on the disk when a log is opened, when an owner begins to serve in an epoch, and when an
//! empty log is about to be made. An owner serves while its gate does and its log is open: a gate
//! may stand as serving over a log that could not be opened again, and serves nothing then, until
//! it is. That a flip names a directory which is complete is S8's check. Bytes that a disk lost
//! behind its node's back may be missing in the middle, and no node sees that a directory is removed
//! whose files it has open; opening what is not there, and serving a log that ends too early, is a
//! breach in spite of that.

use narad_core::ids::{Attempt, Epoch, NodeId, Offset};

use super::Directory;
use super::part::{Began, Part};
use super::sink::Cx;

/// A log was opened: it is there, whatever happens to the power.
pub(super) fn opened(part: &Part, node: NodeId, data: Attempt, cx: &mut Cx<'_>) {
    if cx.look.log(node, part.id, Directory::Installed(data)).is_none() {
        cx.breach("S3", part.id, || format!("{node:?} opens {data}, which is not there"));
    } else if let Some(gate) = part.serving.iter().find(|serving| serving.node == node) {
        serves(part, node, gate.epoch, cx);
    }
}

/// A gate begins to serve in an epoch that it has not served in before, in this stand, or serves
/// in it while its log is opened.
pub(super) fn serves(part: &Part, node: NodeId, epoch: Epoch, cx: &mut Cx<'_>) {
    let Some(reign) = part.reign(epoch).filter(|reign| reign.owner == node) else { return };
    if !part.open.contains(&(node, reign.data)) {
        return;
    }
    let least = part.reigns.iter().filter(|r| r.epoch <= epoch).map(|r| r.start).max();
    let least = least.unwrap_or_default();
    let Some(log) = cx.look.log(node, part.id, Directory::Installed(reign.data)) else {
        // It was there when it was opened.
        if !part.is_damaged(node, reign.data) {
            let data = reign.data;
            cx.breach("S3", part.id, || format!("{node:?} serves {data}, which is not there"));
        }
        return;
    };
    // Nobody reads again what rots between a copy and its flip.
    if log.end < least && !part.is_damaged(node, reign.data) {
        cx.breach("S3", part.id, || {
            format!("{node:?} serves a log that ends at {:?}, before {least:?}", log.end)
        });
    }
    if part.has_holes() {
        return;
    }
    let mut next = log.start;
    for (offset, _) in &log.records {
        if *offset != next {
            cx.breach("S3", part.id, || format!("{node:?} serves a log without {next:?}"));
            return;
        }
        next = next.next();
    }
    if next != log.end {
        cx.breach("S3", part.id, || format!("{node:?} serves a log that breaks off at {next:?}"));
    }
}

/// An empty log is about to be made.
pub(super) fn creates(part: &Part, node: NodeId, data: Attempt, start: Offset, cx: &mut Cx<'_>) {
    let reign = part.reigns.iter().rev().find(|reign| (reign.owner, reign.data) == (node, data));
    let Some(reign) = reign else {
        cx.breach("S3", part.id, || format!("{node:?} makes {data}, which the log does not name"));
        return;
    };
    // What was declared lost may begin anew, past what was there.
    let allowed = match reign.began {
        Began::Born | Began::Unseen { .. } => reign.start == Offset(0) && start == Offset(0),
        Began::Declared => start >= reign.start,
        Began::Normal(_) | Began::Forced(_) => false,
    };
    if !allowed {
        cx.breach("S3", part.id, || {
            format!("{node:?} makes an empty log at {start:?} where {:?} was reached", reign.start)
        });
    }
}
