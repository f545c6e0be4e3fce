//! The leader's policy: who is dead, what moves where, who has a vote.
//!
//! # Purpose
//!
//! Only the Raft leader runs it. It looks at the replicated state behind a barrier, decides what
//! should change, and proposes that as guarded commands: it talks to the log and to nobody else
//! (R4, R6, R10). Whatever it decided on a stale view is rejected when it is applied (H29).
//!
//! # States
//!
//! ```text
//!             lead                 tick or dirty             survey answered
//! Following ───────▶ Idle ───────────────────▶ Surveying ───────────────────▶ Proposing
//!     ▲               ▲                            │                              │
//!     │ lost          └───────── failed ───────────┴───── all answered ───────────┘
//!     └─ from every state
//! ```
//!
//! # Invariants
//!
//! 1. No decision without a barrier: a pass takes a [`Survey`] by value, and a survey comes from a
//!    barrier only (R77, R79).
//! 2. One pass at a time: a new survey begins when the last proposal of the pass before it has
//!    been answered (R78).
//! 3. Nobody is judged dead by anything but this node's own clock and what it received itself
//!    (H19), not before it has led for a while, and not by one that has slept (case M137).
//! 4. Nothing is planned while a target of an earlier pass may still be set or not (S14): a barrier
//!    does not show what is appended and not committed.
//! 5. At most [`Controller::PASS_COMMANDS_MAX`] commands and one step of the configuration leave
//!    one pass, and two passes are at least `pass_interval` apart.
//!
//! # After a restart
//!
//! Nothing is remembered: a new leader starts to listen anew and judges later.

mod deaths;
mod decisions;
mod doubts;
mod ledger;
mod membership;
mod moves;
pub mod preflight;
pub mod stopping;
pub mod verdict;

use alloc::collections::{BTreeMap, BTreeSet};
use core::mem;

use crate::config::Config;
use crate::effects::{Deadline, Effects, OpId, Ops};
use crate::ids::{Incarnation, LogIndex, MoveId, NodeId, PartitionId};
use crate::metastore::{Changed, Command, Reason, Reply, State};
use crate::proposals::Proposed;
use crate::time::Instant;

use deaths::Hearing;
use decisions::Decisions;
use doubts::Doubts;
use ledger::Ledger;
pub use membership::Change;
use membership::Retirement;
pub use moves::{limits, placement};

/// Something the façade tells the controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Time passed.
    Wake,
    /// An operation ended.
    Done(OpId, Outcome),
    /// This node began or ceased to lead.
    Leading(bool),
    /// A member was heard of, on this node's own clock.
    Heard {
        /// The member.
        node: NodeId,
        /// The life that spoke.
        incarnation: Incarnation,
        /// Moves to it that cannot go on.
        stuck: BTreeSet<(PartitionId, MoveId)>,
    },
    /// Something changed that a pass might act upon: no need to wait for the interval.
    Dirty,
}

/// Work with an answer. There is no operation that addresses another node (R6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A read barrier, and how far each replica has come.
    Survey,
    /// Append a command to the log.
    Propose(Command),
    /// Change who takes part in the log.
    Configure(Change),
    /// Hand the lead to another voter.
    Transfer {
        /// Who is to lead.
        to: NodeId,
    },
}

/// How an operation ended. Variants mirror [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// See [`Operation::Survey`]; `None` if no barrier was reached.
    Survey(Option<Survey>),
    /// See [`Operation::Propose`].
    Propose(Proposed),
    /// See [`Operation::Configure`]: whether it was handed to the log. Its effect shows in the
    /// configuration.
    Configure(bool),
    /// See [`Operation::Transfer`]: it was asked for. Its effect shows in who leads.
    Transfer,
}

/// What the log looked like behind a barrier; the leave to make decisions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Survey {
    barrier: LogIndex,
    matched: BTreeMap<NodeId, LogIndex>,
}

impl Survey {
    /// Records a barrier that this node has reached and applied.
    #[must_use]
    pub const fn behind_barrier(barrier: LogIndex, matched: BTreeMap<NodeId, LogIndex>) -> Self {
        Self { barrier, matched }
    }

    /// Whether a replica has all but the last few entries. One that has never answered has none,
    /// however short the log is: given a vote, it would be missed from the first day on.
    fn is_caught_up(&self, node: NodeId) -> bool {
        let matched = self.matched.get(&node).copied().unwrap_or_default();
        matched.0 > 0 && matched.0 + Controller::CAUGHT_UP_ENTRIES >= self.barrier.0
    }
}

/// Something the controller asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Run an operation; exactly one [`Event::Done`] answers it, unless the process ends first.
    Run(OpId, Operation),
    /// An observation; nothing answers it.
    Note(Note),
}

