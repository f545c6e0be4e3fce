//! The `narad-sim` command.
//!
//! Everything but the process itself is here: [`run()`] takes a parsed command line, a [`Laboratory`]
//! and a [`Terminal`], and returns the [`ExitCode`]. What a command finds goes to standard output, for
//! people or as JSON; progress and errors go to standard error.

use std::num::NonZeroUsize;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::lab::Laboratory;

mod draw;
mod drawing;
mod exit;
mod explore;
mod input;
mod journal;
mod plan;
mod plant;
mod progress;
mod replay;
mod report;
mod run;
mod shrink;
mod sweep;
mod table;
mod terminal;
mod wall;

pub use exit::{ExitCode, Failure};
pub use terminal::Terminal;

/// Runs Narad's real state machines under simulated time, network and disks.
#[derive(Debug, Parser)]
#[command(name = "narad-sim", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "narad-sim help exit-codes lists what the command exits with.")]
pub struct Cli {
    /// What all commands share.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What all commands share.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// How findings are shown
    #[arg(short = 'f', long = "format", global = true, value_enum, default_value = "text")]
    pub format: Format,
    /// The same as --format json
    #[arg(long, global = true, conflicts_with = "format")]
    pub json: bool,
}

/// How findings are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One document; for many runs one line each, and then one of totals.
    Json,
}

impl Global {
    pub(crate) fn is_json(&self) -> bool {
        self.json || self.format == Format::Json
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one scenario, or what a seed draws
    Run(run::RunArgs),
    /// Run many seeds, on all cores
    Sweep(sweep::SweepArgs),
    /// Run a recorded run again, event by event
    Replay(replay::ReplayArgs),
    /// Find the simplest scenario that still fails
    Shrink(shrink::ShrinkArgs),
    /// Walk every schedule of a small world
    Explore(explore::ExploreArgs),
    /// Plant bugs, and see whether a sweep notices
    Plant(plant::PlantArgs),
    /// Make a page that shows a run or a sweep
    Report(report::ReportArgs),
    /// Show what the planner would do with a placement, and why
    Plan(plan::PlanArgs),
    /// Print the scenario that a seed draws
    Draw(draw::DrawArgs),
    /// Print the reference of scenario files
    Schema,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// List what the command exits with
    #[command(long_about = exit::table())]
    ExitCodes,
}

/// Does what a command line asks and returns what the process exits with.
///
/// An error has been shown by then.
pub fn run<L: Laboratory>(cli: Cli, lab: &L, terminal: &mut Terminal) -> ExitCode {
    let global = cli.global;
    let outcome = match cli.command {
        Command::Run(args) => run::run(args, lab, &global, terminal),
        Command::Sweep(args) => sweep::run(args, lab, &global, terminal),
        Command::Replay(args) => replay::run(args, lab, &global, terminal),
        Command::Shrink(args) => shrink::run(args, lab, &global, terminal),
        Command::Plant(args) => plant::run(args, lab, &global, terminal),
        Command::Explore(args) => explore::run(args, lab, &global, terminal),
        Command::Report(args) => report::run(args, &global, terminal),
        Command::Plan(args) => plan::run(args, &global, terminal),
        Command::Draw(args) => draw::run(args, lab, &global, terminal),
        Command::Schema => schema(&lab.schema(), &global, terminal),
        Command::Completions { shell } => completions(shell, terminal),
        Command::ExitCodes => terminal.print(&exit::table()).map(|()| ExitCode::Good),
    };
    outcome.unwrap_or_else(|failure| {
        terminal.show(&failure);
        failure.code
    })
}

fn schema(text: &str, global: &Global, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    if global.is_json() {
        terminal.print_json(&serde_json::json!({ "schema": text }))?;
    } else {
        terminal.print(text)?;
    }
    Ok(ExitCode::Good)
}

fn completions(shell: clap_complete::Shell, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    // Into memory first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "narad-sim", &mut script);
    terminal.write(&script)?;
    Ok(ExitCode::Good)
}

/// Plants what `--planted` or a trace asks for.
fn plant_named<L: Laboratory>(lab: &L, name: Option<&str>) -> Result<(), Failure> {
    let Some(name) = name else { return Ok(()) };
    lab.plant(Some(name)).map_err(|error| {
        let bugs = lab.bugs();
        let close = crate::placement::nearest(name, bugs.iter().map(|bug| bug.name.as_str()));
        let hint = match close {
            _ if bugs.is_empty() => plant::HOW_TO_BUILD.to_owned(),
            Some(close) => format!("did you mean {close}? narad-sim plant --list shows them all"),
            None => "narad-sim plant --list shows them all".into(),
        };
        Failure::usage(error.to_string()).with_hint(hint)
    })
}

/// As many threads as there are cores, if nobody says otherwise.
fn threads(jobs: Option<NonZeroUsize>) -> NonZeroUsize {
    jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// Quotes an argument for a shell where it must be.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
