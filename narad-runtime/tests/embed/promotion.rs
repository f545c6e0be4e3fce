//! An owner that dies in the midst of a move, is succeeded, and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::Offset;
use narad_core::node::Ask;
use narad_runtime::embed::memory::MemoryStore;
use narad_runtime::embed::{Kept, Narad, PartitionStore, StoreFault};
use tokio::sync::Semaphore;

use crate::nodes::{World, read, records, topic};

/// A store whose appends to partitions can be held up.
#[derive(Clone, Debug)]
struct Slow {
    store: MemoryStore,
    holds: Arc<AtomicBool>,
    release: Arc<Semaphore>,
    held: Arc<Semaphore>,
}

impl Slow {
    fn new() -> Self {
        let (store, holds) = (MemoryStore::default(), Arc::default());
        let (release, held) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        Self { store, holds, release, held }
    }
}

#[async_trait]
impl PartitionStore for Slow {
    async fn list(&self) -> Result<Vec<String>, StoreFault> {
        self.store.list().await
    }

    async fn open(&self, log: &str) -> Result<Option<Kept>, StoreFault> {
        self.store.open(log).await
    }

    async fn create(&self, log: &str, start: Offset, note: Bytes) -> Result<(), StoreFault> {
        self.store.create(log, start, note).await
    }

    async fn append(&self, log: &str, at: Offset, records: &[Bytes]) -> Result<(), StoreFault> {
        if self.holds.load(Ordering::Relaxed) && log.starts_with("p/") {
            self.held.add_permits(1);
            self.release.acquire().await.expect("it stays open").forget();
        }
        self.store.append(log, at, records).await
    }

    async fn read(&self, log: &str, from: Offset, most: usize) -> Result<Vec<Bytes>, StoreFault> {
        self.store.read(log, from, most).await
    }

    async fn cut(&self, log: &str, end: Offset) -> Result<(), StoreFault> {
        self.store.cut(log, end).await
    }

    async fn write_note(&self, log: &str, note: Bytes) -> Result<(), StoreFault> {
        self.store.write_note(log, note).await
    }

    async fn rename(&self, log: &str, to: &str) -> Result<(), StoreFault> {
        self.store.rename(log, to).await
    }

    async fn remove(&self, log: &str) -> Result<(), StoreFault> {
        self.store.remove(log).await
    }
}

/// Whether the log of a partition ends there.
async fn ends_at(store: &MemoryStore, end: Offset) -> bool {
    for log in store.list().await.expect("it is in memory") {
        let kept = store.open(&log).await.expect("it is in memory").expect("it was listed");
        if log.starts_with("p/") && kept.end == end {
            return true;
        }
    }
    false
}

/// R63, R64, H14, S11: what was copied of a dead owner's partition is promoted without its freeze; what
/// the owner has beyond that is appended again once it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_owner_has_beyond_the_copy_comes_back_with_it() {
    let (world, slow) = (World::default(), Slow::new());
    let first = world.builder("a", &MemoryStore::default()).store(slow.clone());
    let mut owner = Some(first.start().await.expect("it starts"));
    let p = topic(owner.as_ref().expect("it runs")).await;
    let owned = owner.as_ref().expect("it runs");
    owned.append(p, records(0..1000)).await.expect("it is durable");
    let mut others: Vec<Narad> = Vec::new();
    for called in ["b", "c", "d"] {
        others.push(world.start(called, &MemoryStore::default()).await);
    }
    others[0].until(|node| node.state().configuration().voters.len() == 4).await.expect("it runs");

    // An append that does not end: the source cannot be frozen, and the copy waits for it.
    slow.holds.store(true, Ordering::Relaxed);
    let dead = owner.take().expect("it runs");
    let (id, to) = (dead.node(), others[0].node());
    let dead = Arc::new(dead);
    let appending = tokio::spawn({
        let dead = Arc::clone(&dead);
        async move { dead.append(p, records(1000..1010)).await }
    });
    slow.held.acquire().await.expect("it stays open").forget();
    others[1].ask(Ask::Move { partition: p, to }).await.expect("it can move");
    let is_copied = move |node: &narad_core::node::Node| {
        let is_whole = |progress: narad_core::mover::Progress| {
            progress.staged_bytes > 0 && progress.staged_bytes == progress.listed_bytes
        };
        node.moves().any(|(of, progress)| of == p && is_whole(progress))
    };
    others[0].until(is_copied).await.expect("it runs");
    appending.abort();
    drop(appending.await);
    drop(Arc::into_inner(dead).expect("nobody else has it"));
    others[0].until(move |node| node.serving(p).is_some()).await.expect("it runs");
    others[0].append(p, records(2000..2005)).await.expect("it is durable");
    let promoted = [records(0..1000), records(2000..2005)].concat();
    assert_eq!(read(&others[0], p).await, promoted);

    // The append ends after all, behind the capture; nobody was told that it has.
    slow.holds.store(false, Ordering::Relaxed);
    slow.release.add_permits(1);
    let mut pause = tokio::time::interval(std::time::Duration::from_millis(5));
    while !ends_at(&slow.store, Offset(1010)).await {
        pause.tick().await;
    }
    let back = world.builder("a", &MemoryStore::default()).store(slow.clone()).start().await;
    let back = back.expect("it starts");
    assert_eq!(back.node(), id);
    let all = [promoted, records(1000..1010)].concat();
    while others[0].bounds(p).expect("it is served here").1 < Offset(all.len() as u64) {
        pause.tick().await;
    }
    assert_eq!(read(&others[0], p).await, all);
    assert_eq!(others[0].owner(p), Some(to));
}
