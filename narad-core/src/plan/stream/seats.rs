//! The free seats of all takers, in an order that is fair to each of them at any point.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

use crate::plan::capacity::Shares;
use crate::plan::placement::NONE;

/// Most seats that are passed over and kept for later.
const ASIDE_MAX: usize = 32;

/// One node with room.
#[derive(Clone, Copy, Debug)]
struct Taker {
    node: u32,
    room: u32,
    /// What it is owed, in units of one `room_max`-th of a seat.
    owed: u32,
}

/// The free seats.
pub(super) struct Seats {
    takers: Vec<Taker>,
    /// The seats of the last round, in the first places.
    round: Vec<u32>,
    /// How many of those there are, and how many of them have been given.
    offered: usize,
    given: usize,
    /// The most room that one has.
    room_max: u32,
    /// Rounds that are left; in each a taker gives its part of a seat.
    rounds: u32,
    /// Seats that were passed over, oldest first.
    aside: Vec<u32>,
}

impl Seats {
    pub(super) fn new(shares: &Shares) -> Self {
        let with_room = || shares.each().filter(|(_, share)| share.room() > 0);
        let room_max = with_room().map(|(_, share)| share.room()).max().unwrap_or(0);
        let count = with_room().count() as u64;
        let takers = (0_u64..).zip(with_room()).map(|(nth, (node, share))| {
            // Out of step, or all those with little room would be offered at once.
            let owed = u32::try_from(u64::from(room_max) * nth / count.max(1)).unwrap_or(0);
            Taker { node, room: share.room(), owed }
        });
        let takers: Vec<Taker> = takers.collect();
        let round = vec![NONE; takers.len()];
        let (offered, given, rounds, aside) = (0, 0, room_max, Vec::new());
        Self { takers, round, offered, given, room_max, rounds, aside }
    }

    /// Takes a seat on a node that has less of the topic than `level` and no relative; if there is
    /// none near, the best that there is, and then the level is raised to it.
    pub(super) fn take(
        &mut self,
        count: impl Fn(u32) -> u32,
        conflicts: impl Fn(u32) -> u32,
        level: &mut u32,
    ) -> Option<u32> {
        let is_good = |node: u32, level: u32| count(node) < level && conflicts(node) == 0;
        if !self.aside.is_empty()
            && let Some(at) = self.aside.iter().position(|node| is_good(*node, *level))
        {
            return Some(self.aside.remove(at));
        }
        while self.aside.len() < ASIDE_MAX {
            let Some(node) = self.next() else { break };
            if is_good(node, *level) {
                return Some(node);
            }
            self.aside.push(node);
            // More seats of the only taker are no choice.
            if self.takers.len() == 1 {
                break;
            }
        }
        let keys = self.aside.iter().enumerate();
        let (at, _) = keys.min_by_key(|(at, node)| (conflicts(**node), count(**node), *at))?;
        let node = self.aside.remove(at);
        *level = (*level).max(count(node) + 1);
        Some(node)
    }

    /// Returns the next seat. Of the seats in any stretch, each taker has about its part.
    pub(super) fn next(&mut self) -> Option<u32> {
        while self.given == self.offered {
            if self.rounds == 0 {
                return None;
            }
            self.begin_round();
        }
        self.given += 1;
        Some(self.round[self.given - 1])
    }

    fn begin_round(&mut self) {
        let (mut offered, room_max) = (0, self.room_max);
        let round = &mut self.round[..self.takers.len()];
        for taker in &mut self.takers {
            let rest = room_max - taker.room;
            let offers = taker.owed >= rest;
            taker.owed = select_unpredictable(
                offers,
                taker.owed.wrapping_sub(rest),
                taker.owed.wrapping_add(taker.room),
            );
            round[offered] = taker.node;
            offered += usize::from(offers);
        }
        self.rounds -= 1;
        (self.offered, self.given) = (offered, 0);
    }
}
