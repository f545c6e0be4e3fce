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
//!    (H19), and not before it has led for a while (case M137).
//!
//! # After a restart
//!
//! Nothing is remembered: a new leader starts to listen anew and judges later.

mod deaths;
mod membership;
mod moves;
pub mod preflight;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;

use crate::config::Config;
use crate::effects::{Deadline, Effects, OpId, Ops};
use crate::ids::{Incarnation, LogIndex, NodeId, PartitionId};
use crate::metastore::{Applied, Command, Reason, Reply, State};
use crate::proposals::Proposed;
use crate::time::Instant;

pub use membership::Change;
pub use moves::placement;

/// Something the façade tells the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    },
    /// Something changed that a pass might act upon: no need to wait for the interval.
    Dirty,
}

/// Work with an answer. There is no operation that addresses another node (R6).
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Run an operation; exactly one [`Event::Done`] answers it, unless the process ends first.
    Run(OpId, Operation),
    /// An observation; nothing answers it.
    Note(Note),
}

/// Something worth knowing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Note {
    /// A member has not been heard of for `dead_timeout` and is being declared dead.
    Silent {
        /// The member.
        node: NodeId,
    },
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
    /// When each member was last heard of by this node, and in which life.
    heard: BTreeMap<NodeId, Heard>,
    /// Since when this node has seen each dead target dead.
    dead_since: BTreeMap<NodeId, Instant>,
    /// Why a draining node was refused its retirement last, so that it is noted once.
    blocked: BTreeMap<NodeId, Reason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Heard {
    incarnation: Incarnation,
    at: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Following,
    Idle { since: Instant, next: Instant },
    Surveying { since: Instant, op: OpId, again: bool },
    Proposing { since: Instant, pending: BTreeMap<OpId, Asked>, again: bool },
}

/// What a pending operation was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Retire(NodeId),
    Other,
}

impl Controller {
    /// Most commands that one pass proposes.
    pub const PASS_COMMANDS_MAX: usize = 64;

    /// How many entries a replica may lack and still count as caught up.
    pub const CAUGHT_UP_ENTRIES: u64 = 64;

    /// Starts as a follower.
    #[must_use]
    pub const fn new(me: NodeId, incarnation: Incarnation, config: Config) -> Self {
        Self {
            me,
            config,
            ops: Ops::new(incarnation),
            stage: Stage::Following,
            heard: BTreeMap::new(),
            dead_since: BTreeMap::new(),
            blocked: BTreeMap::new(),
        }
    }

