//! The binary form of many records: `application/x-narad-batch`.
//!
//! A body is a sequence of protobuf messages, each after its own length: one [`BatchHead`], then
//! [`BatchRecord`]s to the end. A reader so never holds more than one record that it has not judged,
//! and can stop at the first that is too large. New fields get new tags; tags that are not known are
//! passed over.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use narad_core::ids::{Delivery, Epoch, Offset};
use prost::Message;

use crate::service::{Fetched, Handed, HandedRecord, Record};

/// The content type of a batch.
pub const CONTENT_TYPE: &str = "application/x-narad-batch";

/// What a reader of batches accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most records.
    pub records_max: u32,
    /// Longest record: key, value and headers, in bytes.
    pub record_bytes_max: u64,
}

impl Limits {
    /// Most headers of one record.
    pub const HEADERS_MAX: usize = 256;

    /// What one record's encoding may take on top of its payload, in bytes.
    const OVERHEAD_BYTES: u64 = 64 + 16 * Self::HEADERS_MAX as u64;

    /// Judges one decoded record, whatever form it came in.
    ///
    /// # Errors
    ///
    /// If it is too long or has too many headers.
    pub fn check(&self, record: &Record) -> Result<(), BatchError> {
        let bytes = u64::try_from(record.payload_bytes()).unwrap_or(u64::MAX);
        if bytes > self.record_bytes_max {
            return Err(BatchError::RecordTooLong { bytes, bytes_max: self.record_bytes_max });
        }
        if record.headers.len() > Self::HEADERS_MAX {
            return Err(BatchError::TooManyHeaders { headers: record.headers.len() });
        }
        Ok(())
    }

    /// Judges how many records there are.
    ///
    /// # Errors
    ///
    /// If there are more than [`Limits::records_max`].
    pub fn check_count(&self, records: usize) -> Result<(), BatchError> {
        if records > self.records_max as usize {
            return Err(BatchError::TooManyRecords { records_max: self.records_max });
        }
        Ok(())
    }
}

/// Why a body is no batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// It ends within a message, or has a length that reaches beyond its end.
    #[error("the batch is cut short after {records} records")]
    CutShort {
        /// Whole records before that.
        records: usize,
    },
    /// A message cannot be decoded.
    #[error("record {record} of the batch cannot be decoded: {cause}")]
    Malformed {
        /// Which one, from zero; the head counts as the first record.
        record: usize,
        /// What the decoder says.
        cause: String,
    },
    /// There are more records than one request may have.
    #[error("the batch has more than {records_max} records; send several")]
    TooManyRecords {
        /// The limit.
        records_max: u32,
    },
    /// A record is longer than the node takes.
    #[error("a record has {bytes} bytes, the node takes at most {bytes_max}")]
    RecordTooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// A record has more headers than the node takes.
    #[error("a record has {headers} headers, the node takes at most {max}", max = Limits::HEADERS_MAX)]
    TooManyHeaders {
        /// How many it has.
        headers: usize,
    },
    /// A record of an answer was not handed out to anybody.
    #[error("record {record} of the batch was not handed out")]
    NotHandedOut {
        /// Which one, from zero.
        record: usize,
    },
    /// A record of an answer has no offset.
    #[error("record {record} of the batch has no offset")]
    NoOffset {
        /// Which one, from zero.
        record: usize,
    },
}

impl BatchError {
    /// Whether a limit was exceeded, as opposed to bytes that make no sense.
    pub fn is_too_large(&self) -> bool {
        match self {
            Self::TooManyRecords { .. }
            | Self::RecordTooLong { .. }
            | Self::TooManyHeaders { .. } => true,
            Self::CutShort { .. }
            | Self::Malformed { .. }
            | Self::NotHandedOut { .. }
            | Self::NoOffset { .. } => false,
        }
    }
}

