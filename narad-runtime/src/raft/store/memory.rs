//! A store in memory that knows the difference between written and durable.

use crate::raft::error::StoreError;
use crate::raft::store::{Batch, Loaded, RaftStore};
use narad_core::ids::NodeId;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store for tests and simulations: a disk that outlives its node.
///
/// A clone is another handle on the same disk. The node owns one; whoever kills nodes keeps one,
/// calls [`crash`](Self::crash) on it and opens the next node over it.
///
/// # Divergence from reality
///
/// A crash loses all batches that were not synced; a real disk may have kept some of them, in
/// order. A commit is instantaneous.
///
/// # Examples
///
/// What was not synced does not survive:
///
/// ```
/// use narad_core::ids::NodeId;
/// use narad_runtime::raft::{Batch, HardState, MemStore, RaftStore, Term};
///
/// let mut disk = MemStore::new(NodeId(1));
/// let of_term = |term| Some(HardState { term: Term(term), ..HardState::default() });
/// disk.commit(&Batch { hard_state: of_term(1), must_sync: true, ..Batch::default() })?;
/// disk.commit(&Batch { hard_state: of_term(2), must_sync: false, ..Batch::default() })?;
/// assert_eq!(disk.load()?.hard_state.term, Term(2));
/// disk.crash();
/// assert_eq!(disk.load()?.hard_state.term, Term(1));
/// # Ok::<(), narad_runtime::raft::StoreError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemStore {
    disk: Arc<Mutex<Disk>>,
}

/// Where in a commit a planned failure strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePoint {
    /// Before anything is written: the batch is lost.
    BeforeWrite,
    /// After it and all before are durable, before the node learns so.
    AfterSync,
}

#[derive(Debug)]
struct Disk {
    durable: Loaded,
    /// What was written since and is not synced yet.
    pending: Vec<Batch>,
    commits: u64,
    syncs: u64,
    failure: Option<(u64, FailurePoint)>,
}

impl MemStore {
    /// Returns an empty disk for a node.
    #[must_use]
    pub fn new(id: NodeId) -> Self {
        let durable = Loaded::empty(id);
        let disk = Disk { durable, pending: Vec::new(), commits: 0, syncs: 0, failure: None };
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// Returns a disk that holds what another one held.
    #[must_use]
    pub fn holding(durable: Loaded) -> Self {
        let disk = Disk { durable, pending: Vec::new(), commits: 0, syncs: 0, failure: None };
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// Forgets what was not synced, as a power failure does, and any planned failure.
    pub fn crash(&self) {
        let mut disk = self.disk();
        disk.pending.clear();
        disk.failure = None;
    }

    /// Lets a later commit fail: the next one for 1, the one after it for 2, and so on. Every
    /// commit after that one fails too, until [`crash`](Self::crash).
    pub fn fail_commit(&self, nth: u64, point: FailurePoint) {
        let mut disk = self.disk();
        disk.failure = Some((disk.commits + nth, point));
    }

    /// Returns how many commits were made, failed ones included.
    pub fn commits(&self) -> u64 {
        self.disk().commits
    }

    /// Returns how many of them had to survive a crash.
    pub fn syncs(&self) -> u64 {
        self.disk().syncs
    }

    /// Returns what a crash would leave.
    pub fn durable(&self) -> Loaded {
        self.disk().durable.clone()
    }

    /// A poisoned lock means that a test thread panicked; its disk is as good as before.
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RaftStore for MemStore {
    fn load(&self) -> Result<Loaded, StoreError> {
        let disk = self.disk();
        let mut seen = disk.durable.clone();
        disk.pending.iter().for_each(|batch| seen.apply(batch));
        Ok(seen)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut disk = self.disk();
        disk.commits += 1;
        let failing = disk.failure.filter(|(nth, _)| disk.commits >= *nth);
        if let Some((nth, point)) = failing
            && (point == FailurePoint::BeforeWrite || disk.commits > nth)
        {
            return Err(planned());
        }
        disk.pending.push(batch.clone());
        if batch.must_sync || failing.is_some() {
            disk.syncs += 1;
            for batch in std::mem::take(&mut disk.pending) {
                disk.durable.apply(&batch);
            }
        }
        if failing.is_some() { Err(planned()) } else { Ok(()) }
    }
}

fn planned() -> StoreError {
    StoreError::Io { doing: "committing", source: io::Error::other("a planned failure") }
}
