//! How the replicated log stands, for whoever shows it.

use super::Replica;
use crate::mind::Pulse;
use crate::raft::{RaftStore, Role};

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
