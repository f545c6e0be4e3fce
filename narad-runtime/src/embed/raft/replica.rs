//! The thread of a replica: Raft, what it is told, and what it has decided.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use bytes::Bytes;
use narad_core::ids::{LogIndex, NodeId};
use prost::Message as _;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::members::{Change, KeptRoster, Verdict};
use super::{PATIENCE, RAFT, Way, framed};
use crate::embed::memory::MemoryMetastore;
use crate::raft::{
    Committed, ConfigurationChange, Outgoing, Output, Raft, RaftError, RaftStore, ReadId, Restored,
};

/// Something that reaches the thread.
pub(super) enum Told {
    Message { from: NodeId, bytes: Bytes },
    Propose { record: Bytes, reply: oneshot::Sender<Result<LogIndex, NotLeader>> },
    Change { change: Change, reply: oneshot::Sender<Verdict> },
    Barrier { reply: oneshot::Sender<LogIndex> },
    Unreachable(NodeId),
    SnapshotSent { to: NodeId, arrived: bool },
    Stop,
}

/// A replica does not lead, so the record is in no log.
pub(super) struct NotLeader(pub(super) Option<NodeId>);

/// Who waits for what.
#[derive(Default)]
pub(super) struct Asked {
    proposals: BTreeMap<Bytes, oneshot::Sender<Result<LogIndex, NotLeader>>>,
    changes: BTreeMap<Bytes, oneshot::Sender<Verdict>>,
    barriers: BTreeMap<ReadId, oneshot::Sender<LogIndex>>,
}

/// What the thread has.
pub(super) struct Replica<S: RaftStore> {
    pub(super) raft: Raft<S>,
    pub(super) letters: Receiver<Told>,
    pub(super) told: Sender<Told>,
    pub(super) way: Arc<Way>,
    pub(super) runtime: Handle,
    pub(super) decided: MemoryMetastore,
    pub(super) applied: LogIndex,
    pub(super) asked: Asked,
    pub(super) life: u64,
    /// Proposals and changes that this life has made.
    pub(super) sequence: u64,
}

impl<S: RaftStore> Replica<S> {
    const TICK: Duration = Duration::from_millis(50);
    const LETTERS_MAX: usize = 256;

