//! S12, planner minimality, and S13, fixpoint and no oscillation.
//!
//! S12: moves planned = sum over nodes of max(0, load - cap), caps in {floor(T/R), ceil(T/R)}; no
//! partition on a node within its share moves. S13: plan(apply(plan(x))) = empty; membership
//! constant implies total moves at most the minimal moves of the first plan.
//!
//! When a leader's controller asks for a target, the plan is made once more on the state that the
//! leader has, without limits, since limits only say when a move starts. The plan must pass
//! [`lint`], which shares no code with the planner; what was asked for must be one of its moves;
//! and with all of it applied, or all of it flipped, the next plan must be empty. Moves that take
//! effect are counted from one change of members, topics, pins or targets to the next: no more than
//! the first plan had. Operators' moves are no plan's; the end of a move from before is a change,
//! too, since its partition can be moved again; so is a forced flip, since a dead owner's partitions
//! count nowhere. No clock takes part.

use narad_core::controller::placement;
use narad_core::ids::{LogIndex, NodeId, PartitionId};
use narad_core::metastore::State;
use narad_core::plan::{Limits, Partition, Placement, Plan, lint, plan};

use super::sink::{Cx, Subject};

/// Most partitions of a placement that is linted: the linter looks at every pair.
const LINT_MAX: usize = 2_000;

/// What was planned, and how much of it took effect.
#[derive(Debug, Default)]
pub(super) struct Plans {
    /// The last plan that was made again, and of whose state.
    made: Option<Made>,
    /// What the first plan since the last change allows, and how many moves began since.
    budget: Option<(usize, usize)>,
    /// The last entry that changed something which a plan depends on.
    changed: LogIndex,
}

/// A plan that was made again.
#[derive(Debug)]
struct Made {
    node: NodeId,
    applied: LogIndex,
    moves: Vec<(PartitionId, NodeId)>,
}

impl Plans {
    /// A leader's controller asks for a target.
    pub(super) fn asked(
        &mut self,
        node: NodeId,
        partition: PartitionId,
        to: NodeId,
        cx: &mut Cx<'_>,
    ) {
        let Some(state) = cx.look.node(node).map(narad_core::node::Node::state) else { return };
        let applied = state.applied();
        let known =
            self.made.as_ref().is_some_and(|made| (made.node, made.applied) == (node, applied));
        if !known {
            let Some(moves) = judge(state, cx) else { return };
            self.made = Some(Made { node, applied, moves });
        }
        let moves = self.made.as_ref().map_or(&[][..], |made| &made.moves);
        if !moves.contains(&(partition, to)) {
            cx.breach("S12", partition, || {
                format!(
                    "{node:?} moves it to {to:?}, which is no move of a minimal plan: {moves:?}"
                )
            });
        }
    }

    /// A target is about to be looked at in `before`: the first one since something changed says
    /// how many there may be.
    pub(super) fn prepare(&mut self, before: &State) {
        self.budget.get_or_insert_with(|| {
            let placement = placement(before, |_, _| false);
            let moves = |placement| plan(&placement, &Limits::UNLIMITED).len();
            (placement.map_or(0, moves), 0)
        });
    }

    /// A controller's target took effect at `index`; its leader had applied everything up to
    /// `seen`.
    pub(super) fn begun(&mut self, index: LogIndex, seen: Option<LogIndex>, cx: &mut Cx<'_>) {
        if seen.is_some_and(|seen| seen < self.changed) {
            // It was planned for what is no more; what follows is another plan.
            self.change(index);
            return;
        }
        let Some((allowed, begun)) = &mut self.budget else { return };
        *begun += 1;
        let (allowed, begun) = (*allowed, *begun);
        if begun > allowed {
            cx.breach("S13", Subject::Cluster, || {
                format!("move {begun} begins although the first plan had {allowed}")
            });
        }
    }

    /// Whether a move that was set by an entry is none of the plans that count now: when it ends,
    /// its partition can be moved again.
    pub(super) fn is_foreign(&self, set: LogIndex) -> bool {
        set <= self.changed
    }

    /// An entry changed something that a plan depends on.
    pub(super) fn change(&mut self, index: LogIndex) {
        self.budget = None;
        self.changed = index;
    }
}

/// Plans once more and judges the plan. Returns its moves.
fn judge(state: &State, cx: &mut Cx<'_>) -> Option<Vec<(PartitionId, NodeId)>> {
    let before = placement(state, |_, _| false)?;
    let planned = plan(&before, &Limits::UNLIMITED);
    let small = before.partitions().len() <= LINT_MAX;
    let findings = if small { lint(&before, &planned.explain(&before)) } else { Vec::new() };
    if let Some(finding) = findings.first() {
        cx.breach("S12", Subject::Cluster, || format!("a plan is not minimal: {finding}"));
    }
    for (how, flipped) in [("planned", false), ("done", true)] {
        let Some(after) = carried_out(&before, &planned, flipped) else { continue };
        if let Some(again) = plan(&after, &Limits::UNLIMITED).all(&after).next() {
            cx.breach("S13", Subject::Cluster, || {
                format!("with a whole plan {how}, the next one has a move: {again}")
            });
        }
    }
    Some(planned.moves.iter().map(|planned| (planned.partition, planned.to)).collect())
}

fn carried_out(before: &Placement, planned: &Plan, flipped: bool) -> Option<Placement> {
    let partitions: Vec<Partition> = before
        .partitions()
        .iter()
        .map(|row| {
            let moves = &planned.moves;
            let to = moves.iter().find(|planned| planned.partition == row.id).map(|p| p.to);
            match to {
                Some(to) if flipped => Partition { owner: to, ..*row },
                Some(to) => Partition { target: Some(to), ..*row },
                None => *row,
            }
        })
        .collect();
    Placement::new(before.nodes().to_vec(), before.topics().to_vec(), partitions).ok()
}
