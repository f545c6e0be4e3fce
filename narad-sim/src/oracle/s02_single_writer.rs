//! S2, single writer. For all times and partitions at most one node would acknowledge a commit.
//! Per epoch: acknowledgements carry the epoch and all come from the node that the log names for
//! it.
//!
//! The first part may assume bounded clock rates, so it is silent from the first
//! [`Fact::ClockBound`](super::Fact::ClockBound)`(false)` on; and it does not count the owner that
//! an operator has declared lost, the stated exception. A node can only begin to be a writer when
//! its gate stands anew, when its authority changes or when its log is opened, so the gates of a
//! partition are looked at only then, and only while more than one of them stands as serving.

use narad_core::freeze::gate::Standing;
use narad_core::ids::{Epoch, NodeId, PartitionId};

use super::book::Book;
use super::part::{Began, Part, Serving};
use super::sink::Cx;
use crate::time::Time;

/// A gate stands anew.
pub(super) fn stood(part: &mut Part, node: NodeId, standing: Standing, now: Time) {
    let before = part.serving.iter().find(|serving| serving.node == node).copied();
    part.serving.retain(|serving| serving.node != node);
    if let Standing::Serving { epoch, in_play, .. } = standing {
        let before = before.filter(|before| before.epoch == epoch);
        let since = before.map_or(now, |before| before.since);
        part.serving.push(Serving { node, epoch, in_play, since });
    }
}

/// Looks at the gates of one partition.
pub(super) fn check(part: &Part, cx: &mut Cx<'_>) {
    if part.serving.len() < 2 {
        return;
    }
    let declared = part.reigns.iter().rev().find(|reign| reign.began == Began::Declared);
    let fenced = declared.map_or(Epoch(0), |reign| reign.epoch);
    let writers: Vec<NodeId> = part
        .serving
        .iter()
        .filter(|serving| serving.epoch >= fenced && cx.look.would_ack(serving.node, part.id))
        .map(|serving| serving.node)
        .collect();
    if writers.len() > 1 {
        cx.breach("S2", part.id, || format!("{writers:?} would all acknowledge a record now"));
    }
}

impl Book {
    /// A whole node may do more, or less.
    pub(super) fn check_writers(&self, node: NodeId, cx: &mut Cx<'_>) {
        if self.clocks_wild {
            return;
        }
        for part in self.parts.values().filter(|part| part.serving.len() > 1) {
            if part.serving.iter().any(|serving| serving.node == node) {
                check(part, cx);
            }
        }
    }

    /// A gate or a log has changed.
    pub(super) fn check_writers_of(&self, partition: PartitionId, cx: &mut Cx<'_>) {
        if let Some(part) = self.parts.get(&partition).filter(|_| !self.clocks_wild) {
            check(part, cx);
        }
    }
}

/// Records are acknowledged: only by the node that the log names for that epoch, and only in a life
/// that it has registered and is not over (H6, H32).
pub(super) fn acknowledged(part: &Part, node: NodeId, epoch: Epoch, cx: &mut Cx<'_>) {
    if cx.look.node(node).is_some_and(|it| !it.is_registered()) {
        cx.breach("S2", part.id, || {
            format!("{node:?} acknowledges in {epoch:?}, and its life is not registered")
        });
    }
    let named = part.reign(epoch).map(|reign| reign.owner);
    if named != Some(node) {
        cx.breach("S2", part.id, || {
            format!("{node:?} acknowledges in {epoch:?}, which the log gives to {named:?}")
        });
    }
}
