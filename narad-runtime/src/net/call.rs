//! Calls: a request, its number, and whatever comes of it.

use std::fmt;

use bytes::Bytes;
use narad_core::ids::{Offset, PartitionId};
use narad_core::peer::{Answer, Request};
use prost::Message;
use tokio::sync::{mpsc, oneshot};

use crate::copy::Reach;
use crate::tls;

use crate::wire::frame::Kind;
use crate::wire::handshake::{MESSAGE_MAX, Refused, Why};
use crate::wire::message::call::{self, Call, Fault, Reply};
use crate::wire::{Coded, DecodeError};

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The peer could not be reached, or too much waits for it. The request was not sent.
    #[error("the peer cannot be reached now; nothing was sent, try again later")]
    Unreachable,
    /// No answer came in time. The outcome is unknown.
    #[error("no answer came in time; the outcome is unknown")]
    TimedOut,
    /// The connection, or the peer's handling of the request, ended before an answer. The outcome
    /// is unknown.
    #[error("the connection ended before an answer came; the outcome is unknown")]
    Closed,
    /// One side does not understand what the other said: one of them is newer. The outcome is
    /// unknown (case F20).
    #[error("the peer and this node do not understand one another; bring both to one version")]
    Malformed,
    /// The request, or its answer, is longer than a frame.
    #[error("the request or its answer is longer than a frame may be; ask for less")]
    TooLong,
    /// The peer refused the connection itself, or a joiner that asks for another's name. Only a joiner
    /// sees this; a member's refusal is logged, and shows as [`CallError::Unreachable`].
    #[error("the peer refused the connection: {0}")]
    Refused(Refused),
    /// Nobody listens there, or not as a member does. Only a joiner sees this.
    #[error("no member answers there: {0}")]
    NotGreeted(String),
    /// The peer's certificate, or this side's, is not good enough. Only a joiner sees this.
    #[error("no connection under TLS: {0}")]
    Tls(tls::Fault),
}

impl CallError {
    /// Whether the request may have had an effect all the same.
    pub const fn outcome_is_unknown(&self) -> bool {
        match self {
            Self::TimedOut | Self::Closed | Self::Malformed | Self::TooLong => true,
            Self::Unreachable | Self::Refused(_) | Self::NotGreeted(_) | Self::Tls(_) => false,
        }
    }
}

/// An answer, and what came along with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// With a capture: the bytes beyond the asker's reach; empty if there are none, or too many.
    pub tail: Bytes,
}

/// A request as it came.
pub(crate) struct Asked {
    pub(crate) id: u64,
    pub(crate) request: Result<Request, DecodeError>,
    /// How far the asker has copied, if it asks for a freeze.
    reach: Option<Reach>,
}

impl Asked {
    /// Makes the sender of the answer.
    pub(crate) fn reply(&self, permit: mpsc::OwnedPermit<Bytes>) -> ReplySender {
        let wish = match (&self.request, self.reach) {
            (Ok(Request::Prepare { partition, tail_bytes_max: most, .. }), Some(reach)) => {
                Some((*partition, Reach { most: *most, ..reach }))
            }
            (Ok(_) | Err(_), _) => None,
        };
        ReplySender { way: Some(Way::Remote { id: self.id, permit }), wish }
    }
}

/// Answers one request, once. Dropped unused, it tells the caller that no answer will come.
pub struct ReplySender {
    way: Option<Way>,
    /// What may go along with a capture.
    wish: Option<(PartitionId, Reach)>,
}

enum Way {
    /// Over the connection on which the request came.
    Remote { id: u64, permit: mpsc::OwnedPermit<Bytes> },
    /// To a caller in this process.
    Local(oneshot::Sender<Result<Answered, CallError>>),
}

impl ReplySender {
    /// Makes a sender whose answer stays in this process: for a node that asks itself, and for
    /// tests.
    pub fn local() -> (Self, oneshot::Receiver<Result<Answered, CallError>>) {
        let (sender, receiver) = oneshot::channel();
        (Self { way: Some(Way::Local(sender)), wish: None }, receiver)
    }

    /// Returns how far the asker has copied which partition, if the rest may go along.
    pub(crate) const fn wish(&self) -> Option<(PartitionId, Reach)> {
        self.wish
    }

    /// Sends the answer. Never waits; if the connection has ended, the answer is lost.
    pub fn send(self, answer: &Answer) {
        self.send_with(answer, Bytes::new());
    }

