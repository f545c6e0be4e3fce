//! Reading the copy back, and what follows from it: leave to flip, or another copy.

use super::State;
use super::close::After;
use super::cx::Cx;
use super::desk::Desk;
use super::install::{Basis, Flip, Installing};
use super::note::{Note, Waiting};
use super::operation::{Fault, Operation, Outcome};
use super::prepare::Frozen;
use crate::effects::{Deadline, OpId};
use crate::ids::Incarnation;
use crate::partition::{Boundary, Position, Sidecar};
use crate::planted::{Bug, is_planted};
use crate::promote::{self, Freeze, Refusal, clamped};

/// Waits for the copy to be read back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Verifying {
    pub(super) frozen: Frozen,
    op: OpId,
}

impl Verifying {
    pub(super) fn begin(frozen: Frozen, cx: &mut Cx<'_>) -> State {
        let listing = &frozen.capture.listing;
        let op = cx.run(Operation::Verify(Boundary {
            start: listing.start,
            end: listing.end,
            hwm: listing.hwm,
            digest: Some(frozen.capture.digest),
        }));
        State::Verifying(Self { frozen, op })
    }

    pub(super) fn deadline(&self, desk: &Desk) -> Deadline {
        self.frozen.deadline(desk)
    }

    pub(super) fn wake(self, cx: &mut Cx<'_>) -> State {
        if self.frozen.ends(cx.desk) > cx.now {
            return State::Verifying(self);
        }
        cx.release(self.frozen.job.source, self.frozen.capture.token);
        cx.close(After::Failed(Waiting::FreezeMax))
    }

    /// See [`super::drain::Draining::source_is`].
    pub(super) fn source_is(self, incarnation: Incarnation, cx: &mut Cx<'_>) -> State {
        if self.frozen.capture.token.no.incarnation == incarnation {
            return State::Verifying(self);
        }
        cx.desk.stage.check_due = true;
        cx.close(After::Failed(Waiting::SourceRestarted))
    }

    pub(super) fn done(self, op: OpId, outcome: &Outcome, cx: &mut Cx<'_>) -> State {
        assert_eq!(op, self.op, "a verification is all that runs");
        let Outcome::Verify(result) = outcome else { unreachable!("checked by the desk") };
        let Frozen { job, attempt, timeline, predicted, inline, ref capture } = self.frozen;
        let verified = match *result {
            Ok(verified) => verified,
            Err(Fault::Damaged { base, .. }) => {
                cx.desk.stage.forget(Some(base));
                return self.fail(Waiting::CopyUnverifiable, cx);
            }
            Err(Fault::Mismatch { .. }) => return self.differs(Refusal::WrongDigest, cx),
            Err(fault) => return self.fail(Waiting::from_fault(fault), cx),
        };
        let (partition, expect) = (cx.desk.partition, job.expect);
        let evidence = Freeze { partition, expect, attempt, capture, verified: &verified };
        let permit = match promote::after_freeze(&evidence) {
            Ok(permit) => permit,
            Err(refusal) => return self.differs(refusal, cx),
        };
        let listing = &capture.listing;
        let visible = is_planted(Bug::TailInstalledVisible);
        let sidecar = Sidecar {
            start: listing.start,
            hwm: if visible { listing.end } else { listing.hwm },
            position: clamped(&capture.position, listing.hwm),
        };
        let left = is_planted(Bug::PositionLeftBehind);
        let sidecar =
            if left { Sidecar { position: Position::default(), ..sidecar } } else { sidecar };
        let (token, tail_bytes) = (capture.token, cx.desk.tail_bytes);
        let inline = inline && tail_bytes <= cx.desk.tail_inline_max();
        let basis = Basis::Freeze { token, tail_bytes, inline, predicted };
        let flip = Flip { job, attempt, timeline: timeline.verified(cx.now), basis };
        Installing::begin(flip, permit, sidecar, cx)
    }

    /// The source says which bytes are right; if that does not help, all are copied again.
    fn differs(self, refusal: Refusal, cx: &mut Cx<'_>) -> State {
        cx.note(Note::CopyUnverifiable(refusal));
        cx.desk.unverifiable = cx.desk.unverifiable.saturating_add(1);
        cx.desk.stage.check_due = true;
        if cx.desk.unverifiable > 1 {
            cx.desk.stage.forget(None);
        }
        self.fail(Waiting::CopyUnverifiable, cx)
    }

    fn fail(self, reason: Waiting, cx: &mut Cx<'_>) -> State {
        cx.release(self.frozen.job.source, self.frozen.capture.token);
        cx.attempt_failed(reason)
    }
}
