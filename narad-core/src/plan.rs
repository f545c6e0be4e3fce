//! Decides which partitions move where: as few as possible.
//!
//! # Purpose
//!
//! [`plan`] is a pure function from a [`Placement`] to the moves that give every receiving node
//! its share of the partitions. The same function rebalances after a join and drains a node that
//! leaves: a drained node is one with a share of zero (R84). It keeps nothing between calls. A
//! [`Planner`] does: it is told what changes, and answers the same without looking at the rest.
//!
//! # States
//!
//! There are none. A partition goes around like this, and the planner acts on one arrow only:
//!
//! ```text
//!             plan: Move starts                destination: flip
//!   settled ─────────────────────▶ in flight ─────────────────────▶ settled
//!   counts at its owner            counts at its target             counts at its new owner
//! ```
//!
//! # Invariants
//!
//! 1. Every receiver may end up with floor(T/R) or ceil(T/R) of the partitions; those that hold the
//!    most have the ceil shares (R70, R72). Pinned partitions bend this: see [`NodeWhy::Overpinned`].
//! 2. The number of moves is the sum of the surpluses over those shares, which is the least that
//!    there can be ([`Report::moves_min`], R71, S12).
//! 3. A partition on a node within its share stays; so does one that is pinned, mid-move, or owned
//!    by a dead node (R72, R73, R80).
//! 4. With all of a plan applied, or completed in any order, the next plan is empty, and no
//!    partition moves twice while the nodes stay the same (R74, S13).
//! 5. [`Limits`] decide which moves of the plan start now, never which ones it has. No more than
//!    [`Limits::max_in_flight`] moves run at once, and of a topic no more than half (R75, S14).
//! 6. Among plans with as few moves it takes one in which fewer children share a node with their
//!    parent (R81), then one that spreads every topic more evenly (K104), then one that copies
//!    fewer bytes. The search ends where no cycle of partitions that trade places improves the
//!    plan. Clusters of more than 32,768 partitions, or of which more than 8,192 could trade places,
//!    are planned in one pass instead: it keeps relatives apart and spreads topics as it goes, and
//!    only conflicts that it leaves are searched for. Equal plans are told apart by ids, so equal
//!    rows in any order give equal plans.
//!
//! [`lint`] checks all of it by other means.
//!
//! # After a restart
//!
//! Nothing is lost: the next call sees the replicated targets and plans the rest.
//!
//! # Example
//!
//! A new node gets an even part of every topic, and nothing else moves:
//!
//! ```
//! use narad_core::ids::{NodeId, PartitionId, TopicId};
//! use narad_core::plan::{Limits, Node, Partition, Placement, Role, Topic, lint, plan};
//!
//! let nodes = [1, 2, 3].map(|id| Node { id: NodeId(id), role: Role::Receiver });
//! let topics = [1, 2].map(|id| Topic { id: TopicId(id), parent: None });
//! let partitions = topics.iter().flat_map(|topic| {
//!     (0..6).map(|index| {
//!         let id = PartitionId { topic: topic.id, index };
//!         Partition::settled(id, NodeId(1 + u64::from(index) % 2))
//!     })
//! });
//! let placement = Placement::new(nodes.into(), topics.into(), partitions.collect())?;
//!
//! let plan = plan(&placement, &Limits::UNLIMITED);
//! assert_eq!(plan.moves.len(), 4);
//! assert!(plan.moves.iter().all(|planned| planned.to == NodeId(3)));
//! let of_the_first = plan.moves.iter().filter(|planned| planned.partition.topic == TopicId(1));
//! assert_eq!(of_the_first.count(), 2);
//! assert_eq!(lint(&placement, &plan.explain(&placement)), vec![]);
//! # Ok::<(), narad_core::plan::PlacementError>(())
//! ```

mod assign;
mod board;
mod capacity;
mod choose;
mod exchange;
mod limits;
mod lint;
mod placement;
mod planner;
mod report;
mod stream;

use alloc::vec::Vec;
use core::fmt;

pub use self::assign::{AssignError, assign};
pub use self::limits::{Deferral, Limits, TopicLimit};
pub use self::lint::{Finding, lint};
pub use self::placement::{Node, Partition, Placement, PlacementError, Role, Topic};
pub use self::planner::Planner;
pub use self::report::{NodeReport, NodeWhy, PartitionReport, Report, Why};

use self::board::Board;
use self::capacity::{Share, Shares};
use self::limits::{Planned, Running, Step};
use crate::ids::{ByteCount, NodeId, PartitionId};

