//! Copies whose bytes the system sends from a file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use narad_core::ids::{Offset, PartitionId};
use narad_runtime::disk::{Disk, DiskFile, Open, RealDisk};
use narad_runtime::transfer::{
    CancelFlag, CopyRequest, ExtentFile, Source, SourceError, Throttle, TransferError,
};

use super::{Collected, Options, Setup, eventually, random, whole};

const NAME: &str = "extent";

/// One extent in a file, of which so much is durable.
struct InFile {
    file: Arc<dyn DiskFile>,
    durable_bytes: u64,
    refusal: Option<SourceError>,
    /// How often bytes were read rather than sent.
    reads: AtomicU64,
}

impl Source for InFile {
    fn read_at(
        &self,
        _: PartitionId,
        _: Offset,
        position: u64,
        buffer: &mut [u8],
    ) -> Result<usize, SourceError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.file.read_at(position, buffer).map_err(|_| SourceError::Disk)
    }

    fn open(
        &self,
        _: PartitionId,
        _: Offset,
        position: u64,
    ) -> Result<Option<ExtentFile>, SourceError> {
        match self.refusal {
            Some(refusal) => Err(refusal),
            None if position > self.durable_bytes => Err(SourceError::OutOfRange),
            None => {
                let (file, durable_bytes) = (Arc::clone(&self.file), self.durable_bytes);
                Ok(Some(ExtentFile { file, durable_bytes }))
            }
        }
    }
}

struct World {
    dir: tempfile::TempDir,
    source: Arc<InFile>,
    setup: Setup,
}

impl World {
    fn new(
        bytes: &[u8],
        durable_bytes: u64,
        throttle: Option<Arc<Throttle>>,
        refusal: Option<SourceError>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(dir.path()).unwrap();
        let file = disk.open(Path::new(NAME), Open::Create).unwrap();
        file.write_at(0, bytes).unwrap();
        let source = InFile { file, durable_bytes, refusal, reads: AtomicU64::new(0) };
        let source = Arc::new(source);
        let setup = Setup::new(Options {
            source: Some(Arc::clone(&source) as _),
            source_throttle: throttle,
            ..Options::default()
        });
        Self { dir, source, setup }
    }
}

/// A throttle that lets one piece of 1 MiB pass at the beginning, and nothing more.
fn standing_still() -> Arc<Throttle> {
    Arc::new(Throttle::new(|| Duration::ZERO, 20 << 20))
}

/// Every byte arrives, and on Linux nobody has read one to send it.
#[test]
fn a_file_is_sent_as_it_is() {
    const BYTES: usize = (9 << 20) + 12_345;
    let bytes = random(21, BYTES);
    let world = World::new(&bytes, BYTES as u64, None, None);
    let sink = Collected::default();
    for (position, length) in [(0, 1), (1, 8 << 20), (1 + (8 << 20), u64::MAX)] {
        let request = CopyRequest { position, ..whole(0, length) };
        let report = world.setup.copy(request, &sink).expect("copied");
        assert_eq!(report.bytes, length.min(BYTES as u64 - position));
    }
    assert!(sink.is(&bytes));
    let reads = world.source.reads.load(Ordering::Relaxed);
    assert_eq!(reads == 0, cfg!(target_os = "linux"), "{reads} reads");
}

/// H16: what is in the file and not durable stays there.
#[test]
fn h16_only_durable_bytes_of_a_file_are_sent() {
    let bytes = random(22, 300_000);
    let world = World::new(&bytes, 200_000, None, None);
    let sink = Collected::default();
    let report = world.setup.copy(whole(0, 300_000), &sink).expect("copied");
    assert_eq!(report.bytes, 200_000);
    assert!(sink.is(&bytes[..200_000]));
    for position in [200_000, 200_001, u64::MAX] {
        let beyond = world.setup.copy(CopyRequest { position, ..whole(0, 1) }, &sink);
        let out = matches!(beyond, Err(TransferError::Source(SourceError::OutOfRange)));
        assert!(out, "{position}: {beyond:?}");
    }
}

