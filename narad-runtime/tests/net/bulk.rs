//! Bulk copies between two nodes.

mod files;
mod pace;
mod refusals;
#[cfg(feature = "cli")]
mod secret;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use narad_core::ids::{NodeId, Offset, PartitionId, TopicId};
use narad_runtime::net::{Bulk, Directory};
use narad_runtime::tls::Tls;
use narad_runtime::transfer::{
    CancelFlag, Client, CopyReport, CopyRequest, Server, Settings, Sink, Source, SourceError,
    Throttle, TransferError,
};
use tokio::runtime::Runtime;

use crate::support::{Node, World, identity};

const SOURCE: NodeId = NodeId(1);
const DESTINATION: NodeId = NodeId(2);

/// Where a source reads next after its first read of an extent.
const SECOND_PIECE: u64 = 256 << 10;

/// What may go wrong in a read, called with partition and position before it.
type Hook = Box<dyn Fn(PartitionId, u64) -> Result<(), SourceError> + Send + Sync>;

/// Extents in memory.
struct Memory {
    extents: HashMap<(PartitionId, Offset), Vec<u8>>,
    before: Hook,
    /// Bytes that were read.
    read: AtomicU64,
}

impl Source for Memory {
    fn read_at(
        &self,
        partition: PartitionId,
        base: Offset,
        position: u64,
        buffer: &mut [u8],
    ) -> Result<usize, SourceError> {
        (self.before)(partition, position)?;
        let extent = self.extents.get(&(partition, base)).ok_or(SourceError::Gone)?;
        let position = usize::try_from(position).unwrap();
        let rest = extent.get(position..).ok_or(SourceError::OutOfRange)?;
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn partition(index: u32) -> PartitionId {
    PartitionId { topic: TopicId(1), index }
}

fn whole(index: u32, bytes: u64) -> CopyRequest {
    CopyRequest { partition: partition(index), base: Offset(0), position: 0, bytes }
}

/// Bytes that differ everywhere, the same in every run.
fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut out = vec![0; bytes.next_multiple_of(8)];
    for word in out.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}

/// Collects what arrives, and shows it to the test while the copy runs.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<u8>>>);

impl Sink for Collected {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }
}

impl Collected {
    fn bytes(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn is(&self, expected: &[u8]) -> bool {
        *self.0.lock().unwrap() == expected
    }
}

/// A source and a destination.
struct Setup {
    world: Arc<World>,
    runtime: Runtime,
    source: Option<Node>,
    server: Arc<Server>,
    memory: Arc<Memory>,
    client: Arc<Client>,
    /// The source's certificate.
    tls: Option<Tls>,
}

#[derive(Default)]
struct Options {
    extents: Vec<Vec<u8>>,
    before: Option<Hook>,
    /// Another source than the extents in memory.
    source: Option<Arc<dyn Source>>,
    server: Settings,
    client: Settings,
    source_throttle: Option<Arc<Throttle>>,
    destination_throttle: Option<Arc<Throttle>>,
}

fn unlimited() -> Arc<Throttle> {
    Arc::new(Throttle::on_real_time(0))
}

impl Setup {
    /// Partition `i` has one extent, the `i`th.
    fn new(options: Options) -> Self {
        let extents = options.extents.into_iter().zip(0..);
        let memory = Arc::new(Memory {
            extents: extents.map(|(bytes, i)| ((partition(i), Offset(0)), bytes)).collect(),
            before: options.before.unwrap_or_else(|| Box::new(|_, _| Ok(()))),
            read: AtomicU64::new(0),
        });
        let throttle = options.source_throttle.unwrap_or_else(unlimited);
        let source = options.source.unwrap_or_else(|| Arc::clone(&memory) as _);
        let server = Arc::new(Server::new(source, throttle, options.server.clone()));
        let runtime = Runtime::new().unwrap();
        let world = Arc::new(World::default());
        let directory: Arc<dyn Directory> = Arc::clone(&world) as _;
        let throttle = options.destination_throttle.unwrap_or_else(unlimited);
        let tls = options.server.tls.clone();
        let client = Client::new(identity(DESTINATION), directory, throttle, options.client);
        let mut setup =
            Self { world, runtime, source: None, server, memory, client: Arc::new(client), tls };
        setup.start();
        setup
    }

    /// Starts the source's transport, at a new address.
    fn start(&mut self) {
        let bulk: Arc<dyn Bulk> = Arc::clone(&self.server) as _;
        let tls = self.tls.clone();
        let settings = narad_runtime::net::Settings { tls, ..Default::default() };
        let node = Node::start_with(&self.world, SOURCE.0, settings, Some(bulk));
        self.source = Some(self.runtime.block_on(node));
    }

    fn copy(&self, request: CopyRequest, sink: &Collected) -> Result<CopyReport, TransferError> {
        self.client.copy(SOURCE, &request, &mut sink.clone(), &CancelFlag::default())
    }

