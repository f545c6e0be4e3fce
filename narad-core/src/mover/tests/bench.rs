//! A machine between two calls, and the values that its tests speak of.

use alloc::vec;
use alloc::vec::Vec;

use super::super::*;
use crate::ids::{
    AttemptNo, ByteCount, Digest, Epoch, FreezeNo, LogGeneration, MoveId, Offset, Token, TopicId,
};
use crate::metastore::{Command, Fence, Reign, Residue};
use crate::partition::{Capture, Checksum, Extent, Listing, Manifest, Position, Staged, Verified};

pub(super) const A: NodeId = NodeId(1);
pub(super) const B: NodeId = NodeId(2);
pub(super) const PARTITION: PartitionId = PartitionId { topic: TopicId(7), index: 2 };

/// A machine between two calls.
pub(super) struct Bench {
    pub(super) mover: Mover,
    pub(super) now: Instant,
    /// What runs, by the order in which it was started.
    pub(super) running: Vec<(OpId, Operation)>,
}

impl Bench {
    pub(super) fn new(found: Recovered) -> Self {
        Self::asking_for(64, found)
    }

    /// With so many bytes at most in one request.
    pub(super) fn asking_for(chunk_bytes_max: u64, found: Recovered) -> Self {
        let mut config = Config::new(3);
        config.lag_bytes = 10;
        config.chunk_bytes_max = chunk_bytes_max;
        let me = Me { node: B, incarnation: Incarnation(1) };
        let mut out = Effects::default();
        let now = Instant::from_origin(Duration::from_secs(1));
        let mover = Mover::new(now, me, PARTITION, config, found, &mut out);
        let mut bench = Self { mover, now, running: vec![] };
        let effects = bench.take(&mut out);
        assert_eq!(effects, [Does::Run(Operation::ReadRow)]);
        bench
    }

    /// Delivers an event and returns what it causes, without operation ids.
    pub(super) fn tell(&mut self, event: Event) -> Vec<Does> {
        let mut out = Effects::default();
        self.mover.handle(self.now, event, &mut out);
        self.take(&mut out)
    }

    pub(super) fn take(&mut self, out: &mut Effects<Effect>) -> Vec<Does> {
        out.drain()
            .map(|effect| match effect {
                Effect::Run(op, operation) => {
                    self.running.push((op, operation.clone()));
                    Does::Run(operation)
                }
                Effect::Cancel(op) => {
                    let known = self.running.iter().find(|(running, _)| *running == op);
                    Does::Cancel(known.expect("only what runs is cancelled").1.clone())
                }
                Effect::Note(note) => Does::Note(note),
            })
            .collect()
    }

    /// Answers the oldest operation that runs.
    pub(super) fn answer(&mut self, outcome: Outcome) -> Vec<Does> {
        let (op, _) = self.running.remove(0);
        self.tell(Event::Done(op, outcome))
    }

    /// Wakes the machine at its deadline.
    pub(super) fn wake(&mut self) -> Vec<Does> {
        self.now = self.mover.deadline().expect("it wants to be woken").at;
        self.tell(Event::Wake)
    }

    /// Brings the machine to the listing of its first pass.
    pub(super) fn listing() -> Self {
        let mut bench = Self::new(Recovered::default());
        let effects = bench.answer(Outcome::ReadRow(Ok(Some(row()))));
        let list = Operation::List { source: A, move_id: MoveId(4), check: vec![] };
        assert_eq!(effects, [Does::Run(list)]);
        bench
    }

    /// Brings the machine to its request to freeze, with all of `listing(100)` staged.
    pub(super) fn preparing() -> Self {
        let mut bench = Self::listing();
        bench.answer(Outcome::List(Ok(listing(100))));
        bench.answer(Outcome::Checkpoint(Ok(())));
        bench.now = bench.now.after(Duration::from_millis(1));
        bench.answer(Outcome::Copy(Ok(copied(64))));
        bench.answer(Outcome::Copy(Ok(copied(100))));
        bench.answer(Outcome::Checkpoint(Ok(())));
        bench.wake();
        bench.answer(Outcome::List(Ok(listing(100))));
        bench.answer(Outcome::ReachLeader(Ok(())));
        let effects = bench.answer(Outcome::Probe(Ok(())));
        let cutover = Note::Cutover { tail_bytes: 0, predicted: FreezeCost::FIXED_DEFAULT };
        // The way has brought 64 bytes in a millisecond.
        let prepare = Operation::Prepare { source: A, attempt: attempt(0), tail_bytes_max: 8_000 };
        assert_eq!(effects, [Does::Note(cutover), Does::Run(prepare)]);
        bench
    }

