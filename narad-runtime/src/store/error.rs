//! What a store refuses, and why.

use std::path::PathBuf;

use narad_core::ids::{Attempt, Digest, NodeId, Offset, PartitionId};

use crate::disk::DiskError;
use crate::log::{FormatError, LogError};

/// Why a store did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log in a directory failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log is not on this disk.
    #[error(
        "{partition} has no log {attempt} here; it is not created by opening it (read the assignment again, or restore the disk)"
    )]
    NoSuchLog {
        /// The partition.
        partition: PartitionId,
        /// The log's name.
        attempt: Attempt,
    },
    /// The log is open.
    #[error("log {attempt} of {partition} is open; close it first")]
    Open {
        /// The partition.
        partition: PartitionId,
        /// The log's name.
        attempt: Attempt,
    },
    /// Copy and log are both there.
    #[error("{partition} has a log {attempt} already; install the copy under another attempt")]
    NameTaken {
        /// The partition.
        partition: PartitionId,
        /// The log's name.
        attempt: Attempt,
    },
    /// No copy is there.
    #[error("{partition} has no staged copy; begin one")]
    NoStaging {
        /// The partition.
        partition: PartitionId,
    },
    /// A writer has the extent.
    #[error("the copy of {partition} is being written; finish its writers first")]
    Busy {
        /// The partition.
        partition: PartitionId,
    },
    /// A position past the staged length.
    #[error("extent {base} is staged up to byte {staged}, not {given}; go on from there")]
    WrongPosition {
        /// The extent.
        base: Offset,
        /// Its staged length.
        staged: u64,
        /// The asked-for position.
        given: u64,
    },
    /// Repeated bytes that are not the same.
    #[error(
        "the bytes of extent {base} at {position} are not those that were staged; compare with the source, then trim and copy again"
    )]
    Differs {
        /// The extent.
        base: Offset,
        /// Position of the repeated piece.
        position: u64,
    },
    /// A name that nothing in the trash has.
    #[error("there is nothing called {name:?} in the quarantine; list it again, it may be gone")]
    NoSuchTrash {
        /// The name.
        name: String,
    },
    /// A manifest that names what is not there.
    #[error("extent {base} is not staged as the manifest says; take the staged extents anew")]
    NotStaged {
        /// The extent.
        base: Offset,
    },
    /// Staged bytes changed on the disk.
    #[error(
        "the staged bytes of extent {base} are not those that were written; trim it and copy it again, and check the device"
    )]
    Corrupt {
        /// The extent.
        base: Offset,
    },
    /// A sync failed, so the extent was discarded.
    #[error("extent {base} could not be made durable and was discarded; copy it again ({source})")]
    Lost {
        /// The extent.
        base: Offset,
        /// The failure.
        source: DiskError,
    },
    /// The manifest cannot be read.
    #[error("{} cannot be read: {source}; restore it, or set the copy aside to begin anew", path.display())]
    Manifest {
        /// The file, relative to the disk's root.
        path: PathBuf,
        /// What is wrong with it.
        source: FormatError,
    },
    /// The copy is not what it must be.
    #[error("the copy of {partition} is refused: {why}")]
    Refused {
        /// The partition.
        partition: PartitionId,
        /// The reason.
        why: Refusal,
    },
    /// Another process has the directory.
    #[error("{} is in use by another process; stop it, or choose another directory", path.display())]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// The directory has data, but no identity.
    #[error("{} has data but no identity; restore the file, a new one would be another disk", path.display())]
    NoIdentity {
        /// The missing file.
        path: PathBuf,
    },
    /// A node has run on the directory, and its partitions are gone.
    #[error(
        "{} is missing, but the node has run before: mount or restore it; an empty one would be \
         taken for partitions without records",
        path.display()
    )]
    NoPartitions {
        /// The missing directory.
        path: PathBuf,
    },
    /// The directory belongs to somebody else.
    #[error(
        "the data directory belongs to {found}, not to {given}; choose the right directory or name"
    )]
    ForeignIdentity {
        /// Whom it belongs to.
        found: String,
        /// Who has asked.
        given: String,
    },
    /// A member's number that differs from the one the directory knows.
    #[error(
        "the data directory is node {found}'s, not {given}'s; a new disk needs a new node (H25)"
    )]
    OtherNode {
        /// The known one.
        found: NodeId,
        /// The given one.
        given: NodeId,
    },
    /// A part of the directory is on another filesystem.
    #[error("{} is on another filesystem than the data directory; renames must stay on one", path.display())]
    OtherFilesystem {
        /// The part.
        path: PathBuf,
    },
    /// A side file of the data directory cannot be read.
    #[error("{} cannot be read: {source}; restore it from a copy", path.display())]
    Format {
        /// The file, relative to the disk's root.
        path: PathBuf,
        /// What is wrong with it.
        source: FormatError,
    },
}

impl StoreError {
    /// Returns whether space on the disk would help.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        match self {
            Self::Disk(error) => error.is_full(),
            Self::Log(error) => error.is_full(),
            _ => false,
        }
    }
}

/// Why a copy may not be installed (R21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It begins elsewhere.
    #[error("it begins at {found}, not at {start}; trim it to the source's listing")]
    Start {
        /// Its first offset.
        found: Offset,
        /// The boundary's.
        start: Offset,
    },
    /// A piece is missing.
    #[error("it has nothing from {end} to {next}; copy what is missing")]
    Gap {
        /// Where a piece ends.
        end: Offset,
        /// Where the next one begins.
        next: Offset,
    },
    /// The last frame is not whole.
    #[error("extent {base} breaks off at byte {position}; copy its tail")]
    Torn {
        /// The last extent.
        base: Offset,
        /// Position of the broken frame.
        position: u64,
    },
    /// It ends elsewhere.
    #[error("it ends at {found}, not at {end}; copy its tail")]
    End {
        /// Its last whole offset.
        found: Offset,
        /// The boundary's.
        end: Offset,
    },
    /// It does not reach what consumers have seen (R42, R65).
    #[error("it ends at {end}, below the high watermark {hwm}; wait for the source")]
    BelowHwm {
        /// Its last whole offset.
        end: Offset,
        /// The boundary's high watermark.
        hwm: Offset,
    },
    /// Its content is not the source's.
    #[error("its digest is not the source's; check the staged extents against a new listing")]
    Digest {
        /// Its own.
        found: Digest,
    },
}
