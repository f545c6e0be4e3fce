//! Every crash point of a canonical run: before each event of a machine, and at each step of its
//! disk, by kill, by loss of power, and by loss of power that tears what was not synced.
//!
//! One run without a crash says which events and which steps of disks there are between the
//! beginning of the move and its end. Then the same scenario is run once for each of them with one
//! step more, which crashes a machine right there; it starts again soon after. Each must end as well
//! as the one without: nothing lost, nobody stuck.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use crate::guard;
use crate::lab::{Laboratory, Stop};
use crate::outcome::{Summary, Violation};
use crate::scenario::{Action, Keep, Label, Machine, Scenario, Step, When, Who};
use crate::sweep::in_order;
use crate::time::Time;
use crate::world::World;

/// A run that is as plain as it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Canon {
    /// One partition moves.
    Move,
    /// The source dies with a whole copy made.
    ForcePromote,
    /// A node is emptied and taken out.
    Drain,
    /// An old owner comes back with records that nobody else has.
    Salvage,
    /// The records of a dead owner are given up, and it comes back all the same.
    DeclareLost,
    /// A topic is deleted in the middle of a move, and another of its name comes.
    DeleteTopic,
    /// Another node leads when a move is about to flip.
    Election,
}

impl Canon {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Move,
        Self::ForcePromote,
        Self::Drain,
        Self::Salvage,
        Self::DeclareLost,
        Self::DeleteTopic,
        Self::Election,
    ];

    /// Returns its scenario.
    ///
    /// # Panics
    ///
    /// Never: the file is part of the program, and a test reads it.
    #[must_use]
    pub fn scenario(self) -> Scenario {
        let (name, text) = match self {
            Self::Move => ("move", include_str!("../scenarios/canonical/move.toml")),
            Self::ForcePromote => {
                ("force-promote", include_str!("../scenarios/canonical/force-promote.toml"))
            }
            Self::Drain => ("drain", include_str!("../scenarios/canonical/drain.toml")),
            Self::Salvage => ("salvage", include_str!("../scenarios/canonical/salvage.toml")),
            Self::DeclareLost => {
                ("declare-lost", include_str!("../scenarios/canonical/declare-lost.toml"))
            }
            Self::DeleteTopic => {
                ("delete-topic", include_str!("../scenarios/canonical/delete-topic.toml"))
            }
            Self::Election => ("election", include_str!("../scenarios/canonical/election.toml")),
        };
        Scenario::parse(text, name).expect("a canonical scenario is a scenario")
    }

    /// The machines that are crashed: the source, a destination, and who may lead.
    const fn machines(self) -> &'static [u32] {
        match self {
            Self::Move
            | Self::Drain
            | Self::Salvage
            | Self::DeclareLost
            | Self::DeleteTopic
            | Self::Election => &[1, 2, 3],
            // The source is dead as it is.
            Self::ForcePromote => &[2, 3],
        }
    }
}

/// How a machine is crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The process ends; what it wrote stays.
    Kill,
    /// The power goes, with all that was not synced.
    PowerLoss,
    /// The power goes, and any part of what was not synced stays.
    TornWrite,
}

/// One place at which a machine is crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// In which run.
    pub canon: Canon,
    /// The machine's number.
    pub machine: u32,
    /// Right before that event of the run, or
    pub event: Option<u64>,
    /// at that step of its disk since the beginning of the move.
    pub disk_step: Option<u32>,
    /// How.
    pub way: Way,
}

/// What came of all of them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Found {
    /// Points that were tried, by run.
    pub points: BTreeMap<String, u64>,
    /// Those at which something did not hold, with the scenario that shows it.
    pub failures: Vec<Failed>,
    /// Whether all points were tried.
    pub complete: bool,
}

/// A crash that something did not survive.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// Where.
    pub point: Point,
    /// What did not hold.
    pub violations: Vec<Violation>,
    /// The scenario, with the crash as a step.
    pub scenario: String,
}

/// How long a machine that was crashed stays down.
const DOWN: Duration = Duration::from_millis(400);
/// How long after the last thing that ends one of them crashes still matter.
const AFTERMATH: Duration = Duration::from_millis(300);

impl Point {
    /// Returns the canonical scenario with the crash in it.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        let mut scenario = self.canon.scenario();
        let node = Who::Node(Machine(self.machine));
        let lasting = Some(DOWN);
        let keep = match self.way {
            Way::Kill | Way::PowerLoss => Keep::Nothing,
            Way::TornWrite => Keep::Random,
        };
        let (when, action) = match (self.event, self.disk_step) {
            (Some(event), _) => {
                let when = When { event: Some(event), ..When::start() };
                let action = match self.way {
                    Way::Kill => Action::Kill { node, lasting },
                    Way::PowerLoss | Way::TornWrite => Action::PowerLoss { node, keep, lasting },
                };
                (when, action)
            }
            (None, step) => {
                let disk_steps = step.unwrap_or(1);
                let when = When { since: Some(Label("begin".to_owned())), ..When::start() };
                (when, Action::CrashAfter { node, disk_steps, keep, lasting })
            }
        };
        scenario.steps.push(Step::new(when, action).labelled("crash"));
        // What was crashed may be anywhere by then.
        scenario.expects.clear();
        scenario
    }
}

