//! Cases of the failure catalogue that are about planning.

use std::collections::BTreeMap;

use narad_core::ids::{NodeId, TopicId};
use narad_core::plan::{
    AssignError, Deferral, Limits, NodeWhy, Partition, PlacementError, Role, Topic, TopicLimit,
    Why, assign, lint,
};

use super::build::{
    Dead, Leaving, Receiver, child, complete_all, ends_with, id, moves, one_topic, placement, plan,
    settled, topic, with, with_role,
};

const THREE: [Role; 3] = [Receiver, Receiver, Receiver];

fn n(id: u64) -> NodeId {
    NodeId(id)
}

/// K100 K109: a move to a node that died or leaves is reported for clearing, counts nowhere among
/// the receivers, and holds up no other move.
#[test]
fn case_100_a_dead_target_is_reported_and_not_planned_again() {
    for lost in [Dead, Leaving] {
        let settled = one_topic(&[Receiver, Receiver, lost], &[1, 1, 1, 1]);
        let stuck = with(&settled, id(1, 0), |row| {
            row.target = Some(n(3));
            row.stuck = true;
        });
        let found = plan(&stuck, &Limits { max_in_flight: 1, ..Limits::default() });
        assert_eq!(found.report.targets_lost().collect::<Vec<_>>(), [id(1, 0)]);
        assert_eq!(found.report.why(&stuck, id(1, 0)), Some(Why::TargetLost { to: n(3) }));
        assert_eq!((found.moves.len(), found.report.moves_min), (1, 1), "3 over 2: one moves");
        assert_eq!(lint(&stuck, &found), vec![]);
    }
}

/// K101 S14: moves that cannot progress hold no slot; but of its topic each counts whose ends are
/// alive, since it may go on and freeze.
#[test]
fn case_101_stuck_moves_hold_no_slot() {
    let mut rows = settled(1, &[1; 16]);
    for row in &mut rows[..8] {
        (row.target, row.stuck) = (Some(n(2)), true);
    }
    let stuck = placement(&THREE, vec![topic(1)], rows.clone());
    let found = plan(&stuck, &Limits { per_topic: TopicLimit::Unlimited, ..Limits::default() });
    assert_eq!((found.report.stuck, found.report.in_flight), (8, 0));
    assert_eq!(found.moves.len(), 2, "{}", found.report);
    assert_eq!(lint(&stuck, &found), vec![]);

    let half = plan(&stuck, &Limits::default());
    let full = Deferral::Topic { topic: TopicId(1), max: 8 };
    assert!(half.moves.is_empty() && half.deferred.iter().all(|one| one.reason == full));
    assert_eq!(lint(&stuck, &half), vec![]);
    let dead = with_role(&stuck, 2, Dead);
    let found = plan(&dead, &Limits::default());
    assert_eq!((found.moves.len(), lint(&dead, &found)), (2, vec![]), "{}", found.report);

    for row in &mut rows {
        row.stuck = false;
    }
    let busy = plan(&placement(&THREE, vec![topic(1)], rows), &Limits::default());
    assert_eq!(busy.moves, []);
    assert!(busy.deferred.iter().all(|deferred| deferred.reason == Deferral::InFlight { max: 8 }));
}

/// K102 R73 S13: a node that is over its share through arrivals gives settled partitions now, waits
/// with the rest, and nobody gives what it would need later.
#[test]
fn case_102_arrivals_count_where_they_arrive() {
    let mut rows = settled(1, &[2, 2, 2, 2, 2, 2, 1, 3, 3]);
    rows[..6].iter_mut().for_each(|row| row.target = Some(n(1)));
    let mut flying = placement(&THREE, vec![topic(1)], rows);
    let first = plan(&flying, &Limits::UNLIMITED);
    assert_eq!(first.report.moves_min, 4, "7, 0, 2 to 3, 3, 3");
    assert_eq!((first.moves.len(), first.report.waiting), (1, 3));
    assert_eq!(first.report.nodes[0].why, NodeWhy::Waits { in_flight: 3 });
    assert_eq!(first.moves[0].partition, id(1, 6), "the one that is settled");
    flying.apply(&first.moves);
    complete_all(&mut flying);
    assert_eq!(plan(&flying, &Limits::UNLIMITED).moves.len(), 3);
}

