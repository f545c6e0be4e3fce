//! Nodes on loopback, and what they have seen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use narad_core::ids::{Incarnation, LogIndex, Name, NodeId, StoreUuid};
use narad_core::metastore::Addresses;
use narad_core::peer::{Answer, Request};
use narad_runtime::net::{
    Bulk, Deliveries, Delivery, DeliveryReply, Directory, Identity, Inbound, ReplySender, Seams,
    Settings, Transport,
};
use narad_runtime::wire::Wire;
use narad_runtime::wire::frame::{self, Decoder, Frame, Kind};
use narad_runtime::wire::handshake::{ClusterId, Hello, Purpose, VERSION_MAX, Welcome};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) const CLUSTER: ClusterId = ClusterId(0xc1);

/// Longer than anything here takes, shorter than the default timeouts add up to.
const DEADLINE: Duration = Duration::from_secs(20);

/// What a call may take when its answer is awaited.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(DEADLINE, future).await;
    done.unwrap_or_else(|_| panic!("not in time: {what}"))
}

pub(crate) fn uuid(node: NodeId) -> StoreUuid {
    StoreUuid(u128::from(node.0) << 64 | 0xd15c)
}

pub(crate) fn identity(node: NodeId) -> Identity {
    Identity { cluster: CLUSTER, node, store_uuid: uuid(node) }
}

/// Who is where; shared by all nodes of a test.
#[derive(Default)]
pub(crate) struct World {
    addresses: Mutex<HashMap<NodeId, String>>,
    strangers: Mutex<Vec<NodeId>>,
    names: Mutex<HashMap<NodeId, String>>,
}

impl World {
    pub(crate) fn place(&self, node: NodeId, address: impl Into<String>) {
        self.addresses.lock().unwrap().insert(node, address.into());
    }

    pub(crate) fn where_is(&self, node: NodeId) -> String {
        self.address(node).expect("placed")
    }

    /// Lets everybody know what a node is called.
    pub(crate) fn call(&self, node: NodeId, name: impl Into<String>) {
        self.names.lock().unwrap().insert(node, name.into());
    }

    /// Makes a node unknown to everybody.
    pub(crate) fn disown(&self, node: NodeId) {
        self.strangers.lock().unwrap().push(node);
    }
}

impl Directory for World {
    fn address(&self, node: NodeId) -> Option<String> {
        self.addresses.lock().unwrap().get(&node).cloned()
    }

    fn name(&self, node: NodeId) -> Option<String> {
        self.names.lock().unwrap().get(&node).cloned()
    }

    fn admits(&self, node: NodeId, store_uuid: StoreUuid) -> bool {
        store_uuid == uuid(node) && !self.strangers.lock().unwrap().contains(&node)
    }
}

#[derive(Debug)]
pub(crate) enum Seen {
    Raft(NodeId, Bytes),
    Request(Option<NodeId>, Request, ReplySender),
    Unreachable(NodeId),
    Snapshot(NodeId, bool),
    Delivery(Delivery, DeliveryReply),
}

#[derive(Clone)]
struct Recorder(mpsc::UnboundedSender<Seen>);

impl Recorder {
    fn note(&self, seen: Seen) {
        // The test may be over.
        let _ = self.0.send(seen);
    }
}

impl Deliveries for Recorder {
    fn deliver(&self, delivery: Delivery, reply: DeliveryReply) {
        self.note(Seen::Delivery(delivery, reply));
    }
}

impl Inbound for Recorder {
    fn raft(&self, from: NodeId, bytes: Bytes) {
        self.note(Seen::Raft(from, bytes));
    }

    fn request(&self, from: Option<NodeId>, request: Request, reply: ReplySender) {
        self.note(Seen::Request(from, request, reply));
    }

    fn unreachable(&self, peer: NodeId) {
        self.note(Seen::Unreachable(peer));
    }

    fn snapshot_sent(&self, peer: NodeId, ok: bool) {
        self.note(Seen::Snapshot(peer, ok));
    }
}

pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) transport: Arc<Transport>,
    pub(crate) seen: mpsc::UnboundedReceiver<Seen>,
}

impl Node {
    pub(crate) async fn start(world: &Arc<World>, id: u64) -> Self {
        Self::start_with(world, id, Settings::default(), None).await
    }

