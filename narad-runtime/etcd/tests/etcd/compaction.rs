//! Snapshots in the place of records, and revisions that etcd forgets.

use bytes::Bytes;
use narad_core::ids::LogIndex;
use narad_etcd::EtcdMetastore;
use narad_runtime::embed::{Metastore, Update};

use crate::proxy::Proxy;
use crate::server::Server;
use crate::{PATIENCE, applied, records, shown, soon};

async fn filled(metastore: &EtcdMetastore, records: u64) {
    for number in 1..=records {
        applied(metastore, number.to_string()).await;
    }
}

/// Longer than two parts, and no two of them are alike.
fn long_state(salt: usize) -> Bytes {
    (0..1_300_000_usize).map(|at| u8::try_from((at / 1000 + salt) % 251).unwrap()).collect()
}

/// A snapshot stands for the records up to its place, for whoever comes later or has fallen behind; and
/// only the newest one is kept.
#[tokio::test]
async fn a_snapshot_stands_for_what_it_holds() {
    let server = Server::start().await;
    let (one, other) = (server.metastore().await, server.metastore().await);
    filled(&one, 10).await;
    let mut behind = other.watch(LogIndex(0)).await;
    assert_eq!(shown(&mut behind).await.0, LogIndex(1));

    one.compact(LogIndex(6), long_state(1)).await;
    assert_eq!(server.count("narad/log/").await, 4);
    assert_eq!(server.count("narad/snapshot/").await, 3);
    let mut late = other.watch(LogIndex(3)).await;
    let snapshot = Update::Snapshot { index: LogIndex(6), state: long_state(1) };
    assert_eq!(soon("the snapshot", late.next()).await, Some(snapshot));
    assert_eq!(shown(&mut late).await, (LogIndex(7), "7".into()));
    assert_eq!(records(&other, 6, 10).await, ["7", "8", "9", "10"]);

    // Older offers, offers of what is not decided, and of nothing change nothing.
    for index in [0, 4, 6, 11] {
        other.compact(LogIndex(index), "none".into()).await;
    }
    assert_eq!(server.count("narad/log/").await, 4);
    other.compact(LogIndex(10), "short".into()).await;
    assert_eq!((server.count("narad/log/").await, server.count("narad/snapshot/").await), (0, 1));
    let mut last = one.watch(LogIndex(9)).await;
    let snapshot = Update::Snapshot { index: LogIndex(10), state: "short".into() };
    assert_eq!(soon("the snapshot", last.next()).await, Some(snapshot));
    assert_eq!(applied(&other, "11").await, LogIndex(11));
    assert_eq!(shown(&mut last).await, (LogIndex(11), "11".into()));
}

/// An empty snapshot is one.
#[tokio::test]
async fn a_snapshot_of_nothing_is_shown() {
    let server = Server::start().await;
    let metastore = server.metastore().await;
    filled(&metastore, 1).await;
    metastore.compact(LogIndex(1), Bytes::new()).await;
    let snapshot = Update::Snapshot { index: LogIndex(1), state: Bytes::new() };
    let mut watch = metastore.watch(LogIndex(0)).await;
    assert_eq!(soon("the snapshot", watch.next()).await, Some(snapshot));
}

/// All nodes offer at once: one snapshot is kept whole, whichever it is, and nothing else remains.
#[tokio::test]
async fn offers_at_once_leave_one_whole_snapshot() {
    let server = Server::start().await;
    let one = server.metastore().await;
    let (two, three) = (server.metastore().await, server.metastore().await);
    filled(&one, 9).await;
    for round in 0..3 {
        let at = LogIndex(3 + 2 * round);
        tokio::join!(
            one.compact(at, long_state(1)),
            two.compact(at, long_state(2)),
            three.compact(at.next(), long_state(3)),
        );
        let mut watch = two.watch(LogIndex(0)).await;
        match soon("a snapshot", watch.next()).await {
            Some(Update::Snapshot { index, state }) => {
                assert!(index >= at);
                assert!((1..=3).any(|salt| state == long_state(salt)), "it is whole");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(server.count("narad/snapshot/").await, 3, "and no parts of others are left");
    }
}

/// A watch that was cut off misses nothing, although etcd has forgotten the revisions meanwhile, and
/// although a snapshot has taken the place of what it was to show.
#[tokio::test]
async fn a_watch_outlives_cuts_and_compactions() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port()).await;
    let near = server.metastore().await;
    let far = EtcdMetastore::builder([proxy.endpoint()]).patience(PATIENCE);
    let far = far.connect().await.unwrap();
    filled(&near, 2).await;
    let mut watch = far.watch(LogIndex(0)).await;
    assert_eq!(shown(&mut watch).await.0, LogIndex(1));
    assert_eq!(shown(&mut watch).await.0, LogIndex(2));

    // It waits at the end of the sequence, is cut off, and etcd forgets.
    proxy.cut();
    for number in 3..=100_u64 {
        applied(&near, number.to_string()).await;
    }
    let mut client = server.client().await;
    let revision = client.get("narad/head", None).await.unwrap().header().unwrap().revision();
    client.compact(revision, None).await.unwrap();
    proxy.heal();
    for due in 3..=100 {
        assert_eq!(shown(&mut watch).await, (LogIndex(due), due.to_string().into()));
    }

    proxy.cut();
    applied(&near, "101").await;
    applied(&near, "102").await;
    near.compact(LogIndex(101), "state".into()).await;
    proxy.heal();
    let snapshot = Update::Snapshot { index: LogIndex(101), state: "state".into() };
    assert_eq!(soon("the snapshot", watch.next()).await, Some(snapshot));
    assert_eq!(shown(&mut watch).await, (LogIndex(102), "102".into()));
}

/// A connection over which nothing more comes, though nobody closes it, does not hold a watch up for
/// long.
#[tokio::test]
async fn a_watch_doubts_a_silent_connection() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port()).await;
    let near = server.metastore().await;
    let far = EtcdMetastore::builder([proxy.endpoint()]).patience(PATIENCE);
    let far = far.connect().await.unwrap();
    filled(&near, 1).await;
    let mut watch = far.watch(LogIndex(0)).await;
    assert_eq!(shown(&mut watch).await.0, LogIndex(1));
    proxy.mute();
    filled(&near, 1).await;
    let healing = async {
        // What it asks is not answered, so it knows that it knows nothing.
        while far.trouble().is_none() {
            tokio::task::yield_now().await;
        }
        proxy.heal();
    };
    let (record, ()) = soon("the record", async { tokio::join!(shown(&mut watch), healing) }).await;
    assert_eq!(record.0, LogIndex(2));
}
