//! A source with one partition on its disk, and moves of it to nodes that have nothing yet: the real
//! mover, the real store, the real sockets. Only the replicated log is left out.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use narad_core::config::Config;
use narad_core::effects::{Effects, OpId};
use narad_core::freeze::gate::{Authority, Standing};
use narad_core::ids::{
    Attempt, Epoch, FreezeNo, Incarnation, MoveId, NodeId, Offset, PartitionId, StoreUuid, Token,
    TopicId,
};
use narad_core::metastore::{Applied, Assignment, Reply};
use narad_core::mover::{Effect, Event, Me, Mover, Operation, Outcome, Proposed};
use narad_core::node::{Staging, StagingOutcome};
use narad_core::partition::{Capture, Position, Recovered};
use narad_core::peer::Request;
use narad_core::time;
use narad_runtime::broker::{Broker, Standpoint};
use narad_runtime::copy::{CancelFlag, LiveBytes};
use narad_runtime::disk::{Disk, RealDisk};
use narad_runtime::foreground::Foreground;
use narad_runtime::log::{LogLimits, Record};
use narad_runtime::net::{Directory, Identity, Inbound, ReplySender, Seams, Transport};
use narad_runtime::storage::Storage;
use narad_runtime::store::{PartitionLog, PartitionStore, SegmentStore, log_dir};
use narad_runtime::tls::Tls;
use narad_runtime::transfer::{Client, Server, Settings, Throttle};
use narad_runtime::wire::handshake::ClusterId;
use tokio_util::sync::CancellationToken;

use super::cpu::cpu_seconds;
use super::volatile::Volatile;

const P: PartitionId = PartitionId { topic: TopicId(1), index: 0 };
const SOURCE: NodeId = NodeId(1);
const DESTINATION: NodeId = NodeId(2);
const LIFE: Incarnation = Incarnation(1);
const EPOCH: Epoch = Epoch(1);
/// Bytes of one record.
const RECORD: usize = 16 << 10;
/// Records of one append.
const BATCH: usize = 255;

/// The source, and where it keeps its partition.
pub(crate) struct Rig {
    root: PathBuf,
    broker: Arc<Broker>,
    log: Arc<dyn PartitionLog>,
    runtime: tokio::runtime::Runtime,
    /// Bytes of the partition's segments.
    pub(crate) bytes: u64,
}

/// What one move, or one run of another tool, took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) took: Duration,
    /// Of all processes that took part.
    pub(crate) cpu_seconds: f64,
}

/// How a partition is moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How<'a> {
    /// The congestion control of the source's listener; `None` is the system's.
    pub(crate) congestion: Option<&'a str>,
    /// Whether syncs do what they say.
    pub(crate) is_durable: bool,
    /// Bytes per second of both ends; 0 is unlimited.
    pub(crate) rate: u64,
    /// The certificates of source and destination.
    pub(crate) tls: Option<&'a [Tls; 2]>,
}

impl Rig {
    /// Writes a partition of about so many bytes, which differ everywhere.
    pub(crate) fn new(root: &Path, bytes: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("threads");
        let disk = RealDisk::new(root.join("source")).expect("a directory");
        let store = SegmentStore::new(Arc::new(disk), LogLimits::default()).expect("a disk");
        let data = Attempt::birth(SOURCE);
        store.create(P, data, Offset(0)).expect("a disk");
        let log = store.open(P, data).expect("it was created");
        let broker = Arc::new(Broker::new(Arc::new(Registered)));
        let slot = broker.seat(P).slot;
        slot.attach(Arc::clone(&log));
        slot.stand(Standing::Serving { epoch: EPOCH, life: LIFE, in_play: false });
        let mut noise = Noise(7);
        let listed = || {
            let listing = slot.list(LIFE, &[]).expect("it is open");
            listing.extents.iter().map(|extent| extent.bytes.0).sum::<u64>()
        };
        while listed() < bytes {
            let record = || Record { value: noise.bytes(RECORD).into(), ..Record::default() };
            let records: Vec<Record> = std::iter::repeat_with(record).take(BATCH).collect();
            slot.commit(&records, None).expect("a disk");
        }
        let bytes = listed();
        Self { root: root.to_owned(), broker, log, runtime, bytes }
    }

    /// Returns the directory with the partition's segments.
    pub(crate) fn segments(&self) -> PathBuf {
        self.root.join("source").join(log_dir(P, Attempt::birth(SOURCE)))
    }

