//! Users of etcd, and what they may do.

use etcd_client::{Client, Permission, PermissionType};
use narad_core::ids::LogIndex;
use narad_etcd::{Builder, EtcdError};
use narad_runtime::embed::Metastore;

use crate::server::Server;
use crate::{applied, reason, records};

/// Gives `narad` the prefix of the same name, and nobody anything without a password. Returns a client
/// of the administrator.
async fn guarded(server: &Server) -> Client {
    let mut client = server.client().await;
    client.user_add("root", "top", None).await.unwrap();
    client.user_grant_role("root", "root").await.unwrap_or_else(|error| panic!("{error}"));
    client.role_add("mover").await.unwrap();
    client.role_grant_permission("mover", all_of_narad()).await.unwrap();
    client.user_add("narad", "secret", None).await.unwrap();
    client.user_grant_role("narad", "mover").await.unwrap();
    client.auth_enable().await.unwrap();
    let options = narad_etcd::ConnectOptions::new().with_user("root", "top");
    Client::connect([server.endpoint()], Some(options)).await.unwrap()
}

fn all_of_narad() -> Permission {
    Permission::new(PermissionType::Readwrite, "narad/").with_prefix()
}

async fn refused(builder: Builder) {
    let error = builder.connect().await.map(drop).unwrap_err();
    assert!(matches!(error, EtcdError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("name and password"), "{error}");
}

/// Strangers are refused at once, and told why; the right user has the prefix, and no other.
#[tokio::test]
async fn only_the_right_user_gets_in() {
    let server = Server::start().await;
    drop(guarded(&server).await);
    refused(server.builder("narad")).await;
    refused(server.builder("narad").user("narad", "guessed")).await;
    refused(server.builder("narad").user("nobody", "secret")).await;
    refused(server.builder("elsewhere").user("narad", "secret")).await;
    let metastore = server.builder("narad").user("narad", "secret").connect().await.unwrap();
    assert_eq!(applied(&metastore, "a").await, LogIndex(1));
    assert_eq!(records(&metastore, 0, 1).await, ["a"]);
}

/// A user whose rights are taken away gets a promise, no barrier, and no endless watch; and goes on once
/// it has them again.
#[tokio::test]
async fn rights_that_are_taken_away_are_missed_at_once() {
    let server = Server::start().await;
    let mut root = guarded(&server).await;
    let metastore = server.builder("narad").user("narad", "secret").connect().await.unwrap();
    applied(&metastore, "a").await;
    let mut watch = metastore.watch(LogIndex(1)).await;
    root.user_revoke_role("narad", "mover").await.unwrap();
    assert!(reason(metastore.propose("b".into()).await).contains("permission denied"));
    assert_eq!(metastore.barrier().await, None);
    assert_eq!(watch.next().await, None);
    assert!(matches!(metastore.trouble().as_deref(), Some(EtcdError::Refused { .. })));
    root.user_grant_role("narad", "mover").await.unwrap();
    assert_eq!(applied(&metastore, "c").await, LogIndex(2), "nothing came of b");
    assert_eq!(records(&metastore, 0, 2).await, ["a", "c"]);
}

/// A server that has restarted knows no token any more: another one is asked for.
#[tokio::test]
async fn forgotten_tokens_are_asked_for_again() {
    let mut server = Server::start().await;
    drop(guarded(&server).await);
    let metastore = server.builder("narad").user("narad", "secret").connect().await.unwrap();
    applied(&metastore, "a").await;
    let mut watch = metastore.watch(LogIndex(0)).await;
    assert_eq!(crate::shown(&mut watch).await.0, LogIndex(1));
    server.kill();
    server.spawn();
    assert_eq!(applied(&metastore, "b").await, LogIndex(2));
    assert_eq!(crate::shown(&mut watch).await.0, LogIndex(2));
}
