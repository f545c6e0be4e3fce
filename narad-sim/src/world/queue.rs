//! What will happen, in the order in which it will.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Time;

/// Everything that is due, ordered by instant, then by when it was scheduled.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    /// Instant, sequence and place of what comes first, packed so that one comparison orders them;
    /// the very next is the last, so that taking it moves nothing. All of it is before `later`, and
    /// there is some of it if there is anything. A small world never needs more than this, and what
    /// is scheduled for soon finds its place in a few steps.
    soon: Vec<u128>,
    /// All else.
    later: BinaryHeap<Reverse<u128>>,
    items: Vec<Option<T>>,
    free: Vec<u32>,
    sequence: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            soon: Vec::with_capacity(SOON_MAX),
            later: BinaryHeap::new(),
            items: Vec::new(),
            free: Vec::new(),
            sequence: 0,
        }
    }
}

impl<T> Queue<T> {
    /// Adds something; what is never due is dropped.
    pub(crate) fn push(&mut self, at: Time, item: T) {
        if at == Time::NEVER {
            return;
        }
        let place = if let Some(place) = self.free.pop() {
            self.items[place as usize] = Some(item);
            place
        } else {
            let place =
                u32::try_from(self.items.len()).ok().filter(|place| *place < 1 << PLACE_BITS);
            let place = place.expect("fewer than 2^24 things are due at once");
            self.items.push(Some(item));
            place
        };
        let key = u128::from(at.0) << 64 | u128::from(self.sequence) << PLACE_BITS;
        self.sequence += 1;
        self.order(key | u128::from(place));
    }

    fn order(&mut self, key: u128) {
        if self.later.peek().is_some_and(|Reverse(first)| key > *first) {
            return self.later.push(Reverse(key));
        }
        if self.soon.len() == SOON_MAX {
            self.later.extend(self.soon.drain(..SOON_MAX / 2).map(Reverse));
            return self.order(key);
        }
        let at = self.soon.partition_point(|other| *other > key);
        self.soon.insert(at, key);
    }

    /// Returns when the next thing is due.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.soon.last().copied().map(instant)
    }

    /// Takes the next thing.
    pub(crate) fn pop(&mut self) -> Option<(Time, T)> {
        let key = self.soon.pop()?;
        if self.soon.is_empty() {
            let next = std::iter::from_fn(|| self.later.pop());
            self.soon.extend(next.map(|Reverse(key)| key).take(SOON_MAX / 2));
            self.soon.reverse();
        }
        let place = u32::try_from(key & ((1 << PLACE_BITS) - 1)).expect("it has no more bits");
        self.free.push(place);
        let item = self.items[place as usize].take().expect("a place is used once");
        Some((instant(key), item))
    }
}

/// How many things are kept sorted. Fewer go through the heap more often; more are moved at each
/// insertion.
const SOON_MAX: usize = 64;

/// Bits of a place. The 40 that are left number what is ever scheduled: a trillion.
const PLACE_BITS: u32 = 24;

const fn instant(key: u128) -> Time {
    Time((key >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::random::Random;

    #[test]
    fn what_is_due_at_once_happens_in_the_order_in_which_it_was_scheduled() {
        let mut queue = Queue::default();
        for (at, item) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b')] {
            queue.push(Time(at), item);
        }
        queue.push(Time::NEVER, 'z');
        let order: String = std::iter::from_fn(|| queue.pop()).map(|(_, item)| item).collect();
        assert_eq!((order.as_str(), queue.next_at()), ("abcd", None));
    }

    /// Few and many at once, soon and late: always the same order as that of a sorted list.
    #[test]
    fn the_order_does_not_depend_on_how_many_are_due() {
        let (mut queue, mut sorted, mut random) =
            (Queue::default(), BTreeSet::new(), Random::root(5));
        let (mut now, mut most) = (0, 0);
        for sequence in 0..20_000_u64 {
            let many = (sequence / 2_000) % 2 == 0;
            if random.below(10) < if many { 7 } else { 2 } {
                let spread = if random.below(4) == 0 { 100_000 } else { 100 };
                let at = now + random.below(spread);
                queue.push(Time(at), sequence);
                sorted.insert((at, sequence));
                most = most.max(sorted.len());
            } else {
                let next = sorted.pop_first().map(|(at, item)| (Time(at), item));
                assert_eq!(queue.next_at(), next.map(|(at, _)| at));
                assert_eq!(queue.pop(), next);
                now = next.map_or(now, |(at, _)| at.0);
            }
        }
        assert!(most > 2 * SOON_MAX, "both parts were in use");
    }
}
