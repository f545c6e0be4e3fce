//! What holds for every placement (R69..R76, R80, R81, R83, R84, S12, S13, S14).

use std::collections::{BTreeMap, BTreeSet};

use narad_core::ids::{ByteCount, NodeId, PartitionId, TopicId};
use narad_core::plan::{Explained, Limits, Node, Partition, Placement, Topic, TopicLimit, lint};
use proptest::prelude::*;
use proptest::sample::Index;

use super::build::{Dead, Leaving, Receiver, ends_with, in_flight, moves, plan};

/// A partition before its nodes are known.
#[derive(Clone, Debug)]
struct Sketch {
    topic: Index,
    owner: Index,
    target: Option<Index>,
    pinned: bool,
    stuck: bool,
    bytes: u64,
    priority: u8,
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let nodes = (any::<Index>(), any::<Index>(), prop::option::weighted(0.2, any::<Index>()));
    let flags = (prop::bool::weighted(0.15), prop::bool::weighted(0.3));
    (nodes, flags, 0..100_u64, 0..3_u8).prop_map(
        |((topic, owner, target), (pinned, stuck), bytes, priority)| Sketch {
            topic,
            owner,
            target,
            pinned,
            stuck,
            bytes,
            priority,
        },
    )
}

/// Any placement of a few nodes, topics and tens of partitions.
pub(super) fn any_placement() -> impl Strategy<Value = Placement> {
    let role = prop_oneof![6 => Just(Receiver), 2 => Just(Leaving), 1 => Just(Dead)];
    let roles = prop::collection::vec(role, 1..7);
    let parents = prop::collection::vec(prop::option::of(any::<Index>()), 1..6);
    let partitions = prop::collection::vec(sketch(), 0..40);
    (roles, parents, partitions).prop_map(|(roles, parents, sketches)| {
        let nodes: Vec<Node> =
            (1..).map(NodeId).zip(roles).map(|(id, role)| Node { id, role }).collect();
        let mut topics: Vec<Topic> = Vec::new();
        for (id, parent) in (1..).map(TopicId).zip(parents) {
            let older = parent.filter(|_| !topics.is_empty());
            let parent = older.map(|index| index.get(&topics).id);
            topics.push(Topic { id, parent });
        }
        let mut sizes: BTreeMap<TopicId, u32> = BTreeMap::new();
        let rows = sketches.iter().map(|sketch| {
            let topic = sketch.topic.get(&topics).id;
            let size = sizes.entry(topic).or_default();
            let id = PartitionId { topic, index: *size };
            *size += 1;
            let owner = sketch.owner.get(&nodes).id;
            let target = sketch.target.map(|index| index.get(&nodes).id);
            let &Sketch { pinned, stuck, bytes, priority, .. } = sketch;
            let target = target.filter(|&target| target != owner);
            let (bytes, stuck) = (ByteCount(bytes), stuck && target.is_some());
            Partition { id, owner, target, pinned, stuck, bytes, priority }
        });
        let rows = rows.collect();
        Placement::new(nodes, topics, rows).expect("valid by construction")
    })
}

/// A placement of which nothing is on its way to a node that does not receive: what the controller
/// makes of any other by clearing targets.
fn without_lost_targets(placement: &Placement) -> Placement {
    let receives = |id| placement.node(id).is_some_and(|node| node.role == Receiver);
    let rows = placement.partitions().iter().map(|row| {
        let target = row.target.filter(|&target| receives(target));
        Partition { target, stuck: row.stuck && target.is_some(), ..*row }
    });
    rebuilt(placement, placement.topics().to_vec(), rows.collect())
}

fn rebuilt(placement: &Placement, topics: Vec<Topic>, rows: Vec<Partition>) -> Placement {
    Placement::new(placement.nodes().to_vec(), topics, rows).expect("still valid")
}

pub(super) fn any_limits() -> impl Strategy<Value = Limits> {
    let counts = (0..6_u32, 0..3_u32, 1..4_u32, 1..4_u32);
    (counts, any::<bool>(), prop::bool::weighted(0.1)).prop_map(|(counts, half, paused)| {
        let (max_in_flight, reserved_for_drain, per_source, per_destination) = counts;
        let per_topic = if half { TopicLimit::Half } else { TopicLimit::Unlimited };
        Limits { max_in_flight, reserved_for_drain, per_source, per_destination, per_topic, paused }
    })
}

