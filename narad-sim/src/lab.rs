//! What the commands drive: a source of scenarios, and a world to run them in.
//!
//! The commands know a scenario only by what [`Laboratory`] says about it, so that their own tests
//! drive a laboratory that is made up.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::outcome::Summary;
use crate::scenario::{DrawOptions, MetastoreKind};
use crate::trace::Line;

/// Reads scenarios, draws them, and runs them.
///
/// Everything here is a pure function of its arguments and of the planted bug: the same scenario and
/// seed give the same lines and the same summary, whatever thread asks.
pub trait Laboratory: Sync {
    /// What is run.
    type Scenario: Clone + Send + Sync;

    /// Reads a scenario file. `name` is its path; the scenario is called after the file if it does
    /// not say otherwise.
    ///
    /// # Errors
    ///
    /// What is wrong with the text, with path and line, for people.
    fn parse(&self, text: &str, name: &str) -> Result<Self::Scenario, String>;

    /// Draws a whole scenario from a seed.
    fn draw(&self, seed: u64, options: &DrawOptions) -> Self::Scenario;

    /// Returns the scenario as a file that reads back as the same.
    fn text(&self, scenario: &Self::Scenario) -> String;

    /// Returns its name.
    fn name<'a>(&self, scenario: &'a Self::Scenario) -> &'a str;

    /// Returns the seed that it asks for itself.
    fn seed(&self, scenario: &Self::Scenario) -> u64;

    /// Returns which log it asks for.
    fn metastore(&self, scenario: &Self::Scenario) -> MetastoreKind;

    /// Changes what the file says about the run: the seed, and the metastore if one is given.
    fn adjust(&self, scenario: &mut Self::Scenario, seed: u64, metastore: Option<MetastoreKind>);

    /// Returns the scenario with everything that its rates would bring about with this seed as steps
    /// of their own, so that they can be taken away one by one; nothing if it has no such rates.
    fn explicit(&self, scenario: &Self::Scenario, seed: u64) -> Option<Self::Scenario>;

    /// Returns simpler scenarios, the boldest first.
    fn shrinks(&self, scenario: &Self::Scenario) -> Vec<Self::Scenario>;

    /// Counts what a scenario is made of.
    fn burden(&self, scenario: &Self::Scenario) -> Burden;

    /// Returns the reference of scenario files.
    fn schema(&self) -> String;

    /// Runs a scenario to its end.
    ///
    /// It may panic: [`guard::run`](crate::guard::run) is how commands call it.
    fn run(&self, scenario: &Self::Scenario, options: RunOptions<'_>) -> Finished;

    /// Returns the bugs that can be planted; none if this build has none.
    fn bugs(&self) -> Vec<Bug>;

    /// Plants one of [`bugs`](Self::bugs) by its name, or none. It stays until the next call, for all
    /// threads.
    ///
    /// # Errors
    ///
    /// If this build has no such bug.
    fn plant(&self, name: Option<&str>) -> Result<(), NoSuchBug>;

    /// Returns a scenario for the n-th try at finding a bug, in which it is likelier to show than in
    /// one that is drawn evenly, where somebody knows of one. It must pass without the bug, and must
    /// not call for what the bug does.
    fn hint(&self, bug: &str, number: u64) -> Option<Self::Scenario>;
}

/// How a run is to go.
pub struct RunOptions<'a> {
    /// The root of all chance.
    pub seed: u64,
    /// Told every line; without it, a run spends nothing on text.
    pub watch: Option<&'a mut (dyn Watch + 'a)>,
    /// Asked now and then whether somebody wants an end.
    pub stop: Stop<'a>,
    /// Told how far the run is.
    pub pulse: &'a Pulse,
}

impl std::fmt::Debug for RunOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions")
            .field("seed", &self.seed)
            .field("watched", &self.watch.is_some())
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}

/// Sees every line of a run.
pub trait Watch {
    /// Sees one line, and the world after the event that it belongs to. `Break` ends the run there.
    fn line(&mut self, line: &Line, world: &dyn Describe) -> ControlFlow<()>;
}

/// Tells what the world looks like.
pub trait Describe {
    /// Returns its parts, such as `n2 orders/0 mover`, each with its state on one line; in an order that is
    /// the same for the same state, each part once.
    fn describe(&self) -> Vec<(String, String)>;
}

/// Says whether a run is to end early: one of its flags is set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stop<'a> {
    flags: [Option<&'a AtomicBool>; 2],
}

impl<'a> Stop<'a> {
    /// Never.
    pub const NEVER: Self = Self { flags: [None, None] };

    /// Ends when a flag is set.
    #[must_use]
    pub const fn when(flag: &'a AtomicBool) -> Self {
        Self { flags: [Some(flag), None] }
    }

    /// Ends when either flag is set.
    #[must_use]
    pub const fn either(one: &'a AtomicBool, other: &'a AtomicBool) -> Self {
        Self { flags: [Some(one), Some(other)] }
    }

    /// Returns whether somebody wants an end.
    pub fn is_set(&self) -> bool {
        self.flags.iter().flatten().any(|flag| flag.load(Ordering::Relaxed))
    }
}

/// How far a run is. It outlives a panic.
#[derive(Debug, Default)]
pub struct Pulse {
    /// How many events have happened.
    pub event: Cell<u64>,
    /// The true time of the last one, in microseconds.
    pub at_us: Cell<u64>,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The run in figures.
    pub summary: Summary,
    /// Whether it went to its end; not if it was stopped, or its watch broke off. Such a run says
    /// nothing about what would have come: no expectation and no liveness is judged.
    pub complete: bool,
}

/// What a scenario is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burden {
    /// Steps of its timeline.
    pub steps: usize,
    /// Faults that it leaves to chance: rates that are not zero.
    pub rates: usize,
    /// Nodes.
    pub nodes: usize,
}

impl std::fmt::Display for Burden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { steps, rates, nodes } = self;
        let count = |n: &usize, what| format!("{n} {what}{}", if *n == 1 { "" } else { "s" });
        let rates = count(rates, "random fault");
        write!(f, "{}, {rates}, {}", count(steps, "step"), count(nodes, "node"))
    }
}

/// A rule that can be taken out of the machines.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Bug {
    /// Its name, such as `h01-ttl-resumes-locally`.
    pub name: String,
    /// What it takes away.
    pub removes: String,
    /// Where in the code.
    pub place: String,
    /// Which invariants should notice.
    pub invariants: Vec<String>,
}

/// This build has no such bug to plant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no bug {0} in this build")]
pub struct NoSuchBug(pub String);
