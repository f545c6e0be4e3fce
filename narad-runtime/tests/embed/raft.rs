//! The default metastore passes the battery, with three replicas, and carries a move.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::{LogIndex, Name, NodeId, PartitionId};
use narad_core::node::{Ask, CallFault};
use narad_runtime::conformance::{self, MetastoreRig};
use narad_runtime::embed::memory::{MemoryPeer, MemoryStore};
use narad_runtime::embed::{
    Inbound, MembersError, Metastore, Narad, Peer, Proposed, RaftMetastore, Update, Whom,
};
use narad_runtime::raft::{MemStore, RedbStore};

fn whom(n: u64) -> Whom {
    let name = Name::new(format!("replica-{n}")).expect("it is a good name");
    Whom { node: NodeId(n), name, address: String::new() }
}

fn voters() -> Vec<Whom> {
    (1..=3).map(whom).collect()
}

/// Three replicas, one of which leads.
async fn replicas() -> Vec<Arc<RaftMetastore>> {
    replicas_on(&MemoryPeer::default()).await
}

async fn replicas_on(network: &MemoryPeer) -> Vec<Arc<RaftMetastore>> {
    let mut replicas = Vec::new();
    for voter in voters() {
        let store = MemStore::new(voter.node);
        let started = RaftMetastore::start(voter.node, voters(), 1, store, network.another()).await;
        replicas.push(Arc::new(started.expect("it starts")));
    }
    let mut pause = tokio::time::interval(Duration::from_millis(20));
    for replica in &replicas {
        while replica.barrier().await.is_none() {
            pause.tick().await;
        }
    }
    replicas
}

#[derive(Default)]
struct Rig {
    replicas: Mutex<Vec<Arc<RaftMetastore>>>,
    next: AtomicUsize,
}

#[async_trait]
impl MetastoreRig for Rig {
    async fn fresh(&self) {
        let replicas = replicas().await;
        *self.replicas.lock().expect("nobody panics") = replicas;
    }

    async fn client(&self) -> Arc<dyn Metastore> {
        let replicas = self.replicas.lock().expect("nobody panics");
        Arc::clone(&replicas[self.next.fetch_add(1, Ordering::Relaxed) % replicas.len()]) as _
    }
}

#[tokio::test]
async fn raft_is_a_metastore() {
    conformance::metastore(&Rig::default()).await.expect("it is right");
}

#[tokio::test]
async fn a_partition_moves_by_decision_of_raft() {
    let (replicas, network) = (replicas().await, MemoryPeer::default());
    let mut nodes = Vec::new();
    for (called, replica) in ["a", "b", "c"].into_iter().zip(&replicas) {
        let name = Name::new(called).expect("it is a good name");
        let node = Narad::builder().name(name).store(MemoryStore::default());
        let node = node.metastore(Arc::clone(replica)).peer(network.another());
        nodes.push(node.start().await.expect("it starts"));
    }
    nodes[2].ready().await.expect("it runs");
    let name = Name::new("orders").expect("it is a good name");
    let topic = nodes[0].create_topic(name, 1).await.expect("it is new");
    let p = PartitionId { topic, index: 0 };
    nodes[0].append(p, vec!["one".into(), "two".into()]).await.expect("it is durable");
    let to = nodes.iter().find(|node| Some(node.node()) != nodes[0].owner(p)).expect("three nodes");
    nodes[0].ask(Ask::Move { partition: p, to: to.node() }).await.expect("it can move");
    to.until(move |node| node.serving(p).is_some()).await.expect("it runs");
    assert_eq!(to.bounds(p).map(|(start, hwm)| (start.0, hwm.0)), Ok((0, 2)));
}