/// Limits under which every plan is carried out in the end.
pub(super) fn live_limits() -> impl Strategy<Value = Limits> {
    any_limits().prop_map(|limits| Limits {
        max_in_flight: limits.max_in_flight + 1,
        reserved_for_drain: 0,
        paused: false,
        ..limits
    })
}

/// What a rebalance came to.
struct Ended {
    placement: Placement,
    moved: Vec<PartitionId>,
}

/// Plans, starts and completes one move after the other, in the order of `picks`, to the end.
fn carry_out(placement: &Placement, limits: &Limits, picks: &[Index]) -> Ended {
    let mut placement = placement.clone();
    let mut moved = Vec::new();
    for pick in picks.iter().cycle() {
        let tick = plan(&placement, limits);
        assert_eq!(lint(&placement, &tick), vec![], "{placement:#?}\n{}", tick.report);
        moved.extend(tick.moves.iter().map(|planned| planned.partition));
        assert_eq!(placement.apply(&tick.moves), tick.moves.len());
        let flights = in_flight(&placement);
        if flights.is_empty() {
            assert!(tick.is_empty(), "an idle cluster has moves to wait for: {}", tick.report);
            break;
        }
        assert!(placement.complete(*pick.get(&flights)));
    }
    Ended { placement, moved }
}

