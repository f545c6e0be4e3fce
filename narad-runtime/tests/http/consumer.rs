//! Reading all partitions of a topic, wherever they go.

use std::collections::BTreeMap;

use narad_runtime::client::{AckOutcome, Consumer, ConsumerOptions, StartAt};

use crate::fake::{Cluster, record};

fn to_the_end() -> ConsumerOptions {
    ConsumerOptions { follow: false, ..ConsumerOptions::default() }
}

/// Reads to the end, acknowledging everything; returns the values by partition.
async fn drain(consumer: &mut Consumer) -> BTreeMap<u32, Vec<String>> {
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    while let Some(delivery) = consumer.next().await.expect("reachable") {
        let values = delivery.records.iter().map(|(_, record)| record.value.to_vec());
        let values = values.map(|value| String::from_utf8(value).expect("text"));
        found.entry(delivery.partition).or_default().extend(values);
        let outcome = consumer.ack(delivery.partition, delivery.epoch, delivery.next).await;
        assert_eq!(outcome, Ok(AckOutcome::Acknowledged));
    }
    found
}

/// R50, R53.
#[tokio::test]
async fn all_partitions_are_read_to_their_end_and_acknowledged() {
    let cluster = Cluster::new();
    let (a, _b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["a", "b", "b"]);
    for partition in 0..2 {
        cluster.partition("orders", partition, |row| {
            row.records = ["1", "2", "3"].map(record).into();
            row.committed = (partition == 1).then_some(1);
        });
    }
    let mut consumer = a.client().consumer("orders", to_the_end()).await.expect("a topic");
    let expected = [(0, vec!["1", "2", "3"]), (1, vec!["2", "3"])];
    let found = drain(&mut consumer).await;
    assert_eq!(found.len(), 2);
    for (partition, values) in expected {
        assert_eq!(found[&partition], values);
    }
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), Some(3));
    let mut again = a.client().consumer("orders", to_the_end()).await.expect("a topic");
    assert!(drain(&mut again).await.is_empty());
    let beginning = ConsumerOptions { start: StartAt::Beginning, ..to_the_end() };
    let mut again = a.client().consumer("orders", beginning).await.expect("a topic");
    assert_eq!(drain(&mut again).await[&1], ["1", "2", "3"]);
}

/// R49, R51: after a flip, reading goes on at the new owner, from what is acknowledged.
#[tokio::test]
async fn a_partition_that_changes_hands_is_read_on_from_the_acknowledged_position() {
    let cluster = Cluster::new();
    let (a, _b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["a"]);
    cluster.partition("orders", 0, |row| row.records = ["1", "2", "3", "4"].map(record).into());
    let options = ConsumerOptions::default();
    let mut consumer = a.client().consumer("orders", options).await.expect("a topic");
    let first = consumer.next().await.expect("reachable").expect("records");
    consumer.ack(0, first.epoch, first.next).await.expect("acknowledged");
    let second = consumer.next().await.expect("reachable").expect("records");
    assert_eq!(second.records[0].0.0, 2);
    // It moves before the second delivery is acknowledged; the copy ends in other records.
    cluster.partition("orders", 0, |row| {
        row.owner = "b".into();
        row.epoch = 2;
        row.records.truncate(2);
        row.records.push(record("other"));
    });
    let outcome = consumer.ack(0, second.epoch, second.next).await;
    assert_eq!(outcome, Ok(AckOutcome::Superseded));
    let third = consumer.next().await.expect("reachable").expect("records");
    assert_eq!((third.records[0].0.0, &third.records[0].1.value[..]), (2, &b"other"[..]));
    assert_eq!(third.epoch.0, 2);
}

#[tokio::test]
async fn a_follower_sees_records_that_come_later() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let options = ConsumerOptions::default();
    let mut consumer = a.client().consumer("orders", options).await.expect("a topic");
    // It has looked, and there was nothing.
    cluster.until(|state| state.topics["orders"].1[0].fetches > 0).await;
    cluster.partition("orders", 0, |row| row.records.push(record("late")));
    let delivery = consumer.next().await.expect("reachable").expect("records");
    assert_eq!(&delivery.records[0].1.value[..], b"late");
}

#[tokio::test]
async fn a_topic_that_goes_away_ends_reading_with_an_error() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let options = ConsumerOptions::default();
    let mut consumer = a.client().consumer("orders", options.clone()).await.expect("a topic");
    cluster.change(|state| state.topics.clear());
    let error = consumer.next().await.expect_err("gone");
    assert_eq!(error.code(), Some("unknown_topic"));
    let error = a.client().consumer("orders", options).await.expect_err("gone");
    assert_eq!(error.code(), Some("unknown_topic"));
}

#[tokio::test]
async fn a_partition_that_stays_out_of_reach_ends_reading_if_told_so() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["b"]);
    b.stop().await;
    let options = ConsumerOptions {
        unavailable_max: Some(std::time::Duration::from_millis(30)),
        ..to_the_end()
    };
    let mut consumer = a.client().consumer("orders", options).await.expect("a topic");
    assert!(consumer.next().await.expect_err("out of reach").is_retryable());
}

/// More partitions than requests at once: all have their turn.
#[tokio::test]
async fn many_partitions_share_few_requests() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"; 40]);
    for partition in 0..40 {
        cluster.partition("orders", partition, |row| row.records.push(record("x")));
    }
    let options = ConsumerOptions { fetches_max: 3, ..to_the_end() };
    let mut consumer = a.client().consumer("orders", options).await.expect("a topic");
    assert_eq!(drain(&mut consumer).await.len(), 40);
}
