//! One reign over one partition, as its owner sees it: who may copy, who may freeze, until when.
//!
//! # Purpose
//!
//! Answers the destination of the present move, keeps the partition's [gate](super::gate) standing
//! as the applied row says, and owns the life of freezes: it asks the gate for one, renews it while
//! the copy makes progress, and ends it through the replicated log.
//!
//! # States
//!
//! ```text
//!          Prepare            captured             TTL, cap, Release,
//!   Open ──────────▶ Freezing ────────▶ Held ──────────────────────────▶ Revoking ◀─┐ Unknown,
//!    ▲ ▲                │                │          newer attempt          │   └────┘ rejected
//!    │ └── not frozen ──┘                │ later row                       │ Revoke applied,
//!    │                  never told       ▼                                 ▼ later row
//!    └───────────────────────────────── Thawing ◀──────────────────────────┘
//!
//!   any ── the reign or the life ends ──▶ Voided ── the gate stands anew ──▶ Open
//! ```
//!
//! Beside it: the standing of the gate (one [`Operation::Stand`] under way at a time, repeated until
//! it is as the row says), and up to [`Handoff::LISTINGS_MAX`] listings.
//!
//! # Invariants
//!
//! 1. A freeze that somebody was told of is thawed only when its `Revoke` is applied, or a row with
//!    a later move id or epoch; never on a clock, never on Unknown (H1, S9).
//! 2. A listing is answered only for the plan in the applied row, and after the gate has noted that
//!    the partition is in play (H30, H45).
//! 3. Only the present target freezes, once per attempt; the same attempt hears the same capture
//!    again and gets no more time by it (H21, H41, case F17).
//! 4. Every freeze ends: by lack of progress, by the cap, by release, by a newer attempt; and the
//!    next one waits for the duty measure (H20, H22, L2, R40).
//! 5. At most one freeze at a time; at most [`Handoff::EFFECTS_MAX`] effects per event (asserted).
//!
//! # After a restart
//!
//! Nothing is remembered, and nothing needs to be: freezes of an earlier life are void once the
//! next life is registered (H6), and a row with a target puts the partition in play again.
//! [`Handoff::new`] therefore serves only what was registered first.
//!
//! # Example
//!
//! A destination lists, and the partition is noted to be in play before the answer leaves:
//!
//! ```
//! use narad_core::config::Config;
//! use narad_core::effects::Effects;
//! use narad_core::freeze::gate::Standing;
//! use narad_core::freeze::handoff::{Effect, Handoff, Operation, Reign};
//! use narad_core::ids::{Attempt, Epoch, Incarnation, MoveId, NodeId, Offset, PartitionId, TopicId};
//! use narad_core::metastore::Assignment;
//!
//! let row = Assignment {
//!     owner: NodeId(1),
//!     epoch: Epoch(1),
//!     data: Attempt::birth(NodeId(1)),
//!     min_end: Offset(0),
//!     lineage: Vec::new(),
//!     lineage_cut: false,
//!     target: Some(NodeId(2)),
//!     move_id: MoveId(3),
//!     burned: None,
//!     revoked: None,
//!     reported_hwm: None,
//!     pinned: false,
//! };
//! let reign = Reign {
//!     node: NodeId(1),
//!     partition: PartitionId { topic: TopicId(7), index: 2 },
//!     life: Incarnation(4),
//!     registered: true,
//! };
//! let mut out = Effects::default();
//! let handoff = Handoff::new(&Config::new(1), reign, &row, &mut out);
//! let serving = Standing::Serving { epoch: Epoch(1), life: Incarnation(4), in_play: true };
//! assert!(matches!(out.as_slice(), [Effect::Run(_, Operation::Stand(s))] if *s == serving));
//! assert!(!handoff.is_frozen() && !handoff.is_over());
//! ```

use alloc::vec::Vec;
use core::mem;

