//! How a member's decommission is coming on.

use std::collections::BTreeSet;

use narad_core::controller::preflight;
use narad_core::ids::{Name, NodeId};
use narad_core::metastore::{State, Status};
use narad_core::node::Node;

use super::NodeService;
use super::advice::{Advice, NOBODY, of_blocker};
use super::gather::Told;
use crate::service::{Cause, DrainView, MemberStatus, MoveView, Read, ServiceError, Verdict};

/// What is known of a member, leaving or not.
#[derive(Clone, Debug)]
pub(super) struct Leaver {
    pub(super) name: Name,
    pub(super) status: MemberStatus,
    pub(super) stage: Stage,
    /// Whether it still takes part in the replicated log.
    pub(super) takes_part: bool,
    pub(super) owned: u64,
    /// Of these, those that are pinned and do not move.
    pub(super) pinned: u64,
    pub(super) inbound: u64,
    pub(super) outbound: u64,
    /// What would stand in the way of a decommission that begins now.
    pub(super) blockers: Vec<Advice>,
    pub(super) paused: bool,
}

/// How far a member is with leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It does not leave.
    Stays,
    /// It is being decommissioned.
    Leaves,
    /// It has said that nothing is left on it.
    DrainedOut,
}

/// What the member itself has told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnWord {
    /// Records that it has accepted and that have not reached their owners.
    pub(super) backlog: Option<u64>,
    /// Partitions of which it holds records that nobody else is known to have.
    pub(super) left_behind: Option<u64>,
    /// Bytes of all its logs.
    pub(super) bytes: Option<u64>,
}

impl OwnWord {
    pub(super) fn of(told: &Told, member: &Name) -> Self {
        let view = told.of(member);
        Self {
            backlog: view.map(|view| view.backlog_records),
            left_behind: view.map(|view| view.left_behind),
            bytes: told.bytes_of(member),
        }
    }
}

impl Leaver {
    pub(super) fn of(state: &State, node: NodeId) -> Option<Self> {
        let member = state.member(node)?;
        let is_pinned = |partition| {
            state.assignment(partition).is_some_and(|row| row.pinned && row.target.is_none())
        };
        let blockers = preflight::together(state, &BTreeSet::from([node]));
        let name = member.name.as_str();
        Some(Self {
            name: member.name.clone(),
            status: match member.status {
                _ if member.retired => MemberStatus::Retired,
                Status::Alive => MemberStatus::Alive,
                Status::Dead(_) => MemberStatus::Dead,
            },
            stage: match (member.draining, member.drained_out) {
                (false, _) => Stage::Stays,
                (true, false) => Stage::Leaves,
                (true, true) => Stage::DrainedOut,
            },
            takes_part: state.configuration().contains(node),
            owned: state.owned_count(node) as u64,
            pinned: state.owned_by(node).filter(|partition| is_pinned(*partition)).count() as u64,
            inbound: state.inbound_count(node) as u64,
            outbound: state.outbound_count(node) as u64,
            blockers: blockers.into_iter().map(|(_, one)| of_blocker(one, name)).collect(),
            paused: state.policy().paused,
        })
    }

    pub(super) fn view(&self, moves: &[MoveView], word: OwnWord) -> DrainView {
        DrainView {
            member: self.name.clone(),
            status: self.status,
            draining: self.stage != Stage::Stays,
            owned_partitions: self.owned,
            outbound_moves: self.outbound,
            inbound_moves: self.inbound,
            backlog_records: word.backlog,
            verdict: self.verdict(moves, word),
        }
    }

    /// Judges how it is coming on; `None` for a member that does not leave.
    fn verdict(&self, moves: &[MoveView], word: OwnWord) -> Option<Verdict> {
        let name = &self.name;
        if self.status == MemberStatus::Retired {
            return Some(self.retired());
        }
        if self.stage == Stage::Stays {
            return None;
        }
        if self.owned > 0 {
            return Some(self.shedding(moves, word));
        }
        if self.inbound > 0 {
            let reason = format!("{} partitions were on their way to {name}", self.inbound);
            let who = "nobody needs to: they are sent elsewhere by themselves";
            return Some(Advice::passes(Cause::Inbound, reason, who).verdict());
        }
        if self.status == MemberStatus::Dead {
            let reason = format!("{name} is dead, and has not said that nothing is left on it");
            let remedy = format!(
                "start {name} again; if it never comes back, take it out as it is: narad cluster \
                 forget {name}"
            );
            return Some(Advice::needed(Cause::MemberDead, reason, remedy).verdict());
        }
        if let Some(blocker) = self.blockers.first() {
            return Some(blocker.clone().verdict());
        }
        if self.stage == Stage::Leaves
            && let Some(advice) = self.handing_out(word)
        {
            return Some(advice.verdict());
        }
        let reason = format!("{name} owns nothing any more, and is about to be taken out");
        Some(Advice::passes(Cause::Retiring, reason, NOBODY).verdict())
    }

    fn retired(&self) -> Verdict {
        let name = &self.name;
        if self.takes_part {
            let reason = format!("{name} has been taken out, and its vote is being taken away");
            let who = "nobody needs to: the leader asks again until the voters have agreed";
            return Advice::passes(Cause::Voting, reason, who).verdict();
        }
        let proof = format!(
            "{name} owns nothing, is nobody's destination, has handed out what it had accepted and \
             has no vote: its process can be stopped and its disk wiped"
        );
        Verdict::Done { proof }
    }

