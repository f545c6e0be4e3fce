//! What the planner would do, and why, with the names that people know.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use narad_core::controller::{limits, preflight};
use narad_core::ids::{Name, NodeId};
use narad_core::node::Node;
use narad_core::plan::{
    self, Class, Deferral, Explained, Limits, Move, NodeReport, NodeWhy, Placement, Role, Why,
};

use super::advice::{Advice, of_blocker};
use super::gather::Told;
use super::names::Names;
use super::salvage::client;
use super::{NodeService, blocking};
use crate::service::{
    BlockerView, Cause, PlanView, PlannedView, PreflightView, Read, ReceiverView, ServiceError,
    ShareView, StaysView,
};
use crate::units::counted;

/// How long the leader may take to plan.
const PATIENCE: Duration = Duration::from_secs(5);

/// What one look at the node shows of a plan.
pub(super) struct Ground {
    pub(super) me: Name,
    pub(super) names: Names,
    pub(super) placement: Placement,
    pub(super) limits: Limits,
    pub(super) rate: u64,
}

impl Ground {
    pub(super) fn of(node: &Node) -> Option<Self> {
        let state = node.state();
        Some(Self {
            me: node.identity().name.clone(),
            names: Names::of(state),
            placement: node.placement()?,
            limits: limits(state),
            rate: state.policy().copy_rate_bytes_per_second,
        })
    }
}

impl NodeService {
    pub(super) async fn plan_view(&self, read: Read) -> Result<PlanView, ServiceError> {
        let leader = |node: &Node| {
            let leader = node.leader().filter(|leader| *leader != node.identity().node)?;
            node.state().member(leader).map(|leader| leader.addrs.http.clone())
        };
        let leader = self.look(read, leader).await?;
        if let (Read::Barrier, Some(addr)) = (read, leader)
            && let Some(client) = client(&addr, PATIENCE, self.tls())
            && let Ok(plan) = client.plan(Read::Stale).await
        {
            return Ok(plan);
        }
        let ground = self.ground(Read::Stale).await?;
        let told = self.ask_all().await?;
        blocking(move || {
            let plan = plan::plan(&ground.placement, &ground.limits).explain(&ground.placement);
            plan_view(&ground, &plan, &told)
        })
        .await
    }

    pub(super) async fn ground(&self, read: Read) -> Result<Ground, ServiceError> {
        let ground = self.look(read, Ground::of).await?;
        ground.ok_or_else(|| ServiceError::Internal("the state refers to what it lacks".into()))
    }

    pub(super) async fn preflight_view(
        &self,
        members: &[String],
    ) -> Result<(PreflightView, Vec<NodeId>), ServiceError> {
        let mut leaving = Vec::new();
        for member in members.iter().filter(|member| !member.is_empty()) {
            leaving.push(self.member(member).await?);
        }
        if leaving.is_empty() {
            let nobody = "name the members that are to leave, with commas between them";
            return Err(ServiceError::Invalid(nobody.to_owned()));
        }
        let set: BTreeSet<NodeId> = leaving.iter().copied().collect();
        let wanted = set.clone();
        let look = move |node: &Node| {
            let state = node.state();
            let blockers = preflight::together(state, &wanted);
            let inbound: Vec<(NodeId, usize)> =
                wanted.iter().map(|node| (*node, state.inbound_count(*node))).collect();
            (Ground::of(node), blockers, inbound, state.policy().paused)
        };
        let (ground, blockers, inbound, paused) = self.look(Read::Barrier, look).await?;
        let lacking = || ServiceError::Internal("the state refers to what it lacks".into());
        let ground = ground.ok_or_else(lacking)?;
        let told = self.ask_all().await?;
        let view = blocking(move || {
            let names = &ground.names;
            let mut view = PreflightView {
                members: set.iter().map(|node| names.member(*node)).collect(),
                possible: true,
                blockers: Vec::new(),
                warnings: warnings(names, &inbound, paused),
                moves: Vec::new(),
                receivers: Vec::new(),
                bytes: 0,
                bytes_unknown: 0,
                estimated_ms: None,
            };
            for (node, blocker) in blockers {
                let name = names.member(node);
                view.blockers.push(of_blocker(blocker, name.as_str()).blocker(name));
            }
            shed(&mut view, &ground, &set, &told);
            view.possible = view.blockers.is_empty();
            view
        })
        .await?;
        Ok((view, leaving))
    }
}

fn warnings(names: &Names, inbound: &[(NodeId, usize)], paused: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    for (node, moves) in inbound.iter().filter(|(_, moves)| *moves > 0) {
        let name = names.member(*node);
        let moves = counted(*moves as u64, "move");
        warnings.push(format!("{moves} to {name} will be given up and planned anew"));
    }
    if paused {
        warnings.push("moves are paused: nothing leaves before narad cluster resume".to_owned());
    }
    warnings
}

