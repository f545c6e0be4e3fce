//! Longer cycles: cheapest augmenting paths, for what no pair of partitions improves.
//!
//! A label-correcting search from the place of one partition. Every node is labelled with the
//! cheapest known way for a partition to come to it, each step weighed as if it were the only one;
//! a path that would end well is then weighed as a whole, so that related partitions and those of
//! one topic on it are counted right.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::cost::Cost;
use super::{End, Exchange, Step};

/// Nodes that one search may come to, over and again, for each node that there is.
const VISITS_PER_NODE_MAX: usize = 4;

/// How a node is reached: by this partition, from that node, at this cost so far.
#[derive(Clone, Copy, Debug)]
struct Label {
    partition: u32,
    from: u32,
    cost: Cost,
}

impl Exchange<'_, '_> {
    /// Looks for a path that begins with this partition and improves the plan; returns whether one
    /// was found, and takes it.
    pub(super) fn augment(&mut self, partition: u32) -> bool {
        let start = self.board.place(partition);
        let mut search =
            Search { start, labels: vec![None; self.pool.len()], queue: VecDeque::new() };
        self.reach(partition, &mut search, Cost::NONE);
        for _ in 0..VISITS_PER_NODE_MAX * self.pool.len() {
            let Some(node) = search.queue.pop_front() else { break };
            if let Some((steps, end)) = self.closing(node, &search) {
                self.make(&steps, end);
                return true;
            }
            let Some(Label { cost, .. }) = search.labels[node as usize] else { continue };
            for at in 0..self.pool[node as usize].len() {
                let other = self.pool[node as usize][at];
                self.reach(other, &mut search, cost);
                if self.trades_left == 0 {
                    return false;
                }
            }
        }
        false
    }

    /// Labels the nodes that a partition could go to next, where that is cheaper than what is
    /// known.
    fn reach(&mut self, partition: u32, search: &mut Search, so_far: Cost) {
        let from = self.board.place(partition);
        for to in self.elsewhere(partition) {
            self.trades_left = self.trades_left.saturating_sub(1);
            if to == search.start || search.passes(from, to) {
                continue;
            }
            let cost = so_far + self.try_out(&[Step { partition, to }]);
            // On a big cluster a path is worth following only while it resolves a conflict.
            let worth = cost.conflicts < i64::from(self.spread.is_some());
            let label = &mut search.labels[to as usize];
            if worth && label.is_none_or(|known| cost < known.cost) {
                *label = Some(Label { partition, from, cost });
                search.queue.push_back(to);
            }
        }
    }

    /// Looks for a way to end the path that has reached `node`.
    fn closing(&mut self, node: u32, search: &Search) -> Option<(Vec<Step>, End)> {
        let path = search.path_to(node)?;
        if let Some(end) = self.end(search.start, node)
            && self.improves(&path, end)
        {
            return Some((path, end));
        }
        for at in 0..self.pool[node as usize].len() {
            let other = self.pool[node as usize][at];
            self.trades_left = self.trades_left.saturating_sub(1);
            for (back, end) in self.ways_back(other, search.start).into_iter().flatten() {
                // A ceil share is handed to a node that the path has not touched.
                if back != search.start && search.passes(node, back) {
                    continue;
                }
                let mut steps = path.clone();
                steps.push(Step { partition: other, to: back });
                if self.improves(&steps, end) {
                    return Some((steps, end));
                }
            }
        }
        None
    }

    fn improves(&mut self, steps: &[Step], end: End) -> bool {
        let cost = self.try_out(steps);
        end.is_worth(cost)
    }
}

/// What a search has found so far.
struct Search {
    start: u32,
    /// By node.
    labels: Vec<Option<Label>>,
    queue: VecDeque<u32>,
}

impl Search {
    /// Returns whether the path to `node` goes through `other`, or is that node.
    fn passes(&self, node: u32, other: u32) -> bool {
        let mut at = node;
        for _ in 0..=self.labels.len() {
            if at == other {
                return true;
            }
            match self.labels[at as usize] {
                Some(Label { from, .. }) if at != self.start => at = from,
                Some(_) | None => return false,
            }
        }
        true
    }

    /// Returns the steps to `node`, first to last; nothing if later labels have cut the path.
    fn path_to(&self, node: u32) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        let mut at = node;
        while at != self.start {
            let Label { partition, from, .. } = self.labels[at as usize]?;
            steps.push(Step { partition, to: at });
            if steps.len() > self.labels.len() {
                return None;
            }
            at = from;
        }
        steps.reverse();
        Some(steps)
    }
}
