//! Schedules that show rules which nothing else happens to meet.

use std::time::Duration;

use super::super::Draft;
use crate::scenario::step::{Filter, On, Stage, Step, When};
use crate::scenario::{
    Action, Between, Bytes, Files, Keep, Label, Machine, MetastoreKind, PartitionName, Rate, Side,
    Via, Who,
};

/// H23: all partitions of a topic leave their nodes at once.
pub(super) fn exodus(draft: &mut Draft<'_>) {
    let (topic, partitions) = {
        let topic = &draft.scenario.topics[0];
        (topic.name.0.clone(), topic.partitions)
    };
    let (to, start) = (draft.founder(), draft.moment());
    for index in 0..partitions {
        let partition = PartitionName { topic: topic.clone(), index };
        let gap = draft.dice.millis(0, 100);
        let when = When { at: start.at.map(|at| at + gap), ..start.clone() };
        let there = Action::Move { partition, to: Who::Node(to), through: None };
        draft.push(Step::new(when, there));
    }
}

/// H21: what a source does at the end of a freeze, or is asked to, comes when the next one holds.
pub(super) fn late_thaw(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    draft.sent(&partition);
    let points = [
        (Stage::Effect, "thaw"),
        (Stage::Deliver, "release"),
        (Stage::Deliver, "renew"),
        (Stage::Effect, "thaw"),
    ];
    let (stage, name) = *draft.dice.pick(&points);
    let filter = Filter {
        partition: Some(partition.clone()),
        times: *draft.dice.pick(&[1, 2, 0]),
        ..Filter::any()
    };
    let by = draft.dice.millis_by_100(100, 3_000);
    let event = On { filter, ..On::new(stage, name) };
    draft.push(Step::new(When::on(event), Action::Delay { by }));
    // Something must end a freeze without a flip.
    let points = [(Stage::Effect, "install"), (Stage::Effect, "verify"), (Stage::Effect, "flip")];
    let (stage, name) = *draft.dice.pick(&points);
    let filter = Filter {
        partition: Some(partition.clone()),
        times: *draft.dice.pick(&[1, 2, 5]),
        ..Filter::any()
    };
    let event = On { filter, ..On::new(stage, name) };
    if name == "flip" || draft.dice.happens(40) {
        let to = draft.anyone();
        let elsewhere = Action::Move { partition, to, through: None };
        draft.push(Step::new(When::on(event), elsewhere));
    } else {
        let with = crate::scenario::Failure::Disk;
        draft.push(Step::new(When::on(event), Action::Fail { with }));
    }
}

/// A destination hears late of its freeze, and thinks that it has longer than it has.
pub(super) fn late_capture(draft: &mut Draft<'_>) {
    draft.long_tails();
    let filter = Filter { times: 0, ..Filter::any() };
    let event = On { filter, ..On::new(Stage::Deliver, "prepare-answer") };
    let by = draft.dice.millis_by_100(200, 800);
    draft.push(Step::new(When::on(event), Action::Delay { by }));
}

/// A destination whose clock is too slow to give its own freeze up in time: only the source's cap ends
/// it (H22).
pub(super) fn slow_destination(draft: &mut Draft<'_>) {
    draft.long_tails();
    let filter = Filter { times: 0, ..Filter::any() };
    let asks = On { filter, ..On::new(Stage::Effect, "prepare") };
    let ppm = -i64::try_from(draft.dice.within(200_000, 600_000)).unwrap_or_default();
    draft.push(Step::new(When::on(asks), Action::ClockRate { node: Who::Here, ppm }));
}

/// A tail that nobody acknowledged: its owner stands still between the append and its check, until
/// its lease is over.
pub(super) fn hidden_tail(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    draft.sent(&partition);
    let label = draft.label("hidden");
    let target = Draft::first(Stage::Committed, "set-target", &partition);
    let text = String::from("the tail may hide from here on");
    draft.push(Step::new(When::on(target), Action::Note { text }).labelled(&label));
    let filter = Filter {
        partition: Some(partition),
        nth: u32::try_from(draft.dice.within(1, 12)).unwrap_or(1),
        times: 1,
        ..Filter::any()
    };
    let mut when = since(&label, Duration::ZERO);
    when.on = Some(On { filter, ..On::new(Stage::Performed, "commit") });
    let lasting = Some(draft.dice.millis_by_100(2_100, 3_500));
    draft.push(Step::new(when, Action::Pause { node: Who::Here, lasting }));
}

