//! Parcels that were appended or read lately.
//!
//! A batch is made of the records of one partition, which lie apart in a log that all partitions
//! share. Whoever reads one of them therefore reads its neighbours, and the batches of the other
//! partitions find those here. While the dispatcher keeps up it reads nothing from the disk at all.

use std::collections::BTreeMap;

use narad_core::ids::Seq;

use super::Parcel;

/// What a parcel counts beside its own bytes.
const PARCEL_BYTES: usize = 128;

/// A bounded number of runs of parcels; the one that was used least lately goes first.
#[derive(Debug)]
pub(super) struct Cache {
    bytes_max: usize,
    bytes: usize,
    /// By the position of their first parcel. No parcel is in two of them.
    runs: BTreeMap<Seq, Run>,
    /// The same by when they were used.
    used: BTreeMap<u64, Seq>,
    clock: u64,
}

#[derive(Debug)]
struct Run {
    parcels: Vec<Parcel>,
    bytes: usize,
    used: u64,
}

impl Cache {
    pub(super) fn new(bytes_max: usize) -> Self {
        let (runs, used) = (BTreeMap::new(), BTreeMap::new());
        Self { bytes_max, bytes: 0, runs, used, clock: 0 }
    }

    /// Returns the parcel at a position.
    pub(super) fn find(&mut self, seq: Seq) -> Option<Parcel> {
        let (&first, run) = self.runs.range_mut(..=seq).next_back()?;
        let parcel = run.parcels.get(usize::try_from(seq.0 - first.0).ok()?)?.clone();
        self.clock += 1;
        self.used.remove(&run.used);
        self.used.insert(self.clock, first);
        run.used = self.clock;
        Some(parcel)
    }

    /// Takes a run of parcels, as far as they are not here.
    pub(super) fn insert(&mut self, first: Seq, mut parcels: Vec<Parcel>) {
        if let Some((&known, run)) = self.runs.range(..=first).next_back()
            && first.0 - known.0 < run.parcels.len() as u64
        {
            return;
        }
        if let Some((&next, _)) = self.runs.range(first..).next() {
            let room = usize::try_from(next.0 - first.0).unwrap_or(usize::MAX);
            parcels.truncate(room);
        }
        let bytes = parcels.iter().map(|parcel| parcel.encoded_bytes() + PARCEL_BYTES).sum();
        if parcels.is_empty() || bytes > self.bytes_max {
            return;
        }
        self.clock += 1;
        self.bytes += bytes;
        self.used.insert(self.clock, first);
        self.runs.insert(first, Run { parcels, bytes, used: self.clock });
        while self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.used.pop_first() else { break };
            self.remove(oldest);
        }
    }

    /// Forgets the runs that end at or before a position.
    pub(super) fn forget_before(&mut self, seq: Seq) {
        while let Some((&first, run)) = self.runs.first_key_value() {
            if first.0 + run.parcels.len() as u64 > seq.0 {
                break;
            }
            self.used.remove(&run.used);
            self.remove(first);
        }
    }

    fn remove(&mut self, first: Seq) {
        if let Some(run) = self.runs.remove(&first) {
            self.bytes -= run.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use narad_core::dispatch::Route;
    use narad_core::ids::TopicId;
    use proptest::prelude::*;

    use super::*;
    use crate::log::Record;

    /// A parcel that says where it belongs.
    fn parcel(seq: u64) -> Parcel {
        Parcel { topic: TopicId(seq), route: Route::Any, record: Record::default() }
    }

    fn run(first: u64, count: u64) -> (Seq, Vec<Parcel>) {
        (Seq(first), (first..first + count).map(parcel).collect())
    }

    fn size(count: usize) -> usize {
        count * (parcel(0).encoded_bytes() + PARCEL_BYTES)
    }

    #[test]
    fn what_was_used_least_lately_goes_first() {
        let mut cache = Cache::new(size(4));
        for (first, parcels) in [run(0, 2), run(2, 2)] {
            cache.insert(first, parcels);
        }
        assert_eq!(cache.find(Seq(1)), Some(parcel(1)));
        let (first, parcels) = run(10, 1);
        cache.insert(first, parcels);
        assert_eq!(cache.find(Seq(2)), None);
        assert_eq!(cache.find(Seq(0)), Some(parcel(0)));
        assert_eq!(cache.find(Seq(10)), Some(parcel(10)));
    }

    proptest! {
        /// Whatever is put in and taken out: what is found is right, and the bound holds.
        #[test]
        fn what_is_found_is_what_was_put_there(
            steps in proptest::collection::vec((0..40_u64, 0..8_u64, 0..4_u8), 0..60),
        ) {
            let mut cache = Cache::new(size(12));
            for (at, count, kind) in steps {
                match kind {
                    0 => cache.forget_before(Seq(at)),
                    1 => {
                        let found = cache.find(Seq(at));
                        prop_assert!(found.is_none_or(|found| found == parcel(at)));
                    }
                    _ => {
                        let (first, parcels) = run(at, count);
                        cache.insert(first, parcels);
                        prop_assert!(count == 0 || cache.find(first) == Some(parcel(at)));
                    }
                }
                prop_assert!(cache.bytes <= size(12));
                prop_assert_eq!(cache.runs.len(), cache.used.len());
                let bytes: usize = cache.runs.values().map(|run| run.bytes).sum();
                prop_assert_eq!(bytes, cache.bytes);
            }
        }
    }
}