/// Plans what these nodes would shed, and looks whether it fits (field fault 36).
fn shed(view: &mut PreflightView, ground: &Ground, leaving: &BTreeSet<NodeId>, told: &Told) {
    let nodes = ground.placement.nodes().iter().map(|node| plan::Node {
        role: match node.role {
            Role::Receiver if leaving.contains(&node.id) => Role::Leaving,
            role @ (Role::Receiver | Role::Leaving | Role::Dead) => role,
        },
        ..*node
    });
    let (topics, rows) = (ground.placement.topics(), ground.placement.partitions());
    let placement = Placement::new(nodes.collect(), topics.to_vec(), rows.to_vec());
    let Ok(placement) = placement else { return };
    let plan = plan::plan(&placement, &ground.limits).explain(&placement);
    let (moves, traffic) = moves_view(ground, &plan, told);
    view.bytes = traffic.bytes;
    view.bytes_unknown = traffic.unknown;
    view.estimated_ms = traffic.estimated_ms(ground.rate);
    for (node, (count, bytes)) in &traffic.into_node {
        let member = ground.names.member(*node);
        let free_bytes = told.of(&member).map(|known| known.free_bytes.0);
        match free_bytes {
            Some(free) if *bytes > free => {
                let reason = format!("{member} would take {bytes} bytes and has {free} left");
                let remedy = "free space on it, or let a node with more room join first";
                let advice = Advice::needed(Cause::NoHeadroom, reason, remedy);
                view.blockers.push(advice.blocker(member.clone()));
            }
            Some(_) => {}
            None => view
                .warnings
                .push(format!("{member} does not say how much room it has: look whether it runs")),
        }
        view.receivers.push(ReceiverView { member, moves: *count, bytes: *bytes, free_bytes });
    }
    view.moves = moves;
}

/// What a plan copies, as far as it is known.
#[derive(Debug, Default)]
struct Traffic {
    bytes: u64,
    unknown: u64,
    /// Moves to each node, and their bytes.
    into_node: BTreeMap<NodeId, (u32, u64)>,
    out_of_node: BTreeMap<NodeId, u64>,
}

impl Traffic {
    /// Returns how long the busiest node copies at its rate, which both ends of a move pay.
    fn estimated_ms(&self, rate: u64) -> Option<u64> {
        let nodes: BTreeSet<&NodeId> =
            self.into_node.keys().chain(self.out_of_node.keys()).collect();
        let busiest = nodes.into_iter().map(|node| {
            let inward = self.into_node.get(node).map_or(0, |(_, bytes)| *bytes);
            inward.saturating_add(self.out_of_node.get(node).copied().unwrap_or(0))
        });
        let bytes = u128::from(busiest.max().unwrap_or(0)) * 1000;
        let ms = bytes.checked_div(u128::from(rate))?;
        Some(u64::try_from(ms).unwrap_or(u64::MAX))
    }
}

fn moves_view(ground: &Ground, plan: &Explained, told: &Told) -> (Vec<PlannedView>, Traffic) {
    let names = &ground.names;
    let mut traffic = Traffic::default();
    let starts = plan.moves.iter().map(|planned| (planned, None));
    let waits = plan.deferred.iter().map(|one| (&one.planned, Some(one.reason)));
    let moves = starts.chain(waits).map(|(planned, waits_for)| {
        let Move { partition, from, to, class, .. } = *planned;
        let (topic, owner) = (names.topic(partition.topic), names.member(from));
        let bytes = told.bytes(&owner, &topic, partition.index);
        traffic.unknown += u64::from(bytes.is_none());
        let known = bytes.unwrap_or(0);
        traffic.bytes = traffic.bytes.saturating_add(known);
        let into_node = traffic.into_node.entry(to).or_default();
        *into_node = (into_node.0 + 1, into_node.1.saturating_add(known));
        let out_of_node = traffic.out_of_node.entry(from).or_default();
        *out_of_node = out_of_node.saturating_add(known);
        let why = match class {
            Class::Drain => format!("{owner} leaves"),
            Class::Balance => format!("{owner} has more than its share"),
        };
        let why = match waits_for {
            None => why,
            Some(deferral) => format!("{why}; it waits: {}", deferred(names, deferral)),
        };
        PlannedView {
            topic,
            partition: partition.index,
            from: owner,
            to: names.member(to),
            starts: waits_for.is_none(),
            bytes,
            why,
        }
    });
    (moves.collect(), traffic)
}

