//! What happens to ingress logs, and to what is in them.

use std::time::Duration;

use narad_core::dispatch::{BatchNo, Checkpoint, Route};
use narad_core::ids::{Epoch, NodeId, PartitionId, Seq, TopicId};

use super::AcceptFault;

/// Something that happened to an ingress log, or to what is in it.
#[derive(Clone, Copy, Debug)]
pub enum IngressFact<'a> {
    /// Records are durable in a node's ingress log, in consecutive positions; the node is told next,
    /// then whoever waits for it.
    Ingested {
        /// The node.
        node: NodeId,
        /// The topic that they are for.
        topic: TopicId,
        /// Which partition of it.
        route: Route,
        /// The position of the first.
        first: Seq,
        /// The records.
        ids: &'a [u64],
        /// What all of them take there.
        bytes: u64,
    },
    /// Records of an ingress log were made durable there a second time.
    Carried {
        /// The node.
        node: NodeId,
        /// Where they are.
        seqs: &'a [Seq],
        /// The new position of the first; the others follow.
        first: Seq,
    },
    /// A node is about to give up what it does not need of its ingress log any more.
    Checkpointing {
        /// The node.
        node: NodeId,
        /// Everything before a position, and ranges beyond it.
        spent: &'a Checkpoint,
    },
    /// An owner has acknowledged a batch to the node that had accepted its records; told after
    /// [`Fact::Acknowledged`](super::Fact::Acknowledged).
    Taken {
        /// The owner.
        node: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The reign.
        epoch: Epoch,
        /// The batch.
        batch: BatchNo,
        /// The records, by their positions in the other node's log.
        seqs: &'a [Seq],
    },
    /// A node took records into its ingress and answered 202, without looking at any partition.
    Accepted {
        /// The node.
        node: NodeId,
        /// The topic that they are for.
        topic: TopicId,
        /// The records.
        ids: &'a [u64],
        /// From the arrival of the request to its answer.
        took: Duration,
        /// How much of that was the disk's, or passed while the process was paused.
        disk: Duration,
    },
    /// A node refused records at its ingress.
    AcceptRefused {
        /// The node.
        node: NodeId,
        /// How many, together with those that were let in before and are not in its log yet.
        records: u64,
        /// What these take in its log.
        bytes: u64,
        /// Why.
        why: AcceptFault,
    },
}
