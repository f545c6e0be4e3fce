//! Calls: a request, its number, and whatever comes of it.

use std::fmt;

use bytes::Bytes;
use narad_core::peer::{Answer, Request};
use prost::Message;
use tokio::sync::{mpsc, oneshot};

use crate::wire::frame::Kind;
use crate::wire::handshake::Refused;
use crate::wire::message::call::{Call, Fault, Reply};
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
    /// The peer refused the connection itself. Only a joiner sees this; a member's refusal is
    /// logged, and shows as [`CallError::Unreachable`].
    #[error("the peer refused the connection: {0}")]
    Refused(Refused),
}

impl CallError {
    /// Whether the request may have had an effect all the same.
    pub const fn outcome_is_unknown(&self) -> bool {
        match self {
            Self::TimedOut | Self::Closed | Self::Malformed | Self::TooLong => true,
            Self::Unreachable | Self::Refused(_) => false,
        }
    }
}

/// Answers one request, once. Dropped unused, it tells the caller that no answer will come.
pub struct ReplySender(Option<Way>);

enum Way {
    /// Over the connection on which the request came.
    Remote { id: u64, permit: mpsc::OwnedPermit<Bytes> },
    /// To a caller in this process.
    Local(oneshot::Sender<Result<Answer, CallError>>),
}

impl ReplySender {
    pub(crate) const fn remote(id: u64, permit: mpsc::OwnedPermit<Bytes>) -> Self {
        Self(Some(Way::Remote { id, permit }))
    }

    /// Makes a sender whose answer stays in this process: for a node that asks itself, and for
    /// tests.
    pub fn local() -> (Self, oneshot::Receiver<Result<Answer, CallError>>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(Way::Local(sender))), receiver)
    }

    /// Sends the answer. Never waits; if the connection has ended, the answer is lost.
    pub fn send(mut self, answer: &Answer) {
        match self.0.take() {
            Some(Way::Remote { id, permit }) => drop(permit.send(answer_payload(id, answer))),
            // The caller may have given up.
            Some(Way::Local(sender)) => drop(sender.send(Ok(answer.clone()))),
            None => {}
        }
    }

    /// Tells the caller that its request was not understood.
    pub(crate) fn not_understood(mut self) {
        if let Some(Way::Remote { id, permit }) = self.0.take() {
            permit.send(fault_payload(id, Fault::NotUnderstood));
        }
    }
}

impl Drop for ReplySender {
    fn drop(&mut self) {
        match self.0.take() {
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
        match &self.0 {
            Some(Way::Remote { id, .. }) => write!(f, "ReplySender(#{id})"),
            Some(Way::Local(_)) => f.write_str("ReplySender(local)"),
            None => f.write_str("ReplySender(used)"),
        }
    }
}

/// Encodes a request with its number.
pub(crate) fn request_payload(id: u64, request: &Request) -> Bytes {
    Call { id, request: Some(request.to_message()) }.encode_to_vec().into()
}

/// Decodes a request; the number is known even if the request is not understood.
pub(crate) fn read_request(
    payload: &[u8],
) -> Result<(u64, Result<Request, DecodeError>), DecodeError> {
    let what = "a call";
    let call = Call::decode(payload).map_err(|_| DecodeError::Malformed { what })?;
    let request = call.request.ok_or(DecodeError::Malformed { what });
    Ok((call.id, request.and_then(Request::from_message)))
}

/// Decodes what comes of a call.
pub(crate) fn read_reply(payload: &[u8]) -> Result<(u64, Result<Answer, CallError>), DecodeError> {
    let reply = Reply::decode(payload).map_err(|_| DecodeError::Malformed { what: "a reply" })?;
    let outcome = match (Fault::try_from(reply.fault), reply.answer) {
        (Ok(Fault::Unspecified), Some(answer)) => {
            Answer::from_message(answer).map_err(|_| CallError::Malformed)
        }
        (Ok(Fault::Dropped), _) => Err(CallError::Closed),
        (Ok(Fault::TooLong), _) => Err(CallError::TooLong),
        (Ok(Fault::Unspecified | Fault::NotUnderstood) | Err(_), _) => Err(CallError::Malformed),
    };
    Ok((reply.id, outcome))
}

/// Encodes an answer, or that it is too long to be one.
fn answer_payload(id: u64, answer: &Answer) -> Bytes {
    let payload = Reply { id, answer: Some(answer.to_message()), fault: 0 }.encode_to_vec();
    if payload.len() > Kind::Answer.payload_bytes_max() {
        return fault_payload(id, Fault::TooLong);
    }
    payload.into()
}

fn fault_payload(id: u64, fault: Fault) -> Bytes {
    let mut reply = Reply { id, answer: None, fault: 0 };
    reply.set_fault(fault);
    reply.encode_to_vec().into()
}
