//! Machines, and the processes that run on them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use narad_core::effects::OpId;
use narad_core::freeze::Authority;
use narad_core::ids::{Epoch, Incarnation, Name, NodeId, PartitionId};
use narad_core::mover::Phase;
use narad_core::node::Operation;
use narad_core::peer::{Request, RequestId};
use narad_core::time::Instant;
use narad_runtime::broker::{Broker, Pending, Standpoint};
use narad_runtime::copy::Reach;
use narad_runtime::disk::MemDisk;
use narad_runtime::disk::mem::Image;
use narad_runtime::log::{Appended, LogError, Record};
use narad_runtime::raft::{MemStore, StoreImage};
use narad_runtime::storage::Storage;
use narad_runtime::store::PartitionStore;

use super::Due;
use super::deliver::Deliver;
use super::ingress::Accepting;
use super::message::Produce;
use super::replica::Replicated;
use crate::clock::Clock;
use crate::metastore::Durable;
use crate::random::Random;
use crate::scenario::Keep;
use crate::time::Time;

/// What outlives a process, and the process.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) name: Name,
    /// Who it is, once it has been admitted.
    pub(crate) node: Option<NodeId>,
    pub(crate) disk: MemDisk,
    /// Its share of Raft's log, on the same medium; the abstract log keeps its own.
    pub(crate) log: Option<MemStore>,
    pub(crate) clock: Clock,
    pub(crate) process: Option<Process>,
    /// Processes started so far; what is scheduled for an earlier one does not happen.
    pub(crate) life: u64,
    /// What a paused process has missed.
    pub(crate) paused: Option<VecDeque<Due>>,
    /// Until when a pause lasts; what is told to it meanwhile waits.
    pub(crate) stuck_until: Time,
    /// When the present pause began, and how long all earlier ones took.
    pub(crate) paused_since: Time,
    pub(crate) paused_for: std::time::Duration,
    /// Until when the disk does nothing at all.
    pub(crate) disk_stuck_until: Time,
    /// How much longer than usual the disk takes.
    pub(crate) slower_by: std::time::Duration,
    /// When the bytes that its throttle has let pass are paid for.
    pub(crate) throttled_until: Time,
    pub(crate) saved: BTreeMap<String, Saved>,
    /// Whether somebody starts it again when it ends by itself.
    pub(crate) wanted: bool,
    /// Its last process ended, or did not start, because it could not go on.
    pub(crate) gave_up: bool,
    /// The member that it asks to be admitted through.
    pub(crate) joins_through: Option<usize>,
    pub(crate) latency: Random,
    /// The earliest wake that is scheduled.
    pub(crate) wake_at: Time,
    /// Entries are applied no earlier: a replica that lags.
    pub(crate) lags_until: Time,
}

/// The whole medium of a machine at one time.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    pub(crate) disk: Image,
    pub(crate) log: Option<StoreImage>,
    pub(crate) durable: Option<Durable>,
    pub(crate) node: Option<NodeId>,
}

/// A running node.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) replica: Replicated,
    pub(crate) incarnation: Incarnation,
    pub(crate) store: Arc<dyn PartitionStore>,
    pub(crate) broker: Arc<Broker>,
    pub(crate) ground: Arc<Ground>,
    pub(crate) storage: Storage,
    pub(crate) requests: BTreeMap<RequestId, Asker>,
    pub(crate) next_request: u64,
    pub(crate) running: BTreeMap<OpId, Running>,
    pub(crate) appends: BTreeMap<PartitionId, Appending>,
    pub(crate) accepting: Accepting,
    /// Freezes that wait for an append to end.
    pub(crate) freezing: BTreeMap<OpId, PartitionId>,
    pub(crate) phases: BTreeMap<PartitionId, Phase>,
    /// How often in a row it was woken without time passing.
    pub(crate) spins: (Time, u32),
}

/// Who waits for an answer of a node.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) machine: usize,
    pub(crate) life: u64,
    pub(crate) op: OpId,
    pub(crate) request: Request,
    /// How far it has copied, if it asks for a freeze.
    pub(crate) reach: Option<Reach>,
    /// When it came.
    pub(crate) received: Time,
}

/// At which step of the disk the power goes, what it leaves, and for how long.
pub(crate) type CrashWithin = (u64, Keep, Option<std::time::Duration>);

/// An operation that has no outcome yet.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) name: &'static str,
    pub(crate) operation: Operation,
    /// The power goes at this step of the disk within it.
    pub(crate) crash: Option<CrashWithin>,
    /// When a copy that gets bytes slowly is given up; it has no answer, but is not silent.
    pub(crate) patience: Time,
    /// How long this node's throttle has made it wait.
    pub(crate) throttled: std::time::Duration,
    /// It is done once more besides.
    pub(crate) is_copied: bool,
}

impl Running {
    pub(crate) const fn new(name: &'static str, operation: Operation) -> Self {
        let throttled = std::time::Duration::ZERO;
        let patience = Time::ZERO;
        Self { name, operation, crash: None, patience, throttled, is_copied: false }
    }
}

/// Records on their way into one log.
#[derive(Debug, Default)]
pub(crate) struct Appending {
    pub(crate) waiting: VecDeque<Incoming>,
    pub(crate) batch: Option<Batch>,
}

/// Records that have reached an owner.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// From a producer that has found the owner itself.
    Produced { from: usize, produce: Produce },
    /// From the node that has accepted them.
    Delivered { from: usize, life: u64, deliver: Box<Deliver> },
}

impl Incoming {
    /// The reign in which they are to be appended, if the sender says so.
    pub(crate) const fn claimed(&self) -> Option<Epoch> {
        match self {
            Self::Produced { .. } => None,
            Self::Delivered { deliver, .. } => Some(deliver.epoch),
        }
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        match self {
            Self::Produced { produce, .. } => produce.records.clone(),
            Self::Delivered { deliver, .. } => {
                deliver.records.iter().map(|(_, record)| record.clone()).collect()
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Produced { produce, .. } => produce.records.len(),
            Self::Delivered { deliver, .. } => deliver.records.len(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) pending: Pending,
    pub(crate) from: Vec<Incoming>,
    pub(crate) records: Vec<Record>,
    /// Their ids.
    pub(crate) ids: Vec<u64>,
    pub(crate) appended: Option<Result<Appended, LogError>>,
}

/// What the gates of one node read.
#[derive(Debug)]
pub(crate) struct Ground(Mutex<(Instant, Authority)>);

impl Ground {
    pub(crate) const fn new(now: Instant) -> Self {
        Self(Mutex::new((now, Authority::NONE)))
    }

    pub(crate) fn set_now(&self, now: Instant) {
        self.lock().0 = now;
    }

    pub(crate) fn publish(&self, authority: Authority) {
        self.lock().1 = authority;
    }

    fn lock(&self) -> MutexGuard<'_, (Instant, Authority)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standpoint for Ground {
    fn now(&self) -> Instant {
        self.lock().0
    }

    fn authority(&self) -> Authority {
        self.lock().1
    }
}
