//! Which partitions leave, and where they go.
//!
//! The number of moves is settled by [`capacity`](super::capacity). Among the plans with that
//! number this module builds a good one in two passes, near-linear in the size of the cluster, and
//! [`exchange`](super::exchange) then improves it: conflicts between parents and children first
//! (R81), then the spread of every topic (K104), then the bytes that are copied.
//!
//! 1. *Leavers.* Every node with a surplus gives away partitions that share it with a relative,
//!    then partitions of the topics of which it has more than the takers have.
//! 2. *Destinations.* Topic by topic, every leaver goes where the topic has the fewest partitions,
//!    and of those where the most room is left.

mod destinations;
mod leavers;

use alloc::vec;
use alloc::vec::Vec;

use super::board::Board;
use super::capacity::Shares;
use super::exchange;

/// Places every partition that has to move; returns those that do, by index.
pub(super) fn choose(board: &mut Board<'_>, shares: &mut Shares) -> Vec<u32> {
    if shares.receivers == 0 {
        return Vec::new();
    }
    let takers = Takers::new(board, shares);
    let mut leavers = leavers::choose(board, shares, &takers);
    // By topic, which is how destinations are given.
    leavers.sort_unstable();
    destinations::choose(board, shares, &leavers);
    exchange::improve(board, shares, leavers)
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
