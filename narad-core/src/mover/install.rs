//! Giving the verified copy the name of its attempt, durably, before anybody hears of it.

use alloc::boxed::Box;

use super::SourceHealth;
use super::State;
use super::close::After;
use super::cx::Cx;
use super::desk::{Desk, Job};
use super::flip::Flipping;
use super::note::Waiting;
use super::operation::{Fault, Operation, Outcome};
use super::pause::Then;
use super::settle::settle;
use crate::effects::{Deadline, OpId};
use crate::ids::{Attempt, Generation, Token};
use crate::metastore::Command;
use crate::partition::{Manifest, Sidecar};
use crate::promote::FlipPermit;
use crate::time::Instant;

/// What a flip rests on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flip {
    pub(super) job: Job,
    pub(super) attempt: Attempt,
    /// When the freeze was asked for, or the promotion begun.
    pub(super) since: Instant,
    /// The freeze, unless the source is dead.
    pub(super) fence: Option<Token>,
    /// The death certificate, if it is.
    pub(super) dead: Option<Generation>,
}

impl Flip {
    pub(super) fn ends(&self, desk: &Desk) -> Instant {
        self.since.after(desk.config.freeze_max)
    }

    /// Ends the freeze that the flip rests on.
    pub(super) fn release(&self, cx: &mut Cx<'_>) {
        if let Some(token) = self.fence {
            cx.release(self.job.source, token);
        }
    }
}

/// Waits for the copy to be installed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Installing {
    pub(super) flip: Flip,
    op: OpId,
    command: Box<Command>,
}

impl Installing {
    pub(super) fn begin(
        flip: Flip,
        permit: FlipPermit,
        sidecar: Sidecar,
        cx: &mut Cx<'_>,
    ) -> State {
        let attempt = flip.attempt;
        let staged = cx.desk.stage.working().expect("a verified copy has a manifest").clone();
        let manifest = Manifest { attempt: Some(attempt), ..staged };
        let op = cx.run(Operation::Install { attempt, sidecar, manifest });
        State::Installing(Self { flip, op, command: Box::new(permit.into_command()) })
    }

    pub(super) fn deadline(&self, desk: &Desk) -> Option<Deadline> {
        let frozen = self.flip.fence.is_some();
        frozen.then(|| Deadline { at: self.flip.ends(desk), why: "the longest freeze" })
    }

    pub(super) fn wake(self, cx: &mut Cx<'_>) -> State {
        if self.flip.fence.is_none() || self.flip.ends(cx.desk) > cx.now {
            return State::Installing(self);
        }
        self.flip.release(cx);
        cx.close(After::Failed(Waiting::FreezeMax))
    }

    pub(super) fn done(self, op: OpId, outcome: &Outcome, cx: &mut Cx<'_>) -> State {
        assert_eq!(op, self.op, "an installation is all that runs");
        let Outcome::Install(result) = outcome else { unreachable!("checked by the desk") };
        match *result {
            Ok(()) if self.still_stands(cx.desk) => Flipping::begin(self.flip, self.command, cx),
            // The source has come back: it decides again what is to be copied.
            Ok(()) => settle(cx),
            Err(fault) => self.failed(fault, cx),
        }
    }

    /// Whether a forced flip still has its certificate; the log asks again (H10).
    fn still_stands(&self, desk: &Desk) -> bool {
        match (self.flip.dead, desk.owner_health()) {
            (None, _) => true,
            (Some(mine), Some(SourceHealth::Dead { generation, .. })) => mine == generation,
            (Some(_), Some(SourceHealth::Alive { .. }) | None) => false,
        }
    }

    fn failed(self, fault: Fault, cx: &mut Cx<'_>) -> State {
        self.flip.release(cx);
        let reason = Waiting::from_fault(fault);
        match self.flip.dead {
            None => cx.attempt_failed(reason),
            Some(_) => cx.wait(reason, Then::Settle),
        }
    }
}
