//! Whole nodes over etcd: partitions that move while the server is killed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::config::Config;
use narad_core::ids::{LogIndex, Name, Offset, PartitionId};
use narad_core::metastore::{Command, Entry};
use narad_core::node::{Ask, Node};
use narad_etcd::EtcdMetastore;
use narad_runtime::embed::memory::{MemoryPeer, MemoryStore};
use narad_runtime::embed::{Metastore, Narad, Proposed, Record, Watch};
use tokio::sync::Mutex;

use crate::server::Server;
use crate::soon;

/// When a server is killed: at the next proposal of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Before the move is planned.
    Plan,
    /// Before the flip is proposed: the source is frozen.
    BeforeFlip,
    /// After the flip was decided, and nobody learns of it from the answer.
    AfterFlip,
}

/// The server, and when it is to be killed next.
struct World {
    server: Mutex<Server>,
    next: std::sync::Mutex<Option<Moment>>,
}

impl World {
    fn arm(&self, moment: Moment) {
        *self.next.lock().unwrap() = Some(moment);
    }

    /// Whether it is to be killed now, which is so once.
    fn strikes(&self, moment: Moment) -> bool {
        let mut next = self.next.lock().unwrap();
        let now = *next == Some(moment);
        if now {
            *next = None;
        }
        now
    }

    async fn kill_and_start(&self) {
        let mut server = self.server.lock().await;
        server.kill();
        server.spawn();
    }
}

/// A metastore whose server is killed at the moment that was set.
struct Doomed {
    etcd: EtcdMetastore,
    world: Arc<World>,
}

impl fmt::Debug for Doomed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.etcd.fmt(f)
    }
}

#[async_trait]
impl Metastore for Doomed {
    async fn propose(&self, record: Bytes) -> Proposed {
        let before = match Record::from_bytes(&record) {
            Ok(Record::Entry(Entry { command: Command::SetTarget { .. }, .. })) => Moment::Plan,
            Ok(Record::Entry(Entry { command: Command::CompleteMove { .. }, .. })) => {
                Moment::BeforeFlip
            }
            _ => return self.etcd.propose(record).await,
        };
        if self.world.strikes(before) {
            self.world.kill_and_start().await;
        }
        let outcome = self.etcd.propose(record).await;
        if before == Moment::BeforeFlip && self.world.strikes(Moment::AfterFlip) {
            self.world.kill_and_start().await;
            return Proposed::Unknown;
        }
        outcome
    }

    async fn barrier(&self) -> Option<LogIndex> {
        self.etcd.barrier().await
    }

    async fn watch(&self, after: LogIndex) -> Box<dyn Watch> {
        self.etcd.watch(after).await
    }

    async fn compact(&self, index: LogIndex, state: Bytes) {
        self.etcd.compact(index, state).await;
    }
}

fn hasty() -> Config {
    Config {
        heartbeat_interval: Duration::from_millis(200),
        controller_interval: Duration::from_millis(50),
        retry_min: Duration::from_millis(20),
        freeze_duty_percent: 100,
        ..Config::new(7)
    }
}

async fn node(world: &Arc<World>, network: &MemoryPeer, name: &str) -> Arc<Narad> {
    let etcd = world.server.lock().await.metastore().await;
    let started = Narad::builder()
        .name(Name::new(name).unwrap())
        .config(hasty())
        .store(MemoryStore::default())
        .metastore(Doomed { etcd, world: Arc::clone(world) })
        .peer(network.another())
        .start()
        .await;
    Arc::new(started.unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// Appends numbers until it is told to stop, and returns those that were acknowledged.
async fn write(node: Arc<Narad>, partition: PartitionId, stop: Arc<AtomicBool>) -> BTreeSet<u64> {
    let mut acknowledged = BTreeSet::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let record = Bytes::from(number.to_string());
        if node.append(partition, vec![record]).await.is_ok() {
            acknowledged.insert(number);
        }
        tokio::task::yield_now().await;
    }
    acknowledged
}

/// Returns everything that consumers can see at the owner.
async fn read(node: &Narad, partition: PartitionId) -> BTreeSet<u64> {
    let ((mut at, end), mut found) = (node.bounds(partition).unwrap(), BTreeSet::new());
    while at < end {
        let read = node.read(partition, at, 1 << 20).await.unwrap();
        at = Offset(at.0 + u64::try_from(read.len()).unwrap());
        let number = |record: Bytes| std::str::from_utf8(&record).unwrap().parse::<u64>().unwrap();
        found.extend(read.into_iter().map(|(_, record)| number(record)));
    }
    found
}

/// Waits until all nodes know of a reign, and returns which of them it is of.
async fn owner(nodes: &[Arc<Narad>], partition: PartitionId, epoch: u64) -> usize {
    for node in nodes {
        let knows = move |node: &Node| {
            node.state().assignment(partition).is_some_and(|row| row.epoch.0 == epoch)
        };
        soon("a node to know the owner", node.until(knows)).await.unwrap();
    }
    let owner = nodes[0].owner(partition).unwrap();
    nodes.iter().position(|node| node.node() == owner).unwrap()
}

/// S1, H2: a partition goes round three nodes under load while etcd is killed at each decision of a move;
/// every move ends, no acknowledged record is lost, and the row in etcd says where it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moves_outlive_a_killed_server() {
    let server = Mutex::new(Server::start().await);
    let world = Arc::new(World { server, next: std::sync::Mutex::default() });
    let network = MemoryPeer::default();
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(node(&world, &network, name).await);
    }
    for node in &nodes {
        soon("a node to be ready", node.ready()).await.unwrap();
    }
    let topic = nodes[0].create_topic(Name::new("orders").unwrap(), 1).await.unwrap();
    let partition = PartitionId { topic, index: 0 };

    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(write(Arc::clone(&nodes[0]), partition, Arc::clone(&stop)));
    let mut epoch = 1;
    for moment in [Moment::Plan, Moment::BeforeFlip, Moment::AfterFlip] {
        let at = owner(&nodes, partition, epoch).await;
        let to = &nodes[(at + 1) % nodes.len()];
        world.arm(moment);
        // The answer may be lost with the server.
        let is_asked = move |node: &Node| {
            let row = node.state().assignment(partition);
            row.is_none_or(|row| row.target.is_some() || row.epoch.0 > epoch)
        };
        while !to.query(is_asked).await.unwrap() {
            drop(to.ask(Ask::Move { partition, to: to.node() }).await);
        }
        let arrived = to.until(move |node| node.serving(partition).is_some());
        soon(&format!("a move with a kill at {moment:?}"), arrived).await.unwrap();
        epoch += 1;
        let row = to.query(move |node| node.state().assignment(partition).unwrap().epoch.0).await;
        assert_eq!(row.unwrap(), epoch, "one flip, at {moment:?}");
        assert_eq!(*world.next.lock().unwrap(), None, "the server was killed at {moment:?}");
    }
    stop.store(true, Ordering::Relaxed);
    let acknowledged = soon("the writer", writing).await.unwrap();
    assert!(!acknowledged.is_empty());
    let at = owner(&nodes, partition, epoch).await;
    let there = read(&nodes[at], partition).await;
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let row = world.server.lock().await.value("narad/assignments/orders/0").await.unwrap();
    let name = ["a", "b", "c"][at];
    assert!(row.contains(&format!("\"owner\":\"{name}\"")) && row.contains("\"epoch\":4"), "{row}");
    for node in nodes {
        Arc::into_inner(node).unwrap().shutdown().await.unwrap();
    }
}
