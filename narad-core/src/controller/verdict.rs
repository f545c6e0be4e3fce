//! How a decommission, a dead member and the whole cluster are doing: the judgement, without a word.
//!
//! # Purpose
//!
//! Operators are never answered with silence: whatever takes time goes on, waits for something that
//! passes, is blocked until somebody does something, or is over. Which of them it is, is decided here
//! by pure functions over the replicated state and what living members have told; a driver only
//! gathers those facts, and puts the judgement into words.
//!
//! # Invariants
//!
//! 1. What moves counts first: one partition that is blocked holds up no other (field fault 46).
//! 2. A member is [`Out`](Step::Out) only once it is retired and has no vote: one source of truth, the
//!    log's (field fault 32).
//! 3. Of a whole cluster the worst is told, then what goes on, then what waits: what is blocked needs
//!    somebody, whatever else goes on.
//!
//! # Example
//!
//! A member that owns nothing any more, and has not handed out all that it accepted:
//!
//! ```
//! use narad_core::controller::stopping::Life;
//! use narad_core::controller::verdict::{Course, Drain, OwnWord, Stage, Step};
//!
//! let empty = Drain { stage: Stage::Leaves, life: Life::Alive, takes_part: true, ..Drain::default() };
//! let word = OwnWord { backlog: Some(7), ..OwnWord::default() };
//! assert_eq!(empty.step(&[], word), Some(Step::Backlog { records: 7 }));
//! assert_eq!(Step::Backlog { records: 7 }.course(&[]), Course::Waits);
//! ```

mod moves;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::preflight::{self, Blocker};
use super::stopping::Life;
use crate::ids::{ByteCount, NodeId};
use crate::metastore::{State, Status};

/// How something that takes time is doing, as far as that decides about others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Course {
    /// It goes on by itself.
    GoesOn,
    /// It does not go on at the moment, and will once something has happened.
    Waits,
    /// It does not go on until somebody does something.
    Blocked,
    /// It is over.
    Over,
}

/// How far a member is with leaving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It does not leave.
    #[default]
    Stays,
    /// It is being decommissioned.
    Leaves,
    /// It has said that nothing is left on it.
    DrainedOut,
}

/// What is known of a member from the log, leaving or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Drain {
    /// Whether it lives.
    pub life: Life,
    /// How far it is.
    pub stage: Stage,
    /// Whether it still takes part in the replicated log.
    pub takes_part: bool,
    /// Partitions that it owns.
    pub owned: u64,
    /// Of these, those that are pinned and do not move.
    pub pinned: u64,
    /// Partitions that are on their way to it.
    pub inbound: u64,
    /// Partitions that are on their way from it.
    pub outbound: u64,
    /// What would stand in the way of a decommission that begins now.
    pub blockers: Vec<Blocker>,
    /// Whether moves are paused.
    pub paused: bool,
}

/// What a member itself has told; nothing, if it has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnWord {
    /// Records that it has accepted and that have not reached their owners.
    pub backlog: Option<u64>,
    /// Partitions of which it holds records that nobody else is known to have.
    pub left_behind: Option<u64>,
}

/// Where a decommission stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// At least one partition is moving away.
    Moving,
    /// No partition is moving that could; this one, of those that are to, tells why.
    Held {
        /// Its place among the moves that were given.
        at: usize,
    },
    /// It is dead, and its disk alone holds what it owns (field fault 46).
    OwnerDead {
        /// Partitions that nobody is about to take over.
        partitions: u64,
    },
    /// All that it owns is pinned.
    Pinned {
        /// Partitions.
        partitions: u64,
    },
    /// Moves are paused.
    Paused {
        /// Partitions that wait for that.
        partitions: u64,
    },
    /// As many moves are under way as may be.
    Slots {
        /// Partitions that wait for a slot.
        partitions: u64,
    },
    /// Partitions were on their way to it, and are sent elsewhere (field fault 37).
    Inbound {
        /// Partitions.
        partitions: u64,
    },
    /// It is dead, and has not said that nothing is left on it (R63).
    MemberDead,
    /// The rest could not go on without it.
    Blocked(Blocker),
    /// It has not handed out what it has accepted.
    Backlog {
        /// Records.
        records: u64,
    },
    /// It holds records that nobody else is known to have.
    LeftBehind {
        /// Partitions of which it does.
        partitions: u64,
    },
    /// Nothing is left on it, and it is about to be taken out.
    Retiring,
    /// It has been taken out, and its vote is being taken away.
    Voting,
    /// It is out: its process can be stopped and its disk wiped.
    Out,
}

