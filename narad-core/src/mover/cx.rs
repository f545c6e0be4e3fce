//! The ways in which a state acts: operations, notes, pauses.

use core::time::Duration;

use super::close::{After, Closing};
use super::converge::Convergence;
use super::desk::{Desk, OPERATIONS_MAX};
use super::installed::Fate;
use super::note::{Note, Waiting};
use super::operation::{Fault, Operation, What};
use super::pause::{Pause, Then};
use super::{Effect, State};
use crate::effects::{Effects, OpId};
use crate::ids::{NodeId, Token};
use crate::metastore::Command;
use crate::time::Instant;

/// What a transition may use.
pub(super) struct Cx<'a> {
    pub(super) now: Instant,
    pub(super) desk: &'a mut Desk,
    pub(super) out: &'a mut Effects<Effect>,
}

impl Cx<'_> {
    /// Starts an operation.
    ///
    /// # Panics
    ///
    /// If it would touch a directory whose fate is open (H2), or if too many run.
    pub(super) fn run(&mut self, operation: Operation) -> OpId {
        assert!(self.desk.running.len() < OPERATIONS_MAX, "operations of a mover are bounded");
        match &operation {
            Operation::Restage { attempt } => {
                assert_eq!(self.desk.installed.fate(*attempt), Some(Fate::Free), "{attempt:?}");
                self.assert_nothing_open();
            }
            Operation::SetAside(What::Installed(attempt)) => {
                let fate = self.desk.installed.fate(*attempt);
                assert!(
                    matches!(fate, Some(Fate::Free | Fate::Condemned)),
                    "{attempt:?}: {fate:?}"
                );
                self.assert_nothing_open();
            }
            Operation::SetAside(What::Staging)
            | Operation::Trim { .. }
            | Operation::Copy { .. }
            | Operation::Install { .. } => self.assert_nothing_open(),
            Operation::Propose(command) => {
                if let Command::CompleteMove { attempt, .. } = command {
                    self.desk.installed.proposed(*attempt);
                }
            }
            Operation::ReadRow
            | Operation::List { .. }
            | Operation::Checkpoint(_)
            | Operation::ReachLeader
            | Operation::Probe { .. }
            | Operation::Prepare { .. }
            | Operation::Renew { .. }
            | Operation::Release { .. }
            | Operation::Verify(_) => {}
        }
        if let Operation::Checkpoint(_) | Operation::Copy { .. } = operation {
            self.desk.stage.on_disk = true;
        }
        let op = self.desk.ops.mint();
        self.desk.running.push((op, operation.clone()));
        self.out.push(Effect::Run(op, operation));
        op
    }

    fn assert_nothing_open(&self) {
        let open = self.desk.installed.oldest(Fate::Open);
        assert_eq!(open, None, "no directory is touched while a flip is unresolved");
    }

    pub(super) fn note(&mut self, note: Note) {
        self.out.push(Effect::Note(note));
    }

    /// Makes the manifest as it stands durable.
    pub(super) fn checkpoint(&mut self) -> OpId {
        let manifest = self.desk.stage.working().expect("a listing was adopted").clone();
        self.run(Operation::Checkpoint(manifest))
    }

    /// Gives a freeze up; the answer is of no interest.
    pub(super) fn release(&mut self, source: NodeId, token: Token) {
        self.note(Note::Released { token });
        self.run(Operation::Release { source, token });
    }

    /// Ends a step early: whatever runs is cancelled, and its answers are awaited.
    pub(super) fn close(&mut self, after: After) -> State {
        for (op, operation) in &self.desk.running {
            if !operation.is_courtesy() {
                self.out.push(Effect::Cancel(*op));
                // A cancelled copy may have written, a cancelled checkpoint may have failed.
                self.desk.stage.trim_due |= matches!(operation, Operation::Copy { .. });
            }
        }
        Closing { after }.proceed(self)
    }

    /// How long a move waits at least before it looks whether damage at the source is repaired.
    const DAMAGED_PAUSE: Duration = Duration::from_secs(30);

    /// Pauses after a failed operation.
    pub(super) fn fault(&mut self, fault: Fault, then: Then) -> State {
        self.wait(Waiting::from_fault(fault), then)
    }

    /// Pauses for a reason; longer each time until a pass is complete.
    pub(super) fn wait(&mut self, reason: Waiting, then: Then) -> State {
        self.desk.faults = self.desk.faults.saturating_add(1);
        let pause = self.desk.pause(self.desk.faults.max(self.desk.failed_attempts));
        // Nothing but a repair helps, and each try copies all of it.
        let is_damaged = matches!(reason, Waiting::Damaged { .. });
        let pause = if is_damaged { pause.max(Self::DAMAGED_PAUSE) } else { pause };
        self.pause(reason, then, Some(pause))
    }

    /// Pauses after a try for which the source was, or may have been, frozen.
    pub(super) fn attempt_failed(&mut self, reason: Waiting) -> State {
        self.attempt_failed_for(reason, Duration::ZERO)
    }

    /// As [`Self::attempt_failed`], for so long at least.
    pub(super) fn attempt_failed_for(&mut self, reason: Waiting, at_least: Duration) -> State {
        self.desk.attempt = None;
        self.desk.convergence = Convergence::default();
        self.desk.failed_attempts = self.desk.failed_attempts.saturating_add(1);
        let pause = self.desk.pause(self.desk.failed_attempts.max(self.desk.faults));
        self.pause(reason, Then::Settle, Some(pause.max(at_least)))
    }

    /// Waits until something changes.
    pub(super) fn wait_for_change(&mut self, reason: Waiting) -> State {
        self.pause(reason, Then::Settle, None)
    }

    /// Returns how long to pause before the same request is made again.
    pub(super) fn retry_pause(&mut self, failures: u32) -> Instant {
        self.now.after(self.desk.pause(failures))
    }

    fn pause(&mut self, reason: Waiting, then: Then, pause: Option<Duration>) -> State {
        let is_dead = self.desk.promote_at().is_some();
        let silent = matches!(reason, Waiting::SourceUnreachable);
        let reason = if is_dead && silent { Waiting::SourceDead } else { reason };
        if self.desk.waiting != Some(reason) {
            self.desk.waiting = Some(reason);
            self.note(Note::Waiting(reason));
        }
        let until = pause.map(|pause| self.now.after(pause));
        let promote_at = self.desk.promote_at().filter(|&at| at > self.now);
        let until = until.map(|until| promote_at.map_or(until, |at| until.min(at)));
        State::Waiting(Pause { until, reason, then })
    }

    /// Notes that a source that was dead has answered.
    pub(super) fn source_answered(&mut self) {
        let dead =
            matches!(self.desk.waiting, Some(Waiting::SourceDead | Waiting::PromoteRefused(_)));
        if dead {
            self.desk.waiting = None;
            self.note(Note::Resumed);
        }
    }

    /// Notes that the move goes on: a pass is complete.
    pub(super) fn resumed(&mut self) {
        self.desk.faults = 0;
        if self.desk.waiting.take().is_some() {
            self.note(Note::Resumed);
        }
    }
}
