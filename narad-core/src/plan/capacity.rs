//! How many partitions each node may end up with.
//!
//! With T partitions over R receivers a share is floor(T/R) or ceil(T/R), and the receivers that
//! hold the most take the ceil shares: that is what makes the surplus, and so the number of moves,
//! smallest (R70, R72, S12).
//!
//! Pinned partitions bend this, like stones under water: a receiver with more of them than its
//! share keeps exactly those, and the rest is shared among the others, again by floor and ceil. A
//! partition in flight is no stone. It cannot be moved now, but it can once it has arrived; its
//! surplus *waits*, and nobody moves twice because of it (S13, K102). A node that cannot get below
//! a ceil share before something arrives takes one first, so that the shares stay the same while
//! the plan is carried out (R74).

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::placement::{Placement, Role};
use crate::planted::{Bug, is_planted};

/// What one node holds and what it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Share {
    pub(super) role: Role,
    /// Partitions that end up here if nothing more is planned (R73).
    pub(super) load: u32,
    /// Those of them that are pinned.
    pub(super) pinned: u32,
    /// Those of them that are settled and unpinned.
    pub(super) movable: u32,
    /// Settled partitions of a dead owner; counted nowhere else (R80).
    pub(super) stranded: u32,
    /// What it may end up with.
    pub(super) cap: u32,
    /// Whether its share is a ceil share.
    pub(super) ceil: bool,
    /// Whether its pinned partitions alone exceed its share.
    pub(super) overfull: bool,
}

impl Share {
    /// Returns how many partitions must leave, now or once they have arrived.
    pub(super) fn surplus(&self) -> u32 {
        match self.role {
            Role::Receiver => self.load.saturating_sub(self.cap),
            Role::Leaving => self.movable,
            Role::Dead => 0,
        }
    }

    /// Returns how many partitions this plan takes away.
    pub(super) fn leaves(&self) -> u32 {
        self.surplus().min(self.movable)
    }

    /// Returns how much of the surplus is still in flight to here.
    pub(super) fn waits(&self) -> u32 {
        self.surplus() - self.leaves()
    }

    /// Returns how many partitions it may still take.
    pub(super) fn room(&self) -> u32 {
        self.cap.saturating_sub(self.load)
    }
}

/// The shares of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Shares {
    pub(super) of: Vec<Share>,
    /// The floor share.
    pub(super) level: u32,
    /// How many nodes receive.
    pub(super) receivers: u32,
}

impl Shares {
    /// Counts what every node holds, then fills the shares.
    pub(super) fn new(placement: &Placement) -> Self {
        let mut shares = Self { of: tally(placement), level: 0, receivers: 0 };
        shares.fill();
        shares
    }

    pub(super) fn at(&self, node: u32) -> &Share {
        &self.of[node as usize]
    }

    /// Returns the nodes, by index.
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, &Share)> {
        (0..).zip(&self.of)
    }

    /// Returns whether the node may receive: a receiver that has no more than its floor share.
    pub(super) fn is_low(&self, node: u32) -> bool {
        let share = self.at(node);
        share.role == Role::Receiver && !share.overfull && share.load <= self.level
    }

    /// Returns whether `from` may hand its ceil share to `to` without another move: both must give
    /// or both must take, so that what one saves the other pays.
    pub(super) fn may_hand_over(&self, from: u32, to: u32) -> bool {
        let plain =
            |share: &Share| share.role == Role::Receiver && !share.overfull && share.waits() == 0;
        let (one, other) = (self.at(from), self.at(to));
        one.ceil
            && !other.ceil
            && plain(one)
            && plain(other)
            && self.is_low(from) == self.is_low(to)
    }

    /// Moves a ceil share.
    pub(super) fn hand_over(&mut self, from: u32, to: u32) {
        debug_assert!(self.at(from).ceil && !self.at(to).ceil, "one ceil share changes hands");
        let (from, to) = (from as usize, to as usize);
        self.of[from].ceil = false;
        self.of[from].cap -= 1;
        self.of[to].ceil = true;
        self.of[to].cap += 1;
    }

    /// Computes the caps: pinned partitions first, then the rest by floor and ceil.
    fn fill(&mut self) {
        let mut by_pinned: Vec<u32> = self
            .each()
            .filter(|(_, share)| share.role == Role::Receiver)
            .map(|(node, _)| node)
            .collect();
        let mut count = by_pinned.len() as u64;
        self.receivers = u32::try_from(count).unwrap_or(u32::MAX);
        let shared = |share: &Share| match share.role {
            Role::Receiver => share.load,
            Role::Leaving => share.movable,
            Role::Dead => 0,
        };
        let mut total: u64 = self.of.iter().map(|share| u64::from(shared(share))).sum();
        by_pinned.sort_unstable_by_key(|&node| (Reverse(self.at(node).pinned), node));
        let mut first = 0;
        for &node in &by_pinned {
            let share = &mut self.of[node as usize];
            let pinned = u64::from(share.pinned);
            if pinned * count <= total {
                break;
            }
            share.cap = share.pinned;
            share.overfull = true;
            total -= pinned;
            count -= 1;
            first += 1;
        }
        let rest = &mut by_pinned[first..];
        let (Some(floor), Some(ceils)) = (total.checked_div(count), total.checked_rem(count))
        else {
            return;
        };
        // Fewer than 2^32 partitions exist, so a share of them fits.
        self.level = u32::try_from(floor).unwrap_or(u32::MAX);
        let ceils = usize::try_from(ceils).unwrap_or(usize::MAX);
        if ceils > 0 {
            rest.select_nth_unstable_by_key(ceils - 1, |&node| {
                let share = &self.of[node as usize];
                // Who cannot get below a ceil share now takes one first: nobody gains if another
                // has it, and a plan that was just applied would change hands (R74).
                let stays_above = share.load - share.movable > self.level;
                let least = is_planted(Bug::CeilToTheLeastLoaded);
                let load = if least { u32::MAX - share.load } else { share.load };
                (!stays_above, Reverse(load), node)
            });
        }
        for (nth, &node) in rest.iter().enumerate() {
            let share = &mut self.of[node as usize];
            share.ceil = nth < ceils;
            share.cap = self.level + u32::from(share.ceil);
        }
    }
}

/// Counts what every node holds.
fn tally(placement: &Placement) -> Vec<Share> {
    let empty = |role| Share {
        role,
        load: 0,
        pinned: 0,
        movable: 0,
        stranded: 0,
        cap: 0,
        ceil: false,
        overfull: false,
    };
    let mut all: Vec<Share> = placement.nodes().iter().map(|node| empty(node.role)).collect();
    // Of most partitions there is nothing to know but where they are.
    let mut free: Vec<u32> = vec![0; all.len()];
    if placement.is_all_free() {
        for &node in placement.places() {
            free[node as usize] += 1;
        }
    }
    let marks = if placement.is_all_free() { &[] } else { placement.marks() };
    for (&node, marks) in placement.places().iter().zip(marks) {
        if marks.is_free() {
            free[node as usize] += 1;
            continue;
        }
        let share = &mut all[node as usize];
        if !marks.is_moving() && share.role == Role::Dead {
            share.stranded += 1;
        } else {
            share.load += 1;
            share.pinned += u32::from(marks.is_pinned());
        }
    }
    for (share, free) in all.iter_mut().zip(free) {
        if share.role == Role::Dead {
            share.stranded += free;
        } else {
            share.movable = free;
            share.load += free;
        }
    }
    all
}
