//! Which of the planned moves start now.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use super::capacity::Shares;
use super::placement::{Placement, Role};
use super::{Class, Deferred, Move};
use crate::ids::{NodeId, TopicId};
use crate::planted::{Bug, is_planted};

/// How many moves may run at once.
///
/// Limits never change *what* is planned, only when it starts: raising one creates no extra move.
/// A stuck move counts against none of them (S14, K101), except that of a topic every move counts
/// whose ends are alive, as it does where targets are set: it may go on at any time, and freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Limits {
    /// Most moves in flight in the cluster. Default 8 (R75). More finishes a rebalance sooner and
    /// takes more bandwidth from clients.
    pub max_in_flight: u32,
    /// Slots of `max_in_flight` that balance moves leave free, so that a drain never waits for one
    /// to end. Default 0: a drain takes the next free slot anyway.
    pub reserved_for_drain: u32,
    /// Most moves in flight away from one node. Default 2.
    pub per_source: u32,
    /// Most moves in flight to one node. Default 2: a joiner is not flooded.
    pub per_destination: u32,
    /// How many partitions of one topic may move at once.
    pub per_topic: TopicLimit,
    /// Whether nothing starts at all, drains included.
    pub paused: bool,
}

/// How many partitions of one topic may move at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum TopicLimit {
    /// At most half of them, but at least one: a frozen partition always has a writable sibling if
    /// it has any (S14, H23).
    Half,
    /// Any number. For studies of the plan itself; a source's gate keeps to half all the same.
    Unlimited,
}

impl Limits {
    /// Starts everything at once. For studies of the plan itself.
    pub const UNLIMITED: Self = Self {
        max_in_flight: u32::MAX,
        reserved_for_drain: 0,
        per_source: u32::MAX,
        per_destination: u32::MAX,
        per_topic: TopicLimit::Unlimited,
        paused: false,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_in_flight: 8,
            reserved_for_drain: 0,
            per_source: 2,
            per_destination: 2,
            per_topic: TopicLimit::Half,
            paused: false,
        }
    }
}

/// Why a planned move does not start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Deferral {
    /// Moves are paused.
    Paused,
    /// Enough moves are in flight.
    InFlight {
        /// The limit.
        max: u32,
    },
    /// The free slots are kept for drains.
    ReservedForDrain {
        /// How many are.
        slots: u32,
    },
    /// Enough moves away from that node are in flight.
    Source {
        /// The node.
        node: NodeId,
        /// The limit.
        max: u32,
    },
    /// Enough moves to that node are in flight.
    Destination {
        /// The node.
        node: NodeId,
        /// The limit.
        max: u32,
    },
    /// Enough partitions of the topic are in flight.
    Topic {
        /// The topic.
        topic: TopicId,
        /// The limit.
        max: u32,
    },
}

impl fmt::Display for Deferral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str("moves are paused; resume them to go on"),
            Self::InFlight { max } => {
                write!(f, "{max} moves are in flight, the most for the cluster")
            }
            Self::ReservedForDrain { slots } => write!(f, "{slots} free slots are kept for drains"),
            Self::Source { node, max } => {
                write!(f, "{max} moves away from node {node} are in flight, the most for one node")
            }
            Self::Destination { node, max } => {
                write!(f, "{max} moves to node {node} are in flight, the most for one node")
            }
            Self::Topic { topic, max } => {
                write!(f, "{max} partitions of topic {topic} are in flight, the most for it")
            }
        }
    }
}

/// Starts as many of the planned moves as the limits allow: drains first, then by
/// priority. One that must wait holds up no other (K103).
pub(super) fn admit(
    placement: &Placement,
    shares: &Shares,
    limits: &Limits,
    mut queue: Vec<Planned>,
) -> (Vec<Move>, Vec<Deferred>) {
    queue.sort_unstable_by_key(|mover| {
        let row = &placement.partitions()[mover.partition as usize];
        // Givers without a ceil share and takers with one first: the ranking by load that gave the
        // ceil shares then stays what it is while a plan is carried out (R72, S13).
        let class = mover.class(placement);
        let (from, to) = (shares.at(mover.from), shares.at(mover.to));
        let gives_first = class == Class::Balance && !from.ceil && !from.overfull;
        let settles = gives_first || to.ceil;
        (class, Reverse(row.priority), !settles, mover.partition)
    });
    let mut running = Running::new(placement, limits);
    let (mut moves, mut deferred) = (Vec::new(), Vec::new());
    for mover in queue {
        let planned = mover.describe(placement);
        match running.refuses(&mover, &planned) {
            None => {
                running.add(&mover);
                moves.push(planned);
            }
            Some(reason) => deferred.push(Deferred { planned, reason }),
        }
    }
    (moves, deferred)
}

