//! Why a plan is what it is, for people and for whoever checks it.

use alloc::vec::Vec;
use core::fmt;

use super::board::{Board, Kind};
use super::capacity::{Share, Shares};
use super::limits::Deferral;
use super::placement::{Placement, Role};
use super::{Class, Deferred, Move};
use crate::ids::{ByteCount, NodeId, PartitionId};

/// What was planned, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Report {
    /// The fewest moves that balance this placement: the sum of the surpluses of all nodes. The
    /// plan's started and deferred moves and `waiting` add up to it (R71, S12).
    pub moves_min: u32,
    /// Of those, moves of partitions that must arrive before they can leave again.
    pub waiting: u32,
    /// Moves in flight before this plan, stuck ones excluded.
    pub in_flight: u32,
    /// Moves in flight that cannot progress; they hold no slot.
    pub stuck: u32,
    /// Pairs of parent and child partitions that share a live node once all of it is done (R81).
    pub conflicts: u64,
    /// Every node, by id.
    pub nodes: Vec<NodeReport>,
    /// Every partition that moves, or that somebody might expect to move, by id.
    pub partitions: Vec<PartitionReport>,
}

/// What one node holds, may hold and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeReport {
    /// The node.
    pub node: NodeId,
    /// What it may be asked to do.
    pub role: Role,
    /// Partitions that end up here if nothing more is planned.
    pub load: u32,
    /// Those of them that are pinned.
    pub pinned: u32,
    /// What it may end up with; zero unless it receives.
    pub cap: u32,
    /// Planned moves to here, deferred ones included.
    pub moves_in: u32,
    /// Planned moves away from here, deferred ones included.
    pub moves_out: u32,
    /// Bytes that end up here: counts are balanced, sizes are not.
    pub bytes: ByteCount,
    /// Why.
    pub why: NodeWhy,
}

/// Why a node gives, takes or does neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum NodeWhy {
    /// It has its share.
    WithinShare,
    /// It has more than its share.
    AboveShare,
    /// It has more than its share, but some of it has yet to arrive before it can leave.
    Waits {
        /// How many partitions.
        in_flight: u32,
    },
    /// Its pinned partitions alone are more than its share.
    Overpinned,
    /// It has room.
    HasRoom,
    /// It leaves and gives everything away.
    Leaving,
    /// It leaves, but has pinned partitions that nobody may move.
    LeavingPinned {
        /// How many.
        pinned: u32,
    },
    /// It leaves, but no node receives.
    NoReceiver,
    /// It is dead; its partitions wait for its return.
    Dead {
        /// How many.
        waiting: u32,
    },
}

impl fmt::Display for NodeWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithinShare => f.write_str("has its share"),
            Self::AboveShare => f.write_str("has more than its share"),
            Self::Waits { in_flight } => {
                write!(f, "has more than its share; {in_flight} of it must arrive before it leaves")
            }
            Self::Overpinned => {
                f.write_str("has more pinned partitions than its share; unpin some")
            }
            Self::HasRoom => f.write_str("has room"),
            Self::Leaving => f.write_str("leaves and gives everything away"),
            Self::LeavingPinned { pinned } => {
                write!(f, "leaves, but {pinned} partitions are pinned to it; unpin them")
            }
            Self::NoReceiver => {
                f.write_str("leaves, but no node receives; add one or cancel a drain")
            }
            Self::Dead { waiting } => {
                write!(f, "is dead; {waiting} partitions wait for its return")
            }
        }
    }
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, load, cap, moves_in, moves_out, why, .. } = self;
        write!(f, "node {node}: {load} of {cap}, {moves_in} in, {moves_out} out: {why}")
    }
}

/// Why one partition moves or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PartitionReport {
    /// The partition.
    pub partition: PartitionId,
    /// Why.
    pub why: Why,
}

impl fmt::Display for PartitionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, why } = self;
        write!(f, "partition {partition}: {why}")
    }
}

/// Why a partition moves or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Why {
    /// Its move starts now.
    Moves {
        /// Where it goes.
        to: NodeId,
        /// What for.
        class: Class,
    },
    /// Its move is planned, but does not start now.
    Deferred {
        /// Where it goes.
        to: NodeId,
        /// What it waits for.
        limit: Deferral,
    },
    /// It moves already.
    InFlight {
        /// Where it goes.
        to: NodeId,
    },
    /// It moves already, but to a node that no longer receives. Clearing that target is the
    /// controller's decision (K100, K109).
    TargetLost {
        /// Where it goes.
        to: NodeId,
    },
    /// Its owner is dead; its data is on that disk only (R80).
    OwnerDead {
        /// Whose return it waits for.
        owner: NodeId,
    },
    /// An operator keeps it on a node that should give it away.
    Pinned {
        /// That node.
        node: NodeId,
    },
    /// Its node leaves, but no node receives (K111).
    NoReceiver {
        /// Its node.
        node: NodeId,
    },
    /// Its node has no more than its share, or gives others away.
    WithinShare {
        /// Its node.
        node: NodeId,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moves { to, class: Class::Drain } => write!(f, "drains to node {to}"),
            Self::Moves { to, class: Class::Balance } => write!(f, "moves to node {to}"),
            Self::Deferred { to, limit } => write!(f, "will move to node {to}: {limit}"),
            Self::InFlight { to } => write!(f, "is moving to node {to}"),
            Self::TargetLost { to } => {
                write!(f, "is moving to node {to}, which no longer receives; clear its target")
            }
            Self::OwnerDead { owner } => {
                write!(f, "stays: its owner, node {owner}, is dead; waiting for its return")
            }
            Self::Pinned { node } => write!(f, "stays: it is pinned to node {node}; unpin it"),
            Self::NoReceiver { node } => {
                write!(f, "stays: node {node} leaves, but no node receives")
            }
            Self::WithinShare { node } => write!(f, "stays: within the share of node {node}"),
        }
    }
}

