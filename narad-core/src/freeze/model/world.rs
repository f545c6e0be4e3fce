//! One state of the walk, and every step out of it.

mod judge;

use crate::config::Config;
use crate::effects::{Effects, OpId};
use crate::freeze::gate::{Admission, Appended, Authority, Command as Ask, Gate, Signal, Standing};
use crate::freeze::handoff::{
    Effect, Event, FreezeFault, Handoff, HandoffRequest, Operation, Outcome, Reign,
};
use crate::ids::{
    Attempt, AttemptNo, Digest, Epoch, Incarnation, LogGeneration, MoveId, NodeId, Offset,
    PartitionId, Token, TopicId,
};
use crate::metastore::{Applied, Assignment, Command, Reason, Reply};
use crate::partition::{Capture, Listing, Position};
use crate::peer::{Answer, RequestId};
use crate::proposals::Proposed;
use crate::time::Instant;
use core::time::Duration;
use std::vec::Vec;

const SOURCE: NodeId = NodeId(1);
const DESTINATION: NodeId = NodeId(2);
const PARTITION: PartitionId = PartitionId { topic: TopicId(1), index: 0 };

/// How often each thing may happen in one schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) appends: u8,
    pub(super) prepares: u8,
    pub(super) attempts: u8,
    pub(super) releases: u8,
    pub(super) unknowns: u8,
    pub(super) crashes: u8,
    pub(super) lives: u8,
    pub(super) plans: u8,
}

/// A rule that is left out, to show that the walk would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Planted {
    Nothing,
    /// The TTL un-freezes the source locally (H1).
    ThawOnExpiry,
    /// An unknown outcome of a `Revoke` counts as applied (H2).
    UnknownIsDone,
    /// A commit is checked, and appended later without another word (H7).
    CheckThenAppend,
    /// A flip may rest on a freeze of an earlier life of the source (H6).
    FreezeOutlivesLife,
    /// A restarted source serves by its old row before it is registered (H34, case M133).
    ServeUnregistered,
    /// A flip of a passed move applies (H5).
    MoveIdIgnored,
}

/// What the replicated log holds: the row after each entry, and whose entry it was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Committed {
    row: Assignment,
    reply: Option<(OpId, Reply)>,
    registers: Option<Incarnation>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Proposal {
    Flip(Attempt, Capture),
    Revoke(OpId, Token),
    Register(Incarnation),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    budget: Budget,
    planted: Planted,
    now: Instant,
    life: Incarnation,
    authority: Authority,
    gate: Gate<OpId>,
    /// None on a node that restarted after the flip.
    handoff: Option<Handoff>,
    ops: Vec<(OpId, Operation)>,
    dones: Vec<(OpId, Outcome)>,
    in_flight: Option<Admission>,
    end: u64,
    acked: u64,
    /// The log; the last entry is the truth, `applied` is what the source knows.
    log: Vec<Committed>,
    applied: usize,
    registered: Incarnation,
    proposals: Vec<Proposal>,
    told_unknown: Vec<OpId>,
    /// What the destination has been told, for which attempt, and whether it proposed the flip.
    told: Vec<(Attempt, Capture, bool)>,
    flipped: Option<Capture>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Admit,
    Append,
    Run(usize),
    Done(usize),
    Prepare(Attempt),
    Release,
    Flip(usize),
    Commit(usize),
    Apply,
    Unknown(usize),
    Wake,
    Crash,
    NewLife,
    Plan,
}

fn row() -> Assignment {
    Assignment {
        owner: SOURCE,
        epoch: Epoch(1),
        data: Attempt::birth(SOURCE),
        min_end: Offset(0),
        lineage: Vec::new(),
        lineage_cut: false,
        target: Some(DESTINATION),
        move_id: MoveId(1),
        burned: None,
        revoked: None,
        reported_hwm: None,
        pinned: false,
    }
}

