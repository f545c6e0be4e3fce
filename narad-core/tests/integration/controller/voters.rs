//! Who has a vote: learners first, leavers replaced, the leader last.

use std::collections::BTreeSet;

use narad_core::controller::{Change, Note, Operation};
use narad_core::ids::*;
use narad_core::metastore::*;

use super::{Bench, SECOND, commands};

fn step(bench: &mut Bench) -> Option<Operation> {
    let asked = bench.work();
    let steps: Vec<Operation> = asked
        .into_iter()
        .filter(|operation| {
            matches!(operation, Operation::Configure(_) | Operation::Transfer { .. })
        })
        .collect();
    assert!(steps.len() <= 1, "one step a pass: {steps:?}");
    steps.into_iter().next()
}

fn change(bench: &mut Bench) -> Option<Change> {
    match step(bench) {
        Some(Operation::Configure(change)) => Some(change),
        Some(other) => panic!("{other:?}"),
        None => None,
    }
}

fn retire(bench: &mut Bench, id: u64) {
    bench.drain_out(id);
    bench.done(1, Command::Retire { node: NodeId(id), receipt: None });
}

/// A member that has joined receives the log before it can even register, then a vote once it has
/// caught up, up to `voters_max`.
#[test]
fn a_newcomer_learns_first_and_votes_once_it_has_caught_up() {
    let mut bench = Bench::new(3);
    bench.join(4);
    assert_eq!(change(&mut bench), Some(Change::AddLearner(NodeId(4))));
    bench.vote(1..=3, [4]);
    assert_eq!(change(&mut bench), None, "it has not registered");
    bench.register(4, 1);
    bench.matched.insert(NodeId(4), LogIndex(0));
    for at in 0..80 {
        bench.topic(&format!("filler-{at}"), 1, None);
    }
    assert_eq!(change(&mut bench), None, "it lags");
    bench.matched.clear();
    assert_eq!(change(&mut bench), Some(Change::Promote(NodeId(4))));
    bench.vote(1..=4, []);
    bench.policy(|policy| policy.voters_max = 4);
    bench.join(5);
    bench.register(5, 1);
    bench.vote(1..=4, [5]);
    assert_eq!(change(&mut bench), None, "there are enough");
}

/// R87: the place of a voter that drains is filled before it goes; when it goes, nobody else comes.
#[test]
fn a_leaving_voter_is_replaced_once() {
    let mut bench = Bench::new(3);
    bench.policy(|policy| policy.voters_max = 3);
    for id in 4..=5 {
        bench.join(id);
        bench.register(id, 1);
    }
    bench.vote(1..=3, [4, 5]);
    assert_eq!(change(&mut bench), None);
    bench.done(1, Command::SetDraining { node: NodeId(3), on: true });
    assert_eq!(change(&mut bench), Some(Change::Promote(NodeId(4))));
    bench.vote(1..=4, [5]);
    retire(&mut bench, 3);
    assert_eq!(change(&mut bench), Some(Change::Remove(NodeId(3))), "its place is taken already");
}

/// R87: a voter that is retired while there is room is replaced in one joint step.
#[test]
fn a_retired_voter_is_replaced_in_one_step_where_there_is_room() {
    let mut bench = Bench::new(4);
    bench.policy(|policy| policy.voters_max = 4);
    bench.vote(1..=4, []);
    retire(&mut bench, 4);
    bench.join(5);
    bench.register(5, 1);
    bench.vote(1..=4, [5]);
    let replace = Change::Replace { add: NodeId(5), remove: NodeId(4) };
    assert_eq!(change(&mut bench), Some(replace));
}

/// S15: a voter stays while the rest could not decide without it.
#[test]
fn nobody_is_removed_whom_the_rest_needs() {
    let mut bench = Bench::new(5);
    retire(&mut bench, 5);
    for id in 3..=4 {
        bench.done(1, Command::MarkDead { node: NodeId(id), incarnation: Incarnation(1) });
    }
    assert_eq!(change(&mut bench), None, "two of four are no majority");
    bench.register(3, 2);
    assert_eq!(change(&mut bench), Some(Change::Remove(NodeId(5))));
}

