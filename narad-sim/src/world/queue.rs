//! What will happen, in the order in which it will.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Time;

/// Everything that is due, ordered by instant, then by when it was scheduled.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    /// Instant, sequence and place of each, packed so that one comparison orders them.
    order: BinaryHeap<Reverse<u128>>,
    items: Vec<Option<T>>,
    free: Vec<u32>,
    sequence: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { order: BinaryHeap::new(), items: Vec::new(), free: Vec::new(), sequence: 0 }
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
        self.order.push(Reverse(key | u128::from(place)));
        self.sequence += 1;
    }

    /// Returns when the next thing is due.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.order.peek().map(|Reverse(key)| instant(*key))
    }

    /// Takes the next thing.
    pub(crate) fn pop(&mut self) -> Option<(Time, T)> {
        let Reverse(key) = self.order.pop()?;
        let place = u32::try_from(key & ((1 << PLACE_BITS) - 1)).expect("it has no more bits");
        self.free.push(place);
        let item = self.items[place as usize].take().expect("a place is used once");
        Some((instant(key), item))
    }
}

/// Bits of a place. The 40 that are left number what is ever scheduled: a trillion.
const PLACE_BITS: u32 = 24;

const fn instant(key: u128) -> Time {
    Time((key >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
