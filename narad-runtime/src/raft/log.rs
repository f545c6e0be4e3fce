//! The log in memory, beside its durable copy.
//!
//! The consensus library reads the log often, from the middle of its decisions, and ends the
//! process if a read fails. So everything since the last snapshot stays in memory: reads cannot
//! fail, and the store is only written to. What the limits of the configuration bound on disk they
//! bound here too.

use super::error::{RaftError, StoreError};
use super::membership::Configuration;
use super::output::Term;
use super::store::{Batch, Cut, HardState, Loaded, LogEntry, Position, RaftStore, Snapshot};
use ::raft::eraftpb::Entry;
use ::raft::{GetEntriesContext, RaftState, Storage, StorageError};
use bytes::Bytes;
use narad_core::ids::{LogIndex, NodeId};
use protobuf::Message as _;
use std::cell::Cell;
use std::collections::VecDeque;

/// How many entries may be committed of which the disk does not say so. Larger leaves a node that
/// starts without a leader further behind; smaller makes more transactions larger.
const COMMIT_AHEAD_MAX: u64 = 64;

/// What the library sees of this node's durable state.
pub(super) struct Log<S> {
    store: S,
    hard_state: HardState,
    /// The commit index that is durable; that in `hard_state` may be newer.
    durable_commit: LogIndex,
    truncated: Position,
    entries: VecDeque<Entry>,
    snapshot: Option<Snapshot>,
    /// Bytes of the entries after the snapshot.
    bytes_since_snapshot: u64,
    /// Whether a peer needs another snapshot than the one that there is.
    peer_wants_snapshot: Cell<bool>,
}

impl<S: RaftStore> Log<S> {
    /// Takes over what a store holds, which must have been checked.
    pub(super) fn new(store: S, loaded: Loaded) -> Result<Self, RaftError> {
        let entries = loaded.entries.iter().map(decode).collect::<Result<VecDeque<_>, _>>()?;
        let mut log = Self {
            store,
            hard_state: loaded.hard_state,
            durable_commit: loaded.hard_state.commit,
            truncated: loaded.truncated,
            entries,
            snapshot: loaded.snapshot,
            bytes_since_snapshot: 0,
            peer_wants_snapshot: Cell::new(false),
        };
        log.count_bytes();
        Ok(log)
    }

    pub(super) fn snapshot_position(&self) -> Position {
        self.snapshot.as_ref().map_or(Position::default(), |snapshot| snapshot.position)
    }

    pub(super) fn latest_snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// Returns the last index of the durable log.
    pub(super) fn last(&self) -> u64 {
        self.truncated.index.0 + self.entries.len() as u64
    }

    pub(super) fn bytes_since_snapshot(&self) -> u64 {
        self.bytes_since_snapshot
    }

    pub(super) fn peer_wants_snapshot(&self) -> bool {
        self.peer_wants_snapshot.get()
    }

    /// Notes a commit index, to be made durable with the next change of the members, vote or snapshot.
    ///
    /// Losing it costs nothing, as long as it is written with every change of the members that follows
    /// it: a node that holds one in its log then knows all earlier ones to be committed, and never
    /// stands for election with members that are two changes old. Other entries leave it alone, since
    /// a transaction that only adds to the log touches fewer pages; but only so many of them, so that
    /// a node which hears nobody after its start stands almost where it stood.
    pub(super) fn note_commit(&mut self, commit: u64) {
        if commit > self.hard_state.commit.0 {
            self.hard_state.commit = LogIndex(commit);
        }
    }

    /// Whether so much has been committed since that was made durable that it is to be written with
    /// plain entries, too.
    pub(super) fn is_commit_far_ahead(&self) -> bool {
        self.hard_state.commit.0.saturating_sub(self.durable_commit.0) >= COMMIT_AHEAD_MAX
    }

    /// Returns the hard state if its commit index is not durable yet.
    pub(super) fn unsaved_hard_state(&self) -> Option<HardState> {
        (self.hard_state.commit > self.durable_commit).then_some(self.hard_state)
    }

    pub(super) fn hard_state(&self) -> HardState {
        self.hard_state
    }

