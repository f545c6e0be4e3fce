//! Plans a rebalance and a drain without a cluster, and shows why each node gives or takes.
//!
//! The planner is a pure function: a placement goes in, moves and their reasons come out. This
//! program carries its plans out on paper, first for a node that joins, then for one that leaves.
//! A linter looks at every plan by other means.
//!
//! ```text
//! cargo run --example plan_a_rebalance
//! ```
#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::collections::BTreeMap;

use narad_core::ids::{ByteCount, NodeId, PartitionId, TopicId};
use narad_core::plan::{Explained, Limits, Node, Partition, Placement, Role, Topic, lint, plan};

/// The topics: one with many partitions, and one that fans out from it.
const ORDERS: Topic = Topic { id: TopicId(1), parent: None };
const INVOICES: Topic = Topic { id: TopicId(2), parent: Some(TopicId(1)) };

fn placement(nodes: &[(u64, Role)], partitions: &[Partition]) -> Placement {
    let node = |&(id, role)| Node { id: NodeId(id), role };
    let nodes = nodes.iter().map(node).collect();
    Placement::new(nodes, vec![ORDERS, INVOICES], partitions.to_vec())
        .expect("every id in these rows is listed once")
}

/// Prints a plan with its reasons, and lets the linter look at it.
fn show(title: &str, placement: &Placement, plan: &Explained) {
    println!("\n{title}");
    for node in &plan.report.nodes {
        println!("  {node}");
    }
    for started in &plan.moves {
        println!("  now:   {started}");
    }
    for later in &plan.deferred {
        println!("  later: {}, since {}", later.planned, later.reason);
    }
    assert_eq!(lint(placement, plan), []);
}

/// Lets all moves that have started arrive.
fn arrive(partitions: &mut [Partition], plan: &Explained) {
    for started in &plan.moves {
        let row = partitions.iter_mut().find(|row| row.id == started.partition);
        row.expect("a plan moves what is there").owner = started.to;
    }
}

fn owned(partitions: &[Partition]) -> BTreeMap<u64, usize> {
    let mut owned = BTreeMap::new();
    for row in partitions {
        *owned.entry(row.owner.0).or_default() += 1;
    }
    owned
}

/// Plans and carries out until nothing is left; returns how many moves it took.
fn carry_out(title: &str, nodes: &[(u64, Role)], partitions: &mut [Partition]) -> usize {
    let mut moves = 0;
    loop {
        let placement = placement(nodes, partitions);
        // The limits of a production cluster: few moves at a time, and at most half of a topic.
        let plan = plan(&placement, &Limits::default()).explain(&placement);
        if plan.is_empty() {
            return moves;
        }
        show(title, &placement, &plan);
        moves += plan.moves.len();
        arrive(partitions, &plan);
    }
}

fn main() {
    use Role::{Leaving, Receiver};
    let row = |topic: Topic, index: u32| {
        let id = PartitionId { topic: topic.id, index };
        let bytes = ByteCount(u64::from(1 + index % 3) << 30);
        Partition { bytes, ..Partition::settled(id, NodeId(1 + u64::from(index) % 3)) }
    };
    let orders = (0..8).map(|index| row(ORDERS, index));
    let invoices = (0..4).map(|index| row(INVOICES, index));
    let mut partitions: Vec<Partition> = orders.chain(invoices).collect();
    println!("before: {:?}", owned(&partitions));
    let before = owned(&partitions);

    let with_fourth = [(1, Receiver), (2, Receiver), (3, Receiver), (4, Receiver)];
    let moves = carry_out("node 4 joins", &with_fourth, &mut partitions);
    println!("\nafter the join: {:?}", owned(&partitions));
    // 12 partitions on 4 nodes are 3 each; whatever was above that had to go, and nothing else.
    assert!(owned(&partitions).values().all(|&count| count == 3));
    assert_eq!(moves, before.values().map(|&count| count - 3).sum::<usize>());

    let without_first = [(1, Leaving), (2, Receiver), (3, Receiver), (4, Receiver)];
    let moves = carry_out("node 1 leaves", &without_first, &mut partitions);
    println!("\nafter the drain: {:?}", owned(&partitions));
    assert_eq!(owned(&partitions), BTreeMap::from([(2, 4), (3, 4), (4, 4)]));
    assert_eq!(moves, 3, "a drain moves what the node has, and nothing else");
}
