//! Whether a member's process may be stopped now, as far as the replicated state tells.
//!
//! A stop for a restart leaves the disk, so what is on it is not lost: what speaks against it is what
//! others would have to wait for without need. A stop for good takes the disk along, and is safe only
//! once the member has been taken out (field fault 43).

use alloc::collections::BTreeSet;

use crate::ids::NodeId;
use crate::metastore::{State, Status};
use crate::mover::Phase;

/// Whether a member lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Life {
    /// It has registered since it was last declared dead.
    #[default]
    Alive,
    /// It was declared dead.
    Dead,
    /// It was taken out for good.
    Retired,
}

/// How a member stands in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// The member.
    pub id: NodeId,
    /// Whether it lives.
    pub life: Life,
    /// Whether it takes part in the replicated log.
    pub takes_part: bool,
    /// Whether it is being decommissioned.
    pub draining: bool,
    /// Whether it leads.
    pub leads: bool,
    /// Partitions that it owns.
    pub owned: u64,
    /// If it votes: voters that would be left alive without it, and how many are needed.
    pub votes: Option<(u32, u32)>,
}

/// What speaks against a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Objection {
    /// Nothing could be decided without its vote.
    #[error("the voters alive would be {left}, and {needed} are needed: start others first")]
    LastMajority {
        /// Voters that would be left alive.
        left: u32,
        /// Voters that are needed.
        needed: u32,
    },
    /// It has been taken out and still has a vote.
    #[error("it has been taken out, but still has a vote: wait until that is gone")]
    StillVotes,
    /// It has not been taken out, and its disk is to go with it.
    #[error("it has not been taken out, partitions on its disk: {owned}: decommission it first")]
    NotRetired {
        /// Partitions that it owns.
        owned: u64,
    },
}

/// Who votes. During a joint change it is the half that has less to spare.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quorum {
    /// The voters.
    pub voters: BTreeSet<NodeId>,
    /// How many of them are alive, as this state has it.
    pub alive: u32,
    /// How many of them decide: more than half.
    pub needed: u32,
}

impl Quorum {
    /// Counts the voters.
    #[must_use]
    pub fn of(state: &State) -> Self {
        let configuration = state.configuration();
        let half = |voters: &BTreeSet<NodeId>| {
            let is_alive = |node: &&NodeId| {
                state.member(**node).is_some_and(|member| member.status == Status::Alive)
            };
            let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            Self {
                alive: count(voters.iter().filter(is_alive).count()),
                needed: count(voters.len() / 2 + 1),
                voters: voters.clone(),
            }
        };
        let (now, before) = (half(&configuration.voters), half(&configuration.voters_outgoing));
        let to_spare = |half: &Self| i64::from(half.alive) - i64::from(half.needed);
        let is_now = before.voters.is_empty() || to_spare(&now) <= to_spare(&before);
        if is_now { now } else { before }
    }
}

impl Standing {
    /// Looks a member up; `None` if there is none.
    #[must_use]
    pub fn of(state: &State, leader: Option<NodeId>, node: NodeId) -> Option<Self> {
        let member = state.member(node)?;
        let configuration = state.configuration();
        let votes =
            configuration.voters.contains(&node) || configuration.voters_outgoing.contains(&node);
        let Quorum { alive, needed, .. } = Quorum::of(state);
        // A dead one is not among the living already.
        let own = u32::from(member.status == Status::Alive);
        Some(Self {
            id: node,
            life: match member.status {
                _ if member.retired => Life::Retired,
                Status::Alive => Life::Alive,
                Status::Dead(_) => Life::Dead,
            },
            takes_part: configuration.contains(node),
            draining: member.draining,
            leads: leader == Some(node),
            owned: state.owned_count(node) as u64,
            votes: votes.then(|| (alive.saturating_sub(own), needed)),
        })
    }

    /// Whether it has gone already: its disk is nobody's any more.
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.life == Life::Retired && !self.takes_part
    }

    /// Returns what speaks against a restart. Nobody waits for one that is dead already; what is
    /// moving to or from it is for whoever knows the phases, see [`Phase::is_cutting_over`].
    #[must_use]
    pub fn against_restart(&self) -> Option<Objection> {
        let (left, needed) = self.votes.filter(|_| self.life != Life::Dead)?;
        (left < needed).then_some(Objection::LastMajority { left, needed })
    }

    /// Returns what speaks against a stop that takes the disk along.
    #[must_use]
    pub fn against_leaving(&self) -> Option<Objection> {
        match self.life {
            Life::Retired if self.takes_part => Some(Objection::StillVotes),
            Life::Retired => None,
            Life::Alive | Life::Dead => Some(Objection::NotRetired { owned: self.owned }),
        }
    }
}

impl Phase {
    /// Whether a move is between its freeze and its end, so that a stop of either side would keep
    /// producers waiting.
    #[must_use]
    pub const fn is_cutting_over(self) -> bool {
        match self {
            Self::Prepare
            | Self::Drain
            | Self::Verify
            | Self::Install
            | Self::Flip
            | Self::Promote => true,
            Self::Locate
            | Self::Resolve
            | Self::CatchUp
            | Self::Waiting
            | Self::Closing
            | Self::Over => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing() -> Standing {
        Standing {
            id: NodeId(4),
            life: Life::Alive,
            takes_part: true,
            draining: false,
            leads: true,
            owned: 3,
            votes: Some((2, 2)),
        }
    }

    #[test]
    fn the_last_vote_that_is_needed_may_not_restart() {
        assert_eq!(standing().against_restart(), None);
        let lonely = Standing { votes: Some((1, 2)), ..standing() };
        let objection = Objection::LastMajority { left: 1, needed: 2 };
        assert_eq!(lonely.against_restart(), Some(objection));
        assert_eq!(Standing { votes: None, ..lonely }.against_restart(), None);
        assert_eq!(Standing { life: Life::Dead, ..lonely }.against_restart(), None);
    }

    /// Field fault 43: a disk may go only with a member that has been taken out.
    #[test]
    fn a_disk_stays_until_its_member_is_out() {
        let objection = Some(Objection::NotRetired { owned: 3 });
        assert_eq!(standing().against_leaving(), objection);
        assert_eq!(Standing { life: Life::Dead, ..standing() }.against_leaving(), objection);
        let retired = Standing { life: Life::Retired, ..standing() };
        assert_eq!(retired.against_leaving(), Some(Objection::StillVotes));
        let out = Standing { takes_part: false, ..retired };
        assert!(out.is_out() && out.against_leaving().is_none());
    }
}
