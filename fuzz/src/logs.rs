//! What must hold for any log that has opened, whatever its files were.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use narad_core::ids::{Epoch, Incarnation, Offset};
use narad_runtime::disk::{Disk, DiskError, MemDisk, Open};
use narad_runtime::log::{LogError, LogLimits, Record, SegmentLog};
use narad_runtime::store::PartitionLog;

/// A few records fill a segment.
pub const LIMITS: LogLimits = LogLimits { segment_bytes: 400, record_bytes_max: 1 << 16 };

/// Writes a file, durably, in a directory that is made if it is missing.
///
/// # Errors
///
/// If the disk refuses the path.
pub fn put(disk: &MemDisk, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let dir = path.parent().unwrap_or(Path::new(""));
    disk.create_dir_all(dir)?;
    let file = disk.open(path, Open::Create)?;
    file.set_len(0)?;
    file.write_at(0, bytes)?;
    file.sync()?;
    disk.sync_dir(dir)
}

/// The path of a segment.
pub fn segment(dir: &Path, base: u64) -> PathBuf {
    dir.join(format!("{base:020}.seg"))
}

/// Opens the log in a directory, uses it as its owner would, and opens it once more.
///
/// # Panics
///
/// If the log does not keep what a log promises.
pub fn survives(disk: &MemDisk, dir: &Path) {
    let open = || {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        SegmentLog::open(disk, dir, LIMITS)
    };
    let log = match open() {
        Ok(log) => log,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let found = log.bounds();
    assert!(found.start <= found.hwm && found.hwm <= found.end, "{found:?}");
    let listing = log.listing(Incarnation(1), Epoch(1), &[]).expect("nothing to compare");
    assert_eq!((listing.start, listing.end, listing.hwm), (found.start, found.end, found.hwm));
    assert!(listing.extents.is_sorted_by(|a, b| a.end <= b.base), "{listing:?}");
    walk(&log);

    let epoch = Epoch(found.epoch.0.saturating_add(1));
    let record = Record { value: "one more".into(), ..Record::default() };
    let Ok(done) = log.append(std::slice::from_ref(&record), epoch) else { return };
    assert_eq!(done.first, found.end, "an offset is given once");
    log.expose(done.end).expect("it is durable");
    let read = log.read(done.first, 1 << 20).expect("it was just written");
    assert_eq!(read, [(done.first, record)]);
    log.close().expect("memory");

    let again = open().expect("what this build wrote it can read");
    assert_eq!(again.recovery().cut_bytes, 0, "nothing durable is cut");
    assert_eq!((again.bounds().start, again.bounds().end), (found.start, done.end));
}

/// Reads from the start to the end, around what is damaged: always further, never the same twice.
fn walk(log: &dyn PartitionLog) {
    let bounds = log.bounds();
    let mut next = bounds.start;
    while next < bounds.end {
        match log.read_durable(next, 64) {
            Ok(records) => {
                assert!(records.is_sorted_by(|a, b| a.0 < b.0), "offsets ascend");
                let (first, last) = match &records[..] {
                    [] => panic!("there is a record or damage at {next:?}"),
                    [first, .., last] => (first.0, last.0),
                    [only] => (only.0, only.0),
                };
                assert!(first >= next && last < bounds.end);
                next = Offset(last.0 + 1);
            }
            Err(LogError::Damaged { resume, .. }) => {
                assert!(resume > next, "a reader gets on");
                next = resume;
            }
            Err(error) => panic!("a record below the end: {error}"),
        }
    }
}
