//! First owners, new targets, and targets that cannot take what they were given.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Controller, Decisions, Note};
use crate::ids::{NodeId, PartitionId, TopicId};
use crate::metastore::{Assignment, Command, State, Status};
use crate::plan::{self, Limits, Placement, Role, TopicLimit};
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

impl Controller {
    /// Gives partitions without an owner their first one (cases K107 and M135), as many as one
    /// pass may.
    pub(super) fn assign(&self, state: &State, decisions: &mut Decisions) {
        let born = runs(state.unassigned().take(decisions.room()));
        if born.is_empty() {
            return;
        }
        let Some(mut placement) = self.placement(state) else { return };
        for (topic, indices) in born {
            let parent = state.topic(topic).and_then(|topic| topic.parent);
            let shape = plan::Topic { id: topic, parent };
            let Ok(owners) = plan::assign(&placement, shape, indices.clone()) else { return };
            let ids = indices.map(|index| PartitionId { topic, index });
            let placed: Vec<(PartitionId, NodeId)> = ids.zip(owners).collect();
            for &(partition, node) in &placed {
                decisions.propose(Command::AssignPartition { partition, node });
            }
            let Some(grown) = with(&placement, &placed) else { return };
            placement = grown;
        }
    }

    /// Plans moves over the final placement (R69 to R76), and proposes those that may start now.
    ///
    /// Nothing is planned again while nothing has changed since a plan that started nothing.
    pub(super) fn plan(&mut self, state: &State, decisions: &mut Decisions) {
        if state.policy().paused || self.planned == Some(state.applied()) {
            return;
        }
        let Self { ledger, hearing, .. } = self;
        let planner = ledger.planner(state, |partition, row| hearing.is_stuck(partition, row));
        let Some(planner) = planner else { return };
        let moves = planner.top_up(&limits(state));
        let deferred = planner.planned() - moves.len();
        let mut started = 0;
        for planned in &moves {
            let Some(row) = state.assignment(planned.partition) else { continue };
            if decisions.busy.contains(&planned.partition) {
                continue;
            }
            let (partition, to) = (planned.partition, planned.to);
            let set = Command::SetTarget { partition, expect: row.expect(), to };
            started += u32::from(decisions.propose(set));
        }
        self.planned = moves.is_empty().then_some(state.applied());
        if started > 0 {
            let deferred = u32::try_from(deferred).unwrap_or(u32::MAX);
            decisions.notes.push(Note::Planned { started, deferred });
        }
    }

    /// Clears the targets of moves that cannot end: the target has been dead for too long, drains
    /// or is retired (cases K100 and K109, field fault 37). Never while the owner is dead: its
    /// copy at the target may be the only way back (H46).
    pub(super) fn give_up_targets(
        &mut self,
        now: Instant,
        state: &State,
        decisions: &mut Decisions,
    ) {
        self.dead_since.retain(|node, _| is_dead(state, *node));
        for partition in state.targeted() {
            let Some(row) = state.assignment(partition) else { continue };
            let Some(target) = row.target else { continue };
            let since = is_dead(state, target)
                .then(|| *self.dead_since.entry(target).or_insert(now))
                .filter(|since| now.since(*since) >= self.config.dead_target_after);
            let leaving =
                state.member(target).is_none_or(|member| member.draining || member.retired);
            let kept = is_dead(state, row.owner) && !is_planted(Bug::TargetOfDeadOwnerCleared);
            if kept || !(leaving || since.is_some()) {
                continue;
            }
            let clear = Command::ClearTarget { partition, move_id: row.move_id };
            if decisions.propose(clear) {
                decisions.busy.insert(partition);
                decisions.notes.push(Note::TargetGivenUp { partition, target });
            }
        }
    }

    /// Returns what this leader's planner looks at; it knows which moves are stuck.
    #[must_use]
    pub fn placement(&self, state: &State) -> Option<Placement> {
        placement(state, |partition, row| self.hearing.is_stuck(partition, row))
    }
}

/// Returns what the planner looks at. `None` only while the state refers to what it lacks, which
/// no applied state does.
///
/// A move is stuck, and holds no slot, if one of its ends is dead, or if `is_stuck` says so: only
/// the leader hears of the latter.
#[must_use]
pub fn placement(
    state: &State,
    is_stuck: impl Fn(PartitionId, &Assignment) -> bool,
) -> Option<Placement> {
    let topics = state.topics().map(|topic| plan::Topic { id: topic.id, parent: topic.parent });
    let partitions = state.assignments().map(|(id, row)| planned_row(state, id, row, &is_stuck));
    Placement::new(nodes(state).collect(), topics.collect(), partitions.collect()).ok()
}

/// Returns the members as the planner sees them, by id.
pub(super) fn nodes(state: &State) -> impl Iterator<Item = plan::Node> + '_ {
    state.members().filter(|member| !member.retired).map(|member| plan::Node {
        id: member.id,
        role: match member.status {
            Status::Dead(_) => Role::Dead,
            Status::Alive if member.is_receiver() => Role::Receiver,
            Status::Alive => Role::Leaving,
        },
    })
}

/// Returns a row as the planner sees it.
pub(super) fn planned_row(
    state: &State,
    id: PartitionId,
    row: &Assignment,
    is_stuck: &impl Fn(PartitionId, &Assignment) -> bool,
) -> plan::Partition {
    let stuck = row.target.is_some_and(|target| {
        is_dead(state, row.owner) || is_dead(state, target) || is_stuck(id, row)
    });
    let (target, pinned) = (row.target, row.pinned);
    plan::Partition { target, pinned, stuck, ..plan::Partition::settled(id, row.owner) }
}

/// Returns the placement with these partitions on their first owners.
fn with(placement: &Placement, born: &[(PartitionId, NodeId)]) -> Option<Placement> {
    let born = born.iter().map(|(id, node)| plan::Partition::settled(*id, *node));
    let partitions = placement.partitions().iter().copied().chain(born).collect();
    Placement::new(placement.nodes().to_vec(), placement.topics().to_vec(), partitions).ok()
}

/// Groups partitions, ascending, into runs of neighbours.
fn runs(partitions: impl Iterator<Item = PartitionId>) -> Vec<(TopicId, Range<u32>)> {
    let mut runs: Vec<(TopicId, Range<u32>)> = Vec::new();
    for PartitionId { topic, index } in partitions {
        match runs.last_mut() {
            Some((last, indices)) if *last == topic && indices.end == index => indices.end += 1,
            Some(_) | None => runs.push((topic, index..index + 1)),
        }
    }
    runs
}

/// Returns how many moves may run at once, as the policy says.
#[must_use]
pub fn limits(state: &State) -> Limits {
    let policy = state.policy();
    Limits {
        max_in_flight: policy.max_in_flight,
        reserved_for_drain: 0,
        per_source: policy.moves_per_source,
        per_destination: policy.moves_per_destination,
        per_topic: TopicLimit::Half,
        paused: policy.paused,
    }
}

fn is_dead(state: &State, node: NodeId) -> bool {
    state.member(node).is_none_or(|member| member.status != Status::Alive)
}
