//! Seeds of what goes between nodes, and between clients and nodes.

use narad_core::config::Policy;
use narad_core::dispatch::{BatchNo, SendFault};
use narad_core::ids::{
    Attempt, AttemptNo, ByteCount, Digest, Epoch, FreezeNo, Incarnation, LogGeneration, LogIndex,
    MoveId, Name, NodeId, Offset, PartitionId, ProposalId, StoreUuid, Token, TopicId,
};
use narad_core::metastore::{Addresses, Command, Entry, Expect, Fence, State};
use narad_core::partition::{Capture, Checksum, Extent, Listing, Position, Staged};
use narad_core::peer::{Answer, Refusal, Request};
use narad_runtime::http::batch::{encode_fetched, encode_records};
use narad_runtime::service::{Fetched, Record};
use narad_runtime::settings::commented_default;
use narad_runtime::wire::Wire;
use narad_runtime::wire::deliver::{self, Delivered, Head};
use narad_runtime::wire::frame::{self, Kind};
use narad_runtime::wire::handshake::{Accepted, ClusterId, Hello, Purpose, Refused, Welcome, Why};
use protobuf::Message as _;
use raft::eraftpb::{Entry as RaftEntry, Message, MessageType};

use crate::{Seed, sequence};

pub(crate) fn seeds() -> Vec<Seed> {
    [frames(), peer(), entries(), clients(), raft()].concat()
}

const P: PartitionId = PartitionId { topic: TopicId(7), index: 0 };
const LIFE: Incarnation = Incarnation(1);
const TOKEN: Token = Token { epoch: Epoch(1), no: FreezeNo { incarnation: LIFE, counter: 1 } };
const ATTEMPT: Attempt = Attempt {
    move_id: MoveId(2),
    destination: NodeId(2),
    no: AttemptNo { incarnation: LIFE, n: 0 },
};

fn frames() -> Vec<Seed> {
    let frame = |kind, payload: &[u8]| frame::encode(1, kind, payload).expect("short").to_vec();
    // The first byte is the size of the pieces.
    let sent = |piece: u8, frames: &[Vec<u8>]| [vec![piece], frames.concat()].concat();
    let request = frame(
        Kind::Request,
        &Request::Heartbeat { incarnation: LIFE, stuck: Vec::new() }.to_bytes(),
    );
    let mut damaged = request.clone();
    *damaged.last_mut().expect("it has a checksum") ^= 1;
    let all: Vec<_> = Kind::ALL.into_iter().map(|kind| frame(kind, b"payload")).collect();
    vec![
        ("frames", "one_request", sent(0, std::slice::from_ref(&request))),
        ("frames", "every_kind", sent(4, &all)),
        ("frames", "empty_payload", sent(1, &[frame(Kind::SnapshotTaken, b"")])),
        ("frames", "damaged_then_good", sent(9, &[damaged, request])),
    ]
}

fn listing() -> Listing {
    let extent = |base: u64, sealed| Extent {
        base: Offset(base),
        end: Offset(base + 10),
        bytes: ByteCount(400),
        checksum: Checksum(9),
        sealed,
    };
    Listing {
        incarnation: LIFE,
        generation: LogGeneration(3),
        epoch: Epoch(1),
        start: Offset(10),
        end: Offset(30),
        hwm: Offset(28),
        extents: vec![extent(10, true), extent(20, false)],
        agreed: vec![Offset(10)],
    }
}

fn addresses() -> Addresses {
    Addresses { peer: "127.0.0.1:7400".into(), http: "127.0.0.1:7401".into() }
}

fn name(text: &str) -> Name {
    Name::new(text).expect("allowed")
}

