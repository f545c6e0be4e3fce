//! Operators who change their minds, and commands that are out of date.

use std::time::Duration;

use super::super::Draft;
use super::super::strike::{AT_DESTINATION, AT_SOURCE};
use crate::scenario::step::{Filter, On, Stage, Step, When};
use crate::scenario::{Action, Forged, Label, Machine, TopicName, Who};

/// Nodes are drained one after the other, and most of them stay after all.
pub(super) fn carousel(draft: &mut Draft<'_>) {
    let end = draft.safety_ms() * 4 / 5;
    let mut now = draft.dice.within(5, 50) * 100;
    let stay = *draft.dice.pick(&[100, 80, 50]);
    for number in (1..=draft.scenario.cluster.nodes).cycle().take(8) {
        let pause = draft.dice.within(3, 40) * 100;
        if now + pause > end {
            return;
        }
        let node = Who::Node(Machine(number));
        let drain = Action::Drain { node: node.clone(), through: None };
        draft.push(Step::new(When::at(Duration::from_millis(now)), drain));
        now += pause;
        if draft.dice.happens(stay) {
            let cancel = Action::Cancel { node, through: None };
            draft.push(Step::new(When::at(Duration::from_millis(now)), cancel));
        }
    }
}

/// H24d: a decommission is cancelled while the node is being taken out.
pub(super) fn cancel_at_retire(draft: &mut Draft<'_>) {
    let node = Who::Node(draft.founder());
    let when = draft.moment();
    draft.push(Step::new(when, Action::Drain { node: node.clone(), through: None }));
    let points = [
        (Stage::Effect, "retire"),
        (Stage::Effect, "drained-out"),
        (Stage::Committed, "drained-out"),
    ];
    let (stage, name) = *draft.dice.pick(&points);
    let mut event = On::new(stage, name);
    event.filter.about = Some(node.clone());
    let label = draft.label("leaving");
    let hold = stage == Stage::Effect && draft.dice.happens(60);
    if hold {
        draft.push(Step::new(When::on(event.clone()), Action::Hold {}).labelled(&label));
    }
    let cancel = Action::Cancel { node, through: None };
    draft.push(Step::new(When::on(event), cancel));
    if hold {
        let after = draft.dice.millis_by_100(200, 3_000);
        let when = When { since: Some(Label(label.clone())), after, ..When::start() };
        draft.push(Step::new(when, Action::Release { of: Label(label) }));
    }
}

/// H24a, H24b, H40: a partition is sent to a node that is leaving.
pub(super) fn move_to_leaving(draft: &mut Draft<'_>) {
    let (node, partition) = (Who::Node(draft.founder()), draft.partition());
    let when = draft.moment();
    let there = Action::Move { partition, to: node.clone(), through: None };
    let gap = draft.dice.millis_by_100(0, 2_000);
    let before = draft.dice.happens(50);
    let later = When { at: when.at.map(|at| at + gap), ..when.clone() };
    let (first, second) = if before { (later, when) } else { (when, later) };
    draft.push(Step::new(first, Action::Drain { node, through: None }));
    draft.push(Step::new(second, there));
}

/// M143: every node is restarted, one after the other.
pub(super) fn rolling_restart(draft: &mut Draft<'_>) {
    let when = draft.moment();
    draft.operate_restart(when);
}

/// H5, H24e, H29: a command of a plan that is out of date, or of one who may not ask.
pub(super) fn stale_command(draft: &mut Draft<'_>) {
    let command = *draft.dice.pick(&[
        Forged::ClearTarget,
        Forged::SetTarget,
        Forged::Flip,
        Forged::Revoke,
        Forged::Resolve,
        Forged::Retire,
        Forged::Assign,
        Forged::DrainedOut,
    ]);
    let of_node = matches!(command, Forged::Retire | Forged::DrainedOut);
    let placed = matches!(command, Forged::SetTarget | Forged::Assign);
    let partition = draft.partition();
    let when =
        if draft.dice.happens(50) { draft.moment() } else { draft.point(AT_SOURCE, &partition) };
    let action = Action::Propose {
        command,
        by: draft.anyone(),
        partition: (!of_node).then_some(partition),
        about: of_node.then(|| draft.anyone()),
        to: placed.then(|| draft.anyone()),
        epoch: draft.dice.maybe(40, |dice| dice.within(1, 3)),
        move_id: draft.dice.maybe(60, |dice| dice.within(0, 4)),
        incarnation: None,
        generation: None,
        end: draft.dice.maybe(20, |dice| dice.within(0, 200)),
        enabled: None,
    };
    draft.push(Step::new(when, action));
}

/// H26, H47: a topic goes in the middle of a move, and another of its name comes.
pub(super) fn deleted_in_the_middle(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let points = *draft.dice.pick(&[AT_DESTINATION, AT_SOURCE]);
    let mut when = draft.point(points, &partition);
    when.on.as_mut().expect("a point is an event").filter.times = 1;
    let partitions = draft.scenario.topics.iter().find(|topic| topic.name.0 == partition.topic);
    let partitions = partitions.map_or(1, |topic| topic.partitions);
    let topic = TopicName(partition.topic);
    let label = draft.label("deleted");
    draft.push(Step::new(when, Action::DeleteTopic { topic: topic.clone() }).labelled(&label));
    if draft.dice.happens(80) {
        let after = draft.dice.millis_by_100(0, 2_000);
        let when = When { since: Some(Label(label)), after, ..When::start() };
        draft.push(Step::new(when, Action::CreateTopic { topic, partitions, parent: None }));
    }
}

/// H21: a move is sent elsewhere, or given up, when it is nearly over.
pub(super) fn moved_on(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let points = [
        (Stage::Freeze, "begin"),
        (Stage::Done, "prepare"),
        (Stage::Effect, "install"),
        (Stage::Effect, "flip"),
        (Stage::Phase, "drain"),
    ];
    let (stage, name) = *draft.dice.pick(&points);
    let filter = Filter {
        partition: Some(partition.clone()),
        times: *draft.dice.pick(&[1, 2]),
        ..Filter::any()
    };
    let when = When::on(On { filter, ..On::new(stage, name) });
    let action = if draft.dice.happens(60) {
        Action::Move { partition, to: draft.anyone(), through: None }
    } else {
        Action::Abort { partition, through: None }
    };
    draft.push(Step::new(when, action));
}
