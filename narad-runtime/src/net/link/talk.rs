//! What a link carries, and what may be asked over it.

use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use narad_core::dispatch::SendFault;
use narad_core::peer::{Answer, Request};

use super::Link;
use crate::net::call::{CallError, read_reply, request_payload};
use crate::net::codec::put_frame;
use crate::net::{Delivery, Settings};
use crate::wire::deliver::{Delivered, Head, RECORDS_MAX, encode_records};
use crate::wire::frame::{Kind, RAFT_BYTES_MAX};
use crate::wire::handshake::Purpose;
use crate::wire::{DecodeError, Wire};

/// What waits for a peer.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Raft(Bytes),
    Request { id: u64, payload: Bytes },
    Delivery { id: u64, head: Bytes, records: Bytes },
}

impl Outgoing {
    pub(super) const fn id(&self) -> Option<u64> {
        match self {
            Self::Raft(_) => None,
            Self::Request { id, .. } | Self::Delivery { id, .. } => Some(*id),
        }
    }

    pub(super) const fn bytes(&self) -> usize {
        match self {
            Self::Raft(bytes) => bytes.len(),
            Self::Request { payload, .. } => payload.len(),
            Self::Delivery { head, records, .. } => head.len() + records.len(),
        }
    }

    pub(super) fn put(&self, version: u8, buffer: &mut BytesMut) {
        let mut put = |kind, payload| {
            put_frame(version, kind, payload, buffer)
                .expect("lengths are checked before they are queued");
        };
        match self {
            Self::Raft(bytes) => put(Kind::Raft, bytes),
            Self::Request { payload, .. } => put(Kind::Request, payload),
            Self::Delivery { head, records, .. } => {
                put(Kind::Deliver, head);
                put(Kind::Records, records);
            }
        }
    }
}

/// What a link carries.
pub(crate) trait Talk: Send + Sync + 'static {
    /// What answers come to.
    type Answer: Send;
    /// What its connections are for.
    const PURPOSE: Purpose;
    /// The frames that answers are in.
    const ANSWERS: &'static [Kind];

    /// Decodes an answer with the number of what it answers.
    fn read(payload: &[u8]) -> Result<(u64, Result<Self::Answer, CallError>), DecodeError>;
}

/// Raft messages and requests.
#[derive(Debug)]
pub(crate) struct Control;

impl Talk for Control {
    type Answer = Answer;
    const PURPOSE: Purpose = Purpose::Control;
    const ANSWERS: &'static [Kind] = &[Kind::Answer];

    fn read(payload: &[u8]) -> Result<(u64, Result<Answer, CallError>), DecodeError> {
        read_reply(payload)
    }
}

/// Batches of accepted records.
#[derive(Debug)]
pub(crate) struct Batches;

impl Talk for Batches {
    type Answer = Result<(), SendFault>;
    const PURPOSE: Purpose = Purpose::Delivery;
    const ANSWERS: &'static [Kind] = &[Kind::Delivered];

    fn read(payload: &[u8]) -> Result<(u64, Result<Self::Answer, CallError>), DecodeError> {
        let Delivered { id, result } = Delivered::from_bytes(payload)?;
        Ok((id, Ok(result)))
    }
}

impl Link<Control> {
    /// Sends a Raft message or queues it, or says that it is lost.
    pub(crate) fn send_raft(&self, bytes: Bytes, settings: &Settings) -> bool {
        if bytes.len() > RAFT_BYTES_MAX {
            tracing::warn!(peer = ?self.peer, bytes = bytes.len(), "a Raft message is too long");
            return false;
        }
        let message = Outgoing::Raft(bytes);
        self.send_at_once(&message) || self.push(message, settings)
    }

    /// Queues a request and waits for its answer. When dropped, the answer is forgotten.
    pub(crate) async fn call(
        &self,
        request: &Request,
        settings: &Settings,
    ) -> Result<Answer, CallError> {
        let id = self.mint();
        let payload = request_payload(id, request);
        if payload.len() > Kind::Request.payload_bytes_max() {
            return Err(CallError::TooLong);
        }
        let outgoing = Outgoing::Request { id, payload };
        self.exchange(id, outgoing, settings, std::future::pending()).await
    }

    /// Has the peer dialled, with nothing to say.
    pub(crate) fn open(&self, settings: &Settings) {
        // A request whose caller is gone opens the connection and is not sent.
        self.push(Outgoing::Request { id: self.mint(), payload: Bytes::new() }, settings);
    }

    /// Whether a snapshot may be sent now; if so, one is under way.
    pub(crate) fn begin_snapshot(&self) -> bool {
        !self.snapshot_underway.swap(true, Ordering::AcqRel)
    }
}

impl Link<Batches> {
    /// Queues a batch and waits for its answer, but not beyond `end`.
    pub(crate) async fn deliver(
        &self,
        delivery: &Delivery,
        settings: &Settings,
        end: impl Future<Output = ()>,
    ) -> Result<(), SendFault> {
        let id = self.mint();
        let records = encode_records(&delivery.records);
        let Ok(count) = u32::try_from(delivery.records.len()) else {
            return Err(SendFault::TooLarge);
        };
        if count > RECORDS_MAX || records.len() > Kind::Records.payload_bytes_max() {
            return Err(SendFault::TooLarge);
        }
        let head = Head {
            id,
            partition: delivery.partition,
            epoch: delivery.epoch,
            life: delivery.batch.life,
            n: delivery.batch.n,
            records: count,
            bytes: records.len() as u64,
        };
        let outgoing = Outgoing::Delivery { id, head: head.to_bytes().into(), records };
        self.exchange(id, outgoing, settings, end).await.unwrap_or_else(|error| {
            let unknown = error.outcome_is_unknown();
            Err(if unknown { SendFault::TimedOut } else { SendFault::Unreachable })
        })
    }
}
