//! Every plan of every small placement, by enumeration (R69, R71, S12).

use std::collections::BTreeMap;

use narad_core::ids::{ByteCount, NodeId};
use narad_core::plan::{Limits, Partition, Placement, Role, lint};

use super::build::{
    Dead, Leaving, Receiver, child, complete_all, ends_with, id, moves, nodes, plan, settled, topic,
};

/// What one way of placing everything costs; the number of moves first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Way {
    moves: usize,
    conflicts: usize,
    spread: usize,
    bytes: u64,
    /// By node.
    ends_with: Vec<usize>,
}

/// All ways to place what may be placed such that the receivers are balanced: none has two more
/// than another, unless all it has is pinned. What is in flight may be placed, too, from its target.
fn ways(placement: &Placement) -> Vec<Way> {
    let nodes = placement.nodes();
    let index = |id: NodeId| nodes.iter().position(|node| node.id == id).expect("listed");
    let receivers: Vec<usize> = (0..nodes.len()).filter(|&at| nodes[at].role == Receiver).collect();
    let mut places = Vec::new();
    let mut choices: Vec<Vec<usize>> = Vec::new();
    for row in placement.partitions() {
        let place = index(row.target.unwrap_or(row.owner));
        places.push(place);
        let free = match (row.target, nodes[place].role) {
            _ if row.pinned => false,
            (None, role) => role != Dead,
            (Some(_), role) => role == Receiver,
        };
        choices.push(if free && !receivers.is_empty() { receivers.clone() } else { vec![place] });
    }
    let mut all = Vec::new();
    let mut chosen = vec![0; places.len()];
    loop {
        let ends: Vec<usize> = chosen.iter().zip(&choices).map(|(&at, of)| of[at]).collect();
        all.extend(weigh(placement, &places, &ends, &receivers));
        // The next combination, like an odometer.
        let Some(at) = (0..chosen.len()).find(|&at| chosen[at] + 1 < choices[at].len()) else {
            return all;
        };
        chosen[at] += 1;
        chosen[..at].fill(0);
    }
}

/// Returns what this way costs, if it is balanced.
fn weigh(
    placement: &Placement,
    places: &[usize],
    ends: &[usize],
    receivers: &[usize],
) -> Option<Way> {
    let rows = placement.partitions();
    let mut ends_with = vec![0; placement.nodes().len()];
    let mut pinned = ends_with.clone();
    for (row, &end) in rows.iter().zip(ends) {
        ends_with[end] += 1;
        pinned[end] += usize::from(row.pinned);
    }
    let least = receivers.iter().map(|&node| ends_with[node]).min().unwrap_or(usize::MAX - 1);
    if receivers.iter().any(|&at| ends_with[at] > least + 1 && ends_with[at] > pinned[at]) {
        return None;
    }
    let moved = |at: &usize| places[*at] != ends[*at];
    let parent = |topic| placement.topics().iter().find(|own| own.id == topic)?.parent;
    let mut conflicts = 0;
    let mut by_topic: BTreeMap<_, usize> = BTreeMap::new();
    for (row, &end) in rows.iter().zip(ends) {
        *by_topic.entry((row.id.topic, end)).or_default() += 1;
        for (other, &there) in rows.iter().zip(ends) {
            let related = parent(row.id.topic) == Some(other.id.topic);
            let same = row.id.index == other.id.index && end == there;
            let live = placement.nodes()[end].role != Dead;
            conflicts += usize::from(related && same && live);
        }
    }
    Some(Way {
        moves: (0..ends.len()).filter(moved).count(),
        conflicts,
        spread: by_topic.values().map(|count| count * count).sum(),
        bytes: (0..ends.len()).filter(moved).map(|at| rows[at].bytes.0).sum(),
        ends_with,
    })
}

