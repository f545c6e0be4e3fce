//! What a node asks its driver to do, and how each of that may end.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::controller::Change;
use crate::cursor::{Acks, Lineage, Taken};
use crate::dispatch::{BatchNo, Checkpoint, LogFault, SendFault, Seqs};
use crate::freeze::gate::Standing;
use crate::freeze::handoff::FreezeFault;
use crate::host;
use crate::ids::{Attempt, Epoch, Incarnation, LogIndex, NodeId, Offset, PartitionId, Seq, Token};
use crate::metastore::Entry;
use crate::mover::{Copied, Fault, What};
use crate::partition::{
    Boundary, Capture, Listing, Manifest, Recovered, Sidecar, Staged, Verified,
};
use crate::peer;

/// Work with an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Append an entry to the log, which this node leads.
    Append(Entry),
    /// A read barrier: answered once everything committed before it began is applied here.
    Barrier,
    /// A read barrier, and how far each replica has come.
    Survey,
    /// Change who takes part in the log.
    Configure(Change),
    /// Hand the lead to another voter.
    Transfer {
        /// Who is to lead.
        to: NodeId,
    },
    /// Ask a peer.
    Call {
        /// The peer.
        to: NodeId,
        /// The question.
        request: peer::Request,
    },
    /// Make the next incarnation durable.
    NextIncarnation,
    /// Say what is on the disk of a partition.
    Inspect(PartitionId),
    /// Work on the live log of a partition.
    Host(PartitionId, host::Operation),
    /// Work on the directories of a partition that are not live.
    Stage(PartitionId, Staging),
    /// Work on the gate of a partition.
    Gate(PartitionId, Gating),
    /// Say how far consumers can see in live logs.
    Watermarks(Vec<PartitionId>),
    /// Work on this node's ingress log, or with what is in it.
    Ship(Shipping),
    /// Refuse new records from now on, and send their producers elsewhere; then say whether
    /// everything that was accepted here before has been told (H37). That accept is closed is durable
    /// before it is said: a later life has to [find](crate::dispatch::Found) it so.
    CloseAccept,
    /// Accept again: the decommission was cancelled (R94).
    OpenAccept,
}

/// Work on the directories of a partition that are not live.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Staging {
    /// Copy a range of one extent from the source.
    Copy {
        /// The source.
        source: NodeId,
        /// The extent.
        base: Offset,
        /// Where in it, in bytes.
        position: u64,
        /// How much, in bytes; zero, at position zero, creates the empty extent.
        bytes: u64,
    },
    /// Make staged bytes durable, then the manifest that vouches for them.
    Checkpoint(Manifest),
    /// Drop staged bytes beyond these.
    Trim(Vec<Staged>),
    /// Find out whether so many bytes fit, and whether the disk takes a write at all.
    Probe {
        /// How much is still to come.
        bytes: u64,
    },
    /// Read back what is staged.
    Verify(Boundary),
    /// Make the copy a directory of its own, named by the attempt.
    Install {
        /// The attempt.
        attempt: Attempt,
        /// What is kept beside the log.
        sidecar: Sidecar,
        /// What the copy was made from.
        manifest: Manifest,
    },
    /// Make an installed directory the staging area again.
    Restage(Attempt),
    /// Move something to quarantine.
    SetAside(What),
}

/// Work on the gate of a partition that is owned here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Gating {
    /// Have the gate stand so.
    Stand(Standing),
    /// List what is durable.
    List {
        /// This node's life.
        incarnation: Incarnation,
        /// Staged extents to compare with.
        check: Vec<Staged>,
    },
    /// Stop accept and commit, and capture the boundary.
    Freeze {
        /// The reign.
        epoch: Epoch,
        /// This node's life.
        life: Incarnation,
    },
    /// Go on.
    Thaw(Token),
    /// Let consumers go on from where the opened log says that they stood.
    Resume(Lineage),
    /// The reign is over: let consumers have no more, and say what they have acknowledged that the
    /// next owner may not know of (H28).
    HandOver {
        /// Whether the next reign began without this one's capture.
        forced: bool,
    },
    /// Count what was acknowledged at a past owner.
    Take(Acks),
}

/// Work on the ingress log, or with what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shipping {
    /// Bring records to the owner of a partition: see [`dispatch::Operation::Send`].
    ///
    /// [`dispatch::Operation::Send`]: crate::dispatch::Operation::Send
    Send {
        /// The owner; may be this node.
        to: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The reign in which it is asked.
        epoch: Epoch,
        /// The batch.
        batch: BatchNo,
        /// Which records, in order.
        records: Seqs,
    },
    /// Note durably that nothing of this is needed any more, then remove what lies below it.
    Checkpoint(Checkpoint),
    /// Append these records once more, in consecutive positions, and make them durable.
    Carry(Seqs),
    /// Accept, for their partition, the records that a directory holds from an offset on: no owner
    /// has them (H14). They are told as accepted before this is answered.
    Salvage {
        /// The partition.
        partition: PartitionId,
        /// The directory.
        what: What,
        /// The first record; `None`: the first that consumers have not acknowledged there.
        from: Option<Offset>,
    },
}