    pub(crate) async fn start_with(
        world: &Arc<World>,
        id: u64,
        settings: Settings,
        bulk: Option<Arc<dyn Bulk>>,
    ) -> Self {
        let id = NodeId(id);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        world.place(id, listener.local_addr().unwrap().to_string());
        let (sender, seen) = mpsc::unbounded_channel();
        let directory: Arc<dyn Directory> = Arc::clone(world) as _;
        let recorder = Arc::new(Recorder(sender));
        let (inbound, deliveries) = (Arc::clone(&recorder) as _, Some(recorder as _));
        let seams = Seams { directory, inbound, bulk, deliveries };
        let token = CancellationToken::new();
        let transport = Transport::start(identity(id), listener, seams, settings, &token);
        Self { id, transport: Arc::new(transport), seen }
    }

    /// Waits for the next thing that this node sees.
    pub(crate) async fn sees(&mut self) -> Seen {
        within("something to see", self.seen.recv()).await.expect("the node lives")
    }

    /// Waits for the next batch.
    pub(crate) async fn is_brought(&mut self) -> (Delivery, DeliveryReply) {
        loop {
            if let Seen::Delivery(delivery, reply) = self.sees().await {
                return (delivery, reply);
            }
        }
    }

    /// Waits for the next request.
    pub(crate) async fn is_asked(&mut self) -> (Option<NodeId>, Request, ReplySender) {
        loop {
            if let Seen::Request(from, request, reply) = self.sees().await {
                return (from, request, reply);
            }
        }
    }

    /// Answers every heartbeat with an index that equals its incarnation, from now on.
    pub(crate) fn echo(mut self) -> Arc<Transport> {
        let transport = Arc::clone(&self.transport);
        tokio::spawn(async move {
            while let Some(seen) = self.seen.recv().await {
                if let Seen::Request(_, Request::Heartbeat { incarnation, .. }, reply) = seen {
                    reply.send(&Answer::Heartbeat { index: LogIndex(incarnation.0) });
                }
            }
        });
        transport
    }
}

pub(crate) fn heartbeat(incarnation: u64) -> Request {
    Request::Heartbeat { incarnation: Incarnation(incarnation), stuck: Vec::new() }
}

pub(crate) fn echoed(incarnation: u64) -> Answer {
    Answer::Heartbeat { index: LogIndex(incarnation) }
}

pub(crate) fn join_request() -> Request {
    Request::Join {
        name: Name::new("narad-9").unwrap(),
        store_uuid: StoreUuid(9),
        addrs: Addresses { peer: "localhost:1".to_owned(), http: "localhost:2".to_owned() },
    }
}

/// Calls until an answer comes: a peer that was away is left alone for a moment.
pub(crate) async fn reaches(transport: &Transport, to: NodeId, incarnation: u64) {
    within("the peer is reached again", async {
        let mut pause = tokio::time::interval(Duration::from_millis(5));
        while transport.call(to, &heartbeat(incarnation), PATIENCE).await != Ok(echoed(incarnation))
        {
            pause.tick().await;
        }
    })
    .await;
}

/// A peer made by hand, which may do anything.
pub(crate) struct Raw<S = TcpStream> {
    pub(crate) stream: S,
    decoder: Decoder,
}

impl Raw {
    pub(crate) async fn dial(address: &str) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) async fn greeted(address: &str, hello: &Hello) -> (Self, Welcome) {
        let mut raw = Self::dial(address).await;
        raw.send(Kind::Hello, &hello.to_bytes()).await;
        let frame = raw.receive().await.expect("an answer to the handshake");
        assert_eq!(frame.kind, Kind::Welcome);
        (raw, Welcome::from_bytes(&frame.payload).unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Raw<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, decoder: Decoder::default() }
    }

    pub(crate) async fn send(&mut self, kind: Kind, payload: &[u8]) {
        self.write(&frame::encode(VERSION_MAX, kind, payload).unwrap()).await;
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        // The other side may close while we write; what it does is seen by reading.
        let _ = self.stream.write_all(bytes).await;
    }

    /// Returns the next frame, or `None` once the other side has closed the connection.
    pub(crate) async fn receive(&mut self) -> Option<Frame> {
        within("a frame or the end", async {
            loop {
                if let Some(frame) = self.decoder.next_frame().unwrap() {
                    return Some(frame);
                }
                let mut buffer = [0; 4096];
                match self.stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => return None,
                    Ok(read) => self.decoder.push(&buffer[..read]),
                }
            }
        })
        .await
    }

    pub(crate) async fn is_closed(&mut self) -> bool {
        self.receive().await.is_none()
    }
}

pub(crate) fn hello(node: NodeId, purpose: Purpose) -> Hello {
    identity(node).hello(purpose)
}
