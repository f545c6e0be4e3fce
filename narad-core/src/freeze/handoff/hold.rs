//! The life of one freeze, from the asking until the gate is open again.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Cause, Effect, Note, Operation, Outcome};
use crate::config::Config;
use crate::effects::{Deadline, Effects, OpId, Ops};
use crate::freeze::duty::Duty;
use crate::ids::{Attempt, AttemptNo, Epoch, FreezeNo, Incarnation, NodeId, PartitionId, Token};
use crate::partition::Capture;
use crate::pause::Pauses;
use crate::peer::{Answer, Refusal, RequestId};
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

mod freezing;
mod held;

/// Where and within which limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Here {
    pub(super) node: NodeId,
    pub(super) partition: PartitionId,
    pub(super) epoch: Epoch,
    pub(super) life: Incarnation,
    ttl: Duration,
    max: Duration,
    admission_max: Duration,
}

impl Here {
    pub(super) const fn new(
        config: &Config,
        node: NodeId,
        partition: PartitionId,
        epoch: Epoch,
        life: Incarnation,
    ) -> Self {
        let Config { freeze_ttl: ttl, freeze_max: max, freeze_admission_max, .. } = *config;
        Self { node, partition, epoch, life, ttl, max, admission_max: freeze_admission_max }
    }

    pub(super) const fn reign(&self) -> (Epoch, Incarnation) {
        (self.epoch, self.life)
    }
}

/// What a transition may use.
pub(super) struct Cx<'a> {
    pub(super) now: Instant,
    pub(super) here: &'a Here,
    pub(super) ops: &'a mut Ops,
    pub(super) abandoned: &'a mut Vec<OpId>,
    pub(super) duty: &'a mut Duty,
    pub(super) pauses: &'a mut Pauses,
    pub(super) out: &'a mut Effects<Effect>,
}

/// The freeze of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Hold {
    Open,
    Freezing(Freezing),
    Held(Held),
    Revoking(Revoking),
    Thawing(Thawing),
    Voided(Voided),
    /// A transition panicked.
    Poisoned,
}

/// The gate was asked; nobody knows of a token yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Freezing {
    op: OpId,
    attempt: Attempt,
    /// Who waits for the capture; nobody once the freeze is not wanted any more.
    askers: Vec<RequestId>,
    since: Instant,
    given_up: bool,
}

/// The destination was told, so only the log can end it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    attempt: Attempt,
    capture: Capture,
    since: Instant,
    expires: Instant,
    staged_bytes: u64,
}

/// A `Revoke` is, or will be, proposed until the log has spoken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Revoking {
    token: Token,
    since: Instant,
    failures: u32,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Proposing(OpId),
    Pausing { until: Instant },
}

/// No flip can rest on the token any more; the gate is being opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Thawing {
    op: OpId,
    since: Instant,
}

/// The reign or the life that froze is over; the gate forgets the freeze when it stands anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Voided {
    since: Instant,
    reign: (Epoch, Incarnation),
}

impl Hold {
    /// A destination asks for a freeze that the row allows.
    pub(super) fn prepare(self, id: RequestId, attempt: Attempt, cx: &mut Cx<'_>) -> Self {
        match self {
            Self::Open => match cx.duty.allows(cx.now) {
                Ok(()) => Self::Freezing(Freezing::begin(id, attempt, cx)),
                Err(wait) => {
                    let wait_ms = wait.as_nanos().div_ceil(1_000_000);
                    let retry_after_ms = u64::try_from(wait_ms).unwrap_or(u64::MAX);
                    cx.refuse(id, Refusal::FrozenTooOften { retry_after_ms });
                    Self::Open
                }
            },
            Self::Freezing(state) => Self::Freezing(state.prepare(id, attempt, cx)),
            Self::Held(state) => state.prepare(id, attempt, cx),
            state @ (Self::Revoking(_) | Self::Thawing(_) | Self::Voided(_)) => {
                cx.refuse(id, Refusal::FrozenElsewhere);
                state
            }
            Self::Poisoned => poisoned(),
        }
    }