impl World {
    pub(super) fn new(budget: Budget, planted: Planted) -> Self {
        let life = Incarnation(1);
        let registers = Some(life);
        let mut out = Effects::default();
        let mut this = Self {
            budget,
            planted,
            now: Instant::ORIGIN,
            life,
            authority: Authority::NONE,
            gate: Gate::new(PARTITION),
            handoff: Some(Self::handoff(life, true, &row(), &mut out)),
            ops: Vec::new(),
            dones: Vec::new(),
            in_flight: None,
            end: 0,
            acked: 0,
            log: Vec::from([Committed { row: row(), reply: None, registers }]),
            applied: 1,
            registered: life,
            proposals: Vec::new(),
            told_unknown: Vec::new(),
            told: Vec::new(),
            flipped: None,
        };
        this.authorize(Some(life));
        this.take(out);
        this
    }

    fn handoff(
        life: Incarnation,
        registered: bool,
        row: &Assignment,
        out: &mut Effects<Effect>,
    ) -> Handoff {
        let config = Config { freeze_duty_percent: 100, ..Config::new(1) };
        let reign = Reign { node: SOURCE, partition: PARTITION, life, registered };
        Handoff::new(&config, reign, row, out)
    }

    fn authorize(&mut self, registered: Option<Incarnation>) {
        let lease_until = Instant::from_origin(Duration::MAX);
        self.authority = Authority { registered, lease_until };
    }

    fn truth(&self) -> &Assignment {
        &self.log.last().expect("the log begins with the first row").row
    }

    /// Whether a flip that rests on this capture could still apply.
    fn could_flip(&self, attempt: Attempt, capture: &Capture) -> bool {
        let (row, token) = (self.truth(), capture.token);
        let current = row.owner == SOURCE && row.epoch == token.epoch;
        let planned = row.move_id == attempt.move_id || self.planted == Planted::MoveIdIgnored;
        let alive =
            token.no.incarnation == self.registered || self.planted == Planted::FreezeOutlivesLife;
        current && planned && alive && Some(token.no) > row.revoked
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let budget = &self.budget;
        let may = |on: bool, step: Step, steps: &mut Vec<Step>| {
            if on {
                steps.push(step);
            }
        };
        may(budget.appends > 0 && self.in_flight.is_none(), Step::Admit, &mut steps);
        may(self.in_flight.is_some(), Step::Append, &mut steps);
        steps.extend((0..self.ops.len()).map(Step::Run));
        steps.extend((0..self.dones.len()).map(Step::Done));
        if budget.prepares > 0 {
            for move_id in (1..=self.truth().move_id.0.min(2)).map(MoveId) {
                for n in 0..u32::from(budget.attempts) {
                    let no = AttemptNo { incarnation: Incarnation(1), n };
                    steps.push(Step::Prepare(Attempt { move_id, destination: DESTINATION, no }));
                }
            }
        }
        may(budget.releases > 0 && !self.told.is_empty(), Step::Release, &mut steps);
        for (at, told) in self.told.iter().enumerate() {
            may(!told.2, Step::Flip(at), &mut steps);
        }
        for (at, proposal) in self.proposals.iter().enumerate() {
            steps.push(Step::Commit(at));
            if let Proposal::Revoke(op, _) = proposal {
                let open = budget.unknowns > 0 && !self.told_unknown.contains(op);
                may(open, Step::Unknown(at), &mut steps);
            }
        }
        may(self.applied < self.log.len(), Step::Apply, &mut steps);
        may(self.deadline().is_some(), Step::Wake, &mut steps);
        may(budget.crashes > 0, Step::Crash, &mut steps);
        may(budget.lives > 0 && self.authority.registered.is_some(), Step::NewLife, &mut steps);
        may(budget.plans > 0 && self.truth().owner == SOURCE, Step::Plan, &mut steps);
        steps
    }

    pub(super) fn step(&mut self, step: Step) {
        self.take_step(step);
        self.ops.sort_by_key(|(op, _)| *op);
        self.dones.sort_by_key(|(op, _)| *op);
        self.told_unknown.sort();
    }

