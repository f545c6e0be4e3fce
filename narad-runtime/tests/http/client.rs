//! The client against nodes that move, freeze, die and lose answers.

use std::time::Duration;

use narad_runtime::client::{
    Ack, Client, ClientError, ClientOptions, Placement, Producer, ProducerOptions, SendError,
};
use narad_runtime::service::{Read, ServiceError};

use crate::fake::{Cluster, Fault, record};

async fn send(producer: &Producer, placement: Placement, value: &str) -> (u32, u32) {
    let delivered = producer.send(placement, &[record(value)]).await.expect("acknowledged");
    (delivered.placed.expect("the owner says").partition, delivered.attempts)
}

/// Of a producer that waits for the owner's word.
fn by_owner() -> ProducerOptions {
    ProducerOptions { ack: Ack::Owner, ..ProducerOptions::default() }
}

/// R36, R49.
#[tokio::test]
async fn a_batch_follows_its_partition_to_the_new_owner() {
    let cluster = Cluster::new();
    let (a, _b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["a"]);
    let producer = a.client().producer("orders", by_owner());
    assert_eq!(send(&producer, Placement::Pinned(0), "1").await, (0, 1));
    cluster.partition("orders", 0, |row| row.owner = "b".into());
    assert_eq!(send(&producer, Placement::Pinned(0), "2").await, (0, 2));
    // And remembers where it is.
    assert_eq!(send(&producer, Placement::Pinned(0), "3").await, (0, 1));
    assert_eq!(cluster.values("orders", 0), ["1", "2", "3"]);
    let totals = producer.totals();
    assert_eq!((totals.records_acknowledged, totals.retries, totals.reroutes), (3, 1, 1));
}

/// R45, R46, R47.
#[tokio::test]
async fn a_frozen_partitions_records_go_to_a_sibling_unless_they_are_pinned() {
    let cluster = Cluster::new();
    let (a, _b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["a", "b"]);
    cluster.partition("orders", 0, |row| row.frozen = true);
    let producer = a.client().producer("orders", by_owner());
    assert_eq!(send(&producer, Placement::Prefer(0), "keyed").await, (1, 2));
    for _ in 0..2 {
        assert_eq!(send(&producer, Placement::Any, "any").await.0, 1);
    }
    let refuse = Fault::Refuse(ServiceError::Frozen);
    cluster.partition("orders", 0, |row| row.frozen = false);
    cluster.change(|state| state.faults = vec![refuse; 3].into());
    assert_eq!(send(&producer, Placement::Pinned(0), "pinned").await, (0, 4));
    assert_eq!(cluster.values("orders", 0), ["pinned"]);
}

/// Every refusal that may pass is waited out.
#[tokio::test]
async fn refusals_that_pass_are_waited_out() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let producer = a.client().producer("orders", by_owner());
    let passing = [
        ServiceError::NoLease,
        ServiceError::NotServing,
        ServiceError::Busy,
        ServiceError::DiskFull,
        ServiceError::NotOwner { owner: None },
        ServiceError::NotOwner { owner: Some(a.addr.clone()) },
        ServiceError::NotOwner { owner: Some("no address".into()) },
        ServiceError::UnknownTopic("orders".into()),
    ];
    for cause in passing {
        cluster.change(|state| state.faults = [Fault::Refuse(cause.clone())].into());
        assert_eq!(send(&producer, Placement::Any, "x").await, (0, 2), "{cause:?}");
    }
}

#[tokio::test]
async fn a_node_that_is_down_is_worked_around() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["a", "b"]);
    let options = ClientOptions { avoid_for: Duration::from_hours(1), ..ClientOptions::default() };
    let client = a.client_with(options);
    let producer = client.producer("orders", by_owner());
    assert_eq!(send(&producer, Placement::Pinned(1), "1").await, (1, 1));
    b.stop().await;
    assert_eq!(send(&producer, Placement::Prefer(1), "2").await, (0, 2));
    // It is not tried again and again while others can do it.
    assert_eq!(send(&producer, Placement::Prefer(1), "2").await, (0, 1));
    // With the seed gone, what was learned of the others remains.
    let b = cluster.start("b").await;
    cluster.partition("orders", 0, |row| row.owner = "b".into());
    assert_eq!(send(&producer, Placement::Any, "3").await.0, 0);
    a.stop().await;
    cluster.partition("orders", 1, |row| row.epoch = 2);
    assert_eq!(send(&producer, Placement::Pinned(1), "4").await.0, 1);
    assert!(matches!(client.members(Read::Stale).await, Err(ClientError::Unreachable { .. })));
    drop(b);
}

