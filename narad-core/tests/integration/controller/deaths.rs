//! Who is declared dead, and what becomes of moves to and from the dead.

use narad_core::config::Config;
use narad_core::controller::{Event, Note, Operation, Outcome};
use narad_core::effects::OpId;
use narad_core::ids::*;
use narad_core::metastore::*;
use narad_core::proposals::Proposed;

use super::{Bench, SECOND, commands};

fn deaths(bench: &mut Bench) -> Vec<u64> {
    let dead = |command: &Command| match command {
        Command::MarkDead { node, .. } => Some(node.0),
        _ => None,
    };
    commands(&bench.work()).iter().filter_map(dead).collect()
}

/// Hears the given nodes each second for so long; returns who is declared dead, and after how many
/// seconds.
fn listen(bench: &mut Bench, seconds: u64, heard: &[u64]) -> Vec<(u64, u64)> {
    let mut dead = vec![];
    for second in 1..=seconds {
        bench.wait(SECOND);
        for id in heard {
            bench.hear(*id);
        }
        dead.extend(deaths(bench).into_iter().map(|id| (id, second)));
    }
    dead
}

/// H19: silence is counted on the leader's clock, from the last sign of life.
#[test]
fn a_silent_member_is_declared_dead_after_the_timeout() {
    let mut bench = Bench::new(3);
    assert_eq!(listen(&mut bench, 60, &[2, 3]), []);
    let dead = listen(&mut bench, 60, &[2]);
    assert!(matches!(dead.as_slice(), [(3, 28..=31)]), "{dead:?}");
    assert!(bench.notes.contains(&Note::Silent { node: NodeId(3) }));
}

/// H19: a new leader begins to count anew, and listens for a while before it judges anybody.
#[test]
fn a_new_leader_listens_first() {
    let mut bench = Bench::new(3);
    listen(&mut bench, 29, &[2]);
    bench.tell(Event::Leading(false));
    bench.tell(Event::Leading(true));
    let dead = listen(&mut bench, 60, &[2]);
    assert!(matches!(dead.as_slice(), [(3, 28..=31)]), "{dead:?}");
}

/// Case M137: a leader that was suspended for an hour judges nobody on waking; it listens anew.
#[test]
fn a_leader_that_slept_judges_nobody_on_waking() {
    let mut bench = Bench::new(3);
    listen(&mut bench, 60, &[2, 3]);
    bench.now = bench.now.after(SECOND * 3_600);
    bench.tell(Event::Wake);
    assert_eq!(listen(&mut bench, 29, &[]), [], "what was said to it waits unread");
    assert_eq!(listen(&mut bench, 60, &[2, 3]), []);
}

/// Case M137: on waking, some of what was said meanwhile is read before the next pass and some is
/// not yet; those who are still unread are not dead.
#[test]
fn a_leader_that_slept_does_not_judge_those_whom_it_has_not_read_yet() {
    let mut bench = Bench::new(5);
    listen(&mut bench, 60, &[2, 3, 4, 5]);
    bench.now = bench.now.after(SECOND * 3_600);
    bench.hear(2);
    bench.hear(3);
    assert_eq!(deaths(&mut bench), []);
    assert_eq!(listen(&mut bench, 29, &[2, 3]), []);
    let dead = listen(&mut bench, 10, &[2, 3]);
    assert!(dead.iter().map(|(id, _)| *id).eq([4, 5]), "now they are: {dead:?}");
}

/// H19: the time for which a new leader listens first may be longer than the timeout.
#[test]
fn a_new_leader_listens_for_as_long_as_it_is_told_to() {
    let grace = SECOND * 90;
    let mut bench = Bench::with(3, Config { grace_after_election: grace, ..Config::new(1) });
    let dead = listen(&mut bench, 120, &[2]);
    assert!(matches!(dead.as_slice(), [(3, 90..=91)]), "{dead:?}");
}

/// Rule 5: a death whose fate is unknown may still take effect, so that it is asked for until the log
/// has decided, although its node is heard again; until then nobody may lease that life.
#[test]
fn a_death_that_was_asked_for_is_asked_for_until_the_log_has_decided() {
    let mut bench = Bench::new(3);
    listen(&mut bench, 40, &[2, 3]);
    let mark_dead = |asked: Vec<(OpId, Operation)>| {
        let dead = Command::MarkDead { node: NodeId(3), incarnation: Incarnation(1) };
        let found = asked.into_iter().find(|it| it.1 == Operation::Propose(dead.clone()));
        found.map(|(op, _)| op)
    };
    let mut first = None;
    for _ in 0..60 {
        bench.hear(2);
        let asked = bench.pass();
        let others = asked.iter().map(|(op, _)| *op).collect::<Vec<_>>();
        first = mark_dead(asked);
        for op in others {
            bench.tell(Event::Done(op, Outcome::Propose(Proposed::Unknown)));
        }
        if first.is_some() {
            break;
        }
    }
    assert!(first.is_some(), "node 3 is silent");

    bench.hear(3);
    let again = mark_dead(bench.pass()).expect("nobody knows what became of it");
    let death = Command::MarkDead { node: NodeId(3), incarnation: Incarnation(1) };
    let reply = bench.apply(1, death);
    bench.tell(Event::Done(again, Outcome::Propose(Proposed::Replied(reply))));
    bench.register(3, 2);
    assert_eq!(listen(&mut bench, 60, &[2, 3]), [], "its next life has nothing to do with that");
}

