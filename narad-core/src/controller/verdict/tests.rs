use alloc::vec;

use super::*;

fn leaver() -> Drain {
    Drain { stage: Stage::Leaves, takes_part: true, owned: 2, outbound: 2, ..Drain::default() }
}

fn empty() -> Drain {
    Drain { owned: 0, outbound: 0, ..leaver() }
}

fn judged(drain: &Drain, moves: &[Course]) -> Step {
    drain.step(moves, OwnWord::default()).expect("it leaves")
}

/// Field fault 46: one that is blocked holds up no other, and what holds all up is told.
#[test]
fn what_moves_counts_before_what_is_blocked() {
    use Course::{Blocked, GoesOn, Waits};

    assert_eq!(judged(&leaver(), &[Blocked, GoesOn]), Step::Moving);
    assert_eq!(judged(&leaver(), &[Waits, Blocked]), Step::Held { at: 1 });
    assert_eq!(judged(&leaver(), &[Waits, Waits]), Step::Held { at: 0 });
    assert_eq!(Step::Held { at: 1 }.course(&[Waits, Blocked]), Blocked);
}

#[test]
fn what_does_not_move_has_a_reason() {
    let none = Blocker::NoReceivers { owned: 2 };
    let cases = [
        (Drain { pinned: 2, paused: true, ..leaver() }, Step::Pinned { partitions: 2 }),
        (Drain { blockers: vec![none], ..leaver() }, Step::Blocked(none)),
        (Drain { paused: true, ..leaver() }, Step::Paused { partitions: 2 }),
        // One that is pinned does not keep the other one.
        (Drain { pinned: 1, ..leaver() }, Step::Slots { partitions: 2 }),
        (Drain { life: Life::Dead, ..leaver() }, Step::OwnerDead { partitions: 2 }),
    ];
    for (drain, step) in cases {
        assert_eq!(judged(&drain, &[]), step, "{drain:?}");
    }
    // What may be promoted is not lost yet.
    let dead = Drain { life: Life::Dead, ..leaver() };
    assert_eq!(judged(&dead, &[Course::Waits]), Step::OwnerDead { partitions: 1 });
    assert_eq!(judged(&dead, &[Course::Waits; 2]), Step::Held { at: 0 });
}

#[test]
fn what_is_left_to_do_is_told_in_order() {
    let votes = Blocker::BelowMinVoters { left: 2, min_voters: 3 };
    let word =
        |backlog, left_behind| OwnWord { backlog: Some(backlog), left_behind: Some(left_behind) };
    let out = Drain { stage: Stage::DrainedOut, ..empty() };
    let retired = Drain { life: Life::Retired, ..out.clone() };
    let cases = [
        (Drain { inbound: 1, ..empty() }, word(5, 1), Step::Inbound { partitions: 1 }),
        (Drain { life: Life::Dead, ..empty() }, word(0, 0), Step::MemberDead),
        (Drain { blockers: vec![votes], ..out.clone() }, word(0, 0), Step::Blocked(votes)),
        (empty(), word(5, 1), Step::Backlog { records: 5 }),
        (empty(), word(0, 1), Step::LeftBehind { partitions: 1 }),
        (empty(), word(0, 0), Step::Retiring),
        // Who is silent has not said that it has anything.
        (empty(), OwnWord::default(), Step::Retiring),
        (out, word(0, 0), Step::Retiring),
        (retired.clone(), word(0, 0), Step::Voting),
        (Drain { takes_part: false, ..retired }, word(0, 0), Step::Out),
    ];
    for (drain, word, step) in cases {
        assert_eq!(drain.step(&[], word), Some(step), "{drain:?}");
        let over = step == Step::Out;
        assert_eq!(step.course(&[]) == Course::Over, over, "{step:?}");
    }
}

/// Field fault 39: who does not leave, or not any more, has nothing to wait for.
#[test]
fn who_stays_is_not_judged() {
    let stays = Drain { stage: Stage::Stays, ..leaver() };
    assert_eq!(stays.step(&[Course::Blocked], OwnWord::default()), None);
}

/// Field fault 48: what a dead member alone holds waits for it; the rest only misses it.
#[test]
fn a_death_matters_by_what_only_it_has() {
    assert_eq!(Loss::of(Life::Dead, false, 3, 1), Some(Loss::Alone { partitions: 2 }));
    assert_eq!(Loss::of(Life::Dead, false, 1, 1), Some(Loss::Missed));
    for (life, draining) in [(Life::Alive, false), (Life::Retired, false), (Life::Dead, true)] {
        assert_eq!(Loss::of(life, draining, 3, 0), None);
    }
    assert_eq!(Loss::Alone { partitions: 2 }.course(), Course::Blocked);
    assert_eq!(Loss::Missed.course(), Course::Waits);
}

/// Field fault 11: what fails again and again is blocked, although each time it could pass.
#[test]
fn a_move_without_a_slot_is_blocked() {
    use crate::mover::{Phase, Progress, Waiting};

    let progress = |waiting, holds_slot| Progress {
        phase: Phase::Waiting,
        source: None,
        move_id: None,
        attempt: None,
        staged_bytes: 0,
        listed_bytes: 0,
        tail_bytes: 0,
        copy_rate: 0,
        write_rate: 0,
        freeze_ms: None,
        passes: 0,
        attempts: 1,
        waiting,
        holds_slot,
    };
    assert_eq!(progress(None, true).course(), Course::GoesOn);
    let passes = Some(Waiting::SourceUnreachable);
    assert_eq!(progress(passes, true).course(), Course::Waits);
    assert_eq!(progress(passes, false).course(), Course::Blocked);
    assert_eq!(progress(Some(Waiting::DiskFull), true).course(), Course::Blocked);
    // Nobody can do anything about a time that is set, and it passes.
    let remaining = core::time::Duration::from_secs(3);
    let early = Some(Waiting::PromoteRefused(crate::promote::Refusal::TooEarly { remaining }));
    assert_eq!(progress(early, true).course(), Course::Waits);
    assert_eq!(progress(early, false).course(), Course::Waits);
}

#[test]
fn a_disk_is_full_before_nothing_is_left() {
    assert_eq!(
        [0, (2 << 20) - 1, 2 << 20].map(|free| is_full(ByteCount(free))),
        [true, true, false]
    );
}

#[test]
fn of_a_whole_cluster_the_worst_is_told() {
    use Course::{Blocked, GoesOn, Over, Waits};

    assert_eq!(Told::of(&[Waits, GoesOn, Blocked, Blocked]), Told::Blocked(2));
    assert_eq!(Told::of(&[Waits, GoesOn]), Told::GoesOn);
    assert_eq!(Told::of(&[Over, Waits, Waits]), Told::Waits(1));
    assert_eq!(Told::of(&[Over]), Told::Done);
    let calm = Whole { leader_known: true, ..Whole::default() };
    assert_eq!(calm.matters(), []);
    let all = Whole { leader_known: false, unassigned: 3, planned: 2, paused: true };
    let expected =
        [Matter::NoLeader, Matter::Unassigned { partitions: 3 }, Matter::Paused { moves: 2 }];
    assert_eq!(all.matters(), expected);
    assert_eq!(Whole { planned: 2, ..calm }.matters(), [Matter::Slots { moves: 2 }]);
}
