//! One node alone, asked by peers: every question has exactly one answer, and the right one.

use std::collections::BTreeSet;

use narad_core::config::Config;
use narad_core::effects::Effects;
use narad_core::freeze::gate::{NotFrozen, Standing};
use narad_core::freeze::handoff::FreezeFault;
use narad_core::ids::*;
use narad_core::metastore::*;
use narad_core::node::Outcome;
use narad_core::node::{Effect, Event, Gating, GatingOutcome, Node, Note, Operation, Stop};
use narad_core::peer::{Answer, Refusal, Request, RequestId};
use narad_core::time::Instant;

use super::bench::Bench;
use super::world::n;

fn beat(life: u64) -> Request {
    Request::Heartbeat { incarnation: Incarnation(life), stuck: vec![] }
}

fn refused(refusal: Refusal) -> Answer {
    Answer::Refused(refusal)
}

/// H31: a heartbeat is answered with the index of a barrier that began after its receipt, and not
/// before that barrier holds; without one it renews nothing.
#[test]
fn a_heartbeat_waits_for_its_barrier() {
    let mut bench = Bench::leading();
    assert_eq!(bench.ask(1, Some(2), beat(1)), None);
    let op = bench.take(|operation| *operation == Operation::Barrier);
    bench.tell(Event::Done(op, Outcome::Barrier(Some(LogIndex(7)))));
    assert_eq!(bench.answers[&RequestId(1)], Answer::Heartbeat { index: LogIndex(7) });

    assert_eq!(bench.ask(2, Some(2), beat(1)), None);
    let op = bench.take(|operation| *operation == Operation::Barrier);
    bench.tell(Event::Done(op, Outcome::Barrier(None)));
    let not_leader = Answer::Refused(Refusal::NotLeader { leader: None });
    assert_eq!(bench.answers[&RequestId(2)], not_leader);
}

/// H31: whoever lost the lead while the barrier was under way has heard a heartbeat in vain, even if
/// it leads again by now.
#[test]
fn a_heartbeat_is_answered_within_one_time_of_leading() {
    let mut bench = Bench::leading();
    assert_eq!(bench.ask(1, Some(2), beat(1)), None);
    let op = bench.take(|operation| *operation == Operation::Barrier);
    bench.tell(Event::Leader(Some(n(3))));
    bench.tell(Event::Leader(Some(n(1))));
    bench.tell(Event::Done(op, Outcome::Barrier(Some(LogIndex(7)))));
    assert_eq!(bench.answers[&RequestId(1)], Answer::Refused(Refusal::NotLeader { leader: None }));
}

/// H31, S2: a node that leads renews its own lease behind its own barrier. Once it has lost the lead
/// its barrier is the word of another leader, which has heard nothing of it and may be counting the
/// silence after which it declares it dead.
#[test]
fn without_the_lead_nobody_renews_its_own_lease() {
    for (again, renewed) in [(vec![], true), (vec![n(3)], false), (vec![n(3), n(1)], false)] {
        let mut bench = Bench::leading();
        let op = bench.take(|operation| *operation == Operation::Barrier);
        let index = bench.state.applied();
        for leader in &again {
            bench.tell(Event::Leader(Some(*leader)));
        }
        bench.tell(Event::Done(op, Outcome::Barrier(Some(index))));
        assert_eq!(bench.authority.lease_until > Instant::ORIGIN, renewed, "then {again:?} led");
    }
}

/// H32: none while Dead, none for a life that is over, none for one that dies meanwhile; a life
/// that this leader has not heard of yet is asked to come again.
#[test]
fn a_heartbeat_of_the_dead_renews_nothing() {
    let mut bench = Bench::leading();
    bench.register(2, 3);
    assert_eq!(bench.ask(1, Some(2), beat(2)), Some(refused(Refusal::AskerDead)));
    assert_eq!(bench.ask(2, Some(2), beat(4)), Some(refused(Refusal::NotYet)));
    assert_eq!(bench.ask(3, Some(2), beat(3)), None);
    bench.commit(1, Command::MarkDead { node: n(2), incarnation: Incarnation(3) });
    let op = bench.take(|operation| *operation == Operation::Barrier);
    bench.tell(Event::Done(op, Outcome::Barrier(Some(LogIndex(99)))));
    assert_eq!(bench.answers[&RequestId(3)], Answer::Refused(Refusal::AskerDead));
    assert_eq!(bench.ask(4, Some(2), beat(3)), Some(refused(Refusal::AskerDead)));
    assert_eq!(bench.ask(5, Some(44), beat(1)), Some(refused(Refusal::AskerDead)));
}