    /// A destination says how far its copy has come.
    pub(super) fn renew(
        self,
        id: RequestId,
        asker: NodeId,
        token: Token,
        staged_bytes: u64,
        cx: &mut Cx<'_>,
    ) -> Self {
        match self {
            Self::Held(state) if state.is(asker, token) => state.renew(id, staged_bytes, cx),
            state @ (Self::Open
            | Self::Freezing(_)
            | Self::Held(_)
            | Self::Revoking(_)
            | Self::Thawing(_)
            | Self::Voided(_)) => {
                cx.refuse(id, Refusal::NoSuchFreeze);
                state
            }
            Self::Poisoned => poisoned(),
        }
    }

    /// A destination gives its try up.
    pub(super) fn release(
        self,
        id: RequestId,
        asker: NodeId,
        token: Token,
        cx: &mut Cx<'_>,
    ) -> Self {
        match self {
            Self::Held(state) if state.is(asker, token) => {
                cx.answer(id, Answer::Noted);
                Self::Revoking(state.revoke(Cause::Released, cx))
            }
            Self::Revoking(state) if state.token == token => {
                cx.answer(id, Answer::Noted);
                Self::Revoking(state)
            }
            state @ (Self::Open
            | Self::Freezing(_)
            | Self::Held(_)
            | Self::Revoking(_)
            | Self::Thawing(_)
            | Self::Voided(_)) => {
                cx.refuse(id, Refusal::NoSuchFreeze);
                state
            }
            Self::Poisoned => poisoned(),
        }
    }

    /// A row of the same reign was applied. `passed`: it has a later move id than the one before.
    pub(super) fn row(
        self,
        passed: bool,
        burned: Option<AttemptNo>,
        revoked: Option<FreezeNo>,
        cx: &mut Cx<'_>,
    ) -> Self {
        match self {
            Self::Freezing(state) if passed => Self::Freezing(state.drop(Refusal::NoSuchMove, cx)),
            Self::Freezing(state) if Some(state.attempt.no) <= burned => {
                Self::Freezing(state.drop(Refusal::NoSuchFreeze, cx))
            }
            Self::Held(Held { capture: Capture { token, .. }, since, .. })
                if passed || Some(token.no) <= revoked =>
            {
                Self::Thawing(Thawing::begin(token, since, cx))
            }
            Self::Held(state) if Some(state.attempt.no) <= burned => {
                Self::Revoking(state.revoke(Cause::Burned, cx))
            }
            Self::Revoking(Revoking { token, since, step, .. })
                if passed || Some(token.no) <= revoked =>
            {
                if let Step::Proposing(op) = step {
                    cx.abandoned.push(op);
                }
                Self::Thawing(Thawing::begin(token, since, cx))
            }
            state @ (Self::Open
            | Self::Freezing(_)
            | Self::Held(_)
            | Self::Revoking(_)
            | Self::Thawing(_)
            | Self::Voided(_)) => state,
            Self::Poisoned => poisoned(),
        }
    }

    /// The reign or the life is over, so no flip can rest on a freeze of it.
    pub(super) fn void(
        self,
        reign: (Epoch, Incarnation),
        refusal: Refusal,
        cx: &mut Cx<'_>,
    ) -> Self {
        let since = match self {
            Self::Open => return Self::Open,
            Self::Freezing(state) => {
                cx.abandoned.push(state.op);
                let state = state.drop(refusal, cx);
                state.since
            }
            Self::Held(state) => state.since,
            Self::Revoking(state) => {
                if let Step::Proposing(op) = state.step {
                    cx.abandoned.push(op);
                }
                state.since
            }
            Self::Thawing(state) => {
                cx.abandoned.push(state.op);
                state.since
            }
            Self::Voided(state) => return Self::Voided(state),
            Self::Poisoned => poisoned(),
        };
        Self::Voided(Voided { since, reign })
    }

