//! What one node accepts, what its consumers have acknowledged, and where both go.

use std::time::Duration;

use narad_core::config::Config;
use narad_core::cursor::{Acks, Span, Taken};
use narad_core::dispatch::{Checkpoint, Found, Route, SendFault, Waybill};
use narad_core::effects::OpId;
use narad_core::ids::*;
use narad_core::metastore::*;
use narad_core::node::{CallFault, Event, Gating, GatingOutcome, Note, Operation, Outcome};
use narad_core::node::{Shipping, ShippingOutcome};
use narad_core::partition::Recovered;
use narad_core::peer::{Answer, Refusal, Request, RequestId};

use super::bench::Bench;
use super::world::{ms, n};

fn waybill(seq: u64, topic: TopicId) -> Waybill {
    Waybill { seq: Seq(seq), topic, route: Route::Partition(0), bytes: 100 }
}

/// Takes the batch that waits to be sent.
fn batch(bench: &mut Bench) -> (OpId, NodeId, usize) {
    let is_it = |operation: &Operation| matches!(operation, Operation::Ship(Shipping::Send { .. }));
    let at = bench.open.iter().rposition(|(_, operation)| is_it(operation)).expect("it waits");
    let (op, Operation::Ship(Shipping::Send { to, records, .. })) = bench.open.remove(at) else {
        unreachable!("it was looked for")
    };
    (op, to, records.count())
}

fn answer(bench: &mut Bench, op: OpId, result: Result<(), SendFault>) {
    bench.tell(Event::Done(op, Outcome::Ship(ShippingOutcome::Send(result))));
}

/// R36, R37, R46: what was accepted is sent to whoever owns its partition, again after a refusal,
/// and its place in the log is free once it has arrived.
#[test]
fn what_is_accepted_reaches_its_owner() {
    let mut bench = Bench::leading();
    let topic = bench.assign(1);
    let empty = bench.room.expect("it was published");
    bench.tell(Event::Accepted(vec![waybill(0, topic), waybill(1, topic)]));
    let (op, to, _) = batch(&mut bench);
    assert_eq!(to, n(1), "the node itself owns it, and is sent to like any other");
    assert_eq!(bench.node.backlog().records, 2);
    assert_eq!(bench.room.unwrap().records, empty.records - 2);

    answer(&mut bench, op, Err(SendFault::Frozen));
    bench.now = bench.now.after(Duration::from_secs(2));
    bench.tell(Event::Wake);
    while bench.node.backlog().records > 0 {
        let (op, ..) = batch(&mut bench);
        answer(&mut bench, op, Ok(()));
    }
    bench.now = bench.now.after(Duration::from_secs(10));
    bench.tell(Event::Wake);
    let is_it = |operation: &Operation| {
        let spent = Checkpoint { below: Seq(2), beyond: Vec::new() };
        *operation == Operation::Ship(Shipping::Checkpoint(spent))
    };
    let op = bench.take(is_it);
    bench.tell(Event::Done(op, Outcome::Ship(ShippingOutcome::Checkpoint(Ok(())))));
    assert_eq!(bench.room, Some(empty));
    assert_eq!(bench.node.dispatched().dispatched, 2);
}

/// R39, S11: what a restarted node finds in its ingress log is on its way again.
#[test]
fn what_a_restart_finds_is_sent() {
    let mut bench = Bench::leading();
    let topic = bench.assign(1);
    let (me, state) = (bench.node.identity().clone(), bench.state.clone());
    let mut out = narad_core::effects::Effects::default();
    let held = std::collections::BTreeSet::new();
    let config = Config::new(1);
    bench.node =
        narad_core::node::Node::new(bench.now, me, Incarnation(2), config, state, held, &mut out);
    let found =
        Found { next: Seq(8), waybills: [waybill(5, topic), waybill(7, topic)], closed: false };
    bench.node.resume_ingress(found, &mut bench.out);
    assert_eq!(bench.node.backlog().records, 2);
    bench.tell(Event::Wake);
    let (op, to, records) = batch(&mut bench);
    assert_eq!((to, records), (n(1), 2));
    answer(&mut bench, op, Ok(()));
    assert_eq!(bench.node.backlog().records, 0);
}

