//! What consumers ask of a node, and what they are answered.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use narad_core::cursor::{Answer, Handle, Refused};
use narad_core::ids::{Delivery, Epoch, Name, Offset, TopicId};
use prost::Message as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Record, ServiceError};
use crate::broker::Offsets;

/// What a consumer wants to be handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// From which partition; `None` for any that the node serves.
    pub partition: Option<u32>,
    /// Most records; at least 1, at most [`Reserve::RECORDS_MAX`].
    pub records_max: usize,
    /// Most bytes, unless the first record alone has more.
    pub bytes_max: u64,
    /// How long nobody else gets them. Longer than [`Limits::visibility_max`](narad_core::cursor::Limits::visibility_max) is cut to it.
    pub visibility: Duration,
    /// How long to wait for a first record.
    pub wait: Duration,
}

impl Reserve {
    /// Most records in one call.
    pub const RECORDS_MAX: usize = 1024;
}

/// Records of one partition that were handed to a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The partition; where nothing was there, one of those that were asked.
    pub partition: u32,
    /// The owner's reign.
    pub epoch: Epoch,
    /// How long nobody else gets them, counted from when they were handed out.
    pub visibility: Duration,
    /// The records, in order; none if there was nothing to do.
    pub records: Vec<HandedRecord>,
}

/// One record that was handed to a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedRecord {
    /// Its offset.
    pub offset: Offset,
    /// The record.
    pub record: Record,
    /// Which of its deliveries this is, from one; more than one says that it may have been seen
    /// before. Counted anew when its partition is opened again.
    pub delivery: Delivery,
    /// What acknowledges it, hands it back or keeps it.
    pub ticket: Ticket,
}

/// Damaged records to give up, as `POST /v1/topics/{topic}/skip` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// The reign in which they were found to be damaged.
    pub epoch: Epoch,
    /// The first of them.
    pub from: Offset,
    /// Offset after the last one.
    pub to: Offset,
}

/// What was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// How many records that nobody had acknowledged.
    pub records: u64,
    /// Where to go on: before the end if as much is acknowledged ahead as may be.
    pub next: Offset,
}

/// What becomes of records that were handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// They are done: nobody gets them again.
    Ack,
    /// They are handed back.
    Nack {
        /// How long nobody gets them.
        delay: Duration,
    },
    /// They are kept.
    Extend {
        /// How long from now on; longer than [`Limits::visibility_max`](narad_core::cursor::Limits::visibility_max) is cut to it.
        visibility: Duration,
    },
}

impl Settle {
    /// Most tickets in one call.
    pub const TICKETS_MAX: usize = 1024;
}

/// What became of one ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is acknowledged from now on.
    Acked,
    /// It was acknowledged before.
    AlreadyAcked,
    /// It is handed back.
    Nacked,
    /// It is kept.
    Extended {
        /// For so long from now on.
        visibility: Duration,
    },
    /// Nothing has changed.
    Refused(Refused),
    /// Another node has the partition. What it knows of the record by now is told there.
    Moved {
        /// Where the owner serves HTTP, as `host:port`, if it is known.
        owner: Option<String>,
    },
    /// The topic was deleted, and another one has its name.
    OtherTopic,
    /// The owner cannot say right now; nothing has changed.
    Unavailable(ServiceError),
}

impl From<Answer> for Settled {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Acked => Self::Acked,
            Answer::AlreadyAcked => Self::AlreadyAcked,
        }
    }
}

impl Settled {
    /// Every name that [`Settled::code`] gives, besides those of [`ServiceError`].
    pub const CODES: [&str; 12] = [
        "acked",
        "already_acked",
        "nacked",
        "extended",
        "superseded",
        "expired",
        "other_epoch",
        "out_of_range",
        "too_far_ahead",
        "too_many_in_flight",
        "moved",
        "other_topic",
    ];

    /// Returns the name of it, for programs; stable.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Acked => "acked",
            Self::AlreadyAcked | Self::Refused(Refused::AlreadyAcked) => "already_acked",
            Self::Nacked => "nacked",
            Self::Extended { .. } => "extended",
            Self::Refused(Refused::Superseded { .. }) => "superseded",
            Self::Refused(Refused::Expired) => "expired",
            Self::Refused(Refused::OtherEpoch { .. }) => "other_epoch",
            Self::Refused(Refused::OutOfRange { .. }) => "out_of_range",
            Self::Refused(Refused::TooFarAhead { .. }) => "too_far_ahead",
            Self::Refused(Refused::TooManyInFlight { .. }) => "too_many_in_flight",
            Self::Moved { .. } | Self::Refused(Refused::Moved) => "moved",
            Self::OtherTopic => "other_topic",
            Self::Unavailable(error) => error.code(),
        }
    }

    /// Returns whether the same ticket may be taken later, here or at the owner.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Refused(Refused::TooFarAhead { .. } | Refused::Moved)
            | Self::Moved { .. }
            | Self::Unavailable(_) => true,
            Self::Acked
            | Self::AlreadyAcked
            | Self::Nacked
            | Self::Extended { .. }
            | Self::OtherTopic
            | Self::Refused(
                Refused::AlreadyAcked
                | Refused::Superseded { .. }
                | Refused::Expired
                | Refused::OtherEpoch { .. }
                | Refused::OutOfRange { .. }
                | Refused::TooManyInFlight { .. },
            ) => false,
        }
    }

    /// Returns what went wrong and what to do next; `None` if it was done.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        match self {
            Self::Acked | Self::AlreadyAcked | Self::Nacked | Self::Extended { .. } => None,
            Self::Refused(refused) => Some(refused.to_string()),
            Self::Moved { .. } => Some(Refused::Moved.to_string()),
            Self::OtherTopic => {
                Some("it is of another topic, or of one that was deleted since: ask at its own topic, or drop it".to_owned())
            }
            Self::Unavailable(error) => Some(error.to_string()),
        }
    }
}

