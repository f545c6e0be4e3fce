//! Producers, and what they were told.

use core::time::Duration;
use std::collections::BTreeMap;

use narad_core::effects::Effects;
use narad_core::freeze::gate::{Admission, Appended};
use narad_core::ids::*;

use super::{Due, World};

/// One acknowledged record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acked {
    pub(crate) partition: PartitionId,
    pub(crate) content: u64,
    pub(crate) epoch: Epoch,
    pub(crate) owner: NodeId,
}

#[derive(Debug, Default)]
pub(crate) struct Workload {
    pub(crate) acked: Vec<Acked>,
    /// Between two records of one partition; zero produces nothing.
    pub(crate) every: Duration,
    appending: BTreeMap<(NodeId, PartitionId), Append>,
    produced: u64,
}

#[derive(Debug)]
struct Append {
    admission: Admission,
    content: u64,
    end: u64,
}

impl Workload {
    /// Appends under way end with the process.
    pub(crate) fn crashed(&mut self, id: NodeId) {
        self.appending.retain(|(node, _), _| *node != id);
    }

    pub(crate) fn is_appending(&self, id: NodeId, partition: PartitionId) -> bool {
        self.appending.contains_key(&(id, partition))
    }

    /// A log is closed only when nothing is appended to it.
    pub(crate) fn abandon(&self, id: NodeId, partition: PartitionId) {
        assert!(!self.is_appending(id, partition), "a log waits for its append to end");
    }
}

impl World {
    /// Produces to every partition from now on.
    pub(crate) fn produce_every(&mut self, pause: Duration) {
        self.work.every = pause;
        let all: Vec<PartitionId> = self
            .log
            .state
            .topics()
            .flat_map(|topic| {
                (0..topic.partitions).map(|index| PartitionId { topic: topic.id, index })
            })
            .collect();
        for partition in all {
            self.schedule(pause, Due::Produce(partition));
        }
    }

    pub(super) fn produce_and_go_on(&mut self, partition: PartitionId) {
        if !self.work.every.is_zero() {
            self.schedule(self.work.every, Due::Produce(partition));
            self.produce(partition);
        }
    }

    /// Offers one record to every node, as dispatchers with any view of the rows would. Returns
    /// how many took it.
    pub(crate) fn produce(&mut self, partition: PartitionId) -> usize {
        let all: Vec<NodeId> = self.machines.keys().copied().collect();
        all.into_iter().filter(|id| self.begin_append(*id, partition)).count()
    }

    /// Returns whether the gate admits a record, which is then durable and not acknowledged yet.
    pub(crate) fn begin_append(&mut self, id: NodeId, partition: PartitionId) -> bool {
        let now = self.now;
        if self.live(id, partition).is_none() {
            return false;
        }
        let Some(process) = self.machines.get_mut(&id).and_then(|m| m.process.as_mut()) else {
            return false;
        };
        let authority = process.authority;
        let Some(gate) = process.gates.get_mut(&partition) else { return false };
        let Ok(admission) = gate.admit(now, authority, None) else { return false };
        self.work.produced += 1;
        let content = self.work.produced;
        let log = self.live_mut(id, partition).expect("it is open");
        let end = log.append(content, admission.epoch());
        self.work.appending.insert((id, partition), Append { admission, content, end });
        let (life, delay) = (self.machines[&id].processes, self.delay());
        self.schedule(delay, Due::EndAppend(id, life, partition));
        true
    }

    /// The append ends: if the gate still agrees, it is acknowledged.
    pub(super) fn end_append(&mut self, id: NodeId, life: u64, partition: PartitionId) {
        let now = self.now;
        if self.process(id, life).is_none() {
            return;
        }
        let Some(append) = self.work.appending.remove(&(id, partition)) else { return };
        let process = self.process(id, life).expect("just seen");
        let authority = process.authority;
        let gate = process.gates.get_mut(&partition).expect("it admitted this");
        let mut signals = Effects::default();
        let outcome = Appended::Durable { end: Offset(append.end) };
        let judged = gate.recheck(now, authority, append.admission, outcome, &mut signals);
        if let Ok(acknowledged) = judged {
            let epoch = acknowledged.epoch;
            self.live_mut(id, partition).expect("it is open").hwm = acknowledged.hwm.0;
            let content = append.content;
            self.work.acked.push(Acked { partition, content, epoch, owner: id });
        }
        self.signalled(id, life, Some(partition), signals);
    }
}
