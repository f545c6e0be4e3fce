//! The pass for big clusters, on small ones, where everything about it can be checked.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::ids::{NodeId, PartitionId, TopicId};
use crate::plan::capacity::Shares;
use crate::plan::choose::{Effort, choose_with};
use crate::plan::limits::{self, Running};
use crate::plan::{
    Draft, Explained, Finding, Limits, Node, Partition, Placement, Plan, Role, Topic, lint,
};

/// Plans as on a big cluster.
fn streamed(placement: &Placement) -> Explained {
    let mut shares = Shares::new(placement);
    let steps = choose_with(Effort::Stream, placement, &mut shares);
    let draft = Draft { shares, steps };
    let limits = Limits::UNLIMITED;
    let in_order = limits::in_order_lazily(placement, &draft.shares, &draft.steps);
    let moves = limits::admit(placement, &limits, Running::new(placement), in_order);
    Plan { moves, limits, draft }.explain(placement)
}

fn id(topic: u32, index: u32) -> PartitionId {
    PartitionId { topic: TopicId(u64::from(topic)), index }
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Topics of ten partitions with owners at random, every fourth a child of the one before.
fn families(seed: u64, owners: u64, nodes: &[Role], topics: u32) -> Placement {
    let mut state = seed;
    let nodes = (1..).map(NodeId).zip(nodes).map(|(id, role)| Node { id, role: *role });
    let parent = |topic: u32| (topic % 4 == 3).then(|| TopicId(u64::from(topic) - 1));
    let shapes = (0..topics).map(|topic| Topic { id: id(topic, 0).topic, parent: parent(topic) });
    let rows = (0..topics * 10).map(|n| {
        let owner = NodeId(1 + random(&mut state) % owners);
        Partition::settled(id(n / 10, n % 10), owner)
    });
    Placement::new(nodes.collect(), shapes.collect(), rows.collect()).expect("valid")
}

/// How many partitions of each topic a node ends up with, at most.
fn most_of_a_topic(placement: &Placement, plan: &Explained, node: NodeId) -> u32 {
    let moves: BTreeMap<_, _> = plan.all().map(|one| (one.partition, one.to)).collect();
    let mut counts: BTreeMap<TopicId, u32> = BTreeMap::new();
    for row in placement.partitions() {
        if moves.get(&row.id).copied().unwrap_or(row.owner) == node {
            *counts.entry(row.id.topic).or_default() += 1;
        }
    }
    counts.into_values().max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// S12, S13, R70 to R84: the fewest moves, to where they may go, and nothing is left to do.
    /// Only a trade of places that nobody looked for may be found.
    #[test]
    fn a_streamed_plan_passes_the_independent_check(
        seed in 1..u64::MAX,
        owners in 1..9_u64,
        roles in prop::collection::vec(
            prop_oneof![6 => Just(Role::Receiver), 2 => Just(Role::Leaving), 1 => Just(Role::Dead)],
            9,
        ),
        marks in prop::collection::vec((0..160_usize, 0..9_u64, any::<bool>()), 0..30),
    ) {
        let plain = families(seed, owners, &roles, 16);
        let mut rows = plain.partitions().to_vec();
        for (at, target, pinned) in marks {
            let target = Some(NodeId(target + 1)).filter(|target| *target != rows[at].owner);
            let target = target.filter(|target| {
                plain.node(*target).is_some_and(|node| node.role == Role::Receiver)
            });
            rows[at] = Partition { target, pinned, ..rows[at] };
        }
        let (nodes, topics) = (plain.nodes().to_vec(), plain.topics().to_vec());
        let mut placement = Placement::new(nodes, topics, rows).expect("still valid");
        let plan = streamed(&placement);
        let findings: Vec<Finding> = lint(&placement, &plan)
            .into_iter()
            .filter(|finding| !matches!(finding, Finding::AvoidableConflict { .. }))
            .collect();
        prop_assert_eq!(findings, vec![], "{}", plan.report);
        prop_assert_eq!(placement.apply(&plan.moves), plan.moves.len());
        prop_assert!(streamed(&placement).is_empty());
    }

    /// R81: with room to choose, no relatives share a node in the end.
    #[test]
    fn a_streamed_plan_keeps_relatives_apart(seed in 1..u64::MAX) {
        let placement = families(seed, 6, &[Role::Receiver; 18], 40);
        let plan = streamed(&placement);
        prop_assert_eq!(plan.report.conflicts, 0, "{}", plan.report);
    }
}

/// K104: a joiner gets an even part of the topics, though nobody searches for it.
#[test]
fn a_joiner_gets_few_of_one_topic() {
    let mut crowded = 0;
    for seed in 1..=50 {
        let roles = [Role::Receiver; 21];
        let placement = families(seed, 20, &roles, 100);
        let plan = streamed(&placement);
        let joiner = NodeId(21);
        let given = plan.all().filter(|planned| planned.to == joiner).count();
        assert!((47..=48).contains(&given), "1000 over 21: {given}");
        let most = most_of_a_topic(&placement, &plan, joiner);
        assert!(most <= 3, "seed {seed}: {most} of ten");
        crowded += u32::from(most > 2);
    }
    assert!(crowded <= 5, "{crowded} of 50 joiners have three of some topic");
}

/// K104: a doubled cluster has no topic piled up on a new node.
#[test]
fn a_doubled_cluster_spreads_every_topic() {
    let placement = families(7, 20, &[Role::Receiver; 40], 200);
    let plan = streamed(&placement);
    let most = (21..=40).map(|node| most_of_a_topic(&placement, &plan, NodeId(node)));
    assert!(most.max() <= Some(2));
}

/// K104: who has far more of one topic than others gives of that one.
#[test]
fn a_pile_of_one_topic_is_what_its_node_gives() {
    let nodes = (1..=4).map(|node| Node { id: NodeId(node), role: Role::Receiver }).collect();
    let topics = (0..13).map(|topic| Topic { id: id(topic, 0).topic, parent: None }).collect();
    let pile = (0..12).map(|index| Partition::settled(id(0, index), NodeId(1)));
    let others = (1..13).map(|topic| Partition::settled(id(topic, 0), NodeId(1)));
    let placement = Placement::new(nodes, topics, pile.chain(others).collect()).expect("valid");
    let plan = streamed(&placement);
    assert_eq!(plan.moves.len(), 18, "24 over 4: 6 stay");
    let of_the_pile = plan.all().filter(|planned| planned.partition.topic == TopicId(0)).count();
    assert!(of_the_pile >= 9, "3 of 12 are an even part, not {}", 12 - of_the_pile);
}
