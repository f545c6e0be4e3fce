use std::collections::BTreeSet;
use std::time::Duration;

use narad_core::ids::Offset;
use narad_core::mover::Phase;

use super::*;
use crate::server::node_service::{draining, planning, status, stopping};

const ENDS: Ends<'_> = Ends { partition: "orders/3", from: "n1", to: "n2" };

/// Checks that a list has one of each variant: the match below it does not compile without all.
macro_rules! each {
    ($name:ident: $of:ty = [$($pattern:pat => $value:expr,)+]) => {
        fn $name() -> Vec<$of> {
            let all = vec![$($value),+];
            for one in &all {
                match one {
                    $($pattern => {})+
                }
            }
            all
        }
    };
}

each!(rejections: Reason = [
    Reason::Gone => Reason::Gone,
    Reason::UnknownMember => Reason::UnknownMember,
    Reason::UnknownTopic => Reason::UnknownTopic,
    Reason::NotYours => Reason::NotYours,
    Reason::OwnerChanged => Reason::OwnerChanged,
    Reason::EpochChanged => Reason::EpochChanged,
    Reason::MoveChanged => Reason::MoveChanged,
    Reason::NotTarget => Reason::NotTarget,
    Reason::AttemptBurned => Reason::AttemptBurned,
    Reason::TokenRevoked => Reason::TokenRevoked,
    Reason::TokenStale => Reason::TokenStale,
    Reason::NotDead => Reason::NotDead,
    Reason::CopyBehind => Reason::CopyBehind,
    Reason::Forgotten => Reason::Forgotten,
    Reason::NotOwner => Reason::NotOwner,
    Reason::NodeDead => Reason::NodeDead,
    Reason::NodeDraining => Reason::NodeDraining,
    Reason::NodeRetired => Reason::NodeRetired,
    Reason::NodeUnregistered => Reason::NodeUnregistered,
    Reason::AlreadyThere => Reason::AlreadyThere,
    Reason::TopicBusy => Reason::TopicBusy,
    Reason::AlreadyAssigned => Reason::AlreadyAssigned,
    Reason::NameTaken => Reason::NameTaken,
    Reason::WrongStore => Reason::WrongStore,
    Reason::StaleIncarnation => Reason::StaleIncarnation,
    Reason::NotDraining => Reason::NotDraining,
    Reason::NotDrainedOut => Reason::NotDrainedOut,
    Reason::OwnsPartitions => Reason::OwnsPartitions,
    Reason::IsTarget => Reason::IsTarget,
    Reason::BelowMinVoters => Reason::BelowMinVoters,
    Reason::NoHealthyMajority => Reason::NoHealthyMajority,
    Reason::NeedsReceipt => Reason::NeedsReceipt,
    Reason::OutOfRange => Reason::OutOfRange,
    Reason::UnsafeTiming => Reason::UnsafeTiming,
]);

each!(refusals: peer::Refusal = [
    peer::Refusal::NotLeader { .. } => peer::Refusal::NotLeader { leader: None },
    peer::Refusal::AskerDead => peer::Refusal::AskerDead,
    peer::Refusal::NotOwner => peer::Refusal::NotOwner,
    peer::Refusal::NoSuchMove => peer::Refusal::NoSuchMove,
    peer::Refusal::NotYet => peer::Refusal::NotYet,
    peer::Refusal::NotServing => peer::Refusal::NotServing,
    peer::Refusal::FrozenElsewhere => peer::Refusal::FrozenElsewhere,
    peer::Refusal::FrozenTooOften { .. } => peer::Refusal::FrozenTooOften { retry_after_ms: 2500 },
    peer::Refusal::AppendStuck => peer::Refusal::AppendStuck,
    peer::Refusal::NoSuchFreeze => peer::Refusal::NoSuchFreeze,
    peer::Refusal::Disk => peer::Refusal::Disk,
    peer::Refusal::NotAdmitted(_) => peer::Refusal::NotAdmitted(Reason::NameTaken),
    peer::Refusal::Unknown => peer::Refusal::Unknown,
]);

each!(promotions: promote::Refusal = [
    promote::Refusal::NeverReached => promote::Refusal::NeverReached,
    promote::Refusal::NotCompared => promote::Refusal::NotCompared,
    promote::Refusal::TooEarly { .. } => promote::Refusal::TooEarly {
        remaining: Duration::from_secs(7),
    },
    promote::Refusal::Behind { .. } => promote::Refusal::Behind { end: Offset(1), visible: Offset(2) },
    promote::Refusal::BelowMinEnd { .. } => promote::Refusal::BelowMinEnd {
        end: Offset(1),
        min_end: Offset(2),
    },
    promote::Refusal::WrongStart { .. } => promote::Refusal::WrongStart {
        start: Offset(1),
        expected: Offset(0),
    },
    promote::Refusal::WrongEnd { .. } => promote::Refusal::WrongEnd {
        end: Offset(1),
        expected: Offset(2),
    },
    promote::Refusal::WrongDigest => promote::Refusal::WrongDigest,
    promote::Refusal::WrongEpoch => promote::Refusal::WrongEpoch,
    promote::Refusal::Unreadable => promote::Refusal::Unreadable,
]);

