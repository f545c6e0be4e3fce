//! A replicated log of opaque entries: one node of it, synchronous, without clock or socket.
//!
//! # Purpose
//!
//! Wraps tikv raft's `RawNode` so that its contract cannot be broken by its user. The production
//! node drives it from one dedicated thread (a commit blocks), a simulation from wherever it likes.
//! It knows nothing of what the entries mean.
//!
//! # States
//!
//! ```text
//!             bootstrap ──▶ open ◀────────────── end of process
//!                            │                         ▲
//!                            ▼                         │ RaftError, from any call
//!   tick · step · propose · configure · read_index     │
//!        │                                             │
//!        ▼                                             │
//!      ready:  begin ─▶ a leader speaks ─▶ save (one transaction) ─▶ others speak ─▶ advance ─┐
//!                ▲                                                   hand out                 │
//!                └───────────────────────── until there is nothing to do ─────────────────────┘
//! ```
//!
//! # Invariants
//!
//! 1. *Durable, then said.* No committed entry leaves a turn before its transaction has ended, and
//!    no message but a leader's, which asks for entries to be made durable and promises nothing
//!    (types of `turn.rs`). The leader's own copy counts once it is durable, like any other.
//! 2. *One transaction a turn.* Entries, vote, snapshot, members and log truncation go together. A
//!    turn that only learns what is committed has none: that is written with the next change of the
//!    members, vote or snapshot, and with entries once it is far ahead.
//! 3. *Members belong to an index.* The members that a restart begins with are those as of the
//!    snapshot; changes after it are applied again as their entries are handed out again.
//! 4. *A peer cannot end the process.* What the library would panic on is refused by
//!    [`Raft::step`] with a [`StepError`].
//! 5. *A failed store ends the node.* After a [`RaftError`] every call returns `Stopped`.
//!
//! # After a restart
//!
//! The state machine is not persisted entry by entry. [`Raft::open`] returns the last snapshot;
//! its owner loads it, and [`Raft::ready`] hands out what was committed after it, once more in
//! order. What was acknowledged to a peer or to a proposer is in the log.
//!
//! # Example
//!
//! A cluster of one commits what it is given:
//!
//! ```
//! use narad_core::ids::NodeId;
//! use narad_runtime::raft::{Committed, MemStore, Output, Raft, RaftConfig};
//!
//! let me = NodeId(1);
//! let mut disk = MemStore::new(me);
//! Raft::bootstrap(&mut disk, &[me], b"empty".to_vec())?;
//! let (mut raft, restored) = Raft::open(RaftConfig::new(me, 1), disk)?;
//! assert_eq!(restored.expect("bootstrapped").data, "empty");
//!
//! let mut out = Output::default();
//! while raft.propose(b"id".to_vec(), b"hello".to_vec()).is_err() {
//!     raft.tick();
//!     raft.ready(&mut out)?;
//! }
//! raft.ready(&mut out)?;
//! assert!(matches!(&out.committed[..], [Committed::Entry { data, .. }] if data == "hello"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admission;
mod calls;
mod config;
mod election;
mod error;
mod kind;
mod log;
mod logger;
mod membership;
mod output;
mod reads;
mod recovery;
mod speech;
mod store;
mod turn;

pub use config::{RaftConfig, RaftLogging, TICK_DEFAULT};
pub use error::{
    ConfigureError, OfferError, ProposeError, RaftError, StepError, StoreError, TransferError,
};
pub use kind::{MessageKind, message_kind};
pub use membership::{Configuration, ConfigurationChange, MemberChange};
pub use output::{
    Committed, Leadership, Outgoing, Output, PeerProgress, ReadId, Restored, Role, Status, Term,
};
pub use speech::Voice;
pub use store::memory::{FailurePoint, MemStore, StoreImage};
pub use store::redb::RedbStore;
pub use store::{Batch, Cut, HardState, Loaded, LogEntry, Position, RaftStore, Snapshot};

