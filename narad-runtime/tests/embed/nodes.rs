//! Whole nodes over parts in memory.

use std::time::Duration;

use bytes::Bytes;
use narad_core::config::{Config, Policy};
use narad_core::ids::{Name, Offset, PartitionId};
use narad_core::metastore::Status;
use narad_core::node::{Ask, CallFault};
use narad_core::partition::Position;
use narad_runtime::embed::memory::{MemoryMetastore, MemoryPeer, MemoryStore};
use narad_runtime::embed::{
    AppendError, Builder, Inbound, Ledger, Metastore, Narad, PartitionStore, Peer, StartError,
    StoreFault,
};

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("it is a good name")
}

pub(crate) fn hasty() -> Config {
    Config {
        heartbeat_interval: Duration::from_millis(40),
        controller_interval: Duration::from_millis(20),
        request_timeout: Duration::from_secs(1),
        pass_interval: Duration::from_millis(5),
        retry_min: Duration::from_millis(10),
        retry_max: Duration::from_millis(200),
        freeze_duty_percent: 100,
        grace_after_election: Duration::from_secs(1),
        ..Config::new(3)
    }
}

pub(crate) fn policy() -> Policy {
    Policy {
        lease: Duration::from_millis(200),
        lease_margin: Duration::from_millis(20),
        dead_timeout: Duration::from_millis(400),
        force_promote_after: Duration::from_millis(200),
        ..Policy::default()
    }
}

/// A cluster within this process.
#[derive(Default)]
pub(crate) struct World {
    metastore: MemoryMetastore,
    network: MemoryPeer,
}

impl World {
    pub(crate) fn builder(&self, called: &str, store: &MemoryStore) -> Builder {
        Narad::builder()
            .name(name(called))
            .store(store.clone())
            .metastore(self.metastore.clone())
            .peer(self.network.another())
            .config(hasty())
            .policy(policy())
    }

    pub(crate) async fn start(&self, called: &str, store: &MemoryStore) -> Narad {
        let node = self.builder(called, store).start().await.expect("it starts");
        node.ready().await.expect("it runs");
        node
    }
}

pub(crate) fn records(numbers: std::ops::Range<u32>) -> Vec<Bytes> {
    numbers.map(|n| Bytes::from(format!("record {n}"))).collect()
}

pub(crate) async fn topic(node: &Narad) -> PartitionId {
    let topic = node.create_topic(name("orders"), 1).await.expect("it is new");
    PartitionId { topic, index: 0 }
}

pub(crate) async fn move_to(nodes: &[&Narad], partition: PartitionId, to: &Narad) {
    let target = to.node();
    nodes[0].ask(Ask::Move { partition, to: target }).await.expect("it can move");
    to.until(move |node| node.serving(partition).is_some()).await.expect("it runs");
}

pub(crate) async fn read(node: &Narad, partition: PartitionId) -> Vec<Bytes> {
    let (mut at, hwm) = node.bounds(partition).expect("it is served here");
    let mut all = Vec::new();
    while at < hwm {
        let read = node.read(partition, at, 4096).await.expect("it can be read");
        at = read.last().expect("there is more").0.next();
        all.extend(read.into_iter().map(|(_, record)| record));
    }
    all
}

/// What an embedder holds can be held anywhere.
#[test]
fn everything_may_go_to_another_thread() {
    fn anywhere<T: Send + Sync + 'static>() {}
    anywhere::<Narad>();
    anywhere::<Builder>();
    anywhere::<Inbound>();
    anywhere::<Ledger>();
    anywhere::<Box<dyn PartitionStore>>();
    anywhere::<Box<dyn Metastore>>();
    anywhere::<Box<dyn Peer>>();
    anywhere::<Box<dyn narad_runtime::clock::Clock>>();
    anywhere::<(AppendError, StartError, StoreFault, CallFault)>();
}

/// R18, R20, R50: records and where consumers stand move along, and nothing is there twice.
#[tokio::test]
async fn a_partition_moves_with_its_records_and_its_position() {
    let world = World::default();
    let (a, b) = (
        world.start("a", &MemoryStore::default()).await,
        world.start("b", &MemoryStore::default()).await,
    );
    let p = topic(&a).await;
    a.append(p, records(0..9_000)).await.expect("it is durable");
    let (from, to) = if a.owner(p) == Some(a.node()) { (&a, &b) } else { (&b, &a) };
    let stands = Position { committed: Some(Offset(40)), acked_ahead: vec![Offset(44)] };
    from.commit(p, stands.clone()).await.expect("it is served here");
    let beyond = Position { committed: Some(Offset(9_001)), ..Position::default() };
    let refused = from.commit(p, beyond).await;
    assert_eq!(refused, Err(AppendError::NoPosition { hwm: Offset(9_000) }));

    move_to(&[&a], p, to).await;
    assert_eq!(to.position(p), Ok(stands));
    // Whoever still believes that the old owner serves it is told better, or passed on.
    from.append(p, records(9_000..9_010)).await.expect("it is passed on");
    assert_eq!(read(to, p).await, records(0..9_010));
    let moved = to.counters().moved.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(moved, 1);
    // And back.
    move_to(&[&a], p, from).await;
    assert_eq!(read(from, p).await, records(0..9_010));
    a.shutdown().await.expect("it was well");
    b.shutdown().await.expect("it was well");
}

/// An empty partition moves as any other.
#[tokio::test]
async fn an_empty_partition_moves() {
    let world = World::default();
    let (a, b) = (
        world.start("a", &MemoryStore::default()).await,
        world.start("b", &MemoryStore::default()).await,
    );
    let p = topic(&a).await;
    a.until(move |node| node.state().assignment(p).is_some()).await.expect("it runs");
    let to = if a.owner(p) == Some(a.node()) { &b } else { &a };
    move_to(&[&a], p, to).await;
    assert_eq!(to.bounds(p), Ok((Offset(0), Offset(0))));
}

