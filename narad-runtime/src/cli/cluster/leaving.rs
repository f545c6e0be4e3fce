//! Taking members out of the cluster.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Desk;
use super::watch::{Board, Line, PAUSE, passing};
use super::words::lasts;
use crate::cli::table::{bytes, render};
use crate::cli::{ExitCode, Failure};
use crate::service::{BlockerView, Cause, DrainView, MemberStatus, PreflightView, Verdict};
use crate::units::counted;

/// Cancels the decommission of these members.
pub(super) async fn cancel(desk: &mut Desk<'_>, ids: &[String]) -> Result<(), Failure> {
    for id in ids {
        desk.client.decommission(id, false).await?;
        desk.say(&format!("{id} stays in the cluster"))?;
    }
    Ok(())
}

/// Takes a dead member out for good.
pub(super) async fn forget(
    desk: &mut Desk<'_>,
    id: &str,
    yes: bool,
    receipt: &str,
) -> Result<(), Failure> {
    let drain = desk.client.drain(id).await?;
    if drain.status == MemberStatus::Dead {
        let what = format!("{id} would be taken out with whatever only its disk holds");
        desk.terminal.confirm(yes, &what).await?;
    }
    desk.client.forget(id, receipt).await?;
    desk.say(&format!("{id} is taken out: its disk never comes back as a member"))
}

/// Begins the decommission of these members together, or only shows what it would mean.
pub(super) async fn decommission(
    desk: &mut Desk<'_>,
    ids: &[String],
    dry_run: bool,
    wait: bool,
    yes: bool,
) -> Result<(), Failure> {
    // Whoever waits again goes on waiting.
    if wait && all_leave_already(desk, ids).await? {
        return wait_for(desk, ids).await;
    }
    let view = desk.client.preflight(ids).await?;
    if dry_run {
        if desk.json() {
            desk.print_view(&view)?;
        } else {
            let text = page(desk.terminal.width, &view);
            desk.terminal.print(&text)?;
        }
    }
    if !view.possible {
        return Err(blocked(&view.blockers));
    }
    if dry_run {
        return Ok(());
    }
    let what = format!("{} would leave the cluster: {}", ids.join(", "), summary(&view));
    desk.terminal.confirm(yes, &what).await?;
    let view = desk.client.decommission_all(ids).await?;
    if wait {
        return wait_for(desk, ids).await;
    }
    if desk.json() {
        return desk.print_view(&view);
    }
    let (verb, go, are) = if ids.len() == 1 { ("is", "goes", "is") } else { ("are", "go", "are") };
    let names = ids.join(", ");
    desk.terminal.print(&format!(
        "{names} {verb} draining and {go} on serving what is still there; {}\n\
         narad cluster decommission {} --wait shows when it {are} over",
        summary(&view),
        ids.join(" ")
    ))
}

/// Whether every one of these is leaving, or has left.
async fn all_leave_already(desk: &Desk<'_>, ids: &[String]) -> Result<bool, Failure> {
    for id in ids {
        let drain = desk.client.drain(id).await?;
        if !drain.draining && drain.status != MemberStatus::Retired {
            return Ok(false);
        }
    }
    Ok(true)
}

fn blocked(blockers: &[BlockerView]) -> Failure {
    let text = |one: &BlockerView| format!("{}: {} ({})", one.member, one.reason, one.remedy);
    let reasons: Vec<String> = blockers.iter().map(text).collect();
    Failure::new(ExitCode::Refused, format!("this cannot be done: {}", reasons.join("; ")))
        .with_hint("nothing was changed; remove what stands in the way, then ask again")
}

fn summary(view: &PreflightView) -> String {
    let mut text = format!("{}, ", counted(view.moves.len() as u64, "move"));
    if view.bytes_unknown > 0 {
        text.push_str("at least ");
    }
    text.push_str(&bytes(view.bytes));
    if let Some(ms) = view.estimated_ms {
        // Writing into a string cannot fail.
        let _ = write!(text, ", about {}", lasts(ms.max(1000)));
    }
    text
}

fn page(width: u16, view: &PreflightView) -> String {
    let mut text = String::new();
    if !view.moves.is_empty() {
        let rows = view.moves.iter().map(|one| {
            let size = one.bytes.map_or_else(|| "?".to_owned(), bytes);
            let place = format!("{}/{}", one.topic, one.partition);
            vec![place, one.from.to_string(), one.to.to_string(), size, one.why.clone()]
        });
        let header = ["PARTITION", "FROM", "TO", "SIZE", "WHY"];
        text.push_str(&render(width, &header, rows.collect()));
        text.push_str("\n\n");
        let rows = view.receivers.iter().map(|one| {
            let free = one.free_bytes.map_or_else(|| "?".to_owned(), bytes);
            vec![one.member.to_string(), one.moves.to_string(), bytes(one.bytes), free]
        });
        text.push_str(&render(width, &["RECEIVER", "MOVES", "TAKES", "FREE"], rows.collect()));
        text.push_str("\n\n");
    }
    text.push_str(&summary(view));
    for warning in &view.warnings {
        text.push_str("\n  note: ");
        text.push_str(warning);
    }
    if view.possible {
        text.push_str("\nnothing stands in the way; nothing was changed");
    }
    text
}

