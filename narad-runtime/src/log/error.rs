//! What a log refuses, and why.

use std::path::PathBuf;

use narad_core::ids::{Epoch, Offset};

use super::envelope::FormatError;
use crate::disk::DiskError;

/// Why a log did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A write failed earlier, so what the disk holds is unknown until it is read again.
    #[error("the log takes no append since a write failed ({cause}); close it and open it again")]
    Poisoned {
        /// The failure.
        cause: String,
    },
    /// The log was closed.
    #[error("the log is closed; open it again")]
    Closed,
    /// An append without records.
    #[error("an append needs at least one record")]
    EmptyAppend,
    /// A record beyond the limit.
    #[error(
        "a record of {bytes} bytes is above the limit of {bytes_max}; split it or raise the limit"
    )]
    RecordTooLarge {
        /// Its encoded size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// An append in the name of a past owner.
    #[error("epoch {given} is over, the log is at {log}; read the assignment again")]
    StaleEpoch {
        /// The caller's epoch.
        given: Epoch,
        /// The highest epoch that the log has seen.
        log: Epoch,
    },
    /// Retention has removed what was asked for.
    #[error("offset {asked} is below the start of the log; go on at {start}")]
    BelowStart {
        /// The asked-for offset.
        asked: Offset,
        /// First offset that is kept.
        start: Offset,
    },
    /// Nobody may see that far.
    #[error("offset {asked} is above the visible end {hwm}; wait, or clamp the position")]
    AheadOfHwm {
        /// The asked-for offset.
        asked: Offset,
        /// The high watermark, or the end where hidden records were asked for.
        hwm: Offset,
    },
    /// Retention has removed the extent, or it never was.
    #[error("there is no extent at {base} any more; take a new listing")]
    Gone {
        /// The extent.
        base: Offset,
    },
    /// Bytes that may not survive a crash.
    #[error(
        "extent {base} has {durable} durable bytes, {asked} is beyond them; take a new listing"
    )]
    NotDurable {
        /// The extent.
        base: Offset,
        /// The asked-for position.
        asked: u64,
        /// Its durable length.
        durable: u64,
    },
    /// Bytes that are not what was written.
    #[error(
        "segment {segment} is damaged at byte {position}; restore it, or go on at offset {resume}"
    )]
    Damaged {
        /// Base offset of the segment.
        segment: Offset,
        /// Position of the bad frame.
        position: u64,
        /// First offset after it that can be read.
        resume: Offset,
    },
    /// A consumer position that no consumer can have.
    #[error("the position is refused: {why}; read the log's bounds again")]
    Position {
        /// The broken rule.
        why: &'static str,
    },
    /// A file that cannot be understood.
    #[error("cannot read {}: {source}; restore it, or set the log aside", path.display())]
    Format {
        /// The file, relative to the disk's root.
        path: PathBuf,
        /// What is wrong with it.
        source: FormatError,
    },
    /// A directory without a segment: never an empty log (S3).
    #[error("{} holds no segment; it is not taken for an empty log, restore it", dir.display())]
    NoSegments {
        /// The directory.
        dir: PathBuf,
    },
    /// Segments that claim the same offsets.
    #[error("{}: segment {base} begins before {end}, where the one before it ends; restore it", dir.display())]
    Overlap {
        /// The directory.
        dir: PathBuf,
        /// The later segment.
        base: Offset,
        /// The end of the earlier one.
        end: Offset,
    },
}

impl LogError {
    /// Returns whether the log takes no append before it has been opened again.
    #[must_use]
    pub const fn needs_reopening(&self) -> bool {
        match self {
            Self::Poisoned { .. } => true,
            Self::Disk(error) => !error.is_full(),
            _ => false,
        }
    }

    /// Returns whether space on the disk would help.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Disk(error) if error.is_full())
    }
}
