//! Disks that stop in the middle, fail, fill up and forget.

use super::super::Draft;
use super::super::strike::{AT_DESTINATION, Blow};
use crate::scenario::step::{Filter, On, Stage, Step, When};
use crate::scenario::value::{Bytes, Chance};
use crate::scenario::{Action, Failure, Files, Who};

/// Works that change a disk.
const WRITES: &[&str] = &[
    "install",
    "checkpoint",
    "copy",
    "commit",
    "set-aside",
    "restage",
    "trim",
    "open",
    "expose",
    "next-incarnation",
];

/// Works that can fail.
const CAN_FAIL: &[&str] = &[
    "copy",
    "checkpoint",
    "install",
    "verify",
    "probe",
    "trim",
    "restage",
    "inspect",
    "open",
    "expose",
    "set-aside",
    "commit",
];

/// The power goes in the middle of a work.
pub(super) fn crash_within(draft: &mut Draft<'_>) {
    let name = *draft.dice.pick(WRITES);
    let nth = if name == "commit" { draft.dice.within(1, 200) } else { draft.dice.within(1, 4) };
    let event = numbered(Stage::Effect, name, nth);
    let disk_step = u32::try_from(draft.dice.within(1, 12)).unwrap_or(1);
    let (keep, lasting) = (draft.keep(), Some(draft.lasting()));
    draft.push(Step::new(When::on(event), Action::CrashWithin { disk_step, keep, lasting }));
}

/// A work fails, once or several times.
pub(super) fn failing_work(draft: &mut Draft<'_>) {
    let name = *draft.dice.pick(CAN_FAIL);
    let mut event = numbered(Stage::Effect, name, draft.dice.within(1, 4));
    event.filter.times = *draft.dice.pick(&[1, 2, 5, 20]);
    let with = *draft.dice.pick(&[Failure::Disk, Failure::DiskFull, Failure::TimedOut]);
    draft.push(Step::new(When::on(event), Action::Fail { with }));
}

/// The destination's disk is full for a while.
pub(super) fn full(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let when = draft.point(AT_DESTINATION, &partition);
    let free = Bytes(*draft.dice.pick(&[0, 1_000, 10_000, 40_000]));
    let lasting = Some(draft.dice.millis_by_100(1_000, 8_000));
    draft.push(Step::new(when, Action::DiskFull { node: Who::Here, free, lasting }));
}

/// Steps of a disk fail, at a point of a move or at any time.
pub(super) fn failing_steps(draft: &mut Draft<'_>) {
    if draft.dice.happens(60) {
        let partition = draft.partition();
        let when = draft.point(AT_DESTINATION, &partition);
        let action = draft.disk_fail(Who::Here);
        draft.push(Step::new(when, action));
    } else {
        let (when, node) = (draft.moment(), draft.anyone());
        let action = draft.blow(node, &[Blow::DiskFail]);
        draft.push(Step::new(when, action));
    }
}

/// Bytes of a copy change at rest.
pub(super) fn rot(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let points = [
        (Stage::Performed, "checkpoint"),
        (Stage::Done, "copy"),
        (Stage::Phase, "drain"),
        (Stage::Effect, "verify"),
    ];
    let when = draft.point(&points, &partition);
    let position = *draft.dice.pick(&[Chance(0.5), Chance(0.0), Chance(0.1), Chance(0.9)]);
    let action = Action::Rot {
        node: Who::Here,
        what: Files::Staging,
        partition: Some(partition),
        position,
        bytes: Bytes(*draft.dice.pick(&[1, 8, 512])),
    };
    draft.push(Step::new(when, action));
}

/// C40: the source drops what is being copied.
pub(super) fn retention(draft: &mut Draft<'_>) {
    let partition = draft.partition();
    let points = [
        (Stage::Done, "list"),
        (Stage::Done, "copy"),
        (Stage::Deliver, "prepare"),
        (Stage::Freeze, "begin"),
        (Stage::Committed, "flip"),
    ];
    for _ in 0..draft.dice.within(1, 3) {
        let when = draft.point(&points, &partition);
        let keep_bytes = Bytes(*draft.dice.pick(&[0, 4_000, 20_000]));
        let partition = partition.clone();
        draft.push(Step::new(when, Action::Retain { partition, keep_bytes }));
    }
}

fn numbered(stage: Stage, name: &str, nth: u64) -> On {
    let nth = u32::try_from(nth).unwrap_or(1);
    On { filter: Filter { nth, ..Filter::any() }, ..On::new(stage, name) }
}
