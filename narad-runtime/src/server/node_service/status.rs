//! The whole cluster on one page: what `narad-core` judges, in words, and what to do next.

use narad_core::controller::limits;
use narad_core::controller::stopping::{Life, Quorum};
use narad_core::controller::verdict::{Course, Loss, Matter, Told as WhatIsTold, Whole, is_full};
use narad_core::ids::{ByteCount, Name, NodeId};
use narad_core::metastore::State;
use narad_core::node::Node;
use narad_core::plan::{self, Limits, Placement};

use super::advice::{Advice, NOBODY};
use super::draining::{Leaver, OwnWord, of_move, owner_dead, paused, progress};
use super::gather::Told;
use super::views::member_view;
use super::{NodeService, blocking};
use crate::service::{
    Cause, ClusterView, DrainView, MemberStatus, MemberView, MoveView, QuorumView, Read,
    ServiceError, Verdict,
};
use crate::units::counted;

/// What one look at the node shows.
struct Seen {
    view: ClusterView,
    leavers: Vec<Leaver>,
    placement: Option<Placement>,
    limits: Limits,
}

impl NodeService {
    pub(super) async fn cluster_view(&self, read: Read) -> Result<ClusterView, ServiceError> {
        let seen = self.look(read, see).await?;
        let Seen { mut view, leavers, placement, limits } = seen;
        view.moves = self.moves_now(read).await?;
        let told = match read {
            // A stale view is this node's own.
            Read::Stale => Told::default(),
            Read::Barrier => self.ask_all().await?,
        };
        if let Some(placement) = placement {
            let planned = blocking(move || plan::plan(&placement, &limits).len()).await?;
            view.planned = planned as u64;
        }
        let views = leavers.iter().map(|one| one.view(&view.moves, OwnWord::of(&told, &one.name)));
        view.drains = views.collect();
        for member in &mut view.members {
            member.bytes = told.bytes_of(&member.id);
            member.free_bytes = told.of(&member.id).map(|own| own.free_bytes.0);
        }
        judge(&mut view);
        Ok(view)
    }
}

fn see(node: &Node) -> Seen {
    let (state, leader) = (node.state(), node.leader());
    let members: Vec<MemberView> =
        state.members().map(|member| member_view(state, leader, member)).collect();
    let dead = members.iter().filter(|member| member.status == MemberStatus::Dead);
    let leavers = state.members().filter(|member| {
        // Who was taken out is of interest as long as it has a vote.
        member.draining && (!member.retired || state.configuration().contains(member.id))
    });
    let view = ClusterView {
        member: node.identity().name.clone(),
        leader: leader.and_then(|leader| state.member(leader)).map(|leader| leader.name.clone()),
        quorum: quorum(state),
        paused: state.policy().paused,
        partitions: (state.assignments().len() + state.unassigned().len()) as u64,
        unassigned: state.unassigned().len() as u64,
        unserved: dead.map(|member| member.owned_partitions).sum(),
        planned: 0,
        members,
        moves: Vec::new(),
        drains: Vec::new(),
        verdict: Verdict::Done { proof: String::new() },
        next: Vec::new(),
    };
    Seen {
        view,
        leavers: leavers.filter_map(|member| Leaver::of(state, member.id)).collect(),
        placement: node.placement(),
        limits: limits(state),
    }
}

/// Returns who votes, by name.
fn quorum(state: &State) -> QuorumView {
    let Quorum { voters, alive, needed } = Quorum::of(state);
    let known = |node: &NodeId| state.member(*node).map(|member| member.name.clone());
    QuorumView { voters: voters.iter().filter_map(known).collect(), alive, needed }
}

/// Gives the verdict on all of it, and says what to do next.
fn judge(view: &mut ClusterView) {
    let whole = Whole {
        leader_known: view.leader.is_some(),
        unassigned: view.unassigned,
        planned: view.planned,
        paused: view.paused,
    };
    let matters = whole.matters();
    let is_first = |matter: &Matter| matches!(matter, Matter::NoLeader);
    let say = |matter: &Matter| say(*matter, view);
    let mut found: Vec<Verdict> = matters.iter().filter(|one| is_first(one)).map(say).collect();
    found.extend(view.members.iter().filter_map(|member| dead(member, &view.moves)));
    let drains = view.drains.iter().filter_map(|drain: &DrainView| drain.verdict.clone());
    found.extend(drains.filter(|verdict| !verdict.is_done()));
    found.extend(view.moves.iter().map(of_move));
    found.extend(view.members.iter().filter_map(full));
    found.extend(matters.iter().filter(|one| !is_first(one)).map(say));
    view.next = next(&found, view.planned > 0);
    let courses: Vec<Course> = found.iter().map(Verdict::course).collect();
    view.verdict = match WhatIsTold::of(&courses) {
        WhatIsTold::Blocked(at) | WhatIsTold::Waits(at) => found.swap_remove(at),
        WhatIsTold::GoesOn => {
            let moves: Vec<&MoveView> = view.moves.iter().collect();
            progress(&moves, None).unwrap_or(Verdict::progressing(0, 0, 0))
        }
        WhatIsTold::Done => done(view),
    };
}