fn peer() -> Vec<Seed> {
    let of = |kind: u8, bytes: Vec<u8>| [vec![kind], bytes].concat();
    let staged = Staged { base: Offset(10), bytes: ByteCount(40), checksum: Checksum(5) };
    let hello = Hello {
        versions: (1, 1),
        cluster: Some(ClusterId(5)),
        node: Some(NodeId(1)),
        store_uuid: StoreUuid(6),
        purpose: Purpose::Control,
        listens_at: Some("10.0.0.4:7400".to_owned()),
    };
    let accepted =
        Accepted { version: 1, node: NodeId(2), cluster: ClusterId(5), store_uuid: StoreUuid(8) };
    let refused = Refused { why: Why::WrongCluster, message: "of another cluster".into() };
    let position = Position { committed: Some(Offset(12)), acked_ahead: vec![Offset(14)] };
    let capture = Capture { token: TOKEN, listing: listing(), position, digest: Digest(77) };
    let list = Request::List { partition: P, move_id: MoveId(2), check: vec![staged] };
    let prepare = Request::Prepare { partition: P, attempt: ATTEMPT, tail_bytes_max: 0 };
    let renew = Request::Renew { partition: P, token: TOKEN, staged_bytes: 800 };
    let (store_uuid, addrs) = (StoreUuid(6), addresses());
    let join = Request::Join { name: name("narad-4"), store_uuid, addrs: addrs.clone() };
    let peers = vec![(NodeId(1), addrs)];
    let joined = Answer::Joined { node: NodeId(4), peers, policy: Policy::default() };
    let refusal = Answer::Refused(Refusal::FrozenTooOften { retry_after_ms: 900 });
    let (head, stale, records) = batch();
    vec![
        ("peer", "batch_head", of(4, head.to_bytes())),
        ("peer", "batch_taken", of(5, Delivered { id: 3, result: Ok(()) }.to_bytes())),
        ("peer", "batch_stale", of(5, stale.to_bytes())),
        ("peer", "batch_records", of(6, [&[2], &records[..]].concat())),
        ("peer", "request_list", of(0, list.to_bytes())),
        ("peer", "request_prepare", of(0, prepare.to_bytes())),
        ("peer", "request_renew", of(0, renew.to_bytes())),
        ("peer", "request_join", of(0, join.to_bytes())),
        ("peer", "request_propose", of(0, Request::Propose(flip()).to_bytes())),
        ("peer", "answer_listing", of(1, Answer::Listing(listing()).to_bytes())),
        ("peer", "answer_capture", of(1, Answer::Capture(capture).to_bytes())),
        ("peer", "answer_joined", of(1, joined.to_bytes())),
        ("peer", "answer_refused", of(1, refusal.to_bytes())),
        ("peer", "hello", of(2, hello.to_bytes())),
        ("peer", "welcome_accepted", of(3, Welcome::Accepted(accepted).to_bytes())),
        ("peer", "welcome_refused", of(3, Welcome::Refused(refused).to_bytes())),
    ]
}

/// A batch of two records: its head, an answer, its bytes.
fn batch() -> (Head, Delivered, Vec<u8>) {
    let plain = Record { value: "plain".into(), timestamp_ms: 5, ..Record::default() };
    let headers = vec![("trace".to_owned(), "7f".into())];
    let keyed = Record { key: Some("customer-7".into()), headers, ..plain.clone() };
    let bytes = deliver::encode_records(&[plain, keyed]).to_vec();
    let (records, length) = (2, bytes.len() as u64);
    let epoch = Epoch(3);
    let head = Head { id: 3, partition: P, epoch, life: LIFE, n: 9, records, bytes: length };
    let newest = BatchNo { ingress: NodeId(2), life: LIFE, n: 10 };
    let stale = Delivered { id: 3, result: Err(SendFault::Stale { newest }) };
    (head, stale, bytes)
}

fn entry(by: u64, sequence: u64, command: Command) -> Entry {
    let node = NodeId(by);
    Entry { proposal: ProposalId { node, incarnation: LIFE, sequence }, by: node, command }
}

/// The flip of the move that the target `entry` begins with.
fn flip() -> Entry {
    let command = Command::CompleteMove {
        partition: P,
        expect: Expect { owner: NodeId(1), epoch: Epoch(1), move_id: MoveId(2) },
        attempt: ATTEMPT,
        fence: Fence::Normal { token: TOKEN },
        end: Offset(120),
        hwm: Offset(100),
        committed: Some(Offset(40)),
        digest: Digest(7),
    };
    entry(2, 50, command)
}

fn entries() -> Vec<Seed> {
    let sent = |entries: &[Entry]| {
        let bytes: Vec<_> = entries.iter().map(Wire::to_bytes).collect();
        sequence(bytes.iter().map(Vec::as_slice))
    };
    let node = NodeId(1);
    let revoke = entry(1, 51, Command::Revoke { partition: P, token: TOKEN });
    let resolve = entry(2, 52, Command::Resolve { partition: P, attempt: ATTEMPT });
    let dead = entry(2, 53, Command::MarkDead { node, incarnation: LIFE });
    let hwms = vec![(P, Epoch(1), Offset(90))];
    let report = entry(1, 54, Command::Report { node, incarnation: LIFE, hwms });
    let drain = entry(3, 55, Command::SetDraining { node: NodeId(3), on: true });
    let (store_uuid, incarnation) = (StoreUuid(1), Incarnation(2));
    let register = Command::Register { node, store_uuid, incarnation, addrs: addresses() };
    let register = entry(1, 56, register);
    let delete = entry(1, 57, Command::DeleteTopic { topic: TopicId(7) });
    vec![
        ("entry", "flip", sent(&[flip()])),
        ("entry", "flip_then_resolve", sent(&[flip(), resolve.clone()])),
        ("entry", "revoke_then_flip", sent(&[revoke, flip()])),
        ("entry", "resolve_then_flip", sent(&[resolve, flip()])),
        ("entry", "report_death_return", sent(&[report, dead, register])),
        ("entry", "drain_and_delete", sent(&[drain, delete])),
        ("snapshot", "empty", State::new().to_parts().to_bytes()),
        ("snapshot", "small_cluster", small_cluster().to_parts().to_bytes()),
    ]
}

