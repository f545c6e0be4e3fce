//! All partitions that are, or were, live on this node.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use narad_core::ids::PartitionId;

use super::seat::{Ground, Seat};
use super::store::PartitionStore;

/// A seat is made once and stays: its gate counts freezes.
pub(super) struct Seats {
    pub(super) ground: Arc<Ground>,
    store: Arc<dyn PartitionStore>,
    all: RwLock<BTreeMap<PartitionId, Arc<Seat>>>,
}

impl Seats {
    pub(super) fn new(ground: Arc<Ground>, store: Arc<dyn PartitionStore>) -> Self {
        Self { ground, store, all: RwLock::default() }
    }

    pub(super) fn find(&self, partition: PartitionId) -> Option<Arc<Seat>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).get(&partition).cloned()
    }

    pub(super) fn seat(&self, partition: PartitionId) -> Arc<Seat> {
        if let Some(seat) = self.find(partition) {
            return seat;
        }
        let make = || {
            let (ground, store) = (Arc::clone(&self.ground), Arc::clone(&self.store));
            Arc::new(Seat::new(partition, ground, store))
        };
        let mut seats = self.all.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(seats.entry(partition).or_insert_with(make))
    }

    /// Closes every log, once what is being appended has ended.
    pub(super) async fn close_all(&self) {
        let seats = self.all.read().unwrap_or_else(PoisonError::into_inner).clone();
        for seat in seats.into_values() {
            seat.close().await;
        }
    }
}
