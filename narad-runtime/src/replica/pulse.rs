//! How the replicated log stands, for whoever shows it.

use narad_core::ids::LogIndex;

use super::Replica;
use crate::raft::{RaftStore, Role};

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

impl<S: RaftStore> Replica<S> {
    /// Returns how the replicated log stands. Cheap.
    pub fn pulse(&self) -> Pulse {
        let (last, committed) = self.raft.reach();
        let leadership = self.raft.leadership();
        Pulse {
            term: leadership.term.0,
            leads: leadership.role == Role::Leader,
            last,
            committed,
            applied: self.node.state().applied(),
            proposed: self.proposed,
            refused: self.refused,
        }
    }
}
