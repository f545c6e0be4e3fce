//! What travels between machines.

use std::time::Duration;

use bytes::Bytes;
use narad_core::cursor::Handle;
use narad_core::dispatch::SendFault;
use narad_core::effects::OpId;
use narad_core::ids::{Epoch, Offset, PartitionId};
use narad_core::metastore::Entry;
use narad_core::node::{Note, Operation, Shipping};
use narad_core::peer::{self, Request};
use narad_core::{controller, dispatch};
use narad_runtime::copy::{CopyRequest, Reach, SourceError};
use narad_runtime::ingress::Parcel;
use narad_runtime::log::Record;

use super::clients::RequestNo;
use super::deliver::Deliver;
use super::ingress::Accept;
use crate::scenario::vocabulary::{call_name, command_name};

/// Something on its way.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The process that sent it.
    pub(crate) life: u64,
    pub(crate) payload: Payload,
    /// The line of the trace that sent it.
    pub(crate) line: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Raft {
        bytes: Vec<u8>,
        is_snapshot: bool,
    },
    Request {
        op: OpId,
        request: Box<Request>,
        /// How far the asker has copied, with a request to freeze.
        reach: Option<Reach>,
    },
    /// `to_life` is the process that asked.
    Answer {
        to_life: u64,
        op: OpId,
        /// The name of the question.
        of: &'static str,
        answer: Box<peer::Answer>,
        /// What lies beyond the asker's reach, with a capture.
        tail: Option<(Reach, Bytes)>,
    },
    /// Nobody listens there.
    Refused {
        to_life: u64,
        op: OpId,
    },
    /// A range of an extent is asked for.
    Copy {
        op: OpId,
        range: CopyRequest,
    },
    /// A range, or as much of it as came; then what ended it.
    Bytes {
        to_life: u64,
        op: OpId,
        bytes: Vec<u8>,
        ended: Ended,
    },
    /// Records for a topic, at whatever node.
    Accept(Accept),
    AcceptAnswer {
        request: RequestNo,
        outcome: Produced,
    },
    /// Accepted records for the owner of their partition.
    Deliver(Box<Deliver>),
    Delivered {
        to_life: u64,
        op: OpId,
        result: Result<(), SendFault>,
    },
    Produce(Produce),
    Produced {
        request: RequestNo,
        outcome: Produced,
    },
    Fetch(Fetch),
    Fetched {
        request: RequestNo,
        outcome: Fetched,
    },
    Ack(Ack),
    Acked {
        request: RequestNo,
        /// The name of what was asked.
        of: &'static str,
        taken: bool,
    },
}

/// How a bulk copy ended at the source's end, or on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Whole,
    /// The connection was reset.
    Reset,
    /// The source could not read it.
    Refused(SourceError),
}

/// Records for a partition.
#[derive(Clone, Debug)]
pub(crate) struct Produce {
    pub(crate) request: RequestNo,
    pub(crate) partition: PartitionId,
    pub(crate) records: Vec<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Produced {
    Acknowledged,
    Refused,
}

/// A consumer asks for what comes next.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) request: RequestNo,
    pub(crate) partition: PartitionId,
    /// Where the consumer was before, and in which reign.
    pub(crate) was: Option<(Epoch, Offset)>,
    /// Most records that it wants.
    pub(crate) most: usize,
    /// For how long.
    pub(crate) visibility: Duration,
}

#[derive(Clone, Debug)]
pub(crate) enum Fetched {
    /// `more`: whether there are records behind them.
    Records {
        records: Vec<Handle>,
        more: bool,
    },
    Refused,
}

/// A consumer says what becomes of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) request: RequestNo,
    pub(crate) partition: PartitionId,
    pub(crate) settle: Settle,
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Settle {
    /// It is done with.
    Ack(Handle),
    /// So is this one, whoever has it.
    Offset(Epoch, Offset),
    /// It is handed back, and free after a while.
    Nack(Handle, Duration),
    /// It takes longer.
    Extend(Handle, Duration),
}

impl Settle {
    const fn name(self) -> &'static str {
        match self {
            Self::Ack(_) | Self::Offset(..) => "ack",
            Self::Nack(..) => "nack",
            Self::Extend(..) => "extend",
        }
    }
}