/// R88: a leaving leader hands over before anybody removes it, and asks another heir if the first
/// does not take it; never one that leaves, lags or is dead.
#[test]
fn a_leaving_leader_hands_over_to_one_after_the_other() {
    let mut bench = Bench::new(6);
    for id in 3..=4 {
        bench.done(1, Command::SetDraining { node: NodeId(id), on: true });
    }
    retire(&mut bench, 1);
    let mut asked = BTreeSet::new();
    for _ in 0..3 {
        match step(&mut bench) {
            Some(Operation::Transfer { to }) => asked.insert(to.0),
            other => panic!("{other:?}"),
        };
        bench.wait(SECOND);
    }
    assert_eq!(asked, BTreeSet::from([2, 5, 6]));
    assert!(bench.notes.contains(&Note::HandingOver { to: NodeId(2) }));
}

/// R88, L3: where everybody else drains too, one of them takes the lead: it may have to stay, and the
/// leader that is retired could never be removed.
#[test]
fn a_leaving_leader_hands_over_to_one_that_drains_if_nobody_stays() {
    let mut bench = Bench::new(3);
    bench.policy(|policy| policy.min_voters = 1);
    retire(&mut bench, 1);
    bench.done(1, Command::SetDraining { node: NodeId(2), on: true });
    let to = NodeId(3);
    assert_eq!(step(&mut bench), Some(Operation::Transfer { to }), "it stays");
    assert_eq!(step(&mut bench), Some(Operation::Transfer { to }), "it is asked again");
    bench.done(1, Command::SetDraining { node: NodeId(3), on: true });
    let to = NodeId(2);
    assert_eq!(step(&mut bench), Some(Operation::Transfer { to }), "nobody stays");
    bench.done(1, Command::MarkDead { node: NodeId(3), incarnation: Incarnation(1) });
    assert_eq!(step(&mut bench), Some(Operation::Transfer { to }), "the other one is dead");
}

/// A joint change that is under way ends by itself; one that does not is ended.
#[test]
fn a_joint_change_is_ended_only_if_it_is_stuck() {
    let mut bench = Bench::new(3);
    let joint = Configuration {
        voters: [1, 2, 3].map(NodeId).into(),
        voters_outgoing: [1, 2].map(NodeId).into(),
        learners: BTreeSet::new(),
    };
    let index = LogIndex(bench.state.applied().0 + 1);
    bench.state.configure(index, joint).unwrap();
    let mut waited = 0;
    let end = loop {
        if let Some(change) = change(&mut bench) {
            break change;
        }
        bench.wait(SECOND);
        waited += 1;
        assert!(waited < 60);
    };
    assert_eq!(end, Change::LeaveJoint);
    assert!(waited >= 4, "{waited}");
}

/// R86, H24: a drained node is retired; a refusal is not asked again until something has changed
/// that it depends on, so that a blocked drain does not fill the log.
#[test]
fn a_refused_retirement_waits_for_a_change() {
    let mut bench = Bench::new(3);
    bench.drain_out(3);
    let retire = Command::Retire { node: NodeId(3), receipt: None };
    assert!(commands(&bench.work()).contains(&retire));
    bench.work();
    let blocked = Note::RetireBlocked { node: NodeId(3), reason: Reason::BelowMinVoters };
    assert!(bench.notes.contains(&blocked));
    for _ in 0..20 {
        assert_eq!(commands(&bench.work()), []);
    }
    assert_eq!(bench.notes.iter().filter(|note| **note == blocked).count(), 1);
    bench.join(4);
    bench.register(4, 1);
    bench.vote(1..=4, []);
    assert_eq!(commands(&bench.work()), [retire]);
    assert!(bench.state.member(NodeId(3)).unwrap().retired);
}
