//! Improves a plan without changing how many partitions any node ends up with.
//!
//! Partitions trade places around a cycle: one mover takes another's destination, or stays while a
//! neighbour on its node leaves instead. Pairs are tried first, exactly; a conflict that no pair
//! resolves gets a breadth-first search for a longer cycle, an augmenting path of the matching
//! between partitions and seats (R81). Two ends of a path need not be one node where a seat is
//! free, or where a ceil share may change hands at the price of no move.
//!
//! Every step lowers conflicts, then spread, then bytes, so the search ends; named limits bound it
//! on big clusters, where conflicts are still looked for but fine tuning is left out.

mod cost;
mod cycle;

use alloc::vec;
use alloc::vec::Vec;

use self::cost::Cost;
use super::board::Board;
use super::capacity::Shares;
use super::choose::Effort;
use super::placement::Role;

/// Trades that are looked at before each of the two searches, for conflicts and for the rest, gives
/// up: some tens of milliseconds.
const TRADES_MAX: usize = 500_000;

/// The same on a cluster that is too big to be tuned: some milliseconds.
const STREAM_TRADES_MAX: usize = 50_000;

/// Improves a plan; takes its movers and returns those of the better one, by index.
pub(super) fn improve(
    board: &mut Board<'_>,
    shares: &mut Shares,
    movers: Vec<u32>,
    effort: Effort,
) -> Vec<u32> {
    let tuned = effort == Effort::Tuned;
    if movers.is_empty() || !(tuned || board.placement.has_relatives()) {
        return movers;
    }
    let mut exchange = Exchange::new(board, shares, &movers, tuned);
    // Conflicts come first, so that no tuning uses up the search for them (R81).
    while exchange.round(&[]) {}
    if tuned {
        exchange.trades_left = TRADES_MAX;
        while exchange.round(&exchange.movers()) {}
    }
    let mut movers = exchange.movers();
    movers.sort_unstable();
    movers
}

/// A partition and the node that it would end up on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    partition: u32,
    to: u32,
}

/// A ceil share that changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HandOver {
    from: u32,
    to: u32,
}

/// How a path of steps that began on one node may end on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is the same node, or it has a free seat.
    Plain,
    /// With a ceil share that changes hands.
    HandOver(HandOver),
}

impl End {
    /// Returns whether a path with this end is worth its cost. The most loaded keep their ceil
    /// shares, unless a conflict goes away (R72, R81).
    fn is_worth(self, cost: Cost) -> bool {
        match self {
            Self::Plain => cost < Cost::NONE,
            Self::HandOver(_) => cost.conflicts < 0,
        }
    }
}

/// A plan under improvement.
struct Exchange<'b, 'a> {
    board: &'b mut Board<'a>,
    shares: &'b mut Shares,
    /// By node: the partitions there that could be elsewhere. On a giver those are the ones that
    /// stay, on a taker the ones that come.
    pool: Vec<Vec<u32>>,
    /// Nodes that take, or would with a ceil share.
    takers: Vec<u32>,
    /// By node: how many partitions it ends up with.
    ends_with: Vec<u32>,
    /// Partitions by topic and node, where spread is looked at.
    spread: Option<Vec<u32>>,
    trades_left: usize,
}

impl<'b, 'a> Exchange<'b, 'a> {
    fn new(board: &'b mut Board<'a>, shares: &'b mut Shares, movers: &[u32], tuned: bool) -> Self {
        let nodes = shares.of.len();
        let mut pool = vec![Vec::new(); nodes];
        let mut ends_with = vec![0; nodes];
        for (partition, &node) in (0..).zip(&board.place) {
            ends_with[node as usize] += 1;
            let stays = shares.at(node).role == Role::Receiver
                && !shares.is_low(node)
                && board.is_movable(partition);
            if stays {
                pool[node as usize].push(partition);
            }
        }
        for &partition in movers {
            pool[board.place(partition) as usize].push(partition);
        }
        let takers = shares.each().map(|(node, _)| node);
        let takers = takers.filter(|&node| shares.is_low(node)).collect();
        let spread = tuned.then(|| cost::spread_table(board, nodes));
        let trades_left = if tuned { TRADES_MAX } else { STREAM_TRADES_MAX };
        Self { board, shares, pool, takers, ends_with, spread, trades_left }
    }

    /// Returns the partitions that do not stay.
    fn movers(&self) -> Vec<u32> {
        self.takers.iter().flat_map(|&node| &self.pool[node as usize]).copied().collect()
    }

