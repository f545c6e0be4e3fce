//! What goes in and out of a [`Handoff`](super::Handoff).

use alloc::vec::Vec;
use core::time::Duration;

#[cfg(doc)]
use crate::config::Config;
use crate::effects::OpId;
use crate::freeze::gate::{NotFrozen, Standing};
use crate::ids::{Attempt, Epoch, Incarnation, MoveId, NodeId, Token};
use crate::metastore::{Assignment, Command, Reason};
use crate::partition::{Capture, Listing, Staged};
use crate::peer::{Answer, RequestId};
use crate::proposals::Proposed;

/// Something the driver tells the machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Event {
    /// Time passed.
    Wake,
    /// An operation ended.
    Done(OpId, Outcome),
    /// The partition's row was applied, and is this; `None` if it is no more. Told whenever it may
    /// have changed; repeating it is harmless.
    Row(Option<Assignment>),
    /// The node has begun a later life, because it found itself Dead (H32): freezes are void, and
    /// nothing is served until that life is registered.
    NewLife(Incarnation),
    /// The `Register` of that life is applied here. Every row applied up to it comes before it.
    Registered(Incarnation),
    /// A peer asks; the id comes back with [`Effect::Answer`].
    Request(RequestId, NodeId, HandoffRequest),
}

/// What a destination asks of a source; [`crate::peer::Request`] says what each means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum HandoffRequest {
    /// What do you have?
    List {
        /// The plan.
        move_id: MoveId,
        /// Staged extents to compare.
        check: Vec<Staged>,
    },
    /// Freeze, and say what the copy must reproduce.
    Prepare {
        /// The try.
        attempt: Attempt,
    },
    /// The copy has come this far.
    Renew {
        /// The freeze.
        token: Token,
        /// Bytes staged.
        staged_bytes: u64,
    },
    /// The try is given up.
    Release {
        /// The freeze.
        token: Token,
    },
}

/// Something the machine asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Effect {
    /// Run an operation; exactly one [`Event::Done`] answers it, unless the process ends first.
    Run(OpId, Operation),
    /// End a [`Operation::Freeze`] that still waits for an append: the driver passes `GiveUp` to
    /// the gate. Its `Done` still follows.
    Cancel(OpId),
    /// Answer a peer's request; each is answered exactly once.
    Answer(RequestId, Answer),
    /// An observation; nothing answers it.
    Note(Note),
}

/// Work with an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Operation {
    /// Have the gate stand so.
    Stand(Standing),
    /// List the durable log and compare what is staged with it.
    Listing {
        /// Staged extents of the asker.
        check: Vec<Staged>,
    },
    /// Freeze at the gate and capture under its mutex.
    Freeze {
        /// The reign.
        epoch: Epoch,
        /// The life.
        life: Incarnation,
    },
    /// End a freeze at the gate.
    Thaw {
        /// The freeze.
        token: Token,
    },
    /// Propose a command; said again byte for byte after an unknown outcome.
    Propose(Command),
}

/// How an operation ended. Variants mirror [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outcome {
    /// See [`Operation::Stand`].
    Stand,
    /// See [`Operation::Listing`].
    Listing(Result<Listing, DiskFault>),
    /// See [`Operation::Freeze`].
    Freeze(Result<Capture, FreezeFault>),
    /// See [`Operation::Thaw`].
    Thaw,
    /// See [`Operation::Propose`].
    Propose(Proposed),
}

/// The source's disk could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[error("the log could not be read: look at the disk of this node")]
pub struct DiskFault;

/// Why there is no capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FreezeFault {
    /// The gate did not freeze.
    #[error(transparent)]
    NotFrozen(#[from] NotFrozen),
    /// It froze, but the log could not be read. Nobody knows the token, so it needs no `Revoke`.
    #[error("the log could not be read under freeze {token:?}: look at the disk of this node")]
    Unreadable {
        /// The freeze, still held at the gate.
        token: Token,
    },
}

/// Something worth knowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Note {
    /// A freeze began.
    Frozen {
        /// The freeze.
        token: Token,
        /// For whom.
        attempt: Attempt,
    },
    /// A freeze could not be had or could not be used, and nobody was told of one.
    NotFrozen {
        /// For whom.
        attempt: Attempt,
        /// Why.
        why: FreezeFault,
    },
    /// A freeze is being revoked.
    Revoking {
        /// The freeze.
        token: Token,
        /// Why.
        cause: Cause,
    },
    /// A `Revoke` was refused; the row that explains it is on its way.
    RevokeRejected {
        /// The freeze.
        token: Token,
        /// Why.
        reason: Reason,
    },
    /// The partition is open again, or no longer ours.
    Thawed {
        /// How long nothing was admitted.
        frozen: Duration,
    },
    /// The answer of an operation that is not under way.
    Stale(OpId),
}

/// Why a freeze is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Cause {
    /// The copy has made no progress for [`Config::freeze_ttl`] (H22).
    NoProgress,
    /// It has lasted [`Config::freeze_max`].
    TooLong,
    /// The destination gave its try up (case T26).
    Released,
    /// The destination makes a newer try (H4).
    Superseded,
    /// The try was burned (H2): it cannot win any more.
    Burned,
}
