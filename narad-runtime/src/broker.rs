//! The partitions that are, or were, live on this node: where the data path and the node machine
//! meet.

pub mod batch;
mod deliver;
pub mod slot;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use narad_core::cursor;
use narad_core::ids::PartitionId;

use crate::foreground::Foreground;
pub use batch::{Batcher, ProduceError};
pub use deliver::NotTaken;
pub use slot::{
    AppendUnderWay, Committed, FreezeAnswer, Offsets, Pending, Slot, SlotError, Standpoint,
    Unsaved, Watch,
};

/// One partition's slot with its producers.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Gate and log.
    pub slot: Arc<Slot>,
    /// The producers.
    pub batcher: Arc<Batcher>,
}

/// All slots of one node. A slot is made once and stays: its gate counts freezes.
pub struct Broker {
    standpoint: Arc<dyn Standpoint>,
    limits: cursor::Limits,
    foreground: Option<Arc<Foreground>>,
    seats: RwLock<BTreeMap<PartitionId, Seat>>,
    unsaved: Arc<Unsaved>,
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}

impl Broker {
    /// Makes a broker without partitions.
    pub fn new(standpoint: Arc<dyn Standpoint>) -> Self {
        Self::with_limits(standpoint, cursor::Limits::default())
    }

    /// Makes a broker of whose partitions the consumers may each take so much.
    pub fn with_limits(standpoint: Arc<dyn Standpoint>, limits: cursor::Limits) -> Self {
        let (seats, unsaved) = (RwLock::default(), Arc::default());
        Self { standpoint, limits, foreground: None, seats, unsaved }
    }

    /// Has its producers tell how long their commits take.
    #[must_use]
    pub fn timed_by(mut self, foreground: Arc<Foreground>) -> Self {
        self.foreground = Some(foreground);
        self
    }

    /// Returns the seat of a partition, making it if there is none.
    pub fn seat(&self, partition: PartitionId) -> Seat {
        if let Some(seat) = self.find(partition) {
            return seat;
        }
        let mut seats = self.seats.write().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let standpoint = Arc::clone(&self.standpoint);
            let slot = Slot::with_limits(partition, standpoint, self.limits);
            let slot = Arc::new(slot.listed_in(&self.unsaved));
            let mut batcher = Batcher::new(Arc::clone(&slot));
            if let Some(foreground) = &self.foreground {
                batcher = batcher.timed_by(Arc::clone(foreground));
            }
            Seat { slot, batcher: Arc::new(batcher) }
        };
        seats.entry(partition).or_insert_with(make).clone()
    }

    /// Makes the consumers' positions of all open logs durable, where they have changed. Blocks.
    /// Costs nothing for partitions that nobody consumes or appends to.
    pub fn flush_positions(&self) {
        let unsaved = self.unsaved.take();
        for seat in unsaved.into_iter().filter_map(|partition| self.find(partition)) {
            if let Err(error) = seat.slot.store_position() {
                tracing::debug!(partition = %seat.slot.partition(), %error, "position not kept");
            }
        }
    }

    /// Returns the seat of a partition, if it has ever been live here.
    pub fn find(&self, partition: PartitionId) -> Option<Seat> {
        let seats = self.seats.read().unwrap_or_else(PoisonError::into_inner);
        seats.get(&partition).cloned()
    }
}

#[cfg(test)]
mod tests {
    use narad_core::freeze::gate::Authority;
    use narad_core::ids::TopicId;
    use narad_core::time::Instant;

    use super::*;

    struct Nowhere;

    impl Standpoint for Nowhere {
        fn now(&self) -> Instant {
            Instant::ORIGIN
        }

        fn authority(&self) -> Authority {
            Authority::NONE
        }
    }

    /// Keeping positions looks at what somebody has had to do with, and at nothing else.
    #[test]
    fn positions_that_nobody_touched_are_not_looked_at() {
        let broker = Broker::new(Arc::new(Nowhere));
        let id = |index| PartitionId { topic: TopicId(1), index };
        for index in 0..1000 {
            broker.seat(id(index));
        }
        assert!(broker.unsaved.take().is_empty());
        broker.seat(id(7)).slot.wake_consumers();
        broker.seat(id(7)).slot.wake_consumers();
        assert_eq!(broker.unsaved.take(), [id(7)].into());
        broker.seat(id(7)).slot.store_position().expect("there is no log");
        assert!(broker.unsaved.take().is_empty());
        broker.seat(id(7)).slot.wake_consumers();
        broker.flush_positions();
        broker.seat(id(7)).slot.wake_consumers();
        assert_eq!(broker.unsaved.take(), [id(7)].into(), "again, after it was looked at");
    }
}
