//! `replay`: a recorded run again, event by event.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::table::{count, plural};
use super::terminal::Terminal;
use super::{ExitCode, Failure, Global, input, journal, plant_named};
use crate::guard;
use crate::lab::{Laboratory, Stop, Watch};
use crate::outcome::Verdict;
use crate::record::{Recorded, TraceError};
use crate::replay::{Breakpoint, Change, Difference, Moment, Replay, Stepping};
use crate::trace::{Kind, Line};

/// Longest first line: a whole scenario, or a whole configuration.
const HEAD_BYTES_MAX: u64 = 64 << 20;

/// What to replay.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  narad-sim replay late.jsonl --quiet                      is it still the same run?
  narad-sim replay late.jsonl --from 1200 --until 1300 --diff
  narad-sim replay late.jsonl --break-on effect:flip,node=n2 --step

Kinds of events: wake effect done send deliver drop applied note ack read phase freeze fault step
violation. Keys after a comma: node, peer, partition, nth.")]
pub struct ReplayArgs {
    /// A trace that run --trace or sweep --out wrote, or the journal of a real move that `narad cluster
    /// trace` wrote
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Show no event before this one
    #[arg(long, value_name = "N")]
    pub from: Option<u64>,
    /// End with this event
    #[arg(long, value_name = "N")]
    pub until: Option<u64>,
    /// Halt at such an event: show the world there, and go on step by step or, where nobody types, end
    #[arg(long, value_name = "KIND[:NAME][,KEY=VALUE..]")]
    pub break_on: Vec<Breakpoint>,
    /// Wait for Enter after each event that is shown
    #[arg(long)]
    pub step: bool,
    /// Show what each event changed in the world
    #[arg(long)]
    pub diff: bool,
    /// Show no events; only compare
    #[arg(long, short, conflicts_with_all = ["step", "diff", "from"])]
    pub quiet: bool,
}

/// What a replay came to, for programs.
#[derive(Serialize)]
struct Report {
    /// How many events were the same as in the trace.
    events: u64,
    /// Whether all were that were looked at.
    same: bool,
    /// The first that was not.
    difference: Option<Difference>,
    /// Where it was halted.
    halted: Option<Halt>,
    /// How the run ended, if it went to its end.
    verdict: Option<Verdict>,
}

/// An event at which a replay was halted, for programs.
#[derive(Serialize)]
struct Halt {
    line: Line,
    changes: Vec<Change>,
    world: Vec<(String, String)>,
}

pub(super) fn run<L: Laboratory>(
    args: ReplayArgs,
    lab: &L,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let shown = args.trace.display().to_string();
    let bad = |error: TraceError| Failure::usage(format!("{shown}: {error}"));
    let file = File::open(&args.trace)
        .map_err(|error| Failure::usage(format!("{shown} cannot be read: {error}")))?;
    let mut file = BufReader::new(file);
    if args.step && !terminal.in_is_terminal {
        let message = "--step waits for Enter, but nobody types here";
        return Err(Failure::usage(message).with_hint("--until and --break-on need no terminal"));
    }
    let mut first = Vec::new();
    let read = (&mut file).take(HEAD_BYTES_MAX).read_until(b'\n', &mut first);
    read.map_err(|error| Failure::usage(format!("{shown} cannot be read: {error}")))?;
    if let Some(head) = std::str::from_utf8(&first).ok().and_then(journal::head) {
        let mut session = Session::new(&args, global.is_json(), terminal);
        return journal::run(args, &head, file, global, &mut session);
    }
    let recorded = Recorded::open(first.as_slice().chain(file)).map_err(bad)?;
    let header = recorded.header.clone();
    let scenario = input::parse(lab, &args.trace, &header.scenario)?;
    plant_named(lab, header.planted.as_deref())?;

    let interrupt = terminal.interrupt.clone();
    let mut session = Session::new(&args, global.is_json(), terminal);
    let mut onlooker = |moment: Moment<'_>| session.see(moment);
    let mut replay = Replay::new(recorded, &mut onlooker);
    replay.stepping = Stepping::new(args.break_on, args.until, args.diff);
    let watch = Some(&mut replay as &mut dyn Watch);
    let finished = guard::run(lab, &scenario, header.seed, watch, Stop::when(&interrupt));
    let replayed = replay.finish(finished.complete).map_err(bad)?;

    let Session { halted, broken, terminal, .. } = session;
    if let Some(failure) = broken {
        return Err(failure);
    }
    let verdict = finished.complete.then(|| finished.summary.verdict());
    let code = match (&replayed.difference, verdict) {
        (Some(_), _) => ExitCode::Unexpected,
        (None, Some(verdict)) => verdict.into(),
        (None, None) => ExitCode::Good,
    };
    if global.is_json() {
        let same = replayed.difference.is_none();
        let (events, difference) = (replayed.lines, replayed.difference);
        terminal.print_json(&Report { events, same, difference, halted, verdict })?;
    } else if let Some(difference) = &replayed.difference {
        let at = count(replayed.lines);
        let text = format!(
            "after {at} events that are the same, the run comes out otherwise (S17):\n  recorded  {}\n  replayed  {}\n\
             the code has changed since, or it draws from elsewhere than the seed",
            or_end(difference.recorded.as_ref()),
            or_end(difference.replayed.as_ref()),
        );
        terminal.print(&text)?;
    } else {
        let end = verdict.map_or("ended early", Verdict::name);
        let text = format!("{} as recorded; {end}", plural(replayed.lines, "event"));
        terminal.print(&text)?;
    }
    Ok(code)
}