fn receiver_loads(placement: &Placement, plan: &Explained) -> Vec<usize> {
    let receives = |id| placement.node(id).is_some_and(|node| node.role == Receiver);
    let counts = ends_with(placement, plan).into_iter().filter(|&(node, _)| receives(node));
    let mut loads: Vec<usize> = counts.map(|(_, count)| count).collect();
    loads.sort_unstable();
    loads
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

    /// R70 R71 R72 R80 R83 R84 R81 S12 S14: the independent check finds no fault.
    #[test]
    fn every_plan_passes_the_independent_check(
        placement in any_placement(),
        limits in any_limits(),
    ) {
        let found = plan(&placement, &limits);
        prop_assert_eq!(lint(&placement, &found), vec![], "{}", found.report);
    }

    /// R74 S13: `plan(apply(plan(x)))` is empty.
    #[test]
    fn an_applied_plan_leaves_nothing_to_plan(placement in any_placement()) {
        let mut placement = placement;
        let first = plan(&placement, &Limits::UNLIMITED);
        prop_assert_eq!(placement.apply(&first.moves), first.moves.len());
        let second = plan(&placement, &Limits::UNLIMITED);
        prop_assert!(second.is_empty(), "{}", second.report);
    }

    /// R73 R74 R76 S13, field faults 21 and 42: carried out under any limits and completed in any
    /// order, a rebalance takes no more moves than its first plan said, moves nothing twice, and
    /// ends with the same loads.
    #[test]
    fn a_rebalance_takes_the_moves_of_its_first_plan_under_any_limits(
        placement in any_placement(),
        limits in live_limits(),
        picks in prop::collection::vec(any::<Index>(), 1..20),
    ) {
        let placement = without_lost_targets(&placement);
        let first = plan(&placement, &Limits::UNLIMITED);
        let ended = carry_out(&placement, &limits, &picks);
        prop_assert_eq!(ended.moved.len(), first.report.moves_min as usize);
        let once: BTreeSet<_> = ended.moved.iter().collect();
        prop_assert_eq!(once.len(), ended.moved.len());
        if first.report.waiting == 0 {
            let idle = plan(&ended.placement, &limits);
            prop_assert_eq!(
                receiver_loads(&ended.placement, &idle),
                receiver_loads(&placement, &first)
            );
        }
    }

    /// R76 S13: started a few at a time, a plan gives every single node the load that the whole
    /// plan would have given it.
    #[test]
    fn a_plan_in_parts_ends_like_the_whole(
        placement in any_placement(),
        max_in_flight in 1..6_u32,
        picks in prop::collection::vec(any::<Index>(), 1..20),
    ) {
        // A drain starts before any balancing, so it may fill nodes in another order.
        let nodes = placement.nodes().iter().map(|&node| match node.role {
            Leaving => Node { role: Receiver, ..node },
            Receiver | Dead => node,
        });
        let strangers = placement.topics().iter().map(|topic| Topic { parent: None, ..*topic });
        let rows = placement.partitions().iter().map(|row| {
            let settled = Partition::settled(row.id, row.owner);
            Partition { pinned: row.pinned, bytes: row.bytes, ..settled }
        });
        let placement = Placement::new(nodes.collect(), strangers.collect(), rows.collect());
        let placement = placement.expect("still valid");
        let whole = plan(&placement, &Limits::UNLIMITED);
        let ended = carry_out(&placement, &Limits { max_in_flight, ..Limits::UNLIMITED }, &picks);
        let idle = plan(&ended.placement, &Limits::UNLIMITED);
        prop_assert_eq!(ends_with(&ended.placement, &idle), ends_with(&placement, &whole));
    }

    /// S14, R75, field fault 27: limits choose what starts now, never what is planned.
    #[test]
    fn limits_change_no_move(placement in any_placement(), limits in any_limits()) {
        let limited = plan(&placement, &limits);
        let unlimited = plan(&placement, &Limits::UNLIMITED);
        prop_assert_eq!(moves(&limited), moves(&unlimited));
        prop_assert_eq!(limited.report.nodes, unlimited.report.nodes);
    }

    /// K113: whoever plans, from rows in whatever order, plans the same.
    #[test]
    fn the_order_of_rows_does_not_matter(
        placement in any_placement(),
        (limits, seed) in (any_limits(), any::<[Index; 3]>()),
    ) {
        let (mut nodes, mut topics) = (placement.nodes().to_vec(), placement.topics().to_vec());
        let mut rows = placement.partitions().to_vec();
        let at = seed[0].index(nodes.len());
        nodes.rotate_left(at);
        topics.reverse();
        if !rows.is_empty() {
            let at = seed[1].index(rows.len());
            rows.rotate_left(at);
            rows[..at].reverse();
        }
        let shuffled = Placement::new(nodes, topics, rows).expect("still valid");
        prop_assert_eq!(plan(&shuffled, &limits), plan(&placement, &limits));
    }

    /// R81: parents and children cost no move and no balance.
    #[test]
    fn anti_affinity_never_costs_balance(placement in any_placement()) {
        let strangers = placement.topics().iter().map(|topic| Topic { parent: None, ..*topic });
        let strangers =
            rebuilt(&placement, strangers.collect(), placement.partitions().to_vec());
        let (with, without) =
            (plan(&placement, &Limits::UNLIMITED), plan(&strangers, &Limits::UNLIMITED));
        prop_assert_eq!(with.moves.len(), without.moves.len());
        if with.report.waiting == 0 {
            prop_assert_eq!(
                receiver_loads(&placement, &with),
                receiver_loads(&strangers, &without)
            );
        }
    }

    /// R84, field fault 42: nodes that are drained together give each partition away once.
    #[test]
    fn drains_together_move_each_partition_once(
        placement in any_placement(),
        picks in prop::collection::vec(any::<Index>(), 1..20),
    ) {
        let mut drained: Vec<Node> = placement.nodes().to_vec();
        drained.iter_mut().take(2).for_each(|node| node.role = Leaving);
        drained.push(Node { id: NodeId(90), role: Receiver });
        let rows = placement.partitions().iter().map(|row| Partition { pinned: false, ..*row });
        let drained =
            Placement::new(drained, placement.topics().to_vec(), rows.collect()).expect("valid");
        let drained = without_lost_targets(&drained);
        let ended = carry_out(&drained, &Limits::default(), &picks);
        let once: BTreeSet<_> = ended.moved.iter().collect();
        prop_assert_eq!(once.len(), ended.moved.len());
        let leaves = |id| drained.node(id).is_some_and(|node| node.role == Leaving);
        prop_assert!(ended.placement.partitions().iter().all(|row| !leaves(row.owner)));
    }

    /// R80 K108: a node that dies and comes back, while the cluster is balanced, moves nothing.
    #[test]
    fn a_flap_moves_nothing(
        placement in any_placement(),
        (victim, picks) in (any::<Index>(), prop::collection::vec(any::<Index>(), 1..20)),
    ) {
        let joiners = [90, 91].map(|id| Node { id: NodeId(id), role: Receiver });
        let rows = placement.partitions().iter().map(|row| Partition { pinned: false, ..*row });
        let nodes = [placement.nodes(), &joiners].concat();
        let plain = Placement::new(nodes, placement.topics().to_vec(), rows.collect());
        let plain = plain.expect("valid");
        let rest = carry_out(&without_lost_targets(&plain), &Limits::default(), &picks).placement;
        let mut nodes = rest.nodes().to_vec();
        let mut receivers: Vec<&mut Node> =
            nodes.iter_mut().filter(|node| node.role == Receiver).collect();
        let victim = victim.index(receivers.len());
        receivers[victim].role = Dead;
        let flapped = Placement::new(nodes, rest.topics().to_vec(), rest.partitions().to_vec());
        let flapped = flapped.expect("valid");
        let found = plan(&flapped, &Limits::UNLIMITED);
        prop_assert!(found.is_empty(), "{}", found.report);
    }

    /// R74 K108: nodes that join, drain, come back and die in any order: once that ends, the
    /// cluster comes to rest, and from then on nothing moves twice.
    #[test]
    fn a_cluster_comes_to_rest_after_any_changes(
        placement in any_placement(),
        changes in prop::collection::vec((any::<Index>(), 0..3_usize, any::<Index>()), 0..8),
        picks in prop::collection::vec(any::<Index>(), 1..20),
    ) {
        let mut placement = without_lost_targets(&placement);
        let limits = Limits::default();
        for (node, role, pick) in changes {
            let mut nodes = placement.nodes().to_vec();
            let at = node.index(nodes.len());
            nodes[at].role = [Receiver, Leaving, Dead][role];
            placement =
                Placement::new(nodes, placement.topics().to_vec(), placement.partitions().to_vec())
                    .expect("valid");
            placement = without_lost_targets(&placement);
            let tick = plan(&placement, &limits);
            placement.apply(&tick.moves);
            let flights = in_flight(&placement);
            if !flights.is_empty() {
                placement.complete(*pick.get(&flights));
            }
        }
        let first = plan(&placement, &limits);
        let ended = carry_out(&placement, &limits, &picks);
        let once: BTreeSet<_> = ended.moved.iter().collect();
        prop_assert_eq!(once.len(), ended.moved.len());
        prop_assert_eq!(ended.moved.len(), first.report.moves_min as usize);
    }

    /// R80 R73: whatever is pinned, mid-move or on a dead node has a reason in the report, and so
    /// has everything else.
    #[test]
    fn the_report_has_an_answer_for_every_partition(
        placement in any_placement(),
        limits in any_limits(),
    ) {
        use narad_core::plan::Why;
        let found = plan(&placement, &limits);
        let planned = moves(&found);
        for row in placement.partitions() {
            let why = found.report.why(&placement, row.id).expect("a listed partition");
            let dead = placement.node(row.owner).is_some_and(|node| node.role == Dead);
            match why {
                Why::Moves { to, .. } | Why::Deferred { to, .. } => {
                    prop_assert_eq!(planned.get(&row.id), Some(&to));
                }
                Why::InFlight { to } | Why::TargetLost { to } => {
                    prop_assert_eq!(row.target, Some(to));
                }
                Why::OwnerDead { owner } => prop_assert!(dead && row.owner == owner),
                Why::Pinned { node } => prop_assert!(row.pinned && row.owner == node),
                Why::NoReceiver { node } | Why::WithinShare { node } => {
                    prop_assert!(!dead && row.owner == node && row.target.is_none());
                }
            }
        }
        let text = found.report.to_string();
        prop_assert_eq!(
            text.lines().count(),
            1 + found.report.nodes.len() + found.report.partitions.len()
        );
    }
}
