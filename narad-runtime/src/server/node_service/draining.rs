//! How a member's decommission is coming on: what `narad-core` judges, in words.

use narad_core::controller::stopping::Life;
use narad_core::controller::verdict::{self, Course, Drain, Stage, Step};
use narad_core::ids::{Name, NodeId};
use narad_core::metastore::State;
use narad_core::node::Node;

use super::NodeService;
use super::advice::{Advice, NOBODY, of_blocker};
use super::gather::Told;
use crate::service::{Cause, DrainView, MemberStatus, MoveView, Read, ServiceError, Verdict};
use crate::units::counted;

/// What is known of a member, leaving or not.
#[derive(Clone, Debug)]
pub(super) struct Leaver {
    pub(super) name: Name,
    pub(super) drain: Drain,
}

/// What the member itself has told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnWord {
    pub(super) left: verdict::OwnWord,
    /// Bytes of all its logs.
    pub(super) bytes: Option<u64>,
}

impl OwnWord {
    pub(super) fn of(told: &Told, member: &Name) -> Self {
        let view = told.of(member);
        let left = verdict::OwnWord {
            backlog: view.map(|view| view.backlog_records),
            left_behind: view.map(|view| view.left_behind),
        };
        Self { left, bytes: told.bytes_of(member) }
    }
}

impl Leaver {
    pub(super) fn of(state: &State, node: NodeId) -> Option<Self> {
        let name = state.member(node)?.name.clone();
        Some(Self { name, drain: Drain::of(state, node)? })
    }

    pub(super) fn view(&self, moves: &[MoveView], word: OwnWord) -> DrainView {
        let Self { name, drain } = self;
        DrainView {
            member: name.clone(),
            status: match drain.life {
                Life::Alive => MemberStatus::Alive,
                Life::Dead => MemberStatus::Dead,
                Life::Retired => MemberStatus::Retired,
            },
            draining: drain.stage != Stage::Stays,
            owned_partitions: drain.owned,
            outbound_moves: drain.outbound,
            inbound_moves: drain.inbound,
            backlog_records: word.left.backlog,
            verdict: self.verdict(moves, word),
        }
    }

    /// Says how it is coming on; `None` for a member that does not leave.
    fn verdict(&self, moves: &[MoveView], word: OwnWord) -> Option<Verdict> {
        let leaving: Vec<&MoveView> = moves.iter().filter(|one| one.from == self.name).collect();
        let courses: Vec<Course> = leaving.iter().map(|one| course_of_move(one)).collect();
        let step = self.drain.step(&courses, word.left)?;
        let said = self.say(step, &leaving, word.bytes);
        debug_assert_eq!(said.course(), step.course(&courses), "what is said is what is judged");
        Some(said)
    }

    /// Puts a step into words.
    fn say(&self, step: Step, leaving: &[&MoveView], bytes: Option<u64>) -> Verdict {
        let name = &self.name;
        let nobody = |code, reason| Advice::passes(code, reason, NOBODY);
        let advice = match step {
            Step::Moving => {
                return progress(leaving, bytes).unwrap_or(Verdict::progressing(0, 0, 0));
            }
            Step::Held { at } => match leaving.get(at) {
                Some(held) => return of_move(held),
                None => super::advice::silent(name),
            },
            Step::Out => {
                let proof = format!(
                    "{name} owns nothing, is nobody's destination, has handed out what it had \
                     accepted and has no vote: its process can be stopped and its disk wiped"
                );
                return Verdict::Done { proof };
            }
            Step::Blocked(blocker) => of_blocker(blocker, name.as_str()),
            Step::OwnerDead { partitions } => owner_dead(name, partitions),
            Step::Pinned { partitions } => {
                let reason = format!("{} pinned to {name}", counted(partitions, "partition"));
                let remedy = "unpin them, or move them to another member: narad cluster unpin, \
                              narad cluster move";
                Advice::needed(Cause::Pinned, reason, remedy)
            }
            Step::Paused { partitions } => {
                paused(&format!("{} of {name}", counted(partitions, "partition")))
            }
            Step::Slots { partitions } => {
                let what = counted(partitions, "partition");
                let reason = format!("{what} of {name} will move once a slot is free");
                let who = "nobody needs to; more at once: narad cluster policy set max_in_flight=N";
                Advice::passes(Cause::Slots, reason, who)
            }
            Step::Inbound { partitions } => {
                let reason =
                    format!("{} had been sent to {name}", counted(partitions, "partition"));
                let who = "nobody needs to: they are sent elsewhere by themselves";
                Advice::passes(Cause::Inbound, reason, who)
            }
            Step::MemberDead => {
                let reason = format!("{name} is dead, and has not said that nothing is left on it");
                let remedy = format!(
                    "start {name} again; if it never comes back, take it out as it is: narad \
                     cluster forget {name}"
                );
                Advice::needed(Cause::MemberDead, reason, remedy)
            }
            Step::Backlog { records } => {
                let records = counted(records, "record");
                let reason = format!("{name} has yet to hand out {records} that it accepted");
                Advice::passes(Cause::Backlog, reason, OWNERS)
            }
            Step::LeftBehind { partitions } => {
                let of = counted(partitions, "partition");
                let reason = format!("{name} holds records of {of} that only it has");
                Advice::passes(Cause::Backlog, reason, OWNERS)
            }
            Step::Retiring => {
                let reason = format!("{name} owns nothing any more, and is about to be taken out");
                nobody(Cause::Retiring, reason)
            }
            Step::Voting => {
                let reason = format!("{name} has been taken out, and its vote is being taken away");
                let who = "nobody needs to: the leader asks again until the voters have agreed";
                Advice::passes(Cause::Voting, reason, who)
            }
        };
        advice.verdict()
    }
}

/// Who helps a member that has something to hand out.
const OWNERS: &str = "the owners that they are for: narad cluster status shows which are dead";

/// Says that a dead member alone has something.
pub(super) fn owner_dead(name: &Name, partitions: u64) -> Advice {
    let held = counted(partitions, "partition");
    let reason = format!("{name} is dead, and its disk alone holds {held}");
    let remedy = format!(
        "start {name} again; if it never comes back, give them up one by one: narad cluster \
         declare-lost"
    );
    Advice::needed(Cause::OwnerDead, reason, remedy)
}

/// Returns how a move is doing. One that tells nothing waits for its destination to.
pub(super) fn course_of_move(moved: &MoveView) -> Course {
    moved.verdict.as_ref().map_or(Course::Waits, Verdict::course)
}

/// Says that nothing new begins.
pub(super) fn paused(what: &str) -> Advice {
    let reason = format!("moves are paused, and with them {what}");
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
