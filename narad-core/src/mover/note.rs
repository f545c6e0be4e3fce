//! What a mover has to tell people.

use core::fmt;
use core::time::Duration;

use super::operation::Fault;
use crate::effects::OpId;
use crate::ids::{Attempt, Epoch, MoveId, NodeId, Offset, Token};
use crate::metastore::Reason;
use crate::peer;
use crate::promote;

/// An observation; nothing answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Note {
    /// The answer of an operation that is not this machine's, or was answered before.
    Stale(OpId),
    /// The move waits; noted when the reason changes.
    Waiting(Waiting),
    /// The move goes on.
    Resumed,
    /// A pass over the source has ended.
    PassEnded {
        /// Which pass of this try, from one.
        pass: u32,
        /// Bytes that it copied.
        copied_bytes: u64,
    },
    /// Copying stops although much is left, so the freeze will be long; once per try (R33).
    NotConverged {
        /// Bytes left.
        tail_bytes: u64,
        /// Why copying stops.
        reason: NotConverged,
        /// Passes made.
        passes: u32,
    },
    /// Staged bytes were dropped: the source no longer has them, or has others.
    Dropped {
        /// Extents.
        extents: u32,
        /// Their staged bytes.
        bytes: u64,
    },
    /// A whole extent is not what the source listed; it is copied again (case C49).
    ChecksumMismatch {
        /// The extent.
        base: Offset,
    },
    /// The source is about to be frozen (R26).
    Cutover {
        /// Bytes that will be left to copy, as far as the source's rate tells.
        tail_bytes: u64,
        /// How long the freeze would last with such a tail.
        predicted: Duration,
    },
    /// The source is frozen for this try.
    Frozen {
        /// The freeze.
        token: Token,
        /// Bytes that are left to copy.
        tail_bytes: u64,
    },
    /// The freeze is given up.
    Released {
        /// The freeze.
        token: Token,
    },
    /// The staged copy is not what the source captured.
    CopyUnverifiable(promote::Refusal),
    /// Nobody knows whether the flip has been applied; its directory stays untouched (H2).
    FlipUnknown {
        /// The try.
        attempt: Attempt,
    },
    /// The flip was refused.
    FlipRejected {
        /// The try.
        attempt: Attempt,
        /// Why.
        reason: Reason,
    },
    /// The log has said what became of a try.
    Resolved {
        /// The try.
        attempt: Attempt,
        /// The reign that it began; `None` if it can no longer win.
        won: Option<Epoch>,
    },
    /// This node owns the partition now.
    Moved {
        /// The try that won.
        attempt: Attempt,
        /// Bytes copied by this life.
        copied_bytes: u64,
        /// Passes made by this life.
        passes: u32,
        /// How its freeze went; `None` if it was forced, since the source was dead.
        freeze: Option<Freeze>,
    },
    /// This node has owned the partition all along: a try of an earlier life had won, or it is a
    /// later row.
    AlreadyOwner {
        /// The live directory.
        data: Attempt,
    },
    /// The move was given up for this node.
    Cancelled {
        /// Whether staged bytes stay, because nobody vouches for the source's (case C54).
        staging_kept: bool,
    },
    /// The partition is no more (H26, H47).
    Gone,
}

/// How one freeze went, and how it was to go (R26).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Freeze {
    /// Bytes that were left to copy when the source was frozen.
    pub tail_bytes: u64,
    /// Whether they could come with the answer of the source.
    pub inline: bool,
    /// How long it was said to last, before it began.
    pub predicted: Duration,
    /// From the first request to freeze until the flip was known here.
    pub lasted: Duration,
    /// What that was spent on.
    pub steps: Steps,
}

/// How long each step of a freeze took, each from the end of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Steps {
    /// Until the source had frozen and the answer was here.
    pub prepare: Duration,
    /// Until the tail was staged.
    pub drain: Duration,
    /// Until the copy was known to be the source's.
    pub verify: Duration,
    /// Until it was durable under the name of its attempt.
    pub install: Duration,
    /// Until the flip was known.
    pub flip: Duration,
}

/// Why copying stopped although the tail was not small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum NotConverged {
    /// The limit of passes was reached (R29).
    PassesMax,
    /// The tail has not shrunk for some passes.
    Stalled,
    /// It grew, and more is written than can be copied: each further pass would make the freeze
    /// longer (R28, R34).
    WritesOutpaceCopy,
}

