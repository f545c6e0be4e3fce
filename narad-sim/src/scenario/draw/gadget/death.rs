//! Sources that die for longer than a force-promote takes, or only seem to.

use std::time::Duration;

use super::super::Draft;
use super::super::strike::Blow;
use crate::scenario::step::{Filter, On, Stage, Step, When};
use crate::scenario::{Action, Label, PartitionName, Side, Who};

/// How far a copy is when its source dies.
const FAR_ENOUGH: &[(Stage, &str)] = &[
    (Stage::Done, "list"),
    (Stage::Done, "checkpoint"),
    (Stage::Phase, "drain"),
    (Stage::Freeze, "begin"),
    (Stage::Done, "prepare"),
    (Stage::Effect, "install"),
    (Stage::Effect, "flip"),
    (Stage::Committed, "set-target"),
    (Stage::Committed, "flip"),
];

/// The source dies for long, and comes back.
pub(super) fn of_source(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let when = far_enough(draft, &partition);
    let action = long_death(draft, Who::Owner(partition));
    draft.push(Step::new(when, action));
}

/// H11: dead, back, and dead again, while a forced flip of the first death is on its way.
pub(super) fn twice(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let when = far_enough(draft, &partition);
    let source = Who::Owner(partition.clone());
    let down = draft.dice.millis_by_100(7_600, 10_000);
    draft.push(Step::new(when, Action::Kill { node: source.clone(), lasting: Some(down) }));
    let label = draft.label("forced");
    let mut flip = Draft::first(Stage::Effect, "flip", &partition);
    flip.filter.forced = Some(true);
    draft.push(Step::new(When::on(flip), Action::Hold {}).labelled(&label));
    let back = draft.dice.millis_by_100(1_000, 5_000);
    let again = long_death(draft, source);
    draft.push(Step::new(since(&label, back), again));
    let mut when = since(&label, Duration::ZERO);
    when.on = Some(On {
        filter: Filter { nth: *draft.dice.pick(&[1, 2]), ..Filter::any() },
        ..On::new(Stage::Committed, "mark-dead")
    });
    when.after = draft.dice.millis(0, 3_000);
    draft.push(Step::new(when, Action::Release { of: Label(label) }));
}

/// H9: the source is cut off, and its clients are not.
pub(super) fn zombie(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let when = far_enough(draft, &partition);
    let lasting = Some(draft.for_long());
    let from = Side::These(vec![Who::Owner(partition)]);
    let both = draft.dice.happens(60);
    let action = if draft.dice.happens(50) {
        Action::Cut { from, to: Side::Others, both, lasting }
    } else {
        Action::Cut { from: Side::Others, to: from, both, lasting }
    };
    draft.push(Step::new(when, action));
}

/// H12: the destination cannot reach the source for a while, and then the source dies.
pub(super) fn behind_a_cut(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let when = far_enough(draft, &partition);
    let source = Who::Owner(partition.clone());
    let cut = Action::Cut {
        from: Side::These(vec![source.clone()]),
        to: Side::These(vec![Who::Target(partition)]),
        both: true,
        lasting: Some(draft.for_long()),
    };
    let label = draft.label("apart");
    draft.push(Step::new(when, cut).labelled(&label));
    let gap = draft.dice.millis_by_100(500, 6_000);
    let death = long_death(draft, source);
    draft.push(Step::new(since(&label, gap), death));
}

/// The source dies for long, and its destination for a while.
pub(super) fn of_both(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let when = far_enough(draft, &partition);
    let label = draft.label("both");
    let first = long_death(draft, Who::Owner(partition.clone()));
    draft.push(Step::new(when, first).labelled(&label));
    let gap = draft.dice.millis_by_100(0, 8_000);
    let second = draft.blow(Who::Target(partition), &[Blow::Kill, Blow::Power]);
    draft.push(Step::new(since(&label, gap), second));
}

/// H31: a leader is cut off together with the source, and believes that it still leads.
pub(super) fn deposed_leader(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let when = far_enough(draft, &partition);
    let action = Action::Cut {
        from: Side::These(vec![Who::Leader, Who::Owner(partition)]),
        to: Side::Others,
        both: draft.dice.happens(70),
        lasting: Some(draft.for_long()),
    };
    draft.push(Step::new(when, action));
}

/// H17: the new owner loses its power right after it became that.
pub(super) fn soon_after_flip(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let mut flip = Draft::first(Stage::Committed, "flip", &partition);
    flip.filter.times = *draft.dice.pick(&[1, 0]);
    let after = draft.dice.millis(0, 1_500);
    let (node, lasting) = (Who::Owner(partition), Some(draft.lasting()));
    let action = Action::PowerLoss { node, keep: draft.keep(), lasting };
    draft.push(Step::new(When { after, ..When::on(flip) }, action));
}

fn far_enough(draft: &mut Draft<'_>, partition: &PartitionName) -> When {
    draft.sent(partition);
    let mut when = draft.point(FAR_ENOUGH, partition);
    if draft.dice.happens(40) {
        when.after = draft.dice.millis(1, 2_000);
    }
    when
}

fn long_death(draft: &mut Draft<'_>, node: Who) -> Action {
    let lasting = draft.for_long();
    match draft.dice.below(5) {
        0 | 1 => Action::Kill { node, lasting: Some(lasting) },
        2 => Action::PowerLoss { node, keep: draft.keep(), lasting: Some(lasting) },
        3 => Action::Pause { node, lasting: Some(lasting) },
        _ => Action::Suspend { node, lasting, clock_stops: false },
    }
}

fn since(label: &str, after: Duration) -> When {
    When { since: Some(Label(label.to_owned())), after, ..When::start() }
}
