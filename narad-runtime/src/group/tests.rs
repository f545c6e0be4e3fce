//! Groups of parts that only count.

use super::*;

pub(super) const LIMITS: Limits = Limits { write_bytes_max: 10, waiting_bytes_max: 20 };

/// A part with a kind and a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item(pub(super) u8, pub(super) usize);

impl Part for Item {
    fn bytes(&self) -> usize {
        self.1
    }

    fn joins(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

pub(super) type Items = Group<Item, usize>;

/// Answers with the number of parts that were written together.
fn count(parts: Vec<Item>) -> Vec<usize> {
    vec![parts.len(); parts.len()]
}

#[test]
fn one_write_takes_from_the_front_what_joins_and_fits() {
    let group = Items::new(LIMITS);
    let parts = [Item(1, 4), Item(1, 6), Item(1, 1), Item(2, 1), Item(2, 1)];
    let tickets: Vec<_> = parts.map(|part| group.submit(part).unwrap()).into();
    let mut writes = 0;
    while group.write_once(count) {
        writes += 1;
    }
    let answers: Vec<_> = tickets.iter().map(|ticket| ticket.take().unwrap()).collect();
    assert_eq!((writes, answers), (3, [2, 2, 1, 2, 2].map(Ok).to_vec()));
}

#[test]
fn a_part_above_the_limit_of_a_write_is_written_alone() {
    let group = Items::new(LIMITS);
    let tickets = [Item(1, 15), Item(1, 1)].map(|part| group.submit(part).unwrap());
    assert!(group.write_once(count) && group.write_once(count));
    assert_eq!(tickets.map(Ticket::wait), [Ok(1), Ok(1)]);
}

#[test]
fn what_waits_is_bounded_and_a_part_above_the_bound_is_taken_when_nothing_waits() {
    let group = Items::new(LIMITS);
    let large = group.submit(Item(1, 50)).unwrap();
    assert_eq!(group.submit(Item(1, 1)).unwrap_err(), Refused::Full);
    assert!(group.write_once(count));
    assert_eq!(large.wait(), Ok(1));
    let _full = group.submit(Item(1, 20)).unwrap();
    assert_eq!(group.submit(Item(1, 1)).unwrap_err(), Refused::Full);
}

/// A writer that panics leaves nobody waiting: neither those whose parts it had nor those behind.
#[test]
fn a_writer_that_panics_abandons_its_own_parts_only() {
    let group = Items::new(LIMITS);
    let [first, second] = [Item(1, 1), Item(2, 1)].map(|part| group.submit(part).unwrap());
    let panics = || group.write_once(|_| panic!("a fault of the writer"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert_eq!(first.wait(), Err(Abandoned));
    assert!(group.write_once(count));
    assert_eq!(second.wait(), Ok(1));
}

#[test]
fn everybody_is_answered_whether_they_take_turns_or_not() {
    const EACH: usize = 200;
    let group = Items::new(Limits { write_bytes_max: 3, waiting_bytes_max: 100 });
    let written = Mutex::new(0);
    let write = |parts: Vec<Item>| {
        *written.lock().unwrap() += parts.len();
        count(parts)
    };
    thread::scope(|scope| {
        let producers: Vec<_> = (0..6_u8)
            .map(|kind| {
                let (group, write) = (&group, &write);
                scope.spawn(move || {
                    for _ in 0..EACH {
                        let part = Item(kind % 2, 1);
                        let answer = if kind < 3 {
                            group.produce(part, write).unwrap()
                        } else {
                            group.submit(part).unwrap().wait()
                        };
                        assert!((1..=3).contains(&answer.unwrap()));
                    }
                })
            })
            .collect();
        scope.spawn(|| group.write_all(write));
        for producer in producers {
            producer.join().unwrap();
        }
        group.close();
    });
    assert_eq!(*written.lock().unwrap(), 6 * EACH);
}

/// Two who come together share a write; one who produces alone waits for nobody.
#[test]
fn a_write_waits_for_those_who_were_just_answered() {
    let group = Items::new(LIMITS);
    group.lock().patience = Duration::from_mins(1);
    let alone = group.produce(Item(1, 1), count).unwrap();
    assert_eq!((alone, group.lock().expected), (Ok(1), 1));
    {
        let mut queue = group.lock();
        (queue.expected, queue.patience) = (2, Duration::from_mins(1));
    }
    let both = thread::scope(|scope| {
        let produce = || group.produce(Item(1, 1), count).unwrap();
        [scope.spawn(produce), scope.spawn(produce)].map(|producer| producer.join().unwrap())
    });
    assert_eq!(both, [Ok(2), Ok(2)]);
    let ticket = group.submit(Item(1, 1)).unwrap();
    group.lock().patience = Duration::from_mins(1);
    assert!(group.write_once(count), "whoever drives it by hand waits for nobody");
    assert_eq!(ticket.wait(), Ok(1));
}

/// A group that takes no tickets any more has producers that take turns, and they gather as before.
#[test]
fn producers_who_take_turns_share_a_write_in_a_closed_group() {
    let group = Items::new(LIMITS);
    group.close();
    {
        let mut queue = group.lock();
        (queue.expected, queue.patience) = (2, Duration::from_mins(1));
    }
    let both = thread::scope(|scope| {
        let produce = || group.produce(Item(1, 1), count).unwrap();
        [scope.spawn(produce), scope.spawn(produce)].map(|producer| producer.join().unwrap())
    });
    assert_eq!(both, [Ok(2), Ok(2)]);
}

/// Producers alone: none of them has a thread that writes for it.
#[test]
fn producers_hand_the_turn_on() {
    let group = Items::new(LIMITS);
    thread::scope(|scope| {
        for kind in 0..8 {
            let group = &group;
            scope.spawn(move || {
                for _ in 0..200 {
                    group.produce(Item(kind % 3, 1), count).unwrap().unwrap();
                }
            });
        }
    });
    assert!(!group.write_once(count), "nothing is left");
}
