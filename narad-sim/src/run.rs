//! One run: a scenario and a seed, from the first event to the verdict.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::outcome::Summary;
use crate::scenario::Scenario;
use crate::time::Time;
use crate::world::World;
use crate::world::observe::Sink;

/// How a scenario is run.
#[derive(Default)]
pub struct RunOptions<'a> {
    /// The seed; the scenario's own without one.
    pub seed: Option<u64>,
    /// Takes the lines of the trace.
    pub trace: Option<Sink>,
    /// Ends the run early when it becomes true.
    pub stop: Option<&'a AtomicBool>,
    /// Ends the run before this event.
    pub until_event: Option<u64>,
    /// Told of the simulated time now and then.
    pub progress: Option<&'a mut dyn FnMut(Duration)>,
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
    let RunOptions { seed, trace, stop, until_event, mut progress } = options;
    let seed = seed.unwrap_or(scenario.head.seed);
    let mut world = World::new(scenario, seed, trace);
    let mut goes_on = |world: &World| {
        let events = world.recorder.events;
        if events % 4096 == 0
            && let Some(progress) = progress.as_deref_mut()
        {
            progress(world.now.since(Time::ZERO));
        }
        until_event.is_none_or(|until| events < until)
            && !(events % 64 == 0 && stop.is_some_and(|stop| stop.load(Ordering::Relaxed)))
            && !world.is_hopeless()
    };
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
    Run { summary: summary(&world, scenario, seed), described: world.describe() }
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
