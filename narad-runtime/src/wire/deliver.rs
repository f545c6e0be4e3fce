//! Batches of accepted records between nodes: a head, the bytes of the records in a frame of their
//! own, and an answer.
//!
//! The bytes are apart from the head so that a receiver knows how many come before it makes room for
//! them, and can let them pass unread if there is none.

use bytes::Bytes;
use narad_core::dispatch::{BatchNo, SendFault};
use narad_core::ids::{Epoch, Incarnation, NodeId, PartitionId};

use super::message::deliver::{self as message, DeliveredKind};
use super::{Coded, DecodeError, nested, required};
use crate::log::Record;

/// Most records of one batch, whatever its head announces.
pub const RECORDS_MAX: u32 = 65_536;

/// What stands before the bytes of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number that the answer carries.
    pub id: u64,
    /// The partition.
    pub partition: PartitionId,
    /// The reign in which the owner is asked.
    pub epoch: Epoch,
    /// The sender's life when its dispatch began.
    pub life: Incarnation,
    /// Which batch for this partition in that life.
    pub n: u64,
    /// How many records follow; at most [`RECORDS_MAX`].
    pub records: u32,
    /// How many bytes they take.
    pub bytes: u64,
}

impl Head {
    /// Returns the name of the batch; `ingress` is who the connection proved to send it.
    #[must_use]
    pub const fn batch(&self, ingress: NodeId) -> BatchNo {
        BatchNo { ingress, life: self.life, n: self.n }
    }
}

/// What came of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The number of the batch's [`Head`].
    pub id: u64,
    /// Whether it was taken. Whatever this build does not understand is [`SendFault::TimedOut`]:
    /// nobody knows (case F20).
    pub result: Result<(), SendFault>,
}

impl Coded for Head {
    type Message = message::Deliver;
    const WHAT: &'static str = "the head of a batch";

    fn to_message(&self) -> Self::Message {
        message::Deliver {
            id: self.id,
            partition: Some(self.partition.to_message()),
            epoch: self.epoch.0,
            life: self.life.0,
            n: self.n,
            records: self.records,
            bytes: self.bytes,
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        if message.records > RECORDS_MAX {
            return Err(DecodeError::Malformed { what: "the length of a batch" });
        }
        Ok(Self {
            id: message.id,
            partition: nested(message.partition)?,
            epoch: Epoch(message.epoch),
            life: Incarnation(message.life),
            n: message.n,
            records: message.records,
            bytes: message.bytes,
        })
    }
}

impl Coded for Delivered {
    type Message = message::Delivered;
    const WHAT: &'static str = "a batch's answer";

    fn to_message(&self) -> Self::Message {
        let mut message = message::Delivered { id: self.id, ..message::Delivered::default() };
        let kind = match self.result {
            Ok(()) => DeliveredKind::Taken,
            // An owner that does not know says nothing.
            Err(SendFault::Unreachable | SendFault::Unreadable | SendFault::TimedOut) => {
                DeliveredKind::Unspecified
            }
            Err(SendFault::Frozen) => DeliveredKind::Frozen,
            Err(SendFault::NotServing) => DeliveredKind::NotServing,
            Err(SendFault::OtherEpoch { current }) => {
                message.epoch = current.0;
                DeliveredKind::OtherEpoch
            }
            Err(SendFault::NoLease) => DeliveredKind::NoLease,
            Err(SendFault::DiskFull) => DeliveredKind::DiskFull,
            Err(SendFault::Disk) => DeliveredKind::Disk,
            Err(SendFault::Busy) => DeliveredKind::Busy,
            Err(SendFault::Stale { newest: BatchNo { ingress, life, n } }) => {
                message.newest = Some(message::BatchNo { ingress: ingress.0, life: life.0, n });
                DeliveredKind::Stale
            }
            Err(SendFault::NoSuchPartition) => DeliveredKind::NoSuchPartition,
            Err(SendFault::TooLarge) => DeliveredKind::TooLarge,
        };
        message.set_kind(kind);
        message
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        let kind = DeliveredKind::try_from(message.kind).unwrap_or(DeliveredKind::Unspecified);
        let result = match kind {
            DeliveredKind::Taken => Ok(()),
            DeliveredKind::Unspecified => Err(SendFault::TimedOut),
            DeliveredKind::Frozen => Err(SendFault::Frozen),
            DeliveredKind::NotServing => Err(SendFault::NotServing),
            DeliveredKind::OtherEpoch => {
                Err(SendFault::OtherEpoch { current: Epoch(message.epoch) })
            }
            DeliveredKind::NoLease => Err(SendFault::NoLease),
            DeliveredKind::DiskFull => Err(SendFault::DiskFull),
            DeliveredKind::Disk => Err(SendFault::Disk),
            DeliveredKind::Busy => Err(SendFault::Busy),
            DeliveredKind::Stale => {
                let message::BatchNo { ingress, life, n } =
                    required(message.newest, "the latest batch of a node")?;
                let (ingress, life) = (NodeId(ingress), Incarnation(life));
                Err(SendFault::Stale { newest: BatchNo { ingress, life, n } })
            }
            DeliveredKind::NoSuchPartition => Err(SendFault::NoSuchPartition),
            DeliveredKind::TooLarge => Err(SendFault::TooLarge),
        };
        Ok(Self { id: message.id, result })
    }
}

/// Encodes records, one after the other.
#[must_use]
pub fn encode_records(records: &[Record]) -> Bytes {
    let bytes = records.iter().map(Record::encoded_bytes).sum();
    let mut out = Vec::with_capacity(bytes);
    for record in records {
        record.encode(&mut out);
    }
    out.into()
}

/// Decodes as many records as were announced; they share the memory of `bytes`.
///
/// # Errors
///
/// If there are more or fewer, or one of them is none.
pub fn decode_records(mut bytes: Bytes, records: u32) -> Result<Vec<Record>, DecodeError> {
    let malformed = DecodeError::Malformed { what: "the records of a batch" };
    // Each takes some bytes, so a wrong number ends before it has reserved much.
    let mut decoded = Vec::new();
    for _ in 0..records {
        decoded.push(Record::decode(&mut bytes).map_err(|_| malformed.clone())?);
    }
    if bytes.is_empty() { Ok(decoded) } else { Err(malformed) }
}