/// R74 K102: a node that cannot get below a ceil share yet takes one before a more loaded node that
/// can; else the ceil share would change hands once the plan is applied, and a move come of it.
#[test]
fn case_102_a_ceil_share_does_not_change_hands_when_a_plan_is_applied() {
    // 4 on node 1, one of them pinned and the others arriving; 5 on node 2; 4 on node 4.
    let mut rows = settled(1, &[2, 2, 2, 1, 2, 2, 2, 2, 2, 4, 4, 4]);
    rows[..3].iter_mut().for_each(|row| row.target = Some(n(1)));
    rows[3].pinned = true;
    rows.push(Partition::settled(id(1, 12), n(4)));
    let mut flying = placement(&[Receiver; 4], vec![topic(1)], rows);
    let first = plan(&flying, &Limits::UNLIMITED);
    flying.apply(&first.moves);
    assert!(plan(&flying, &Limits::UNLIMITED).is_empty());
}

/// K103: a move that has to wait holds up none behind it.
#[test]
fn case_103_a_move_that_waits_holds_up_no_other() {
    let crowded = one_topic(&[Leaving, Leaving, Receiver, Receiver], &[1, 1, 1, 2, 2, 2]);
    let limits = Limits { per_source: 1, ..Limits::default() };
    let found = plan(&crowded, &limits);
    let sources: Vec<_> = found.moves.iter().map(|planned| planned.from).collect();
    assert_eq!(sources, [n(1), n(2)]);
    assert_eq!(found.deferred.len(), 4);
    assert_eq!(found.deferred[0].reason, Deferral::Source { node: n(1), max: 1 });
}

/// K104: two topics of six on two nodes, and a third node: it gets two of each.
#[test]
fn case_104_a_joiner_gets_a_part_of_every_topic() {
    let owners = [1, 2, 1, 2, 1, 2];
    let rows = [settled(1, &owners), settled(2, &owners)].concat();
    let joined = placement(&THREE, vec![topic(1), topic(2)], rows);
    let found = plan(&joined, &Limits::UNLIMITED);
    assert_eq!(found.moves.len(), 4);
    for topic in [1, 2] {
        let of = found.moves.iter().filter(|planned| planned.partition.topic == TopicId(topic));
        assert_eq!(of.filter(|planned| planned.to == n(3)).count(), 2);
    }
}

/// K104: the same when a hundred nodes each give one: they do not all give of the same topic.
#[test]
fn case_104_many_givers_do_not_all_give_of_one_topic() {
    let roles = vec![Receiver; 101];
    let owners: Vec<u64> = (1..=100).collect();
    let topics: Vec<Topic> = (1..=101).map(topic).collect();
    let rows = (1..=101).flat_map(|topic| settled(topic, &owners)).collect();
    let joined = placement(&roles, topics, rows);
    let found = plan(&joined, &Limits::UNLIMITED);
    let mut of: BTreeMap<TopicId, usize> = BTreeMap::new();
    for planned in &found.moves {
        *of.entry(planned.partition.topic).or_default() += 1;
    }
    assert_eq!(found.moves.len(), 100);
    assert_eq!(of.values().max(), Some(&1), "{of:?}");
}

