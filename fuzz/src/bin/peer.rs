//! What a peer sends inside a frame is understood whole or refused, and keeps its meaning.
#![cfg_attr(fuzzing, no_main)]

use std::fmt::Debug;

use bytes::Bytes;
use narad_core::peer::{Answer, Request};
use narad_runtime::wire::Wire;
use narad_runtime::wire::deliver::{Delivered, Head, RECORDS_MAX, decode_records, encode_records};
use narad_runtime::wire::handshake::{Hello, VERSION_MAX, VERSION_MIN, Welcome};

narad_fuzz::target!("peer", |input| {
    let Some((&kind, bytes)) = input.split_first() else { return };
    match kind % 7 {
        0 => drop(come_back::<Request>(bytes)),
        1 => drop(come_back::<Answer>(bytes)),
        2 => {
            let version = come_back::<Hello>(bytes).and_then(|hello| hello.version());
            assert!(version.is_none_or(|agreed| (VERSION_MIN..=VERSION_MAX).contains(&agreed)));
        }
        3 => {
            if let Some(Welcome::Refused(refused)) = come_back::<Welcome>(bytes) {
                assert!(refused.message.len() <= 512, "a stranger's text is cut");
            }
        }
        4 => {
            let head = come_back::<Head>(bytes);
            assert!(head.is_none_or(|head| head.records <= RECORDS_MAX));
        }
        5 => drop(come_back::<Delivered>(bytes)),
        _ => records(bytes),
    }
});

/// The first byte says how many records were announced.
fn records(bytes: &[u8]) {
    let Some((&count, bytes)) = bytes.split_first() else { return };
    let sent = Bytes::copy_from_slice(bytes);
    if let Ok(records) = decode_records(sent, u32::from(count)) {
        assert_eq!(records.len(), usize::from(count));
        assert_eq!(encode_records(&records), bytes, "records have one form in bytes");
    }
}

fn come_back<T: Wire + Debug + PartialEq>(bytes: &[u8]) -> Option<T> {
    let value = match T::from_bytes(bytes) {
        Ok(value) => value,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    assert_eq!(T::from_bytes(&value.to_bytes()).as_ref(), Ok(&value), "it keeps its meaning");
    Some(value)
}
