//! How a move is doing, by what its destination tells.

use super::Course;
use crate::metastore::Reason;
use crate::mover::{Progress, Waiting};
use crate::{peer, promote};

impl Progress {
    /// Returns how the move is doing. What has failed so often that it has given its slot to others is
    /// blocked, even if it could pass by itself: somebody should look (field fault 11). Not so if it
    /// waits for a time that is set, and for nobody (R63).
    #[must_use]
    pub fn course(&self) -> Course {
        let is_timed = matches!(
            self.waiting,
            Some(Waiting::PromoteRefused(promote::Refusal::TooEarly { .. }))
        );
        match self.waiting.map(Waiting::course) {
            None => Course::GoesOn,
            Some(Course::Waits) if self.holds_slot || is_timed => Course::Waits,
            Some(Course::GoesOn | Course::Waits | Course::Blocked | Course::Over) => {
                Course::Blocked
            }
        }
    }
}

impl Waiting {
    /// Returns whether it passes, or somebody has to do something.
    #[must_use]
    pub const fn course(self) -> Course {
        match self {
            Self::SourceUnreachable
            | Self::SourceRestarted
            | Self::SourceDead
            | Self::FreezeDuty
            | Self::LeaderUnreachable
            | Self::CopyUnverifiable => Course::Waits,
            Self::SourceMalformed
            | Self::Damaged { .. }
            | Self::FreezeMax
            | Self::DiskFull
            | Self::Disk => Course::Blocked,
            Self::SourceRefuses(refusal) => refusal.course(),
            Self::PromoteRefused(refusal) => refusal.course(),
            Self::FlipRejected(reason) => reason.course(),
        }
    }
}

impl peer::Refusal {
    /// Returns whether it passes, or somebody has to do something.
    #[must_use]
    pub const fn course(self) -> Course {
        match self {
            Self::Disk => Course::Blocked,
            Self::NotAdmitted(reason) => reason.course(),
            Self::NotLeader { .. }
            | Self::AskerDead
            | Self::NotOwner
            | Self::NoSuchMove
            | Self::NotYet
            | Self::NotServing
            | Self::FrozenElsewhere
            | Self::FrozenTooOften { .. }
            | Self::AppendStuck
            | Self::NoSuchFreeze
            | Self::Unknown => Course::Waits,
        }
    }
}

impl promote::Refusal {
    /// Returns whether it passes: only time does (field faults 45, 46 and 48).
    #[must_use]
    pub const fn course(self) -> Course {
        match self {
            Self::TooEarly { .. } => Course::Waits,
            Self::NeverReached
            | Self::NotCompared
            | Self::Behind { .. }
            | Self::BelowMinEnd { .. }
            | Self::WrongStart { .. }
            | Self::WrongEnd { .. }
            | Self::WrongDigest
            | Self::WrongEpoch
            | Self::Unreadable => Course::Blocked,
        }
    }
}

impl Reason {
    /// Returns whether whoever was refused for it can go on once it has looked again, or somebody has
    /// to do something first.
    #[must_use]
    pub const fn course(self) -> Course {
        match self {
            Self::Gone
            | Self::UnknownTopic
            | Self::NotYours
            | Self::OwnerChanged
            | Self::EpochChanged
            | Self::MoveChanged
            | Self::NotTarget
            | Self::AttemptBurned
            | Self::TokenRevoked
            | Self::TokenStale
            | Self::NotDead
            | Self::NotOwner
            | Self::AlreadyThere
            | Self::AlreadyAssigned
            | Self::NodeUnregistered
            | Self::StaleIncarnation
            | Self::NotDraining
            | Self::NotDrainedOut
            | Self::OwnsPartitions
            | Self::IsTarget
            | Self::TopicBusy
            | Self::CopyBehind
            | Self::NodeDead
            | Self::NodeDraining => Course::Waits,
            Self::NoHealthyMajority
            | Self::BelowMinVoters
            | Self::UnknownMember
            | Self::NodeRetired
            | Self::WrongStore
            | Self::NameTaken
            | Self::Forgotten
            | Self::NeedsReceipt
            | Self::OutOfRange
            | Self::UnsafeTiming => Course::Blocked,
        }
    }
}
