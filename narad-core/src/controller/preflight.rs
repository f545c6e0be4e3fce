//! Whether a decommission can end, answered before anything changes (field faults 34, 35 and 45).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::ids::{Incarnation, NodeId, PartitionId};
use crate::metastore::{Member, State, Status};

/// Why a decommission could not end as things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Blocker {
    /// There is no such member.
    #[error("there is no such member")]
    UnknownMember,
    /// It has been taken out already.
    #[error("the node has been retired already")]
    Retired,
    /// Too few voters would be left.
    #[error(
        "voters that would be left: {left}, but policy.min_voters is {min_voters}: let another node \
         join first"
    )]
    BelowMinVoters {
        /// Voters that would be left and alive, learners in the places of leavers included.
        left: u32,
        /// The policy's minimum.
        min_voters: u32,
    },
    /// The rest has no healthy majority.
    #[error("remaining voters that are alive: {healthy} of {left}: bring the dead ones back first")]
    NoHealthyMajority {
        /// Voters that would stay and are alive.
        healthy: u32,
        /// Voters that would stay.
        left: u32,
    },
    /// It owns partitions and nobody could take them.
    #[error("no other node can take what it owns (partitions: {owned}): let a node join first")]
    NoReceivers {
        /// Partitions that it owns.
        owned: u32,
    },
    /// It is dead and its partitions are on its disk only.
    #[error(
        "the node is dead and its disk alone holds what it owns (partitions: {owned}): start it \
         again, or declare them lost"
    )]
    OwnerDead {
        /// Partitions that it owns.
        owned: u32,
    },
    /// Pinned partitions do not move.
    #[error("{pinned} of its partitions are pinned to it: move them to another node by hand first")]
    Pinned {
        /// How many.
        pinned: u32,
    },
}

/// Returns what stands in the way of decommissioning a node; nothing if it can go on.
#[must_use]
pub fn decommission(state: &State, node: NodeId) -> Vec<Blocker> {
    let found = together(state, &BTreeSet::from([node]));
    found.into_iter().map(|(_, blocker)| blocker).collect()
}

/// Returns what stands in the way of these nodes leaving together, and of which of them; nothing if
/// all of them can go. What concerns all of them is said of the first one that votes.
///
/// None of them takes what another one sheds, and their votes are missed together: two drains that
/// are possible one after the other may not be possible at once (field fault 42).
#[must_use]
pub fn together(state: &State, leaving: &BTreeSet<NodeId>) -> Vec<(NodeId, Blocker)> {
    let mut found = Vec::new();
    found.extend(voters_left(state, leaving));
    let is_heir = |other: &&Member| !leaving.contains(&other.id) && other.is_receiver();
    let receivers = state.members().filter(is_heir).count();
    for &node in leaving {
        let Some(member) = state.member(node) else {
            found.push((node, Blocker::UnknownMember));
            continue;
        };
        if member.retired {
            found.push((node, Blocker::Retired));
            continue;
        }
        let owned = count(state.owned_count(node));
        if member.status != Status::Alive && owned > 0 {
            found.push((node, Blocker::OwnerDead { owned }));
        } else if owned > 0 && receivers == 0 {
            found.push((node, Blocker::NoReceivers { owned }));
        }
        // What moves already is pinned to where it goes.
        let pinned = |partition: &PartitionId| {
            state.assignment(*partition).is_some_and(|row| row.pinned && row.target.is_none())
        };
        let pinned = count(state.owned_by(node).filter(pinned).count());
        if pinned > 0 {
            found.push((node, Blocker::Pinned { pinned }));
        }
    }
    found
}

/// Judges the voters as they would be once learners have taken the places of those who leave,
/// and of those who drain already: drains at once are judged together (case D127, H38).
fn voters_left(state: &State, leaving: &BTreeSet<NodeId>) -> Option<(NodeId, Blocker)> {
    let configuration = state.configuration();
    let votes = |node: &&NodeId| {
        let retired = state.member(**node).is_none_or(|member| member.retired);
        configuration.voters.contains(*node) && !retired
    };
    let first = *leaving.iter().find(votes)?;
    let stays =
        |member: &&Member| !leaving.contains(&member.id) && !member.draining && !member.retired;
    let (kept, others): (Vec<&Member>, Vec<&Member>) =
        state.members().filter(stays).partition(|member| configuration.voters.contains(&member.id));
    let is_healthy =
        |member: &&&Member| member.status == Status::Alive && member.incarnation > Incarnation(0);
    let policy = state.policy();
    let places = policy.voters_max.saturating_sub(count(kept.len()));
    let heirs = count(others.iter().filter(is_healthy).count()).min(places);
    let left = count(kept.len()) + heirs;
    let healthy = count(kept.iter().filter(is_healthy).count()) + heirs;
    let min_voters = policy.min_voters;
    if left < min_voters {
        return Some((first, Blocker::BelowMinVoters { left, min_voters }));
    }
    if healthy <= left / 2 {
        return Some((first, Blocker::NoHealthyMajority { healthy, left }));
    }
    (healthy < min_voters).then_some((first, Blocker::BelowMinVoters { left: healthy, min_voters }))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
