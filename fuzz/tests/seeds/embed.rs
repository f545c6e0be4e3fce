//! Seeds of what embedded nodes say to one another, and of what they note and decide.

use bytes::Bytes;
use narad_core::config::Policy;
use narad_core::ids::{Incarnation, LogIndex, Name, NodeId, ProposalId, StoreUuid};
use narad_core::metastore::{Addresses, Command, Configuration, Entry};
use narad_core::peer::{Answer, Refusal, Request};
use narad_runtime::embed::{Ledger, Record, decoders};
use narad_runtime::wire::Wire;
use protobuf::CodedOutputStream;

use crate::{Seed, sequence};

pub(crate) fn seeds() -> Vec<Seed> {
    let of = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
    let frames = [&3_u32.to_le_bytes(), &b"one"[..], &0_u32.to_le_bytes()].concat();
    let heartbeat = Request::Heartbeat { incarnation: Incarnation(1), stuck: Vec::new() };
    let refused = Answer::Refused(Refusal::FrozenTooOften { retry_after_ms: 900 });
    let records = records();
    let mut ledger = Ledger::new();
    for record in &records {
        ledger.fold(record).expect("it is good");
    }
    vec![
        ("embed", "question_request", of(0, &bytes(1, &heartbeat.to_bytes()))),
        ("embed", "question_copy", of(0, &bytes(2, &numbers(&[7, 0, 40, 1 << 20])))),
        (
            "embed",
            "question_append",
            of(0, &bytes(3, &[numbers(&[7]), bytes(3, &frames)].concat())),
        ),
        ("embed", "reply_answer", of(1, &bytes(1, &refused.to_bytes()))),
        ("embed", "reply_records", of(1, &bytes(2, &frames))),
        ("embed", "reply_no_records", of(1, &number(3, 2))),
        ("embed", "reply_appended", of(1, &bytes(4, &numbers(&[5, 7, 1])))),
        ("embed", "reply_not_now", of(1, &number(5, 1))),
        ("embed", "frames", of(2, &frames)),
        ("embed", "note_log", of(4, &log_note())),
        ("embed", "note_node", of(5, &[bytes(1, &[9; 16]), number(2, 3), number(3, 4)].concat())),
        ("embed", "connection", of(6, &connection())),
        ("embed", "records", of(7, &sequence(records.iter().map(|record| &record[..])))),
        ("embed", "snapshot", of(8, &ledger.to_bytes())),
    ]
    .into_iter()
    .chain(letters())
    .collect()
}

/// What replicas of an embedder's Raft say to one another.
fn letters() -> Vec<Seed> {
    let of = |kind: &[u8], bytes: &[u8]| [kind, bytes].concat();
    let whom = [number(1, 4), bytes(2, b"d"), bytes(3, b"d:1")].concat();
    let roster = bytes(4, &[bytes(1, &whom), number(2, 3)].concat());
    let kept = [number(1, 2), bytes(2, b"state"), bytes(3, b"third"), roster].concat();
    vec![
        ("letters", "propose", of(&[0, 1], b"a record")),
        ("letters", "change_add", of(&[0, 2], &[bytes(1, b"tag"), bytes(2, &whom)].concat())),
        ("letters", "change_promote", of(&[0, 2], &number(3, 4))),
        ("letters", "change_remove", of(&[0, 2], &number(4, 1))),
        ("letters", "verdict_done", vec![1, 0]),
        ("letters", "verdict_later", of(&[1, 2], b"it waits")),
        ("letters", "verdict_refused", of(&[1, 3], b"never")),
        ("letters", "snapshot", of(&[2], &kept)),
        ("letters", "snapshot_that_counts_too_far", {
            let counts = [number(1, u64::MAX), bytes(2, b""), bytes(3, b"one more")];
            of(&[2], &counts.concat())
        }),
        ("letters", "snapshot_of_nothing", of(&[2], &number(1, 7))),
    ]
}

/// A field of a message: bytes.
fn bytes(tag: u32, bytes: &[u8]) -> Vec<u8> {
    written(|out| out.write_bytes(tag, bytes))
}

/// A field of a message: a number.
fn number(tag: u32, number: u64) -> Vec<u8> {
    written(|out| out.write_uint64(tag, number))
}

