use std::collections::BTreeSet;

use narad_core::ids::{ByteCount, PartitionId, TopicId};
use narad_core::plan::{Node as PlanNode, Partition, Topic};

use super::*;
use crate::service::{HeldView, NodeView};

const TOPIC: TopicId = TopicId(7);

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// Three members, of which the first owns all of four partitions.
pub(in crate::server::node_service) fn ground() -> Ground {
    let nodes = [1, 2, 3].map(|id| PlanNode { id: NodeId(id), role: Role::Receiver });
    let topics = vec![Topic { id: TOPIC, parent: None }];
    let rows =
        (0..4).map(|index| Partition::settled(PartitionId { topic: TOPIC, index }, NodeId(1)));
    let placement = Placement::new(nodes.to_vec(), topics, rows.collect()).expect("a placement");
    Ground {
        me: name("n1"),
        names: Names::default(),
        placement,
        limits: Limits::default(),
        rate: 100,
    }
}

/// What members tell, with so much room and so many bytes in each partition of the first one.
fn told(free: u64, bytes: u64) -> Told {
    let view = |node: u64, partitions| NodeView {
        member: name(&format!("node-{node}")),
        leads: false,
        free_bytes: ByteCount(free),
        backlog_records: 0,
        backlog_bytes: 0,
        left_behind: 0,
        copy_rate_bytes_per_second: 100,
        throttled: false,
        partitions,
    };
    let held = |partition| HeldView { topic: name("topic-7"), partition, bytes: ByteCount(bytes) };
    [view(1, (0..4).map(held).collect()), view(2, Vec::new()), view(3, Vec::new())]
        .into_iter()
        .collect()
}

fn preflighted(told: &Told) -> PreflightView {
    let mut view = PreflightView {
        members: Vec::new(),
        possible: true,
        blockers: Vec::new(),
        warnings: Vec::new(),
        moves: Vec::new(),
        receivers: Vec::new(),
        bytes: 0,
        bytes_unknown: 0,
        estimated_ms: None,
    };
    shed(&mut view, &ground(), &BTreeSet::from([NodeId(1)]), told);
    view
}

pub(in crate::server::node_service) fn causes() -> Vec<Cause> {
    preflighted(&told(10, 50)).blockers.into_iter().map(|one| one.code).collect()
}

/// R71: JSON lets anybody check that there are no fewer moves; sizes and times are those of the
/// owners and the policy.
#[test]
fn a_plan_shows_its_lower_bound_its_bytes_and_its_time() {
    let ground = ground();
    let plan = plan::plan(&ground.placement, &ground.limits).explain(&ground.placement);
    let view = plan_view(&ground, &plan, &told(1000, 50));
    let moves = u32::try_from(view.moves.len()).expect("few");
    assert_eq!((view.moves_min, moves + view.waiting), (2, 2));
    assert_eq!((view.bytes, view.bytes_unknown), (100, 0));
    // The first node sends all of it.
    assert_eq!(view.estimated_ms, Some(1000));
    let deltas: Vec<i64> = view.members.iter().map(|member| member.bytes_delta).collect();
    assert_eq!(deltas, [-100, 50, 50]);
    let unlimited = Ground { rate: 0, ..ground };
    let view = plan_view(&unlimited, &plan, &Told::default());
    assert_eq!((view.estimated_ms, view.bytes, view.bytes_unknown), (None, 0, 2));
}

/// Field fault 36: what has to fit is all that arrives, before the first of it is let go.
#[test]
fn a_disk_that_is_too_small_is_found_before_anything_changes() {
    let view = preflighted(&told(100, 50));
    assert_eq!((view.moves.len(), view.blockers.len()), (4, 0));
    let takes: Vec<(u32, u64)> =
        view.receivers.iter().map(|receiver| (receiver.moves, receiver.bytes)).collect();
    assert_eq!(takes, [(2, 100), (2, 100)]);
    let view = preflighted(&told(99, 50));
    let codes: Vec<Cause> = view.blockers.iter().map(|one| one.code).collect();
    assert_eq!(codes, [Cause::NoHeadroom, Cause::NoHeadroom]);
    // Who says nothing is no reason to refuse, and is told.
    let view = preflighted(&Told::default());
    assert_eq!((view.blockers.len(), view.warnings.len(), view.bytes_unknown), (0, 2, 4));
}

/// Every reason of the planner has a text with names in it.
#[test]
fn every_reason_of_the_planner_is_told_with_names() {
    let names = Names::default();
    let node = NodeId(3);
    let deferrals = [
        Deferral::Paused,
        Deferral::InFlight { max: 8 },
        Deferral::ReservedForDrain { slots: 1 },
        Deferral::Source { node, max: 2 },
        Deferral::Destination { node, max: 2 },
        Deferral::Topic { topic: TOPIC, max: 2 },
    ];
    for deferral in deferrals {
        let text = deferred(&names, deferral);
        let named = !matches!(
            deferral,
            Deferral::Source { .. } | Deferral::Destination { .. } | Deferral::Topic { .. }
        );
        assert!(named || text.contains("node-3") || text.contains("topic-7"), "{text}");
    }
    let whys = [
        Why::Moves { to: node, class: Class::Drain },
        Why::Moves { to: node, class: Class::Balance },
        Why::Deferred { to: node, limit: Deferral::Paused },
        Why::InFlight { to: node },
        Why::TargetLost { to: node },
        Why::OwnerDead { owner: node },
        Why::Pinned { node },
        Why::NoReceiver { node },
        Why::WithinShare { node },
    ];
    for why in whys {
        assert!(why_text(&names, why).contains("node-3"), "{why:?}");
    }
}
