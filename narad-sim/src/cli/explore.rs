//! `explore`: every schedule of a small world.

use std::ops::ControlFlow;

use clap::Args;

use super::progress::Progress;
use super::table::count;
use super::terminal::Terminal;
use super::{ExitCode, Failure, Global, plant_named};
use crate::explore::{self, CounterExample, Options};
use crate::guard;
use crate::lab::Laboratory;
use crate::outcome::Violation;

/// How far to look.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  narad-sim explore                                    two faults of any kind, anywhere
  narad-sim explore --nodes 3 --records 2 --faults 1 --json")]
pub struct ExploreArgs {
    /// The bounds.
    #[command(flatten)]
    pub options: Options,
    /// Plant a bug of narad-sim plant --list
    #[arg(long, value_name = "BUG")]
    pub planted: Option<String>,
}

pub(super) fn run<L: Laboratory>(
    args: ExploreArgs,
    lab: &L,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    plant_named(lab, args.planted.as_deref())?;
    let outcome = {
        let progress = Progress::new(terminal, None, "explore");
        let mut watch = |so_far: explore::Progress| {
            let (states, frontier) = (count(so_far.states), count(so_far.frontier));
            let depth = so_far.depth;
            progress.message(format!("{states} states, {frontier} to look at, depth {depth}"));
            if terminal.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        guard::quietly(|| explore::run(&args.options, &mut watch))
    };
    if global.is_json() {
        terminal.print_json(&outcome)?;
    } else {
        terminal.print(&outcome.to_string())?;
    }
    Ok(outcome.counter_example.map_or(ExitCode::Good, grave))
}

fn grave(found: CounterExample) -> ExitCode {
    let CounterExample { invariant, text, .. } = found;
    Violation { invariant, at_us: 0, event: 0, text }.verdict().into()
}
