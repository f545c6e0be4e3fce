//! The default transport passes the battery, and carries a move.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::{Name, PartitionId};
use narad_core::node::Ask;
use narad_runtime::conformance::{self, PeerRig};
use narad_runtime::embed::memory::{MemoryMetastore, MemoryStore};
use narad_runtime::embed::{Narad, Peer, TcpPeer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const TOKEN: u128 = 0x5eed;

#[derive(Default)]
struct Rig(Mutex<Vec<Arc<TcpPeer>>>);

impl Rig {
    fn all(&self) -> Vec<Arc<TcpPeer>> {
        self.0.lock().expect("nobody panics").clone()
    }
}

#[async_trait]
impl PeerRig for Rig {
    async fn peer(&self) -> Arc<dyn Peer> {
        let peer = Arc::new(TcpPeer::listen("127.0.0.1:0", TOKEN).await.expect("a port is free"));
        self.0.lock().expect("nobody panics").push(Arc::clone(&peer));
        peer
    }

    async fn address(&self, n: usize) -> String {
        self.all()[n].address().to_string()
    }

    async fn break_connections(&self) -> bool {
        for peer in self.all() {
            peer.hang_up().await;
        }
        true
    }
}

#[tokio::test]
async fn tcp_is_a_transport() {
    let rig = Rig::default();
    let report = conformance::peer(&rig).await.expect("it is right");
    assert_eq!(report.skipped, Vec::<&str>::new());
}

/// S18: who does not know the token is not heard, and does not stop anybody.
#[tokio::test]
async fn a_stranger_is_not_heard() {
    let peer = TcpPeer::listen("127.0.0.1:0", TOKEN).await.expect("a port is free");
    let at = peer.address();
    let (decisions, store) = (MemoryMetastore::default(), MemoryStore::default());
    let name = Name::new("a").expect("it is a good name");
    let node = Narad::builder().name(name).store(store).metastore(decisions).peer(peer);
    let node = node.address(at.to_string()).start().await.expect("it starts");
    for hello in [&b"GET / HTTP/1.1\r\nhost: narad\r\n\r\n...."[..], &[0; 64]] {
        let mut stranger = tokio::net::TcpStream::connect(at).await.expect("it listens");
        stranger.write_all(hello).await.expect("it is sent");
        let mut heard = Vec::new();
        // Closed, one way or the other.
        drop(stranger.read_to_end(&mut heard).await);
        assert_eq!(heard, Vec::<u8>::new());
    }
    node.ready().await.expect("it runs");
    node.shutdown().await.expect("it was well");
}

#[tokio::test]
async fn a_partition_moves_over_tcp() {
    let decisions = MemoryMetastore::default();
    let mut nodes = Vec::new();
    for called in ["a", "b"] {
        let peer = TcpPeer::listen("127.0.0.1:0", TOKEN).await.expect("a port is free");
        let at = peer.address().to_string();
        let name = Name::new(called).expect("it is a good name");
        let node = Narad::builder().name(name).store(MemoryStore::default());
        let node = node.metastore(decisions.clone()).peer(peer).address(at);
        nodes.push(node.start().await.expect("it starts"));
    }
    nodes[1].ready().await.expect("it runs");
    let name = Name::new("orders").expect("it is a good name");
    let topic = nodes[0].create_topic(name, 1).await.expect("it is new");
    let p = PartitionId { topic, index: 0 };
    let long = Bytes::from(vec![3; 300_000]);
    for _ in 0..20 {
        nodes[0].append(p, vec![long.clone(); 3]).await.expect("it is durable");
    }
    let to = nodes.iter().find(|node| Some(node.node()) != nodes[0].owner(p)).expect("two nodes");
    nodes[0].ask(Ask::Move { partition: p, to: to.node() }).await.expect("it can move");
    to.until(move |node| node.serving(p).is_some()).await.expect("it runs");
    assert_eq!(to.bounds(p).map(|(start, hwm)| (start.0, hwm.0)), Ok((0, 60)));
}
