//! The default metastore: tikv Raft among nodes that have a replica each.
//!
//! A record is an entry of the Raft log; its index is the number of records up to it, since Raft has
//! entries of its own in between. A proposal at a node that does not lead is passed on to the one that
//! does. Who the replicas are is in the log too: an entry that changes it names them and says where
//! they are reached.

pub(super) mod decoders;
mod letter;
mod members;
mod replica;

use std::fmt;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::{LogIndex, NodeId};
use prost::Message as _;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::letter::Letter;
use self::members::{Change, KeptRoster, Roster, Verdict};
pub use self::members::{MembersError, Replicas};
use self::replica::{Asked, Kept, NotLeader, Replica, Told, load};
use super::memory::MemoryMetastore;
use super::metastore::{DECISION_BYTES_MAX, Metastore, Proposed, Watch};
use super::peer::{Inbound, KeptReachable, Peer, Whom};
use crate::raft::{Loaded, Raft, RaftConfig, RaftError, RaftStore};

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(3);

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
    roster: Arc<Mutex<Roster>>,
    peer: Arc<dyn Peer>,
}

impl Way {
    fn roster(&self) -> MutexGuard<'_, Roster> {
        lock(&self.roster)
    }

    fn whom(&self, node: NodeId) -> Option<Whom> {
        self.roster().whom(node).cloned()
    }

    /// All that may be asked for something.
    fn others(&self) -> Vec<Whom> {
        self.roster().known().filter(|whom| whom.node != self.me).cloned().collect()
    }

    /// Asks another replica for a change of the replicas; `None` if it does not answer.
    async fn change_at(&self, whom: &Whom, change: &Change) -> Option<Verdict> {
        let message = Letter::Change(change.clone()).encode();
        let passed = tokio::time::timeout(PATIENCE, self.peer.call(whom, message)).await;
        Verdict::decode(&passed.ok()?.ok()?)
    }
}

/// Nothing under this mutex is left half done by a panic.
fn lock(roster: &Mutex<Roster>) -> MutexGuard<'_, Roster> {
    roster.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a replica does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RaftMetastoreError {
    /// Raft, or the store under it, failed.
    #[error(transparent)]
    Raft(#[from] RaftError),
    /// The replica is none of those that found the cluster.
    #[error("{0} is none of the voters: name it among them, or have it join")]
    NoVoter(NodeId),
    /// The transport does not start.
    #[error("the transport does not start: {0}")]
    Peer(String),
    /// The system gives no thread.
    #[error("the system gives no thread: {0}")]
    Thread(#[from] io::Error),
    /// The store holds, or another replica has sent, a snapshot that is none: it is damaged, or of a
    /// newer version.
    #[error(
        "a snapshot of the metastore cannot be read ({reason}): take this replica out, and have a new \
         one join"
    )]
    Snapshot {
        /// What is wrong with it.
        reason: String,
    },
}

impl RaftMetastore {
    /// How long a change of the replicas may take: a new one has to catch up meanwhile.
    const CHANGE_PATIENCE: Duration = Duration::from_secs(10);