/// R5, S18: who does not lead says so; a node speaks for itself only; a stranger may only join.
#[test]
fn what_is_not_granted_is_refused_at_once() {
    let mut bench = Bench::new();
    let not_leader = |leader| Some(refused(Refusal::NotLeader { leader }));
    assert_eq!(bench.ask(1, Some(2), beat(1)), not_leader(None));
    bench.tell(Event::Leader(Some(n(3))));
    assert_eq!(bench.ask(2, Some(2), beat(1)), not_leader(Some(n(3))));
    bench.tell(Event::Leader(Some(n(1))));
    let proposal = ProposalId { node: n(2), incarnation: Incarnation(1), sequence: 0 };
    let command = Command::SetDraining { node: n(2), on: true };
    let entry = Entry { proposal, by: n(2), command };
    let propose = |entry: &Entry| Request::Propose(entry.clone());
    assert_eq!(bench.ask(3, Some(3), propose(&entry)), not_leader(None), "not its own");
    assert_eq!(bench.ask(4, None, propose(&entry)), Some(refused(Refusal::NotServing)));
    assert_eq!(bench.ask(5, None, beat(1)), Some(refused(Refusal::NotServing)));

    assert_eq!(bench.ask(6, Some(2), propose(&entry)), None);
    let op = bench.take(|operation| matches!(operation, Operation::Append(_)));
    bench.tell(Event::Done(op, Outcome::Append(true)));
    assert_eq!(bench.answers[&RequestId(6)], Answer::Accepted);
    assert_eq!(bench.ask(7, Some(2), propose(&entry)), None);
    let op = bench.take(|operation| matches!(operation, Operation::Append(_)));
    bench.tell(Event::Done(op, Outcome::Append(false)));
    assert_eq!(bench.answers[&RequestId(7)], Answer::Refused(Refusal::NotLeader { leader: None }));
}

/// Every source's question is answered, whether there is a partition, a hand-off, or neither.
#[test]
fn a_source_answers_what_it_does_not_have() {
    let mut bench = Bench::leading();
    let topic = bench.assign(1);
    let partition = PartitionId { topic, index: 0 };
    let stranger = PartitionId { topic, index: 7 };
    let list = |partition, move_id| Request::List { partition, move_id, check: vec![] };
    let answer = bench.ask(1, Some(2), list(stranger, MoveId(1)));
    assert_eq!(answer, Some(refused(Refusal::NotOwner)));
    let answer = bench.ask(2, Some(2), list(partition, MoveId(2)));
    assert_eq!(answer, Some(refused(Refusal::NotYet)), "the target is on its way");
    let move_id = bench.target(partition, 2);
    let answer = bench.ask(3, Some(2), list(partition, move_id));
    assert!(matches!(answer, Some(Answer::Listing(_))), "{answer:?}");
    let answer = bench.ask(4, Some(3), list(partition, move_id));
    assert_eq!(answer, Some(refused(Refusal::NoSuchMove)));
    bench.commit(2, Command::DeleteTopic { topic });
    let answer = bench.ask(5, Some(2), list(partition, move_id));
    assert_eq!(answer, Some(refused(Refusal::NotOwner)));
    assert_eq!(bench.node.serving(partition), None);
}

/// S7, H8, H28: an answer to a heartbeat counts once every gate has heard which reigns ended by
/// then; a gate that is told slowly would be leased again for a reign that is over.
#[test]
fn a_lease_waits_for_the_gates_to_close() {
    let mut bench = Bench::new();
    bench.tell(Event::Leader(Some(n(3))));
    let topic = bench.assign(1);
    let partition = PartitionId { topic, index: 0 };
    bench.gates_wait = true;
    bench.commit(2, Command::DeleteTopic { topic });
    let beats = |operation: &Operation| {
        matches!(operation, Operation::Call { request: Request::Heartbeat { .. }, .. })
    };
    let beat = bench.take(beats);
    let index = bench.state.applied();
    bench.tell(Event::Done(beat, Outcome::Call(Ok(Answer::Heartbeat { index }))));
    assert_eq!(bench.authority.lease_until, Instant::ORIGIN, "its gate still serves it");
    let closed = Operation::Gate(partition, Gating::Stand(Standing::Closed));
    let stand = bench.take(|operation| *operation == closed);
    bench.tell(Event::Done(stand, Outcome::Gate(GatingOutcome::Stand)));
    assert!(bench.authority.lease_until > bench.now);
}