    /// As [`Self::send`], with bytes that go along.
    pub fn send_with(mut self, answer: &Answer, tail: Bytes) {
        match self.way.take() {
            Some(Way::Remote { id, permit }) => {
                drop(permit.send(answer_payload(id, answer, tail)));
            }
            // The caller may have given up.
            Some(Way::Local(sender)) => {
                drop(sender.send(Ok(Answered { answer: answer.clone(), tail })));
            }
            None => {}
        }
    }

    /// Tells the caller that it is not who its request speaks of.
    pub(crate) fn refuse(mut self, message: String) {
        if let Some(Way::Remote { id, permit }) = self.way.take() {
            let mut reply = Reply { id, message, ..Reply::default() };
            reply.set_fault(Fault::Refused);
            permit.send(reply.encode_to_vec().into());
        }
    }

    /// Tells the caller that its request was not understood.
    pub(crate) fn not_understood(mut self) {
        if let Some(Way::Remote { id, permit }) = self.way.take() {
            permit.send(fault_payload(id, Fault::NotUnderstood));
        }
    }
}

impl Drop for ReplySender {
    fn drop(&mut self) {
        match self.way.take() {
            Some(Way::Remote { id, permit }) => {
                drop(permit.send(fault_payload(id, Fault::Dropped)));
            }
            Some(Way::Local(sender)) => drop(sender.send(Err(CallError::Closed))),
            None => {}
        }
    }
}

impl fmt::Debug for ReplySender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.way {
            Some(Way::Remote { id, .. }) => write!(f, "ReplySender(#{id})"),
            Some(Way::Local(_)) => f.write_str("ReplySender(local)"),
            None => f.write_str("ReplySender(used)"),
        }
    }
}

/// Encodes a request with its number.
pub(crate) fn request_payload(id: u64, request: &Request, reach: Option<Reach>) -> Bytes {
    let reach = reach.map(|Reach { base, bytes, .. }| call::Reach { base: base.0, bytes });
    Call { id, request: Some(request.to_message()), reach }.encode_to_vec().into()
}

/// Decodes a request; the number is known even if the request is not understood.
pub(crate) fn read_request(payload: &[u8]) -> Result<Asked, DecodeError> {
    let what = "a call";
    let call = Call::decode(payload).map_err(|_| DecodeError::Malformed { what })?;
    let request = call.request.ok_or(DecodeError::Malformed { what });
    let request = request.and_then(Request::from_message);
    let reach =
        call.reach.map(|reach| Reach { base: Offset(reach.base), bytes: reach.bytes, most: 0 });
    Ok(Asked { id: call.id, request, reach })
}

/// Decodes what comes of a call.
pub(crate) fn read_reply(
    payload: Bytes,
) -> Result<(u64, Result<Answered, CallError>), DecodeError> {
    let reply = Reply::decode(payload).map_err(|_| DecodeError::Malformed { what: "a reply" })?;
    let outcome = match (Fault::try_from(reply.fault), reply.answer) {
        (Ok(Fault::Unspecified), Some(answer)) => {
            let answer = Answer::from_message(answer).map_err(|_| CallError::Malformed);
            answer.map(|answer| Answered { answer, tail: reply.tail })
        }
        (Ok(Fault::Dropped), _) => Err(CallError::Closed),
        (Ok(Fault::TooLong), _) => Err(CallError::TooLong),
        (Ok(Fault::Refused), _) => {
            let mut message = reply.message;
            message.truncate(message.floor_char_boundary(MESSAGE_MAX));
            Err(CallError::Refused(Refused { why: Why::WrongIdentity, message }))
        }
        (Ok(Fault::Unspecified | Fault::NotUnderstood) | Err(_), _) => Err(CallError::Malformed),
    };
    Ok((reply.id, outcome))
}

/// Encodes an answer, or that it is too long to be one.
fn answer_payload(id: u64, answer: &Answer, tail: Bytes) -> Bytes {
    let answer = Some(answer.to_message());
    let payload = Reply { id, answer, tail, ..Reply::default() }.encode_to_vec();
    if payload.len() > Kind::Answer.payload_bytes_max() {
        return fault_payload(id, Fault::TooLong);
    }
    payload.into()
}

fn fault_payload(id: u64, fault: Fault) -> Bytes {
    let mut reply = Reply { id, ..Reply::default() };
    reply.set_fault(fault);
    reply.encode_to_vec().into()
}
