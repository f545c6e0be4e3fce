//! S11, at-least-once. Every record that was answered with 202 is delivered at least once to a
//! consumer that keeps acknowledging; duplicates only at named seams.
//!
//! At the end of the liveness phase every acknowledged or accepted record must have been delivered,
//! unless S1 excuses it, its partition reports why it is not served, a node reports that it holds
//! what a flip left behind, a disk lost bytes that stop a reader, or its consumers have not come to
//! the end yet. A record that one life of an
//! owner has taken the acknowledgement of must not be handed out by that life again: a seam is a
//! change of owner, of life, or a reservation that ran out.

use std::time::Duration;

use narad_core::ids::{Epoch, Incarnation, NodeId, Offset};

use super::ingress::Promise;
use super::part::{Acked, Part};
use super::sets::Ids;
use super::sink::{Cx, Subject};
use super::{Read, s01_no_gap};

/// Deliveries of a run.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// Every record that was delivered.
    pub(super) seen: Ids,
    pub(super) delivered: u64,
    pub(super) duplicates: u64,
}

impl Deliveries {
    /// Records are handed to a consumer.
    pub(super) fn delivered(&mut self, ids: &[u64]) {
        let new = ids.iter().filter(|id| self.seen.insert(**id)).count() as u64;
        self.delivered += ids.len() as u64;
        self.duplicates += ids.len() as u64 - new;
    }
}

/// Records are handed out.
pub(super) fn handed_out(
    part: &Part,
    (node, life, epoch): (NodeId, Incarnation, Epoch),
    (first, count): (Offset, usize),
    how: Read,
    cx: &mut Cx<'_>,
) {
    if how == Read::Plain || part.consumers.life != Some((node, life, epoch)) {
        return;
    }
    let committed = part.consumers.committed.unwrap_or_default();
    let again = (first.0..)
        .take(count)
        .map(Offset)
        .find(|offset| *offset < committed || part.consumers.taken.contains(offset));
    if let Some(again) = again {
        cx.breach("S11", part.id, || {
            format!("{node:?} hands out {again:?} again, whose acknowledgement it took")
        });
    }
}

/// Whether consumers may not have come to the end yet: something came or was delivered within a
/// moment, or is reserved. Who leaves much unacknowledged is given nothing until that is free again,
/// and then the same records before new ones. An opening frees everything that was reserved, for
/// consumers that have yet to come to it: so an opening within a moment is as good as a delivery.
/// A world does not end in that moment if anything is [missed](is_awaited).
pub(super) fn is_under_way(part: &Part, moment: Duration, cx: &Cx<'_>) -> bool {
    let local = part.consumers.opened_by.and_then(|node| cx.look.local(node));
    let until = part.consumers.held.last().map(|(until, _)| until.after(moment));
    let last = part.delivered.max(part.grew).max(part.consumers.opened);
    cx.now.since(last) <= moment || until.is_some_and(|until| local.is_some_and(|now| now <= until))
}

/// Whatever was acknowledged in a partition that is served was delivered. `left`: nodes that report
/// that they hold what a flip left behind. `moment`: see [`is_under_way`].
pub(super) fn finish(
    part: &Part,
    deliveries: &Deliveries,
    left: &[NodeId],
    moment: Duration,
    cx: &mut Cx<'_>,
) {
    if is_under_way(part, moment, cx) || part.has_holes() {
        return;
    }
    if let Some(Acked { id, offset, epoch }) = missed(part, deliveries, left) {
        cx.breach("S11", part.id, || {
            format!("record {id}, acknowledged at {offset:?} in {epoch:?}, was never delivered")
        });
    }
}

/// Whether something is missed for no other reason than that the log was opened a moment ago.
pub(super) fn is_awaited(
    part: &Part,
    deliveries: &Deliveries,
    left: &[NodeId],
    moment: Duration,
    cx: &Cx<'_>,
) -> bool {
    cx.now.since(part.consumers.opened) <= moment
        && cx.now.since(part.delivered.max(part.grew)) > moment
        && missed(part, deliveries, left).is_some()
}

/// Returns a record that was acknowledged and not delivered, and is not excused.
fn missed<'a>(part: &'a Part, deliveries: &Deliveries, left: &[NodeId]) -> Option<&'a Acked> {
    part.acked.iter().find(|acked| {
        !deliveries.seen.contains(acked.id) && !s01_no_gap::is_excused(part, acked, left)
    })
}

/// Whatever was accepted was delivered; `excused`: records of it that may be gone, or are on their
/// way for a reason.
pub(super) fn finish_accepted(
    promised: &[Promise],
    deliveries: &Deliveries,
    excused: &Ids,
    cx: &mut Cx<'_>,
) {
    let missed =
        promised.iter().find(|it| !deliveries.seen.contains(it.id) && !excused.contains(it.id));
    if let Some(Promise { id, node, topic }) = missed {
        cx.breach("S11", Subject::Cluster, || {
            format!("record {id} of {topic:?} was accepted by {node:?} and was never delivered")
        });
    }
}