/// Something worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Note {
    /// A member has not been heard of for `dead_timeout` and is being declared dead.
    Silent {
        /// The member.
        node: NodeId,
    },
    /// Members are silent, but so are more voters than can be: the fault is on this side, nobody
    /// is declared dead.
    Deaf,
    /// Moves were planned.
    Planned {
        /// How many start now.
        started: u32,
        /// How many wait for a slot.
        deferred: u32,
    },
    /// A plan is given up because its target cannot take it.
    TargetGivenUp {
        /// The partition.
        partition: PartitionId,
        /// The target.
        target: NodeId,
    },
    /// A draining node cannot be taken out yet.
    RetireBlocked {
        /// The node.
        node: NodeId,
        /// Why.
        reason: Reason,
    },
    /// The configuration of the log is being changed.
    Configuring(Change),
    /// The lead is handed away from a leaving node (R88).
    HandingOver {
        /// To whom.
        to: NodeId,
    },
    /// A guarded command met a state that had moved on (H29).
    Outrun(Reason),
}

/// Decides for the cluster while its node leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    me: NodeId,
    config: Config,
    ops: Ops,
    stage: Stage,
    hearing: Hearing,
    /// Whether fewer voters were heard than can be, so that it is noted once.
    deaf: bool,
    /// The life of each member whose death this reign has asked for last.
    condemned: BTreeMap<NodeId, Incarnation>,
    /// Since when this node has seen each dead target dead.
    dead_since: BTreeMap<NodeId, Instant>,
    retiring: BTreeMap<NodeId, Retirement>,
    /// Since when this node has seen a joint change under way.
    joint_since: Option<Instant>,
    /// Who was asked to take the lead over.
    heirs: BTreeSet<NodeId>,
    /// Where the log was at the last plan, if it started nothing.
    planned: Option<LogIndex>,
    /// Targets of which nobody knows whether they were set.
    doubts: Doubts,
    ledger: Ledger,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Following,
    /// `earliest`: when a pass may begin if something changes before `next`.
    Idle {
        earliest: Instant,
        next: Instant,
    },
    Surveying {
        op: OpId,
        again: bool,
    },
    Proposing {
        pending: BTreeMap<OpId, Asked>,
        again: bool,
    },
}

/// What a pending operation was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Retire(NodeId),
    /// The target of a row, as it was at this move id.
    Target(PartitionId, MoveId),
    /// Whether such a target was set.
    Doubt(PartitionId),
    Other,
}

impl Controller {
    /// Most commands that one pass proposes.
    pub const PASS_COMMANDS_MAX: usize = 64;

    /// How many entries a replica may lack and still count as caught up.
    pub const CAUGHT_UP_ENTRIES: u64 = 64;

    /// Starts as a follower.
    #[must_use]
    pub fn new(me: NodeId, incarnation: Incarnation, config: Config) -> Self {
        Self {
            me,
            config,
            ops: Ops::new(incarnation),
            stage: Stage::Following,
            hearing: Hearing::new(Instant::ORIGIN),
            deaf: false,
            condemned: BTreeMap::new(),
            dead_since: BTreeMap::new(),
            retiring: BTreeMap::new(),
            joint_since: None,
            heirs: BTreeSet::new(),
            planned: None,
            doubts: Doubts::new(),
            ledger: Ledger::default(),
        }
    }

    /// Takes note of what the entry at `applied` has changed in the state, so that the next pass
    /// need not read all of it. One that is told of nothing reads everything.
    pub fn changed(&mut self, applied: LogIndex, changed: &Changed) {
        if self.is_leading() {
            self.ledger.note(applied, changed);
        } else {
            self.ledger.forget();
        }
    }

    /// Advances by one event. `state` is what this node has applied.
    pub fn handle(&mut self, now: Instant, state: &State, event: Event, out: &mut Effects<Effect>) {
        self.hearing.stay_awake(now, &self.config, state.policy());
        match event {
            Event::Leading(true) => self.lead(now),
            Event::Leading(false) => self.stage = Stage::Following,
            Event::Heard { node, incarnation, stuck } => {
                if self.hearing.hear(now, node, incarnation, stuck) {
                    self.planned = None;
                    self.hurry(now);
                }
            }
            Event::Dirty => self.hurry(now),
            Event::Wake => self.wake(now, out),
            Event::Done(op, outcome) => self.done(now, state, op, outcome, out),
        }
    }

