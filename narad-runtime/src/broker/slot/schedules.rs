//! A gate with its producers, freezes and readers under drawn schedules.

use narad_core::freeze::gate::Refused;

use super::tests::{EPOCH, LIFE, World, records, serving, ticket};
use super::*;
use crate::broker::{Batcher, ProduceError};
use crate::interleave::{schedules, thread};

/// What was acknowledged, of producers that run beside something else.
struct Producers(Vec<thread::JoinHandle<Vec<Result<Committed, ProduceError>>>>);

impl Producers {
    /// Each of two produces two batches, one after the other.
    fn start(batcher: &Arc<Batcher>) -> Self {
        let producers = (1..=2).map(|count| {
            let batcher = Arc::clone(batcher);
            thread::spawn(move || {
                (0..2).map(|_| batcher.produce(records(count), Some(EPOCH))).collect()
            })
        });
        Self(producers.collect())
    }

    fn join(self) -> Vec<Result<Committed, ProduceError>> {
        self.0.into_iter().flat_map(|producer| producer.join().unwrap()).collect()
    }
}

fn batcher() -> (Arc<Slot>, Arc<Batcher>) {
    let World { slot, .. } = serving();
    let slot = Arc::new(slot);
    (Arc::clone(&slot), Arc::new(Batcher::new(slot)))
}

/// H7, S1: whenever a freeze comes, what it captures is exactly what was acknowledged before it and
/// nothing is acknowledged after it; a thaw lets everybody go on.
#[test]
fn a_capture_has_all_that_was_acknowledged() {
    schedules(|| {
        let (slot, batcher) = batcher();
        let producers = Producers::start(&batcher);
        let capture = slot.freeze(ticket(1), EPOCH, LIFE).unwrap();
        let answers = producers.join();
        let acknowledged = answers.iter().flatten().map(|committed| committed.end).max();
        assert_eq!(capture.listing.hwm, acknowledged.unwrap_or(Offset(0)));
        for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert!(matches!(refused, ProduceError::Refused(Refused::Frozen)), "{refused:?}");
        }
        slot.thaw(capture.token);
        let next = batcher.produce(records(1), Some(EPOCH)).unwrap();
        assert!(next.first >= capture.listing.hwm);
    });
}

/// Field fault 4: a freeze that is given up while it waits for an append is answered, whichever comes
/// first, and the log is let go after the append.
#[test]
fn giving_up_and_letting_go_end() {
    schedules(|| {
        let (slot, batcher) = batcher();
        let producers = Producers::start(&batcher);
        let freezer = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.freeze(ticket(1), EPOCH, LIFE))
        };
        slot.give_up(ticket(1));
        let log = slot.detach().expect("it was open");
        let answer = freezer.join().unwrap();
        // One that came when the log was gone holds as well, and captures nothing.
        let froze = matches!(answer, Ok(_) | Err(FreezeFault::Unreadable { .. }));
        let answers = producers.join();
        let acknowledged = answers.iter().flatten().map(|committed| committed.end).max();
        assert!(log.bounds().hwm >= acknowledged.unwrap_or(Offset(0)));
        for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            // The gate is shut while a freeze waits, too.
            let why =
                matches!(refused, ProduceError::NotOpen | ProduceError::Refused(Refused::Frozen));
            assert!(why, "{refused:?}");
        }
        assert_eq!(slot.standing().1, froze, "a freeze holds if that was its answer");
    });
}

/// Field fault 4: whoever waits for a freeze hears at once that it was given up, however long the
/// append still takes.
#[test]
fn giving_up_does_not_wait_for_the_append() {
    schedules(|| {
        let (slot, _) = batcher();
        let pending = slot.begin(Some(EPOCH)).unwrap();
        slot.begin_freeze(ticket(1), EPOCH, LIFE);
        let freezer = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.await_answer(ticket(1)))
        };
        slot.give_up(ticket(1));
        assert!(freezer.join().unwrap().is_err());
        let appended = pending.append(&records(1));
        assert!(slot.finish(pending, appended).is_ok());
    });
}

/// S2: nothing is appended to a log that was let go.
#[test]
fn letting_go_waits_for_the_append() {
    schedules(|| {
        let (slot, _) = batcher();
        let appender = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                let Ok(pending) = slot.begin(Some(EPOCH)) else { return };
                thread::yield_now();
                let appended = pending.append(&records(1));
                slot.finish(pending, appended).unwrap();
            })
        };
        let log = slot.detach().expect("it was open");
        let end = log.bounds().end;
        appender.join().unwrap();
        assert_eq!(log.bounds().end, end);
    });
}

/// S7: a reader that looks, and then waits for a change, sees everything that is committed.
#[test]
fn a_watcher_misses_nothing() {
    schedules(|| {
        let (slot, batcher) = batcher();
        let reader = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                let mut watch = slot.watch();
                shuttle::future::block_on(async {
                    while slot.log().unwrap().bounds().hwm < Offset(6) {
                        std::future::poll_fn(|cx| watch.poll_change(cx)).await;
                    }
                });
            })
        };
        let answers = Producers::start(&batcher).join();
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        reader.join().unwrap();
    });
}
