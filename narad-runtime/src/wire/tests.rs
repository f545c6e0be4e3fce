//! Round trips of every type, and whatever else may be in a byte string.

use std::fmt::Debug;

use narad_core::config::Policy;
use narad_core::ids::{Incarnation, NodeId, ProposalId};
use narad_core::metastore::{Assignment, Command, Configuration, Entry, Member, Topic};
use narad_core::peer::{Answer, Refusal, Request};
use proptest::prelude::*;
use prost::Message as _;

use super::deliver::{self, Delivered, Head};
use super::handshake::{Hello, Purpose, Refused, Welcome, Why};
use super::message::command as form;
use super::{Coded, DecodeError, ENTRY_VERSION_MAX, Wire, strategy};

fn comes_back<T: Wire + PartialEq + Debug>(value: &T) -> Result<(), TestCaseError> {
    let back = T::from_bytes(&value.to_bytes());
    prop_assert_eq!(back.as_ref(), Ok(value));
    Ok(())
}

/// Decoding may fail, but must return.
fn is_survived<T: Wire + Debug>(bytes: &[u8]) {
    let _: Result<T, DecodeError> = T::from_bytes(bytes);
}

fn all_are_survived(bytes: &[u8]) {
    is_survived::<Entry>(bytes);
    is_survived::<Member>(bytes);
    is_survived::<Topic>(bytes);
    is_survived::<Assignment>(bytes);
    is_survived::<Configuration>(bytes);
    is_survived::<Policy>(bytes);
    is_survived::<Request>(bytes);
    is_survived::<Answer>(bytes);
    is_survived::<Hello>(bytes);
    is_survived::<Welcome>(bytes);
    is_survived::<Head>(bytes);
    is_survived::<Delivered>(bytes);
    let _ = deliver::decode_records(bytes::Bytes::copy_from_slice(bytes), 3);
}

proptest! {
    #[test]
    fn entries_come_back(entry in strategy::entry()) {
        comes_back(&entry)?;
    }

    #[test]
    fn members_come_back(member in strategy::member()) {
        comes_back(&member)?;
    }

    #[test]
    fn topics_come_back(topic in strategy::topic()) {
        comes_back(&topic)?;
    }

    #[test]
    fn assignments_come_back(assignment in strategy::assignment()) {
        comes_back(&assignment)?;
    }

    #[test]
    fn snapshots_come_back(parts in strategy::parts()) {
        comes_back(&parts)?;
    }

    #[test]
    fn configurations_and_policies_come_back(
        configuration in strategy::configuration(),
        policy in strategy::policy(),
    ) {
        comes_back(&configuration)?;
        comes_back(&policy)?;
    }

    #[test]
    fn requests_come_back(request in strategy::request()) {
        comes_back(&request)?;
    }

    #[test]
    fn answers_come_back(answer in strategy::answer()) {
        comes_back(&answer)?;
    }

    #[test]
    fn batches_come_back(
        head in strategy::delivery_head(),
        delivered in strategy::delivered(),
        records in proptest::collection::vec(crate::log::any_record(), 0..5),
    ) {
        comes_back(&head)?;
        comes_back(&delivered)?;
        let count = u32::try_from(records.len()).expect("few");
        let bytes = deliver::encode_records(&records);
        for other in [count.wrapping_sub(1), count + 1] {
            prop_assert!(deliver::decode_records(bytes.clone(), other).is_err());
        }
        prop_assert_eq!(deliver::decode_records(bytes, count), Ok(records));
    }

    #[test]
    fn handshakes_come_back(hello in strategy::hello(), welcome in strategy::welcome()) {
        comes_back(&hello)?;
        comes_back(&welcome)?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        all_are_survived(&bytes);
    }

    /// Damage of real messages reaches deeper than noise does.
    #[test]
    fn damaged_messages_never_panic(
        entry in strategy::entry(),
        answer in strategy::answer(),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        for mut bytes in [entry.to_bytes(), answer.to_bytes()] {
            if bytes.is_empty() {
                continue;
            }
            let at = at.index(bytes.len());
            bytes[at] ^= with;
            all_are_survived(&bytes);
            bytes.truncate(cut.index(bytes.len()));
            all_are_survived(&bytes);
        }
    }
}

fn an_entry() -> Entry {
    Entry {
        proposal: ProposalId { node: NodeId(1), incarnation: Incarnation(2), sequence: 3 },
        by: NodeId(1),
        command: Command::SetDraining { node: NodeId(7), on: true },
    }
}