/// A move by dense indices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) partition: u32,
    pub(super) topic: u32,
    pub(super) from: u32,
    pub(super) to: u32,
}

impl Planned {
    fn class(&self, placement: &Placement) -> Class {
        match placement.nodes()[self.from as usize].role {
            Role::Leaving => Class::Drain,
            Role::Receiver | Role::Dead => Class::Balance,
        }
    }

    fn describe(&self, placement: &Placement) -> Move {
        let row = &placement.partitions()[self.partition as usize];
        Move {
            partition: row.id,
            from: row.owner,
            to: placement.nodes()[self.to as usize].id,
            class: self.class(placement),
            bytes: row.bytes,
        }
    }
}

/// The moves in flight that count.
struct Running<'a> {
    limits: &'a Limits,
    total: u32,
    from: Vec<u32>,
    to: Vec<u32>,
    of_topic: Vec<u32>,
    topic_max: Vec<u32>,
}

impl<'a> Running<'a> {
    fn new(placement: &Placement, limits: &'a Limits) -> Self {
        let (nodes, topics) = (placement.nodes().len(), placement.topics().len());
        let size = |topic| u32::try_from(placement.rows_of(topic).len()).unwrap_or(u32::MAX);
        let topic_max = (0..).zip(placement.topics()).map(|(topic, _)| match limits.per_topic {
            TopicLimit::Half if is_planted(Bug::HalfRoundedUp) => size(topic).div_ceil(2),
            TopicLimit::Half => (size(topic) / 2).max(1),
            TopicLimit::Unlimited => u32::MAX,
        });
        let mut running = Self {
            limits,
            total: 0,
            from: vec![0; nodes],
            to: vec![0; nodes],
            of_topic: vec![0; topics],
            topic_max: topic_max.collect(),
        };
        let is_dead = |node: u32| placement.nodes()[node as usize].role == Role::Dead;
        for (partition, row) in (0..).zip(placement.partitions()) {
            if row.target.is_none() || is_planted(Bug::InFlightNotCounted) {
                continue;
            }
            let topic = placement.topic_of(partition);
            let (from, to) = (placement.owner_of(partition), placement.place_of(partition));
            if !row.stuck {
                running.take_slot(&Planned { partition, topic, from, to });
            }
            // The log judges by the ends alone: one that is stuck may go on, and freeze.
            if !is_dead(from) && !is_dead(to) {
                running.of_topic[topic as usize] += 1;
            }
        }
        running
    }

    fn add(&mut self, mover: &Planned) {
        self.take_slot(mover);
        self.of_topic[mover.topic as usize] += 1;
    }

    fn take_slot(&mut self, mover: &Planned) {
        self.total += 1;
        self.from[mover.from as usize] += 1;
        self.to[mover.to as usize] += 1;
    }

    /// Returns why the move has to wait, if it has to.
    fn refuses(&self, mover: &Planned, planned: &Move) -> Option<Deferral> {
        let &Limits { max_in_flight, reserved_for_drain, per_source, per_destination, .. } =
            self.limits;
        let for_balance = max_in_flight.saturating_sub(reserved_for_drain);
        let topic_max = self.topic_max[mover.topic as usize];
        if self.limits.paused {
            Some(Deferral::Paused)
        } else if self.total >= max_in_flight {
            Some(Deferral::InFlight { max: max_in_flight })
        } else if planned.class == Class::Balance && self.total >= for_balance {
            Some(Deferral::ReservedForDrain { slots: reserved_for_drain })
        } else if self.from[mover.from as usize] >= per_source {
            Some(Deferral::Source { node: planned.from, max: per_source })
        } else if self.to[mover.to as usize] >= per_destination {
            Some(Deferral::Destination { node: planned.to, max: per_destination })
        } else if self.of_topic[mover.topic as usize] >= topic_max {
            Some(Deferral::Topic { topic: planned.partition.topic, max: topic_max })
        } else {
            None
        }
    }
}