/// R39, R53: at least once.
#[tokio::test]
async fn a_batch_whose_answer_is_lost_is_sent_again() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let options = ClientOptions {
        request_timeout: Duration::from_millis(100),
        retry_min: Duration::from_millis(1),
        ..ClientOptions::default()
    };
    let producer = a.client_with(options).producer("orders", by_owner());
    assert_eq!(send(&producer, Placement::Any, "0").await, (0, 1));
    cluster.change(|state| state.faults = [Fault::WriteAndHang].into());
    assert_eq!(send(&producer, Placement::Any, "1").await, (0, 2));
    assert_eq!(cluster.values("orders", 0), ["0", "1", "1"]);
    assert_eq!(producer.totals().unknown_outcomes, 1);
}

#[tokio::test]
async fn a_batch_that_is_given_up_says_whether_it_may_be_there() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let hasty = ProducerOptions { deliver_timeout: Duration::from_secs(1), ..by_owner() };
    // The time runs out in the pause after the first refusal, so nothing is on its way by then.
    let options = ClientOptions {
        retry_min: Duration::from_mins(1),
        retry_max: Duration::from_mins(1),
        ..ClientOptions::default()
    };
    let producer = a.client_with(options).producer("orders", hasty);
    cluster.partition("orders", 0, |row| row.frozen = true);
    let error = producer.send(Placement::Any, &[record("x")]).await.expect_err("frozen");
    assert!(
        matches!(&error, SendError::GaveUp { maybe_written: false, attempts: 1, last } if last.contains("about to move")),
        "{error:?}"
    );
    cluster.partition("orders", 0, |row| row.frozen = false);
    cluster.change(|state| state.faults = [Fault::WriteAndHang].into());
    let error = producer.send(Placement::Any, &[record("x")]).await.expect_err("hangs");
    assert!(matches!(error, SendError::GaveUp { maybe_written: true, .. }), "{error:?}");
}

#[tokio::test]
async fn what_no_retry_changes_is_said_at_once() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let client = a.client();
    let nowhere = client.producer("nothing", by_owner());
    let error = nowhere.send(Placement::Any, &[record("x")]).await.expect_err("no topic");
    assert!(matches!(&error, SendError::Refused(cause) if cause.code() == Some("unknown_topic")));
    let producer = client.producer("orders", by_owner());
    let error =
        producer.send(Placement::Pinned(1), &[record("x")]).await.expect_err("no partition");
    let expected = ClientError::NoSuchPartition { partition: 1, partitions: 1 };
    assert_eq!(error, SendError::Refused(expected));
    let long = record(&"x".repeat((1 << 20) + 1));
    let error = producer.send(Placement::Any, &[long]).await.expect_err("too long");
    assert!(matches!(&error, SendError::Refused(cause) if cause.code() == Some("too_large")));
}

#[tokio::test]
async fn no_more_batches_are_under_way_than_allowed() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    cluster.change(|state| state.gate_shut = true);
    let two = ProducerOptions { in_flight_max: 2, ..by_owner() };
    let producer = std::sync::Arc::new(a.client().producer("orders", two));
    let mut sends = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let producer = producer.clone();
        sends.spawn(async move { producer.send(Placement::Any, &[record("x")]).await });
    }
    cluster.until(|state| state.producing == 2).await;
    cluster.change(|state| state.gate_shut = false);
    while let Some(sent) = sends.join_next().await {
        sent.expect("no panic").expect("acknowledged");
    }
    assert_eq!(cluster.state().producing_max, 2);
    assert_eq!(producer.totals().records_acknowledged, 8);
}

#[tokio::test]
async fn addresses_are_tried_in_turn() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.start("a").await, cluster.start("b").await);
    let seeds = [&a, &b].map(|node| node.addr.parse().expect("an address")).to_vec();
    let client = Client::new(seeds, ClientOptions::default());
    a.stop().await;
    assert_eq!(client.topics(Read::Barrier).await, Ok(Vec::new()));
    cluster.change(|state| state.leaderless = true);
    let error = client.topics(Read::Barrier).await.expect_err("no leader");
    assert_eq!(error.code(), Some("no_leader"));
}

#[tokio::test]
async fn whatever_else_listens_there_is_told_apart() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let addr = listener.local_addr().expect("bound");
    let other = axum::Router::new().fallback(|| async { "hello" });
    tokio::spawn(async move { axum::serve(listener, other).await });
    let seed = addr.to_string().parse().expect("an address");
    let client = Client::new(vec![seed], ClientOptions::default());
    let error = client.members(Read::Barrier).await.expect_err("no node");
    assert!(matches!(error, ClientError::BadAnswer { .. }), "{error:?}");
}

