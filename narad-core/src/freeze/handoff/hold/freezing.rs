//! A freeze that nobody has been told of yet.

use alloc::vec;

use super::{Cx, Freezing, Held, Here, Hold, Thawing};
use crate::freeze::gate::NotFrozen;
use crate::freeze::handoff::{Effect, FreezeFault, Handoff, Note, Operation};
use crate::ids::Attempt;
use crate::partition::Capture;
use crate::peer::{Refusal, RequestId};

impl Freezing {
    pub(super) fn begin(id: RequestId, attempt: Attempt, cx: &mut Cx<'_>) -> Self {
        let Here { epoch, life, .. } = *cx.here;
        let op = cx.run(Operation::Freeze { epoch, life });
        Self { op, attempt, askers: vec![id], since: cx.now, given_up: false }
    }

    pub(super) fn prepare(mut self, id: RequestId, attempt: Attempt, cx: &mut Cx<'_>) -> Self {
        if attempt != self.attempt {
            // The row allows only newer ones than ours: its destination has given ours up.
            cx.refuse(id, Refusal::FrozenElsewhere);
            return self.drop(Refusal::NoSuchFreeze, cx);
        }
        if self.askers.is_empty() {
            cx.refuse(id, Refusal::FrozenElsewhere);
        } else if self.askers.len() < Handoff::ASKERS_MAX {
            self.askers.push(id);
        } else {
            cx.refuse(id, Refusal::NotYet);
        }
        self
    }

    /// Nobody wants this freeze any more. As nobody was told of it, it needs no `Revoke`.
    pub(super) fn drop(mut self, refusal: Refusal, cx: &mut Cx<'_>) -> Self {
        for id in self.askers.drain(..) {
            cx.refuse(id, refusal);
        }
        self.give_up(cx)
    }

    pub(super) fn give_up(self, cx: &mut Cx<'_>) -> Self {
        if !self.given_up {
            cx.out.push(Effect::Cancel(self.op));
        }
        Self { given_up: true, ..self }
    }

    pub(super) fn wake(self, cx: &mut Cx<'_>) -> Self {
        let overdue = self.since.after(cx.here.admission_max) <= cx.now;
        if overdue { self.give_up(cx) } else { self }
    }

    pub(super) fn done(self, result: Result<Capture, FreezeFault>, cx: &mut Cx<'_>) -> Hold {
        let Self { attempt, askers, since, .. } = self;
        match result {
            Ok(capture) if askers.is_empty() => {
                Hold::Thawing(Thawing::begin(capture.token, since, cx))
            }
            Ok(capture) => Hold::Held(Held::begin(attempt, &askers, capture, since, cx)),
            Err(why) => {
                if !askers.is_empty() {
                    cx.out.push(Effect::Note(Note::NotFrozen { attempt, why }));
                }
                let (refusal, token) = match why {
                    FreezeFault::NotFrozen(NotFrozen::NotServing) => (Refusal::NotServing, None),
                    FreezeFault::NotFrozen(NotFrozen::Frozen) => (Refusal::FrozenElsewhere, None),
                    FreezeFault::NotFrozen(NotFrozen::AppendStuck) => (Refusal::AppendStuck, None),
                    FreezeFault::Unreadable { token } => (Refusal::Disk, Some(token)),
                };
                for id in askers {
                    cx.refuse(id, refusal);
                }
                match token {
                    Some(token) => Hold::Thawing(Thawing::begin(token, since, cx)),
                    None => cx.open(since),
                }
            }
        }
    }
}