/// H30: a copy is complete, its move is given up and planned again, and its source hears nothing of
/// that any more.
pub(super) fn old_session(draft: &mut Draft<'_>) {
    let (partition, to, start) = (draft.partition(), draft.anyone(), draft.moment());
    let quiet = Action::Load { per_second: Rate(0.0), partition: Some(partition.clone()) };
    draft.push(Step::new(When { at: Some(Duration::ZERO), ..start.clone() }, quiet));
    let there = Action::Move { partition: partition.clone(), to, through: None };
    draft.push(Step::new(start, there.clone()));
    // The copy stays complete, and is not flipped to.
    let mut asked = Draft::first(Stage::Deliver, "prepare", &partition);
    asked.filter.times = 0;
    draft.push(Step::new(When::on(asked), Action::Drop {}));
    let label = draft.label("given-up");
    let complete = Draft::first(Stage::Effect, "prepare", &partition);
    let abort = Action::Abort { partition: partition.clone(), through: None };
    draft.push(Step::new(When::on(complete), abort).labelled(&label));
    let gap = draft.dice.millis(50, 800);
    let cut = Action::Cut {
        from: Side::These(vec![Who::Owner(partition)]),
        to: Side::Others,
        both: true,
        lasting: Some(draft.for_long() + Duration::from_secs(4)),
    };
    draft.push(Step::new(since(&label, gap), cut));
    let gap = gap + draft.dice.millis(20, 600);
    draft.push(Step::new(since(&label, gap), there));
}

/// A source dies when its copy is complete but for what it wrote last, so that it is promoted.
pub(in crate::scenario::draw) fn promoted(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    draft.sent(&partition);
    let points = [
        (Stage::Effect, "prepare"),
        (Stage::Deliver, "prepare"),
        (Stage::Freeze, "begin"),
        (Stage::Effect, "prepare"),
    ];
    let (stage, name) = *draft.dice.pick(&points);
    let lasting = draft.for_long();
    let owner = Who::Owner(partition.clone());
    let dies = match draft.dice.below(4) {
        0 | 1 => Action::Kill { node: owner, lasting: Some(lasting) },
        2 => Action::PowerLoss { node: owner, keep: draft.keep(), lasting: Some(lasting) },
        _ => Action::Cut {
            from: Side::These(vec![owner]),
            to: Side::Others,
            both: true,
            lasting: Some(lasting),
        },
    };
    let event = Draft::first(stage, name, &partition);
    draft.push(Step::new(When::on(event), dies));
    if draft.dice.happens(50) {
        // What is durable is not acknowledged for a while.
        let mut written = Draft::first(Stage::Performed, "commit", &partition);
        written.filter.times = 0;
        let by = draft.dice.millis(20, 300);
        draft.push(Step::new(When::on(written), Action::Delay { by }));
    }
    if draft.dice.happens(40) {
        // Nothing is written afterwards, so that nothing exposes what was copied.
        let mut over = Draft::first(Stage::Committed, "flip", &partition);
        over.filter.times = 1;
        let quiet = Action::Load { per_second: Rate(0.0), partition: Some(partition) };
        draft.push(Step::new(When::on(over), quiet));
    }
}

/// H44: a source dies with records that its consumers have, and its copy has not; they acknowledge
/// them where other records have those offsets by then.
pub(super) fn fetched_ahead(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    draft.sent(&partition);
    let label = draft.label("ahead");
    let event = Draft::first(Stage::Effect, "prepare", &partition);
    draft.push(Step::new(When::on(event), Action::Hold {}).labelled(&label));
    let owner = Who::Owner(partition.clone());
    let written = Action::Produce {
        partition,
        records: *draft.dice.pick(&[20, 5, 60]),
        bytes: None,
        node: Some(owner.clone()),
        via: Some(Via::Direct),
        address: None,
    };
    let gap = draft.dice.millis(1, 200);
    draft.push(Step::new(since(&label, gap), written));
    let gap = gap + draft.dice.millis(100, 800);
    let dies = Action::Kill { node: owner, lasting: Some(draft.for_long()) };
    draft.push(Step::new(since(&label, gap), dies));
    let consume = &mut draft.scenario.workload.consume;
    consume.lag = Between::micros(200_000, 2_000_000);
    consume.persist = draft.dice.secs(10, 25);
}

/// H37: a node that was promoted away from comes back, and is to leave.
pub(super) fn drained_after_death(draft: &mut Draft<'_>) {
    let node = Who::Node(Machine(1));
    let partition = draft.partition();
    draft.sent(&partition);
    let points = [(Stage::Done, "checkpoint"), (Stage::Done, "list"), (Stage::Phase, "drain")];
    let (stage, name) = *draft.dice.pick(&points);
    let label = draft.label("dead");
    let lasting = draft.for_long();
    let dies = Action::Kill { node: node.clone(), lasting: Some(lasting) };
    let when = When::on(Draft::first(stage, name, &partition));
    draft.push(Step::new(when, dies).labelled(&label));
    let back = lasting + draft.dice.millis_by_100(500, 4_000);
    let leave = Action::Drain { node, through: None };
    draft.push(Step::new(since(&label, back), leave));
}

