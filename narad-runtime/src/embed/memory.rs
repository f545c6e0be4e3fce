//! A store, a metastore and connections within one process: for tests of a service that embeds Narad,
//! and to begin with.
//!
//! # Divergence from reality
//!
//! Nothing fails, nothing is slow, and what is called durable ends with the process. A
//! [`MemoryStore`] may be given to a second node of the same name once the first one has ended, as a
//! disk that comes back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::{LogIndex, NodeId, Offset};
use narad_core::node::CallFault;
use tokio::sync::watch;

use super::metastore::{Metastore, Proposed, Update, Watch};
use super::peer::{Inbound, Peer, Whom};
use super::store::{Kept, PartitionStore, StoreFault};

/// Logs in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    logs: Arc<Mutex<BTreeMap<String, MemoryLog>>>,
}

#[derive(Debug, Default)]
struct MemoryLog {
    start: Offset,
    records: Vec<Bytes>,
    note: Bytes,
}

impl MemoryLog {
    fn end(&self) -> Offset {
        Offset(self.start.0 + self.records.len() as u64)
    }

    fn at(&self, log: &str, offset: Offset) -> Result<usize, StoreFault> {
        let at = offset.0.checked_sub(self.start.0).and_then(|at| usize::try_from(at).ok());
        let out = || StoreFault::OutOfRange { log: log.to_owned(), offset };
        at.filter(|at| *at <= self.records.len()).ok_or_else(out)
    }
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, MemoryLog>> {
        // Nothing under this mutex is left half done by a panic.
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        log: &str,
        act: impl FnOnce(&mut MemoryLog) -> Result<T, StoreFault>,
    ) -> Result<T, StoreFault> {
        let missing = || StoreFault::NoSuchLog { log: log.to_owned() };
        act(self.lock().get_mut(log).ok_or_else(missing)?)
    }
}

#[async_trait]
impl PartitionStore for MemoryStore {
    async fn list(&self) -> Result<Vec<String>, StoreFault> {
        Ok(self.lock().keys().cloned().collect())
    }

    async fn open(&self, log: &str) -> Result<Option<Kept>, StoreFault> {
        let kept = |log: &MemoryLog| {
            let (start, end, note) = (log.start, log.end(), log.note.clone());
            Kept { start, end, note }
        };
        Ok(self.lock().get(log).map(kept))
    }

    async fn create(&self, log: &str, start: Offset, note: Bytes) -> Result<(), StoreFault> {
        let mut logs = self.lock();
        if logs.contains_key(log) {
            return Err(StoreFault::Exists { log: log.to_owned() });
        }
        logs.insert(log.to_owned(), MemoryLog { start, records: Vec::new(), note });
        Ok(())
    }

    async fn append(&self, log: &str, at: Offset, records: &[Bytes]) -> Result<(), StoreFault> {
        self.with(log, |kept| {
            let end = kept.end();
            if at != end {
                return Err(StoreFault::NotAtEnd { log: log.to_owned(), end, at });
            }
            kept.records.extend_from_slice(records);
            Ok(())
        })
    }

    async fn read(
        &self,
        log: &str,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<Bytes>, StoreFault> {
        self.with(log, |kept| {
            let (mut bytes, mut read) = (0, Vec::new());
            for record in &kept.records[kept.at(log, from)?..] {
                bytes += record.len();
                if bytes > bytes_max && !read.is_empty() {
                    break;
                }
                read.push(record.clone());
            }
            Ok(read)
        })
    }

    async fn cut(&self, log: &str, end: Offset) -> Result<(), StoreFault> {
        self.with(log, |kept| {
            let at = kept.at(log, end)?;
            kept.records.truncate(at);
            Ok(())
        })
    }

    async fn write_note(&self, log: &str, note: Bytes) -> Result<(), StoreFault> {
        self.with(log, |kept| {
            kept.note = note;
            Ok(())
        })
    }

    async fn rename(&self, log: &str, to: &str) -> Result<(), StoreFault> {
        let mut logs = self.lock();
        if logs.contains_key(to) {
            return Err(StoreFault::Exists { log: to.to_owned() });
        }
        let missing = || StoreFault::NoSuchLog { log: log.to_owned() };
        let kept = logs.remove(log).ok_or_else(missing)?;
        logs.insert(to.to_owned(), kept);
        Ok(())
    }

    async fn remove(&self, log: &str) -> Result<(), StoreFault> {
        self.lock().remove(log);
        Ok(())
    }
}

/// Decisions in memory. Clones share them: one for each node.
#[derive(Clone, Debug, Default)]
pub struct MemoryMetastore {
    decided: watch::Sender<Decided>,
}

#[derive(Debug, Default)]
struct Decided {
    /// What stands for the records that are not kept any more, and their number.
    snapshot: Option<(LogIndex, Bytes)>,
    records: Vec<Bytes>,
}

impl Decided {
    fn first(&self) -> LogIndex {
        self.snapshot.as_ref().map_or(LogIndex(0), |(index, _)| *index)
    }

