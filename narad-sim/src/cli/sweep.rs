//! `sweep`: many seeds, on all cores.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::drawing::Drawing;
use super::progress::Progress;
use super::run::{command, traced};
use super::table::{count, pairs, plural, render, time};
use super::terminal::Terminal;
use super::wall::{Stopwatch, parse_duration};
use super::{ExitCode, Failure, Global, input, plant_named, threads};
use crate::guard;
use crate::lab::{Laboratory, Stop};
use crate::outcome::Verdict;
use crate::sweep::{Folder, Manifest, Merged, Row, Seeds, Shard, Source, Totals, in_order};

/// What to sweep over.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  narad-sim sweep --seeds 0..10000                     whatever the seeds draw
  narad-sim sweep scenarios/holes --seeds 1..=20       every scenario with every seed
  narad-sim sweep --seeds 0..1000000 --shard 3/64 --out part-03
  narad-sim sweep --merge part-* --out all             what one sweep would have written")]
pub struct SweepArgs {
    /// Scenario files; a directory stands for all .toml files below it. Without any, each seed draws
    /// its own scenario
    #[arg(value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,
    /// The seeds: A..B, A..=B, A.. or one [default: 0..1000, or 0.. with --for]
    #[arg(long, value_name = "A..B")]
    pub seeds: Option<Seeds>,
    /// Only every n-th run, from the i-th: one part of a sweep that is spread over machines
    #[arg(long, value_name = "i/n")]
    pub shard: Option<Shard>,
    /// How many threads; one for each core if not given
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Begin no further run after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub limit: Option<Duration>,
    /// Where to leave rows.jsonl, rows.csv and the failures with their traces
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace a sweep that is in --out
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Of how many failed runs --out keeps scenario and trace
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub failures: u64,
    /// End with the first run that fails
    #[arg(long)]
    pub fail_fast: bool,
    /// Plant a bug of narad-sim plant --list
    #[arg(long, value_name = "BUG")]
    pub planted: Option<String>,
    /// Run nothing, but put together what shards left in these directories
    #[arg(
        long,
        value_name = "DIR",
        num_args = 1..,
        conflicts_with_all = ["scenarios", "seeds", "shard", "jobs", "limit", "fail_fast", "metastore", "nodes", "safety", "about", "planted"]
    )]
    pub merge: Vec<PathBuf>,
    /// What is drawn.
    #[command(flatten)]
    pub drawing: Drawing,
}

pub(super) fn run<L: Laboratory>(
    args: SweepArgs,
    lab: &L,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    if args.merge.is_empty() {
        sweep(args, lab, global, terminal)
    } else {
        merge(args, global, terminal)
    }
}