/// What people see, and say.
pub(super) struct Session<'a> {
    json: bool,
    quiet: bool,
    from: u64,
    stepping: bool,
    halted: Option<Halt>,
    broken: Option<Failure>,
    terminal: &'a mut Terminal,
}

impl<'a> Session<'a> {
    fn new(args: &ReplayArgs, json: bool, terminal: &'a mut Terminal) -> Self {
        Self {
            json,
            quiet: args.quiet,
            from: args.from.unwrap_or(0),
            stepping: args.step,
            halted: None,
            broken: None,
            terminal,
        }
    }
}

impl Session<'_> {
    /// Returns why nothing more can be shown, if that is so.
    pub(super) fn take_broken(&mut self) -> Result<(), Failure> {
        self.broken.take().map_or(Ok(()), Err)
    }

    pub(super) fn terminal(&mut self) -> &mut Terminal {
        self.terminal
    }

    pub(super) fn see(&mut self, moment: Moment<'_>) -> ControlFlow<()> {
        let outcome = if self.json { Ok(self.note_halt(moment)) } else { self.show(moment) };
        outcome.unwrap_or_else(|failure| {
            self.broken = Some(failure);
            ControlFlow::Break(())
        })
    }

    /// For programs: the first halt ends it.
    fn note_halt(&mut self, moment: Moment<'_>) -> ControlFlow<()> {
        if !moment.halt {
            return ControlFlow::Continue(());
        }
        let (line, world) = (moment.line.clone(), moment.world.describe());
        self.halted = Some(Halt { line, changes: moment.changes, world });
        ControlFlow::Break(())
    }

    fn show(&mut self, moment: Moment<'_>) -> Result<ControlFlow<()>, Failure> {
        let Moment { line, changes, halt, world } = moment;
        let visible = halt || (!self.quiet && line.n >= self.from);
        if !visible {
            return Ok(ControlFlow::Continue(()));
        }
        let mut text = show_line(line);
        // The line has said the time.
        let told = |change: &&Change| change.part == "time" || change.part == "events";
        for change in changes.iter().filter(|change| !told(change)) {
            let none = "-";
            let before = change.before.as_deref().unwrap_or(none);
            let after = change.after.as_deref().unwrap_or(none);
            let _ = write!(
                text,
                "\n          {}\n            - {before}\n            + {after}",
                change.part
            );
        }
        if halt {
            for (part, state) in world.describe() {
                let _ = write!(text, "\n          {part}: {state}");
            }
        }
        self.terminal.print(&text)?;
        if halt && !self.terminal.in_is_terminal {
            return Ok(ControlFlow::Break(()));
        }
        self.stepping |= halt;
        if self.stepping { self.ask() } else { Ok(ControlFlow::Continue(())) }
    }

    /// Waits for what to do next.
    fn ask(&mut self) -> Result<ControlFlow<()>, Failure> {
        self.terminal.note("Enter: next event, c: go on to the next halt, q: end");
        let mut answer = String::new();
        let read = self.terminal.input.read_line(&mut answer);
        let read = read.map_err(|error| Failure::from_output(&error))?;
        match answer.trim() {
            "q" | "quit" => return Ok(ControlFlow::Break(())),
            "c" | "continue" => self.stepping = false,
            _ if read == 0 => return Ok(ControlFlow::Break(())),
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn or_end(line: Option<&Line>) -> String {
    line.map_or_else(|| "nothing: it ends here".into(), show_line)
}

/// One event on one line.
fn show_line(line: &Line) -> String {
    let Line { n, at_us, kind, name, node, peer, partition, of, bytes, text } = line;
    let (whole, rest) = (at_us / 1_000_000, at_us % 1_000_000);
    let mut parts =
        vec![format!("{n:>8} {whole:>4}.{rest:06} s"), format!("{:<9} {name}", kind.name())];
    parts.extend(match (node, peer) {
        (Some(node), Some(peer)) => {
            let arrow = if *kind == Kind::Deliver { '<' } else { '>' };
            Some(format!("{node} {arrow} {peer}"))
        }
        (Some(node), None) => Some(node.clone()),
        (None, Some(peer)) => Some(format!("> {peer}")),
        (None, None) => None,
    });
    parts.extend(partition.clone());
    parts.extend(bytes.map(|bytes| format!("{bytes} B")));
    parts.extend(of.map(|of| format!("of {of}")));
    if !text.is_empty() {
        parts.push(text.clone());
    }
    parts.join("  ")
}
