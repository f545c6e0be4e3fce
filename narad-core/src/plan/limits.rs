//! Which of the planned moves start now.

use alloc::vec;
use alloc::vec::Vec;
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

/// A planned move by dense indices: eight bytes, of which there may be hundreds of thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Step {
    pub(super) partition: u32,
    pub(super) to: u32,
}

/// Where a move stands in the order in which moves start; smaller starts earlier. Moves of one rank
/// start by their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(u16);

impl Rank {
    /// How many there are.
    const COUNT: usize = 1 << 10;

    /// Those of moves without a priority, earliest first.
    const WITHOUT_PRIORITY: [Self; 4] = [Self(0x1fe), Self(0x1ff), Self(0x3fe), Self(0x3ff)];

    const fn is_drain(self) -> bool {
        self.0 < 0x200
    }

    /// Drains first, then by priority (R75, R84).
    fn of(placement: &Placement, shares: &Shares, step: Step) -> Self {
        let from = placement.owner_of(step.partition);
        let class = class(placement, from);
        let priority = placement.priority_of(step.partition);
        // Givers without a ceil share and takers with one first: the ranking by load that gave the
        // ceil shares then stays what it is while a plan is carried out (R72, S13).
        let (from, to) = (shares.at(from), shares.at(step.to));
        let gives_first = class == Class::Balance && !from.ceil && !from.overfull;
        let settles = gives_first || to.ceil;
        let class = u16::from(class == Class::Balance);
        Self(class << 9 | u16::from(u8::MAX - priority) << 1 | u16::from(!settles))
    }
}

/// Puts planned moves, given by their ids, into the order in which they start.
pub(super) fn in_order(placement: &Placement, shares: &Shares, steps: &[Step]) -> Vec<Step> {
    let ranks: Vec<Rank> = steps.iter().map(|step| Rank::of(placement, shares, *step)).collect();
    let mut starts = vec![0_usize; Rank::COUNT + 1];
    for Rank(rank) in &ranks {
        starts[usize::from(*rank) + 1] += 1;
    }
    for rank in 0..Rank::COUNT {
        starts[rank + 1] += starts[rank];
    }
    let mut ordered = steps.to_vec();
    for (step, Rank(rank)) in steps.iter().zip(&ranks) {
        let at = &mut starts[usize::from(*rank)];
        ordered[*at] = *step;
        *at += 1;
    }
    ordered
}

/// Returns the order again, made as it is asked for: of many moves few are.
pub(super) fn in_order_lazily<'a>(
    placement: &'a Placement,
    shares: &'a Shares,
    steps: &'a [Step],
) -> impl Iterator<Item = Step> + 'a {
    // Without priorities there are four ranks, and looking for each is less than sorting.
    let (sorted, ranks) = if placement.has_priorities() {
        (in_order(placement, shares, steps), &[][..])
    } else {
        (Vec::new(), &Rank::WITHOUT_PRIORITY[..])
    };
    let drains = shares.of.iter().any(|share| share.role == Role::Leaving && share.leaves() > 0);
    let ranks = ranks.iter().filter(move |rank| drains || !rank.is_drain());
    let of_rank = move |rank: &'a Rank| {
        let is_it = move |step: &&Step| Rank::of(placement, shares, **step) == *rank;
        steps.iter().filter(is_it).copied()
    };
    sorted.into_iter().chain(ranks.flat_map(of_rank))
}

/// Starts as many of the planned moves as the limits allow, in the order in which they are given.
/// One that must wait holds up no other (K103), and the search ends once nothing could start.
pub(super) fn admit(
    placement: &Placement,
    limits: &Limits,
    mut running: Running,
    steps: impl Iterator<Item = Step>,
) -> Vec<Move> {
    let mut moves = Vec::new();
    for step in steps {
        if running.is_full(limits) {
            break;
        }
        let mover = Planned::of(placement, step);
        if running.refuses(limits, placement, &mover).is_none() {
            running.add(&mover);
            moves.push(mover.describe(placement));
        }
    }
    moves
}

/// Tells those of the planned moves that start from those that wait, and why they do.
pub(super) fn admit_all(
    placement: &Placement,
    limits: &Limits,
    steps: &[Step],
) -> (Vec<Move>, Vec<Deferred>) {
    let mut running = Running::new(placement);
    let (mut moves, mut deferred) = (Vec::new(), Vec::new());
    for step in steps {
        let mover = Planned::of(placement, *step);
        let planned = mover.describe(placement);
        match running.refuses(limits, placement, &mover) {
            None => {
                running.add(&mover);
                moves.push(planned);
            }
            Some(reason) => deferred.push(Deferred { planned, reason }),
        }
    }
    (moves, deferred)
}

/// A move by dense indices, with what limits look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    partition: u32,
    topic: u32,
    from: u32,
    to: u32,
}

impl Planned {
    pub(super) fn of(placement: &Placement, step: Step) -> Self {
        let Step { partition, to } = step;
        let (topic, from) = (placement.topic_of(partition), placement.owner_of(partition));
        Self { partition, topic, from, to }
    }

    pub(super) fn describe(&self, placement: &Placement) -> Move {
        let row = &placement.partitions()[self.partition as usize];
        Move {
            partition: row.id,
            from: row.owner,
            to: placement.nodes()[self.to as usize].id,
            class: class(placement, self.from),
            bytes: row.bytes,
        }
    }
}

fn class(placement: &Placement, from: u32) -> Class {
    match placement.nodes()[from as usize].role {
        Role::Leaving => Class::Drain,
        Role::Receiver | Role::Dead => Class::Balance,
    }
}

