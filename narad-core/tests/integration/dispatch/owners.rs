//! The owners' logs, as far as a batch meets them, and the judge of what is in them.

use std::collections::{BTreeMap, BTreeSet};

use narad_core::dispatch::{BatchNo, SendFault};
use narad_core::ids::*;
use narad_core::metastore::{State, Status};

/// One accepted record, in whatever copies.
pub(super) type RecordId = usize;

/// One record as one life of the ingress node knows it. A carry keeps it; a life that finds a record
/// twice in its log takes it for two, in the order in which it finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parcel {
    pub(super) n: u64,
    pub(super) record: RecordId,
}

/// One partition's log, and its owner's memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) appended: Vec<Appended>,
    pub(super) is_frozen: bool,
    /// Whether a batch may leave out a number, since all of one was damaged.
    pub(super) numbers_are_skipped: bool,
    pub(super) freezes: u64,
    /// Which opening of the log it is: what the owner remembers ends with it.
    era: u64,
    epoch: Epoch,
    newest: BTreeMap<NodeId, BatchNo>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Appended {
    pub(super) parcel: Parcel,
    era: u64,
    batch: BatchNo,
}

impl Log {
    /// Takes a batch as an owner does.
    pub(super) fn take(
        &mut self,
        truth: &State,
        to: NodeId,
        partition: PartitionId,
        epoch: Epoch,
        batch: BatchNo,
        parcels: &[Parcel],
    ) -> Result<(), SendFault> {
        let row = truth.assignment(partition).ok_or(SendFault::NoSuchPartition)?;
        let alive = truth.member(to).is_some_and(|member| member.status == Status::Alive);
        if row.owner != to || !alive {
            return Err(SendFault::NotServing);
        }
        if row.epoch != epoch {
            return Err(SendFault::OtherEpoch { current: row.epoch });
        }
        self.catch_up(epoch);
        if self.is_frozen {
            return Err(SendFault::Frozen);
        }
        if let Some(&newest) = self.newest.get(&batch.ingress) {
            if batch == newest {
                return Ok(());
            }
            if batch < newest {
                return Err(SendFault::Stale { newest });
            }
            let follows =
                batch.life > newest.life || batch.n == newest.n + 1 || self.numbers_are_skipped;
            assert!(follows, "{batch:?} follows {newest:?} at {partition:?}");
        }
        self.newest.insert(batch.ingress, batch);
        let era = self.era;
        let appended = parcels.iter().map(|&parcel| Appended { parcel, era, batch });
        self.appended.extend(appended);
        Ok(())
    }

    /// A new reign opens the log anew.
    pub(super) fn catch_up(&mut self, epoch: Epoch) {
        if self.epoch != epoch {
            self.reopen(epoch);
        }
    }

    /// Whether the owner remembers that it took a batch.
    pub(super) fn remembers(&self, batch: BatchNo) -> bool {
        self.newest.get(&batch.ingress) == Some(&batch)
    }

    /// The log is opened anew: nothing but its records is remembered.
    pub(super) fn reopen(&mut self, epoch: Epoch) {
        self.era += 1;
        self.epoch = epoch;
        self.is_frozen = false;
        self.newest.clear();
    }

    pub(super) fn thaw(&mut self) {
        self.is_frozen = false;
    }

    /// R36, R37, invariant 3: within one opening of the log and one life of the ingress node, no
    /// record is there twice, and the records of the partition itself are in the order of
    /// acceptance.
    pub(super) fn assert_in_order(&self, is_own: impl Fn(Parcel) -> bool) {
        let mut last: BTreeMap<(u64, Incarnation), Parcel> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for appended in &self.appended {
            let reign = (appended.era, appended.batch.life);
            assert!(seen.insert((reign, appended.parcel)), "{appended:?} is there twice");
            if is_own(appended.parcel) {
                let before = last.insert(reign, appended.parcel);
                let ascending = before.is_none_or(|before| before < appended.parcel);
                assert!(ascending, "{appended:?} is after {before:?}");
            }
        }
    }
}