/// H25: what a node got by a move is erased by hand, and the node starts again.
pub(super) fn erased(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    draft.sent(&partition);
    let label = draft.label("moved");
    let flip = Draft::first(Stage::Committed, "flip", &partition);
    let owner = Who::Owner(partition.clone());
    let mut when = When::on(flip);
    when.after = draft.dice.millis_by_100(500, 3_000);
    let down = draft.dice.millis_by_100(500, 1_500);
    let kill = Action::Kill { node: owner.clone(), lasting: Some(down) };
    draft.push(Step::new(when, kill).labelled(&label));
    let erase = Action::Erase { node: owner, what: Files::Live, partition: Some(partition) };
    draft.push(Step::new(since(&label, Duration::from_millis(100)), erase));
}

/// H12, S6: a copy that cannot keep up, over a link that is cut later, until its source dies.
pub(super) fn far_behind(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    draft.sent(&partition);
    let label = draft.label("behind");
    let listed = Draft::first(Stage::Done, "list", &partition);
    let (source, target) = (Who::Owner(partition.clone()), Who::Target(partition.clone()));
    let cut = Action::Cut {
        from: Side::These(vec![source.clone()]),
        to: Side::These(vec![target]),
        both: true,
        lasting: Some(Duration::from_secs(40)),
    };
    draft.push(Step::new(When::on(listed), cut).labelled(&label));
    let (gap, lasting) = (draft.dice.millis_by_100(500, 9_000), draft.for_long());
    let dies = Action::Kill { node: source, lasting: Some(lasting) };
    draft.push(Step::new(since(&label, gap), dies));
    if draft.dice.happens(40) {
        // An operator gives the move up, or plans it anew, while the source is dead.
        let later = gap + draft.dice.millis_by_100(3_100, 8_000);
        let abort = Action::Abort { partition, through: None };
        draft.push(Step::new(since(&label, later), abort));
    }
}

/// H46: the target of a dead owner drains, or dies, too.
pub(super) fn target_of_dead(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    draft.sent(&partition);
    let label = draft.label("dead-owner");
    let points = [(Stage::Done, "list"), (Stage::Done, "checkpoint"), (Stage::Effect, "prepare")];
    let (stage, name) = *draft.dice.pick(&points);
    let lasting = Some(draft.for_long() + Duration::from_secs(8));
    let dies = Action::Kill { node: Who::Owner(partition.clone()), lasting };
    let when = When::on(Draft::first(stage, name, &partition));
    draft.push(Step::new(when, dies).labelled(&label));
    let gap = draft.dice.millis_by_100(0, 6_000);
    let target = Who::Target(partition);
    let action = if draft.dice.happens(50) {
        Action::Drain { node: target, through: None }
    } else {
        Action::Kill { node: target, lasting: Some(draft.for_long()) }
    };
    draft.push(Step::new(since(&label, gap), action));
}

/// H19: a source that has just come back dies again.
pub(super) fn died_before(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    draft.sent(&partition);
    let label = draft.label("first-death");
    let source = Who::Owner(partition.clone());
    let points = [(Stage::Done, "list"), (Stage::Done, "copy"), (Stage::Done, "checkpoint")];
    let (stage, name) = *draft.dice.pick(&points);
    let down = silence(draft) + draft.dice.millis_by_100(600, 1_800);
    let dies = Action::Kill { node: source.clone(), lasting: Some(down) };
    let when = When::on(Draft::first(stage, name, &partition));
    draft.push(Step::new(when, dies).labelled(&label));
    let gap = down + draft.dice.millis_by_100(400, 2_500);
    let lasting = Some(draft.for_long());
    draft.push(Step::new(since(&label, gap), Action::Kill { node: source, lasting }));
}

/// A death that the log hears of late, when its node has come back already.
pub(super) fn condemned(draft: &mut Draft<'_>) {
    let node = draft.anyone();
    let silent = silence(draft) + draft.dice.millis_by_100(300, 1_200);
    let from = Side::These(vec![node]);
    let cut = Action::Cut { from, to: Side::Others, both: true, lasting: Some(silent) };
    let when = draft.moment();
    draft.push(Step::new(when, cut));
    let filter = Filter { times: *draft.dice.pick(&[1, 3, 0]), ..Filter::any() };
    let event = On { filter, ..On::new(Stage::Effect, "mark-dead") };
    let by = draft.dice.millis_by_100(500, 3_000);
    draft.push(Step::new(When::on(event), Action::Delay { by }));
}

