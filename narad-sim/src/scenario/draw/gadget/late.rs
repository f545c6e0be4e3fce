//! Proposals, messages and answers that come late, twice or not at all.

use std::time::Duration;

use super::super::Draft;
use crate::scenario::step::{Filter, On, Stage, Step, When};
use crate::scenario::{Action, Label, PartitionName, Who};

/// Proposals that concern a partition.
const OF_PARTITIONS: &[&str] =
    &["flip", "revoke", "resolve", "set-target", "clear-target", "assign"];

/// Proposals that concern a node, or nothing in particular.
const OF_NODES: &[&str] = &[
    "register",
    "mark-dead",
    "report",
    "set-draining",
    "drained-out",
    "retire",
    "set-policy",
    "join",
];

/// Questions that an old copy of may come again.
const QUESTIONS: &[&str] = &["prepare", "list", "release", "renew", "heartbeat", "propose"];

/// H1: a flip that is committed after something else decided.
pub(super) fn flip(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let label = draft.label("late-flip");
    hold(draft, on(Stage::Effect, "flip", &partition), &label);
    release(draft, &label, &partition);
}

/// A proposal that the log gets later than it was made.
pub(super) fn proposal(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let event = any_proposal(draft, Stage::Effect, &partition);
    let label = draft.label("late");
    hold(draft, event, &label);
    release(draft, &label, &partition);
}

/// H2: it was done, and nobody said so.
pub(super) fn lost_answer(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let mut event = if draft.dice.happens(40) {
        let question = *draft.dice.pick(&["prepare-answer", "propose-answer", "list-answer"]);
        let concerned = question != "propose-answer";
        let filter = Filter { partition: concerned.then(|| partition.clone()), ..Filter::any() };
        On { filter, ..On::new(Stage::Deliver, question) }
    } else if draft.dice.happens(50) {
        on(Stage::Done, "flip", &partition)
    } else {
        any_proposal(draft, Stage::Done, &partition)
    };
    event.filter.times = *draft.dice.pick(&[1, 1, 2, 4]);
    draft.push(Step::new(When::on(event), Action::Drop {}));
}

/// H3: a proposal, or a question, that comes twice.
pub(super) fn twice(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let event = if draft.dice.happens(30) {
        question(draft, Stage::Deliver)
    } else if draft.dice.happens(50) {
        on(Stage::Effect, "flip", &partition)
    } else {
        any_proposal(draft, Stage::Effect, &partition)
    };
    let later = draft.dice.millis_by_100(0, 20_000);
    draft.push(Step::new(When::on(event), Action::Duplicate { later }));
}

/// H4: a destination that dies after it proposed the flip, and tries again in its next life.
pub(super) fn two_lives(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let event = on(Stage::Effect, "flip", &partition);
    let label = draft.label("first-life");
    hold(draft, event.clone(), &label);
    let down = draft.dice.millis_by_100(100, 2_000);
    let action = if draft.dice.happens(40) {
        Action::PowerLoss { node: Who::Here, keep: draft.keep(), lasting: Some(down) }
    } else {
        Action::Kill { node: Who::Here, lasting: Some(down) }
    };
    draft.push(Step::new(When { after: Duration::from_millis(1), ..When::on(event) }, action));
    if draft.dice.happens(50) {
        let second = draft.label("second-life");
        let event = On {
            filter: Filter { nth: 2, partition: Some(partition.clone()), ..Filter::any() },
            ..On::new(Stage::Effect, "flip")
        };
        hold(draft, event, &second);
        release(draft, &second, &partition);
    }
    release(draft, &label, &partition);
}

/// H5: a flip of a move that was given up and planned again.
pub(super) fn planned_again(draft: &mut Draft<'_>) {
    let (partition, to) = (draft.partition(), draft.anyone());
    let again = Action::Move { partition: partition.clone(), to, through: None };
    let when = draft.moment();
    draft.push(Step::new(when, again.clone()));
    let label = draft.label("given-up");
    hold(draft, on(Stage::Effect, "flip", &partition), &label);
    let gap = draft.dice.millis_by_100(100, 1_500);
    let abort = Action::Abort { partition: partition.clone(), through: None };
    draft.push(Step::new(since(&label, gap), abort));
    let gap = gap + draft.dice.millis_by_100(100, 1_500);
    draft.push(Step::new(since(&label, gap), again));
    let gap = gap + draft.dice.millis_by_100(0, 4_000);
    draft.push(Step::new(since(&label, gap), Action::Release { of: Label(label) }));
}

/// H41, H45: a question from a museum.
pub(super) fn old_message(draft: &mut Draft<'_>) {
    let event = question(draft, Stage::Send);
    replayed(draft, event);
}

/// H34: a proposal from a museum.
pub(super) fn old_proposal(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let event = any_proposal(draft, Stage::Effect, &partition);
    replayed(draft, event);
}

/// H31: heartbeats, or their answers, that take longer than a lease.
pub(super) fn heartbeat(draft: &mut Draft<'_>) {
    let name = *draft.dice.pick(&["heartbeat-answer", "heartbeat"]);
    let filter = Filter {
        node: Some(draft.anyone()),
        nth: u32::try_from(draft.dice.within(2, 40)).unwrap_or(2),
        times: *draft.dice.pick(&[6, 3, 20, 40]),
        ..Filter::any()
    };
    let event = On { filter, ..On::new(Stage::Deliver, name) };
    let action = if draft.dice.happens(50) {
        Action::Delay { by: draft.dice.millis_by_100(300, 6_000) }
    } else {
        Action::Drop {}
    };
    draft.push(Step::new(When::on(event), action));
}

