//! What consumers are handed, and what they acknowledge.

use narad_core::cursor::Reserved;
use narad_core::ids::{Epoch, NodeId, Offset, PartitionId};
use narad_core::partition::Position;
use narad_core::time::Instant;

use super::Read;

/// Something that consumers were handed, or have acknowledged.
#[derive(Clone, Copy, Debug)]
pub enum ConsumerFact<'a> {
    /// A cursor has handed out records.
    Reserved {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// Which records, in which reign, and until when.
        reserved: &'a Reserved,
        /// How many were wanted.
        most: usize,
        /// Those from here on were given back at once.
        back: Option<Offset>,
        /// The high watermark right after that.
        hwm: Offset,
    },
    /// A consumer keeps a record for longer, or has handed it back.
    Kept {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The record.
        offset: Offset,
        /// Until when nobody else is given it, by the clock of the node.
        until: Instant,
    },
    /// Records were delivered to a consumer: told when they arrive there, however late.
    Delivered {
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
        /// The high watermark that they were read below.
        hwm: Offset,
        /// How they were asked for.
        how: Read,
    },
    /// The owner took a consumer's acknowledgement.
    ConsumerAck {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The reign of that owner.
        epoch: Epoch,
        /// The reign in which the consumer was given the record.
        fetched: Epoch,
        /// The record.
        offset: Offset,
    },
    /// Where the consumers of a partition stand at its owner; told when the committed offset has
    /// changed.
    Position {
        /// The node.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The reign.
        epoch: Epoch,
        /// Where they stand.
        position: &'a Position,
        /// First offset that is hidden.
        hwm: Offset,
    },
}
