//! Copying while the source is in use: pass after pass over its listing, each shorter than the
//! one before, until the rest is small enough to freeze for.

use super::State;
use super::close::After;
use super::converge::{Judgement, Sight};
use super::copy::{CopyRun, Ended};
use super::cx::Cx;
use super::desk::{Desk, Job};
use super::fit::Fit;
use super::note::{Note, Waiting};
use super::operation::{Fault, Operation, Outcome, What};
use super::pause::Then;
use super::preflight::Preflight;
use super::stage::is_well_formed;
use crate::effects::{Deadline, OpId};
use crate::partition::Listing;
use crate::peer::Refusal;
use crate::time::Instant;

/// One try's copying.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CatchUp {
    pub(super) job: Job,
    /// Whether the pass before was held back by the throttle.
    throttled: bool,
    step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Until the next pass may start.
    Resting {
        until: Instant,
    },
    /// Asking what there is; `checked`: and which staged bytes are right.
    Listing {
        op: OpId,
        checked: bool,
    },
    /// Setting aside what another source left behind.
    Clearing {
        op: OpId,
        listing: Listing,
    },
    /// Making the disk fit the listing.
    Fitting {
        fit: Fit,
        listing: Listing,
    },
    Copying(CopyRun),
    /// Making what the pass has copied durable.
    Sealing {
        op: OpId,
        ended: Ended,
    },
}

impl CatchUp {
    /// Begins a pass as soon as one may start.
    pub(super) fn begin(job: Job, cx: &mut Cx<'_>) -> State {
        Self { job, throttled: false, step: Step::Resting { until: cx.now } }.next_pass(cx)
    }

    fn next_pass(self, cx: &mut Cx<'_>) -> State {
        let interval = cx.desk.config.pass_interval;
        match cx.desk.list_asked.map(|asked| asked.after(interval)) {
            Some(until) if until > cx.now => self.at(Step::Resting { until }),
            Some(_) | None => self.list(cx),
        }
    }

    fn list(self, cx: &mut Cx<'_>) -> State {
        let Job { source, expect } = self.job;
        let check = cx.desk.stage.to_check();
        let checked = cx.desk.stage.check_due;
        cx.desk.list_asked = Some(cx.now);
        let op = cx.run(Operation::List { source, move_id: expect.move_id, check });
        self.at(Step::Listing { op, checked })
    }

    fn at(self, step: Step) -> State {
        State::CatchUp(Self { step, ..self })
    }

    pub(super) fn deadline(&self, desk: &Desk) -> Option<Deadline> {
        let promote = desk.promote_at().map(|at| Deadline { at, why: "the source stays dead" });
        let rest = match self.step {
            Step::Resting { until } => Some(Deadline { at: until, why: "next pass" }),
            Step::Listing { .. }
            | Step::Clearing { .. }
            | Step::Fitting { .. }
            | Step::Copying(_)
            | Step::Sealing { .. } => None,
        };
        Deadline::earlier(promote, rest)
    }

    pub(super) fn wake(self, cx: &mut Cx<'_>) -> State {
        if cx.desk.promote_at().is_some_and(|at| at <= cx.now) {
            return cx.close(After::Settle);
        }
        match self.step {
            Step::Resting { until } if until <= cx.now => self.list(cx),
            Step::Resting { .. }
            | Step::Listing { .. }
            | Step::Clearing { .. }
            | Step::Fitting { .. }
            | Step::Copying(_)
            | Step::Sealing { .. } => State::CatchUp(self),
        }
    }

    pub(super) fn done(self, op: OpId, outcome: Outcome, cx: &mut Cx<'_>) -> State {
        let Self { job, throttled, step } = self;
        let back = |step| State::CatchUp(Self { job, throttled, step });
        match (step, outcome) {
            (Step::Listing { op: mine, checked }, Outcome::List(result)) if op == mine => {
                let state = Self { job, throttled, step: Step::Resting { until: cx.now } };
                match result {
                    Ok(listing) => state.listed(listing, checked, cx),
                    Err(fault) => refused(fault, cx),
                }
            }
            (Step::Clearing { op: mine, listing }, Outcome::SetAside(result)) if op == mine => {
                let state = Self { job, throttled, step: Step::Resting { until: cx.now } };
                match result {
                    Ok(()) => state.adopt(listing, true, cx),
                    Err(fault) => cx.fault(fault, Then::Settle),
                }
            }
            (Step::Fitting { fit, listing }, outcome) => match fit.done(op, outcome, cx) {
                Ok(Some(fit)) => back(Step::Fitting { fit, listing }),
                Ok(None) => {
                    let state = Self { job, throttled, step: Step::Resting { until: cx.now } };
                    state.judge(listing, cx)
                }
                Err(fault) => cx.fault(fault, Then::Settle),
            },
            (Step::Copying(mut run), outcome) => {
                run.done(op, outcome, cx);
                match run.ended(cx) {
                    None => back(Step::Copying(run)),
                    Some(ended) => {
                        let state = Self { job, throttled, step: Step::Resting { until: cx.now } };
                        state.seal(ended, cx)
                    }
                }
            }
            (Step::Sealing { op: mine, ended }, Outcome::Checkpoint(result)) if op == mine => {
                let state = Self { job, throttled, step: Step::Resting { until: cx.now } };
                state.pass_ended(Ended { result: ended.result.and(result), ..ended }, cx)
            }
            (step, outcome) => unreachable!("{step:?} was answered by {outcome:?}"),
        }
    }

