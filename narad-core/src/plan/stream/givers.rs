//! Which of its partitions a node gives: so many of each kind, evenly spaced.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

use super::{Counts, part, topics};
use crate::plan::capacity::{Share, Shares};
use crate::plan::placement::{NONE, Placement};

/// So many of so many, evenly spaced and starting out of step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spacing {
    gives: u32,
    keeps: u32,
    /// In units of one `gives + keeps`-th of a partition, and below one.
    owed: u32,
}

impl Spacing {
    const NONE: Self = Self { gives: 0, keeps: 1, owed: 0 };

    /// `place` of `places` says how far out of step it starts.
    fn new(gives: u32, of: u32, place: u32, places: u32) -> Self {
        if gives == 0 {
            return Self::NONE;
        }
        let owed = u64::from(of) * u64::from(place) / u64::from(places.max(1));
        Self { gives, keeps: of - gives, owed: u32::try_from(owed).unwrap_or(0) }
    }

    /// Whether the next one is given. Of `gives + keeps` in a row exactly `gives` are.
    pub(super) fn next(&mut self) -> bool {
        let given = self.owed >= self.keeps;
        // Which it is, is not to be guessed.
        self.owed = select_unpredictable(
            given,
            self.owed.wrapping_sub(self.keeps),
            self.owed.wrapping_add(self.gives),
        );
        given
    }
}

/// What every node gives: of the partitions within its even part of their topic, and of those
/// beyond it.
pub(super) struct Givers {
    of: Vec<[Spacing; 2]>,
    /// Whether any keeps something, so that the two kinds are told apart.
    choose: bool,
}

impl Givers {
    /// `quotas` are what each has yet to give, and `places` where everything is by now.
    pub(super) fn new(
        placement: &Placement,
        places: &[u32],
        shares: &Shares,
        quotas: Vec<u32>,
    ) -> Self {
        let chooses = |(quota, share): (&u32, &Share)| *quota > 0 && *quota < share.movable;
        let choose = quotas.iter().zip(&shares.of).any(chooses);
        let excess = if choose {
            excess(placement, places, shares.receivers, quotas.len())
        } else {
            vec![0; quotas.len()]
        };
        let all = u32::try_from(quotas.iter().filter(|quota| **quota > 0).count()).unwrap_or(NONE);
        let mut nth = 0;
        let each = quotas.iter().zip(shares.of.iter().zip(excess));
        let givers = each.map(|(&quota, (share, excess))| {
            if quota == 0 {
                return [Spacing::NONE; 2];
            }
            nth += 1;
            let free = share.movable - (share.leaves() - quota);
            let of_excess = quota.min(excess);
            [
                Spacing::new(quota - of_excess, free - excess, nth - 1, all),
                Spacing::new(of_excess, excess, nth - 1, all),
            ]
        });
        Self { of: givers.collect(), choose }
    }

    /// Returns how many of a topic are not beyond a node's even part of it, which is `part`.
    pub(super) const fn excess_beyond(&self, part: u32) -> u32 {
        if self.choose { part } else { u32::MAX }
    }

    /// Returns what each node gives of either kind, for a loop over partitions.
    pub(super) fn each_mut(&mut self) -> &mut [[Spacing; 2]] {
        &mut self.of
    }
}

/// Counts the free partitions of every node that are beyond its even part of their topic.
fn excess(placement: &Placement, places: &[u32], receivers: u32, nodes: usize) -> Vec<u32> {
    let mut found = vec![0; nodes];
    let (excess, counts) = (&mut found[..], &mut Counts::new(nodes).0[..]);
    for topic in topics(placement) {
        let rows = placement.rows_of(topic);
        if rows.len() <= 1 {
            continue;
        }
        let part = part(placement, topic, receivers);
        let span = rows.start as usize..rows.end as usize;
        for (&place, marks) in places[span.clone()].iter().zip(&placement.marks()[span]) {
            if place != NONE {
                let beyond = counts[place as usize].add(topic) > part && marks.is_free();
                excess[place as usize] += u32::from(beyond);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However it starts, a spacing gives exactly what it owes, and never in a lump.
    #[test]
    fn a_spacing_gives_exactly_so_many_evenly() {
        for (gives, of) in [(0, 7), (1, 7), (3, 7), (5, 7), (7, 7), (1, 1), (0, 0)] {
            for place in 0..9 {
                let mut spacing = Spacing::new(gives, of, place, 9);
                let given: Vec<bool> = (0..of).map(|_| spacing.next()).collect();
                let so_far = |n: u32| given.iter().take(n as usize).filter(|given| **given).count();
                assert_eq!(so_far(of), gives as usize);
                for n in 0..of {
                    // Both as many times as large, so that no division is needed.
                    let (given_of, fair) = (so_far(n) * of as usize, (gives * n) as usize);
                    assert!(
                        given_of.abs_diff(fair) <= of as usize,
                        "{gives} of {of} from {place}: {given:?}"
                    );
                }
            }
        }
    }

    /// Nodes that give one each, of as many, do not all give the same one.
    #[test]
    fn givers_are_out_of_step() {
        let first = |place| {
            let mut spacing = Spacing::new(1, 100, place, 10);
            (0..100).position(|_| spacing.next())
        };
        let firsts: alloc::collections::BTreeSet<_> = (0..10).map(first).collect();
        assert_eq!(firsts.len(), 10);
    }
}
