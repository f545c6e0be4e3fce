//! Which state gets which event.

use super::Over;
use super::SourceHealth;
use super::catch_up::CatchUp;
use super::close::{After, Closing};
use super::cx::Cx;
use super::desk::Job;
use super::drain::Draining;
use super::flip::Flipping;
use super::force::Promoting;
use super::install::Installing;
use super::locate::Locating;
use super::operation::{Operation, Outcome};
use super::pause::Pause;
use super::preflight::Preflight;
use super::prepare::Preparing;
use super::settle::Settling;
use super::verify::Verifying;
use crate::effects::OpId;

/// Where a mover is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    Locating(Locating),
    Settling(Settling),
    CatchUp(CatchUp),
    Preflight(Preflight),
    Preparing(Preparing),
    Draining(Draining),
    Verifying(Verifying),
    Installing(Installing),
    Flipping(Flipping),
    Promoting(Promoting),
    Waiting(Pause),
    Closing(Closing),
    Over(Over),
    /// A transition has panicked.
    Poisoned,
}

impl State {
    pub(super) fn wake(self, cx: &mut Cx<'_>) -> Self {
        match self {
            Self::CatchUp(state) => state.wake(cx),
            Self::Preparing(state) => state.wake(cx),
            Self::Draining(state) => state.wake(cx),
            Self::Verifying(state) => state.wake(cx),
            Self::Installing(state) => state.wake(cx),
            Self::Flipping(state) => state.wake(cx),
            Self::Waiting(state) => state.wake(cx),
            Self::Locating(_)
            | Self::Settling(_)
            | Self::Preflight(_)
            | Self::Promoting(_)
            | Self::Closing(_)
            | Self::Over(_) => self,
            Self::Poisoned => poisoned(),
        }
    }

    pub(super) fn answered(
        self,
        op: OpId,
        operation: &Operation,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) -> Self {
        if operation.is_courtesy() {
            return match (self, outcome) {
                (Self::Draining(state), Outcome::Renew(result))
                    if state.is_renewed_by(operation) =>
                {
                    state.renewed(result, cx)
                }
                (state, _) => state,
            };
        }
        match self {
            Self::Locating(state) => state.done(op, outcome, cx),
            Self::Settling(state) => state.done(op, outcome, cx),
            Self::CatchUp(state) => state.done(op, outcome, cx),
            Self::Preflight(state) => state.done(outcome, cx),
            Self::Preparing(state) => state.done(op, outcome, cx),
            Self::Draining(state) => state.done(op, outcome, cx),
            Self::Verifying(state) => state.done(op, &outcome, cx),
            Self::Installing(state) => state.done(op, &outcome, cx),
            Self::Flipping(state) => state.done(op, outcome, cx),
            Self::Promoting(state) => state.done(op, outcome, cx),
            Self::Closing(state) => state.done(&outcome, cx),
            // The answer to a flip whose win the row had shown already.
            Self::Over(_) => self,
            Self::Waiting(_) => unreachable!("nothing that a step waits for runs in a pause"),
            Self::Poisoned => poisoned(),
        }
    }

    pub(super) fn row_changed(self, cx: &mut Cx<'_>) -> Self {
        match self {
            Self::Flipping(state) if state.has_won(cx.desk) => state.won(cx),
            Self::Waiting(state) => state.row_changed(cx),
            Self::Over(_) if cx.desk.wanted().is_some() && !cx.desk.is_idle() => {
                cx.close(After::Locate)
            }
            // What these wait for is looked at together with the newest row.
            Self::Locating(_) | Self::Settling(_) | Self::Closing(_) | Self::Over(_) => self,
            Self::CatchUp(_)
            | Self::Preflight(_)
            | Self::Preparing(_)
            | Self::Draining(_)
            | Self::Verifying(_)
            | Self::Installing(_)
            | Self::Flipping(_)
            | Self::Promoting(_) => self.keep_or_close(cx),
            Self::Poisoned => poisoned(),
        }
    }

    /// Goes on if the row still has the same move for this node.
    fn keep_or_close(self, cx: &mut Cx<'_>) -> Self {
        if self.job().is_some() && self.job() == cx.desk.wanted() {
            return self;
        }
        match &self {
            Self::Draining(Draining { frozen, .. }) | Self::Verifying(Verifying { frozen, .. }) => {
                cx.release(frozen.job.source, frozen.capture.token);
            }
            Self::Installing(state) => state.flip.release(cx),
            // The row that has moved on ends the freeze; the fate of the flip is asked for.
            Self::Flipping(_)
            | Self::Locating(_)
            | Self::Settling(_)
            | Self::CatchUp(_)
            | Self::Preflight(_)
            | Self::Preparing(_)
            | Self::Promoting(_)
            | Self::Waiting(_)
            | Self::Closing(_)
            | Self::Over(_)
            | Self::Poisoned => {}
        }
        cx.close(After::Locate)
    }

    pub(super) fn health_changed(self, cx: &mut Cx<'_>) -> Self {
        let life = match cx.desk.owner_health() {
            Some(SourceHealth::Alive { incarnation }) => Some(incarnation),
            Some(SourceHealth::Dead { .. }) | None => None,
        };
        match (self, life) {
            (Self::Draining(state), Some(life)) => state.source_is(life, cx),
            (Self::Verifying(state), Some(life)) => state.source_is(life, cx),
            (Self::Waiting(state), _) => state.health_changed(cx),
            (Self::Poisoned, _) => poisoned(),
            (state, _) => state,
        }
    }

    pub(super) fn job(&self) -> Option<Job> {
        match self {
            Self::CatchUp(state) => Some(state.job),
            Self::Preflight(state) => Some(state.job),
            Self::Preparing(state) => Some(state.job),
            Self::Draining(state) => Some(state.frozen.job),
            Self::Verifying(state) => Some(state.frozen.job),
            Self::Installing(state) => Some(state.flip.job),
            Self::Flipping(state) => Some(state.flip.job),
            Self::Promoting(state) => Some(state.job),
            Self::Locating(_)
            | Self::Settling(_)
            | Self::Waiting(_)
            | Self::Closing(_)
            | Self::Over(_)
            | Self::Poisoned => None,
        }
    }
}

fn poisoned() -> ! {
    panic!("a transition of this mover has panicked before")
}