use self::election::Pinned;
use self::log::Log;
use self::reads::Reads;
use self::speech::Speech;
use self::turn::{Offered, Saved, Unsaved};
use ::raft::RawNode;
use ::raft::eraftpb::{ConfChangeV2, Entry, EntryType, Message, MessageType};
use narad_core::ids::{LogIndex, NodeId};
use protobuf::Message as _;
use std::collections::BTreeMap;
use std::fmt;
use std::mem;

/// Turns that one call of [`Raft::ready`] makes at most, so that a driver gets to look at its
/// inbox. A turn takes all that is there; more than a few in a row mean a long replay.
const TURNS_MAX: usize = 64;

/// One node of a replicated log.
///
/// Calls of [`tick`](Self::tick), [`step`](Self::step) and [`propose`](Self::propose) only change
/// memory; [`ready`](Self::ready) does the work that they have caused. A driver calls it after each
/// batch of them, and deals with all of its output before the next call.
pub struct Raft<S: RaftStore> {
    node: RawNode<Log<S>>,
    config: RaftConfig,
    reads: Reads,
    /// Ticks since the start.
    ticks: u64,
    /// The last entry handed out.
    applied: LogIndex,
    /// The members as of the snapshot and as of each change since, oldest first.
    members: Vec<(LogIndex, Configuration)>,
    offered: Option<Offered>,
    /// When a snapshot was sent to whom, until its outcome is known.
    snapshots_sent: BTreeMap<NodeId, u64>,
    reported: Leadership,
    pinned: Pinned,
    speech: Speech,
    stopped: bool,
}

impl<S: RaftStore> Raft<S> {
    /// Fills an empty store with the beginning of a new cluster.
    ///
    /// A cluster starts with one voter, or with several that are given the same voters and the
    /// same state. A node that joins later is not bootstrapped: it opens its empty store and waits
    /// for a leader.
    ///
    /// # Errors
    ///
    /// If the store is not empty, its node is none of the voters, or it fails.
    pub fn bootstrap(
        store: &mut S,
        voters: &[NodeId],
        state: impl Into<bytes::Bytes>,
    ) -> Result<(), RaftError> {
        recovery::bootstrap(store, voters, state.into())
    }

    /// Starts a node on what its store holds.
    ///
    /// Returns the state machine to load, or none in a node that has not heard from a leader yet.
    /// Committed entries after it come from [`ready`](Self::ready).
    ///
    /// # Errors
    ///
    /// If the store fails, belongs to another node or contradicts itself, or if the configuration
    /// is invalid. The consensus library would end the process on most of these.
    pub fn open(config: RaftConfig, store: S) -> Result<(Self, Option<Restored>), RaftError> {
        let loaded = store.load()?;
        recovery::check(&loaded, config.id)?;
        let snapshot = loaded.snapshot.clone();
        let applied = snapshot.as_ref().map_or(LogIndex(0), |snapshot| snapshot.position.index);
        // The library is told that the state machine stands at the snapshot, which is where the
        // members it is given belong. From zero it would apply changes twice.
        let for_library = config.for_library(applied.0);
        if config.id == NodeId(0) {
            return Err(RaftError::Config("node zero names nobody".into()));
        }
        for_library.validate().map_err(|error| RaftError::Config(error.to_string()))?;
        let logger = logger::logger(config.logging);
        let node = RawNode::new(&for_library, Log::new(store, loaded)?, &logger)
            .map_err(|error| RaftError::Inconsistent { reason: error.to_string() })?;
        let members = snapshot.as_ref().map(|snapshot| snapshot.configuration.clone());
        let mut raft = Self {
            node,
            reads: Reads::new(config.id, config.life),
            config,
            ticks: 0,
            applied,
            members: vec![(applied, members.unwrap_or_default())],
            offered: None,
            snapshots_sent: BTreeMap::new(),
            reported: Leadership::default(),
            pinned: Pinned::default(),
            speech: Speech::default(),
            stopped: false,
        };
        raft.pin_election();
        Ok((raft, snapshot.map(restored)))
    }

    /// Has every message sent as soon as it may be, by this voice, instead of being put into the
    /// output: so the followers of a leader make its entries durable while it does.
    ///
    /// But what a leader says of entries that are committed already it says when
    /// [`speak`](Self::speak) is called, or with the next output: whoever waits for those entries
    /// comes first.
    pub fn speak_by(&mut self, voice: Voice) {
        self.speech.speak_by(voice);
    }

