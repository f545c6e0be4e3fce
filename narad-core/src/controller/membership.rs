//! Who has a vote: joining nodes learn first, leaving nodes are replaced, then retired, then
//! removed; never the leader by itself.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Decisions, Note, Operation, Survey};
use crate::ids::NodeId;
use crate::metastore::{Command, Member, State, Status};

/// One step of the log's configuration. Level-triggered: a refused step is decided upon again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Change {
    /// The node receives the log without a vote.
    AddLearner(NodeId),
    /// A caught-up learner gets a vote.
    Promote(NodeId),
    /// The node takes no part any more.
    Remove(NodeId),
    /// One voter takes the place of another in a single joint step, so that the count never dips.
    Replace {
        /// The caught-up learner.
        add: NodeId,
        /// The retired voter.
        remove: NodeId,
    },
    /// Ends a joint change that its own leader did not live to end.
    LeaveJoint,
}

/// Proposes to retire each draining node on which nothing is left; the guards are judged when it
/// is applied (H24, H38).
pub(super) fn retire(state: &State, decisions: &mut Decisions) {
    for member in state.members() {
        let empty = state.owned_count(member.id) == 0 && state.inbound_count(member.id) == 0;
        if member.draining && member.drained_out && !member.retired && empty {
            decisions.propose(Command::Retire { node: member.id, receipt: None });
        }
    }
}

/// Decides upon at most one step of the configuration.
pub(super) fn configure(me: NodeId, state: &State, survey: &Survey, decisions: &mut Decisions) {
    let Some(step) = next_step(me, state, survey) else { return };
    let operation = match step {
        Step::Change(change) => {
            decisions.notes.push(Note::Configuring(change));
            Operation::Configure(change)
        }
        Step::HandOver { to } => {
            decisions.notes.push(Note::HandingOver { to });
            Operation::Transfer { to }
        }
    };
    decisions.operations.push(operation);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Change(Change),
    /// A leaving leader cannot be removed cleanly by itself (R88).
    HandOver {
        to: NodeId,
    },
}

fn next_step(me: NodeId, state: &State, survey: &Survey) -> Option<Step> {
    let configuration = state.configuration();
    if !configuration.voters_outgoing.is_empty() {
        return Some(Step::Change(Change::LeaveJoint));
    }
    let fit = |node: &NodeId| state.member(*node).is_some_and(stays);
    let ready: BTreeSet<NodeId> = configuration
        .learners
        .iter()
        .copied()
        .filter(|node| fit(node) && survey.is_caught_up(*node))
        .collect();

    remove_retired(me, state, survey, &ready)
        .or_else(|| promote(state, &ready))
        .or_else(|| add_learner(state))
}

/// Removes retired nodes: learners first, a leading one only after it has handed over.
fn remove_retired(
    me: NodeId,
    state: &State,
    survey: &Survey,
    ready: &BTreeSet<NodeId>,
) -> Option<Step> {
    let configuration = state.configuration();
    let retired = |node: &&NodeId| state.member(**node).is_some_and(|member| member.retired);
    if let Some(node) = configuration.learners.iter().find(retired) {
        return Some(Step::Change(Change::Remove(*node)));
    }
    let leaving: Vec<NodeId> = configuration.voters.iter().filter(retired).copied().collect();
    if let Some(node) = leaving.iter().find(|node| **node != me) {
        let change = match ready.first() {
            Some(add) => Change::Replace { add: *add, remove: *node },
            None => Change::Remove(*node),
        };
        return Some(Step::Change(change));
    }
    if leaving.contains(&me) {
        let heir = configuration
            .voters
            .iter()
            .copied()
            .filter(|node| *node != me && survey.is_caught_up(*node))
            .find(|node| state.member(*node).is_some_and(stays));
        return heir.map(|to| Step::HandOver { to });
    }
    None
}

/// Gives a caught-up learner a vote while there are too few voters who stay. A voter that drains
/// does not count: its replacement comes first, so that `MinVoters` blocks only when it must.
fn promote(state: &State, ready: &BTreeSet<NodeId>) -> Option<Step> {
    let staying = state
        .configuration()
        .voters
        .iter()
        .filter(|node| state.member(**node).is_some_and(|m| !m.draining && !m.retired))
        .count();
    let voters_max = usize::try_from(state.policy().voters_max).unwrap_or(usize::MAX);
    let next = ready.first().filter(|_| staying < voters_max)?;
    Some(Step::Change(Change::Promote(*next)))
}

/// Lets a registered member that takes no part yet receive the log.
fn add_learner(state: &State) -> Option<Step> {
    let newcomer = state.members().find(|member| {
        !member.retired
            && member.status == Status::Alive
            && !state.configuration().contains(member.id)
    })?;
    Some(Step::Change(Change::AddLearner(newcomer.id)))
}

fn stays(member: &Member) -> bool {
    member.status == Status::Alive && !member.draining && !member.retired
}