/// Case M137: a leader that hears a member whose death it has asked for is not deaf to it.
#[test]
fn a_member_whose_death_was_asked_for_and_is_heard_does_not_make_its_leader_deaf() {
    let mut bench = Bench::new(3);
    listen(&mut bench, 40, &[2, 3]);
    let unknown = |bench: &mut Bench| {
        let asked = bench.pass();
        for (op, _) in &asked {
            bench.tell(Event::Done(*op, Outcome::Propose(Proposed::Unknown)));
        }
        let operations: Vec<_> = asked.into_iter().map(|(_, operation)| operation).collect();
        commands(&operations).len()
    };
    let mut asked = 0;
    for _ in 0..60 {
        bench.hear(2);
        asked += unknown(&mut bench);
    }
    assert!(asked > 0, "node 3 is silent");
    // Now node 2 is silent, and node 3 is back.
    for _ in 0..60 {
        bench.hear(3);
        assert!(unknown(&mut bench) > 0, "it is asked about at each pass");
    }
    assert!(!bench.notes.contains(&Note::Deaf));
}

/// H32: a life that registers has given a sign; the silence of the life before is not its own.
#[test]
fn a_life_that_has_just_registered_is_not_judged_by_the_last() {
    let mut bench = Bench::new(3);
    listen(&mut bench, 60, &[2, 3]);
    listen(&mut bench, 29, &[2]);
    bench.register(3, 2);
    let dead = listen(&mut bench, 60, &[2]);
    assert!(matches!(dead.as_slice(), [(3, 28..=32)]), "{dead:?}");
}

/// A member that never registered has nothing to lose, and must be let in: it is not declared
/// dead.
#[test]
fn a_member_that_never_registered_is_not_declared_dead() {
    let mut bench = Bench::new(3);
    bench.join(4);
    assert_eq!(listen(&mut bench, 90, &[2, 3]), []);
}

/// Case M137: a leader that hears fewer voters than have just confirmed its barrier is deaf.
#[test]
fn a_deaf_leader_judges_nobody() {
    let mut bench = Bench::new(5);
    listen(&mut bench, 40, &[2, 3, 4, 5]);
    assert_eq!(listen(&mut bench, 60, &[2]), [], "three of five cannot all be gone");
    assert_eq!(bench.notes.iter().filter(|note| **note == Note::Deaf).count(), 1);
    let dead = listen(&mut bench, 60, &[2, 3]);
    assert!(dead.iter().map(|(id, _)| *id).eq([4, 5]), "{dead:?}");
}

/// Two nodes, of which the second receives the only partition's move.
fn moving() -> (Bench, PartitionId) {
    let mut bench = Bench::new(4);
    let topic = bench.topic("orders", 1, None);
    bench.work();
    let partition = PartitionId { topic, index: 0 };
    let expect = bench.state.assignment(partition).unwrap().expect();
    bench.done(1, Command::SetTarget { partition, expect, to: NodeId(2) });
    bench.done(1, Command::SetPin { partition, on: true });
    (bench, partition)
}

fn target(bench: &Bench, partition: PartitionId) -> Option<NodeId> {
    bench.state.assignment(partition).unwrap().target
}

/// K100: a target that has been dead for long enough is given up; one that comes back is not.
#[test]
fn a_target_that_stays_dead_is_given_up() {
    let (mut bench, partition) = moving();
    let incarnation = Incarnation(1);
    bench.done(1, Command::MarkDead { node: NodeId(2), incarnation });
    listen(&mut bench, 115, &[3, 4]);
    assert_eq!(target(&bench, partition), Some(NodeId(2)));
    listen(&mut bench, 10, &[3, 4]);
    assert_eq!(target(&bench, partition), None);
    assert!(bench.notes.contains(&Note::TargetGivenUp { partition, target: NodeId(2) }));
}

/// K109, field fault 37: a target that begins to drain is given up at once.
#[test]
fn a_target_that_drains_is_given_up_at_once() {
    let (mut bench, partition) = moving();
    bench.done(1, Command::SetDraining { node: NodeId(2), on: true });
    bench.work();
    assert_eq!(target(&bench, partition), None);
}

/// H46: while the owner is dead its target stays, whatever becomes of the target.
#[test]
fn a_dead_owners_target_stays() {
    let (mut bench, partition) = moving();
    let owner = bench.state.assignment(partition).unwrap().owner;
    let incarnation = Incarnation(1);
    bench.done(1, Command::MarkDead { node: owner, incarnation });
    bench.done(1, Command::MarkDead { node: NodeId(2), incarnation });
    bench.done(1, Command::SetDraining { node: NodeId(2), on: true });
    listen(&mut bench, 300, &[3, 4]);
    assert_eq!(target(&bench, partition), Some(NodeId(2)));
}

/// R80: what a dead node owns stays put, and is no reason to move anything else.
#[test]
fn partitions_of_the_dead_stay_put() {
    let mut bench = Bench::new(3);
    bench.topic("orders", 9, None);
    bench.work();
    bench.done(1, Command::MarkDead { node: NodeId(3), incarnation: Incarnation(1) });
    assert!(commands(&bench.work()).is_empty());
    assert_eq!(bench.state.owned_count(NodeId(3)), 3);
}
