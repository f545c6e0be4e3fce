//! S14, bounded in flight. count(target != none and not stuck) is at most `MaxInFlightMoves`; per
//! topic the frozen ones are at most max(1, floor(P/2)), and fewer than P when P > 1.
//!
//! The first part is judged when a controller's target takes effect. Stuck are moves with a dead
//! end, and those whose mover waits or has waited until a moment ago: the leader hears of that with
//! a heartbeat. An operator's move that the leader had not applied does not count: nothing bounds
//! how many of those there are. A policy that was narrowed a moment ago does not count yet, because the command was
//! admitted under the wider one. The second part is judged at every capture, of gates that are
//! frozen by the present owner in the present epoch, for the move that the log has: another's
//! freeze stops nobody. Nor does one count that the log has ended, since its node has only not
//! heard of it yet, or whose node is dead: the planner cannot know of either, and goes on. Nor does
//! a move count, in either part, under which one of its ends died, whether or not it came back: its
//! place was given to another meanwhile. A source that has applied the death of a destination
//! refuses to freeze for it, so that a freeze that begins in spite of that counts.

use std::time::Duration;

use narad_core::ids::{LogIndex, NodeId, PartitionId};
use narad_core::metastore::{State, Status};

use super::book::Book;
use super::sink::{Cx, Subject};

impl Book {
    /// A controller's target took effect; its leader had applied everything up to `seen`.
    pub(super) fn check_slots(&self, seen: Option<LogIndex>, hearsay: Duration, cx: &mut Cx<'_>) {
        let Some(state) = self.state() else { return };
        let mut allowed = state.policy().max_in_flight;
        if let Some((_, wider)) = self.narrowed.filter(|(at, _)| cx.now.since(*at) <= hearsay) {
            allowed = allowed.max(wider);
        }
        let now = cx.now;
        let moving = |partition: &PartitionId| {
            let Some(row) = state.assignment(*partition) else { return false };
            let ends_alive = !is_dead(state, row.owner)
                && !row.target.is_some_and(|target| is_dead(state, target));
            let plan = self.parts.get(partition).map(|part| part.plan).unwrap_or_default();
            let unseen = plan.by_hand && seen.is_some_and(|seen| seen < plan.index);
            let lately = plan.resumed.is_some_and(|at| now.since(at) <= hearsay);
            let stays = !self.returned_under(*partition, state);
            // A mover goes on waiting when the log gives it the same move under another id, and
            // says nothing of that.
            let node = row.target.and_then(|target| cx.look.node(target));
            let slotless = node.is_some_and(|node| {
                node.moves().any(|(of, progress)| of == *partition && !progress.holds_slot)
            });
            ends_alive && !plan.waiting && !slotless && !lately && !unseen && stays
        };
        if let Some(seen) = seen {
            self.check_topics(seen, &moving, cx);
        }
        // All of them are no more than those that move.
        if state.targeted().len() <= usize::try_from(allowed).unwrap_or(usize::MAX) {
            return;
        }
        let running: Vec<PartitionId> = state.targeted().filter(moving).collect();
        if running.len() > usize::try_from(allowed).unwrap_or(usize::MAX) {
            cx.breach("S14", Subject::Cluster, || {
                format!("{} moves run, {allowed} may: {running:?}", running.len())
            });
        }
    }

    /// Of each topic at most half is under way, of what the leader had seen and began itself.
    fn check_topics(&self, seen: LogIndex, moving: &dyn Fn(&PartitionId) -> bool, cx: &mut Cx<'_>) {
        let Some(state) = self.state() else { return };
        let Some((latest, part)) = self
            .parts
            .iter()
            .filter(|(_, part)| part.plan.since.is_some())
            .max_by_key(|(_, part)| part.plan.index)
        else {
            return;
        };
        let allowed = state.topic(latest.topic).map_or(1, |topic| (topic.partitions / 2).max(1));
        let running: Vec<PartitionId> = state
            .targeted()
            .filter(|partition| partition.topic == latest.topic && moving(partition))
            .filter(|partition| {
                let index = self.parts.get(partition).map(|part| part.plan.index);
                index.is_some_and(|index| index <= seen || index == part.plan.index)
            })
            .collect();
        if running.len() > usize::try_from(allowed).unwrap_or(usize::MAX) {
            cx.breach("S14", *latest, || format!("{running:?} of one topic move, {allowed} may"));
        }
    }

    /// Whether an end of a move died under it and came back: others may have begun meanwhile, since
    /// a move with a dead end holds no place.
    fn returned_under(&self, partition: PartitionId, state: &State) -> bool {
        let planned = self.parts.get(&partition).and_then(|part| part.plan.since);
        let Some((row, planned)) = state.assignment(partition).zip(planned) else { return false };
        [Some(row.owner), row.target].into_iter().flatten().any(|end| {
            let returned = self.nodes.get(&end).and_then(|witness| witness.returned);
            returned.is_some_and(|returned| returned >= planned)
        })
    }

    /// Whether a node has applied the death of the present destination of a partition.
    fn knows_target_dead(&self, node: NodeId, partition: PartitionId) -> bool {
        let target = self.state().and_then(|state| state.assignment(partition)?.target);
        let Some(target) = target.and_then(|target| self.nodes.get(&target)) else { return false };
        let applied = self.nodes.get(&node).map(|witness| witness.applied).unwrap_or_default();
        target.died.is_some() && applied >= target.dead_from
    }

    /// The gate of a partition froze on a node.
    pub(super) fn check_frozen(&mut self, node: NodeId, partition: PartitionId, cx: &mut Cx<'_>) {
        let for_the_dead = self.knows_target_dead(node, partition);
        if let Some(frozen) = self.part_mut(partition).and_then(|part| part.freezes.last_mut()) {
            frozen.for_the_dead = for_the_dead;
        }
        let Some(state) = self.state() else { return };
        let topic = partition.topic;
        let rows = state.topic(topic).map_or(1, |topic| topic.partitions as usize);
        let is_frozen = |partition: PartitionId| {
            let part = self.parts.get(&partition)?;
            let last = part.last().filter(|last| !is_dead(state, last.owner))?;
            let planned = part.plan.since?;
            if self.returned_under(partition, state) {
                return None;
            }
            let target = state.assignment(partition)?.target?;
            let target_lives = !is_dead(state, target);
            part.freezes
                .iter()
                .any(|frozen| {
                    frozen.until.is_none()
                        && frozen.since >= planned
                        && (target_lives || frozen.for_the_dead)
                        && !part.is_over(frozen.token)
                        && (frozen.node, frozen.token.epoch) == (last.owner, last.epoch)
                })
                .then_some(partition)
        };
        let frozen: Vec<PartitionId> =
            state.assignments_of_topic(topic).filter_map(|(id, _)| is_frozen(id)).collect();
        let allowed = (rows / 2).max(1);
        if frozen.len() > allowed {
            cx.breach("S14", partition, || {
                format!("{frozen:?} are frozen, {allowed} of {rows} of one topic may be")
            });
        }
    }
}

pub(super) fn is_dead(state: &State, node: NodeId) -> bool {
    state.member(node).is_none_or(|member| member.status != Status::Alive)
}
