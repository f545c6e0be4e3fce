//! `explore`: every schedule of a small world.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;

use super::progress::Progress;
use super::table::count;
use super::terminal::Terminal;
use super::{ExitCode, Failure, Global, plant_named, report, threads};
use crate::crash_points::{self, Canon};
use crate::explore::{self, CounterExample, Options};
use crate::guard;
use crate::lab::Laboratory;
use crate::outcome::Violation;

/// How far to look.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  narad-sim explore                                    two faults of any kind, anywhere
  narad-sim explore --nodes 3 --records 2 --faults 1 --json
  narad-sim explore --crash-points                     seven plain runs, crashed everywhere
  narad-sim explore --crash-points move --out broken")]
pub struct ExploreArgs {
    /// The bounds.
    #[command(flatten)]
    pub options: Options,
    /// Crash a plain run at every event and every step of a disk instead; all of them without a name
    #[arg(long, value_name = "RUN", num_args = 0.., value_enum)]
    pub crash_points: Option<Vec<Canon>>,
    /// With --crash-points: how many threads [default: all cores]
    #[arg(long, value_name = "N", requires = "crash_points")]
    pub jobs: Option<NonZeroUsize>,
    /// With --crash-points: a folder for the scenarios that show what broke
    #[arg(long, value_name = "DIR", requires = "crash_points")]
    pub out: Option<PathBuf>,
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
    if let Some(canons) = &args.crash_points {
        let canons = if canons.is_empty() { Canon::ALL.to_vec() } else { canons.clone() };
        return crash(&args, &canons, lab, global, terminal);
    }
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

fn crash<L: Laboratory>(
    args: &ExploreArgs,
    canons: &[Canon],
    lab: &L,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let found = {
        let progress = Progress::new(terminal, None, "crash");
        let jobs = threads(args.jobs);
        crash_points::try_all(lab, canons, jobs, &terminal.interrupt, |tried, total| {
            progress.message(format!("{} of {} points", count(tried), count(total)));
            ControlFlow::Continue(())
        })
    };
    if let Some(dir) = &args.out {
        report::make(dir)?;
        for (number, failed) in found.failures.iter().enumerate() {
            let path = dir.join(format!("crash-{:04}.toml", number + 1));
            report::write(&path, &failed.scenario)?;
        }
    }
    if global.is_json() {
        terminal.print_json(&found)?;
    } else {
        terminal.print(&found.to_string())?;
    }
    let verdicts = found.failures.iter().flat_map(|failed| &failed.violations);
    Ok(verdicts.map(Violation::verdict).max().map_or(ExitCode::Good, ExitCode::from))
}

fn grave(found: CounterExample) -> ExitCode {
    let CounterExample { invariant, text, .. } = found;
    Violation { invariant, at_us: 0, event: 0, text }.verdict().into()
}