/// C40: why a file is not there reaches the destination, and the connection goes on.
#[test]
fn c40_a_file_that_is_not_there_says_why() {
    for refusal in [SourceError::Gone, SourceError::NotServing, SourceError::Disk] {
        let world = World::new(&[], 0, None, Some(refusal));
        for _ in 0..2 {
            let copied = world.setup.copy(whole(0, 10), &Collected::default());
            let Err(TransferError::Source(error)) = copied else { panic!("{copied:?}") };
            assert_eq!(error, refusal);
        }
        assert_eq!(world.setup.server.connections(), 1);
    }
}

/// A file that is shorter than its log says promises nothing.
#[test]
fn a_file_that_was_cut_is_refused_before_a_byte_is_promised() {
    let bytes = random(23, 1000);
    let world = World::new(&bytes, 2000, None, None);
    let sink = Collected::default();
    let copied = world.setup.copy(whole(0, 2000), &sink);
    let out = matches!(copied, Err(TransferError::Source(SourceError::OutOfRange)));
    assert!(out && sink.bytes() == 0, "{copied:?}");
}

/// A file that is cut while it is sent ends the connection; what arrived stays valid.
#[test]
fn a_file_that_is_cut_while_it_is_sent_ends_the_connection() {
    let bytes = random(24, 8 << 20);
    let throttle = standing_still();
    let world = World::new(&bytes, 8 << 20, Some(Arc::clone(&throttle)), None);
    let (sink, cancel) = (Collected::default(), CancelFlag::default());
    let copying = world.setup.copying(whole(0, 8 << 20), &sink, &cancel);
    eventually("the first piece has arrived", || sink.bytes() == 1 << 20);
    world.source.file.set_len(2 << 20).unwrap();
    throttle.set_rate(0);
    let copied = copying.join().unwrap();
    assert!(matches!(copied, Err(TransferError::Reset { received: 0x20_0000 })), "{copied:?}");
    assert!(sink.is(&bytes[..2 << 20]));
}

/// C40: retention may take the name of a file that is being sent; the copy has it open.
#[test]
fn c40_a_file_that_retention_removes_while_it_is_sent_arrives() {
    let bytes = random(25, 8 << 20);
    let throttle = standing_still();
    let world = World::new(&bytes, 8 << 20, Some(Arc::clone(&throttle)), None);
    let (sink, cancel) = (Collected::default(), CancelFlag::default());
    let copying = world.setup.copying(whole(0, 8 << 20), &sink, &cancel);
    eventually("the first piece has arrived", || sink.bytes() == 1 << 20);
    std::fs::remove_file(world.dir.path().join(NAME)).unwrap();
    throttle.set_rate(0);
    assert_eq!(copying.join().unwrap().expect("copied").bytes, 8 << 20);
    assert!(sink.is(&bytes));
}

/// X169: a copy that the source's throttle holds up can be cancelled, and a source that is stopped in
/// the midst of a file is rid of it.
#[test]
fn case_169_a_copy_from_a_file_can_be_ended_from_both_sides() {
    let bytes = random(26, 8 << 20);
    let world = World::new(&bytes, 8 << 20, Some(standing_still()), None);
    let (sink, cancel) = (Collected::default(), CancelFlag::default());
    let copying = world.setup.copying(whole(0, 8 << 20), &sink, &cancel);
    eventually("the first piece has arrived", || sink.bytes() == 1 << 20);
    cancel.cancel();
    let cancelled = copying.join().unwrap();
    assert!(
        matches!(cancelled, Err(TransferError::Cancelled { received: 0x10_0000 })),
        "{cancelled:?}"
    );
    world.setup.server.stop();
    assert_eq!(world.setup.server.connections(), 0);
}