/// Why a move does not go on right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Waiting {
    /// The source does not answer.
    #[error("the source does not answer")]
    SourceUnreachable,
    /// The source answers, and does not grant what is asked.
    #[error("the source refuses: {0}")]
    SourceRefuses(peer::Refusal),
    /// The source contradicts itself.
    #[error("the source's answers contradict themselves: check its version and its disk")]
    SourceMalformed,
    /// The source began another life while it was being drained.
    #[error("the source restarted, the copy is being compared with it")]
    SourceRestarted,
    /// The source is dead, for less time than promotion needs.
    #[error("the source is dead, the copy may be promoted later")]
    SourceDead,
    /// The source is dead and the copy may not be promoted.
    #[error("the source is dead: {0}")]
    PromoteRefused(promote::Refusal),
    /// The source has damaged bytes (field fault 13).
    #[error(
        "the source's extent {base} is damaged at position {position} or behind it: restore its file, \
         or delete the records"
    )]
    Damaged {
        /// The extent.
        base: Offset,
        /// Where at the earliest, in bytes from its beginning.
        position: u64,
    },
    /// The partition has been frozen too much lately (H20).
    #[error("the partition has been frozen too much lately")]
    FreezeDuty,
    /// One freeze lasted as long as a freeze may.
    #[error("the tail could not be drained within the longest freeze: lower its write rate")]
    FreezeMax,
    /// No leader can be reached.
    #[error("no leader can be reached")]
    LeaderUnreachable,
    /// This node's disk is full.
    #[error("this node's disk is full: free some space")]
    DiskFull,
    /// This node's disk fails.
    #[error("this node's disk fails: look at its log, and replace it")]
    Disk,
    /// What was staged is not what the source has.
    #[error("the copy differs from the source, it is made again")]
    CopyUnverifiable,
    /// The flip was refused; the copy is kept for the next try.
    #[error("the flip was refused: {0}")]
    FlipRejected(Reason),
}

/// Where a move is in its course.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Phase {
    /// Reading the row.
    Locate,
    /// Finding out what became of an earlier try, or clearing up after it.
    Resolve,
    /// Copying while the source is in use.
    CatchUp,
    /// Making sure that a freeze would be short, then asking for it.
    Prepare,
    /// Copying the tail of the frozen source.
    Drain,
    /// Reading the copy back.
    Verify,
    /// Giving the copy its name.
    Install,
    /// Proposing the flip.
    Flip,
    /// Judging a dead source's copy.
    Promote,
    /// Pausing; the reason says why.
    Waiting,
    /// Waiting for the last operations of a step that was given up.
    Closing,
    /// Over.
    Over,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Self; 12] = [
        Self::Locate,
        Self::Resolve,
        Self::CatchUp,
        Self::Prepare,
        Self::Drain,
        Self::Verify,
        Self::Install,
        Self::Flip,
        Self::Promote,
        Self::Waiting,
        Self::Closing,
        Self::Over,
    ];

    /// Returns the one that is shown so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Locate => "locate",
            Self::Resolve => "resolve",
            Self::CatchUp => "catch-up",
            Self::Prepare => "prepare",
            Self::Drain => "drain",
            Self::Verify => "verify",
            Self::Install => "install",
            Self::Flip => "flip",
            Self::Promote => "promote",
            Self::Waiting => "waiting",
            Self::Closing => "closing",
            Self::Over => "over",
        }
    }
}

const _: () = assert!(Phase::Over as usize + 1 == Phase::ALL.len(), "one is missing");

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a move is doing: what status, metrics and the planner see of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Progress {
    /// Where it is.
    pub phase: Phase,
    /// Where from, once that is known.
    pub source: Option<NodeId>,
    /// The plan, once that is known.
    pub move_id: Option<MoveId>,
    /// The present try, from its request to freeze on.
    pub attempt: Option<Attempt>,
    /// Bytes staged.
    pub staged_bytes: u64,
    /// Bytes that the source last listed.
    pub listed_bytes: u64,
    /// Bytes that the last listing showed and that were not staged then.
    pub tail_bytes: u64,
    /// Bytes copied per second; zero if unknown (B in the specification).
    pub copy_rate: u64,
    /// Bytes written at the source per second; zero if unknown (W).
    pub write_rate: u64,
    /// How long a freeze would last now, in milliseconds; `None` if unknown.
    pub freeze_ms: Option<u64>,
    /// Passes made by this life.
    pub passes: u32,
    /// Tries made by this life.
    pub attempts: u32,
    /// Why it does not go on, if it does not.
    pub waiting: Option<Waiting>,
    /// Whether it counts against the moves that may be under way at once: one that is stuck does
    /// not (L1, field fault 11).
    pub holds_slot: bool,
}

impl Waiting {
    /// Returns what a fault makes a move wait for.
    pub(super) const fn from_fault(fault: Fault) -> Self {
        match fault {
            Fault::Unreachable | Fault::TimedOut | Fault::Cancelled | Fault::ExtentGone => {
                Self::SourceUnreachable
            }
            Fault::Refused(refusal) => Self::SourceRefuses(refusal),
            Fault::DiskFull => Self::DiskFull,
            Fault::Disk => Self::Disk,
            Fault::Damaged { base, position } => Self::Damaged { base, position },
            Fault::Mismatch { .. } => Self::CopyUnverifiable,
            Fault::Malformed => Self::SourceMalformed,
        }
    }

    /// Whether news of the source may end the wait.
    pub(super) const fn concerns_source(self) -> bool {
        match self {
            Self::SourceUnreachable
            | Self::SourceRefuses(_)
            | Self::SourceMalformed
            | Self::SourceRestarted
            | Self::SourceDead
            | Self::PromoteRefused(_)
            | Self::Damaged { .. } => true,
            Self::FreezeDuty
            | Self::FreezeMax
            | Self::LeaderUnreachable
            | Self::DiskFull
            | Self::Disk
            | Self::CopyUnverifiable
            | Self::FlipRejected(_) => false,
        }
    }
}
