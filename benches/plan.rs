//! What a plan costs: the leader makes one each time that something has changed.

use divan::Bencher;
use divan::counter::ItemsCount;
use narad_core::ids::{ByteCount, NodeId, PartitionId, TopicId};
use narad_core::plan::{Limits, Node, Partition, Placement, Role, Topic, plan};

/// Partitions of a cluster. An unoptimised build only shows that the benchmark runs.
const PARTITIONS: &[u32] =
    if cfg!(debug_assertions) { &[10_000] } else { &[10_000, 100_000, 1_000_000] };
const PER_TOPIC: u32 = 100;
const NODES: u64 = 50;

fn main() {
    divan::main();
}

/// So many partitions on 50 nodes, and another node that has none if one has just joined.
fn placement(partitions: u32, joined: bool) -> Placement {
    let nodes = NODES + u64::from(joined);
    let nodes = (1..=nodes).map(|id| Node { id: NodeId(id), role: Role::Receiver }).collect();
    let topics = partitions.div_ceil(PER_TOPIC);
    let topic = |topic| Topic { id: TopicId(u64::from(topic)), parent: None };
    let row = |n: u32| {
        let id = PartitionId { topic: TopicId(u64::from(n / PER_TOPIC)), index: n % PER_TOPIC };
        let bytes = ByteCount(u64::from(n % 7) << 20);
        Partition { bytes, ..Partition::settled(id, NodeId(1 + u64::from(n) % NODES)) }
    };
    let rows = (0..partitions).map(row).collect();
    Placement::new(nodes, (0..topics).map(topic).collect(), rows).expect("ids are listed once")
}

/// Nothing is to be done.
#[divan::bench(args = PARTITIONS)]
fn balanced(bencher: Bencher<'_, '_>, partitions: u32) {
    let placement = placement(partitions, false);
    bencher.counter(ItemsCount::new(partitions)).bench(|| plan(&placement, &Limits::default()));
}

/// A node has joined: one partition in 51 moves.
#[divan::bench(args = PARTITIONS, sample_count = 10)]
fn after_a_join(bencher: Bencher<'_, '_>, partitions: u32) {
    let placement = placement(partitions, true);
    bencher.counter(ItemsCount::new(partitions)).bench(|| plan(&placement, &Limits::default()));
}
