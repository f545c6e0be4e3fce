//! What happens to partitions and topics meanwhile.

use narad_core::ids::*;
use narad_core::metastore::Command;

use super::World;
use crate::dispatch::owners::RecordId;

impl World {
    pub(in crate::dispatch) fn freeze(&mut self, partition: PartitionId) {
        self.cluster.plan(partition);
        let log = self.logs.entry(partition).or_default();
        if let Some(row) = self.cluster.truth.assignment(partition) {
            log.catch_up(row.epoch);
            log.is_frozen = true;
            log.freezes += 1;
        }
    }

    pub(in crate::dispatch) fn thaw(&mut self, partition: PartitionId) {
        let log = self.logs.entry(partition).or_default();
        if log.is_frozen {
            self.cluster.revoke(partition, log.freezes);
            log.thaw();
        }
    }

    pub(in crate::dispatch) fn flip(&mut self, partition: PartitionId) -> bool {
        let log = self.logs.entry(partition).or_default();
        let alive = self.cluster.truth.assignment(partition).map(|row| row.owner);
        let alive = alive.is_some_and(|owner| self.cluster.is_alive(owner));
        if alive && !log.is_frozen {
            return false;
        }
        self.cluster.flip(partition, log.freezes)
    }

    /// A node's process ends and starts again.
    pub(in crate::dispatch) fn restart_owner(&mut self, node: NodeId) {
        self.cluster.register(node);
        self.museum.retain(|copy| copy.to != node);
        for (partition, log) in &mut self.logs {
            let row = self.cluster.truth.assignment(*partition);
            if let Some(row) = row.filter(|row| row.owner == node) {
                log.reopen(row.epoch);
            }
        }
    }

    pub(in crate::dispatch) fn delete_topic(&mut self, topic: TopicId) {
        self.cluster.propose(1, Command::DeleteTopic { topic });
    }

    /// Where the records are that were accepted, by partition, in the order of the log.
    pub(in crate::dispatch) fn in_log(&self, partition: PartitionId) -> Vec<RecordId> {
        let log = self.logs.get(&partition);
        log.map_or(Vec::new(), |log| log.appended.iter().map(|it| it.parcel.record).collect())
    }
}
