//! Nodes that know one another.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use narad_core::config::Policy;
use narad_core::ids::{
    ByteCount, Epoch, Incarnation, LogGeneration, MoveId, NodeId, Offset, PartitionId, StoreUuid,
    TopicId,
};
use narad_core::partition::{Checksum, Listing, Staged};
use narad_core::peer::{Answer, Refusal, Request};
use narad_runtime::net::{CallError, Joiner, Settings, join};
use narad_runtime::wire::Wire;
use narad_runtime::wire::frame::Kind;
use narad_runtime::wire::handshake::{Accepted, ClusterId, Purpose, Welcome, Why};
use tokio::net::TcpListener;

use crate::support::{
    CLUSTER, Node, PATIENCE, Raw, Seen, World, echoed, heartbeat, hello, join_request, reaches,
    uuid, within,
};

const TWO: NodeId = NodeId(2);

/// A directory, one node that is asked, and one that answers.
async fn pair() -> (Arc<World>, Node, Node) {
    let world = Arc::new(World::default());
    let one = Node::start(&world, 1).await;
    let two = Node::start(&world, 2).await;
    (world, one, two)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_reaches_its_peer_and_names_the_asker() {
    let (_world, one, mut two) = pair().await;
    let transport = Arc::clone(&one.transport);
    let call = tokio::spawn(async move { transport.call(TWO, &heartbeat(7), PATIENCE).await });
    let (from, request, reply) = two.is_asked().await;
    assert_eq!((from, request), (Some(NodeId(1)), heartbeat(7)));
    let refused = Answer::Refused(Refusal::NotLeader { leader: Some(NodeId(3)) });
    reply.send(&refused);
    assert_eq!(call.await.unwrap(), Ok(refused));
}

/// Answers may come in any order; each finds its own caller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_out_of_order_find_their_callers() {
    let (_world, one, mut two) = pair().await;
    let mut calls = Vec::new();
    for incarnation in 0..20 {
        let transport = Arc::clone(&one.transport);
        let call = async move { transport.call(TWO, &heartbeat(incarnation), PATIENCE).await };
        calls.push((incarnation, tokio::spawn(call)));
    }
    let mut asked = Vec::new();
    while asked.len() < calls.len() {
        asked.push(two.is_asked().await);
    }
    for (_, request, reply) in asked.into_iter().rev() {
        let Request::Heartbeat { incarnation, .. } = request else { panic!("{request:?}") };
        reply.send(&echoed(incarnation.0));
    }
    for (incarnation, call) in calls {
        assert_eq!(call.await.unwrap(), Ok(echoed(incarnation)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raft_messages_arrive_in_order_whatever_their_size() {
    let (_world, one, mut two) = pair().await;
    let sizes = [1, 0, 70_000, 5 << 20, 3, 1 << 20];
    let transport = Arc::clone(&one.transport);
    // Raft runs on a thread of its own, outside the runtime.
    std::thread::spawn(move || {
        for (size, byte) in sizes.into_iter().zip(0..) {
            transport.send_raft(TWO, Bytes::from(vec![byte; size]), false);
        }
    });
    for (n, size) in sizes.into_iter().enumerate() {
        match two.sees().await {
            Seen::Raft(from, bytes) => {
                assert_eq!((from, bytes.len()), (NodeId(1), size));
                assert!(bytes.iter().all(|&byte| usize::from(byte) == n));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// C60: a snapshot travels by itself, and its sender hears when the receiver has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_060_a_snapshot_has_its_own_connection_and_is_acknowledged() {
    let (_world, mut one, mut two) = pair().await;
    let snapshot = Bytes::from(vec![7; 20 << 20]);
    one.transport.send_raft(TWO, snapshot.clone(), true);
    match two.sees().await {
        Seen::Raft(from, bytes) => assert!(from == NodeId(1) && bytes == snapshot),
        other => panic!("{other:?}"),
    }
    assert!(matches!(one.sees().await, Seen::Snapshot(TWO, true)));
    one.transport.send_raft(TWO, Bytes::from_static(b"another"), true);
    assert!(matches!(one.sees().await, Seen::Snapshot(TWO, true)));
    one.transport.send_raft(NodeId(3), snapshot, true);
    assert!(matches!(one.sees().await, Seen::Snapshot(NodeId(3), false)));
}

/// F20: an answer that cannot come any more is unknown, and known to be so at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_020_a_call_under_way_ends_with_its_peer() {
    let (_world, one, mut two) = pair().await;
    let transport = Arc::clone(&one.transport);
    let call = tokio::spawn(async move { transport.call(TWO, &heartbeat(1), PATIENCE).await });
    let (_, _, reply) = two.is_asked().await;
    two.transport.shutdown().await;
    let error = call.await.unwrap().expect_err("nobody answered");
    assert_eq!(error, CallError::Closed);
    assert!(error.outcome_is_unknown());
    // Too late, and nobody minds.
    reply.send(&Answer::Noted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_dropped_is_told_to_its_caller() {
    let (_world, one, mut two) = pair().await;
    let transport = Arc::clone(&one.transport);
    let call = tokio::spawn(async move { transport.call(TWO, &heartbeat(1), PATIENCE).await });
    let (_, _, reply) = two.is_asked().await;
    drop(reply);
    assert_eq!(call.await.unwrap(), Err(CallError::Closed));
}

/// F20: no answer in time is unknown. A late one hits nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_020_a_late_answer_is_nobodys() {
    let (_world, one, mut two) = pair().await;
    let transport = Arc::clone(&one.transport);
    let late = transport.call(TWO, &heartbeat(1), Duration::from_millis(100)).await;
    assert_eq!(late, Err(CallError::TimedOut));
    let (_, _, reply) = two.is_asked().await;
    let call = tokio::spawn(async move { transport.call(TWO, &heartbeat(2), PATIENCE).await });
    let (_, _, second) = two.is_asked().await;
    reply.send(&echoed(1));
    second.send(&echoed(2));
    assert_eq!(call.await.unwrap(), Ok(echoed(2)));
}

/// A peer that restarts, at another address even, is found again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_peer_is_found_again() {
    let world = Arc::new(World::default());
    let mut one = Node::start(&world, 1).await;
    let two = Node::start(&world, 2).await.echo();
    reaches(&one.transport, TWO, 1).await;
    two.shutdown().await;
    assert!(matches!(one.sees().await, Seen::Unreachable(TWO)));
    let again = Node::start(&world, 2).await.echo();
    reaches(&one.transport, TWO, 2).await;
    again.shutdown().await;
}

/// R159: whoever accepts connections and says nothing holds up only those who ask it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_159_a_black_hole_delays_nobody_else() {
    let world = Arc::new(World::default());
    // So long that waiting for it would fail the test.
    let settings = Settings {
        handshake_timeout: Duration::from_mins(5),
        queue_length_max: 8,
        ..Settings::default()
    };
    let mut one = Node::start_with(&world, 1, settings, None).await;
    let _two = Node::start(&world, 2).await.echo();
    let three = NodeId(3);
    let _hole = black_hole(&world, three).await;

    let timed_out = one.transport.call(three, &heartbeat(1), Duration::from_millis(50)).await;
    assert_eq!(timed_out, Err(CallError::TimedOut));
    for _ in 0..100 {
        one.transport.send_raft(three, Bytes::from_static(b"tick"), false);
    }
    // Its queue is full: what does not fit is lost, and said to be lost, at once.
    assert!(matches!(one.sees().await, Seen::Unreachable(NodeId(3))));
    assert_eq!(
        one.transport.call(three, &heartbeat(2), PATIENCE).await,
        Err(CallError::Unreachable)
    );
    assert_eq!(one.transport.call(TWO, &heartbeat(3), PATIENCE).await, Ok(echoed(3)));
}

/// A node that leads nowhere: connections to it are made, and that is all.
async fn black_hole(world: &World, node: NodeId) -> TcpListener {
    let hole = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.place(node, hole.local_addr().unwrap().to_string());
    hole
}

/// R159: what waits for a peer is bounded in bytes as well as in number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_159_a_full_queue_loses_what_does_not_fit() {
    let world = Arc::new(World::default());
    let settings = Settings {
        handshake_timeout: Duration::from_mins(5),
        queue_bytes_max: 1000,
        ..Settings::default()
    };
    let mut one = Node::start_with(&world, 1, settings, None).await;
    let _hole = black_hole(&world, TWO).await;
    for _ in 0..3 {
        one.transport.send_raft(TWO, Bytes::from(vec![0; 600]), false);
    }
    assert!(matches!(one.sees().await, Seen::Unreachable(TWO)));
}

/// A caller that stops to wait leaves nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_time_out_do_not_add_up() {
    let world = Arc::new(World::default());
    let settings =
        Settings { handshake_timeout: Duration::from_mins(5), calls_max: 2, ..Settings::default() };
    let one = Node::start_with(&world, 1, settings, None).await;
    let _hole = black_hole(&world, TWO).await;
    for _ in 0..5 {
        let call = one.transport.call(TWO, &heartbeat(1), Duration::from_millis(5)).await;
        assert_eq!(call, Err(CallError::TimedOut));
    }
}

/// R159: a peer that greets and then reads nothing is given up once it takes no byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_159_a_hung_peer_is_given_up() {
    let world = Arc::new(World::default());
    let settings = Settings { stall_timeout: Duration::from_millis(200), ..Settings::default() };
    let mut one = Node::start_with(&world, 1, settings, None).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.place(TWO, listener.local_addr().unwrap().to_string());
    for _ in 0..64 {
        one.transport.send_raft(TWO, Bytes::from(vec![0; 1 << 20]), false);
    }
    let hung = tokio::spawn(async move { greets(&listener, TWO).await });
    assert!(matches!(one.sees().await, Seen::Unreachable(TWO)));
    drop(hung.await.unwrap());
}

async fn greets(listener: &TcpListener, node: NodeId) -> Raw {
    let mut raw = Raw::over(listener.accept().await.unwrap().0);
    assert_eq!(raw.receive().await.unwrap().kind, Kind::Hello);
    let accepted = Accepted { version: 1, node, cluster: CLUSTER, store_uuid: uuid(node) };
    raw.send(Kind::Welcome, &Welcome::Accepted(accepted).to_bytes()).await;
    raw
}

/// Field fault 56: an address that another node has taken over is not the node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_at_the_address_is_not_believed() {
    let (world, one, mut two) = pair().await;
    world.place(NodeId(3), world.where_is(TWO));
    let call = one.transport.call(NodeId(3), &heartbeat(1), PATIENCE).await;
    assert_eq!(call, Err(CallError::Unreachable));
    assert!(two.seen.try_recv().is_err());
}

/// H25: the acceptor's disk is checked as well as the dialer's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_another_disk_is_not_believed() {
    let world = Arc::new(World::default());
    let one = Node::start(&world, 1).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.place(TWO, listener.local_addr().unwrap().to_string());
    let impostor = tokio::spawn(async move {
        let mut raw = Raw::over(listener.accept().await.unwrap().0);
        raw.receive().await.unwrap();
        let store_uuid = StoreUuid(1);
        let accepted = Accepted { version: 1, node: TWO, cluster: CLUSTER, store_uuid };
        raw.send(Kind::Welcome, &Welcome::Accepted(accepted).to_bytes()).await;
        raw.is_closed().await
    });
    let call = one.transport.call(TWO, &heartbeat(1), PATIENCE).await;
    assert_eq!(call, Err(CallError::Unreachable));
    assert!(impostor.await.unwrap());
}

