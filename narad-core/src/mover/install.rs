//! Giving the verified copy the name of its attempt, durably, before anybody hears of it.

use alloc::boxed::Box;
use core::time::Duration;

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
use super::timeline::Timeline;
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
    /// The course of the freeze, or when the promotion was begun.
    pub(super) timeline: Timeline,
    pub(super) basis: Basis,
}

/// Why nothing can be written behind the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Basis {
    /// The source is frozen.
    Freeze {
        token: Token,
        tail_bytes: u64,
        /// Whether the tail could come with the answer.
        inline: bool,
        /// How long it was said to last.
        predicted: Duration,
    },
    /// The source is dead, by this certificate.
    Death(Generation),
}

impl Flip {
    pub(super) fn ends(&self, desk: &Desk) -> Instant {
        self.timeline.asked.after(desk.config.freeze_max)
    }

    /// Ends the freeze that the flip rests on.
    pub(super) fn release(&self, cx: &mut Cx<'_>) {
        if let Basis::Freeze { token, .. } = self.basis {
            cx.release(self.job.source, token);
        }
    }

    const fn is_frozen(&self) -> bool {
        matches!(self.basis, Basis::Freeze { .. })
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
        self.flip
            .is_frozen()
            .then(|| Deadline { at: self.flip.ends(desk), why: "the longest freeze" })
    }

    pub(super) fn wake(self, cx: &mut Cx<'_>) -> State {
        if !self.flip.is_frozen() || self.flip.ends(cx.desk) > cx.now {
            return State::Installing(self);
        }
        self.flip.release(cx);
        cx.close(After::Failed(Waiting::FreezeMax))
    }

    pub(super) fn done(mut self, op: OpId, outcome: &Outcome, cx: &mut Cx<'_>) -> State {
        assert_eq!(op, self.op, "an installation is all that runs");
        let Outcome::Install(result) = outcome else { unreachable!("checked by the desk") };
        match *result {
            Ok(()) if self.still_stands(cx.desk) => {
                self.flip.timeline = self.flip.timeline.installed(cx.now);
                Flipping::begin(self.flip, self.command, cx)
            }
            // The source has come back: it decides again what is to be copied.
            Ok(()) => settle(cx),
            Err(fault) => self.failed(fault, cx),
        }
    }

    /// Whether a forced flip still has its certificate; the log asks again (H10).
    fn still_stands(&self, desk: &Desk) -> bool {
        match (self.flip.basis, desk.owner_health()) {
            (Basis::Freeze { .. }, _) => true,
            (Basis::Death(mine), Some(SourceHealth::Dead { generation, .. })) => mine == generation,
            (Basis::Death(_), Some(SourceHealth::Alive { .. }) | None) => false,
        }
    }

    fn failed(self, fault: Fault, cx: &mut Cx<'_>) -> State {
        self.flip.release(cx);
        let reason = Waiting::from_fault(fault);
        match self.flip.basis {
            Basis::Freeze { .. } => cx.attempt_failed(reason),
            Basis::Death(_) => cx.wait(reason, Then::Settle),
        }
    }
}