/// Runs everything.
fn sweep<L: Laboratory>(
    args: SweepArgs,
    lab: &L,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let sources = sources(lab, &args.scenarios, terminal)?;
    plant_named(lab, args.planted.as_deref())?;
    let (flags, drawn) = (args.drawing.flags(), args.drawing.options());
    let usual = Seeds { first: 0, end: if args.limit.is_some() { u64::MAX } else { 1000 } };
    let manifest = Manifest {
        narad_sweep: 1,
        version: env!("CARGO_PKG_VERSION").into(),
        seeds: args.seeds.unwrap_or(usual),
        shard: args.shard.unwrap_or_default(),
        scenarios: sources
            .iter()
            .map(|it| Source::new(&it.name, &lab.text(&it.scenario)))
            .collect(),
        options: flags.clone(),
        planted: args.planted.clone(),
        runs: 0,
        complete: false,
    };
    let grid = manifest.grid();
    let pick = |number: u64| {
        let (position, seed) = grid.run(number);
        let source = sources.get(position);
        let mut scenario = source.map_or_else(|| lab.draw(seed, &drawn), |it| it.scenario.clone());
        lab.adjust(&mut scenario, seed, args.drawing.metastore);
        (scenario, seed, source.map(|it| it.path.as_path()))
    };
    let folder = args.out.as_deref().map(|dir| Folder::create(dir, manifest, args.force));
    let jobs = threads(args.jobs);
    let known = args.limit.is_none() && grid.count() < u64::from(u32::MAX);
    let progress = Progress::new(terminal, known.then(|| grid.count()), "sweep");
    let mut sink = Sink::new(folder.transpose()?, global.is_json(), args.failures, progress);
    let clock = Stopwatch::start();
    let interrupt = terminal.interrupt.clone();
    let mut broken = None;
    in_order(
        grid.numbers().take_while(|_| !clock.is_over(args.limit)),
        jobs,
        &interrupt,
        |number, stop| {
            let (scenario, seed, _) = pick(number);
            let finished = guard::run(lab, &scenario, seed, None, stop);
            finished.complete.then(|| Row::from(finished.summary))
        },
        |number, row| {
            let again = || {
                let (_, seed, path) = pick(number);
                command(path, seed, &flags, args.planted.as_deref())
            };
            let keep = |path: &Path| {
                let (scenario, seed, _) = pick(number);
                traced(lab, &scenario, seed, args.planted.clone(), path, Stop::when(&interrupt))
                    .map(|finished| (lab.text(&scenario), finished.summary.trace_hash))
            };
            let bad = row.verdict != Verdict::Good;
            match sink.add(&row, again, keep, terminal) {
                Ok(()) if bad && args.fail_fast => ControlFlow::Break(()),
                Ok(()) => ControlFlow::Continue(()),
                Err(failure) => {
                    broken = Some(failure);
                    ControlFlow::Break(())
                }
            }
        },
    );
    if let Some(failure) = broken {
        return Err(failure);
    }
    sink.totals.took(clock.elapsed(), jobs.get());
    sink.totals.interrupted = terminal.interrupted();
    sink.finish(terminal)
}

/// Puts shards together.
fn merge(args: SweepArgs, global: &Global, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let merged: Merged = crate::sweep::merge(&args.merge)?;
    let folder = args.out.as_deref();
    let folder = folder.map(|dir| Folder::create(dir, merged.manifest.clone(), args.force));
    let folder = folder.transpose()?;
    if let Some(folder) = &folder {
        merged.adopt_failures(folder)?;
    }
    let drawn = merged.manifest.scenarios.is_empty();
    let progress = Progress::new(terminal, None, "merge");
    // The failures have been taken over with their traces.
    let mut sink = Sink::new(folder, global.is_json(), 0, progress);
    for row in merged.rows()? {
        let row = row?;
        let file = PathBuf::from(format!("{}.toml", row.summary.scenario));
        let path = (!drawn).then_some(file.as_path());
        let planted = merged.manifest.planted.as_deref();
        let again = || command(path, row.summary.seed, &merged.manifest.options, planted);
        sink.add(&row, again, |_| Err(Failure::usage("")), terminal)?;
    }
    let missing = merged.manifest.grid().count().saturating_sub(sink.totals.runs);
    sink.totals.interrupted = missing > 0;
    if missing > 0 {
        let missing = plural(missing, "run");
        sink.progress.note(
            terminal,
            &format!(
                "{missing} of {} missing: a shard was left out, or interrupted",
                merged.manifest.seeds
            ),
        );
    }
    sink.finish(terminal)
}

struct Named<S> {
    path: PathBuf,
    name: String,
    scenario: S,
}

fn sources<L: Laboratory>(
    lab: &L,
    paths: &[PathBuf],
    terminal: &mut Terminal,
) -> Result<Vec<Named<L::Scenario>>, Failure> {
    let mut sources: Vec<Named<L::Scenario>> = Vec::new();
    for path in input::expand(paths)? {
        let scenario = input::scenario(lab, &path, terminal)?;
        let name = lab.name(&scenario).to_owned();
        if let Some(twin) = sources.iter().find(|it| it.name == name) {
            let (one, other) = (twin.path.display(), path.display());
            let message = format!("{one} and {other} are both called {name}");
            return Err(Failure::usage(message).with_hint("a row is known by its scenario's name"));
        }
        sources.push(Named { path, name, scenario });
    }
    Ok(sources)
}

/// Where rows go.
struct Sink {
    totals: Totals,
    folder: Option<Folder>,
    json: bool,
    failures_left: u64,
    progress: Progress,
}

