//! The demonstration, which is a cluster's whole life.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use narad_runtime::cli::DemoOptions;
use narad_runtime::demo::{DemoError, play};
use tempfile::TempDir;

fn options(data_dir: &Path) -> DemoOptions {
    DemoOptions {
        records: 3000,
        value_bytes: 64,
        rate: None,
        input: None,
        data_dir: Some(data_dir.to_owned()),
        keep: false,
        seed: 1,
        json: true,
    }
}

/// R13, R63, R82, R87: a join, a decommission, a death in the middle of moves and a return, under
/// records from files that hold whatever files hold; all of it comes back byte for byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_life_of_a_cluster_loses_nothing() {
    let root = TempDir::new().unwrap();
    let files = root.path().join("files");
    std::fs::create_dir_all(files.join("deeper")).unwrap();
    let mut lines = String::new();
    for line in 0..3000 {
        writeln!(lines, "{line}: {}", "x".repeat(line % 90)).unwrap();
    }
    std::fs::write(files.join("a.log"), &lines).unwrap();
    std::fs::write(files.join("binary"), [0, 255, b'\n', b'\n', 13, b'\n', 254]).unwrap();
    std::fs::write(files.join("deeper/empty"), "").unwrap();
    std::fs::write(files.join("deeper/long"), vec![b'l'; 700 << 10]).unwrap();
    let pieces = 3000 + 4 + 2;

    let data_dir = root.path().join("data");
    let options = DemoOptions { input: Some(files), ..options(&data_dir) };
    let summary = play(&options, std::future::pending()).await.unwrap();
    assert!(summary.is_kept(), "{summary:?}");
    assert_eq!((summary.acked, summary.consumed), (pieces, pieces), "{summary:?}");
    assert_eq!((summary.lost, summary.on_old_disk), (0, 0), "{summary:?}");
    assert!(summary.moves.completed >= 4, "{summary:?}");
    assert!(summary.moves.force_promoted >= 1, "{summary:?}");
    assert_eq!(summary.voters.len(), 3, "{summary:?}");
    assert!(!summary.voters.contains(&summary.decommissioned), "{summary:?}");
    assert!(summary.voters.contains(&summary.killed), "{summary:?}");
    assert!(!data_dir.exists());
}

/// An interrupt stops the nodes and leaves nothing on the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_demonstration_leaves_nothing() {
    let root = TempDir::new().unwrap();
    let data_dir = root.path().join("data");
    let third = data_dir.join("narad-3/raft.redb");
    let interrupt = async {
        let mut pause = tokio::time::interval(Duration::from_millis(10));
        while !third.exists() {
            pause.tick().await;
        }
    };
    let played = play(&options(&data_dir), interrupt).await;
    assert!(matches!(played, Err(DemoError::Interrupted)), "{played:?}");
    assert!(!data_dir.exists());
}

/// A directory with data in it is left alone.
#[tokio::test]
async fn other_data_is_left_alone() {
    let root = TempDir::new().unwrap();
    std::fs::write(root.path().join("theirs"), "data").unwrap();
    let played = play(&options(root.path()), std::future::pending()).await;
    assert!(matches!(played, Err(DemoError::NotEmpty(_))), "{played:?}");
    assert_eq!(std::fs::read(root.path().join("theirs")).unwrap(), b"data");
}
