//! L1: every move terminates: flipped, aborted, or reported `NeedsOperator` (source disk gone and
//! copy behind); never silently stuck. Such a move holds no in-flight slot.
//!
//! After the world has begun to heal, and its ends reach each other and the leader, a move must end
//! within the patience of the run, or stage more bytes. One that does not must report a reason that
//! is true of the world: that a source does not answer is no reason while its process runs and is
//! connected, nor that it is dead once it may be promoted. Each try may find another reason, so the
//! last true one counts until the next try has had its time. What needs an operator (a promotion
//! that is refused, damage, a full or failing disk) may wait for ever, and must hold no slot if it
//! waits for a promotion.

use narad_core::ids::{Attempt, NodeId, PartitionId};
use narad_core::metastore::{Assignment, State, Status};
use narad_core::mover::{Phase, Progress, Waiting};

use super::healing::Healed;
use super::part::Part;
use super::sink::Cx;

/// What a move comes to at the end.
pub(super) enum Stand {
    /// It goes on, or has not had its time yet.
    Going,
    /// It says why it does not go on, and that is so.
    Waits(Waiting),
    /// Why it does not go on is known, although it does not say so at this moment.
    Reported(String),
    /// It does not go on.
    Stuck(String),
}

/// How much longer than the patience a move may take that goes on copying.
const COPYING_MAX: u32 = 10;

/// Takes note of how far a move to a node is. Tries that fail one after another get nowhere,
/// however busy they are: only more bytes are progress.
pub(super) fn watch(part: &mut Part, progress: &Progress, cx: &Cx<'_>) {
    if progress.staged_bytes > part.plan.staged {
        part.plan.staged = progress.staged_bytes;
        part.plan.moved = cx.now;
    }
}

/// Takes note that something of the world stands in the way of a move: what heals last, such as a
/// link between its ends, or to the leader that lets both of them act, leaves it a whole patience
/// to go on.
pub(super) fn hinder(part: &mut Part, owner: NodeId, target: NodeId, cx: &Cx<'_>) {
    let is_there = |node| cx.look.node(node).is_some();
    let leads = |leader| cx.look.talks(leader, owner) && cx.look.talks(leader, target);
    let together = is_there(owner) && is_there(target) && cx.look.talks(target, owner);
    if !(together && cx.look.leader().is_none_or(leads)) {
        part.plan.apart = cx.now;
    }
}

/// Judges the move that a row has.
pub(super) fn judge(
    part: &Part,
    row: &Assignment,
    target: NodeId,
    all: &Healed<'_>,
    cx: &Cx<'_>,
) -> Stand {
    let Some(node) = cx.look.node(target).filter(|_| all.is_well(target)) else {
        return Stand::Reported(format!("its target {target:?} is not there"));
    };
    let progress = node.moves().find(|(partition, _)| *partition == part.id).map(|(_, p)| p);
    let healed = all.since.max(all.leaderless).max(part.plan.apart);
    let began = part.plan.since.unwrap_or_default().max(healed);
    let patient = cx.now.since(began.max(part.plan.moved)) <= all.patience
        && cx.now.since(began) <= all.patience * COPYING_MAX;
    let Some(progress) = progress else {
        return if patient { Stand::Going } else { Stand::Stuck("nobody carries it out".into()) };
    };
    let Some(waiting) = progress.waiting else {
        // A try that has begun a moment ago has no reason of its own yet.
        return match told(part, all, cx) {
            _ if patient => Stand::Going,
            Some(reason) => Stand::Reported(reason.to_string()),
            None => Stand::Stuck(format!("it stands in {} without a reason", progress.phase)),
        };
    };
    let reported = format!("{waiting}");
    if holds_slot_in_vain(&progress, waiting) {
        return Stand::Stuck(format!("it holds a slot although {reported}"));
    }
    if is_true(part, row, target, waiting, all, cx) {
        Stand::Waits(waiting)
    } else if patient {
        Stand::Going
    } else if let Some(reason) = told(part, all, cx) {
        Stand::Reported(reason.to_string())
    } else {
        Stand::Stuck(format!("it says that {reported}, which is not so any more"))
    }
}

