//! Checks a plan without the planner: by definitions, over ids, in maps, one by one.
//!
//! Meant for tests, fuzzing and the simulator. It looks at every pair of partitions where a
//! conflict remains, so it is for placements of thousands of partitions, not of millions; on a
//! placement so big that the planner stops looking for trades, it may find one that was left.

mod admission;
mod ledger;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use self::ledger::Ledger;
use super::limits::Deferral;
use super::placement::{Placement, Role};
use super::{Class, Explained};
use crate::ids::{NodeId, PartitionId};

/// A fault of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// A move of something that is not in the placement.
    #[error("partition {0} is not in the placement; plan what is")]
    UnknownPartition(PartitionId),
    /// Two moves of one partition.
    #[error("partition {0} is planned twice; one move is enough (S13)")]
    PlannedTwice(PartitionId),
    /// A move away from a node that does not own the partition.
    #[error("partition {0} is not owned by the node it is taken from; a proposal would fail")]
    WrongSource(PartitionId),
    /// A move of a class that does not fit the source.
    #[error("the move of partition {0} is of the wrong class; only a leaving owner drains")]
    WrongClass(PartitionId),
    /// A move of a partition that must stay: mid-move, pinned, or owned by a dead node.
    #[error("partition {0} must not move (R73, R80)")]
    Immovable(PartitionId),
    /// A move to the owner, or to a node that does not receive.
    #[error("partition {partition} cannot move to node {to} (R83)")]
    BadDestination {
        /// The partition.
        partition: PartitionId,
        /// The destination.
        to: NodeId,
    },
    /// More or fewer moves than the least that balances.
    #[error("{planned} moves are planned and {rest} remain; {fewest} would do (S12)")]
    NotFewest {
        /// Planned moves, deferred ones included.
        planned: u64,
        /// The fewest that would be needed once they are done.
        rest: u64,
        /// The fewest that are needed now.
        fewest: u64,
    },
    /// A node that could still give more than its share away.
    #[error("node {0} keeps more than its share, though it could give (R70)")]
    AboveShare(NodeId),
    /// A node within its share that gives.
    #[error("node {0} is within its share, but gives (R72)")]
    WithinShareGives(NodeId),
    /// A node that gives and takes.
    #[error("node {0} gives and takes; one of the moves is for nothing")]
    GivesAndTakes(NodeId),
    /// A ceil share that a less loaded node keeps, with no conflict to justify it.
    ///
    /// Costs no move. Not a fault of what is left of a plan of which some has started, as
    /// [`Planner`](super::Planner) keeps it: the shares were given when the plan was made.
    #[error("node {less} keeps a ceil share that node {more} holds more for (R72)")]
    CeilMisplaced {
        /// The more loaded node.
        more: NodeId,
        /// The less loaded one.
        less: NodeId,
    },
    /// A movable partition that a leaving node keeps.
    #[error("partition {0} stays on a leaving node, though nodes receive (R84)")]
    LeftBehind(PartitionId),
    /// A move that starts in spite of a limit.
    #[error("partition {partition} starts, though {limit}")]
    OverLimit {
        /// The partition.
        partition: PartitionId,
        /// The limit.
        limit: Deferral,
    },
    /// A deferred move that no limit holds up.
    #[error("partition {0} waits, though no limit holds it up (R75, K103)")]
    WaitsForNothing(PartitionId),
    /// A balance move that starts before a drain.
    #[error("the balance move of partition {0} comes before a drain")]
    DrainsLast(PartitionId),
    /// Two relatives on one node, where an equally cheap plan has fewer conflicts.
    #[error(
        "partition {partition} shares a node with a relative; trading places with {with} costs no move (R81)"
    )]
    AvoidableConflict {
        /// The partition.
        partition: PartitionId,
        /// The partition whose place it could have.
        with: PartitionId,
    },
    /// A report that disagrees with the plan.
    #[error("the report says {reported} moves are the fewest; {fewest} are")]
    Misreported {
        /// What the report says.
        reported: u64,
        /// What is so.
        fewest: u64,
    },
}

/// Checks a plan; a good one has no findings.
///
/// Shares no code with the planner but the types.
///
/// # Examples
///
/// A move for nothing is found:
///
/// ```
/// use narad_core::ids::{ByteCount, NodeId, PartitionId, TopicId};
/// use narad_core::plan::{
///     Class, Limits, Move, Node, Partition, Placement, Role, Topic, lint, plan,
/// };
///
/// let nodes = [1, 2].map(|id| Node { id: NodeId(id), role: Role::Receiver });
/// let topic = Topic { id: TopicId(1), parent: None };
/// let id = PartitionId { topic: topic.id, index: 0 };
/// let partition = Partition::settled(id, NodeId(1));
/// let placement = Placement::new(nodes.into(), vec![topic], vec![partition])?;
///
/// let mut plan = plan(&placement, &Limits::default()).explain(&placement);
/// assert!(lint(&placement, &plan).is_empty());
/// let class = Class::Balance;
/// let bytes = ByteCount(0);
/// plan.moves.push(Move { partition: id, from: NodeId(1), to: NodeId(2), class, bytes });
/// assert!(!lint(&placement, &plan).is_empty());
/// # Ok::<(), narad_core::plan::PlacementError>(())
/// ```
#[must_use]
pub fn lint(placement: &Placement, plan: &Explained) -> Vec<Finding> {
    let mut findings = Vec::new();
    each_move(placement, plan, &mut findings);
    if findings.is_empty() {
        let ledger = Ledger::new(placement, plan);
        ledger.balance(&mut findings);
        ledger.ceil_shares(&mut findings);
        ledger.conflicts(&mut findings);
    }
    admission::check(placement, plan, &mut findings);
    findings
}

/// Checks every move by itself.
fn each_move(placement: &Placement, plan: &Explained, findings: &mut Vec<Finding>) {
    let role = |id: NodeId| placement.node(id).map(|node| node.role);
    let mut seen = BTreeSet::new();
    for planned in plan.all() {
        let id = planned.partition;
        let Some(row) = placement.partition(id) else {
            findings.push(Finding::UnknownPartition(id));
            continue;
        };
        if !seen.insert(id) {
            findings.push(Finding::PlannedTwice(id));
        }
        if planned.from != row.owner {
            findings.push(Finding::WrongSource(id));
        }
        let leaves = role(row.owner) == Some(Role::Leaving);
        if leaves != (planned.class == Class::Drain) {
            findings.push(Finding::WrongClass(id));
        }
        if row.target.is_some() || row.pinned || role(row.owner) == Some(Role::Dead) {
            findings.push(Finding::Immovable(id));
        }
        if planned.to == row.owner || role(planned.to) != Some(Role::Receiver) {
            findings.push(Finding::BadDestination { partition: id, to: planned.to });
        }
    }
}
