//! When it plans, on what, and what it may ask for.

use narad_core::controller::{Event, Note, Operation, Outcome};
use narad_core::effects::OpId;
use narad_core::ids::*;
use narad_core::metastore::*;
use narad_core::proposals::Proposed;

use super::{Bench, SECOND, commands};

/// R4, R6, R10: everything that the controller can ask for, by name. Nothing here names another
/// node's partition, directory or freeze; a new kind of operation does not compile until somebody
/// has thought about that.
fn speaks_to_the_log_only(operation: &Operation) -> bool {
    match operation {
        // Reads the log; appends a guarded command to it; changes who takes part in it, and who
        // leads it.
        Operation::Survey
        | Operation::Propose(_)
        | Operation::Configure(_)
        | Operation::Transfer { to: _ } => true,
    }
}

/// R4, R6, R10.
#[test]
fn the_controller_speaks_to_the_log_only() {
    let mut bench = Bench::new(3);
    bench.topic("orders", 6, None);
    let asked = bench.work();
    assert!(!asked.is_empty() && asked.iter().all(speaks_to_the_log_only));
}

/// R77, R79, cases M135 and M137: a new leader decides nothing before its barrier, and nothing at
/// all without one.
#[test]
fn nothing_is_decided_without_a_barrier() {
    let mut bench = Bench::new(3);
    bench.topic("orders", 6, None);
    bench.tell(Event::Wake);
    let asked = bench.asked();
    assert!(matches!(asked.as_slice(), [(_, Operation::Survey)]), "{asked:?}");
    bench.tell(Event::Done(asked[0].0, Outcome::Survey(None)));
    assert_eq!(bench.asked(), []);
    assert!(!bench.pass().is_empty(), "it tries again");
}

/// R4: a follower's controller is inert, and so is a former leader's, whatever still comes in.
#[test]
fn a_follower_decides_nothing() {
    let mut bench = Bench::unled(3);
    bench.topic("orders", 6, None);
    bench.tell(Event::Dirty);
    bench.tell(Event::Wake);
    assert_eq!((bench.controller.deadline(), bench.asked()), (None, vec![]));

    bench.tell(Event::Leading(true));
    let asked = bench.pass();
    bench.tell(Event::Leading(false));
    for (op, _) in asked {
        bench.tell(Event::Done(op, Outcome::Propose(Proposed::Unknown)));
    }
    assert_eq!((bench.controller.deadline(), bench.asked()), (None, vec![]));
}

/// R78: who leads once more does not take what was asked before for what it asks now.
#[test]
fn no_reign_takes_an_answer_to_an_earlier_one_for_its_own() {
    let mut bench = Bench::new(3);
    bench.topic("orders", 6, None);
    bench.tell(Event::Wake);
    let earlier = bench.asked();
    bench.tell(Event::Leading(false));
    bench.tell(Event::Leading(true));
    bench.tell(Event::Wake);
    let own = bench.asked();
    let ([(first, Operation::Survey)], [(second, Operation::Survey)]) = (&earlier[..], &own[..])
    else {
        panic!("{earlier:?}, {own:?}");
    };
    assert_ne!(first, second, "an answer names its question");
}

/// R78, H29: one pass at a time; what happens meanwhile is looked at in the next.
#[test]
fn a_pass_begins_when_the_one_before_is_over() {
    let mut bench = Bench::new(3);
    bench.topic("orders", 2, None);
    let asked = bench.pass();
    assert_eq!(asked.len(), 2);
    for (op, _) in &asked {
        bench.tell(Event::Dirty);
        bench.wait(SECOND * 3);
        assert_eq!(bench.asked(), [], "a proposal is open");
        bench.tell(Event::Done(*op, Outcome::Propose(Proposed::Unknown)));
    }
    assert_eq!(bench.pass().len(), 2, "Unknown is asked again, and the guard decides");
}

