//! Faults that users of other systems reported (`field_`), and rules one by one.

use narad_core::ids::{ByteCount, NodeId, TopicId};
use narad_core::plan::{
    Class, Deferral, Finding, Limits, Move, NodeWhy, Partition, Placement, PlacementError, Topic,
    Why, lint,
};

use super::build::{
    Dead, Leaving, Receiver, child, id, moves, nodes, one_topic, placement, plan, settled, topic,
    with, with_role,
};

const THREE: [narad_core::plan::Role; 3] = [Receiver, Receiver, Receiver];

fn n(id: u64) -> NodeId {
    NodeId(id)
}

/// Field fault 21: a plan made while moves run counts them, so it neither overshoots nor undoes.
#[test]
fn field_021_a_plan_during_moves_adds_nothing() {
    let mut joined = one_topic(&[Receiver; 4], &[1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
    let limits = Limits { max_in_flight: 2, ..Limits::default() };
    let mut moved = Vec::new();
    for _ in 0..10 {
        let tick = plan(&joined, &limits);
        joined.apply(&tick.moves);
        moved.extend(tick.moves);
        let running = joined.partitions().iter().find(|row| row.target.is_some());
        if let Some(id) = running.map(|row| row.id) {
            joined.complete(id);
        }
    }
    assert_eq!(moved.len(), 3);
    assert!(moved.iter().all(|planned| planned.to == n(4)));
}

/// Field fault 23: a pinned partition stays put, counts as load, and is named by a drain.
#[test]
fn field_023_a_pinned_partition_stays() {
    let crowded = one_topic(&[Receiver, Receiver], &[1, 1, 1, 1]);
    let pinned =
        (0..4).fold(crowded, |crowded, at| with(&crowded, id(1, at), |row| row.pinned = at != 3));
    let found = plan(&pinned, &Limits::UNLIMITED);
    assert_eq!(moves(&found).into_iter().collect::<Vec<_>>(), [(id(1, 3), n(2))]);
    assert_eq!(found.report.nodes[0].why, NodeWhy::Overpinned);

    let drained = with_role(&pinned, 1, Leaving);
    let found = plan(&drained, &Limits::UNLIMITED);
    assert_eq!(found.moves.len(), 1);
    assert_eq!(found.report.nodes[0].why, NodeWhy::LeavingPinned { pinned: 3 });
    assert_eq!(found.report.why(&drained, id(1, 0)), Some(Why::Pinned { node: n(1) }));
}

/// Field fault 25: counts are balanced; sizes only decide between equals, and the report shows both.
#[test]
fn field_025_counts_are_balanced_and_bytes_are_reported() {
    let mut rows = settled(1, &[1, 1, 1, 1]);
    for (row, bytes) in rows.iter_mut().zip([900, 20, 30, 10]) {
        row.bytes = ByteCount(bytes);
    }
    let found = plan(&placement(&[Receiver, Receiver], vec![topic(1)], rows), &Limits::UNLIMITED);
    assert_eq!(moves(&found).into_keys().collect::<Vec<_>>(), [id(1, 1), id(1, 3)]);
    let sizes: Vec<_> = found.report.nodes.iter().map(|node| node.bytes.0).collect();
    assert_eq!(sizes, [930, 30]);
}

/// Field fault 27: a higher limit starts more of the same moves.
#[test]
fn field_027_a_higher_limit_creates_no_move() {
    let piled = one_topic(&[Receiver; 5], &[1; 25]);
    let sets: Vec<_> = (0..30)
        .map(|max_in_flight| moves(&plan(&piled, &Limits { max_in_flight, ..Limits::UNLIMITED })))
        .collect();
    assert!(sets.iter().all(|set| set == &sets[0] && set.len() == 20));
}

/// Field fault 29, R75: a drain goes before balancing, and may have slots of its own.
#[test]
fn field_029_a_drain_is_not_starved_by_balancing() {
    let roles = [Receiver, Leaving, Receiver, Receiver];
    let owners = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2];
    let both = one_topic(&roles, &owners);
    let limits = Limits { per_source: 8, per_destination: 8, ..Limits::default() };
    let found = plan(&both, &limits);
    let classes: Vec<_> = found.moves.iter().map(|planned| planned.class).collect();
    assert_eq!(classes[..2], [Class::Drain, Class::Drain]);
    assert!(classes[2..].iter().all(|&class| class == Class::Balance));

    let only_balance = with_role(&both, 2, Receiver);
    let reserved = Limits { max_in_flight: 4, reserved_for_drain: 2, ..limits };
    let mut running = only_balance.clone();
    assert_eq!(running.apply(&plan(&only_balance, &reserved).moves), 2);
    let found = plan(&with_role(&running, 2, Leaving), &reserved);
    assert_eq!(found.moves.len(), 2);
    assert!(found.moves.iter().all(|planned| planned.class == Class::Drain));
}

/// Field fault 42: two nodes drained together never pass partitions to each other.
#[test]
fn field_042_two_drains_move_each_partition_once() {
    let pair = one_topic(&[Leaving, Leaving, Receiver, Receiver], &[1, 1, 1, 2, 2, 2]);
    let found = plan(&pair, &Limits::UNLIMITED);
    assert_eq!(found.moves.len(), 6);
    assert!(found.moves.iter().all(|planned| planned.to == n(3) || planned.to == n(4)));
}

/// S14 H23: of a topic at most half of the partitions move at once, but at least one.
#[test]
fn half_of_a_topic_moves_at_once() {
    for (size, most) in [(1, 1), (2, 1), (3, 1), (5, 2), (8, 4)] {
        let drained = one_topic(&[Leaving, Receiver], &vec![1; size]);
        let limits = Limits { per_source: 8, per_destination: 8, ..Limits::default() };
        let found = plan(&drained, &limits);
        assert_eq!(found.moves.len(), most, "{size} partitions");
        let rest = found.deferred.iter().map(|deferred| deferred.reason);
        let max = u32::try_from(most).expect("small");
        assert!(rest.into_iter().all(|why| why == Deferral::Topic { topic: TopicId(1), max }));
    }
}

/// A pause starts nothing, drains included, and every move says so.
#[test]
fn a_pause_stops_everything() {
    let drained = one_topic(&[Leaving, Receiver], &[1, 1]);
    let found = plan(&drained, &Limits { paused: true, ..Limits::UNLIMITED });
    assert_eq!(found.moves, []);
    assert_eq!(found.deferred.len(), 2);
    assert!(found.deferred.iter().all(|deferred| deferred.reason == Deferral::Paused));
}

/// The higher priority of two equal moves starts first.
#[test]
fn priority_decides_between_equal_moves() {
    let drained = one_topic(&[Leaving, Receiver], &[1, 1, 1]);
    let urgent = with(&drained, id(1, 2), |row| row.priority = 9);
    let found = plan(&urgent, &Limits { max_in_flight: 1, ..Limits::UNLIMITED });
    assert_eq!(found.moves[0].partition, id(1, 2));
}

/// R80: a dead owner's partitions wait for it, and are no load of anybody's.
#[test]
fn partitions_of_a_dead_owner_stay_and_count_nowhere() {
    let dead = one_topic(&[Receiver, Receiver, Dead], &[1, 1, 2, 3, 3, 3, 3, 3]);
    let found = plan(&dead, &Limits::UNLIMITED);
    assert!(found.is_empty(), "{}", found.report);
    assert_eq!(found.report.why(&dead, id(1, 7)), Some(Why::OwnerDead { owner: n(3) }));
    assert_eq!(found.report.nodes[2].why, NodeWhy::Dead { waiting: 5 });
    let text = Why::OwnerDead { owner: n(3) }.to_string();
    assert_eq!(text, "stays: its owner, node 3, is dead; waiting for its return");
}

/// R72: of nodes with more than their share the most loaded keep the larger ones.
#[test]
fn the_most_loaded_keep_the_ceil_shares() {
    let uneven = one_topic(&THREE, &[1, 1, 2, 2, 2, 2, 2]);
    let found = plan(&uneven, &Limits::UNLIMITED);
    let caps: Vec<_> = found.report.nodes.iter().map(|node| node.cap).collect();
    assert_eq!((caps, found.moves.len()), (vec![2, 3, 2], 2));
}

/// Every mistake in the rows has its own name.
#[test]
fn bad_rows_are_refused() {
    let new = |topics: Vec<Topic>, rows| Placement::new(nodes(&THREE), topics, rows);
    let one = || vec![topic(1)];
    let base = Partition::settled(id(1, 0), n(1));
    let doubled = [nodes(&[Receiver]), nodes(&[Dead])].concat();
    assert_eq!(Placement::new(doubled, vec![], vec![]), Err(PlacementError::DuplicateNode(n(1))));
    assert_eq!(
        new([one(), one()].concat(), vec![]),
        Err(PlacementError::DuplicateTopic(TopicId(1)))
    );
    assert_eq!(new(one(), vec![base, base]), Err(PlacementError::DuplicatePartition(base.id)));
    assert_eq!(new(vec![child(1, 1)], vec![]), Err(PlacementError::OwnParent(TopicId(1))));
    for other in [0, 2] {
        let stray = Partition::settled(id(other, 0), n(1));
        assert_eq!(new(one(), vec![stray]), Err(PlacementError::UnknownTopic(stray.id)));
    }
    let (partition, node) = (base.id, n(9));
    assert_eq!(
        new(one(), vec![Partition { owner: node, ..base }]),
        Err(PlacementError::UnknownOwner { partition, node })
    );
    assert_eq!(
        new(one(), vec![Partition { target: Some(node), ..base }]),
        Err(PlacementError::UnknownTarget { partition, node })
    );
    assert_eq!(
        new(one(), vec![Partition { target: Some(n(1)), ..base }]),
        Err(PlacementError::TargetIsOwner(partition))
    );
}

/// The independent check does find faults: each of these plans has one.
#[test]
fn the_check_finds_planted_faults() {
    let rows = [settled(1, &[1, 1, 1, 1, 2]), settled(2, &[2])].concat();
    let base = placement(&[Receiver, Receiver, Leaving], vec![topic(1), topic(2)], rows);
    let good = plan(&base, &Limits::UNLIMITED);
    assert_eq!(good.moves.len(), 1);
    let planted = |change: &dyn Fn(&mut Move)| {
        let mut bad = good.clone();
        change(&mut bad.moves[0]);
        lint(&base, &bad)
    };
    assert!(
        planted(&|planned| planned.partition = id(9, 9))
            .contains(&Finding::UnknownPartition(id(9, 9)))
    );
    let partition = good.moves[0].partition;
    for to in [n(1), n(3)] {
        let expected = Finding::BadDestination { partition, to };
        assert!(planted(&|planned| planned.to = to).contains(&expected));
    }
    assert!(planted(&|planned| planned.from = n(2)).contains(&Finding::WrongSource(partition)));
    assert!(
        planted(&|planned| planned.class = Class::Drain).contains(&Finding::WrongClass(partition))
    );

    let mut idle = good.clone();
    idle.moves.clear();
    assert!(lint(&base, &idle).contains(&Finding::AboveShare(n(1))));
    let mut twice = good.clone();
    twice.moves.push(twice.moves[0]);
    assert!(lint(&base, &twice).contains(&Finding::PlannedTwice(partition)));
    let mut over = good.clone();
    over.limits.max_in_flight = 0;
    let limit = Deferral::InFlight { max: 0 };
    assert!(lint(&base, &over).contains(&Finding::OverLimit { partition, limit }));
}
