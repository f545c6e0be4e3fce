//! May this node commit: its registration and its owner lease.
//!
//! # Purpose
//!
//! A node commits only in a life that the replicated log knows and takes to be alive; for a
//! partition that somebody could flip away it also needs a lease, so that it has stopped before
//! anybody else may begin (H9). This machine registers the node, sends the heartbeats that renew
//! the lease, and takes the next life when the node finds itself Dead (H32). What it has found
//! leaves as one small value, the [`Authority`], which all gates share.
//!
//! # States
//!
//! ```text
//!                     own row: Alive in this life
//!   Registering ─────────────────────────────────▶ Registered ──▶ heartbeat, wait, heartbeat, ..
//!     │    ▲                                           │                 no leader: wait for one
//!     │    └───────── Reviving ◀───────────────────────┘
//!     │             (next life made durable)     own row: Dead in this life
//!     └──▶ Superseded     own row: a later life than this one; for good
//! ```
//!
//! # Invariants
//!
//! 1. Authority is given only for a life whose `Register` is applied here, while the own row says
//!    Alive (H6, H34, case M133).
//! 2. The lease counts from the instant at which a heartbeat was *sent*, and only once the read
//!    barrier that the answer names is applied here, and no gate still serves a reign that ended
//!    by then: a gate is told by an operation, which may take a while (H8, H9, H28, H31). Whom to
//!    ask is the word of the own consensus; where a refusal points instead is asked for as long as
//!    it answers, and is never this node, which knows by itself whether it leads.
//! 3. A lease ends with the life that it was given to (H32).
//! 4. One heartbeat and one proposal under way at a time; at most [`Lease::ANSWERS_MAX`] answers
//!    wait for their barrier. At most [`Lease::EFFECTS_MAX`] effects per event (asserted).
//! 5. It never gives up: every pause ends in another try (L1).
//!
//! `lease * (1 + rho) + margin < (dead_timeout + force_promote_after) * (1 - rho)` is checked where
//! the policy is applied, so the lease is used as it is, on this node's own clock.
//!
//! # After a restart
//!
//! The driver made the next incarnation durable before it starts this machine, which knows nothing
//! else: no authority until that life is registered, no lease until a heartbeat is answered (field
//! fault 10).
//!
//! # Example
//!
//! A fresh node may nothing, and proposes its registration at once:
//!
//! ```
//! use narad_core::config::{Config, Policy};
//! use narad_core::effects::Effects;
//! use narad_core::freeze::Authority;
//! use narad_core::ids::{Incarnation, NodeId, StoreUuid};
//! use narad_core::lease::{Effect, Identity, Lease, Operation};
//! use narad_core::metastore::{Addresses, Command};
//!
//! let me = Identity { node: NodeId(4), store_uuid: StoreUuid(9), addrs: Addresses::default() };
//! let mut out = Effects::default();
//! let lease = Lease::new(&Config::new(1), me, Incarnation(3), Policy::default().lease, &mut out);
//! assert_eq!(lease.authority(), Authority::NONE);
//! assert!(matches!(
//!     out.as_slice(),
//!     [Effect::Run(_, Operation::Propose(Command::Register { incarnation: Incarnation(3), .. }))]
//! ));
//! ```

use alloc::vec::Vec;
use core::time::Duration;

use crate::config::Config;
use crate::effects::{Deadline, Effects, OpId, Ops};
use crate::freeze::Authority;
use crate::ids::{Incarnation, LogIndex, NodeId};
use crate::metastore::{Command, Reply, Status};
use crate::pause::Pauses;
use crate::peer::Refusal;
use crate::planted::{Bug, is_planted};
use crate::proposals::Proposed;
use crate::time::Instant;

pub use interface::{
    DiskFault, Effect, Event, HeartbeatFault, Identity, Note, Operation, Outcome, OwnRow,
};

mod interface;
#[cfg(test)]
mod tests;

/// Whether this node may commit; see the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    me: Identity,
    interval: Duration,
    patience: Duration,
    hint_pause: Duration,
    ops: Ops,
    pauses: Pauses,
    life: Incarnation,
    /// How far the log is applied here, gates and all.
    stood: LogIndex,
    term: Term,
    /// Who leads, by the word of the own consensus.
    leader: Option<NodeId>,
    /// Who leads instead, by the word of one that was asked. It may be old, so that it counts only
    /// until a heartbeat to it fails.
    hint: Option<NodeId>,
    /// When the lease ends.
    until: Instant,
    /// Operations whose answers change nothing any more.
    abandoned: Vec<OpId>,
    state: State,
}