/// K106 R81: a parent is kept off its child's node like a child off its parent's, and what counts
/// is where the other one is going.
#[test]
fn case_106_anti_affinity_is_symmetric_and_looks_at_targets() {
    // Node 4 leaves. Its partition may go to node 1, 2 or 3, which are equal but for the relative.
    for (own, other) in [(1, 2), (2, 1)] {
        for avoided in 1..=3 {
            let mut rows = vec![Partition::settled(id(own, 0), n(4))];
            let elsewhere = avoided % 3 + 1;
            let flying = Partition::settled(id(other, 0), n(elsewhere));
            rows.push(Partition { target: Some(n(avoided)), ..flying });
            let fillers = (1..=3).filter(|&node| node != avoided).zip(0..);
            rows.extend(fillers.map(|(node, index)| Partition::settled(id(3, index), n(node))));
            let topics = vec![topic(1), child(2, 1), topic(3)];
            let drained = placement(&[Receiver, Receiver, Receiver, Leaving], topics, rows);
            let found = plan(&drained, &Limits::UNLIMITED);
            assert_eq!(found.moves.len(), 1);
            assert_ne!(found.moves[0].to, n(avoided), "{}", found.report);
        }
    }
}

/// R81: three partitions whose only good seats form a ring: no two of them can trade, all three
/// can. Greedy placement fails here, matching does not.
#[test]
fn anti_affinity_finds_the_one_perfect_matching() {
    // Six leavers of topic 1; each has a child on all but one of the six takers.
    let takers = 6;
    let mut topics = vec![topic(1)];
    let mut rows = Vec::new();
    for index in 0..takers {
        rows.push(Partition::settled(id(1, index), n(7)));
    }
    for (nth, topic) in (2..=takers).enumerate() {
        topics.push(child(u64::from(topic), 1));
        for index in 0..takers {
            let skip = (index + 1 + u32::try_from(nth).expect("small")) % takers;
            rows.push(Partition::settled(id(u64::from(topic), index), n(u64::from(skip) + 1)));
        }
    }
    let roles = [vec![Receiver; 6], vec![Leaving]].concat();
    let drained = placement(&roles, topics, rows);
    let found = plan(&drained, &Limits::UNLIMITED);
    assert_eq!((found.moves.len(), found.report.conflicts), (6, 0), "{}", found.report);
    assert_eq!(lint(&drained, &found), vec![]);
}

/// R81: balance wins where a conflict cannot be avoided.
#[test]
fn anti_affinity_yields_to_balance() {
    let rows = [settled(1, &[1]), settled(2, &[2])].concat();
    let only = placement(&[Receiver, Leaving], vec![topic(1), child(2, 1)], rows);
    let found = plan(&only, &Limits::UNLIMITED);
    assert_eq!((found.moves.len(), found.report.conflicts), (1, 1));
}

/// K107: topics of one partition, made one after the other, spread over the nodes, so that nothing
/// has to move afterwards.
#[test]
fn case_107_ninety_topics_of_one_partition_are_born_spread() {
    let mut grown = placement(&THREE, vec![], vec![]);
    for number in 1..=90 {
        let owners = assign(&grown, topic(number), 0..1).expect("three nodes receive");
        let topics = [grown.topics(), &[topic(number)]].concat();
        let born = Partition::settled(id(number, 0), owners[0]);
        let rows = [grown.partitions(), &[born]].concat();
        grown = placement(&THREE, topics, rows);
    }
    let idle = plan(&grown, &Limits::UNLIMITED);
    assert!(idle.is_empty());
    assert_eq!(ends_with(&grown, &idle).into_values().collect::<Vec<_>>(), [30, 30, 30]);
}

/// K107: the same ninety, all found on one node, are spread by moves: sixty of them.
#[test]
fn case_107_ninety_topics_of_one_partition_spread() {
    let rows = (1..=90).flat_map(|topic| settled(topic, &[1])).collect();
    let piled = placement(&THREE, (1..=90).map(topic).collect(), rows);
    let found = plan(&piled, &Limits::UNLIMITED);
    assert_eq!(found.moves.len(), 60);
    assert_eq!(ends_with(&piled, &found).into_values().collect::<Vec<_>>(), [30, 30, 30]);
}

