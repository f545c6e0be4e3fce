//! Records that wait, as small as they can be.

use alloc::collections::VecDeque;

/// A queue that grows and shrinks by chunks: its memory is what is in it, give or take one chunk at
/// each end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Queue<T> {
    chunks: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { chunks: VecDeque::new(), len: 0 }
    }
}

impl<T> Queue<T> {
    /// A chunk doubles up to here, and not further.
    const CHUNK: usize = 256;

    pub(super) fn push_back(&mut self, item: T) {
        self.len += 1;
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < Self::CHUNK => chunk.push_back(item),
            Some(_) | None => self.chunks.push_back(VecDeque::from([item])),
        }
    }

    pub(super) fn push_front(&mut self, item: T) {
        self.len += 1;
        match self.chunks.front_mut() {
            Some(chunk) if chunk.len() < Self::CHUNK => chunk.push_front(item),
            Some(_) | None => self.chunks.push_front(VecDeque::from([item])),
        }
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.chunks.front()?.front()
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let chunk = self.chunks.front_mut()?;
        let item = chunk.pop_front();
        if chunk.is_empty() {
            self.chunks.pop_front();
        }
        self.len -= usize::from(item.is_some());
        item
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for chunk in &mut self.chunks {
            chunk.retain(&mut keep);
        }
        self.chunks.retain(|chunk| !chunk.is_empty());
        self.len = self.chunks.iter().map(VecDeque::len).sum();
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten()
    }
}

/// One record in a queue or a batch: 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Item {
    /// The lower half of its position in the ingress log.
    pub(super) low: u32,
    /// Its turn among the records of its home; only compared within one lane, which is never as long
    /// as half of the numbers.
    pub(super) turn: u32,
    /// Its kind in the two highest bits, its bytes in the others.
    load: u32,
}

/// Where a record belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// To one partition, by number.
    Numbered,
    /// To the partition that its key falls on.
    Keyed,
    /// Anywhere.
    Loose,
    /// Keyed, and in a batch for a sibling.
    Stray,
}

impl Item {
    pub(super) fn new(low: u32, turn: u32, kind: Kind, bytes: u32) -> Self {
        Self { low, turn, load: pack(kind, bytes) }
    }

    pub(super) const fn kind(self) -> Kind {
        kind(self.load)
    }

    pub(super) const fn bytes(self) -> u32 {
        bytes(self.load)
    }

    pub(super) fn of_kind(self, kind: Kind) -> Self {
        Self { load: pack(kind, self.bytes()), ..self }
    }

    /// Whether it came before another record of the same lane.
    pub(super) const fn before(self, other: Self) -> bool {
        other.turn.wrapping_sub(self.turn) < 1 << 31
    }
}

/// One record of a topic that this node's replica does not have: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unplaced {
    /// The lower half of its position in the ingress log.
    pub(super) low: u32,
    load: u32,
    /// The number or the hash. In two halves, so that nothing is lost to alignment.
    route: [u32; 2],
}

impl Unplaced {
    pub(super) fn new(low: u32, kind: Kind, route: u64, bytes: u32) -> Self {
        let [high, below] = halves(route);
        Self { low, load: pack(kind, bytes), route: [high, below] }
    }

    pub(super) const fn kind(self) -> Kind {
        kind(self.load)
    }

    pub(super) const fn bytes(self) -> u32 {
        bytes(self.load)
    }

    pub(super) fn route(self) -> u64 {
        (u64::from(self.route[0]) << 32) | u64::from(self.route[1])
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the halves are meant")]
const fn halves(whole: u64) -> [u32; 2] {
    [(whole >> 32) as u32, whole as u32]
}

/// Returns the lower half of a position.
pub(super) const fn low(seq: crate::ids::Seq) -> u32 {
    halves(seq.0)[1]
}

fn pack(kind: Kind, bytes: u32) -> u32 {
    let tag = match kind {
        Kind::Numbered => 0,
        Kind::Keyed => 1,
        Kind::Loose => 2,
        Kind::Stray => 3,
    };
    (tag << 30) | bytes.min(super::Waybill::BYTES_MAX)
}

const fn kind(load: u32) -> Kind {
    match load >> 30 {
        0 => Kind::Numbered,
        1 => Kind::Keyed,
        2 => Kind::Loose,
        _ => Kind::Stray,
    }
}

const fn bytes(load: u32) -> u32 {
    load & super::Waybill::BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::size_of;

    /// The bound on memory: 12 bytes a record in its lane, 16 while its topic is unknown.
    #[test]
    fn a_record_that_waits_is_small() {
        assert_eq!(size_of::<Item>(), 12);
        assert_eq!(size_of::<Unplaced>(), 16);
        let mut queue = Queue::default();
        for low in 0..100_000 {
            queue.push_back(Item::new(low, low, Kind::Keyed, 100));
        }
        let reserved: usize = queue.chunks.iter().map(VecDeque::capacity).sum();
        assert!(reserved < 101_000, "{reserved}");
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        for kind in [Kind::Numbered, Kind::Keyed, Kind::Loose, Kind::Stray] {
            let item = Item::new(7, 9, kind, u32::MAX);
            assert_eq!((item.kind(), item.bytes()), (kind, super::super::Waybill::BYTES_MAX));
            let unplaced = Unplaced::new(7, kind, u64::MAX - 5, 31);
            assert_eq!((unplaced.kind(), unplaced.bytes()), (kind, 31));
            assert_eq!(unplaced.route(), u64::MAX - 5);
        }
        assert_eq!(Item::new(1, 2, Kind::Keyed, 3).of_kind(Kind::Stray).bytes(), 3);
    }

    #[test]
    fn turns_compare_across_their_end() {
        let turn = |turn| Item::new(0, turn, Kind::Keyed, 1);
        assert!(turn(3).before(turn(4)) && !turn(4).before(turn(3)));
        assert!(turn(u32::MAX).before(turn(0)) && !turn(0).before(turn(u32::MAX)));
    }

    #[test]
    fn a_queue_is_first_in_first_out_at_both_ends() {
        let mut queue = Queue::default();
        for i in 0..1000 {
            queue.push_back(i);
        }
        for i in 0..700 {
            assert_eq!(queue.pop_front(), Some(i));
        }
        for i in (0..700).rev() {
            queue.push_front(i);
        }
        assert!(queue.iter().copied().eq(0..1000));
        assert_eq!((queue.front(), queue.is_empty()), (Some(&0), false));
        assert_eq!(core::iter::from_fn(|| queue.pop_front()).count(), 1000);
        assert_eq!((queue.front(), queue.is_empty()), (None, true));
    }
}