/// How long a lease is, while its policy changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Term {
    present: Duration,
    /// A longer one counts for heartbeats that are sent once every lease of the present length has
    /// run out.
    longer: Option<(Instant, Duration)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Registering { failures: u32, step: Step },
    Registered(Beating),
    Reviving { failures: u32, step: Step },
    Superseded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Running(OpId),
    Pausing { until: Instant },
}

/// The heartbeats of a registered life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Beating {
    under_way: Option<Beat>,
    /// When the next one may be sent.
    next: Instant,
    /// Answers whose barrier is not applied here yet, oldest first.
    answered: Vec<(Instant, LogIndex)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Beat {
    op: OpId,
    sent: Instant,
}

impl Lease {
    /// Most answers that wait for their barrier. Further ones are dropped: the oldest will be
    /// applied first.
    pub const ANSWERS_MAX: usize = 16;

    /// Most effects of one event.
    pub const EFFECTS_MAX: usize = 4;

    /// Starts a life, which the driver has made durable, without any authority.
    pub fn new(
        config: &Config,
        me: Identity,
        life: Incarnation,
        lease: Duration,
        out: &mut Effects<Effect>,
    ) -> Self {
        let mut ops = Ops::new(life);
        let op = register(&me, life, &mut ops, out);
        Self {
            interval: config.heartbeat_interval,
            patience: config.request_timeout,
            hint_pause: config.retry_min,
            pauses: Pauses::new(config, me.node.0),
            me,
            ops,
            life,
            stood: LogIndex(0),
            term: Term { present: lease, longer: None },
            leader: None,
            hint: None,
            until: Instant::ORIGIN,
            abandoned: Vec::new(),
            state: State::Registering { failures: 0, step: Step::Running(op) },
        }
    }

    /// Advances the machine by one event.
    ///
    /// # Panics
    ///
    /// If the next life is not later than the present one.
    pub fn handle(&mut self, now: Instant, event: Event, out: &mut Effects<Effect>) {
        let before = out.as_slice().len();
        match event {
            Event::Wake => {}
            Event::Done(op, outcome) => self.done(now, op, outcome, out),
            Event::Applied { member, lease } => {
                self.term.change(now, lease);
                self.look(now, member, out);
            }
            Event::Stood(index) => {
                self.stood = self.stood.max(index);
                self.count(out);
            }
            Event::Leader(leader) => (self.leader, self.hint) = (leader, None),
        }
        self.go_on(now, out);
        let effects = out.as_slice().len() - before;
        assert!(effects <= Self::EFFECTS_MAX, "{effects} effects of one event");
    }

    /// Returns when the machine wants to be woken.
    pub fn deadline(&self) -> Option<Deadline> {
        match &self.state {
            State::Registering { step: Step::Pausing { until }, .. } => {
                Some(Deadline { at: *until, why: "the registration is proposed again" })
            }
            State::Reviving { step: Step::Pausing { until }, .. } => {
                Some(Deadline { at: *until, why: "the next life is made durable again" })
            }
            State::Registered(Beating { under_way: Some(beat), .. }) => {
                let at = beat.sent.after(self.patience);
                Some(Deadline { at, why: "the answer to a heartbeat is overdue" })
            }
            State::Registered(Beating { next, .. }) if self.asked().is_some() => {
                Some(Deadline { at: *next, why: "a heartbeat is due" })
            }
            State::Registering { .. }
            | State::Reviving { .. }
            | State::Registered(_)
            | State::Superseded => None,
        }
    }

    /// Returns what the gates may do from now on. The driver publishes it after every event.
    pub const fn authority(&self) -> Authority {
        let registered = match self.state {
            State::Registered(_) => Some(self.life),
            State::Registering { .. } | State::Reviving { .. } | State::Superseded => None,
        };
        Authority { registered, lease_until: self.until }
    }

    /// Returns the present life.
    pub const fn incarnation(&self) -> Incarnation {
        self.life
    }

    /// Returns who is asked next.
    fn asked(&self) -> Option<NodeId> {
        self.hint.or(self.leader)
    }

