//! What a node gives its driver to do.

use super::membership::Configuration;
use bytes::Bytes;
use narad_core::ids::{LogIndex, NodeId};
use std::collections::BTreeMap;
use std::fmt;

/// A reign of at most one leader: +1 with every election.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}", self.0)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Names one read barrier of one node's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub u64);

impl fmt::Debug for ReadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// What one call of [`Raft::ready`](super::Raft::ready) yields.
///
/// Everything in it follows from state that is durable already. A driver deals with all of it
/// before its next call of the node: first [`restored`](Self::restored), then
/// [`committed`](Self::committed) in order, then [`reads`](Self::reads). Messages may go out at any
/// time, and any of them may be lost.
#[derive(Debug, Default)]
pub struct Output {
    /// A state that replaces the state machine's own.
    pub restored: Option<Restored>,
    /// Entries to apply, in order, each exactly once in this life of the node.
    pub committed: Vec<Committed>,
    /// Barriers that have passed: the state machine, with the above applied, is at least as new as
    /// everything that was committed anywhere when the read was asked for.
    pub reads: Vec<(ReadId, LogIndex)>,
    /// Messages to peers.
    pub messages: Vec<Outgoing>,
    /// The node's role, term and leader, if any of them changed.
    pub leadership: Option<Leadership>,
    /// Whether the caller is asked to [offer a snapshot](super::Raft::offer_snapshot): the log has
    /// grown, or a peer cannot be fed with the one that there is.
    pub wants_snapshot: bool,
    /// Whether another call has more to give at once.
    pub more: bool,
}

impl Output {
    /// Forgets everything, keeping the room.
    pub fn clear(&mut self) {
        let Self { restored, committed, reads, messages, leadership, wants_snapshot, more } = self;
        committed.clear();
        reads.clear();
        messages.clear();
        (*restored, *leadership, *wants_snapshot, *more) = (None, None, false, false);
    }
}

/// A state machine to load, and the members that go with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The last entry that it contains.
    pub index: LogIndex,
    /// The state machine, as it was [offered](super::Raft::offer_snapshot) somewhere.
    pub data: Bytes,
    /// The members as of that entry.
    pub configuration: Configuration,
}

/// One committed entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// A proposal.
    Entry {
        /// Where it stands.
        index: LogIndex,
        /// The term in which it was proposed.
        term: Term,
        /// Its proposer's note.
        context: Bytes,
        /// Its content.
        data: Bytes,
    },
    /// A change of the members.
    Configuration {
        /// Where it stands.
        index: LogIndex,
        /// Its proposer's note; empty where the leader left a joint phase by itself.
        context: Bytes,
        /// The members from here on.
        configuration: Configuration,
        /// Why nothing changed, if nothing did. All replicas refuse alike.
        refused: Option<String>,
    },
    /// Nothing: a new leader's first entry, or a change of the members that its leader refused.
    Empty {
        /// Where it stands.
        index: LogIndex,
    },
}

impl Committed {
    /// Returns where it stands.
    pub fn index(&self) -> LogIndex {
        match self {
            Self::Entry { index, .. }
            | Self::Configuration { index, .. }
            | Self::Empty { index } => *index,
        }
    }
}

/// One message to one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The peer.
    pub to: NodeId,
    /// What to hand to its [`Raft::step`](super::Raft::step).
    pub bytes: Vec<u8>,
    /// Whether it carries a snapshot. Then the driver answers with
    /// [`Raft::report_snapshot`](super::Raft::report_snapshot) once it knows the outcome.
    pub is_snapshot: bool,
}

/// What a node is in its term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// Follows a leader, or waits for one.
    #[default]
    Follower,
    /// Asks whether it would win an election.
    PreCandidate,
    /// Stands for election.
    Candidate,
    /// Leads.
    Leader,
}

impl Role {
    pub(super) fn of_library(role: ::raft::StateRole) -> Self {
        match role {
            ::raft::StateRole::Follower => Self::Follower,
            ::raft::StateRole::PreCandidate => Self::PreCandidate,
            ::raft::StateRole::Candidate => Self::Candidate,
            ::raft::StateRole::Leader => Self::Leader,
        }
    }
}

/// Who leads, as one node sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Leadership {
    /// The node's term.
    pub term: Term,
    /// What it is in that term.
    pub role: Role,
    /// Who leads that term, as far as it knows.
    pub leader: Option<NodeId>,
}

/// How a node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Which one.
    pub id: NodeId,
    /// Its term, role and leader.
    pub leadership: Leadership,
    /// The last entry that it knows to be committed.
    pub commit: LogIndex,
    /// The last entry that it handed out.
    pub applied: LogIndex,
    /// The last entry of its log.
    pub last: LogIndex,
    /// The last entry of its snapshot; zero if it has none.
    pub snapshot: LogIndex,
    /// The members as of `applied`.
    pub configuration: Configuration,
    /// To whom it hands leadership over at present.
    pub transferring_to: Option<NodeId>,
    /// How far each member is, itself included. Only a leader knows; otherwise empty.
    pub progress: BTreeMap<NodeId, PeerProgress>,
}

/// How far one member is, as its leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProgress {
    /// The last entry that is durable there.
    pub matched: LogIndex,
    /// Whether anything was heard from it within the last election timeout. True of the leader.
    pub recent_active: bool,
    /// The snapshot that is on its way to it.
    pub pending_snapshot: Option<LogIndex>,
}
