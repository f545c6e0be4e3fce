//! What the specification says of whole nodes, looked at from outside.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use narad_runtime::service::Service as _;

use super::harness::{Cluster, eventually};

const TOPIC: &str = "orders";
const PARTITIONS: u32 = 6;

/// Returns the names of what is in a directory; none if there is no such directory.
fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Returns for each partition the nodes whose data directory has anything of it, the trash apart.
fn holders(cluster: &Cluster) -> BTreeMap<u32, Vec<String>> {
    let mut holders: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for node in cluster.servers.keys() {
        let topics = cluster.data_dir(node).join("partitions");
        for topic in names(&topics) {
            for partition in names(&topics.join(&topic)) {
                if !names(&topics.join(&topic).join(&partition)).is_empty() {
                    holders.entry(partition.parse().unwrap()).or_default().push(node.clone());
                }
            }
        }
    }
    holders
}

/// Returns the owner of each partition.
async fn owners(cluster: &Cluster) -> BTreeMap<u32, Vec<String>> {
    let any = cluster.servers.values().next().unwrap().service();
    let routes = any.routes(TOPIC).await.unwrap_or_default();
    routes.iter().map(|route| (route.partition, vec![route.owner.to_string()])).collect()
}

/// R1, S1: what a partition's records are on is its owner's disk, and no other: before a move, and
/// again after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_on_its_owners_disk_only() {
    let mut cluster = Cluster::of(3).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    for number in 0..PARTITIONS * 4 {
        cluster.produce(TOPIC, number % PARTITIONS, &format!("record {number}")).await;
    }
    eventually("each partition is on its owner's disk", async || {
        holders(&cluster) == owners(&cluster).await
    })
    .await;
    let before = owners(&cluster).await;
    assert_eq!(before.len(), PARTITIONS as usize);

    cluster.join("n4").await;
    eventually("a partition has moved, and nothing is left of it where it was", async || {
        let now = owners(&cluster).await;
        now != before && holders(&cluster) == now
    })
    .await;
    let mut records = 0;
    for partition in 0..PARTITIONS {
        records += cluster.read(TOPIC, partition).await.len();
    }
    assert_eq!(records, PARTITIONS as usize * 4);
}
