//! S11, at the cursor: what a consumer was given and has not acknowledged in time is given to the
//! next one that asks, before anything behind it.
//!
//! Judged whenever a cursor hands records out, by the clock of its node. Within one opening of a log;
//! what is acknowledged meanwhile, passed by retention, or read in another reign is no matter.

use narad_core::cursor::Reserved;
use narad_core::ids::{NodeId, Offset};
use narad_core::time::Instant;

use super::part::Part;
use super::sink::Cx;

/// A cursor hands records out, of `most` that were wanted; those from `back` on are free again.
pub(super) fn reserved(
    part: &mut Part,
    node: NodeId,
    reserved: &Reserved,
    (most, back): (usize, Option<Offset>),
    cx: &mut Cx<'_>,
) {
    let present = part.last().map(|last| (last.owner, last.epoch));
    if part.consumers.opened_by != Some(node) || present != Some((node, reserved.epoch)) {
        return;
    }
    let Some(now) = cx.look.local(node) else { return };
    let consumers = &mut part.consumers;
    while let Some((until, offset)) = consumers.held.first().copied().filter(|(at, _)| *at <= now) {
        consumers.held.remove(&(until, offset));
        consumers.free.insert(offset);
    }
    let floor = part.last().map(|last| last.floor).unwrap_or_default();
    let done = part.consumers.committed.unwrap_or_default().max(floor);
    let mut free = part.consumers.free.split_off(&done);
    for run in &reserved.runs {
        free.retain(|offset| *offset < run.first || *offset >= run.end);
    }
    // What lies behind the last one was not to be handed out yet, if no more were wanted.
    let last = reserved.runs.last().map_or(Offset(0), |run| run.end);
    let due = if reserved.len() < most { Offset(u64::MAX) } else { last };
    let behind = free.split_off(&due);
    let is_acked = |offset: &Offset| {
        let reign = part.lineage(reserved.epoch, *offset);
        reign.is_some_and(|reign| reign.consumed.contains(offset.0 - reign.start.0))
    };
    let forgotten = free.iter().copied().find(|offset| !is_acked(offset));
    part.consumers.free = behind;
    for handle in reserved.handles() {
        if back.is_some_and(|back| handle.offset >= back) {
            part.consumers.free.insert(handle.offset);
        } else {
            part.consumers.held.insert((reserved.until, handle.offset));
        }
    }
    if let Some(forgotten) = forgotten {
        cx.breach("S11", part.id, || {
            format!(
                "{node:?} does not hand out {forgotten:?}, which nobody has acknowledged in time"
            )
        });
    }
}

/// A consumer keeps a record for longer, or hands it back until then.
pub(super) fn kept(part: &mut Part, node: NodeId, offset: Offset, until: Instant) {
    if part.consumers.opened_by == Some(node) {
        part.consumers.free.remove(&offset);
        part.consumers.held.retain(|(_, held)| *held != offset);
        part.consumers.held.insert((until, offset));
    }
}
