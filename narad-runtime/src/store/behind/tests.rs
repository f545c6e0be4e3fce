//! Syncs behind writers, over a disk whose syncs wait or fail when they are told to.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use narad_core::ids::{Attempt, Offset, PartitionId, TopicId};
use narad_core::partition::{Manifest, Sidecar, Staged};

use super::*;
use crate::disk::{Disk, Entry, MemDisk, Metadata, Open};
use crate::log::LogLimits;
use crate::log::frame::file_header;
use crate::log::side::segment_path;
use crate::store::{PartitionStore, SegmentStore, StoreError, layout};

const P: PartitionId = PartitionId { topic: TopicId(1), index: 0 };
const BASE: Offset = Offset(5);

/// A disk in memory that is synced behind its writers.
#[derive(Debug, Default)]
struct Behind {
    disk: MemDisk,
    told: Arc<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// Syncs of files wait as long as this is set.
    waits: AtomicBool,
    /// They fail as long as this is.
    fails: AtomicBool,
    /// No space is left for what is to come.
    is_full: AtomicBool,
    syncs: AtomicU64,
    /// Bytes whose memory was given up.
    evicted: AtomicU64,
}

impl Disk for Behind {
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn DiskFile>, DiskError> {
        let file = self.disk.open(path, mode)?;
        let is_segment = path.extension().is_some_and(|it| it == "seg");
        if !is_segment {
            return Ok(file);
        }
        Ok(Arc::new(BehindFile { file, path: path.into(), told: Arc::clone(&self.told) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.disk.sync_dir(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>, DiskError> {
        self.disk.list(path)
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        self.disk.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.disk.remove_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        self.disk.create_dir_all(path)
    }

    fn metadata(&self, path: &Path) -> Result<Option<Metadata>, DiskError> {
        self.disk.metadata(path)
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.disk.free_bytes()
    }

    fn syncs_behind(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct BehindFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    told: Arc<Told>,
}

impl DiskFile for BehindFile {
    fn read_at(&self, position: u64, buf: &mut [u8]) -> Result<usize, DiskError> {
        self.file.read_at(position, buf)
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.write_at(position, bytes)
    }

    fn set_len(&self, length: u64) -> Result<(), DiskError> {
        self.file.set_len(length)
    }

    fn length(&self) -> Result<u64, DiskError> {
        self.file.length()
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.told.syncs.fetch_add(1, Ordering::AcqRel);
        while self.told.waits.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        if self.told.fails.load(Ordering::Acquire) {
            return Err(DiskError::new("sync", &self.path, io::Error::other("told to fail")));
        }
        self.file.sync()
    }

    fn reserve(&self, _: u64, _: u64) -> Result<(), DiskError> {
        if self.told.is_full.load(Ordering::Acquire) {
            let full = io::Error::from(io::ErrorKind::StorageFull);
            return Err(DiskError::new("set space aside for", &self.path, full));
        }
        Ok(())
    }

    fn evict(&self, _: u64, length: u64) {
        self.told.evicted.fetch_add(length, Ordering::AcqRel);
    }
}

fn store() -> (Arc<Behind>, SegmentStore) {
    let disk = Arc::new(Behind::default());
    let store = SegmentStore::new(Arc::clone(&disk) as _, LogLimits::default()).unwrap();
    (disk, store)
}

/// So much that a sync is begun behind the writer.
fn step() -> Vec<u8> {
    let mut bytes = file_header(BASE).to_vec();
    bytes.resize(usize::try_from(STEP_BYTES).unwrap(), 7);
    bytes
}

fn eventually(what: &str, fact: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !fact() {
        assert!(begin.elapsed() < Duration::from_secs(20), "not in time: {what}");
        std::thread::yield_now();
    }
}

fn manifest(extents: Vec<Staged>) -> Manifest {
    use narad_core::ids::{Epoch, Incarnation, LogGeneration, MoveId, NodeId};
    Manifest {
        partition: P,
        move_id: MoveId(1),
        source: NodeId(1),
        source_incarnation: Incarnation(1),
        generation: LogGeneration(1),
        epoch: Epoch(1),
        start: Offset(0),
        hwm: Offset(0),
        position: narad_core::partition::Position::default(),
        extents,
        attempt: None,
    }
}

/// What was synced behind the writer is not synced again, and the rest is.
#[test]
fn a_checkpoint_syncs_what_was_not_synced_behind_the_writer() {
    let (disk, store) = store();
    let mut writer = store.stage_writer(P, BASE, 0).unwrap();
    writer.write(&step()).unwrap();
    let staged = writer.finish();
    eventually("a sync behind the writer", || disk.told.syncs.load(Ordering::Acquire) == 1);
    store.checkpoint(&manifest(vec![staged])).unwrap();
    assert_eq!(disk.told.syncs.load(Ordering::Acquire), 1);

    let more = store.stage_at(P, BASE, STEP_BYTES, b"more").unwrap();
    store.checkpoint(&manifest(vec![more])).unwrap();
    assert_eq!(disk.told.syncs.load(Ordering::Acquire), 2);
    disk.disk.crash(crate::disk::mem::Keep::Nothing);
    let found = SegmentStore::new(Arc::clone(&disk) as _, LogLimits::default()).unwrap();
    assert_eq!(found.staged(P).unwrap(), [more]);
}

/// A writer does not run away from a disk that is slower than what comes.
#[test]
fn a_writer_waits_when_it_is_too_far_ahead() {
    let disk = Behind::default();
    let file = disk.open(Path::new("0.seg"), Open::Create).unwrap();
    let (written, syncer) = (Written::new(file, 0), Syncer::default());
    disk.told.waits.store(true, Ordering::Release);
    let steps = AtomicU64::new(0);
    let most = AHEAD_BYTES_MAX / STEP_BYTES;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in 1..=3 * most {
                written.grown(step * STEP_BYTES, Some(&syncer)).unwrap();
                steps.fetch_add(1, Ordering::AcqRel);
            }
        });
        let noted = || lock(&written.progress).bytes / STEP_BYTES;
        eventually("the writer is as far ahead as it may be", || noted() == most + 1);
        // The step that went too far has not returned.
        assert_eq!((steps.load(Ordering::Acquire), noted()), (most, most + 1));
        disk.told.waits.store(false, Ordering::Release);
    });
    assert_eq!(steps.load(Ordering::Acquire), 3 * most);
}

/// While a checkpoint syncs, others begin and end writing: nobody waits for its sync.
#[test]
fn nobody_waits_for_the_sync_of_a_checkpoint() {
    let (disk, store) = store();
    let staged = store.stage_at(P, BASE, 0, b"some bytes").unwrap();
    disk.told.waits.store(true, Ordering::Release);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| store.checkpoint(&manifest(vec![staged])));
        eventually("the sync is under way", || disk.told.syncs.load(Ordering::Acquire) == 1);
        let more = store.stage_at(P, BASE, staged.bytes.0, b", and more").unwrap();
        store.stage_at(P, Offset(9), 0, b"others").unwrap();
        assert_eq!(store.staged(P).unwrap().len(), 2);
        disk.told.waits.store(false, Ordering::Release);
        checkpoint.join().unwrap().unwrap();
        // What came meanwhile is not covered by that sync.
        store.checkpoint(&manifest(vec![more])).unwrap();
        assert_eq!(disk.told.syncs.load(Ordering::Acquire), 2);
    });
}

