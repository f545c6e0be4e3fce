//! What goes in and out of a [`Gate`](super::Gate).

use crate::ids::{Epoch, Incarnation, Offset, Token};
use crate::time::Instant;

/// What the node as a whole may do; the same for all its gates at one time.
///
/// Made by the [lease](crate::lease::Lease), published by the driver. It names the life it was made
/// for, so that one that is read late cannot speak for a gate of another life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Authority {
    /// The node's life, once its own `Register` is applied here and while the member is Alive
    /// (H6, H32, H34).
    pub registered: Option<Incarnation>,
    /// When the owner lease ends; [`Instant::ORIGIN`] if there is none (H9).
    pub lease_until: Instant,
}

impl Authority {
    /// May nothing: what a node starts with.
    pub const NONE: Self = Self { registered: None, lease_until: Instant::ORIGIN };
}

/// How a gate stands to its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Standing {
    /// Another node's partition, or nobody's: nothing passes.
    Closed,
    /// Ours as far as we know, but no life of this node is registered: plain reads only.
    Reading {
        /// The reign whose log is open.
        epoch: Epoch,
    },
    /// Ours in the row that was applied with, or after, this life's registration.
    Serving {
        /// The reign whose log is open.
        epoch: Epoch,
        /// The registered life.
        life: Incarnation,
        /// Whether somebody could flip the partition away, so that a lease is needed (H9, H30).
        in_play: bool,
    },
}

/// What the node asks of a gate. `T` names a freeze until it has a token: the operation's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command<T> {
    /// Stand so from now on. Ends any freeze of another epoch or life; the freezes of the same are
    /// kept, whatever becomes of `in_play`.
    Stand(Standing),
    /// Freeze. Answered by exactly one [`Signal`], at once or when the append under way has ended.
    Freeze {
        /// Comes back with the answer.
        ticket: T,
        /// The reign in which to freeze.
        epoch: Epoch,
        /// The life in which to freeze: a request of an earlier one finds nothing to freeze.
        life: Incarnation,
    },
    /// Give up a freeze that still waits for an append; it is answered. Too late, it does nothing.
    GiveUp {
        /// The freeze.
        ticket: T,
    },
    /// End the freeze of this token; of another, it does nothing (H21).
    Thaw {
        /// The freeze.
        token: Token,
    },
}

/// What became of a [`Command::Freeze`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal<T> {
    /// Nothing is appended any more and nothing is under way: capture now, before the mutex is
    /// released.
    Frozen {
        /// The freeze.
        ticket: T,
        /// Its name from here on.
        token: Token,
    },
    /// It did not freeze, and no token exists.
    NotFrozen {
        /// The freeze.
        ticket: T,
        /// Why.
        why: NotFrozen,
    },
}

/// Why a gate did not freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum NotFrozen {
    /// The gate may not commit either, or does not stand in that epoch and life any more.
    #[error(
        "the node may not serve this partition now: ask again once it is registered and leased"
    )]
    NotServing,
    /// Another freeze holds, or waits.
    #[error("the partition is frozen already: end that freeze first")]
    Frozen,
    /// The append under way did not end in time (field fault 4).
    #[error("an append has not ended in time: look at the disk of the source")]
    AppendStuck,
}

impl Standing {
    /// Returns the reign and life in which records may be committed, if any.
    pub(crate) const fn reign(self) -> Option<(Epoch, Incarnation)> {
        match self {
            Self::Closed | Self::Reading { .. } => None,
            Self::Serving { epoch, life, .. } => Some((epoch, life)),
        }
    }
}

/// How an append ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Appended {
    /// All of it is on disk, fsync included.
    Durable {
        /// Offset after its last record.
        end: Offset,
    },
    /// It is not acknowledged, and nothing of it can reach the log from here on.
    Failed,
}

/// Leave to advance the high watermark and to acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Acknowledged {
    /// The reign, for the acknowledgement (S2).
    pub epoch: Epoch,
    /// The high watermark from here on.
    pub hwm: Offset,
}

/// Why a record is not committed here and now. Whoever holds it keeps it and tries again (R37).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// The node does not own the partition, or not in a registered life.
    #[error("this node does not serve the partition: look the owner up again")]
    NotServing,
    /// The sender, or the admission, is of another reign.
    #[error("the partition is in epoch {current} here: look the owner up again")]
    OtherEpoch {
        /// The reign here.
        current: Epoch,
    },
    /// The partition is in play and the lease has run out.
    #[error("this node has no lease: try again once it reaches the leader")]
    NoLease,
    /// A move is about to flip the partition away.
    #[error("the partition is frozen for a move: try again in a moment")]
    Frozen,
    /// Another append is under way.
    #[error("an append is under way: wait for it and join the next")]
    AppendUnderWay,
    /// The log could not take it.
    #[error("the log could not be written: try again")]
    AppendFailed,
}
