//! `replay` of a journal: what the mover of a real node was told, driven through the real machine.
//!
//! The first line of a journal is its [`Head`], with what the machine was started with; the others are
//! [`Entry`]s, as `narad cluster trace` writes them. Each becomes an event with its effects after it, so
//! that it is looked at like any other trace; a phase or a number of effects that differs is the same
//! news as a trace that comes out otherwise.

use std::fmt::Write as _;
use std::io::BufRead;
use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};

use narad_core::mover::journal::{Beginning, Entry, Input, Journal};
use narad_core::mover::{Effect, Event, Mover};
use serde::{Deserialize, Serialize};

use super::replay::{ReplayArgs, Session};
use super::table::plural;
use super::{ExitCode, Failure, Global};
use crate::guard::quietly;
use crate::lab::Describe;
use crate::replay::Stepping;
use crate::trace::{Kind, Line};

/// The version of the format.
const VERSION: u32 = 1;
/// Longest line that is read: a listing of many segments.
const LINE_BYTES_MAX: usize = 64 << 20;

/// The first line of a journal.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    narad_journal: u32,
    /// The partition, such as `orders/3`.
    partition: String,
    /// The node that it moved to.
    node: String,
    left_out: u64,
    beginning: Beginning,
}

/// What a replay came to, for programs.
#[derive(Serialize)]
struct Report<'a> {
    partition: &'a str,
    node: &'a str,
    /// How many inputs had the effects and phases that the node saw.
    inputs: usize,
    same: bool,
    /// Where that ended, if it did.
    difference: Option<String>,
    left_out: u64,
}

/// Returns the head of a journal, if a first line is one.
pub(super) fn head(line: &str) -> Option<Head> {
    serde_json::from_str(line).ok()
}

/// What breakpoints show of the machine.
struct World<'a>(&'a Mover, &'a str);

impl Describe for World<'_> {
    fn describe(&self) -> Vec<(String, String)> {
        vec![(format!("{} mover", self.1), format!("{:?}", self.0.progress()))]
    }
}

/// Reads the journal behind its head.
fn read(shown: &str, head: &Head, lines: impl BufRead) -> Result<Journal, Failure> {
    if head.narad_journal != VERSION {
        let version = head.narad_journal;
        let message = format!("{shown} is a journal of version {version}; this reads {VERSION}");
        return Err(Failure::usage(message).with_hint("use the narad-sim of the same release"));
    }
    if let Err(error) = head.beginning.config.check(&narad_core::config::Policy::default()) {
        // A node refuses such a configuration, and a machine may rely on it.
        return Err(Failure::usage(format!("{shown}: line 1: {error}")));
    }
    let mut entries = Vec::new();
    for (number, line) in lines.lines().enumerate() {
        let number = number + 2;
        let bad = |why: &dyn std::fmt::Display| {
            Failure::usage(format!("{shown}: line {number} is no input of a mover: {why}"))
        };
        let line = line.map_err(|error| bad(&error))?;
        if line.len() > LINE_BYTES_MAX {
            return Err(bad(&"it is too long"));
        }
        entries.push(serde_json::from_str::<Entry>(&line).map_err(|error| bad(&error))?);
    }
    Ok(Journal::of(head.beginning.clone(), entries, head.left_out))
}