fn plan_view(ground: &Ground, plan: &Explained, told: &Told) -> PlanView {
    let names = &ground.names;
    let (moves, traffic) = moves_view(ground, plan, told);
    let members = plan.report.nodes.iter().map(|node| {
        let into_node = traffic.into_node.get(&node.node).map_or(0, |(_, bytes)| *bytes);
        let out_of_node = traffic.out_of_node.get(&node.node).copied().unwrap_or(0);
        let delta = i128::from(into_node) - i128::from(out_of_node);
        share_view(names, node, i64::try_from(delta).unwrap_or(i64::MAX))
    });
    let stays = plan.report.partitions.iter().filter_map(|report| {
        let id = report.partition;
        match report.why {
            Why::Moves { .. } | Why::Deferred { .. } | Why::InFlight { .. } => None,
            why @ (Why::TargetLost { .. }
            | Why::OwnerDead { .. }
            | Why::Pinned { .. }
            | Why::NoReceiver { .. }
            | Why::WithinShare { .. }) => Some(StaysView {
                topic: names.topic(id.topic),
                partition: id.index,
                member: names.member(ground.placement.partition(id)?.owner),
                why: why_text(names, why),
            }),
        }
    });
    let report = &plan.report;
    PlanView {
        planned_by: ground.me.clone(),
        paused: ground.limits.paused,
        moves_min: report.moves_min,
        waiting: report.waiting,
        in_flight: report.in_flight,
        stuck: report.stuck,
        conflicts: report.conflicts,
        members: members.collect(),
        stays: stays.collect(),
        moves,
        bytes: traffic.bytes,
        bytes_unknown: traffic.unknown,
        copy_rate_bytes_per_second: ground.rate,
        estimated_ms: traffic.estimated_ms(ground.rate),
    }
}

fn share_view(names: &Names, node: &NodeReport, bytes_delta: i64) -> ShareView {
    ShareView {
        member: names.member(node.node),
        load: node.load,
        pinned: node.pinned,
        share: node.cap,
        moves_in: node.moves_in,
        moves_out: node.moves_out,
        bytes_delta,
        why: share_text(node.why),
    }
}

/// Says why a member gives, takes or does neither.
pub(super) fn share_text(why: NodeWhy) -> String {
    // These name no node.
    match why {
        NodeWhy::LeavingPinned { .. }
        | NodeWhy::WithinShare
        | NodeWhy::AboveShare
        | NodeWhy::Waits { .. }
        | NodeWhy::Overpinned
        | NodeWhy::HasRoom
        | NodeWhy::Leaving
        | NodeWhy::NoReceiver
        | NodeWhy::Dead { .. } => why.to_string(),
    }
}

/// Says what a planned move waits for.
pub(super) fn deferred(names: &Names, deferral: Deferral) -> String {
    match deferral {
        Deferral::Paused => "moves are paused; narad cluster resume lets them go on".to_owned(),
        Deferral::InFlight { max } => {
            format!("{max} moves are under way, the most at once (max_in_flight)")
        }
        Deferral::ReservedForDrain { slots } => {
            format!("{slots} free slots are kept for members that leave")
        }
        Deferral::Source { node, max } => {
            format!("{max} moves leave {}, the most at once (moves_per_source)", names.member(node))
        }
        Deferral::Destination { node, max } => format!(
            "{max} moves arrive at {}, the most at once (moves_per_destination)",
            names.member(node)
        ),
        Deferral::Topic { topic, max } => format!(
            "{max} partitions of {} are under way, half of it, so that the rest takes records",
            names.topic(topic)
        ),
    }
}

/// Says why a partition moves or does not.
pub(super) fn why_text(names: &Names, why: Why) -> String {
    match why {
        Why::Moves { to, class: Class::Drain } => {
            format!("it is about to move to {}: its owner leaves", names.member(to))
        }
        Why::Moves { to, class: Class::Balance } => {
            format!(
                "it is about to move to {}: its owner has more than its share",
                names.member(to)
            )
        }
        Why::Deferred { to, limit } => {
            format!("it is to move to {}, later: {}", names.member(to), deferred(names, limit))
        }
        Why::InFlight { to } => format!("it is on its way to {}", names.member(to)),
        Why::TargetLost { to } => format!(
            "it is on its way to {}, which takes nothing any more; it is planned anew by itself",
            names.member(to)
        ),
        Why::OwnerDead { owner } => {
            format!("{} is dead, and its disk alone holds it", names.member(owner))
        }
        Why::Pinned { node } => format!("it is pinned to {}", names.member(node)),
        Why::NoReceiver { node } => {
            format!("{} leaves, but no member takes anything", names.member(node))
        }
        Why::WithinShare { node } => {
            format!("{} has no more than its share, or gives others away", names.member(node))
        }
    }
}

/// Names a blocker for whoever only asks whether.
pub(super) fn reasons(blockers: &[BlockerView]) -> Vec<String> {
    let text = |one: &BlockerView| format!("{}: {} ({})", one.member, one.reason, one.remedy);
    blockers.iter().map(text).collect()
}

#[cfg(test)]
pub(super) mod tests;
