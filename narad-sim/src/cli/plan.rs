//! `plan`: what the planner would do, and why.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;

use super::input::read;
use super::table::{bytes, plural, render};
use super::terminal::Terminal;
use super::{ExitCode, Failure, Global};
use crate::placement::{EXAMPLE, NamedPlacement, PlanView};

/// What to plan.
#[derive(Debug, Args)]
#[command(after_long_help = format!("A placement file, with every key:\n\n{EXAMPLE}"))]
#[command(after_help = "--help shows a placement file with every key.")]
pub struct PlanArgs {
    /// The placement: a TOML file, or - for standard input
    #[arg(value_name = "FILE", required_unless_present = "example")]
    pub file: Option<PathBuf>,
    /// Print a placement file with every key, to start from
    #[arg(long, conflicts_with = "file")]
    pub example: bool,
}

pub(super) fn run(
    args: PlanArgs,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let Some(file) = args.file.filter(|_| !args.example) else {
        terminal.write(EXAMPLE.as_bytes())?;
        return Ok(ExitCode::Good);
    };
    let text = read(&file, terminal)?;
    let named = NamedPlacement::parse(&text).map_err(|error| {
        Failure::usage(format!("{}, {error}", file.display()))
            .with_hint("narad-sim plan --example prints a file with every key")
    })?;
    let plan = narad_core::plan::plan(&named.placement, &named.limits);
    let plan = plan.explain(&named.placement);
    let view = PlanView::new(&named, &plan);
    if global.is_json() {
        terminal.print_json(&view)?;
    } else {
        let text = show(&view, terminal.width);
        terminal.print(&text)?;
    }
    Ok(ExitCode::Good)
}

fn show(view: &PlanView, width: u16) -> String {
    let mut parts = Vec::new();
    if view.moves.is_empty() {
        parts.push("nothing moves".into());
    } else {
        let rows = view.moves.iter().map(|row| {
            vec![
                row.partition.clone(),
                row.from.clone(),
                row.to.clone(),
                if row.starts { "now" } else { "later" }.into(),
                bytes(row.bytes),
                row.why.clone(),
            ]
        });
        let header = ["PARTITION", "FROM", "TO", "STARTS", "SIZE", "WHY"];
        parts.push(render(width, &header, rows.collect()));
    }
    let rows = view.nodes.iter().map(|row| {
        vec![
            row.node.clone(),
            row.role.into(),
            row.before.to_string(),
            row.after.to_string(),
            row.share.to_string(),
            row.moves_in.to_string(),
            row.moves_out.to_string(),
            bytes(row.bytes_after),
            row.why.clone(),
        ]
    });
    let header = ["NODE", "ROLE", "BEFORE", "AFTER", "SHARE", "IN", "OUT", "SIZE AFTER", "WHY"];
    parts.push(render(width, &header, rows.collect()));
    if !view.stays.is_empty() {
        let rows = view.stays.iter();
        let rows = rows.map(|row| vec![row.partition.clone(), row.owner.clone(), row.why.clone()]);
        parts.push(render(width, &["DOES NOT MOVE", "OWNER", "WHY"], rows.collect()));
    }
    parts.push(bottom_line(view));
    parts.join("\n\n")
}

fn bottom_line(view: &PlanView) -> String {
    let planned = view.moves.len() as u64;
    let starts = view.moves.iter().filter(|row| row.starts).count();
    let mut text = format!(
        "{} planned ({starts} now), {} copied; no plan has fewer than {} here",
        plural(planned, "move"),
        bytes(view.bytes),
        view.lower_bound,
    );
    if view.waiting > 0 {
        let waiting = plural(view.waiting.into(), "more move");
        let _ = write!(text, "; {waiting} when partitions have arrived that must leave again");
    }
    let _ = write!(text, "; {} in flight, {} stuck", view.in_flight, view.stuck);
    if view.conflicts > 0 {
        let pairs = plural(view.conflicts, "pair");
        let _ = write!(text, "; {pairs} of parent and child still share a node");
    }
    text
}
