//! S7, consumer position. `committed(p)` is monotone along the lineage, at most the high watermark,
//! never ahead of what some consumer acknowledged; at a flip the loss is only acknowledgements at
//! the old owner after the capture, and bounded by the lease and the apply lag.
//!
//! Every acknowledgement that an owner takes is kept by the record's place in the lineage. Whatever
//! an owner says of its position is compared with it, from the last place on that was proven.
//! Positions are written to the disk now and then, so a life, or a log that is opened again after
//! its disk failed, may begin behind what was before, though not before what its reign began with;
//! in between they only grow. A capture must hold
//! every acknowledgement that its life took before it, the flip must carry what the capture said,
//! and the new owner must begin with it. What a cursor hands out for the first time follows what it
//! has handed out before, but for what was acknowledged: nothing is skipped. The bound in time is checked while clock rates are.

use narad_core::cursor::Reserved;
use narad_core::ids::{Attempt, Epoch, Incarnation, NodeId, Offset};
use narad_core::partition::{Capture, Position};

use super::part::{Began, Hold, Part};
use super::sink::Cx;

/// A node, its life and its reign.
type Owner = (NodeId, Incarnation, Epoch);

/// An owner takes an acknowledgement. `limit`: how long after its reign it may.
pub(super) fn taken(
    part: &mut Part,
    (node, life, epoch): Owner,
    (fetched, offset): (Epoch, Offset),
    limit: Option<std::time::Duration>,
    cx: &mut Cx<'_>,
) {
    // What the consumer has seen is a record of that reign, whoever takes its word for it.
    if let Some(reign) = part.lineage_mut(fetched, offset) {
        let at = offset.0 - reign.start.0;
        reign.consumed.insert(at);
    }
    if part.last().is_some_and(|last| last.epoch == epoch) {
        follow(part, node, life, epoch);
        if part.consumers.committed.is_none_or(|committed| offset >= committed) {
            part.consumers.taken.insert(offset);
        }
    }
    let Some(limit) = limit else { return };
    let next = part.reigns.iter().find(|reign| reign.epoch > epoch);
    let next = next.filter(|next| next.began != Began::Declared);
    if let Some(late) = next.map(|next| cx.now.since(next.at)).filter(|late| *late > limit) {
        cx.breach("S7", part.id, || {
            format!("{node:?} takes acknowledgements {late:?} after {epoch:?} ended")
        });
    }
}

/// The lives of owners follow each other: what the last one took counts for itself only.
fn follow(part: &mut Part, node: NodeId, life: Incarnation, epoch: Epoch) {
    let now = Some((node, life, epoch));
    if part.consumers.life != now {
        part.consumers.life = now;
        part.consumers.committed = None;
        part.consumers.taken.clear();
    }
}

/// An owner says where its consumers stand.
pub(super) fn stands(
    part: &mut Part,
    (node, life, epoch): Owner,
    position: &Position,
    hwm: Offset,
    cx: &mut Cx<'_>,
) {
    let committed = position.committed.unwrap_or_default();
    let ahead = position.acked_ahead.last().map_or(committed, |last| last.next().max(committed));
    if ahead > hwm {
        cx.breach("S7", part.id, || {
            format!("{node:?} has {ahead:?} acknowledged, past the high watermark {hwm:?}")
        });
    }
    if part.last().is_none_or(|last| last.epoch != epoch) {
        // A deposed owner that has not heard of it yet: its positions are nobody's any more.
        return;
    }
    follow(part, node, life, epoch);
    let reign = part.last().map_or(Offset(0), |last| last.committed.unwrap_or_default());
    let least = part.consumers.committed.unwrap_or_default().max(reign);
    let damaged = part.last().is_some_and(|last| part.is_damaged(node, last.data));
    if committed < least && !damaged {
        cx.breach("S7", part.id, || format!("{node:?} falls back to {committed:?} from {least:?}"));
    }
    prove(part, node, epoch, committed, cx);
    part.consumers.committed = Some(committed);
    while part.consumers.taken.first().is_some_and(|first| *first < committed) {
        part.consumers.taken.pop_first();
    }
}

/// Everything below a committed offset was acknowledged by some consumer, or is past retention.
fn prove(part: &mut Part, node: NodeId, epoch: Epoch, committed: Offset, cx: &mut Cx<'_>) {
    let floor = part.last().map(|last| last.floor).unwrap_or_default();
    let mut next = part.consumers.proven.max(floor);
    while next < committed {
        let known = part.lineage(epoch, next);
        let proven = known.is_some_and(|reign| reign.consumed.contains(next.0 - reign.start.0));
        if !proven {
            cx.breach("S7", part.id, || {
                format!("{node:?} is committed to {committed:?}, but nobody acknowledged {next:?}")
            });
            break;
        }
        next = next.next();
    }
    part.consumers.proven = part.consumers.proven.max(next.min(committed));
}

