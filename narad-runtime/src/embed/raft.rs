//! The default metastore: tikv Raft among a fixed set of nodes, each with a replica of its own.
//!
//! A record is an entry of the Raft log; its index is the number of records up to it, since Raft has
//! entries of its own in between. A proposal at a node that does not lead is passed on to the one that
//! does.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::{LogIndex, NodeId};
use prost::Message as _;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::memory::MemoryMetastore;
use super::metastore::{DECISION_BYTES_MAX, Metastore, Proposed, Watch};
use super::peer::{Inbound, KeptReachable, Peer, Whom};
use crate::raft::{
    Committed, Loaded, Outgoing, Output, Raft, RaftConfig, RaftError, RaftStore, ReadId,
};

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// What a message between replicas begins with: it is one of Raft's.
const RAFT: u8 = 0;
/// It is a proposal that is passed on.
const PROPOSE: u8 = 1;

/// A replica of a metastore, on a thread of its own, until it is dropped.
pub struct RaftMetastore {
    told: Sender<Told>,
    decided: MemoryMetastore,
    way: Arc<Way>,
    _reachable: KeptReachable,
}

impl fmt::Debug for RaftMetastore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftMetastore").field("me", &self.way.me).finish_non_exhaustive()
    }
}

/// The other replicas.
struct Way {
    me: NodeId,
    voters: BTreeMap<NodeId, Whom>,
    peer: Arc<dyn Peer>,
}

/// Something that reaches the thread.
enum Told {
    Message { from: NodeId, bytes: Bytes },
    Propose { record: Bytes, reply: oneshot::Sender<Result<LogIndex, NotLeader>> },
    Barrier { reply: oneshot::Sender<LogIndex> },
    Unreachable(NodeId),
    SnapshotSent { to: NodeId, arrived: bool },
    Stop,
}

/// A replica does not lead, so the record is in no log.
struct NotLeader(Option<NodeId>);

/// Why a replica does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RaftMetastoreError {
    /// Raft, or the store under it, failed.
    #[error(transparent)]
    Raft(#[from] RaftError),
    /// The replica is none of the voters.
    #[error("{0} is none of the voters: name it among them")]
    NoVoter(NodeId),
    /// The transport does not start.
    #[error("the transport does not start: {0}")]
    Peer(String),
    /// The system gives no thread.
    #[error("the system gives no thread: {0}")]
    Thread(#[from] io::Error),
}

impl RaftMetastore {
    /// Starts a replica on the tokio runtime that the caller runs on. `voters` are all replicas, the
    /// same at each of them and for ever; `life` is a number that no earlier start of this one used. The
    /// transport is the replica's own, not the one that is given to [`Narad`](super::Narad).
    ///
    /// # Errors
    ///
    /// See [`RaftMetastoreError`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn start<S: RaftStore + 'static>(
        me: NodeId,
        voters: Vec<Whom>,
        life: u64,
        mut store: S,
        peer: impl Peer,
    ) -> Result<Self, RaftMetastoreError> {
        let ids: Vec<NodeId> = voters.iter().map(|voter| voter.node).collect();
        let own = voters.iter().find(|voter| voter.node == me).cloned();
        let own = own.ok_or(RaftMetastoreError::NoVoter(me))?;
        if store.load().map_err(RaftError::from)? == Loaded::empty(me) {
            Raft::bootstrap(&mut store, &ids, Kept::default().encode_to_vec())?;
        }
        let config = RaftConfig {
            entry_bytes_max: 2 * DECISION_BYTES_MAX as u64,
            ..RaftConfig::new(me, life)
        };
        let (raft, restored) = Raft::open(config, store)?;
        let decided = MemoryMetastore::default();
        let mut applied = LogIndex(0);
        if let Some(restored) = restored {
            applied = restored.index;
            load(&decided, &restored.data);
        }
        let (told, letters) = channel();
        let inbox = told.clone();
        let (inbound, reachable) =
            Inbound::to_function(own, move |from, message| answer(from, message, inbox.clone()));
        let voters = voters.into_iter().map(|voter| (voter.node, voter)).collect();
        let way = Arc::new(Way { me, voters, peer: Arc::new(peer) });
        way.peer.start(inbound).await.map_err(RaftMetastoreError::Peer)?;
        let replica = Replica {
            raft,
            letters,
            told: told.clone(),
            way: Arc::clone(&way),
            runtime: Handle::current(),
            decided: decided.clone(),
            applied,
            proposals: BTreeMap::new(),
            barriers: BTreeMap::new(),
            life,
            sequence: 0,
        };
        std::thread::Builder::new().name("narad-raft".to_owned()).spawn(move || {
            if let Err(error) = replica.run() {
                tracing::error!(%error, "the metastore's replica cannot go on");
            }
        })?;
        Ok(Self { told, decided, way, _reachable: reachable })
    }

    /// Proposes here, or says who leads.
    async fn propose_here(
        told: &Sender<Told>,
        record: Bytes,
    ) -> Option<Result<LogIndex, NotLeader>> {
        let (reply, answered) = oneshot::channel();
        told.send(Told::Propose { record, reply }).ok()?;
        tokio::time::timeout(PATIENCE, answered).await.ok()?.ok()
    }
}

impl Drop for RaftMetastore {
    fn drop(&mut self) {
        // The thread may have ended already.
        drop(self.told.send(Told::Stop));
    }
}