/// Plans the fewest moves that balance the placement, and starts those that the limits allow.
///
/// Takes time linear in partitions and nodes on a big cluster, and eight bytes for each move; where
/// topics are related, four more for each partition while it works. The reasons are made when they
/// are [asked for](Plan::explain).
///
/// # Examples
///
/// A limit delays moves; it never changes them:
///
/// ```
/// use narad_core::ids::{NodeId, PartitionId, TopicId};
/// use narad_core::plan::{Limits, Node, Partition, Placement, Role, Topic, plan};
///
/// let nodes = [(1, Role::Leaving), (2, Role::Receiver)];
/// let nodes = nodes.map(|(id, role)| Node { id: NodeId(id), role });
/// let topic = Topic { id: TopicId(1), parent: None };
/// let ids = (0..12).map(|index| PartitionId { topic: topic.id, index });
/// let partitions = ids.map(|id| Partition::settled(id, NodeId(1))).collect();
/// let placement = Placement::new(nodes.into(), vec![topic], partitions)?;
///
/// let plan = plan(&placement, &Limits { per_source: 3, per_destination: 3, ..Limits::default() });
/// assert_eq!((plan.moves.len(), plan.len()), (3, 12));
/// let explained = plan.explain(&placement);
/// assert_eq!(explained.deferred.len(), 9);
/// # Ok::<(), narad_core::plan::PlacementError>(())
/// ```
#[must_use]
pub fn plan(placement: &Placement, limits: &Limits) -> Plan {
    let draft = Draft::new(placement);
    let running = Running::new(placement);
    let steps = limits::in_order_lazily(placement, &draft.shares, &draft.steps);
    let moves = limits::admit(placement, limits, running, steps);
    Plan { moves, limits: *limits, draft }
}

/// What to do about a placement.
///
/// Holds eight bytes for each planned move and some for each node: the moves that wait and the
/// reasons are made when somebody [asks for them](Self::explain).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Plan {
    /// The moves that start now, in that order.
    pub moves: Vec<Move>,
    /// The limits that told those that start from those that wait.
    pub limits: Limits,
    draft: Draft,
}

impl Plan {
    /// Returns how many moves are planned, those that have to wait included.
    pub const fn len(&self) -> usize {
        self.draft.steps.len()
    }

    /// Returns whether there is nothing to move, now or later.
    pub const fn is_empty(&self) -> bool {
        self.draft.steps.is_empty()
    }

    /// Returns the fewest moves that balance the placement: see [`Report::moves_min`].
    pub fn moves_min(&self) -> u32 {
        self.draft.moves_min()
    }

    /// Returns all planned moves by the partitions' ids; `placement` is what was planned.
    ///
    /// # Panics
    ///
    /// If `placement` has fewer rows than what was planned.
    pub fn all<'a>(&'a self, placement: &'a Placement) -> impl Iterator<Item = Move> + 'a {
        self.draft.steps.iter().map(|step| Planned::of(placement, *step).describe(placement))
    }

    /// Says what starts, what waits, and why everything is so; `placement` is what was planned.
    ///
    /// Takes time and memory for every partition that moves, and looks at all of them.
    ///
    /// # Panics
    ///
    /// If `placement` has fewer rows than what was planned.
    #[must_use]
    pub fn explain(&self, placement: &Placement) -> Explained {
        let steps = limits::in_order(placement, &self.draft.shares, &self.draft.steps);
        let (moves, deferred) = limits::admit_all(placement, &self.limits, &steps);
        let mut board = Board::new(placement);
        for step in &self.draft.steps {
            board.place[step.partition as usize] = step.to;
        }
        let report = Report::new(&board, &self.draft.shares, &moves, &deferred);
        Explained { moves, deferred, limits: self.limits, report }
    }
}

/// All planned moves, by dense indices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Draft {
    shares: Shares,
    /// By partition.
    steps: Vec<Step>,
}

impl Draft {
    fn new(placement: &Placement) -> Self {
        let mut shares = Shares::new(placement);
        let steps = choose::choose(placement, &mut shares);
        Self { shares, steps }
    }

    fn moves_min(&self) -> u32 {
        let surplus = |share: &Share| share.surplus();
        if self.shares.receivers == 0 { 0 } else { self.shares.of.iter().map(surplus).sum() }
    }
}

/// A plan in full: every move, and every reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Explained {
    /// The moves that start now, in that order.
    pub moves: Vec<Move>,
    /// The moves that have to wait, in the order in which they would start.
    pub deferred: Vec<Deferred>,
    /// The limits that told the two apart.
    pub limits: Limits,
    /// Why it is so.
    pub report: Report,
}

impl Explained {
    /// Returns all planned moves, those that start now first.
    pub fn all(&self) -> impl Iterator<Item = &Move> {
        self.moves.iter().chain(self.deferred.iter().map(|deferred| &deferred.planned))
    }

    /// Returns whether there is nothing to move, now or later.
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.deferred.is_empty()
    }
}

/// One planned move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Move {
    /// The partition.
    pub partition: PartitionId,
    /// Its owner, which a proposal must still find (K114).
    pub from: NodeId,
    /// Its target.
    pub to: NodeId,
    /// What it is for.
    pub class: Class,
    /// The size of its log.
    pub bytes: ByteCount,
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, from, to, .. } = self;
        write!(f, "partition {partition} from node {from} to node {to}")
    }
}

/// What a move is for; in the order in which moves start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Class {
    /// Its owner leaves.
    Drain,
    /// Its owner has more than its share.
    Balance,
}

/// A planned move that does not start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Deferred {
    /// The move.
    pub planned: Move,
    /// What it waits for.
    pub reason: Deferral,
}