/// H17: a sync that fails behind the writer is told to the writer, is not tried again, and takes the
/// extent with it; it is copied again into a file of its own.
#[test]
fn h17_a_failure_behind_the_writer_discards_the_extent() {
    let (disk, store) = store();
    disk.told.fails.store(true, Ordering::Release);
    let mut writer = store.stage_writer(P, BASE, 0).unwrap();
    let begin = std::time::Instant::now();
    let lost = loop {
        match writer.write(&step()) {
            Ok(()) => assert!(begin.elapsed() < Duration::from_secs(20)),
            Err(error) => break error,
        }
    };
    assert!(matches!(lost, StoreError::Lost { base: BASE, .. }), "{lost}");
    let staged = writer.finish();
    let syncs = disk.told.syncs.load(Ordering::Acquire);
    disk.told.fails.store(false, Ordering::Release);
    // The disk would say that all is well now.
    let again = store.checkpoint(&manifest(vec![staged]));
    assert!(matches!(again, Err(StoreError::Lost { base: BASE, .. })), "{again:?}");
    assert_eq!(disk.told.syncs.load(Ordering::Acquire), syncs, "it is not tried again");
    assert!(store.staged(P).unwrap().is_empty());
    let staged = store.stage_at(P, BASE, 0, b"once more").unwrap();
    store.checkpoint(&manifest(vec![staged])).unwrap();
}

/// H17: the same if nobody has asked before the next writer comes.
#[test]
fn h17_the_next_writer_hears_of_a_failure_and_begins_anew() {
    let (disk, store) = store();
    disk.told.fails.store(true, Ordering::Release);
    let mut writer = store.stage_writer(P, BASE, 0).unwrap();
    // The failure may come at once, or after this.
    let _ = writer.write(&step());
    let staged = writer.finish();
    let position = staged.bytes.0;
    eventually("a sync behind the writer", || disk.told.syncs.load(Ordering::Acquire) == 1);
    let begin = std::time::Instant::now();
    let lost = loop {
        // It is known to have failed a moment after it began.
        match store.stage_writer(P, BASE, position) {
            Ok(writer) => drop(writer),
            Err(error) => break error,
        }
        assert!(begin.elapsed() < Duration::from_secs(20));
    };
    assert!(matches!(lost, StoreError::Lost { base: BASE, .. }), "{lost}");
    disk.told.fails.store(false, Ordering::Release);
    assert!(store.staged(P).unwrap().is_empty());
    store.stage_at(P, BASE, 0, b"once more").unwrap();
}

