//! The second pass: where the leavers go.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::plan::board::Board;
use crate::plan::capacity::Shares;

/// A node with room: the roomiest first, then the one with the lowest index.
type Ready = (u32, Reverse<u32>);

/// Gives every leaver, in the order of their topics, a node with room.
pub(super) fn choose(board: &mut Board<'_>, shares: &Shares, leavers: &[u32]) {
    let room: Vec<u32> = shares.of.iter().map(super::super::capacity::Share::room).collect();
    let ready = shares
        .each()
        .filter(|(_, share)| share.room() > 0)
        .map(|(node, share)| (share.room(), Reverse(node)))
        .collect();
    let mut seats = Seats { room, have: vec![0; shares.of.len()], ready, aside: BinaryHeap::new() };
    let topic = |partition: &u32| board.placement.topic_of(*partition);
    let by_topic: Vec<&[u32]> = leavers.chunk_by(|one, other| topic(one) == topic(other)).collect();
    for leavers in by_topic {
        seats.seat(board, leavers);
    }
}

/// The room that is left.
struct Seats {
    /// By node.
    room: Vec<u32>,
    /// By node: partitions of the topic at hand.
    have: Vec<u32>,
    /// Nodes that have no more of the topic at hand than the level, or were not looked at yet.
    ready: BinaryHeap<Ready>,
    /// Nodes that have more of it.
    aside: BinaryHeap<(Reverse<u32>, Ready)>,
}

impl Seats {
    /// Places the leavers of one topic.
    fn seat(&mut self, board: &mut Board<'_>, leavers: &[u32]) {
        let Some(&first) = leavers.first() else { return };
        let rows = board.placement.rows_of(board.placement.topic_of(first));
        let span = rows.start as usize..rows.end as usize;
        let nodes = self.have.len();
        let known = |node: u32| Some(node as usize).filter(|&node| node < nodes);
        for node in board.place[span.clone()].iter().copied().filter_map(known) {
            self.have[node] += 1;
        }
        let related = board.placement.is_related(first);
        let mut level = 0;
        for &partition in leavers {
            // Room equals or exceeds what leaves, so there is always a node.
            let Some(node) = self.best(board, partition, related, &mut level) else { break };
            board.place[partition as usize] = node;
        }
        self.ready.extend(self.aside.drain().map(|(_, ready)| ready));
        for node in board.place[span].iter().copied().filter_map(known) {
            self.have[node] = 0;
        }
    }

    /// Takes a seat: on the lowest level, apart from relatives, with the most room.
    fn best(
        &mut self,
        board: &Board<'_>,
        partition: u32,
        related: bool,
        level: &mut u32,
    ) -> Option<u32> {
        let mut avoided: Vec<Ready> = Vec::new();
        let found = loop {
            let Some(ready) = self.ready.pop() else {
                let Some(&(Reverse(next), _)) = self.aside.peek() else { break None };
                *level = next;
                self.raise(next);
                continue;
            };
            let node = ready.1.0;
            let have = self.have[node as usize];
            if have > *level {
                self.aside.push((Reverse(have), ready));
            } else if related && board.conflicts(partition, node) > 0 {
                avoided.push(ready);
            } else {
                break Some(ready);
            }
        };
        // Balance wins: a seat beside a relative is better than none (R81).
        let fallback = avoided.iter().enumerate().min_by_key(|&(_, &(room, Reverse(node)))| {
            (self.have[node as usize], Reverse(room), node)
        });
        let (_, Reverse(node)) = match (found, fallback.map(|(at, _)| at)) {
            (Some(ready), _) => ready,
            (None, Some(at)) => avoided.swap_remove(at),
            (None, None) => return None,
        };
        self.ready.extend(avoided);
        self.have[node as usize] += 1;
        let room = &mut self.room[node as usize];
        *room -= 1;
        if *room > 0 {
            self.ready.push((*room, Reverse(node)));
        }
        Some(node)
    }

    /// Brings back the nodes that the new level reaches.
    fn raise(&mut self, level: u32) {
        while let Some(&(Reverse(have), ready)) = self.aside.peek()
            && have <= level
        {
            self.aside.pop();
            self.ready.push(ready);
        }
    }
}