    fn last(&self) -> LogIndex {
        LogIndex(self.first().0 + self.records.len() as u64)
    }

    fn after(&self, after: LogIndex) -> Option<Update> {
        let first = self.first();
        if after < first {
            let (index, state) = self.snapshot.clone()?;
            return Some(Update::Snapshot { index, state });
        }
        let at = usize::try_from(after.0 - first.0).ok()?;
        let record = self.records.get(at)?.clone();
        Some(Update::Record { index: after.next(), record })
    }
}

impl MemoryMetastore {
    /// Puts a record at the end, and returns its place.
    pub(super) fn push(&self, record: Bytes) -> LogIndex {
        let mut index = LogIndex(0);
        self.decided.send_modify(|decided| {
            decided.records.push(record);
            index = decided.last();
        });
        index
    }

    /// Returns the place of the last record.
    pub(super) fn last(&self) -> LogIndex {
        self.decided.borrow().last()
    }
}

/// For the replica of a metastore that keeps its records here.
#[cfg(feature = "raft")]
impl MemoryMetastore {
    /// Returns all of it: what stands for the records up to an index, and the records after it.
    pub(super) fn parts(&self) -> (LogIndex, Option<Bytes>, Vec<Bytes>) {
        let decided = self.decided.borrow();
        let state = decided.snapshot.as_ref().map(|(_, state)| state.clone());
        (decided.first(), state, decided.records.clone())
    }

    /// Puts such parts in the place of everything.
    pub(super) fn replace(&self, first: LogIndex, state: Option<Bytes>, records: Vec<Bytes>) {
        let snapshot = state.map(|state| (first, state));
        self.decided.send_replace(Decided { snapshot, records });
    }
}

#[async_trait]
impl Metastore for MemoryMetastore {
    async fn propose(&self, record: Bytes) -> Proposed {
        Proposed::Applied(self.push(record))
    }

    async fn barrier(&self) -> Option<LogIndex> {
        Some(self.last())
    }

    async fn watch(&self, after: LogIndex) -> Box<dyn Watch> {
        Box::new(MemoryWatch { decided: self.decided.subscribe(), after })
    }

    async fn compact(&self, index: LogIndex, state: Bytes) {
        self.decided.send_modify(|decided| {
            if index > decided.first() && index <= decided.last() {
                let passed = index.0 - decided.first().0;
                decided.records.drain(..usize::try_from(passed).unwrap_or(usize::MAX));
                decided.snapshot = Some((index, state));
            }
        });
    }
}

struct MemoryWatch {
    decided: watch::Receiver<Decided>,
    after: LogIndex,
}

#[async_trait]
impl Watch for MemoryWatch {
    async fn next(&mut self) -> Option<Update> {
        let after = self.after;
        let decided = self.decided.wait_for(|decided| decided.last() > after).await.ok()?;
        let update = decided.after(after)?;
        self.after = update.index();
        Some(update)
    }
}

/// Connections within one process. Every node needs one of its own: see [`another`](Self::another).
#[derive(Debug, Default)]
pub struct MemoryPeer {
    me: Mutex<Option<NodeId>>,
    nodes: Arc<Mutex<BTreeMap<NodeId, Inbound>>>,
}

impl MemoryPeer {
    /// Makes the connections of another node of the same network.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { me: Mutex::default(), nodes: Arc::clone(&self.nodes) }
    }
}

#[async_trait]
impl Peer for MemoryPeer {
    async fn start(&self, inbound: Inbound) -> Result<(), String> {
        let node = inbound.me().node;
        *self.me.lock().unwrap_or_else(PoisonError::into_inner) = Some(node);
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).insert(node, inbound);
        Ok(())
    }

    async fn call(&self, to: &Whom, message: Bytes) -> Result<Bytes, CallFault> {
        let me = *self.me.lock().unwrap_or_else(PoisonError::into_inner);
        let from = me.ok_or(CallFault::Unreachable)?;
        let inbound = {
            let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.get(&to.node).cloned()
        };
        let inbound = inbound.ok_or(CallFault::Unreachable)?;
        inbound.answer(from, message).await.ok_or(CallFault::TimedOut)
    }
}