    /// Judges a member that still owns partitions: what moves counts first, since one that is
    /// blocked holds up no other (field fault 46).
    fn shedding(&self, moves: &[MoveView], word: OwnWord) -> Verdict {
        let name = &self.name;
        let leaving: Vec<&MoveView> = moves.iter().filter(|one| one.from == *name).collect();
        if let Some(verdict) = progress(&leaving, word.bytes) {
            return verdict;
        }
        let unplanned = self.owned.saturating_sub(leaving.len() as u64);
        if self.status == MemberStatus::Dead && unplanned > 0 {
            let reason = format!("{name} is dead, and its disk alone holds {unplanned} partitions");
            let remedy = format!(
                "start {name} again; if it never comes back, give them up one by one: narad \
                 cluster declare-lost"
            );
            return Advice::needed(Cause::OwnerDead, reason, remedy).verdict();
        }
        let blocked = |one: &&&MoveView| one.verdict.as_ref().is_some_and(Verdict::is_blocked);
        if let Some(worst) = leaving.iter().find(blocked).or(leaving.first()) {
            return of_move(worst);
        }
        if self.pinned >= self.owned {
            let reason = format!("{} partitions are pinned to {name}", self.pinned);
            let remedy = "unpin them, or move them to another member: narad cluster unpin, narad \
                          cluster move";
            return Advice::needed(Cause::Pinned, reason, remedy).verdict();
        }
        if let Some(blocker) = self.blockers.iter().find(|one| one.code == Cause::NoReceivers) {
            return blocker.clone().verdict();
        }
        if self.paused {
            return paused(&format!("{} partitions of {name}", self.owned)).verdict();
        }
        let reason = format!("{} partitions of {name} wait for a free slot", self.owned);
        let who = "nobody needs to; more at once: narad cluster policy set max_in_flight=N";
        Advice::passes(Cause::Slots, reason, who).verdict()
    }

    /// Says what it still has to hand out, if it is known to have anything.
    fn handing_out(&self, word: OwnWord) -> Option<Advice> {
        let name = &self.name;
        let who = "the owners that they are for: narad cluster status shows which are dead";
        if let Some(records) = word.backlog.filter(|records| *records > 0) {
            let reason = format!("{records} records that {name} has accepted are on their way");
            return Some(Advice::passes(Cause::Backlog, reason, who));
        }
        let partitions = word.left_behind.filter(|partitions| *partitions > 0)?;
        let reason = format!("{name} holds records of {partitions} partitions that only it has");
        Some(Advice::passes(Cause::Backlog, reason, who))
    }
}

/// Says that nothing new begins.
pub(super) fn paused(what: &str) -> Advice {
    let reason = format!("moves are paused: {what} wait");
    Advice::passes(Cause::Paused, reason, "an operator: narad cluster resume")
}

/// Returns how moves are coming on together, if any of them is. `bytes` is what has to be copied in
/// all, as far as it is known.
pub(super) fn progress(moves: &[&MoveView], bytes: Option<u64>) -> Option<Verdict> {
    let mut sum = (0_u64, 0_u64, 0_u64);
    let mut any = false;
    for one in moves {
        if let Some(Verdict::Progressing { bytes, bytes_total, bytes_per_second, .. }) = one.verdict
        {
            any = true;
            sum.0 = sum.0.saturating_add(bytes);
            sum.1 = sum.1.saturating_add(bytes_total);
            sum.2 = sum.2.saturating_add(bytes_per_second);
        }
    }
    any.then(|| Verdict::progressing(sum.0, sum.1.max(bytes.unwrap_or(0)), sum.2))
}

/// Returns the verdict on one move, with its name.
pub(super) fn of_move(moved: &MoveView) -> Verdict {
    let place = moved.place();
    match moved.verdict.clone() {
        Some(Verdict::Waiting { code, reason, who }) => {
            Verdict::Waiting { code, reason: format!("{place}: {reason}"), who }
        }
        Some(Verdict::Blocked { code, reason, remedy }) => {
            Verdict::Blocked { code, reason: format!("{place}: {reason}"), remedy }
        }
        Some(verdict @ (Verdict::Progressing { .. } | Verdict::Done { .. })) => verdict,
        None => super::advice::silent(&moved.to).verdict(),
    }
}

impl NodeService {
    pub(super) async fn drain_view(&self, member: &str) -> Result<DrainView, ServiceError> {
        let wanted = member.to_owned();
        let find = move |node: &Node| {
            let state = node.state();
            // A retired member's name may have been taken again.
            let retired = || state.members().filter(|one| one.name.as_str() == wanted).last();
            let member = state.member_named(&wanted).or_else(retired)?;
            Leaver::of(state, member.id)
        };
        let found = self.look(Read::Barrier, find).await?;
        let leaver = found.ok_or_else(|| ServiceError::UnknownMember(member.to_owned()))?;
        let (moves, told) = self.moves_and_told().await?;
        Ok(leaver.view(&moves, OwnWord::of(&told, &leaver.name)))
    }

    /// Returns the moves with their progress, and what members have told, both as of now.
    pub(super) async fn moves_and_told(&self) -> Result<(Vec<MoveView>, Told), ServiceError> {
        let (moves, told) =
            futures_util::future::join(self.moves_now(Read::Barrier), self.ask_all()).await;
        Ok((moves?, told?))
    }
}

#[cfg(test)]
pub(super) mod tests;
