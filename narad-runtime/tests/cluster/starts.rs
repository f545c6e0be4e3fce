//! Data directories that a node must start on, or must not.

use std::fs;
use std::path::Path;

use narad_core::ids::NodeId;
use narad_runtime::raft::RedbStore;
use narad_runtime::server::{Server, ServerError, Start};
use narad_runtime::store::StoreError;
use tempfile::TempDir;

use super::harness::settings;

async fn run(root: &Path) -> Result<(), ServerError> {
    let settings = settings(root, "n1");
    let server = Server::start(&settings, Start::Bootstrap).await?;
    server.ready(&settings).await?;
    server.shutdown().await
}

/// H6: a first start that ended before it was counted has promised nothing, whatever it has made
/// by then, and is made good by the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_that_ended_early_is_made_good() {
    for has_log in [false, true] {
        let root = TempDir::new().unwrap();
        let data = root.path().join("n1");
        run(root.path()).await.unwrap();
        let identity = fs::read(data.join("identity")).unwrap();
        fs::remove_dir_all(&data).unwrap();
        fs::create_dir_all(data.join("partitions")).unwrap();
        fs::write(data.join("identity"), identity).unwrap();
        if has_log {
            drop(RedbStore::create(data.join("raft.redb"), NodeId(1)).unwrap());
        }
        run(root.path()).await.unwrap();
    }
}

/// A node that has run and lost the count of its starts is not taken for a new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_incarnation_is_named() {
    let root = TempDir::new().unwrap();
    run(root.path()).await.unwrap();
    fs::remove_file(root.path().join("n1/incarnation")).unwrap();
    assert!(matches!(run(root.path()).await, Err(ServerError::NoIncarnation { .. })));
}

/// Partitions that are not mounted are no partitions without records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_partitions_are_not_taken_for_empty_ones() {
    let root = TempDir::new().unwrap();
    run(root.path()).await.unwrap();
    fs::remove_dir_all(root.path().join("n1/partitions")).unwrap();
    let refused = run(root.path()).await;
    assert!(matches!(refused, Err(ServerError::Store(StoreError::NoPartitions { .. }))));
}

/// A node that is told to ask itself is told so, at once and by that name, and may be started otherwise
/// then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_does_not_wait_to_be_admitted_by_itself() {
    let root = TempDir::new().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let own = format!("127.0.0.1:{port}");
    let mut settings = settings(root.path(), "n1");
    settings.listen.peer.clone_from(&own);
    let refused = Server::start(&settings, Start::Join(vec![own.clone()])).await.unwrap_err();
    assert!(
        matches!(&refused, ServerError::JoinsItself { address } if *address == own),
        "{refused}"
    );
    run(root.path()).await.unwrap();
}
