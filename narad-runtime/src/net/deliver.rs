//! Batches of accepted records: what is delivered, and the answer to it.

use std::fmt;

use bytes::Bytes;
use narad_core::dispatch::{BatchNo, SendFault};
use narad_core::ids::{Epoch, PartitionId};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::log::Record;
use crate::wire::Wire;
use crate::wire::deliver::Delivered;

/// A batch of accepted records for the owner of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The partition.
    pub partition: PartitionId,
    /// The reign in which the owner is asked.
    pub epoch: Epoch,
    /// Names the batch. Its node is the one that sends it, as the connection proved.
    pub batch: BatchNo,
    /// The records, in order.
    pub records: Vec<Record>,
}

/// Where batches of other nodes go, and those of this node for itself.
pub trait Deliveries: Send + Sync {
    /// Takes a batch. Called on the threads of the transport, so it must not wait.
    fn deliver(&self, delivery: Delivery, reply: DeliveryReply);
}

/// Answers one batch, once, and holds the room that it takes until then. Dropped unused, it tells
/// the sender that nobody knows what became of it.
pub struct DeliveryReply {
    way: Option<Way>,
    _room: Option<OwnedSemaphorePermit>,
}

enum Way {
    Remote { id: u64, permit: mpsc::OwnedPermit<Bytes> },
    Local(oneshot::Sender<Result<(), SendFault>>),
}

impl DeliveryReply {
    pub(crate) const fn remote(
        id: u64,
        permit: mpsc::OwnedPermit<Bytes>,
        room: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self { way: Some(Way::Remote { id, permit }), _room: room }
    }

    /// Makes a reply that stays in this process: for a node that owns what it has accepted, and for
    /// tests.
    pub fn local() -> (Self, oneshot::Receiver<Result<(), SendFault>>) {
        let (sender, receiver) = oneshot::channel();
        (Self { way: Some(Way::Local(sender)), _room: None }, receiver)
    }

    /// Says what came of the batch. Never waits; if the connection has ended, the answer is lost.
    pub fn send(mut self, result: Result<(), SendFault>) {
        self.answer(result);
    }

    fn answer(&mut self, result: Result<(), SendFault>) {
        match self.way.take() {
            Some(Way::Remote { id, permit }) => {
                drop(permit.send(Delivered { id, result }.to_bytes().into()));
            }
            // Whoever asked may have given up.
            Some(Way::Local(sender)) => drop(sender.send(result)),
            None => {}
        }
    }
}

impl Drop for DeliveryReply {
    fn drop(&mut self) {
        self.answer(Err(SendFault::TimedOut));
    }
}

impl fmt::Debug for DeliveryReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliveryReply")
            .field("answered", &self.way.is_none())
            .finish_non_exhaustive()
    }
}
