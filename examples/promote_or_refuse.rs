//! Asks whether a copy may succeed a dead source, and gets a no for each good reason.
//!
//! Without a source nobody can say how far the log went. A copy may take over only if it provably
//! holds everything that the source was known to have shown. Each case below changes one piece of
//! the evidence. The permit that the last one gets is made into a command, and the replicated state
//! judges once more: a source that came back in time keeps its partition.
//!
//! ```text
//! cargo run --example promote_or_refuse
//! ```
#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::time::Duration;

use narad_core::ids::{
    Attempt, AttemptNo, Digest, Epoch, Generation, Incarnation, LogGeneration, LogIndex, MoveId,
    Name, NodeId, Offset, PartitionId, ProposalId, StoreUuid, TopicId,
};
use narad_core::metastore::{
    Addresses, Applied, Assignment, Command, Entry, Expect, Reason, Reply, State,
};
use narad_core::partition::{Manifest, Position, Verified};
use narad_core::promote::{self, Death, FlipPermit, Refusal};

const P: PartitionId = PartitionId { topic: TopicId(5), index: 0 };
const SOURCE: NodeId = NodeId(1);
const DESTINATION: NodeId = NodeId(2);
const LIFE: Incarnation = Incarnation(1);
const TWO_MINUTES: Duration = Duration::from_mins(2);

/// What a destination has in hand when its source is dead.
struct Evidence {
    dead_for: Duration,
    session: Option<Manifest>,
    copy: Verified,
}

/// Evidence that is good enough: a session of this very move saw the source's watermark at 90, the
/// source reported 100 before it died, and the copy reaches 103.
fn good() -> Evidence {
    Evidence {
        dead_for: TWO_MINUTES,
        session: Some(Manifest {
            partition: P,
            move_id: MoveId(2),
            source: SOURCE,
            source_incarnation: LIFE,
            generation: LogGeneration(1),
            epoch: Epoch(1),
            start: Offset(0),
            hwm: Offset(90),
            position: Position::default(),
            extents: Vec::new(),
            attempt: None,
        }),
        copy: Verified { start: Offset(0), end: Offset(103), digest: Digest(7) },
    }
}

fn judge(row: &Assignment, evidence: &Evidence) -> Result<FlipPermit, Refusal> {
    promote::after_death(&Death {
        partition: P,
        row,
        attempt: Attempt {
            move_id: MoveId(2),
            destination: DESTINATION,
            no: AttemptNo { incarnation: LIFE, n: 0 },
        },
        generation: Generation(1),
        dead_for: evidence.dead_for,
        promote_after: TWO_MINUTES,
        session: evidence.session.as_ref(),
        verified: &evidence.copy,
    })
}

/// Judges, prints the verdict and returns it.
fn refusal(row: &Assignment, case: &str, evidence: &Evidence) -> Refusal {
    let refusal = judge(row, evidence).expect_err("this evidence is not enough");
    println!("{case}\n    no: {refusal}");
    refusal
}

/// A replicated log of one copy.
struct Log(State);

impl Log {
    fn apply(&mut self, by: NodeId, command: Command) -> Reply {
        let index = self.0.applied().next();
        let LogIndex(sequence) = index;
        let proposal = ProposalId { node: by, incarnation: LIFE, sequence };
        let entry = Entry { proposal, by, command };
        self.0.apply(index, &entry).expect("this build knows it").reply
    }

    fn register(&mut self, node: NodeId, incarnation: Incarnation) {
        let (store_uuid, addrs) = (StoreUuid(node.0.into()), Addresses::default());
        self.apply(node, Command::Register { node, store_uuid, incarnation, addrs });
    }
}

/// Two nodes, one partition on its way from the first to the second, and the first is dead.
fn cluster() -> Log {
    let mut log = Log(State::new());
    for node in [SOURCE, DESTINATION] {
        let name = Name::new(format!("narad-{node}")).expect("a plain name");
        let (store_uuid, addrs) = (StoreUuid(node.0.into()), Addresses::default());
        log.apply(node, Command::Join { name, store_uuid, addrs });
        log.register(node, LIFE);
    }
    let name = Name::new("orders").expect("a plain name");
    log.apply(SOURCE, Command::CreateTopic { name, partitions: 1, parent: None });
    log.apply(SOURCE, Command::AssignPartition { partition: P, node: SOURCE });
    let expect = Expect { owner: SOURCE, epoch: Epoch(1), move_id: MoveId(1) };
    log.apply(SOURCE, Command::SetTarget { partition: P, expect, to: DESTINATION });
    let hwms = vec![(P, Epoch(1), Offset(100))];
    log.apply(SOURCE, Command::Report { node: SOURCE, incarnation: LIFE, hwms });
    log.apply(DESTINATION, Command::MarkDead { node: SOURCE, incarnation: LIFE });
    log
}

fn main() {
    let mut log = cluster();
    let row = log.0.assignment(P).expect("it was assigned").clone();
    let say = |case: &str, evidence: &Evidence| refusal(&row, case, evidence);

    let early = Evidence { dead_for: Duration::from_secs(119), ..good() };
    let remaining = Duration::from_secs(1);
    assert_eq!(say("the source died 119 s ago", &early), Refusal::TooEarly { remaining });

    let stranger = Evidence { session: None, ..good() };
    assert_eq!(say("the source was never reached", &stranger), Refusal::NeverReached);

    // The source of an earlier plan holds no lease for this one: it may be writing still (H30).
    let mut earlier = good();
    earlier.session.iter_mut().for_each(|session| session.move_id = MoveId(1));
    assert_eq!(say("only an earlier move reached it", &earlier), Refusal::NeverReached);

    let mut behind = good();
    behind.copy.end = Offset(99);
    let refused = say("the copy ends at 99, and 100 was reported", &behind);
    assert_eq!(refused, Refusal::Behind { end: Offset(99), visible: Offset(100) });

    let mut headless = good();
    headless.copy.start = Offset(40);
    let refused = say("the copy lacks its head", &headless);
    assert_eq!(refused, Refusal::WrongStart { start: Offset(40), expected: Offset(0) });

    let permit = judge(&row, &good()).expect("all of it is proven");
    let flip = permit.into_command();
    println!("the copy reaches 103, all that was shown ended at 100\n    yes");

    // A permit is an opinion. What counts is what the log holds when the flip arrives.
    let mut returned = Log(log.0.clone());
    returned.register(SOURCE, Incarnation(2));
    let reply = returned.apply(DESTINATION, flip.clone());
    println!("the source came back just before the flip\n    {reply:?}");
    assert_eq!(reply, Reply::Rejected(Reason::NotDead));

    let reply = log.apply(DESTINATION, flip);
    println!("the source is still dead at the flip\n    {reply:?}");
    assert_eq!(reply, Reply::Applied(Applied::Won(Epoch(2))));
    assert_eq!(log.0.assignment(P).map(|row| row.owner), Some(DESTINATION));
}