    fn listed(self, listing: Listing, checked: bool, cx: &mut Cx<'_>) -> State {
        if listing.epoch != self.job.expect.epoch {
            return cx.wait(Waiting::SourceRefuses(Refusal::NotOwner), Then::Locate);
        }
        if !is_well_formed(&listing) {
            return cx.fault(Fault::Malformed, Then::Settle);
        }
        cx.source_answered();
        let stage = &mut cx.desk.stage;
        if !checked && !stage.is_empty() && !stage.is_of(&listing) {
            // Its log may have lost a tail and grown another one (H16).
            stage.outlive(&listing);
            return self.next_pass(cx);
        }
        if stage.is_foreign(self.job) && !stage.is_vouched_by(&listing) {
            let op = cx.run(Operation::SetAside(What::Staging));
            return self.at(Step::Clearing { op, listing });
        }
        self.adopt(listing, checked, cx)
    }

    fn adopt(self, listing: Listing, checked: bool, cx: &mut Cx<'_>) -> State {
        let dropped = cx.desk.stage.adopt(cx.desk.partition, self.job, &listing, checked);
        if dropped.extents > 0 {
            cx.note(Note::Dropped { extents: dropped.extents, bytes: dropped.bytes });
        }
        cx.desk.listed(cx.now, &listing.extents);
        match Fit::begin(cx) {
            Some(fit) => self.at(Step::Fitting { fit, listing }),
            None => self.judge(listing, cx),
        }
    }

    fn judge(self, listing: Listing, cx: &mut Cx<'_>) -> State {
        let desk = &mut *cx.desk;
        let sight = Sight {
            now: cx.now,
            tail: desk.tail_bytes,
            freeze_ms: desk.predicted_freeze_ms(),
            copy_rate: desk.copy_rate.bytes_per_second(),
            write_rate: desk.write_rate.bytes_per_second(),
            throttled: self.throttled,
        };
        match desk.convergence.judge(sight, &desk.config) {
            Judgement::Copy => self.copy(listing, cx),
            Judgement::Converged => Preflight::begin(self.job, cx),
            Judgement::NotConverged(reason) => {
                let passes = desk.convergence.passes;
                cx.note(Note::NotConverged { tail_bytes: sight.tail, reason, passes });
                Preflight::begin(self.job, cx)
            }
        }
    }

    fn copy(self, listing: Listing, cx: &mut Cx<'_>) -> State {
        let run = CopyRun::begin(self.job.source, listing.extents, cx);
        match run.ended(cx) {
            None => self.at(Step::Copying(run)),
            Some(ended) => self.seal(ended, cx),
        }
    }

    /// Makes what was copied durable, also when the rest of the pass has failed (R61).
    fn seal(self, ended: Ended, cx: &mut Cx<'_>) -> State {
        if cx.desk.stage.doubt || !cx.desk.stage.is_dirty() {
            return self.pass_ended(ended, cx);
        }
        let op = cx.checkpoint();
        self.at(Step::Sealing { op, ended })
    }

    fn pass_ended(self, ended: Ended, cx: &mut Cx<'_>) -> State {
        if let Err(fault) = ended.result {
            return cx.fault(fault, Then::Settle);
        }
        let desk = &mut *cx.desk;
        desk.convergence.passes += 1;
        desk.passes = desk.passes.saturating_add(1);
        let pass = desk.convergence.passes;
        cx.note(Note::PassEnded { pass, copied_bytes: ended.copied_bytes });
        cx.resumed();
        Self { throttled: !ended.throttled.is_zero(), ..self }.next_pass(cx)
    }
}

/// The source did not list.
fn refused(fault: Fault, cx: &mut Cx<'_>) -> State {
    let then = match fault {
        // What this node believes of the row may be out of date.
        Fault::Refused(Refusal::NoSuchMove | Refusal::NotOwner) => Then::Locate,
        Fault::Refused(_)
        | Fault::Unreachable
        | Fault::TimedOut
        | Fault::Cancelled
        | Fault::DiskFull
        | Fault::Disk
        | Fault::ExtentGone
        | Fault::Damaged { .. }
        | Fault::Mismatch { .. }
        | Fault::Malformed => Then::Settle,
    };
    cx.fault(fault, then)
}
