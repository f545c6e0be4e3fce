//! What is to be looked at again, and when.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::ids::PartitionId;
use crate::time::Instant;

/// Partitions that are to be looked at again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Retries(BTreeSet<(Instant, PartitionId)>);

impl Retries {
    pub(super) fn add(&mut self, partition: PartitionId, at: Instant) {
        self.0.insert((at, partition));
    }

    /// Returns when the first is due.
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Removes and returns those whose time has come.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<PartitionId> {
        let due: Vec<_> = self.0.iter().take_while(|(at, _)| *at <= now).copied().collect();
        for retry in &due {
            self.0.remove(retry);
        }
        due.into_iter().map(|(_, partition)| partition).collect()
    }
}
