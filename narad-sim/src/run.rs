//! One run: a scenario and a seed, from the first event to the verdict.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use crate::lab::{Describe, Pulse, Stop, Watch};
use crate::outcome::Summary;
use crate::scenario::Scenario;
use crate::time::Time;
use crate::trace::Line;
use crate::world::World;
use crate::world::observe::Sink;

/// How a scenario is run.
#[derive(Default)]
pub struct RunOptions<'a> {
    /// The seed; the scenario's own without one.
    pub seed: Option<u64>,
    /// Told every line, and may end the run; without it, a run spends nothing on text.
    pub watch: Option<&'a mut (dyn Watch + 'a)>,
    /// Asked now and then whether somebody wants an end.
    pub stop: Stop<'a>,
    /// Told how far the run is.
    pub pulse: Option<&'a Pulse>,
}

impl std::fmt::Debug for RunOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions").field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    /// In figures.
    pub summary: Summary,
    /// Whether it went to its end, and was not stopped.
    pub complete: bool,
    /// The world as it was in the end, as names and values for people.
    pub described: Vec<(String, String)>,
}

/// Runs a scenario.
///
/// First a *safety* phase, in which anything may go wrong and every safety invariant is checked
/// after each event that can touch it; then a *liveness* phase: a core is healed, and everything
/// must finish or say why not.
///
/// # Examples
///
/// A quiet cluster of three has nothing to complain of:
///
/// ```
/// use narad_sim::run::{RunOptions, run};
/// use narad_sim::scenario::Scenario;
///
/// let scenario = Scenario::parse(
///     r#"
///     safety = "5s"
///     liveness = "5s"
///     [[topic]]
///     name = "orders"
///     partitions = 3
///     "#,
///     "quiet",
/// )?;
/// let run = run(&scenario, RunOptions::default());
/// assert_eq!(run.summary.violations, []);
/// assert!(run.summary.acked > 100);
/// # Ok::<(), narad_sim::scenario::ScenarioError>(())
/// ```
pub fn run(scenario: &Scenario, options: RunOptions<'_>) -> Run {
    let RunOptions { seed, watch, stop, pulse } = options;
    let seed = seed.unwrap_or(scenario.head.seed);
    let lines = Lines::default();
    let sink = watch.is_some().then(|| {
        let lines = Rc::clone(&lines);
        Box::new(move |line| lines.borrow_mut().push(line)) as Sink
    });
    let mut world = World::new(scenario, seed, sink);
    let mut onlooker = Onlooker { watch, lines, stop, pulse, has_left: false };
    let mut goes_on = |world: &World| onlooker.looks(world) && !world.is_hopeless();
    let safety = Time::from_start(scenario.head.safety);
    let mut is_whole = true;
    while is_whole && world.step(safety) {
        is_whole = goes_on(&world);
    }
    if is_whole && !scenario.head.liveness.is_zero() {
        is_whole = live(&mut world, scenario.head.liveness, &mut goes_on);
    }
    if is_whole {
        world.end();
    }
    // What the end itself has to say.
    onlooker.looks(&world);
    let complete = !onlooker.has_left;
    Run { summary: summary(&world, scenario, seed), complete, described: world.describe() }
}

type Lines = Rc<RefCell<Vec<Line>>>;

/// Whoever looks on while a world goes its way.
struct Onlooker<'a> {
    watch: Option<&'a mut (dyn Watch + 'a)>,
    /// The lines of the last event; shown when it is over, with the world that it made.
    lines: Lines,
    stop: Stop<'a>,
    pulse: Option<&'a Pulse>,
    has_left: bool,
}

impl Onlooker<'_> {
    /// Looks at what an event has made of the world; returns false if nobody wants to see more.
    fn looks(&mut self, world: &World) -> bool {
        let events = world.recorder.events;
        if let Some(pulse) = self.pulse {
            pulse.event.set(events);
            pulse.at_us.set(world.now.as_micros());
        }
        if let Some(watch) = self.watch.as_deref_mut() {
            for line in mem::take(&mut *self.lines.borrow_mut()) {
                if !self.has_left && watch.line(&line, world) == ControlFlow::Break(()) {
                    self.has_left = true;
                }
            }
        }
        // An atomic is not read at every event of millions.
        self.has_left |= events.is_multiple_of(64) && self.stop.is_set();
        !self.has_left
    }
}

impl Describe for World {
    fn describe(&self) -> Vec<(String, String)> {
        Self::describe(self)
    }
}

/// Heals a core and waits until everything is done; returns false if it was stopped.
fn live(world: &mut World, most: Duration, goes_on: &mut dyn FnMut(&World) -> bool) -> bool {
    const LOOK_EVERY: Duration = Duration::from_secs(1);
    world.begin_to_live();
    let end = world.now.after(most);
    let mut next = world.now.after(LOOK_EVERY);
    while world.now < end {
        while world.step(next.min(end)) {
            if !goes_on(world) {
                return false;
            }
        }
        next = world.now.after(LOOK_EVERY);
        if world.is_at_rest() {
            break;
        }
    }
    true
}

fn summary(world: &World, scenario: &Scenario, seed: u64) -> Summary {
    let name = |names: &BTreeMap<&'static str, u64>| {
        names.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    let mut summary = Summary {
        scenario: scenario.head.name.clone(),
        seed,
        metastore: scenario.cluster.metastore.word().to_owned(),
        classes: scenario.classes(),
        nodes: scenario.cluster.machines(),
        events: world.recorder.events,
        simulated_us: world.now.as_micros(),
        write_over_copy: scenario.workload.produce.write_over_copy.map(|rate| rate.0),
        notes: name(&world.recorder.notes),
        faults: name(&world.recorder.faults),
        waiting: world.oracle.waiting(&world.view()),
        trace_hash: world.recorder.trace_hash(),
        ..Summary::default()
    };
    world.oracle.summarise(&mut summary);
    summary.violations.clone_from(&world.violations);
    summary
}
