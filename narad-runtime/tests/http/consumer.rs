//! Working on all partitions of a topic, wherever they go.

use std::collections::BTreeMap;
use std::time::Duration;

use narad_core::ids::Delivery as Count;
use narad_runtime::client::{Consumer, ConsumerOptions, Delivery};
use narad_runtime::service::{Settle, Ticket};

use crate::fake::{Cluster, Running, record};

const HOUR: Duration = Duration::from_hours(1);

fn to_the_end() -> ConsumerOptions {
    ConsumerOptions { follow: false, visibility: HOUR, ..ConsumerOptions::default() }
}

fn following() -> ConsumerOptions {
    ConsumerOptions { visibility: HOUR, ..ConsumerOptions::default() }
}

async fn consumer(node: &Running, options: ConsumerOptions) -> Consumer {
    node.client().consumer("orders", options).await.expect("a topic")
}

async fn next(consumer: &mut Consumer) -> Delivery {
    consumer.next().await.expect("reachable").expect("records")
}

fn values(delivery: &Delivery) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    delivery.records.iter().map(|one| text(&one.record.value)).collect()
}

/// What became of tickets, without their messages.
async fn codes(consumer: &Consumer, tickets: impl IntoIterator<Item = Ticket>) -> Vec<String> {
    let settled = consumer.ack(tickets).await.expect("reachable");
    settled.into_iter().map(|view| view.code).collect()
}

/// Works to the end, acknowledging everything; returns the values by partition.
async fn drain(consumer: &mut Consumer) -> BTreeMap<u32, Vec<String>> {
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    while let Some(delivery) = consumer.next().await.expect("reachable") {
        found.entry(delivery.partition).or_default().extend(values(&delivery));
        assert!(codes(consumer, delivery.tickets()).await.iter().all(|code| code == "acked"));
    }
    found
}

/// R50, R53.
#[tokio::test]
async fn all_partitions_are_worked_off_and_acknowledged() {
    let cluster = Cluster::new();
    let (a, _b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["a", "b", "b"]);
    for partition in 0..2 {
        cluster.partition("orders", partition, |row| {
            row.records = ["1", "2", "3"].map(record).into();
            row.committed = (partition == 1).then_some(1);
        });
    }
    let options = ConsumerOptions { records_max: 2, ..to_the_end() };
    let found = drain(&mut consumer(&a, options).await).await;
    assert_eq!(found.len(), 2);
    assert_eq!((found[&0].len(), found[&1].len()), (3, 2));
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), Some(3));
    assert!(drain(&mut consumer(&a, to_the_end()).await).await.is_empty());
}

/// R49, R51: after a flip, work goes on at the new owner; what was in flight comes again there, and
/// its old handles still count where the records are the same.
#[tokio::test]
async fn a_partition_that_changes_hands_is_followed() {
    let cluster = Cluster::new();
    let (a, _b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["a"]);
    cluster.partition("orders", 0, |row| row.records = ["1", "2", "3", "4"].map(record).into());
    let mut consumer = consumer(&a, following()).await;
    let first = next(&mut consumer).await;
    assert_eq!(values(&first), ["1", "2", "3", "4"]);
    let [one, two, three, _] = first.tickets().collect::<Vec<_>>()[..] else { panic!("four") };
    assert_eq!(codes(&consumer, [one]).await, ["acked"]);
    // It moves before the rest is acknowledged; the copy ends in other records.
    cluster.partition("orders", 0, |row| {
        row.owner = "b".into();
        row.epoch = 2;
        row.reign_starts.insert(2, 2);
        row.records.truncate(2);
        row.records.push(record("other"));
    });
    assert_eq!(
        codes(&consumer, [one, two, three]).await,
        ["already_acked", "acked", "other_epoch"]
    );
    // The second record may have been handed out again just before.
    let second = next(&mut consumer).await;
    assert_eq!((values(&second).pop().as_deref(), second.epoch.0), (Some("other"), 2));
    let last = second.tickets().last();
    assert_eq!(codes(&consumer, last).await, ["acked"]);
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), Some(3));
}

#[tokio::test]
async fn what_is_handed_back_comes_again() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    cluster.partition("orders", 0, |row| row.records = vec![record("x")]);
    let mut consumer = consumer(&a, following()).await;
    let first = next(&mut consumer).await;
    let kept = consumer.extend(first.tickets(), 2 * HOUR).await.expect("reachable");
    assert_eq!((kept[0].code.as_str(), kept[0].visibility_ms), ("extended", Some(7_200_000)));
    let back = consumer.nack(first.tickets(), Duration::ZERO).await.expect("reachable");
    assert_eq!(back[0].code, "nacked");
    let again = next(&mut consumer).await;
    assert_eq!((values(&again), again.records[0].delivery), (values(&first), Count(2)));
    assert_eq!(codes(&consumer, first.tickets()).await, ["superseded"]);
    assert_eq!(codes(&consumer, again.tickets()).await, ["acked"]);
}

