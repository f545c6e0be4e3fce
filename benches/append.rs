//! What a durable append costs: one write and one fsync, however many records share them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use narad_core::freeze::gate::{Authority, Standing};
use narad_core::ids::{Epoch, Incarnation, Offset, PartitionId, TopicId};
use narad_core::time::Instant;
use narad_runtime::broker::{Batcher, Slot, Standpoint};
use narad_runtime::disk::RealDisk;
use narad_runtime::log::{LogLimits, Record, SegmentLog};
use narad_runtime::store::PartitionLog;
use tempfile::TempDir;

/// Bytes of one record's value.
const VALUE_BYTES: usize = 1 << 10;

fn main() {
    divan::main();
}

/// A log on a real disk, below the system's temporary directory.
fn log() -> (TempDir, Arc<SegmentLog>) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let disk = Arc::new(RealDisk::new(root.path()).expect("it was just made"));
    let dir = Path::new("log");
    SegmentLog::create(&*disk, dir, Offset(0)).expect("space is left");
    let log = SegmentLog::open(disk, dir, LogLimits::default()).expect("just created");
    (root, Arc::new(log))
}

fn records(count: usize) -> Vec<Record> {
    vec![Record { value: vec![7; VALUE_BYTES].into(), ..Record::default() }; count]
}

/// One append of so many records of 1 KiB.
#[divan::bench(args = [1, 16, 256, 1024])]
fn append_and_fsync(bencher: Bencher<'_, '_>, count: usize) {
    let (_root, log) = log();
    let records = records(count);
    bencher
        .counter(BytesCount::new(count * VALUE_BYTES))
        .counter(ItemsCount::new(count))
        .bench_local(|| log.append(&records, Epoch(1)).expect("space is left"));
}

/// A node that may always commit.
struct Always;

impl Standpoint for Always {
    fn now(&self) -> Instant {
        Instant::ORIGIN
    }

    fn authority(&self) -> Authority {
        let lease_until = Instant::ORIGIN.after(Duration::from_secs(1));
        Authority { registered: Some(Incarnation(1)), lease_until }
    }
}

/// One record of 1 KiB from each of so many producers: those that meet share an fsync.
#[divan::bench(threads = [1, 8])]
fn group_commit(bencher: Bencher<'_, '_>) {
    let (_root, log) = log();
    let partition = PartitionId { topic: TopicId(1), index: 0 };
    let slot = Arc::new(Slot::new(partition, Arc::new(Always)));
    slot.attach(log);
    slot.stand(Standing::Serving { epoch: Epoch(1), life: Incarnation(1), in_play: false });
    let batcher = Batcher::new(slot);
    bencher
        .counter(ItemsCount::new(1_usize))
        .with_inputs(|| records(1))
        .bench_values(|records| batcher.produce(records, None).expect("nothing is in its way"));
}
