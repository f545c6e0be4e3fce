//! Evidence in, leave to flip out: the only two ways to a [`FlipPermit`].
//!
//! # Purpose
//!
//! A flip makes this node the owner of a partition. Two things could go wrong with it: a record
//! lands behind the copy, or the copy lacks a record that somebody could see. [`after_freeze`]
//! rules both out by a frozen source, [`after_death`] by a dead one; there is no third way, since
//! a [`FlipPermit`] has no other constructor.
//!
//! # Invariants
//!
//! 1. A permit exists only for a copy that was read back and found contiguous from its start (S8;
//!    the type of the argument).
//! 2. A permit is used once: it is neither `Clone` nor deserializable, and
//!    [`FlipPermit::into_command`] consumes it.
//! 3. After a freeze the copy equals the source: start, end and digest (H16).
//! 4. After a death the copy reaches everything that any listing or report of this epoch showed
//!    as visible (S6, H12, H13), under a session of this very move (H30).
//!
//! Both are judged again where it counts, at apply: a revoked token or a source that came back
//! makes the command fail there (H1, H10).
//!
//! # Example
//!
//! A copy that ends one record before what consumers could see is refused:
//!
//! ```
//! use core::time::Duration;
//! use narad_core::ids::*;
//! use narad_core::metastore::Assignment;
//! use narad_core::partition::{Manifest, Position, Verified};
//! use narad_core::promote::{self, Death, Refusal};
//!
//! let partition = PartitionId { topic: TopicId(1), index: 0 };
//! let row = Assignment {
//!     owner: NodeId(1), epoch: Epoch(1), data: Attempt::birth(NodeId(1)), min_end: Offset(0),
//!     lineage: vec![], lineage_cut: false, target: Some(NodeId(2)), move_id: MoveId(5),
//!     burned: None, revoked: None, reported_hwm: Some(Offset(10)), pinned: false,
//! };
//! let manifest = Manifest {
//!     partition, move_id: MoveId(5), source: NodeId(1), source_incarnation: Incarnation(1),
//!     generation: LogGeneration(1), epoch: Epoch(1), start: Offset(0), hwm: Offset(8),
//!     position: Position::default(), extents: vec![], attempt: None,
//! };
//! let no = AttemptNo { incarnation: Incarnation(1), n: 0 };
//! let mut verified = Verified { start: Offset(0), end: Offset(9), digest: Digest(0) };
//! let judge = |verified: &Verified| {
//!     promote::after_death(&Death {
//!         partition,
//!         row: &row,
//!         attempt: Attempt { move_id: MoveId(5), destination: NodeId(2), no },
//!         generation: Generation(1),
//!         dead_for: Duration::from_secs(120),
//!         promote_after: Duration::from_secs(120),
//!         session: Some(&manifest),
//!         verified,
//!     })
//! };
//! assert_eq!(judge(&verified), Err(Refusal::Behind { end: Offset(9), visible: Offset(10) }));
//! verified.end = Offset(10);
//! assert!(judge(&verified).is_ok());
//! ```

use core::time::Duration;

use crate::ids::{Attempt, Generation, Offset, PartitionId};
use crate::metastore::{Assignment, Command, Expect, Fence};
use crate::partition::{Boundary, Capture, Manifest, Position, Verified};
use crate::planted::{Bug, is_planted};

/// Leave to propose one ownership flip.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit does nothing until it is made into a command"]
pub struct FlipPermit {
    command: Command,
}

impl FlipPermit {
    /// Returns the [`Command::CompleteMove`] that this is leave for; after an unknown outcome the
    /// very same command may be proposed again, and nothing else.
    #[must_use]
    pub fn into_command(self) -> Command {
        self.command
    }
}

