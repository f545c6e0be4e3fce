//! The machine on a bench: what it asks for is kept until the test answers.

use super::super::*;
use crate::ids::{Digest, Epoch, LogGeneration, Offset, Token, TopicId};
use crate::metastore::{Applied, Command, Reply};
use crate::partition::{Capture, Listing, Position};
use crate::proposals::Proposed;
use core::time::Duration;
use std::collections::BTreeMap;

pub(super) const ME: NodeId = NodeId(1);
pub(super) const TARGET: NodeId = NodeId(2);
pub(super) const LIFE: Incarnation = Incarnation(4);
pub(super) const EPOCH: Epoch = Epoch(2);
pub(super) const MOVE: MoveId = MoveId(5);
pub(super) const PARTITION: PartitionId = PartitionId { topic: TopicId(7), index: 1 };

pub(super) fn at(seconds: u64) -> Instant {
    Instant::from_origin(Duration::from_secs(seconds))
}

pub(super) fn row() -> Assignment {
    Assignment {
        owner: ME,
        epoch: EPOCH,
        data: Attempt::birth(ME),
        min_end: Offset(0),
        lineage: Vec::new(),
        lineage_cut: false,
        target: Some(TARGET),
        move_id: MOVE,
        burned: None,
        revoked: None,
        reported_hwm: None,
        pinned: false,
    }
}

pub(super) fn attempt(n: u32) -> Attempt {
    attempt_of(MOVE, n)
}

pub(super) fn attempt_of(move_id: MoveId, n: u32) -> Attempt {
    Attempt { move_id, destination: TARGET, no: AttemptNo { incarnation: Incarnation(1), n } }
}

pub(super) fn token(counter: u64) -> Token {
    Token { epoch: EPOCH, no: FreezeNo { incarnation: LIFE, counter } }
}

pub(super) fn listing() -> Listing {
    Listing {
        incarnation: LIFE,
        generation: LogGeneration(1),
        epoch: EPOCH,
        start: Offset(0),
        end: Offset(9),
        hwm: Offset(9),
        extents: Vec::new(),
        agreed: Vec::new(),
    }
}

pub(super) fn capture(counter: u64) -> Capture {
    let (token, position) = (token(counter), Position::default());
    Capture { token, listing: listing(), position, digest: Digest(0) }
}

pub(super) fn revoke(counter: u64) -> Operation {
    Operation::Propose(Command::Revoke { partition: PARTITION, token: token(counter) })
}

/// The machine under test with what it has asked for and not been answered.
pub(super) struct Source {
    pub(super) machine: Handoff,
    pub(super) requests: u64,
    pub(super) open: BTreeMap<OpId, Operation>,
    pub(super) answers: Vec<Answer>,
    pub(super) cancelled: Vec<OpId>,
    pub(super) notes: Vec<Note>,
}

impl Source {
    /// A registered source whose gate already serves.
    pub(super) fn new(row: &Assignment) -> Self {
        let mut this = Self::starting(row, true);
        this.end(at(0), Outcome::Stand);
        this
    }

    pub(super) fn starting(row: &Assignment, registered: bool) -> Self {
        let reign = Reign { node: ME, partition: PARTITION, life: LIFE, registered };
        let mut out = Effects::default();
        let machine = Handoff::new(&Config::new(1), reign, row, &mut out);
        let mut this = Self {
            machine,
            requests: 0,
            open: BTreeMap::new(),
            answers: Vec::new(),
            cancelled: Vec::new(),
            notes: Vec::new(),
        };
        this.take(out);
        this
    }

    pub(super) fn event(&mut self, now: Instant, event: Event) {
        let mut out = Effects::default();
        self.machine.handle(now, event, &mut out);
        self.take(out);
    }

    pub(super) fn take(&mut self, mut out: Effects<Effect>) {
        for effect in out.drain() {
            match effect {
                Effect::Run(op, operation) => {
                    assert!(self.open.insert(op, operation).is_none(), "an id is used once");
                }
                Effect::Cancel(op) => self.cancelled.push(op),
                Effect::Answer(_, answer) => self.answers.push(answer),
                Effect::Note(note) => self.notes.push(note),
            }
        }
    }

    /// Asks, and returns the answer if it came at once.
    pub(super) fn ask(&mut self, now: Instant, request: HandoffRequest) -> Option<Answer> {
        self.requests += 1;
        self.event(now, Event::Request(RequestId(self.requests), TARGET, request));
        self.answers.pop()
    }

    pub(super) fn prepare(&mut self, now: Instant, n: u32) -> Option<Answer> {
        self.ask(now, HandoffRequest::Prepare { attempt: attempt(n) })
    }

    pub(super) fn renew(
        &mut self,
        now: Instant,
        counter: u64,
        staged_bytes: u64,
    ) -> Option<Answer> {
        self.ask(now, HandoffRequest::Renew { token: token(counter), staged_bytes })
    }

    pub(super) fn release(&mut self, now: Instant, counter: u64) -> Option<Answer> {
        self.ask(now, HandoffRequest::Release { token: token(counter) })
    }

    /// Ends the one operation that such an outcome answers.
    pub(super) fn end(&mut self, now: Instant, outcome: Outcome) {
        let fits = |operation: &Operation| match operation {
            Operation::Stand(_) => matches!(outcome, Outcome::Stand),
            Operation::Listing { .. } => matches!(outcome, Outcome::Listing(_)),
            Operation::Freeze { .. } => matches!(outcome, Outcome::Freeze(_)),
            Operation::Thaw { .. } => matches!(outcome, Outcome::Thaw),
            Operation::Propose(_) => matches!(outcome, Outcome::Propose(_)),
        };
        let op = *self.open.iter().find(|(_, open)| fits(open)).expect("it was asked for").0;
        self.open.remove(&op);
        self.event(now, Event::Done(op, outcome));
    }

    /// Freezes for an attempt and has it told.
    pub(super) fn freeze(&mut self, now: Instant, n: u32, counter: u64) {
        assert_eq!(self.prepare(now, n), None, "it waits for the gate");
        self.end(now, Outcome::Freeze(Ok(capture(counter))));
        assert_eq!(self.answers.pop(), Some(Answer::Capture(capture(counter))));
    }

    pub(super) fn running(&self) -> Vec<&Operation> {
        self.open.values().collect()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.machine.deadline().map(|deadline| deadline.at)
    }
}

pub(super) fn resumed() -> Outcome {
    Outcome::Propose(Proposed::Replied(Reply::Applied(Applied::Resumed)))
}

pub(super) fn refused(refusal: Refusal) -> Answer {
    Answer::Refused(refusal)
}
