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
#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;
use core::ops::Range;

use self::givers::Givers;
use self::seats::Seats;
use super::board::Board;
use super::capacity::{Share, Shares};
use super::choose::Effort;
use super::exchange;
use super::limits::Step;
use super::placement::{NONE, Placement};

/// Partitions that are looked at before those of them that leave get a seat.
const CHUNK: usize = 1024;

/// Places every partition that has to move; returns those that do, by index.
pub(super) fn choose(placement: &Placement, shares: &mut Shares) -> Vec<Step> {
    let mut quotas: Vec<u32> = shares.of.iter().map(Share::leaves).collect();
    if let [_] = placement.topics() {
        return first_come(placement, shares, quotas);
    }
    if !placement.has_relatives() {
        let quotas = Givers::new(placement, placement.places(), shares, quotas);
        return Stream::new(placement, shares, quotas).run_alone();
    }
    let mut board = Board::new(placement);
    crowd::leave(&mut board, shares, &mut quotas);
    let givers = Givers::new(placement, &board.place, shares, quotas);
    let steps = Stream::new(placement, shares, givers).run_related(&mut board);
    if !crowd::is_left(&board, shares) {
        return steps;
    }
    let movers = steps.iter().map(|step| step.partition).collect();
    let movers = exchange::improve(&mut board, shares, movers, Effort::Stream);
    movers.into_iter().map(|partition| board.step(partition)).collect()
}