/// Three members, one of them dead, one topic, one flip made and one move under way.
fn small_cluster() -> State {
    let mut state = State::new();
    let mut apply = |entry: Entry| {
        let index = LogIndex(state.to_parts().applied.0 + 1);
        state.apply(index, &entry).expect("this build knows it");
    };
    for n in 1..=3 {
        let (node, store_uuid, addrs) = (NodeId(n), StoreUuid(n.into()), addresses());
        let name = name(&format!("n{n}"));
        apply(entry(n, 1, Command::Join { name, store_uuid, addrs: addrs.clone() }));
        apply(entry(n, 2, Command::Register { node, store_uuid, incarnation: LIFE, addrs }));
    }
    apply(entry(1, 3, Command::CreateTopic { name: name("t"), partitions: 2, parent: None }));
    for index in 0..2 {
        let partition = PartitionId { index, ..P };
        apply(entry(1, 4, Command::AssignPartition { partition, node: NodeId(1) }));
        let expect = Expect { owner: NodeId(1), epoch: Epoch(1), move_id: MoveId(1) };
        apply(entry(1, 5, Command::SetTarget { partition, expect, to: NodeId(2) }));
    }
    apply(flip());
    apply(entry(1, 6, Command::MarkDead { node: NodeId(3), incarnation: LIFE }));
    state
}

fn clients() -> Vec<Seed> {
    let record = Record {
        key: Some("k".into()),
        value: "42".into(),
        timestamp_ms: 7,
        headers: vec![("trace".into(), "a".into())],
    };
    let plain = Record { value: "v".into(), ..Record::default() };
    let fetched = Fetched {
        records: vec![(Offset(5), record.clone()), (Offset(6), plain.clone())],
        next: Offset(7),
        start: Offset(0),
        hwm: Offset(7),
        epoch: Epoch(1),
        committed: Some(Offset(5)),
    };
    let json = br#"{"messages":[{"key":"k","value":"42","headers":[{"name":"a","value":"b"}]},
{"value_base64":"AAE=","timestamp_ms":7}]}"#;
    let small = b"name = \"narad-1\"\n[listen]\npeer = \"0.0.0.0:7400\"\n[advertise]\n\
        peer = \"10.0.0.1:7400\"\n[policy]\nlease = \"10s\"\ncopy_rate = \"64MiB\"\n";
    vec![
        ("batch", "two_records", encode_records(&[record, plain]).to_vec()),
        ("batch", "fetched", encode_fetched(&fetched).to_vec()),
        ("batch", "json", json.to_vec()),
        ("settings", "every_key", commented_default().replace("\n# ", "\n").into_bytes()),
        ("settings", "a_few_keys", small.to_vec()),
    ]
}

fn raft() -> Vec<Seed> {
    let message = |kind, fill: &dyn Fn(&mut Message)| {
        let mut message = Message::default();
        message.set_msg_type(kind);
        message.set_from(2);
        message.set_to(1);
        message.set_term(2);
        fill(&mut message);
        message.write_to_bytes().expect("encodable")
    };
    let append = message(MessageType::MsgAppend, &|message| {
        let mut entry = RaftEntry::default();
        entry.set_index(2);
        entry.set_term(2);
        entry.set_data("data".into());
        message.set_index(1);
        message.set_log_term(1);
        message.set_commit(2);
        message.set_entries(vec![entry].into());
    });
    let heartbeat = message(MessageType::MsgHeartbeat, &|message| message.set_commit(2));
    let vote = message(MessageType::MsgRequestVote, &|message| {
        message.set_term(9);
        message.set_index(8);
        message.set_log_term(8);
    });
    let granted = message(MessageType::MsgRequestPreVoteResponse, &|_| {});
    let snapshot = message(MessageType::MsgSnapshot, &|message| {
        message.mut_snapshot().set_data("state".into());
        let metadata = message.mut_snapshot().mut_metadata();
        metadata.set_index(50);
        metadata.set_term(2);
        metadata.mut_conf_state().set_voters(vec![1, 2, 3]);
    });
    let sent =
        |how: u8, messages: &[&[u8]]| [vec![how], sequence(messages.iter().copied())].concat();
    vec![
        ("raft_step", "followed", sent(0, &[&heartbeat, &append, &heartbeat])),
        ("raft_step", "elections", sent(0, &[&[], &[], &[], &granted, &vote, &[], &granted])),
        ("raft_step", "alone", sent(1, &[&[], &[], &[], &append, &vote])),
        ("raft_step", "new_born_gets_a_snapshot", sent(2, &[&snapshot, &append, &heartbeat])),
    ]
}
