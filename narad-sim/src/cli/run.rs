//! `run`: one scenario.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::Args;

use super::drawing::Drawing;
use super::progress::Progress;
use super::table::{count, pairs, plural, render, time};
use super::terminal::Terminal;
use super::wall::Stopwatch;
use super::{ExitCode, Failure, Global, input, plant_named, quoted};
use crate::guard;
use crate::lab::{Finished, Laboratory, Stop, Watch};
use crate::outcome::Summary;
use crate::record::{Recorder, VERSION};
use crate::sweep::{Row, seconds};
use crate::trace::Header;

/// What to run.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  narad-sim run scenarios/holes/h01-late-flip.toml --trace late.jsonl
  narad-sim run --seed 7                   runs what seed 7 draws
  narad-sim report late.jsonl -o late.html")]
pub struct RunArgs {
    /// A scenario file, or - for standard input; what the seed draws if not given
    #[arg(value_name = "SCENARIO", required_unless_present = "seed")]
    pub scenario: Option<PathBuf>,
    /// The root of all chance; the scenario's own if not given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Write every event to a file
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Plant a bug of narad-sim plant --list
    #[arg(long, value_name = "BUG")]
    pub planted: Option<String>,
    /// What is drawn.
    #[command(flatten)]
    pub drawing: Drawing,
}

pub(super) fn run<L: Laboratory>(
    args: RunArgs,
    lab: &L,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let scenario = args.scenario.as_deref();
    let scenario = scenario.map(|path| input::scenario(lab, path, terminal)).transpose()?;
    // clap sees to it that there is one of the two.
    let mut scenario =
        scenario.unwrap_or_else(|| lab.draw(args.seed.unwrap_or(0), &args.drawing.options()));
    let seed = args.seed.unwrap_or_else(|| lab.seed(&scenario));
    lab.adjust(&mut scenario, seed, args.drawing.metastore);
    plant_named(lab, args.planted.as_deref())?;
    let watch = Stopwatch::start();
    let finished = {
        let _progress = Progress::new(terminal, None, lab.name(&scenario));
        let stop = Stop::when(&terminal.interrupt);
        match &args.trace {
            None => guard::run(lab, &scenario, seed, None, stop),
            Some(path) => traced(lab, &scenario, seed, args.planted.clone(), path, stop)?,
        }
    };
    let row = Row::from(finished.summary.clone());
    let code = ExitCode::from(row.verdict);
    if global.is_json() {
        terminal.print_json(&row)?;
    } else {
        let wall = watch.elapsed();
        let flags = args.drawing.flags();
        let command = command(args.scenario.as_deref(), seed, &flags, args.planted.as_deref());
        let text = show(&finished, terminal.width, wall, &command);
        terminal.print(&text)?;
    }
    Ok(code)
}

/// Runs a scenario and writes down every event of it.
pub(super) fn traced<L: Laboratory>(
    lab: &L,
    scenario: &L::Scenario,
    seed: u64,
    planted: Option<String>,
    path: &Path,
    stop: Stop<'_>,
) -> Result<Finished, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::usage(format!("{} cannot be written: {error}", path.display()))
    };
    let header = Header { narad_trace: VERSION, scenario: lab.text(scenario), seed, planted };
    let out = BufWriter::new(File::create(path).map_err(cannot)?);
    let mut recorder = Recorder::new(out, &header).map_err(cannot)?;
    let finished = guard::run(lab, scenario, seed, Some(&mut recorder as &mut dyn Watch), stop);
    recorder.finish(&finished.summary).map_err(cannot)?;
    Ok(finished)
}

/// The command line that runs the same again.
pub(super) fn command(
    scenario: Option<&Path>,
    seed: u64,
    flags: &str,
    planted: Option<&str>,
) -> String {
    let mut text = "narad-sim run".to_owned();
    if let Some(path) = scenario {
        let _ = write!(text, " {}", quoted(&path.display().to_string()));
    }
    let _ = write!(text, " --seed {seed}");
    text += flags;
    if let Some(bug) = planted {
        let _ = write!(text, " --planted {}", quoted(bug));
    }
    text
}

fn show(finished: &Finished, width: u16, wall: std::time::Duration, command: &str) -> String {
    let Finished { summary, complete } = finished;
    let verdict = summary.verdict();
    let cut = if *complete { "" } else { ", interrupted before its end" };
    let headline = format!("{}, seed {}: {}{cut}", summary.scenario, summary.seed, verdict.name());
    let mut parts = vec![headline, figures(summary, width, wall)];
    if !summary.violations.is_empty() {
        let rows = summary.violations.iter().map(|it| {
            vec![it.invariant.clone(), time(it.at_us), it.event.to_string(), it.text.clone()]
        });
        parts.push(render(width, &["VIOLATED", "AT", "EVENT", "WHAT WAS SEEN"], rows.collect()));
    }
    if !summary.waiting.is_empty() {
        parts.push(format!("not finished:\n  {}", summary.waiting.join("\n  ")));
    }
    parts.push(format!("again: {command}"));
    parts.join("\n\n")
}

fn figures(summary: &Summary, width: u16, wall: std::time::Duration) -> String {
    let speed = seconds(summary.simulated_us) / wall.as_secs_f64().max(1e-9);
    let simulated = format!(
        "{} in {:.3} s, {speed:.0} times real time",
        time(summary.simulated_us),
        wall.as_secs_f64()
    );
    let moves = format!(
        "{} of {} planned, {} forced, {} given up",
        summary.moves_done, summary.moves_planned, summary.moves_forced, summary.moves_given_up
    );
    let records = format!(
        "{} acknowledged, {} delivered, {} again",
        count(summary.acked),
        count(summary.delivered),
        count(summary.duplicates)
    );
    let longest = summary.freezes_us.iter().max().copied().unwrap_or(0);
    let freezes = format!("{}, the longest {}", summary.freezes_us.len(), time(longest));
    let cluster = format!(
        "{}, {}, metastore {}",
        plural(summary.nodes.into(), "node"),
        plural(summary.partitions.into(), "partition"),
        summary.metastore
    );
    let mut rows = vec![
        ("cluster", cluster),
        ("simulated", simulated),
        ("events", count(summary.events)),
        ("records", records),
        ("moves", moves),
        ("freezes", freezes),
    ];
    if !summary.faults.is_empty() {
        let faults: Vec<_> = summary.faults.iter().map(|(name, n)| format!("{name} {n}")).collect();
        rows.push(("faults", faults.join(", ")));
    }
    rows.push(("trace hash", format!("{:016x}", summary.trace_hash)));
    pairs(width, rows)
}
