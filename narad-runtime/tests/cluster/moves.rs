//! Partitions that move between real nodes.

use super::harness::{Cluster, eventually};

/// R13, R89: a node joins, its share moves to it, and every record is there afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joining_node_gets_its_share_with_every_record() {
    drop(
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .try_init(),
    );
    let mut cluster = Cluster::of(3).await;
    cluster.create_topic("orders", 6).await;
    let mut expected = vec![Vec::new(); 6];
    for number in 0..60_usize {
        let (partition, value) = (number % 6, format!("record {number}"));
        cluster.produce("orders", u32::try_from(partition).unwrap(), &value).await;
        expected[partition].push(value);
    }
    cluster.join("n4").await;
    eventually("the newcomer owns its share", async || {
        cluster.owned().await.get("n4").is_some_and(|owned| *owned >= 1)
    })
    .await;
    for (partition, expected) in (0..6).zip(&expected) {
        eventually("the partition is readable", async || {
            !cluster.read("orders", partition).await.is_empty()
        })
        .await;
        assert_eq!(&cluster.read("orders", partition).await, expected);
    }
    // What has moved, who leads and what the newcomer owns is in the metrics.
    let scraped = cluster.scrape("n4").await;
    let moved = scraped["narad_moves_total{outcome=\"moved\"}"];
    assert!(moved >= 1.0, "{scraped:?}");
    assert!((scraped["narad_freeze_seconds_count"] - moved).abs() < 0.5, "{scraped:?}");
    assert!(scraped["narad_partitions{state=\"owned\"}"] >= 1.0, "{scraped:?}");
    let mut leaders = 0.0;
    for node in ["n1", "n2", "n3", "n4"] {
        leaders += cluster.scrape(node).await["narad_leader"];
    }
    assert!((leaders - 1.0).abs() < 0.5, "{leaders} leaders");
}
