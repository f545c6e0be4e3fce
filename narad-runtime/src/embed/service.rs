//! What a node answers to other nodes.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use narad_core::ids::{NodeId, PartitionId};
use narad_core::peer::Request;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::error::AppendError;
use super::extents::{frames, unframe};
use super::messages::{Question, Reply};
use super::seat::Committed;
use super::seats::Seats;
use crate::node_loop::{Letter, Mailbox, ReplyTo};
use crate::wire::Wire;

type Answering = Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>;
type Answerer = Box<dyn Fn(NodeId, Bytes) -> Answering + Send + Sync>;

/// What stands behind an [`Inbound`](super::Inbound).
pub(super) enum Service {
    /// A node.
    Node { mailbox: Mailbox, seats: Arc<Seats>, runtime: Handle },
    /// A function, for tests of a transport.
    Function(Answerer),
}

impl Service {
    pub(super) fn of_function<F>(
        answer: impl Fn(NodeId, Bytes) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Option<Bytes>> + Send + 'static,
    {
        Self::Function(Box::new(move |from, message| Box::pin(answer(from, message))))
    }

    pub(super) async fn answer(&self, from: NodeId, message: Bytes) -> Option<Bytes> {
        let (mailbox, seats, runtime) = match self {
            Self::Node { mailbox, seats, runtime } => (mailbox, seats, runtime),
            Self::Function(function) => return function(from, message).await,
        };
        let question = Question::decode(message).inspect_err(|error| {
            tracing::warn!(%from, %error, "dropped a message");
        });
        let reply = match question.ok()? {
            Question::Request(request) => {
                let request = Request::from_bytes(&request).inspect_err(|error| {
                    tracing::warn!(%from, %error, "dropped a request");
                });
                let (reply, answer) = oneshot::channel();
                let (from, reply) = (Some(from), ReplyTo::Caller(reply));
                mailbox.post(Letter::Request { from, request: request.ok()?, reply }).ok()?;
                Reply::Answer(answer.await.ok()?.to_bytes().into())
            }
            Question::Copy { partition, from, bytes_max } => {
                let seat = seats.seat(partition);
                let read = async move { seat.read_extent(from, bytes_max).await };
                match blocking(runtime, read).await? {
                    Ok(records) => Reply::Records(frames(&records)),
                    Err(fault) => Reply::NoRecords(fault),
                }
            }
            Question::Append { partition, frames } => {
                let appended = append(mailbox, seats, runtime, partition, unframe(frames)?).await;
                match appended {
                    Ok(committed) => Reply::Appended(committed),
                    Err(error) if error.is_retryable() => Reply::NotNow,
                    Err(_) => Reply::Unknown,
                }
            }
        };
        Some(reply.encode())
    }
}

/// Appends to a log that may be live here, on a thread that may block, to the end even if nobody waits
/// any more; has a log that fails opened again.
pub(super) async fn append(
    mailbox: &Mailbox,
    seats: &Seats,
    runtime: &Handle,
    partition: PartitionId,
    records: Vec<Bytes>,
) -> Result<Committed, AppendError> {
    let Some(seat) = seats.find(partition) else {
        return Err(narad_core::freeze::gate::Refused::NotServing.into());
    };
    let mailbox = mailbox.clone();
    let appending = async move {
        let appended = seat.append(&records).await;
        if seat.is_poisoned() {
            // A node that has stopped opens no log.
            drop(mailbox.post(Letter::Poisoned(partition)));
        }
        appended
    };
    blocking(runtime, appending).await.ok_or(AppendError::Stopped)?
}

/// Runs something on a thread that may block. `None` if the runtime is ending, or it has panicked.
pub(super) async fn blocking<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let handle = runtime.clone();
    runtime.spawn_blocking(move || handle.block_on(work)).await.ok()
}