/// Returns what the move waited for when it last said something true, if it has not had the time
/// to find that out again: a try in between may end early, for want of one answer in time.
fn told(part: &Part, all: &Healed<'_>, cx: &Cx<'_>) -> Option<Waiting> {
    let (at, reason) = part.plan.told?;
    let moment = all.config.retry_max + all.config.request_timeout * 4;
    (cx.now.since(at) <= moment).then_some(reason)
}

/// Whether a move that only an operator can help counts as running.
fn holds_slot_in_vain(progress: &Progress, waiting: Waiting) -> bool {
    matches!(waiting, Waiting::PromoteRefused(_) | Waiting::Damaged { .. })
        && progress.holds_slot
        && progress.phase == Phase::Waiting
}

/// Whether what a move waits for is so.
fn is_true(
    part: &Part,
    row: &Assignment,
    target: NodeId,
    waiting: Waiting,
    all: &Healed<'_>,
    cx: &Cx<'_>,
) -> bool {
    let source = cx.look.node(row.owner).filter(|_| all.is_well(row.owner));
    let dead = all.state.member(row.owner).is_none_or(|owner| owner.status != Status::Alive);
    match waiting {
        Waiting::SourceUnreachable => source.is_none() || !cx.look.talks(target, row.owner),
        Waiting::SourceRefuses(_) => {
            part.is_damaged(row.owner, row.data)
                || source
                    .is_none_or(|source| source.fault(part.id).is_some() || !source.is_registered())
        }
        Waiting::PromoteRefused(_) => dead || source.is_none(),
        Waiting::SourceMalformed
        | Waiting::SourceRestarted
        | Waiting::SourceDead
        | Waiting::FlipRejected(_) => false,
        // What a disk lost behind its node's back is for an operator to repair.
        Waiting::CopyUnverifiable => part.has_holes(),
        Waiting::LeaderUnreachable => all.leader.is_none(),
        // These last as long as their causes, which are the operator's or the workload's.
        Waiting::Damaged { .. }
        | Waiting::FreezeDuty
        | Waiting::FreezeMax
        | Waiting::DiskFull
        | Waiting::Disk => true,
    }
}

/// A controller gives a target up: never that of a dead owner, whose copy may be the only way back
/// (H46).
pub(super) fn gives_up(state: &State, node: NodeId, partition: PartitionId, cx: &mut Cx<'_>) {
    let Some(row) = state.assignment(partition) else { return };
    let dead = state.member(row.owner).is_none_or(|owner| owner.status != Status::Alive);
    if dead && row.target.is_some() {
        cx.breach("L1", partition, || {
            format!("{node:?} gives its target up although {:?} is dead", row.owner)
        });
    }
}

/// A destination asks for a flip: never of a try that its own row calls burned.
pub(super) fn tries(
    state: &State,
    node: NodeId,
    partition: PartitionId,
    attempt: Attempt,
    cx: &mut Cx<'_>,
) {
    let row = state.assignment(partition).filter(|row| row.move_id == attempt.move_id);
    let burned = row.and_then(|row| row.burned).is_some_and(|burned| attempt.no <= burned);
    if burned {
        cx.breach("L1", partition, || format!("{node:?} tries {attempt:?} again, which is burned"));
    }
}

/// A move waits: it holds no slot if only an operator can help it.
pub(super) fn waits(partition: PartitionId, node: NodeId, cx: &mut Cx<'_>) {
    let Some(machines) = cx.look.node(node) else { return };
    let progress = machines.moves().find(|(of, _)| *of == partition).map(|(_, progress)| progress);
    let Some(progress) = progress else { return };
    if let Some(waiting) = progress.waiting.filter(|it| holds_slot_in_vain(&progress, *it)) {
        cx.breach("L1", partition, || format!("its move holds a slot although {waiting}"));
    }
}

/// A move is carried out although there is no such partition any more (H47).
pub(super) fn outlives(state: &State, node: NodeId, partition: PartitionId, cx: &mut Cx<'_>) {
    if state.assignment(partition).is_none() {
        cx.breach("L1", partition, || format!("{node:?} still moves it, and its topic is gone"));
    }
}
