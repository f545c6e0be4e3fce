//! First owners, new targets, and targets that cannot take what they were given.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Controller, Decisions, Note};
use crate::ids::{NodeId, TopicId};
use crate::metastore::{Command, Member, State, Status};
use crate::plan::{self, Limits, Placement, Role};
use crate::time::Instant;

/// Gives each partition without an owner its first one: the receiver that holds the fewest,
/// counting what moves to it, and spreading each topic (case K107).
pub(super) fn assign(state: &State, decisions: &mut Decisions) {
    let mut loads: Vec<(usize, NodeId)> = receivers(state)
        .map(|member| (state.owned_count(member.id) + state.inbound_count(member.id), member.id))
        .collect();
    if loads.is_empty() {
        return;
    }
    let mut per_topic: BTreeMap<(TopicId, NodeId), usize> = BTreeMap::new();
    for partition in state.unassigned() {
        let least = loads
            .iter_mut()
            .min_by_key(|(load, node)| {
                let of_topic = per_topic.get(&(partition.topic, *node)).copied().unwrap_or(0);
                (*load, of_topic, *node)
            })
            .expect("there is a receiver");
        if !decisions.propose(Command::AssignPartition { partition, node: least.1 }) {
            return;
        }
        *per_topic.entry((partition.topic, least.1)).or_default() += 1;
        least.0 += 1;
    }
}

/// Plans moves over the final placement (R69..R76), and proposes those that may start now.
pub(super) fn plan(state: &State, decisions: &mut Decisions) {
    if state.policy().paused {
        return;
    }
    let Some(placement) = placement(state) else { return };
    let plan = plan::plan(&placement, &limits(state));
    let mut started = 0;
    for planned in &plan.moves {
        let Some(row) = state.assignment(planned.partition) else { continue };
        if decisions.busy.contains(&planned.partition) {
            continue;
        }
        let (partition, to) = (planned.partition, planned.to);
        let set = Command::SetTarget { partition, expect: row.expect(), to };
        started += u32::from(decisions.propose(set));
    }
    if started > 0 {
        let deferred = u32::try_from(plan.deferred.len()).unwrap_or(u32::MAX);
        decisions.notes.push(Note::Planned { started, deferred });
    }
}

/// Returns what the planner looks at. `None` only while the state refers to what it lacks, which
/// no applied state does.
#[must_use]
pub fn placement(state: &State) -> Option<Placement> {
    let dead =
        |node: NodeId| state.member(node).is_none_or(|member| member.status != Status::Alive);
    let nodes = state.members().filter(|member| !member.retired).map(|member| plan::Node {
        id: member.id,
        role: match member.status {
            Status::Dead(_) => Role::Dead,
            Status::Alive if member.is_receiver() => Role::Receiver,
            Status::Alive => Role::Leaving,
        },
    });
    let topics = state.topics().map(|topic| plan::Topic { id: topic.id, parent: topic.parent });
    let partitions = state.assignments().map(|(id, row)| plan::Partition {
        target: row.target,
        pinned: row.pinned,
        stuck: dead(row.owner) || row.target.is_some_and(dead),
        ..plan::Partition::settled(id, row.owner)
    });
    Placement::new(nodes.collect(), topics.collect(), partitions.collect()).ok()
}

fn limits(state: &State) -> Limits {
    let policy = state.policy();
    Limits {
        max_in_flight: policy.max_in_flight,
        per_source: policy.moves_per_source,
        per_destination: policy.moves_per_destination,
        paused: policy.paused,
        ..Limits::default()
    }
}

impl Controller {
    /// Clears the targets of moves that cannot end: the target has been dead for too long, drains
    /// or is retired (cases K100 and K109, field fault 37). Never while the owner is dead: its
    /// copy at the target may be the only way back (H46).
    pub(super) fn give_up_targets(
        &mut self,
        now: Instant,
        state: &State,
        decisions: &mut Decisions,
    ) {
        let dead =
            |node: NodeId| state.member(node).is_none_or(|member| member.status != Status::Alive);
        self.dead_since.retain(|node, _| dead(*node));
        for partition in state.targeted() {
            let Some(row) = state.assignment(partition) else { continue };
            let Some(target) = row.target else { continue };
            if dead(row.owner) {
                continue;
            }
            let leaving =
                state.member(target).is_none_or(|member| member.draining || member.retired);
            let dead_long = dead(target) && {
                let since = *self.dead_since.entry(target).or_insert(now);
                now.since(since) >= self.config.dead_target_after
            };
            if !(leaving || dead_long) {
                continue;
            }
            let clear = Command::ClearTarget { partition, move_id: row.move_id };
            if decisions.propose(clear) {
                decisions.busy.insert(partition);
                decisions.notes.push(Note::TargetGivenUp { partition, target });
            }
        }
    }
}

fn receivers(state: &State) -> impl Iterator<Item = &Member> {
    state.members().filter(|member| member.is_receiver())
}
