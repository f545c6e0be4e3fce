//! What others have put under the prefix, or taken away.

use std::sync::Arc;

use etcd_client::DeleteOptions;
use narad_core::ids::LogIndex;
use narad_etcd::{EtcdError, EtcdMetastore};
use narad_runtime::embed::{Metastore, Update};

use crate::server::Server;
use crate::{applied, reason, records};

async fn put(server: &Server, key: &str, value: impl Into<Vec<u8>>) {
    server.client().await.put(key, value, None).await.unwrap();
}

fn trouble(metastore: &EtcdMetastore) -> Arc<EtcdError> {
    metastore.trouble().expect("it has noticed")
}

/// Whatever is where the head or the base ought to be is named to whoever starts, and left alone.
#[tokio::test]
async fn bytes_of_others_are_named_at_the_start() {
    let server = Server::start().await;
    let values: [&[u8]; 5] = [b"", b"\xff\xfe\0", b"17", b"narad/2 1 x", b"narad/1 9 9 9 9 9"];
    for key in ["narad/head", "narad/base"] {
        for value in values {
            put(&server, key, value).await;
            let error = server.builder("narad").connect().await.map(drop).unwrap_err();
            assert!(
                matches!(&error, EtcdError::Foreign { key: named, .. } if named == key),
                "{error:?}"
            );
        }
        server.client().await.delete(key, None).await.unwrap();
    }
    // Neighbours are nobody's business.
    for key in ["narad/log/x", "narad/log/00000000000000000001x", "narad/notes", "narad/rows/1"] {
        put(&server, key, "mine").await;
    }
    let metastore = server.metastore().await;
    assert_eq!(applied(&metastore, "a").await, LogIndex(1));
    assert_eq!(records(&metastore, 0, 1).await, ["a"]);
    assert_eq!(server.value("narad/log/x").await.as_deref(), Some("mine"));
}

/// A key of somebody else where the next record would go is not written over, and no record is lost to
/// it: the proposer has a promise.
#[tokio::test]
async fn the_next_place_is_not_written_over() {
    let server = Server::start().await;
    let metastore = server.metastore().await;
    applied(&metastore, "a").await;
    let next = "narad/log/00000000000000000002";
    put(&server, next, "mine").await;
    assert!(reason(metastore.propose("b".into()).await).contains(next));
    assert_eq!(server.value(next).await.as_deref(), Some("mine"));
    assert!(matches!(&*trouble(&metastore), EtcdError::Foreign { key, .. } if key == next));
    let mut watch = metastore.watch(LogIndex(1)).await;
    assert_eq!(watch.next().await, None);
    server.client().await.delete(next, None).await.unwrap();
    assert_eq!(applied(&metastore, "c").await, LogIndex(2));
    assert_eq!(records(&metastore, 0, 2).await, ["a", "c"]);
}

/// A record that was written over, or a snapshot whose parts were, ends a watch; nobody is shown
/// something else in its place.
#[tokio::test]
async fn what_was_written_over_is_not_shown() {
    let server = Server::start().await;
    let metastore = server.metastore().await;
    for record in ["a", "b", "c"] {
        applied(&metastore, record).await;
    }
    put(&server, "narad/log/00000000000000000002", "").await;
    let mut watch = metastore.watch(LogIndex(0)).await;
    assert_eq!(watch.next().await, None);
    assert!(matches!(&*trouble(&metastore), EtcdError::Foreign { .. }));

    metastore.compact(LogIndex(2), "the state".into()).await;
    let mut watch = metastore.watch(LogIndex(0)).await;
    assert!(matches!(watch.next().await, Some(Update::Snapshot { .. })));
    let folder = etcd_client::GetOptions::new().with_prefix();
    let parts = server.client().await.get("narad/snapshot/", Some(folder)).await.unwrap();
    let part = parts.kvs()[0].key_str().unwrap();
    put(&server, part, "another state").await;
    let mut watch = metastore.watch(LogIndex(0)).await;
    assert_eq!(watch.next().await, None);
    assert!(trouble(&metastore).to_string().contains("checksum"));
    server.client().await.delete(part, None).await.unwrap();
    let mut watch = metastore.watch(LogIndex(0)).await;
    assert_eq!(watch.next().await, None);
    assert!(matches!(&*trouble(&metastore), EtcdError::Missing { .. }));
}

/// A record that somebody has deleted is missed, by its key.
#[tokio::test]
async fn a_deleted_record_is_missed() {
    let server = Server::start().await;
    let metastore = server.metastore().await;
    for record in ["a", "b", "c"] {
        applied(&metastore, record).await;
    }
    let gone = "narad/log/00000000000000000002";
    server.client().await.delete(gone, None).await.unwrap();
    let mut watch = metastore.watch(LogIndex(0)).await;
    assert_eq!(crate::shown(&mut watch).await.0, LogIndex(1));
    assert_eq!(watch.next().await, None);
    assert!(matches!(&*trouble(&metastore), EtcdError::Missing { key, .. } if key == gone));
}

/// A sequence that has become shorter, or another one of the same length, is refused by whoever has seen
/// more: what was decided would be undecided.
#[tokio::test]
async fn a_sequence_that_went_back_is_refused() {
    let server = Server::start().await;
    let metastore = server.metastore().await;
    for record in ["a", "b"] {
        applied(&metastore, record).await;
    }
    let everything = DeleteOptions::new().with_prefix();
    server.client().await.delete("narad/", Some(everything)).await.unwrap();
    let newcomer = server.metastore().await;
    for (round, record) in ["x", "y"].into_iter().enumerate() {
        assert_eq!(metastore.barrier().await, None, "round {round}");
        assert!(matches!(&*trouble(&metastore), EtcdError::WentBack { .. }));
        assert!(reason(metastore.propose("c".into()).await).contains("older backup"));
        // The next process of this node knows only what it has come to.
        let mut watch = newcomer.watch(LogIndex(2)).await;
        assert_eq!(watch.next().await, None);
        assert!(matches!(&*trouble(&newcomer), EtcdError::WentBack { .. }));
        applied(&newcomer, record).await;
    }
    assert_eq!(metastore.barrier().await, None, "as long, but another one");
}