/// H37, R82: a draining node accepts nothing more, and says that nothing is left on it only once
/// all that it has accepted has arrived.
#[test]
fn a_backlog_holds_a_decommission() {
    let mut bench = Bench::leading();
    let topic = bench.assign(1);
    bench.tell(Event::Accepted(vec![waybill(0, topic)]));
    let (op, ..) = batch(&mut bench);
    let partition = PartitionId { topic, index: 0 };
    flip(&mut bench, partition);
    bench.commit(2, Command::SetDraining { node: n(1), on: true });
    sweep(&mut bench);
    assert!(bench.room.unwrap().admit(1, 1).is_err(), "it refuses what is new");
    let close = |operation: &Operation| *operation == Operation::CloseAccept;
    let closing = bench.take(close);
    bench.tell(Event::Done(closing, Outcome::CloseAccept(true)));
    let says = |bench: &Bench| {
        bench.open.iter().any(|(_, operation)| {
            matches!(operation, Operation::Append(entry)
                if matches!(entry.command, Command::DrainedOut { .. }))
        })
    };
    assert!(!says(&bench), "one record is still here");
    answer(&mut bench, op, Err(SendFault::NotServing));
    bench.now = bench.now.after(Duration::from_secs(2));
    bench.tell(Event::Wake);
    let (op, to, _) = batch(&mut bench);
    assert_eq!(to, n(2), "who owns it now");
    answer(&mut bench, op, Ok(()));
    bench.now = bench.now.after(Duration::from_secs(2));
    bench.tell(Event::Wake);
    let closing = bench.take(close);
    bench.tell(Event::Done(closing, Outcome::CloseAccept(true)));
    assert!(says(&bench));
}

/// H37: a node that had closed accept is started again, on a replica that does not know of its
/// drain. Its earlier life's word may be decided until the log knows the present one: until then it
/// accepts nothing, and then it does as the log says.
#[test]
fn accept_stays_closed_until_the_word_of_an_earlier_life_is_void() {
    for drains in [true, false] {
        let mut bench = Bench::leading();
        let (me, state) = (bench.node.identity().clone(), bench.state.clone());
        let (held, config) = (std::collections::BTreeSet::new(), Config::new(1));
        let life = Incarnation(2);
        let mut out = narad_core::effects::Effects::default();
        bench.node =
            narad_core::node::Node::new(bench.now, me, life, config, state, held, &mut out);
        bench.room = None;
        let nothing: [Waybill; 0] = [];
        let found = Found { next: Seq(8), waybills: nothing, closed: true };
        bench.node.resume_ingress(found, &mut bench.out);
        bench.tell(Event::Wake);
        bench.tell(Event::Leader(Some(n(1))));
        let refuses = |bench: &Bench| bench.room.is_none_or(|room| room.admit(1, 1).is_err());
        let opens = |bench: &Bench| {
            bench.open.iter().any(|(_, operation)| *operation == Operation::OpenAccept)
        };
        assert!(refuses(&bench) && !opens(&bench), "nothing says that it leaves, or that it stays");
        if drains {
            bench.commit(2, Command::SetDraining { node: n(1), on: true });
        }
        bench.register(1, 2);
        if drains {
            assert!(refuses(&bench) && !opens(&bench), "it leaves");
        } else {
            assert!(refuses(&bench), "it is being opened");
            let op = bench.take(|operation| *operation == Operation::OpenAccept);
            bench.tell(Event::Done(op, Outcome::OpenAccept));
            assert!(!refuses(&bench), "it stays");
        }
    }
}

/// Answers every barrier and every look at the disk, on which nothing is, until there is none.
fn sweep(bench: &mut Bench) {
    let index = Some(bench.state.applied());
    let answer = |operation: &Operation| match operation {
        Operation::Barrier => Some(Outcome::Barrier(index)),
        Operation::Inspect(_) => Some(Outcome::Inspect(Some(Recovered::default()))),
        _ => None,
    };
    while let Some(at) = bench.open.iter().position(|(_, open)| answer(open).is_some()) {
        let (op, operation) = bench.open.remove(at);
        bench.tell(Event::Done(op, answer(&operation).expect("it was looked for")));
    }
}

/// Moves a partition of this node to node 2, by a freeze.
fn flip(bench: &mut Bench, partition: PartitionId) {
    let move_id = bench.target(partition, 2);
    let no = AttemptNo { incarnation: Incarnation(1), n: 0 };
    let attempt = Attempt { move_id, destination: n(2), no };
    let expect = bench.state.assignment(partition).unwrap().expect();
    let id = u64::MAX - move_id.0;
    let Some(Answer::Capture(capture)) =
        bench.ask(id, Some(2), Request::Prepare { partition, attempt, tail_bytes_max: 0 })
    else {
        panic!("it freezes")
    };
    let fence = Fence::Normal { token: capture.token };
    let (end, hwm, digest) = (Offset(0), Offset(0), Digest(0));
    let flip = Command::CompleteMove {
        partition,
        expect,
        attempt,
        fence,
        end,
        hwm,
        committed: None,
        digest,
    };
    bench.commit(2, flip);
}