/// A consumer's proof that a record was handed out to it, as text that it need not understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// The topic, by its number: a name that is created again is another topic (H26).
    pub topic: TopicId,
    /// The partition.
    pub partition: u32,
    /// What its cursor knows the record by.
    pub handle: Handle,
}

/// Text that is no [`Ticket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the handle was not made by this cluster: give it back as it came")]
pub struct NoTicket;

/// What the text of a ticket stands for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Form {
    #[prost(uint64, tag = "1")]
    topic: u64,
    #[prost(uint32, tag = "2")]
    partition: u32,
    #[prost(uint64, tag = "3")]
    epoch: u64,
    #[prost(uint64, tag = "4")]
    offset: u64,
    #[prost(uint64, tag = "5")]
    delivery: u64,
}

impl Ticket {
    /// Longest text that is looked at, in bytes.
    pub const TEXT_BYTES_MAX: usize = 128;

    /// Bytes in front of the form, which tell a text that was cut or mixed up.
    const CHECK_BYTES: usize = 2;

    fn check(form: &[u8]) -> [u8; Self::CHECK_BYTES] {
        let [a, b, ..] = crc32c::crc32c(form).to_le_bytes();
        [a, b]
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, partition, handle: Handle { epoch, offset, delivery } } = *self;
        let (topic, epoch, offset, delivery) = (topic.0, epoch.0, offset.0, delivery.0);
        let form = Form { topic, partition, epoch, offset, delivery }.encode_to_vec();
        let mut bytes = Self::check(&form).to_vec();
        bytes.extend_from_slice(&form);
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for Ticket {
    type Err = NoTicket;

    fn from_str(text: &str) -> Result<Self, NoTicket> {
        if text.len() > Self::TEXT_BYTES_MAX {
            return Err(NoTicket);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| NoTicket)?;
        let (check, form) = bytes.split_first_chunk().ok_or(NoTicket)?;
        if *check != Self::check(form) {
            return Err(NoTicket);
        }
        let Form { topic, partition, epoch, offset, delivery } =
            Form::decode(form).map_err(|_| NoTicket)?;
        let handle =
            Handle { epoch: Epoch(epoch), offset: Offset(offset), delivery: Delivery(delivery) };
        Ok(Self { topic: TopicId(topic), partition, handle })
    }
}

impl Serialize for Ticket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ticket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Where the consumers of one partition stand, as `GET /v1/topics/{topic}/offsets` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetsView {
    /// The partition.
    pub partition: u32,
    /// Its owner's name.
    pub owner: Name,
    /// Where the owner serves HTTP, as `host:port`.
    pub addr: String,
    /// What the owner says; absent if it was not asked, or said nothing.
    #[serde(flatten)]
    pub offsets: Option<OffsetsOf>,
    /// Why the owner has said nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// What an owner says of its consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetsOf {
    /// Its reign.
    pub epoch: Epoch,
    /// First offset that retention has kept.
    pub start: Offset,
    /// Offset after the last record that consumers may see.
    pub hwm: Offset,
    /// Offset after the acknowledged prefix; null if nothing of it was ever acknowledged.
    pub committed: Option<Offset>,
    /// Records that are acknowledged ahead of it.
    pub acked_ahead: u64,
    /// Records that are handed out, or were and wait to be handed out again.
    pub in_flight: u64,
    /// Visible records that are not acknowledged.
    pub backlog: u64,
}

impl From<Offsets> for OffsetsOf {
    fn from(offsets: Offsets) -> Self {
        let Offsets { epoch, start, hwm, committed, acked_ahead, in_flight, backlog } = offsets;
        Self { epoch, start, hwm, committed, acked_ahead, in_flight, backlog }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_ticket()(
            topic: u64, partition: u32, epoch: u64, offset: u64, delivery: u64,
        ) -> Ticket {
            let (epoch, offset) = (Epoch(epoch), Offset(offset));
            let handle = Handle { epoch, offset, delivery: Delivery(delivery) };
            Ticket { topic: TopicId(topic), partition, handle }
        }
    }

    proptest! {
        #[test]
        fn a_ticket_is_read_back(ticket in any_ticket()) {
            let text = ticket.to_string();
            prop_assert!(text.len() <= Ticket::TEXT_BYTES_MAX);
            prop_assert_eq!(text.parse(), Ok(ticket));
            prop_assert_eq!(text[..text.len() - 1].parse::<Ticket>(), Err(NoTicket));
        }

        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            if let Ok(ticket) = text.parse::<Ticket>() {
                prop_assert_eq!(ticket.to_string().parse(), Ok(ticket));
            }
        }
    }
}