/// Two consumers share a topic: everything is worked on once.
#[tokio::test]
async fn two_consumers_share_a_topic() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a", "a"]);
    for partition in 0..2 {
        let many = (0..20).map(|number: u32| record(&number.to_string()));
        cluster.partition("orders", partition, |row| row.records = many.collect());
    }
    let options = ConsumerOptions { records_max: 3, ..to_the_end() };
    let (mut one, mut other) = (consumer(&a, options.clone()).await, consumer(&a, options).await);
    let (one, other) = tokio::join!(drain(&mut one), drain(&mut other));
    let mut all: Vec<(u32, String)> = [one, other]
        .into_iter()
        .flatten()
        .flat_map(|(partition, values)| values.into_iter().map(move |value| (partition, value)))
        .collect();
    assert_eq!(all.len(), 40);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 40, "each once");
}

/// Nothing is fetched before somebody asks, so one who has enough keeps nothing from others.
#[tokio::test]
async fn nothing_is_fetched_unless_it_is_asked_for() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    cluster.partition("orders", 0, |row| row.records = ["1", "2", "3"].map(record).into());
    let mut first = consumer(&a, ConsumerOptions { records_max: 1, ..following() }).await;
    assert_eq!(values(&next(&mut first).await), ["1"]);
    let mut second = consumer(&a, to_the_end()).await;
    let rest = next(&mut second).await;
    assert_eq!((values(&rest), rest.records[0].delivery), (vec!["2".into(), "3".into()], Count(1)));
}

/// What another partition had at the same time waits for the consumer, however slow that is; one that
/// closes hands it back, and one that only gives up waiting loses nothing.
#[tokio::test]
async fn what_was_fetched_ahead_is_kept_and_handed_back_at_the_end() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a", "a"]);
    for partition in 0..2 {
        cluster.partition("orders", partition, |row| row.records = vec![record("x")]);
    }
    let visibility = Duration::from_millis(90);
    let mut slow = consumer(&a, ConsumerOptions { visibility, ..following() }).await;
    tokio::select! {
        biased;
        _ = slow.next() => panic!("it has not even begun"),
        () = std::future::ready(()) => {}
    }
    let first = next(&mut slow).await;
    // Nobody asks for the other, and it is kept; the clock of the cluster stands still meanwhile.
    cluster.until(|state| state.extended >= 2).await;
    slow.close().await;
    let mut other = consumer(&a, to_the_end()).await;
    let again = next(&mut other).await;
    assert_ne!(again.partition, first.partition);
    assert_eq!(codes(&other, again.tickets()).await, ["acked"]);
}

#[tokio::test]
async fn a_follower_gets_records_that_come_later() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let mut consumer = consumer(&a, following()).await;
    // It has looked, and there was nothing.
    let later = async {
        cluster.until(|state| state.topics["orders"].1[0].fetches > 0).await;
        cluster.partition("orders", 0, |row| row.records.push(record("late")));
    };
    let (delivery, ()) = tokio::join!(next(&mut consumer), later);
    assert_eq!(values(&delivery), ["late"]);
}

#[tokio::test]
async fn a_topic_that_goes_away_ends_the_work_with_an_error() {
    let cluster = Cluster::new();
    let a = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let mut working = consumer(&a, following()).await;
    cluster.change(|state| state.topics.clear());
    let error = working.next().await.expect_err("gone");
    assert_eq!(error.code(), Some("unknown_topic"));
    let error = a.client().consumer("orders", following()).await.expect_err("gone");
    assert_eq!(error.code(), Some("unknown_topic"));
    let settled = a.client().settle("orders", Vec::new(), Settle::Ack).await;
    assert_eq!(settled, Ok(Vec::new()), "nothing to do");
}

#[tokio::test]
async fn a_partition_that_stays_out_of_reach_ends_the_work_if_told_so() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.start("a").await, cluster.start("b").await);
    cluster.topic("orders", &["b"]);
    b.stop().await;
    let options =
        ConsumerOptions { unavailable_max: Some(Duration::from_millis(30)), ..to_the_end() };
    let mut consumer = consumer(&a, options).await;
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
    let options = ConsumerOptions { requests_max: 3, ..to_the_end() };
    assert_eq!(drain(&mut consumer(&a, options).await).await.len(), 40);
}
