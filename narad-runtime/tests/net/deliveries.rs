//! Batches of accepted records between nodes.

use std::sync::Arc;
use std::time::Duration;

use narad_core::dispatch::{BatchNo, SendFault};
use narad_core::ids::{Epoch, Incarnation, NodeId, PartitionId, TopicId};
use narad_runtime::log::Record;
use narad_runtime::net::{Delivery, Settings};
use narad_runtime::wire::Wire;
use narad_runtime::wire::deliver::{Delivered, Head, encode_records};
use narad_runtime::wire::frame::Kind;
use narad_runtime::wire::handshake::{Accepted, Hello, Purpose, VERSION_MAX, Welcome};
use tokio::net::TcpListener;

use crate::support::{CLUSTER, Node, PATIENCE, Raw, World, echoed, heartbeat, hello, uuid};

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);

fn batch(n: u64, value: Vec<u8>) -> Delivery {
    let partition = PartitionId { topic: TopicId(5), index: 1 };
    let batch = BatchNo { ingress: ONE, life: Incarnation(3), n };
    let record = Record { value: value.into(), timestamp_ms: 7, ..Record::default() };
    Delivery { partition, epoch: Epoch(4), batch, records: vec![record; 2] }
}

/// An end that comes so late.
async fn after(limit: Duration) {
    drop(tokio::time::timeout(limit, std::future::pending::<()>()).await);
}

async fn long() {
    after(PATIENCE).await;
}

async fn pair(settings: Settings) -> (Arc<World>, Node, Node) {
    let world = Arc::new(World::default());
    let one = Node::start(&world, 1).await;
    let two = Node::start_with(&world, 2, settings, None).await;
    (world, one, two)
}

/// A batch arrives as it was sent, under the name of who sent it; each answer finds its own batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_reaches_its_owner() {
    let (_world, one, mut two) = pair(Settings::default()).await;
    let mut sent = Vec::new();
    for n in 0..3 {
        let transport = Arc::clone(&one.transport);
        let claimed = NodeId(9);
        let mut batch = batch(n, vec![b'x'; 10]);
        batch.batch.ingress = claimed;
        sent.push(tokio::spawn(async move { transport.deliver(TWO, batch, long()).await }));
    }
    let mut brought = Vec::new();
    while brought.len() < sent.len() {
        brought.push(two.is_brought().await);
    }
    for (delivery, reply) in brought.into_iter().rev() {
        let n = delivery.batch.n;
        assert_eq!(delivery, batch(n, vec![b'x'; 10]), "it is the connection that names the node");
        let current = Epoch(n);
        reply.send(if n == 0 { Ok(()) } else { Err(SendFault::OtherEpoch { current }) });
    }
    for (n, sent) in (0..).zip(sent) {
        let current = Epoch(n);
        let expected = if n == 0 { Ok(()) } else { Err(SendFault::OtherEpoch { current }) };
        assert_eq!(sent.await.unwrap(), expected);
    }
}

/// A node that owns what it has accepted brings it to itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_delivers_to_itself() {
    let (_world, mut one, _two) = pair(Settings::default()).await;
    let transport = Arc::clone(&one.transport);
    let sent =
        tokio::spawn(async move { transport.deliver(ONE, batch(0, Vec::new()), long()).await });
    let (delivery, reply) = one.is_brought().await;
    assert_eq!(delivery, batch(0, Vec::new()));
    drop(reply);
    assert_eq!(sent.await.unwrap(), Err(SendFault::TimedOut), "nobody knows");
}

/// What has not left is told from what may have arrived: only the second is bound to its partition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_sent_is_told_from_what_was() {
    let (world, one, mut two) = pair(Settings::default()).await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.place(NodeId(3), nobody.local_addr().unwrap().to_string());
    // A node that accepts connections and says nothing: the handshake never ends.
    let soon = after(Duration::from_millis(50));
    let sent = one.transport.deliver(NodeId(3), batch(0, Vec::new()), soon).await;
    assert_eq!(sent, Err(SendFault::Unreachable));

    let transport = Arc::clone(&one.transport);
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let sent = tokio::spawn(async move {
        let end = async { drop(ended.await) };
        transport.deliver(TWO, batch(0, Vec::new()), end).await
    });
    let (_, reply) = two.is_brought().await;
    drop(end);
    assert_eq!(sent.await.unwrap(), Err(SendFault::TimedOut));
    reply.send(Ok(()));

    let transport = Arc::clone(&one.transport);
    let sent =
        tokio::spawn(async move { transport.deliver(TWO, batch(1, Vec::new()), long()).await });
    let (_, _reply) = two.is_brought().await;
    two.transport.disconnect(ONE);
    assert_eq!(sent.await.unwrap(), Err(SendFault::TimedOut), "the connection broke");
}