/// A congestion control is a wish: without it the node serves all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_congestion_control_stops_nobody() {
    let world = Arc::new(World::default());
    let one = Node::start(&world, 1).await;
    for name in ["reno", "none-such"] {
        let settings = Settings { congestion: Some(name.to_owned()), ..Settings::default() };
        let _two = Node::start_with(&world, 2, settings, None).await.echo();
        reaches(&one.transport, TWO, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_node_is_unreachable_at_once() {
    let world = Arc::new(World::default());
    let mut one = Node::start(&world, 1).await;
    let call = one.transport.call(TWO, &heartbeat(1), PATIENCE).await;
    assert_eq!(call, Err(CallError::Unreachable));
    assert!(matches!(one.sees().await, Seen::Unreachable(TWO)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_asks_itself_without_a_connection() {
    let world = Arc::new(World::default());
    let one = Node::start(&world, 1).await;
    let id = one.id;
    world.place(id, "127.0.0.1:1");
    let transport = one.echo();
    assert_eq!(transport.call(id, &heartbeat(4), PATIENCE).await, Ok(echoed(4)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_a_frame_is_told_to_the_caller() {
    let (_world, one, mut two) = pair().await;
    let staged =
        Staged { base: Offset(u64::MAX), bytes: ByteCount(u64::MAX), checksum: Checksum(1) };
    let list = move |length| Request::List {
        partition: PartitionId { topic: TopicId(1), index: 0 },
        move_id: MoveId(1),
        check: vec![staged; length],
    };
    let call = one.transport.call(TWO, &list(300_000), PATIENCE).await;
    assert_eq!(call, Err(CallError::TooLong));

    let transport = Arc::clone(&one.transport);
    let call = tokio::spawn(async move { transport.call(TWO, &list(1), PATIENCE).await });
    let (_, _, reply) = two.is_asked().await;
    reply.send(&Answer::Listing(Listing {
        incarnation: Incarnation(1),
        generation: LogGeneration(1),
        epoch: Epoch(1),
        start: Offset(0),
        end: Offset(0),
        hwm: Offset(0),
        extents: Vec::new(),
        agreed: vec![Offset(u64::MAX); 1 << 19],
    }));
    assert_eq!(call.await.unwrap(), Err(CallError::TooLong));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnected_peer_comes_back_when_asked() {
    let world = Arc::new(World::default());
    let mut one = Node::start(&world, 1).await;
    let two = Node::start(&world, 2).await.echo();
    reaches(&one.transport, TWO, 1).await;
    two.disconnect(NodeId(1));
    assert!(matches!(one.sees().await, Seen::Unreachable(TWO)));
    reaches(&one.transport, TWO, 2).await;
    one.transport.disconnect(TWO);
    assert!(matches!(one.sees().await, Seen::Unreachable(TWO)));
    reaches(&one.transport, TWO, 3).await;
    world.disown(NodeId(1));
    two.disconnect(NodeId(1));
    assert!(matches!(one.sees().await, Seen::Unreachable(TWO)));
    within("the refusal", async {
        // While the pause lasts it is unreachable for that reason, afterwards for this one.
        for _ in 0..10 {
            let call = one.transport.call(TWO, &heartbeat(4), PATIENCE).await;
            assert_eq!(call, Err(CallError::Unreachable));
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_every_task_and_every_call() {
    let (world, one, mut two) = pair().await;
    let transport = Arc::clone(&one.transport);
    let call = tokio::spawn(async move { transport.call(TWO, &heartbeat(1), PATIENCE).await });
    let _unanswered = two.is_asked().await;
    let (mut raw, _) =
        Raw::greeted(&world.where_is(NodeId(1)), &hello(TWO, Purpose::Control)).await;
    within("the shutdown", one.transport.shutdown()).await;
    assert_eq!(call.await.unwrap(), Err(CallError::Closed));
    assert!(raw.is_closed().await);
    let after = one.transport.call(TWO, &heartbeat(2), PATIENCE).await;
    assert_eq!(after, Err(CallError::Unreachable));
    one.transport.send_raft(TWO, Bytes::new(), false);
    assert!(tokio::net::TcpStream::connect(world.where_is(NodeId(1))).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joiner_asks_once_and_learns_who_answered() {
    let world = Arc::new(World::default());
    let mut one = Node::start(&world, 1).await;
    let address = world.where_is(one.id);
    let joiner = Joiner { cluster: None, store_uuid: StoreUuid(9) };
    let asked = address.clone();
    let call =
        tokio::spawn(async move { join(&asked, joiner, &join_request(), PATIENCE, None).await });
    let (from, request, reply) = one.is_asked().await;
    assert_eq!((from, request), (None, join_request()));
    reply.send(&Answer::Joined { node: NodeId(9), peers: Vec::new(), policy: Policy::default() });
    let welcome = call.await.unwrap().expect("admitted");
    assert_eq!(welcome.cluster, CLUSTER);
    assert_eq!(
        (welcome.by, welcome.answer),
        (
            NodeId(1),
            Answer::Joined { node: NodeId(9), peers: Vec::new(), policy: Policy::default() }
        )
    );

    let astray = Joiner { cluster: Some(ClusterId(1)), ..joiner };
    match join(&address, astray, &join_request(), PATIENCE, None).await {
        Err(CallError::Refused(refused)) => assert_eq!(refused.why, Why::WrongCluster),
        other => panic!("{other:?}"),
    }
    let other = join(&address, joiner, &heartbeat(1), PATIENCE, None).await;
    assert_eq!(other, Err(CallError::Closed));
    assert!(one.seen.try_recv().is_err(), "a stranger may ask for nothing else");
    let nobody = join("127.0.0.1:1", joiner, &join_request(), PATIENCE, None).await;
    assert!(matches!(nobody, Err(CallError::NotGreeted(why)) if why.contains("refused")));
}