/// The pass over partitions of which only the number on each node matters.
fn first_come(placement: &Placement, shares: &Shares, mut quotas: Vec<u32>) -> Vec<Step> {
    let mut left: usize = quotas.iter().map(|quota| *quota as usize).sum();
    let mut steps = Vec::with_capacity(left);
    let mut seats = Seats::new(shares);
    let (places, marks) = (placement.places(), placement.marks());
    let mut leavers = [0; CHUNK];
    for (first, (places, marks)) in
        (0_u32..).step_by(CHUNK).zip(places.chunks(CHUNK).zip(marks.chunks(CHUNK)))
    {
        let mut found = 0;
        for (partition, (place, marks)) in (first..).zip(places.iter().zip(marks)) {
            // Who gives is as good as random: this is not to be guessed, but computed.
            let quota = &mut quotas[*place as usize];
            let gives = if marks.is_free() { (*quota).min(1) } else { 0 };
            leavers[found] = partition;
            found += gives as usize;
            *quota -= gives;
        }
        for partition in &leavers[..found] {
            // Room equals or exceeds what leaves, so there is always a seat.
            let Some(to) = seats.next() else { return steps };
            steps.push(Step { partition: *partition, to });
        }
        left -= found;
        if left == 0 {
            break;
        }
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

impl Count {
    /// Returns the count after one more.
    fn add(&mut self, topic: u32) -> u32 {
        let before = select_unpredictable(self.topic == topic, self.count, 0);
        *self = Self { topic, count: before + 1 };
        before + 1
    }
}

/// The counts of all nodes for the topic at hand.
struct Counts(Vec<Count>);

impl Counts {
    fn new(nodes: usize) -> Self {
        Self(vec![Count { topic: NONE, count: 0 }; nodes])
    }

    fn of(&self, topic: u32, node: u32) -> u32 {
        let count = self.0[node as usize];
        if count.topic == topic { count.count } else { 0 }
    }
}

/// The pass.
struct Stream<'a> {
    placement: &'a Placement,
    givers: Givers,
    seats: Seats,
    counts: Counts,
    receivers: u32,
    steps: Vec<Step>,
    /// The leavers of the topic at hand, in the first places.
    leavers: Vec<u32>,
}

impl<'a> Stream<'a> {
    fn new(placement: &'a Placement, shares: &Shares, givers: Givers) -> Self {
        let moves: usize = shares.of.iter().map(|share| share.leaves() as usize).sum();
        let biggest = topics(placement).map(|topic| placement.rows_of(topic).len()).max();
        Self {
            placement,
            givers,
            seats: Seats::new(shares),
            counts: Counts::new(shares.of.len()),
            receivers: shares.receivers,
            steps: Vec::with_capacity(moves),
            leavers: vec![0; biggest.unwrap_or(0)],
        }
    }

    /// Passes over topics of which none is related to another.
    fn run_alone(mut self) -> Vec<Step> {
        for topic in topics(self.placement) {
            let mut level = part(self.placement, topic, self.receivers);
            let rows = self.placement.rows_of(topic);
            let places = &self.placement.places()[rows.start as usize..rows.end as usize];
            for nth in 0..self.find_leavers(topic, level, places) {
                let count = |node| self.counts.of(topic, node);
                let to = self.seats.take(count, |_| 0, &mut level);
                self.seat(topic, self.leavers[nth], to);
            }
        }
        self.steps
    }

    /// Passes over topics some of which are; the board shows what has left already, and then where
    /// everything ends up.
    fn run_related(mut self, board: &mut Board<'_>) -> Vec<Step> {
        let mut kin = Some(Vec::new());
        for topic in topics(self.placement) {
            let mut level = part(self.placement, topic, self.receivers);
            let rows = self.placement.rows_of(topic);
            let places = &board.place[rows.start as usize..rows.end as usize];
            let leavers = self.find_leavers(topic, level, places);
            self.placement.relatives_by_position(topic, &mut kin);
            for leaver in &self.leavers[..leavers] {
                board.place[*leaver as usize] = NONE;
            }
            for nth in 0..leavers {
                let leaver = self.leavers[nth];
                let count = |node| self.counts.of(topic, node);
                let conflicts = |node: u32| {
                    let Some(kin) = &kin else { return board.conflicts(leaver, node) };
                    let nth = (leaver - rows.start) as usize;
                    let there = |kin: &Range<u32>| {
                        let kin = &board.place[kin.start as usize..kin.end as usize];
                        u32::from(kin.get(nth) == Some(&node))
                    };
                    kin.iter().map(there).sum()
                };
                let to = self.seats.take(count, conflicts, &mut level);
                board.place[leaver as usize] = to.unwrap_or(NONE);
                self.seat(topic, leaver, to);
            }
        }
        self.steps
    }

    fn seat(&mut self, topic: u32, partition: u32, to: Option<u32>) {
        // Room equals or exceeds what leaves, so there is always a seat.
        let Some(to) = to else { return };
        self.counts.0[to as usize].add(topic);
        self.steps.push(Step { partition, to });
    }

    /// Finds the partitions of a topic that leave, and counts what every node has of it. Returns
    /// how many leave.
    fn find_leavers(&mut self, topic: u32, part: u32, places: &[u32]) -> usize {
        let rows = self.placement.rows_of(topic);
        let marks = &self.placement.marks()[rows.start as usize..rows.end as usize];
        let part = self.givers.excess_beyond(part);
        let (counts, givers) = (&mut self.counts.0[..], self.givers.each_mut());
        let leavers = &mut self.leavers[..rows.len()];
        let mut found = 0;
        for (partition, (place, marks)) in rows.zip(places.iter().zip(marks)) {
            leavers[found] = partition;
            if *place == NONE {
                found += 1;
                continue;
            }
            let node = *place as usize;
            let is_excess = counts[node].add(topic) > part;
            let spacing = &mut givers[node][usize::from(is_excess)];
            // As above: computed.
            let gives = marks.is_free() && spacing.next();
            found += usize::from(gives);
        }
        found
    }
}

fn topics(placement: &Placement) -> Range<u32> {
    0..u32::try_from(placement.topics().len()).unwrap_or(NONE)
}

/// Returns a node's even part of a topic.
fn part(placement: &Placement, topic: u32, receivers: u32) -> u32 {
    let size = u32::try_from(placement.rows_of(topic).len()).unwrap_or(NONE);
    size.div_ceil(receivers.max(1))
}
