//! What a commit costs over a disk in memory: the simulator's budget for one record.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use narad_core::freeze::gate::{Authority, Standing};
use narad_core::ids::{Epoch, Incarnation, Offset, PartitionId, TopicId};
use narad_core::time::Instant;
use narad_runtime::broker::{Slot, Standpoint};
use narad_runtime::disk::MemDisk;
use narad_runtime::disk::mem::Keep;
use narad_runtime::log::{LogLimits, Record, SegmentLog, scan};
use narad_runtime::store::PartitionLog;

/// Commits of one run, each of one record.
const COMMITS: u64 = 2_000;
/// Bytes of one record's value.
const VALUE_BYTES: usize = 100;
const DIR: &str = "log";
const LIMITS: LogLimits = LogLimits { segment_bytes: 64 << 10, record_bytes_max: 1 << 20 };

fn main() {
    divan::main();
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

struct World {
    disk: Arc<MemDisk>,
    log: Arc<SegmentLog>,
    slot: Slot,
    records: Vec<Record>,
}

impl World {
    fn new() -> Self {
        let disk = Arc::new(MemDisk::new());
        SegmentLog::create(&*disk, Path::new(DIR), Offset(0)).expect("a fresh disk");
        let log = SegmentLog::open(disk.clone(), Path::new(DIR), LIMITS).expect("just created");
        let log = Arc::new(log);
        let slot = Slot::new(PartitionId { topic: TopicId(1), index: 0 }, Arc::new(Always));
        slot.attach(log.clone());
        let life = Incarnation(1);
        slot.stand(Standing::Serving { epoch: Epoch(1), life, in_play: false });
        let records = vec![Record { value: vec![7; VALUE_BYTES].into(), ..Record::default() }];
        Self { disk, log, slot, records }
    }

    fn filled() -> Self {
        let world = Self::new();
        world.commit_all();
        world
    }

    fn commit_all(&self) {
        for _ in 0..COMMITS {
            self.slot.commit(&self.records, None).expect("nothing is in its way");
        }
    }
}

/// Admit, append, sync, check again; rolls included.
#[divan::bench]
fn commit(bencher: Bencher<'_, '_>) {
    let bencher = bencher.counter(ItemsCount::new(COMMITS)).with_inputs(World::new);
    bencher.bench_values(|world| {
        world.commit_all();
        world
    });
}

/// A consumer that reads one record at a time.
#[divan::bench]
fn read_one_by_one(bencher: Bencher<'_, '_>) {
    let world = World::filled();
    bencher.counter(ItemsCount::new(COMMITS)).bench_local(|| {
        (0..COMMITS).map(|at| world.log.read(Offset(at), 1).expect("visible").len()).sum::<usize>()
    });
}

/// A power loss, and opening the log again.
#[divan::bench]
fn crash_and_open(bencher: Bencher<'_, '_>) {
    let world = World::filled();
    bencher.bench_local(|| {
        world.disk.crash(Keep::Nothing);
        SegmentLog::open(world.disk.clone(), Path::new(DIR), LIMITS).expect("it was there")
    });
}

/// Every record of a log, with everything checked.
#[divan::bench]
fn look_at_all(bencher: Bencher<'_, '_>) {
    let world = World::filled();
    bencher
        .counter(ItemsCount::new(COMMITS))
        .bench_local(|| scan(&*world.disk, Path::new(DIR)).expect("readable").records.len());
}