/// A leader sleeps until another one leads, and wakes up to what was asked of it meanwhile.
pub(super) fn leader_asleep(draft: &mut Draft<'_>) {
    for _ in 0..draft.dice.within(1, 3) {
        let when = draft.moment();
        let lasting = Some(draft.dice.millis_by_100(2_500, 6_000));
        draft.push(Step::new(when, Action::Pause { node: Who::Leader, lasting }));
    }
}

/// The power of all nodes goes at once.
pub(super) fn blackout(draft: &mut Draft<'_>) {
    let start = draft.moment();
    let keep = *draft.dice.pick(&[Keep::Nothing, Keep::Random]);
    for number in 1..=draft.scenario.cluster.nodes {
        let gap = draft.dice.millis(0, 60);
        let when = When { at: start.at.map(|at| at + gap), ..start.clone() };
        let lasting = Some(draft.dice.millis_by_100(200, 2_500));
        let node = Who::Node(Machine(number));
        draft.push(Step::new(when, Action::PowerLoss { node, keep, lasting }));
    }
}

/// The power of a node goes soon after it came back, again and again.
pub(super) fn flicker(draft: &mut Draft<'_>) {
    let (node, start) = (Who::Node(draft.founder()), draft.moment());
    let mut at = start.at.unwrap_or_default();
    for _ in 0..draft.dice.within(2, 4) {
        let down = draft.dice.millis(50, 300);
        let action =
            Action::PowerLoss { node: node.clone(), keep: Keep::Nothing, lasting: Some(down) };
        draft.push(Step::new(When::at(at), action));
        at += down + draft.dice.millis(1, 400);
    }
}

/// A replica falls behind what is planned, and is fed a snapshot.
pub(super) fn left_behind(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    draft.sent(&partition);
    if draft.scenario.cluster.metastore == MetastoreKind::Abstract {
        draft.scenario.abstract_log.snapshot_entries = 5;
    }
    let raft = &mut draft.scenario.cluster.raft;
    (raft.snapshot_entries, raft.keep_entries) = (10, 1);
    let event = Draft::first(Stage::Committed, "set-target", &partition);
    let anyone = draft.anyone();
    let all = [anyone.clone(), anyone, Who::Owner(partition.clone()), Who::Target(partition)];
    let node = draft.dice.pick(&all).clone();
    let lasting = draft.dice.millis_by_100(3_000, 12_000);
    draft.push(Step::new(When::on(event), Action::Lag { node, lasting }));
}

/// H13: the disk of a destination is full when its source has just shown more, and dies.
pub(super) fn full_then_dead(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    draft.sent(&partition);
    let label = draft.label("full");
    let mut listed = Draft::first(Stage::Done, "list", &partition);
    listed.filter.nth = u32::try_from(draft.dice.within(1, 3)).unwrap_or(1);
    listed.filter.times = 1;
    let full = Action::DiskFull {
        node: Who::Here,
        free: Bytes(0),
        lasting: Some(draft.dice.millis_by_100(1_000, 8_000)),
    };
    draft.push(Step::new(When::on(listed), full).labelled(&label));
    let gap = draft.dice.millis(20, 700);
    let dies = Action::Kill { node: Who::Owner(partition), lasting: Some(draft.for_long()) };
    draft.push(Step::new(since(&label, gap), dies));
}

/// H45: a gate takes its time to stand as it is told.
pub(super) fn slow_stand(draft: &mut Draft<'_>) {
    let filter = Filter { times: *draft.dice.pick(&[0, 4, 1]), ..Filter::any() };
    let event = On { filter, ..On::new(Stage::Effect, "stand") };
    let by = draft.dice.millis(50, 1_500);
    draft.push(Step::new(When::on(event), Action::Delay { by }));
}

/// A node that finds itself dead begins its next life, and its power goes.
pub(super) fn new_life_lost(draft: &mut Draft<'_>) {
    let (node, when) = (draft.anyone(), draft.moment());
    let silent = silence(draft) + draft.dice.millis_by_100(800, 2_000);
    let from = Side::These(vec![node]);
    let cut = Action::Cut { from, to: Side::Others, both: true, lasting: Some(silent) };
    draft.push(Step::new(when, cut));
    let mut when = When::on(On::new(Stage::Done, "next-incarnation"));
    when.after = draft.dice.millis(0, 5);
    let lasting = Some(draft.dice.millis(100, 600));
    let lost = Action::PowerLoss { node: Who::Here, keep: Keep::Nothing, lasting };
    draft.push(Step::new(when, lost));
}

/// How long a node is silent before it is taken to be dead.
fn silence(draft: &Draft<'_>) -> Duration {
    draft.scenario.cluster.policy.dead_timeout.unwrap_or(Duration::from_secs(3))
}

fn since(label: &str, after: Duration) -> When {
    When { since: Some(Label(label.to_owned())), after, ..When::start() }
}
