use super::*;
use crate::server::node_service::advice;
use crate::server::node_service::draining::tests::{moved, name};

fn member(text: &str, status: MemberStatus, owned: u64) -> MemberView {
    MemberView {
        id: name(text),
        node: NodeId(1),
        addr: "h:1".to_owned(),
        peer_addr: "h:2".to_owned(),
        status,
        draining: false,
        drained_out: false,
        role: crate::service::Role::Voter,
        leader: false,
        incarnation: narad_core::ids::Incarnation(1),
        owned_partitions: owned,
        inbound_moves: 0,
        outbound_moves: 0,
        bytes: None,
        free_bytes: None,
    }
}

fn calm() -> ClusterView {
    ClusterView {
        member: name("n1"),
        leader: Some(name("n1")),
        quorum: QuorumView { voters: vec![name("n1"), name("n2")], alive: 2, needed: 2 },
        paused: false,
        partitions: 4,
        unassigned: 0,
        unserved: 0,
        planned: 0,
        members: vec![
            member("n1", MemberStatus::Alive, 2),
            member("n2", MemberStatus::Alive, 2),
            member("n0", MemberStatus::Retired, 0),
        ],
        moves: Vec::new(),
        drains: Vec::new(),
        verdict: Verdict::Done { proof: String::new() },
        next: Vec::new(),
    }
}

fn judged(mut view: ClusterView) -> ClusterView {
    judge(&mut view);
    view
}

fn cases() -> Vec<(ClusterView, Cause)> {
    let dead =
        |owned| vec![member("n1", MemberStatus::Alive, 2), member("n2", MemberStatus::Dead, owned)];
    let full = {
        let mut members = calm().members;
        members[1].free_bytes = Some(4096);
        members
    };
    let both_dead = {
        let mut one = moved(1, "n1", "n2", None);
        one.source_dead = true;
        one.verdict = Some(advice::dead_target(&one, false).verdict());
        one
    };
    vec![
        (ClusterView { leader: None, ..calm() }, Cause::NoLeader),
        (ClusterView { members: dead(2), ..calm() }, Cause::OwnerDead),
        (ClusterView { members: dead(0), ..calm() }, Cause::MemberDead),
        (ClusterView { moves: vec![both_dead], ..calm() }, Cause::DestinationDead),
        (ClusterView { members: full, ..calm() }, Cause::DiskFull),
        (ClusterView { unassigned: 3, ..calm() }, Cause::Unassigned),
        (ClusterView { planned: 3, paused: true, ..calm() }, Cause::Paused),
        (ClusterView { planned: 3, ..calm() }, Cause::Slots),
    ]
}

pub(in crate::server::node_service) fn causes() -> Vec<Cause> {
    cases().into_iter().map(|(_, cause)| cause).collect()
}

#[test]
fn each_trouble_has_its_verdict_and_says_what_is_next() {
    for (view, cause) in cases() {
        let view = judged(view);
        assert_eq!(view.verdict.cause(), Some(cause), "{view:?}");
        let nobody = matches!(cause, Cause::Unassigned | Cause::Slots);
        let only_watch = view.next.iter().all(|line| line.starts_with("watch it"));
        assert_eq!(only_watch, nobody, "{cause:?}: {:?}", view.next);
    }
}

#[test]
fn a_calm_cluster_is_done_with_a_proof() {
    let view = judged(calm());
    let Verdict::Done { proof } = &view.verdict else { panic!("{:?}", view.verdict) };
    assert!(proof.starts_with("all is served: 4 partitions, by 2 members; "), "{proof}");
    assert!(view.next.is_empty());
}

/// Somebody has to look at what is blocked, even while other things go on.
#[test]
fn what_is_blocked_comes_before_what_goes_on() {
    let going = moved(1, "n1", "n2", Some(Verdict::progressing(1, 2, 1)));
    let moves = vec![going.clone(), moved(2, "n1", "n2", None)];
    let view = judged(ClusterView { moves, ..calm() });
    assert_eq!(view.verdict, Verdict::progressing(1, 2, 1));
    assert_eq!(view.next.len(), 1, "who says nothing is to be looked at: {:?}", view.next);
    let full = Verdict::Blocked {
        code: Cause::DiskFull,
        reason: "the disk of n2 is full".to_owned(),
        remedy: "free space on n2".to_owned(),
    };
    let blocked: Vec<MoveView> =
        (0..12).map(|partition| moved(partition, "n1", "n2", Some(full.clone()))).collect();
    let moves = [vec![going], blocked].concat();
    let view = judged(ClusterView { moves, ..calm() });
    assert_eq!(view.verdict.cause(), Some(Cause::DiskFull));
    assert_eq!(view.next.len(), 9);
    assert_eq!(view.next[0], "orders/0: the disk of n2 is full: free space on n2");
    assert_eq!(view.next[8], "and 4 more: narad cluster moves");
}

/// A dead member whose partitions are being taken over is not blocked: the moves say how it is.
#[test]
fn a_dead_member_whose_partitions_are_taken_over_is_only_missed() {
    let mut view = calm();
    view.members[1] = member("n2", MemberStatus::Dead, 1);
    view.moves = vec![moved(1, "n2", "n1", Some(advice::starting(&name("n1")).verdict()))];
    assert_eq!(judged(view).verdict.cause(), Some(Cause::MemberDead));
}

/// Nothing is planned anew while moves are paused: whoever reads otherwise waits in vain.
#[test]
fn who_can_help_a_move_to_a_dead_node_depends_on_a_pause() {
    let who = |paused| match advice::dead_target(&moved(1, "n1", "n2", None), paused).verdict() {
        Verdict::Waiting { who, .. } => who,
        other => panic!("{other:?}"),
    };
    assert!(who(false).contains("by itself"), "{}", who(false));
    assert!(who(true).contains("narad cluster resume"), "{}", who(true));
}
