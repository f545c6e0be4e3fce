//! Producers and writers under drawn schedules.

use std::sync::atomic::{AtomicBool, Ordering};

use super::tests::{Item, Items, LIMITS};
use super::*;
use crate::interleave::schedules;

/// Writes parts, and finds whether somebody else does at the same time.
#[derive(Default)]
struct Pen {
    is_held: AtomicBool,
    written: Mutex<Vec<Item>>,
}

impl Pen {
    fn write(&self, parts: Vec<Item>) -> Vec<usize> {
        assert!(!self.is_held.swap(true, Ordering::SeqCst), "two write at once");
        // Here the turn may go to somebody else.
        self.written.lock().unwrap().extend(&parts);
        assert!(self.is_held.swap(false, Ordering::SeqCst));
        vec![parts.len(); parts.len()]
    }
}

/// Producers that take turns: one writes at a time, everybody is answered, nothing is written twice
/// or left, and nobody sleeps for ever.
#[test]
fn turns_go_round() {
    schedules(|| {
        let (group, pen) = (Arc::new(Items::new(LIMITS)), Arc::new(Pen::default()));
        let producers: Vec<_> = (0..3_u8)
            .map(|kind| {
                let (group, pen) = (Arc::clone(&group), Arc::clone(&pen));
                thread::spawn(move || {
                    for bytes in [1, 6] {
                        let part = Item(kind % 2, bytes);
                        group.produce(part, |parts| pen.write(parts)).unwrap().unwrap();
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        assert_eq!(pen.written.lock().unwrap().len(), 6);
        assert!(!group.write_once(|parts| pen.write(parts)), "something is left");
    });
}

/// Tickets, a thread that does nothing but write, and a producer that takes turns beside it; closing
/// ends the thread once nobody waits.
#[test]
fn tickets_are_answered_and_closing_ends_the_writer() {
    schedules(|| {
        let (group, pen) = (Arc::new(Items::new(LIMITS)), Arc::new(Pen::default()));
        let writer = {
            let (group, pen) = (Arc::clone(&group), Arc::clone(&pen));
            thread::spawn(move || group.write_all(|parts| pen.write(parts)))
        };
        let submitter = {
            let group = Arc::clone(&group);
            thread::spawn(move || {
                let tickets = [1, 2].map(|bytes| group.submit(Item(1, bytes)).unwrap());
                tickets.map(|ticket| ticket.wait().unwrap());
            })
        };
        group.produce(Item(2, 1), |parts| pen.write(parts)).unwrap().unwrap();
        submitter.join().unwrap();
        group.close();
        writer.join().unwrap();
        assert_eq!(pen.written.lock().unwrap().len(), 3);
    });
}

/// A ticket that meets the closing of the group is refused, or answered: never forgotten.
#[test]
fn a_ticket_at_closing_time_is_refused_or_answered() {
    schedules(|| {
        let (group, pen) = (Arc::new(Items::new(LIMITS)), Arc::new(Pen::default()));
        let writer = {
            let (group, pen) = (Arc::clone(&group), Arc::clone(&pen));
            thread::spawn(move || group.write_all(|parts| pen.write(parts)))
        };
        let closer = {
            let group = Arc::clone(&group);
            thread::spawn(move || group.close())
        };
        let answer = group.submit(Item(1, 1)).map(Ticket::wait);
        assert!(matches!(answer, Ok(Ok(1)) | Err(Refused::Closed)), "{answer:?}");
        closer.join().unwrap();
        writer.join().unwrap();
    });
}