    fn take_step(&mut self, step: Step) {
        match step {
            Step::Admit => {
                self.budget.appends -= 1;
                self.in_flight = match self.planted {
                    // The check leaves no trace at the gate that the freeze passes.
                    Planted::CheckThenAppend => {
                        self.gate.clone().admit(self.now, self.authority, None).ok()
                    }
                    Planted::Nothing
                    | Planted::ThawOnExpiry
                    | Planted::UnknownIsDone
                    | Planted::FreezeOutlivesLife
                    | Planted::ServeUnregistered
                    | Planted::MoveIdIgnored => {
                        self.gate.admit(self.now, self.authority, None).ok()
                    }
                };
            }
            Step::Append => self.append(),
            Step::Run(at) => {
                let (op, operation) = self.ops.remove(at);
                self.run(op, &operation);
            }
            Step::Done(at) => {
                let (op, outcome) = self.dones.remove(at);
                self.event(Event::Done(op, outcome));
            }
            Step::Prepare(attempt) => {
                self.budget.prepares -= 1;
                let id = RequestId(attempt.move_id.0 * 100 + u64::from(attempt.no.n));
                let request = HandoffRequest::Prepare { attempt };
                self.event(Event::Request(id, DESTINATION, request));
            }
            Step::Release => {
                self.budget.releases -= 1;
                let token = self.told[0].1.token;
                let request = HandoffRequest::Release { token };
                self.event(Event::Request(RequestId(0), DESTINATION, request));
            }
            Step::Flip(at) => {
                self.told[at].2 = true;
                let (attempt, capture, _) = self.told[at].clone();
                self.proposals.push(Proposal::Flip(attempt, capture));
            }
            Step::Commit(at) => {
                let proposal = self.proposals.remove(at);
                self.commit(proposal);
            }
            Step::Apply => self.apply(),
            Step::Unknown(at) => {
                let Proposal::Revoke(op, token) = self.proposals[at] else { return };
                self.budget.unknowns -= 1;
                self.told_unknown.push(op);
                self.event(Event::Done(op, Outcome::Propose(Proposed::Unknown)));
                if self.planted == Planted::UnknownIsDone {
                    self.thaw(token);
                }
            }
            Step::Wake => {
                let at = self.deadline().expect("a step is taken where it exists");
                self.now = self.now.max(at);
                self.event(Event::Wake);
                if self.planted == Planted::ThawOnExpiry {
                    self.thaw_what_expired();
                }
            }
            Step::Crash => {
                self.budget.crashes -= 1;
                self.begin_life();
                self.in_flight = None;
                self.gate = Gate::new(PARTITION);
                self.ops.clear();
                self.dones.clear();
                let mut out = Effects::default();
                let row = self.log[self.applied - 1].row.clone();
                let rash = self.planted == Planted::ServeUnregistered;
                if rash {
                    self.authorize(Some(self.life));
                }
                self.handoff =
                    (row.owner == SOURCE).then(|| Self::handoff(self.life, rash, &row, &mut out));
                self.take(out);
            }
            Step::NewLife => {
                self.budget.lives -= 1;
                self.begin_life();
                self.event(Event::NewLife(self.life));
            }
            Step::Plan => {
                self.budget.plans -= 1;
                let mut row = self.truth().clone();
                row.move_id = row.move_id.next();
                (row.burned, row.target) = (None, Some(DESTINATION));
                self.log.push(Committed { row, reply: None, registers: None });
            }
        }
    }

    fn append(&mut self) {
        let admission = self.in_flight.take().expect("a step is taken where it exists");
        self.end += 1;
        if self.planted == Planted::CheckThenAppend {
            self.acked = self.end;
            return;
        }
        let end = Appended::Durable { end: Offset(self.end) };
        let mut out = Effects::default();
        let result = self.gate.recheck(self.now, self.authority, admission, end, &mut out);
        self.acked = result.map_or(self.acked, |acknowledged| acknowledged.hwm.0);
        self.obey(out);
    }

    fn run(&mut self, op: OpId, operation: &Operation) {
        let ask = match *operation {
            Operation::Stand(standing) => {
                self.dones.push((op, Outcome::Stand));
                Ask::Stand(standing)
            }
            Operation::Thaw { token } => {
                self.dones.push((op, Outcome::Thaw));
                Ask::Thaw { token }
            }
            Operation::Freeze { epoch, life } => Ask::Freeze { ticket: op, epoch, life },
            Operation::Propose(Command::Revoke { token, .. }) => {
                return self.proposals.push(Proposal::Revoke(op, token));
            }
            Operation::Propose(_) | Operation::Listing { .. } => unreachable!("not asked for here"),
        };
        let mut out = Effects::default();
        self.gate.command(self.now, self.authority, ask, &mut out);
        self.obey(out);
    }

