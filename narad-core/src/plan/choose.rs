//! Which partitions leave, and where they go.
//!
//! The number of moves is settled by [`capacity`](super::capacity). Among the plans with that
//! number this module builds a good one in two passes, and [`exchange`](super::exchange) then
//! improves it: conflicts between parents and children first (R81), then the spread of every topic
//! (K104), then the bytes that are copied.
//!
//! 1. *Leavers.* Every node with a surplus gives away partitions that share it with a relative,
//!    then partitions of the topics of which it has more than the takers have.
//! 2. *Destinations.* Topic by topic, every leaver goes where the topic has the fewest partitions,
//!    and of those where the most room is left.
//!
//! A cluster that is too big for that has both made in one pass by [`stream`](super::stream), and
//! only its conflicts improved.

mod destinations;
mod leavers;

use alloc::vec;
use alloc::vec::Vec;

use super::board::Board;
use super::capacity::{Share, Shares};
use super::limits::Step;
use super::placement::{Placement, Role};
use super::{exchange, stream};

/// Most partitions of a placement whose plan is made at leisure and tuned.
pub(super) const TUNED_PARTITIONS_MAX: usize = 1 << 15;

/// Most partitions that could trade places for spread and bytes to be tuned.
const TUNED_POOL_MAX: usize = 8192;

/// Most entries of the table of topics by nodes, without which nothing is tuned.
const SPREAD_TABLE_MAX: usize = 1 << 22;

/// How much is done to make a plan good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Conflicts are resolved; spread and bytes come out well.
    Stream,
    /// Every trade of places that improves the plan is looked for.
    Tuned,
}

/// Places every partition that has to move; returns those that do, by index.
pub(super) fn choose(placement: &Placement, shares: &mut Shares) -> Vec<Step> {
    let effort = effort(placement, shares);
    choose_with(effort, placement, shares)
}

pub(super) fn choose_with(effort: Effort, placement: &Placement, shares: &mut Shares) -> Vec<Step> {
    if shares.receivers == 0 || shares.of.iter().all(|share| share.leaves() == 0) {
        return Vec::new();
    }
    match effort {
        Effort::Stream => stream::choose(placement, shares),
        Effort::Tuned => {
            let mut board = Board::new(placement);
            let takers = Takers::new(&board, shares);
            let mut leavers = leavers::choose(&mut board, shares, &takers);
            // By topic, which is how destinations are given.
            leavers.sort_unstable();
            destinations::choose(&mut board, shares, &leavers);
            let movers = exchange::improve(&mut board, shares, leavers, effort);
            movers.into_iter().map(|partition| board.step(partition)).collect()
        }
    }
}

fn effort(placement: &Placement, shares: &Shares) -> Effort {
    let tables = placement.nodes().len().saturating_mul(placement.topics().len());
    let is_small = placement.partitions().len() <= TUNED_PARTITIONS_MAX
        && tables <= SPREAD_TABLE_MAX
        && pool_size(shares) <= TUNED_POOL_MAX;
    if is_small { Effort::Tuned } else { Effort::Stream }
}

/// Counts the partitions that could trade places.
fn pool_size(shares: &Shares) -> usize {
    let gives = |node: u32, share: &Share| {
        share.role != Role::Dead && !shares.is_low(node) && share.surplus() > 0
    };
    let gives = shares.each().filter(|&(node, share)| gives(node, share));
    gives.map(|(_, share)| share.movable as usize).sum()
}

/// What the takers together have of each topic.
struct Takers {
    /// How many nodes have room.
    count: i64,
    /// By topic.
    have: Vec<i64>,
}

impl Takers {
    fn new(board: &Board<'_>, shares: &Shares) -> Self {
        let takes: Vec<bool> = shares.of.iter().map(|share| share.room() > 0).collect();
        let count = takes.iter().map(|&takes| i64::from(takes)).sum();
        let mut have = vec![0; board.placement.topics().len()];
        if count > 0 {
            for (partition, &node) in (0..).zip(&board.place) {
                if takes[node as usize] {
                    have[board.placement.topic_of(partition) as usize] += 1;
                }
            }
        }
        Self { count, have }
    }
}