/// However often something changes, passes keep their distance.
#[test]
fn passes_keep_their_distance() {
    let mut bench = Bench::new(3);
    bench.work();
    let before = bench.now;
    bench.tell(Event::Dirty);
    bench.tell(Event::Wake);
    assert_eq!(bench.asked(), []);
    bench.work();
    assert_eq!(bench.now.since(before), narad_core::config::Config::new(1).pass_interval);
}

/// H29: what the state has outrun is rejected there, noted, and planned anew.
#[test]
fn a_stale_plan_is_rejected_by_its_guard() {
    let mut bench = Bench::new(2);
    let topic = bench.topic("orders", 4, None);
    bench.work();
    bench.join(3);
    bench.register(3, 1);
    let asked = bench.pass();
    let Some((_, Operation::Propose(Command::SetTarget { partition, expect, .. }))) = asked.first()
    else {
        panic!("{asked:?}");
    };
    assert_eq!(partition.topic, topic);
    let (partition, expect) = (*partition, *expect);
    bench.done(1, Command::SetTarget { partition, expect, to: NodeId(3) });
    let (op, Operation::Propose(command)) = asked[0].clone() else { unreachable!() };
    let reply = bench.apply(1, command);
    assert_eq!(reply, Reply::Rejected(Reason::MoveChanged));
    bench.tell(Event::Done(op, Outcome::Propose(Proposed::Replied(reply))));
    bench.asked();
    assert!(bench.notes.contains(&Note::Outrun(Reason::MoveChanged)));
}

/// The targets and the questions of a pass.
fn set_and_asked(asked: &[(OpId, Operation)]) -> (Vec<PartitionId>, Vec<PartitionId>) {
    let (mut set, mut doubted) = (vec![], vec![]);
    for (_, operation) in asked {
        match operation {
            Operation::Propose(Command::SetTarget { partition, .. }) => set.push(*partition),
            Operation::Propose(Command::ClearTarget { partition, .. }) => doubted.push(*partition),
            other => panic!("{other:?}"),
        }
    }
    (set, doubted)
}

/// A third node is empty, one move may run, and it is not known whether its target was set: it may
/// be, and the barrier of a later pass does not show it. What was to move is pinned, so that another
/// partition would be chosen now.
fn in_doubt() -> (Bench, Command) {
    let mut bench = Bench::new(2);
    bench.topic("orders", 4, None);
    bench.work();
    bench.policy(|policy| policy.max_in_flight = 1);
    bench.join(3);
    bench.register(3, 1);
    bench.vote(1..=3, []);
    let asked = bench.pass();
    let [(op, Operation::Propose(late @ Command::SetTarget { partition, .. }))] = asked.as_slice()
    else {
        panic!("{asked:?}")
    };
    bench.tell(Event::Done(*op, Outcome::Propose(Proposed::Unknown)));
    bench.done(2, Command::SetPin { partition: *partition, on: true });
    (bench, late.clone())
}

/// S14, rule 5: after an unknown outcome nothing is planned until it is known; clearing the target gives
/// the row another id, so that a late one is refused.
#[test]
fn nothing_is_planned_beside_a_target_in_doubt() {
    let (mut bench, late) = in_doubt();
    let Command::SetTarget { partition, .. } = late else { unreachable!() };
    for _ in 0..3 {
        let asked = bench.pass();
        assert_eq!(set_and_asked(&asked), (vec![], vec![partition]), "nobody has said yet");
        bench.tell(Event::Done(asked[0].0, Outcome::Propose(Proposed::Unknown)));
    }
    assert_eq!(bench.work().len(), 1, "it is asked once more");
    assert_eq!(bench.apply(1, late), Reply::Rejected(Reason::MoveChanged), "too late");
    let (set, doubted) = set_and_asked(&bench.pass());
    assert_eq!(doubted, []);
    assert!(set.len() == 1 && set[0] != partition, "{set:?}");
}

