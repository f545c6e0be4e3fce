//! The body of a produce request, in both forms: records within their limits, or an error.
#![cfg_attr(fuzzing, no_main)]

use bytes::Bytes;
use narad_runtime::http::batch::{
    Limits, decode_fetched, decode_records, encode_fetched, encode_records,
};
use narad_runtime::http::json::Messages;

const LIMITS: Limits = Limits { records_max: 100, record_bytes_max: 4096 };

narad_fuzz::target!("batch", |input| {
    let body = Bytes::copy_from_slice(input);
    if let Ok(records) = decode_records(body.clone(), LIMITS, 7) {
        assert!(LIMITS.check_count(records.len()).is_ok());
        assert!(records.iter().all(|record| LIMITS.check(record).is_ok()));
        assert_eq!(decode_records(encode_records(&records), LIMITS, 9), Ok(records));
    }
    if let Ok(fetched) = decode_fetched(body, LIMITS) {
        assert_eq!(decode_fetched(encode_fetched(&fetched), LIMITS), Ok(fetched));
    }
    if let Ok(messages) = serde_json::from_slice::<Messages>(input) {
        let written = serde_json::to_vec(&messages).expect("it came from JSON");
        assert_eq!(serde_json::from_slice::<Messages>(&written).ok(), Some(messages.clone()));
        for message in messages.messages {
            if let Err(error) = message.into_record(7) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
});