    fn done(&mut self, now: Instant, op: OpId, outcome: Outcome, out: &mut Effects<Effect>) {
        if let Some(at) = self.abandoned.iter().position(|abandoned| *abandoned == op) {
            self.abandoned.swap_remove(at);
            return;
        }
        match (&mut self.state, outcome) {
            (State::Registered(beating), Outcome::Heartbeat(result))
                if beating.under_way.is_some_and(|beat| beat.op == op) =>
            {
                self.beaten(now, result, out);
            }
            (State::Registering { failures, step }, Outcome::Propose(proposed))
                if *step == Step::Running(op) =>
            {
                // Even an applied one shows in the own row only; until it does, it is tried again.
                if let Proposed::Replied(Reply::Rejected(reason)) = proposed {
                    out.push(Effect::Note(Note::RegisterRejected(reason)));
                }
                *step = Step::Pausing { until: now.after(self.pauses.after(*failures)) };
                *failures = failures.saturating_add(1);
            }
            (State::Reviving { failures, step }, Outcome::NextIncarnation(result))
                if *step == Step::Running(op) =>
            {
                if let Ok(life) = result {
                    self.revive(life, out);
                } else {
                    out.push(Effect::Note(Note::DiskFault));
                    *step = Step::Pausing { until: now.after(self.pauses.after(*failures)) };
                    *failures = failures.saturating_add(1);
                }
            }
            (_, Outcome::Heartbeat(_) | Outcome::Propose(_) | Outcome::NextIncarnation(_)) => {
                out.push(Effect::Note(Note::Stale(op)));
            }
        }
    }

    /// Takes the answer to the heartbeat under way.
    fn beaten(
        &mut self,
        now: Instant,
        result: Result<LogIndex, HeartbeatFault>,
        out: &mut Effects<Effect>,
    ) {
        let State::Registered(beating) = &mut self.state else { return };
        let Some(Beat { sent, .. }) = beating.under_way.take() else { return };
        match result {
            Ok(index) => {
                let sent = if is_planted(Bug::LeaseFromReceipt) { now } else { sent };
                if beating.answered.len() < Self::ANSWERS_MAX {
                    beating.answered.push((sent, index));
                }
                self.count(out);
            }
            Err(HeartbeatFault::Refused(Refusal::NotLeader { leader })) => {
                let asked = self.hint.take().or(self.leader);
                let itself =
                    |to: NodeId| to == self.me.node && !is_planted(Bug::OwnHeartbeatUnasked);
                self.hint = leader.filter(|to| leader != asked && !itself(*to));
                if self.hint.is_some() {
                    beating.next = beating.next.min(now.after(self.hint_pause));
                }
            }
            Err(HeartbeatFault::Refused(Refusal::AskerDead)) => {
                out.push(Effect::Note(Note::DeclaredDead));
            }
            Err(HeartbeatFault::Unreachable) => self.hint = None,
            Err(HeartbeatFault::Refused(_)) => {}
        }
    }

    /// Counts the answers whose barrier is applied.
    fn count(&mut self, out: &mut Effects<Effect>) {
        let State::Registered(beating) = &mut self.state else { return };
        let (stood, term) = (self.stood, self.term);
        let before = self.until;
        beating.answered.retain(|(sent, index)| {
            let counts = *index <= stood || is_planted(Bug::LeaseBeforeBarrier);
            if counts {
                self.until = self.until.max(sent.after(term.of(*sent)));
            }
            !counts
        });
        if before == Instant::ORIGIN && self.until > before {
            out.push(Effect::Note(Note::Leased));
        }
    }

    /// Looks at the own row.
    fn look(&mut self, now: Instant, member: Option<OwnRow>, out: &mut Effects<Effect>) {
        let Some(OwnRow { incarnation, status }) = member else { return };
        let earlier = incarnation < self.life && !is_planted(Bug::EarlierLifePasses);
        if earlier || matches!(self.state, State::Superseded) {
            return;
        }
        if incarnation > self.life {
            out.push(Effect::Note(Note::Superseded { by: incarnation }));
            self.leave(State::Superseded, out);
            return;
        }
        match (status, &self.state) {
            (Status::Alive, State::Registering { .. }) => {
                out.push(Effect::Note(Note::Registered(self.life)));
                let beating = Beating { under_way: None, next: now, answered: Vec::new() };
                self.leave(State::Registered(beating), out);
            }
            (Status::Dead(_), State::Registering { .. } | State::Registered(_))
                if !is_planted(Bug::DeadGoesOn) =>
            {
                let op = self.ops.mint();
                self.leave(State::Reviving { failures: 0, step: Step::Running(op) }, out);
                out.push(Effect::Run(op, Operation::NextIncarnation { after: self.life }));
            }
            // A life that is dead stays dead.
            (Status::Alive, State::Registered(_) | State::Reviving { .. } | State::Superseded)
            | (
                Status::Dead(_),
                State::Registering { .. }
                | State::Registered(_)
                | State::Reviving { .. }
                | State::Superseded,
            ) => {}
        }
    }

