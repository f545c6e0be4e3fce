//! A node's disk work over a disk in memory, without clock, thread or socket.

use std::cell::Cell;

use narad_core::cursor::Lineage;
use narad_core::freeze::gate::{Authority, Standing};
use narad_core::ids::{ByteCount, Incarnation, MoveId, TopicId};
use narad_core::metastore::{Assignment, Reign, Residue};
use narad_core::time::Instant;

use super::*;
use crate::broker::Standpoint;
use crate::copy::{CopyReport, LiveBytes, Source};
use crate::disk::MemDisk;
use crate::log::{LogLimits, Record};
use crate::store::SegmentStore;

const PARTITION: PartitionId = PartitionId { topic: TopicId(1), index: 0 };
const OWNER: NodeId = NodeId(1);
const LIFE: Incarnation = Incarnation(1);
const EPOCH: Epoch = Epoch(1);
const NOW_MS: i64 = 1_000;

#[derive(Debug)]
struct Registered;

impl Standpoint for Registered {
    fn now(&self) -> Instant {
        Instant::ORIGIN
    }

    fn authority(&self) -> Authority {
        Authority { registered: Some(LIFE), lease_until: Instant::ORIGIN }
    }
}

/// One node: what is kept, and what is live.
struct Machine {
    broker: Arc<Broker>,
    storage: Storage,
}

fn machine() -> Machine {
    let disk = Arc::new(MemDisk::new());
    let store = Arc::new(SegmentStore::new(disk, LogLimits::default()).unwrap());
    let broker = Arc::new(Broker::new(Arc::new(Registered)));
    let storage = Storage::new(store, Arc::clone(&broker));
    Machine { broker, storage }
}

/// A machine that serves a log of a few records.
fn owner() -> Machine {
    let owner = machine();
    let open = host::Operation::Open { data: Attempt::birth(OWNER), birth: Some(Offset(0)) };
    let opened = owner.storage.host(PARTITION, open);
    assert_eq!(opened, host::Outcome::Open(Ok(Opened { end: Offset(0), served: None })));
    let slot = owner.broker.seat(PARTITION).slot;
    slot.stand(Standing::Serving { epoch: EPOCH, life: LIFE, in_play: false });
    for _ in 0..3 {
        slot.commit(&[Record { value: vec![7; 500].into(), ..Record::default() }], None).unwrap();
    }
    owner
}

/// Copies straight from a source, and breaks after some bytes if it is told to.
struct Direct<'a> {
    source: &'a dyn Source,
    breaks_after: Cell<Option<usize>>,
}

impl<'a> Direct<'a> {
    fn new(source: &'a dyn Source) -> Self {
        Self { source, breaks_after: Cell::new(None) }
    }
}

impl Copier for Direct<'_> {
    fn copy(
        &self,
        _from: NodeId,
        request: &CopyRequest,
        sink: &mut dyn Sink,
        cancel: &CancelFlag,
    ) -> Result<CopyReport, TransferError> {
        if cancel.is_cancelled() {
            return Err(TransferError::Cancelled { received: 0 });
        }
        let CopyRequest { partition, base, position, bytes } = *request;
        let mut buffer = vec![0; usize::try_from(bytes).unwrap()];
        let mut read = self.source.read_at(partition, base, position, &mut buffer)?;
        let broken = self.breaks_after.take();
        read = broken.map_or(read, |after| read.min(after));
        let wrote = sink.write(&buffer[..read]);
        wrote.map_err(|error| TransferError::Sink { received: 0, error })?;
        let received = read as u64;
        match broken {
            Some(_) => Err(TransferError::Reset { received }),
            None => Ok(CopyReport { bytes: received, throttled: Duration::ZERO }),
        }
    }
}

fn copy(machine: &Machine, copier: &dyn Copier, position: u64, bytes: u64) -> StagingOutcome {
    let work = Staging::Copy { source: OWNER, base: Offset(0), position, bytes };
    machine.storage.stage(PARTITION, work, NOW_MS, copier, &CancelFlag::default())
}

