//! Promoting the copy of a dead source: no freeze, and gates instead (R63 to R68).

use super::cx::Cx;
use super::desk::Job;
use super::fit::Fit;
use super::install::{Basis, Flip, Installing};
use super::note::Waiting;
use super::operation::{Fault, Operation, Outcome};
use super::pause::Then;
use super::settle::settle;
use super::timeline::Timeline;
use super::{SourceHealth, State};
use crate::effects::OpId;
use crate::ids::Generation;
use crate::partition::{Sidecar, Verified};
use crate::promote::{self, Death, Refusal, boundary_after_death, clamped};

/// Judges a copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Promoting {
    pub(super) job: Job,
    generation: Generation,
    step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Making durable what is staged, so that as much as possible is saved (R68), and cutting off
    /// what a failed copy left.
    Fitting(Fit),
    Verifying {
        op: OpId,
    },
}

impl Promoting {
    pub(super) fn begin(job: Job, generation: Generation, cx: &mut Cx<'_>) -> State {
        match Fit::begin_for_promotion(cx) {
            Some(fit) => State::Promoting(Self { job, generation, step: Step::Fitting(fit) }),
            None => Self::verify(job, generation, cx),
        }
    }

    fn verify(job: Job, generation: Generation, cx: &mut Cx<'_>) -> State {
        let Some(row) = cx.desk.row() else { return settle(cx) };
        if cx.desk.stage.outlived {
            return cx.wait_for_change(Waiting::PromoteRefused(Refusal::NotCompared));
        }
        match boundary_after_death(row, cx.desk.stage.durable()) {
            Err(refusal) => cx.wait_for_change(Waiting::PromoteRefused(refusal)),
            Ok(boundary) => {
                let op = cx.run(Operation::Verify(boundary));
                State::Promoting(Self { job, generation, step: Step::Verifying { op } })
            }
        }
    }

    pub(super) fn done(self, op: OpId, outcome: Outcome, cx: &mut Cx<'_>) -> State {
        let Self { job, generation, step } = self;
        match (step, outcome) {
            (Step::Fitting(fit), outcome) => match fit.done(op, outcome, cx) {
                Ok(Some(fit)) => {
                    State::Promoting(Self { job, generation, step: Step::Fitting(fit) })
                }
                Ok(None) => Self::verify(job, generation, cx),
                Err(fault) => cx.fault(fault, Then::Settle),
            },
            (Step::Verifying { op: mine }, Outcome::Verify(result)) if op == mine => match result {
                Ok(verified) => Self::verified(job, generation, &verified, cx),
                Err(Fault::Damaged { .. }) => {
                    cx.wait_for_change(Waiting::PromoteRefused(Refusal::Unreadable))
                }
                Err(fault) => cx.fault(fault, Then::Settle),
            },
            (step, outcome) => unreachable!("{step:?} was answered by {outcome:?}"),
        }
    }

    fn verified(job: Job, mine: Generation, verified: &Verified, cx: &mut Cx<'_>) -> State {
        // The source may have come back, or died again, while the copy was read.
        let Some(SourceHealth::Dead { generation, since, promote_after }) = cx.desk.owner_health()
        else {
            return settle(cx);
        };
        if generation != mine || cx.desk.wanted() != Some(job) {
            return settle(cx);
        }
        let attempt = cx.desk.next_attempt(job);
        let row = cx.desk.row().expect("a wanted move has a row");
        let session = cx.desk.stage.durable();
        let evidence = Death {
            partition: cx.desk.partition,
            row,
            attempt,
            generation,
            dead_for: cx.now.since(since),
            promote_after,
            session,
            verified,
        };
        let permit = promote::after_death(&evidence);
        let boundary = boundary_after_death(row, session);
        match (permit, boundary) {
            (Ok(permit), Ok(boundary)) => {
                let position = session.map(|session| clamped(&session.position, boundary.hwm));
                let sidecar = Sidecar {
                    start: boundary.start,
                    hwm: boundary.hwm,
                    position: position.unwrap_or_default(),
                };
                let (timeline, basis) = (Timeline::begin(cx.now), Basis::Death(generation));
                let flip = Flip { job, attempt, timeline, basis };
                Installing::begin(flip, permit, sidecar, cx)
            }
            (Err(refusal), _) | (Ok(_), Err(refusal)) => {
                cx.desk.attempt = None;
                cx.wait_for_change(Waiting::PromoteRefused(refusal))
            }
        }
    }
}
