//! A node that is killed with records that it has accepted and not delivered.

use std::collections::BTreeMap;

use super::harness::{Cluster, eventually};
use super::http;

const TOPIC: &str = "orders";
const PARTITIONS: u32 = 3;

/// Has a node accept a record for a partition.
async fn accept(cluster: &Cluster, node: &str, partition: u32, value: &str) -> Option<u16> {
    let path = format!("/v1/topics/{TOPIC}/messages?partition={partition}");
    let answer = http::ask(cluster.nodes[node].http, "POST", &path, value).await?;
    Some(answer.status)
}

/// Counts the values of all partitions.
async fn values(cluster: &Cluster) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    for (partition, (_, owner)) in cluster.routes(TOPIC).await {
        let path = format!("/v1/topics/{TOPIC}/messages?partition={partition}&from=0");
        let Some(port) = cluster.nodes.get(&owner).map(|node| node.http) else { continue };
        let Some(answer) = http::ask(port, "GET", &path, "").await else { continue };
        for message in answer.body["messages"].as_array().into_iter().flatten() {
            *found.entry(message["value"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    found
}

/// R2, S1, S11: a record is acknowledged once it is durable in the ingress log; killed before it was
/// sent, or before it was known to have arrived, the node brings it in its next life. The second time
/// it may be there twice, and never less than once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_accepted_arrives_although_its_node_is_killed() {
    let mut cluster = Cluster::of(3, "").await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    let routes = cluster.routes(TOPIC).await;
    let (here, elsewhere) = (routes[&0].1.clone(), routes[&1].1.clone());
    assert_ne!(here, elsewhere);
    for (place, most) in [("before-send:kill", 1), ("after-send:kill", 2)] {
        for partition in [0, 1] {
            let value = format!("{place} {partition}");
            cluster.node(&here).arm(place);
            // The dispatch begins before the producer is answered, and so it may not be.
            let status = accept(&cluster, &here, partition, &value).await;
            assert!(matches!(status, Some(200) | None), "{status:?}");
            cluster.node(&here).killed().await;
            cluster.restart(&here).await;
            eventually("the record arrives", async || values(&cluster).await.contains_key(&value))
                .await;
            let count = values(&cluster).await[&value];
            assert!(count <= most, "{value}: {count} times");
        }
    }
}