    /// Tries the crowded partitions and the given ones once; returns whether another round may
    /// help.
    fn round(&mut self, tuned: &[u32]) -> bool {
        let mut changed = false;
        let crowded = self.crowded();
        for &partition in crowded.iter().chain(tuned) {
            while self.trade(partition) {
                changed = true;
            }
        }
        if !changed {
            for &partition in crowded.iter().chain(tuned) {
                if self.trades_left > 0 {
                    changed |= self.augment(partition);
                }
            }
        }
        changed && self.trades_left > 0
    }

    /// Returns the partitions of the pool that share their place with a relative, movers first.
    fn crowded(&mut self) -> Vec<u32> {
        if !self.board.placement.has_relatives() {
            return Vec::new();
        }
        let board = &*self.board;
        let everyone = self.pool.iter().flatten().copied();
        let mut crowded: Vec<u32> = everyone
            .filter(|&partition| board.conflicts(partition, board.place(partition)) > 0)
            .collect();
        crowded.sort_unstable_by_key(|&partition| {
            (board.place(partition) == board.owner(partition), partition)
        });
        crowded
    }

    /// Makes the best trade of one partition with at most one other, if any is an improvement.
    fn trade(&mut self, partition: u32) -> bool {
        let from = self.board.place(partition);
        let crowd = self.board.conflicts(partition, from);
        let mut best: Option<(Cost, Vec<Step>, End)> = None;
        for to in self.elsewhere(partition) {
            let conflicts = self.board.conflicts(partition, to);
            if self.spread.is_none() && conflicts > crowd {
                continue;
            }
            let first = Step { partition, to };
            if let Some(end) = self.end(from, to) {
                self.weigh(&[first], end, &mut best);
            }
            for at in 0..self.pool[to as usize].len() {
                let other = self.pool[to as usize][at];
                for (back, end) in self.ways_back(other, from).into_iter().flatten() {
                    let second = Step { partition: other, to: back };
                    self.weigh(&[first, second], end, &mut best);
                }
                // On a big cluster the first improvement is taken, and all looking is counted.
                self.trades_left = self.trades_left.saturating_sub(1);
                if self.trades_left == 0 || (self.spread.is_none() && best.is_some()) {
                    break;
                }
            }
            if self.spread.is_none() && best.is_some() {
                break;
            }
        }
        let Some((_, steps, end)) = best else { return false };
        self.make(&steps, end);
        true
    }

    /// Returns the nodes on which the partition could end up instead.
    fn elsewhere(&self, partition: u32) -> Vec<u32> {
        let here = self.board.place(partition);
        let home = self.board.owner(partition);
        let home = Some(home).filter(|&home| self.board.role(home) == Role::Receiver);
        home.into_iter().chain(self.takers.iter().copied()).filter(|&node| node != here).collect()
    }

    /// Returns whether the partition could end up on that node at all.
    fn could_be_on(&self, partition: u32, node: u32) -> bool {
        self.shares.is_low(node)
            || (self.board.owner(partition) == node && self.board.role(node) == Role::Receiver)
    }

    /// Returns how `other` could make room for one that comes from `from`: by going there, or by
    /// staying at home for the price of a ceil share.
    fn ways_back(&self, other: u32, from: u32) -> [Option<(u32, End)>; 2] {
        let there = self.could_be_on(other, from).then_some((from, End::Plain));
        let home = self.board.owner(other);
        let hand_over = HandOver { from, to: home };
        let stays = home != from && self.shares.may_hand_over(from, home);
        [there, stays.then_some((home, End::HandOver(hand_over)))]
    }

    /// Returns how a path from `from` may end on `to`, another taker, if it may.
    fn end(&self, from: u32, to: u32) -> Option<End> {
        if !self.shares.is_low(from) || !self.shares.is_low(to) {
            return None;
        }
        if self.ends_with[to as usize] < self.shares.at(to).cap {
            return Some(End::Plain);
        }
        let hand_over = HandOver { from, to };
        self.shares.may_hand_over(from, to).then_some(End::HandOver(hand_over))
    }

    /// Keeps a path if it is the best so far.
    fn weigh(&mut self, steps: &[Step], end: End, best: &mut Option<(Cost, Vec<Step>, End)>) {
        let cost = self.try_out(steps);
        if end.is_worth(cost) && best.as_ref().is_none_or(|(least, ..)| cost < *least) {
            *best = Some((cost, steps.to_vec(), end));
        }
    }

    /// Takes a path for good.
    fn make(&mut self, steps: &[Step], end: End) {
        for &Step { partition, to } in steps {
            let from = self.board.place(partition) as usize;
            self.shift(partition, to);
            self.pool[from].retain(|&other| other != partition);
            self.pool[to as usize].push(partition);
            self.ends_with[from] -= 1;
            self.ends_with[to as usize] += 1;
        }
        if let End::HandOver(HandOver { from, to }) = end {
            self.shares.hand_over(from, to);
        }
    }
}
