//! One order of records, the same for everybody.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use narad_core::ids::LogIndex;
use narad_runtime::embed::{DECISION_BYTES_MAX, Metastore};

use crate::server::Server;
use crate::{applied, reason, records, shown, soon};

/// Records have places from 1 on, a barrier knows the last one, and whoever watches is shown them from
/// where he says, whether they came before or after.
#[tokio::test]
async fn records_have_places_without_gaps() {
    let server = Server::start().await;
    let (one, other) = (server.metastore().await, server.metastore().await);
    assert_eq!(one.barrier().await, Some(LogIndex(0)));
    let mut early = other.watch(LogIndex(0)).await;
    for (place, record) in (1..).zip(["a", "", "c"]) {
        assert_eq!(applied(&one, record).await, LogIndex(place));
        assert_eq!(other.barrier().await, Some(LogIndex(place)), "no older than its call");
    }
    assert_eq!(applied(&other, "d").await, LogIndex(4));
    let all = ["a", "", "c", "d"].map(Bytes::from);
    assert_eq!(records(&one, 0, 4).await, all);
    assert_eq!(records(&other, 2, 4).await, all[2..]);
    for (place, record) in (1..).zip(&all) {
        assert_eq!(shown(&mut early).await, (LogIndex(place), record.clone()));
    }
    assert_eq!(one.head().await.unwrap(), LogIndex(4));
    assert!(one.trouble().is_none());
}

/// Two nodes that propose at once get one order: every record once, at the place that was answered.
#[tokio::test]
async fn writers_that_race_share_one_order() {
    const EACH: u64 = 150;
    let server = Server::start().await;
    let nodes = [server.metastore().await, server.metastore().await].map(Arc::new);
    let mut proposing = tokio::task::JoinSet::new();
    for (name, node) in nodes.iter().enumerate() {
        for number in 0..EACH {
            let node = Arc::clone(node);
            proposing.spawn(async move {
                let record = Bytes::from(format!("{name} {number}"));
                (applied(&node, record.clone()).await.0, record)
            });
        }
    }
    let mut answered = soon("all outcomes", proposing.join_all()).await;
    answered.sort();
    let places: Vec<_> = answered.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, (1..=2 * EACH).collect::<Vec<_>>());
    let answered: Vec<_> = answered.into_iter().map(|(_, record)| record).collect();
    for node in &nodes {
        assert_eq!(records(node, 0, 2 * EACH).await, answered);
    }
    let distinct: BTreeSet<_> = answered.iter().collect();
    assert_eq!(distinct.len(), answered.len());
}

/// Clusters in one etcd do not see one another.
#[tokio::test]
async fn prefixes_keep_clusters_apart() {
    let server = Server::start().await;
    let blue = server.builder("narad/blue").connect().await.unwrap();
    let green = server.builder("narad/green/").connect().await.unwrap();
    assert_eq!(applied(&blue, "blue").await, LogIndex(1));
    assert_eq!(green.barrier().await, Some(LogIndex(0)));
    assert_eq!(applied(&green, "green").await, LogIndex(1));
    assert_eq!(records(&green, 0, 1).await, ["green"]);
    assert!(server.value("narad/blue/head").await.unwrap().starts_with("narad/1 1 "));
}

/// Records up to the limit are taken, many of them at once; a longer one is rejected.
#[tokio::test]
async fn long_records_are_taken_up_to_the_limit() {
    let server = Server::start().await;
    let metastore = server.metastore().await;
    let longest = Bytes::from(vec![7; DECISION_BYTES_MAX]);
    let three = tokio::join!(
        applied(&metastore, longest.clone()),
        applied(&metastore, longest.clone()),
        applied(&metastore, "short")
    );
    let mut places = [three.0.0, three.1.0, three.2.0];
    places.sort_unstable();
    assert_eq!(places, [1, 2, 3]);
    let kept = records(&metastore, 0, 3).await;
    assert_eq!(kept.iter().filter(|record| **record == longest).count(), 2);
    let outcome = metastore.propose(Bytes::from(vec![7; DECISION_BYTES_MAX + 1])).await;
    assert!(reason(outcome).contains("at most 1048576 bytes"));
}

/// A watch may be asked for the next record again and again by somebody who does not wait: nothing is
/// lost.
#[tokio::test]
async fn a_watch_that_is_not_waited_for_loses_nothing() {
    let server = Server::start().await;
    let metastore = server.metastore().await;
    let mut watch = metastore.watch(LogIndex(0)).await;
    let proposing = async {
        for number in 0..50 {
            applied(&metastore, number.to_string()).await;
        }
    };
    let watching = async {
        let mut seen = Vec::new();
        while seen.len() < 50 {
            tokio::select! {
                biased;
                update = watch.next() => seen.push(update.unwrap().index().0),
                () = tokio::task::yield_now() => {}
            }
        }
        seen
    };
    let ((), seen) = soon("fifty records", async { tokio::join!(proposing, watching) }).await;
    assert_eq!(seen, (1..=50).collect::<Vec<_>>());
}