/// How an operation ended. Variants mirror [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// See [`Operation::Append`]: whether it was handed to the log.
    Append(bool),
    /// See [`Operation::Barrier`]; `None` if no leader confirmed it in time.
    Barrier(Option<LogIndex>),
    /// See [`Operation::Survey`]; `None` if no barrier was reached in time.
    Survey(Option<(LogIndex, BTreeMap<NodeId, LogIndex>)>),
    /// See [`Operation::Configure`]: whether it was handed to the log.
    Configure(bool),
    /// See [`Operation::Transfer`]: it was asked for.
    Transfer,
    /// See [`Operation::Call`].
    Call(Result<peer::Answer, CallFault>),
    /// See [`Operation::NextIncarnation`]; `None` if the disk failed.
    NextIncarnation(Option<Incarnation>),
    /// See [`Operation::Inspect`]; `None` if the disk failed.
    Inspect(Option<Recovered>),
    /// See [`Operation::Host`].
    Host(host::Outcome),
    /// See [`Operation::Stage`].
    Stage(StagingOutcome),
    /// See [`Operation::Gate`].
    Gate(GatingOutcome),
    /// See [`Operation::Watermarks`]: those that are open.
    Watermarks(Vec<(PartitionId, Epoch, Offset)>),
    /// See [`Operation::Ship`].
    Ship(ShippingOutcome),
    /// See [`Operation::CloseAccept`]: whether all of it was told. If not, it is asked again.
    CloseAccept(bool),
    /// See [`Operation::OpenAccept`].
    OpenAccept,
}

/// How work on the directories of a partition ended. Variants mirror [`Staging`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StagingOutcome {
    /// See [`Staging::Copy`].
    Copy(Result<Copied, Fault>),
    /// See [`Staging::Checkpoint`].
    Checkpoint(Result<(), Fault>),
    /// See [`Staging::Trim`].
    Trim(Result<(), Fault>),
    /// See [`Staging::Probe`].
    Probe(Result<(), Fault>),
    /// See [`Staging::Verify`].
    Verify(Result<Verified, Fault>),
    /// See [`Staging::Install`].
    Install(Result<(), Fault>),
    /// See [`Staging::Restage`].
    Restage(Result<(), Fault>),
    /// See [`Staging::SetAside`].
    SetAside(Result<(), Fault>),
}

/// How work on a gate ended. Variants mirror [`Gating`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GatingOutcome {
    /// See [`Gating::Stand`].
    Stand,
    /// See [`Gating::List`].
    List(Option<Listing>),
    /// See [`Gating::Freeze`].
    Freeze(Result<Capture, FreezeFault>),
    /// See [`Gating::Thaw`].
    Thaw,
    /// See [`Gating::Resume`].
    Resume,
    /// See [`Gating::HandOver`].
    HandOver(Acks),
    /// See [`Gating::Take`]; `None` if consumers are not served here.
    Take(Option<Taken>),
}

/// How work on the ingress log ended. Variants mirror [`Shipping`], but for one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ShippingOutcome {
    /// See [`Shipping::Send`].
    Send(Result<(), SendFault>),
    /// See [`Shipping::Checkpoint`].
    Checkpoint(Result<(), LogFault>),
    /// See [`Shipping::Carry`]: the position of the first record.
    Carry(Result<Seq, LogFault>),
    /// See [`Shipping::Salvage`]; `None` if the directory could not be read to its end, or there is
    /// no room for its records now. Some of them may have been accepted.
    Salvage(Option<Salvaged>),
    /// Of [`Shipping::Send`] and [`Shipping::Carry`]: see [`dispatch::Outcome::Damaged`].
    ///
    /// [`dispatch::Outcome::Damaged`]: crate::dispatch::Outcome::Damaged
    Damaged(Seqs),
}

/// What was accepted once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Salvaged {
    /// The first record.
    pub from: Offset,
    /// Offset after the last one.
    pub end: Offset,
    /// Their bytes.
    pub bytes: u64,
}

/// Why a peer gave no answer. None of these says that the request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CallFault {
    /// Nobody answers there.
    #[error("the peer cannot be reached")]
    Unreachable,
    /// No answer came in time.
    #[error("the peer did not answer in time")]
    TimedOut,
    /// The answer could not be understood.
    #[error("the peer's answer could not be understood")]
    Malformed,
}
