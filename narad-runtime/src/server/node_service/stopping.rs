//! Whether a member's process may be stopped now: what an orchestrator asks before it does.
//!
//! A stop for a restart leaves the disk, so what is on it is not lost: it is only not served
//! meanwhile. What speaks against it is what others would have to wait for without need: a hand-over
//! that is nearly through, and the member whose vote is the last one that is needed. A stop for good
//! takes the disk along, and is safe only once the member has been taken out (field fault 43).

use std::time::Duration;

use narad_core::controller::stopping::{Life, Objection, Standing};
use narad_core::mover::Phase;
use narad_core::node::Node;

use super::NodeService;
use super::advice::{Advice, NOBODY};
use crate::service::{Cause, MoveView, Read, ServiceError, StopView};
use crate::units::counted;

impl NodeService {
    pub(super) async fn stop_view(
        &self,
        member: &str,
        for_good: bool,
    ) -> Result<StopView, ServiceError> {
        let wanted = member.to_owned();
        let look = move |node: &Node| facts(node, &wanted);
        let found = self.look(Read::Barrier, look).await?;
        let (name, facts, dead_timeout) =
            found.ok_or_else(|| ServiceError::UnknownMember(member.to_owned()))?;
        let mut view =
            StopView { member: name, for_good, safe: true, reasons: Vec::new(), notes: Vec::new() };
        if facts.is_out() {
            return Ok(view);
        }
        let (moves, told) = self.moves_and_told().await?;
        let backlog = told.of(&view.member).map(|known| known.backlog_records);
        let name = view.member.as_str();
        let against =
            if for_good { for_good_reasons(name, &facts) } else { reasons(name, &facts, &moves) };
        let costs = if for_good { Vec::new() } else { notes(name, &facts, backlog, dead_timeout) };
        view.safe = against.is_empty();
        view.reasons = against.into_iter().map(Advice::stop_reason).collect();
        view.notes = costs.into_iter().map(Advice::stop_reason).collect();
        tracing::debug!(node = %facts.id, view.safe, "may it be stopped?");
        Ok(view)
    }
}

/// Returns a member's name, how it stands, and how long it may be silent.
fn facts(node: &Node, name: &str) -> Option<(narad_core::ids::Name, Standing, Duration)> {
    let state = node.state();
    let retired = || state.members().filter(|one| one.name.as_str() == name).last();
    let member = state.member_named(name).or_else(retired)?;
    let standing = Standing::of(state, node.leader(), member.id)?;
    Some((member.name.clone(), standing, state.policy().dead_timeout))
}

/// Returns what speaks against a restart.
fn reasons(name: &str, facts: &Standing, moves: &[MoveView]) -> Vec<Advice> {
    let mut found = Vec::new();
    if facts.life == Life::Dead {
        return found;
    }
    if let Some(Objection::LastMajority { left, needed }) = facts.against_restart() {
        found.push(Advice::passes(
            Cause::LastMajority,
            format!("without {name} the voters alive would be {left}, and {needed} are needed"),
            "the voters that are dead: start them again first, or let another node join",
        ));
    }
    let concerned = moves.iter().filter(|one| one.from.as_str() == name || one.to.as_str() == name);
    for one in concerned.filter(|one| is_cutting_over(one)) {
        let phase = one.phase.as_deref().unwrap_or("?");
        found.push(Advice::passes(
            Cause::CutOver,
            format!(
                "{} is being handed over from {} to {} ({phase})",
                one.place(),
                one.from,
                one.to
            ),
            format!("{NOBODY}, in a moment"),
        ));
    }
    found
}

/// Whether a move is between its freeze and its end: a stop would keep producers waiting.
fn is_cutting_over(moved: &MoveView) -> bool {
    moved.phase.as_deref().and_then(Phase::named).is_some_and(Phase::is_cutting_over)
}

/// Returns what a restart costs, although it is safe.
fn notes(
    name: &str,
    facts: &Standing,
    backlog: Option<u64>,
    dead_timeout: Duration,
) -> Vec<Advice> {
    let mut found = Vec::new();
    if facts.life == Life::Dead {
        let reason = format!("{name} has been declared dead already");
        found.push(Advice::passes(Cause::MemberDead, reason, "start it again"));
        return found;
    }
    if facts.leads {
        found.push(Advice::passes(
            Cause::Leads,
            format!("{name} leads"),
            "another voter is elected within a few seconds; producers and consumers go on",
        ));
    }
    if facts.owned > 0 {
        let owned = counted(facts.owned, "partition");
        found.push(Advice::passes(
            Cause::OwnerDead,
            format!("{name} owns {owned}, not served meanwhile"),
            format!(
                "its disk keeps everything, and new records wait at other nodes. After {} s it is \
                 declared dead",
                dead_timeout.as_secs()
            ),
        ));
    }
    if let Some(records) = backlog.filter(|records| *records > 0) {
        let records = counted(records, "record");
        found.push(Advice::passes(
            Cause::Backlog,
            format!("{name} has yet to hand out {records} that it accepted"),
            "they stay on its disk, and go on once it is back",
        ));
    }
    found
}

/// Returns what speaks against a stop that takes the disk along.
fn for_good_reasons(name: &str, facts: &Standing) -> Vec<Advice> {
    match facts.against_leaving() {
        Some(Objection::StillVotes) => {
            let reason = format!("{name} has been taken out, but still has a vote");
            Vec::from([Advice::passes(Cause::Voting, reason, NOBODY)])
        }
        Some(Objection::NotRetired { owned }) => {
            let owned = counted(owned, "partition");
            let reason = format!(
                "{name} has not been taken out: its disk may hold records that nobody else has; it \
                 owns {owned}"
            );
            let remedy = if facts.draining {
                format!("narad cluster decommission {name} --wait shows how far it is")
            } else {
                format!("narad cluster decommission {name} --wait")
            };
            Vec::from([Advice::needed(Cause::NotRetired, reason, remedy)])
        }
        Some(Objection::LastMajority { .. }) | None => Vec::new(),
    }
}

#[cfg(test)]
pub(super) mod tests;
