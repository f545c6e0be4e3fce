//! What the leader's planner knows from one pass to the next, so that a pass costs what has changed
//! and not what exists.

use alloc::collections::BTreeSet;
use core::hash::{Hash, Hasher};

use super::moves;
use crate::ids::{LogIndex, PartitionId};
use crate::metastore::{Assignment, Changed, State};
use crate::plan::{Partition, Planner};

/// A planner, and what it has not been told yet.
///
/// It says nothing that the state does not: two are always equal, and a copy begins with nothing.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    planner: Option<Planner>,
    /// The last entry that it has been told of, or was made after.
    seen: LogIndex,
    /// Rows that have changed since.
    stale: BTreeSet<PartitionId>,
    /// Whether members have.
    members: bool,
    /// How often a placement was made of the whole state.
    rebuilt: u64,
    /// How many rows were looked at otherwise.
    looked: u64,
}

impl Ledger {
    /// Most changed rows that are remembered; with more, the whole is read anew.
    const STALE_MAX: usize = 1 << 16;

    /// Takes note of what the entry at `applied` has changed. One that was left out is missed.
    pub(super) fn note(&mut self, applied: LogIndex, changed: &Changed) {
        if self.planner.is_none() {
            return;
        }
        if applied > self.seen.next() {
            self.forget();
            return;
        }
        self.seen = applied;
        self.members |= !changed.members.is_empty();
        self.stale.extend(&changed.partitions);
        if !changed.topics.is_empty() || self.stale.len() > Self::STALE_MAX {
            self.forget();
        }
    }

    /// Begins anew with the next pass.
    pub(super) fn forget(&mut self) {
        self.planner = None;
        self.stale.clear();
        self.members = false;
    }

    /// Returns the planner, told of everything. `None` only while the state refers to what it
    /// lacks, which no applied state does.
    pub(super) fn planner(
        &mut self,
        state: &State,
        is_stuck: impl Fn(PartitionId, &Assignment) -> bool,
    ) -> Option<&mut Planner> {
        if !self.catch_up(state, &is_stuck) {
            self.forget();
            self.rebuilt += 1;
            self.seen = state.applied();
            self.planner = Some(Planner::new(moves::placement(state, is_stuck)?));
        }
        self.planner.as_mut()
    }

    /// Tells the planner what has changed; returns whether it could be told.
    fn catch_up(
        &mut self,
        state: &State,
        is_stuck: &impl Fn(PartitionId, &Assignment) -> bool,
    ) -> bool {
        let Some(planner) = &mut self.planner else { return false };
        if self.seen != state.applied() {
            return false;
        }
        if core::mem::take(&mut self.members) {
            let listed = planner.placement().nodes();
            let gone = |node: &crate::plan::Node| {
                state.member(node.id).is_none_or(|member| member.retired)
            };
            if listed.iter().any(gone) || !moves::nodes(state).all(|node| planner.set_node(node)) {
                return false;
            }
        }
        // Which moves are stuck is told by no entry, so all that are in flight are looked at.
        let changed = core::mem::take(&mut self.stale);
        for partition in changed.into_iter().chain(state.targeted()) {
            self.looked += 1;
            let Some(row) = state.assignment(partition) else { return false };
            let row: Partition = moves::planned_row(state, partition, row, is_stuck);
            if planner.set(row).is_err() {
                return false;
            }
        }
        true
    }

    /// Returns how often the whole state was read, and how many rows otherwise.
    #[cfg(test)]
    pub(super) const fn cost(&self) -> (u64, u64) {
        (self.rebuilt, self.looked)
    }
}

impl Clone for Ledger {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Ledger {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Ledger {}

impl Hash for Ledger {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;
    use crate::ids::{Incarnation, MoveId, Name, NodeId, ProposalId, StoreUuid, TopicId};
    use crate::metastore::{Addresses, Command, Entry, Reply};

    /// Partitions of the cluster that is looked at.
    const PARTITIONS: u32 = 3000;

    struct Cluster {
        state: State,
        ledger: Ledger,
        stuck: BTreeSet<(PartitionId, MoveId)>,
    }

    impl Cluster {
        fn new() -> Self {
            let (state, ledger) = (State::new(), Ledger::default());
            let mut cluster = Self { state, ledger, stuck: BTreeSet::new() };
            for id in 1..=4 {
                cluster.member(id);
            }
            let name = Name::new("t").expect("a plain name");
            cluster.apply(1, Command::CreateTopic { name, partitions: PARTITIONS, parent: None });
            let unassigned: Vec<PartitionId> = cluster.state.unassigned().collect();
            for (nth, partition) in (0..).zip(unassigned) {
                let node = NodeId(1 + nth % 3);
                cluster.apply(1, Command::AssignPartition { partition, node });
            }
            cluster
        }