/// What speaks for a flip whose source is frozen.
#[derive(Clone, Copy, Debug)]
pub struct Freeze<'a> {
    /// The partition.
    pub partition: PartitionId,
    /// The row that the move was begun for.
    pub expect: Expect,
    /// The try.
    pub attempt: Attempt,
    /// What the source said when it froze.
    pub capture: &'a Capture,
    /// What the staged copy turned out to be.
    pub verified: &'a Verified,
}

/// What speaks for a flip whose source is dead.
#[derive(Clone, Copy, Debug)]
pub struct Death<'a> {
    /// The partition.
    pub partition: PartitionId,
    /// The row as this node's replica has applied it.
    pub row: &'a Assignment,
    /// The try.
    pub attempt: Attempt,
    /// The death certificate.
    pub generation: Generation,
    /// Time since this node applied the certificate, on its own monotonic clock (H19).
    pub dead_for: Duration,
    /// How long it must have been dead.
    pub promote_after: Duration,
    /// The durable manifest of the staged copy, if there is one.
    pub session: Option<&'a Manifest>,
    /// What the staged copy turned out to be.
    pub verified: &'a Verified,
}

/// Why a flip would not be safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Refusal {
    /// No session of this move ever reached the source (R64, H30): it may be writing without a
    /// lease, and nobody here knows what it showed.
    #[error(
        "the source was never reached under this move: \
         wait for it to return, or accept the loss of its records"
    )]
    NeverReached,
    /// The source began another life, and died before it could say which staged bytes are its own
    /// (H16).
    #[error(
        "the source restarted and was not compared with the copy since: \
         wait for it to return, or accept the loss of its records"
    )]
    NotCompared,
    /// The source may still come back (R63).
    #[error("the source has not been dead for long enough, {} ms remain", remaining.as_millis())]
    TooEarly {
        /// How much longer it must stay dead.
        remaining: Duration,
    },
    /// The copy ends before something that consumers could see (R65).
    #[error(
        "the copy ends at {end}, but consumers could see up to {visible}: \
         wait for the source to return, or accept the loss of the difference"
    )]
    Behind {
        /// Offset after the last record of the copy.
        end: Offset,
        /// The highest watermark known.
        visible: Offset,
    },
    /// The copy ends before something that the row says is durable (S3).
    #[error("the copy ends at {end}, but the log is known to have reached {min_end}")]
    BelowMinEnd {
        /// Offset after the last record of the copy.
        end: Offset,
        /// What the row says.
        min_end: Offset,
    },
    /// The copy begins elsewhere than the source's log: its head is missing, or retention has
    /// moved on.
    #[error("the copy begins at {start}, the source at {expected}: copy again")]
    WrongStart {
        /// First offset of the copy.
        start: Offset,
        /// First offset at the source.
        expected: Offset,
    },
    /// The copy of a frozen source ends elsewhere than the source.
    #[error("the copy ends at {end}, the source at {expected}: copy again")]
    WrongEnd {
        /// Offset after the last record of the copy.
        end: Offset,
        /// Offset after the last record at the source.
        expected: Offset,
    },
    /// The copy has other bytes than the source (H16, case C49).
    #[error("the copy has other bytes than the source: copy again")]
    WrongDigest,
    /// The freeze belongs to another reign than the move.
    #[error("the freeze belongs to another epoch than the move")]
    WrongEpoch,
    /// The copy could not be read back.
    #[error("the copy cannot be read back: its disk is damaged")]
    Unreadable,
}

