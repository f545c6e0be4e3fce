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

use super::letter::{RAFT, framed};
use super::members::{Change, KeptRoster, Roster, Verdict};
use super::{PATIENCE, RaftMetastoreError, Way};
use crate::embed::memory::MemoryMetastore;
use crate::raft::{
    Committed, Configuration, ConfigurationChange, Outgoing, Output, Raft, RaftStore, ReadId,
    Restored,
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

    pub(super) fn run(mut self) -> Result<(), RaftMetastoreError> {
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
    fn proceed(&mut self) -> Result<(), RaftMetastoreError> {
        let mut out = Output::default();
        loop {
            self.raft.ready(&mut out)?;
            if let Some(restored) = out.restored.take() {
                self.applied = restored.index;
                load(&self.decided, &self.way, restored)?;
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
                let kept = Kept::of_parts(&self.decided, &self.way.roster());
                let offered = self.raft.offer_snapshot(self.applied, kept.encode_to_vec());
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

    fn send(&self, message: Outgoing) {
        let Outgoing { to, bytes, is_snapshot } = message;
        let (way, told) = (Arc::clone(&self.way), self.told.clone());
        self.runtime.spawn(async move {
            // Nobody says where some are reached; Raft waits for the outcome all the same.
            let arrived = match way.whom(to) {
                Some(whom) => {
                    let sent = way.peer.call(&whom, framed(RAFT, &bytes));
                    tokio::time::timeout(PATIENCE, sent).await.is_ok_and(|sent| sent.is_ok())
                }
                None => false,
            };
            // A replica that has ended needs to be told nothing.
            if is_snapshot {
                drop(told.send(Told::SnapshotSent { to, arrived }));
            } else if !arrived {
                drop(told.send(Told::Unreachable(to)));
            }
        });
    }
}

/// Takes over what a snapshot holds. Whoever goes on without it would count other records.
pub(super) fn load(
    decided: &MemoryMetastore,
    way: &Way,
    restored: Restored,
) -> Result<(), RaftMetastoreError> {
    let kept = Kept::read(restored.data);
    let kept = kept.map_err(|reason| RaftMetastoreError::Snapshot { reason })?;
    kept.put(decided, &mut way.roster(), restored.configuration);
    Ok(())
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

    pub(super) fn of_parts(decided: &MemoryMetastore, roster: &Roster) -> Self {
        let (first, state, records) = decided.parts();
        Self { first: first.0, state, records, roster: Some(roster.kept()) }
    }

    /// Reads one; the reason, if it is none.
    pub(super) fn read(bytes: Bytes) -> Result<Self, String> {
        let kept = Self::decode(bytes).map_err(|error| error.to_string())?;
        if kept.state.is_none() && kept.first != 0 {
            return Err(format!("nothing stands for the first {} records", kept.first));
        }
        if kept.first.checked_add(kept.records.len() as u64).is_none() {
            return Err(format!("there are no {} records", kept.first));
        }
        Ok(kept)
    }

    pub(super) fn put(
        self,
        decided: &MemoryMetastore,
        roster: &mut Roster,
        configuration: Configuration,
    ) {
        decided.replace(LogIndex(self.first), self.state, self.records);
        roster.restored(configuration, self.roster.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use narad_core::ids::Name;

    use super::*;
    use crate::embed::memory::MemoryPeer;
    use crate::embed::{Inbound, Peer as _, Whom};
    use crate::raft::{MemStore, RaftConfig};

    const NOBODY: NodeId = NodeId(9);

    fn whom(node: NodeId) -> Whom {
        let name = Name::new(format!("replica-{node}")).expect("it is a good name");
        Whom { node, name, address: String::new() }
    }

    /// A replica that knows the second one's address, and that of nobody else.
    async fn replica(network: &MemoryPeer) -> Replica<MemStore> {
        let me = NodeId(1);
        let (raft, _) = Raft::open(RaftConfig::new(me, 1), MemStore::new(me)).expect("it opens");
        let (told, letters) = channel();
        let peer = network.another();
        let (inbound, _) = Inbound::to_function(whom(me), |_, _| async { None });
        peer.start(inbound).await.expect("it starts");
        let roster = Arc::new(Mutex::new(Roster::new(vec![whom(NodeId(2))])));
        Replica {
            raft,
            letters,
            told,
            way: Arc::new(Way { me, roster, peer: Arc::new(peer) }),
            runtime: Handle::current(),
            decided: MemoryMetastore::default(),
            applied: LogIndex(0),
            asked: Asked::default(),
            life: 1,
            sequence: 0,
        }
    }

    /// Sends one message, and returns what Raft is told of it.
    async fn outcome(replica: &Replica<MemStore>, to: NodeId, is_snapshot: bool) -> Option<Told> {
        replica.send(Outgoing { to, bytes: vec![1], is_snapshot });
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        replica.letters.try_recv().ok()
    }

    /// Raft sends nothing to a replica until it knows what became of a snapshot for it.
    #[tokio::test]
    async fn a_snapshot_for_whom_nobody_can_reach_is_lost() {
        let network = MemoryPeer::default();
        let replica = replica(&network).await;
        let lost = outcome(&replica, NOBODY, true).await;
        assert!(matches!(lost, Some(Told::SnapshotSent { to: NOBODY, arrived: false })));
        let lost = outcome(&replica, NOBODY, false).await;
        assert!(matches!(lost, Some(Told::Unreachable(NOBODY))));

        let peer = network.another();
        let (inbound, _reachable) =
            Inbound::to_function(whom(NodeId(2)), |_, _| async { Some(Bytes::new()) });
        peer.start(inbound).await.expect("it starts");
        let sent = outcome(&replica, NodeId(2), true).await;
        assert!(matches!(sent, Some(Told::SnapshotSent { to: NodeId(2), arrived: true })));
        assert!(outcome(&replica, NodeId(2), false).await.is_none());
    }
}