/// Checks one placement against its enumeration; returns the best ways of all for more checks.
fn check_fewest(placement: &Placement) -> usize {
    let found = plan(placement, &Limits::UNLIMITED);
    assert_eq!(lint(placement, &found), vec![], "{placement:#?}\n{}", found.report);
    let ways = ways(placement);
    let fewest = ways.iter().map(|way| way.moves).min().expect("some way is balanced");
    let waiting = found.report.waiting as usize;
    assert_eq!(found.moves.len() + waiting, fewest, "{placement:#?}\n{}", found.report);
    assert_eq!(found.report.moves_min as usize, fewest);

    // R74: once done there is nothing to do but what had to arrive first, and nobody moves twice.
    let mut after = placement.clone();
    assert_eq!(after.apply(&found.moves), found.moves.len());
    assert!(plan(&after, &Limits::UNLIMITED).is_empty());
    if found.report.targets_lost().next().is_none() {
        complete_all(&mut after);
        let rest = plan(&after, &Limits::UNLIMITED);
        assert_eq!(rest.moves.len(), waiting, "{placement:#?}");
        let once = moves(&found);
        assert!(rest.moves.iter().all(|planned| !once.contains_key(&planned.partition)));
    }
    fewest
}

/// R69 R71 R74 R80 R83 R84 S12 S13: on every placement of up to three nodes and five partitions,
/// with dead and draining nodes, the planned moves are as few as enumeration finds.
#[test]
fn every_small_placement_takes_the_fewest_moves() {
    let mut checked = 0;
    for node_count in 1..=3_u32 {
        for code in 0..3_u32.pow(node_count) {
            let roles: Vec<Role> = digits(code, 3, node_count)
                .map(|digit| [Receiver, Leaving, Dead][digit as usize])
                .collect();
            for count in 0..=5 {
                for code in 0..node_count.pow(count) {
                    let owners: Vec<u64> =
                        digits(code, node_count, count).map(|digit| u64::from(digit) + 1).collect();
                    let partitions = settled(1, &owners);
                    let topics = vec![topic(1)];
                    let placement = Placement::new(nodes(&roles), topics, partitions);
                    check_fewest(&placement.expect("valid"));
                    checked += 1;
                }
            }
        }
    }
    assert_eq!(checked, 10_413);
}

/// R69 R73 K102: the same with every mix of settled, pinned and in-flight partitions. Partitions of
/// one topic are alike, and so are nodes of one role, so each mix is taken once.
#[test]
fn every_small_placement_with_pins_and_flights_takes_the_fewest_moves() {
    let mut checked = 0;
    for node_count in 1..=3_u64 {
        let all_states = states(node_count);
        let roles = multisets(3, usize::try_from(node_count).expect("small"));
        for roles in roles {
            let roles: Vec<Role> =
                roles.iter().map(|&role| [Receiver, Leaving, Dead][role]).collect();
            for count in 0..=5 {
                // What is pinned and in flight is left out of the largest, for time.
                let mut states = all_states.clone();
                states.retain(|&(_, target, pinned)| count < 5 || target.is_none() || !pinned);
                for mix in multisets(states.len(), count) {
                    let rows = (0..).zip(&mix).map(|(index, &state)| {
                        let (owner, target, pinned) = states[state];
                        let row = Partition::settled(id(1, index), NodeId(owner));
                        Partition { target: target.map(NodeId), pinned, ..row }
                    });
                    let placement = Placement::new(nodes(&roles), vec![topic(1)], rows.collect());
                    check_fewest(&placement.expect("valid"));
                    checked += 1;
                }
            }
        }
    }
    assert_eq!(checked, 121_375);
}

