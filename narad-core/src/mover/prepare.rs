//! Asking the source to freeze.

use alloc::boxed::Box;
use core::time::Duration;

use super::State;
use super::cx::Cx;
use super::desk::{Desk, Job};
use super::drain::Draining;
use super::note::{Note, Waiting};
use super::operation::{Fault, Operation, Outcome};
use super::pause::Then;
use super::timeline::Timeline;
use crate::effects::{Deadline, OpId};
use crate::ids::{Attempt, Offset};
use crate::partition::Capture;
use crate::peer::Refusal;
use crate::time::Instant;

/// A freeze that the source granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frozen {
    pub(super) job: Job,
    pub(super) attempt: Attempt,
    pub(super) timeline: Timeline,
    /// How long it was said to last.
    pub(super) predicted: Duration,
    /// Whether the tail was asked for with the freeze.
    pub(super) inline: bool,
    pub(super) capture: Box<Capture>,
}

impl Frozen {
    /// Returns when the freeze has lasted for as long as one may.
    pub(super) fn ends(&self, desk: &Desk) -> Instant {
        self.timeline.asked.after(desk.config.freeze_max)
    }

    pub(super) fn deadline(&self, desk: &Desk) -> Deadline {
        Deadline { at: self.ends(desk), why: "the longest freeze" }
    }
}

/// Waits for the source to freeze.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Preparing {
    pub(super) job: Job,
    attempt: Attempt,
    timeline: Timeline,
    predicted: Duration,
    /// Requests without an answer.
    unanswered: u32,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Asked { op: OpId },
    Pausing { until: Instant },
}

impl Preparing {
    pub(super) fn begin(job: Job, cx: &mut Cx<'_>) -> State {
        let attempt = cx.desk.next_attempt(job);
        let step = Step::Pausing { until: cx.now };
        let timeline = Timeline::begin(cx.now);
        let tail_bytes = cx.desk.tail_expected(cx.now);
        let predicted = cx.desk.freeze_of(tail_bytes).unwrap_or(cx.desk.config.freeze_max);
        cx.note(Note::Cutover { tail_bytes, predicted });
        Self { job, attempt, timeline, predicted, unanswered: 0, step }.ask(cx)
    }

    fn ask(self, cx: &mut Cx<'_>) -> State {
        let Self { job, attempt, .. } = self;
        // Once: what did not come in time is not asked for again in one piece.
        let tail_bytes_max = if self.unanswered == 0 { cx.desk.tail_inline_max() } else { 0 };
        let op = cx.run(Operation::Prepare { source: job.source, attempt, tail_bytes_max });
        State::Preparing(Self { step: Step::Asked { op }, ..self })
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        match self.step {
            Step::Asked { .. } => None,
            Step::Pausing { until } => {
                Some(Deadline { at: until, why: "ask for the freeze again" })
            }
        }
    }

    pub(super) fn wake(self, cx: &mut Cx<'_>) -> State {
        match self.step {
            Step::Pausing { until } if until <= cx.now => self.ask(cx),
            Step::Pausing { .. } | Step::Asked { .. } => State::Preparing(self),
        }
    }

    pub(super) fn done(self, op: OpId, outcome: Outcome, cx: &mut Cx<'_>) -> State {
        let Outcome::Prepare(result) = outcome else { unreachable!("checked by the desk") };
        assert_eq!(self.step, Step::Asked { op }, "the request is all that runs");
        let fault = match result {
            Ok(capture) => {
                let Self { job, attempt, predicted, unanswered, .. } = self;
                let inline = unanswered == 0;
                let timeline = self.timeline.frozen(cx.now);
                let capture = Box::new(capture);
                let frozen = Frozen { job, attempt, timeline, predicted, inline, capture };
                return Draining::begin(frozen, cx);
            }
            Err(fault) => fault,
        };
        match fault {
            // The source may be frozen for this try: only the same request finds out (H41).
            Fault::Unreachable
            | Fault::TimedOut
            | Fault::Cancelled
            | Fault::Refused(Refusal::Unknown | Refusal::NotYet) => self.ask_later(fault, cx),
            Fault::Refused(refusal) => refused(refusal, cx),
            Fault::Malformed
            | Fault::DiskFull
            | Fault::Disk
            | Fault::ExtentGone
            | Fault::Damaged { .. }
            | Fault::Mismatch { .. } => cx.attempt_failed(Waiting::from_fault(fault)),
        }
    }

    fn ask_later(mut self, fault: Fault, cx: &mut Cx<'_>) -> State {
        self.unanswered += 1;
        let until = cx.retry_pause(self.unanswered);
        if until >= self.timeline.asked.after(cx.desk.config.freeze_ttl) {
            // The freeze, if there is one, ends by itself; its token is not known here.
            return cx.attempt_failed(Waiting::from_fault(fault));
        }
        State::Preparing(Self { step: Step::Pausing { until }, ..self })
    }
}

fn refused(refusal: Refusal, cx: &mut Cx<'_>) -> State {
    match refusal {
        Refusal::NoSuchMove | Refusal::NotOwner => {
            cx.desk.attempt = None;
            cx.wait(Waiting::SourceRefuses(refusal), Then::Locate)
        }
        Refusal::FrozenTooOften { retry_after_ms } => {
            cx.attempt_failed_for(Waiting::FreezeDuty, Duration::from_millis(retry_after_ms))
        }
        Refusal::NotLeader { .. }
        | Refusal::AskerDead
        | Refusal::NotYet
        | Refusal::NotServing
        | Refusal::FrozenElsewhere
        | Refusal::AppendStuck
        | Refusal::NoSuchFreeze
        | Refusal::Disk
        | Refusal::NotAdmitted(_)
        | Refusal::Unknown => cx.attempt_failed(Waiting::SourceRefuses(refusal)),
    }
}

/// Whether a capture does not contradict itself; it comes from another node.
pub(super) fn is_well_formed(capture: &Capture) -> bool {
    let bounded = capture.position.acked_ahead.len() <= crate::partition::Position::ACKED_AHEAD_MAX;
    let ascending = |offsets: &[Offset]| offsets.windows(2).all(|pair| pair[0] < pair[1]);
    bounded
        && ascending(&capture.position.acked_ahead)
        && super::stage::is_well_formed(&capture.listing)
}
