//! The first pass: what every node with a surplus gives away.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::Takers;
use crate::plan::board::Board;
use crate::plan::capacity::{Share, Shares};
use crate::plan::placement::{NONE, Role};

/// Takes from every node as many partitions as it gives away; they are nowhere until they get a
/// destination.
pub(super) fn choose(board: &mut Board<'_>, shares: &Shares, takers: &Takers) -> Vec<u32> {
    let mut gone = takers.have.clone();
    let mut leavers = Vec::new();
    let held = held_by_givers(board, shares);
    let related = board.placement.has_relatives();
    for (node, share) in shares.each() {
        let mut held = held.at(node);
        let mut left = share.leaves();
        if share.role == Role::Leaving {
            // All of them leave: there is nothing to choose.
            held.retain(|&partition| board.is_movable(partition));
        } else if left > 0 {
            let mut picked = Vec::new();
            if related {
                in_conflict(board, node, left, &held, &mut picked);
                for &partition in &picked {
                    gone[board.placement.topic_of(partition) as usize] += 1;
                }
                left -= u32::try_from(picked.len()).unwrap_or(left);
            }
            by_topic(board, left, &held, takers.count, &mut gone, &mut picked);
            held = picked;
        } else {
            continue;
        }
        for &partition in &held {
            board.place[partition as usize] = NONE;
        }
        leavers.append(&mut held);
    }
    leavers
}

/// The partitions of every node that gives some away, by index.
struct Held {
    starts: Vec<usize>,
    partitions: Vec<u32>,
}

impl Held {
    fn at(&self, node: u32) -> Vec<u32> {
        let node = node as usize;
        self.partitions[self.starts[node]..self.starts[node + 1]].to_vec()
    }
}

/// Sorts the partitions by node in two passes.
fn held_by_givers(board: &Board<'_>, shares: &Shares) -> Held {
    let size = |share: &Share| {
        if share.leaves() > 0 { share.load as usize } else { 0 }
    };
    let mut starts = Vec::with_capacity(shares.of.len() + 1);
    let mut sum = 0;
    for share in &shares.of {
        starts.push(sum);
        sum += size(share);
    }
    starts.push(sum);
    let mut partitions = vec![NONE; sum];
    let mut next = starts.clone();
    for (partition, &node) in (0..).zip(&board.place) {
        let node = node as usize;
        // The settled partitions of a dead owner are no load, but it gives nothing away either.
        if next[node] < starts[node + 1] {
            partitions[next[node]] = partition;
            next[node] += 1;
        }
    }
    Held { starts, partitions }
}

/// Picks up to `left` partitions that share the node with a relative: worst first, then smallest.
fn in_conflict(board: &mut Board<'_>, node: u32, left: u32, held: &[u32], picked: &mut Vec<u32>) {
    let mut crowded: Vec<(Reverse<u32>, u64, u32)> = held
        .iter()
        .filter(|&&partition| board.is_movable(partition))
        .map(|&partition| (board.conflicts(partition, node), partition))
        .filter(|&(conflicts, _)| conflicts > 0)
        .map(|(conflicts, partition)| (Reverse(conflicts), board.bytes(partition), partition))
        .collect();
    crowded.sort_unstable();
    for (_, _, partition) in crowded {
        if picked.len() >= left as usize {
            break;
        }
        // Its relative may have gone already; one of a pair is enough.
        if board.conflicts(partition, node) > 0 {
            board.place[partition as usize] = NONE;
            picked.push(partition);
        }
    }
}

/// A partition that may leave: cheapest first.
type Candidate = (u64, u32);

/// The partitions of one topic on one node.
struct Run {
    topic: u32,
    /// How many will stay, the immovable ones included.
    count: i64,
    /// Those that may leave, as a range of the node's candidates.
    next: usize,
    end: usize,
    sorted: bool,
}

/// Picks `left` partitions, each of the topic of which the node has most in excess of what the
/// takers will have.
fn by_topic(
    board: &Board<'_>,
    left: u32,
    held: &[u32],
    takers: i64,
    gone: &mut [i64],
    picked: &mut Vec<u32>,
) {
    if left == 0 {
        return;
    }
    let (mut runs, mut candidates) = runs(board, held);
    // `count - gone / takers`, in whole numbers.
    let excess = |run: &Run, gone: &[i64]| run.count * takers - gone[run.topic as usize];
    let cheapest = |run: &Run| candidates[run.next..run.end].iter().min().copied();
    let mut heap: BinaryHeap<(i64, Reverse<Candidate>, usize)> = runs
        .iter()
        .enumerate()
        .filter_map(|(at, run)| Some((excess(run, gone), Reverse(cheapest(run)?), at)))
        .collect();
    for _ in 0..left {
        let Some((_, Reverse((_, partition)), at)) = heap.pop() else { break };
        picked.push(partition);
        let run = &mut runs[at];
        if !run.sorted {
            candidates[run.next..run.end].sort_unstable();
            run.sorted = true;
        }
        run.next += 1;
        run.count -= 1;
        gone[run.topic as usize] += 1;
        if run.next < run.end {
            heap.push((excess(run, gone), Reverse(candidates[run.next]), at));
        }
    }
}

/// Groups a node's partitions, which are in the order of their topics.
fn runs(board: &Board<'_>, held: &[u32]) -> (Vec<Run>, Vec<Candidate>) {
    let mut runs: Vec<Run> = Vec::new();
    let mut candidates = Vec::with_capacity(held.len());
    for &partition in held {
        if board.place(partition) == NONE {
            continue;
        }
        let (topic, at) = (board.placement.topic_of(partition), candidates.len());
        if runs.last().is_none_or(|run| run.topic != topic) {
            runs.push(Run { topic, count: 0, next: at, end: at, sorted: false });
        }
        let Some(run) = runs.last_mut() else { continue };
        run.count += 1;
        if board.is_movable(partition) {
            candidates.push((board.bytes(partition), partition));
            run.end = candidates.len();
        }
    }
    (runs, candidates)
}
