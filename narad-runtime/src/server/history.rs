//! The last moves to this node, with how long each phase took.
//!
//! A move begins here when this node has applied the row that names it, which the watcher sees, and
//! ends with one of the mover's last notes, which the observer sees. Both run on the node's thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use narad_core::ids::{MoveId, NodeId, PartitionId};
use narad_core::mover;
use narad_core::node::{Node, Note};

use crate::clock::wall_ms;
use crate::mind::Pulse;
use crate::node_loop::Observer;
use crate::service::{MoveEnd, PastPhase, PastPhaseName};

/// What is remembered of one move that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) partition: PartitionId,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) move_id: MoveId,
    pub(super) outcome: MoveEnd,
    pub(super) began_ms: i64,
    pub(super) ended_ms: i64,
    pub(super) phases: Vec<PastPhase>,
    pub(super) bytes: u64,
    pub(super) passes: u32,
    /// How long it lasted and was said to last, if there was one.
    pub(super) freeze: Option<mover::Freeze>,
    pub(super) waits: u32,
    pub(super) waited_for: Option<mover::Waiting>,
}

/// A move that is under way.
#[derive(Clone, Copy, Debug)]
struct Running {
    from: NodeId,
    to: NodeId,
    move_id: MoveId,
    began_ms: i64,
    copied_ms: Option<i64>,
    frozen_ms: Option<i64>,
    bytes: u64,
    passes: u32,
    waits: u32,
    waited_for: Option<mover::Waiting>,
}

/// The moves to this node, until it restarts.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    running: BTreeMap<PartitionId, Running>,
    past: VecDeque<Past>,
}

impl History {
    /// Most moves that are remembered.
    pub(super) const LENGTH_MAX: usize = 256;

    /// Notes which moves are under way.
    pub(super) fn changed(&self, node: &Node) {
        let (state, me) = (node.state(), node.identity().node);
        let now = wall_ms();
        let mut book = self.book();
        for partition in state.targets_of(me) {
            let Some(row) = state.assignment(partition) else { continue };
            let known = book.running.get(&partition).map(|known| known.move_id);
            if known != Some(row.move_id) {
                book.begin(partition, Running::new(row.owner, me, row.move_id, now));
            }
        }
    }

    /// Returns what is remembered, the newest first.
    pub(super) fn past(&self) -> Vec<Past> {
        self.book().past.iter().rev().cloned().collect()
    }

    /// Returns how long the move took, if the note is that it has ended in a flip.
    fn note(&self, partition: PartitionId, note: &mover::Note, now: i64) -> Option<Duration> {
        let mut book = self.book();
        let before = book.running.get(&partition).map(|running| running.began_ms);
        book.note(partition, note, now);
        let began = before.filter(|_| matches!(note, mover::Note::Moved { .. }))?;
        Some(Duration::from_millis(u64::try_from(now.saturating_sub(began)).unwrap_or(0)))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    const fn new(from: NodeId, to: NodeId, move_id: MoveId, began_ms: i64) -> Self {
        Self {
            from,
            to,
            move_id,
            began_ms,
            copied_ms: None,
            frozen_ms: None,
            bytes: 0,
            passes: 0,
            waits: 0,
            waited_for: None,
        }
    }

    /// Returns how long each phase took. The freeze that counts is the last one.
    fn phases(&self, ended_ms: i64) -> Vec<PastPhase> {
        let mut phases = Vec::new();
        let mut from = self.began_ms;
        let copied = self.copied_ms.or(self.frozen_ms).unwrap_or(ended_ms);
        let frozen = self.frozen_ms.unwrap_or(ended_ms);
        for (phase, until, seen) in [
            (PastPhaseName::Copy, copied, true),
            (PastPhaseName::CatchUp, frozen, self.copied_ms.is_some()),
            (PastPhaseName::CutOver, ended_ms, self.frozen_ms.is_some()),
        ] {
            if seen {
                let ms = u64::try_from(until.saturating_sub(from)).unwrap_or(0);
                phases.push(PastPhase { phase, ms });
                from = until.max(from);
            }
        }
        phases
    }
}

impl Book {
    /// A plan that another one has replaced never ended by itself.
    fn begin(&mut self, partition: PartitionId, running: Running) {
        if let Some(before) = self.running.insert(partition, running) {
            self.end(partition, before, MoveEnd::Cancelled, running.began_ms, None);
        }
    }

