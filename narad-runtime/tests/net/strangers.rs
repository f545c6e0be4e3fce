//! Whoever else may come to the port.

use std::sync::Arc;
use std::time::Duration;

use narad_core::config::Policy;
use narad_core::ids::{NodeId, StoreUuid};
use narad_core::peer::Answer;
use narad_runtime::net::{Identity, Settings, Transport};
use narad_runtime::wire::frame::{self, Kind};
use narad_runtime::wire::handshake::{Accepted, ClusterId, Hello, Purpose, Welcome, Why};
use narad_runtime::wire::{DecodeError, Wire};

use crate::support::{
    Node, PATIENCE, Raw, Seen, World, echoed, heartbeat, hello, identity, join_request, reaches,
};

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);

/// A node, and another that it must go on serving.
async fn served() -> (Arc<World>, Arc<Transport>, Arc<Transport>) {
    let world = Arc::new(World::default());
    // What is closed here is closed for what it says, not for taking too long.
    let settings = Settings { handshake_timeout: Duration::from_mins(5), ..Settings::default() };
    let one = Node::start_with(&world, 1, settings, None).await.echo();
    let two = Node::start(&world, 2).await.echo();
    reaches(&two, ONE, 1).await;
    (world, one, two)
}

async fn still_served(two: &Transport) {
    assert_eq!(two.call(ONE, &heartbeat(2), PATIENCE).await, Ok(echoed(2)));
}

async fn why_refused(world: &World, hello: &Hello) -> Why {
    let (mut raw, welcome) = Raw::greeted(&world.where_is(ONE), hello).await;
    let Welcome::Refused(refused) = welcome else { panic!("{welcome:?}") };
    assert!(refused.message.len() > 20, "people are told what to do: {refused}");
    assert!(raw.is_closed().await);
    refused.why
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_port_closes_that_connection_alone() {
    let (world, _one, two) = served().await;
    let garbage: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: narad\r\n\r\n",
        &[0; 64],
        &[0xff; 4096],
        &[0, 0, 0, 6, 1, 1, 0, 0, 0, 0],
        // A sound frame, and a handshake without magic.
        &frame::encode(1, Kind::Hello, &[0x10, 1, 0x18, 1]).unwrap(),
    ];
    for bytes in garbage {
        let mut raw = Raw::dial(&world.where_is(ONE)).await;
        raw.write(bytes).await;
        assert!(raw.is_closed().await, "{bytes:?}");
    }
    still_served(&two).await;
}

/// C59: a stranger cannot make the node reserve memory, neither by a length nor by a kind that may
/// be long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_059_an_oversized_frame_is_refused_at_its_head() {
    let (world, _one, two) = served().await;
    for (length, kind) in [
        (u32::MAX, Kind::Hello),
        (8192, Kind::Hello),
        (60 << 20, Kind::Snapshot),
        (60 << 20, Kind::Raft),
        (4 << 20, Kind::Request),
    ] {
        let mut raw = Raw::dial(&world.where_is(ONE)).await;
        raw.write(&length.to_be_bytes()).await;
        raw.write(&[1, kind as u8]).await;
        assert!(raw.is_closed().await, "{kind:?}");
    }
    still_served(&two).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_or_slow_client_is_closed_in_time() {
    let world = Arc::new(World::default());
    let settings =
        Settings { handshake_timeout: Duration::from_millis(100), ..Settings::default() };
    let _one = Node::start_with(&world, 1, settings, None).await.echo();
    let two = Node::start(&world, 2).await.echo();
    let hello = frame::encode(1, Kind::Hello, &hello(TWO, Purpose::Control).to_bytes()).unwrap();
    for beginning in [0, 3, 7, hello.len() - 1] {
        let mut raw = Raw::dial(&world.where_is(ONE)).await;
        raw.write(&hello[..beginning]).await;
        assert!(raw.is_closed().await, "after {beginning} bytes");
    }
    reaches(&two, ONE, 2).await;
}

