//! Why a partition is where it is, why it is nowhere else, and what would change that.

use narad_core::ids::{NodeId, PartitionId};
use narad_core::metastore::{Assignment, State, Status};
use narad_core::node::Node;
use narad_core::plan::{self, NodeReport, NodeWhy, Role, Why};

use super::NodeService;
use super::blocking;
use super::names::Names;
use super::planning::{Ground, share_text, why_text};
use crate::service::{ElsewhereView, ExplainView, MemberStatus, Read, ServiceError};

/// What the state says of one partition.
struct Facts {
    row: Assignment,
    owner: MemberStatus,
    /// The node of the partition that this one is fed by, and of those that it feeds.
    relatives: Vec<(PartitionId, NodeId)>,
}

impl NodeService {
    pub(super) async fn explain_view(
        &self,
        topic: &str,
        index: u32,
    ) -> Result<ExplainView, ServiceError> {
        let partition = self.place(topic, index).await?.partition;
        let look = move |node: &Node| Some((facts(node.state(), partition)?, Ground::of(node)?));
        let Some((facts, ground)) = self.look(Read::Barrier, look).await? else {
            return Err(ServiceError::UnknownTopic(topic.to_owned()));
        };
        let (moves, told) = self.moves_and_told().await?;
        let moving =
            moves.into_iter().find(|one| one.topic.as_str() == topic && one.partition == index);
        let mut view = blocking(move || explain(&ground, &facts, partition)).await?;
        view.bytes = told.bytes(&view.owner, &view.topic, index);
        view.moving = moving;
        Ok(view)
    }
}

fn facts(state: &State, partition: PartitionId) -> Option<Facts> {
    let row = state.assignment(partition)?.clone();
    let owner = match state.member(row.owner)?.status {
        Status::Alive => MemberStatus::Alive,
        Status::Dead(_) => MemberStatus::Dead,
    };
    let parent = state.topic(partition.topic)?.parent;
    let topics = state
        .topics()
        .filter(|topic| Some(topic.id) == parent || topic.parent == Some(partition.topic));
    let relatives = topics.filter_map(|topic| {
        let id = PartitionId { topic: topic.id, index: partition.index };
        let row = state.assignment(id)?;
        Some((id, row.target.unwrap_or(row.owner)))
    });
    Some(Facts { owner, relatives: relatives.collect(), row })
}

fn explain(ground: &Ground, facts: &Facts, partition: PartitionId) -> ExplainView {
    let (names, row) = (&ground.names, &facts.row);
    let plan = plan::plan(&ground.placement, &ground.limits).explain(&ground.placement);
    let home = row.target.unwrap_or(row.owner);
    let fallback = Why::WithinShare { node: home };
    let why = plan.report.why(&ground.placement, partition).unwrap_or(fallback);
    let why = if row.pinned && matches!(why, Why::WithinShare { .. }) {
        Why::Pinned { node: home }
    } else {
        why
    };
    let others = plan.report.nodes.iter().filter(|node| node.node != row.owner);
    let elsewhere = others.map(|node| ElsewhereView {
        member: names.member(node.node),
        why_not: why_not(names, facts, why, node),
    });
    ExplainView {
        topic: names.topic(partition.topic),
        partition: partition.index,
        owner: names.member(row.owner),
        epoch: row.epoch,
        owner_status: facts.owner,
        pinned: row.pinned,
        bytes: None,
        here: why_text(names, why),
        elsewhere: elsewhere.collect(),
        would_change: would_change(names, facts, partition, why),
        moving: None,
    }
}

/// Says why a partition is not on a node.
fn why_not(names: &Names, facts: &Facts, why: Why, node: &NodeReport) -> String {
    let goes_to = match why {
        Why::Moves { to, .. }
        | Why::Deferred { to, .. }
        | Why::InFlight { to }
        | Why::TargetLost { to } => Some(to),
        Why::OwnerDead { .. }
        | Why::Pinned { .. }
        | Why::NoReceiver { .. }
        | Why::WithinShare { .. } => None,
    };
    if goes_to == Some(node.node) {
        return "it goes there".to_owned();
    }
    match node.role {
        Role::Dead => return "it is dead".to_owned(),
        Role::Leaving => return "it leaves, and takes nothing".to_owned(),
        Role::Receiver => {}
    }
    if let Some((relative, _)) = facts.relatives.iter().find(|(_, at)| *at == node.node) {
        return format!("{} is there, which feeds it or is fed by it", names.place(*relative));
    }
    let NodeReport { load, cap, moves_in, .. } = *node;
    match node.why {
        NodeWhy::HasRoom if goes_to.is_none() => format!(
            "it has room, {load} of {cap}, and that is filled by others: no member has to give this \
             one away"
        ),
        NodeWhy::HasRoom => format!("it has room, {load} of {cap}, for {moves_in} other moves"),
        other @ (NodeWhy::WithinShare
        | NodeWhy::AboveShare
        | NodeWhy::Waits { .. }
        | NodeWhy::Overpinned
        | NodeWhy::Leaving
        | NodeWhy::LeavingPinned { .. }
        | NodeWhy::NoReceiver
        | NodeWhy::Dead { .. }) => format!("it {}, {load} of {cap}", share_text(other)),
    }
}

/// Says what would move a partition, or keep it.
fn would_change(names: &Names, facts: &Facts, partition: PartitionId, why: Why) -> Vec<String> {
    let place = names.place(partition);
    let owner = names.member(facts.row.owner);
    let by_hand = format!("narad cluster move {place} --to ID moves it by hand, and pins it there");
    match why {
        Why::Moves { .. } | Why::Deferred { .. } | Why::InFlight { .. } => Vec::from([
            format!("narad cluster abort {place} --pin keeps it on {owner}"),
            "narad cluster pause keeps every planned move from beginning".to_owned(),
        ]),
        Why::TargetLost { to } => {
            Vec::from([format!("{} comes back, or another member is found", names.member(to))])
        }
        Why::OwnerDead { .. } => Vec::from([
            format!("{owner} comes back: then it is served again, as it was"),
            format!(
                "narad cluster declare-lost {place} has it served again without what only {owner} \
                 holds"
            ),
        ]),
        Why::Pinned { .. } => {
            Vec::from([format!("narad cluster unpin {place} lets the planner have it"), by_hand])
        }
        Why::NoReceiver { .. } => {
            Vec::from(["a node joins, or another decommission is cancelled".to_owned()])
        }
        Why::WithinShare { .. } => Vec::from([
            format!("a node joins, or {owner} leaves or gets more than its share"),
            by_hand,
        ]),
    }
}

#[cfg(test)]
mod tests;
