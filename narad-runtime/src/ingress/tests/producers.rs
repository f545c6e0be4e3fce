//! Many producers at once.

use std::collections::BTreeSet;
use std::task::{Context, Poll, Waker};
use std::thread;

use super::*;
use crate::disk::mem::Step;

/// Those who come together share one write and one sync, and each is told its own positions.
#[test]
fn those_who_come_together_share_one_sync() {
    let disk = MemDisk::new();
    let (log, told) = filled(&disk, 0);
    let sizes = [2, 1, 3];
    let tickets = sizes.map(|size| log.submit(parcels(0..size)).expect("room"));
    assert!(tickets.iter().all(|ticket| ticket.take().is_none()));
    let before = (disk.steps_of(Step::Write), disk.steps_of(Step::Sync));
    assert!(log.commit_waiting());
    let after = (disk.steps_of(Step::Write), disk.steps_of(Step::Sync));
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1));
    assert!(!log.commit_waiting(), "nobody waits");
    let answers = tickets.map(|ticket| ticket.take().expect("written").expect("the disk works"));
    let expected = [(0, 2), (2, 3), (3, 6)].map(|(first, end)| (Seq(first), Seq(end)));
    assert_eq!(answers.map(|done| (done.first, done.end)), expected);
    assert_eq!(lock(&told).len(), 6);
}

/// A ticket is a future; dropping it takes nothing back.
#[test]
fn a_ticket_is_a_future_that_may_be_dropped() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 0);
    let mut kept = std::pin::pin!(log.submit(parcels([0])).expect("room"));
    drop(log.submit(parcels([1])).expect("room"));
    let mut context = Context::from_waker(Waker::noop());
    assert!(kept.as_mut().poll(&mut context).is_pending());
    assert!(log.commit_waiting());
    assert!(matches!(kept.poll(&mut context), Poll::Ready(Ok(Accepted { first: Seq(0), .. }))));
    assert_eq!(log.next(), Seq(2));
}

/// What waits for the disk is bounded.
#[test]
fn a_producer_is_sent_away_while_too_much_waits() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 0);
    let mut tickets = Vec::new();
    let busy = loop {
        match log.submit(parcels(0..4)) {
            Ok(ticket) => tickets.push(ticket),
            Err(error) => break error,
        }
    };
    assert!(matches!(busy, IngressError::Busy) && busy.is_retryable());
    let waiting: usize =
        tickets.len() * parcels(0..4).iter().map(Parcel::encoded_bytes).sum::<usize>();
    assert!(waiting <= SMALL.waiting_bytes_max && tickets.len() > 10, "{waiting}");
    while log.commit_waiting() {}
    assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
    log.submit(parcels([0])).map(drop).expect("room again");
}

/// L4, S1: every producer gets positions of its own, and the dispatcher hears of all of them in order
/// before they are answered, by whichever way they come.
#[test]
fn the_dispatcher_hears_of_everything_in_order_before_it_is_answered() {
    const EACH: u64 = 60;
    let disk = MemDisk::new();
    let (log, told) = filled(&disk, 0);
    let log = Arc::new(log);
    let committer = Committer::start(Arc::clone(&log)).expect("a thread");
    let produce = &|takes_turns: bool, n: u64| {
        let batch = parcels(n..=n + n % 3);
        let done =
            if takes_turns { log.append(batch) } else { log.submit(batch).expect("room").wait() };
        let done = done.expect("the disk works");
        let heard = lock(&told).len() as u64;
        assert!(heard >= done.end.0, "{heard} {done:?}");
        done
    };
    let answers: Vec<Accepted> = thread::scope(|scope| {
        let run = |takes_turns| {
            scope.spawn(move || (0..EACH).map(|n| produce(takes_turns, n)).collect::<Vec<_>>())
        };
        let producers: Vec<_> = (0..8).map(|at| run(at % 2 == 0)).collect();
        producers.into_iter().flat_map(|producer| producer.join().expect("no panic")).collect()
    });
    drop(committer);
    let positions: Vec<u64> = answers.iter().flat_map(|done| done.first.0..done.end.0).collect();
    let distinct: BTreeSet<u64> = positions.iter().copied().collect();
    assert_eq!((positions.len() as u64, distinct.len() as u64), (log.next().0, log.next().0));
    let heard: Vec<Seq> = lock(&told).iter().map(|waybill| waybill.seq).collect();
    assert_eq!(heard, seqs(0..log.next().0));
}

/// A node that stops writes what it has taken and takes nothing more.
#[test]
fn a_committer_that_stops_answers_everybody() {
    let disk = MemDisk::new();
    let (log, _) = filled(&disk, 0);
    let log = Arc::new(log);
    let tickets: Vec<Ticket> = (0..20).map(|n| log.submit(parcels([n])).expect("room")).collect();
    drop(Committer::start(Arc::clone(&log)).expect("a thread"));
    assert!(tickets.iter().all(|ticket| ticket.take().is_some_and(|answer| answer.is_ok())));
    assert!(matches!(log.submit(parcels([0])), Err(IngressError::Stopping)));
    let _committer = Committer::start(Arc::clone(&log)).expect("a thread");
    log.submit(parcels([0])).expect("taken again").wait().expect("the disk works");
}
