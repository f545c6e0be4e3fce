//! What the specification says of whole nodes, looked at from outside.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use narad_runtime::service::{MemberStatus, Read, Record, Service as _};

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

/// Writes so many records to each partition, from a number on.
async fn fill(cluster: &Cluster, numbers: Range<u32>) {
    for number in numbers {
        for partition in 0..PARTITIONS {
            cluster.produce(TOPIC, partition, &format!("record {number}")).await;
        }
    }
}

/// Checks that each partition has each of the records, in order; one whose answer was lost may be there
/// twice.
async fn assert_all_there(cluster: &Cluster, records: u32) {
    for partition in 0..PARTITIONS {
        eventually("the partition is readable", async || {
            !cluster.read(TOPIC, partition).await.is_empty()
        })
        .await;
        let mut found = cluster.read(TOPIC, partition).await;
        found.dedup();
        let expected: Vec<String> = (0..records).map(|number| format!("record {number}")).collect();
        assert_eq!(found, expected, "partition {partition}");
    }
}

/// Waits until nothing moves and every node owns as many partitions as it should.
async fn settles(cluster: &Cluster, counts: &[u64]) {
    eventually("everything is where it should be, and nothing moves", async || {
        let mut owned: Vec<u64> = cluster.owned().await.into_values().collect();
        owned.sort_unstable();
        let moves = cluster.client().moves(Read::Barrier).await;
        owned == counts && moves.is_ok_and(|moves| moves.is_empty())
    })
    .await;
}

/// R1, S1: what a partition's records are on is its owner's disk, and no other: before a move, and
/// again after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_on_its_owners_disk_only() {
    let mut cluster = Cluster::of(3).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    fill(&cluster, 0..4).await;
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
    assert_all_there(&cluster, 4).await;
}

/// R85, R89, `case_143`: every node is restarted in turn while partitions move; all of them arrive,
/// and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_only_delays_a_rebalance() {
    let mut cluster = Cluster::of(3).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    fill(&cluster, 0..4).await;
    cluster.join("n4").await;
    for (number, node) in (4..).zip(["n4", "n1", "n2", "n3"]) {
        cluster.restart(node).await;
        fill(&cluster, number..number + 1).await;
    }
    settles(&cluster, &[1, 1, 2, 2]).await;
    assert_all_there(&cluster, 8).await;
}

/// R83, R94, `case_126`: a decommission that is cancelled half-way leaves no plan, no freeze and no
/// node without its share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_decommission_leaves_nothing_behind() {
    let cluster = Cluster::of(4).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    fill(&cluster, 0..4).await;
    settles(&cluster, &[1, 1, 2, 2]).await;
    let client = cluster.client();
    let leaving = "n2";
    let before = cluster.owned().await[leaving];
    client.decommission(leaving, true).await.unwrap();
    eventually("it sheds what it has", async || {
        let moves = client.moves(Read::Barrier).await.unwrap_or_default();
        let on_the_way = moves.iter().any(|planned| planned.from.as_str() == leaving);
        on_the_way || cluster.owned().await.get(leaving).is_some_and(|owned| *owned < before)
    })
    .await;
    client.decommission(leaving, false).await.unwrap();
    settles(&cluster, &[1, 1, 2, 2]).await;
    let members = client.members(Read::Barrier).await.unwrap();
    assert!(members.iter().all(|member| !member.draining && !member.drained_out));
    fill(&cluster, 4..5).await;
    assert_all_there(&cluster, 5).await;
}

/// R85, R86, `case_128`, `case_129`: a node that is restarted while it leaves goes on leaving; once it
/// is out it takes no record, though its process is still there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaving_node_that_restarts_leaves_and_serves_nothing_then() {
    let mut cluster = Cluster::of(4).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    fill(&cluster, 0..4).await;
    settles(&cluster, &[1, 1, 2, 2]).await;
    let leaving = "n2";
    cluster.client().decommission(leaving, true).await.unwrap();
    cluster.restart(leaving).await;
    eventually("it is retired", async || {
        let members = cluster.client().members(Read::Barrier).await.unwrap_or_default();
        let member = members.iter().find(|member| member.id.as_str() == leaving);
        member.is_some_and(|member| member.status == MemberStatus::Retired)
    })
    .await;
    settles(&cluster, &[0, 2, 2, 2]).await;
    for partition in 0..PARTITIONS {
        let record = Record { value: "late".into(), ..Record::default() };
        let produced =
            cluster.servers[leaving].service().produce(TOPIC, partition, vec![record]).await;
        assert!(produced.is_err(), "partition {partition}: {produced:?}");
    }
    fill(&cluster, 4..5).await;
    assert_all_there(&cluster, 5).await;
}