/// K107 K112 K115 R81: new partitions of a growing child topic go to the emptiest nodes, never to a
/// leaving one, and beside their parent only if they must.
#[test]
fn case_112_a_growing_topic_fills_the_emptiest_nodes() {
    let roles = [Receiver, Receiver, Receiver, Leaving];
    let rows = [settled(1, &[1, 2, 3]), settled(2, &[3])].concat();
    let grown = placement(&roles, vec![topic(1), child(2, 1)], rows);
    let born = assign(&grown, child(2, 1), 1..3).expect("some receive");
    assert_eq!(born, [n(1), n(2)], "node 3 has two already, and 2/1 avoids 1/1");
    assert_eq!(
        assign(&grown, child(2, 1), 0..1),
        Err(AssignError::Placement(PlacementError::DuplicatePartition(id(2, 0))))
    );
    let gone = with_role(&one_topic(&[Leaving, Dead], &[1]), 2, Leaving);
    assert_eq!(assign(&gone, topic(9), 0..1), Err(AssignError::NoReceiver));
}

/// K108 R74: a node that joins and is drained at once gives back what it got, and nothing else
/// moves; a drain that is cancelled takes back only what it is short of.
#[test]
fn case_108_join_then_drain_and_drain_then_cancel_move_as_little_as_they_can() {
    let mut joined = one_topic(&THREE, &[1, 1, 1, 2, 2, 2]);
    let join = plan(&joined, &Limits::UNLIMITED);
    assert_eq!(join.moves.len(), 2);
    joined.apply(&join.moves);
    complete_all(&mut joined);
    let mut drained = with_role(&joined, 3, Leaving);
    let drain = plan(&drained, &Limits::UNLIMITED);
    let (out, back): (Vec<_>, Vec<_>) =
        (moves(&join), moves(&drain)).map_keys(|moves| moves.into_keys().collect::<Vec<_>>());
    assert_eq!(out, back);

    drained.apply(&plan(&drained, &Limits { max_in_flight: 1, ..Limits::default() }).moves);
    let cancelled = with_role(&drained, 3, Receiver);
    let cancel = plan(&cancelled, &Limits::UNLIMITED);
    assert_eq!(cancel.moves.len(), 1, "3, 2, 1 to 2, 2, 2");
}

/// K111 R83: with all nodes leaving nothing moves, and the report says so.
#[test]
fn case_111_nobody_receives() {
    let all = one_topic(&[Leaving, Leaving], &[1, 2, 2]);
    let found = plan(&all, &Limits::UNLIMITED);
    assert!(found.is_empty());
    assert_eq!(found.report.moves_min, 0);
    assert_eq!(found.report.nodes[0].why, NodeWhy::NoReceiver);
    assert_eq!(found.report.why(&all, id(1, 2)), Some(Why::NoReceiver { node: n(2) }));
    assert_eq!(found.report.partitions.len(), 3);
    assert!(found.report.to_string().contains("no node receives; add one or cancel a drain"));
}

/// K114: applying a plan never replaces a running target, nor a target of another owner.
#[test]
fn case_114_a_running_target_is_not_replaced() {
    let before = one_topic(&THREE, &[1, 1, 1]);
    let found = plan(&before, &Limits::UNLIMITED);
    assert_eq!(found.moves.len(), 2);
    let first = found.moves[0].partition;
    let mut raced = with(&before, first, |row| {
        row.target = Some(if found.moves[0].to == n(2) { n(3) } else { n(2) });
    });
    assert_eq!(raced.apply(&found.moves), 1);
    assert_ne!(raced.partition(first).expect("listed").target, Some(found.moves[0].to));
}

/// Maps both members of a pair.
trait MapKeys<T> {
    fn map_keys<U>(self, map: impl Fn(T) -> U) -> (U, U);
}

impl<T> MapKeys<T> for (T, T) {
    fn map_keys<U>(self, map: impl Fn(T) -> U) -> (U, U) {
        (map(self.0), map(self.1))
    }
}
