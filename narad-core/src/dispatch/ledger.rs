//! Which positions of the ingress log are still needed.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use super::interface::Checkpoint;
use crate::ids::Seq;
use crate::planted::{Bug, is_planted};

/// One bit for each position from the checkpoint on, and the bytes of each [`WIDTH`] of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ledger {
    /// Position of the first block, a multiple of [`WIDTH`].
    base: u64,
    blocks: VecDeque<Block>,
    next: Seq,
    waiting_records: u64,
    waiting_bytes: u64,
    span_bytes: u64,
    /// How many have been let go of.
    arrived: u64,
}

/// How many positions share one sum of bytes: it takes a byte for each of them.
const WIDTH: u64 = 16;

/// What is known of [`WIDTH`] consecutive positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Block {
    /// A bit for each record that has not arrived.
    waiting: u16,
    /// The bytes of all records in it.
    bytes: u64,
}

impl Ledger {
    /// Most positions between the oldest waiting record and the end of the log: they are told apart
    /// by the lower half of their numbers.
    const SPAN_MAX: u64 = 1 << 31;

    /// Starts with nothing waiting; the first record will be at `next` or later.
    pub(super) fn new(next: Seq) -> Self {
        Self {
            base: next.0 / WIDTH * WIDTH,
            blocks: VecDeque::new(),
            next,
            waiting_records: 0,
            waiting_bytes: 0,
            span_bytes: 0,
            arrived: 0,
        }
    }

    /// Notes that the next record will be at `next` or later.
    pub(super) fn advance(&mut self, next: Seq) {
        self.next = self.next.max(next);
        self.settle();
    }

    /// Takes a record that waits.
    ///
    /// # Panics
    ///
    /// If the position is below the checkpoint, or taken, or too far ahead of the oldest.
    pub(super) fn insert(&mut self, seq: Seq, bytes: u32) {
        if self.blocks.is_empty() {
            self.base = self.base.max(seq.0 / WIDTH * WIDTH);
        }
        let ahead = seq.0.checked_sub(self.base).expect("nothing comes before the checkpoint");
        assert!(ahead < Self::SPAN_MAX, "{seq:?} is too far from {}", self.base);
        let at = usize::try_from(ahead / WIDTH).expect("the span is bounded");
        if at >= self.blocks.len() {
            self.blocks.resize(at + 1, Block::default());
        }
        let block = self.blocks.get_mut(at).expect("there are enough");
        let bit = 1 << (seq.0 % WIDTH);
        assert!(block.waiting & bit == 0, "{seq:?} is told once");
        block.waiting |= bit;
        block.bytes += u64::from(bytes);
        self.next = self.next.max(seq.next());
        self.waiting_records += 1;
        self.waiting_bytes += u64::from(bytes);
        self.span_bytes += u64::from(bytes);
    }

    /// Lets go of a record.
    ///
    /// # Panics
    ///
    /// If it does not wait.
    pub(super) fn remove(&mut self, seq: Seq, bytes: u32) {
        let block = seq
            .0
            .checked_sub(self.base)
            .and_then(|ahead| usize::try_from(ahead / WIDTH).ok())
            .and_then(|at| self.blocks.get_mut(at));
        let bit = 1 << (seq.0 % WIDTH);
        let block = block.filter(|block| block.waiting & bit != 0);
        block.expect("only what waits is let go of").waiting &= !bit;
        self.arrived += 1;
        self.waiting_records -= 1;
        self.waiting_bytes -= u64::from(bytes);
        self.settle();
    }

    /// Forgets what lies below the checkpoint.
    fn settle(&mut self) {
        if self.waiting_records == 0 {
            self.blocks.clear();
            self.span_bytes = 0;
        }
        while let Some(front) = self.blocks.front() {
            if front.waiting != 0 || self.base + WIDTH > self.next.0 {
                break;
            }
            self.span_bytes -= front.bytes;
            self.blocks.pop_front();
            self.base += WIDTH;
        }
        if self.blocks.is_empty() {
            self.base = self.base.max(self.next.0 / WIDTH * WIDTH);
        }
    }

    /// Returns the lowest position that has not arrived, or the end of the log.
    pub(super) fn checkpoint(&self) -> Seq {
        if self.waiting_records == 0 {
            return self.next;
        }
        let first = self.blocks.iter().enumerate().find(|(_, block)| block.waiting != 0);
        first.map_or(self.next, |(at, block)| {
            let passed = u64::from(is_planted(Bug::CheckpointPassesOne));
            Seq(self.base + WIDTH * at as u64 + u64::from(block.waiting.trailing_zeros()) + passed)
        })
    }

    /// Returns what is not needed any more: all below the lowest position that waits, and of the runs
    /// above it the longest; of two as long the newer one.
    pub(super) fn spent(&self) -> Checkpoint {
        let below = self.checkpoint();
        let mut longest: BTreeSet<(u64, Seq)> = BTreeSet::new();
        self.each_run(|run| {
            if run.start > below {
                longest.insert((run.end.0 - run.start.0, run.start));
            }
            if longest.len() > Checkpoint::RANGES_MAX {
                longest.pop_first();
            }
        });
        let kept = longest.into_iter().map(|(length, first)| first..Seq(first.0 + length));
        let mut beyond: Vec<Range<Seq>> = kept.collect();
        beyond.sort_unstable_by_key(|run| run.start);
        Checkpoint { below, beyond }
    }