/// R61, C46: what a broken copy brought is kept, and the next one goes on behind it.
#[test]
fn a_broken_copy_is_continued_over_any_copier() {
    let (from, to) = (owner(), machine());
    let live = LiveBytes::new(Arc::clone(&from.broker));
    let listing = from.broker.seat(PARTITION).slot.list(LIFE, &[]).unwrap();
    let extent = listing.extents[0];
    let direct = Direct::new(&live);

    direct.breaks_after.set(Some(100));
    let broken = copy(&to, &direct, 0, extent.bytes.0);
    assert_eq!(broken, StagingOutcome::Copy(Err(Fault::Unreachable)));

    let rest = copy(&to, &direct, 100, extent.bytes.0 - 100);
    let StagingOutcome::Copy(Ok(copied)) = rest else { panic!("{rest:?}") };
    let whole = (extent.bytes, extent.checksum);
    assert_eq!((copied.staged.bytes, copied.staged.checksum), whole);
    assert_eq!(copied.throttled, Duration::ZERO);
}

/// C40: an extent that is no more is told from a source that does not serve.
#[test]
fn a_source_says_why_it_gives_nothing() {
    let (from, to) = (owner(), machine());
    let live = LiveBytes::new(Arc::clone(&from.broker));
    let direct = Direct::new(&live);
    let work = Staging::Copy { source: OWNER, base: Offset(9), position: 0, bytes: 10 };
    let never = CancelFlag::default();
    let gone = to.storage.stage(PARTITION, work, NOW_MS, &direct, &never);
    assert_eq!(gone, StagingOutcome::Copy(Err(Fault::ExtentGone)));

    from.broker.seat(PARTITION).slot.stand(Standing::Closed);
    assert_eq!(copy(&to, &direct, 0, 10), StagingOutcome::Copy(Err(Fault::Unreachable)));
}

/// X169: a cancelled copy says so, and keeps its place.
#[test]
fn a_cancelled_copy_says_so() {
    let (from, to) = (owner(), machine());
    let live = LiveBytes::new(Arc::clone(&from.broker));
    let work = Staging::Copy { source: OWNER, base: Offset(0), position: 0, bytes: 10 };
    let cancel = CancelFlag::default();
    cancel.cancel();
    let outcome = to.storage.stage(PARTITION, work, NOW_MS, &Direct::new(&live), &cancel);
    assert_eq!(outcome, StagingOutcome::Copy(Err(Fault::Cancelled)));
    let resumed = copy(&to, &Direct::new(&live), 0, 10);
    let StagingOutcome::Copy(Ok(copied)) = resumed else { panic!("{resumed:?}") };
    assert_eq!(copied.staged.bytes, ByteCount(10));
}

/// S3: a log that is not there is missing, unless it is the first of its partition.
#[test]
fn opening_creates_only_a_birth() {
    let machine = machine();
    let data = Attempt::birth(OWNER);
    let absent = machine.storage.host(PARTITION, host::Operation::Open { data, birth: None });
    assert_eq!(absent, host::Outcome::Open(Err(host::Fault::Missing)));
    assert!(machine.broker.find(PARTITION).is_none());
    assert!(machine.storage.watermarks(&[PARTITION]).is_empty());
}

/// `case_063`: what consumers have acknowledged is on the disk once their log is closed.
#[test]
fn closing_a_log_stores_where_consumers_stand() {
    let owner = owner();
    let slot = owner.broker.seat(PARTITION).slot;
    let data = Attempt::birth(OWNER);
    let reign =
        Reign { epoch: EPOCH, start: Offset(0), owner: OWNER, data, residue: Residue::None };
    slot.resume(Lineage::of(&Assignment {
        owner: OWNER,
        epoch: EPOCH,
        data,
        min_end: Offset(0),
        lineage: vec![reign],
        lineage_cut: false,
        target: None,
        move_id: MoveId(1),
        burned: None,
        revoked: None,
        reported_hwm: None,
        pinned: false,
    }));
    slot.acknowledge_up_to(EPOCH, Offset(2)).unwrap();
    owner.storage.host(PARTITION, host::Operation::Close);
    owner.storage.host(PARTITION, host::Operation::Open { data, birth: None });
    assert_eq!(slot.log().unwrap().position().committed, Some(Offset(2)));
}
