//! What a node shows of the cluster.

use std::collections::BTreeMap;

use narad_core::ids::{Name, NodeId, PartitionId, TopicId};
use narad_core::metastore::{Assignment, Member, State, Status};
use narad_core::node::Node;

use super::advice::{self, Ends};
use crate::server::book::TOLD_OUT;
use crate::server::pace::Pace;
use crate::service::{MemberStatus, MemberView, MoveView, Readiness, Role, Route, TopicView};

pub(super) fn member_view(state: &State, leader: Option<NodeId>, member: &Member) -> MemberView {
    let configuration = state.configuration();
    let votes = configuration.voters.contains(&member.id)
        || configuration.voters_outgoing.contains(&member.id);
    let role = match (votes, configuration.learners.contains(&member.id)) {
        (true, _) => Role::Voter,
        (false, true) => Role::Learner,
        (false, false) => Role::None,
    };
    let status = match member.status {
        _ if member.retired => MemberStatus::Retired,
        Status::Alive => MemberStatus::Alive,
        Status::Dead(_) => MemberStatus::Dead,
    };
    MemberView {
        id: member.name.clone(),
        node: member.id,
        addr: member.addrs.http.clone(),
        peer_addr: member.addrs.peer.clone(),
        status,
        draining: member.draining,
        drained_out: member.drained_out,
        role,
        leader: leader == Some(member.id),
        incarnation: member.incarnation,
        owned_partitions: state.owned_count(member.id) as u64,
        inbound_moves: state.inbound_count(member.id) as u64,
        outbound_moves: state.outbound_count(member.id) as u64,
        bytes: None,
        free_bytes: None,
    }
}

/// Returns the moves as a node knows them, and where to ask about those to other nodes.
pub(super) fn moves_seen_from(node: &Node, pace: &Pace) -> (Vec<MoveView>, BTreeMap<Name, String>) {
    let state = node.state();
    let moves = state.targeted().filter_map(|partition| move_view(node, pace, partition)).collect();
    let mut elsewhere = BTreeMap::new();
    for partition in state.targeted() {
        let target = state.assignment(partition).and_then(|row| row.target);
        let target = target.filter(|&target| target != node.identity().node);
        if let Some(member) = target.and_then(|target| state.member(target)) {
            elsewhere.insert(member.name.clone(), member.addrs.http.clone());
        }
    }
    (moves, elsewhere)
}

/// Adds what a destination has told of the moves to it, or that it does not tell.
pub(super) fn add_progress(moves: &mut [MoveView], to: &Name, told: Option<&[MoveView]>) {
    for known in moves.iter_mut().filter(|known| known.to == *to) {
        let same = |other: &&MoveView| {
            (&other.topic, other.partition, other.move_id)
                == (&known.topic, known.partition, known.move_id)
        };
        match told.map(|told| told.iter().find(same)) {
            // What this node knows of a dead end is as good as what the other one does.
            Some(Some(found)) => {
                let verdict = known.verdict.take().or_else(|| found.verdict.clone());
                *known = MoveView { source_dead: known.source_dead, verdict, ..found.clone() };
            }
            Some(None) => {}
            None => {
                known.waiting = Some(format!("{to} does not answer: look whether it runs"));
                known.verdict.get_or_insert_with(|| advice::silent(to).verdict());
            }
        }
        known.verdict.get_or_insert_with(|| advice::starting(to).verdict());
    }
}

fn move_view(node: &Node, pace: &Pace, partition: PartitionId) -> Option<MoveView> {
    let state = node.state();
    let row = state.assignment(partition)?;
    let name = |id: NodeId| state.member(id).map(|member| member.name.clone());
    let progress = node.moves().find(|(id, _)| *id == partition).map(|(_, progress)| progress);
    let is_dead = |node| state.member(node).is_none_or(|member| member.status != Status::Alive);
    let source_dead = is_dead(row.owner);
    let target = row.target?;
    let mut view = MoveView {
        topic: state.topic(partition.topic)?.name.clone(),
        partition: partition.index,
        from: name(row.owner)?,
        to: name(target)?,
        move_id: row.move_id,
        phase: None,
        bytes_staged: None,
        bytes_total: None,
        bytes_per_second: None,
        predicted_freeze_ms: None,
        waiting: None,
        source_dead,
        attempts: None,
        verdict: None,
    };
    if is_dead(target) {
        view.verdict = Some(advice::dead_target(&view, state.policy().paused).verdict());
    } else if target == node.identity().node && progress.is_none() {
        view.verdict = Some(advice::starting(&view.to).verdict());
    }
    if let Some(mut progress) = progress {
        if let Some(rate) = pace.of(partition, progress.move_id).filter(|rate| *rate > 0) {
            progress.copy_rate = rate;
        }
        view.phase = Some(progress.phase.to_string());
        view.bytes_staged = Some(progress.staged_bytes);
        view.bytes_total = Some(progress.listed_bytes);
        view.bytes_per_second = Some(progress.copy_rate).filter(|rate| *rate > 0);
        view.predicted_freeze_ms = progress.freeze_ms;
        view.waiting = progress.waiting.map(|reason| reason.to_string());
        view.attempts = Some(progress.attempts);
        let partition = view.place();
        let ends = Ends { partition: &partition, from: view.from.as_str(), to: view.to.as_str() };
        view.verdict = Some(advice::of_progress(&progress, ends));
    }
    Some(view)
}

pub(super) fn topic_view(state: &State, topic: TopicId) -> Option<TopicView> {
    let topic = state.topic(topic)?;
    let parent = topic.parent.and_then(|parent| state.topic(parent));
    Some(TopicView {
        name: topic.name.clone(),
        id: topic.id,
        partitions: topic.partitions,
        parent: parent.map(|parent| parent.name.clone()),
    })
}

pub(super) fn route(node: &Node, partition: PartitionId, row: &Assignment) -> Option<Route> {
    let owner = node.state().member(row.owner)?;
    Some(Route {
        partition: partition.index,
        owner: owner.name.clone(),
        addr: owner.addrs.http.clone(),
        epoch: row.epoch,
        serving_here: node.serving(partition) == Some(row.epoch),
        alive: owner.status == Status::Alive,
        moving: row.target.is_some(),
    })
}

/// Says that waiting is in vain.
pub(super) fn removed() -> Readiness {
    let why = "this node was removed from the cluster: it can be stopped and wiped";
    Readiness { removed: true, ..waiting(why) }
}

/// Says that waiting is in vain, if a member is right.
pub(super) fn told_out() -> Readiness {
    Readiness { removed: true, ..waiting(TOLD_OUT) }
}

/// Says that a node does not take part, and what it waits for.
pub(super) fn waiting(what: &str) -> Readiness {
    Readiness { waiting: Some(what.to_owned()), ..Readiness::default() }
}