impl Payload {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Raft { bytes, .. } => {
                narad_runtime::raft::message_kind(bytes).map_or("raft-other", |kind| kind.name())
            }
            Self::Request { request, .. } => call_name(request),
            Self::Answer { of, .. } => answer_name(of),
            Self::Refused { .. } => "unreachable",
            Self::Copy { .. } => "copy",
            Self::Bytes { .. } => "copy-answer",
            Self::Accept(_) => "accept",
            Self::AcceptAnswer { .. } => "accept-answer",
            Self::Deliver(_) => "deliver",
            Self::Delivered { .. } => "deliver-answer",
            Self::Produce(_) => "produce",
            Self::Produced { .. } => "produce-answer",
            Self::Fetch(_) => "fetch",
            Self::Fetched { .. } => "fetch-answer",
            Self::Ack(ack) => ack.settle.name(),
            Self::Acked { of, .. } => settled_name(of),
        }
    }

    /// The proposal that it carries.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Request { request, .. } => match &**request {
                Request::Propose(entry) => Some(entry),
                _ => None,
            },
            _ => None,
        }
    }

    /// The name of the proposal that it carries.
    pub(crate) fn proposal_name(&self) -> &'static str {
        self.entry().map_or("", |entry| command_name(&entry.command))
    }

    /// There is another copy of it somewhere: nobody can say of it that it was not taken.
    pub(crate) const fn is_copied(&mut self) {
        if let Self::Deliver(deliver) = self {
            deliver.is_only = false;
        }
    }

    /// Changes bytes that nothing but a checksum protects; whatever else is garbled does not
    /// arrive at all, since a frame with a wrong checksum ends its connection.
    pub(crate) fn corrupt(&mut self) {
        match self {
            Self::Bytes { bytes, .. } => {
                let middle = bytes.len() / 2;
                if let Some(byte) = bytes.get_mut(middle) {
                    *byte ^= 0x55;
                }
            }
            Self::Raft { bytes, .. } => bytes.truncate(bytes.len() / 2),
            Self::Answer { tail: Some((_, tail)), .. } => {
                let mut bytes = tail.to_vec();
                let middle = bytes.len() / 2;
                if let Some(byte) = bytes.get_mut(middle) {
                    *byte ^= 0x55;
                }
                *tail = bytes.into();
            }
            Self::Request { .. }
            | Self::Answer { .. }
            | Self::Refused { .. }
            | Self::Copy { .. }
            | Self::Accept(_)
            | Self::AcceptAnswer { .. }
            | Self::Deliver(_)
            | Self::Delivered { .. }
            | Self::Produce(_)
            | Self::Produced { .. }
            | Self::Fetch(_)
            | Self::Fetched { .. }
            | Self::Ack(_)
            | Self::Acked { .. } => {}
        }
    }

    /// Bytes on the wire, roughly.
    pub(crate) fn size(&self) -> u64 {
        const SMALL: u64 = 128;
        match self {
            Self::Raft { bytes, .. } | Self::Bytes { bytes, .. } => SMALL + bytes.len() as u64,
            Self::Answer { tail: Some((_, tail)), .. } => SMALL + tail.len() as u64,
            Self::Accept(accept) => {
                let bytes = accept.parcels.iter().map(Parcel::encoded_bytes).sum::<usize>();
                SMALL + bytes as u64
            }
            Self::Deliver(deliver) => {
                let bytes = deliver.records.iter().map(|(_, record)| record.encoded_bytes());
                SMALL + bytes.sum::<usize>() as u64
            }
            Self::Produce(produce) => {
                let bytes = produce.records.iter().map(Record::encoded_bytes).sum::<usize>();
                SMALL + bytes as u64
            }
            Self::Fetched { outcome: Fetched::Records { records, .. }, .. } => {
                SMALL + 16 * records.len() as u64
            }
            Self::Request { .. }
            | Self::Answer { .. }
            | Self::Refused { .. }
            | Self::Copy { .. }
            | Self::AcceptAnswer { .. }
            | Self::Delivered { .. }
            | Self::Produced { .. }
            | Self::Fetch(_)
            | Self::Fetched { .. }
            | Self::Ack(_)
            | Self::Acked { .. } => SMALL,
        }
    }

    pub(crate) fn partition(&self) -> Option<PartitionId> {
        match self {
            Self::Request { request, .. } => match &**request {
                Request::List { partition, .. }
                | Request::Prepare { partition, .. }
                | Request::Renew { partition, .. }
                | Request::Release { partition, .. }
                | Request::TakeAcks { partition, .. } => Some(*partition),
                Request::Propose(entry) => entry.command.partition(),
                Request::Heartbeat { .. } | Request::Join { .. } => None,
            },
            Self::Copy { range, .. } => Some(range.partition),
            Self::Deliver(deliver) => Some(deliver.partition),
            Self::Produce(produce) => Some(produce.partition),
            Self::Fetch(fetch) => Some(fetch.partition),
            Self::Ack(ack) => Some(ack.partition),
            Self::Raft { .. }
            | Self::Answer { .. }
            | Self::Refused { .. }
            | Self::Bytes { .. }
            | Self::Accept(_)
            | Self::AcceptAnswer { .. }
            | Self::Delivered { .. }
            | Self::Produced { .. }
            | Self::Fetched { .. }
            | Self::Acked { .. } => None,
        }
    }
}

