//! The JSON form of records: text where it is text, base64 where it is not.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use narad_core::ids::{Delivery, Epoch, Offset};
use serde::{Deserialize, Serialize};

use crate::service::{Fetched, Handed, HandedRecord, OffsetsView, Record, ServiceError, Settled};

/// The body of a produce request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// The records, in order.
    pub messages: Vec<Message>,
}

/// One record.
///
/// Of `value` and `value_base64` exactly one is given, of `key` and `key_base64` at most one. What
/// was fetched can be produced again as it is: what only answers have is ignored then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object, such as {\"key\": \"k\", \"value\": \"v\"}")]
pub struct Message {
    /// Its offset; only in answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<Offset>,
    /// When it was made, in milliseconds of the Unix epoch; the node's time if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp_ms: Option<i64>,
    /// Its key, if that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its key, if that is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// Its content, if that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its content, if that is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    /// Names and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// Which of its deliveries this is, from one; only in answers that hand records out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// What acknowledges it, hands it back or keeps it; only in answers that hand records out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

/// One header of a record: of `value` and `value_base64` exactly one is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object, such as {\"name\": \"n\", \"value\": \"v\"}")]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value, if that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value, if that is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
}

/// The body of a fetch's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchedBody {
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The records, in order.
    pub messages: Vec<Message>,
    /// Where the next fetch goes on.
    pub next: Offset,
    /// Where the log starts.
    pub start: Offset,
    /// Offset after the last record that consumers may see.
    pub hwm: Offset,
    /// The owner's reign; goes into the acknowledgement.
    pub epoch: Epoch,
    /// Offset after the acknowledged prefix; null if nothing was acknowledged.
    pub committed: Option<Offset>,
}

/// The body of an answer that hands records out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedBody {
    /// The topic's name.
    pub topic: String,
    /// The partition that all of them are from.
    pub partition: u32,
    /// The owner's reign.
    pub epoch: Epoch,
    /// How long nobody else gets them, in milliseconds.
    pub visibility_ms: u64,
    /// The records, in order; none if there was nothing to do.
    pub messages: Vec<Message>,
}

/// The body of a request that acknowledges records that were handed out, hands them back or keeps
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlesBody {
    /// The handles as they came, of any partitions of the topic.
    pub handles: Vec<String>,
    /// How long nobody gets what is handed back, such as `5s`; only to hand back. At once if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// How long from now on what is kept is kept, such as `30s`; only to keep, and needed then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<String>,
}

/// What became of handles, in the order in which they were given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledBody {
    /// One for each handle.
    pub results: Vec<SettledView>,
}

/// What became of one handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledView {
    /// The name of it, for programs; stable.
    pub code: String,
    /// What went wrong and what to do next, for people; absent if it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether the same handle may be taken later, here or at the owner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retryable: bool,
    /// How long it is kept from now on, in milliseconds (`extended`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility_ms: Option<u64>,
    /// Where the owner serves HTTP, as `host:port` (`moved`, `not_owner`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

impl SettledView {
    /// Whether what was asked for is so, by this request or by an earlier one.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.error.is_none() || self.code == "already_acked"
    }
}

/// Where the consumers of a topic stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetsBody {
    /// The topic's name.
    pub topic: String,
    /// Its partitions, in order.
    pub partitions: Vec<OffsetsView>,
}

/// Why a message is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Both forms of one field.
    #[error("{field} and {field}_base64 exclude each other")]
    Both {
        /// The field.
        field: &'static str,
    },
    /// Neither form of a field that must be there.
    #[error("a message needs {field} or {field}_base64")]
    Neither {
        /// The field.
        field: &'static str,
    },
    /// Text that is no base64.
    #[error("{field}_base64 is not base64: {cause}")]
    NotBase64 {
        /// The field.
        field: &'static str,
        /// Where it goes wrong.
        cause: String,
    },
}

impl Message {
    /// Makes a record of it; without a time it gets `now_ms`.
    ///
    /// # Errors
    ///
    /// If a field is given twice, is missing or is no base64.
    pub fn into_record(self, now_ms: i64) -> Result<Record, JsonError> {
        let required = |field| JsonError::Neither { field };
        let headers = self.headers.into_iter().map(|header| {
            let value = bytes("value", header.value, header.value_base64)?;
            Ok((header.name, value.ok_or(required("value"))?))
        });
        Ok(Record {
            key: bytes("key", self.key, self.key_base64)?,
            value: bytes("value", self.value, self.value_base64)?.ok_or(required("value"))?,
            timestamp_ms: self.timestamp_ms.unwrap_or(now_ms),
            headers: headers.collect::<Result<_, _>>()?,
        })
    }