/// What comes before the records. Empty in a request.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct BatchHead {
    /// Where the next fetch goes on.
    #[prost(uint64, tag = "1")]
    pub next: u64,
    /// Where the log starts.
    #[prost(uint64, tag = "2")]
    pub start: u64,
    /// Offset after the last record that consumers may see.
    #[prost(uint64, tag = "3")]
    pub hwm: u64,
    /// The owner's reign.
    #[prost(uint64, tag = "4")]
    pub epoch: u64,
    /// Offset after the acknowledged prefix, if any was acknowledged.
    #[prost(uint64, optional, tag = "5")]
    pub committed: Option<u64>,
    /// The partition, where records are handed out.
    #[prost(uint32, optional, tag = "6")]
    pub partition: Option<u32>,
    /// How long nobody else gets them, in milliseconds.
    #[prost(uint64, optional, tag = "7")]
    pub visibility_ms: Option<u64>,
}

/// One record.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct BatchRecord {
    /// What places it among the partitions.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub key: Option<Bytes>,
    /// Its content.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
    /// When it was made, in milliseconds of the Unix epoch; the node's time if it is absent.
    #[prost(sint64, optional, tag = "3")]
    pub timestamp_ms: Option<i64>,
    /// Names and values.
    #[prost(message, repeated, tag = "4")]
    pub headers: Vec<BatchHeader>,
    /// Its offset; only in answers.
    #[prost(uint64, optional, tag = "5")]
    pub offset: Option<u64>,
    /// Which of its deliveries this is, where records are handed out.
    #[prost(uint64, optional, tag = "6")]
    pub delivery: Option<u64>,
    /// What acknowledges it, hands it back or keeps it.
    #[prost(string, optional, tag = "7")]
    pub handle: Option<String>,
}

/// One header of a record.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct BatchHeader {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// Encodes records to be produced.
///
/// # Examples
///
/// What is encoded is read back:
///
/// ```
/// use narad_runtime::http::batch::{Limits, decode_records, encode_records};
/// use narad_runtime::service::Record;
///
/// let records = vec![Record { value: "42".into(), timestamp_ms: 7, ..Record::default() }];
/// let limits = Limits { records_max: 10, record_bytes_max: 100 };
/// assert_eq!(decode_records(encode_records(&records), limits, 0), Ok(records));
/// ```
#[must_use]
pub fn encode_records(records: &[Record]) -> Bytes {
    encode(&BatchHead::default(), records.iter().map(|record| form(None, record)))
}

/// Encodes what a fetch found.
#[must_use]
pub fn encode_fetched(fetched: &Fetched) -> Bytes {
    let head = BatchHead {
        next: fetched.next.0,
        start: fetched.start.0,
        hwm: fetched.hwm.0,
        epoch: fetched.epoch.0,
        committed: fetched.committed.map(|offset| offset.0),
        ..BatchHead::default()
    };
    encode(&head, fetched.records.iter().map(|(offset, record)| form(Some(*offset), record)))
}

/// Encodes what was handed out.
#[must_use]
pub fn encode_handed(handed: &Handed) -> Bytes {
    let head = BatchHead {
        epoch: handed.epoch.0,
        partition: Some(handed.partition),
        visibility_ms: Some(u64::try_from(handed.visibility.as_millis()).unwrap_or(u64::MAX)),
        ..BatchHead::default()
    };
    let records = handed.records.iter().map(|handed| BatchRecord {
        delivery: Some(handed.delivery.0),
        handle: Some(handed.ticket.to_string()),
        ..form(Some(handed.offset), &handed.record)
    });
    encode(&head, records)
}

/// Decodes what was handed out.
///
/// # Errors
///
/// If the bytes are no batch, exceed a limit, or were not handed out.
pub fn decode_handed(body: Bytes, limits: Limits) -> Result<Handed, BatchError> {
    let (head, records) = decode(body, limits)?;
    let mut found = Vec::with_capacity(records.len());
    for (index, record) in records.into_iter().enumerate() {
        let not_handed_out = BatchError::NotHandedOut { record: index };
        let ticket = record.handle.as_deref().and_then(|handle| handle.parse().ok());
        let delivery = record.delivery.map(Delivery);
        let (offset, record) = plain(record, 0);
        let (Some(offset), Some(delivery), Some(ticket)) = (offset, delivery, ticket) else {
            return Err(not_handed_out);
        };
        found.push(HandedRecord { offset, record, delivery, ticket });
    }
    Ok(Handed {
        partition: head.partition.ok_or(BatchError::NotHandedOut { record: 0 })?,
        epoch: Epoch(head.epoch),
        visibility: Duration::from_millis(head.visibility_ms.unwrap_or_default()),
        records: found,
    })
}