    /// Returns where to cut the log for a snapshot: as far back as the two limits allow.
    pub(super) fn cut_for(&self, snapshot: Position, entries_max: u64, bytes_max: u64) -> Position {
        let mut at = snapshot.index.0;
        let mut bytes = 0_u64;
        while at > self.truncated.index.0 && snapshot.index.0 - at < entries_max {
            bytes = bytes.saturating_add(self.at(at).map_or(0, size));
            if bytes > bytes_max {
                break;
            }
            at -= 1;
        }
        let term = if at == snapshot.index.0 { snapshot.term.0 } else { self.term_at(at) };
        Position { index: LogIndex(at), term: Term(term) }
    }

    /// Makes a batch durable and then part of what the library sees.
    pub(super) fn commit(&mut self, batch: Batch, entries: Vec<Entry>) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.store.commit(&batch)?;
        match batch.cut {
            Some(Cut::Prefix(at)) => {
                let gone = at.index.0.saturating_sub(self.truncated.index.0);
                let gone = usize::try_from(gone).unwrap_or(usize::MAX);
                self.entries.drain(..gone.min(self.entries.len()));
                self.truncated = at;
            }
            Some(Cut::Whole(at)) => {
                self.entries.clear();
                self.truncated = at;
            }
            None => {}
        }
        if let Some(first) = entries.first() {
            let kept = first.get_index().saturating_sub(self.truncated.index.0 + 1);
            self.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
            self.bytes_since_snapshot += entries.iter().map(size).sum::<u64>();
            self.entries.extend(entries);
        }
        if let Some(hard_state) = batch.hard_state {
            self.hard_state = hard_state;
            self.durable_commit = hard_state.commit;
        }
        if let Some(snapshot) = batch.snapshot {
            self.snapshot = Some(snapshot);
            self.peer_wants_snapshot.set(false);
            self.count_bytes();
        }
        Ok(())
    }

    fn truncate(&mut self, kept: usize) {
        let gone = self.entries.range(kept.min(self.entries.len())..).map(size).sum::<u64>();
        // What goes was never committed, hence never in a snapshot.
        self.bytes_since_snapshot = self.bytes_since_snapshot.saturating_sub(gone);
        self.entries.truncate(kept);
    }

    fn count_bytes(&mut self) {
        let snapshot = self.snapshot_position().index.0;
        let since = self.entries.iter().filter(|entry| entry.get_index() > snapshot);
        self.bytes_since_snapshot = since.map(size).sum();
    }

    fn at(&self, index: u64) -> Option<&Entry> {
        let offset = index.checked_sub(self.truncated.index.0 + 1)?;
        self.entries.get(usize::try_from(offset).ok()?)
    }

    /// Returns the term at an index of the durable log, zero outside of it.
    pub(super) fn term_at(&self, index: u64) -> u64 {
        if index == self.truncated.index.0 {
            return self.truncated.term.0;
        }
        self.at(index).map_or(0, Entry::get_term)
    }
}

/// Returns what an entry counts for against the limits.
pub(super) fn size(entry: &Entry) -> u64 {
    /// An entry's own numbers, roughly.
    const OVERHEAD: u64 = 24;
    OVERHEAD + entry.get_data().len() as u64 + entry.get_context().len() as u64
}

/// Encodes an entry for the store.
pub(super) fn encode(entry: &Entry) -> Result<LogEntry, StoreError> {
    let bytes = entry.write_to_bytes().map_err(|error| StoreError::Io {
        doing: "encoding an entry",
        source: std::io::Error::other(error),
    })?;
    let position = Position { index: LogIndex(entry.get_index()), term: Term(entry.get_term()) };
    Ok(LogEntry { position, bytes: bytes.into() })
}

fn decode(kept: &LogEntry) -> Result<Entry, RaftError> {
    let entry: Entry =
        protobuf::Message::parse_from_carllerche_bytes(&kept.bytes).map_err(|error| {
            RaftError::Inconsistent { reason: format!("{:?}: {error}", kept.position) }
        })?;
    let found = Position { index: LogIndex(entry.get_index()), term: Term(entry.get_term()) };
    if found == kept.position {
        Ok(entry)
    } else {
        let reason = format!("the entry at {:?} says it is {found:?}", kept.position);
        Err(RaftError::Inconsistent { reason })
    }
}

