//! What reaches a node, and the handle by which others reach it.

use std::fmt;
use std::sync::mpsc::Sender;

use bytes::Bytes;
#[cfg(feature = "net")]
use narad_core::dispatch::Waybill;
use narad_core::effects::OpId;
use narad_core::ids::{NodeId, PartitionId};
use narad_core::node::{Ask, AskError, Event, Node, Outcome, Said};
use narad_core::peer::{Answer, Request};
use tokio::sync::oneshot;

#[cfg(feature = "net")]
use crate::net::{Inbound, ReplySender};

/// Where the answer to an ask goes.
pub(super) type AskReply = oneshot::Sender<Result<Said, AskError>>;

/// Where the answer to a peer's request goes. Dropped, it tells the peer that none will come.
#[derive(Debug)]
pub enum ReplyTo {
    /// Over the connection on which the request came.
    #[cfg(feature = "net")]
    Connection(ReplySender),
    /// To whoever handed the request in.
    Caller(oneshot::Sender<Answer>),
}

/// One thing that reaches a node.
pub enum Letter {
    /// A peer's Raft message.
    Raft {
        /// The peer.
        from: NodeId,
        /// The message.
        bytes: Bytes,
    },
    /// A peer could not be reached.
    Unreachable(NodeId),
    /// A snapshot has arrived at a peer, or has not.
    SnapshotSent {
        /// The peer.
        to: NodeId,
        /// Whether it has arrived.
        arrived: bool,
    },
    /// An operation has ended.
    Done(OpId, Outcome),
    /// A peer asks.
    Request {
        /// Who; `None` for a node that has no id yet.
        from: Option<NodeId>,
        /// What.
        request: Request,
        /// Where the answer goes.
        reply: ReplyTo,
    },
    /// An operator or client asks.
    Ask {
        /// What.
        ask: Ask,
        /// Where the answer goes.
        reply: AskReply,
    },
    /// Something for the machines that needs no answer: what the log has decided, or who leads it.
    Event(Box<Event>),
    /// A live log has failed.
    Poisoned(PartitionId),
    /// Records are durable in the ingress log.
    #[cfg(feature = "net")]
    Accepted(Vec<Waybill>),
    /// Somebody wants to look at the node.
    Query(Box<dyn FnOnce(&Node) + Send>),
    /// The process is about to end, and waits until what has arrived is noted.
    Finish,
    /// The process ends at once.
    Stop,
}

impl fmt::Debug for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Raft { .. } => "Raft",
            Self::Unreachable(_) => "Unreachable",
            Self::SnapshotSent { .. } => "SnapshotSent",
            Self::Done(..) => "Done",
            Self::Request { .. } => "Request",
            Self::Ask { .. } => "Ask",
            Self::Event(_) => "Event",
            Self::Poisoned(_) => "Poisoned",
            #[cfg(feature = "net")]
            Self::Accepted(_) => "Accepted",
            Self::Query(_) => "Query",
            Self::Finish => "Finish",
            Self::Stop => "Stop",
        };
        f.write_str(kind)
    }
}

/// The node has ended; nobody will answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node has stopped")]
pub struct Stopped;

/// Why an ask has no answer, or not the one that was hoped for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskFault {
    /// The node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The node says no, or does not know.
    #[error(transparent)]
    Refused(#[from] AskError),
}

/// Reaches a node from anywhere in its process.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    mailbox: Mailbox,
}

impl NodeHandle {
    /// Makes a handle that writes to an inbox.
    pub const fn new(inbox: Sender<Letter>) -> Self {
        Self { mailbox: Mailbox(inbox) }
    }

    /// Looks at the node, on its own thread.
    ///
    /// # Errors
    ///
    /// If the node has stopped.
    pub async fn query<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Node) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        let query = move |node: &Node| {
            // Whoever asked may be gone.
            drop(reply.send(look(node)));
        };
        self.mailbox.post(Letter::Query(Box::new(query)))?;
        answer.await.map_err(|_| Stopped)
    }

    /// Asks the node for something.
    ///
    /// # Errors
    ///
    /// If it says no, does not know, or has stopped.
    pub async fn ask(&self, ask: Ask) -> Result<Said, AskFault> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.post(Letter::Ask { ask, reply })?;
        Ok(answer.await.map_err(|_| Stopped)??)
    }

    /// Tells the node that a live log has failed.
    pub fn poisoned(&self, partition: PartitionId) {
        // A node that has stopped opens no log.
        drop(self.mailbox.post(Letter::Poisoned(partition)));
    }

    /// Tells the node what is durable in its ingress log: each record once, in order.
    #[cfg(feature = "net")]
    pub fn accepted(&self, waybills: Vec<Waybill>) {
        // A node that has stopped finds them when it starts.
        drop(self.mailbox.post(Letter::Accepted(waybills)));
    }

    /// Ends the node once it has noted what has arrived at other nodes, so that its next life does not
    /// send that again; it sends nothing more, and waits for the answers to what is under way for a
    /// moment.
    pub fn finish(&self) {
        // It may have ended already.
        drop(self.mailbox.post(Letter::Finish));
    }

    /// Ends the node at once.
    pub fn stop(&self) {
        // It may have ended already.
        drop(self.mailbox.post(Letter::Stop));
    }

    pub(crate) fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }
}

/// Where letters to a node are posted.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox(Sender<Letter>);

impl Mailbox {
    pub(crate) fn post(&self, letter: Letter) -> Result<(), Stopped> {
        self.0.send(letter).map_err(|_| Stopped)
    }

    pub(crate) fn done(&self, op: OpId, outcome: Outcome) {
        // A node that has stopped waits for nothing.
        drop(self.post(Letter::Done(op, outcome)));
    }
}

#[cfg(feature = "net")]
impl Inbound for NodeHandle {
    fn raft(&self, from: NodeId, bytes: Bytes) {
        drop(self.mailbox.post(Letter::Raft { from, bytes }));
    }

    fn request(&self, from: Option<NodeId>, request: Request, reply: ReplySender) {
        let reply = ReplyTo::Connection(reply);
        drop(self.mailbox.post(Letter::Request { from, request, reply }));
    }

    fn unreachable(&self, peer: NodeId) {
        drop(self.mailbox.post(Letter::Unreachable(peer)));
    }

    fn snapshot_sent(&self, peer: NodeId, ok: bool) {
        drop(self.mailbox.post(Letter::SnapshotSent { to: peer, arrived: ok }));
    }
}