    /// Returns the directory that a destination may use; empty, and nothing waits to be written.
    pub(crate) fn fresh(&self) -> PathBuf {
        let dir = self.root.join("destination");
        if dir.exists() {
            std::fs::remove_dir_all(&dir).expect("it is ours");
        }
        std::fs::create_dir_all(&dir).expect("a disk");
        rustix::fs::sync();
        dir
    }

    /// Moves the partition to a node that has nothing, from the first look at the row to the flip.
    /// Gives way to a foreground if there is one.
    pub(crate) fn run(&self, how: How<'_>, foreground: Option<&Arc<Foreground>>) -> Run {
        let dir = self.fresh();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir).expect("a disk"));
        let disk = if how.is_durable { disk } else { Arc::new(Volatile(disk)) };
        let store = Arc::new(SegmentStore::new(disk, LogLimits::default()).expect("a disk"));
        let storage = Arc::new(Storage::new(store, Arc::new(Broker::new(Arc::new(Registered)))));
        let (_served, address) = self.serve(how);
        let mut throttle = Throttle::on_real_time(how.rate);
        if let Some(foreground) = foreground {
            throttle = throttle.yielding_to(Arc::clone(foreground));
        }
        let client = Arc::new(Client::new(
            identity(DESTINATION),
            Arc::new(Place(address)),
            Arc::new(throttle),
            Settings { tls: how.tls.map(|[_, own]| own.clone()), ..Settings::default() },
        ));
        let (begin, cpu) = (Instant::now(), cpu_seconds());
        self.drive(&storage, &client, begin);
        Run { took: begin.elapsed(), cpu_seconds: cpu_seconds() - cpu }
    }

    /// Has the source listen, with a throttle of its own.
    fn serve(&self, how: How<'_>) -> (Transport, SocketAddr) {
        let source = Arc::new(LiveBytes::new(Arc::clone(&self.broker)));
        let throttle = Arc::new(Throttle::on_real_time(how.rate));
        let bulk = Arc::new(Server::new(source, throttle, Settings::default()));
        let listener = self.runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("loopback");
        let address = listener.local_addr().expect("it listens");
        let seams = Seams {
            directory: Arc::new(Place(address)),
            inbound: Arc::new(Silence),
            bulk: Some(bulk),
            deliveries: None,
        };
        let settings = narad_runtime::net::Settings {
            congestion: how.congestion.map(str::to_owned),
            tls: how.tls.map(|[own, _]| own.clone()),
            ..narad_runtime::net::Settings::default()
        };
        let transport = self.runtime.block_on(async {
            let token = CancellationToken::new();
            Transport::start(identity(SOURCE), listener, seams, settings, &token)
        });
        (transport, address)
    }

    /// Runs the mover's operations, those of the disk on threads as a node does.
    fn drive(&self, storage: &Arc<Storage>, client: &Arc<Client>, begin: Instant) {
        let now = || time::Instant::from_origin(begin.elapsed());
        let (sender, done) = mpsc::channel::<(OpId, Outcome)>();
        let mut out = Effects::default();
        let me = Me { node: DESTINATION, incarnation: LIFE };
        let mut mover = Mover::new(now(), me, P, Config::new(1), Recovered::default(), &mut out);
        loop {
            for effect in out.drain().collect::<Vec<_>>() {
                let Effect::Run(op, operation) = effect else { continue };
                match self.answer(operation) {
                    Ok(outcome) => drop(sender.send((op, outcome))),
                    Err(work) => {
                        let (storage, client) = (Arc::clone(storage), Arc::clone(client));
                        let sender = sender.clone();
                        self.runtime.spawn_blocking(move || {
                            let never = CancelFlag::default();
                            let outcome = staged(storage.stage(P, *work, 0, &*client, &never));
                            drop(sender.send((op, outcome)));
                        });
                    }
                }
            }
            if mover.is_over() {
                return;
            }
            let wait = mover.deadline().map_or(Duration::from_mins(1), |due| due.at.since(now()));
            let event = match done.recv_timeout(wait) {
                Ok((op, outcome)) => Event::Done(op, outcome),
                Err(_) => Event::Wake,
            };
            mover.handle(now(), event, &mut out);
        }
    }

    /// Answers what concerns the source and the replicated log; the rest is work on the disk.
    fn answer(&self, operation: Operation) -> Result<Outcome, Box<Staging>> {
        let list = |check: &[_]| {
            self.broker.seat(P).slot.list(LIFE, check).expect("the source's disk works")
        };
        Ok(match operation {
            Operation::ReadRow => Outcome::ReadRow(Ok(Some(row()))),
            Operation::List { check, .. } => Outcome::List(Ok(list(&check))),
            Operation::ReachLeader => Outcome::ReachLeader(Ok(())),
            Operation::Prepare { .. } => Outcome::Prepare(Ok(Capture {
                token: Token { epoch: EPOCH, no: FreezeNo { incarnation: LIFE, counter: 1 } },
                listing: list(&[]),
                position: Position::default(),
                digest: self.log.digest(),
            })),
            Operation::Renew { .. } => Outcome::Renew(Ok(())),
            Operation::Release { .. } => Outcome::Release(Ok(())),
            Operation::Propose(_) => {
                Outcome::Propose(Proposed::Replied(Reply::Applied(Applied::Won(Epoch(2)))))
            }
            Operation::Copy { source, base, position, bytes } => {
                return Err(Box::new(Staging::Copy { source, base, position, bytes }));
            }
            Operation::Checkpoint(manifest) => return Err(Box::new(Staging::Checkpoint(manifest))),
            Operation::Trim { keep } => return Err(Box::new(Staging::Trim(keep))),
            Operation::Probe { bytes } => return Err(Box::new(Staging::Probe { bytes })),
            Operation::Verify(boundary) => return Err(Box::new(Staging::Verify(boundary))),
            Operation::Install { attempt, sidecar, manifest } => {
                return Err(Box::new(Staging::Install { attempt, sidecar, manifest }));
            }
            Operation::Restage { attempt } => return Err(Box::new(Staging::Restage(attempt))),
            Operation::SetAside(what) => return Err(Box::new(Staging::SetAside(what))),
        })
    }
}

