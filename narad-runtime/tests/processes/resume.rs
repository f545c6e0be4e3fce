//! What a copy has on the disk of its destination is not copied again, whoever was killed.

use std::sync::Arc;

use narad_core::ids::PartitionId;
use narad_runtime::disk::RealDisk;
use narad_runtime::log::LogLimits;
use narad_runtime::store::{PartitionStore, SegmentStore};

use super::harness::Cluster;
use super::ledger::Ledger;

pub(crate) const TOPIC: &str = "orders";
const CHUNK_BYTES: u64 = 64 << 10;
const CHUNKS_IN_FLIGHT: u64 = 4;
const FILLED_BYTES: usize = 6 << 20;

/// Small segments, copied slowly enough that each is made durable by itself.
const MORE: &str = r#"
paused = true
copy_rate_bytes_per_second = "4MiB"
[log]
segment_bytes = "256KiB"
[http]
record_bytes_max = "64KiB"
[copy]
chunk_bytes_max = "64KiB"
"#;

/// Founds a cluster with one partition of some size, and says who owns it and where it is to go;
/// `policy` is added to the policy.
pub(crate) async fn filled(ledger: &Ledger, policy: &str) -> (Cluster, String, String) {
    let more = format!("{policy}{MORE}");
    let cluster = Cluster::of(3, &more).await;
    cluster.create_topic(TOPIC, 1).await;
    ledger.fill(&cluster.client(), TOPIC, 0, FILLED_BYTES, 8 << 10).await;
    let leader = cluster.leader().await;
    let (_, from) = cluster.routes(TOPIC).await.remove(&0).unwrap();
    // A follower, so that the leader can be killed as one of its own.
    let mut names = cluster.nodes.keys();
    let to = names.find(|name| **name != from && **name != leader).unwrap().clone();
    (cluster, from, to)
}

/// Looks at the disk of a node that does not run.
fn store(cluster: &Cluster, name: &str) -> (SegmentStore, PartitionId) {
    let disk = RealDisk::new(cluster.nodes[name].data()).unwrap();
    let store = SegmentStore::new(Arc::new(disk), LogLimits::default()).unwrap();
    let found = store.recover().unwrap();
    let (partition, _) = found.partitions[0];
    (store, partition)
}

/// Returns the bytes of the copy that a node's manifest vouches for.
fn vouched(cluster: &Cluster, name: &str) -> u64 {
    let (store, partition) = store(cluster, name);
    let manifest = store.inspect(partition).unwrap().staging.unwrap();
    manifest.extents.iter().map(|extent| extent.bytes.0).sum()
}

/// Returns the bytes of the log that a node owns, and what its last life copied of them. The node
/// is ended for it.
async fn total_and_copied(cluster: &mut Cluster, name: &str) -> (u64, u64) {
    let copied = *cluster.nodes[name].logged("has moved here", "copied_bytes").last().unwrap();
    cluster.node(name).terminate();
    assert!(cluster.node(name).ended().await.success());
    let (store, partition) = store(cluster, name);
    let (live, _) = *store.inspect(partition).unwrap().installed.last().unwrap();
    (store.data_bytes(partition, live).unwrap().0, copied)
}

/// R61: the destination's next life copies what the manifest does not vouch for, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destination_that_was_killed_copies_nothing_that_its_manifest_vouches_for() {
    let ledger = Ledger::default();
    let (mut cluster, _, to) = filled(&ledger, "").await;
    cluster.node(&to).arm("after-checkpoint@3:kill");
    cluster.begin_move(TOPIC, 0, &to).await;
    cluster.node(&to).killed().await;
    let vouched = vouched(&cluster, &to);
    assert!(vouched > 4 * (256 << 10), "{vouched} bytes are vouched for");
    cluster.restart(&to).await;
    cluster.settled(TOPIC, 0, &to).await;
    ledger.check(&cluster.client(), TOPIC, &[0]).await;
    let (total, copied) = total_and_copied(&mut cluster, &to).await;
    assert!(copied <= total - vouched, "{copied} copied, {total} - {vouched} were missing");
}

/// R61, H16: after a restart the source compares what is staged with what it has; nothing of that
/// crosses the network again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_was_killed_is_not_copied_from_the_beginning() {
    let ledger = Ledger::default();
    let (mut cluster, from, to) = filled(&ledger, "").await;
    cluster.node(&to).arm("after-checkpoint@3:stop");
    cluster.begin_move(TOPIC, 0, &to).await;
    cluster.node(&to).stopped().await;
    cluster.node(&from).kill();
    cluster.node(&to).resume();
    cluster.restart(&from).await;
    cluster.settled(TOPIC, 0, &to).await;
    ledger.check(&cluster.client(), TOPIC, &[0]).await;
    let (total, copied) = total_and_copied(&mut cluster, &to).await;
    let most = total + CHUNKS_IN_FLIGHT * CHUNK_BYTES;
    assert!(copied <= most, "{copied} bytes copied of {total}");
}

/// R61: the bytes do not come from the leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_killed_costs_no_bytes() {
    let ledger = Ledger::default();
    let (mut cluster, from, to) = filled(&ledger, "").await;
    let leader = cluster.leader().await;
    cluster.node(&to).arm("after-checkpoint@3:stop");
    cluster.begin_move(TOPIC, 0, &to).await;
    cluster.node(&to).stopped().await;
    cluster.node(&leader).kill();
    cluster.node(&to).resume();
    cluster.restart(&leader).await;
    cluster.settled(TOPIC, 0, &to).await;
    ledger.check(&cluster.client(), TOPIC, &[0]).await;
    let (total, copied) = total_and_copied(&mut cluster, &to).await;
    let lost = if leader == from { CHUNKS_IN_FLIGHT * CHUNK_BYTES } else { 0 };
    assert!(copied <= total + lost, "{copied} bytes copied of {total}");
}
