//! What a message between two nodes is about, told from its bytes without decoding it.

use ::raft::eraftpb::MessageType;
use protobuf::ProtobufEnum as _;

/// The number of the field that says what a message is.
const TYPE_FIELD: u64 = 1;

/// What a message between two nodes is about.
///
/// # Examples
///
/// What a lone candidate says first:
///
/// ```
/// use narad_core::ids::NodeId;
/// use narad_runtime::raft::{MemStore, MessageKind, Output, Raft, RaftConfig, message_kind};
///
/// let voters = [NodeId(1), NodeId(2)];
/// let mut disk = MemStore::new(voters[0]);
/// Raft::bootstrap(&mut disk, &voters, b"empty".to_vec())?;
/// let (mut raft, _) = Raft::open(RaftConfig::new(voters[0], 1), disk)?;
/// let mut out = Output::default();
/// while out.messages.is_empty() {
///     raft.tick();
///     raft.ready(&mut out)?;
/// }
/// assert_eq!(message_kind(&out.messages[0].bytes), Some(MessageKind::PreVote));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageKind {
    /// A leader's entries.
    Append,
    /// How far a follower has them.
    AppendAnswer,
    /// A leader's sign of life.
    Heartbeat,
    /// A follower's answer to it.
    HeartbeatAnswer,
    /// A candidate asks for a vote.
    Vote,
    /// A vote, or none.
    VoteAnswer,
    /// A node asks whether it would get a vote.
    PreVote,
    /// Whether it would.
    PreVoteAnswer,
    /// A leader's snapshot.
    Snapshot,
    /// A member asks its leader for a read barrier.
    ReadIndex,
    /// The leader's answer.
    ReadIndexAnswer,
    /// Leadership is to be handed over, or is handed over right now.
    Transfer,
    /// Something that no node says to another.
    Other,
}

impl MessageKind {
    /// All kinds, in order.
    pub const ALL: [Self; 13] = [
        Self::Append,
        Self::AppendAnswer,
        Self::Heartbeat,
        Self::HeartbeatAnswer,
        Self::Vote,
        Self::VoteAnswer,
        Self::PreVote,
        Self::PreVoteAnswer,
        Self::Snapshot,
        Self::ReadIndex,
        Self::ReadIndexAnswer,
        Self::Transfer,
        Self::Other,
    ];

    /// Returns the name that scenarios and traces know the kind by, such as `raft-append`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Append => "raft-append",
            Self::AppendAnswer => "raft-append-answer",
            Self::Heartbeat => "raft-heartbeat",
            Self::HeartbeatAnswer => "raft-heartbeat-answer",
            Self::Vote => "raft-vote",
            Self::VoteAnswer => "raft-vote-answer",
            Self::PreVote => "raft-prevote",
            Self::PreVoteAnswer => "raft-prevote-answer",
            Self::Snapshot => "raft-snapshot",
            Self::ReadIndex => "raft-read-index",
            Self::ReadIndexAnswer => "raft-read-index-answer",
            Self::Transfer => "raft-transfer",
            Self::Other => "raft-other",
        }
    }

    const fn of_library(kind: MessageType) -> Self {
        match kind {
            MessageType::MsgAppend => Self::Append,
            MessageType::MsgAppendResponse => Self::AppendAnswer,
            MessageType::MsgHeartbeat => Self::Heartbeat,
            MessageType::MsgHeartbeatResponse => Self::HeartbeatAnswer,
            MessageType::MsgRequestVote => Self::Vote,
            MessageType::MsgRequestVoteResponse => Self::VoteAnswer,
            MessageType::MsgRequestPreVote => Self::PreVote,
            MessageType::MsgRequestPreVoteResponse => Self::PreVoteAnswer,
            MessageType::MsgSnapshot => Self::Snapshot,
            MessageType::MsgReadIndex => Self::ReadIndex,
            MessageType::MsgReadIndexResp => Self::ReadIndexAnswer,
            MessageType::MsgTransferLeader | MessageType::MsgTimeoutNow => Self::Transfer,
            MessageType::MsgHup
            | MessageType::MsgBeat
            | MessageType::MsgPropose
            | MessageType::MsgUnreachable
            | MessageType::MsgSnapStatus
            | MessageType::MsgCheckQuorum => Self::Other,
        }
    }
}

/// Tells what a message is about, or `None` if the bytes are no message that this build knows.
///
/// Looks at the fields before the one that says so, which in what [`Raft`](super::Raft) sends are
/// none; so it costs the same for every message. Bytes behind it may be anything.
#[must_use]
pub fn message_kind(bytes: &[u8]) -> Option<MessageKind> {
    let mut rest = bytes;
    loop {
        let tag = varint(&mut rest)?;
        match (tag >> 3, tag & 7) {
            (TYPE_FIELD, 0) => {
                let value = i32::try_from(varint(&mut rest)?).ok()?;
                return MessageType::from_i32(value).map(MessageKind::of_library);
            }
            (_, 0) => drop(varint(&mut rest)?),
            (_, 1) => rest = rest.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                rest = rest.get(length..)?;
            }
            (_, 5) => rest = rest.get(4..)?,
            (_, _) => return None,
        }
    }
}

/// Takes a number off the front: seven bits a byte, lowest first.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, later) = rest.split_first()?;
        *rest = later;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use protobuf::Message as _;

    use super::*;
    use ::raft::eraftpb::{Entry, Message};

    proptest! {
        #[test]
        fn every_kind_is_told_from_its_bytes(
            kind in proptest::sample::select(MessageType::values()),
            term in any::<u64>(),
            data in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut message = Message::default();
            message.set_msg_type(kind);
            message.set_to(3);
            message.set_term(term);
            let mut entry = Entry::default();
            entry.set_data(data.into());
            message.set_entries(vec![entry].into());
            let bytes = message.write_to_bytes().unwrap();
            // The type of number zero is left out by the encoder; no node sends one.
            let expected = (kind != MessageType::MsgHup).then(|| MessageKind::of_library(kind));
            prop_assert_eq!(message_kind(&bytes), expected);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = message_kind(&bytes);
        }
    }

    #[test]
    fn a_kind_after_other_fields_is_found() {
        let bytes = [0x10, 0x03, 0x4a, 0x02, 9, 9, 0x08, 0x03];
        assert_eq!(message_kind(&bytes), Some(MessageKind::Append));
        assert_eq!(message_kind(&bytes[..6]), None);
    }

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> =
            MessageKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), MessageKind::ALL.len());
    }
}