use self::hold::{Cx, Here, Hold};
use self::listings::Listings;
use super::duty::Duty;
use super::gate::Standing;
use crate::config::Config;
use crate::effects::{Deadline, Effects, OpId, Ops};
use crate::ids::{Attempt, AttemptNo, FreezeNo, Incarnation, MoveId, NodeId, PartitionId};
use crate::metastore::Assignment;
use crate::pause::Pauses;
use crate::peer::{Answer, Refusal, RequestId};
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

pub use interface::{
    Cause, DiskFault, Effect, Event, FreezeFault, HandoffRequest, Note, Operation, Outcome,
};

mod hold;
mod interface;
mod listings;
#[cfg(test)]
mod tests;

/// Whose reign a [`Handoff`] watches over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reign {
    /// This node, the owner.
    pub node: NodeId,
    /// The partition.
    pub partition: PartitionId,
    /// The node's present life.
    pub life: Incarnation,
    /// Whether that life's `Register` is applied, at or before the row.
    pub registered: bool,
}

/// The source side of one reign over one partition; see the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handoff {
    here: Here,
    registered: bool,
    /// What the applied row says; `None` once the reign is over.
    plan: Option<Plan>,
    gate: GateView,
    listings: Listings,
    /// The highest try of the present move that asked for a freeze: lower ones are museum pieces.
    newest: Option<AttemptNo>,
    hold: Hold,
    ops: Ops,
    /// Operations whose answers change nothing any more, but are awaited before this machine is
    /// over.
    abandoned: Vec<OpId>,
    duty: Duty,
    pauses: Pauses,
}

/// The part of the row that matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Plan {
    move_id: MoveId,
    target: Option<NodeId>,
    burned: Option<AttemptNo>,
    revoked: Option<FreezeNo>,
}

/// How the gate stands as far as this machine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GateView {
    standing: Standing,
    under_way: Option<(OpId, Standing)>,
}

impl Handoff {
    /// Most listings that are prepared at once. A destination has one under way; more are repeats.
    pub const LISTINGS_MAX: usize = 4;

    /// Most repeats of a Prepare that wait for the same freeze.
    pub const ASKERS_MAX: usize = 4;

    /// Most effects of one event.
    pub const EFFECTS_MAX: usize = Self::LISTINGS_MAX + Self::ASKERS_MAX + 5;

    /// Begins the watch over a partition that the applied row gives to this node, whose log is
    /// open.
    ///
    /// # Panics
    ///
    /// If the row names another owner.
    pub fn new(config: &Config, reign: Reign, row: &Assignment, out: &mut Effects<Effect>) -> Self {
        let Reign { node, partition, life, registered } = reign;
        assert_eq!(row.owner, node, "only the owner hands off");
        let salt = partition.topic.0.rotate_left(32) ^ u64::from(partition.index);
        let mut this = Self {
            here: Here::new(config, node, partition, row.epoch, life),
            registered,
            plan: None,
            gate: GateView { standing: Standing::Closed, under_way: None },
            listings: Listings::default(),
            newest: None,
            hold: Hold::Open,
            ops: Ops::new(life),
            abandoned: Vec::new(),
            duty: Duty::new(config),
            pauses: Pauses::new(config, salt),
        };
        this.plan = this.read(row);
        this.settle(out);
        this
    }

    /// Advances the machine by one event.
    ///
    /// # Panics
    ///
    /// If a row goes backwards, or the gate froze in another reign than it was asked to.
    pub fn handle(&mut self, now: Instant, event: Event, out: &mut Effects<Effect>) {
        let before = out.as_slice().len();
        match event {
            Event::Wake => self.advance(now, out, Hold::wake),
            Event::Done(op, outcome) => self.done(now, op, outcome, out),
            Event::Row(row) => self.row(now, row.as_ref(), out),
            Event::NewLife(life) => self.new_life(now, life, out),
            Event::Registered(life) => self.registered |= life == self.here.life,
            Event::Request(id, asker, request) => self.request(now, id, asker, request, out),
        }
        self.settle(out);
        let effects = out.as_slice().len() - before;
        assert!(effects <= Self::EFFECTS_MAX, "{effects} effects of one event");
    }

    /// Returns when the machine wants to be woken.
    pub fn deadline(&self) -> Option<Deadline> {
        self.hold.deadline(&self.here)
    }