impl Drain {
    /// Looks a member up; `None` if there is none.
    #[must_use]
    pub fn of(state: &State, node: NodeId) -> Option<Self> {
        let member = state.member(node)?;
        let is_pinned = |partition| {
            state.assignment(partition).is_some_and(|row| row.pinned && row.target.is_none())
        };
        let blockers = preflight::together(state, &BTreeSet::from([node]));
        Some(Self {
            life: match member.status {
                _ if member.retired => Life::Retired,
                Status::Alive => Life::Alive,
                Status::Dead(_) => Life::Dead,
            },
            stage: match (member.draining, member.drained_out) {
                (false, _) => Stage::Stays,
                (true, false) => Stage::Leaves,
                (true, true) => Stage::DrainedOut,
            },
            takes_part: state.configuration().contains(node),
            owned: state.owned_count(node) as u64,
            pinned: state.owned_by(node).filter(|partition| is_pinned(*partition)).count() as u64,
            inbound: state.inbound_count(node) as u64,
            outbound: state.outbound_count(node) as u64,
            blockers: blockers.into_iter().map(|(_, blocker)| blocker).collect(),
            paused: state.policy().paused,
        })
    }

    /// Judges how it is coming on; `None` for a member that does not leave. `moves` are the courses of
    /// the moves away from it.
    #[must_use]
    pub fn step(&self, moves: &[Course], word: OwnWord) -> Option<Step> {
        if self.life == Life::Retired {
            return Some(if self.takes_part { Step::Voting } else { Step::Out });
        }
        if self.stage == Stage::Stays {
            return None;
        }
        if self.owned > 0 {
            return Some(self.shedding(moves));
        }
        if self.inbound > 0 {
            return Some(Step::Inbound { partitions: self.inbound });
        }
        if self.life == Life::Dead {
            return Some(Step::MemberDead);
        }
        if let Some(blocker) = self.blockers.first() {
            return Some(Step::Blocked(*blocker));
        }
        let handing_out = if self.stage == Stage::Leaves { handing_out(word) } else { None };
        Some(handing_out.unwrap_or(Step::Retiring))
    }

    /// Judges a member that still owns partitions.
    fn shedding(&self, moves: &[Course]) -> Step {
        let first = |wanted| moves.iter().position(|course| *course == wanted);
        if first(Course::GoesOn).is_some() {
            return Step::Moving;
        }
        let unplanned = self.owned.saturating_sub(moves.len() as u64);
        if self.life == Life::Dead && unplanned > 0 {
            return Step::OwnerDead { partitions: unplanned };
        }
        if !moves.is_empty() {
            return Step::Held { at: first(Course::Blocked).unwrap_or(0) };
        }
        if self.pinned >= self.owned {
            return Step::Pinned { partitions: self.pinned };
        }
        let none = |blocker: &&Blocker| matches!(blocker, Blocker::NoReceivers { .. });
        match self.blockers.iter().find(none) {
            Some(blocker) => Step::Blocked(*blocker),
            None if self.paused => Step::Paused { partitions: self.owned },
            None => Step::Slots { partitions: self.owned },
        }
    }
}

/// Says what a member still has to hand out, if it is known to have anything.
fn handing_out(word: OwnWord) -> Option<Step> {
    let some = |number: &u64| *number > 0;
    let backlog = word.backlog.filter(some).map(|records| Step::Backlog { records });
    let left = || word.left_behind.filter(some).map(|partitions| Step::LeftBehind { partitions });
    backlog.or_else(left)
}