    fn note(&mut self, partition: PartitionId, note: &mover::Note, now: i64) {
        let outcome = match note {
            mover::Note::Moved { freeze: None, .. } => MoveEnd::Promoted,
            mover::Note::Moved { freeze: Some(_), .. } => MoveEnd::Moved,
            mover::Note::AlreadyOwner { .. } => MoveEnd::AlreadyOwner,
            mover::Note::Cancelled { .. } => MoveEnd::Cancelled,
            mover::Note::Gone => MoveEnd::Deleted,
            mover::Note::PassEnded { copied_bytes, .. } => {
                return self.change(partition, |running| {
                    running.copied_ms = running.copied_ms.or(Some(now));
                    running.bytes += copied_bytes;
                    running.passes += 1;
                });
            }
            mover::Note::Frozen { tail_bytes, .. } => {
                return self.change(partition, |running| {
                    running.frozen_ms = Some(now);
                    running.bytes += tail_bytes;
                });
            }
            mover::Note::Released { .. } => {
                return self.change(partition, |running| running.frozen_ms = None);
            }
            mover::Note::Waiting(reason) => {
                return self.change(partition, |running| {
                    running.waits += 1;
                    running.waited_for = Some(*reason);
                });
            }
            mover::Note::Stale(_)
            | mover::Note::Resumed
            | mover::Note::NotConverged { .. }
            | mover::Note::Dropped { .. }
            | mover::Note::ChecksumMismatch { .. }
            | mover::Note::Cutover { .. }
            | mover::Note::CopyUnverifiable(_)
            | mover::Note::FlipUnknown { .. }
            | mover::Note::FlipRejected { .. }
            | mover::Note::Resolved { .. } => return,
        };
        let Some(mut running) = self.running.remove(&partition) else { return };
        let mut frozen = None;
        if let mover::Note::Moved { copied_bytes, passes, freeze, .. } = note {
            running.bytes = *copied_bytes;
            running.passes = *passes;
            frozen = *freeze;
        }
        self.end(partition, running, outcome, now, frozen);
    }

    fn change(&mut self, partition: PartitionId, change: impl FnOnce(&mut Running)) {
        if let Some(running) = self.running.get_mut(&partition) {
            change(running);
        }
    }

    fn end(
        &mut self,
        partition: PartitionId,
        running: Running,
        outcome: MoveEnd,
        ended_ms: i64,
        freeze: Option<mover::Freeze>,
    ) {
        let phases = running.phases(ended_ms);
        let Running { from, to, move_id, began_ms, bytes, passes, waits, waited_for, .. } = running;
        if self.past.len() >= History::LENGTH_MAX {
            self.past.pop_front();
        }
        self.past.push_back(Past {
            partition,
            from,
            to,
            move_id,
            outcome,
            began_ms,
            ended_ms,
            phases,
            bytes,
            passes,
            freeze,
            waits,
            waited_for,
        });
    }
}

/// Passes notes on, and remembers those of moves.
pub(super) struct Recorder<O> {
    pub(super) history: Arc<History>,
    pub(super) next: O,
}

impl<O: Observer> Observer for Recorder<O> {
    fn note(&mut self, note: &Note) {
        if let Note::Mover(partition, note) = note {
            let lasted = self.history.note(*partition, note, wall_ms());
            if let Some(lasted) = lasted {
                self.next.moved(lasted);
            }
        }
        self.next.note(note);
    }