/// Says what staging has come to, in the mover's words; on an idle machine nothing fails.
fn staged(outcome: StagingOutcome) -> Outcome {
    match outcome {
        StagingOutcome::Copy(result) => {
            assert!(result.is_ok(), "a copy failed: {result:?}");
            Outcome::Copy(result)
        }
        StagingOutcome::Checkpoint(result) => Outcome::Checkpoint(result),
        StagingOutcome::Trim(result) => Outcome::Trim(result),
        StagingOutcome::Probe(result) => Outcome::Probe(result),
        StagingOutcome::Verify(result) => Outcome::Verify(result),
        StagingOutcome::Install(result) => Outcome::Install(result),
        StagingOutcome::Restage(result) => Outcome::Restage(result),
        StagingOutcome::SetAside(result) => Outcome::SetAside(result),
    }
}

fn row() -> Assignment {
    Assignment {
        owner: SOURCE,
        epoch: EPOCH,
        data: Attempt::birth(SOURCE),
        min_end: Offset(0),
        lineage: vec![],
        lineage_cut: false,
        target: Some(DESTINATION),
        move_id: MoveId(1),
        burned: None,
        revoked: None,
        reported_hwm: None,
        pinned: false,
    }
}

fn identity(node: NodeId) -> Identity {
    Identity { cluster: ClusterId(1), node, store_uuid: StoreUuid(node.0.into()) }
}

/// The source may do whatever it wants.
struct Registered;

impl Standpoint for Registered {
    fn now(&self) -> time::Instant {
        time::Instant::ORIGIN
    }

    fn authority(&self) -> Authority {
        Authority { registered: Some(LIFE), lease_until: time::Instant::ORIGIN }
    }
}

/// Where the source is.
struct Place(SocketAddr);

impl Directory for Place {
    fn address(&self, _: NodeId) -> Option<String> {
        Some(self.0.to_string())
    }

    fn admits(&self, _: NodeId, _: StoreUuid) -> bool {
        true
    }
}

/// Nobody asks anything here.
struct Silence;

impl Inbound for Silence {
    fn raft(&self, _: NodeId, _: Bytes) {}
    fn request(&self, _: Option<NodeId>, _: Request, _: ReplySender) {}
    fn unreachable(&self, _: NodeId) {}
    fn snapshot_sent(&self, _: NodeId, _: bool) {}
}

/// Bytes that nothing can compress, the same in every run.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    /// Returns the next bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length.next_multiple_of(8)];
        for word in bytes.chunks_exact_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}
