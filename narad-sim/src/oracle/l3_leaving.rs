//! L3: decommission completes if receivers exist, sources live, voters - 1 >= `MinVoters`;
//! otherwise it reports the blocking reason.
//!
//! At the end of the healing a node that drains must be retired and out of the configuration,
//! unless the pre-flight names a blocker, moves are under way, one of its moves or another of their
//! topics (half of which stays where it is, S14) reports what it waits for, or its disk holds
//! records that nobody else is known to have, which it reports, or that it has accepted and not yet
//! brought to their owners. What is left to do once none of
//! that stands in its way any more has a few steps' time.

use narad_core::controller::preflight;
use narad_core::metastore::{Member, Status};

use super::healing::{Healed, steps};
use super::sink::Cx;

/// Returns why a node that drains is not out yet.
pub(super) fn waits_for(member: &Member, all: &Healed<'_>, cx: &Cx<'_>) -> Result<(), String> {
    let node = member.id;
    let blockers = preflight::decommission(all.state, node);
    if let Some(blocker) = blockers.first().filter(|_| !member.retired) {
        return Err(blocker.to_string());
    }
    if member.retired {
        return Ok(());
    }
    if member.status != Status::Alive || !all.is_well(node) {
        return Err("it is not there to drain itself out".into());
    }
    if all.state.policy().paused && all.state.owned_count(node) > 0 {
        return Err("moves are paused".into());
    }
    let waiting = all.state.owned_by(node).find(|partition| all.reported.contains_key(partition));
    if let Some(reason) = waiting.and_then(|partition| all.reported.get(&partition)) {
        return Err(reason.clone());
    }
    // One move after the other: L1 judges each, and S13 how many there are.
    if all.state.targeted().any(|partition| !all.reported.contains_key(&partition)) {
        return Err("moves are under way".into());
    }
    let mut topics = all.state.owned_by(node).map(|partition| partition.topic);
    let busy = topics.find_map(|topic| {
        all.state.targeted_of_topic(topic).find_map(|partition| all.reported.get(&partition))
    });
    if let Some(reason) = busy {
        return Err(format!("a move of its topic waits: {reason}"));
    }
    let machines = cx.look.node(node);
    // Whether that is for a reason, L6 judges.
    if machines.is_some_and(|machines| machines.backlog().records > 0) {
        return Err("records that it has accepted are on their way".into());
    }
    let left = machines.and_then(|node| node.left_behind().next());
    match left {
        Some(partition) => Err(format!("it holds records of {partition} that nobody else has")),
        None => Ok(()),
    }
}

/// Whether somebody wants a node to leave, and nothing stands in the way.
pub(super) fn may_leave(member: &Member, all: &Healed<'_>, cx: &Cx<'_>) -> bool {
    member.draining && waits_for(member, all, cx).is_ok()
}

/// Judges a node that drains or has been retired.
pub(super) fn check(member: &Member, all: &Healed<'_>, cx: &mut Cx<'_>) {
    let node = member.id;
    let free = cx.now.since(all.leaderless.max(all.witness(node).held));
    if !may_leave(member, all, cx) || all.leader.is_none() || free <= steps(all.config) {
        return;
    }
    if !member.retired {
        cx.breach("L3", node, || "its decommission neither ends nor says why".into());
    } else if all.state.configuration().contains(node) {
        cx.breach("L3", node, || "it is retired and still takes part in the log".into());
    }
}
