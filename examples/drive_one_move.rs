//! Drives one move by hand: a machine, a log of a few records, and a loop.
//!
//! The machine decides, this program does. It keeps the source's log and the growing copy in memory,
//! and the replicated state is the real one: the flip wins because `State::apply` says so. While the
//! copy runs, a producer goes on writing; between the freeze and the flip it cannot.
//!
//! ```text
//! cargo run --example drive_one_move
//! ```
#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use narad_core::config::Config;
use narad_core::effects::{Effects, OpId};
use narad_core::ids::{
    Attempt, ByteCount, Digest, Epoch, FreezeNo, Incarnation, LogGeneration, LogIndex, MoveId,
    Name, NodeId, Offset, PartitionId, ProposalId, StoreUuid, Token, TopicId,
};
use narad_core::metastore::{Addresses, Applied, Command, Entry, Expect, Reply, State};
use narad_core::mover::{Copied, Effect, Event, Me, Mover, Operation, Outcome};
use narad_core::partition::{
    Capture, Checksum, Extent, Listing, Position, Recovered, Staged, Verified,
};
use narad_core::proposals::Proposed;
use narad_core::time::Instant;

const SOURCE: NodeId = NodeId(1);
const DESTINATION: NodeId = NodeId(2);
const LIFE: Incarnation = Incarnation(1);
/// Bytes of one record, so that lengths and offsets are easily told from one another.
const RECORD: usize = 16;
const SEGMENT_RECORDS: u64 = 100;

/// The files of one partition: segments by their base offset.
#[derive(Default)]
struct Files(BTreeMap<u64, Vec<u8>>);

impl Files {
    fn end(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(base, bytes)| base + (bytes.len() / RECORD) as u64)
    }

    fn append(&mut self, records: u64) {
        for offset in self.end()..self.end() + records {
            let base = offset / SEGMENT_RECORDS * SEGMENT_RECORDS;
            let line = format!("record {offset:08}\n");
            self.0.entry(base).or_default().extend_from_slice(line.as_bytes());
        }
    }

    fn listing(&self) -> Listing {
        let end = Offset(self.end());
        let extent = |(&base, bytes): (&u64, &Vec<u8>)| {
            let extent_end = Offset(base + (bytes.len() / RECORD) as u64);
            Extent {
                base: Offset(base),
                end: extent_end,
                bytes: ByteCount(bytes.len() as u64),
                checksum: checksum(bytes),
                sealed: extent_end < end,
            }
        };
        Listing {
            incarnation: LIFE,
            generation: LogGeneration(1),
            epoch: Epoch(1),
            start: Offset(0),
            end,
            hwm: end,
            extents: self.0.iter().map(extent).collect(),
            agreed: Vec::new(),
        }
    }

    fn digest(&self) -> Digest {
        self.0.values().fold(Digest(0), |Digest(sum), bytes| {
            Digest(sum.wrapping_mul(31).wrapping_add(checksum(bytes).0.into()))
        })
    }
}

fn checksum(bytes: &[u8]) -> Checksum {
    let step = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    Checksum(bytes.iter().fold(0x811c_9dc5, step))
}

/// Everything that the machine cannot touch.
struct World {
    replicated: State,
    partition: PartitionId,
    log: Files,
    frozen: bool,
    staging: Files,
    installed: Option<Attempt>,
}

impl World {
    /// Does what was asked for, and says how it ended. A real driver does this on other threads and
    /// nodes, and much of it at once.
    fn perform(&mut self, operation: Operation) -> Outcome {
        match operation {
            Operation::ReadRow => {
                Outcome::ReadRow(Ok(self.replicated.assignment(self.partition).cloned()))
            }
            Operation::List { .. } => Outcome::List(Ok(self.log.listing())),
            Operation::Copy { base, position, bytes, .. } => self.copy(base, position, bytes),
            Operation::Prepare { attempt, .. } => {
                println!("freeze: at offset {}, for {attempt}", self.log.end());
                self.frozen = true;
                let token =
                    Token { epoch: Epoch(1), no: FreezeNo { incarnation: LIFE, counter: 1 } };
                let (listing, digest) = (self.log.listing(), self.log.digest());
                Outcome::Prepare(Ok(Capture {
                    token,
                    listing,
                    position: Position::default(),
                    digest,
                }))
            }
            Operation::Verify(boundary) => {
                let (end, digest) = (Offset(self.staging.end()), self.staging.digest());
                Outcome::Verify(Ok(Verified { start: boundary.start, end, digest }))
            }
            Operation::Install { attempt, .. } => {
                println!("install: {} segments in a directory of its own", self.staging.0.len());
                self.installed = Some(attempt);
                Outcome::Install(Ok(()))
            }
            Operation::Propose(command) => {
                let reply = self.apply(DESTINATION, command);
                Outcome::Propose(Proposed::Replied(reply))
            }
            Operation::Checkpoint(_) => Outcome::Checkpoint(Ok(())),
            Operation::ReachLeader => Outcome::ReachLeader(Ok(())),
            Operation::Probe { .. } => Outcome::Probe(Ok(())),
            Operation::Renew { .. } => Outcome::Renew(Ok(())),
            Operation::Trim { .. }
            | Operation::Release { .. }
            | Operation::Restage { .. }
            | Operation::SetAside(_) => unreachable!("nothing goes wrong here: {operation:?}"),
        }
    }

