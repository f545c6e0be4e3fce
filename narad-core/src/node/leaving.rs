//! Says that nothing is left on a draining node, once that is so (H37).
//!
//! The order is what matters: first the node refuses whatever is new, then what it has accepted
//! goes out, and only then it says so. A backlog that is judged from outside could grow between
//! the look and the word.
//!
//! Closing outlasts the process, because its word does: what an earlier life has said may be decided
//! until the present one is registered, and a node that is retired by it must not have accepted
//! anything since.

use super::routes::{Route, Ticket};
use super::{Node, Operation};
use crate::effects::Deadline;
use crate::ids::Drain;
use crate::metastore::Command;
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

/// How far a node has come with leaving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Leaving {
    /// Accept is open.
    #[default]
    Not,
    /// An earlier life has closed accept, and the log does not know this one yet.
    Found,
    /// Accept is being closed, or what was accepted goes out.
    Closing,
    /// It is being said in the log.
    Saying,
    /// Accept is closed. If the log does not say so yet, it is looked at again.
    Closed { until: Instant },
    /// The decommission was cancelled.
    Opening,
}

impl Node {
    /// Takes the next step, if one is due.
    pub(super) fn leave(&mut self) {
        let draining = self.state.member(self.me.node).is_some_and(|me| me.draining);
        if self.leaving == Leaving::Found && self.is_registered_now() {
            // Whatever was said before is void, and a drain that there is has been applied.
            self.leaving = Leaving::Closed { until: self.now };
        }
        match self.leaving {
            Leaving::Not if self.can_leave() => self.close_accept(),
            Leaving::Closed { until } if until <= self.now && self.can_leave() => {
                self.close_accept();
            }
            Leaving::Closed { .. } if !draining => {
                self.leaving = Leaving::Opening;
                self.run(Operation::OpenAccept, Route::OpenAccept);
            }
            Leaving::Not
            | Leaving::Found
            | Leaving::Closing
            | Leaving::Saying
            | Leaving::Closed { .. }
            | Leaving::Opening => {}
        }
    }

    /// An earlier life has closed accept.
    pub(super) fn was_closed(&mut self) {
        if !is_planted(Bug::AcceptOpensWithTheLife) {
            self.leaving = Leaving::Found;
        }
    }

    /// Whether accept is closed, or is being closed or opened.
    pub(super) fn is_closed(&self) -> bool {
        self.leaving != Leaving::Not
    }

    pub(super) fn leaving_deadline(&self) -> Option<Deadline> {
        match self.leaving {
            Leaving::Closed { until } if self.can_leave() => {
                Some(Deadline { at: until, why: "say again that nothing is left here" })
            }
            Leaving::Not
            | Leaving::Found
            | Leaving::Closing
            | Leaving::Saying
            | Leaving::Closed { .. }
            | Leaving::Opening => None,
        }
    }

    pub(super) fn accept_is_closed(&mut self, told: bool) {
        let empty = told && self.dispatch.backlog().records == 0;
        let drain = self.state.member(self.me.node).map_or(Drain(0), |me| me.drains);
        if (empty || is_planted(Bug::DrainedOutUnseen)) && self.can_leave() {
            let (node, incarnation) = (self.me.node, self.lease.incarnation());
            self.leaving = Leaving::Saying;
            let command = Command::DrainedOut { node, incarnation, drain };
            self.propose(command, Ticket::DrainedOut);
        } else {
            self.look_later();
        }
    }

    pub(super) fn accept_is_open(&mut self) {
        self.leaving = Leaving::Not;
    }

    pub(super) fn drained_out_is_decided(&mut self) {
        self.look_later();
    }

    fn close_accept(&mut self) {
        self.leaving = Leaving::Closing;
        self.run(Operation::CloseAccept, Route::CloseAccept);
    }

    fn look_later(&mut self) {
        self.leaving = Leaving::Closed { until: self.now.after(self.config.heartbeat_interval) };
    }

    /// Whether the node drains and has not said yet that nothing is left, while nothing is: nothing
    /// owned, nothing arriving, nothing open, nothing on this disk that has not been looked at, and
    /// no record there that nobody else is known to have.
    fn can_leave(&self) -> bool {
        let me = self.state.member(self.me.node);
        me.is_some_and(|me| me.draining && !me.drained_out && !me.retired)
            && self.is_registered_now()
            && self.state.owned_count(self.me.node) == 0
            && self.state.inbound_count(self.me.node) == 0
            && self.hosts.is_empty()
            && self.handoffs.is_empty()
            && self.movers.is_empty()
            && (self.sweeps.is_clean() || is_planted(Bug::DrainedOutUnseen))
    }
}