/// Decodes records to be produced; those without a time get `now_ms`.
///
/// # Errors
///
/// If the bytes are no batch or exceed a limit.
pub fn decode_records(body: Bytes, limits: Limits, now_ms: i64) -> Result<Vec<Record>, BatchError> {
    let (_, records) = decode(body, limits)?;
    Ok(records.into_iter().map(|record| plain(record, now_ms).1).collect())
}

/// Decodes what a fetch found.
///
/// # Errors
///
/// If the bytes are no batch or exceed a limit.
pub fn decode_fetched(body: Bytes, limits: Limits) -> Result<Fetched, BatchError> {
    let (head, records) = decode(body, limits)?;
    let mut found = Vec::with_capacity(records.len());
    for (index, record) in records.into_iter().enumerate() {
        let (offset, record) = plain(record, 0);
        found.push((offset.ok_or(BatchError::NoOffset { record: index })?, record));
    }
    Ok(Fetched {
        records: found,
        next: Offset(head.next),
        start: Offset(head.start),
        hwm: Offset(head.hwm),
        epoch: Epoch(head.epoch),
        committed: head.committed.map(Offset),
    })
}

fn form(offset: Option<Offset>, record: &Record) -> BatchRecord {
    let headers = record
        .headers
        .iter()
        .map(|(name, value)| BatchHeader { name: name.clone(), value: value.clone() })
        .collect();
    BatchRecord {
        key: record.key.clone(),
        value: record.value.clone(),
        timestamp_ms: Some(record.timestamp_ms),
        headers,
        offset: offset.map(|offset| offset.0),
        delivery: None,
        handle: None,
    }
}

fn encode(head: &BatchHead, records: impl Iterator<Item = BatchRecord>) -> Bytes {
    let mut body = BytesMut::new();
    // Writing into a growing buffer cannot fail.
    let written = "a growing buffer takes any message";
    head.encode_length_delimited(&mut body).expect(written);
    for record in records {
        record.encode_length_delimited(&mut body).expect(written);
    }
    body.freeze()
}

fn decode(mut body: Bytes, limits: Limits) -> Result<(BatchHead, Vec<BatchRecord>), BatchError> {
    let malformed = |record, cause: &prost::DecodeError| BatchError::Malformed {
        record,
        cause: cause.to_string(),
    };
    let head = next_message(&mut body, 0, u64::MAX)?;
    let head = BatchHead::decode(head).map_err(|cause| malformed(0, &cause))?;
    let mut records = Vec::new();
    while body.has_remaining() {
        limits.check_count(records.len() + 1)?;
        let most = limits.record_bytes_max.saturating_add(Limits::OVERHEAD_BYTES);
        let record = next_message(&mut body, records.len(), most).map_err(|error| match error {
            // What people set is the limit of the payload, which is broken all the more.
            BatchError::RecordTooLong { bytes, .. } => {
                BatchError::RecordTooLong { bytes, bytes_max: limits.record_bytes_max }
            }
            error => error,
        })?;
        let record =
            BatchRecord::decode(record).map_err(|cause| malformed(records.len(), &cause))?;
        limits.check(&plain(record.clone(), 0).1)?;
        records.push(record);
    }
    Ok((head, records))
}

/// Cuts the next message off; its length is judged before anything is made of it.
fn next_message(body: &mut Bytes, records: usize, bytes_max: u64) -> Result<Bytes, BatchError> {
    let length =
        prost::decode_length_delimiter(&mut *body).map_err(|_| BatchError::CutShort { records })?;
    let bytes = u64::try_from(length).unwrap_or(u64::MAX);
    if bytes > bytes_max {
        return Err(BatchError::RecordTooLong { bytes, bytes_max });
    }
    if length > body.remaining() {
        return Err(BatchError::CutShort { records });
    }
    Ok(body.split_to(length))
}