    /// Hands out the runs of positions that do not wait, up to the end of the log, ascending.
    fn each_run(&self, mut each: impl FnMut(Range<Seq>)) {
        let mut first = self.base;
        for (at, block) in self.blocks.iter().enumerate() {
            let mut waiting = block.waiting;
            while waiting != 0 {
                let end = self.base + WIDTH * at as u64 + u64::from(waiting.trailing_zeros());
                if first < end {
                    each(Seq(first)..Seq(end));
                }
                first = end + 1;
                waiting &= waiting - 1;
            }
        }
        if first < self.next.0 {
            each(Seq(first)..self.next);
        }
    }

    /// Returns the position whose lower half is `low`.
    pub(super) const fn seq(&self, low: u32) -> Seq {
        Seq(self.base + self.age(low) as u64)
    }

    /// Returns how far a position lies from the beginning: the older of two records has less.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    pub(super) const fn age(&self, low: u32) -> u32 {
        low.wrapping_sub(self.base as u32)
    }

    /// Returns how many records have been let go of: arrived, dropped, lost, or carried.
    pub(super) const fn arrived(&self) -> u64 {
        self.arrived
    }

    pub(super) const fn waiting_records(&self) -> u64 {
        self.waiting_records
    }

    pub(super) const fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Returns the bytes from the oldest waiting record to the end of the log, and of less than
    /// [`WIDTH`] records before it.
    pub(super) const fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    /// Returns the same, but of less than [`WIDTH`] records after the oldest: nothing that has
    /// arrived before it is in there.
    pub(super) fn span_bytes_min(&self) -> u64 {
        self.span_bytes - self.blocks.front().map_or(0, |front| front.bytes)
    }

    /// Returns the positions from the oldest waiting record to the end of the log.
    pub(super) fn span_records(&self) -> u64 {
        self.next.0.saturating_sub(self.checkpoint().0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn the_checkpoint_is_the_lowest_that_waits() {
        let mut ledger = Ledger::new(Seq(100));
        assert_eq!(ledger.checkpoint(), Seq(100));
        for seq in 100..300 {
            ledger.insert(Seq(seq), 10);
        }
        for seq in (101..300).rev() {
            ledger.remove(Seq(seq), 10);
            assert_eq!(ledger.checkpoint(), Seq(100));
        }
        assert_eq!((ledger.waiting_records(), ledger.waiting_bytes()), (1, 10));
        assert_eq!(ledger.span_bytes(), 2000);
        ledger.remove(Seq(100), 10);
        assert_eq!((ledger.checkpoint(), ledger.waiting_bytes()), (Seq(300), 0));
        assert_eq!((ledger.span_bytes(), ledger.span_records(), ledger.blocks.len()), (0, 0, 0));
    }

    /// Positions between those that are told do not exist, or belong to nobody.
    #[test]
    fn gaps_do_not_wait() {
        let mut ledger = Ledger::new(Seq(0));
        ledger.insert(Seq(5), 1);
        ledger.insert(Seq(500), 1);
        ledger.remove(Seq(5), 1);
        assert_eq!(ledger.checkpoint(), Seq(500));
        ledger.insert(Seq(505), 1);
        ledger.insert(Seq(501), 1);
        ledger.remove(Seq(500), 1);
        assert_eq!(ledger.checkpoint(), Seq(501));
    }

    /// What need not be sent again is the longest of what lies between those that wait, and never one
    /// of them.
    #[test]
    fn the_longest_runs_beyond_the_checkpoint_are_named() {
        let mut ledger = Ledger::new(Seq(3));
        let spent = |ledger: &Ledger| {
            let Checkpoint { below, beyond } = ledger.spent();
            (below.0, beyond.iter().map(|run| (run.start.0, run.end.0)).collect::<Vec<_>>())
        };
        assert_eq!(spent(&ledger), (3, vec![]));
        for seq in 3..60 {
            ledger.insert(Seq(seq), 1);
        }
        assert_eq!(spent(&ledger), (3, vec![]));
        for seq in (3..60).filter(|seq| ![5, 6, 20, 33].contains(seq)) {
            ledger.remove(Seq(seq), 1);
        }
        assert_eq!(spent(&ledger), (5, vec![(7, 20), (21, 33), (34, 60)]));
        ledger.advance(Seq(64));
        assert_eq!(spent(&ledger), (5, vec![(7, 20), (21, 33), (34, 64)]));
        assert_eq!(ledger.arrived(), 53);

        let most = Checkpoint::RANGES_MAX as u64;
        let mut ledger = Ledger::new(Seq(0));
        // One more run than there is room for: all as long but the last.
        for seq in (0..=most + 1).map(|at| at * 2) {
            ledger.insert(Seq(seq), 1);
        }
        ledger.advance(Seq(most * 2 + 5));
        let Checkpoint { below, beyond } = ledger.spent();
        assert_eq!((below, beyond.len()), (Seq(0), Checkpoint::RANGES_MAX));
        assert_eq!(beyond.first(), Some(&(Seq(5)..Seq(6))), "the older ones are left out");
        assert_eq!(beyond.last(), Some(&(Seq(most * 2 + 3)..Seq(most * 2 + 5))));
    }

    /// The lower half of a position is enough to know it, also where it begins anew.
    #[test]
    fn positions_are_known_by_their_lower_half() {
        let edge = (1 << 32) - 3;
        let mut ledger = Ledger::new(Seq(edge));
        for seq in edge..edge + 10 {
            ledger.insert(Seq(seq), 1);
        }
        for seq in edge..edge + 10 {
            let low = u32::try_from(seq & 0xffff_ffff).expect("half");
            assert_eq!(ledger.seq(low), Seq(seq));
        }
    }

    #[test]
    #[should_panic(expected = "told once")]
    fn a_position_is_taken_once() {
        let mut ledger = Ledger::new(Seq(0));
        ledger.insert(Seq(0), 1);
        ledger.insert(Seq(0), 1);
    }
}