/// A peer that says nothing any more does not keep its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_peer_is_let_go_and_comes_back() {
    let world = Arc::new(World::default());
    let settings = Settings { idle_timeout: Duration::from_millis(100), ..Settings::default() };
    let _one = Node::start_with(&world, 1, settings.clone(), None).await.echo();
    for purpose in [Purpose::Control, Purpose::Delivery] {
        let (mut raw, welcome) =
            Raw::greeted(&world.where_is(ONE), &hello(NodeId(3), purpose)).await;
        assert!(matches!(welcome, Welcome::Accepted(_)));
        assert!(raw.is_closed().await, "{purpose:?}");
    }
    // A dialer goes first, and nothing is lost by it.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.place(NodeId(4), listener.local_addr().unwrap().to_string());
    let mut two = Node::start_with(&world, 2, settings, None).await;
    two.transport.open(NodeId(4));
    for _ in 0..2 {
        let mut raw = Raw::over(listener.accept().await.unwrap().0);
        assert_eq!(raw.receive().await.expect("a greeting").kind, Kind::Hello);
        let Identity { cluster, node, store_uuid } = identity(NodeId(4));
        let accepted = Accepted { version: 1, node, cluster, store_uuid };
        raw.send(Kind::Welcome, &Welcome::Accepted(accepted).to_bytes()).await;
        assert!(raw.is_closed().await);
        two.transport.open(NodeId(4));
    }
    assert!(two.seen.try_recv().is_err(), "the peer is not thought to be unreachable");
}

/// A flood of silent connections pushes out silent connections, not peers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_of_too_many_strangers_gives_way() {
    let world = Arc::new(World::default());
    let settings = Settings {
        strangers_max: 2,
        handshake_timeout: Duration::from_mins(5),
        ..Settings::default()
    };
    let _one = Node::start_with(&world, 1, settings, None).await.echo();
    let two = Node::start(&world, 2).await.echo();
    let address = world.where_is(ONE);
    let mut first = Raw::dial(&address).await;
    let mut second = Raw::dial(&address).await;
    still_served(&two).await;
    assert!(first.is_closed().await);
    let _third = Raw::dial(&address).await;
    let _fourth = Raw::dial(&address).await;
    assert!(second.is_closed().await);
    still_served(&two).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_refusal_says_why() {
    let (world, _one, two) = served().await;
    let sound = hello(TWO, Purpose::Control);
    let cases = [
        (Hello { cluster: Some(ClusterId(7)), ..sound.clone() }, Why::WrongCluster),
        (Hello { cluster: None, ..sound.clone() }, Why::WrongCluster),
        (Hello { node: None, ..sound.clone() }, Why::UnknownNode),
        (Hello { versions: (2, 9), ..sound.clone() }, Why::VersionMismatch),
        (Hello { versions: (0, 0), ..sound.clone() }, Why::VersionMismatch),
        // This node has no bulk seam.
        (Hello { purpose: Purpose::Bulk, ..sound.clone() }, Why::NotServing),
        (
            Hello {
                purpose: Purpose::Join,
                cluster: Some(ClusterId(7)),
                node: None,
                ..sound.clone()
            },
            Why::WrongCluster,
        ),
    ];
    for (hello, why) in cases {
        assert_eq!(why_refused(&world, &hello).await, why, "{hello:?}");
    }
    still_served(&two).await;
}

