//! What one place alone knows or has, and may forget or give up too early.

use std::time::Duration;

use super::super::Draft;
use super::death;
use crate::scenario::step::{Filter, On, Stage, Step, When};
use crate::scenario::{Action, Failure, Label, Rate, Who};

/// H12: what an owner tells the log of its watermarks is lost, nothing is written afterwards, and the
/// move goes on for long: the owner must say it again, although it is no news to itself.
pub(in crate::scenario::draw) fn untold(draft: &mut Draft<'_>) {
    const LONG: Duration = Duration::from_secs(27);
    let (partition, to) = (draft.partition(), draft.anyone());
    let start = When::at(draft.dice.millis_by_100(2_000, 4_000));
    let begun = start.at.unwrap_or_default();
    let safety = &mut draft.scenario.head.safety;
    *safety = (*safety).max(begun + LONG);
    let there = Action::Move { partition: partition.clone(), to, through: None };
    draft.push(Step::new(start, there));
    let mut asked = Draft::first(Stage::Deliver, "prepare", &partition);
    asked.filter.times = 0;
    draft.push(Step::new(When::on(asked), Action::Drop {}));
    let label = format!("{}-is-copied", draft.label("it"));
    let complete = Draft::first(Stage::Effect, "prepare", &partition);
    let quiet = Action::Load { per_second: Rate(0.0), partition: Some(partition.clone()) };
    draft.push(Step::new(When::on(complete), quiet).labelled(&label));
    let filter = Filter {
        node: Some(Who::Owner(partition)),
        times: *draft.dice.pick(&[1, 2]),
        ..Filter::any()
    };
    let told = On { filter, ..On::new(Stage::Effect, "report") };
    let lost = if draft.dice.happens(50) { Action::Drop {} } else { Action::Hold {} };
    let is_held = lost == Action::Hold {};
    let mut step = Step::new(When { on: Some(told), ..since(&label) }, lost);
    if is_held {
        step = step.labelled(&format!("{}-is-told", draft.label("late")));
    }
    draft.push(step);
}

/// H14: an owner that was promoted away from comes back, and what it has left cannot be accepted at
/// first.
pub(in crate::scenario::draw) fn refused_at_first(draft: &mut Draft<'_>) {
    death::of_source(draft);
    let filter = Filter { times: *draft.dice.pick(&[1, 2, 5]), ..Filter::any() };
    let salvage = On { filter, ..On::new(Stage::Effect, "salvage") };
    let with = *draft.dice.pick(&[Failure::Disk, Failure::DiskFull, Failure::TimedOut]);
    draft.push(Step::new(When::on(salvage), Action::Fail { with }));
}

fn since(label: &str) -> When {
    When { since: Some(Label(label.to_owned())), ..When::start() }
}