    /// Says what was left to say, if there is a voice. To be called when the output has been dealt
    /// with.
    pub fn speak(&mut self) {
        self.speech.say_rest();
    }

    /// Does what earlier calls have caused: makes it durable, then puts into `out` what follows.
    ///
    /// Replaces whatever `out` held. Cheap if there is nothing to do.
    ///
    /// # Errors
    ///
    /// If the store fails or a committed entry cannot be understood. The node has stopped then.
    /// What `out` holds of the turns before is still valid.
    pub fn ready(&mut self, out: &mut Output) -> Result<(), RaftError> {
        out.clear();
        if self.stopped {
            return Err(RaftError::Stopped);
        }
        self.speech.say_rest();
        let result = self.turns(out);
        self.stopped = result.is_err();
        result?;
        out.reads = self.reads.passed(self.applied.0);
        out.wants_snapshot = self.wants_snapshot();
        let now = self.leadership();
        if now != self.reported {
            self.speech.forget();
            out.leadership = Some(now);
        }
        self.reported = now;
        Ok(())
    }

    /// Returns whether [`ready`](Self::ready) has nothing to do: so it is after most ticks.
    pub fn is_idle(&self) -> bool {
        !self.stopped
            && self.offered.is_none()
            && self.reads.is_empty()
            && !self.node.has_ready()
            && self.leadership() == self.reported
            && !self.wants_snapshot()
    }

    fn turns(&mut self, out: &mut Output) -> Result<(), RaftError> {
        for turn in 0.. {
            let timeout = self.config.election_ticks_min as u64;
            self.reads.ask(&mut self.node, self.ticks, timeout);
            if !self.node.has_ready() {
                break;
            }
            if turn == TURNS_MAX {
                out.more = true;
                break;
            }
            if !self.only_speaks(out) {
                self.turn(out)?;
            }
        }
        if let Some(offered) = self.offered.take() {
            turn::save_offered(self.node.mut_store(), offered)?;
            self.forget_members();
        }
        Ok(())
    }

    /// Speaks, if nothing else is to be done: a turn without a transaction. Most messages are
    /// answered so, a heartbeat for one. Says whether it was so.
    ///
    /// What is said follows from what is durable, since the library has nothing that is not.
    fn only_speaks(&mut self, out: &mut Output) -> bool {
        if self.offered.is_some() {
            return false;
        }
        let mut messages = mem::take(&mut self.node.raft.msgs);
        if self.node.has_ready() {
            self.node.raft.msgs = messages;
            return false;
        }
        debug_assert!(
            admission::is_saved(&self.node.raft),
            "unsaved entries are ready to be saved"
        );
        self.send(&messages, out);
        // The room goes back to where the next ones will be.
        messages.clear();
        self.node.raft.msgs = messages;
        self.end_turn();
        true
    }

    fn turn(&mut self, out: &mut Output) -> Result<(), RaftError> {
        let offered = self.offered.take();
        let mut unsaved = Unsaved::begin(&mut self.node);
        if self.speech.has_voice() {
            let first = unsaved.speak_first(self.node.store());
            if unsaved.only_commits() {
                self.send_later(&first, out);
            } else {
                self.send(&first, out);
            }
        }
        let mut saved: Saved = unsaved.save(self.node.mut_store(), offered)?;
        self.forget_members();

        self.send(&saved.messages(), out);
        if let Some(snapshot) = saved.snapshot() {
            // It came by a message, so it is in the first turn after that, and entries follow it.
            assert!(out.committed.is_empty(), "a snapshot comes before entries in an output");
            self.applied = snapshot.position.index;
            self.members = vec![(self.applied, snapshot.configuration.clone())];
            out.restored = Some(restored(snapshot));
        }
        self.apply(saved.committed(), out)?;
        for read in saved.reads() {
            self.reads.answer(&read.request_ctx, read.index);
        }
        let afterwards = saved.advance(&mut self.node);
        self.send_later(&afterwards.messages, out);
        self.apply(afterwards.committed, out)?;
        self.end_turn();
        Ok(())
    }