fn plain(record: BatchRecord, now_ms: i64) -> (Option<Offset>, Record) {
    let BatchRecord { key, value, timestamp_ms, headers, offset, .. } = record;
    let headers = headers.into_iter().map(|header| (header.name, header.value)).collect();
    let timestamp_ms = timestamp_ms.unwrap_or(now_ms);
    (offset.map(Offset), Record { key, value, timestamp_ms, headers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { records_max: 4, record_bytes_max: 64 };

    fn record(value: &[u8]) -> Record {
        Record { value: Bytes::copy_from_slice(value), timestamp_ms: -1, ..Record::default() }
    }

    #[test]
    fn limits_hold_exactly() {
        let four = vec![record(b"x"); 4];
        assert_eq!(decode_records(encode_records(&four), LIMITS, 0), Ok(four));
        let five = encode_records(&vec![record(b"x"); 5]);
        assert_eq!(
            decode_records(five, LIMITS, 0),
            Err(BatchError::TooManyRecords { records_max: 4 })
        );
        let full = vec![record(&[7; 64])];
        assert_eq!(decode_records(encode_records(&full), LIMITS, 0), Ok(full));
        let over = encode_records(&[record(&[7; 65])]);
        assert_eq!(
            decode_records(over, LIMITS, 0),
            Err(BatchError::RecordTooLong { bytes: 65, bytes_max: 64 })
        );
        let headers = vec![(String::new(), Bytes::new()); Limits::HEADERS_MAX + 1];
        let over = encode_records(&[Record { headers, ..Record::default() }]);
        assert_eq!(
            decode_records(over, LIMITS, 0),
            Err(BatchError::TooManyHeaders { headers: Limits::HEADERS_MAX + 1 })
        );
    }

    #[test]
    fn a_length_beyond_the_end_is_refused_before_anything_is_allocated() {
        // An empty head, then a record that claims 2^62 bytes.
        let mut body = BytesMut::from(&[0_u8][..]);
        prost::encode_length_delimiter(1 << 62, &mut body).expect("fits");
        let error = decode_records(body.freeze(), LIMITS, 0).expect_err("not there");
        assert!(matches!(error, BatchError::RecordTooLong { bytes_max: 64, .. }), "{error:?}");
        let cut = encode_records(&[record(b"hello")]);
        let cut = cut.slice(..cut.len() - 1);
        assert_eq!(decode_records(cut, LIMITS, 0), Err(BatchError::CutShort { records: 0 }));
    }

    #[test]
    fn a_record_without_a_time_gets_the_nodes() {
        let bare = BatchRecord { value: "v".into(), ..BatchRecord::default() };
        let mut body = BytesMut::from(&[0_u8][..]);
        bare.encode_length_delimited(&mut body).expect("grows");
        let records = decode_records(body.freeze(), LIMITS, 99).expect("a batch");
        assert_eq!(records[0].timestamp_ms, 99);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            // Either a batch within the limits or a typed error; never a panic.
            if let Ok(records) = decode_records(Bytes::from(bytes), LIMITS, 0) {
                prop_assert!(records.len() <= 4);
                prop_assert!(records.iter().all(|record| record.payload_bytes() <= 64));
            }
        }

        #[test]
        fn what_was_fetched_is_read_back(
            values in proptest::collection::vec(
                (any::<u64>(), proptest::option::of("[a-z]{0,8}"), "[a-z]{0,8}", any::<i64>()), 0..4),
            committed in proptest::option::of(any::<u64>()),
        ) {
            let records = values.into_iter().map(|(offset, key, value, timestamp_ms)| {
                let headers = vec![(value.clone(), Bytes::from(value.clone()))];
                let key = key.map(Bytes::from);
                (Offset(offset), Record { key, value: value.into(), timestamp_ms, headers })
            });
            let fetched = Fetched {
                records: records.collect(),
                next: Offset(9),
                start: Offset(1),
                hwm: Offset(8),
                epoch: Epoch(3),
                committed: committed.map(Offset),
            };
            prop_assert_eq!(decode_fetched(encode_fetched(&fetched), LIMITS), Ok(fetched));
        }
    }
}
