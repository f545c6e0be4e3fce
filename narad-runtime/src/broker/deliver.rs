//! The owner's side of the dispatch: batches that a node has accepted are appended once.

use narad_core::dispatch::{BatchNo, Receipt, SendFault};
use narad_core::freeze::gate::Refused;
use narad_core::ids::{Epoch, PartitionId};

use super::{Broker, ProduceError, Seat, Slot, SlotError};
use crate::log::{LogError, Record};

/// A batch was not taken, and perhaps because the log has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotTaken {
    /// What the sender is told.
    pub fault: SendFault,
    /// Whether the log must be opened anew.
    pub needs_reopening: bool,
}

impl From<SendFault> for NotTaken {
    fn from(fault: SendFault) -> Self {
        Self { fault, needs_reopening: false }
    }
}

impl Broker {
    /// Takes a batch for a partition that this node owns, together with whoever else writes to it;
    /// blocks until it is durable. One that was taken before is answered again (R53).
    ///
    /// # Errors
    ///
    /// Why it was not taken. After the append it may be there all the same, hidden; its sender
    /// brings it again (S11).
    pub fn deliver(
        &self,
        partition: PartitionId,
        epoch: Epoch,
        batch: BatchNo,
        records: Vec<Record>,
    ) -> Result<(), NotTaken> {
        let Seat { slot, batcher } = self.find(partition).ok_or(SendFault::NotServing)?;
        match slot.begin_delivery(batch)? {
            Receipt::Taken => return Ok(()),
            Receipt::Append => {}
        }
        // Also if the append panics, or the next batch of that node would wait for ever.
        let mut under_way = UnderWay { slot: &slot, batch, taken: false };
        let produced = batcher.produce(records, Some(epoch));
        under_way.taken = produced.is_ok();
        produced.map(|_| ()).map_err(|error| NotTaken {
            fault: error.send_fault(),
            needs_reopening: matches!(&error, ProduceError::Log(log) if log.needs_reopening()),
        })
    }
}

struct UnderWay<'a> {
    slot: &'a Slot,
    batch: BatchNo,
    taken: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.slot.end_delivery(self.batch, self.taken);
    }
}

impl SlotError {
    /// Returns what whoever has brought a batch is told.
    #[must_use]
    pub fn send_fault(&self) -> SendFault {
        match self {
            Self::Refused(refused) => of_gate(*refused),
            Self::Log(error) => of_log(error),
            // No append ends with the latter.
            Self::NotOpen | Self::Consumer(_) => SendFault::NotServing,
        }
    }
}

impl ProduceError {
    /// Returns what whoever has brought a batch is told.
    #[must_use]
    pub fn send_fault(&self) -> SendFault {
        match self {
            Self::Refused(refused) => of_gate(*refused),
            Self::Log(error) => of_log(error),
            Self::NotOpen => SendFault::NotServing,
            Self::Busy => SendFault::Busy,
            Self::Abandoned => SendFault::TimedOut,
        }
    }
}

const fn of_gate(refused: Refused) -> SendFault {
    match refused {
        Refused::NotServing => SendFault::NotServing,
        Refused::OtherEpoch { current } => SendFault::OtherEpoch { current },
        Refused::NoLease => SendFault::NoLease,
        Refused::Frozen => SendFault::Frozen,
        Refused::AppendUnderWay => SendFault::Busy,
        Refused::AppendFailed => SendFault::Disk,
    }
}

