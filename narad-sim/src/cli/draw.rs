//! `draw`: the scenario that a seed draws.

use clap::Args;

use super::drawing::Drawing;
use super::terminal::Terminal;
use super::{ExitCode, Failure, Global};
use crate::lab::Laboratory;

/// What to draw.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  narad-sim draw --seed 7 > seven.toml     then edit it, and
  narad-sim run seven.toml")]
pub struct DrawArgs {
    /// The seed
    #[arg(long, value_name = "N")]
    pub seed: u64,
    /// What is drawn.
    #[command(flatten)]
    pub drawing: Drawing,
}

pub(super) fn run<L: Laboratory>(
    args: DrawArgs,
    lab: &L,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let mut scenario = lab.draw(args.seed, &args.drawing.options());
    lab.adjust(&mut scenario, args.seed, args.drawing.metastore);
    let text = lab.text(&scenario);
    if global.is_json() {
        let name = lab.name(&scenario);
        let document = serde_json::json!({ "scenario": name, "seed": args.seed, "toml": text });
        terminal.print_json(&document)?;
    } else {
        terminal.print(&text)?;
    }
    Ok(ExitCode::Good)
}
