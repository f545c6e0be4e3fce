//! A planner as one would write it first: one partition at a time, from the fullest node to the
//! emptiest, both found by looking at all of them. O(surplus × receivers).

use std::collections::BTreeMap;

use narad_core::ids::{NodeId, PartitionId};
use narad_core::plan::{Placement, Role};

/// Over ids, in maps, which is how a cluster's state is kept. Returns how many moves there are.
pub(super) fn by_ids(placement: &Placement) -> usize {
    let mut held: BTreeMap<NodeId, Vec<PartitionId>> = BTreeMap::new();
    for node in placement.nodes() {
        held.insert(node.id, Vec::new());
    }
    for row in placement.partitions() {
        held.entry(row.owner).or_default().push(row.id);
    }
    let leaving: Vec<NodeId> = placement
        .nodes()
        .iter()
        .filter(|node| node.role == Role::Leaving)
        .map(|node| node.id)
        .collect();
    let mut homeless: Vec<PartitionId> =
        leaving.iter().filter_map(|node| held.remove(node)).flatten().collect();
    let mut moves = Vec::new();
    while let Some(emptiest) = held.iter().min_by_key(|(_, held)| held.len()).map(|(node, _)| *node)
    {
        let partition = homeless.pop().or_else(|| {
            let least = held[&emptiest].len();
            let (_, fullest) = held.iter_mut().max_by_key(|(_, held)| held.len())?;
            if fullest.len() > least + 1 { fullest.pop() } else { None }
        });
        let Some(partition) = partition else { break };
        held.entry(emptiest).or_default().push(partition);
        moves.push((partition, emptiest));
    }
    moves.len()
}

/// The same over dense arrays, for a cluster whose state is kept like that.
pub(super) fn by_indices(placement: &Placement) -> usize {
    let nodes = placement.nodes();
    let at = |id: NodeId| nodes.binary_search_by_key(&id, |node| node.id).expect("a listed node");
    let mut held: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    for (n, row) in (0..).zip(placement.partitions()) {
        held[at(row.owner)].push(n);
    }
    let mut homeless = Vec::new();
    for (node, held) in nodes.iter().zip(&mut held) {
        if node.role == Role::Leaving {
            homeless.append(held);
        }
    }
    let receives: Vec<usize> =
        (0..nodes.len()).filter(|node| nodes[*node].role == Role::Receiver).collect();
    let mut moves = Vec::new();
    while let Some(emptiest) = receives.iter().copied().min_by_key(|node| held[*node].len()) {
        let partition = homeless.pop().or_else(|| {
            let fullest = receives.iter().copied().max_by_key(|node| held[*node].len())?;
            if held[fullest].len() > held[emptiest].len() + 1 { held[fullest].pop() } else { None }
        });
        let Some(partition) = partition else { break };
        held[emptiest].push(partition);
        moves.push((partition, emptiest));
    }
    moves.len()
}
