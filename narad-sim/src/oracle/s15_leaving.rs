//! S15, drain. Voters are never fewer than `MinVoters`; a removal never leaves healthy voters below
//! the quorum of the result; removed implies retired implies owns nothing and is no target; a
//! cancelled drain is never removed; the leader is not removed while leading.
//!
//! Retirement is judged by the rows before the entry, one by one, not by the fold's index. A
//! cluster that has not grown to `MinVoters` yet may be smaller; only a removal may not make it so.
//! The health of the rest is judged when a leader asks for the removal, by what it has applied:
//! nobody can know who dies between that and the commit. No clock takes part.

use narad_core::controller::Change;
use narad_core::ids::{Incarnation, NodeId};
use narad_core::metastore::{Configuration, Member, State, Status};

use super::Directory;
use super::part::Part;
use super::s10_proof::{self, Fate};
use super::sink::Cx;

/// A node was retired: `before` is what it was.
pub(super) fn retired(before: &Member, state: &State, receipt: bool, cx: &mut Cx<'_>) {
    let node = before.id;
    let owns = state.assignments().any(|(_, row)| row.owner == node);
    let awaits = state.assignments().any(|(_, row)| row.target == Some(node));
    let alive = before.status == Status::Alive;
    let wrong = if !before.draining {
        Some("nobody is draining it")
    } else if owns {
        Some("it owns partitions")
    } else if awaits {
        Some("it is a target")
    } else if alive && !before.drained_out {
        Some("it has not drained out")
    } else if !alive && !receipt {
        Some("it is dead and nobody gave a receipt")
    } else {
        None
    };
    if let Some(wrong) = wrong {
        cx.breach("S15", node, || format!("it is retired although {wrong}"));
    }
    let configuration = state.configuration();
    if configuration.voters.contains(&node) {
        let rest = staying(state, configuration);
        enough(state, &rest, node, "retiring", cx);
        healthy(state, &rest, node, "retiring", cx);
    }
}

/// A node has said that nothing is left on it: what a flip did not capture must not be.
pub(super) fn drained(part: &Part, state: Option<&State>, node: NodeId, cx: &mut Cx<'_>) {
    let row = state.and_then(|state| state.assignment(part.id));
    for directory in cx.look.directories(node, part.id) {
        let Directory::Installed(data) = directory else { continue };
        if let Fate::Residue(from) = s10_proof::fate(part, row, data) {
            cx.breach("S15", node, || {
                let partition = part.id;
                format!("it says that it is drained, with {partition:?} from {from:?} on its disk")
            });
        }
    }
}

/// A node is given something: it must not be one that was retired.
pub(super) fn given(state: &State, node: NodeId, what: &str, cx: &mut Cx<'_>) {
    if state.member(node).is_some_and(|member| member.retired) {
        cx.breach("S15", node, || format!("it was retired and becomes {what}"));
    }
}

/// A configuration was applied for the first time; `state` is as it was before.
/// `leader`: who leads, unless somebody else asked for its removal, which it could not help.
pub(super) fn configured(
    state: &State,
    next: &Configuration,
    leader: Option<NodeId>,
    cx: &mut Cx<'_>,
) {
    let voters = next.voters.iter().copied().collect::<Vec<_>>();
    for node in state.configuration().voters.difference(&next.voters) {
        let member = state.member(*node);
        if !member.is_some_and(|member| member.retired) {
            cx.breach("S15", *node, || "it is removed before it is retired".into());
        }
        if !member.is_some_and(|member| member.draining) {
            cx.breach("S15", *node, || "it is removed although its drain was cancelled".into());
        }
        let owns =
            state.assignments().any(|(_, row)| row.owner == *node || row.target == Some(*node));
        if owns {
            cx.breach("S15", *node, || "it is removed while it owns or awaits something".into());
        }
        if leader == Some(*node) {
            cx.breach("S15", *node, || "it is removed while it leads".into());
        }
        enough(state, &voters, *node, "removing", cx);
    }
}

/// Returns the voters that are not retired.
fn staying(state: &State, configuration: &Configuration) -> Vec<NodeId> {
    let stays = |node: &NodeId| !state.member(*node).is_some_and(|member| member.retired);
    configuration.voters.iter().copied().filter(stays).collect()
}

/// A leader asks for a change of who takes part; `state` is what it has applied.
pub(super) fn configuring(state: &State, change: Change, cx: &mut Cx<'_>) {
    let mut rest = state.configuration().voters.clone();
    let node = match change {
        Change::Remove(node) => node,
        Change::Replace { add, remove } => {
            rest.insert(add);
            remove
        }
        Change::AddLearner(_) | Change::Promote(_) | Change::LeaveJoint => return,
    };
    if rest.remove(&node) {
        healthy(state, &rest.into_iter().collect::<Vec<_>>(), node, "removing", cx);
    }
}

/// Whether voters without a node are as many as the policy asks for.
fn enough(state: &State, rest: &[NodeId], node: NodeId, doing: &str, cx: &mut Cx<'_>) {
    let all = rest.len();
    let least = usize::try_from(state.policy().min_voters).unwrap_or(usize::MAX);
    if all < least {
        cx.breach("S15", node, || format!("{doing} it leaves {all} voters of at least {least}"));
    }
}

/// Whether voters without a node are mostly healthy.
fn healthy(state: &State, rest: &[NodeId], node: NodeId, doing: &str, cx: &mut Cx<'_>) {
    let healthy = |node: &&NodeId| {
        state.member(**node).is_some_and(|member| {
            member.status == Status::Alive && member.incarnation > Incarnation(0)
        })
    };
    let (all, alive) = (rest.len(), rest.iter().filter(healthy).count());
    if alive <= all / 2 {
        cx.breach("S15", node, || format!("{doing} it leaves {alive} healthy voters of {all}"));
    }
}