/// A message of numbers, tagged from one on.
fn numbers(numbers: &[u64]) -> Vec<u8> {
    (1..).zip(numbers).flat_map(|(tag, value)| number(tag, *value)).collect()
}

fn written(
    write: impl FnOnce(&mut CodedOutputStream<'_>) -> protobuf::ProtobufResult<()>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = CodedOutputStream::vec(&mut bytes);
    write(&mut out).and_then(|()| out.flush()).expect("memory");
    bytes
}

/// Of a copy that is complete: a manifest, an epoch, a life, a high watermark, a position.
fn log_note() -> Vec<u8> {
    let position = bytes(10, &numbers(&[12]));
    let checksum = written(|out| out.write_fixed32(3, 5));
    let extent = bytes(11, &[numbers(&[10, 40]), checksum].concat());
    let attempt = bytes(12, &numbers(&[2, 2, 1, 1]));
    let manifest = [numbers(&[7, 0, 2, 1, 1, 3, 1, 10, 28]), position, extent, attempt].concat();
    [bytes(1, &manifest), number(2, 1), number(3, 3), number(4, 28), bytes(5, &numbers(&[12]))]
        .concat()
}

/// A hello of node 2, and two frames.
fn connection() -> Vec<u8> {
    let hello = [&b"narad-e1"[..], &0x5eed_u128.to_le_bytes(), &2_u64.to_le_bytes()].concat();
    let frame = |call: u64, message: &[u8]| {
        let length = u32::try_from(message.len()).expect("short");
        [&length.to_le_bytes(), &call.to_le_bytes()[..], message].concat()
    };
    [hello, frame(1, b"question"), frame(2, b"")].concat()
}

fn records() -> Vec<Vec<u8>> {
    let entry = |by: u64, sequence, command| {
        let proposal = ProposalId { node: NodeId(by), incarnation: Incarnation(1), sequence };
        Record::Entry(Entry { proposal, by: NodeId(by), command })
    };
    let (store_uuid, addrs) = (StoreUuid(5), Addresses::default());
    let name = Name::new("a").expect("allowed");
    let join = Command::Join { name, store_uuid, addrs: addrs.clone() };
    let (node, incarnation) = (NodeId(1), Incarnation(1));
    let register = Command::Register { node, store_uuid, incarnation, addrs };
    let topic = Command::CreateTopic {
        name: Name::new("orders").expect("allowed"),
        partitions: 2,
        parent: None,
    };
    let voters = Configuration { voters: [node].into(), ..Configuration::default() };
    let records = [
        Record::Found(Policy::default()),
        entry(0, 1, join),
        Record::Lead { node, after: LogIndex(0) },
        entry(1, 2, register),
        Record::Configuration(voters),
        entry(1, 3, topic),
    ];
    records.iter().map(|record| record.to_bytes().to_vec()).collect()
}

/// A seed that is refused at once teaches a fuzzer nothing.
#[test]
fn every_seed_of_a_decoder_is_understood() {
    for (target, name, input) in seeds() {
        let (kind, body) = input.split_first().expect("it has a kind");
        let shared = || Bytes::copy_from_slice(body);
        let sealed = || [&crc32c::crc32c(body).to_le_bytes(), body].concat();
        let understood = match (target, kind) {
            ("letters", 0) => decoders::letter(shared()),
            ("letters", 1) => decoders::verdict(body),
            // Two contradict themselves, which is what they are for.
            ("letters", _) => {
                let is_sound =
                    !matches!(name, "snapshot_of_nothing" | "snapshot_that_counts_too_far");
                decoders::replica_snapshot(shared()) == is_sound
            }
            (_, 0) => decoders::question(shared()),
            (_, 1) => decoders::reply(shared()),
            (_, 2) => decoders::frames(shared()),
            (_, 4) => decoders::log_note(&sealed()),
            (_, 5) => decoders::node_note(&sealed()),
            (_, 6) => decoders::connection(body, 0x5eed) == Some(2),
            (_, 7) => narad_fuzz::messages(body).all(|record| Record::from_bytes(record).is_ok()),
            _ => Ledger::from_bytes(body).is_ok(),
        };
        assert!(understood, "{name}");
    }
}