impl Report {
    /// Returns why a partition moves or does not, or nothing if it is not in the placement that
    /// was planned.
    pub fn why(&self, placement: &Placement, id: PartitionId) -> Option<Why> {
        if let Ok(at) = self.partitions.binary_search_by_key(&id, |report| report.partition) {
            return self.partitions.get(at).map(|report| report.why);
        }
        let row = placement.partition(id)?;
        Some(Why::WithinShare { node: row.target.unwrap_or(row.owner) })
    }

    /// Returns the partitions that move to a node that no longer receives.
    pub fn targets_lost(&self) -> impl Iterator<Item = PartitionId> + '_ {
        let lost = |report: &&PartitionReport| matches!(report.why, Why::TargetLost { .. });
        self.partitions.iter().filter(lost).map(|report| report.partition)
    }

    /// Describes a plan; the board shows where everything ends up.
    pub(super) fn new(
        board: &Board<'_>,
        shares: &Shares,
        moves: &[Move],
        deferred: &[Deferred],
    ) -> Self {
        let placement = board.placement;
        let conflicts = board.conflicts_everywhere();
        let mut report = Self { conflicts, ..Self::default() };
        for (node, share) in placement.nodes().iter().zip(&shares.of) {
            report.nodes.push(node_report(node.id, share, shares.receivers));
            if shares.receivers > 0 {
                report.moves_min += share.surplus();
                report.waiting += share.waits();
            }
        }
        for (partition, &place) in (0..).zip(&board.place) {
            let row = &placement.partitions()[partition as usize];
            let owner = board.owner(partition);
            let kind = board.kind(partition);
            let bytes = &mut report.nodes[place as usize].bytes;
            bytes.0 = bytes.0.saturating_add(row.bytes.0);
            if kind == Kind::Movable && place != owner {
                report.nodes[owner as usize].moves_out += 1;
                report.nodes[place as usize].moves_in += 1;
            }
            report.in_flight += u32::from(row.target.is_some() && !row.stuck);
            report.stuck += u32::from(row.target.is_some() && row.stuck);
            if let Some(why) = stays(kind, shares, place, row.owner, row.target) {
                report.partitions.push(PartitionReport { partition: row.id, why });
            }
        }
        let started = moves.iter().map(|planned| PartitionReport {
            partition: planned.partition,
            why: Why::Moves { to: planned.to, class: planned.class },
        });
        let waits = deferred.iter().map(|Deferred { planned, reason }| PartitionReport {
            partition: planned.partition,
            why: Why::Deferred { to: planned.to, limit: *reason },
        });
        report.partitions.extend(started.chain(waits));
        report.partitions.sort_unstable_by_key(|report| report.partition);
        report
    }
}

/// Returns why a partition that is not planned stays, where somebody might expect it to move.
fn stays(
    kind: Kind,
    shares: &Shares,
    place: u32,
    owner: NodeId,
    target: Option<NodeId>,
) -> Option<Why> {
    let share = shares.at(place);
    match (kind, target) {
        (_, Some(to)) if share.role == Role::Receiver => Some(Why::InFlight { to }),
        (_, Some(to)) => Some(Why::TargetLost { to }),
        (Kind::Stranded, None) => Some(Why::OwnerDead { owner }),
        (Kind::Pinned, None) => {
            let expected = share.role == Role::Leaving || share.overfull;
            expected.then_some(Why::Pinned { node: owner })
        }
        (Kind::Movable | Kind::Moving, None) => {
            let drains = share.role == Role::Leaving && shares.receivers == 0;
            drains.then_some(Why::NoReceiver { node: owner })
        }
    }
}

/// Describes one node, but for its moves and bytes.
fn node_report(node: NodeId, share: &Share, receivers: u32) -> NodeReport {
    let &Share { role, load, pinned, cap, stranded, overfull, .. } = share;
    let why = match role {
        Role::Dead => NodeWhy::Dead { waiting: stranded },
        Role::Leaving if receivers == 0 && load > 0 => NodeWhy::NoReceiver,
        Role::Leaving if pinned > 0 => NodeWhy::LeavingPinned { pinned },
        Role::Leaving => NodeWhy::Leaving,
        Role::Receiver if overfull => NodeWhy::Overpinned,
        Role::Receiver if share.waits() > 0 => NodeWhy::Waits { in_flight: share.waits() },
        Role::Receiver if share.surplus() > 0 => NodeWhy::AboveShare,
        Role::Receiver if share.room() > 0 => NodeWhy::HasRoom,
        Role::Receiver => NodeWhy::WithinShare,
    };
    let bytes = ByteCount(0);
    NodeReport { node, role, load, pinned, cap, moves_in: 0, moves_out: 0, bytes, why }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { moves_min, waiting, in_flight, stuck, conflicts, .. } = self;
        writeln!(
            f,
            "{moves_min} moves balance the cluster, and no fewer; {waiting} of them wait for \
             arrivals; {in_flight} in flight, {stuck} stuck; {conflicts} conflicts remain"
        )?;
        self.nodes.iter().try_for_each(|node| writeln!(f, "{node}"))?;
        self.partitions.iter().try_for_each(|partition| writeln!(f, "{partition}"))
    }
}