fn collected(bench: &mut Bench, partition: PartitionId, spans: Vec<Span>) {
    let gating = Gating::HandOver { forced: false };
    let hand_over = Operation::Gate(partition, gating);
    let op = bench.take(|operation| *operation == hand_over);
    let acks = Acks { epoch: Epoch(1), spans };
    bench.tell(Event::Done(op, Outcome::Gate(GatingOutcome::HandOver(acks))));
}

/// H28, R52: what was acknowledged after the capture is told to the new owner, again until that has
/// taken it, and then no more.
#[test]
fn late_acknowledgements_are_forwarded_until_they_are_taken() {
    let mut bench = Bench::new();
    bench.tell(Event::Leader(Some(n(3))));
    let partition = PartitionId { topic: bench.assign(1), index: 0 };
    flip(&mut bench, partition);
    let span = Span { first: Offset(3), end: Offset(5) };
    collected(&mut bench, partition, vec![span]);
    let tells = |operation: &Operation| match operation {
        Operation::Call { to, request: Request::TakeAcks { acks, .. } } => {
            assert_eq!((*to, &acks.spans), (n(2), &vec![span]));
            true
        }
        _ => false,
    };
    let no_answer = [
        Err(CallFault::TimedOut),
        Ok(Answer::Refused(Refusal::NotServing)),
        Err(CallFault::Unreachable),
    ];
    for answer in no_answer {
        let op = bench.take(tells);
        bench.tell(Event::Done(op, Outcome::Call(answer)));
        assert!(!bench.open.iter().any(|(_, operation)| tells(operation)), "not at once");
        bench.now = bench.now.after(Duration::from_mins(1));
        bench.tell(Event::Wake);
    }
    let op = bench.take(tells);
    bench.tell(Event::Done(op, Outcome::Call(Ok(Answer::Noted))));
    assert!(bench.notes.contains(&Note::AcksForwarded { partition, to: n(2) }));
    bench.now = bench.now.after(Duration::from_mins(1));
    bench.tell(Event::Wake);
    assert!(!bench.open.iter().any(|(_, operation)| tells(operation)));
}

/// R52: where nothing was acknowledged late, nobody is asked anything.
#[test]
fn nothing_is_forwarded_for_nothing() {
    let mut bench = Bench::new();
    bench.tell(Event::Leader(Some(n(3))));
    let partition = PartitionId { topic: bench.assign(1), index: 0 };
    flip(&mut bench, partition);
    collected(&mut bench, partition, vec![]);
    let asks = |operation: &Operation| {
        matches!(operation, Operation::Call { request: Request::TakeAcks { .. }, .. })
    };
    assert!(!bench.open.iter().any(|(_, operation)| asks(operation)));
}

/// H28: an owner takes what a past one offers, and answers once its gate has; whoever does not serve
/// the partition says so.
#[test]
fn an_owner_takes_what_a_past_one_offers() {
    let mut bench = Bench::new();
    let partition = PartitionId { topic: bench.assign(1), index: 0 };
    let acks = Acks { epoch: Epoch(0), spans: vec![] };
    let request = Request::TakeAcks { partition, acks: acks.clone() };
    assert_eq!(bench.ask(1, Some(2), request.clone()), None);
    let take = Operation::Gate(partition, Gating::Take(acks));
    let op = bench.take(|operation| *operation == take);
    let taken = Some(Taken::default());
    bench.tell(Event::Done(op, Outcome::Gate(GatingOutcome::Take(taken))));
    assert_eq!(bench.answers[&RequestId(1)], Answer::Noted);
    assert_eq!(bench.ask(2, Some(2), request.clone()), None);
    let op = bench.take(|operation| *operation == take);
    bench.tell(Event::Done(op, Outcome::Gate(GatingOutcome::Take(None))));
    assert_eq!(bench.answers[&RequestId(2)], Answer::Refused(Refusal::NotServing));
    let topic = partition.topic;
    bench.commit(2, Command::DeleteTopic { topic });
    bench.now = bench.now.after(ms(10));
    assert_eq!(bench.ask(3, Some(2), request), Some(Answer::Refused(Refusal::NotServing)));
}