/// What does not fit is let pass unread and answered, and the next one is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_without_room_is_answered_as_busy() {
    const MIB: usize = 1 << 20;
    let settings = Settings { delivery_bytes_max: 0, ..Settings::default() };
    let (_world, one, mut two) = pair(settings).await;
    let transport = Arc::clone(&one.transport);
    let first =
        tokio::spawn(
            async move { transport.deliver(TWO, batch(0, vec![0; 20 * MIB]), long()).await },
        );
    let (_, reply) = two.is_brought().await;
    let second = one.transport.deliver(TWO, batch(1, vec![0; 13 * MIB]), long()).await;
    assert_eq!(second, Err(SendFault::Busy));
    reply.send(Ok(()));
    assert_eq!(first.await.unwrap(), Ok(()));
    let transport = Arc::clone(&one.transport);
    let third =
        tokio::spawn(
            async move { transport.deliver(TWO, batch(1, vec![0; 13 * MIB]), long()).await },
        );
    two.is_brought().await.1.send(Ok(()));
    assert_eq!(third.await.unwrap(), Ok(()));
}

/// Case C60: a batch that is not taken off the wire delays no heartbeat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_passes_a_batch_that_is_stuck() {
    let (world, one, two) = pair(Settings::default()).await;
    let (really, _two) = (world.where_is(TWO), two.echo());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.place(TWO, listener.local_addr().unwrap().to_string());
    tokio::spawn(async move {
        let mut stuck = Vec::new();
        loop {
            let mut raw = Raw::over(listener.accept().await.unwrap().0);
            let frame = raw.receive().await.unwrap();
            if Hello::from_bytes(&frame.payload).unwrap().purpose == Purpose::Delivery {
                let (version, store_uuid) = (VERSION_MAX, uuid(TWO));
                let welcome = Accepted { version, node: TWO, cluster: CLUSTER, store_uuid };
                raw.send(Kind::Welcome, &Welcome::Accepted(welcome).to_bytes()).await;
                stuck.push(raw);
                continue;
            }
            let mut behind = Raw::dial(&really).await;
            behind.send(Kind::Hello, &frame.payload).await;
            tokio::spawn(async move {
                let copied =
                    tokio::io::copy_bidirectional(&mut raw.stream, &mut behind.stream).await;
                drop(copied);
            });
        }
    });
    let transport = Arc::clone(&one.transport);
    let large = batch(0, vec![0; 20 << 20]);
    let stuck = tokio::spawn(async move { transport.deliver(TWO, large, long()).await });
    for n in 0..3 {
        let answered = one.transport.call(TWO, &heartbeat(n), PATIENCE).await;
        assert_eq!(answered, Ok(echoed(n)));
    }
    assert!(!stuck.is_finished());
    stuck.abort();
}

/// A peer that announces one thing and sends another is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_closes_the_connection() {
    let (world, _one, two) = pair(Settings::default()).await;
    let sound = encode_records(&batch(0, vec![1; 100]).records);
    let head = |bytes, records| Head {
        id: 1,
        partition: batch(0, Vec::new()).partition,
        epoch: Epoch(1),
        life: Incarnation(1),
        n: 0,
        records,
        bytes,
    };
    let length = sound.len() as u64;
    for (head, body) in [
        (head(length - 1, 2), &sound[..]),
        (head(length + 1, 2), &sound[..]),
        (head(length, 3), &sound[..]),
        (head(length, 1), &sound[..]),
    ] {
        let (mut raw, _) =
            Raw::greeted(&world.where_is(two.id), &hello(ONE, Purpose::Delivery)).await;
        raw.send(Kind::Deliver, &head.to_bytes()).await;
        raw.send(Kind::Records, body).await;
        loop {
            let Some(frame) = raw.receive().await else { break };
            let answer = Delivered::from_bytes(&frame.payload).unwrap();
            assert_eq!(answer.result, Err(SendFault::TimedOut));
        }
    }
}
