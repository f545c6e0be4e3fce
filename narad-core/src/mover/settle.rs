//! What to do about the disk and the row, before and between steps.
//!
//! First the fate of every directory that bears one of this node's tries is found out through the
//! log; then what lost is used again or set aside; only then does a move go on.

use super::catch_up::CatchUp;
use super::cx::Cx;
use super::desk::Job;
use super::force::Promoting;
use super::installed::Fate;
use super::note::{Note, Waiting};
use super::operation::{Operation, Outcome, Proposed, What};
use super::pause::Then;
use super::{Over, SourceHealth, State};
use crate::effects::OpId;
use crate::ids::Attempt;
use crate::metastore::{Applied, Command, Reply};
use crate::planted::{Bug, is_planted};

/// Waits for one chore.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Settling {
    op: OpId,
    chore: Chore,
}

/// Something that must be done before a move can go on, or be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Chore {
    /// Ask the log for the fate of a try.
    Resolve(Attempt),
    /// Make a lost try's directory the staging area again, or set it aside.
    Reuse,
    /// Set the staging area aside; then the move is over.
    Clear(Over),
}

/// Does the next chore, or goes on with what the row says.
pub(super) fn settle(cx: &mut Cx<'_>) -> State {
    if let Some(data) = cx.desk.live() {
        return clear(Over::Owner(data), cx);
    }
    if let Some(row) = cx.desk.row().cloned() {
        cx.desk.installed.leave_past_reigns(&row);
    }
    if let Some(attempt) = cx.desk.installed.oldest(Fate::Open) {
        let command = Command::Resolve { partition: cx.desk.partition, attempt };
        return chore(Operation::Propose(command), Chore::Resolve(attempt), cx);
    }
    while let Some(attempt) = cx.desk.installed.oldest(Fate::Won) {
        // It won, and the row says that another owner has followed: salvage has it now.
        cx.desk.installed.leave(attempt);
    }
    if let Some(state) = reuse(cx) {
        return state;
    }
    decide(cx)
}

/// Deals with the directories of lost tries.
fn reuse(cx: &mut Cx<'_>) -> Option<State> {
    let installed = &cx.desk.installed;
    let (attempt, usable) = match installed.newest(Fate::Condemned) {
        Some(attempt) => (attempt, false),
        None => (installed.newest(Fate::Free)?, true),
    };
    if usable && cx.desk.wanted().is_some() && cx.desk.stage.working().is_none() {
        return Some(chore(Operation::Restage { attempt }, Chore::Reuse, cx));
    }
    if source_is_safe(cx) {
        let what = What::Installed(attempt);
        return Some(chore(Operation::SetAside(what), Chore::Reuse, cx));
    }
    // It may be the last copy of something (case C54).
    cx.desk.installed.leave(attempt);
    reuse(cx)
}

fn decide(cx: &mut Cx<'_>) -> State {
    if let Some(job) = cx.desk.wanted() {
        return go_on(job, cx);
    }
    match cx.desk.row() {
        None if is_planted(Bug::MoveOutlivesItsTopic) => {
            cx.wait(Waiting::LeaderUnreachable, Then::Locate)
        }
        None => clear(Over::Gone, cx),
        // The row names a directory that this disk does not have: an owner's matter (H25). What
        // is staged may be all that is left.
        Some(row) if row.owner == cx.desk.me.node => finish(Over::Owner(row.data), cx),
        Some(_) if source_is_safe(cx) => clear(Over::Cancelled { staging_kept: false }, cx),
        Some(_) => {
            let staging_kept = cx.desk.stage.on_disk;
            finish(Over::Cancelled { staging_kept }, cx)
        }
    }
}

fn go_on(job: Job, cx: &mut Cx<'_>) -> State {
    cx.desk.begin(job);
    match cx.desk.owner_health() {
        Some(SourceHealth::Dead { generation, since, promote_after })
            if since.after(promote_after) <= cx.now =>
        {
            Promoting::begin(job, generation, cx)
        }
        Some(SourceHealth::Dead { .. } | SourceHealth::Alive { .. }) | None => {
            CatchUp::begin(job, cx)
        }
    }
}

/// Whether everything that a copy could hold is known to be elsewhere, too.
fn source_is_safe(cx: &Cx<'_>) -> bool {
    match (cx.desk.row(), cx.desk.owner_health()) {
        (None, _) | (Some(_), Some(SourceHealth::Alive { .. })) => true,
        (Some(_), Some(SourceHealth::Dead { .. }) | None) => cx.desk.live().is_some(),
    }
}

fn clear(over: Over, cx: &mut Cx<'_>) -> State {
    if cx.desk.stage.on_disk && cx.desk.installed.oldest(Fate::Open).is_none() {
        chore(Operation::SetAside(What::Staging), Chore::Clear(over), cx)
    } else {
        finish(over, cx)
    }
}

fn finish(over: Over, cx: &mut Cx<'_>) -> State {
    cx.note(match over {
        Over::Moved => unreachable!("a flip that wins is noted where it is made"),
        Over::Owner(data) => Note::AlreadyOwner { data },
        Over::Cancelled { staging_kept } => Note::Cancelled { staging_kept },
        Over::Gone => Note::Gone,
    });
    State::Over(over)
}

fn chore(operation: Operation, chore: Chore, cx: &mut Cx<'_>) -> State {
    State::Settling(Settling { op: cx.run(operation), chore })
}

impl Settling {
    pub(super) fn done(self, op: OpId, outcome: Outcome, cx: &mut Cx<'_>) -> State {
        assert_eq!(op, self.op, "chores are done one at a time");
        match (self.chore, outcome) {
            (Chore::Resolve(attempt), Outcome::Propose(proposed)) => {
                resolved(attempt, &proposed, cx)
            }
            (Chore::Reuse, Outcome::Restage(Ok(())) | Outcome::SetAside(Ok(()))) => settle(cx),
            (Chore::Clear(over), Outcome::SetAside(Ok(()))) => cleared(over, cx),
            (
                Chore::Reuse | Chore::Clear(_),
                Outcome::Restage(Err(fault)) | Outcome::SetAside(Err(fault)),
            ) => cx.fault(fault, Then::Settle),
            (chore, outcome) => unreachable!("{chore:?} was answered by {outcome:?}"),
        }
    }
}

fn resolved(attempt: Attempt, proposed: &Proposed, cx: &mut Cx<'_>) -> State {
    let won = match proposed {
        Proposed::Unknown => return cx.wait(Waiting::LeaderUnreachable, Then::Settle),
        Proposed::Replied(Reply::Applied(Applied::Won(epoch))) => Some(*epoch),
        Proposed::Replied(Reply::Applied(_) | Reply::Rejected(_)) => None,
    };
    cx.note(Note::Resolved { attempt, won });
    // The row of a try that won is newer than the one that is known.
    if won.is_some() { cx.locate() } else { settle(cx) }
}

fn cleared(over: Over, cx: &mut Cx<'_>) -> State {
    // The same node may have become the target again meanwhile.
    if cx.desk.wanted().is_some() { cx.locate() } else { finish(over, cx) }
}
