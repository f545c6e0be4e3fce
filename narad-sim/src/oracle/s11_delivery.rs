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

/// Whatever was acknowledged in a partition that is served was delivered. `left`: nodes that report
/// that they hold what a flip left behind. `moment`: how long nothing has been delivered if its
/// consumers have come to the end. One that leaves much unacknowledged is given the same records
/// again before it is given new ones.
pub(super) fn finish(
    part: &Part,
    deliveries: &Deliveries,
    left: &[NodeId],
    moment: Duration,
    cx: &mut Cx<'_>,
) {
    if cx.now.since(part.delivered.max(part.grew)) <= moment || part.has_holes() {
        return;
    }
    let missed = part.acked.iter().find(|acked| {
        !deliveries.seen.contains(acked.id) && !s01_no_gap::is_excused(part, acked, left)
    });
    if let Some(Acked { id, offset, epoch }) = missed {
        cx.breach("S11", part.id, || {
            format!("record {id}, acknowledged at {offset:?} in {epoch:?}, was never delivered")
        });
    }
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
