//! Copying the tail of the frozen source, exactly to the boundary that it captured.

use super::State;
use super::close::After;
use super::copy::{CopyRun, Ended};
use super::cx::Cx;
use super::desk::Desk;
use super::fit::Fit;
use super::note::{Note, Waiting};
use super::operation::{Fault, Operation, Outcome};
use super::prepare::{Frozen, is_well_formed};
use super::verify::Verifying;
use crate::effects::{Deadline, OpId};
use crate::ids::Incarnation;
use crate::peer::Refusal;
use crate::time::Instant;

/// Copies the tail.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Draining {
    pub(super) frozen: Frozen,
    /// When the source last heard of progress, and how far it was.
    renewed: (Instant, u64),
    renewing: bool,
    step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Fitting(Fit),
    Copying(CopyRun),
}

impl Draining {
    pub(super) fn begin(frozen: Frozen, cx: &mut Cx<'_>) -> State {
        let Frozen { job, ref capture, .. } = frozen;
        let token = capture.token;
        if !is_well_formed(capture) {
            cx.release(job.source, token);
            return cx.attempt_failed(Waiting::SourceMalformed);
        }
        if !cx.desk.stage.is_of(&capture.listing) || token.epoch != job.expect.epoch {
            // It restarted since it was listed: what is staged must be compared first (H16).
            cx.desk.stage.outlive(&capture.listing);
            cx.release(job.source, token);
            return cx.attempt_failed(Waiting::SourceRestarted);
        }
        let desk = &mut *cx.desk;
        let dropped = desk.stage.adopt(desk.partition, job, &capture.listing, false);
        desk.stage.set_position(&capture.position);
        desk.listed(cx.now, &capture.listing.extents);
        let renewed = (frozen.timeline.asked, desk.stage.bytes());
        let tail_bytes = desk.tail_bytes;
        if dropped.extents > 0 {
            cx.note(Note::Dropped { extents: dropped.extents, bytes: dropped.bytes });
        }
        cx.note(Note::Frozen { token, tail_bytes });
        match Fit::begin(cx) {
            Some(fit) => {
                let step = Step::Fitting(fit);
                State::Draining(Self { frozen, renewed, renewing: false, step })
            }
            None => Self::copy(frozen, renewed, cx),
        }
    }

    fn copy(frozen: Frozen, renewed: (Instant, u64), cx: &mut Cx<'_>) -> State {
        let extents = frozen.capture.listing.extents.clone();
        let run = CopyRun::begin(frozen.job.source, extents, cx);
        match run.ended(cx) {
            None => {
                let step = Step::Copying(run);
                State::Draining(Self { frozen, renewed, renewing: false, step })
            }
            Some(ended) => Self::ended(frozen, ended, cx),
        }
    }

    pub(super) fn deadline(&self, desk: &Desk) -> Deadline {
        self.frozen.deadline(desk)
    }

    pub(super) fn wake(self, cx: &mut Cx<'_>) -> State {
        if self.frozen.ends(cx.desk) > cx.now {
            return State::Draining(self);
        }
        self.give_up(Waiting::FreezeMax, cx)
    }

    /// The source has another life than the freeze: a flip that rests on it would be refused (H6).
    pub(super) fn source_is(self, incarnation: Incarnation, cx: &mut Cx<'_>) -> State {
        if self.frozen.capture.token.no.incarnation == incarnation {
            return State::Draining(self);
        }
        cx.desk.stage.check_due = true;
        cx.close(After::Failed(Waiting::SourceRestarted))
    }

    pub(super) fn done(self, op: OpId, outcome: Outcome, cx: &mut Cx<'_>) -> State {
        let Self { frozen, renewed, renewing, step } = self;
        match step {
            Step::Fitting(fit) => match fit.done(op, outcome, cx) {
                Ok(Some(fit)) => {
                    State::Draining(Self { frozen, renewed, renewing, step: Step::Fitting(fit) })
                }
                Ok(None) => Self::copy(frozen, renewed, cx),
                Err(fault) => fail(&frozen, fault, cx),
            },
            Step::Copying(mut run) => {
                run.done(op, outcome, cx);
                let ended = run.ended(cx);
                let mut state = Self { frozen, renewed, renewing, step: Step::Copying(run) };
                state.renew(cx);
                match ended {
                    None => State::Draining(state),
                    Some(ended) => Self::ended(state.frozen, ended, cx),
                }
            }
        }
    }

    /// Tells the source of progress, well before it would give the freeze up (H22).
    fn renew(&mut self, cx: &mut Cx<'_>) {
        let (at, bytes) = self.renewed;
        let staged_bytes = cx.desk.stage.bytes();
        let due = cx.now.since(at) >= cx.desk.config.freeze_ttl / 4;
        if due && staged_bytes > bytes && !self.renewing {
            let Frozen { job, ref capture, .. } = self.frozen;
            cx.run(Operation::Renew { source: job.source, token: capture.token, staged_bytes });
            self.renewing = true;
            self.renewed = (cx.now, staged_bytes);
        }
    }

    /// Whether a renewal was of this freeze; an earlier one's answer may come late.
    pub(super) fn is_renewed_by(&self, operation: &Operation) -> bool {
        match operation {
            Operation::Renew { token, .. } => *token == self.frozen.capture.token,
            Operation::ReadRow
            | Operation::List { .. }
            | Operation::Copy { .. }
            | Operation::Checkpoint(_)
            | Operation::Trim { .. }
            | Operation::ReachLeader
            | Operation::Probe { .. }
            | Operation::Prepare { .. }
            | Operation::Release { .. }
            | Operation::Verify(_)
            | Operation::Install { .. }
            | Operation::Propose(_)
            | Operation::Restage { .. }
            | Operation::SetAside(_) => false,
        }
    }

    /// The source has answered a renewal.
    pub(super) fn renewed(mut self, result: Result<(), Fault>, cx: &mut Cx<'_>) -> State {
        self.renewing = false;
        match result {
            Err(Fault::Refused(refusal @ Refusal::NoSuchFreeze)) => {
                self.give_up(Waiting::SourceRefuses(refusal), cx)
            }
            // The next progress tells it again.
            Ok(()) | Err(_) => State::Draining(self),
        }
    }

    fn ended(mut frozen: Frozen, ended: Ended, cx: &mut Cx<'_>) -> State {
        match ended.result {
            Err(fault) => fail(&frozen, fault, cx),
            Ok(()) if ended.gone => fail(&frozen, Fault::ExtentGone, cx),
            Ok(()) => {
                frozen.timeline = frozen.timeline.drained(cx.now);
                Verifying::begin(frozen, cx)
            }
        }
    }

    fn give_up(self, reason: Waiting, cx: &mut Cx<'_>) -> State {
        cx.release(self.frozen.job.source, self.frozen.capture.token);
        cx.close(After::Failed(reason))
    }
}

fn fail(frozen: &Frozen, fault: Fault, cx: &mut Cx<'_>) -> State {
    cx.release(frozen.job.source, frozen.capture.token);
    cx.attempt_failed(Waiting::from_fault(fault))
}
