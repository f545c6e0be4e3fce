//! What must hold within a step.

use super::super::action::{Action, Files, Forged, Platter};
use super::super::name::Side;
use super::super::step::{On, Stage, Step};
use super::super::vocabulary::{CALLS, CLIENTS, COPIES, PROPOSALS, RAFT, WAITING};
use super::{Problems, World, check_when, known_word};

/// Events that concern no partition.
const WITHOUT_PARTITION: &[&str] = &[
    "join",
    "register",
    "mark-dead",
    "report",
    "set-draining",
    "drained-out",
    "retire",
    "create-topic",
    "delete-topic",
    "set-policy",
    "raise-version",
    "heartbeat",
    "heartbeat-answer",
    "join-answer",
    "survey",
    "barrier",
    "configure",
    "transfer",
    "next-incarnation",
    "watermarks",
    "close-accept",
    "open-accept",
    "leader",
    "retired",
];

pub(super) fn check(world: &World<'_>, step: &Step, key: &str, problems: &mut Problems) {
    check_when(&step.when, key, world.scenario.head.safety, problems);
    if let (Some(since), Some(label)) = (&step.when.since, &step.label)
        && since == label
    {
        problems.push(format!("{key}.since"), "a step cannot come after itself");
    }
    if let Some(repeat) = &step.repeat {
        if repeat.every.is_zero() {
            problems.push(format!("{key}.repeat"), "`every` must be some time");
        }
        if step.when.on.is_some() {
            let text = "a step with `on` is not repeated: say `times` in the event instead";
            problems.push(format!("{key}.repeat"), text);
        }
    }
    if step.action.is_on_the_spot() {
        check_on_the_spot(step, key, problems);
    }
    check_labels(world, step, key, problems);
    check_action(world, &step.action, key, problems);
}

/// An action on a message, a proposal or a work needs one, at a point at which it can be had.
fn check_on_the_spot(step: &Step, key: &str, problems: &mut Problems) {
    let name = step.action.word();
    let Some(on) = &step.when.on else {
        let text = format!("`{name}` is done to what `on` names, which is missing");
        problems.push(key, text);
        return;
    };
    if !step.when.after.is_zero() {
        let text = format!("`{name}` is done on the spot: there is no `after`");
        problems.push(format!("{key}.after"), text);
    }
    let message = matches!(on.stage, Stage::Send | Stage::Deliver);
    let asked = on.stage == Stage::Effect;
    let travels = PROPOSALS.contains(&on.name) || CALLS.contains(&on.name) || on.name == "copy";
    let (fits, stages) = match &step.action {
        Action::Hold {} | Action::Drop {} | Action::Delay { .. } => {
            (on.stage.can_be_stopped(), "effect, performed, done, send or deliver")
        }
        Action::Record {} | Action::Duplicate { .. } => (
            message || (asked && travels),
            "send or deliver, or effect of a proposal or a question to another node",
        ),
        Action::Corrupt {} => (message, "send or deliver"),
        Action::Fail { .. } => (asked, "effect"),
        Action::CrashWithin { .. } => (
            asked && !(CALLS.contains(&on.name) || PROPOSALS.contains(&on.name)),
            "effect of a work of a node, such as install",
        ),
        _ => return,
    };
    if !fits {
        let text = format!("`{name}` cannot be done to this event: give {stages}");
        problems.push(format!("{key}.on"), text);
    }
}

fn check_labels(world: &World<'_>, step: &Step, key: &str, problems: &mut Problems) {
    let of = format!("{key}.of");
    match &step.action {
        Action::Hold {} | Action::Record {} | Action::SaveDisk { .. } if step.label.is_none() => {
            let text = format!("`{}` keeps something: give it a `label`", step.action.word());
            problems.push(key, text);
        }
        Action::Release { of: label } => {
            let fits = |action: &Action| matches!(action, Action::Hold {});
            world.check_label(&of, label, fits, "does \"hold\"", problems);
        }
        Action::Replay { of: label } => {
            let fits = |action: &Action| matches!(action, Action::Hold {} | Action::Record {});
            world.check_label(&of, label, fits, "does \"hold\" or \"record\"", problems);
        }
        Action::Restart { of: Some(label), .. } => {
            let fits = |action: &Action| matches!(action, Action::SaveDisk { .. });
            world.check_label(&of, label, fits, "does \"save-disk\"", problems);
        }
        _ => {}
    }
}

