//! Leavers and destinations of a big cluster, in one pass over its partitions.
//!
//! Topic by topic, in the order of ids:
//!
//! 1. *Who leaves.* Partitions that share a node with a relative go first (R81); then those of
//!    which their node has more than an even part of the topic; then any others. Each node gives
//!    as many of each kind as it must, evenly spaced over all that it has of that kind, and the
//!    nodes are out of step with one another: so the topics give evenly, too.
//! 2. *Where to.* The free seats of all takers come in an order in which every stretch has as many
//!    of each taker as is its part of the room. A leaver takes the next seat on a node that has not
//!    its part of the topic yet, and no relative of it; seats that were passed over come first for
//!    the next one. So a topic spreads over the takers without anybody searching for it.
//!
//! Conflicts that are left, which takes a crowded corner, are then looked at one by one by
//! [`exchange`].
//!
//! Takes about fifteen bytes for each partition and eighty for each node, most of it only where
//! topics are related.

mod crowd;
mod givers;
mod seats;

use alloc::vec;
use alloc::vec::Vec;

use self::givers::Givers;
use self::seats::Seats;
use super::board::Board;
use super::capacity::Shares;
use super::choose::Effort;
use super::exchange;
use super::limits::Step;
use super::placement::{NONE, Placement};

/// Places every partition that has to move; returns those that do, by index.
pub(super) fn choose(placement: &Placement, shares: &mut Shares) -> Vec<Step> {
    let related = placement.has_relatives();
    let mut board = Board::new(placement);
    let mut quotas: Vec<u32> = shares.of.iter().map(super::capacity::Share::leaves).collect();
    if related {
        crowd::leave(&mut board, shares, &mut quotas);
    }
    let steps = Stream::new(&board, shares, quotas).run(&mut board);
    if related && crowd::is_left(&board, shares) {
        let movers = steps.iter().map(|step| step.partition).collect();
        let movers = exchange::improve(&mut board, shares, movers, Effort::Stream);
        return movers.into_iter().map(|partition| board.step(partition)).collect();
    }
    steps
}

/// How many partitions of the topic at hand a node has; made anew for a topic when it is first
/// asked for.
#[derive(Clone, Copy)]
struct Count {
    topic: u32,
    count: u32,
}

/// The counts of all nodes for the topic at hand.
struct Counts(Vec<Count>);

impl Counts {
    fn new(nodes: usize) -> Self {
        Self(vec![Count { topic: NONE, count: 0 }; nodes])
    }

    /// Returns the count after one more.
    fn add(&mut self, topic: u32, node: u32) -> u32 {
        let count = &mut self.0[node as usize];
        if count.topic != topic {
            *count = Count { topic, count: 0 };
        }
        count.count += 1;
        count.count
    }

    fn of(&self, topic: u32, node: u32) -> u32 {
        let count = self.0[node as usize];
        if count.topic == topic { count.count } else { 0 }
    }
}

/// The pass.
struct Stream {
    givers: Givers,
    seats: Seats,
    counts: Counts,
    receivers: u32,
    steps: Vec<Step>,
}

impl Stream {
    fn new(board: &Board<'_>, shares: &Shares, quotas: Vec<u32>) -> Self {
        let moves: usize = shares.of.iter().map(|share| share.leaves() as usize).sum();
        let mut counts = Counts::new(shares.of.len());
        Self {
            givers: Givers::new(board, shares, quotas, &mut counts),
            seats: Seats::new(shares),
            counts: Counts::new(shares.of.len()),
            receivers: shares.receivers,
            steps: Vec::with_capacity(moves),
        }
    }

    fn run(mut self, board: &mut Board<'_>) -> Vec<Step> {
        let placement = board.placement;
        let mut leavers = Vec::new();
        for topic in 0..u32::try_from(placement.topics().len()).unwrap_or(NONE) {
            let part = part(placement, topic, self.receivers);
            self.find_leavers(board, topic, part, &mut leavers);
            let related = !placement.related_topics(topic).is_empty();
            let mut level = part;
            for partition in leavers.drain(..) {
                let seat = self.seats.take(
                    |node| self.counts.of(topic, node),
                    |node| if related { board.conflicts(partition, node) } else { 0 },
                    &mut level,
                );
                // Room equals or exceeds what leaves, so there is always a seat.
                let Some(to) = seat else { continue };
                self.counts.add(topic, to);
                board.place[partition as usize] = to;
                self.steps.push(Step { partition, to });
            }
        }
        self.steps
    }

    /// Finds the partitions of a topic that leave, and counts those that do not.
    fn find_leavers(
        &mut self,
        board: &mut Board<'_>,
        topic: u32,
        part: u32,
        leavers: &mut Vec<u32>,
    ) {
        let rows = board.placement.rows_of(topic);
        let marks = &board.placement.marks()[rows.start as usize..rows.end as usize];
        let places = &mut board.place[rows.start as usize..rows.end as usize];
        for (partition, (place, marks)) in rows.zip(places.iter_mut().zip(marks)) {
            if *place == NONE {
                leavers.push(partition);
                continue;
            }
            let count = self.counts.add(topic, *place);
            if self.givers.is_done(*place) || !marks.is_free() {
                continue;
            }
            if self.givers.give(*place, count > part) {
                leavers.push(partition);
                *place = NONE;
            }
        }
    }
}

/// Returns a node's even part of a topic.
fn part(placement: &Placement, topic: u32, receivers: u32) -> u32 {
    let size = u32::try_from(placement.rows_of(topic).len()).unwrap_or(NONE);
    size.div_ceil(receivers.max(1))
}
