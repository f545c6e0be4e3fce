//! S6, force-promote gate. A forced flip at index i requires, in the state at i: status dead,
//! certificate generation and incarnation equal to the proposal's, `copied_end` at least every high
//! watermark that was reported in the epoch, proposer = target, and a session that saw the source.
//! The source has been dead for as long as its leases could last.
//!
//! Judged by the row and the member as they were before the entry, and by the reports and listings
//! that were seen, not by what the fold made of them. A listing counts if the owner answered it to
//! this target for this very move (H30). Only how long the death has
//! lasted is judged by a clock, while rates are bounded.

use narad_core::ids::{Attempt, Generation, NodeId, Offset};
use narad_core::metastore::{Assignment, State, Status};

use super::part::Part;
use super::sink::Cx;
use crate::time::Time;

/// A forced flip took effect, whose owner died at `died`: it must have been dead for as long as it
/// was granted at its death, by a clock that runs as fast as the policy allows.
pub(super) fn waited(part: &Part, owner: NodeId, state: &State, died: Time, cx: &mut Cx<'_>) {
    let Some(due) = state.member(owner).map(|owner| owner.timing.promote_after) else { return };
    let fastest = 100 + state.policy().clock_rate_error_percent;
    let least = due * 100 / fastest;
    let dead_for = cx.now.since(died);
    if dead_for < least {
        cx.breach("S6", part.id, || {
            format!("a forced flip passes {dead_for:?} after {owner:?} died, {due:?} are due")
        });
    }
}

/// A forced flip took effect; `state` is after it, `row` before it.
pub(super) fn flipped(
    part: &Part,
    row: &Assignment,
    state: &State,
    by: NodeId,
    (attempt, generation, end): (Attempt, Generation, Offset),
    cx: &mut Cx<'_>,
) {
    // A flip changes no member, so its owner is after it what it was before.
    let status = state.member(row.owner).map(|member| member.status);
    let reported = part.reign(row.epoch).map(|reign| reign.reported).unwrap_or_default();
    let unseen = !part.sessions.contains(&(attempt.move_id, attempt.destination));
    let wrong = if status != Some(Status::Dead(generation)) {
        Some(format!("its owner is {status:?}, not dead under {generation:?}"))
    } else if end < reported {
        Some(format!("its copy ends at {end:?}, but {reported:?} was reported visible"))
    } else if row.target != Some(by) || attempt.destination != by {
        Some(format!("{by:?} is not the target"))
    } else if unseen {
        Some(format!("{by:?} has no listing of the source for {:?}", attempt.move_id))
    } else {
        None
    };
    if let Some(wrong) = wrong {
        cx.breach("S6", part.id, || format!("a forced flip passes although {wrong}"));
    }
}
