//! What a partition's log looks like from outside: the values that pass between a source, a
//! destination and their disks.
//!
//! A machine sees offsets, lengths and opaque checksums; the bytes go from the peer to the staging
//! file inside the driver (rule 7 of the [crate docs](crate)).

use alloc::vec::Vec;

use crate::ids::{
    Attempt, ByteCount, Digest, Epoch, Incarnation, LogGeneration, MoveId, NodeId, Offset,
    PartitionId, Token,
};
use crate::planted::{Bug, is_planted};

/// The checksum of the first bytes of one extent; compared, never computed, by the machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Checksum(pub u32);

/// One contiguous piece of a log, as its owner lists it: a segment file in the segment log,
/// whatever an embedder's own log has in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Extent {
    /// Offset of its first record; its name within the partition.
    pub base: Offset,
    /// Offset after its last durable record.
    pub end: Offset,
    /// Its durable length. Bytes past it may never have existed after a crash, so they are not
    /// listed (H16).
    pub bytes: ByteCount,
    /// The checksum of those bytes.
    pub checksum: Checksum,
    /// Whether it can no longer grow.
    pub sealed: bool,
}

/// How far one extent has been staged at a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Staged {
    /// The extent.
    pub base: Offset,
    /// Its staged length, from its first byte on.
    pub bytes: ByteCount,
    /// The checksum of those bytes.
    pub checksum: Checksum,
}

/// Where the consumers of a partition stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Position {
    /// Everything below is acknowledged. `None` if nobody ever committed (R20).
    pub committed: Option<Offset>,
    /// Acknowledged records above that frontier, ascending; at most
    /// [`Position::ACKED_AHEAD_MAX`] of them.
    pub acked_ahead: Vec<Offset>,
}

impl Position {
    /// Most records that may be acknowledged ahead of the committed offset.
    pub const ACKED_AHEAD_MAX: usize = 1024;

    /// Moves the committed offset through the records that were acknowledged ahead of it. A position
    /// of which nothing was ever committed stays as it is.
    pub fn advance(&mut self) {
        let Some(mut frontier) = self.committed else { return };
        let mut passed = 0;
        for &offset in &self.acked_ahead {
            let reached = if is_planted(Bug::AckSkipsOne) { frontier.next() } else { frontier };
            if offset > reached {
                break;
            }
            frontier = frontier.max(offset.next());
            passed += 1;
        }
        self.acked_ahead.drain(..passed);
        self.committed = Some(frontier);
    }
}

/// What a source has, captured at one instant: everything that a destination may copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Listing {
    /// The source's life. Freezes and sessions end with it (H6).
    pub incarnation: Incarnation,
    /// The life of the log itself; a change means that a tail may have been cut (H16).
    pub generation: LogGeneration,
    /// The owner's reign.
    pub epoch: Epoch,
    /// First offset that retention has kept.
    pub start: Offset,
    /// Offset after the last durable record.
    pub end: Offset,
    /// First offset that consumers cannot see; `start <= hwm <= end` (R41).
    pub hwm: Offset,
    /// The durable extents, ascending and contiguous from `start` to `end`.
    pub extents: Vec<Extent>,
    /// Those of the asked-for staged extents whose bytes are the source's own (H16).
    pub agreed: Vec<Offset>,
}

impl Listing {
    /// Returns the durable bytes of all extents together.
    pub fn bytes(&self) -> ByteCount {
        ByteCount(self.extents.iter().map(|extent| extent.bytes.0).sum())
    }
}

/// The source's answer to a freeze: the boundary that the copy must reproduce exactly.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Capture {
    /// The freeze.
    pub token: Token,
    /// The log under the freeze; nothing is appended to it until the token is revoked (S9).
    pub listing: Listing,
    /// Where consumers stood, captured before the high watermark (R50).
    pub position: Position,
    /// The whole content, summarised.
    pub digest: Digest,
}

/// What a copy must be before it may be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Boundary {
    /// First offset.
    pub start: Offset,
    /// Offset after the last record.
    pub end: Offset,
    /// First offset that consumers cannot see.
    pub hwm: Offset,
    /// The content, if the source could still say; `None` after its death.
    pub digest: Option<Digest>,
}

/// What the staged copy turned out to be, read back from its durable bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Verified {
    /// First offset of its contiguous range.
    pub start: Offset,
    /// Offset after its last whole record.
    pub end: Offset,
    /// The content, summarised.
    pub digest: Digest,
}

/// What is kept beside an installed log: what its bytes alone do not say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sidecar {
    /// First offset.
    pub start: Offset,
    /// The exact high watermark; records from here on stay hidden until a new commit (R41, S4).
    pub hwm: Offset,
    /// Where consumers stand (R20).
    pub position: Position,
}

/// The durable memory of one staging area, so that either side's restart resumes the copy (R61).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Manifest {
    /// The partition.
    pub partition: PartitionId,
    /// The move whose session reached the source. Another move may reuse the bytes, not the
    /// session (H30).
    pub move_id: MoveId,
    /// Where the bytes come from.
    pub source: NodeId,
    /// Its life when they were listed.
    pub source_incarnation: Incarnation,
    /// The life of its log when they were listed.
    pub generation: LogGeneration,
    /// Its reign.
    pub epoch: Epoch,
    /// First offset that the source listed.
    pub start: Offset,
    /// The highest high watermark that any listing of this epoch showed (H13).
    pub hwm: Offset,
    /// Where consumers stood at the last listing that said so.
    pub position: Position,
    /// What is staged and durable, ascending.
    pub extents: Vec<Staged>,
    /// The highest attempt that was installed and proposed, if any: its fate must be resolved
    /// before its directory may be touched (H2, H27).
    pub attempt: Option<Attempt>,
}

/// What a restarted process finds of one partition on its own disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Recovered {
    /// The staging area, if it has a readable manifest.
    pub staging: Option<Manifest>,
    /// There is one without a readable manifest: nothing can be built on it.
    pub unlisted: bool,
    /// Installed directories, by the attempt that names them, each with the manifest it was
    /// installed from (`None` for a log that was born here).
    pub installed: Vec<(Attempt, Option<Manifest>)>,
}