impl Step {
    /// Returns how it is doing; `moves` are those that it was judged by.
    #[must_use]
    pub fn course(self, moves: &[Course]) -> Course {
        match self {
            Self::Moving => Course::GoesOn,
            Self::Held { at } => moves.get(at).copied().unwrap_or(Course::Waits),
            Self::OwnerDead { .. } | Self::Pinned { .. } | Self::MemberDead | Self::Blocked(_) => {
                Course::Blocked
            }
            Self::Paused { .. }
            | Self::Slots { .. }
            | Self::Inbound { .. }
            | Self::Backlog { .. }
            | Self::LeftBehind { .. }
            | Self::Retiring
            | Self::Voting => Course::Waits,
            Self::Out => Course::Over,
        }
    }
}

/// What the death of a member means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Its disk alone holds partitions, and nobody is about to take them over.
    Alone {
        /// How many.
        partitions: u64,
    },
    /// Nobody waits for it.
    Missed,
}

impl Loss {
    /// Judges a member that stays: `promoting` of the partitions that it owns are on their way to
    /// another one, which may take them over. `None` if it lives. Of one that leaves, its
    /// [`Step`] tells.
    #[must_use]
    pub const fn of(life: Life, draining: bool, owned: u64, promoting: u64) -> Option<Self> {
        match life {
            Life::Alive | Life::Retired => None,
            Life::Dead if draining => None,
            Life::Dead => match owned.saturating_sub(promoting) {
                0 => Some(Self::Missed),
                partitions => Some(Self::Alone { partitions }),
            },
        }
    }

    /// Returns how it is doing.
    #[must_use]
    pub const fn course(self) -> Course {
        match self {
            Self::Alone { .. } => Course::Blocked,
            Self::Missed => Course::Waits,
        }
    }
}

/// What a disk has to have left for a node to take anything in: 2 MiB, of which the replicated log may
/// use some before anybody looks again.
const ROOM_MIN: ByteCount = ByteCount(2 << 20);

/// Says whether a disk with so much room left counts as full: its node decides nothing
/// more, and takes no more records than fit into what it has reserved, until somebody frees space.
#[must_use]
pub const fn is_full(free: ByteCount) -> bool {
    free.0 < ROOM_MIN.0
}

/// What is not about any one member or move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Matter {
    /// Nobody is known to lead: nothing can be decided.
    NoLeader,
    /// Partitions have no owner yet.
    Unassigned {
        /// How many.
        partitions: u64,
    },
    /// Planned moves do not begin, because moves are paused.
    Paused {
        /// How many.
        moves: u64,
    },
    /// Planned moves wait for a free slot.
    Slots {
        /// How many.
        moves: u64,
    },
}

/// What of a cluster is not about any one member or move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Whole {
    /// Whether anybody is known to lead.
    pub leader_known: bool,
    /// Partitions without an owner.
    pub unassigned: u64,
    /// Moves that are planned and have not begun.
    pub planned: u64,
    /// Whether moves are paused.
    pub paused: bool,
}

impl Whole {
    /// Returns what it waits for, the worst first. All of it passes.
    #[must_use]
    pub fn matters(&self) -> Vec<Matter> {
        let Self { leader_known, unassigned, planned, paused } = *self;
        let mut found = Vec::new();
        if !leader_known {
            found.push(Matter::NoLeader);
        }
        if unassigned > 0 {
            found.push(Matter::Unassigned { partitions: unassigned });
        }
        match planned {
            0 => {}
            moves if paused => found.push(Matter::Paused { moves }),
            moves => found.push(Matter::Slots { moves }),
        }
        found
    }
}

/// Which of all that was found tells how the whole is doing: its place, or that it all goes on, or that
/// nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// This one: it is blocked.
    Blocked(usize),
    /// Something goes on, and nothing is blocked.
    GoesOn,
    /// This one: it waits, and nothing goes on.
    Waits(usize),
    /// Nothing is left to wait for.
    Done,
}

impl Told {
    /// Picks it.
    #[must_use]
    pub fn of(found: &[Course]) -> Self {
        let first = |wanted| found.iter().position(|course| *course == wanted);
        if let Some(at) = first(Course::Blocked) {
            return Self::Blocked(at);
        }
        if first(Course::GoesOn).is_some() {
            return Self::GoesOn;
        }
        first(Course::Waits).map_or(Self::Done, Self::Waits)
    }
}

#[cfg(test)]
mod tests;