/// H25: a known id with another disk is another node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_known_node_with_another_disk_is_refused() {
    let (world, _one, two) = served().await;
    let hello = Hello { store_uuid: StoreUuid(1), ..hello(TWO, Purpose::Control) };
    assert_eq!(why_refused(&world, &hello).await, Why::UnknownNode);
    still_served(&two).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_purpose_is_refused_and_named() {
    let (world, _one, _two) = served().await;
    let mut bytes = hello(TWO, Purpose::Control).to_bytes();
    // The last field is `purpose = 1`.
    assert_eq!(bytes.split_off(bytes.len() - 2), [0x38, 1]);
    bytes.extend([0x38, 99]);
    let unknown = Err(DecodeError::Unknown { what: "a connection's purpose" });
    assert_eq!(Hello::from_bytes(&bytes), unknown);
    let mut raw = Raw::dial(&world.where_is(ONE)).await;
    raw.send(Kind::Hello, &bytes).await;
    let frame = raw.receive().await.expect("a refusal");
    match Welcome::from_bytes(&frame.payload) {
        Ok(Welcome::Refused(refused)) => assert_eq!(refused.why, Why::UnknownPurpose),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_so_many_joiners_are_let_in() {
    let world = Arc::new(World::default());
    let settings = Settings { joiners_max: 1, ..Settings::default() };
    let mut one = Node::start_with(&world, 1, settings, None).await;
    let joiner = Hello { node: None, cluster: None, ..hello(NodeId(9), Purpose::Join) };
    let (mut first, welcome) = Raw::greeted(&world.where_is(ONE), &joiner).await;
    assert!(matches!(welcome, Welcome::Accepted(_)));
    assert_eq!(why_refused(&world, &joiner).await, Why::Busy);
    // What a joiner has asked is answered all the same.
    first.send(Kind::Request, &call(1, &join_request().to_bytes())).await;
    let (from, request, reply) = one.is_asked().await;
    assert_eq!((from, request), (None, join_request()));
    reply.send(&Answer::Joined { node: NodeId(9), peers: Vec::new(), policy: Policy::default() });
    assert_eq!(first.receive().await.expect("an answer").kind, Kind::Answer);
}

/// What a peer sends after a good handshake is checked as well, and costs only its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_or_misplaced_frame_closes_the_connection() {
    let (world, _one, two) = served().await;
    world.place(NodeId(3), "127.0.0.1:1");
    let mut damaged = frame::encode(1, Kind::Raft, b"vote").unwrap().to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    for bytes in [
        damaged,
        frame::encode(1, Kind::Answer, b"").unwrap().to_vec(),
        frame::encode(1, Kind::Request, &[0xff; 9]).unwrap().to_vec(),
    ] {
        let hello = hello(NodeId(3), Purpose::Control);
        let (mut raw, welcome) = Raw::greeted(&world.where_is(ONE), &hello).await;
        assert!(matches!(welcome, Welcome::Accepted(_)));
        raw.write(&bytes).await;
        assert!(raw.is_closed().await, "{bytes:?}");
    }
    still_served(&two).await;
}

/// F20: a request of a newer build gets an answer that says so, and the connection goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_020_a_newer_request_is_not_understood_rather_than_refused() {
    let (world, _one, _two) = served().await;
    let hello = hello(NodeId(3), Purpose::Control);
    let (mut raw, _) = Raw::greeted(&world.where_is(ONE), &hello).await;
    // A request whose one field has tag 99.
    raw.send(Kind::Request, &call(5, &[0x9a, 0x06, 0])).await;
    let reply = raw.receive().await.expect("a reply");
    // `id = 5`, `fault = 1`.
    assert_eq!(reply.payload[..], [0x08, 5, 0x18, 1]);
    raw.send(Kind::Request, &call(6, &heartbeat(1).to_bytes())).await;
    assert_eq!(raw.receive().await.expect("a reply").payload[..2], [0x08, 6]);
}

/// A peer has one control connection: a newer one ends the older, which it must have lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_connection_of_a_peer_replaces_its_older_one() {
    let world = Arc::new(World::default());
    let mut one = Node::start(&world, 1).await;
    let hello = hello(TWO, Purpose::Control);
    let (mut older, _) = Raw::greeted(&world.where_is(ONE), &hello).await;
    let (mut newer, _) = Raw::greeted(&world.where_is(ONE), &hello).await;
    assert!(older.is_closed().await);
    newer.send(Kind::Raft, b"append").await;
    assert!(matches!(one.sees().await, Seen::Raft(TWO, _)));
}

/// `id = id`, `request = request`.
fn call(id: u8, request: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x08, id, 0x12, u8::try_from(request.len()).unwrap()];
    bytes.extend(request);
    bytes
}