/// R86, R89: the group outlives all that founded it but one: one is killed, another joins, the dead one
/// and one that leads or follows are taken out, and what was decided is there at every step.
#[tokio::test]
async fn a_replica_joins_one_is_killed_and_two_are_taken_out() {
    let network = MemoryPeer::default();
    let mut replicas = replicas_on(&network).await;
    assert!(matches!(replicas[0].propose("one".into()).await, Proposed::Applied(_)));
    let (store, others) = (MemStore::new(NodeId(4)), replicas[0].replicas().all());
    assert_eq!(others, voters());
    let joining = RaftMetastore::join(whom(4), others, 1, store, network.another());
    let joined = Arc::new(joining.await.expect("it starts"));
    replicas[0].add_learner(whom(4)).await.expect("it is new");
    // Killed while the new one catches up.
    drop(replicas.pop());
    replicas[1].promote(NodeId(4)).await.expect("two of three vote for it");
    replicas[1].promote(NodeId(4)).await.expect("it has a vote already");
    joined.remove(NodeId(3)).await.expect("three of four are there");
    joined.remove(NodeId(1)).await.expect("it may lead");
    let mut pause = tokio::time::interval(Duration::from_millis(20));
    while joined.barrier().await.is_none() {
        pause.tick().await;
    }
    assert!(matches!(joined.propose("two".into()).await, Proposed::Applied(_)));
    let left: Vec<u64> = joined.replicas().voters.keys().map(|node| node.0).collect();
    assert_eq!((left, joined.replicas().learners.len()), (vec![2, 4], 0));

    let records = |metastore: Arc<RaftMetastore>| async move {
        let (mut watch, mut records) = (metastore.watch(LogIndex(0)).await, Vec::new());
        while records.last().is_none_or(|last| last != "two") {
            let Some(Update::Record { record, .. }) = watch.next().await else { panic!("it ends") };
            records.push(record);
        }
        records
    };
    assert_eq!(records(Arc::clone(&joined)).await, ["one", "two"]);
    assert_eq!(records(Arc::clone(&replicas[1])).await, ["one", "two"]);

    let back = joined.add_learner(whom(3)).await;
    assert!(matches!(back, Err(MembersError::Refused { .. })), "{back:?}");
    let stranger = joined.promote(NodeId(9)).await;
    assert!(matches!(stranger, Err(MembersError::Refused { .. })), "{stranger:?}");
    // Who has left is told so, and decides nothing.
    replicas[0].remove(NodeId(1)).await.expect("it is so");
    assert!(!matches!(replicas[0].propose("three".into()).await, Proposed::Applied(_)));
}

/// Hears nobody once it is deaf; what it says itself arrives, and is answered.
#[derive(Debug)]
struct Deaf(MemoryPeer, Arc<AtomicBool>);

#[async_trait]
impl Peer for Deaf {
    async fn start(&self, inbound: Inbound) -> Result<(), String> {
        let deaf = Arc::clone(&self.1);
        let (inbound, reachable) =
            Inbound::to_function(inbound.me().clone(), move |from, message| {
                let heard = (!deaf.load(Ordering::Relaxed)).then(|| inbound.clone());
                async move { heard?.answer(from, message).await }
            });
        // For as long as the test runs.
        std::mem::forget(reachable);
        self.0.start(inbound).await
    }

    async fn call(&self, to: &Whom, message: Bytes) -> Result<Bytes, CallFault> {
        self.0.call(to, message).await
    }
}

/// R89: who was taken out and has not heard of it asks everybody, since it knows no leader any more.
#[tokio::test]
async fn who_missed_its_removal_learns_of_it_when_it_asks() {
    let (network, deaf) = (MemoryPeer::default(), Arc::new(AtomicBool::new(false)));
    let mut replicas = Vec::new();
    for voter in voters() {
        let deaf = if voter.node == NodeId(1) { Arc::clone(&deaf) } else { Arc::default() };
        let (store, peer) = (MemStore::new(voter.node), Deaf(network.another(), deaf));
        let started = RaftMetastore::start(voter.node, voters(), 1, store, peer).await;
        replicas.push(started.expect("it starts"));
    }
    let mut pause = tokio::time::interval(Duration::from_millis(20));
    while replicas[1].barrier().await.is_none() {
        pause.tick().await;
    }
    deaf.store(true, Ordering::Relaxed);
    replicas[1].remove(NodeId(1)).await.expect("two of three are there");
    let nobody_leads = |proposed| match proposed {
        Proposed::Rejected { reason } => reason == "there is no leader now",
        _ => false,
    };
    while !nobody_leads(replicas[0].propose("one".into()).await) {
        pause.tick().await;
    }
    replicas[0].remove(NodeId(1)).await.expect("it is so");
    let learner = replicas[0].add_learner(whom(4)).await;
    assert!(matches!(learner, Err(MembersError::Refused { .. })), "{learner:?}");
}

