//! What other nodes and stores hand to an embedded node is understood whole or refused, and keeps its
//! meaning; so do the records and snapshots of its metastore.
#![cfg_attr(fuzzing, no_main)]

use bytes::Bytes;
use narad_runtime::embed::{Ledger, Record, decoders};

const TOKEN: u128 = 0x5eed;

narad_fuzz::target!("embed", |input| {
    let Some((&kind, bytes)) = input.split_first() else { return };
    let shared = || Bytes::copy_from_slice(bytes);
    match kind % 9 {
        0 => drop(decoders::question(shared())),
        1 => drop(decoders::reply(shared())),
        2 => drop(decoders::frames(shared())),
        3 => drop(decoders::log_note(bytes)),
        4 => drop(decoders::log_note(&sealed(bytes))),
        5 => drop(decoders::node_note(&sealed(bytes))),
        6 => {
            let frames = decoders::connection(bytes, TOKEN);
            assert!(frames.is_none_or(|frames| frames <= bytes.len() / 12), "none is made up");
        }
        7 => records(bytes),
        _ => snapshot(bytes),
    }
});

/// Puts the checksum of a note before it, which no fuzzer finds.
fn sealed(body: &[u8]) -> Vec<u8> {
    [&crc32c::crc32c(body).to_le_bytes(), body].concat()
}

/// A sequence of records is folded up to the first that cannot be.
fn records(bytes: &[u8]) {
    let mut ledger = Ledger::new();
    for bytes in narad_fuzz::messages(bytes) {
        let before = ledger.clone();
        match ledger.fold(bytes) {
            Ok((record, _)) => {
                assert_eq!(ledger.index(), before.index().next());
                assert_eq!(Record::from_bytes(&record.to_bytes()).as_ref(), Ok(&record));
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert_eq!(ledger, before, "a record that is not folded changes nothing");
                break;
            }
        }
    }
    assert_eq!(Ledger::from_bytes(&ledger.to_bytes()).as_ref(), Ok(&ledger));
}

fn snapshot(bytes: &[u8]) {
    if let Ok(ledger) = Ledger::from_bytes(bytes) {
        assert_eq!(Ledger::from_bytes(&ledger.to_bytes()).as_ref(), Ok(&ledger));
    }
}
