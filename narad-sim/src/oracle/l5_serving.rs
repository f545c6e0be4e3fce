//! L5, consume: a partition whose owner is up with a lease serves within one apply.
//!
//! Judged at the end of the healing: the owner that the log names, if its process runs and is
//! connected, serves the partition in that epoch, or reports why its log cannot be opened. After
//! the patience of the run, an owner that has served for a while must not turn a reader away. At any
//! time, an owner that is registered, has a lease and is frozen must not turn a consumer away for
//! that.

use narad_core::ids::NodeId;
use narad_core::metastore::Assignment;

use super::healing::Healed;
use super::part::Part;
use super::sink::Cx;

/// Returns why a partition is not served, if its owner says so or is not there.
pub(super) fn waits_for(
    part: &Part,
    row: &Assignment,
    all: &Healed<'_>,
    cx: &Cx<'_>,
) -> Option<String> {
    let Some(owner) = cx.look.node(row.owner).filter(|_| all.is_well(row.owner)) else {
        return Some(format!("its owner {:?} is not there", row.owner));
    };
    // While it looks again, it says nothing.
    let damaged = part.is_damaged(row.owner, row.data) && owner.serving(part.id).is_none();
    let lost = || damaged.then(|| "its owner's disk has lost it".to_owned());
    owner.fault(part.id).map(|fault| fault.to_string()).or_else(lost)
}

/// Judges a partition.
pub(super) fn check(part: &Part, row: &Assignment, all: &Healed<'_>, cx: &mut Cx<'_>) {
    if waits_for(part, row, all, cx).is_some() || all.leader.is_none() {
        return;
    }
    let serving = cx.look.node(row.owner).and_then(|owner| owner.serving(part.id));
    if serving != Some(row.epoch) {
        cx.breach("L5", part.id, || {
            let (owner, epoch) = (row.owner, row.epoch);
            format!("{owner:?} owns it in {epoch:?} and serves {serving:?}, and says no reason")
        });
    }
}

/// A reader was turned away by a node that may serve: a freeze is no reason (R48).
pub(super) fn refused_while_frozen(part: &Part, node: NodeId, cx: &mut Cx<'_>) {
    let present = part.last().map(|last| (last.owner, last.epoch));
    let frozen = part
        .freezes
        .iter()
        .any(|frozen| frozen.until.is_none() && present == Some((frozen.node, frozen.token.epoch)));
    let serves = part.serving.iter().any(|it| present == Some((it.node, it.epoch)));
    // Its consumers had been served before it froze.
    let had_begun = part.consumers.life.is_some_and(|(owner, ..)| owner == node);
    if frozen && serves && had_begun && present.is_some_and(|(owner, _)| owner == node) {
        cx.breach("L5", part.id, || format!("{node:?} turns a consumer away while it is frozen"));
    }
}

/// A reader was turned away, now or a moment ago.
pub(super) fn refused(part: &Part, node: NodeId, all: &Healed<'_>, cx: &mut Cx<'_>) {
    let present = part.last().map(|last| (last.owner, last.epoch));
    let gate = part.serving.iter().find(|serving| present == Some((serving.node, serving.epoch)));
    let Some(gate) = gate.filter(|gate| gate.node == node && all.had_its_time(cx)) else { return };
    let serves = cx.look.node(node).and_then(|owner| owner.serving(part.id)).is_some();
    // Whatever made it refuse before is over by then, and its lease renewed.
    let moment = all.config.request_timeout * 4;
    // A record that its disk has lost cannot be read.
    if serves
        && !part.has_holes()
        && all.is_well(node)
        && cx.now.since(gate.since.max(all.leaderless)) > moment
    {
        cx.breach("L5", part.id, || format!("{node:?} serves it and turns a reader away"));
    }
}