    pub(super) fn run(mut self) -> Result<(), RaftError> {
        let mut next_tick = Instant::now() + Self::TICK;
        loop {
            let pause = next_tick.saturating_duration_since(Instant::now());
            match self.letters.recv_timeout(pause) {
                Ok(Told::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(told) => self.take(told),
                Err(RecvTimeoutError::Timeout) => {}
            }
            for _ in 0..Self::LETTERS_MAX {
                match self.letters.try_recv() {
                    Ok(Told::Stop) => return Ok(()),
                    Ok(told) => self.take(told),
                    Err(_) => break,
                }
            }
            if Instant::now() >= next_tick {
                // A thread that slept ticks once: Raft must not count sleep as silence of its peers.
                next_tick = Instant::now() + Self::TICK;
                self.raft.tick();
                self.asked.proposals.retain(|_, reply| !reply.is_closed());
                self.asked.changes.retain(|_, reply| !reply.is_closed());
                let gone = self.asked.barriers.extract_if(.., |_, reply| reply.is_closed());
                let gone: Vec<ReadId> = gone.map(|(read, _)| read).collect();
                for read in gone {
                    self.raft.cancel_read(read);
                }
            }
            self.proceed()?;
        }
    }

    fn take(&mut self, told: Told) {
        match told {
            Told::Message { from, bytes } => {
                if let Err(error) = self.raft.step(from, &bytes)
                    && !error.is_expected()
                {
                    tracing::warn!(%from, %error, "dropped a raft message");
                }
            }
            Told::Propose { record, reply } => {
                let tag = self.tag();
                match self.raft.propose(tag.clone(), record.to_vec()) {
                    Ok(()) => drop(self.asked.proposals.insert(tag.into(), reply)),
                    // Whoever asked may be gone.
                    Err(_) => drop(reply.send(Err(NotLeader(self.raft.leadership().leader)))),
                }
            }
            Told::Change { change, reply } => self.change(change, reply),
            Told::Barrier { reply } => {
                let read = self.raft.read_index();
                self.asked.barriers.insert(read, reply);
            }
            Told::Unreachable(peer) => self.raft.report_unreachable(peer),
            Told::SnapshotSent { to, arrived } => self.raft.report_snapshot(to, arrived),
            Told::Stop => {}
        }
    }

    /// Names something that this replica proposes.
    fn tag(&mut self) -> Vec<u8> {
        self.sequence += 1;
        let tag = [self.way.me.0, self.life, self.sequence];
        tag.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// Proposes a change of the replicas, unless there is something to say at once.
    fn change(&mut self, change: Change, reply: oneshot::Sender<Verdict>) {
        let judged = self.way.roster().judge(&change, &self.raft.status());
        let verdict = judged.map_or_else(
            || {
                let tag = self.tag();
                let (steps, context) = (vec![change.step()], change.encode(&tag).to_vec());
                self.raft.configure(&ConfigurationChange { steps, context })?;
                Ok(tag)
            },
            Err,
        );
        match verdict {
            Ok(tag) => drop(self.asked.changes.insert(tag.into(), reply)),
            // Whoever asked may be gone.
            Err(verdict) => drop(reply.send(verdict)),
        }
    }

    /// Runs Raft until it has nothing more to give.
    fn proceed(&mut self) -> Result<(), RaftError> {
        let mut out = Output::default();
        loop {
            self.raft.ready(&mut out)?;
            if let Some(restored) = out.restored.take() {
                self.applied = restored.index;
                load(&self.decided, &self.way, restored);
            }
            for committed in out.committed.drain(..) {
                self.applied = committed.index();
                self.decide(committed);
            }
            for (read, _) in out.reads.drain(..) {
                if let Some(reply) = self.asked.barriers.remove(&read) {
                    // Whoever asked may be gone.
                    let _ = reply.send(self.decided.last());
                }
            }
            for message in out.messages.drain(..) {
                self.send(message);
            }
            if out.wants_snapshot {
                let offered = self.raft.offer_snapshot(self.applied, self.kept().encode_to_vec());
                if let Err(error) = offered {
                    tracing::debug!(%error, "no snapshot was taken");
                }
            }
            if !out.more {
                return Ok(());
            }
        }
    }

    /// Takes over what was decided, and tells those of this replica who have asked for it.
    fn decide(&mut self, committed: Committed) {
        match committed {
            Committed::Entry { context, data, .. } => {
                let index = self.decided.push(data);
                if let Some(reply) = self.asked.proposals.remove(&context) {
                    // Whoever asked may be gone.
                    drop(reply.send(Ok(index)));
                }
            }
            Committed::Configuration { context, configuration, refused, .. } => {
                let (change, tag) = Change::decode(context).unzip();
                let change = change.filter(|_| refused.is_none());
                self.way.roster().configured(configuration, change);
                if let Some(reply) = tag.and_then(|tag| self.asked.changes.remove(&tag)) {
                    // Whoever asked may be gone.
                    drop(reply.send(refused.map_or(Verdict::Done, Verdict::Refused)));
                }
            }
            Committed::Empty { .. } => {}
        }
    }

    fn kept(&self) -> Kept {
        let (first, state, records) = self.decided.parts();
        Kept { first: first.0, state, records, roster: Some(self.way.roster().kept()) }
    }

    fn send(&self, message: Outgoing) {
        let Outgoing { to, bytes, is_snapshot } = message;
        let (way, told) = (Arc::clone(&self.way), self.told.clone());
        self.runtime.spawn(async move {
            let Some(whom) = way.whom(to) else { return };
            let sent = way.peer.call(&whom, framed(RAFT, &bytes));
            let arrived = tokio::time::timeout(PATIENCE, sent).await.is_ok_and(|sent| sent.is_ok());
            // A replica that has ended needs to be told nothing.
            if is_snapshot {
                drop(told.send(Told::SnapshotSent { to, arrived }));
            } else if !arrived {
                drop(told.send(Told::Unreachable(to)));
            }
        });
    }
}

/// Takes over what a snapshot holds.
pub(super) fn load(decided: &MemoryMetastore, way: &Way, restored: Restored) {
    match Kept::decode(restored.data) {
        Ok(Kept { first, state, records, roster }) => {
            decided.replace(LogIndex(first), state, records);
            way.roster().restored(restored.configuration, roster.unwrap_or_default());
        }
        Err(error) => tracing::error!(%error, "a snapshot of the metastore cannot be read"),
    }
}

/// What a snapshot of Raft holds.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Kept {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(bytes = "bytes", optional, tag = "2")]
    state: Option<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    records: Vec<Bytes>,
    #[prost(message, optional, tag = "4")]
    roster: Option<KeptRoster>,
}

impl Kept {
    /// What the store of a new cluster begins with.
    pub(super) fn of(roster: KeptRoster) -> Self {
        Self { roster: Some(roster), ..Self::default() }
    }
}