/// Puts what is not about any one member or move into words.
fn say(matter: Matter, view: &ClusterView) -> Verdict {
    let advice = match matter {
        Matter::NoLeader => {
            let QuorumView { voters, needed, .. } = &view.quorum;
            let reason = format!("{} knows of no leader: nothing can be decided", view.member);
            let who = format!(
                "the voters: {needed} of {} have to run and reach one another",
                list(voters.iter().map(Name::as_str))
            );
            Advice::passes(Cause::NoLeader, reason, who)
        }
        Matter::Unassigned { partitions } => {
            let reason = format!("no owner yet for {}", counted(partitions, "partition"));
            let who = "nobody needs to, as long as a member is alive and stays";
            Advice::passes(Cause::Unassigned, reason, who)
        }
        Matter::Paused { moves } => paused(&counted(moves, "planned move")),
        Matter::Slots { moves } => {
            let planned = counted(moves, "planned move");
            let reason = format!("{planned} will begin once a slot is free");
            Advice::passes(Cause::Slots, reason, NOBODY)
        }
    };
    advice.verdict()
}

/// Says what a dead member means.
fn dead(member: &MemberView, moves: &[MoveView]) -> Option<Verdict> {
    let name = &member.id;
    let life = match member.status {
        MemberStatus::Dead => Life::Dead,
        MemberStatus::Retired => Life::Retired,
        MemberStatus::Alive | MemberStatus::Unknown => Life::Alive,
    };
    let promoting = moves.iter().filter(|one| one.from == *name).count() as u64;
    let loss = Loss::of(life, member.draining, member.owned_partitions, promoting)?;
    let advice = match loss {
        Loss::Alone { partitions } => owner_dead(name, partitions),
        Loss::Missed => {
            let reason = format!("{name} is dead");
            let who = format!(
                "{name}: start it again, or take it out: narad cluster decommission {name}"
            );
            Advice::passes(Cause::MemberDead, reason, who)
        }
    };
    Some(advice.verdict())
}

/// Says what a member's full disk means.
fn full(member: &MemberView) -> Option<Verdict> {
    let (name, free) = (&member.id, ByteCount(member.free_bytes?));
    let advice = is_full(free).then(|| {
        Advice::needed(
            Cause::DiskFull,
            format!("the disk of {name} is full"),
            format!("free space on {name}, or move partitions away from it: narad cluster move"),
        )
    });
    advice.map(Advice::verdict)
}

/// Returns what to do next: remedies first, then whom to look at. What nobody needs to do is left
/// out.
fn next(found: &[Verdict], planned: bool) -> Vec<String> {
    const NEXT_MAX: usize = 8;
    let remedies = found.iter().filter_map(|verdict| match verdict {
        Verdict::Blocked { reason, remedy, .. } => Some(format!("{reason}: {remedy}")),
        Verdict::Progressing { .. } | Verdict::Waiting { .. } | Verdict::Done { .. } => None,
    });
    let helpers = found.iter().filter_map(|verdict| match verdict {
        Verdict::Waiting { reason, who, .. } if !who.starts_with("nobody") => {
            Some(format!("{reason}: {who}"))
        }
        Verdict::Waiting { .. }
        | Verdict::Progressing { .. }
        | Verdict::Blocked { .. }
        | Verdict::Done { .. } => None,
    });
    let mut next: Vec<String> = Vec::new();
    for line in remedies.chain(helpers) {
        if !next.contains(&line) {
            next.push(line);
        }
    }
    if next.len() > NEXT_MAX {
        let more = next.len() - NEXT_MAX;
        next.truncate(NEXT_MAX);
        next.push(format!("and {more} more: narad cluster moves"));
    }
    if next.is_empty() && planned {
        next.push("watch it: narad cluster moves --watch".to_owned());
    }
    next
}

fn done(view: &ClusterView) -> Verdict {
    let staying = view.members.iter().filter(|member| member.status == MemberStatus::Alive);
    let QuorumView { voters, alive, needed } = &view.quorum;
    let proof = format!(
        "all is served: {}, by {}; nothing moves, and no move would balance it better; {alive} of {} \
         alive, {needed} needed",
        counted(view.partitions, "partition"),
        counted(staying.count() as u64, "member"),
        counted(voters.len() as u64, "voter")
    );
    Verdict::Done { proof }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(super) mod tests;
