//! Who has a vote: joining nodes learn first, leaving nodes are replaced, then retired, then
//! removed; never the leader by itself.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Controller, Decisions, Note, Operation, Survey};
use crate::ids::{Incarnation, NodeId};
use crate::metastore::{Command, Configuration, Member, Reason, State, Status};
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

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

/// A retirement that was proposed, and what it was judged by: while that is the same, so is the
/// answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Retirement {
    judged_by: Situation,
    again: Instant,
    /// Why it was refused; `None` while that is not known.
    pub(super) refused: Option<Reason>,
}

/// Everything that the guard of a retirement looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Situation {
    configuration: Configuration,
    members: Vec<(NodeId, Status, bool)>,
    min_voters: u32,
}

impl Situation {
    fn of(state: &State) -> Self {
        let member = |member: &Member| (member.id, member.status, member.retired);
        Self {
            configuration: state.configuration().clone(),
            members: state.members().map(member).collect(),
            min_voters: state.policy().min_voters,
        }
    }
}

impl Controller {
    /// Proposes to retire each draining node on which nothing is left; the guards are judged when
    /// it is applied (H24, H38). What was refused is not asked again before something has changed.
    pub(super) fn retire(&mut self, now: Instant, state: &State, decisions: &mut Decisions) {
        let is_due = |member: &&Member| {
            let empty = state.owned_count(member.id) == 0 && state.inbound_count(member.id) == 0;
            let alive = member.status == Status::Alive;
            let drained = member.drained_out || !member.has_lived();
            member.draining && drained && !member.retired && alive && empty
        };
        let due: Vec<NodeId> = state.members().filter(is_due).map(|member| member.id).collect();
        self.retiring.retain(|node, _| due.contains(node));
        for node in due {
            let judged_by = Situation::of(state);
            let known = self.retiring.get(&node);
            if known.is_some_and(|known| known.judged_by == judged_by && now < known.again) {
                continue;
            }
            if decisions.propose(Command::Retire { node, receipt: None }) {
                let refused = known.and_then(|known| known.refused);
                let again = now.after(self.config.retry_max);
                self.retiring.insert(node, Retirement { judged_by, again, refused });
            }
        }
    }

    /// Decides upon at most one step of the configuration.
    pub(super) fn configure(
        &mut self,
        now: Instant,
        state: &State,
        survey: &Survey,
        decisions: &mut Decisions,
    ) {
        if self.waits_for_joint(now, state) {
            return;
        }
        let Some(step) = self.next_step(state, survey) else { return };
        let operation = match step {
            Step::Change(change) => {
                decisions.notes.push(Note::Configuring(change));
                Operation::Configure(change)
            }
            Step::HandOver { to } => {
                decisions.notes.push(Note::HandingOver { to });
                self.heirs.insert(to);
                Operation::Transfer { to }
            }
        };
        decisions.operations.push(operation);
    }

    /// Whether a joint change is under way that may still end by itself.
    fn waits_for_joint(&mut self, now: Instant, state: &State) -> bool {
        if state.configuration().voters_outgoing.is_empty() {
            self.joint_since = None;
            return false;
        }
        let since = *self.joint_since.get_or_insert(now);
        now.since(since) < self.config.request_timeout * 2
    }

    fn next_step(&self, state: &State, survey: &Survey) -> Option<Step> {
        let configuration = state.configuration();
        if !configuration.voters_outgoing.is_empty() {
            return Some(Step::Change(Change::LeaveJoint));
        }
        let fit = |node: &NodeId| state.member(*node).is_some_and(stays);
        let learners = configuration.learners.iter().copied();
        let ready: Vec<NodeId> =
            learners.filter(|node| fit(node) && survey.is_caught_up(*node)).collect();
        // The place of a voter that drains is free: its replacement comes before it goes, so that
        // `MinVoters` blocks only when it must.
        let staying = configuration.voters.iter().filter(|node| is_staying(state, **node)).count();
        let voters_max = usize::try_from(state.policy().voters_max).unwrap_or(usize::MAX);
        let next_voter = ready.first().copied().filter(|_| staying < voters_max);

        self.remove_retired(state, survey, next_voter)
            .or_else(|| next_voter.map(|node| Step::Change(Change::Promote(node))))
            .or_else(|| add_learner(state))
    }

    /// Removes retired nodes: learners first, a leading one only after it has handed over, and
    /// none without which the rest could not decide (S15).
    fn remove_retired(
        &self,
        state: &State,
        survey: &Survey,
        next_voter: Option<NodeId>,
    ) -> Option<Step> {
        let configuration = state.configuration();
        let retired = |node: &&NodeId| state.member(**node).is_some_and(|member| member.retired);
        if let Some(node) = configuration.learners.iter().find(retired) {
            return Some(Step::Change(Change::Remove(*node)));
        }
        let leaving: Vec<NodeId> = configuration.voters.iter().filter(retired).copied().collect();
        let may_go = |node: &NodeId| *node != self.me || is_planted(Bug::LeaderRemovesItself);
        if let Some(remove) = leaving.iter().copied().find(may_go) {
            let mut rest = configuration.voters.clone();
            rest.remove(&remove);
            rest.extend(next_voter);
            let change = match next_voter {
                Some(add) => Change::Replace { add, remove },
                None => Change::Remove(remove),
            };
            return has_healthy_majority(state, &rest).then_some(Step::Change(change));
        }
        if leaving.contains(&self.me) {
            return self.heir(state, survey).map(|to| Step::HandOver { to });
        }
        None
    }

    /// Chooses who leads after a leader that leaves (R88): one who stays, if one can take over, else
    /// one who drains and still has a vote, since its own leaving may be blocked for ever; among
    /// those one who has not been asked yet, if there is one, since who was asked may be gone.
    fn heir(&self, state: &State, survey: &Survey) -> Option<NodeId> {
        let fit = |node: &NodeId| {
            *node != self.me
                && survey.is_caught_up(*node)
                && state.member(*node).is_some_and(|member| is_healthy(member) && !member.retired)
        };
        let fit = state.configuration().voters.iter().copied().filter(fit);
        let (staying, leaving): (Vec<_>, Vec<_>) = fit.partition(|node| is_staying(state, *node));
        let heirs = if staying.is_empty() { leaving } else { staying };
        let unasked = heirs.iter().find(|node| !self.heirs.contains(node));
        unasked.or_else(|| heirs.first()).copied()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Change(Change),
    /// A leaving leader cannot be removed cleanly by itself (R88).
    HandOver {
        to: NodeId,
    },
}

/// Lets a member that takes no part yet receive the log, without which it cannot even register.
fn add_learner(state: &State) -> Option<Step> {
    let newcomer = state
        .members()
        .find(|member| !member.retired && !state.configuration().contains(member.id))?;
    Some(Step::Change(Change::AddLearner(newcomer.id)))
}

fn has_healthy_majority(state: &State, voters: &BTreeSet<NodeId>) -> bool {
    let healthy = |node: &&NodeId| state.member(**node).is_some_and(is_healthy);
    voters.iter().filter(healthy).count() > voters.len() / 2
}

/// Whether a member takes part as far as anybody knows: alive, and registered at least once.
fn is_healthy(member: &Member) -> bool {
    member.status == Status::Alive && member.incarnation > Incarnation(0)
}

fn is_staying(state: &State, node: NodeId) -> bool {
    state.member(node).is_some_and(|member| !member.draining && !member.retired)
}

fn stays(member: &Member) -> bool {
    member.is_receiver()
}
