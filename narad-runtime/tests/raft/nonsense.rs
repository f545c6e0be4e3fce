//! Peers that send anything at all.

use crate::cluster::{Cluster, decoded, n};
use crate::hostile::entry;
use proptest::prelude::*;
use protobuf::Message as _;
use raft::eraftpb::{Entry, Message, MessageType};

fn message() -> impl Strategy<Value = Vec<u8>> {
    let number = || {
        prop_oneof![
            Just(0_u64),
            Just(1),
            Just(2),
            Just(3),
            Just(4),
            Just(5),
            Just(6),
            Just(7),
            Just(1000),
            Just(u64::MAX - 1),
            Just(u64::MAX)
        ]
    };
    let entries = prop::collection::vec((number(), number(), 0..3_i32, any::<[u8; 2]>()), 0..4);
    let ids = || prop::collection::vec(0..6_u64, 0..4);
    let numbers = (0..20_i32, [number(), number(), number(), number(), number(), number()]);
    let rest = (any::<bool>(), number(), number(), ids(), ids(), ids(), any::<bool>());
    (numbers, entries, rest).prop_map(|((kind, numbers), entries, rest)| {
        let [term, index, log_term, commit, commit_term, hint] = numbers;
        let (reject, snapshot, snapshot_term, voters, learners, outgoing, auto) = rest;
        let mut m = Message::default();
        m.set_msg_type(protobuf::ProtobufEnum::from_i32(kind).unwrap_or(MessageType::MsgAppend));
        m.set_from(2);
        m.set_to(1);
        m.set_term(term);
        m.set_index(index);
        m.set_log_term(log_term);
        m.set_commit(commit);
        m.set_commit_term(commit_term);
        m.set_reject_hint(hint);
        m.set_reject(reject);
        let entries: Vec<Entry> = entries
            .into_iter()
            .map(|(index, term, kind, data)| {
                let mut entry = entry(index, term);
                entry.set_entry_type(protobuf::ProtobufEnum::from_i32(kind).unwrap_or_default());
                entry.set_data(data.to_vec().into());
                entry
            })
            .collect();
        m.set_entries(entries.into());
        let metadata = m.mut_snapshot().mut_metadata();
        metadata.set_index(snapshot);
        metadata.set_term(snapshot_term);
        metadata.mut_conf_state().set_voters(voters);
        metadata.mut_conf_state().set_learners(learners);
        metadata.mut_conf_state().set_voters_outgoing(outgoing);
        metadata.mut_conf_state().set_auto_leave(auto);
        m.write_to_bytes().expect("encodable")
    })
}

/// One node of three that gets messages from node 2, in between works and ages.
fn bombard(messages: &[Vec<u8>], voters: &[u64]) {
    let mut cluster = Cluster::new(voters, 9);
    for (k, bytes) in messages.iter().enumerate() {
        let _ = cluster.raft(1).step(n(2), bytes);
        if k % 2 == 0 {
            // An honest answer to nonsense would go to nobody; only this node is of interest.
            alone(&mut cluster);
        }
        if k % 5 == 0 {
            (0..25).for_each(|_| {
                cluster.raft(1).tick();
                alone(&mut cluster);
            });
        }
    }
    alone(&mut cluster);
    (0..30).for_each(|_| cluster.raft(1).tick());
    alone(&mut cluster);
}

fn alone(cluster: &mut Cluster) {
    let mut out = narad_runtime::raft::Output::default();
    loop {
        cluster.raft(1).ready(&mut out).expect("memory");
        for message in &out.messages {
            decoded(&message.bytes);
        }
        if !out.more {
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever a peer sends, however it is made: an error or not, never the end.
    #[test]
    fn no_sequence_of_messages_ends_the_process(
        messages in prop::collection::vec(message(), 1..40),
        single in any::<bool>(),
    ) {
        bombard(&messages, if single { &[1] } else { &[1, 2, 3] });
    }

    #[test]
    fn no_bytes_end_the_process(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        bombard(&[bytes], &[1, 2, 3]);
    }

    /// Bytes that almost are a message.
    #[test]
    fn no_damaged_message_ends_the_process(
        mut bytes in message(), at in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        let at = at.index(bytes.len());
        bytes[at] = with;
        bombard(&[bytes.clone(), bytes[..at].to_vec()], &[1, 2, 3]);
    }
}