    /// Writes a range at the position where it belongs, never at "the end".
    fn copy(&mut self, base: Offset, position: u64, bytes: u64) -> Outcome {
        let (from, to) = (index(position), index(position + bytes));
        let range = self.log.0[&base.0][from..to].to_vec();
        let file = self.staging.0.entry(base.0).or_default();
        file.resize(file.len().max(to), 0);
        file[from..to].copy_from_slice(&range);
        let (bytes, checksum) = (ByteCount(file.len() as u64), checksum(file));
        let staged = Staged { base, bytes, checksum };
        Outcome::Copy(Ok(Copied { staged, throttled: Duration::ZERO }))
    }

    fn apply(&mut self, by: NodeId, command: Command) -> Reply {
        let LogIndex(applied) = self.replicated.applied();
        let proposal = ProposalId { node: by, incarnation: LIFE, sequence: applied + 1 };
        let entry = Entry { proposal, by, command };
        self.replicated.apply(LogIndex(applied + 1), &entry).expect("this build knows it").reply
    }
}

fn index(position: u64) -> usize {
    usize::try_from(position).expect("this log fits into memory")
}

/// A cluster of two nodes with one partition on the first, planned to move to the second.
fn world() -> World {
    let topic = TopicId(5);
    let partition = PartitionId { topic, index: 0 };
    let (replicated, staging) = (State::new(), Files::default());
    let log = Files::default();
    let mut world = World { replicated, partition, log, frozen: false, staging, installed: None };
    for node in [SOURCE, DESTINATION] {
        let name = Name::new(format!("narad-{node}")).expect("a plain name");
        let (store_uuid, addrs) = (StoreUuid(node.0.into()), Addresses::default());
        world.apply(node, Command::Join { name, store_uuid, addrs: addrs.clone() });
        let incarnation = LIFE;
        world.apply(node, Command::Register { node, store_uuid, incarnation, addrs });
    }
    let name = Name::new("orders").expect("a plain name");
    world.apply(SOURCE, Command::CreateTopic { name, partitions: 1, parent: None });
    world.apply(SOURCE, Command::AssignPartition { partition, node: SOURCE });
    let expect = Expect { owner: SOURCE, epoch: Epoch(1), move_id: MoveId(1) };
    let planned = world.apply(SOURCE, Command::SetTarget { partition, expect, to: DESTINATION });
    assert_eq!(planned, Reply::Applied(Applied::Planned(MoveId(2))));
    world
}

fn main() {
    let mut world = world();
    world.log.append(1_050);

    let mut now = Instant::ORIGIN;
    let mut out = Effects::default();
    let me = Me { node: DESTINATION, incarnation: LIFE };
    let config = Config { lag_bytes: 100, ..Config::new(1) };
    let mut mover = Mover::new(now, me, world.partition, config, Recovered::default(), &mut out);

    let mut under_way: VecDeque<(OpId, Operation)> = VecDeque::new();
    while !mover.is_over() {
        for effect in out.drain() {
            match effect {
                Effect::Run(id, operation) => under_way.push_back((id, operation)),
                // A hint only: the operation is answered all the same.
                Effect::Cancel(_) => {}
                Effect::Note(note) => println!("note: {note:?}"),
            }
        }
        let event = if let Some((id, operation)) = under_way.pop_front() {
            now = now.after(Duration::from_millis(1));
            Event::Done(id, world.perform(operation))
        } else {
            let deadline =
                mover.deadline().expect("a machine that is not over waits for something");
            now = deadline.at;
            Event::Wake
        };
        // Producers do not wait for a copy; only the freeze stops them.
        if !world.frozen {
            world.log.append(1);
        }
        mover.handle(now, event, &mut out);
    }

    let row = world.replicated.assignment(world.partition).expect("it was assigned");
    println!("owner: node {} since epoch {}, after {now:?}", row.owner, row.epoch);
    assert_eq!((row.owner, row.epoch), (DESTINATION, Epoch(2)));
    assert_eq!(world.installed, Some(row.data), "the row names the directory that is live");
    assert_eq!(world.staging.0, world.log.0, "the copy is the log, byte for byte");
    assert!(world.log.end() > 1_050, "the producer went on while the copy ran");
}