pub(super) fn run(
    args: ReplayArgs,
    head: &Head,
    lines: impl BufRead,
    global: &Global,
    session: &mut Session<'_>,
) -> Result<ExitCode, Failure> {
    let journal = read(&args.trace.display().to_string(), head, lines)?;
    let mut course = Course {
        head,
        session,
        stepping: Stepping::new(args.break_on, args.until, args.diff),
        began_us: micros(journal.beginning.at),
        n: 0,
        phase: None,
        difference: None,
    };
    let driven = quietly(|| {
        panic::catch_unwind(AssertUnwindSafe(|| {
            journal.replay(|entry, mover, effects, same| course.see(entry, mover, effects, same))
        }))
    });
    let Course { difference, session, .. } = course;
    session.take_broken()?;
    let Ok(inputs) = driven else {
        let message = "the machine panicked: the journal is not of this version, or was changed";
        return Err(Failure { code: ExitCode::Panicked, ..Failure::usage(message) });
    };
    let same = difference.is_none();
    let left_out = head.left_out;
    if global.is_json() {
        let (partition, node) = (head.partition.as_str(), head.node.as_str());
        let report = Report { partition, node, inputs, same, difference, left_out };
        session.terminal().print_json(&report)?;
    } else {
        let mut text = match &difference {
            None => format!(
                "{} of {} to {} as recorded",
                plural(inputs as u64, "input"),
                head.partition,
                head.node
            ),
            Some(difference) => format!(
                "after {} that came out the same, the machine does otherwise:\n  {difference}\n\
                 the code has changed since",
                plural(inputs as u64, "input")
            ),
        };
        if left_out > 0 {
            let _ = write!(
                text,
                "\n{} that followed had no room in the journal",
                plural(left_out, "input")
            );
        }
        session.terminal().print(&text)?;
    }
    Ok(if same { ExitCode::Good } else { ExitCode::Unexpected })
}

/// A journal on its way through the machine.
struct Course<'a, 'b> {
    head: &'a Head,
    session: &'a mut Session<'b>,
    stepping: Stepping,
    began_us: u64,
    n: u64,
    phase: Option<narad_core::mover::Phase>,
    difference: Option<String>,
}

impl Course<'_, '_> {
    fn see(&mut self, entry: &Entry, mover: &Mover, effects: &[Effect], same: bool) -> bool {
        let world = World(mover, &self.head.partition);
        let (kind, name, text) = input(&entry.input);
        if self.show(entry, kind, name, text, &world).is_break() {
            return false;
        }
        if self.phase.replace(mover.phase()) != Some(mover.phase()) {
            let name = mover.phase().to_string();
            if self.show(entry, Kind::Phase, &name, String::new(), &world).is_break() {
                return false;
            }
        }
        for effect in effects {
            let (kind, name, text) = shown(effect);
            if self.show(entry, kind, &name, text, &world).is_break() {
                return false;
            }
        }
        if !same {
            self.difference = Some(format!(
                "recorded: {} effects, then {}; now: {} effects, then {}",
                entry.effects,
                entry.phase,
                effects.len(),
                mover.phase()
            ));
        }
        same
    }

    fn show(
        &mut self,
        entry: &Entry,
        kind: Kind,
        name: &str,
        text: String,
        world: &World<'_>,
    ) -> ControlFlow<()> {
        let line = Line {
            n: self.n,
            at_us: micros(entry.at).saturating_sub(self.began_us),
            kind,
            name: name.into(),
            node: Some(self.head.node.clone()),
            peer: None,
            partition: Some(self.head.partition.clone()),
            of: None,
            bytes: None,
            text,
        };
        self.n += 1;
        let session = &mut *self.session;
        self.stepping.show(&line, world, &mut |moment| session.see(moment))
    }
}

fn micros(at: narad_core::time::Instant) -> u64 {
    u64::try_from(at.since_origin().as_micros()).unwrap_or(u64::MAX)
}

fn input(input: &Input) -> (Kind, &'static str, String) {
    match input {
        Input::Event(Event::Wake) => (Kind::Wake, "deadline", String::new()),
        Input::Event(Event::Done(op, outcome)) => {
            (Kind::Done, "operation", format!("{op:?} {outcome:?}"))
        }
        Input::Event(Event::Row(row)) => (Kind::Applied, "row", format!("{row:?}")),
        Input::Event(Event::Source(node, health)) => {
            (Kind::Applied, "source", format!("{node:?} {health:?}"))
        }
        Input::Learned(cost) => (Kind::Step, "learned", format!("{cost:?}")),
    }
}

fn shown(effect: &Effect) -> (Kind, String, String) {
    match effect {
        Effect::Run(op, operation) => {
            (Kind::Effect, operation.name().into(), format!("{op:?} {operation:?}"))
        }
        Effect::Cancel(op) => (Kind::Effect, "cancel".into(), format!("{op:?}")),
        Effect::Note(note) => (Kind::Note, "mover".into(), format!("{note:?}")),
    }
}
