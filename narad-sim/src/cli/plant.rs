//! `plant`: bugs on purpose.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::time::Duration;

use clap::Args;

use super::progress::Progress;
use super::table::{count, plural, render};
use super::terminal::Terminal;
use super::wall::{Stopwatch, parse_duration};
use super::{ExitCode, Failure, Global, threads};
use crate::hunt::{Bag, Effort, Hunted, hunt};
use crate::lab::{Bug, Laboratory};

/// What to do where no bug can be planted.
pub(super) const HOW_TO_BUILD: &str =
    "build it with them: cargo run --release -p narad-sim --features planted-bugs -- plant all";

/// What to plant.
#[derive(Debug, Args)]
#[command(after_help = "Needs a build with --features planted-bugs, which no published build has.
A bug is found if a run fails with it, and does not without it.

Examples:
  narad-sim plant --list
  narad-sim plant all --json
  narad-sim run --seed 7 --planted h01-ttl-resumes-locally --trace seven.jsonl")]
pub struct PlantArgs {
    /// Which bugs: all, or their names, or the beginnings of them
    #[arg(value_name = "NAME", required_unless_present = "list")]
    pub names: Vec<String>,
    /// List the bugs, with the rule that each takes away
    #[arg(long, conflicts_with = "names")]
    pub list: bool,
    /// Most runs for each bug
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub seeds: u64,
    /// Begin no further run for a bug after this time
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub limit: Duration,
    /// How many threads; one for each core if not given
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

pub(super) fn run<L: Laboratory>(
    args: PlantArgs,
    lab: &L,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let bugs = lab.bugs();
    if bugs.is_empty() {
        let message = "this build has no bugs to plant";
        return Err(Failure::usage(message).with_hint(HOW_TO_BUILD));
    }
    if args.list {
        return list(&bugs, global, terminal);
    }
    let chosen = choose(&bugs, &args.names)?;
    let interrupt = terminal.interrupt.clone();
    let mut hunts = Vec::new();
    let progress = Progress::new(terminal, Some(chosen.len() as u64), "plant");
    for bug in &chosen {
        if terminal.interrupted() {
            break;
        }
        progress.message(bug.name.clone());
        let watch = Stopwatch::start();
        let effort = Effort {
            seeds: args.seeds,
            jobs: threads(args.jobs),
            is_over: &|| watch.is_over(Some(args.limit)),
            interrupt: &interrupt,
        };
        let hunted = hunt(lab, bug, effort).map_err(|error| Failure::usage(error.to_string()))?;
        progress.step();
        // One that an interrupt cut short says nothing.
        if hunted.found || !terminal.interrupted() {
            if global.is_json() {
                terminal.print_json_line(&hunted)?;
            }
            hunts.push(hunted);
        }
    }
    drop(progress);
    let bag = Bag::of(&hunts);
    if global.is_json() {
        terminal.print_json_line(&bag)?;
    } else {
        let text = show(&hunts, &bag, terminal.width);
        terminal.print(&text)?;
    }
    let good = bag.missed.is_empty() && bag.alarms == 0;
    Ok(if good { ExitCode::Good } else { ExitCode::Unexpected })
}

/// Finds the bugs that are meant.
fn choose<'a>(bugs: &'a [Bug], names: &[String]) -> Result<Vec<&'a Bug>, Failure> {
    if names.iter().any(|name| name == "all") {
        return Ok(bugs.iter().collect());
    }
    let mut chosen: Vec<&Bug> = Vec::new();
    for name in names {
        let exact = bugs.iter().filter(|bug| bug.name == *name);
        let mut found: Vec<&Bug> = exact.collect();
        if found.is_empty() {
            found = bugs.iter().filter(|bug| bug.name.starts_with(name.as_str())).collect();
        }
        if found.is_empty() {
            let close = crate::placement::nearest(name, bugs.iter().map(|bug| bug.name.as_str()));
            let hint = match close {
                Some(close) => format!("did you mean {close}?"),
                None => "narad-sim plant --list shows them all".into(),
            };
            return Err(Failure::usage(format!("there is no bug {name}")).with_hint(hint));
        }
        chosen.extend(found);
    }
    Ok(chosen)
}

fn list(bugs: &[Bug], global: &Global, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    if global.is_json() {
        terminal.print_json(&bugs)?;
        return Ok(ExitCode::Good);
    }
    let rows = bugs.iter().map(|bug| {
        vec![bug.name.clone(), bug.invariants.join(" "), bug.removes.clone(), bug.place.clone()]
    });
    let header = ["BUG", "NOTICED BY", "WHAT IT TAKES AWAY", "WHERE"];
    let table = render(terminal.width, &header, rows.collect());
    let text = format!("{table}\n\n{}", plural(bugs.len() as u64, "bug"));
    terminal.print(&text)?;
    Ok(ExitCode::Good)
}

fn show(hunts: &[Hunted], bag: &Bag, width: u16) -> String {
    let rows = hunts.iter().map(|it| {
        let by = match (&it.violation, it.hinted) {
            (Some(violation), true) => format!("{}, hinted", violation.invariant),
            (Some(violation), false) => violation.invariant.clone(),
            (None, _) => "-".into(),
        };
        let seed = it.seed.map_or_else(|| "-".into(), |seed| seed.to_string());
        let found = if it.found { "found" } else { "missed" };
        vec![it.bug.clone(), found.into(), count(it.seeds), seed, by, it.expected.join(" ")]
    });
    let header = ["BUG", "", "RUNS", "SEED", "NOTICED BY", "EXPECTED"];
    let mut text = render(width, &header, rows.collect());
    let _ = write!(text, "\n\n{} of {} found", bag.found, plural(bag.total, "bug"));
    if let Some(median) = bag.median_seeds {
        let _ = write!(text, ", in the median after {}", plural(median, "run"));
    }
    if !bag.missed.is_empty() {
        let _ = write!(text, "\nmissed: {}", bag.missed.join(", "));
    }
    if bag.alarms > 0 {
        let _ = write!(text, "\n{} failed without any bug, too", plural(bag.alarms, "run"));
    }
    text
}
