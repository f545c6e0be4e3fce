//! Pausing, with a reason.

use super::State;
use super::cx::Cx;
use super::note::Waiting;
use super::settle::settle;
use crate::effects::Deadline;
use crate::time::Instant;

/// A pause: nothing runs that a step waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pause {
    /// When to go on; `None` if only a change of facts can help.
    pub(super) until: Option<Instant>,
    pub(super) reason: Waiting,
    pub(super) then: Then,
}

/// Where to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Then {
    /// With a barriered read of the row.
    Locate,
    /// With what the row already says.
    Settle,
}

impl Pause {
    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.until.map(|at| Deadline { at, why: "try again" })
    }

    pub(super) fn wake(self, cx: &mut Cx<'_>) -> State {
        if self.until.is_some_and(|until| until <= cx.now) {
            self.resume(cx)
        } else {
            State::Waiting(self)
        }
    }

    /// The row has changed.
    pub(super) fn row_changed(self, cx: &mut Cx<'_>) -> State {
        let same_job = cx.desk.job().is_some() && cx.desk.job() == cx.desk.wanted();
        match (self.then, self.reason) {
            (Then::Locate, _) => State::Waiting(self),
            // A report or a new floor may be what the gate is waiting for.
            (Then::Settle, Waiting::PromoteRefused(_)) if same_job => self.resume(cx),
            (Then::Settle, _) if same_job => State::Waiting(self),
            (Then::Settle, _) => cx.locate(),
        }
    }

    /// The owner's health has changed.
    pub(super) fn health_changed(self, cx: &mut Cx<'_>) -> State {
        if self.reason.concerns_source() { self.resume(cx) } else { State::Waiting(self) }
    }

    fn resume(self, cx: &mut Cx<'_>) -> State {
        match self.then {
            Then::Locate => cx.locate(),
            Then::Settle => settle(cx),
        }
    }
}