    /// Captures under the gate's mutex, or hands its refusal on.
    fn obey(&mut self, mut out: Effects<Signal<OpId>>) {
        for signal in out.drain() {
            let (op, result) = match signal {
                Signal::Frozen { ticket, token } => (ticket, Ok(self.capture(token))),
                Signal::NotFrozen { ticket, why } => (ticket, Err(FreezeFault::NotFrozen(why))),
            };
            self.dones.push((op, Outcome::Freeze(result)));
        }
    }

    fn capture(&self, token: Token) -> Capture {
        let listing = Listing {
            incarnation: self.life,
            generation: LogGeneration(1),
            epoch: token.epoch,
            start: Offset(0),
            end: Offset(self.end),
            hwm: Offset(self.acked),
            extents: Vec::new(),
            agreed: Vec::new(),
        };
        Capture { token, listing, position: Position::default(), digest: Digest(0) }
    }

    fn commit(&mut self, proposal: Proposal) {
        let mut row = self.truth().clone();
        let (mut reply, mut registers) = (None, None);
        match proposal {
            Proposal::Flip(attempt, capture) => {
                if self.could_flip(attempt, &capture) {
                    (row.owner, row.target) = (DESTINATION, None);
                    (row.epoch, row.move_id) = (row.epoch.next(), row.move_id.next());
                    row.revoked = None;
                    self.flipped = Some(capture);
                }
            }
            Proposal::Revoke(op, token) if row.owner == SOURCE => {
                row.revoked = row.revoked.max(Some(token.no));
                reply = Some((op, Reply::Applied(Applied::Resumed)));
            }
            Proposal::Revoke(op, _) => reply = Some((op, Reply::Rejected(Reason::NotOwner))),
            Proposal::Register(life) => {
                self.registered = self.registered.max(life);
                registers = Some(life);
            }
        }
        self.log.push(Committed { row, reply, registers });
    }

    fn apply(&mut self) {
        let Committed { row, reply, registers } = self.log[self.applied].clone();
        self.applied += 1;
        self.event(Event::Row(Some(row)));
        if let Some((op, reply)) = reply.filter(|(op, _)| !self.told_unknown.contains(op)) {
            self.event(Event::Done(op, Outcome::Propose(Proposed::Replied(reply))));
        }
        if registers == Some(self.life) {
            self.authorize(Some(self.life));
            self.event(Event::Registered(self.life));
        }
    }

    fn begin_life(&mut self) {
        self.life = self.life.next();
        self.authority = Authority::NONE;
        self.proposals.push(Proposal::Register(self.life));
    }

    fn thaw(&mut self, token: Token) {
        let ask = Ask::Thaw { token };
        self.gate.command(self.now, self.authority, ask, &mut Effects::default());
    }

    fn thaw_what_expired(&mut self) {
        for (_, operation) in self.ops.clone() {
            if let Operation::Propose(Command::Revoke { token, .. }) = operation {
                self.thaw(token);
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.handoff.as_ref()?.deadline()?.at)
    }

    fn event(&mut self, event: Event) {
        let mut out = Effects::default();
        if let Some(handoff) = &mut self.handoff {
            handoff.handle(self.now, event, &mut out);
        }
        self.take(out);
    }

    fn take(&mut self, mut out: Effects<Effect>) {
        for effect in out.drain() {
            match effect {
                Effect::Run(op, operation) => self.ops.push((op, operation)),
                Effect::Cancel(ticket) => {
                    let (now, mut signals) = (self.now, Effects::default());
                    self.gate.command(now, self.authority, Ask::GiveUp { ticket }, &mut signals);
                    self.obey(signals);
                }
                Effect::Answer(RequestId(id), Answer::Capture(capture)) => {
                    let n = u32::try_from(id % 100).expect("small");
                    let no = AttemptNo { incarnation: Incarnation(1), n };
                    let move_id = MoveId(id / 100);
                    let attempt = Attempt { move_id, destination: DESTINATION, no };
                    if !self.told.iter().any(|told| (told.0, &told.1) == (attempt, &capture)) {
                        self.told.push((attempt, capture, false));
                    }
                }
                Effect::Answer(..) | Effect::Note(_) => {}
            }
        }
    }
}
