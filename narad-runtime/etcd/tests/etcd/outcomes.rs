//! What a proposer learns when servers die and answers are lost (H2).

use std::time::Duration;

use bytes::Bytes;
use narad_core::ids::LogIndex;
use narad_etcd::{EtcdError, EtcdMetastore};
use narad_runtime::embed::{Metastore, Proposed};

use crate::proxy::Proxy;
use crate::server::Server;
use crate::{PATIENCE, applied, records, shown, soon};

async fn through(proxy: &Proxy, patience: Duration) -> EtcdMetastore {
    let builder = EtcdMetastore::builder([proxy.endpoint()])
        .request_timeout(Duration::from_millis(500))
        .patience(patience);
    builder.connect().await.unwrap()
}

/// H2: an answer that is lost on the way is found out about: the record is there once, and the proposer
/// learns its place.
#[tokio::test]
async fn a_lost_answer_is_resolved() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port()).await;
    let (near, far) = (server.metastore().await, through(&proxy, PATIENCE).await);
    assert_eq!(applied(&far, "before").await, LogIndex(1));
    proxy.mute();
    let proposing = applied(&far, "asked");
    let meanwhile = async {
        assert_eq!(records(&near, 1, 2).await, ["asked"], "it is decided, nobody was told");
        // Somebody else is next; the answer is still to be found behind it.
        assert_eq!(applied(&near, "other").await, LogIndex(3));
        proxy.heal();
    };
    let (place, ()) = soon("the outcome", async { tokio::join!(proposing, meanwhile) }).await;
    assert_eq!(place, LogIndex(2));
    assert_eq!(applied(&far, "after").await, LogIndex(4));
    assert_eq!(records(&near, 0, 4).await, ["before", "asked", "other", "after"]);
}

/// H2: what stays without an answer is unknown, though it has happened; and the next one finds its way.
#[tokio::test]
async fn an_answer_that_never_comes_is_unknown() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port()).await;
    let near = server.metastore().await;
    let far = through(&proxy, Duration::from_secs(3)).await;
    assert_eq!(applied(&far, "before").await, LogIndex(1));
    proxy.mute();
    let (outcome, kept) = tokio::join!(far.propose("asked".into()), records(&near, 1, 2));
    assert_eq!((outcome, kept), (Proposed::Unknown, vec![Bytes::from("asked")]));
    assert!(matches!(far.trouble().as_deref(), Some(EtcdError::Unreachable { .. })));
    proxy.heal();
    assert_eq!(applied(&far, "after").await, LogIndex(3));
    assert!(far.trouble().is_none());
    assert_eq!(records(&near, 0, 3).await, ["before", "asked", "after"]);
}

/// A snapshot that has taken the place of a record whose answer was lost leaves its outcome unknown.
#[tokio::test]
async fn a_record_that_is_gone_already_is_unknown() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port()).await;
    let (near, far) = (server.metastore().await, through(&proxy, PATIENCE).await);
    assert_eq!(applied(&far, "before").await, LogIndex(1));
    proxy.mute();
    let proposing = far.propose("asked".into());
    let meanwhile = async {
        assert_eq!(records(&near, 1, 2).await, ["asked"]);
        near.compact(LogIndex(2), "state".into()).await;
        proxy.heal();
    };
    let (outcome, ()) = soon("the outcome", async { tokio::join!(proposing, meanwhile) }).await;
    assert_eq!(outcome, Proposed::Unknown);
}

/// H31: without a server there is no barrier, and no promise either way.
#[tokio::test]
async fn without_a_server_nothing_is_known() {
    let mut server = Server::start().await;
    let metastore = server.builder("narad").patience(Duration::from_secs(2));
    let metastore = metastore.connect().await.unwrap();
    applied(&metastore, "before").await;
    server.kill();
    assert_eq!(metastore.propose("during".into()).await, Proposed::Unknown);
    assert_eq!(metastore.barrier().await, None);
    assert!(metastore.head().await.is_err());
    server.restart().await;
    assert_eq!(soon("a barrier", barrier(&metastore)).await, LogIndex(1));
    assert_eq!(applied(&metastore, "after").await, LogIndex(2));
}

async fn barrier(metastore: &EtcdMetastore) -> LogIndex {
    loop {
        if let Some(index) = metastore.barrier().await {
            return index;
        }
    }
}

/// A server that is killed again and again under load loses no record that was answered, and shows none
/// that was rejected; a watch from before goes on without a gap, and the fold agrees with every answer.
#[tokio::test]
async fn killed_servers_lose_nothing_that_was_answered() {
    let mut server = Server::start().await;
    let (proposer, watcher) = (server.metastore().await, server.metastore().await);
    let mut watch = watcher.watch(LogIndex(0)).await;
    let (mut answered, mut shown_so_far) = (Vec::new(), Vec::new());
    for life in 0..4 {
        let proposing = async {
            let mut outcomes = Vec::new();
            for number in 0..40 {
                let record = format!("{life} {number}");
                outcomes.push((record.clone(), proposer.propose(record.into()).await));
            }
            outcomes
        };
        let killing = async {
            // In the middle of it: another half of them is to come.
            while shown_so_far.len() < life * 40 + 20 {
                shown_so_far.push(shown(&mut watch).await.1);
            }
            server.kill();
            server.restart().await;
        };
        let (outcomes, ()) = soon("a life", async { tokio::join!(proposing, killing) }).await;
        answered.extend(outcomes);
    }
    // The server was away for less than anybody's patience, so every outcome was found out.
    while shown_so_far.len() < 160 {
        shown_so_far.push(shown(&mut watch).await.1);
    }
    for (record, outcome) in answered {
        let Proposed::Applied(index) = outcome else { panic!("{record}: {outcome:?}") };
        let place = usize::try_from(index.0).unwrap() - 1;
        assert_eq!(shown_so_far[place], record, "{index}");
    }
    assert_eq!(proposer.barrier().await, Some(LogIndex(160)));
}
