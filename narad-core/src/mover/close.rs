//! Giving a step up: its last operations are awaited before anything else happens, so that nothing
//! writes behind whatever comes next (rule 2 of the crate).

use super::State;
use super::cx::Cx;
use super::note::Waiting;
use super::operation::Outcome;
use super::settle::settle;
use super::stage::is_well_formed;

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
    /// One of the last answers has come. Nothing is begun with a listing any more, and yet how far it
    /// says that consumers could see is not forgotten: a promotion may come next (H13).
    pub(super) fn done(self, outcome: &Outcome, cx: &mut Cx<'_>) -> State {
        let listing = match outcome {
            Outcome::List(Ok(listing)) => Some(listing),
            Outcome::Prepare(Ok(capture)) => Some(&capture.listing),
            _ => None,
        };
        if let Some(listing) = listing.filter(|listing| is_well_formed(listing)) {
            cx.desk.stage.hear(listing);
        }
        self.proceed(cx)
    }

    /// Goes on once nothing is under way any more.
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
