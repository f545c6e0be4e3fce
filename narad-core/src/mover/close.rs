//! Giving a step up: its last operations are awaited before anything else happens, so that nothing
//! writes behind whatever comes next (rule 2 of the crate).

use super::State;
use super::cx::Cx;
use super::note::Waiting;
use super::settle::settle;

/// Waits for the operations of a step that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Closing {
    pub(super) after: After,
}

/// What comes then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum After {
    /// The row has moved on: read it again.
    Locate,
    /// Go on with what the row says.
    Settle,
    /// The try has failed: pause.
    Failed(Waiting),
}

impl Closing {
    /// An answer has come, or none was due.
    pub(super) fn proceed(self, cx: &mut Cx<'_>) -> State {
        if cx.desk.has_steps() {
            return State::Closing(self);
        }
        match self.after {
            After::Locate => cx.locate(),
            After::Settle => settle(cx),
            After::Failed(reason) => cx.attempt_failed(reason),
        }
    }
}
