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
/// A batch is never torn: that is what a store promises, and what its own tests are for. A commit is
/// instantaneous.
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
    /// Shared with images until it changes.
    durable: Arc<Loaded>,
    /// What was written since and is not synced yet.
    pending: Vec<Batch>,
    commits: u64,
    syncs: u64,
    failure: Option<(u64, FailurePoint)>,
    is_failing: bool,
}

/// What is durable on a disk at one instant, to be put back later.
#[derive(Clone, Debug)]
pub struct StoreImage(Arc<Loaded>);

impl MemStore {
    /// Returns an empty disk for a node.
    #[must_use]
    pub fn new(id: NodeId) -> Self {
        let disk = Disk {
            durable: Arc::new(Loaded::empty(id)),
            pending: Vec::new(),
            commits: 0,
            syncs: 0,
            failure: None,
            is_failing: false,
        };
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// Forgets what was not synced, as a power failure does, and any planned failure.
    pub fn crash(&self) {
        self.crash_keeping(0);
    }

    /// Like [`crash`](Self::crash), but the first so many of the batches that were not synced had
    /// reached the medium. [`unsynced`](Self::unsynced) tells how many there are.
    pub fn crash_keeping(&self, batches: usize) {
        let mut disk = self.disk();
        disk.failure = None;
        disk.settle(batches);
        disk.pending.clear();
    }

    /// Returns how many batches a crash may lose.
    pub fn unsynced(&self) -> usize {
        self.disk().pending.len()
    }

    /// Lets every load and commit fail from now on, through crashes too, or mends the disk.
    pub fn set_failing(&self, is_failing: bool) {
        self.disk().is_failing = is_failing;
    }

    /// Returns what a crash at this instant would leave. Cheap.
    #[must_use]
    pub fn image(&self) -> StoreImage {
        StoreImage(Arc::clone(&self.disk().durable))
    }

    /// Puts what an image shows in the place of everything, as if the disk had been replaced while
    /// the node was down. Counters stay, and so does a disk that fails.
    pub fn restore(&self, image: &StoreImage) {
        let mut disk = self.disk();
        disk.pending.clear();
        disk.failure = None;
        disk.durable = Arc::clone(&image.0);
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
        Loaded::clone(&self.disk().durable)
    }

    /// A poisoned lock means that a test thread panicked; its disk is as good as before.
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    /// Makes the first so many batches durable that are not.
    fn settle(&mut self, batches: usize) {
        let durable = Arc::make_mut(&mut self.durable);
        let settled = batches.min(self.pending.len());
        self.pending.drain(..settled).for_each(|batch| durable.apply(&batch));
    }
}

impl RaftStore for MemStore {
    fn load(&self) -> Result<Loaded, StoreError> {
        let disk = self.disk();
        if disk.is_failing {
            return Err(planned("loading"));
        }
        let mut seen = Loaded::clone(&disk.durable);
        disk.pending.iter().for_each(|batch| seen.apply(batch));
        Ok(seen)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut disk = self.disk();
        disk.commits += 1;
        if disk.is_failing {
            return Err(planned("committing"));
        }
        let failing = disk.failure.filter(|(nth, _)| disk.commits >= *nth);
        if let Some((nth, point)) = failing
            && (point == FailurePoint::BeforeWrite || disk.commits > nth)
        {
            return Err(planned("committing"));
        }
        if batch.must_sync || failing.is_some() {
            disk.syncs += 1;
            let pending = disk.pending.len();
            disk.settle(pending);
            Arc::make_mut(&mut disk.durable).apply(batch);
        } else {
            disk.pending.push(batch.clone());
        }
        if failing.is_some() { Err(planned("committing")) } else { Ok(()) }
    }
}

fn planned(doing: &'static str) -> StoreError {
    StoreError::Io { doing, source: io::Error::other("a planned failure") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::Term;
    use crate::raft::store::HardState;

    fn commit(disk: &mut MemStore, term: u64, must_sync: bool) -> Result<(), StoreError> {
        let hard_state = Some(HardState { term: Term(term), ..HardState::default() });
        disk.commit(&Batch { hard_state, must_sync, ..Batch::default() })
    }

    fn term(disk: &MemStore) -> Term {
        disk.load().unwrap().hard_state.term
    }

    #[test]
    fn a_crash_may_keep_the_first_of_what_was_not_synced() {
        let mut disk = MemStore::new(NodeId(1));
        commit(&mut disk, 1, true).unwrap();
        commit(&mut disk, 2, false).unwrap();
        commit(&mut disk, 3, false).unwrap();
        assert_eq!((term(&disk), disk.unsynced()), (Term(3), 2));
        disk.crash_keeping(1);
        assert_eq!((term(&disk), disk.unsynced()), (Term(2), 0));
        disk.crash();
        assert_eq!(term(&disk), Term(2));
    }

    #[test]
    fn an_old_disk_is_put_back_as_often_as_one_likes() {
        let mut disk = MemStore::new(NodeId(1));
        commit(&mut disk, 1, true).unwrap();
        commit(&mut disk, 2, false).unwrap();
        let old = disk.image();
        for later in [3, 4] {
            commit(&mut disk, later, true).unwrap();
            disk.restore(&old);
            assert_eq!(term(&disk), Term(1));
        }
    }

    #[test]
    fn a_disk_that_fails_does_so_until_it_is_mended() {
        let mut disk = MemStore::new(NodeId(1));
        commit(&mut disk, 1, true).unwrap();
        disk.set_failing(true);
        assert!(commit(&mut disk, 2, true).is_err());
        disk.crash();
        assert!(disk.load().is_err());
        disk.set_failing(false);
        assert_eq!(term(&disk), Term(1));
    }
}