/// M145: an older build must stop at a newer command, and say which.
#[test]
fn case_145_a_newer_command_is_named_and_not_skipped() {
    let newer =
        form::Entry { version: 9, command_tag: 77, command: None, ..an_entry().to_message() };
    assert_eq!(
        Entry::from_bytes(&newer.encode_to_vec()),
        Err(DecodeError::UnknownCommand { tag: 77, version: 9 })
    );
    let unmarked =
        form::Entry { version: 1, command_tag: 77, command: None, ..an_entry().to_message() };
    assert_eq!(
        Entry::from_bytes(&unmarked.encode_to_vec()),
        Err(DecodeError::UnknownCommand { tag: 77, version: 1 })
    );
}

/// M145: an old command with a field that this build would ignore carries the version that knows
/// the field, and must not be applied without it.
#[test]
fn case_145_a_newer_form_of_an_old_command_is_not_applied_without_its_new_field() {
    let newer = form::Entry { version: ENTRY_VERSION_MAX + 1, ..an_entry().to_message() };
    assert_eq!(
        Entry::from_bytes(&newer.encode_to_vec()),
        Err(DecodeError::UnknownCommand { tag: 20, version: ENTRY_VERSION_MAX + 1 })
    );
}

#[test]
fn an_entry_without_its_command_is_malformed_rather_than_newer() {
    for command_tag in [0, 20] {
        let broken = form::Entry { command_tag, command: None, ..an_entry().to_message() };
        assert_eq!(
            Entry::from_bytes(&broken.encode_to_vec()),
            Err(DecodeError::Malformed { what: "an entry's command" })
        );
    }
    let mixed = form::Entry { command_tag: 21, ..an_entry().to_message() };
    assert_eq!(
        Entry::from_bytes(&mixed.encode_to_vec()),
        Err(DecodeError::Malformed { what: "an entry's command tag" })
    );
}

/// An older build reads what a newer one wrote, as far as it knows it.
#[test]
fn an_unknown_field_is_ignored() {
    let mut bytes = Refusal::NotYet.to_bytes();
    // Tag 100, length-delimited, three bytes.
    bytes.extend([0xa2, 0x06, 3, 1, 2, 3]);
    assert_eq!(Refusal::from_bytes(&bytes), Ok(Refusal::NotYet));
}

/// F20: what is not understood is unknown, never a refusal.
#[test]
fn case_020_an_unknown_refusal_is_an_error_and_not_another_refusal() {
    // `kind = 99`.
    assert_eq!(Refusal::from_bytes(&[0x08, 99]), Err(DecodeError::Unknown { what: "a refusal" }));
    assert_eq!(Request::from_bytes(&[]), Err(DecodeError::Unknown { what: "a request" }));
}

/// The numbers below are in Raft logs and on the wire: a change of any of them is a change of the
/// format.
#[test]
fn the_bytes_of_an_entry_stay_what_they_are() {
    assert_eq!(
        an_entry().to_bytes(),
        [10, 6, 8, 1, 16, 2, 24, 3, 16, 1, 24, 1, 32, 20, 162, 1, 4, 8, 7, 16, 1]
    );
}

#[test]
fn a_name_that_could_be_a_path_is_malformed() {
    let topic = super::message::metastore::Topic {
        id: 1,
        name: "../etc".to_owned(),
        partitions: 1,
        parent: None,
        created_by: None,
    };
    assert_eq!(
        Topic::from_bytes(&topic.encode_to_vec()),
        Err(DecodeError::Malformed { what: "a topic's name" })
    );
}

#[test]
fn the_newest_common_version_is_chosen() {
    let hello = |versions| Hello {
        versions,
        cluster: None,
        node: None,
        store_uuid: narad_core::ids::StoreUuid(1),
        purpose: Purpose::Join,
        listens_at: None,
    };
    assert_eq!(hello((1, 1)).version(), Some(1));
    assert_eq!(hello((0, 40)).version(), Some(1));
    assert_eq!(hello((2, 9)).version(), None);
    assert_eq!(hello((9, 0)).version(), None);
}

#[test]
fn a_long_text_of_a_stranger_is_cut() {
    let refused = Welcome::Refused(Refused { why: Why::Busy, message: "\u{e9}".repeat(2000) });
    match Welcome::from_bytes(&refused.to_bytes()) {
        Ok(Welcome::Refused(cut)) => assert_eq!(cut.message.len(), 512),
        other => panic!("{other:?}"),
    }
}

