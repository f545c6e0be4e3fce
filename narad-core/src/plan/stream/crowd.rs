//! Partitions that share a node with a relative (R81).

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::plan::board::Board;
use crate::plan::capacity::Shares;
use crate::plan::placement::{NONE, Placement, Role};

/// Takes partitions that share a node with a relative off it, as far as it gives anything: worst
/// first, then the smallest. They are nowhere until they get a seat; the quotas tell what is yet to
/// be given.
pub(super) fn leave(board: &mut Board<'_>, shares: &Shares, quotas: &mut [u32]) {
    // A node that gives everything has no choice.
    let chooses =
        |node: u32| shares.at(node).role == Role::Receiver && shares.at(node).leaves() > 0;
    let mut crowded: Vec<(u32, u32)> = Vec::new();
    each_conflict(board, |one, other, node| {
        if chooses(node) {
            crowded.extend([(node, one), (node, other)]);
        }
        true
    });
    crowded.retain(|&(_, partition)| board.placement.mark_of(partition).is_free());
    crowded.sort_unstable();
    crowded.dedup();
    for crowded in crowded.chunk_by(|one, other| one.0 == other.0) {
        let mut worst: Vec<(Reverse<u32>, u64, u32)> = crowded
            .iter()
            .map(|&(node, partition)| {
                (Reverse(board.conflicts(partition, node)), board.bytes(partition), partition)
            })
            .collect();
        worst.sort_unstable();
        let node = crowded[0].0;
        let quota = &mut quotas[node as usize];
        for (_, _, partition) in worst {
            // Its relative may have gone already; one of a pair is enough.
            if *quota > 0 && board.conflicts(partition, node) > 0 {
                board.place[partition as usize] = NONE;
                *quota -= 1;
            }
        }
    }
}

/// Returns whether two relatives end up on one node, and one of them might end up elsewhere.
pub(super) fn is_left(board: &Board<'_>, shares: &Shares) -> bool {
    let mut found = false;
    each_conflict(board, |one, other, node| {
        let gives = shares.at(node).surplus() > 0 && !shares.is_low(node);
        let may_move = |partition: u32| {
            let moves = board.owner(partition) != node;
            board.placement.mark_of(partition).is_free() && (moves || gives)
        };
        found = shares.at(node).role == Role::Receiver && (may_move(one) || may_move(other));
        !found
    });
    found
}

/// Calls `found` with every pair of relatives on one node, and the node, until it returns false.
fn each_conflict(board: &Board<'_>, mut found: impl FnMut(u32, u32, u32) -> bool) {
    let placement = board.placement;
    for topic in 0..u32::try_from(placement.topics().len()).unwrap_or(NONE) {
        // Each pair of topics once.
        let older = placement.related_topics(topic).iter().filter(|&&other| other < topic);
        for &other in older {
            for (one, relative) in pairs(placement, topic, other) {
                let node = board.place(one);
                let together = node == board.place(relative) && node != NONE;
                if together && !found(one, relative, node) {
                    return;
                }
            }
        }
    }
}

/// Returns the partitions of one index in two topics.
fn pairs(placement: &Placement, one: u32, other: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
    let (rows, others) = (placement.rows_of(one), placement.rows_of(other));
    let aligned = placement.are_aligned(one, other);
    let by_position = rows.clone().zip(others).filter(move |_| aligned);
    let by_index = rows.filter(move |_| !aligned).filter_map(move |partition| {
        let index = placement.partitions()[partition as usize].id.index;
        Some((partition, placement.row(other, index)?))
    });
    by_position.chain(by_index)
}
