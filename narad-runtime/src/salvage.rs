//! Accepting once more what a directory holds that nobody serves (H14).

use narad_core::dispatch::Route;
use narad_core::ids::{ByteCount, Offset, PartitionId};
use narad_core::mover::What;
use narad_core::node::Salvaged;

use crate::ingress::Parcel;
use crate::log::Record;
use crate::store::{self, Kept, PartitionStore, Receipt, StoreError};

/// Most records that are accepted at once.
const RECORDS_MAX: usize = 1024;
/// Most bytes of them, unless a single one is longer.
const BYTES_MAX: usize = 1 << 20;

/// Carries out `Shipping::Salvage`: hands the records of a directory to `accept`, a batch at a time
/// and in their order, bound to their partition, and leaves a receipt beside them. `accept` returns
/// once they are durable and told, or says that there is no room. Blocks on the disk.
///
/// Returns `None` if not all of it was accepted; all of it is handed over again next time.
pub fn salvage(
    store: &dyn PartitionStore,
    partition: PartitionId,
    what: What,
    from: Option<Offset>,
    now_ms: i64,
    accept: &mut dyn FnMut(Vec<Parcel>) -> bool,
) -> Option<Salvaged> {
    let what = match what {
        What::Staging => store::What::Staging,
        What::Installed(attempt) => store::What::Installed(attempt),
    };
    let kept = Kept::Of(partition, what);
    let receipt = accept_again(store, partition, kept, from, now_ms, accept);
    let receipt = receipt.inspect_err(|error| {
        tracing::error!(%partition, ?what, %error, "cannot accept again what is left here");
    });
    let receipt = receipt.ok().flatten()?;
    Some(Salvaged { from: receipt.from, end: receipt.end, bytes: receipt.bytes.0 })
}

/// Hands the records of a directory to `accept`, and leaves a receipt beside them; see [`salvage`].
///
/// # Errors
///
/// If the directory cannot be read, or the receipt not be written.
pub fn accept_again(
    store: &dyn PartitionStore,
    partition: PartitionId,
    kept: Kept<'_>,
    from: Option<Offset>,
    now_ms: i64,
    accept: &mut dyn FnMut(Vec<Parcel>) -> bool,
) -> Result<Option<Receipt>, StoreError> {
    let (mut records, mut bytes) = (0, 0);
    let ends = store.read_kept(kept, from, &mut |segment| {
        batches(segment).into_iter().all(|batch| {
            records += batch.len() as u64;
            bytes += batch.iter().map(|record| record.payload_bytes() as u64).sum::<u64>();
            let address = |record| Parcel {
                topic: partition.topic,
                route: Route::Partition(partition.index),
                record,
            };
            accept(batch.into_iter().map(address).collect())
        })
    })?;
    let Some((from, end)) = ends else { return Ok(None) };
    let receipt = Receipt { from, end, records, bytes: ByteCount(bytes), accepted_ms: now_ms };
    store.write_receipt(kept, &receipt)?;
    Ok(Some(receipt))
}

fn batches(segment: Vec<(Offset, Record)>) -> Vec<Vec<Record>> {
    let mut batches: Vec<Vec<Record>> = Vec::new();
    let mut room = 0;
    for (_, record) in segment {
        let bytes = record.encoded_bytes();
        let last = batches.last_mut().filter(|batch| bytes <= room && batch.len() < RECORDS_MAX);
        if let Some(batch) = last {
            batch.push(record);
        } else {
            room = BYTES_MAX.max(bytes);
            batches.push(vec![record]);
        }
        room -= bytes;
    }
    batches
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use narad_core::ids::{Attempt, Epoch, NodeId, TopicId};

    use super::*;
    use crate::disk::MemDisk;
    use crate::log::LogLimits;
    use crate::store::SegmentStore;

    /// H14, S11: everything from the captured end on is accepted, in its order and in bounded pieces;
    /// without room nothing counts as salvaged.
    #[test]
    fn a_directory_is_accepted_whole_or_again() {
        let partition = PartitionId { topic: TopicId(3), index: 1 };
        let store = SegmentStore::new(Arc::new(MemDisk::new()), LogLimits::default()).unwrap();
        let data = Attempt::birth(NodeId(1));
        store.create(partition, data, Offset(0)).unwrap();
        let log = store.open(partition, data).unwrap();
        let long = Record { value: vec![7; 600 << 10].into(), ..Record::default() };
        log.append(&vec![long; 4], Epoch(1)).unwrap();
        let short = |n: u64| Record { value: n.to_string().into(), ..Record::default() };
        log.append(&(4..3000).map(short).collect::<Vec<_>>(), Epoch(1)).unwrap();
        log.close().unwrap();

        let what = What::Installed(data);
        let mut rooms = 2;
        let salvaged = salvage(&store, partition, what, Some(Offset(2)), 5, &mut |_| {
            rooms -= 1;
            rooms > 0
        });
        assert_eq!(salvaged, None);

        let (mut values, mut batches) = (Vec::new(), 0);
        let salvaged = salvage(&store, partition, what, Some(Offset(2)), 5, &mut |parcels| {
            batches += 1;
            assert!(parcels.len() <= RECORDS_MAX);
            for parcel in parcels {
                assert_eq!((parcel.topic, parcel.route), (TopicId(3), Route::Partition(1)));
                values.push(parcel.record.value);
            }
            true
        });
        let salvaged = salvaged.expect("there is room");
        assert_eq!((salvaged.from, salvaged.end), (Offset(2), Offset(3000)));
        assert_eq!(values.len(), 2998);
        assert!(values[2..].iter().zip(4_u64..).all(|(value, n)| *value == n.to_string()));
        assert_eq!(
            batches,
            1 + 2997_usize.div_ceil(RECORDS_MAX),
            "two long ones do not fit together"
        );
    }
}