/// Installs a copy that begins where its only extent does.
fn install(store: &SegmentStore, staged: Staged) -> Result<Attempt, StoreError> {
    let manifest = Manifest { start: BASE, ..manifest(vec![staged]) };
    let attempt = Attempt::birth(manifest.source);
    let position = manifest.position.clone();
    let sidecar = Sidecar { start: BASE, hwm: BASE, position };
    store.install(attempt, &sidecar, &manifest).map(|()| attempt)
}

/// H17: an installation whose sync fails discards the extent and whatever was made ready with it,
/// and does not sync it again.
#[test]
fn h17_an_installation_hears_of_its_failed_sync_and_does_not_try_again() {
    let (disk, store) = store();
    let staged = store.stage_at(P, BASE, 0, &file_header(BASE)).unwrap();
    store.probe(P, 0).unwrap();
    disk.told.fails.store(true, Ordering::Release);
    let lost = install(&store, staged);
    assert!(matches!(lost, Err(StoreError::Lost { base: BASE, .. })), "{lost:?}");
    disk.told.fails.store(false, Ordering::Release);
    let again = install(&store, staged);
    assert!(matches!(again, Err(StoreError::NotStaged { base: BASE })), "{again:?}");
    assert_eq!(disk.told.syncs.load(Ordering::Acquire), 1, "it is not tried again");
    let staged = store.stage_at(P, BASE, 0, &file_header(BASE)).unwrap();
    let attempt = install(&store, staged).unwrap();
    disk.disk.crash(crate::disk::mem::Keep::Nothing);
    let found = SegmentStore::new(Arc::clone(&disk) as _, LogLimits::default()).unwrap();
    assert_eq!(found.open(P, attempt).unwrap().bounds().end, BASE);
}

/// H17: a failure behind the writer of a copy whose end is torn is not lost with that end, which
/// another handle cuts.
#[test]
fn h17_a_torn_end_does_not_hide_a_failure_behind_the_writer() {
    let (disk, store) = store();
    disk.told.fails.store(true, Ordering::Release);
    let mut writer = store.stage_writer(P, BASE, 0).unwrap();
    // The failure may come at once, or after this.
    let _ = writer.write(&step());
    let staged = writer.finish();
    let lost = install(&store, staged);
    assert!(matches!(lost, Err(StoreError::Lost { base: BASE, .. })), "{lost:?}");
    assert_eq!(disk.told.syncs.load(Ordering::Acquire), 1, "it is not tried again");
    assert!(store.staged(P).unwrap().is_empty());
}

/// H17: bytes that were cut off do not come back, though all that counts has been durable for long.
#[test]
fn h17_a_cut_is_durable_before_anybody_relies_on_it() {
    let (disk, store) = store();
    let staged = store.stage_at(P, BASE, 0, b"some bytes").unwrap();
    store.checkpoint(&manifest(vec![staged])).unwrap();
    let path = segment_path(&layout::staging_dir(P), BASE);
    let file = disk.disk.open(&path, Open::Existing).unwrap();
    file.write_at(staged.bytes.0, b", and of a write that nobody saw end").unwrap();
    file.sync().unwrap();
    drop(store.stage_writer(P, BASE, staged.bytes.0).unwrap());
    store.checkpoint(&manifest(vec![staged])).unwrap();
    disk.disk.crash(crate::disk::mem::Keep::Nothing);
    let left = disk.disk.metadata(&path).unwrap().map(|found| found.bytes);
    assert_eq!(left, Some(staged.bytes.0));
}

/// H20: a disk without space says so before a byte has come, and nothing has changed.
#[test]
fn h20_a_full_disk_shows_before_the_bytes_come() {
    let (disk, store) = store();
    let staged = store.stage_at(P, BASE, 0, b"some bytes").unwrap();
    disk.told.is_full.store(true, Ordering::Release);
    let mut writer = store.stage_writer(P, BASE, staged.bytes.0).unwrap();
    let refused = writer.reserve(100).unwrap_err();
    assert!(refused.is_full(), "{refused}");
    assert_eq!(writer.finish(), staged);
    disk.told.is_full.store(false, Ordering::Release);
    store.stage_at(P, BASE, staged.bytes.0, b"more").unwrap();
}

/// The memory of what is durable goes to others, but for the extent that will be read first.
#[test]
fn what_is_durable_gives_its_memory_up_but_for_the_last_extent() {
    let (disk, store) = store();
    let first = store.stage_at(P, BASE, 0, b"the first").unwrap();
    let last = store.stage_at(P, Offset(9), 0, b"the last").unwrap();
    store.checkpoint(&manifest(vec![first, last])).unwrap();
    assert_eq!(disk.told.evicted.load(Ordering::Acquire), first.bytes.0);
}