    /// Advances by one event. `state` is what this node has applied.
    pub fn handle(&mut self, now: Instant, state: &State, event: Event, out: &mut Effects<Effect>) {
        match event {
            Event::Leading(true) => self.lead(now),
            Event::Leading(false) => self.stage = Stage::Following,
            Event::Heard { node, incarnation } => {
                self.heard.insert(node, Heard { incarnation, at: now });
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
            Stage::Following | Stage::Surveying { .. } | Stage::Proposing { .. } => None,
        }
    }

    /// Returns whether this node acts as the controller.
    #[must_use]
    pub const fn is_leading(&self) -> bool {
        !matches!(self.stage, Stage::Following)
    }

    fn lead(&mut self, now: Instant) {
        if !self.is_leading() {
            self.heard.clear();
            self.dead_since.clear();
            self.blocked.clear();
            self.stage = Stage::Idle { since: now, next: now };
        }
    }

    fn hurry(&mut self, now: Instant) {
        match &mut self.stage {
            Stage::Following => {}
            Stage::Idle { next, .. } => *next = now.min(*next),
            Stage::Surveying { again, .. } | Stage::Proposing { again, .. } => *again = true,
        }
    }

    fn wake(&mut self, now: Instant, out: &mut Effects<Effect>) {
        if let Stage::Idle { since, next } = self.stage
            && next <= now
        {
            let op = self.ops.mint();
            out.push(Effect::Run(op, Operation::Survey));
            self.stage = Stage::Surveying { since, op, again: false };
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
        let stage = mem::replace(&mut self.stage, Stage::Following);
        self.stage = match (stage, outcome) {
            (Stage::Surveying { since, op: mine, again }, Outcome::Survey(survey))
                if mine == op =>
            {
                match survey {
                    Some(survey) => self.pass(now, state, since, survey, again, out),
                    None => Stage::Idle { since, next: now.after(self.config.controller_interval) },
                }
            }
            (Stage::Proposing { since, mut pending, mut again }, outcome) => {
                if let Some(asked) = pending.remove(&op) {
                    again |= self.answered(asked, &outcome, out);
                }
                if pending.is_empty() {
                    self.rest(now, since, again)
                } else {
                    Stage::Proposing { since, pending, again }
                }
            }
            // An answer from before this node lost the lead, or of an earlier reign.
            (
                stage @ (Stage::Following | Stage::Idle { .. } | Stage::Surveying { .. }),
                Outcome::Survey(_)
                | Outcome::Propose(_)
                | Outcome::Configure(_)
                | Outcome::Transfer,
            ) => stage,
        };
    }

    /// Notes what came of an operation; returns whether another pass should follow at once.
    fn answered(&mut self, asked: Asked, outcome: &Outcome, out: &mut Effects<Effect>) -> bool {
        match (asked, outcome) {
            (Asked::Retire(node), Outcome::Propose(Proposed::Replied(Reply::Rejected(reason)))) => {
                if self.blocked.insert(node, *reason) != Some(*reason) {
                    out.push(Effect::Note(Note::RetireBlocked { node, reason: *reason }));
                }
                false
            }
            (Asked::Other, Outcome::Propose(Proposed::Replied(Reply::Rejected(reason)))) => {
                out.push(Effect::Note(Note::Outrun(*reason)));
                false
            }
            (_, Outcome::Propose(Proposed::Replied(Reply::Applied(applied)))) => {
                matches!(applied, Applied::Done)
            }
            (_, Outcome::Configure(handed)) => *handed,
            (_, Outcome::Propose(Proposed::Unknown) | Outcome::Transfer | Outcome::Survey(_)) => {
                false
            }
        }
    }

    fn rest(&self, now: Instant, since: Instant, again: bool) -> Stage {
        let pause = if again { self.config.pass_interval } else { self.config.controller_interval };
        Stage::Idle { since, next: now.after(pause) }
    }

    /// One look at the whole state: deaths, first owners, plans, votes.
    fn pass(
        &mut self,
        now: Instant,
        state: &State,
        since: Instant,
        survey: Survey,
        again: bool,
        out: &mut Effects<Effect>,
    ) -> Stage {
        let mut decisions = Decisions::default();
        self.judge_deaths(now, state, since, &mut decisions);
        moves::assign(state, &mut decisions);
        self.give_up_targets(now, state, &mut decisions);
        moves::plan(state, &mut decisions);
        membership::retire(state, &mut decisions);
        membership::configure(self.me, state, &survey, &mut decisions);
        drop(survey);

        for note in decisions.notes {
            out.push(Effect::Note(note));
        }
        let mut pending = BTreeMap::new();
        for command in decisions.commands {
            let asked = match &command {
                Command::Retire { node, .. } => Asked::Retire(*node),
                _ => Asked::Other,
            };
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
            return self.rest(now, since, again);
        }
        Stage::Proposing { since, pending, again }
    }
}

/// What one pass wants.
#[derive(Debug, Default)]
struct Decisions {
    commands: Vec<Command>,
    operations: Vec<Operation>,
    notes: Vec<Note>,
    /// Partitions that a command of this pass is about already.
    busy: BTreeSet<PartitionId>,
}

impl Decisions {
    /// Adds a command, unless the pass has as many as it may.
    fn propose(&mut self, command: Command) -> bool {
        let room = self.commands.len() < Controller::PASS_COMMANDS_MAX;
        if room {
            self.commands.push(command);
        }
        room
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