/// S14: the target in doubt was set after all, and has the place of the only move.
#[test]
fn a_target_in_doubt_may_come_late() {
    let (mut bench, late) = in_doubt();
    let Command::SetTarget { partition, .. } = late else { unreachable!() };
    let asked = bench.pass();
    assert_eq!(set_and_asked(&asked), (vec![], vec![partition]));
    bench.done(1, late);
    let (op, Operation::Propose(question)) = asked[0].clone() else { unreachable!() };
    let reply = bench.apply(1, question);
    assert_eq!(reply, Reply::Rejected(Reason::MoveChanged), "it ends no move");
    bench.tell(Event::Done(op, Outcome::Propose(Proposed::Replied(reply))));
    assert_eq!(bench.pass(), [], "one may run, and one does");
    assert!(bench.state.assignment(partition).unwrap().target.is_some());
}

/// S14: the row itself tells, should no answer come.
#[test]
fn a_row_settles_a_doubt() {
    let (mut bench, late) = in_doubt();
    bench.done(1, late);
    assert_eq!(bench.pass(), []);
}

/// K107, R81: first owners come from the planner: spread, even, apart from their relatives; and a
/// partition that has an owner keeps it (case M135).
#[test]
fn first_owners_are_spread_and_apart_from_relatives() {
    let mut bench = Bench::new(3);
    let parent = bench.topic("orders", 30, None);
    let child = bench.topic("orders-audit", 30, Some(parent));
    for at in 0..9 {
        bench.topic(&format!("single-{at}"), 1, None);
    }
    let mut passes = 0;
    while bench.state.unassigned().len() > 0 {
        bench.work();
        passes += 1;
        assert!(passes < 5, "64 a pass");
    }
    let counts: Vec<usize> = (1..=3).map(|id| bench.state.owned_count(NodeId(id))).collect();
    assert_eq!(counts, [23, 23, 23]);
    let owner = |topic, index| bench.state.assignment(PartitionId { topic, index }).unwrap().owner;
    let together = (0..30).filter(|index| owner(parent, *index) == owner(child, *index)).count();
    assert_eq!(together, 0, "R81");
    assert!(bench.work().is_empty(), "nothing is left to move");
}

/// R75, S14, case 140: a move that its destination reports stuck gives its slot to another, while
/// it is stuck and only while it is that move.
#[test]
fn a_stuck_move_holds_no_slot() {
    let mut bench = Bench::new(1);
    bench.topic("orders", 8, None);
    bench.work();
    bench.policy(|policy| policy.max_in_flight = 1);
    for id in 2..=3 {
        bench.join(id);
        bench.register(id, 1);
    }
    assert_eq!(commands(&bench.work()).len(), 1);
    let stuck = bench.state.targeted().next().unwrap();
    let row = bench.state.assignment(stuck).unwrap().clone();
    let target = row.target.unwrap().0;
    bench.hear(target);
    assert!(commands(&bench.work()).is_empty(), "the slot is taken");
    bench.hear_stuck(target, [(stuck, row.move_id.next())]);
    assert!(commands(&bench.work()).is_empty(), "another move is stuck, not this one");
    bench.hear_stuck(5 - target, [(stuck, row.move_id)]);
    assert!(commands(&bench.work()).is_empty(), "only its destination knows");
    bench.hear_stuck(target, [(stuck, row.move_id)]);
    assert_eq!(commands(&bench.work()).len(), 1, "another one starts");
    bench.hear(target);
    assert!(commands(&bench.work()).is_empty());
}

/// A plan that started nothing is not made again before something has changed.
#[test]
fn a_paused_planner_plans_nothing_and_goes_on_afterwards() {
    let mut bench = Bench::new(1);
    bench.topic("orders", 8, None);
    bench.work();
    bench.policy(|policy| policy.paused = true);
    bench.join(2);
    bench.register(2, 1);
    assert!(commands(&bench.work()).is_empty());
    bench.policy(|policy| policy.paused = false);
    assert_eq!(commands(&bench.work()).len(), 2, "two may leave one node at once");
}