    fn pulse(&mut self, pulse: &Pulse) {
        self.next.pulse(pulse);
    }

    fn moved(&mut self, lasted: Duration) {
        self.next.moved(lasted);
    }
}

#[cfg(test)]
mod tests {
    use narad_core::ids::{Attempt, Epoch, FreezeNo, Incarnation, Token, TopicId};

    use super::*;

    const P: PartitionId = PartitionId { topic: TopicId(1), index: 3 };

    fn began(move_id: u64, began_ms: i64) -> Running {
        Running::new(NodeId(1), NodeId(2), MoveId(move_id), began_ms)
    }

    fn moved(forced: bool) -> mover::Note {
        let attempt = Attempt::birth(NodeId(2));
        let (predicted, lasted) = (Duration::from_millis(5), Duration::from_millis(7));
        let freeze = mover::Freeze { predicted, lasted, ..mover::Freeze::default() };
        let freeze = (!forced).then_some(freeze);
        mover::Note::Moved { attempt, copied_bytes: 110, passes: 2, freeze }
    }

    fn frozen() -> mover::Note {
        let no = FreezeNo { incarnation: Incarnation(1), counter: 1 };
        mover::Note::Frozen { token: Token { epoch: Epoch(1), no }, tail_bytes: 10 }
    }

    #[test]
    fn a_move_is_told_with_its_phases() {
        let mut book = Book::default();
        book.begin(P, began(4, 1000));
        for (note, now) in [
            (mover::Note::PassEnded { pass: 1, copied_bytes: 90 }, 1500),
            (mover::Note::Waiting(mover::Waiting::SourceUnreachable), 1550),
            (mover::Note::Resumed, 1560),
            (mover::Note::PassEnded { pass: 2, copied_bytes: 10 }, 1600),
            (frozen(), 1700),
            (moved(false), 1710),
        ] {
            book.note(P, &note, now);
        }
        let past = &book.past[0];
        let ms: Vec<u64> = past.phases.iter().map(|phase| phase.ms).collect();
        assert_eq!(ms, [500, 200, 10]);
        assert_eq!((past.outcome, past.bytes, past.passes), (MoveEnd::Moved, 110, 2));
        let told = past.freeze.map(|freeze| (freeze.predicted, freeze.lasted));
        let ms = Duration::from_millis;
        assert_eq!((told, past.waits), (Some((ms(5), ms(7))), 1));
        assert!(book.running.is_empty());
    }

    /// A plan that another one replaces, one that is cancelled before it has copied anything, and a
    /// promotion have no phases that they did not reach.
    #[test]
    fn moves_that_end_early_are_told_too() {
        let mut book = Book::default();
        book.begin(P, began(4, 1000));
        book.begin(P, began(5, 1200));
        book.note(P, &mover::Note::Cancelled { staging_kept: false }, 1300);
        book.begin(P, began(6, 1400));
        book.note(P, &mover::Note::PassEnded { pass: 1, copied_bytes: 5 }, 1450);
        book.note(P, &moved(true), 1500);
        // A note of a move that began before this node remembers is no move.
        book.note(P, &moved(true), 1600);
        let told: Vec<_> = book
            .past
            .iter()
            .map(|past| (past.move_id.0, past.outcome, past.phases.len()))
            .collect();
        assert_eq!(
            told,
            [(4, MoveEnd::Cancelled, 1), (5, MoveEnd::Cancelled, 1), (6, MoveEnd::Promoted, 2),]
        );
    }

    #[test]
    fn only_the_last_moves_are_remembered() {
        let mut book = Book::default();
        for number in 0..1000 {
            book.begin(P, began(number, 0));
            book.note(P, &moved(false), 1);
        }
        assert_eq!(book.past.len(), History::LENGTH_MAX);
        assert_eq!(book.past.back().map(|past| past.move_id), Some(MoveId(999)));
    }
}
