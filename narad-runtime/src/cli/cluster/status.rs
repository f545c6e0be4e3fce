//! The whole cluster on one page.

use std::fmt::Write as _;

use super::words::verdict;
use super::{Desk, path, show};
use crate::cli::{ExitCode, Failure};
use crate::service::{ClusterView, MemberStatus, QuorumView};
use crate::units::counted;

/// Shows the cluster; without a leader what one node knows, with the exit code that says so.
pub(super) async fn show(desk: &mut Desk<'_>, stale: bool, check: bool) -> Result<(), Failure> {
    let address = "/v1/cluster/status";
    let answer = desk.read(&path(address, stale), page).await;
    let view: ClusterView = match answer {
        Ok(view) => view,
        Err(failure) if failure.code == ExitCode::Unavailable && !stale => {
            // What one node knows is more than nothing, if there is one.
            if desk.read(&path(address, true), page).await.is_err() {
                return Err(failure);
            }
            return Err(failure.with_hint("this is what one node knows"));
        }
        Err(failure) => return Err(failure),
    };
    if check && view.verdict.is_blocked() {
        return Err(Failure::new(ExitCode::Blocked, "something is blocked"));
    }
    Ok(())
}

fn page(width: u16, wide: bool, view: &ClusterView) -> String {
    let mut text = head(view);
    text.push_str("\n\n");
    let here = view.members.iter().filter(|member| member.status != MemberStatus::Retired);
    text.push_str(&show::members(width, wide, &here.cloned().collect::<Vec<_>>()));
    if !view.moves.is_empty() {
        text.push_str("\n\n");
        text.push_str(&show::moves(width, wide, &view.moves, &[]));
    }
    for drain in &view.drains {
        if let Some(found) = &drain.verdict {
            // Writing into a string cannot fail.
            let _ = write!(text, "\n\n{} leaves: {}", drain.member, verdict(found));
        }
    }
    text.push_str("\n\n");
    text.push_str(&verdict(&view.verdict));
    for line in &view.next {
        text.push_str("\n  next: ");
        text.push_str(line);
    }
    text
}

fn head(view: &ClusterView) -> String {
    let leader = view
        .leader
        .as_ref()
        .map_or_else(|| "NOBODY leads".to_owned(), |leader| format!("{leader} leads"));
    let QuorumView { voters, alive, needed } = &view.quorum;
    let mut text = format!(
        "{leader}; {alive} of {} alive, {needed} needed\n",
        counted(voters.len() as u64, "voter")
    );
    text.push_str(&counted(view.partitions, "partition"));
    if view.unserved > 0 {
        let _ = write!(text, ", {} of them NOT SERVED", view.unserved);
    }
    if view.unassigned > 0 {
        let _ = write!(text, ", {} without an owner yet", view.unassigned);
    }
    let moves = counted(view.moves.len() as u64, "move");
    let _ = write!(text, "; {moves} under way, {} to come", view.planned);
    if view.paused {
        text.push_str("; moves are PAUSED");
    }
    text
}
