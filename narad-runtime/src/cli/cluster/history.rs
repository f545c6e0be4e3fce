//! The last moves.

use std::path::Path;

use super::Desk;
use super::moving::freeze;
use super::words::lasts;
use crate::cli::table::{bytes, render};
use crate::cli::{ExitCode, Failure};
use crate::service::{HistoryView, MoveEnd, PastMove, PastPhaseName, Read};

/// Writes down what the last move of a partition was told.
pub(super) async fn trace(
    desk: &mut Desk<'_>,
    (topic, partition): &(String, u32),
    file: Option<&Path>,
) -> Result<(), Failure> {
    let text = desk.client.journal(topic, *partition, Read::Barrier).await?;
    let inputs = text.lines().count().saturating_sub(1);
    let Some(file) = file else { return desk.terminal.write(text.as_bytes()) };
    std::fs::write(file, &text).map_err(|error| {
        let message = format!("{} cannot be written: {error}", file.display());
        Failure::new(ExitCode::Usage, message)
    })?;
    let file = file.display();
    desk.terminal.note(&format!("{inputs} inputs; look at them: narad-sim replay {file}"));
    Ok(())
}

pub(super) fn show(width: u16, wide: bool, view: &HistoryView) -> String {
    let mut text = if view.moves.is_empty() {
        "no move has ended since the nodes started".to_owned()
    } else {
        table(width, wide, &view.moves)
    };
    if !view.silent.is_empty() {
        let silent: Vec<String> = view.silent.iter().map(ToString::to_string).collect();
        text.push_str("\n\nnot asked, or no answer: ");
        text.push_str(&silent.join(", "));
    }
    text
}

fn table(width: u16, wide: bool, moves: &[PastMove]) -> String {
    let now = crate::clock::wall_ms();
    let mut header =
        vec!["ENDED", "PARTITION", "FROM", "TO", "HOW", "TOOK", "COPIED", "FROZEN", "PHASES"];
    if wide {
        header.extend(["MOVE", "PASSES", "WAITS", "WAITED FOR"]);
    }
    let rows = moves.iter().map(|past| {
        let ms = |from: i64, until: i64| u64::try_from(until.saturating_sub(from)).unwrap_or(0);
        let phases: Vec<String> = past
            .phases
            .iter()
            .map(|one| format!("{} {}", phase(one.phase), lasts(one.ms)))
            .collect();
        let mut row = vec![
            format!("{} ago", lasts(ms(past.ended_ms, now))),
            past.place(),
            past.from.to_string(),
            past.to.to_string(),
            outcome(past.outcome).to_owned(),
            lasts(ms(past.began_ms, past.ended_ms)),
            bytes(past.bytes),
            freeze(past).unwrap_or_else(|| "-".to_owned()),
            phases.join(", "),
        ];
        if wide {
            row.extend([
                past.move_id.to_string(),
                past.passes.to_string(),
                past.waits.to_string(),
                past.waited_for.map_or("-", crate::service::Cause::code).to_owned(),
            ]);
        }
        row
    });
    render(width, &header, rows.collect())
}

pub(super) fn frozen(us: u64) -> String {
    if us < 10_000 { format!("{}.{} ms", us / 1000, us % 1000 / 100) } else { lasts(us / 1000) }
}

const fn phase(phase: PastPhaseName) -> &'static str {
    match phase {
        PastPhaseName::Copy => "copy",
        PastPhaseName::CatchUp => "catch-up",
        PastPhaseName::CutOver => "cut-over",
        PastPhaseName::Unknown => "?",
    }
}

pub(super) const fn outcome(outcome: MoveEnd) -> &'static str {
    match outcome {
        MoveEnd::Moved => "moved",
        MoveEnd::Promoted => "promoted",
        MoveEnd::AlreadyOwner => "owned already",
        MoveEnd::Cancelled => "given up",
        MoveEnd::Deleted => "deleted",
        MoveEnd::Unknown => "?",
    }
}
