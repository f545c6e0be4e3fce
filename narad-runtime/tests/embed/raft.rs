//! The default metastore passes the battery, with three replicas, and carries a move.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use narad_core::ids::{Name, NodeId, PartitionId};
use narad_core::node::Ask;
use narad_runtime::conformance::{self, MetastoreRig};
use narad_runtime::embed::memory::{MemoryPeer, MemoryStore};
use narad_runtime::embed::{Metastore, Narad, RaftMetastore, Whom};
use narad_runtime::raft::MemStore;

fn voters() -> Vec<Whom> {
    let whom = |n: u64| Whom {
        node: NodeId(n),
        name: Name::new(format!("replica-{n}")).expect("it is a good name"),
        address: String::new(),
    };
    (1..=3).map(whom).collect()
}

/// Three replicas, one of which leads.
async fn replicas() -> Vec<Arc<RaftMetastore>> {
    let (network, mut replicas) = (MemoryPeer::default(), Vec::new());
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
