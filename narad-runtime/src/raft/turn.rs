//! One turn of consensus: what it decided becomes durable, then it may be spoken of.
//!
//! The order is the library's contract, and types enforce it here. A turn begins as [`Unsaved`],
//! from which nothing can be had but what a leader sends: that asks others to make entries durable,
//! and promises nothing. Saving it is one transaction and makes it [`Saved`]; only that has the
//! other messages and committed entries, and only by [`Saved::advance`] can it end.

use super::error::StoreError;
use super::log::{self, Log};
use super::store::{Batch, Cut, HardState, Position, RaftStore, Snapshot};
use ::raft::eraftpb::{Entry, EntryType, Message};
use ::raft::{RawNode, ReadState, Ready};
use narad_core::planted::{Bug, is_planted};

/// A turn of which nothing is durable yet.
pub(super) struct Unsaved {
    ready: Ready,
}

/// A turn that survives a crash.
pub(super) struct Saved {
    ready: Ready,
    snapshot: Option<Snapshot>,
}

/// What the turn's durability decided in turn, once the library knew of it.
pub(super) struct Afterwards {
    pub(super) messages: Vec<Message>,
    pub(super) committed: Vec<Entry>,
}

/// A snapshot that this node made of its own state, and where its log may be cut for it.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) snapshot: Snapshot,
    pub(super) cut: Position,
}

impl Unsaved {
    /// Begins a turn. It must be ended: the library does not survive one that was dropped, so an
    /// error in between stops the node.
    pub(super) fn begin<S: RaftStore>(node: &mut RawNode<Log<S>>) -> Self {
        Self { ready: node.ready() }
    }

    /// Takes what a leader sends, so that its followers write while it does: they hold entries
    /// that it may lose in a crash, and so they would if it crashed a moment later. Nothing if this
    /// turn's term or vote is not durable yet. A leader of one vote would forget that it led, and
    /// lead that term once more with other entries.
    pub(super) fn speak_first<S: RaftStore>(&mut self, log: &Log<S>) -> Vec<Message> {
        let known = log.hard_state();
        if self.ready.hs().map(log::of_library_hard_state).is_none_or(|hs| hs.is_vote_of(known)) {
            self.ready.take_messages()
        } else {
            Vec::new()
        }
    }

    /// Whether the turn hands out committed entries and has nothing that others are to make durable.
    pub(super) fn only_commits(&self) -> bool {
        !self.ready.committed_entries().is_empty() && self.ready.entries().is_empty()
    }

    /// Makes the turn durable, together with a snapshot that waits for it: one transaction.
    pub(super) fn save<S: RaftStore>(
        mut self,
        log: &mut Log<S>,
        offered: Option<Offered>,
    ) -> Result<Saved, StoreError> {
        let received = self.ready.snapshot();
        let received = (!received.is_empty()).then(|| log::of_library(received));
        let hard_state = self.ready.hs().map(log::of_library_hard_state);
        let entries = self.ready.take_entries();
        let nothing_but_commit = !self.ready.must_sync() && offered.is_none();
        if nothing_but_commit {
            // Any leader tells it again, so it waits for whatever is written with it next.
            if let Some(HardState { commit, .. }) = hard_state {
                log.note_commit(commit.0);
            }
            return Ok(Saved { ready: self.ready, snapshot: None });
        }
        // Term and vote are durable before anybody hears of them. What is committed is told again, so
        // it goes along only with what needs it: see `Log::note_commit`.
        let known = log.hard_state();
        let only_commit = hard_state.is_none_or(|hs| hs.is_vote_of(known));
        if let (true, Some(HardState { commit, .. })) = (only_commit, hard_state) {
            log.note_commit(commit.0);
        }
        let may_wait = only_commit
            && received.is_none()
            && offered.is_none()
            && !entries.iter().any(changes_members)
            && !log.is_commit_far_ahead();
        let mut batch = Batch {
            entries: entries.iter().map(log::encode).collect::<Result<_, _>>()?,
            hard_state: hard_state.or_else(|| log.unsaved_hard_state()).filter(|_| !may_wait),
            must_sync: self.ready.must_sync() && !is_planted(Bug::RaftNotDurable),
            ..Batch::default()
        };
        match (&received, offered) {
            // What a leader sends is newer than what was made here.
            (Some(snapshot), _) => {
                batch.cut = Some(Cut::Whole(snapshot.position));
                batch.snapshot = Some(snapshot.clone());
            }
            (None, Some(offered)) => add(&mut batch, offered, log),
            (None, None) => {}
        }
        log.commit(batch, entries)?;
        Ok(Saved { ready: self.ready, snapshot: received })
    }
}

fn changes_members(entry: &Entry) -> bool {
    entry.get_entry_type() != EntryType::EntryNormal
}

/// Makes a snapshot of this node's own durable in a transaction of its own.
pub(super) fn save_offered<S: RaftStore>(
    log: &mut Log<S>,
    offered: Offered,
) -> Result<(), StoreError> {
    let mut batch = Batch::default();
    add(&mut batch, offered, log);
    log.commit(batch, Vec::new())
}

/// Adds a snapshot of this node's own. The commit index goes with it, since a store whose snapshot
/// is ahead of that could not be started from.
fn add<S: RaftStore>(batch: &mut Batch, offered: Offered, log: &Log<S>) {
    batch.cut = Some(Cut::Prefix(offered.cut));
    batch.snapshot = Some(offered.snapshot);
    batch.hard_state = batch.hard_state.or(Some(log.hard_state()));
    batch.must_sync = true;
}

impl Saved {
    /// Takes the turn's messages: those of a leader, and those that promise something durable.
    pub(super) fn messages(&mut self) -> Vec<Message> {
        let mut messages = self.ready.take_messages();
        messages.append(&mut self.ready.take_persisted_messages());
        messages
    }

    /// Takes the snapshot that replaced this node's state, if one did.
    pub(super) fn snapshot(&mut self) -> Option<Snapshot> {
        self.snapshot.take()
    }

    pub(super) fn committed(&mut self) -> Vec<Entry> {
        self.ready.take_committed_entries()
    }

    pub(super) fn reads(&mut self) -> Vec<ReadState> {
        self.ready.take_read_states()
    }

    /// Tells the library that the turn is durable. What follows from that at once comes back and
    /// is no less part of the turn: a single voter commits here and nowhere else.
    pub(super) fn advance<S: RaftStore>(self, node: &mut RawNode<Log<S>>) -> Afterwards {
        let mut light = node.advance(self.ready);
        if let Some(commit) = light.commit_index() {
            node.mut_store().note_commit(commit);
        }
        Afterwards { messages: light.take_messages(), committed: light.take_committed_entries() }
    }
}
