use narad_core::ids::{Attempt, Epoch, MoveId, Offset, TopicId};
use narad_core::metastore::{Reign, Residue};

use super::*;
use crate::server::node_service::planning::tests::ground;

const P: PartitionId = PartitionId { topic: TopicId(7), index: 0 };

fn facts(owner: u64, pinned: bool) -> Facts {
    let owner = NodeId(owner);
    let (epoch, data) = (Epoch(3), Attempt::birth(owner));
    let reign = Reign { epoch, start: Offset(0), owner, data, residue: Residue::None };
    let row = Assignment {
        owner,
        epoch,
        data,
        min_end: Offset(0),
        lineage: vec![reign],
        lineage_cut: false,
        target: None,
        move_id: MoveId(4),
        burned: None,
        revoked: None,
        reported_hwm: None,
        pinned,
    };
    Facts { row, owner: MemberStatus::Alive, relatives: Vec::new() }
}

/// Every other member has a reason, and so has the place itself, whatever the plan is.
#[test]
fn a_partition_is_explained_for_every_member() {
    let ground = ground();
    let mut reasons = Vec::new();
    for index in 0..4 {
        let id = PartitionId { index, ..P };
        let view = explain(&ground, &facts(1, false), id);
        assert_eq!(view.elsewhere.len(), 2);
        assert!(view.elsewhere.iter().all(|one| !one.why_not.is_empty()), "{view:?}");
        assert!(!view.would_change.is_empty(), "{view:?}");
        reasons.push(view.here);
    }
    // Two of the four move, one to each of the others.
    let moves = reasons.iter().filter(|reason| reason.contains("about to move to node-")).count();
    assert_eq!(moves, 2, "{reasons:?}");
}

#[test]
fn a_pin_and_a_relative_are_named() {
    let ground = ground();
    let stays = (0..4)
        .map(|index| PartitionId { index, ..P })
        .find(|id| explain(&ground, &facts(1, false), *id).here.contains("no more than its share"));
    let stays = stays.expect("two of four stay");
    let parent = PartitionId { topic: TopicId(6), index: 0 };
    let with = Facts { relatives: vec![(parent, NodeId(3))], ..facts(1, true) };
    let view = explain(&ground, &with, stays);
    assert_eq!(view.here, "it is pinned to node-1");
    assert!(view.would_change[0].starts_with("narad cluster unpin topic-7/"), "{view:?}");
    let third = view.elsewhere.iter().find(|one| one.member.as_str() == "node-3");
    let why = &third.expect("the third member").why_not;
    assert!(why.starts_with("topic-6/0 is there"), "{why}");
}
