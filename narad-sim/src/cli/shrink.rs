//! `shrink`: the simplest scenario that still fails.

use std::io::BufRead as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::progress::Progress;
use super::run::command;
use super::table::{count, plural};
use super::terminal::Terminal;
use super::{ExitCode, Failure, Global, input, plant_named, threads};
use crate::lab::{Burden, Laboratory};
use crate::outcome::Violation;
use crate::shrink::{Budget, Shrunk, shrink};
use crate::sweep::stem;
use crate::trace::Header;

/// What to shrink.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  narad-sim shrink found/failures/drawn-17.trace.jsonl
  narad-sim shrink big.toml --seed 17 -o small.toml")]
pub struct ShrinkArgs {
    /// A trace, or a scenario file, of a run that fails
    #[arg(value_name = "TRACE|SCENARIO")]
    pub file: PathBuf,
    /// The seed that it fails with; what the file says if not given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Where to write the scenario [default: NAME-SEED-shrunk.toml]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Most runs
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub budget: u64,
    /// How many seeds to try each simpler scenario with: what is taken away shifts what is drawn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub tries: u64,
    /// How many threads; one for each core if not given
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Plant a bug of narad-sim plant --list; a trace knows its own
    #[arg(long, value_name = "BUG")]
    pub planted: Option<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    output: String,
    seed: u64,
    violation: &'a Violation,
    steps: usize,
    random_faults: usize,
    nodes: usize,
    events: u64,
    runs: u64,
    minimal: bool,
    command: String,
}

pub(super) fn run<L: Laboratory>(
    args: ShrinkArgs,
    lab: &L,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let header = header(&args.file)?;
    let mut scenario = match &header {
        Some(header) => input::parse(lab, &args.file, &header.scenario)?,
        None => input::scenario(lab, &args.file, terminal)?,
    };
    let recorded = header.as_ref().map(|header| header.seed);
    let seed = args.seed.or(recorded).unwrap_or_else(|| lab.seed(&scenario));
    lab.adjust(&mut scenario, seed, None);
    let planted = args.planted.clone().or_else(|| header.and_then(|header| header.planted));
    plant_named(lab, planted.as_deref())?;

    let before = lab.burden(&scenario);
    let name = lab.name(&scenario).to_owned();
    let jobs = threads(args.jobs);
    let interrupt = terminal.interrupt.clone();
    let budget = Budget { runs: args.budget, tries: args.tries, jobs, interrupt: &interrupt };
    let progress = Progress::new(terminal, Some(args.budget), "shrink");
    let mut report = |_: u64, best: &L::Scenario, events: u64| {
        progress.step();
        progress.message(format!("{}, {} events", lab.burden(best), count(events)));
    };
    let shrunk = shrink(lab, scenario, seed, budget, &mut report);
    drop(progress);
    let Some(shrunk) = shrunk else {
        let message = format!("{} does not fail with seed {seed}", args.file.display());
        let hint =
            "a scenario of another version may; narad-sim sweep FILE looks for a seed that does";
        return Err(Failure::usage(message).with_hint(hint));
    };
    let usual = || PathBuf::from(format!("{}-shrunk.toml", stem(&name, shrunk.seed)));
    let output = args.output.clone().unwrap_or_else(usual);
    std::fs::write(&output, lab.text(&shrunk.scenario)).map_err(|error| {
        Failure::usage(format!("{} cannot be written: {error}", output.display()))
    })?;
    let command = command(Some(&output), shrunk.seed, "", planted.as_deref());
    let code = shrunk.violation.verdict().into();
    let after = lab.burden(&shrunk.scenario);
    tell(&shrunk, &output, command, [before, after], global, terminal)?;
    Ok(code)
}

fn tell<S>(
    shrunk: &Shrunk<S>,
    output: &Path,
    command: String,
    [before, after]: [Burden; 2],
    global: &Global,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    if global.is_json() {
        return terminal.print_json(&Report {
            output: output.display().to_string(),
            seed: shrunk.seed,
            violation: &shrunk.violation,
            steps: after.steps,
            random_faults: after.rates,
            nodes: after.nodes,
            events: shrunk.events,
            runs: shrunk.runs,
            minimal: shrunk.minimal,
            command,
        });
    }
    let end = if shrunk.minimal { "nothing simpler fails" } else { "ended before all was tried" };
    terminal.print(&format!(
        "{}: {}\n{after} are left of {before}; {} events; {} made, {end}\nwritten to {}\nagain: {command}",
        shrunk.violation.invariant,
        shrunk.violation.text,
        count(shrunk.events),
        plural(shrunk.runs, "run"),
        output.display(),
    ))
}

/// The header of a trace; nothing if a file is none. Reads no more than its first line.
fn header(path: &Path) -> Result<Option<Header>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(None);
    }
    let cannot = |error: std::io::Error| {
        Failure::usage(format!("{} cannot be read: {error}", path.display()))
    };
    let mut first = Vec::new();
    let mut file = std::io::BufReader::new(std::fs::File::open(path).map_err(cannot)?);
    file.read_until(b'\n', &mut first).map_err(cannot)?;
    Ok(serde_json::from_slice(&first).ok())
}