fn of_log(error: &LogError) -> SendFault {
    match error {
        error if error.is_full() => SendFault::DiskFull,
        LogError::RecordTooLarge { .. } => SendFault::TooLarge,
        LogError::Closed | LogError::StaleEpoch { .. } => SendFault::NotServing,
        _ => SendFault::Disk,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use narad_core::freeze::gate::{Authority, Standing};
    use narad_core::ids::{Incarnation, NodeId, Offset, TopicId};
    use narad_core::time::Instant;

    use super::super::Standpoint;
    use super::*;
    use crate::disk::MemDisk;
    use crate::log::{LogLimits, SegmentLog};

    const PARTITION: PartitionId = PartitionId { topic: TopicId(1), index: 0 };
    const LIFE: Incarnation = Incarnation(1);
    const EPOCH: Epoch = Epoch(2);

    struct Leased;

    impl Standpoint for Leased {
        fn now(&self) -> Instant {
            Instant::ORIGIN
        }

        fn authority(&self) -> Authority {
            let lease_until = Instant::ORIGIN.after(Duration::from_secs(9));
            Authority { registered: Some(LIFE), lease_until }
        }
    }

    struct World {
        disk: MemDisk,
        broker: Broker,
    }

    impl World {
        fn serving() -> Self {
            let disk = MemDisk::new();
            SegmentLog::create(&disk, Path::new("log"), Offset(0)).unwrap();
            let world = Self { disk, broker: Broker::new(Arc::new(Leased)) };
            world.open();
            let standing = Standing::Serving { epoch: EPOCH, life: LIFE, in_play: false };
            world.broker.seat(PARTITION).slot.stand(standing);
            world
        }

        fn open(&self) {
            let limits = LogLimits { record_bytes_max: 100, ..LogLimits::default() };
            let log = SegmentLog::open(Arc::new(self.disk.clone()), Path::new("log"), limits);
            self.broker.seat(PARTITION).slot.attach(Arc::new(log.unwrap()));
        }

        fn deliver(&self, n: u64, bytes: usize) -> Result<(), SendFault> {
            self.deliver_in(EPOCH, n, bytes)
        }

        fn deliver_in(&self, epoch: Epoch, n: u64, bytes: usize) -> Result<(), SendFault> {
            let batch = BatchNo { ingress: NodeId(3), life: Incarnation(1), n };
            let record = Record { value: vec![0; bytes].into(), ..Record::default() };
            let taken = self.broker.deliver(PARTITION, epoch, batch, vec![record; 2]);
            taken.map_err(|not_taken| not_taken.fault)
        }

        fn end(&self) -> Offset {
            self.broker.seat(PARTITION).slot.log().unwrap().bounds().end
        }
    }

    /// R53: a batch whose answer was lost is appended once; after the log was opened again, which
    /// is a seam, it is appended again.
    #[test]
    fn a_batch_is_appended_once_as_long_as_the_log_stays_open() {
        let world = World::serving();
        assert_eq!([world.deliver(0, 1), world.deliver(0, 1)], [Ok(()); 2]);
        assert_eq!(world.end(), Offset(2));
        assert_eq!(world.deliver(1, 1), Ok(()));
        let newest = BatchNo { ingress: NodeId(3), life: Incarnation(1), n: 1 };
        assert_eq!(world.deliver(0, 1), Err(SendFault::Stale { newest }));
        assert_eq!(world.end(), Offset(4));
        drop(world.broker.seat(PARTITION).slot.detach());
        world.open();
        assert_eq!(world.deliver(1, 1), Ok(()));
        assert_eq!(world.end(), Offset(6));
    }

    /// R37: a batch that a gate refuses is told why, and is appended when it comes again.
    #[test]
    fn a_batch_that_was_refused_may_come_again() {
        let world = World::serving();
        let other = SendFault::OtherEpoch { current: EPOCH };
        assert_eq!(world.deliver_in(Epoch(1), 0, 1), Err(other));
        assert_eq!(world.deliver(0, 1000), Err(SendFault::TooLarge));
        let slot = world.broker.seat(PARTITION).slot;
        slot.stand(Standing::Reading { epoch: EPOCH });
        assert_eq!(world.deliver(0, 1), Err(SendFault::NotServing));
        slot.stand(Standing::Serving { epoch: EPOCH, life: LIFE, in_play: false });
        assert_eq!(world.deliver(0, 1), Ok(()));
        assert_eq!(world.end(), Offset(2));
    }

    #[test]
    fn a_node_that_never_had_the_partition_does_not_serve_it() {
        let broker = Broker::new(Arc::new(Leased));
        let batch = BatchNo { ingress: NodeId(3), life: Incarnation(1), n: 0 };
        let taken = broker.deliver(PARTITION, EPOCH, batch, vec![Record::default()]);
        assert_eq!(taken, Err(SendFault::NotServing.into()));
    }
}
