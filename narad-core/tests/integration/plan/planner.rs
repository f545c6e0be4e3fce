//! A planner that is told of changes answers what a plan of the whole would.

use narad_core::ids::{NodeId, PartitionId};
use narad_core::plan::{
    Finding, Limits, Move, Node, Partition, PlacementError, Plan, Planner, Role, lint, plan,
};
use proptest::prelude::*;
use proptest::sample::Index;

use super::build::{Receiver, id, in_flight, one_topic, settled, topic};
use super::properties::{any_limits, any_placement, live_limits};

/// One thing that happens to a cluster.
#[derive(Clone, Debug)]
enum Change {
    Owner(Index, Index),
    Target(Index, Option<Index>),
    Stuck(Index),
    Pin(Index),
    Bytes(Index, u64),
    Priority(Index, u8),
    Role(Index, Role),
    Join,
    /// Whatever would start does.
    Start,
    /// One move in flight ends.
    End(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let any = any::<Index>;
    let role = prop_oneof![3 => Just(Receiver), 1 => Just(Role::Leaving), 1 => Just(Role::Dead)];
    prop_oneof![
        1 => (any(), any()).prop_map(|(row, node)| Change::Owner(row, node)),
        1 => (any(), prop::option::of(any())).prop_map(|(row, to)| Change::Target(row, to)),
        2 => any().prop_map(Change::Stuck),
        1 => any().prop_map(Change::Pin),
        1 => (any(), 0..100_u64).prop_map(|(row, bytes)| Change::Bytes(row, bytes)),
        1 => (any(), 0..3_u8).prop_map(|(row, priority)| Change::Priority(row, priority)),
        1 => (any(), role).prop_map(|(node, role)| Change::Role(node, role)),
        1 => Just(Change::Join),
        6 => Just(Change::Start),
        6 => any().prop_map(Change::End),
    ]
}

/// Makes a change; returns whether it is one that a standing plan expects.
fn make(change: &Change, planner: &mut Planner, limits: &Limits) -> bool {
    let rows = planner.placement().partitions().to_vec();
    let nodes = planner.placement().nodes().to_vec();
    let mut set = |row: Partition| {
        let before = planner.placement().clone();
        match planner.set(row) {
            Ok(()) => {}
            Err(PlacementError::TargetIsOwner(_)) => assert_eq!(planner.placement(), &before),
            Err(other) => panic!("{other}"),
        }
    };
    match change {
        Change::Owner(row, node) if !rows.is_empty() => {
            set(Partition { owner: node.get(&nodes).id, ..*row.get(&rows) });
        }
        Change::Target(row, to) if !rows.is_empty() => {
            let target = to.map(|to| to.get(&nodes).id);
            set(Partition { target, ..*row.get(&rows) });
        }
        Change::Stuck(row) if !rows.is_empty() => {
            let row = row.get(&rows);
            set(Partition { stuck: !row.stuck, ..*row });
            return true;
        }
        Change::Pin(row) if !rows.is_empty() => {
            let row = row.get(&rows);
            set(Partition { pinned: !row.pinned, ..*row });
        }
        Change::Bytes(row, bytes) if !rows.is_empty() => {
            set(Partition { bytes: narad_core::ids::ByteCount(*bytes), ..*row.get(&rows) });
        }
        Change::Priority(row, priority) if !rows.is_empty() => {
            set(Partition { priority: *priority, ..*row.get(&rows) });
        }
        Change::Role(node, role) => {
            assert!(planner.set_node(Node { role: *role, ..*node.get(&nodes) }));
        }
        Change::Join => {
            let next = NodeId(nodes.last().expect("there is a node").id.0 + 1);
            assert!(planner.set_node(Node { id: next, role: Receiver }));
        }
        Change::Start => {
            for Move { partition, to, .. } in planner.top_up(limits) {
                let row = *planner.placement().partition(partition).expect("it is planned");
                planner.set(Partition { target: Some(to), ..row }).expect("it may move there");
            }
            return true;
        }
        Change::End(which) => {
            let flights = in_flight(planner.placement());
            if !flights.is_empty() {
                end(planner, *which.get(&flights));
            }
            return true;
        }
        Change::Owner(..)
        | Change::Target(..)
        | Change::Stuck(_)
        | Change::Pin(_)
        | Change::Bytes(..)
        | Change::Priority(..) => {}
    }
    false
}

fn end(planner: &mut Planner, partition: PartitionId) {
    let row = *planner.placement().partition(partition).expect("it is listed");
    let owner = row.target.expect("it moves");
    planner.set(Partition { owner, target: None, stuck: false, ..row }).expect("still valid");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// After any sequence of changes a planner starts exactly what a plan of the whole would, and
    /// explains it alike.
    #[test]
    fn what_is_topped_up_is_what_a_plan_of_the_whole_starts(
        placement in any_placement(),
        limits in any_limits(),
        changes in prop::collection::vec(change(), 0..12),
    ) {
        let mut planner = Planner::new(placement);
        for change in &changes {
            make(change, &mut planner, &limits);
            let whole = plan(planner.placement(), &limits);
            prop_assert_eq!(planner.top_up(&limits), &whole.moves[..], "after {:?}", change);
            prop_assert_eq!(planner.planned(), whole.len());
            let kept = planner.plan(&limits);
            let placement = planner.placement();
            prop_assert_eq!(kept.explain(placement), whole.explain(placement));
        }
    }

    /// So it does where plans stand, after every change that none of them expects. In between, what
    /// is left of a plan passes the independent check: as few moves, none held up by nothing. Only
    /// who keeps a ceil share is settled when the plan is made: a node that gave early may hold
    /// less by now than one that has yet to give.
    #[test]
    fn a_plan_that_stands_is_as_good_as_a_new_one(
        placement in any_placement(),
        limits in any_limits(),
        changes in prop::collection::vec(change(), 0..20),
    ) {
        let mut planner = Planner::standing_above(0, placement);
        planner.top_up(&limits);
        for change in &changes {
            let before = planner.placement().clone();
            // What changes nothing is no surprise either.
            let expected =
                make(change, &mut planner, &limits) || *planner.placement() == before;
            let whole = plan(planner.placement(), &limits);
            let kept = planner.plan(&limits);
            if !expected && !matches!(change, Change::Bytes(..) | Change::Target(..)) {
                prop_assert_eq!(&kept.moves, &whole.moves, "after {:?}", change);
            }
            prop_assert_eq!(kept.len(), whole.len(), "after {:?}", change);
            prop_assert_eq!(kept.moves_min(), whole.moves_min());
            let placement = planner.placement();
            let explained = kept.explain(placement);
            prop_assert_eq!(kept.moves_min(), explained.report.moves_min);
            let mut findings = lint(placement, &explained);
            findings.retain(|found| {
                !(expected && matches!(found, Finding::CeilMisplaced { .. }))
            });
            prop_assert_eq!(findings, vec![], "after {:?}", change);
        }
    }

    /// R74, S13: a plan that stands is carried out in any order with the moves that it began with,
    /// and leaves nothing to do.
    #[test]
    fn a_plan_that_stands_is_carried_out_to_the_end(
        placement in any_placement(),
        limits in live_limits(),
        picks in prop::collection::vec(any::<Index>(), 1..20),
    ) {
        let mut planner = Planner::standing_above(0, placement);
        let first = planner.plan(&limits).moves_min();
        let mut moved = 0;
        for pick in picks.iter().cycle() {
            for Move { partition, to, .. } in planner.top_up(&limits) {
                let row = *planner.placement().partition(partition).expect("it is planned");
                planner.set(Partition { target: Some(to), ..row }).expect("it may move there");
                moved += 1;
            }
            let flights = in_flight(planner.placement());
            if flights.is_empty() {
                break;
            }
            end(&mut planner, *pick.get(&flights));
        }
        let lost = in_flight(planner.placement());
        prop_assert!(lost.is_empty());
        prop_assert_eq!(planner.planned(), 0);
        prop_assert!(plan(planner.placement(), &limits).is_empty());
        // More than the first plan had only where something arrived that had to leave again.
        prop_assert!(moved >= first);
    }
}

/// R72, R74: who keeps a ceil share is settled when the plan is made. A node whose move is of a
/// higher priority gives first and then holds less than the other, and a new plan would take the
/// share from it, for as many moves.
#[test]
fn a_plan_that_stands_leaves_the_ceil_share_where_it_was() {
    let placement = one_topic(&[Receiver; 3], &[1, 1, 1, 1, 1, 3, 3, 3, 3, 3]);
    let mut planner = Planner::standing_above(0, placement);
    for row in planner.placement().partitions().to_vec() {
        if row.owner == NodeId(1) {
            planner.set(Partition { priority: 1, ..row }).expect("it is listed");
        }
    }
    let one = Limits { max_in_flight: 1, ..Limits::default() };
    let first = planner.top_up(&one)[0];
    assert_eq!(first.from, NodeId(1), "the priority decides");
    let row = *planner.placement().partition(first.partition).expect("it is planned");
    planner.set(Partition { target: Some(first.to), ..row }).expect("it may move there");

    let (kept, anew) = (planner.plan(&one), plan(planner.placement(), &one));
    assert_eq!((kept.len(), kept.moves_min()), (anew.len(), anew.moves_min()));
    let (more, less) = (NodeId(3), NodeId(1));
    let checked = |plan: &Plan| lint(planner.placement(), &plan.explain(planner.placement()));
    assert_eq!(checked(&kept), [Finding::CeilMisplaced { more, less }]);
    assert_eq!(checked(&anew), []);
}

/// What is not listed takes another planner, and changes nothing.
#[test]
fn a_planner_knows_its_rows() {
    let mut planner = Planner::new(one_topic(&[Receiver; 2], &[1, 2]));
    let before = planner.clone();
    let stranger = settled(2, &[1])[0];
    assert_eq!(planner.set(stranger), Err(PlacementError::Unlisted(stranger.id)));
    let row = planner.placement().partitions()[0];
    let nowhere = Partition { target: Some(NodeId(9)), ..row };
    let unknown = PlacementError::UnknownTarget { partition: row.id, node: NodeId(9) };
    assert_eq!(planner.set(nowhere), Err(unknown));
    assert!(!planner.set_node(Node { id: NodeId(0), role: Receiver }), "it is not the last");
    assert_eq!(planner, before);
    assert_eq!(row.id, id(topic(1).id.0, 0));
}
