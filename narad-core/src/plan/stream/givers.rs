//! Which of its partitions a node gives: so many of each kind, evenly spaced.

use alloc::vec::Vec;

use super::{Counts, part};
use crate::plan::board::Board;
use crate::plan::capacity::Shares;
use crate::plan::placement::{NONE, Role};

/// So many of so many, evenly spaced and starting out of step.
#[derive(Clone, Copy, Debug, Default)]
struct Spacing {
    gives: u32,
    of: u32,
    /// In units of one `of`-th of a partition; below `of`.
    owed: u32,
}

impl Spacing {
    /// `place` of `places` says how far out of step it starts.
    fn new(gives: u32, of: u32, place: u32, places: u32) -> Self {
        let owed = u64::from(of) * u64::from(place) / u64::from(places.max(1));
        Self { gives, of, owed: u32::try_from(owed).unwrap_or(0) }
    }

    /// Whether the next one is given. Of `of` in a row exactly `gives` are.
    fn next(&mut self) -> bool {
        if self.owed >= self.of - self.gives {
            self.owed -= self.of - self.gives;
            true
        } else {
            self.owed += self.gives;
            false
        }
    }
}

/// What one node gives.
#[derive(Clone, Copy, Debug, Default)]
struct Giver {
    /// Of the partitions beyond its even part of their topic.
    excess: Spacing,
    /// Of the others.
    rest: Spacing,
    /// Whether it gives anything.
    gives: bool,
}

/// What every node gives.
pub(super) struct Givers(Vec<Giver>);

impl Givers {
    /// `quotas` are what each has yet to give.
    pub(super) fn new(
        board: &Board<'_>,
        shares: &Shares,
        quotas: Vec<u32>,
        counts: &mut Counts,
    ) -> Self {
        let held = Held::count(board, shares, &quotas, counts);
        let all = u32::try_from(quotas.iter().filter(|quota| **quota > 0).count()).unwrap_or(NONE);
        let mut nth = 0;
        let givers = quotas.iter().zip(held).map(|(&quota, held)| {
            if quota == 0 {
                return Giver::default();
            }
            nth += 1;
            let excess = quota.min(held.excess);
            Giver {
                excess: Spacing::new(excess, held.excess, nth - 1, all),
                rest: Spacing::new(quota - excess, held.rest, nth - 1, all),
                gives: true,
            }
        });
        Self(givers.collect())
    }

    /// Whether the node gives nothing.
    pub(super) fn is_done(&self, node: u32) -> bool {
        !self.0[node as usize].gives
    }

    /// Whether the node gives its next partition of that kind.
    pub(super) fn give(&mut self, node: u32, is_excess: bool) -> bool {
        let giver = &mut self.0[node as usize];
        if is_excess { giver.excess.next() } else { giver.rest.next() }
    }
}

/// How many of its partitions a node could give.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    excess: u32,
    rest: u32,
}

impl Held {
    fn count(
        board: &Board<'_>,
        shares: &Shares,
        quotas: &[u32],
        counts: &mut Counts,
    ) -> Vec<Self> {
        let placement = board.placement;
        // What has left already counts no more.
        let gone = |quota: u32, share: &super::super::capacity::Share| share.leaves() - quota;
        let mut held: Vec<Self> = shares
            .of
            .iter()
            .zip(quotas)
            .map(|(share, &quota)| Self {
                excess: 0,
                rest: if share.role == Role::Dead { 0 } else { share.movable - gone(quota, share) },
            })
            .collect();
        // Only a giver that keeps something has a choice.
        let chooses: Vec<bool> =
            quotas.iter().zip(&held).map(|(&quota, held)| quota > 0 && quota < held.rest).collect();
        if !chooses.contains(&true) {
            return held;
        }
        for topic in 0..u32::try_from(placement.topics().len()).unwrap_or(NONE) {
            let rows = placement.rows_of(topic);
            if rows.len() <= 1 {
                continue;
            }
            let part = part(placement, topic, shares.receivers);
            let span = rows.start as usize..rows.end as usize;
            for (&place, marks) in board.place[span.clone()].iter().zip(&placement.marks()[span]) {
                if place == NONE || !chooses[place as usize] {
                    continue;
                }
                if counts.add(topic, place) > part && marks.is_free() {
                    let held = &mut held[place as usize];
                    held.excess += 1;
                    held.rest -= 1;
                }
            }
        }
        held
    }
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
                    let fair = f64::from(gives) * f64::from(n) / f64::from(of);
                    let off = (f64::from(u32::try_from(so_far(n)).unwrap()) - fair).abs();
                    assert!(off <= 1.0, "{gives} of {of} from {place}: {given:?}");
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