    /// Starts a replica that founds the cluster with others, on the tokio runtime that the caller runs
    /// on; or starts it again. `voters` are all that found it, the same at each of them; when one is
    /// started again, they are those that it can ask where the others are, and whose addresses may be
    /// new. `life` is a number that no earlier start of this one used. The transport is the replica's
    /// own, not the one that is given to [`Narad`](super::Narad).
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
            let kept = Kept::of(KeptRoster::of_founders(&voters));
            Raft::bootstrap(&mut store, &ids, kept.encode_to_vec())?;
        }
        Self::open(own, voters, life, store, peer).await
    }

    /// Starts a replica of a cluster that others have founded, or starts it again. On an empty store it
    /// knows nothing until it was [added](Self::add_learner). `others` are those that may lead:
    /// [`replicas`](Self::replicas) of any of them tells.
    ///
    /// # Errors
    ///
    /// See [`RaftMetastoreError`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    ///
    /// # Examples
    ///
    /// A second replica, and then the first one leaves:
    ///
    /// ```
    /// use narad_core::ids::{Name, NodeId};
    /// use narad_runtime::embed::memory::MemoryPeer;
    /// use narad_runtime::embed::{RaftMetastore, Whom};
    /// use narad_runtime::raft::MemStore;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let whom = |n, name| Ok::<_, Box<dyn std::error::Error>>(Whom {
    ///     node: NodeId(n),
    ///     name: Name::new(name)?,
    ///     address: String::new(),
    /// });
    /// let (a, b) = (whom(1, "a")?, whom(2, "b")?);
    /// let network = MemoryPeer::default();
    /// let store = MemStore::new(a.node);
    /// let first = RaftMetastore::start(a.node, vec![a], 1, store, network.another()).await?;
    ///
    /// let (store, others) = (MemStore::new(b.node), first.replicas().all());
    /// let second = RaftMetastore::join(b.clone(), others, 1, store, network.another()).await?;
    /// first.add_learner(b.clone()).await?;
    /// first.promote(b.node).await?;
    /// second.remove(NodeId(1)).await?;
    /// assert_eq!(second.replicas().all(), [b]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn join<S: RaftStore + 'static>(
        own: Whom,
        others: Vec<Whom>,
        life: u64,
        store: S,
        peer: impl Peer,
    ) -> Result<Self, RaftMetastoreError> {
        let mut given = others;
        given.retain(|other| other.node != own.node);
        given.push(own.clone());
        Self::open(own, given, life, store, peer).await
    }

    async fn open<S: RaftStore + 'static>(
        own: Whom,
        given: Vec<Whom>,
        life: u64,
        store: S,
        peer: impl Peer,
    ) -> Result<Self, RaftMetastoreError> {
        let me = own.node;
        let config = RaftConfig {
            entry_bytes_max: 2 * DECISION_BYTES_MAX as u64,
            ..RaftConfig::new(me, life)
        };
        let (raft, restored) = Raft::open(config, store)?;
        let decided = MemoryMetastore::default();
        let roster = Arc::new(Mutex::new(Roster::new(given)));
        let (told, letters) = channel();
        let (inbox, known) = (told.clone(), Arc::clone(&roster));
        let (inbound, reachable) = Inbound::to_function(own, move |from, message| {
            let (inbox, removed) = (inbox.clone(), lock(&known).was_removed(from));
            async move {
                if removed {
                    answer_removed(from, message)
                } else {
                    answer(from, message, inbox).await
                }
            }
        });
        let way = Arc::new(Way { me, roster, peer: Arc::new(peer) });
        let mut applied = LogIndex(0);
        if let Some(restored) = restored {
            applied = restored.index;
            load(&decided, &way, restored)?;
        }
        way.peer.start(inbound).await.map_err(RaftMetastoreError::Peer)?;
        let replica = Replica {
            raft,
            letters,
            told: told.clone(),
            way: Arc::clone(&way),
            runtime: Handle::current(),
            decided: decided.clone(),
            applied,
            asked: Asked::default(),
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

    /// Returns the replicas as this one knows them: it has heard of all changes that were made before a
    /// [barrier](Metastore::barrier) began that has passed.
    pub fn replicas(&self) -> Replicas {
        self.way.roster().replicas()
    }

    /// Adds a replica that has been [joined](Self::join), as one that receives every record and does not
    /// count. Asked for again, it is done already. May be asked of any replica.
    ///
    /// # Errors
    ///
    /// [`MembersError::Refused`] of an id that another replica has or once had, since whoever comes back
    /// without its log would contradict what it has acknowledged; [`MembersError::NotNow`].
    pub async fn add_learner(&self, whom: Whom) -> Result<(), MembersError> {
        self.change(&Change::Add(whom)).await
    }

    /// Gives a learner a vote, once it has caught up. Asked for again, it is done already. May be asked
    /// of any replica.
    ///
    /// # Errors
    ///
    /// [`MembersError::Refused`] of who is no replica; [`MembersError::NotNow`] while the learner is
    /// behind, or does not answer.
    pub async fn promote(&self, learner: NodeId) -> Result<(), MembersError> {
        self.change(&Change::Promote(learner)).await
    }

    /// Takes a replica out, for good: its id does not come back. Asked for again, it is done already.
    /// May be asked of any replica, also of the one that leaves, which may be the one that leads. Stop it
    /// afterwards, and do so before its store is deleted.
    ///
    /// # Errors
    ///
    /// [`MembersError::Refused`] of the last voter; [`MembersError::NotNow`] while of the voters that
    /// would be left no majority answers, since nothing could ever be decided then.
    pub async fn remove(&self, replica: NodeId) -> Result<(), MembersError> {
        self.change(&Change::Remove(replica)).await
    }

    /// Asks for a change until it is so, is refused, or took too long.
    async fn change(&self, change: &Change) -> Result<(), MembersError> {
        const PAUSE: Duration = Duration::from_millis(50);
        let until = tokio::time::Instant::now() + Self::CHANGE_PATIENCE;
        loop {
            let reason = match self.change_once(change).await {
                Some(Verdict::Done) if self.is_so(change).await => return Ok(()),
                Some(Verdict::Done) => "this replica has not heard of it yet".to_owned(),
                Some(Verdict::Refused(reason)) => return Err(MembersError::Refused { reason }),
                Some(Verdict::Later(reason)) => reason,
                Some(Verdict::NotLeader(_)) => "there is no leader now".to_owned(),
                None => "the leader does not answer".to_owned(),
            };
            if tokio::time::Instant::now() >= until {
                return Err(MembersError::NotNow { reason });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Whether a change that is said to be done is: whoever said so may lead no longer. Who has taken
    /// itself out hears nothing more and believes it.
    async fn is_so(&self, change: &Change) -> bool {
        if matches!(change, Change::Remove(node) if *node == self.way.me) {
            return true;
        }
        if self.barrier().await.is_none() {
            return false;
        }
        let Replicas { voters, learners } = self.replicas();
        match change {
            Change::Add(Whom { node, .. }) => {
                voters.contains_key(node) || learners.contains_key(node)
            }
            Change::Promote(node) => voters.contains_key(node),
            Change::Remove(node) => !voters.contains_key(node) && !learners.contains_key(node),
        }
    }

    /// Asks the leader, or everybody if none is known; `None` if there is no answer.
    async fn change_once(&self, change: &Change) -> Option<Verdict> {
        match Self::change_here(&self.told, change.clone()).await? {
            Verdict::NotLeader(Some(leader)) if leader != self.way.me => {
                let whom = self.way.whom(leader)?;
                self.way.change_at(&whom, change).await
            }
            // Who was taken out and has not heard of it never knows a leader again.
            Verdict::NotLeader(_) => Some(self.change_anywhere(change).await),
            verdict => Some(verdict),
        }
    }

    /// Asks all others at once, and takes the first answer that says something: only a leader's does,
    /// and that of one who knows that this replica was taken out.
    async fn change_anywhere(&self, change: &Change) -> Verdict {
        let mut asked = JoinSet::new();
        for whom in self.way.others() {
            let (way, change) = (Arc::clone(&self.way), change.clone());
            asked.spawn(async move { way.change_at(&whom, &change).await });
        }
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(None | Some(Verdict::NotLeader(_))) | Err(_) => {}
                Ok(Some(verdict)) => return verdict,
            }
        }
        Verdict::NotLeader(None)
    }

    async fn change_here(told: &Sender<Told>, change: Change) -> Option<Verdict> {
        let (reply, answered) = oneshot::channel();
        told.send(Told::Change { change, reply }).ok()?;
        tokio::time::timeout(PATIENCE, answered).await.ok()?.ok()
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
        let Some(whom) = leader.and_then(|leader| self.way.whom(leader)) else {
            return Proposed::Rejected { reason: "there is no leader now".to_owned() };
        };
        let message = Letter::Propose(record).encode();
        let passed = tokio::time::timeout(PATIENCE, self.way.peer.call(&whom, message)).await;
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
async fn answer(from: NodeId, message: Bytes, told: Sender<Told>) -> Option<Bytes> {
    match Letter::decode(message)? {
        Letter::Raft(bytes) => {
            told.send(Told::Message { from, bytes }).ok()?;
            Some(Bytes::new())
        }
        Letter::Propose(record) => {
            let proposed = RaftMetastore::propose_here(&told, record).await?;
            // Zero is no record's place: it was not taken.
            let index = proposed.map_or(LogIndex(0), |index| index);
            Some(Bytes::copy_from_slice(&index.0.to_le_bytes()))
        }
        Letter::Change(change) => Some(RaftMetastore::change_here(&told, change).await?.encode()),
    }
}

/// Answers a replica that was taken out, and may not know.
fn answer_removed(from: NodeId, message: Bytes) -> Option<Bytes> {
    match Letter::decode(message)? {
        Letter::Propose(_) => Some(Bytes::from_static(&[0; 8])),
        Letter::Change(change) => {
            let refused = || Verdict::Refused(format!("{from} is no replica any more"));
            let is_so = change == Change::Remove(from);
            Some(if is_so { Verdict::Done } else { refused() }.encode())
        }
        Letter::Raft(_) => None,
    }
}