/// Returns what the answer to a consumer's word is called.
const fn settled_name(word: &'static str) -> &'static str {
    match word.as_bytes() {
        b"nack" => "nack-answer",
        b"extend" => "extend-answer",
        _ => "ack-answer",
    }
}

/// Returns what the answer to a question is called.
const fn answer_name(question: &'static str) -> &'static str {
    match question.as_bytes() {
        b"heartbeat" => "heartbeat-answer",
        b"join" => "join-answer",
        b"list" => "list-answer",
        b"prepare" => "prepare-answer",
        b"renew" => "renew-answer",
        b"release" => "release-answer",
        b"take-acks" => "take-acks-answer",
        _ => "propose-answer",
    }
}

/// Returns the partition that an operation is about, if it is about one.
pub(crate) fn partition_of(operation: &Operation) -> Option<PartitionId> {
    match operation {
        Operation::Append(entry) => entry.command.partition(),
        Operation::Inspect(partition)
        | Operation::Host(partition, _)
        | Operation::Stage(partition, _)
        | Operation::Gate(partition, _)
        | Operation::Ship(Shipping::Send { partition, .. } | Shipping::Salvage { partition, .. }) => {
            Some(*partition)
        }
        Operation::Call { request, .. } => match request {
            Request::List { partition, .. }
            | Request::Prepare { partition, .. }
            | Request::Renew { partition, .. }
            | Request::Release { partition, .. }
            | Request::TakeAcks { partition, .. } => Some(*partition),
            Request::Propose(entry) => entry.command.partition(),
            Request::Heartbeat { .. } | Request::Join { .. } => None,
        },
        Operation::Barrier
        | Operation::Survey
        | Operation::Configure(_)
        | Operation::Transfer { .. }
        | Operation::NextIncarnation
        | Operation::Ship(Shipping::Checkpoint(_) | Shipping::Carry(_))
        | Operation::Watermarks(_)
        | Operation::CloseAccept
        | Operation::OpenAccept => None,
    }
}

/// Returns the partition that a note is about, if it is about one.
pub(crate) const fn partition_noted(note: &Note) -> Option<PartitionId> {
    match note {
        Note::Mover(partition, _)
        | Note::Handoff(partition, _)
        | Note::Host(partition, _)
        | Note::SetAside(partition, _)
        | Note::Salvaged { partition, .. }
        | Note::AcksForwarded { partition, .. }
        | Note::Dispatch(
            dispatch::Note::Held { partition, .. }
            | dispatch::Note::Resumed(partition)
            | dispatch::Note::Rerouted { from: partition, .. },
        )
        | Note::Controller(controller::Note::TargetGivenUp { partition, .. }) => Some(*partition),
        Note::Dispatch(
            dispatch::Note::Dropped { .. }
            | dispatch::Note::Carried { .. }
            | dispatch::Note::Damaged { .. }
            | dispatch::Note::LogFault
            | dispatch::Note::Stale(_),
        )
        | Note::Controller(_)
        | Note::Lease(_)
        | Note::Leader(_)
        | Note::Retired
        | Note::Stale(_) => None,
    }
}
