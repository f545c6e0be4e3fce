//! What comes when the world has moved on twice: words of a leader of the past, ends of a freeze that
//! another life has forgotten.

use std::time::Duration;

use super::super::Draft;
use crate::scenario::step::{Filter, On, Stage, Step, When};
use crate::scenario::{Action, Address, Label, Machine, Side, Via, Who};

/// H31: a heartbeat takes its time, so that whoever is asked says who leads instead: the asker; and
/// that word takes its time, so that it does no longer.
pub(in crate::scenario::draw) fn word_of_who_leads(draft: &mut Draft<'_>) {
    let (node, start) = (Who::Node(draft.founder()), draft.moment());
    let begin = format!("{}-of-word", draft.label("begin"));
    let text = String::from("a heartbeat takes its time from here on");
    draft.push(Step::new(start, Action::Note { text }).labelled(&begin));
    let filter = Filter { peer: Some(node.clone()), ..Filter::any() };
    let asks = On { filter, ..On::new(Stage::Deliver, "heartbeat") };
    let asked = format!("{}-of-word", draft.label("asked"));
    let slowly = Action::Delay { by: draft.dice.millis(200, 450) };
    draft.push(Step::new(later(&begin, asks), slowly).labelled(&asked));
    let gap = draft.dice.millis(0, 30);
    draft.push(Step::new(since(&asked, gap), Action::Transfer { to: node.clone() }));
    let filter = Filter { node: Some(node), ..Filter::any() };
    let answers = On { filter, ..On::new(Stage::Deliver, "heartbeat-answer") };
    let told = format!("{}-of-word", draft.label("told"));
    let slowly = Action::Delay { by: draft.dice.millis(200, 450) };
    draft.push(Step::new(later(&asked, answers), slowly).labelled(&told));
    let gap = draft.dice.millis(0, 30);
    draft.push(Step::new(since(&told, gap), Action::Transfer { to: Who::Follower }));
}

/// H21, H32: a gate is slow to thaw; meanwhile its node finds itself dead and begins its next life,
/// in which the partition is frozen anew.
pub(in crate::scenario::draw) fn thaw_of_a_past_life(draft: &mut Draft<'_>) {
    let (partition, start) = (draft.partition(), draft.moment());
    // Few partitions are born on the last node.
    let last = Who::Node(Machine(draft.scenario.cluster.nodes));
    let one = if draft.dice.happens(70) { last } else { draft.anyone() };
    let there = |to| Action::Move { partition: partition.clone(), to, through: None };
    draft.push(Step::new(start, there(one.clone())));
    // The first freeze ends without a flip, in the log; the next one lasts.
    let flip = Draft::first(Stage::Effect, "flip", &partition);
    let abort = Action::Abort { partition: partition.clone(), through: None };
    draft.push(Step::new(When::on(flip.clone()), abort));
    let flips = On { filter: Filter { times: 0, ..flip.filter.clone() }, ..flip };
    let lasts = Action::Delay { by: draft.dice.millis_by_100(600, 3_000) };
    draft.push(Step::new(When::on(flips), lasts));
    let thaw = Draft::first(Stage::Effect, "thaw", &partition);
    let slow = format!("{}-of-thaw", draft.label("slow"));
    // A gate that is slower than a freeze may last would break L2 by itself, so deaths are quick.
    let policy = &mut draft.scenario.cluster.policy;
    policy.dead_timeout = Some(Duration::from_secs(1));
    policy.force_promote_after = Some(Duration::from_secs(2));
    let dead = draft.dice.millis_by_100(1_500, 2_800);
    let by = (dead + draft.dice.millis_by_100(300, 2_000)).min(Duration::from_millis(4_300));
    draft.push(Step::new(When::on(thaw), Action::Delay { by }).labelled(&slow));
    let from = Side::These(vec![Who::Owner(partition.clone())]);
    let cut = Action::Cut { from, to: Side::Others, both: true, lasting: Some(dead) };
    draft.push(Step::new(since(&slow, Duration::ZERO), cut));
    // The next one comes soon, since the copy is there.
    let again = if draft.dice.happens(70) { one } else { draft.anyone() };
    let gap = dead + draft.dice.millis_by_100(0, 500);
    draft.push(Step::new(since(&slow, gap), there(again)));
}

/// H37: a node says that it has drained, and is started again before that is decided: it hears
/// nothing of its drain, and the log nothing of its new life.
pub(in crate::scenario::draw) fn word_of_an_earlier_life(draft: &mut Draft<'_>) {
    let (partition, start) = (draft.partition(), draft.moment());
    let (first, last) = (Who::Node(Machine(1)), Who::Node(Machine(draft.scenario.cluster.nodes)));
    draft.push(Step::new(start.clone(), Action::Transfer { to: first.clone() }));
    draft.push(Step::new(start, Action::Drain { node: last.clone(), through: None }));
    // Where the leader would write it down.
    let filter = Filter { node: Some(first), ..Filter::any() };
    let word = On { filter, ..On::new(Stage::Effect, "drained-out") };
    let said = format!("{}-of-life", draft.label("said"));
    draft.push(Step::new(When::on(word), Action::Hold {}).labelled(&said));
    let gap = draft.dice.millis(50, 300);
    let lasting = Some(draft.dice.millis_by_100(200, 600));
    draft.push(Step::new(since(&said, gap), Action::Kill { node: last.clone(), lasting }));
    let (from, lasting) = (Side::These(vec![last.clone()]), Some(Duration::from_secs(2)));
    let cut = Action::Cut { from, to: Side::Others, both: true, lasting };
    draft.push(Step::new(since(&said, gap), cut));
    let gap = draft.dice.millis_by_100(900, 1_200);
    let more = Action::Produce {
        partition,
        records: 5,
        bytes: None,
        node: Some(last),
        via: Some(Via::Ingress),
        address: Some(Address::Number),
    };
    draft.push(Step::new(since(&said, gap), more));
    let gap = gap + draft.dice.millis_by_100(200, 700);
    draft.push(Step::new(since(&said, gap), Action::Release { of: Label(said) }));
}

/// An event after a step.
fn later(label: &str, on: On) -> When {
    When { on: Some(on), ..since(label, Duration::ZERO) }
}

/// A while after a step.
fn since(label: &str, after: Duration) -> When {
    When { since: Some(Label(label.to_owned())), after, ..When::start() }
}