    /// Shows a record.
    #[must_use]
    pub fn new(offset: Offset, record: Record) -> Self {
        let (value, value_base64) = text(&record.value);
        let (key, key_base64) = record.key.as_ref().map_or((None, None), text);
        let headers = record.headers.into_iter().map(|(name, value)| {
            let (value, value_base64) = text(&value);
            Header { name, value, value_base64 }
        });
        Self {
            offset: Some(offset),
            timestamp_ms: Some(record.timestamp_ms),
            key,
            key_base64,
            value,
            value_base64,
            headers: headers.collect(),
            delivery: None,
            handle: None,
        }
    }
}

impl HandedBody {
    /// Shows what was handed out.
    #[must_use]
    pub fn new(topic: String, handed: Handed) -> Self {
        let Handed { partition, epoch, visibility, records } = handed;
        let messages = records.into_iter().map(|handed| {
            let HandedRecord { offset, record, delivery, ticket } = handed;
            let (delivery, handle) = (Some(delivery), Some(ticket.to_string()));
            Message { delivery, handle, ..Message::new(offset, record) }
        });
        Self {
            topic,
            partition,
            epoch,
            visibility_ms: millis(visibility),
            messages: messages.collect(),
        }
    }
}

impl SettledBody {
    /// Shows what became of tickets.
    #[must_use]
    pub fn new(settled: Vec<Settled>) -> Self {
        let results = settled.into_iter().map(|settled| {
            let mut view = SettledView {
                code: settled.code().to_owned(),
                error: settled.error(),
                retryable: settled.is_retryable(),
                visibility_ms: None,
                owner: None,
            };
            if let Settled::Extended { visibility } = settled {
                view.visibility_ms = Some(millis(visibility));
            } else if let Settled::Moved { owner }
            | Settled::Unavailable(ServiceError::NotOwner { owner }) = settled
            {
                view.owner = owner;
            }
            view
        });
        Self { results: results.collect() }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl FetchedBody {
    /// Shows what a fetch found.
    #[must_use]
    pub fn new(topic: String, partition: u32, fetched: Fetched) -> Self {
        let Fetched { records, next, start, hwm, epoch, committed } = fetched;
        let messages =
            records.into_iter().map(|(offset, record)| Message::new(offset, record)).collect();
        Self { topic, partition, messages, next, start, hwm, epoch, committed }
    }
}

fn bytes(
    field: &'static str,
    text: Option<String>,
    base64: Option<String>,
) -> Result<Option<Bytes>, JsonError> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(JsonError::Both { field }),
        (Some(text), None) => Ok(Some(text.into())),
        (None, Some(base64)) => match STANDARD.decode(base64) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(cause) => Err(JsonError::NotBase64 { field, cause: cause.to_string() }),
        },
        (None, None) => Ok(None),
    }
}

fn text(bytes: &Bytes) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.into()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_fetched_can_be_produced_again() {
        let record = Record {
            key: Some(Bytes::from_static(&[0xff, 0])),
            value: Bytes::from_static(b"text"),
            timestamp_ms: 5,
            headers: vec![("h".into(), Bytes::from_static(&[0x80]))],
        };
        let message = Message::new(Offset(3), record.clone());
        assert_eq!(message.key_base64.as_deref(), Some("/wA="));
        assert_eq!(message.value.as_deref(), Some("text"));
        let read: Message =
            serde_json::from_str(&serde_json::to_string(&message).expect("json")).expect("read");
        assert_eq!(read.into_record(0), Ok(record));
    }

    #[test]
    fn a_message_that_is_none_is_refused_by_field() {
        let value = || Some("v".to_owned());
        let both = Message { value: value(), value_base64: value(), ..Message::default() };
        assert_eq!(both.into_record(0), Err(JsonError::Both { field: "value" }));
        assert_eq!(Message::default().into_record(0), Err(JsonError::Neither { field: "value" }));
        let garbage =
            Message { value: value(), key_base64: Some("?".into()), ..Message::default() };
        assert!(matches!(garbage.into_record(0), Err(JsonError::NotBase64 { field: "key", .. })));
    }
}
