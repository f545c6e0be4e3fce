//! What the planner would do, and why.

use std::fmt::Write as _;

use super::watch::{Board, Line, PAUSE, passing};
use super::words::{delta, lasts};
use super::{Desk, encoded, leaving, show as tables};
use crate::cli::table::{bytes, render};
use crate::cli::{ExitCode, Failure};
use crate::service::{ExplainView, PlanView, Read};
use crate::units::counted;

const PATH: &str = "/v1/cluster/plan";

pub(super) async fn show(desk: &mut Desk<'_>) -> Result<(), Failure> {
    desk.read(PATH, page).await.map(drop)
}

/// Shows what the leader is about to do anyway, and waits until it is done if that is wanted.
pub(super) async fn rebalance(
    desk: &mut Desk<'_>,
    dry_run: bool,
    wait: bool,
) -> Result<(), Failure> {
    let plan: PlanView = if wait && desk.json() {
        desk.client.plan(Read::Barrier).await?
    } else {
        desk.read(PATH, page).await?
    };
    if plan.paused && !plan.moves.is_empty() && !dry_run {
        return Err(Failure::new(ExitCode::Refused, "moves are paused: none of these begins")
            .with_hint("narad cluster resume lets them begin"));
    }
    if wait {
        return until_balanced(desk).await;
    }
    if !dry_run && !plan.moves.is_empty() {
        desk.say("the leader begins these by itself, as slots get free")?;
    }
    Ok(())
}

/// How many looks in a row have to find it blocked before that counts.
const LOOKS: u32 = 4;

async fn until_balanced(desk: &mut Desk<'_>) -> Result<(), Failure> {
    let mut board = Board::new(desk);
    let mut stuck = 0;
    loop {
        match desk.client.status(Read::Barrier).await {
            Ok(view) => {
                let idle = view.moves.is_empty() && view.planned == 0 && view.unassigned == 0;
                let detail = format!(
                    "{} under way, {} to come",
                    counted(view.moves.len() as u64, "move"),
                    view.planned
                );
                let line = Line {
                    name: "cluster".to_owned(),
                    verdict: view.verdict.clone(),
                    detail,
                    live: String::new(),
                };
                if idle {
                    drop(board);
                    return if desk.json() {
                        desk.print_view(&view)
                    } else {
                        desk.terminal.print("it is balanced: nothing moves, and nothing is to come")
                    };
                }
                if !desk.json() {
                    board.show(desk, std::slice::from_ref(&line))?;
                }
                stuck = if view.verdict.is_blocked() { stuck + 1 } else { 0 };
                if stuck >= LOOKS {
                    return Err(leaving::given_up(&line));
                }
            }
            Err(error) => passing(desk, &board, error)?,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn page(width: u16, wide: bool, plan: &PlanView) -> String {
    let rows = plan.members.iter().map(|one| {
        vec![
            one.member.to_string(),
            format!("{} of {}", one.load, one.share),
            one.moves_in.to_string(),
            one.moves_out.to_string(),
            delta(one.bytes_delta),
            one.why.clone(),
        ]
    });
    let mut text = render(width, &["MEMBER", "LOAD", "IN", "OUT", "BYTES", "WHY"], rows.collect());
    if !plan.moves.is_empty() {
        let rows = plan.moves.iter().map(|one| {
            vec![
                format!("{}/{}", one.topic, one.partition),
                one.from.to_string(),
                one.to.to_string(),
                one.bytes.map_or_else(|| "?".to_owned(), bytes),
                if one.starts { "now" } else { "later" }.to_owned(),
                one.why.clone(),
            ]
        });
        text.push_str("\n\n");
        let header = ["MOVES", "FROM", "TO", "SIZE", "STARTS", "WHY"];
        text.push_str(&render(width, &header, rows.collect()));
    }
    if !plan.stays.is_empty() {
        let rows = plan.stays.iter().map(|one| {
            let place = format!("{}/{}", one.topic, one.partition);
            vec![place, one.member.to_string(), one.why.clone()]
        });
        text.push_str("\n\n");
        text.push_str(&render(width, &["STAYS", "ON", "WHY"], rows.collect()));
    }
    text.push_str("\n\n");
    text.push_str(&summary(plan));
    if wide {
        // Writing into a string cannot fail.
        let _ = write!(
            text,
            "\nplanned by {}; {} stuck; {} conflicts between parents and children remain",
            plan.planned_by, plan.stuck, plan.conflicts
        );
    }
    text
}

fn summary(plan: &PlanView) -> String {
    if plan.moves_min == 0 && plan.in_flight == 0 {
        return "balanced: no move would make it better".to_owned();
    }
    let mut text = format!(
        "{} and no fewer: {} now, {} later, {} once they have arrived; {} under way already",
        counted(plan.moves_min, "move"),
        plan.moves.iter().filter(|one| one.starts).count(),
        plan.moves.iter().filter(|one| !one.starts).count(),
        plan.waiting,
        plan.in_flight
    );
    let least = if plan.bytes_unknown > 0 { "at least " } else { "" };
    let _ = write!(text, "; {least}{}", bytes(plan.bytes));
    if let Some(ms) = plan.estimated_ms.filter(|_| plan.bytes > 0) {
        let rate = bytes(plan.copy_rate_bytes_per_second);
        let _ = write!(text, ", about {} at {rate}/s a node", lasts(ms.max(1000)));
    }
    if plan.paused {
        text.push_str("\nmoves are PAUSED: narad cluster resume lets them begin");
    }
    text
}

pub(super) async fn explain(
    desk: &mut Desk<'_>,
    (topic, partition): &(String, u32),
) -> Result<(), Failure> {
    let path = format!("/v1/topics/{}/partitions/{partition}", encoded(topic));
    desk.read(&path, explained).await.map(drop)
}

fn explained(width: u16, wide: bool, view: &ExplainView) -> String {
    let ExplainView { topic, partition, owner, epoch, .. } = view;
    let status = tables::status(view.owner_status);
    let mut text = format!("{topic}/{partition} is on {owner} ({status}), in epoch {epoch}");
    if let Some(size) = view.bytes {
        let _ = write!(text, ", {}", bytes(size));
    }
    if view.pinned {
        text.push_str(", pinned");
    }
    let _ = write!(text, "\n  because {}", view.here);
    if let Some(moved) = &view.moving {
        text.push_str("\n\n");
        text.push_str(&tables::moves(width, wide, std::slice::from_ref(moved), &[]));
    }
    let rows = view.elsewhere.iter().map(|one| vec![one.member.to_string(), one.why_not.clone()]);
    text.push_str("\n\n");
    text.push_str(&render(width, &["NOT ON", "BECAUSE"], rows.collect()));
    text.push_str("\n\nwhat would change that:");
    for line in &view.would_change {
        let _ = write!(text, "\n  {line}");
    }
    text
}