/// H7, H9: an append that has passed the gate, and is slow to be durable or to be checked again.
pub(super) fn commit_in_flight(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let stage = *draft.dice.pick(&[Stage::Performed, Stage::Effect]);
    let mut event = on(stage, "commit", &partition);
    event.filter.nth = u32::try_from(draft.dice.within(1, 300)).unwrap_or(1);
    event.filter.times = *draft.dice.pick(&[1, 5, 50]);
    if draft.dice.happens(30) {
        let lasting = Some(draft.lasting());
        event.filter.times = 1;
        draft.push(Step::new(When::on(event), Action::Pause { node: Who::Here, lasting }));
    } else {
        let by = draft.dice.millis_by_100(100, 4_000);
        draft.push(Step::new(When::on(event), Action::Delay { by }));
    }
}

/// An answer that comes after its asker has given up.
pub(super) fn answer(draft: &mut Draft<'_>) {
    let names = ["prepare-answer", "list-answer", "copy-answer", "renew-answer", "propose-answer"];
    let name = *draft.dice.pick(&names);
    let filter = Filter {
        nth: u32::try_from(draft.dice.within(1, 5)).unwrap_or(1),
        times: *draft.dice.pick(&[1, 1, 3, 10]),
        ..Filter::any()
    };
    let event = On { filter, ..On::new(Stage::Deliver, name) };
    let by = draft.dice.millis_by_100(200, 8_000);
    draft.push(Step::new(When::on(event), Action::Delay { by }));
}

/// C49: bytes of a copy, or of a message about it, that arrive changed.
pub(super) fn corrupted(draft: &mut Draft<'_>) {
    let name = *draft.dice.pick(&["copy-answer", "copy-answer", "list-answer", "prepare-answer"]);
    let filter = Filter {
        nth: u32::try_from(draft.dice.within(1, 8)).unwrap_or(1),
        times: *draft.dice.pick(&[1, 2, 5]),
        ..Filter::any()
    };
    draft.push(Step::new(
        When::on(On { filter, ..On::new(Stage::Deliver, name) }),
        Action::Corrupt {},
    ));
}

/// An event of a partition, the first one or one of the next.
fn on(stage: Stage, name: &str, partition: &PartitionName) -> On {
    Draft::first(stage, name, partition)
}

fn any_proposal(draft: &mut Draft<'_>, stage: Stage, partition: &PartitionName) -> On {
    let nth = u32::try_from(draft.dice.within(1, 4)).unwrap_or(1);
    let (names, partition) = if draft.dice.happens(40) {
        (OF_NODES, None)
    } else {
        (OF_PARTITIONS, draft.dice.maybe(70, |_| partition.clone()))
    };
    let name = *draft.dice.pick(names);
    On { filter: Filter { partition, nth, ..Filter::any() }, ..On::new(stage, name) }
}

fn question(draft: &mut Draft<'_>, stage: Stage) -> On {
    let name = *draft.dice.pick(QUESTIONS);
    let nth = u32::try_from(draft.dice.within(1, 6)).unwrap_or(1);
    On { filter: Filter { nth, ..Filter::any() }, ..On::new(stage, name) }
}

fn hold(draft: &mut Draft<'_>, event: On, label: &str) {
    draft.push(Step::new(When::on(event), Action::Hold {}).labelled(label));
}

/// Releases what is held: some time later, or when the log has said something about it.
fn release(draft: &mut Draft<'_>, label: &str, partition: &PartitionName) {
    let mut when = since(label, draft.dice.millis_by_100(300, 9_000));
    let events = [
        (Stage::Committed, "revoke"),
        (Stage::Freeze, "end"),
        (Stage::Committed, "resolve"),
        (Stage::Committed, "set-target"),
        (Stage::Effect, "flip"),
        (Stage::Committed, "register"),
        (Stage::Committed, "mark-dead"),
    ];
    if draft.dice.happens(50) {
        let (stage, name) = *draft.dice.pick(&events);
        let concerned = !super::super::strike::OF_MEMBERS.contains(&name);
        let partition = concerned.then(|| partition.clone());
        when.on =
            Some(On { filter: Filter { partition, ..Filter::any() }, ..On::new(stage, name) });
        when.after = draft.dice.millis(0, 700);
    }
    draft.push(Step::new(when, Action::Release { of: Label(label.to_owned()) }));
}

fn replayed(draft: &mut Draft<'_>, event: On) {
    let label = draft.label("museum");
    draft.push(Step::new(When::on(event), Action::Record {}).labelled(&label));
    let mut gap = Duration::ZERO;
    for _ in 0..draft.dice.within(1, 3) {
        gap += draft.dice.millis_by_100(300, 9_000);
        draft.push(Step::new(since(&label, gap), Action::Replay { of: Label(label.clone()) }));
    }
}

fn since(label: &str, after: Duration) -> When {
    When { since: Some(Label(label.to_owned())), after, ..When::start() }
}