#[cfg(feature = "log")]
mod frames {
    use bytes::Bytes;
    use proptest::prelude::*;

    use crate::wire::frame::{self, Decoder, Frame, FrameError, Kind};

    fn drain(decoder: &mut Decoder) -> Vec<Result<Frame, FrameError>> {
        let mut found = Vec::new();
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => found.push(Ok(frame)),
                Ok(None) => return found,
                Err(error) => {
                    found.push(Err(error));
                    return found;
                }
            }
        }
    }

    proptest! {
        #[test]
        fn frames_come_back_however_they_are_cut(
            payloads in proptest::collection::vec(
                (proptest::sample::select(&Kind::ALL[..]), proptest::collection::vec(any::<u8>(), 0..64)),
                0..5,
            ),
            piece in 1..40_usize,
        ) {
            let mut bytes = Vec::new();
            for (kind, payload) in &payloads {
                bytes.extend(frame::encode(1, *kind, payload).expect("short"));
            }
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(piece) {
                decoder.push(piece);
                found.extend(drain(&mut decoder));
            }
            let sent: Vec<_> = payloads
                .into_iter()
                .map(|(kind, payload)| Ok(Frame { kind, payload: Bytes::from(payload) }))
                .collect();
            prop_assert_eq!(found, sent);
        }

        #[test]
        fn arbitrary_bytes_never_panic_and_an_error_stays(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            if let Some(Err(error)) = drain(&mut decoder).pop() {
                decoder.push(&frame::encode(1, Kind::Raft, b"good").expect("short"));
                prop_assert_eq!(decoder.next_frame(), Err(error));
                prop_assert_eq!(decoder.wanted(), 0);
            }
        }

        #[test]
        fn any_flipped_bit_behind_the_length_is_found(
            payload in proptest::collection::vec(any::<u8>(), 0..64),
            at in any::<prop::sample::Index>(),
            bit in 0..8_u32,
        ) {
            let mut bytes = frame::encode(1, Kind::Answer, &payload).expect("short").to_vec();
            let at = frame::LENGTH_BYTES + at.index(bytes.len() - frame::LENGTH_BYTES);
            bytes[at] ^= 1 << bit;
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            prop_assert!(decoder.next_frame().is_err());
        }
    }

    /// C59: what a peer announces is judged before anything is reserved for it.
    #[test]
    fn case_059_an_oversized_frame_is_refused_at_its_head() {
        let mut head = u32::MAX.to_be_bytes().to_vec();
        head.extend([1, Kind::Hello as u8]);
        let mut decoder = Decoder::default();
        decoder.push(&head);
        let error = decoder.next_frame().expect_err("it is far too long");
        assert!(matches!(error, FrameError::TooLong { kind: Kind::Hello, .. }), "{error}");
        assert!(frame::encode(1, Kind::Request, &vec![0; frame::CONTROL_BYTES_MAX + 1]).is_err());
        assert!(frame::encode(1, Kind::Snapshot, &vec![0; frame::CONTROL_BYTES_MAX + 1]).is_ok());
    }

    #[test]
    fn foreign_versions_and_kinds_have_errors_of_their_own() {
        let decode = |bytes: &[u8]| {
            let mut decoder = Decoder::default();
            decoder.push(bytes);
            decoder.next_frame()
        };
        assert_eq!(decode(&[0, 0, 0, 9, 7, 1, 0]), Err(FrameError::UnknownVersion { found: 7 }));
        assert_eq!(decode(&[0, 0, 0, 9, 1, 99, 0]), Err(FrameError::UnknownKind { found: 99 }));
        assert_eq!(decode(&[0, 0, 0, 2, 1, 1, 0]), Err(FrameError::TooShort { bytes: 2 }));
    }

    #[test]
    fn a_reader_that_takes_what_is_wanted_takes_nothing_of_what_follows() {
        let bytes = frame::encode(1, Kind::CopyHead, b"head").expect("short");
        let mut decoder = Decoder::default();
        assert_eq!(decoder.wanted(), frame::HEAD_BYTES);
        decoder.push(&bytes[..frame::HEAD_BYTES]);
        assert_eq!(decoder.wanted(), bytes.len() - frame::HEAD_BYTES);
        decoder.push(&bytes[frame::HEAD_BYTES..]);
        assert_eq!(decoder.wanted(), 0);
        assert!(decoder.next_frame().expect("sound").is_some());
        assert_eq!(decoder.wanted(), frame::HEAD_BYTES);
    }
}