    /// Returns whether nothing is admitted, from the asking until the gate is open again; counts
    /// against the share of a topic that may be frozen at once (S14).
    pub fn is_frozen(&self) -> bool {
        !matches!(self.hold, Hold::Open)
    }

    /// Returns whether the reign is over, but the gate may not know it yet and serve on.
    pub fn is_closing(&self) -> bool {
        let closed = GateView { standing: Standing::Closed, under_way: None };
        self.plan.is_none() && self.gate != closed
    }

    /// Returns whether the reign is over, the gate closed, and every operation answered: only then
    /// may another reign of the same partition begin here.
    pub fn is_over(&self) -> bool {
        self.plan.is_none()
            && !self.is_closing()
            && self.listings.is_empty()
            && self.abandoned.is_empty()
            && !self.is_frozen()
    }

    fn done(&mut self, now: Instant, op: OpId, outcome: Outcome, out: &mut Effects<Effect>) {
        if let Some(at) = self.abandoned.iter().position(|abandoned| *abandoned == op) {
            self.abandoned.swap_remove(at);
            return;
        }
        match (outcome, self.gate.under_way) {
            (Outcome::Stand, Some((under_way, standing))) if under_way == op => {
                self.gate = GateView { standing, under_way: None };
                let reign = standing.reign();
                self.advance(now, out, |hold, cx| hold.stood(reign, cx));
            }
            (Outcome::Listing(result), _) => match self.listings.take(op) {
                Some(asked) => {
                    let fresh = asked.life == self.here.life;
                    let judged = self.judge(asked.move_id, asked.asker);
                    let answer = match (judged, result) {
                        (Err(refusal), _) => Answer::Refused(refusal),
                        (Ok(()), Ok(listing)) if fresh => Answer::Listing(listing),
                        (Ok(()), Ok(_)) => Answer::Refused(Refusal::NotServing),
                        (Ok(()), Err(DiskFault)) => Answer::Refused(Refusal::Disk),
                    };
                    out.push(Effect::Answer(asked.request, answer));
                }
                None => out.push(Effect::Note(Note::Stale(op))),
            },
            (outcome, _) => self.advance(now, out, |hold, cx| hold.done(op, outcome, cx)),
        }
    }

    fn row(&mut self, now: Instant, row: Option<&Assignment>, out: &mut Effects<Effect>) {
        let Some(before) = self.plan else { return };
        self.plan = row.and_then(|row| self.read(row));
        let Some(plan) = self.plan else {
            let reign = self.here.reign();
            self.advance(now, out, |hold, cx| hold.void(reign, Refusal::NotOwner, cx));
            return;
        };
        assert!(plan.move_id >= before.move_id, "an applied row does not go backwards (S16)");
        let passed = plan.move_id > before.move_id;
        if passed {
            self.newest = None;
        }
        self.advance(now, out, |hold, cx| hold.row(passed, plan.burned, plan.revoked, cx));
    }

    /// Reads a row; `None` if this reign is over in it.
    fn read(&self, row: &Assignment) -> Option<Plan> {
        let ours = row.owner == self.here.node && row.epoch == self.here.epoch;
        let Assignment { move_id, target, burned, revoked, .. } = *row;
        ours.then_some(Plan { move_id, target, burned, revoked })
    }

    fn new_life(&mut self, now: Instant, life: Incarnation, out: &mut Effects<Effect>) {
        assert!(life > self.here.life, "a life is followed by a later one (S16)");
        let reign = self.here.reign();
        self.here.life = life;
        self.registered = false;
        self.advance(now, out, |hold, cx| hold.void(reign, Refusal::NotServing, cx));
    }