fn check_action(world: &World<'_>, action: &Action, key: &str, problems: &mut Problems) {
    match action {
        Action::Join { node, .. } if node.0 <= world.scenario.cluster.nodes => {
            let text = format!(
                "{node} is a founding node, which is there from the start. To have it come back \
                 with an empty disk, use `restart` with disk = \"empty\""
            );
            problems.push(format!("{key}.node"), text);
        }
        Action::Restart { disk, of, from, .. } => {
            if of.is_some() != (*disk == Platter::Saved) {
                problems.push(key, "disk = \"saved\" and `of` go together");
            }
            if from.is_some() != (*disk == Platter::Other) {
                problems.push(key, "disk = \"other\" and `from` go together");
            }
        }
        Action::Cut { from, to, .. }
        | Action::Clog { from, to, .. }
        | Action::Slow { from, to, .. }
        | Action::Heal { from: Some(from), to } => check_sides(from, to, key, problems),
        Action::Rot { what, partition: None, .. }
            if !matches!(what, Files::Raft | Files::Identity) =>
        {
            problems.push(key, "`partition` is missing: whose files are these?");
        }
        Action::ClockRate { ppm, .. } if ppm.unsigned_abs() >= 1_000_000 => {
            problems.push(format!("{key}.ppm"), "give less than 1000000 either way");
        }
        Action::Propose { command, partition, about, to, .. } => {
            check_forged(
                *command,
                partition.is_some(),
                about.is_some(),
                to.is_some(),
                key,
                problems,
            );
        }
        Action::CreateTopic { partitions, .. } if !(1..=1024).contains(partitions) => {
            problems.push(format!("{key}.partitions"), "give 1 to 1024");
        }
        _ => {}
    }
    if let Action::Slow { bandwidth: None, delay, .. } = action
        && delay.is_zero()
    {
        problems.push(key, "give `bandwidth` or `delay`: how slow is it?");
    }
}

fn check_sides(from: &Side, to: &Side, key: &str, problems: &mut Problems) {
    match (from, to) {
        (Side::Others, Side::Others) => {
            problems.push(key, "only one side can be \"others\": name the nodes of the other");
        }
        (Side::These(these), _) | (_, Side::These(these)) if these.is_empty() => {
            problems.push(key, "a side without a node has no link");
        }
        (Side::These(_) | Side::Others, _) => {}
    }
}

fn check_forged(
    command: Forged,
    partition: bool,
    about: bool,
    to: bool,
    key: &str,
    problems: &mut Problems,
) {
    let (needs_partition, needs_about, needs_to) = match command {
        Forged::MarkDead
        | Forged::Register
        | Forged::SetDraining
        | Forged::DrainedOut
        | Forged::Retire => (false, true, false),
        Forged::Assign | Forged::SetTarget => (true, false, true),
        Forged::ClearTarget
        | Forged::Flip
        | Forged::Resolve
        | Forged::Revoke
        | Forged::SetPin
        | Forged::DeclareLost => (true, false, false),
        Forged::RaiseVersion => (false, false, false),
    };
    let missing = [
        (needs_partition && !partition, "partition"),
        (needs_about && !about, "about"),
        (needs_to && !to, "to"),
    ];
    for (_, what) in missing.iter().filter(|(missing, _)| *missing) {
        problems.push(key, format!("`{what}` is missing: \"{}\" names one", command.word()));
    }
}

/// An event that can never match is a slip.
pub(super) fn check_on(on: &On, key: &str, problems: &mut Problems) {
    let proposal = PROPOSALS.contains(&on.name) && !matches!(on.stage, Stage::Note | Stage::Phase);
    let filter = &on.filter;
    let mut never = |given: bool, what: &str, why: &str| {
        if given {
            problems.push(format!("{key}.{what}"), format!("it would never match: {why}"));
        }
    };
    never(filter.nth == 0, "nth", "the first one has number 1");
    let concerns_none = WITHOUT_PARTITION.contains(&on.name)
        || RAFT.contains(&on.name)
        || ["controller-", "lease-"].iter().any(|start| on.name.starts_with(start));
    let note_of_partition = on.stage == Stage::Note && on.name == "controller-target-given-up";
    never(
        filter.partition.is_some() && concerns_none && !note_of_partition,
        "partition",
        "this event concerns no partition",
    );
    let message = matches!(on.stage, Stage::Send | Stage::Deliver);
    let asks = CALLS.contains(&on.name) || COPIES.contains(&on.name) || proposal;
    let log = matches!(on.stage, Stage::Applied | Stage::Committed);
    never(
        filter.peer.is_some() && !(message || (asks && !log && on.stage != Stage::Note)),
        "peer",
        "there is no other end",
    );
    let client = CLIENTS.contains(&on.name);
    never(filter.peer.is_some() && client, "peer", "the other end is a client");
    never(filter.by.is_some() && !proposal, "by", "only proposals have a proposer");
    never(filter.about.is_some() && !proposal, "about", "only proposals are about a node");
    never(filter.forced.is_some() && on.name != "flip", "forced", "only a flip is forced or not");
    never(filter.forced.is_some() && on.stage == Stage::Phase, "forced", "a phase is not forced");
    let ends = log || on.stage == Stage::Done;
    never(filter.outcome.is_some() && !ends, "outcome", "it has not ended yet");
    let waiting = on.stage == Stage::Note && on.name == "mover-waiting";
    never(filter.reason.is_some() && !waiting, "reason", "only `note = \"mover-waiting\"` has one");
    if let Some(reason) = filter.reason.as_ref().filter(|_| waiting) {
        known_word(&format!("{key}.reason"), reason, WAITING, "reason", problems);
    }
}
