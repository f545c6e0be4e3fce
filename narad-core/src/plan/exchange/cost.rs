//! What a plan costs beyond its moves.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Add, Sub};

use super::{Exchange, Step};
use crate::plan::board::Board;

/// The difference between two plans; compared in the order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    /// Pairs of relatives on one node.
    pub(super) conflicts: i64,
    /// The sum of the squares of every topic's partitions on every node: least when spread evenly.
    pub(super) spread: i64,
    /// Bytes to be copied.
    pub(super) bytes: i128,
}

impl Cost {
    pub(super) const NONE: Self = Self { conflicts: 0, spread: 0, bytes: 0 };
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            conflicts: self.conflicts + other.conflicts,
            spread: self.spread + other.spread,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            conflicts: self.conflicts - other.conflicts,
            spread: self.spread - other.spread,
            bytes: self.bytes - other.bytes,
        }
    }
}

/// Counts every topic's partitions on every node.
pub(super) fn spread_table(board: &Board<'_>, nodes: usize) -> Vec<u32> {
    let mut table = vec![0; nodes * board.placement.topics().len()];
    for (partition, &node) in (0..).zip(&board.place) {
        table[board.placement.topic_of(partition) as usize * nodes + node as usize] += 1;
    }
    table
}

impl Exchange<'_, '_> {
    /// Returns what a path would cost; changes nothing.
    pub(super) fn try_out(&mut self, steps: &[Step]) -> Cost {
        let mut cost = Cost::NONE;
        let mut back = Vec::with_capacity(steps.len());
        for &Step { partition, to } in steps {
            back.push(Step { partition, to: self.board.place(partition) });
            cost = cost + self.shift(partition, to);
        }
        for &Step { partition, to } in back.iter().rev() {
            self.shift(partition, to);
        }
        cost
    }

    /// Puts one partition elsewhere; returns what that costs.
    pub(super) fn shift(&mut self, partition: u32, to: u32) -> Cost {
        let from = self.board.place(partition);
        let cost = self.cost_on(partition, to) - self.cost_on(partition, from);
        self.board.place[partition as usize] = to;
        let nodes = self.pool.len();
        let topic = self.board.placement.topic_of(partition) as usize;
        let Some(table) = &mut self.spread else { return cost };
        let (new, old) = (topic * nodes + to as usize, topic * nodes + from as usize);
        let spread = 2 * (i64::from(table[new]) - i64::from(table[old]) + 1);
        table[new] += 1;
        table[old] -= 1;
        Cost { spread, ..cost }
    }

    /// Returns what the partition costs on that node, but for the spread.
    fn cost_on(&self, partition: u32, node: u32) -> Cost {
        let copied = self.board.owner(partition) != node;
        Cost {
            conflicts: i64::from(self.board.conflicts(partition, node)),
            spread: 0,
            bytes: if copied { i128::from(self.board.bytes(partition)) } else { 0 },
        }
    }
}
