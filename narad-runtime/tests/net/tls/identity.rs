//! A node serves whoever holds the certificate of the node that it says it is, and nobody else.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use narad_core::config::Policy;
use narad_core::ids::{NodeId, StoreUuid};
use narad_core::peer::{Answer, Request};
use narad_runtime::net::{CallError, Joiner, Settings, Tally, Transport, join};
use narad_runtime::tls::authority::Validity;
use narad_runtime::tls::{Fault, Tls, What, Who};
use narad_runtime::wire::Wire;
use narad_runtime::wire::frame::Kind;
use narad_runtime::wire::handshake::{Purpose, Welcome, Why};

use super::certificates::{Set, as_client, as_nobody, future, name, past};
use crate::support::{
    Node, PATIENCE, Raw, Seen, World, echoed, heartbeat, hello, join_request, reaches, within,
};

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);

fn with(tls: Tls) -> Settings {
    Settings { tls: Some(tls), ..Settings::default() }
}

/// Nodes `narad-1` and `narad-2` of a cluster that knows `narad-3` too.
struct Cluster {
    world: Arc<World>,
    set: Set,
    one: Arc<Transport>,
    two: Arc<Transport>,
}

impl Cluster {
    async fn start() -> Self {
        let (world, set) = (Arc::new(World::default()), Set::of("prod"));
        for id in 1..=3 {
            world.call(NodeId(id), format!("narad-{id}"));
        }
        let one = Node::start_with(&world, 1, with(set.node("narad-1")), None).await.echo();
        let two = Node::start_with(&world, 2, with(set.node("narad-2")), None).await.echo();
        reaches(&two, ONE, 1).await;
        reaches(&one, TWO, 1).await;
        Self { world, set, one, two }
    }

    /// Has node 3 dial node 1 with what it holds; returns what it is told. It must not have been
    /// served, and the others must still be.
    async fn refuses(&self, settings: Settings) -> String {
        let mut three = Node::start_with(&self.world, 3, settings, None).await;
        let met = within("a refusal", three.transport.meet(&self.world.where_is(ONE))).await;
        let call = three.transport.call(ONE, &heartbeat(7), PATIENCE).await;
        assert_eq!(call, Err(CallError::Unreachable));
        assert!(matches!(three.seen.try_recv(), Ok(Seen::Unreachable(ONE)) | Err(_)));
        self.goes_on().await;
        met.expect_err("it was let in")
    }

