//! Starts a plan's moves one by one and checks every limit.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::Finding;
use crate::ids::{NodeId, TopicId};
use crate::plan::limits::{Deferral, Limits, TopicLimit};
use crate::plan::placement::{Placement, Role};
use crate::plan::{Class, Explained, Move};

/// Checks what starts and what waits.
pub(super) fn check(placement: &Placement, plan: &Explained, findings: &mut Vec<Finding>) {
    let mut flights = Flights::default();
    let dead: BTreeSet<NodeId> = placement
        .nodes()
        .iter()
        .filter(|node| node.role == Role::Dead)
        .map(|node| node.id)
        .collect();
    for row in placement.partitions() {
        *flights.sizes.entry(row.id.topic).or_default() += 1;
        let Some(to) = row.target else { continue };
        if !row.stuck {
            flights.start(row.owner, to);
        }
        if !dead.contains(&row.owner) && !dead.contains(&to) {
            *flights.topic.entry(row.id.topic).or_default() += 1;
        }
    }
    for &planned in &plan.moves {
        if let Some(limit) = flights.limit(&planned, &plan.limits) {
            findings.push(Finding::OverLimit { partition: planned.partition, limit });
        }
        flights.start(planned.from, planned.to);
        *flights.topic.entry(planned.partition.topic).or_default() += 1;
    }
    for deferred in &plan.deferred {
        if flights.limit(&deferred.planned, &plan.limits).is_none() {
            findings.push(Finding::WaitsForNothing(deferred.planned.partition));
        }
    }
    for pair in plan.moves.windows(2) {
        if pair[0].class == Class::Balance && pair[1].class == Class::Drain {
            findings.push(Finding::DrainsLast(pair[0].partition));
        }
    }
}

/// Moves in flight, by all that is limited.
#[derive(Default)]
struct Flights {
    sizes: BTreeMap<TopicId, u32>,
    total: u32,
    from: BTreeMap<NodeId, u32>,
    to: BTreeMap<NodeId, u32>,
    topic: BTreeMap<TopicId, u32>,
}

impl Flights {
    fn start(&mut self, from: NodeId, to: NodeId) {
        self.total += 1;
        *self.from.entry(from).or_default() += 1;
        *self.to.entry(to).or_default() += 1;
    }

    /// Returns a limit that one more move would break.
    fn limit(&self, planned: &Move, limits: &Limits) -> Option<Deferral> {
        let Move { from, to, .. } = *planned;
        let topic = planned.partition.topic;
        let reserved = match planned.class {
            Class::Drain => 0,
            Class::Balance => limits.reserved_for_drain,
        };
        let topic_max = match limits.per_topic {
            TopicLimit::Unlimited => u32::MAX,
            TopicLimit::Half => (self.sizes.get(&topic).copied().unwrap_or(0) / 2).max(1),
        };
        let broken = [
            (limits.paused, Deferral::Paused),
            (self.total >= limits.max_in_flight, Deferral::InFlight { max: limits.max_in_flight }),
            (
                self.total.saturating_add(reserved) >= limits.max_in_flight,
                Deferral::ReservedForDrain { slots: reserved },
            ),
            (
                count(&self.from, &from) >= limits.per_source,
                Deferral::Source { node: from, max: limits.per_source },
            ),
            (
                count(&self.to, &to) >= limits.per_destination,
                Deferral::Destination { node: to, max: limits.per_destination },
            ),
            (count(&self.topic, &topic) >= topic_max, Deferral::Topic { topic, max: topic_max }),
        ];
        broken.into_iter().find(|(is_broken, _)| *is_broken).map(|(_, limit)| limit)
    }
}

fn count<K: Ord>(counts: &BTreeMap<K, u32>, key: &K) -> u32 {
    counts.get(key).copied().unwrap_or(0)
}
