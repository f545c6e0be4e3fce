//! The peer transport: connections between nodes over TCP.
//!
//! # Purpose
//!
//! Every node has one listener. A node that wants something of another dials it; requests and Raft
//! messages flow from the dialer to the acceptor, and answers come back on the same connection. So
//! two nodes that talk have a connection each way, and neither depends on who started first.
//!
//! ```text
//! dial ──Hello──▶ accept      who are you, of which cluster, with which disk, for what?
//!      ◀─Welcome─             who answers, or why not
//!      ══Raft, Request══▶     purpose Control: one per peer and direction
//!      ◀════Answer═════
//!      ══Deliver, Records══▶    purpose Delivery: one per peer and direction
//!      ◀════Delivered══
//! ```
//!
//! Snapshots, bulk bytes and batches of accepted records have connections of their own, so that they
//! never stand before a heartbeat (case C60). A joiner, which has no id yet, has a connection that takes one request.
//!
//! # Invariants
//!
//! 1. Nothing that a stranger sends is believed: `from` is what the handshake proved against
//!    [`Directory::admits`] and, under [`tls`](crate::tls), against the certificate; and what does not
//!    parse closes that one connection.
//! 2. A peer that is dead, hung or slow holds up nobody else: every peer has its own task and its
//!    own bounded queue; a full queue drops Raft messages and fails calls at once.
//! 3. A request is sent at most once. An answer that does not come, or is not understood, leaves
//!    its outcome unknown (case F20).
//!
//! # After a restart
//!
//! Nothing is kept. Peers notice the closed connection, back off for a moment and dial again.

mod accept;
mod call;
mod codec;
mod deliver;
mod greet;
mod jitter;
mod join;
mod link;
mod proof;
mod serve;
mod settings;
pub(crate) mod socket;
pub(crate) mod strangers;
pub(crate) mod stream;
mod tally;
mod transport;

pub use call::{Answered, CallError, ReplySender};
pub use deliver::{Deliveries, Delivery, DeliveryReply};
pub use join::{Joined, Joiner, join};
pub use settings::Settings;
pub use tally::Tally;
pub use transport::{Identity, Seams, Transport};

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use narad_core::ids::{NodeId, StoreUuid};
use narad_core::peer::Request;

/// What the transport asks about other nodes.
pub trait Directory: Send + Sync {
    /// Returns where a node listens, as `host:port`; asked at every dial, so that a node that has
    /// moved is found.
    fn address(&self, node: NodeId) -> Option<String>;

    /// Returns what people call a node, for log lines. Nothing by default.
    fn name(&self, _node: NodeId) -> Option<String> {
        None
    }

    /// Whether this is that node, with the disk that it is known by (H25).
    fn admits(&self, node: NodeId, store_uuid: StoreUuid) -> bool;

    /// Whether a node was taken out for good and has no vote any more, so that it has no business
    /// here (field fault 50). Nobody is by default.
    fn is_out(&self, _node: NodeId) -> bool {
        false
    }

    /// Hears from a member that this node itself [is out](Self::is_out). Does nothing by default.
    fn told_out(&self) {}

    /// Hears from an admitted node where it listens now. Does nothing by default.
    fn heard(&self, _node: NodeId, _address: &str) {}

    /// Returns what was heard last, to be dialled if the node is not at its
    /// [`address`](Self::address): if half of the voters come back elsewhere, they can register
    /// that only with a leader, and there is none until they are found. Not before the other one,
    /// so that a second process on a copy of a data directory takes no messages from the first.
    fn heard_at(&self, _node: NodeId) -> Option<String> {
        None
    }
}

/// Where messages of other nodes go. Called on the threads of the transport, so none of these may
/// wait: put the message into a queue and return.
pub trait Inbound: Send + Sync {
    /// Takes a Raft message. Nothing but its sender is checked yet.
    fn raft(&self, from: NodeId, bytes: Bytes);

    /// Takes a request; `from` is `None` for a joiner, whose request is always a `Join`.
    fn request(&self, from: Option<NodeId>, request: Request, reply: ReplySender);

    /// Hears that messages to a peer were lost.
    fn unreachable(&self, peer: NodeId);

    /// Hears how sending a snapshot ended: whether the peer has handed it on.
    fn snapshot_sent(&self, peer: NodeId, ok: bool);
}

/// Where accepted bulk connections go.
pub trait Bulk: Send + Sync {
    /// Whether one more connection may be opened.
    fn has_room(&self) -> bool;

    /// Takes a connection. Must not wait.
    fn serve(&self, connection: BulkConnection);
}

/// An accepted bulk connection, which blocks.
#[derive(Debug)]
pub struct BulkConnection {
    /// The admitted peer.
    pub from: NodeId,
    /// The protocol version that was agreed upon.
    pub version: u8,
    /// The connection.
    pub stream: std::net::TcpStream,
    /// What TLS there is on it.
    pub tls: Option<Box<crate::tls::Session>>,
    /// Bytes that have arrived already.
    pub first: Bytes,
}

/// Locks a mutex whose content is sound at every step, so that another thread's panic is no reason
/// to stop.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