    /// Changes the state; the lease ends, and what is under way ends early.
    fn leave(&mut self, next: State, out: &mut Effects<Effect>) {
        let left = core::mem::replace(&mut self.state, next);
        self.until = Instant::ORIGIN;
        let under_way = match left {
            State::Registered(beating) => beating.under_way.map(|beat| beat.op),
            State::Registering { step: Step::Running(op), .. }
            | State::Reviving { step: Step::Running(op), .. } => Some(op),
            State::Registering { .. } | State::Reviving { .. } | State::Superseded => None,
        };
        if let Some(op) = under_way {
            self.abandon(op, out);
        }
    }

    fn abandon(&mut self, op: OpId, out: &mut Effects<Effect>) {
        self.abandoned.push(op);
        out.push(Effect::Cancel(op));
    }

    fn revive(&mut self, life: Incarnation, out: &mut Effects<Effect>) {
        assert!(life > self.life, "a life is followed by a later one (S16)");
        self.life = life;
        out.push(Effect::Note(Note::NewLife(life)));
        let op = register(&self.me, life, &mut self.ops, out);
        self.state = State::Registering { failures: 0, step: Step::Running(op) };
    }

    /// Does what is due.
    fn go_on(&mut self, now: Instant, out: &mut Effects<Effect>) {
        match &mut self.state {
            State::Registering { step, .. } if step.is_due(now) => {
                *step = Step::Running(register(&self.me, self.life, &mut self.ops, out));
            }
            State::Reviving { step, .. } if step.is_due(now) => {
                let op = self.ops.mint();
                *step = Step::Running(op);
                out.push(Effect::Run(op, Operation::NextIncarnation { after: self.life }));
            }
            State::Registered(beating) => {
                if let Some(Beat { op, sent }) = beating.under_way {
                    if now < sent.after(self.patience) {
                        return;
                    }
                    beating.under_way = None;
                    self.hint = None;
                    self.abandoned.push(op);
                    out.push(Effect::Cancel(op));
                }
                let asked = self.hint.or(self.leader);
                if let Some(to) = asked.filter(|_| beating.next <= now) {
                    let op = self.ops.mint();
                    beating.under_way = Some(Beat { op, sent: now });
                    beating.next = now.after(self.interval);
                    let incarnation = self.life;
                    out.push(Effect::Run(op, Operation::Heartbeat { to, incarnation }));
                }
            }
            State::Registering { .. } | State::Reviving { .. } | State::Superseded => {}
        }
    }
}

impl Step {
    fn is_due(self, now: Instant) -> bool {
        match self {
            Self::Running(_) => false,
            Self::Pausing { until } => until <= now,
        }
    }
}

impl Term {
    /// Takes a changed policy. A shorter lease counts at once.
    fn change(&mut self, now: Instant, lease: Duration) {
        if lease == self.longer.map_or(self.present, |(_, longer)| longer) {
            return;
        }
        let present = self.of(now).min(lease);
        let longer = (lease > present).then(|| (now.after(present), lease));
        *self = Self { present, longer };
    }

    /// Returns the length of a lease whose heartbeat was sent then.
    fn of(&self, sent: Instant) -> Duration {
        match self.longer {
            Some((from, longer)) if from <= sent => longer,
            Some(_) | None => self.present,
        }
    }
}

fn register(
    me: &Identity,
    incarnation: Incarnation,
    ops: &mut Ops,
    out: &mut Effects<Effect>,
) -> OpId {
    let op = ops.mint();
    let Identity { node, store_uuid, addrs } = me.clone();
    let command = Command::Register { node, store_uuid, incarnation, addrs };
    out.push(Effect::Run(op, Operation::Propose(command)));
    op
}