/// A replica that has joined is started again, and knows from its own log where the others are.
#[tokio::test]
async fn a_replica_that_has_joined_comes_back() {
    let (network, dir) = (MemoryPeer::default(), tempfile::tempdir().expect("a directory"));
    let file = dir.path().join("raft.redb");
    let store = RedbStore::create(&file, NodeId(4)).expect("it is new");
    let replicas = replicas_on(&network).await;
    let others = replicas[0].replicas().all();
    let joined = RaftMetastore::join(whom(4), others, 1, store, network.another()).await;
    let joined = joined.expect("it starts");
    replicas[0].add_learner(whom(4)).await.expect("it is new");
    replicas[0].promote(NodeId(4)).await.expect("it catches up");
    joined.barrier().await.expect("there is a majority");
    drop(joined);
    replicas[1].propose("meanwhile".into()).await;
    let mut pause = tokio::time::interval(Duration::from_millis(20));
    let store = loop {
        // Its thread lets go of the file when it ends.
        match RedbStore::open(&file) {
            Ok(store) => break store,
            Err(_) => drop(pause.tick().await),
        }
    };
    let again = RaftMetastore::join(whom(4), Vec::new(), 2, store, network.another()).await;
    let again = again.expect("it starts");
    while again.barrier().await.is_none() {
        pause.tick().await;
    }
    assert_eq!(again.replicas(), replicas[0].replicas());
    let Some(Update::Record { record, .. }) = again.watch(LogIndex(0)).await.next().await else {
        panic!("something was decided");
    };
    assert_eq!(record, "meanwhile");
}

/// Nodes over replicas: while a partition moves, one replica joins, one is killed and one leaves.
#[tokio::test]
async fn records_stay_while_the_replicas_change() {
    let network = MemoryPeer::default();
    let mut replicas = replicas_on(&network).await;
    let (store, others) = (MemStore::new(NodeId(4)), replicas[0].replicas().all());
    let joined = RaftMetastore::join(whom(4), others, 1, store, network.another()).await;
    replicas.push(Arc::new(joined.expect("it starts")));
    replicas[0].add_learner(whom(4)).await.expect("it is new");
    let (mesh, mut nodes) = (MemoryPeer::default(), Vec::new());
    // Over the second, which stays, and over the one that has joined.
    for (called, replica) in [("a", 1), ("b", 3)] {
        let name = Name::new(called).expect("it is a good name");
        let node = Narad::builder().name(name).store(MemoryStore::default());
        let node = node.metastore(Arc::clone(&replicas[replica])).peer(mesh.another());
        nodes.push(node.start().await.expect("it starts"));
    }
    for node in &nodes {
        node.ready().await.expect("it runs");
    }
    let name = Name::new("orders").expect("it is a good name");
    let topic = nodes[0].create_topic(name, 1).await.expect("it is new");
    let p = PartitionId { topic, index: 0 };
    nodes[0].append(p, vec!["one".into()]).await.expect("it is durable");
    replicas[3].promote(NodeId(4)).await.expect("it catches up");
    replicas[3].remove(NodeId(1)).await.expect("three of four answer");
    // Killed, with nobody told.
    replicas.remove(2);
    replicas.remove(0);
    let to = nodes.iter().find(|node| Some(node.node()) != nodes[0].owner(p)).expect("two nodes");
    nodes[0].ask(Ask::Move { partition: p, to: to.node() }).await.expect("it can move");
    to.until(move |node| node.serving(p).is_some()).await.expect("it runs");
    to.append(p, vec!["two".into()]).await.expect("it is durable");
    assert_eq!(to.bounds(p).map(|(start, hwm)| (start.0, hwm.0)), Ok((0, 2)));
}
