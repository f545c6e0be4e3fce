//! Reading all partitions of a topic, wherever they go, without taking anything from anybody.

use std::collections::BTreeMap;

use narad_core::ids::Offset;
use narad_runtime::client::{ClientError, Reader, ReaderOptions, StartAt};

use crate::fake::{Cluster, record};

fn to_the_end() -> ReaderOptions {
    ReaderOptions { follow: false, ..ReaderOptions::default() }
}

/// Reads to the end; returns the values by partition.
async fn drain(reader: &mut Reader) -> BTreeMap<u32, Vec<String>> {
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    while let Some(stretch) = reader.next().await.expect("reachable") {
        let values = stretch.records.iter().map(|(_, record)| record.value.to_vec());
        let values = values.map(|value| String::from_utf8(value).expect("text"));
        found.entry(stretch.partition).or_default().extend(values);
    }
    found
}

/// R50: reading begins where consumers stand, or anywhere else, and changes nothing.
#[tokio::test]
async fn all_partitions_are_read_to_their_end() {
    let cluster = Cluster::new();
    let (a, _b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["a", "b", "b"]);
    for partition in 0..2 {
        cluster.partition("orders", partition, |row| {
            row.records = ["1", "2", "3"].map(record).into();
            row.committed = (partition == 1).then_some(1);
        });
    }
    let read = async |options: ReaderOptions| {
        let mut reader = a.client().reader("orders", options).await.expect("a topic");
        drain(&mut reader).await
    };
    for _ in 0..2 {
        let found = read(to_the_end()).await;
        assert_eq!(found.len(), 2);
        assert_eq!(
            (&found[&0][..], &found[&1][..]),
            (&["1", "2", "3"].map(String::from)[..], &["2", "3"].map(String::from)[..])
        );
    }
    let beginning = ReaderOptions { start: StartAt::Beginning, ..to_the_end() };
    assert_eq!(read(beginning).await[&1], ["1", "2", "3"]);
    let one =
        ReaderOptions { start: StartAt::Offset(Offset(2)), partition: Some(0), ..to_the_end() };
    assert_eq!(read(one).await, BTreeMap::from([(0, vec!["3".to_owned()])]));
    let none = ReaderOptions { partition: Some(3), ..to_the_end() };
    let error = a.client().reader("orders", none).await.expect_err("there is none");
    assert_eq!(error, ClientError::NoSuchPartition { partition: 3, partitions: 3 });
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), None);
}

/// R49: after a flip, reading goes on at the new owner.
#[tokio::test]
async fn a_partition_that_changes_hands_is_read_on() {
    let cluster = Cluster::new();
    let (a, _b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["a"]);
    cluster.partition("orders", 0, |row| row.records = vec![record("1")]);
    let options = ReaderOptions::default();
    let mut reader = a.client().reader("orders", options).await.expect("a topic");
    let first = reader.next().await.expect("reachable").expect("records");
    cluster.partition("orders", 0, |row| {
        row.owner = "b".into();
        row.epoch = 2;
        row.records.push(record("2"));
    });
    let second = reader.next().await.expect("reachable").expect("records");
    assert_eq!((first.epoch.0, second.epoch.0), (1, 2));
    assert_eq!(second.records, [(Offset(1), record("2"))]);
}

#[tokio::test]
async fn a_follower_sees_records_that_come_later() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let options = ReaderOptions::default();
    let mut reader = a.client().reader("orders", options).await.expect("a topic");
    // It has looked, and there was nothing.
    cluster.until(|state| state.topics["orders"].1[0].fetches > 0).await;
    cluster.partition("orders", 0, |row| row.records.push(record("late")));
    let stretch = reader.next().await.expect("reachable").expect("records");
    assert_eq!(&stretch.records[0].1.value[..], b"late");
}

#[tokio::test]
async fn a_topic_that_goes_away_ends_reading_with_an_error() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let options = ReaderOptions::default();
    let mut reader = a.client().reader("orders", options.clone()).await.expect("a topic");
    cluster.change(|state| state.topics.clear());
    let error = reader.next().await.expect_err("gone");
    assert_eq!(error.code(), Some("unknown_topic"));
    let error = a.client().reader("orders", options).await.expect_err("gone");
    assert_eq!(error.code(), Some("unknown_topic"));
}

#[tokio::test]
async fn a_partition_that_stays_out_of_reach_ends_reading_if_told_so() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["b"]);
    b.stop().await;
    let options = ReaderOptions {
        unavailable_max: Some(std::time::Duration::from_millis(30)),
        ..to_the_end()
    };
    let mut reader = a.client().reader("orders", options).await.expect("a topic");
    assert!(reader.next().await.expect_err("out of reach").is_retryable());
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
    let options = ReaderOptions { fetches_max: 3, ..to_the_end() };
    let mut reader = a.client().reader("orders", options).await.expect("a topic");
    assert_eq!(drain(&mut reader).await.len(), 40);
}