    /// The gate stands anew; in another reign or life than that of the freeze, it has forgotten it.
    pub(super) fn stood(self, reign: Option<(Epoch, Incarnation)>, cx: &mut Cx<'_>) -> Self {
        match self {
            Self::Voided(state)
                if reign != Some(state.reign) && !is_planted(Bug::VoidedFreezeStays) =>
            {
                cx.open(state.since)
            }
            state @ (Self::Open
            | Self::Freezing(_)
            | Self::Held(_)
            | Self::Revoking(_)
            | Self::Thawing(_)
            | Self::Voided(_)) => state,
            Self::Poisoned => poisoned(),
        }
    }

    /// An operation of this freeze has ended.
    pub(super) fn done(self, op: OpId, outcome: Outcome, cx: &mut Cx<'_>) -> Self {
        match (self, outcome) {
            (Self::Freezing(state), Outcome::Freeze(result)) if state.op == op => {
                state.done(result, cx)
            }
            (Self::Revoking(state), Outcome::Propose(proposed))
                if state.step == Step::Proposing(op) =>
            {
                state.done(&proposed, cx)
            }
            (Self::Thawing(state), Outcome::Thaw) if state.op == op => cx.open(state.since),
            (Self::Poisoned, _) => poisoned(),
            (state, _) => {
                cx.out.push(Effect::Note(Note::Stale(op)));
                state
            }
        }
    }

    pub(super) fn wake(self, cx: &mut Cx<'_>) -> Self {
        match self {
            Self::Freezing(state) => Self::Freezing(state.wake(cx)),
            Self::Held(Held { capture, since, expires, .. })
                if expires <= cx.now && is_planted(Bug::FreezeEndsByClock) =>
            {
                Self::Thawing(Thawing::begin(capture.token, since, cx))
            }
            Self::Held(state) if state.expires <= cx.now => {
                let cause = if state.is_capped(cx) { Cause::TooLong } else { Cause::NoProgress };
                Self::Revoking(state.revoke(cause, cx))
            }
            Self::Revoking(state) => Self::Revoking(state.wake(cx)),
            state @ (Self::Open | Self::Held(_) | Self::Thawing(_) | Self::Voided(_)) => state,
            Self::Poisoned => poisoned(),
        }
    }

    pub(super) fn deadline(&self, here: &Here) -> Option<Deadline> {
        match self {
            Self::Freezing(state) if !state.given_up => {
                let at = state.since.after(here.admission_max);
                Some(Deadline { at, why: "a freeze waits for an append" })
            }
            Self::Held(state) => {
                Some(Deadline { at: state.expires, why: "a freeze without progress ends" })
            }
            Self::Revoking(Revoking { step: Step::Pausing { until }, .. }) => {
                Some(Deadline { at: *until, why: "a freeze is revoked again" })
            }
            Self::Open
            | Self::Freezing(_)
            | Self::Revoking(_)
            | Self::Thawing(_)
            | Self::Voided(_)
            | Self::Poisoned => None,
        }
    }
}

impl Cx<'_> {
    fn run(&mut self, operation: Operation) -> OpId {
        let op = self.ops.mint();
        self.out.push(Effect::Run(op, operation));
        op
    }

    fn answer(&mut self, id: RequestId, answer: Answer) {
        self.out.push(Effect::Answer(id, answer));
    }

    fn refuse(&mut self, id: RequestId, refusal: Refusal) {
        self.answer(id, Answer::Refused(refusal));
    }

    /// The gate is open, or stands anew.
    fn open(&mut self, since: Instant) -> Hold {
        self.duty.record(since, self.now);
        self.out.push(Effect::Note(Note::Thawed { frozen: self.now.since(since) }));
        Hold::Open
    }
}

fn poisoned() -> ! {
    panic!("a transition of this machine panicked before")
}