/// Translates a snapshot for the library. Its data is shared, not copied.
fn for_library(snapshot: &Snapshot) -> ::raft::eraftpb::Snapshot {
    let mut sent = ::raft::eraftpb::Snapshot::default();
    sent.mut_metadata().set_index(snapshot.position.index.0);
    sent.mut_metadata().set_term(snapshot.position.term.0);
    sent.mut_metadata().set_conf_state(snapshot.configuration.for_library());
    sent.set_data(snapshot.data.clone());
    sent
}

/// Translates a snapshot that the library received.
pub(super) fn of_library(received: &::raft::eraftpb::Snapshot) -> Snapshot {
    let metadata = received.get_metadata();
    let position =
        Position { index: LogIndex(metadata.get_index()), term: Term(metadata.get_term()) };
    Snapshot {
        position,
        configuration: Configuration::of_library(metadata.get_conf_state()),
        data: Bytes::copy_from_slice(received.get_data()),
    }
}

impl<S: RaftStore> Storage for Log<S> {
    fn initial_state(&self) -> ::raft::Result<RaftState> {
        let members = self.snapshot.as_ref().map(|snapshot| snapshot.configuration.for_library());
        let hard_state = for_library_hard_state(self.hard_state);
        Ok(RaftState::new(hard_state, members.unwrap_or_default()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> ::raft::Result<Vec<Entry>> {
        if low <= self.truncated.index.0 {
            return Err(StorageError::Compacted.into());
        }
        if high > self.last() + 1 {
            return Err(StorageError::Unavailable.into());
        }
        let bytes_max = max_size.into().unwrap_or(u64::MAX);
        let mut bytes = 0_u64;
        let fitting = (low..high).map_while(|index| {
            let entry = self.at(index)?;
            bytes = bytes.saturating_add(size(entry));
            // The first one always comes, or an entry over the limit would never be sent.
            (index == low || bytes <= bytes_max).then(|| entry.clone())
        });
        Ok(fitting.collect())
    }

    fn term(&self, index: u64) -> ::raft::Result<u64> {
        if index < self.truncated.index.0 {
            Err(StorageError::Compacted.into())
        } else if index > self.last() {
            Err(StorageError::Unavailable.into())
        } else {
            Ok(self.term_at(index))
        }
    }

    fn first_index(&self) -> ::raft::Result<u64> {
        Ok(self.truncated.index.0 + 1)
    }

    fn last_index(&self) -> ::raft::Result<u64> {
        Ok(self.last())
    }

    /// Returns the snapshot for a peer, or asks the driver for another one.
    ///
    /// A snapshot whose members lack its receiver is dropped by the receiver without a word, and
    /// its leader sends it again for ever. So a learner gets one that was made after it was added.
    fn snapshot(&self, request_index: u64, to: u64) -> ::raft::Result<::raft::eraftpb::Snapshot> {
        let fits = |snapshot: &&Snapshot| {
            snapshot.position.index.0 >= request_index
                && snapshot.configuration.is_member(NodeId(to))
        };
        if let Some(snapshot) = self.snapshot.as_ref().filter(fits) {
            return Ok(for_library(snapshot));
        }
        self.peer_wants_snapshot.set(true);
        Err(StorageError::SnapshotTemporarilyUnavailable.into())
    }
}

fn for_library_hard_state(hard_state: HardState) -> ::raft::eraftpb::HardState {
    let mut state = ::raft::eraftpb::HardState::default();
    state.set_term(hard_state.term.0);
    state.set_vote(hard_state.vote.map_or(0, |node| node.0));
    state.set_commit(hard_state.commit.0);
    state
}

/// Translates the hard state that the library wants to be saved.
pub(super) fn of_library_hard_state(state: &::raft::eraftpb::HardState) -> HardState {
    HardState {
        term: Term(state.get_term()),
        vote: Some(NodeId(state.get_vote())).filter(|node| node.0 != 0),
        commit: LogIndex(state.get_commit()),
    }
}