#[async_trait]
impl Metastore for RaftMetastore {
    async fn propose(&self, record: Bytes) -> Proposed {
        if record.len() > DECISION_BYTES_MAX {
            return Proposed::Rejected { reason: "the record is too long".to_owned() };
        }
        let leader = match Self::propose_here(&self.told, record.clone()).await {
            None => return Proposed::Unknown,
            Some(Ok(index)) => return Proposed::Applied(index),
            Some(Err(NotLeader(leader))) => leader.filter(|leader| *leader != self.way.me),
        };
        let Some(whom) = leader.and_then(|leader| self.way.voters.get(&leader)) else {
            return Proposed::Rejected { reason: "there is no leader now".to_owned() };
        };
        let message = framed(PROPOSE, &record);
        let passed = tokio::time::timeout(PATIENCE, self.way.peer.call(whom, message)).await;
        let Ok(Ok(answer)) = passed else { return Proposed::Unknown };
        let Some(index) = answer.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)) else {
            return Proposed::Unknown;
        };
        let index = LogIndex(index);
        if index == LogIndex(0) {
            return Proposed::Rejected { reason: "the leader has just changed".to_owned() };
        }
        Proposed::Applied(index)
    }

    async fn barrier(&self) -> Option<LogIndex> {
        let (reply, passed) = oneshot::channel();
        self.told.send(Told::Barrier { reply }).ok()?;
        tokio::time::timeout(PATIENCE, passed).await.ok()?.ok()
    }

    async fn watch(&self, after: LogIndex) -> Box<dyn Watch> {
        self.decided.watch(after).await
    }

    async fn compact(&self, index: LogIndex, state: Bytes) {
        self.decided.compact(index, state).await;
    }
}

/// Answers another replica.
async fn answer(from: NodeId, mut message: Bytes, told: Sender<Told>) -> Option<Bytes> {
    match message.first().copied()? {
        RAFT => {
            let bytes = message.split_off(1);
            told.send(Told::Message { from, bytes }).ok()?;
            Some(Bytes::new())
        }
        PROPOSE => {
            let proposed = RaftMetastore::propose_here(&told, message.split_off(1)).await?;
            // Zero is no record's place: it was not taken.
            let index = proposed.map_or(LogIndex(0), |index| index);
            Some(Bytes::copy_from_slice(&index.0.to_le_bytes()))
        }
        _ => None,
    }
}

fn framed(kind: u8, bytes: &[u8]) -> Bytes {
    let mut message = vec![kind];
    message.extend_from_slice(bytes);
    message.into()
}

/// What the thread has.
struct Replica<S: RaftStore> {
    raft: Raft<S>,
    letters: Receiver<Told>,
    told: Sender<Told>,
    way: Arc<Way>,
    runtime: Handle,
    decided: MemoryMetastore,
    applied: LogIndex,
    proposals: BTreeMap<Bytes, oneshot::Sender<Result<LogIndex, NotLeader>>>,
    barriers: BTreeMap<ReadId, oneshot::Sender<LogIndex>>,
    life: u64,
    sequence: u64,
}

impl<S: RaftStore> Replica<S> {
    const TICK: Duration = Duration::from_millis(50);
    const LETTERS_MAX: usize = 256;

    fn run(mut self) -> Result<(), RaftError> {
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
                self.proposals.retain(|_, reply| !reply.is_closed());
                let gone = self.barriers.extract_if(.., |_, reply| reply.is_closed());
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
                self.sequence += 1;
                let tag = [self.way.me.0, self.life, self.sequence];
                let tag: Vec<u8> = tag.iter().flat_map(|number| number.to_le_bytes()).collect();
                match self.raft.propose(tag.clone(), record.to_vec()) {
                    Ok(()) => drop(self.proposals.insert(tag.into(), reply)),
                    // Whoever asked may be gone.
                    Err(_) => drop(reply.send(Err(NotLeader(self.raft.leadership().leader)))),
                }
            }
            Told::Barrier { reply } => {
                let read = self.raft.read_index();
                self.barriers.insert(read, reply);
            }
            Told::Unreachable(peer) => self.raft.report_unreachable(peer),
            Told::SnapshotSent { to, arrived } => self.raft.report_snapshot(to, arrived),
            Told::Stop => {}
        }
    }

    /// Runs Raft until it has nothing more to give.
    fn proceed(&mut self) -> Result<(), RaftError> {
        let mut out = Output::default();
        loop {
            self.raft.ready(&mut out)?;
            if let Some(restored) = out.restored.take() {
                self.applied = restored.index;
                load(&self.decided, &restored.data);
            }
            for committed in out.committed.drain(..) {
                self.applied = committed.index();
                if let Committed::Entry { context, data, .. } = committed {
                    let index = self.decided.push(data);
                    if let Some(reply) = self.proposals.remove(&context) {
                        // Whoever asked may be gone.
                        drop(reply.send(Ok(index)));
                    }
                }
            }
            for (read, _) in out.reads.drain(..) {
                if let Some(reply) = self.barriers.remove(&read) {
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

    fn kept(&self) -> Kept {
        let (first, state, records) = self.decided.parts();
        Kept { first: first.0, state, records }
    }

    fn send(&self, message: Outgoing) {
        let Outgoing { to, bytes, is_snapshot } = message;
        let (way, told) = (Arc::clone(&self.way), self.told.clone());
        self.runtime.spawn(async move {
            let Some(whom) = way.voters.get(&to) else { return };
            let sent = way.peer.call(whom, framed(RAFT, &bytes));
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
fn load(decided: &MemoryMetastore, data: &[u8]) {
    match Kept::decode(data) {
        Ok(kept) => decided.replace(LogIndex(kept.first), kept.state, kept.records),
        Err(error) => tracing::error!(%error, "a snapshot of the metastore cannot be read"),
    }
}

/// What a snapshot of Raft holds.
#[derive(Clone, PartialEq, prost::Message)]
struct Kept {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(bytes = "bytes", optional, tag = "2")]
    state: Option<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    records: Vec<Bytes>,
}