    /// Copies on another thread.
    fn copying(
        &self,
        request: CopyRequest,
        sink: &Collected,
        cancel: &CancelFlag,
    ) -> thread::JoinHandle<Result<CopyReport, TransferError>> {
        let client = Arc::clone(&self.client);
        let (mut sink, cancel) = (sink.clone(), cancel.clone());
        thread::spawn(move || client.copy(SOURCE, &request, &mut sink, &cancel))
    }
}

fn eventually(what: &str, fact: impl Fn() -> bool) {
    let begin = Instant::now();
    while !fact() {
        assert!(begin.elapsed() < Duration::from_secs(20), "not in time: {what}");
        thread::yield_now();
    }
}

/// Two streams of 8 MiB ranges carry 200 MiB, and every byte is where it was.
#[test]
fn two_hundred_mebibytes_arrive_as_they_were() {
    const HALF: usize = 100 << 20;
    const RANGE: u64 = 8 << 20;
    let extents = vec![random(1, HALF), random(2, HALF)];
    let setup = Setup::new(Options { extents, ..Options::default() });
    thread::scope(|scope| {
        for index in 0..2 {
            let setup = &setup;
            scope.spawn(move || {
                let sink = Collected::default();
                while sink.bytes() < HALF as u64 {
                    let request = CopyRequest { position: sink.bytes(), ..whole(index, RANGE) };
                    let report = setup.copy(request, &sink).expect("copied");
                    assert!(report.bytes > 0);
                }
                assert!(sink.is(&setup.memory.extents[&(partition(index), Offset(0))]));
            });
        }
    });
    assert!(setup.server.connections() <= 2, "ranges share connections");
}

/// R61, C46: what arrived before a break stays, and is not sent again.
#[test]
fn r61_a_copy_goes_on_where_it_broke() {
    const BYTES: usize = 4 << 20;
    let bytes = random(3, BYTES);
    let broken = AtomicU64::new(0);
    let setup = Setup::new(Options {
        extents: vec![bytes.clone()],
        // The disk fails once in each of two places, after the bytes had been promised.
        before: Some(Box::new(move |_, position| {
            let due = [1 << 20, 3 << 20];
            let times = broken.load(Ordering::Relaxed);
            let next = due.get(usize::try_from(times).unwrap());
            if next == Some(&position) {
                broken.fetch_add(1, Ordering::Relaxed);
                return Err(SourceError::Disk);
            }
            Ok(())
        })),
        ..Options::default()
    });
    let sink = Collected::default();
    let mut breaks = 0;
    while sink.bytes() < BYTES as u64 {
        let position = sink.bytes();
        let left = BYTES as u64 - position;
        match setup.copy(CopyRequest { position, ..whole(0, left) }, &sink) {
            Ok(report) => assert_eq!(report.bytes, left),
            Err(error @ TransferError::Reset { .. }) => {
                assert_eq!(position + error.received(), sink.bytes());
                breaks += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(breaks, 2);
    assert!(sink.is(&bytes));
    let read = setup.memory.read.load(Ordering::Relaxed);
    assert!(read < BYTES as u64 + SECOND_PIECE, "{read} bytes were read for {BYTES}");
}

/// R61: a source that restarts in between is found at its new address; the connection that was
/// kept to its earlier life is not held against it.
#[test]
fn r61_a_restarted_source_is_asked_over_a_new_connection() {
    let bytes = random(4, 100_000);
    let mut setup = Setup::new(Options { extents: vec![bytes.clone()], ..Options::default() });
    let sink = Collected::default();
    setup.copy(whole(0, 50_000), &sink).expect("copied");
    setup.server.stop();
    setup.runtime.block_on(setup.source.take().unwrap().transport.shutdown());
    let gone = setup.copy(CopyRequest { position: 50_000, ..whole(0, 50_000) }, &sink);
    assert!(matches!(gone, Err(TransferError::Unreachable { .. })), "{gone:?}");
    setup.server =
        Arc::new(Server::new(Arc::clone(&setup.memory) as _, unlimited(), Settings::default()));
    setup.start();
    setup.copy(CopyRequest { position: 50_000, ..whole(0, 50_000) }, &sink).expect("copied");
    assert!(sink.is(&bytes));
}

/// Two copies from one source run at once: neither can finish its read before the other begins.
#[test]
fn two_copies_run_at_once() {
    let both = Barrier::new(2);
    let setup = Setup::new(Options {
        extents: vec![random(10, 1000), random(11, 1000)],
        before: Some(Box::new(move |_, _| {
            both.wait();
            Ok(())
        })),
        ..Options::default()
    });
    let sinks = [Collected::default(), Collected::default()];
    let cancel = CancelFlag::default();
    let copies = [0, 1].map(|i| setup.copying(whole(i, 1000), &sinks[i as usize], &cancel));
    for (copy, i) in copies.into_iter().zip(0..) {
        assert_eq!(copy.join().unwrap().expect("copied").bytes, 1000);
        assert!(sinks[i as usize].is(&setup.memory.extents[&(partition(i), Offset(0))]));
    }
}
