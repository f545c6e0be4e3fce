//! Runs a recorded run again, and looks at it closely.
//!
//! The lines must be the same, or the same seed no longer gives the same run (S17): the code has
//! changed, or something is drawn from elsewhere than the seed.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::ops::ControlFlow;
use std::str::FromStr;

use serde::Serialize;

use crate::lab::{Describe, Watch};
use crate::record::{Recorded, TraceError};
use crate::trace::{Kind, Line};

/// Which events to halt at: a kind of event, or one by name, at a node, of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breakpoint {
    kind: Kind,
    name: Option<String>,
    node: Option<String>,
    peer: Option<String>,
    partition: Option<String>,
    nth: u64,
}

impl Breakpoint {
    /// Returns whether it is there that a run should halt, counting how often it came by.
    pub(crate) fn hits(&mut self, line: &Line) -> bool {
        let fits = |wanted: &Option<String>, is: Option<&String>| {
            wanted.as_ref().is_none_or(|wanted| Some(wanted) == is)
        };
        let here = self.kind == line.kind
            && fits(&self.name, Some(&line.name))
            && fits(&self.node, line.node.as_ref())
            && fits(&self.peer, line.peer.as_ref())
            && fits(&self.partition, line.partition.as_ref());
        if here && self.nth > 1 {
            self.nth -= 1;
            return false;
        }
        here
    }
}

impl FromStr for Breakpoint {
    type Err = String;

    /// Reads `kind`, `kind:name`, and keys after commas: `effect:flip,node=n2,nth=3`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (kind, name) = match first.split_once(':') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (first, None),
        };
        let kind = serde_json::from_value(kind.into()).map_err(|_| {
            let kinds: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            format!("{kind} is no kind of event; one of {}", kinds.join(", "))
        })?;
        let mut point = Self { kind, name, node: None, peer: None, partition: None, nth: 1 };
        for part in parts {
            let (key, value) =
                part.split_once('=').ok_or_else(|| format!("{part} is no key=value"))?;
            match key {
                "node" => point.node = Some(value.into()),
                "peer" => point.peer = Some(value.into()),
                "partition" => point.partition = Some(value.into()),
                "nth" => {
                    let nth = value.parse().ok().filter(|nth| *nth > 0);
                    point.nth = nth.ok_or_else(|| format!("nth={value} is no count from 1"))?;
                }
                _ => return Err(format!("{key} is no key; one of node, peer, partition, nth")),
            }
        }
        Ok(point)
    }
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::Wake,
        Self::Effect,
        Self::Done,
        Self::Send,
        Self::Deliver,
        Self::Drop,
        Self::Applied,
        Self::Note,
        Self::Ack,
        Self::Read,
        Self::Phase,
        Self::Freeze,
        Self::Fault,
        Self::Step,
        Self::Violation,
    ];

    /// Returns its name in traces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::Effect => "effect",
            Self::Done => "done",
            Self::Send => "send",
            Self::Deliver => "deliver",
            Self::Drop => "drop",
            Self::Applied => "applied",
            Self::Note => "note",
            Self::Ack => "ack",
            Self::Read => "read",
            Self::Phase => "phase",
            Self::Freeze => "freeze",
            Self::Fault => "fault",
            Self::Step => "step",
            Self::Violation => "violation",
        }
    }
}

/// A part of the world that an event changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Which part.
    pub part: String,
    /// What it was; nothing if it is new.
    pub before: Option<String>,
    /// What it is; nothing if it is gone.
    pub after: Option<String>,
}

/// Returns what differs between two descriptions of a world.
#[must_use]
pub fn changes(before: &[(String, String)], after: &[(String, String)]) -> Vec<Change> {
    let mut parts: BTreeMap<&str, [Option<&str>; 2]> = BTreeMap::new();
    for (side, of) in [before, after].into_iter().enumerate() {
        for (part, state) in of {
            parts.entry(part).or_default()[side] = Some(state);
        }
    }
    let differ = |(_, [before, after]): &(&str, [Option<&str>; 2])| before != after;
    let own = |state: Option<&str>| state.map(str::to_owned);
    let change = |(part, [before, after]): (&str, [Option<&str>; 2])| Change {
        part: part.into(),
        before: own(before),
        after: own(after),
    };
    parts.into_iter().filter(differ).map(change).collect()
}

/// Where a run came out otherwise than its trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// What the trace says; nothing where it has ended.
    pub recorded: Option<Line>,
    /// What happened; nothing where the run has ended.
    pub replayed: Option<Line>,
}

/// What an onlooker is shown of an event.
pub struct Moment<'a> {
    /// The event.
    pub line: &'a Line,
    /// What it changed, if changes were asked for. A first look has nothing to compare with.
    pub changes: Vec<Change>,
    /// Whether to halt here: a breakpoint, or the end that was asked for.
    pub halt: bool,
    /// The world.
    pub world: &'a dyn Describe,
}

impl std::fmt::Debug for Moment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Moment").field("line", &self.line).finish_non_exhaustive()
    }
}

/// How events are gone through, one by one: where to halt, where to end, and what to tell of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stepping {
    /// Where to halt.
    pub breakpoints: Vec<Breakpoint>,
    /// The last event that is wanted, by its number; all of them if there is none.
    pub until: Option<u64>,
    /// Whether to tell what each event changed.
    pub with_changes: bool,
    /// The world after the last event.
    before: Option<Vec<(String, String)>>,
}