/// How many planned moves could start as far as one of their ends goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    by_source: u64,
    by_destination: u64,
}

impl Open {
    /// Whether none could.
    pub(super) const fn is_over(self) -> bool {
        self.by_source == 0 || self.by_destination == 0
    }
}

/// The moves in flight that count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Running {
    total: u32,
    from: Vec<u32>,
    to: Vec<u32>,
    of_topic: Vec<u32>,
}

impl Running {
    pub(super) fn new(placement: &Placement) -> Self {
        let mut running = Self::none(placement);
        if placement.is_all_free() {
            return running;
        }
        for (partition, marks) in (0..).zip(placement.marks()) {
            if marks.is_moving() {
                running.count(placement, partition, true);
            }
        }
        running
    }

    fn none(placement: &Placement) -> Self {
        let (nodes, topics) = (placement.nodes().len(), placement.topics().len());
        Self { total: 0, from: vec![0; nodes], to: vec![0; nodes], of_topic: vec![0; topics] }
    }

    /// Counts a partition in flight, or no more.
    pub(super) fn count(&mut self, placement: &Placement, partition: u32, on: bool) {
        let row = &placement.partitions()[partition as usize];
        if row.target.is_none() || is_planted(Bug::InFlightNotCounted) {
            return;
        }
        let change = |count: &mut u32| *count = if on { *count + 1 } else { *count - 1 };
        let (from, to) = (placement.owner_of(partition), placement.place_of(partition));
        if !row.stuck {
            change(&mut self.total);
            change(&mut self.from[from as usize]);
            change(&mut self.to[to as usize]);
        }
        // The log judges by the ends alone: one that is stuck may go on, and freeze.
        let is_dead = |node: u32| placement.nodes()[node as usize].role == Role::Dead;
        if !is_dead(from) && !is_dead(to) {
            change(&mut self.of_topic[placement.topic_of(partition) as usize]);
        }
    }

    pub(super) fn add(&mut self, mover: &Planned) {
        self.total += 1;
        self.from[mover.from as usize] += 1;
        self.to[mover.to as usize] += 1;
        self.of_topic[mover.topic as usize] += 1;
    }

    /// Takes one back that was added.
    pub(super) fn remove(&mut self, mover: &Planned) {
        self.total -= 1;
        self.from[mover.from as usize] -= 1;
        self.to[mover.to as usize] -= 1;
        self.of_topic[mover.topic as usize] -= 1;
    }

    /// Counts the planned moves of which an end has a slot free; both by node.
    pub(super) fn open(&self, limits: &Limits, left_from: &[u32], left_to: &[u32]) -> Open {
        let open = |left: &[u32], running: &[u32], max: u32| {
            let each = left.iter().zip(running).filter(|(_, running)| **running < max);
            each.map(|(left, _)| u64::from(*left)).sum()
        };
        Open {
            by_source: open(left_from, &self.from, limits.per_source),
            by_destination: open(left_to, &self.to, limits.per_destination),
        }
    }

    /// Takes the moves away from what is open that an added one has closed out.
    pub(super) fn close(
        &self,
        limits: &Limits,
        added: &Planned,
        left_from: &[u32],
        left_to: &[u32],
        open: &mut Open,
    ) {
        let (from, to) = (added.from as usize, added.to as usize);
        if self.from[from] >= limits.per_source {
            open.by_source -= u64::from(left_from[from]);
        }
        if self.to[to] >= limits.per_destination {
            open.by_destination -= u64::from(left_to[to]);
        }
    }

    /// Returns whether no move at all could start.
    pub(super) fn is_full(&self, limits: &Limits) -> bool {
        limits.paused || self.total >= limits.max_in_flight
    }

    /// Returns why the move has to wait, if it has to.
    pub(super) fn refuses(
        &self,
        limits: &Limits,
        placement: &Placement,
        mover: &Planned,
    ) -> Option<Deferral> {
        let &Limits { max_in_flight, reserved_for_drain, per_source, per_destination, .. } = limits;
        let for_balance = max_in_flight.saturating_sub(reserved_for_drain);
        let topic_max = topic_max(placement, limits, mover.topic);
        let node = |node: u32| placement.nodes()[node as usize].id;
        if limits.paused {
            Some(Deferral::Paused)
        } else if self.total >= max_in_flight {
            Some(Deferral::InFlight { max: max_in_flight })
        } else if self.total >= for_balance && class(placement, mover.from) == Class::Balance {
            Some(Deferral::ReservedForDrain { slots: reserved_for_drain })
        } else if self.from[mover.from as usize] >= per_source {
            Some(Deferral::Source { node: node(mover.from), max: per_source })
        } else if self.to[mover.to as usize] >= per_destination {
            Some(Deferral::Destination { node: node(mover.to), max: per_destination })
        } else if self.of_topic[mover.topic as usize] >= topic_max {
            let topic = placement.topics()[mover.topic as usize].id;
            Some(Deferral::Topic { topic, max: topic_max })
        } else {
            None
        }
    }
}

/// Returns how many partitions of a topic may move at once.
fn topic_max(placement: &Placement, limits: &Limits, topic: u32) -> u32 {
    let size = u32::try_from(placement.rows_of(topic).len()).unwrap_or(u32::MAX);
    match limits.per_topic {
        TopicLimit::Half if is_planted(Bug::HalfRoundedUp) => size.div_ceil(2),
        TopicLimit::Half => (size / 2).max(1),
        TopicLimit::Unlimited => u32::MAX,
    }
}