/// A log was opened: its position is its own, or what its flip brought.
pub(super) fn opened(
    part: &mut Part,
    (node, life): (NodeId, Incarnation),
    (data, position, hwm): (Attempt, &Position, Offset),
    cx: &mut Cx<'_>,
) {
    let Some(last) = part.last().filter(|last| (last.owner, last.data) == (node, data)) else {
        return;
    };
    let (epoch, floor) = (last.epoch, last.floor);
    // What was not on the disk when the log was closed, perhaps because the disk had failed, is
    // forgotten: this is as good as another life.
    part.consumers.life = None;
    (part.consumers.opened_by, part.consumers.opened) = (Some(node), cx.now);
    part.consumers.held.clear();
    part.consumers.free.clear();
    part.consumers.next = position.committed.unwrap_or_default();
    // A first life of a reign begins with what was captured; later ones may have gone on.
    if let Some(moved) = part.consumers.moved.take() {
        let lost = moved.acked_ahead.iter().filter(|offset| **offset >= floor).find(|offset| {
            position.committed.is_none_or(|committed| **offset >= committed)
                && position.acked_ahead.binary_search(offset).is_err()
        });
        if let Some(lost) = lost {
            cx.breach("S7", part.id, || {
                format!("{node:?} begins without {lost:?}, acknowledged before the capture")
            });
        }
    }
    stands(part, (node, life, epoch), position, hwm, cx);
}

/// A consumer that read in an earlier reign goes on: at the beginning of the next one, if it was
/// past that, since other records have its offsets from there on.
pub(super) fn goes_on(
    part: &Part,
    node: NodeId,
    (epoch, at): (Epoch, Offset),
    from: Offset,
    cx: &mut Cx<'_>,
) {
    let next = part.reigns.iter().find(|reign| reign.epoch > epoch).map(|reign| reign.start);
    if let Some(next) = next.filter(|next| from > at.min(*next)) {
        cx.breach("S7", part.id, || {
            format!(
                "a consumer that was at {at:?} of {epoch:?} goes on at {from:?} of {node:?}, past \
                 {next:?}, where the next reign begins"
            )
        });
    }
}

/// A cursor hands records out: those that it has never handed out before follow each other, but for
/// what was acknowledged.
pub(super) fn reserved(part: &mut Part, node: NodeId, reserved: &Reserved, cx: &mut Cx<'_>) {
    let epoch = reserved.epoch;
    if part.consumers.opened_by != Some(node) || part.last().map(|last| last.epoch) != Some(epoch) {
        return;
    }
    let floor = part.last().map(|last| last.floor).unwrap_or_default();
    // Nor is it known of every reign what was acknowledged in it.
    let done = part.consumers.committed.unwrap_or_default().max(floor).max(part.consumers.proven);
    for run in &reserved.runs {
        if run.end <= part.consumers.next {
            continue;
        }
        let mut next = part.consumers.next.max(done);
        while next < run.first {
            let known = part.lineage(epoch, next);
            if !known.is_some_and(|reign| reign.consumed.contains(next.0 - reign.start.0)) {
                cx.breach("S7", part.id, || {
                    format!("{node:?} hands out {:?} and has skipped {next:?}", run.first)
                });
                break;
            }
            next = next.next();
        }
        part.consumers.next = run.end;
    }
}

/// A source captures where its consumers stand.
pub(super) fn captured(part: &mut Part, owner: Owner, capture: &Capture, cx: &mut Cx<'_>) {
    let (node, position) = (owner.0, &capture.position);
    stands(part, owner, position, capture.listing.hwm, cx);
    if part.consumers.life != Some(owner) {
        return;
    }
    // What retention has taken needs no acknowledgement.
    let mut taken = part.consumers.taken.range(capture.listing.start..);
    let lost = taken.find(|offset| position.acked_ahead.binary_search(offset).is_err());
    if let Some(lost) = lost.copied() {
        cx.breach("S7", part.id, || {
            format!("{node:?} captures without {lost:?}, which it took an acknowledgement of")
        });
    }
}

/// A normal flip takes effect: it carries what the capture said. Returns what the reign begins with.
pub(super) fn flipped(
    part: &mut Part,
    hold: &Hold,
    committed: Option<Offset>,
    cx: &mut Cx<'_>,
) -> Option<Offset> {
    let captured = hold.capture.position.committed;
    if committed != captured {
        cx.breach("S7", part.id, || {
            format!("a flip carries the position {committed:?}, {captured:?} was captured")
        });
    }
    part.consumers.moved = Some(hold.capture.position.clone());
    captured
}