/// R81 K104 K106: with parents and children, enumeration finds no plan of as few moves with fewer
/// conflicts, and none with the same counts that spreads better, or, where nobody is related, that
/// copies less.
#[test]
fn every_small_family_gets_the_best_of_the_plans_with_the_fewest_moves() {
    let families = [
        (vec![topic(1), topic(2)], [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]),
        (vec![topic(1), topic(2), topic(3)], [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0)]),
        (vec![topic(1), child(2, 1)], [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]),
        (vec![topic(1), child(2, 1), topic(3)], [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0)]),
        (vec![topic(1), child(2, 1), child(3, 2)], [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1)]),
        (vec![topic(1), child(2, 1), child(3, 1)], [(1, 0), (2, 0), (3, 0), (1, 1), (3, 1)]),
    ];
    let casts = [
        vec![Receiver, Receiver],
        vec![Receiver, Receiver, Receiver],
        vec![Receiver, Receiver, Leaving],
        vec![Receiver, Leaving, Leaving],
        vec![Receiver, Receiver, Dead],
    ];
    for (topics, ids) in &families {
        for roles in &casts {
            let count = u32::try_from(roles.len()).expect("small");
            let size = u32::try_from(ids.len()).expect("small");
            for code in 0..count.pow(size) {
                let rows = ids.iter().zip(digits(code, count, size)).zip(0..);
                let rows = rows.map(|((&(topic, index), owner), nth)| {
                    let owner = NodeId(u64::from(owner) + 1);
                    let row = Partition::settled(id(topic, index), owner);
                    Partition { bytes: ByteCount(10 + (nth * 7) % 5), ..row }
                });
                let placement = Placement::new(nodes(roles), topics.clone(), rows.collect());
                check_best(&placement.expect("valid"));
            }
        }
    }
}

/// Checks the choice among the plans with the fewest moves.
fn check_best(placement: &Placement) {
    let fewest = check_fewest(placement);
    let found = plan(placement, &Limits::UNLIMITED);
    let mut ways = ways(placement);
    ways.retain(|way| way.moves == fewest);
    let conflicts = ways.iter().map(|way| way.conflicts).min().expect("some");
    assert_eq!(found.report.conflicts, conflicts as u64, "{placement:#?}\n{}", found.report);

    let counts: Vec<usize> = ends_with(placement, &found).into_values().collect();
    let nodes = placement.nodes();
    let ends: Vec<usize> = placement
        .partitions()
        .iter()
        .map(|row| moves(&found).get(&row.id).copied().unwrap_or(row.owner))
        .map(|id| nodes.iter().position(|node| node.id == id).expect("listed"))
        .collect();
    let owners: Vec<usize> = placement
        .partitions()
        .iter()
        .map(|row| nodes.iter().position(|node| node.id == row.owner).expect("listed"))
        .collect();
    let receivers: Vec<usize> = (0..nodes.len()).filter(|&at| nodes[at].role == Receiver).collect();
    let own = weigh(placement, &owners, &ends, &receivers).expect("balanced");
    let best = ways
        .iter()
        .filter(|way| way.conflicts == conflicts && way.ends_with == counts)
        .min_by_key(|way| (way.spread, way.bytes))
        .expect("some");
    assert_eq!(own.spread, best.spread, "{placement:#?}");
    let related = placement.topics().iter().any(|topic| topic.parent.is_some());
    assert!(related || own.bytes == best.bytes, "{own:?} {best:?} {placement:#?}");
}

/// Every state of one partition: owner, target, pinned.
fn states(nodes: u64) -> Vec<(u64, Option<u64>, bool)> {
    let mut states = Vec::new();
    for owner in 1..=nodes {
        let targets = (1..=nodes).filter(|&target| target != owner).map(Some);
        for target in targets.chain([None]) {
            states.push((owner, target, false));
            states.push((owner, target, true));
        }
    }
    states
}

/// The digits of a number, lowest first.
fn digits(code: u32, base: u32, count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(move |at| code / base.pow(at) % base)
}

/// All ways to draw `count` of `kinds`, with repetition and without order.
fn multisets(kinds: usize, count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for _ in 0..count {
        all = all
            .into_iter()
            .flat_map(|drawn: Vec<usize>| {
                let first = drawn.last().copied().unwrap_or(0);
                (first..kinds).map(move |next| [drawn.as_slice(), &[next]].concat())
            })
            .collect();
    }
    all
}