    /// Returns when the controller wants to be woken.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        match &self.stage {
            Stage::Idle { next, .. } => Some(Deadline { at: *next, why: "controller pass" }),
            Stage::Surveying { .. } | Stage::Proposing { .. } => {
                let at = self.hearing.look_again(self.config.controller_interval);
                Some(Deadline { at, why: "the controller stays awake" })
            }
            Stage::Following => None,
        }
    }

    /// Returns whether this node acts as the controller.
    #[must_use]
    pub const fn is_leading(&self) -> bool {
        !matches!(self.stage, Stage::Following)
    }

    fn lead(&mut self, now: Instant) {
        if !self.is_leading() {
            let (me, config, ops) = (self.me, self.config.clone(), self.ops.clone());
            let stage = Stage::Idle { earliest: now, next: now };
            let hearing = Hearing::new(now);
            // Whatever an earlier reign knew is not known any more, except which ids it used.
            *self = Self { ops, stage, hearing, ..Self::new(me, Incarnation(0), config) };
        }
    }

    fn hurry(&mut self, now: Instant) {
        match &mut self.stage {
            Stage::Following => {}
            Stage::Idle { earliest, next } => *next = now.max(*earliest).min(*next),
            Stage::Surveying { again, .. } | Stage::Proposing { again, .. } => *again = true,
        }
    }

    fn wake(&mut self, now: Instant, out: &mut Effects<Effect>) {
        if let Stage::Idle { next, .. } = self.stage
            && next <= now
        {
            let op = self.ops.mint();
            out.push(Effect::Run(op, Operation::Survey));
            self.stage = Stage::Surveying { op, again: false };
        }
    }

    fn done(
        &mut self,
        now: Instant,
        state: &State,
        op: OpId,
        outcome: Outcome,
        out: &mut Effects<Effect>,
    ) {
        let before = mem::replace(&mut self.stage, Stage::Following);
        self.stage = match (before, outcome) {
            (Stage::Surveying { op: mine, again }, Outcome::Survey(survey)) if mine == op => {
                match survey {
                    Some(survey) => self.pass(now, state, &survey, again, out),
                    None => self.rest(now, false),
                }
            }
            (Stage::Proposing { mut pending, again }, outcome) => {
                if let Some(asked) = pending.remove(&op) {
                    self.answered(asked, &outcome, out);
                }
                if pending.is_empty() {
                    self.rest(now, again)
                } else {
                    Stage::Proposing { pending, again }
                }
            }
            // An answer from before this node lost the lead, or of an earlier reign.
            (
                unmoved @ (Stage::Following | Stage::Idle { .. } | Stage::Surveying { .. }),
                Outcome::Survey(_)
                | Outcome::Propose(_)
                | Outcome::Configure(_)
                | Outcome::Transfer,
            ) => unmoved,
        };
    }

    /// Notes what came of an operation. What it changed shows in the state, and asks for another
    /// pass there.
    fn answered(&mut self, asked: Asked, outcome: &Outcome, out: &mut Effects<Effect>) {
        let Outcome::Propose(proposed) = outcome else { return };
        match (asked, proposed) {
            (Asked::Retire(node), Proposed::Replied(Reply::Rejected(reason))) => {
                let known = self.retiring.get_mut(&node);
                let before = known.and_then(|known| known.refused.replace(*reason));
                if before != Some(*reason) {
                    out.push(Effect::Note(Note::RetireBlocked { node, reason: *reason }));
                }
            }
            // Nobody knows: it is asked again.
            (Asked::Retire(node), Proposed::Unknown) => {
                self.retiring.remove(&node);
            }
            (Asked::Target(partition, planned_on), Proposed::Unknown) => {
                self.doubt(partition, planned_on);
            }
            // The target is there, or the row has another id, under which a late one is refused.
            (Asked::Doubt(partition), Proposed::Replied(_)) => {
                self.doubts.remove(&partition);
            }
            (Asked::Target(..) | Asked::Other, Proposed::Replied(Reply::Rejected(reason))) => {
                out.push(Effect::Note(Note::Outrun(*reason)));
            }
            (
                Asked::Retire(_) | Asked::Target(..) | Asked::Other,
                Proposed::Replied(Reply::Applied(_)),
            )
            | (Asked::Doubt(_) | Asked::Other, Proposed::Unknown) => {}
        }
    }

    fn rest(&self, now: Instant, again: bool) -> Stage {
        let earliest = now.after(self.config.pass_interval);
        let next = now.after(self.config.controller_interval);
        Stage::Idle { earliest, next: if again { earliest } else { next } }
    }

    /// One look at the whole state: deaths, first owners, plans, votes.
    fn pass(
        &mut self,
        now: Instant,
        state: &State,
        survey: &Survey,
        again: bool,
        out: &mut Effects<Effect>,
    ) -> Stage {
        let mut decisions = Decisions::default();
        self.judge_deaths(now, state, &mut decisions);
        self.assign(state, &mut decisions);
        self.give_up_targets(now, state, &mut decisions);
        if self.settle_doubts(state, &mut decisions) {
            self.plan(state, &mut decisions);
        }
        self.retire(now, state, &mut decisions);
        self.configure(now, state, survey, &mut decisions);

        for note in decisions.notes {
            out.push(Effect::Note(note));
        }
        let mut pending = BTreeMap::new();
        for command in decisions.commands {
            let asked = self.asked(&command);
            let op = self.ops.mint();
            out.push(Effect::Run(op, Operation::Propose(command)));
            pending.insert(op, asked);
        }
        for operation in decisions.operations {
            let op = self.ops.mint();
            out.push(Effect::Run(op, operation));
            pending.insert(op, Asked::Other);
        }
        if pending.is_empty() {
            return self.rest(now, again);
        }
        Stage::Proposing { pending, again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that joins a young cluster and is never heard of again gets no vote.
    #[test]
    fn a_replica_that_never_answered_is_not_caught_up() {
        let survey = |matched| Survey {
            barrier: LogIndex(11),
            matched: [(NodeId(2), LogIndex(matched))].into(),
        };
        assert!(!survey(0).is_caught_up(NodeId(2)));
        assert!(!survey(5).is_caught_up(NodeId(3)));
        assert!(survey(1).is_caught_up(NodeId(2)));
    }
}
