use narad_core::controller::preflight;
use narad_core::ids::MoveId;

use super::*;
use crate::server::node_service::advice;

pub(in crate::server::node_service) fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// A move of `orders/PARTITION` from one member to another.
pub(in crate::server::node_service) fn moved(
    partition: u32,
    from: &str,
    to: &str,
    verdict: Option<Verdict>,
) -> MoveView {
    MoveView {
        topic: name("orders"),
        partition,
        from: name(from),
        to: name(to),
        move_id: MoveId(2),
        phase: None,
        bytes_staged: None,
        bytes_total: None,
        bytes_per_second: None,
        predicted_freeze_ms: None,
        waiting: None,
        source_dead: false,
        attempts: None,
        verdict,
    }
}

fn leaver() -> Leaver {
    with(leaving())
}

fn leaving() -> Drain {
    Drain { stage: Stage::Leaves, takes_part: true, owned: 2, outbound: 2, ..Drain::default() }
}

fn with(drain: Drain) -> Leaver {
    Leaver { name: name("n4"), drain }
}

fn going(bytes: u64) -> Verdict {
    Verdict::progressing(bytes, 100, 10)
}

fn full() -> Verdict {
    let (code, reason, remedy) = (Cause::DiskFull, "full".to_owned(), "free".to_owned());
    Verdict::Blocked { code, reason, remedy }
}

fn early() -> Verdict {
    advice::starting(&name("n2")).verdict()
}

fn judge(leaver: &Leaver, moves: &[MoveView], word: OwnWord) -> Verdict {
    leaver.view(moves, word).verdict.expect("it leaves")
}

/// What a member that owns nothing any more waits for.
fn later() -> Vec<(Leaver, OwnWord, Cause)> {
    let empty = Drain { owned: 0, outbound: 0, ..leaving() };
    let word = |backlog, left_behind| OwnWord {
        left: verdict::OwnWord { backlog: Some(backlog), left_behind: Some(left_behind) },
        bytes: Some(0),
    };
    let blocker = preflight::Blocker::BelowMinVoters { left: 2, min_voters: 3 };
    let out = Drain { stage: Stage::DrainedOut, ..empty.clone() };
    vec![
        (with(Drain { inbound: 1, ..empty.clone() }), word(5, 1), Cause::Inbound),
        (with(Drain { life: Life::Dead, ..empty.clone() }), word(0, 0), Cause::MemberDead),
        (with(Drain { blockers: vec![blocker], ..out.clone() }), word(0, 0), Cause::BelowMinVoters),
        (with(empty.clone()), word(5, 1), Cause::Backlog),
        (with(empty.clone()), word(0, 1), Cause::Backlog),
        (with(empty), word(0, 0), Cause::Retiring),
        (with(Drain { life: Life::Retired, ..out }), word(0, 0), Cause::Voting),
    ]
}

/// What a member that still owns partitions waits for.
fn before() -> Vec<(Leaver, Vec<MoveView>, Cause)> {
    let dead = with(Drain { life: Life::Dead, ..leaving() });
    let none = preflight::Blocker::NoReceivers { owned: 2 };
    let promoting =
        |partition| moved(partition, "n4", "n2", Some(advice::starting(&name("n2")).verdict()));
    vec![
        (
            leaver(),
            vec![moved(1, "n4", "n2", Some(full())), moved(2, "n4", "n2", Some(early()))],
            Cause::DiskFull,
        ),
        (leaver(), vec![moved(2, "n4", "n2", Some(early()))], Cause::Starting),
        (leaver(), vec![moved(2, "n4", "n2", None)], Cause::DestinationSilent),
        (with(Drain { pinned: 2, ..leaving() }), Vec::new(), Cause::Pinned),
        (with(Drain { blockers: vec![none], ..leaving() }), Vec::new(), Cause::NoReceivers),
        (with(Drain { paused: true, ..leaving() }), Vec::new(), Cause::Paused),
        // Moves of others are none of its business.
        (leaver(), vec![moved(3, "n1", "n2", Some(full()))], Cause::Slots),
        (dead.clone(), vec![promoting(1)], Cause::OwnerDead),
        (dead, vec![promoting(1), promoting(2)], Cause::Starting),
    ]
}

pub(in crate::server::node_service) fn causes() -> Vec<Cause> {
    let before = before().into_iter().map(|(.., cause)| cause);
    before.chain(later().into_iter().map(|(.., cause)| cause)).collect()
}

#[test]
fn what_moves_counts_as_long_as_anything_moves() {
    let moves = [moved(1, "n4", "n2", Some(going(40))), moved(2, "n4", "n3", Some(going(20)))];
    let word = OwnWord { bytes: Some(500), ..OwnWord::default() };
    assert_eq!(judge(&leaver(), &moves, word), Verdict::progressing(60, 500, 20));
    assert_eq!(judge(&leaver(), &moves, OwnWord::default()), Verdict::progressing(60, 200, 20));
    // Field fault 46: one that is blocked holds up no other.
    let moves = [moved(1, "n4", "n2", Some(full())), moved(2, "n4", "n3", Some(going(20)))];
    assert_eq!(judge(&leaver(), &moves, OwnWord::default()), Verdict::progressing(20, 100, 10));
}

#[test]
fn each_step_of_a_decommission_says_what_it_waits_for() {
    for (leaver, moves, cause) in before() {
        let verdict = judge(&leaver, &moves, OwnWord::default());
        assert_eq!(verdict.cause(), Some(cause), "{leaver:?}: {verdict:?}");
    }
    for (leaver, word, cause) in later() {
        let verdict = judge(&leaver, &[], word);
        assert_eq!(verdict.cause(), Some(cause), "{leaver:?}: {verdict:?}");
    }
    // The partition that is blocked is named.
    let verdict = judge(&leaver(), &[moved(1, "n4", "n2", Some(full()))], OwnWord::default());
    let Verdict::Blocked { reason, .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!(reason, "orders/1: full");
}

/// Field fault 39: who does not leave has no verdict at all. Done is only who has no vote any more.
#[test]
fn only_who_is_out_is_done() {
    let stays = with(Drain { stage: Stage::Stays, ..leaving() });
    assert_eq!(stays.view(&[], OwnWord::default()).verdict, None);
    let out = Drain { life: Life::Retired, takes_part: false, ..leaving() };
    assert!(judge(&with(out), &[], OwnWord::default()).is_done());
}
