//! The replicated log of three nodes and their topics, and a replica that may be behind.

use std::collections::VecDeque;

use narad_core::ids::*;
use narad_core::metastore::*;

/// The log's own state, and what the dispatching node has applied of it.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) truth: State,
    pub(super) replica: State,
    unapplied: VecDeque<(LogIndex, Entry)>,
    log: u64,
}

pub(super) const NODES: u64 = 3;

impl Cluster {
    /// Three nodes, and a topic for each number of partitions; partition `i` is node `i % 3 + 1`'s.
    pub(super) fn new(topics: &[u32]) -> Self {
        let state = State::new();
        let mut cluster =
            Self { truth: state.clone(), replica: state, unapplied: VecDeque::new(), log: 0 };
        for node in 1..=NODES {
            let name = Name::new(format!("narad-{node}")).unwrap();
            let (store_uuid, addrs) = (StoreUuid(node.into()), Addresses::default());
            cluster.propose(node, Command::Join { name, store_uuid, addrs });
            cluster.register(NodeId(node));
        }
        for &partitions in topics {
            cluster.create(partitions);
        }
        while cluster.apply_next().is_some() {}
        cluster
    }

    pub(super) fn propose(&mut self, by: u64, command: Command) -> Reply {
        self.log += 1;
        let (node, incarnation, sequence) = (NodeId(by), Incarnation(1), self.log);
        let entry =
            Entry { proposal: ProposalId { node, incarnation, sequence }, by: node, command };
        let index = LogIndex(self.log);
        let reply = self.truth.apply(index, &entry).unwrap().reply;
        self.unapplied.push_back((index, entry));
        reply
    }

    /// The replica applies the next entry.
    pub(super) fn apply_next(&mut self) -> Option<Changed> {
        let (index, entry) = self.unapplied.pop_front()?;
        Some(self.replica.apply(index, &entry).unwrap().changed)
    }

    /// The replica is replaced by a snapshot of the log's end.
    pub(super) fn restore(&mut self) {
        self.unapplied.clear();
        self.replica = State::from_parts(self.truth.to_parts()).unwrap();
    }

    pub(super) fn create(&mut self, partitions: u32) -> TopicId {
        let name = Name::new(format!("topic-{}", self.log)).unwrap();
        self.propose(1, Command::CreateTopic { name, partitions, parent: None });
        let topic = TopicId(self.log);
        for index in 0..partitions {
            let node = NodeId(u64::from(index) % NODES + 1);
            let partition = PartitionId { topic, index };
            self.propose(1, Command::AssignPartition { partition, node });
        }
        topic
    }

    pub(super) fn register(&mut self, node: NodeId) {
        let store_uuid = StoreUuid(node.0.into());
        let incarnation = self.truth.member(node).unwrap().incarnation.next();
        let addrs = Addresses::default();
        self.propose(node.0, Command::Register { node, store_uuid, incarnation, addrs });
    }

    pub(super) fn kill(&mut self, node: NodeId) {
        let incarnation = self.truth.member(node).unwrap().incarnation;
        self.propose(1, Command::MarkDead { node, incarnation });
    }

    pub(super) fn is_alive(&self, node: NodeId) -> bool {
        self.truth.member(node).unwrap().status == Status::Alive
    }

    /// Plans a move of a partition to the next node that may take it.
    pub(super) fn plan(&mut self, partition: PartitionId) {
        let Some(row) = self.truth.assignment(partition) else { return };
        let (expect, owner) = (row.expect(), row.owner.0);
        let others = (0..NODES).map(|step| (owner + step) % NODES + 1);
        let to = others.map(NodeId).find(|&to| to.0 != owner && self.is_alive(to));
        if let Some(to) = to {
            self.propose(1, Command::SetTarget { partition, expect, to });
        }
    }

    /// Flips a partition to its target: under the freeze of that number, or over a dead owner.
    pub(super) fn flip(&mut self, partition: PartitionId, counter: u64) -> bool {
        let Some(row) = self.truth.assignment(partition) else { return false };
        let Some(destination) = row.target else { return false };
        let owner = self.truth.member(row.owner).unwrap();
        let fence = match owner.status {
            Status::Dead(generation) => Fence::Forced { generation },
            Status::Alive => {
                let no = FreezeNo { incarnation: owner.incarnation, counter };
                Fence::Normal { token: Token { epoch: row.epoch, no } }
            }
        };
        let incarnation = self.truth.member(destination).unwrap().incarnation;
        let no = AttemptNo { incarnation, n: 0 };
        let attempt = Attempt { move_id: row.move_id, destination, no };
        let end = Offset(row.min_end.0 + 1);
        let (expect, hwm, committed, digest) = (row.expect(), end, None, Digest(1));
        let flip = Command::CompleteMove {
            partition,
            expect,
            attempt,
            fence,
            end,
            hwm,
            committed,
            digest,
        };
        matches!(self.propose(destination.0, flip), Reply::Applied(_))
    }

    /// Takes a freeze back.
    pub(super) fn revoke(&mut self, partition: PartitionId, counter: u64) {
        let Some(row) = self.truth.assignment(partition) else { return };
        let incarnation = self.truth.member(row.owner).unwrap().incarnation;
        let no = FreezeNo { incarnation, counter };
        let token = Token { epoch: row.epoch, no };
        self.propose(row.owner.0, Command::Revoke { partition, token });
    }
}
