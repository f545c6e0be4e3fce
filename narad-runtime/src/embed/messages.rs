//! What embedded nodes say to one another, as bytes of a [`Peer`](super::Peer).

use bytes::Bytes;
use narad_core::ids::{Epoch, Offset, PartitionId, TopicId};
use prost::Message;

use super::seat::{Committed, CopyFault};
use crate::wire::DecodeError;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Of the machines: an encoded `peer::Request`.
    Request(Bytes),
    /// For records of one extent, from one of them on.
    Copy { partition: PartitionId, from: Offset, bytes_max: u64 },
    /// To append records, as frames.
    Append { partition: PartitionId, frames: Bytes },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// An encoded `peer::Answer`.
    Answer(Bytes),
    /// Records, as frames.
    Records(Bytes),
    /// A source gives none.
    NoRecords(CopyFault),
    /// They are committed.
    Appended(Committed),
    /// They are not, and nothing was done: try again.
    NotNow,
    /// They may be.
    Unknown,
}

impl Question {
    pub(super) fn encode(self) -> Bytes {
        let what = match self {
            Self::Request(request) => Asked::Request(request),
            Self::Copy { partition, from, bytes_max } => Asked::Copy(CopyMessage {
                topic: partition.topic.0,
                index: partition.index,
                from: from.0,
                bytes_max,
            }),
            Self::Append { partition, frames } => Asked::Append(AppendMessage {
                topic: partition.topic.0,
                index: partition.index,
                frames,
            }),
        };
        QuestionMessage { what: Some(what) }.encode_to_vec().into()
    }

    pub(super) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let malformed = DecodeError::Malformed { what: "a question" };
        let message = QuestionMessage::decode(bytes).map_err(|_| malformed.clone())?;
        let partition = |topic, index| PartitionId { topic: TopicId(topic), index };
        Ok(match message.what.ok_or(malformed)? {
            Asked::Request(request) => Self::Request(request),
            Asked::Copy(CopyMessage { topic, index, from, bytes_max }) => {
                let partition = partition(topic, index);
                Self::Copy { partition, from: Offset(from), bytes_max }
            }
            Asked::Append(AppendMessage { topic, index, frames }) => {
                Self::Append { partition: partition(topic, index), frames }
            }
        })
    }
}

impl Reply {
    const NOT_SERVING: u32 = 1;
    const GONE: u32 = 2;
    const FAILED: u32 = 3;

    pub(super) fn encode(self) -> Bytes {
        let what = match self {
            Self::Answer(answer) => Said::Answer(answer),
            Self::Records(frames) => Said::Records(frames),
            Self::NoRecords(CopyFault::NotServing) => Said::NoRecords(Self::NOT_SERVING),
            Self::NoRecords(CopyFault::Gone) => Said::NoRecords(Self::GONE),
            Self::NoRecords(CopyFault::Failed) => Said::NoRecords(Self::FAILED),
            Self::Appended(Committed { first, end, epoch }) => {
                Said::Appended(CommittedMessage { first: first.0, end: end.0, epoch: epoch.0 })
            }
            Self::NotNow => Said::NotAppended(true),
            Self::Unknown => Said::NotAppended(false),
        };
        ReplyMessage { what: Some(what) }.encode_to_vec().into()
    }

    pub(super) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let malformed = DecodeError::Malformed { what: "a reply" };
        let message = ReplyMessage::decode(bytes).map_err(|_| malformed.clone())?;
        Ok(match message.what.ok_or(malformed.clone())? {
            Said::Answer(answer) => Self::Answer(answer),
            Said::Records(frames) => Self::Records(frames),
            Said::NoRecords(Self::NOT_SERVING) => Self::NoRecords(CopyFault::NotServing),
            Said::NoRecords(Self::GONE) => Self::NoRecords(CopyFault::Gone),
            Said::NoRecords(Self::FAILED) => Self::NoRecords(CopyFault::Failed),
            Said::NoRecords(_) => return Err(malformed),
            Said::Appended(CommittedMessage { first, end, epoch }) => {
                let (first, end) = (Offset(first), Offset(end));
                Self::Appended(Committed { first, end, epoch: Epoch(epoch) })
            }
            Said::NotAppended(true) => Self::NotNow,
            Said::NotAppended(false) => Self::Unknown,
        })
    }
}

#[derive(Clone, PartialEq, Message)]
struct QuestionMessage {
    #[prost(oneof = "Asked", tags = "1, 2, 3")]
    what: Option<Asked>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Asked {
    #[prost(bytes = "bytes", tag = "1")]
    Request(Bytes),
    #[prost(message, tag = "2")]
    Copy(CopyMessage),
    #[prost(message, tag = "3")]
    Append(AppendMessage),
}

#[derive(Clone, Copy, PartialEq, Message)]
struct CopyMessage {
    #[prost(uint64, tag = "1")]
    topic: u64,
    #[prost(uint32, tag = "2")]
    index: u32,
    #[prost(uint64, tag = "3")]
    from: u64,
    #[prost(uint64, tag = "4")]
    bytes_max: u64,
}

#[derive(Clone, PartialEq, Message)]
struct AppendMessage {
    #[prost(uint64, tag = "1")]
    topic: u64,
    #[prost(uint32, tag = "2")]
    index: u32,
    #[prost(bytes = "bytes", tag = "3")]
    frames: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct ReplyMessage {
    #[prost(oneof = "Said", tags = "1, 2, 3, 4, 5")]
    what: Option<Said>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Said {
    #[prost(bytes = "bytes", tag = "1")]
    Answer(Bytes),
    #[prost(bytes = "bytes", tag = "2")]
    Records(Bytes),
    #[prost(uint32, tag = "3")]
    NoRecords(u32),
    #[prost(message, tag = "4")]
    Appended(CommittedMessage),
    #[prost(bool, tag = "5")]
    NotAppended(bool),
}

#[derive(Clone, Copy, PartialEq, Message)]
struct CommittedMessage {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(uint64, tag = "2")]
    end: u64,
    #[prost(uint64, tag = "3")]
    epoch: u64,
}
