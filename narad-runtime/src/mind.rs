//! What thinks on a node's thread: the machines, bound to a log that is theirs or somebody else's.
//!
//! The [node loop](crate::node_loop) drives a mind and knows no more of it than this. There are two:
//! the `Replica`, which has a share of the Raft log under it, and the embedder's, which is told
//! what a [`Metastore`](crate::embed::Metastore) of its own has decided.

use narad_core::effects::Deadline;
use narad_core::ids::{LogIndex, NodeId};
use narad_core::node::{Effect, Event, Node};
use narad_core::time::Instant;

/// What a mind is told.
#[derive(Debug)]
pub enum Input<'a> {
    /// One tick of Raft's clock has passed.
    Tick,
    /// A peer's Raft message; who sent it is known from the connection.
    Message {
        /// The peer.
        from: NodeId,
        /// The message.
        bytes: &'a [u8],
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
    /// Something for the node machine.
    Event(Box<Event>),
}

/// How the replicated log stands at a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// The term.
    pub term: u64,
    /// Whether the node leads.
    pub leads: bool,
    /// The last entry.
    pub last: LogIndex,
    /// The last one that is known to be committed.
    pub committed: LogIndex,
    /// The last one that the node has applied.
    pub applied: LogIndex,
    /// Commands that this node has appended as the leader, in this life.
    pub proposed: u64,
    /// Commands that it could not, mostly since it did not lead any more.
    pub refused: u64,
}

/// The machines of a node with whatever stands between them and the log that decides.
pub trait Mind: Send + 'static {
    /// Why it cannot go on. The node ends with it.
    type Error: std::error::Error + Send + 'static;

    /// Takes one input; what follows from it in the log may wait for [`proceed`](Self::proceed).
    ///
    /// # Errors
    ///
    /// If the node cannot go on.
    fn take(
        &mut self,
        now: Instant,
        input: Input<'_>,
        out: &mut Vec<Effect>,
    ) -> Result<(), Self::Error>;

    /// Does everything that follows from what was taken.
    ///
    /// # Errors
    ///
    /// If the node cannot go on.
    fn proceed(&mut self, now: Instant, out: &mut Vec<Effect>) -> Result<(), Self::Error>;

    /// Says to its peers what nobody waits for: called when what it asked for is under way.
    fn speak(&mut self) {}

    /// Returns when it wants to be woken, ticks apart.
    fn deadline(&self) -> Option<Deadline>;

    /// Returns the machines, to look at.
    fn node(&self) -> &Node;

    /// Returns how the replicated log under it stands, if it has one of its own. Cheap.
    fn pulse(&self) -> Option<Pulse> {
        None
    }
}