/// How many looks in a row have to find the same obstacle before it counts: a node that restarts is
/// back by then.
const LOOKS: u32 = 4;

/// Shows how it comes on until all are out, or it cannot go on by itself.
async fn wait_for(desk: &mut Desk<'_>, ids: &[String]) -> Result<(), Failure> {
    let mut board = Board::new(desk);
    let mut stuck: Option<(Cause, u32)> = None;
    let mut whole = Whole::default();
    loop {
        match look(desk, ids).await {
            Ok(drains) => {
                let lines: Vec<Line> =
                    drains.iter().filter_map(line_of).map(|line| whole.of(line)).collect();
                if !desk.json() {
                    board.show(desk, &lines)?;
                }
                if let Some(kept) = drains.iter().find(|drain| drain.verdict.is_none()) {
                    let message = format!("{} stays: its decommission was cancelled", kept.member);
                    return Err(Failure::new(ExitCode::Refused, message));
                }
                if lines.iter().all(|line| line.verdict.is_done()) {
                    drop(board);
                    return over(desk, &drains);
                }
                let worst = lines.iter().find(|line| line.verdict.is_blocked());
                stuck = worst.and_then(|line| line.verdict.cause()).map(|cause| {
                    let before = stuck.filter(|(known, _)| *known == cause);
                    (cause, before.map_or(1, |(_, looks)| looks + 1))
                });
                if let (Some(line), Some((_, LOOKS..))) = (worst, stuck) {
                    return Err(given_up(line));
                }
            }
            Err(error) => passing(desk, &board, error)?,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// How much each member had to give since somebody waits: what has left counts as done, although the
/// member knows no more of it.
#[derive(Default)]
struct Whole(BTreeMap<String, u64>);

impl Whole {
    fn of(&mut self, mut line: Line) -> Line {
        if let Verdict::Progressing { bytes, bytes_total, .. } = &mut line.verdict {
            let most = self.0.entry(line.name.clone()).or_default();
            *most = (*most).max(*bytes_total);
            *bytes += *most - *bytes_total;
            *bytes_total = *most;
        }
        line
    }
}

async fn look(
    desk: &Desk<'_>,
    ids: &[String],
) -> Result<Vec<DrainView>, crate::client::ClientError> {
    let mut drains = Vec::new();
    for id in ids {
        drains.push(desk.client.drain(id).await?);
    }
    Ok(drains)
}

fn line_of(drain: &DrainView) -> Option<Line> {
    let verdict = drain.verdict.clone()?;
    let detail = if verdict.is_done() {
        String::new()
    } else {
        format!("{} to go", counted(drain.owned_partitions, "partition"))
    };
    Some(Line { name: drain.member.to_string(), verdict, detail, live: String::new() })
}

fn over(desk: &mut Desk<'_>, drains: &[DrainView]) -> Result<(), Failure> {
    if desk.json() {
        return desk.print_view(&serde_json::json!({ "members": drains }));
    }
    for drain in drains {
        if let Some(Verdict::Done { proof }) = &drain.verdict {
            desk.terminal.print(proof)?;
        }
    }
    Ok(())
}

/// Says that something is blocked, and the remedy.
pub(super) fn given_up(line: &Line) -> Failure {
    let (reason, remedy) = match &line.verdict {
        Verdict::Blocked { reason, remedy, .. } => (reason.as_str(), remedy.as_str()),
        Verdict::Progressing { .. } | Verdict::Waiting { .. } | Verdict::Done { .. } => ("", ""),
    };
    Failure::new(ExitCode::Blocked, format!("{} is blocked: {reason}", line.name)).with_hint(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drain that gives one partition after the other away comes on, however little is left to copy.
    #[test]
    fn what_has_left_counts_as_done() {
        let mut whole = Whole::default();
        let mut shown = |name: &str, bytes, total| {
            let verdict = Verdict::progressing(bytes, total, 5);
            let (name, detail, live) = (name.to_owned(), String::new(), String::new());
            match whole.of(Line { name, verdict, detail, live }).verdict {
                Verdict::Progressing { bytes, bytes_total, .. } => (bytes, bytes_total),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(shown("n1", 10, 100), (10, 100));
        assert_eq!(shown("n1", 0, 70), (30, 100), "30 are gone");
        assert_eq!(shown("n2", 1, 8), (1, 8), "another one");
        assert_eq!(shown("n1", 20, 90), (30, 100), "some was written meanwhile");
        assert_eq!(shown("n1", 20, 120), (20, 120));
    }
}
