//! What replicas say to one another.

use bytes::Bytes;

use super::members::Change;

/// What a message between replicas begins with: it is one of Raft's.
pub(super) const RAFT: u8 = 0;
/// It is a proposal that is passed on.
const PROPOSE: u8 = 1;
/// It is a change of the replicas that is passed on.
const CHANGE: u8 = 2;

/// What a replica says to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Letter {
    /// A message of Raft.
    Raft(Bytes),
    /// A proposal that is passed on.
    Propose(Bytes),
    /// A change of the replicas that is passed on.
    Change(Change),
}

impl Letter {
    pub(super) fn decode(mut bytes: Bytes) -> Option<Self> {
        let kind = *bytes.first()?;
        let rest = bytes.split_off(1);
        match kind {
            RAFT => Some(Self::Raft(rest)),
            PROPOSE => Some(Self::Propose(rest)),
            CHANGE => Some(Self::Change(Change::decode(rest)?.0)),
            _ => None,
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        match self {
            Self::Raft(bytes) => framed(RAFT, bytes),
            Self::Propose(record) => framed(PROPOSE, record),
            Self::Change(change) => framed(CHANGE, &change.encode(&[])),
        }
    }
}

pub(super) fn framed(kind: u8, bytes: &[u8]) -> Bytes {
    let mut message = vec![kind];
    message.extend_from_slice(bytes);
    message.into()
}