/// S14, H23: no more than half of a topic is frozen at once, even if a node comes back whose moves
/// did not count while it was dead.
#[test]
fn half_of_a_topic_stays_writable() {
    let mut bench = Bench::leading();
    let topic = bench.assign(4);
    let ids = [0, 1, 2, 3].map(|index| PartitionId { topic, index });
    let mut moves = vec![];
    moves.extend(ids[..2].iter().map(|id| (*id, 3, bench.target(*id, 3))));
    bench.commit(1, Command::MarkDead { node: n(3), incarnation: Incarnation(1) });
    moves.extend(ids[2..].iter().map(|id| (*id, 2, bench.target(*id, 2))));
    bench.register(3, 2);
    let mut answers = vec![];
    for (index, (partition, to, move_id)) in (0..).zip(moves) {
        let no = AttemptNo { incarnation: Incarnation(1), n: 0 };
        let attempt = Attempt { move_id, destination: n(to), no };
        let prepare = Request::Prepare { partition, attempt, tail_bytes_max: 0 };
        answers.push(bench.ask(index, Some(to), prepare).expect("at once"));
    }
    assert!(matches!(answers[0], Answer::Capture(_)) && matches!(answers[1], Answer::Capture(_)));
    for answer in &answers[2..] {
        let too_many = matches!(answer, Answer::Refused(Refusal::FrozenTooOften { .. }));
        assert!(too_many, "{answer:?}");
    }
}

/// S14, H23, K101: a move with a dead end holds no place, so nothing is frozen for a destination that
/// was declared dead, until its next life is registered; a freeze that there is gets its answer.
#[test]
fn nothing_freezes_for_the_dead() {
    let mut bench = Bench::leading();
    let topic = bench.assign(2);
    let partition = PartitionId { topic, index: 0 };
    let move_id = bench.target(partition, 3);
    let no = AttemptNo { incarnation: Incarnation(1), n: 0 };
    let attempt = Attempt { move_id, destination: n(3), no };
    let prepare = Request::Prepare { partition, attempt, tail_bytes_max: 0 };
    bench.commit(1, Command::MarkDead { node: n(3), incarnation: Incarnation(1) });
    assert_eq!(bench.ask(1, Some(3), prepare.clone()), Some(refused(Refusal::AskerDead)));
    bench.register(3, 2);
    let granted = bench.ask(2, Some(3), prepare.clone()).expect("at once");
    assert!(matches!(granted, Answer::Capture(_)), "{granted:?}");
    bench.commit(1, Command::MarkDead { node: n(3), incarnation: Incarnation(2) });
    assert_eq!(bench.ask(3, Some(3), prepare), Some(granted), "the same answer again");
}

/// Rule 2 of the crate: an answer that nobody waits for is noted, and changes nothing.
#[test]
fn a_stale_answer_is_noted() {
    let mut bench = Bench::leading();
    assert_eq!(bench.ask(1, Some(2), beat(1)), None);
    let op = bench.take(|operation| *operation == Operation::Barrier);
    bench.tell(Event::Done(op, Outcome::Barrier(None)));
    let before = bench.node.clone();
    let never =
        Outcome::Gate(GatingOutcome::Freeze(Err(FreezeFault::NotFrozen(NotFrozen::NotServing))));
    bench.tell(Event::Done(op, never));
    assert_eq!(bench.notes.last(), Some(&Note::Stale(op)));
    assert_eq!(bench.node, before);
}

/// H6, case M133: before its own life is registered a node opens and serves nothing, however much
/// its snapshot says it owns.
#[test]
fn nothing_is_served_before_the_registration() {
    let mut bench = Bench::leading();
    let topic = bench.assign(1);
    let partition = PartitionId { topic, index: 0 };
    assert_eq!(bench.node.serving(partition), Some(Epoch(1)));
    let me = bench.node.identity().clone();
    let held = BTreeSet::from([partition]);
    let (config, state) = (Config::new(1), bench.state.clone());
    let mut out = Effects::default();
    bench.node = Node::new(bench.now, me, Incarnation(2), config, state, held, &mut out);
    let opened = |out: &Effects<Effect>| {
        out.as_slice().iter().any(|effect| {
            matches!(effect, Effect::Run(_, Operation::Host(..) | Operation::Gate(..)))
        })
    };
    assert!(!opened(&out));
    bench.node.handle(bench.now, Event::Leader(Some(n(2))), &mut out);
    assert!(!opened(&out) && !bench.node.is_registered());
    bench.register(1, 2);
    assert_eq!(bench.node.serving(partition), Some(Epoch(1)));
}

/// What this build cannot apply ends the node: whatever it did from then on would rest on a state that
/// nobody shares.
#[test]
fn an_entry_that_cannot_be_applied_stops_the_node() {
    let mut bench = Bench::new();
    let (index, to) = (LogIndex(bench.state.applied().0 + 1), SUPPORTED_VERSION + 1);
    let proposal = ProposalId { node: n(2), incarnation: Incarnation(900), sequence: 1 << 20 };
    let entry = Entry { proposal, by: n(2), command: Command::RaiseVersion { to } };
    bench.node.handle(bench.now, Event::Committed { index, entry }, &mut bench.out);
    let stops = bench.out.drain().filter_map(|effect| match effect {
        Effect::Stop(stop) => Some(stop),
        _ => None,
    });
    let halt = Halt::VersionUnsupported { index, to };
    assert_eq!(stops.collect::<Vec<_>>(), [Stop::Halted(halt)]);
}
