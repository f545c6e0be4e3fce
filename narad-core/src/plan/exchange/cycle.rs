//! Longer cycles: augmenting paths for conflicts that no pair of partitions resolves.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::{End, Exchange, Step};

/// How a node was reached: the partition that would come, and the node that it would leave.
#[derive(Clone, Copy, Debug)]
struct Via {
    partition: u32,
    from: u32,
}

impl Exchange<'_, '_> {
    /// Looks for a path that takes a crowded partition to a place of its own; returns whether one
    /// was found, and takes it.
    pub(super) fn augment(&mut self, partition: u32) -> bool {
        let start = self.board.place(partition);
        let crowd = self.board.conflicts(partition, start);
        if crowd == 0 || self.trades_left == 0 {
            return false;
        }
        let mut via: Vec<Option<Via>> = vec![None; self.pool.len()];
        let mut queue = VecDeque::new();
        for to in self.elsewhere(partition) {
            if self.board.conflicts(partition, to) < crowd {
                via[to as usize] = Some(Via { partition, from: start });
                queue.push_back(to);
            }
        }
        while let Some(node) = queue.pop_front() {
            if let Some((steps, end)) = self.closing(node, start, &via) {
                self.make(&steps, end);
                return true;
            }
            self.extend(node, start, &mut via, &mut queue);
            if self.trades_left == 0 {
                return false;
            }
        }
        false
    }

    /// Looks for a way to end the path that has reached `node`.
    fn closing(&mut self, node: u32, start: u32, via: &[Option<Via>]) -> Option<(Vec<Step>, End)> {
        let path = path_to(node, start, via);
        if let Some(end) = self.end(start, node)
            && self.resolves(&path)
        {
            return Some((path, end));
        }
        for at in 0..self.pool[node as usize].len() {
            let other = self.pool[node as usize][at];
            self.trades_left = self.trades_left.saturating_sub(1);
            if path.iter().any(|step| step.partition == other) {
                continue;
            }
            for (back, end) in self.ways_back(other, start).into_iter().flatten() {
                let mut steps = path.clone();
                steps.push(Step { partition: other, to: back });
                if self.resolves(&steps) {
                    return Some((steps, end));
                }
            }
        }
        None
    }

    /// Returns whether a path has fewer conflicts in the end.
    fn resolves(&mut self, steps: &[Step]) -> bool {
        self.try_out(steps).conflicts < 0
    }

    /// Reaches further nodes through the partitions that could leave `node` without a conflict.
    fn extend(
        &mut self,
        node: u32,
        start: u32,
        via: &mut [Option<Via>],
        queue: &mut VecDeque<u32>,
    ) {
        for at in 0..self.pool[node as usize].len() {
            let other = self.pool[node as usize][at];
            let crowd = self.board.conflicts(other, node);
            for to in self.elsewhere(other) {
                self.trades_left = self.trades_left.saturating_sub(1);
                let fresh = to != start && via[to as usize].is_none();
                if fresh && self.board.conflicts(other, to) <= crowd {
                    via[to as usize] = Some(Via { partition: other, from: node });
                    queue.push_back(to);
                }
            }
            if self.trades_left == 0 {
                return;
            }
        }
    }
}

/// Returns the steps from `start` to `node`, first to last.
fn path_to(node: u32, start: u32, via: &[Option<Via>]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at = node;
    while at != start {
        let Some(Via { partition, from }) = via[at as usize] else { break };
        steps.push(Step { partition, to: at });
        at = from;
    }
    steps.reverse();
    steps
}
