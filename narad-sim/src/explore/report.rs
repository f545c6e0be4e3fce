//! What a search has found, for people and for programs.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;

use super::action::Action;
use super::search::{FAIR_STEPS_MAX, Found};
use super::world::World;
use super::{Outcome, tell};

/// The shortest schedule that breaks an invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterExample {
    /// The invariant, such as `S1`; `panic` if a machine found itself broken.
    pub invariant: String,
    /// What is wrong at the end.
    pub text: String,
    /// One event after the other.
    pub steps: Vec<Step>,
    /// What happens afterwards, without any further fault, where the violation is that nothing
    /// good does. Not numbered: it follows from the steps.
    pub aftermath: Vec<String>,
}

/// One event of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its number, from 1 on.
    pub n: u32,
    /// What kind of event, such as `deliver`, `apply` or `crash`.
    pub kind: String,
    /// What happens, in words.
    pub text: String,
    /// What nodes say and do because of it, at once.
    pub then: Vec<String>,
}

/// Most lines of an aftermath that are kept.
const AFTERMATH_MAX: usize = 40;

/// Takes the path once more and writes down what happens.
pub(super) fn retell(mut world: World, found: &Found) -> CounterExample {
    let mut steps = Vec::new();
    for choice in &found.path {
        let mut next = Some(*choice);
        while let Some(action) = next {
            let (step, after) = step(world.clone(), action, steps.len() + 1);
            steps.push(step);
            let Some(after) = after else { break };
            world = after;
            next = world.only_choice();
        }
    }
    let aftermath = if found.left_alone { aftermath(world) } else { Vec::new() };
    let (invariant, text) = (found.broken.invariant.to_owned(), found.broken.text.clone());
    CounterExample { invariant, text, steps, aftermath }
}

/// Takes one event and tells it; there is no world after a panic.
fn step(mut world: World, action: Action, number: usize) -> (Step, Option<World>) {
    world.story = Some(Vec::new());
    let text = tell::action(&world, action);
    let taken = catch_unwind(AssertUnwindSafe(|| {
        world.take(action);
        world
    }));
    let mut after = taken.ok();
    let then = after.as_mut().and_then(|world| world.story.take()).unwrap_or_default();
    let n = u32::try_from(number).unwrap_or(u32::MAX);
    (Step { n, kind: tell::kind(action).to_owned(), text, then }, after)
}

fn aftermath(mut world: World) -> Vec<String> {
    world.story = Some(Vec::new());
    let ran = catch_unwind(AssertUnwindSafe(|| {
        world.run_fairly(FAIR_STEPS_MAX);
        world.story.unwrap_or_default()
    }));
    let mut lines = ran.unwrap_or_default();
    if lines.len() > AFTERMATH_MAX {
        let more = lines.len() - AFTERMATH_MAX;
        lines.truncate(AFTERMATH_MAX);
        lines.push(format!("... and {more} lines more"));
    }
    lines
}

impl fmt::Display for CounterExample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps.len();
        writeln!(f, "VIOLATION {}: {} in {steps} steps", self.invariant, self.text)?;
        for step in &self.steps {
            writeln!(f, "  {:>3}. {}", step.n, step.text)?;
            for line in &step.then {
                writeln!(f, "         {line}")?;
            }
        }
        if !self.aftermath.is_empty() {
            writeln!(f, "  From here on nothing fails any more:")?;
        }
        for line in &self.aftermath {
            writeln!(f, "         {line}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = &self.size;
        writeln!(
            f,
            "{} states, {} transitions, depth {}, {} ends, {} events cut by the budget",
            size.states, size.transitions, size.depth, size.ends, size.cut
        )?;
        match (&self.counter_example, self.stopped) {
            (Some(example), _) => write!(f, "{example}"),
            (None, Some(stop)) => writeln!(f, "no violation so far; stopped early: {stop:?}"),
            (None, None) => {
                writeln!(f, "no violation; every schedule within the bounds was walked")
            }
        }
    }
}
