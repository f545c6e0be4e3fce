//! What the world tells the oracle.

mod consumers;
mod ingress;
mod words;

use narad_core::controller::Change;
use narad_core::effects::OpId;
use narad_core::freeze::gate::{Authority, Standing};
use narad_core::ids::{
    Attempt, Epoch, Incarnation, LogIndex, MoveId, NodeId, Offset, PartitionId, Token,
};
use narad_core::metastore::{Configuration, Entry, State};
use narad_core::node::Note;
use narad_core::partition::{Capture, Listing, Position};
use narad_core::time::Instant;

use crate::time::Time;

pub use self::consumers::ConsumerFact;
pub use self::ingress::IngressFact;
pub use self::words::{AcceptFault, Directory, DiskChange, End, Origin, Read};

/// Something that is true of the world from now on.
///
/// Facts are told in the order in which they become true. Every record is named by its content
/// id: the first eight bytes of its payload, little-endian, never zero, never used for two
/// records. "About to" means: the node asked for it and the disk is still as it was.
#[derive(Clone, Copy, Debug)]
pub enum Fact<'a> {
    /// A process runs; `life` is durable. Also told when a running process has begun its next life
    /// ([`Outcome::NextIncarnation`](narad_core::node::Outcome)).
    Started {
        /// The node.
        node: NodeId,
        /// Its life from here on.
        life: Incarnation,
    },
    /// A process is gone, with everything that it held in memory.
    Ended {
        /// The node.
        node: NodeId,
        /// How.
        how: End,
    },
    /// Something that is no node is about to change a disk, whose process has ended unless that is
    /// a change it may meet ([`DiskChange::Rotted`], [`DiskChange::Erased`]).
    Disk {
        /// The node.
        node: NodeId,
        /// What happens to it.
        change: DiskChange,
    },
    /// A node asks for an entry, told in the event in which it does: `node` is who it really is,
    /// whatever the entry says.
    Proposed {
        /// Who asks.
        node: NodeId,
        /// What for.
        entry: &'a Entry,
        /// On whose behalf.
        origin: Origin,
    },
    /// A node is about to be given an entry to apply; it is committed.
    Applied {
        /// The node.
        node: NodeId,
        /// Where in the log.
        index: LogIndex,
        /// What it says.
        entry: &'a Entry,
    },
    /// A node is about to be told of a change of who takes part in the log; it is committed.
    Configured {
        /// The node.
        node: NodeId,
        /// Where in the log.
        index: LogIndex,
        /// Who takes part from there on.
        configuration: &'a Configuration,
    },
    /// A node is about to pass over an entry that says nothing.
    Skipped {
        /// The node.
        node: NodeId,
        /// Where in the log.
        index: LogIndex,
    },
    /// A node has a state: at a start that of its own snapshot, told next after [`Fact::Started`]
    /// and perhaps with replayed entries in it; later on another node's.
    Restored {
        /// The node.
        node: NodeId,
        /// The state.
        state: &'a State,
    },
    /// A node that leads asks for a change of who takes part; told when it does.
    Configuring {
        /// The leader.
        node: NodeId,
        /// The change.
        change: Change,
    },
    /// A node said something worth knowing.
    Noted(NodeId, &'a Note),
    /// What a whole node may do has changed.
    Authority {
        /// The node.
        node: NodeId,
        /// What it may do from now on.
        authority: Authority,
    },
    /// A node asks what may renew its lease: a heartbeat. One that leads asks itself, unseen.
    Beats {
        /// The node.
        node: NodeId,
        /// The question.
        op: OpId,
        /// When, by its own clock.
        at: Instant,
    },
    /// Such a question was answered; told before the node takes it in.
    Beaten {
        /// The node.
        node: NodeId,
        /// The question.
        op: OpId,
        /// Where the barrier stood.
        index: LogIndex,
    },
    /// A leader answers a heartbeat; told when the answer leaves.
    Grants {
        /// The leader.
        leader: NodeId,
        /// Who had asked.
        node: NodeId,
        /// Its life.
        life: Incarnation,
        /// When the question came.
        received: Time,
    },
    /// A destination takes in the answer to its listing.
    Learned {
        /// The destination.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The move that it asked for.
        move_id: MoveId,
        /// What it was told.
        listing: &'a Listing,
        /// Whether it had asked the source to compare what it has staged.
        compared: bool,
    },
    /// A destination asks for bytes.
    Copies {
        /// The destination.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
    },
    /// A source answers a try with its freeze; told when the answer leaves.
    Prepared {
        /// The source.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The try.
        attempt: Attempt,
        /// The present move of the row that the source has applied, and its target.
        row: Option<(MoveId, Option<NodeId>)>,
    },
    /// A source has answered a renewal; told when the answer leaves.
    Renewed {
        /// The source.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The freeze.
        token: Token,
        /// How far the copy is.
        staged_bytes: u64,
    },
    /// A destination begins a try.
    Tries {
        /// The destination.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The try.
        attempt: Attempt,
    },
    /// A source has agreed to give a freeze up; told when the answer leaves.
    Released {
        /// The source.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The freeze.
        token: Token,
    },
    /// A consumer goes on where it was in an earlier reign.
    GoesOn {
        /// The node that it reads at now.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The reign that it read in, and where it was.
        was: (Epoch, Offset),
        /// Where it goes on.
        from: Offset,
    },
    /// A gate stands otherwise than before; told after it does.
    Stood {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// How it stands.
        standing: Standing,
    },
    /// A source begins to list what is durable.
    Listing {
        /// The source.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
    },
    /// A source has listed what is durable, for this move; told when the answer leaves.
    Listed {
        /// The source.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// Who asked.
        asker: NodeId,
        /// For which move.
        move_id: MoveId,
        /// The answer.
        listing: &'a Listing,
    },
    /// A gate froze and its boundary was captured, under one mutex.
    Captured {
        /// The source.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// What was captured.
        capture: &'a Capture,
    },
    /// The capture of a freeze leaves its source: from here on a flip may rest on the token.
    CaptureTold {
        /// The source.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The freeze.
        token: Token,
    },
    /// A gate froze, but the log could not be read: nobody is told of the token.
    FrozeBlindly {
        /// The source.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The freeze.
        token: Token,
    },
    /// A gate was thawed on its node's order.
    Thawed {
        /// The source.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The freeze.
        token: Token,
    },
    /// An empty log is about to be made.
    Creating {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The directory.
        data: Attempt,
        /// Where it begins.
        start: Offset,
    },
    /// A directory was opened for service.
    Opened {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The directory.
        data: Attempt,
        /// Offset after its last record.
        end: Offset,
        /// First offset that is hidden.
        hwm: Offset,
        /// Where its consumers stand.
        position: &'a Position,
    },
    /// The open log was closed.
    Closed {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
    },
    /// A control frame was made durable that exposes everything before it.
    Exposed {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The reign.
        epoch: Epoch,
        /// First offset that is hidden from here on.
        hwm: Offset,
    },
    /// A node has its disk set something aside; that is told of when the disk comes to it.
    AskingAside(NodeId, PartitionId),
    /// A directory, or the staging area, is about to be set aside.
    SettingAside {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// What.
        directory: Directory,
    },
    /// An installed directory is about to be made the staging area again.
    Restaging {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The directory.
        data: Attempt,
    },
    /// The staging area is about to be cut.
    Trimming {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
    },
    /// The staging area became a directory of its own; durable.
    Installed {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The directory.
        data: Attempt,
    },
    /// Retention took everything before an offset away; if the disk failed in it, at the next
    /// opening at the latest.
    Retained {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The first offset that is kept.
        start: Offset,
    },
    /// Bytes of a partition arrived in staging.
    Copied {
        /// The destination.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// How many.
        bytes: u64,
    },
    /// Something happened to an ingress log, or to what is in it.
    Ingress(IngressFact<'a>),
    /// A gate admitted an append; the log is written next.
    Admitted {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The reign.
        epoch: Epoch,
    },
    /// Records were written to a live log and are durable; whether they may be acknowledged is
    /// asked next.
    Appended {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The reign.
        epoch: Epoch,
        /// Offset of the first.
        first: Offset,
        /// The records.
        ids: &'a [u64],
    },
    /// Those records were acknowledged to their producer; `first + ids.len()` is the high
    /// watermark from here on, or less than it.
    Acknowledged {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The reign.
        epoch: Epoch,
        /// Offset of the first.
        first: Offset,
        /// The records.
        ids: &'a [u64],
    },
    /// The gate refused to acknowledge records that are durable.
    AckRefused {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The reign that they were appended in.
        epoch: Epoch,
        /// Offset of the first.
        first: Offset,
        /// The records.
        ids: &'a [u64],
    },
    /// Consumers were handed something, or have acknowledged it.
    Consumers(ConsumerFact<'a>),
    /// A consumer was turned away by the node that it takes for the owner, now or a moment ago.
    ReadRefused(NodeId, PartitionId),
    /// Whether every clock's rate is within the bound of the policy. Once false, S2 says nothing
    /// more about simultaneous writers for the rest of the run.
    ClockBound(bool),
    /// From here on the world only heals.
    Liveness,
    /// Time has passed; told about once per simulated second in the liveness phase.
    Tick,
}