/// Permits the flip of a copy that was drained under a freeze.
///
/// # Errors
///
/// If the copy is not, byte for byte, what the source captured.
pub fn after_freeze(evidence: &Freeze<'_>) -> Result<FlipPermit, Refusal> {
    let Freeze { partition, expect, attempt, capture, verified } = *evidence;
    let listing = &capture.listing;
    if capture.token.epoch != expect.epoch || listing.epoch != expect.epoch {
        return Err(Refusal::WrongEpoch);
    }
    let by_reach_alone = is_planted(Bug::VerifiedByReachAlone);
    starts_at(listing.start, verified)?;
    if verified.end != listing.end && !by_reach_alone {
        return Err(Refusal::WrongEnd { end: verified.end, expected: listing.end });
    }
    reaches(listing.hwm, verified)?;
    if verified.digest != capture.digest && !by_reach_alone {
        return Err(Refusal::WrongDigest);
    }
    Ok(FlipPermit {
        command: Command::CompleteMove {
            partition,
            expect,
            attempt,
            fence: Fence::Normal { token: capture.token },
            end: verified.end,
            hwm: listing.hwm,
            committed: clamped(&capture.position, listing.hwm).committed,
            digest: verified.digest,
        },
    })
}

/// Permits the flip of a copy whose source is dead (R63 to R66, S6).
///
/// # Errors
///
/// If no session of this move reached the source, if it has not been dead for long enough, or if
/// the copy does not reach all that is known to have been visible.
pub fn after_death(evidence: &Death<'_>) -> Result<FlipPermit, Refusal> {
    let Death { partition, row, attempt, generation, verified, .. } = *evidence;
    let boundary = boundary_after_death(row, evidence.session)?;
    let remaining = evidence.promote_after.saturating_sub(evidence.dead_for);
    if !remaining.is_zero() {
        return Err(Refusal::TooEarly { remaining });
    }
    starts_at(boundary.start, verified)?;
    reaches(boundary.hwm, verified)?;
    if verified.end < row.min_end {
        return Err(Refusal::BelowMinEnd { end: verified.end, min_end: row.min_end });
    }
    let position = evidence.session.map(|session| clamped(&session.position, boundary.hwm));
    Ok(FlipPermit {
        command: Command::CompleteMove {
            partition,
            expect: row.expect(),
            attempt,
            fence: Fence::Forced { generation },
            end: verified.end,
            hwm: boundary.hwm,
            committed: position.and_then(|position| position.committed),
            digest: verified.digest,
        },
    })
}

/// Returns what a copy must reach to be promoted without its source: the highest watermark that
/// any listing or report of this epoch showed. Its `end` is the least end that will do.
///
/// # Errors
///
/// [`Refusal::NeverReached`] if the manifest remembers no session of this row's move.
pub fn boundary_after_death(
    row: &Assignment,
    session: Option<&Manifest>,
) -> Result<Boundary, Refusal> {
    let session = session
        .filter(|manifest| {
            (manifest.move_id == row.move_id || is_planted(Bug::SessionOutlivesItsMove))
                && manifest.source == row.owner
                && manifest.epoch == row.epoch
        })
        .ok_or(Refusal::NeverReached)?;
    let listed = if is_planted(Bug::ListedHwmForgotten) { Offset(0) } else { session.hwm };
    let hwm = listed.max(row.reported_hwm.unwrap_or_default());
    Ok(Boundary { start: session.start, end: hwm.max(row.min_end), hwm, digest: None })
}

/// Returns a consumer position without anything at or past the high watermark, where other
/// records will get the same offsets (cases O65, O67).
#[must_use]
pub fn clamped(position: &Position, hwm: Offset) -> Position {
    if is_planted(Bug::PositionNotClamped) {
        return position.clone();
    }
    let mut acked_ahead = position.acked_ahead.clone();
    acked_ahead.retain(|&offset| offset < hwm);
    Position { committed: position.committed.map(|committed| committed.min(hwm)), acked_ahead }
}

fn starts_at(expected: Offset, verified: &Verified) -> Result<(), Refusal> {
    if verified.start == expected || is_planted(Bug::VerifiedByReachAlone) {
        Ok(())
    } else {
        Err(Refusal::WrongStart { start: verified.start, expected })
    }
}

fn reaches(visible: Offset, verified: &Verified) -> Result<(), Refusal> {
    if verified.end >= visible {
        Ok(())
    } else {
        Err(Refusal::Behind { end: verified.end, visible })
    }
}

#[cfg(test)]
mod tests;