/// R61, H42: a node that restarts is the same node, and what it has acknowledged is there and visible.
#[tokio::test]
async fn a_restarted_node_goes_on_with_its_store() {
    let (world, store) = (World::default(), MemoryStore::default());
    let a = world.start("a", &store).await;
    let p = topic(&a).await;
    a.append(p, records(0..10)).await.expect("it is durable");
    let id = a.node();
    drop(a);
    let a = world.start("a", &store).await;
    assert_eq!(a.node(), id);
    a.until(move |node| node.serving(p).is_some()).await.expect("it runs");
    a.append(p, records(10..12)).await.expect("it is durable");
    assert_eq!(read(&a, p).await, records(0..12));
    // Another store under the same name is another node.
    let taken = world.builder("a", &MemoryStore::default()).start().await;
    assert_eq!(taken.expect_err("it is taken"), StartError::NameTaken { name: name("a") });
    let other = Policy { max_in_flight: 1, ..policy() };
    let differs = world.builder("c", &MemoryStore::default()).policy(other).start().await;
    assert_eq!(differs.expect_err("it differs"), StartError::PolicyDiffers);
    a.shutdown().await.expect("it was well");
}

/// R63, R68: the leader dies and somebody else leads; an owner dies, is declared dead, and what was
/// copied of its partition is served elsewhere.
#[tokio::test]
async fn the_dead_are_succeeded() {
    let world = World::default();
    let mut nodes = Vec::new();
    for called in ["a", "b", "c", "d"] {
        nodes.push(world.start(called, &MemoryStore::default()).await);
    }
    nodes[0].until(|node| node.state().configuration().voters.len() >= 4).await.expect("it runs");
    let leader = nodes[1].query(narad_core::node::Node::leader).await.expect("it runs");
    let at = nodes.iter().position(|node| Some(node.node()) == leader).expect("somebody leads");
    let dead = nodes.remove(at);
    let id = dead.node();
    drop(dead);
    for node in &nodes {
        let is_judged = move |node: &narad_core::node::Node| {
            let dead = node.state().member(id).is_some_and(|dead| dead.status != Status::Alive);
            dead && node.leader().is_some_and(|leader| leader != id)
        };
        node.until(is_judged).await.expect("it runs");
    }
}

/// R82: a node that leaves sheds what it has, and is retired.
#[tokio::test]
async fn a_node_is_decommissioned() {
    let world = World::default();
    let mut nodes = Vec::new();
    for called in ["a", "b", "c", "d"] {
        nodes.push(world.start(called, &MemoryStore::default()).await);
    }
    nodes[0].until(|node| node.state().configuration().voters.len() >= 4).await.expect("it runs");
    let p = topic(&nodes[0]).await;
    nodes[0].append(p, records(0..100)).await.expect("it is durable");
    let owner = nodes[0].owner(p).expect("somebody owns it");
    let at = nodes.iter().position(|node| node.node() == owner).expect("it is one of them");
    let leaving = nodes.remove(at);
    nodes[0].ask(Ask::Decommission(owner)).await.expect("it can leave");
    nodes[0]
        .until(move |node| node.state().member(owner).is_some_and(|member| member.retired))
        .await
        .expect("it runs");
    let heir = nodes[0].owner(p).expect("somebody owns it");
    let heir = nodes.iter().find(|node| node.node() == heir).expect("it stays");
    heir.until(move |node| node.serving(p).is_some()).await.expect("it runs");
    assert_eq!(read(heir, p).await, records(0..100));
    drop(leaving);
}

/// A node that is misbuilt says what is missing.
#[tokio::test]
async fn a_builder_names_what_is_missing() {
    let refused = Narad::builder().start().await.expect_err("it has nothing");
    assert_eq!(refused, StartError::Missing { part: "name" });
    let refused = Narad::builder().name(name("a")).start().await.expect_err("it has no store");
    assert_eq!(
        refused.to_string(),
        "the builder has no store: call `.store(..)` before `.start()`"
    );
    let world = World::default();
    let a = world.start("a", &MemoryStore::default()).await;
    let p = topic(&a).await;
    assert_eq!(a.append(p, Vec::new()).await, Err(AppendError::Empty));
    let long = vec![Bytes::from(vec![0; (1 << 20) + 1])];
    assert_eq!(a.append(p, long).await, Err(AppendError::TooLarge { bytes: (1 << 20) + 1 }));
    let past = a.read(p, Offset(7), 100).await;
    assert_eq!(past, Err(AppendError::OutOfRange { start: Offset(0), hwm: Offset(0) }));
}

/// A snapshot of the metastore stands for what it does: a node that joins late begins there.
#[tokio::test]
async fn a_late_node_begins_with_a_snapshot() {
    let world = World::default();
    let a = world.start("a", &MemoryStore::default()).await;
    let p = topic(&a).await;
    let mut ledger = Ledger::new();
    let last = world.metastore.barrier().await.expect("it is in memory");
    let mut watch = world.metastore.watch(ledger.index()).await;
    while ledger.index() < last {
        let Some(narad_runtime::embed::Update::Record { record, .. }) = watch.next().await else {
            panic!("nothing was compacted yet");
        };
        ledger.fold(&record).expect("narad has written it");
    }
    world.metastore.compact(last, ledger.to_bytes()).await;
    let b = world.start("b", &MemoryStore::default()).await;
    b.until(move |node| node.state().assignment(p).is_some()).await.expect("it runs");
    a.until(|node| node.state().members().len() == 2).await.expect("it runs");
}