    /// Heartbeats of the others are unharmed, each way and over the connections that they have.
    async fn goes_on(&self) {
        assert_eq!(self.two.call(ONE, &heartbeat(2), PATIENCE).await, Ok(echoed(2)));
        assert_eq!(self.one.call(TWO, &heartbeat(3), PATIENCE).await, Ok(echoed(3)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_one_cluster_talk_under_tls() {
    let cluster = Cluster::start().await;
    let mut three =
        Node::start_with(&cluster.world, 3, with(cluster.set.node("narad-3")), None).await;
    // A message that is many records long, and one that has a connection of its own.
    let long = Bytes::from(vec![7; 3 << 20]);
    cluster.one.send_raft(NodeId(3), long.clone(), false);
    assert!(matches!(three.sees().await, Seen::Raft(ONE, bytes) if bytes == long));
    cluster.one.send_raft(NodeId(3), long.clone(), true);
    assert!(matches!(three.sees().await, Seen::Raft(ONE, bytes) if bytes == long));
    assert_eq!(three.transport.call(TWO, &heartbeat(4), PATIENCE).await, Ok(echoed(4)));
    cluster.goes_on().await;
}

/// Another node's certificate is refused, and the refusal names both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_nodes_certificate_is_refused() {
    let cluster = Cluster::start().await;
    let told = cluster.refuses(with(cluster.set.node("narad-2"))).await;
    assert!(told.contains("of node narad-2, not of narad-3"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clients_certificate_is_none_of_a_node() {
    let cluster = Cluster::start().await;
    let files = cluster.set.issue(&Who::Role(name("admin")), Validity::days(1));
    let refused = Tls::open(files.clone()).expect_err("a node may not start with it");
    assert!(refused.to_string().contains("narad cert issue"), "{refused}");
    // Whoever dials with it all the same is told why not.
    let stream = as_client(&cluster.world.where_is(ONE), &files).await;
    let mut raw = Raw::over(stream);
    raw.send(Kind::Hello, &hello(NodeId(3), Purpose::Control).to_bytes()).await;
    let frame = raw.receive().await.expect("a refusal");
    let Ok(Welcome::Refused(refused)) = Welcome::from_bytes(&frame.payload) else {
        panic!("{frame:?}")
    };
    assert_eq!(refused.why, Why::WrongIdentity);
    assert!(refused.message.contains("role admin"), "{refused}");
    assert!(raw.is_closed().await);
    cluster.goes_on().await;
}

/// No certificate under TLS: the dialer is told so by TLS itself, gets nothing, and is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dialer_without_a_certificate_gets_nothing() {
    let (world, set) = (Arc::new(World::default()), Set::of("prod"));
    let refused = Tally::default();
    let counted = Settings { refused: refused.clone(), ..with(set.node("narad-1")) };
    let mut one = Node::start_with(&world, 1, counted, None).await;
    let stream = as_nobody(&world.where_is(ONE), &set.files("narad-1")).await;
    let mut raw = Raw::over(stream);
    raw.send(Kind::Hello, &hello(TWO, Purpose::Control).to_bytes()).await;
    assert!(raw.is_closed().await);
    is_counted(&refused, "no_certificate").await;
    assert!(one.seen.try_recv().is_err(), "it was heard");
}

/// No certificate; here because the node was started without TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_tls_is_refused_and_both_say_so() {
    let cluster = Cluster::start().await;
    let told = cluster.refuses(Settings::default()).await;
    assert_eq!(told, Fault { is_told: false, what: What::NotTls }.to_string());
    // The other way round: who speaks TLS to a node that does not.
    let world = Arc::new(World::default());
    let plain = Node::start(&world, 1).await;
    let met = within("a refusal", cluster.two.meet(&world.where_is(plain.id))).await;
    assert!(met.is_err(), "{met:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_another_authority_is_refused() {
    let cluster = Cluster::start().await;
    // Of the same cluster by name, and it trusts this one's authority.
    let other = Set::of("prod");
    let tls = {
        other.trust(&cluster.set);
        other.node("narad-3")
    };
    let told = cluster.refuses(with(tls)).await;
    let expected = Fault { is_told: true, what: What::UnknownAuthority };
    assert_eq!(told, expected.to_string());
}

/// The dialer looks as well: an impostor at a known address gets nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acceptor_of_another_authority_is_not_talked_to() {
    let cluster = Cluster::start().await;
    let other = Set::of("prod");
    other.trust(&cluster.set);
    let mut three = Node::start_with(&cluster.world, 3, with(other.node("narad-3")), None).await;
    let met = within("a refusal", cluster.two.meet(&cluster.world.where_is(NodeId(3)))).await;
    let expected = Fault { is_told: false, what: What::UnknownAuthority };
    assert_eq!(met, Err(expected.to_string()));
    assert!(three.seen.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acceptor_with_another_nodes_certificate_is_not_talked_to() {
    let cluster = Cluster::start().await;
    let _three =
        Node::start_with(&cluster.world, 3, with(cluster.set.node("narad-1")), None).await.echo();
    let met = within("a refusal", cluster.two.meet(&cluster.world.where_is(NodeId(3)))).await;
    assert!(met.as_ref().is_err_and(|told| told.contains("narad-1, not of narad-3")), "{met:?}");
    let call = cluster.two.call(NodeId(3), &heartbeat(1), PATIENCE).await;
    assert_eq!(call, Err(CallError::Unreachable));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_another_cluster_is_refused() {
    let cluster = Cluster::start().await;
    // One authority for several clusters: both trust it.
    let other = Set::of("test");
    cluster.set.trust(&other);
    other.trust(&cluster.set);
    let world = Arc::new(World::default());
    let own = Node::start_with(&world, 1, with(cluster.set.node("narad-1")), None).await;
    let _own = own.echo();
    let three = Node::start_with(&world, 3, with(other.node("narad-3")), None).await;
    let met = within("a refusal", three.transport.meet(&world.where_is(ONE))).await;
    assert!(met.as_ref().is_err_and(|told| told.contains("cluster prod")), "{met:?}");
    let call = three.transport.call(ONE, &heartbeat(7), PATIENCE).await;
    assert_eq!(call, Err(CallError::Unreachable));
    cluster.goes_on().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_outside_its_time_is_refused() {
    let cluster = Cluster::start().await;
    for (validity, what) in [(past(), What::Expired), (future(), What::NotYetValid)] {
        let files = cluster.set.issue(&Who::Node(name("narad-3")), validity);
        let told = cluster.refuses(with(Tls::open(files).unwrap())).await;
        // There is an alert for the one, and a general one for the other.
        let expected = Fault { is_told: true, what: What::Expired }.to_string();
        assert!(told == expected || what == What::NotYetValid, "{told}");
        let _three = Node::start_with(
            &cluster.world,
            3,
            with(Tls::open(cluster.set.files("narad-3")).unwrap()),
            None,
        )
        .await;
        let met = within("a refusal", cluster.two.meet(&cluster.world.where_is(NodeId(3)))).await;
        assert_eq!(met, Err(Fault { is_told: false, what }.to_string()));
    }
}

/// Who joins as a name holds that name's certificate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joiner_gets_only_the_name_of_its_certificate() {
    let (world, set) = (Arc::new(World::default()), Set::of("prod"));
    let refused = Tally::default();
    let counted = Settings { refused: refused.clone(), ..with(set.node("narad-1")) };
    let mut one = Node::start_with(&world, 1, counted, None).await;
    let address = world.where_is(ONE);
    let joiner = Joiner { cluster: None, store_uuid: StoreUuid(9) };
    // The request asks for narad-9.
    let ask =
        async |tls: Option<&Tls>| join(&address, joiner, &join_request(), PATIENCE, tls).await;
    let (wrong, right) = (set.node("narad-8"), set.node("narad-9"));
    // Whoever is mistaken is told about what, and it is counted.
    let told = ask(Some(&wrong)).await.expect_err("it was let in").to_string();
    assert!(told.contains("of node narad-8, not of narad-9"), "{told}");
    is_counted(&refused, "wrong_node").await;
    assert_eq!(ask(None).await, Err(CallError::Tls(Fault { is_told: false, what: What::NotTls })));
    let stranger = Set::of("prod");
    stranger.trust(&set);
    let told = Fault { is_told: true, what: What::UnknownAuthority };
    assert_eq!(ask(Some(&stranger.node("narad-9"))).await, Err(CallError::Tls(told)));
    assert!(one.seen.try_recv().is_err(), "a joiner was heard");
    is_counted(&refused, "unknown_authority").await;
    is_counted(&refused, "not_tls").await;
    let joined = Answer::Joined { node: NodeId(9), peers: Vec::new(), policy: Policy::default() };
    let (answer, ()) = tokio::join!(ask(Some(&right)), async {
        let (from, request, reply) = one.is_asked().await;
        assert!(from.is_none() && matches!(request, Request::Join { .. }));
        reply.send(&joined);
    });
    assert_eq!(answer.unwrap().answer, joined);
}

/// A node that has just joined does not know who is called what; as soon as it does, it asks again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_learned_later_is_checked_then() {
    let (world, set) = (Arc::new(World::default()), Set::of("prod"));
    let one = Node::start_with(&world, 1, with(set.node("narad-1")), None).await.echo();
    let two = Node::start_with(&world, 2, with(set.node("narad-3")), None).await.echo();
    reaches(&two, ONE, 1).await;
    world.call(ONE, "narad-1");
    reaches(&two, ONE, 2).await;
    world.call(TWO, "narad-2");
    let lost = two.call(ONE, &heartbeat(3), PATIENCE).await;
    assert_eq!(lost, Err(CallError::Closed));
    assert_eq!(one.call(TWO, &heartbeat(3), PATIENCE).await, Err(CallError::Unreachable));
}

/// Certificates are replaced without a restart: the connections that stand go on, and the next ones
/// show the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_certificate_is_used_for_the_next_connection() {
    let cluster = Cluster::start().await;
    let files = cluster.set.issue(&Who::Node(name("narad-3")), past());
    let tls = Tls::open(files.clone()).unwrap();
    assert_eq!(tls.reload(), Ok(false));
    let three = Node::start_with(&cluster.world, 3, with(tls.clone()), None).await;
    let address = cluster.world.where_is(ONE);
    assert!(three.transport.meet(&address).await.is_err());
    cluster.set.issue(&Who::Node(name("narad-3")), Validity::days(1));
    assert_eq!(tls.reload(), Ok(true));
    assert_eq!(three.transport.meet(&address).await, Ok(ONE));
    reaches(&three.transport, ONE, 5).await;
    // Half of a file, another node's, and the key of another: what is used is used further.
    let good = std::fs::read(&files.cert).unwrap();
    std::fs::write(&files.cert, &good[..good.len() / 2]).unwrap();
    assert!(tls.reload().is_err());
    let other = cluster.set.issue(&Who::Node(name("narad-4")), Validity::days(1));
    std::fs::copy(&other.cert, &files.cert).unwrap();
    assert!(tls.reload().is_err());
    std::fs::copy(&other.key, &files.key).unwrap();
    assert!(tls.reload().unwrap_err().to_string().contains("narad-4"));
    assert_eq!(three.transport.call(ONE, &heartbeat(6), PATIENCE).await, Ok(echoed(6)));
    assert_eq!(three.transport.meet(&address).await, Ok(ONE));
    cluster.goes_on().await;
}

/// 10,000 half-open connections. They push out one another; who has shown its
/// certificate is not harmed, and who comes with one gets in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_half_open_handshakes_harms_nobody() {
    const FLOOD: usize = 10_000;
    const HELD: usize = 500;
    let cluster = Cluster::start().await;
    let address = cluster.world.where_is(ONE);
    // The first bytes of a greeting of TLS, and then silence.
    let begun = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc];
    let mut held = std::collections::VecDeque::new();
    for i in 0..FLOOD {
        let mut raw = Raw::dial(&address).await;
        raw.write(&begun[..i % begun.len()]).await;
        held.push_back(raw);
        if held.len() > HELD {
            held.pop_front();
        }
        if i % 1000 == 0 {
            cluster.goes_on().await;
        }
    }
    cluster.goes_on().await;
    let three = Node::start_with(&cluster.world, 3, with(cluster.set.node("narad-3")), None).await;
    reaches(&three.transport, ONE, 5).await;
    let mut oldest = held.pop_front().expect("some are held");
    assert!(oldest.is_closed().await, "it made no room");
}

/// A handshake that stands still ends in time, wherever it does so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_that_stands_still_ends_in_time() {
    let (world, set) = (Arc::new(World::default()), Set::of("prod"));
    let settings =
        Settings { handshake_timeout: Duration::from_millis(100), ..with(set.node("narad-1")) };
    let _one = Node::start_with(&world, 1, settings, None).await.echo();
    for begun in [&[][..], &[0x16], &[0x16, 3, 1, 2, 0]] {
        let mut raw = Raw::dial(&world.where_is(ONE)).await;
        raw.write(begun).await;
        assert!(raw.is_closed().await, "after {begun:?}");
    }
    let two = Node::start_with(&world, 2, with(set.node("narad-2")), None).await.echo();
    reaches(&two, ONE, 1).await;
}

/// Waits until a refusal is counted, which may be after whoever was refused has heard of it.
async fn is_counted(refused: &Tally, reason: &'static str) {
    let counted = async {
        while !refused.all().contains_key(&("peer", reason)) {
            tokio::task::yield_now().await;
        }
    };
    within("a refusal that is counted", counted).await;
    assert_eq!(refused.all().get(&("peer", reason)), Some(&1));
}