        fn member(&mut self, id: u64) {
            let name = Name::new(format!("n{id}")).expect("a plain name");
            let (node, store_uuid, addrs) =
                (NodeId(id), StoreUuid(id.into()), Addresses::default());
            self.apply(1, Command::Join { name, store_uuid, addrs: addrs.clone() });
            let incarnation = Incarnation(1);
            self.apply(id, Command::Register { node, store_uuid, incarnation, addrs });
        }

        fn apply(&mut self, by: u64, command: Command) {
            let index = self.state.applied().next();
            let proposal =
                ProposalId { node: NodeId(by), incarnation: Incarnation(1), sequence: index.0 };
            let entry = Entry { proposal, by: NodeId(by), command };
            let outcome = self.state.apply(index, &entry).expect("this build knows it");
            assert!(matches!(outcome.reply, Reply::Applied(_)), "{:?}", outcome.reply);
            self.ledger.note(index, &outcome.changed);
        }

        /// Lets the planner catch up, and checks that it knows what the whole state says. Returns
        /// what that cost.
        fn pass(&mut self) -> (u64, u64) {
            let before = self.ledger.cost();
            let stuck = &self.stuck;
            let is_stuck = |partition, row: &Assignment| stuck.contains(&(partition, row.move_id));
            let planner = self.ledger.planner(&self.state, is_stuck).expect("a sound state");
            let whole = moves::placement(&self.state, is_stuck).expect("a sound state");
            assert_eq!(planner.placement(), &whole);
            let after = self.ledger.cost();
            (after.0 - before.0, after.1 - before.1)
        }

        fn topic(&self) -> TopicId {
            self.state.topics().next().expect("there is one").id
        }

        fn set_target(&mut self, index: u32) -> PartitionId {
            let partition = PartitionId { topic: self.topic(), index };
            let expect = self.state.assignment(partition).expect("it has an owner").expect();
            self.apply(1, Command::SetTarget { partition, expect, to: NodeId(4) });
            partition
        }
    }

    /// A pass looks at what has changed and what is in flight, never at what exists.
    #[test]
    fn a_pass_costs_what_has_changed() {
        let mut cluster = Cluster::new();
        assert_eq!(cluster.pass(), (1, 0), "the first one reads everything");
        assert_eq!(cluster.pass(), (0, 0), "nothing has changed");

        let moving = cluster.set_target(7);
        assert_eq!(cluster.pass(), (0, 2), "it has changed, and it is in flight");
        assert_eq!(cluster.pass(), (0, 1));
        let move_id = cluster.state.assignment(moving).expect("a row").move_id;
        cluster.stuck.insert((moving, move_id));
        assert_eq!(cluster.pass(), (0, 1), "no entry says that a move is stuck");

        cluster.apply(1, Command::SetPin { partition: moving, on: true });
        cluster.apply(1, Command::ClearTarget { partition: moving, move_id });
        assert_eq!(cluster.pass(), (0, 1), "twice the same one");
        cluster.apply(1, Command::SetDraining { node: NodeId(2), on: true });
        assert_eq!(cluster.pass(), (0, 0), "a node is no partition");
        let (node, incarnation) = (NodeId(3), Incarnation(1));
        cluster.set_target(3);
        cluster.apply(1, Command::MarkDead { node, incarnation });
        assert_eq!(cluster.pass(), (0, 2));
        cluster.member(5);
        assert_eq!(cluster.pass(), (0, 1), "a node that joins is the last");
    }

    /// What cannot be told row by row is read anew: topics, and entries that were missed.
    #[test]
    fn what_cannot_be_told_is_read_anew() {
        let mut cluster = Cluster::new();
        cluster.pass();
        let name = Name::new("u").expect("a plain name");
        cluster.apply(1, Command::CreateTopic { name, partitions: 2, parent: None });
        assert_eq!(cluster.pass().0, 1);

        let missed = cluster.ledger.seen;
        cluster.set_target(1);
        cluster.ledger.seen = missed;
        cluster.ledger.stale.clear();
        assert_eq!(cluster.pass().0, 1);

        cluster.apply(1, Command::SetPin { partition: cluster_partition(&cluster, 9), on: true });
        cluster.ledger.seen = missed;
        cluster.apply(1, Command::SetPin { partition: cluster_partition(&cluster, 10), on: true });
        assert_eq!(cluster.pass().0, 1, "there is a gap");
        assert_eq!(cluster.ledger.clone().cost(), (0, 0), "a copy begins with nothing");
    }

    fn cluster_partition(cluster: &Cluster, index: u32) -> PartitionId {
        PartitionId { topic: cluster.topic(), index }
    }
}