    fn end_turn(&mut self) {
        self.node.advance_apply();
        self.step_down_if_removed();
        self.pin_election();
    }

    fn send(&mut self, messages: &[Message], out: &mut Output) {
        self.note_snapshots(messages);
        self.speech.say(messages, self.ticks, &mut out.messages);
    }

    fn send_later(&mut self, messages: &[Message], out: &mut Output) {
        self.note_snapshots(messages);
        self.speech.say_later(messages, self.ticks, &mut out.messages);
    }

    fn note_snapshots(&mut self, messages: &[Message]) {
        let is_snapshot = |message: &&Message| message.get_msg_type() == MessageType::MsgSnapshot;
        for message in messages.iter().filter(is_snapshot) {
            self.snapshots_sent.insert(NodeId(message.get_to()), self.ticks);
        }
    }

    fn apply(&mut self, entries: Vec<Entry>, out: &mut Output) -> Result<(), RaftError> {
        for mut entry in entries {
            let index = LogIndex(entry.get_index());
            self.applied = index;
            let committed = match entry.get_entry_type() {
                EntryType::EntryNormal
                    if entry.get_data().is_empty() && entry.get_context().is_empty() =>
                {
                    Committed::Empty { index }
                }
                EntryType::EntryNormal => Committed::Entry {
                    index,
                    term: Term(entry.get_term()),
                    context: entry.take_context(),
                    data: entry.take_data(),
                },
                // The library's older form, which nothing here proposes.
                EntryType::EntryConfChange => return Err(RaftError::UnknownEntry { index }),
                EntryType::EntryConfChangeV2 => {
                    let mut change = ConfChangeV2::default();
                    let decoded = change.merge_from_bytes(entry.get_data());
                    decoded.map_err(|_| RaftError::UnknownEntry { index })?;
                    self.apply_change(index, &change)
                }
            };
            out.committed.push(committed);
        }
        Ok(())
    }

    /// Applies a change of the members; an empty one too, since that is how a joint phase ends.
    ///
    /// The library refuses a change for what the members are, which is the same on every replica
    /// at this index. So a refusal is an outcome like another, not an error.
    fn apply_change(&mut self, index: LogIndex, change: &ConfChangeV2) -> Committed {
        let refused = match self.node.apply_conf_change(change) {
            Ok(state) => {
                self.members.push((index, Configuration::of_library(&state)));
                None
            }
            Err(error) => Some(error.to_string()),
        };
        let context = bytes::Bytes::copy_from_slice(change.get_context());
        Committed::Configuration {
            index,
            context,
            configuration: self.configuration().clone(),
            refused,
        }
    }

    fn wants_snapshot(&self) -> bool {
        let log = self.node.store();
        let since = self.applied.0.saturating_sub(log.snapshot_position().index.0);
        since > 0
            && (since >= self.config.snapshot_entries
                || log.bytes_since_snapshot() >= self.config.snapshot_bytes
                || log.peer_wants_snapshot())
    }

    /// Forgets the members as of indexes that the snapshot has passed.
    fn forget_members(&mut self) {
        let snapshot = self.node.store().snapshot_position().index;
        let passed = self.members.partition_point(|(index, _)| *index <= snapshot);
        self.members.drain(..passed.saturating_sub(1));
    }

    fn configuration(&self) -> &Configuration {
        self.members_at(self.applied)
    }

    /// Returns the members as of an entry at or after the snapshot.
    fn members_at(&self, index: LogIndex) -> &Configuration {
        let known = self.members.iter().rev().find(|(since, _)| *since <= index);
        &known.expect("members as of the snapshot are always known").1
    }
}

impl<S: RaftStore> fmt::Debug for Raft<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raft")
            .field("id", &self.config.id)
            .field("leadership", &self.leadership())
            .field("applied", &self.applied)
            .finish_non_exhaustive()
    }
}

fn restored(snapshot: Snapshot) -> Restored {
    let Snapshot { position, configuration, data } = snapshot;
    Restored { index: position.index, data, configuration }
}
