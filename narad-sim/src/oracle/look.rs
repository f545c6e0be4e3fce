//! What the oracle may look at.

use narad_core::ids::{NodeId, Offset, PartitionId, Seq};
use narad_core::node::Node;
use narad_core::time::Instant;

use super::fact::Directory;
use crate::time::Time;

/// The world, as the oracle sees it: disks and machines themselves, not what they say.
pub trait Look {
    /// Returns the true time.
    fn now(&self) -> Time;

    /// Returns what the clock of a node shows now; `None` if that is not known.
    fn local(&self, _: NodeId) -> Option<Instant> {
        None
    }

    /// Returns the nodes whose process runs, paused ones included, ascending.
    fn up(&self) -> Vec<NodeId>;

    /// Returns the machines of a running process.
    fn node(&self, node: NodeId) -> Option<&Node>;

    /// Returns who leads the log now, by the newest term; `None` if nobody does.
    fn leader(&self) -> Option<NodeId>;

    /// Returns whether `a` and `b` can exchange messages now, both ways, and promptly: a link on
    /// which a small message takes longer than a request may is as good as none, and who is paused
    /// talks to nobody.
    fn talks(&self, a: NodeId, b: NodeId) -> bool;

    /// Returns whether the node would acknowledge a commit to the partition now: its log is open,
    /// its gate would pass a recheck, and it is open or still waits for the append under way.
    fn would_ack(&self, node: NodeId, partition: PartitionId) -> bool;

    /// Reads a log from a disk, whether or not a process runs there: what a loss of power would
    /// leave that keeps nothing but what was synced. `None` if there is no such directory, or
    /// nothing of it can be read. Changes nothing.
    ///
    /// It may be slow: it is asked for at flips, set-asides, losses and ends, never per record.
    fn log(&self, node: NodeId, partition: PartitionId, directory: Directory) -> Option<LogView>;

    /// Returns the directories of a partition on a node's disk, the trash aside.
    fn directories(&self, node: NodeId, partition: PartitionId) -> Vec<Directory>;

    /// Returns the records that a node's ingress log holds durably, from its checkpoint on.
    fn ingress(&self, node: NodeId) -> Vec<u64>;

    /// Returns up to where a running node has given its ingress log up, and where that ends; `None`
    /// if the node has none.
    fn ingress_rest(&self, _: NodeId) -> Option<(Seq, Seq)> {
        None
    }

    /// Whether a running node has found its ingress log shut by an earlier life.
    fn found_shut(&self, _: NodeId) -> bool {
        false
    }
}

/// A log, read from its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogView {
    /// First offset that retention has kept.
    pub start: Offset,
    /// Offset after the last whole record.
    pub end: Offset,
    /// First offset that is hidden: the highest that a frame or the sidecar says.
    pub hwm: Offset,
    /// Offset and content id of every record that can be read, ascending.
    pub records: Vec<(Offset, u64)>,
}
