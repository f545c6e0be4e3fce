//! C6 to C8: what a copy leaves to everybody else.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use narad_core::ids::{Epoch, Offset};
use narad_runtime::disk::RealDisk;
use narad_runtime::foreground::Foreground;
use narad_runtime::log::{LogLimits, Record, SegmentLog};
use narad_runtime::store::PartitionLog as _;

use super::Options;
use super::bars::{Bar, Threshold};
use super::copy::{CONGESTION, mib};
use super::peers::{self, rsync};
use super::report::{Report, Row};
use super::rig::{How, Noise, Rig};
use super::stats::percentile;

/// Rates that are asked for, in MiB/s.
const RATES: [u32; 3] = [100, 200, 400];
/// The rate of a node by default.
const DEFAULT_RATE: u64 = 200 << 20;
/// Bytes of a producer's record.
const RECORD: usize = 4 << 10;
/// Between the end of a commit and the begin of the next.
const PAUSE: Duration = Duration::from_millis(1);

/// Measures those of the bars that are wanted.
pub(crate) fn measure(options: &Options, wanted: &[Bar], report: &mut Report) {
    let rig = Rig::new(options.dir.path(), options.bytes);
    if wanted.contains(&Bar::C6) {
        for asked in RATES {
            let how = durable(u64::from(asked) << 20);
            let rate = || mib(rig.bytes) / rig.run(how, None).took.as_secs_f64();
            let pairs = pairs(options.pairs, rate, || f64::from(asked));
            let beside = format!("{asked} MiB/s asked for");
            let enough = Threshold::Within(0.93, 1.02);
            report.row(Row::of_pairs(Bar::C6, beside, "MiB/s", &pairs, enough));
        }
    }
    if let Some(why) = peers::missing("rsync") {
        for bar in [Bar::C7, Bar::C8].iter().filter(|bar| wanted.contains(bar)) {
            report.skip(*bar, &why);
        }
        return;
    }
    let disk = options.dir.path().join("producer");
    let moving = |rate| {
        let foreground = Arc::new(Foreground::default());
        commits_during(&disk, &foreground, || {
            rig.run(durable(rate), Some(&foreground));
        })
    };
    let syncing = || {
        commits_during(&disk, &Arc::default(), || {
            rsync(&rig, "-a --fsync", None);
        })
    };
    if wanted.contains(&Bar::C7) {
        let p99 = |commits: Vec<f64>| percentile(&commits, 0.99);
        let pairs = pairs(options.pairs, || p99(moving(DEFAULT_RATE)), || p99(syncing()));
        let beside = "p99 of commits, 200 MiB/s and rsync -a --fsync";
        report.row(Row::of_pairs(Bar::C7, beside, "ms", &pairs, Threshold::AtMost(0.5)));
    }
    if wanted.contains(&Bar::C8) {
        let longest = |commits: Vec<f64>| percentile(&commits, 1.0);
        let pairs = pairs(options.pairs, || longest(moving(0)), || longest(syncing()));
        let beside = "longest commit, no throttle and rsync -a --fsync";
        report.row(Row::of_pairs(Bar::C8, beside, "ms", &pairs, Threshold::AtMost(3.0)));
    }
}

const fn durable(rate: u64) -> How<'static> {
    How { congestion: Some(CONGESTION), is_durable: true, rate, tls: None }
}

/// Runs both sides in turn; the first pair warms up.
fn pairs(count: u32, ours: impl Fn() -> f64, theirs: impl Fn() -> f64) -> Vec<(f64, f64)> {
    let pairs: Vec<(f64, f64)> = (0..=count).map(|_| (ours(), theirs())).collect();
    pairs[1..].to_vec()
}

/// Does some work, and returns how long the commits of a producer on the same disk took meanwhile, in
/// milliseconds.
fn commits_during(disk: &Path, foreground: &Arc<Foreground>, work: impl FnOnce()) -> Vec<f64> {
    let _ = std::fs::remove_dir_all(disk);
    let disk = Arc::new(RealDisk::new(disk).expect("a disk"));
    SegmentLog::create(&*disk, Path::new("log"), Offset(0)).expect("a disk");
    let log = SegmentLog::open(disk, Path::new("log"), LogLimits::default()).expect("a log");
    let record = Record { value: Noise(5).bytes(RECORD).into(), ..Record::default() };
    let (is_working, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let mut commits = Vec::new();
            while !is_over.load(Ordering::Acquire) {
                let counts = is_working.load(Ordering::Acquire);
                let begin = Instant::now();
                let append = || log.append(std::slice::from_ref(&record), Epoch(1));
                foreground.time(append).expect("a disk");
                if counts {
                    commits.push(begin.elapsed().as_secs_f64() * 1000.0);
                }
                thread::sleep(PAUSE);
            }
            commits
        });
        // It gets used to the idle disk.
        thread::sleep(Duration::from_millis(300));
        is_working.store(true, Ordering::Release);
        work();
        is_over.store(true, Ordering::Release);
        producer.join().expect("a disk")
    })
}
