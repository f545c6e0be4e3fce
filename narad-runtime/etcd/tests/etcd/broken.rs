//! Servers that are full, stand still, or of whom some are gone.

use std::time::Duration;

use bytes::Bytes;
use narad_core::ids::LogIndex;
use narad_etcd::EtcdMetastore;
use narad_runtime::embed::{Metastore, Proposed};

use crate::server::Server;
use crate::{PATIENCE, applied, records, shown, soon};

/// A server that has no room says so; what it promised not to have taken is not there, and what it has
/// taken, although it complained, is.
#[tokio::test]
async fn a_full_server_takes_nothing_in_secret() {
    let server = Server::start_with(&["--quota-backend-bytes", "20000000"]).await;
    let metastore = server.metastore().await;
    let (mut taken, mut refused) = (Vec::new(), 0);
    for number in 0..60_u8 {
        let record = Bytes::from(vec![number; 1 << 20]);
        match metastore.propose(record).await {
            Proposed::Applied(index) => {
                assert_eq!(index, LogIndex(u64::try_from(taken.len()).unwrap() + 1));
                taken.push(number);
            }
            Proposed::Rejected { reason } => {
                assert!(reason.contains("no room"), "{reason}");
                refused += 1;
                if refused == 3 {
                    break;
                }
            }
            Proposed::Unknown => panic!("every answer came"),
        }
    }
    assert_eq!(refused, 3, "it was full in the end");
    let head = metastore.barrier().await.unwrap();
    assert_eq!(head.0, u64::try_from(taken.len()).unwrap());
    let kept: Vec<u8> =
        records(&metastore, 0, head.0).await.iter().map(|record| record[0]).collect();
    assert_eq!(kept, taken);
}

/// A server that stands still is no server; what was asked of it then happens once at most.
#[tokio::test]
async fn a_server_that_stands_still_leaves_outcomes_open() {
    let server = Server::start().await;
    let metastore = server
        .builder("narad")
        .request_timeout(Duration::from_millis(500))
        .patience(Duration::from_secs(3));
    let metastore = metastore.connect().await.unwrap();
    applied(&metastore, "before").await;
    server.stand_still(true);
    assert_eq!(metastore.propose("during".into()).await, Proposed::Unknown);
    assert_eq!(metastore.barrier().await, None);
    server.stand_still(false);
    let after = loop {
        if let Proposed::Applied(index) = metastore.propose("after".into()).await {
            break index;
        }
    };
    let kept = records(&metastore, 0, after.0).await;
    assert!(kept.iter().filter(|record| **record == "during").count() <= 1, "{kept:?}");
    assert_eq!(kept.first(), Some(&Bytes::from("before")));
    assert_eq!(kept.last(), Some(&Bytes::from("after")));
}

/// With a majority of etcd's members everything goes on, whether the others are gone or stand still; and
/// without one, nothing is promised.
#[tokio::test]
async fn a_majority_of_members_is_enough() {
    let mut servers = Server::three().await;
    let connect = async |patience| {
        EtcdMetastore::builder(servers.iter().map(Server::endpoint))
            .request_timeout(Duration::from_millis(300))
            .patience(patience)
            .connect()
            .await
            .unwrap()
    };
    let metastore = connect(PATIENCE).await;
    let hasty = connect(Duration::from_secs(3)).await;
    let mut watch = metastore.watch(LogIndex(0)).await;
    let mut last = 0;
    for (round, member) in [(0, 2), (1, 1), (2, 0)] {
        if round == 1 {
            servers[member].stand_still(true);
        } else {
            servers[member].kill();
        }
        for number in 0..10 {
            last += 1;
            let record = Bytes::from(format!("{round} {number}"));
            assert_eq!(applied(&metastore, record.clone()).await, LogIndex(last));
            assert_eq!(shown(&mut watch).await, (LogIndex(last), record));
        }
        assert_eq!(metastore.barrier().await, Some(LogIndex(last)));
        if round == 1 {
            servers[member].stand_still(false);
        } else {
            servers[member].spawn();
        }
        // What it has missed it learns before the next one is gone.
        let all_know = async {
            for server in &servers {
                while server
                    .value_there("narad/head")
                    .await
                    .is_none_or(|head| !head.starts_with(&format!("narad/1 {last} ")))
                {
                }
            }
        };
        soon("all members to know", Box::pin(all_know)).await;
    }
    servers[0].kill();
    servers[1].kill();
    assert_eq!(hasty.propose("nobody".into()).await, Proposed::Unknown);
    assert_eq!(hasty.barrier().await, None);
    servers[0].spawn();
    let next = LogIndex(last + 1);
    assert!(applied(&metastore, "somebody").await >= next);
    assert_eq!(shown(&mut watch).await.0, next);
}
