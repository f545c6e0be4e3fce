//! The durable half of a Raft node: what it must still know after a crash.

pub(crate) mod memory;
pub(crate) mod redb;

use super::error::StoreError;
use super::membership::Configuration;
use super::output::Term;
use bytes::Bytes;
use narad_core::ids::{LogIndex, NodeId};

/// Keeps the log, the votes and the last snapshot of one node.
///
/// A node loads once, at its start, and from then on only commits: it holds the log since the last
/// snapshot in memory, so that no read can fail in the middle of consensus.
///
/// # Contract
///
/// - A batch is one transaction: after a crash all of it is there or none of it.
/// - Once [`commit`](Self::commit) has returned from a batch with
///   [`must_sync`](Batch::must_sync), that batch and all before it survive a crash. A batch without
///   may be lost, but only together with every later one.
/// - After an error nothing is promised, and the node never calls again.
pub trait RaftStore: Send {
    /// Reads everything.
    ///
    /// # Errors
    ///
    /// If the device fails or what it holds cannot be understood.
    fn load(&self) -> Result<Loaded, StoreError>;

    /// Makes one batch durable.
    ///
    /// # Errors
    ///
    /// If the device fails. It is fatal to the node: the process ends and starts anew.
    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError>;
}

/// What a node has promised and what it knows to be decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HardState {
    /// The latest term that the node has seen.
    pub term: Term,
    /// Who got its vote in that term.
    pub vote: Option<NodeId>,
    /// The last entry that it knows to be committed.
    pub commit: LogIndex,
}

impl HardState {
    /// Whether both promise the same: term and vote.
    pub(super) fn is_vote_of(self, other: Self) -> bool {
        (self.term, self.vote) == (other.term, other.vote)
    }
}

/// One place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Which entry.
    pub index: LogIndex,
    /// The term in which it was proposed.
    pub term: Term,
}

/// One entry of the log, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Where it stands.
    pub position: Position,
    /// Its encoding, which a store keeps as it is.
    pub bytes: Bytes,
}

/// The state machine as of one entry, with the members as of that same entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The last entry that it contains.
    pub position: Position,
    /// The members as of that entry.
    pub configuration: Configuration,
    /// The encoded state machine, opaque here.
    pub data: Bytes,
}

/// What is to be dropped from the log before new entries are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Entries up to and including this one: a snapshot of this node covers them.
    Prefix(Position),
    /// All entries: a leader's snapshot that ends at this one replaces them.
    Whole(Position),
}

/// Everything that one step of consensus makes durable, in the order in which it is to be applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// What leaves the log.
    pub cut: Option<Cut>,
    /// What enters it. Contiguous; whatever the log holds at or after the first one goes first.
    pub entries: Vec<LogEntry>,
    /// The new hard state.
    pub hard_state: Option<HardState>,
    /// The new snapshot, in place of the old one.
    pub snapshot: Option<Snapshot>,
    /// Whether it has to survive a crash once committed. False only if nothing but the commit
    /// index changes, which any leader tells again.
    pub must_sync: bool,
}

impl Batch {
    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.cut.is_none()
            && self.entries.is_empty()
            && self.hard_state.is_none()
            && self.snapshot.is_none()
    }
}

/// Everything that a store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Whose it is.
    pub id: NodeId,
    /// The last hard state.
    pub hard_state: HardState,
    /// The last entry that was cut off the front of the log; the first one kept follows it.
    pub truncated: Position,
    /// The last snapshot; none in a node that has not heard from a leader yet.
    pub snapshot: Option<Snapshot>,
    /// The log after [`truncated`](Self::truncated), in order.
    pub entries: Vec<LogEntry>,
}

impl Loaded {
    /// Returns what a new store holds: only whose it is.
    #[must_use]
    pub fn empty(id: NodeId) -> Self {
        Self {
            id,
            hard_state: HardState::default(),
            truncated: Position::default(),
            snapshot: None,
            entries: Vec::new(),
        }
    }

    /// Applies a batch: the meaning of [`RaftStore::commit`] in plain data.
    pub fn apply(&mut self, batch: &Batch) {
        match batch.cut {
            Some(Cut::Prefix(at)) => {
                let gone = self.entries.partition_point(|entry| entry.position.index <= at.index);
                self.entries.drain(..gone);
                self.truncated = at;
            }
            Some(Cut::Whole(at)) => {
                self.entries.clear();
                self.truncated = at;
            }
            None => {}
        }
        if let Some(first) = batch.entries.first() {
            let index = first.position.index;
            self.entries.truncate(self.entries.partition_point(|kept| kept.position.index < index));
            self.entries.extend_from_slice(&batch.entries);
        }
        if let Some(hard_state) = batch.hard_state {
            self.hard_state = hard_state;
        }
        if let Some(snapshot) = &batch.snapshot {
            self.snapshot = Some(snapshot.clone());
        }
    }
}
