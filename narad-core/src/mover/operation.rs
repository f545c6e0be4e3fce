//! What a mover asks its driver to do, and how each of that may end.

use alloc::vec::Vec;
use core::time::Duration;

use crate::ids::{Attempt, MoveId, NodeId, Offset, Token};
use crate::metastore::{Assignment, Command};
use crate::partition::{Boundary, Capture, Listing, Manifest, Sidecar, Staged, Verified};
use crate::peer::Refusal;
pub use crate::proposals::Proposed;

/// Work with an answer. The variants of [`Outcome`] mirror these.
///
/// The partition is always the mover's own. Staging is one directory per partition; bytes are
/// written at explicit positions, never appended (case C45).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Operation {
    /// Read the row behind a barrier.
    ReadRow,
    /// Ask the source what it has.
    List {
        /// The source.
        source: NodeId,
        /// The move; the source refuses one that its row has passed (H45).
        move_id: MoveId,
        /// Staged extents whose bytes the source is to compare with its own (H16).
        check: Vec<Staged>,
    },
    /// Fetch a range of one extent and write it to staging at the same position.
    Copy {
        /// The source.
        source: NodeId,
        /// The extent.
        base: Offset,
        /// Where the range begins, in bytes from the beginning of the extent.
        position: u64,
        /// Its length; zero (at position zero) creates the empty extent (case C39).
        bytes: u64,
    },
    /// Make the staged bytes that the manifest names durable, then the manifest; create the
    /// staging area if there is none. Durable once answered.
    Checkpoint(Manifest),
    /// Drop staged extents that are not named and cut the named ones to the named lengths.
    Trim {
        /// What stays.
        keep: Vec<Staged>,
    },
    /// Find out, by a barrier, whether a leader can be reached.
    ReachLeader,
    /// Find out whether so many bytes would fit, and whether a small write and its fsync succeed
    /// (H20).
    Probe {
        /// The bytes.
        bytes: u64,
    },
    /// Ask the source to freeze.
    Prepare {
        /// The source.
        source: NodeId,
        /// The try; the same try gets the same answer again (H41).
        attempt: Attempt,
        /// Longest tail that may come with the answer, in bytes: a driver that has it serves the
        /// copies of that range from it. Zero for none.
        tail_bytes_max: u64,
    },
    /// Tell the source that the copy under its freeze is coming on (H22).
    Renew {
        /// The source.
        source: NodeId,
        /// The freeze.
        token: Token,
        /// Bytes staged so far.
        staged_bytes: u64,
    },
    /// Tell the source that it may revoke its freeze (case T26).
    Release {
        /// The source.
        source: NodeId,
        /// The freeze.
        token: Token,
    },
    /// Read the staged copy back. With a digest it must be exactly the boundary; without one,
    /// `end` is the least that is hoped for and the answer says how far it really goes.
    Verify(Boundary),
    /// Write sidecar and manifest, make everything durable, rename staging to the directory of
    /// the attempt and make the rename durable (S8). Durable once answered; after an error it may
    /// have happened or not.
    Install {
        /// Names the directory.
        attempt: Attempt,
        /// What the bytes alone do not say.
        sidecar: Sidecar,
        /// The manifest, with the attempt.
        manifest: Manifest,
    },
    /// Propose a command through the leader and wait until this node's own replica applies it.
    Propose(Command),
    /// Rename the directory of the attempt back to staging; nothing to do if an earlier request
    /// has done so.
    Restage {
        /// Names the directory.
        attempt: Attempt,
    },
    /// Move a directory into quarantine; nothing to do if it is not there.
    SetAside(What),
}

/// A directory to set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum What {
    /// The staging area.
    Staging,
    /// An installed copy that cannot become live any more.
    Installed(Attempt),
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outcome {
    /// See [`Operation::ReadRow`]; `None` if the partition is no more.
    ReadRow(Result<Option<Assignment>, Fault>),
    /// See [`Operation::List`].
    List(Result<Listing, Fault>),
    /// See [`Operation::Copy`].
    Copy(Result<Copied, Fault>),
    /// See [`Operation::Checkpoint`].
    Checkpoint(Result<(), Fault>),
    /// See [`Operation::Trim`].
    Trim(Result<(), Fault>),
    /// See [`Operation::ReachLeader`].
    ReachLeader(Result<(), Fault>),
    /// See [`Operation::Probe`].
    Probe(Result<(), Fault>),
    /// See [`Operation::Prepare`].
    Prepare(Result<Capture, Fault>),
    /// See [`Operation::Renew`].
    Renew(Result<(), Fault>),
    /// See [`Operation::Release`].
    Release(Result<(), Fault>),
    /// See [`Operation::Verify`].
    Verify(Result<Verified, Fault>),
    /// See [`Operation::Install`].
    Install(Result<(), Fault>),
    /// See [`Operation::Propose`].
    Propose(Proposed),
    /// See [`Operation::Restage`].
    Restage(Result<(), Fault>),
    /// See [`Operation::SetAside`].
    SetAside(Result<(), Fault>),
}

/// What one copied range adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Copied {
    /// The extent with the range; it may be shorter than asked for.
    pub staged: Staged,
    /// How long the copy was held back by the throttle; such time is no stall.
    pub throttled: Duration,
}

/// Why an operation failed. Which ones an operation can have follows from what it touches: a
/// source, a leader, or this node's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Fault {
    /// Nobody answers there.
    #[error("it cannot be reached")]
    Unreachable,
    /// No answer came in time; it may have been done.
    #[error("no answer came in time")]
    TimedOut,
    /// It was ended early, as asked.
    #[error("it was cancelled")]
    Cancelled,
    /// It was understood and not granted.
    #[error("it was refused: {0}")]
    Refused(Refusal),
    /// This node's disk is full.
    #[error("this node's disk is full")]
    DiskFull,
    /// This node's disk failed; after a failed fsync what was written since the last one is gone.
    #[error("this node's disk failed")]
    Disk,
    /// The source no longer has the extent (case C40).
    #[error("the source no longer has the extent")]
    ExtentGone,
    /// Bytes at this place are not what they were written as.
    #[error("the bytes of extent {base} are damaged at position {position}")]
    Damaged {
        /// The extent.
        base: Offset,
        /// Where, in bytes from its beginning.
        position: u64,
    },
    /// An extent was copied whole and is not what the source listed (case C49).
    #[error("extent {base} was copied and is not what the source listed")]
    Mismatch {
        /// The extent.
        base: Offset,
    },
    /// The peer's answer contradicts itself.
    #[error("the answer contradicts itself")]
    Malformed,
}

impl Operation {
    /// Whether it only informs the source, so that no step ever waits for its answer.
    pub(super) const fn is_courtesy(&self) -> bool {
        matches!(self, Self::Renew { .. } | Self::Release { .. })
    }
}