each!(plain_waits: Waiting = [
    Waiting::SourceUnreachable => Waiting::SourceUnreachable,
    Waiting::SourceRefuses(_) => Waiting::SourceRefuses(peer::Refusal::NotYet),
    Waiting::SourceMalformed => Waiting::SourceMalformed,
    Waiting::SourceRestarted => Waiting::SourceRestarted,
    Waiting::SourceDead => Waiting::SourceDead,
    Waiting::PromoteRefused(_) => Waiting::PromoteRefused(promote::Refusal::NeverReached),
    Waiting::Damaged { .. } => Waiting::Damaged { base: Offset(9), position: 77 },
    Waiting::FreezeDuty => Waiting::FreezeDuty,
    Waiting::FreezeMax => Waiting::FreezeMax,
    Waiting::LeaderUnreachable => Waiting::LeaderUnreachable,
    Waiting::DiskFull => Waiting::DiskFull,
    Waiting::Disk => Waiting::Disk,
    Waiting::CopyUnverifiable => Waiting::CopyUnverifiable,
    Waiting::FlipRejected(_) => Waiting::FlipRejected(Reason::MoveChanged),
]);

each!(blockers: Blocker = [
    Blocker::UnknownMember => Blocker::UnknownMember,
    Blocker::Retired => Blocker::Retired,
    Blocker::BelowMinVoters { .. } => Blocker::BelowMinVoters { left: 2, min_voters: 3 },
    Blocker::NoHealthyMajority { .. } => Blocker::NoHealthyMajority { healthy: 1, left: 3 },
    Blocker::NoReceivers { .. } => Blocker::NoReceivers { owned: 4 },
    Blocker::OwnerDead { .. } => Blocker::OwnerDead { owned: 4 },
    Blocker::Pinned { .. } => Blocker::Pinned { pinned: 1 },
]);

fn waits() -> Vec<Waiting> {
    let mut all = plain_waits();
    all.extend(refusals().into_iter().map(Waiting::SourceRefuses));
    all.extend(promotions().into_iter().map(Waiting::PromoteRefused));
    all.extend(rejections().into_iter().map(Waiting::FlipRejected));
    all
}

fn progress(waiting: Option<Waiting>, holds_slot: bool) -> Progress {
    Progress {
        phase: Phase::Waiting,
        source: None,
        move_id: None,
        attempt: None,
        staged_bytes: 10,
        listed_bytes: 30,
        tail_bytes: 0,
        copy_rate: 5,
        write_rate: 0,
        freeze_ms: None,
        passes: 0,
        attempts: 1,
        waiting,
        holds_slot,
    }
}

/// Every reason of a mover is a verdict that says what it is and who can help: waiting while it may
/// pass, blocked once it has failed so often that the move has no slot any more (field fault 11).
#[test]
fn every_wait_has_a_text_and_a_remedy() {
    for waiting in waits() {
        let first = of_progress(&progress(Some(waiting), true), ENDS);
        let (reason, help) = match &first {
            Verdict::Waiting { reason, who, .. } => (reason, who),
            Verdict::Blocked { reason, remedy, .. } => (reason, remedy),
            other => panic!("{waiting:?} is {other:?}"),
        };
        for text in [reason, help] {
            assert!(text.len() > 8 && !text.contains("  ") && !text.ends_with('.'), "{text:?}");
        }
        assert_eq!(first.cause(), Some(cause_of(waiting)));
        assert_eq!(first.course(), waiting.course(), "{waiting:?}: what is said is what is judged");
        let often = of_progress(&progress(Some(waiting), false), ENDS);
        // What passes at a set time needs nobody, however often it was tried.
        let is_timed =
            matches!(waiting, Waiting::PromoteRefused(promote::Refusal::TooEarly { .. }));
        assert_eq!(often.is_blocked(), !is_timed, "{waiting:?}: {often:?}");
        assert_eq!(often.cause(), first.cause());
    }
    let going = of_progress(&progress(None, true), ENDS);
    assert_eq!(going, Verdict::progressing(10, 30, 5));
}

/// A dead source whose copy does not do is blocked, whatever is wrong with the copy; one that is only
/// dead for too short a time is not (field faults 45, 46 and 48).
#[test]
fn only_time_is_waited_for_when_the_source_is_dead() {
    for refusal in promotions() {
        let waits = matches!(refusal, promote::Refusal::TooEarly { .. });
        let verdict = of_waiting(Waiting::PromoteRefused(refusal), ENDS).verdict();
        assert_eq!(verdict.is_blocked(), !waits, "{refusal:?}");
        if let Verdict::Blocked { remedy, .. } = verdict {
            assert!(remedy.contains("start n1 again"), "{remedy}");
        }
    }
}

/// Field fault 13: what is damaged is named to the byte.
#[test]
fn damage_is_named() {
    let verdict = of_waiting(Waiting::Damaged { base: Offset(9), position: 77 }, ENDS).verdict();
    let Verdict::Blocked { reason, .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!(reason, "segment 9 of orders/3 is damaged on n1, at byte 77");
}

#[test]
fn every_blocker_names_the_member_or_the_numbers() {
    for blocker in blockers() {
        let advice = of_blocker(blocker, "n4");
        assert!(matches!(advice.help, Help::Needed(_)), "{blocker:?}");
        let says = advice.reason.contains("n4") || advice.reason.contains(char::is_numeric);
        assert!(says, "{}", advice.reason);
    }
}

/// Every cause that the API documents comes up somewhere.
#[test]
fn every_cause_is_reachable() {
    let mut found: BTreeSet<Cause> = waits().into_iter().map(cause_of).collect();
    found.extend(blockers().into_iter().map(|one| of_blocker(one, "n4").code));
    found.extend(draining::tests::causes());
    found.extend(status::tests::causes());
    found.extend(stopping::tests::causes());
    found.extend(planning::tests::causes());
    let n2 = Name::new("n2").expect("a name");
    found.extend([starting(&n2).code, silent(&n2).code]);
    let all: BTreeSet<Cause> = Cause::ALL.iter().copied().collect();
    let missing: Vec<&Cause> = all.difference(&found).collect();
    assert!(missing.is_empty(), "nothing leads to {missing:?}");
}