/// Returns every point of a canonical run.
#[must_use]
pub fn points(canon: Canon) -> Vec<Point> {
    let scenario = canon.scenario();
    let mut world = World::new(&scenario, scenario.head.seed, None);
    let begin = Label("begin".to_owned());
    let (mut first_steps, mut last_done) = (None, Time::ZERO);
    let (mut events, mut steps) = (Vec::new(), BTreeMap::new());
    let mut done = 0;
    while world.step(Time::from_start(scenario.head.safety)) {
        if !world.script.taken.contains_key(&begin) {
            continue;
        }
        let disk_steps = |at: &u32| world.machines[*at as usize - 1].disk.steps();
        let now_steps: Vec<u64> = canon.machines().iter().map(disk_steps).collect();
        first_steps.get_or_insert_with(|| now_steps.clone());
        let mut summary = Summary::default();
        world.oracle.summarise(&mut summary);
        let ends = ["retire", "declare-lost", "reclaim-ready", "delete-topic", "assign-partition"];
        let ended: u64 = ends.iter().map(|command| world.recorder.commands_of(command)).sum();
        if summary.moves_done + ended > done {
            done = summary.moves_done + ended;
            last_done = world.now;
        }
        if let Some(machine) = world.touched {
            let machine = u32::try_from(machine).unwrap_or(u32::MAX).saturating_add(1);
            events.push((world.now, world.recorder.events, machine));
        }
        steps.insert(world.now, now_steps);
    }
    let end = last_done.after(AFTERMATH);
    let before = first_steps.unwrap_or_default();
    let after = steps.range(..=end).next_back().map(|(_, steps)| steps.clone());
    let after = after.unwrap_or_else(|| before.clone());
    let mut found = Vec::new();
    for (at, event, machine) in events {
        if at > end || !canon.machines().contains(&machine) {
            continue;
        }
        for way in [Way::Kill, Way::PowerLoss] {
            found.push(Point { canon, machine, event: Some(event), disk_step: None, way });
        }
    }
    for (machine, (before, after)) in canon.machines().iter().zip(before.iter().zip(&after)) {
        let count = u32::try_from(after.saturating_sub(*before)).unwrap_or(u32::MAX);
        for step in 1..=count {
            for way in [Way::PowerLoss, Way::TornWrite] {
                let disk_step = Some(step);
                found.push(Point { canon, machine: *machine, event: None, disk_step, way });
            }
        }
    }
    found
}

/// Crashes canonical runs at every point. `each` is told after every run how many were done, of how
/// many; `Break` ends it.
///
/// # Panics
///
/// If the laboratory does not read what it writes.
pub fn try_all<L: Laboratory>(
    lab: &L,
    canons: &[Canon],
    jobs: NonZeroUsize,
    interrupt: &AtomicBool,
    mut each: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> Found {
    let all: Vec<Point> = canons.iter().flat_map(|canon| points(*canon)).collect();
    let total = all.len() as u64;
    let mut found = Found { complete: true, ..Found::default() };
    for point in &all {
        let name = point.canon.to_possible_value().map(|value| value.get_name().to_owned());
        *found.points.entry(name.unwrap_or_default()).or_default() += 1;
    }
    let mut tried = 0;
    let perform = |number: u64, stop: Stop<'_>| {
        let point = *all.get(usize::try_from(number).ok()?)?;
        let text = point.scenario().to_toml();
        let scenario = lab.parse(&text, "crash").expect("it was just written");
        let finished = guard::run(lab, &scenario, lab.seed(&scenario), None, stop);
        finished.complete.then_some((point, text, finished.summary))
    };
    in_order(0..total, jobs, interrupt, perform, |_, (point, scenario, summary)| {
        tried += 1;
        if !summary.violations.is_empty() {
            let violations = summary.violations;
            found.failures.push(Failed { point, violations, scenario });
        }
        each(tried, total)
    });
    found.complete = tried == total;
    found
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (canon, points) in &self.points {
            writeln!(f, "{canon:<14} {points} crash points")?;
        }
        for Failed { point, violations, .. } in &self.failures {
            let place = match (point.event, point.disk_step) {
                (Some(event), _) => format!("before event {event}"),
                (None, step) => format!("at step {} of its disk", step.unwrap_or(0)),
            };
            writeln!(f, "{:?}: n{} by {:?} {place}:", point.canon, point.machine, point.way)?;
            for Violation { invariant, text, .. } in violations.iter().take(3) {
                writeln!(f, "    {invariant}: {text}")?;
            }
        }
        let failed = self.failures.len();
        let whole = if self.complete { "" } else { ", interrupted before the end" };
        writeln!(f, "{failed} of them broke something{whole}")
    }
}
