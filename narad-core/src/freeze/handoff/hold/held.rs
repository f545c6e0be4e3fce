//! A freeze that a destination knows of, until the gate is open again.

use super::{Cx, Held, Hold, Revoking, Step, Thawing};
use crate::freeze::handoff::{Cause, Effect, Note, Operation};
use crate::ids::{Attempt, NodeId, Token};
use crate::metastore::{Applied, Command, Reply};
use crate::partition::Capture;
use crate::peer::{Answer, Refusal, RequestId};
use crate::planted::{Bug, is_planted};
use crate::proposals::Proposed;
use crate::time::Instant;

impl Held {
    pub(super) fn begin(
        attempt: Attempt,
        askers: &[RequestId],
        capture: Capture,
        since: Instant,
        cx: &mut Cx<'_>,
    ) -> Self {
        let token = capture.token;
        let reign = (token.epoch, token.no.incarnation);
        assert_eq!(reign, (cx.here.epoch, cx.here.life), "a gate freezes in the reign asked for");
        for id in askers {
            cx.answer(*id, Answer::Capture(capture.clone()));
        }
        cx.out.push(Effect::Note(Note::Frozen { token, attempt }));
        let expires = cx.now.after(cx.here.ttl).min(since.after(cx.here.max));
        Self { attempt, capture, since, expires, staged_bytes: 0 }
    }

    pub(super) fn is(&self, asker: NodeId, token: Token) -> bool {
        self.attempt.destination == asker && self.capture.token == token
            || is_planted(Bug::FreezeEndedByAnyToken)
    }

    pub(super) fn prepare(self, id: RequestId, attempt: Attempt, cx: &mut Cx<'_>) -> Hold {
        if attempt == self.attempt {
            // The same answer, and not a moment more (H41).
            cx.answer(id, Answer::Capture(self.capture.clone()));
            let prolonged = is_planted(Bug::FreezeOfAnyMove);
            let expires = if prolonged { cx.now.after(cx.here.ttl) } else { self.expires };
            return Hold::Held(Self { expires, ..self });
        }
        cx.refuse(id, Refusal::FrozenElsewhere);
        Hold::Revoking(self.revoke(Cause::Superseded, cx))
    }

    /// Whether it has lasted as long as any freeze may.
    pub(super) fn is_capped(&self, cx: &Cx<'_>) -> bool {
        self.since.after(cx.here.max) <= cx.now
    }

    pub(super) fn renew(self, id: RequestId, staged_bytes: u64, cx: &mut Cx<'_>) -> Hold {
        // Whoever has slept may hear of progress before it is woken at the cap.
        if self.is_capped(cx) && !is_planted(Bug::FreezeWithoutCap) {
            cx.refuse(id, Refusal::NoSuchFreeze);
            return Hold::Revoking(self.revoke(Cause::TooLong, cx));
        }
        cx.answer(id, Answer::Noted);
        if staged_bytes <= self.staged_bytes || is_planted(Bug::ProgressNotCounted) {
            return Hold::Held(self);
        }
        let uncapped = cx.now.after(cx.here.ttl);
        let capped = uncapped.min(self.since.after(cx.here.max));
        let expires = if is_planted(Bug::FreezeWithoutCap) { uncapped } else { capped };
        Hold::Held(Self { staged_bytes, expires: expires.max(self.expires), ..self })
    }

    pub(super) fn revoke(self, cause: Cause, cx: &mut Cx<'_>) -> Revoking {
        let token = self.capture.token;
        cx.out.push(Effect::Note(Note::Revoking { token, cause }));
        let step = Revoking::propose(token, cx);
        Revoking { token, since: self.since, failures: 0, step }
    }
}

impl Revoking {
    pub(super) fn propose(token: Token, cx: &mut Cx<'_>) -> Step {
        let partition = cx.here.partition;
        Step::Proposing(cx.run(Operation::Propose(Command::Revoke { partition, token })))
    }

    pub(super) fn done(self, proposed: &Proposed, cx: &mut Cx<'_>) -> Hold {
        let Self { token, since, failures, .. } = self;
        match proposed {
            Proposed::Replied(Reply::Applied(Applied::Resumed)) => {
                return Hold::Thawing(Thawing::begin(token, since, cx));
            }
            Proposed::Replied(Reply::Rejected(reason)) => {
                cx.out.push(Effect::Note(Note::RevokeRejected { token, reason: *reason }));
            }
            // Any other answer is to another command: as good as none.
            Proposed::Replied(Reply::Applied(_)) | Proposed::Unknown => {}
        }
        let until = cx.now.after(cx.pauses.after(failures));
        let step = Step::Pausing { until };
        Hold::Revoking(Self { failures: failures.saturating_add(1), step, ..self })
    }

    pub(super) fn wake(self, cx: &mut Cx<'_>) -> Self {
        match self.step {
            Step::Pausing { until } if until <= cx.now => {
                Self { step: Self::propose(self.token, cx), ..self }
            }
            Step::Pausing { .. } | Step::Proposing(_) => self,
        }
    }
}

impl Thawing {
    pub(super) fn begin(token: Token, since: Instant, cx: &mut Cx<'_>) -> Self {
        Self { op: cx.run(Operation::Thaw { token }), since }
    }
}