/// R43, R46: a batch that is to be accepted goes to whichever node takes it: not to one that is full
/// or leaves, and past one that is down.
#[tokio::test]
async fn a_batch_is_accepted_by_whoever_takes_it() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["a", "b"]);
    let producer = a.client().producer("orders", ProducerOptions::default());
    let batch = [record("x")];
    let sent = producer.send(Placement::Pinned(1), &batch).await.expect("accepted");
    assert_eq!((sent.placed, sent.attempts), (None, 1));
    assert_eq!(cluster.values("orders", 1), ["x"]);
    let retry_after = Duration::from_secs(1);
    let faults = [ServiceError::Full { retry_after }, ServiceError::Draining];
    cluster.change(|state| state.faults = faults.map(Fault::Refuse).into());
    let sent = producer.send(Placement::Pinned(1), &batch).await.expect("accepted");
    assert_eq!(sent.attempts, 3);
    drop(b);
    for partition in 0..2 {
        let sent = producer.send(Placement::Pinned(partition), &batch).await.expect("accepted");
        assert_eq!(sent.endpoint.to_string(), a.addr);
    }
    assert_eq!(cluster.values("orders", 1), ["x"; 3]);
}

/// What can never be accepted is said at once, and what was not is given up after a while.
#[tokio::test]
async fn what_nobody_accepts_ends_with_a_reason() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let hasty =
        ProducerOptions { deliver_timeout: Duration::from_secs(1), ..ProducerOptions::default() };
    let producer = a.client().producer("orders", hasty.clone());
    let error = producer.send(Placement::Pinned(1), &[record("x")]).await.expect_err("no such");
    let none = ClientError::NoSuchPartition { partition: 1, partitions: 1 };
    assert_eq!(error, SendError::Refused(none));
    let nowhere = a.client().producer("nothing", hasty);
    let error = nowhere.send(Placement::Any, &[record("x")]).await.expect_err("no topic");
    let SendError::Refused(error) = error else { panic!("{error:?}") };
    assert_eq!(error.code(), Some("unknown_topic"));
    cluster.change(|state| state.faults = vec![Fault::Refuse(ServiceError::Draining); 999].into());
    // The time is up in a pause, so that no attempt is cut off by it.
    let pause = Duration::from_secs(20);
    let slow = ClientOptions { retry_min: pause, retry_max: pause, ..ClientOptions::default() };
    let hasty =
        ProducerOptions { deliver_timeout: Duration::from_secs(2), ..ProducerOptions::default() };
    let producer = a.client_with(slow).producer("orders", hasty);
    let error = producer.send(Placement::Any, &[record("x")]).await.expect_err("draining");
    let SendError::GaveUp { maybe_written: false, last, .. } = error else { panic!("{error:?}") };
    assert!(last.contains("decommissioned"), "{last}");
    assert!(cluster.values("orders", 0).is_empty());
}

/// Whoever looks on can tell what is waited for, and at whom, while it is tried again.
#[tokio::test]
async fn what_is_waited_for_can_be_seen() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a", "b"]);
    cluster.change(|state| drop(state.addrs.insert("b".into(), "127.0.0.1:1".into())));
    let (owner, any) = (by_owner(), ProducerOptions::default());
    for (options, fault, partition, why) in [
        (owner, None, 1, "its owner, 127.0.0.1:1, cannot be reached"),
        (any, Some(ServiceError::DiskFull), 0, "the node's disk is full"),
    ] {
        let faults = fault.into_iter().map(Fault::Refuse).cycle().take(999);
        cluster.change(|state| state.faults = faults.collect());
        let producer = a.client().producer("orders", options);
        assert_eq!(producer.waiting(), []);
        let batch = [record("x")];
        let sending = producer.send(Placement::Pinned(partition), &batch);
        let seen = async {
            loop {
                if let [waiting] = &producer.waiting()[..]
                    && waiting.why.contains(why)
                {
                    assert_eq!(waiting.partition, Some(partition));
                    break;
                }
                tokio::task::yield_now().await;
            }
            cluster.change(|state| state.faults.clear());
            cluster.partition("orders", 1, |row| row.owner = "a".into());
        };
        let (sent, ()) = tokio::join!(sending, seen);
        sent.expect("it goes on");
        assert_eq!(producer.waiting(), []);
    }
}
