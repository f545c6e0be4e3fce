//! A plan in the names of its file.

use std::collections::BTreeMap;

use narad_core::ids::NodeId;
use narad_core::plan::{Class, Deferral, Explained, Move, Role, Why};
use serde::Serialize;

use super::NamedPlacement;

/// A plan in the names of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanView {
    /// The moves, those that start now first, in the order in which they start.
    pub moves: Vec<MoveView>,
    /// Every node, in the order of the file.
    pub nodes: Vec<NodeView>,
    /// The partitions that do not move, though somebody might expect it.
    pub stays: Vec<StayView>,
    /// The fewest moves that balance this placement. `moves` and `waiting` add up to it.
    pub lower_bound: u32,
    /// Of those, moves of partitions that must arrive before they can leave again.
    pub waiting: u32,
    /// Moves that are in flight already.
    pub in_flight: u32,
    /// Moves in flight that cannot progress.
    pub stuck: u32,
    /// Pairs of parent and child partitions that share a live node when all is done.
    pub conflicts: u64,
    /// Bytes that the moves copy.
    pub bytes: u64,
}

/// A planned move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MoveView {
    /// The partition, such as `orders/3`.
    pub partition: String,
    /// Its owner.
    pub from: String,
    /// Where it goes.
    pub to: String,
    /// Whether it starts now; otherwise it waits for a limit.
    pub starts: bool,
    /// The size of its log.
    pub bytes: u64,
    /// What it is for, and what it waits for.
    pub why: String,
}

/// A node before and after the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeView {
    /// Its name.
    pub node: String,
    /// `receiver`, `leaving` or `dead`.
    pub role: &'static str,
    /// Partitions that it owns now.
    pub before: u32,
    /// Partitions that it owns when everything in flight and in the plan is done.
    pub after: u32,
    /// What it may end up with.
    pub share: u32,
    /// Pinned partitions that it ends up with.
    pub pinned: u32,
    /// Planned moves to here.
    pub moves_in: u32,
    /// Planned moves away from here.
    pub moves_out: u32,
    /// Bytes that end up here.
    pub bytes_after: u64,
    /// Why.
    pub why: String,
}

/// A partition that does not move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StayView {
    /// The partition.
    pub partition: String,
    /// Its owner.
    pub owner: String,
    /// Why it stays.
    pub why: String,
}

impl PlanView {
    /// Shows a plan for a placement.
    #[must_use]
    pub fn new(named: &NamedPlacement, plan: &Explained) -> Self {
        let report = &plan.report;
        let show = |planned: &Move, waits: Option<Deferral>| {
            let from = named.node(planned.from);
            let mut why = match planned.class {
                Class::Drain => format!("{from} leaves"),
                Class::Balance => format!("{from} has more than its share"),
            };
            if let Some(limit) = waits {
                why = format!("{why}; waits: {}", deferral(named, limit));
            }
            MoveView {
                partition: named.partition(planned.partition),
                from: from.into(),
                to: named.node(planned.to).into(),
                starts: waits.is_none(),
                bytes: planned.bytes.0,
                why,
            }
        };
        let now = plan.moves.iter().map(|planned| show(planned, None));
        let later = plan.deferred.iter().map(|it| show(&it.planned, Some(it.reason)));
        let mut owned: BTreeMap<NodeId, u32> = BTreeMap::new();
        for partition in named.placement.partitions() {
            *owned.entry(partition.owner).or_default() += 1;
        }
        let nodes = report.nodes.iter().map(|row| {
            NodeView {
                node: named.node(row.node).into(),
                role: match row.role {
                    Role::Receiver => "receiver",
                    Role::Leaving => "leaving",
                    Role::Dead => "dead",
                },
                before: owned.get(&row.node).copied().unwrap_or(0),
                after: (row.load + row.moves_in).saturating_sub(row.moves_out),
                share: row.cap,
                pinned: row.pinned,
                moves_in: row.moves_in,
                moves_out: row.moves_out,
                bytes_after: row.bytes.0,
                // The core's words name no node here.
                why: row.why.to_string(),
            }
        });
        let stays = report.partitions.iter().filter_map(|row| {
            let owner = named.placement.partition(row.partition)?.owner;
            Some(StayView {
                partition: named.partition(row.partition),
                owner: named.node(owner).into(),
                why: stays(named, row.why)?,
            })
        });
        Self {
            moves: now.chain(later).collect(),
            nodes: nodes.collect(),
            stays: stays.collect(),
            lower_bound: report.moves_min,
            waiting: report.waiting,
            in_flight: report.in_flight,
            stuck: report.stuck,
            conflicts: report.conflicts,
            bytes: plan.all().map(|planned| planned.bytes.0).fold(0, u64::saturating_add),
        }
    }
}

/// Why a partition stays; nothing for one that is planned to move.
fn stays(named: &NamedPlacement, why: Why) -> Option<String> {
    let node = |id| named.node(id);
    Some(match why {
        Why::Moves { .. } | Why::Deferred { .. } => return None,
        Why::InFlight { to } => format!("is moving to {} already", node(to)),
        Why::TargetLost { to } => {
            format!("is moving to {}, which no longer receives; clear its target", node(to))
        }
        Why::OwnerDead { owner } => {
            format!("its owner {} is dead; it waits for its return", node(owner))
        }
        Why::Pinned { node: at } => format!("is pinned to {}; unpin it", node(at)),
        Why::NoReceiver { node: at } => {
            format!("{} leaves, but no node receives; add one or cancel a drain", node(at))
        }
        Why::WithinShare { node: at } => format!("is within the share of {}", node(at)),
    })
}

fn deferral(named: &NamedPlacement, limit: Deferral) -> String {
    let most = |max: u32, what: String| match max {
        1 => format!("a move {what} is in flight, the most that may"),
        _ => format!("{max} moves {what} are in flight, the most that may"),
    };
    match limit {
        Deferral::Source { node, max } => most(max, format!("away from {}", named.node(node))),
        Deferral::Destination { node, max } => most(max, format!("to {}", named.node(node))),
        Deferral::Topic { topic, max } => most(max, format!("of topic {}", named.topic(topic))),
        Deferral::Paused | Deferral::InFlight { .. } | Deferral::ReservedForDrain { .. } => {
            limit.to_string()
        }
    }
}
