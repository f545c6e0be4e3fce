//! Proposing the flip, and telling apart what its answers mean.

use alloc::boxed::Box;

use super::cx::Cx;
use super::desk::Desk;
use super::install::{Basis, Flip};
use super::note::{Freeze, Note, Waiting};
use super::operation::{Operation, Outcome, Proposed};
use super::pause::Then;
use super::settle::settle;
use super::{Over, State};
use crate::effects::{Deadline, OpId};
use crate::metastore::{Command, Reason, Reply};
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

/// Proposes one command until its fate is known, or the freeze has lasted too long.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flipping {
    pub(super) flip: Flip,
    command: Box<Command>,
    /// Answers that said nothing.
    unknown: u32,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Proposed { op: OpId },
    Pausing { until: Instant },
}

/// What a refused flip means for its copy.
///
/// The log is in order, so a refusal for one of the first two kinds of reason holds for every
/// later duplicate of the same command as well, and an earlier one would have shown as a win.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This try can never win; the move goes on with the next.
    AttemptLost,
    /// The move is over.
    MoveOver,
    /// The reason may pass, and with it the same command: only the log can say more.
    Unclear,
}

/// Returns what a refusal means.
pub(super) const fn verdict(reason: Reason) -> Verdict {
    match reason {
        Reason::AttemptBurned
        | Reason::TokenRevoked
        | Reason::TokenStale
        | Reason::NotDead
        | Reason::CopyBehind => Verdict::AttemptLost,
        Reason::Gone
        | Reason::OwnerChanged
        | Reason::EpochChanged
        | Reason::MoveChanged
        | Reason::NotTarget
        | Reason::NodeRetired => Verdict::MoveOver,
        Reason::UnknownMember
        | Reason::UnknownTopic
        | Reason::NotYours
        | Reason::Forgotten
        | Reason::NotOwner
        | Reason::NodeDead
        | Reason::NodeDraining
        | Reason::NodeUnregistered
        | Reason::AlreadyThere
        | Reason::TopicBusy
        | Reason::AlreadyAssigned
        | Reason::NameTaken
        | Reason::WrongStore
        | Reason::StaleIncarnation
        | Reason::NotDraining
        | Reason::NotDrainedOut
        | Reason::OwnsPartitions
        | Reason::IsTarget
        | Reason::BelowMinVoters
        | Reason::NoHealthyMajority
        | Reason::NeedsReceipt
        | Reason::OutOfRange
        | Reason::UnsafeTiming => Verdict::Unclear,
    }
}

impl Flipping {
    pub(super) fn begin(flip: Flip, command: Box<Command>, cx: &mut Cx<'_>) -> State {
        let step = Step::Pausing { until: cx.now };
        Self { flip, command, unknown: 0, step }.propose(cx)
    }

    fn propose(self, cx: &mut Cx<'_>) -> State {
        let op = cx.run(Operation::Propose((*self.command).clone()));
        State::Flipping(Self { step: Step::Proposed { op }, ..self })
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        match self.step {
            Step::Proposed { .. } => None,
            Step::Pausing { until } => Some(Deadline { at: until, why: "propose the flip again" }),
        }
    }

    pub(super) fn wake(self, cx: &mut Cx<'_>) -> State {
        match self.step {
            Step::Pausing { until } if until <= cx.now => self.propose(cx),
            Step::Pausing { .. } | Step::Proposed { .. } => State::Flipping(self),
        }
    }

    pub(super) fn done(self, op: OpId, outcome: Outcome, cx: &mut Cx<'_>) -> State {
        assert_eq!(self.step, Step::Proposed { op }, "the proposal is all that runs");
        let Outcome::Propose(proposed) = outcome else { unreachable!("checked by the desk") };
        match proposed {
            Proposed::Unknown => self.unknown(cx),
            Proposed::Replied(Reply::Applied(_)) => self.won(cx),
            Proposed::Replied(Reply::Rejected(reason)) => self.rejected(reason, cx),
        }
    }

    fn unknown(mut self, cx: &mut Cx<'_>) -> State {
        cx.note(Note::FlipUnknown { attempt: self.flip.attempt });
        self.unknown += 1;
        let until = cx.retry_pause(self.unknown);
        if until < self.flip.ends(cx.desk) && !is_planted(Bug::UnknownCountsAsFailed) {
            return State::Flipping(Self { step: Step::Pausing { until }, ..self });
        }
        // The freeze must not last for ever: the log decides, and burns the try if it is not too
        // late (case F10).
        self.flip.release(cx);
        forget_attempt(cx);
        settle(cx)
    }

    fn rejected(self, reason: Reason, cx: &mut Cx<'_>) -> State {
        cx.note(Note::FlipRejected { attempt: self.flip.attempt, reason });
        match verdict(reason) {
            Verdict::AttemptLost => {
                // Where the log refused the copy and not the freeze, the freeze goes on.
                if matches!(reason, Reason::AttemptBurned | Reason::CopyBehind) {
                    self.flip.release(cx);
                }
                cx.attempt_failed(Waiting::FlipRejected(reason))
            }
            Verdict::MoveOver => cx.locate(),
            Verdict::Unclear => {
                self.flip.release(cx);
                forget_attempt(cx);
                cx.wait(Waiting::FlipRejected(reason), Then::Settle)
            }
        }
    }

    /// This node owns the partition.
    pub(super) fn won(self, cx: &mut Cx<'_>) -> State {
        let Flip { attempt, timeline, basis, .. } = self.flip;
        let freeze = match basis {
            Basis::Freeze { tail_bytes, inline, predicted, .. } => Some(Freeze {
                tail_bytes,
                inline,
                predicted,
                lasted: cx.now.since(timeline.asked),
                steps: timeline.steps(cx.now),
            }),
            Basis::Death(_) => None,
        };
        cx.note(Note::Moved {
            attempt,
            copied_bytes: cx.desk.copied_bytes,
            passes: cx.desk.passes,
            freeze,
        });
        State::Over(Over::Moved)
    }

    /// Whether the row shows that this try has won, although its answer is still out.
    pub(super) fn has_won(&self, desk: &Desk) -> bool {
        desk.live() == Some(self.flip.attempt)
    }
}

fn forget_attempt(cx: &mut Cx<'_>) {
    cx.desk.attempt = None;
    cx.desk.convergence = super::converge::Convergence::default();
    cx.desk.failed_attempts = cx.desk.failed_attempts.saturating_add(1);
}