impl Sink {
    fn new(folder: Option<Folder>, json: bool, failures: u64, progress: Progress) -> Self {
        Self { totals: Totals::default(), folder, json, failures_left: failures, progress }
    }

    /// Takes a row; `again` is the command that shows it again, and `keep` writes its trace to a file
    /// and returns its scenario and its hash.
    fn add(
        &mut self,
        row: &Row,
        again: impl Fn() -> String,
        keep: impl FnOnce(&Path) -> Result<(String, u64), Failure>,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        self.totals.add(row, &again);
        if self.json {
            terminal.print_json_line(row)?;
        }
        if let Some(folder) = &mut self.folder {
            folder.add(row)?;
        }
        self.progress.step();
        let Some(violation) = row.summary.gravest() else { return Ok(()) };
        let text = format!("{}: {}  ({})", violation.invariant, violation.text, again());
        self.progress.note(terminal, &text);
        self.progress.message(plural(self.totals.failed(), "failure"));
        if let Some(folder) = &self.folder
            && self.failures_left > 0
        {
            self.failures_left -= 1;
            let path = folder.trace_path(row)?;
            let (scenario, hash) = keep(&path)?;
            folder.add_failure(row, &scenario)?;
            if hash != row.summary.trace_hash && !terminal.interrupted() {
                let text = "S17: run again for its trace, it came out otherwise";
                self.progress.note(terminal, text);
            }
        }
        Ok(())
    }

    fn finish(self, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
        let Self { totals, folder, json, progress, .. } = self;
        drop(progress);
        folder.map(Folder::finish).transpose()?;
        if json {
            terminal.print_json_line(&totals)?;
        } else {
            let text = show(&totals, terminal.width);
            terminal.print(&text)?;
        }
        Ok(gravest(&totals))
    }
}

fn gravest(totals: &Totals) -> ExitCode {
    let codes = [
        (totals.panics, Verdict::Panicked),
        (totals.stuck, Verdict::Stuck),
        (totals.violations, Verdict::Unsafe),
        (totals.unexpected, Verdict::Unexpected),
    ];
    let found = codes.into_iter().find(|(runs, _)| *runs > 0);
    found.map_or(ExitCode::Good, |(_, verdict)| verdict.into())
}

fn show(totals: &Totals, width: u16) -> String {
    let mut parts = Vec::new();
    if !totals.failures.is_empty() {
        let rows = totals.failures.iter().map(|it| {
            vec![it.violation.invariant.clone(), it.violation.text.clone(), it.command.clone()]
        });
        parts.push(render(width, &["VIOLATED", "WHAT WAS SEEN", "AGAIN"], rows.collect()));
        let more = totals.failed().saturating_sub(totals.failures.len() as u64);
        if more > 0 {
            parts.push(format!("and {} more", plural(more, "failure")));
        }
    }
    let mut rows = vec![
        ("runs", count(totals.runs)),
        ("events", count(totals.events)),
        ("simulated", format!("{:.1} s", totals.simulated_s)),
    ];
    if totals.jobs > 0 {
        rows.push(("wall", format!("{:.1} s on {}", totals.wall_s, plural(totals.jobs, "thread"))));
        let each = totals.speedup_per_job;
        rows.push(("speed", format!("{:.0} times real time, {each:.0} a thread", totals.speedup)));
    }
    rows.extend([
        (
            "records",
            format!("{} acknowledged, {} delivered", count(totals.acked), count(totals.delivered)),
        ),
        ("moves", count(totals.moves_done)),
        (
            "freezes",
            format!("{}, the longest {}", count(totals.freezes), time(totals.freeze_us_max)),
        ),
        (
            "violations",
            format!("{} (of them {})", count(totals.violations), plural(totals.panics, "panic")),
        ),
        ("stuck", count(totals.stuck)),
        ("unexpected", count(totals.unexpected)),
    ]);
    if totals.interrupted {
        rows.push(("interrupted", "not all of the runs were done".into()));
    }
    parts.push(pairs(width, rows));
    parts.join("\n\n")
}
