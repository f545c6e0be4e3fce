//! When which of a node's many machines wants to be woken.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::effects::Deadline;
use crate::ids::PartitionId;
use crate::time::Instant;

/// A machine of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    Host(PartitionId),
    Handoff(PartitionId),
    Mover(PartitionId),
}

/// Deadlines in order, so that a node with many quiet partitions costs nothing when it is woken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Agenda {
    at: BTreeMap<Key, Deadline>,
    order: BTreeSet<(Instant, Key)>,
}

impl Agenda {
    /// Replaces what a machine wants.
    pub(super) fn set(&mut self, key: Key, deadline: Option<Deadline>) {
        if let Some(old) = self.at.remove(&key) {
            self.order.remove(&(old.at, key));
        }
        if let Some(new) = deadline {
            self.at.insert(key, new);
            self.order.insert((new.at, key));
        }
    }

    /// Returns the machines whose time has come.
    pub(super) fn due(&self, now: Instant) -> Vec<Key> {
        self.order.iter().take_while(|(at, _)| *at <= now).map(|(_, key)| *key).collect()
    }

    /// Returns the first deadline.
    pub(super) fn first(&self) -> Option<Deadline> {
        self.order.first().and_then(|(_, key)| self.at.get(key)).copied()
    }
}