    fn request(
        &mut self,
        now: Instant,
        id: RequestId,
        asker: NodeId,
        request: HandoffRequest,
        out: &mut Effects<Effect>,
    ) {
        match request {
            HandoffRequest::List { move_id, check } => {
                let judged = self.judge(move_id, asker);
                let life = self.here.life;
                let refused = match judged {
                    Ok(()) => self.listings.ask(id, asker, move_id, life, check),
                    Err(refusal) => Err(refusal),
                };
                if let Err(refusal) = refused {
                    out.push(Effect::Answer(id, Answer::Refused(refusal)));
                }
            }
            HandoffRequest::Prepare { attempt } => match self.judge_attempt(attempt, asker) {
                Ok(()) => {
                    self.newest = Some(attempt.no);
                    self.advance(now, out, |hold, cx| hold.prepare(id, attempt, cx));
                }
                Err(refusal) => out.push(Effect::Answer(id, Answer::Refused(refusal))),
            },
            HandoffRequest::Renew { token, staged_bytes } => {
                self.advance(now, out, |hold, cx| hold.renew(id, asker, token, staged_bytes, cx));
            }
            HandoffRequest::Release { token } => {
                self.advance(now, out, |hold, cx| hold.release(id, asker, token, cx));
            }
        }
    }

    /// Judges whether a plan is the one that the applied row has.
    fn judge(&self, move_id: MoveId, asker: NodeId) -> Result<(), Refusal> {
        let plan = self.plan.ok_or(Refusal::NotOwner)?;
        if !self.registered {
            Err(Refusal::NotServing)
        } else if plan.move_id < move_id {
            Err(Refusal::NotYet)
        } else if plan.move_id > move_id || plan.target != Some(asker) {
            Err(Refusal::NoSuchMove)
        } else {
            Ok(())
        }
    }

    /// Judges whether a try may freeze: the target's own, not burned, and none before its newest.
    fn judge_attempt(&self, attempt: Attempt, asker: NodeId) -> Result<(), Refusal> {
        if !is_planted(Bug::FreezeOfAnyMove) {
            self.judge(attempt.move_id, asker)?;
        }
        if attempt.destination != asker {
            return Err(Refusal::NoSuchMove);
        }
        let burned = self.plan.and_then(|plan| plan.burned);
        if Some(attempt.no) <= burned || Some(attempt.no) < self.newest {
            return Err(Refusal::NoSuchFreeze);
        }
        if self.gate.standing.reign() != Some(self.here.reign()) {
            return Err(Refusal::NotServing);
        }
        Ok(())
    }

    /// Brings the gate, and the listings that wait for it, to where the row wants them.
    fn settle(&mut self, out: &mut Effects<Effect>) {
        let Here { epoch, life, .. } = self.here;
        let wanted = match self.plan {
            None => Standing::Closed,
            Some(_) if !self.registered => Standing::Reading { epoch },
            Some(plan) => Standing::Serving { epoch, life, in_play: plan.target.is_some() },
        };
        if self.gate.under_way.is_none() && self.gate.standing != wanted {
            let op = self.ops.mint();
            self.gate.under_way = Some((op, wanted));
            out.push(Effect::Run(op, Operation::Stand(wanted)));
        }
        let settled = self.gate.under_way.is_none();
        for asked in self.listings.waiting() {
            match self.judge(asked.move_id, asked.asker) {
                Err(refusal) => {
                    out.push(Effect::Answer(asked.request, Answer::Refused(refusal)));
                }
                // The row has a target, so a gate that stands as wanted has noted "in play".
                Ok(()) if settled || is_planted(Bug::ListedBeforeInPlay) => {
                    let op = self.ops.mint();
                    let check = self.listings.begin(asked, life, op);
                    out.push(Effect::Run(op, Operation::Listing { check }));
                }
                Ok(()) => self.listings.wait(asked),
            }
        }
    }

    fn advance(
        &mut self,
        now: Instant,
        out: &mut Effects<Effect>,
        step: impl FnOnce(Hold, &mut Cx<'_>) -> Hold,
    ) {
        let mut cx = Cx {
            now,
            here: &self.here,
            ops: &mut self.ops,
            abandoned: &mut self.abandoned,
            duty: &mut self.duty,
            pauses: &mut self.pauses,
            out,
        };
        self.hold = step(mem::replace(&mut self.hold, Hold::Poisoned), &mut cx);
    }
}
