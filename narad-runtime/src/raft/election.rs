//! When a node stands for election, and when a leader gives up.

use super::output::Role;
use super::{Raft, RaftStore};
use ::raft::{INVALID_ID, StateRole};

/// The election timeout that a seed prescribes, kept for as long as term and role stay.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pinned {
    /// Term and role; none before the first.
    of: Option<(u64, Role)>,
    ticks: usize,
}

impl<S: RaftStore> Raft<S> {
    /// Ends the reign of a leader that is no voter any more.
    ///
    /// The library lets it lead on: it sends heartbeats, so that nobody stands for election, and
    /// refuses every proposal, so that nothing is ever written again. This is a net; leadership
    /// should be handed over before a leader is removed.
    pub(super) fn step_down_if_removed(&mut self) {
        if self.node.raft.state != StateRole::Leader {
            return;
        }
        let members = self.configuration();
        if !members.is_joint() && !members.is_voter(self.config.id) {
            let term = self.node.raft.term;
            self.node.raft.become_follower(term, INVALID_ID);
        }
    }

    /// Replaces the randomized election timeout where a seed prescribes it.
    ///
    /// The library draws a new one from a random generator of its own whenever its term or role
    /// changes, which may be in any call. So this follows every call that reaches it.
    pub(super) fn pin_election(&mut self) {
        let Some(seed) = self.config.election_seed else { return };
        let (term, role) = (self.node.raft.term, Role::of_library(self.node.raft.state));
        let prescribed = || self.config.election_ticks(seed, term, role as u64);
        if self.pinned.of != Some((term, role)) {
            self.pinned = Pinned { of: Some((term, role)), ticks: prescribed() };
        }
        debug_assert_eq!(self.pinned.ticks, prescribed(), "it follows from term and role");
        self.node.raft.set_randomized_election_timeout(self.pinned.ticks);
    }
}