impl Stepping {
    /// Goes by such rules.
    #[must_use]
    pub fn new(breakpoints: Vec<Breakpoint>, until: Option<u64>, with_changes: bool) -> Self {
        Self { breakpoints, until, with_changes, before: None }
    }

    /// Shows the next event to an onlooker, who may end it; it ends after the last one that is wanted.
    pub fn show(
        &mut self,
        line: &Line,
        world: &dyn Describe,
        onlooker: &mut dyn FnMut(Moment<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut found = Vec::new();
        if self.with_changes {
            let now = world.describe();
            if let Some(before) = &self.before {
                found = changes(before, &now);
            }
            self.before = Some(now);
        }
        let last = self.until.is_some_and(|until| line.n >= until);
        // Every breakpoint counts, so none is skipped once another has hit.
        let hits = self.breakpoints.iter_mut().filter_map(|point| point.hits(line).then_some(()));
        let halt = hits.count() > 0 || last;
        onlooker(Moment { line, changes: found, halt, world })?;
        if last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Compares a run with its trace, and shows it to an onlooker.
pub struct Replay<'a, R: BufRead> {
    recorded: Recorded<R>,
    /// How its events are gone through.
    pub stepping: Stepping,
    /// Told of every event; may end it.
    pub onlooker: &'a mut dyn FnMut(Moment<'_>) -> ControlFlow<()>,
    lines: u64,
    difference: Option<Difference>,
    error: Option<TraceError>,
}

impl<R: BufRead> std::fmt::Debug for Replay<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("lines", &self.lines).finish_non_exhaustive()
    }
}

/// What a replay found.
#[derive(Debug)]
pub struct Replayed {
    /// How many events were the same.
    pub lines: u64,
    /// The first that was not.
    pub difference: Option<Difference>,
}

impl<'a, R: BufRead> Replay<'a, R> {
    /// Begins to follow a trace.
    pub fn new(
        recorded: Recorded<R>,
        onlooker: &'a mut dyn FnMut(Moment<'_>) -> ControlFlow<()>,
    ) -> Self {
        Self {
            recorded,
            stepping: Stepping::default(),
            onlooker,
            lines: 0,
            difference: None,
            error: None,
        }
    }

    /// Ends it; `complete` says whether the run went to its own end, so that the trace must end, too.
    ///
    /// # Errors
    ///
    /// If a line of the trace could not be read.
    pub fn finish(mut self, complete: bool) -> Result<Replayed, TraceError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if complete
            && self.difference.is_none()
            && let Some(line) = self.recorded.next_line()?
        {
            self.difference = Some(Difference { recorded: Some(line), replayed: None });
        }
        Ok(Replayed { lines: self.lines, difference: self.difference })
    }
}

impl<R: BufRead> Watch for Replay<'_, R> {
    fn line(&mut self, line: &Line, world: &dyn Describe) -> ControlFlow<()> {
        let recorded = match self.recorded.next_line() {
            Ok(recorded) => recorded,
            Err(error) => {
                self.error = Some(error);
                return ControlFlow::Break(());
            }
        };
        // The trace of a run that was interrupted ends early; what comes then is new, not different.
        let ended = recorded.is_none() && self.recorded.summary().is_none();
        if !ended && recorded.as_ref() != Some(line) {
            self.difference = Some(Difference { recorded, replayed: Some(line.clone()) });
            return ControlFlow::Break(());
        }
        self.lines += 1;
        self.stepping.show(line, world, self.onlooker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: Kind, name: &str, node: &str) -> Line {
        let none = || None;
        let (node, text) = (Some(node.into()), String::new());
        let name = name.into();
        Line {
            n: 1,
            at_us: 0,
            kind,
            name,
            node,
            peer: none(),
            partition: none(),
            of: None,
            bytes: None,
            text,
        }
    }

    #[test]
    fn every_kind_has_the_name_that_traces_have() {
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("a name"), kind.name());
        }
    }

    #[test]
    fn a_breakpoint_says_what_and_where() {
        let mut point: Breakpoint = "effect:flip,node=n2,nth=2".parse().expect("a breakpoint");
        assert!(!point.hits(&line(Kind::Effect, "flip", "n1")));
        assert!(!point.hits(&line(Kind::Done, "flip", "n2")));
        assert!(!point.hits(&line(Kind::Effect, "flip", "n2")), "the first");
        assert!(point.hits(&line(Kind::Effect, "flip", "n2")), "the second");
        for (bad, says) in [
            ("flip", "flip is no kind of event"),
            ("effect:flip,n2", "n2 is no key=value"),
            ("effect,owner=n2", "owner is no key"),
            ("effect,nth=0", "no count"),
        ] {
            let error = bad.parse::<Breakpoint>().expect_err(bad);
            assert!(error.contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn changes_are_what_differs() {
        let of = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(part, state)| ((*part).into(), (*state).into())).collect()
        };
        let found = changes(
            &of(&[("a", "1"), ("b", "2"), ("c", "3")]),
            &of(&[("a", "1"), ("b", "x"), ("d", "4")]),
        );
        let parts: Vec<_> = found
            .iter()
            .map(|it| (it.part.as_str(), it.before.as_deref(), it.after.as_deref()))
            .collect();
        assert_eq!(
            parts,
            [("b", Some("2"), Some("x")), ("c", Some("3"), None), ("d", None, Some("4"))]
        );
    }
}
