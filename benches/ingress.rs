//! What a node accepts from 64 producers at once, each with one record of 1 KiB under way, beside a
//! bare loop that writes and syncs the same records one by one on the same disk.
//!
//! After the table come lines with the ratio of the two, from rounds that alternate, so that whatever
//! else the machine does hits both alike, and with how many records shared a sync. On a disk whose
//! syncs cost the same for a record as for many, the ratio is that number.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use divan::Bencher;
use divan::counter::ItemsCount;
use narad_core::dispatch::Route;
use narad_core::ids::{Seq, TopicId};
use narad_runtime::disk::RealDisk;
use narad_runtime::ingress::{Committer, Dispatcher, IngressLog, Limits, Parcel};
use narad_runtime::log::Record;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const PRODUCERS: u32 = 64;
/// Records of one producer in one run: enough that its beginning and its end do not count.
const EACH: u32 = 128;
/// Records of one run of the bare loop.
const BARE: u32 = 64;
/// Bytes of one record's value.
const VALUE_BYTES: usize = 1 << 10;

#[expect(clippy::print_stdout, reason = "a benchmark's result")]
fn main() {
    divan::main();
    // Without the flag of `cargo bench` the question is only whether it works.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { 30 } else { 1 };
    let (node, mut bare) = (Node::start(), Bare::start());
    let [mut threads, mut tasks, mut alone] = [Duration::ZERO; 3];
    let [mut by_threads, mut by_tasks] = [0; 2];
    for _ in 0..rounds {
        threads += timed(|| node.threads());
        by_threads += node.syncs.swap(0, Ordering::Relaxed);
        tasks += timed(|| node.tasks());
        by_tasks += node.syncs.swap(0, Ordering::Relaxed);
        alone += timed(|| bare.once());
    }
    let rate = |records: u32, took: Duration| f64::from(records * rounds) / took.as_secs_f64();
    let alone = rate(BARE, alone);
    println!("one write and one sync for each record: {alone:.0} records/s ({rounds} rounds)");
    for (name, took, syncs) in [("threads", threads, by_threads), ("tasks", tasks, by_tasks)] {
        let rate = rate(PRODUCERS * EACH, took);
        let shared = f64::from(PRODUCERS * EACH * rounds) / f64::from(syncs);
        println!(
            "{PRODUCERS} producers as {name}: {rate:.0} records/s, {:.1} times as many; \
             {shared:.1} records for each sync",
            rate / alone,
        );
    }
}

fn timed(run: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    run();
    begin.elapsed()
}

/// Producers that block, one thread each; whoever comes first writes for all.
#[divan::bench]
fn threads(bencher: Bencher<'_, '_>) {
    let node = Node::start();
    bencher.counter(ItemsCount::new(PRODUCERS * EACH)).bench_local(|| node.threads());
}

/// Producers that wait as tasks, while one thread writes for all.
#[divan::bench]
fn tasks(bencher: Bencher<'_, '_>) {
    let node = Node::start();
    bencher.counter(ItemsCount::new(PRODUCERS * EACH)).bench_local(|| node.tasks());
}

/// One write and one sync for each record.
#[divan::bench]
fn bare_loop(bencher: Bencher<'_, '_>) {
    let mut bare = Bare::start();
    bencher.counter(ItemsCount::new(BARE)).bench_local(|| bare.once());
}

/// What waits for a dispatcher after a restart, in batches of 256 records: each of them the n-th of
/// its neighbours, as for so many partitions.
#[divan::bench(args = [1, 8, 64])]
fn read_for_dispatch(bencher: Bencher<'_, '_>, partitions: u64) {
    const RECORDS: u64 = 16 << 10;
    let root = tempfile::tempdir().expect("a temporary directory");
    let log = open(&root, |_| {});
    for _ in 0..RECORDS / 64 {
        log.append(vec![parcel(); 64]).expect("space is left");
    }
    log.close().expect("the disk works");
    let batch = |first: u64| {
        let step = usize::try_from(partitions).expect("small");
        (first..RECORDS).step_by(step).take(256).map(Seq).collect::<Vec<_>>()
    };
    let starts = (0..RECORDS).step_by(256 * usize::try_from(partitions).expect("small"));
    let batches: Vec<_> = starts.flat_map(|at| (at..at + partitions).map(batch)).collect();
    bencher
        .counter(ItemsCount::new(RECORDS))
        .with_inputs(|| open(&root, |_| {}))
        .bench_local_values(|log| {
            let read = |batch: &Vec<Seq>| {
                let read = log.read(batch.iter().copied(), usize::MAX).expect("readable");
                read.parcels.len() as u64
            };
            assert_eq!(batches.iter().map(read).sum::<u64>(), RECORDS);
        });
}

fn parcel() -> Parcel {
    let record = Record { value: vec![7; VALUE_BYTES].into(), ..Record::default() };
    Parcel { topic: TopicId(1), route: Route::Any, record }
}

/// A log on a real disk, below the system's temporary directory.
fn open(root: &TempDir, dispatcher: impl Dispatcher + 'static) -> IngressLog {
    let disk = Arc::new(RealDisk::new(root.path()).expect("it was just made"));
    let dir = Path::new("ingress");
    IngressLog::create(&*disk, dir).expect("space is left");
    IngressLog::open(disk, dir, Limits::default(), dispatcher).expect("just created").0
}

struct Node {
    log: Arc<IngressLog>,
    /// The dispatcher is told once for each sync.
    syncs: Arc<AtomicU32>,
    runtime: Runtime,
    _root: TempDir,
}

impl Node {
    fn start() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let syncs = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&syncs);
        let count = move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let log = Arc::new(open(&root, count));
        Self { log, syncs, runtime: Runtime::new().expect("threads"), _root: root }
    }

    fn threads(&self) {
        thread::scope(|scope| {
            for _ in 0..PRODUCERS {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        self.log.append(vec![parcel()]).expect("space is left");
                    }
                });
            }
        });
        self.dispatched();
    }

    fn tasks(&self) {
        let _committer = Committer::start(Arc::clone(&self.log)).expect("a thread");
        self.runtime.block_on(async {
            let produce = |log: Arc<IngressLog>| async move {
                for _ in 0..EACH {
                    let ticket = log.submit(vec![parcel()]).expect("room");
                    ticket.await.expect("space is left");
                }
            };
            let producers: Vec<_> =
                (0..PRODUCERS).map(|_| tokio::spawn(produce(Arc::clone(&self.log)))).collect();
            for producer in producers {
                producer.await.expect("no panic");
            }
        });
        self.dispatched();
    }

    /// Lets go of everything, so that the disk does not fill up.
    fn dispatched(&self) {
        self.log.checkpoint(self.log.next()).expect("the disk works");
    }
}

struct Bare {
    file: File,
    position: u64,
    bytes: Vec<u8>,
    _root: TempDir,
}

impl Bare {
    fn start() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let file = File::create(root.path().join("log")).expect("space is left");
        Self { file, position: 0, bytes: vec![7; VALUE_BYTES], _root: root }
    }

    fn once(&mut self) {
        for _ in 0..BARE {
            self.file.write_all_at(&self.bytes, self.position).expect("space is left");
            self.file.sync_data().expect("the disk works");
            self.position += self.bytes.len() as u64;
        }
    }
}