    /// Brings the machine to its flip.
    pub(super) fn flipping() -> Self {
        let mut bench = Self::preparing();
        bench.answer(Outcome::Prepare(Ok(capture(100))));
        bench.answer(Outcome::Verify(Ok(verified())));
        assert_eq!(bench.answer(Outcome::Install(Ok(()))), [flip()]);
        bench
    }
}

/// An effect without its operation id.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Does {
    Run(Operation),
    Cancel(Operation),
    Note(Note),
}

pub(super) fn row() -> Assignment {
    let data = Attempt::birth(A);
    Assignment {
        owner: A,
        epoch: Epoch(3),
        data,
        min_end: Offset(0),
        lineage: vec![Reign {
            epoch: Epoch(3),
            start: Offset(0),
            owner: A,
            data,
            residue: Residue::None,
        }],
        lineage_cut: false,
        target: Some(B),
        move_id: MoveId(4),
        burned: None,
        revoked: None,
        reported_hwm: None,
        pinned: false,
    }
}

pub(super) fn attempt(n: u32) -> Attempt {
    let no = AttemptNo { incarnation: Incarnation(1), n };
    Attempt { move_id: MoveId(4), destination: B, no }
}

pub(super) fn token() -> Token {
    Token { epoch: Epoch(3), no: FreezeNo { incarnation: Incarnation(8), counter: 1 } }
}

pub(super) fn listing(bytes: u64) -> Listing {
    let extents = vec![Extent {
        base: Offset(0),
        end: Offset(bytes / 10),
        bytes: ByteCount(bytes),
        checksum: Checksum(u32::try_from(bytes).unwrap()),
        sealed: false,
    }];
    Listing {
        incarnation: Incarnation(8),
        generation: LogGeneration(2),
        epoch: Epoch(3),
        start: Offset(0),
        end: Offset(bytes / 10),
        hwm: Offset(bytes / 10),
        extents,
        agreed: vec![],
    }
}

pub(super) fn staged(bytes: u64) -> Staged {
    let checksum = Checksum(u32::try_from(bytes).unwrap());
    Staged { base: Offset(0), bytes: ByteCount(bytes), checksum }
}

pub(super) fn copied(bytes: u64) -> Copied {
    Copied { staged: staged(bytes), throttled: Duration::ZERO }
}

pub(super) fn manifest(extents: Vec<Staged>) -> Manifest {
    Manifest {
        partition: PARTITION,
        move_id: MoveId(4),
        source: A,
        source_incarnation: Incarnation(8),
        generation: LogGeneration(2),
        epoch: Epoch(3),
        start: Offset(0),
        hwm: Offset(10),
        position: Position::default(),
        extents,
        attempt: None,
    }
}

pub(super) fn position() -> Position {
    Position { committed: Some(Offset(4)), acked_ahead: vec![Offset(6)] }
}

pub(super) fn capture(bytes: u64) -> Capture {
    Capture { token: token(), listing: listing(bytes), position: position(), digest: Digest(77) }
}

pub(super) fn verified() -> Verified {
    Verified { start: Offset(0), end: Offset(10), digest: Digest(77) }
}

pub(super) fn flip() -> Does {
    Does::Run(Operation::Propose(Command::CompleteMove {
        partition: PARTITION,
        expect: row().expect(),
        attempt: attempt(0),
        fence: Fence::Normal { token: token() },
        end: Offset(10),
        hwm: Offset(10),
        committed: Some(Offset(4)),
        digest: Digest(77),
    }))
}

pub(super) fn copy(position: u64, bytes: u64) -> Does {
    Does::Run(Operation::Copy { source: A, base: Offset(0), position, bytes })
}

pub(super) fn release() -> [Does; 2] {
    [
        Does::Note(Note::Released { token: token() }),
        Does::Run(Operation::Release { source: A, token: token() }),
    ]
}

pub(super) fn resolve(attempt: Attempt) -> Does {
    Does::Run(Operation::Propose(Command::Resolve { partition: PARTITION, attempt }))
}
