//! One dispatching node and everything around it, one step at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Range;
use std::time::Duration;

use narad_core::config::Config;
use narad_core::dispatch::*;
use narad_core::effects::{Effects, OpId};
use narad_core::ids::*;
use narad_core::time::Instant;

mod truth;

use super::cluster::Cluster;
use super::owners::{Log, Parcel, RecordId};

pub(super) const ME: NodeId = NodeId(1);

/// What one position of the ingress log holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) parcel: Parcel,
    pub(super) waybill: Waybill,
}

/// A batch on the wire.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    to: NodeId,
    partition: PartitionId,
    epoch: Epoch,
    batch: BatchNo,
    parcels: Vec<Parcel>,
}

/// How the world lets an operation end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// As it should.
    Well,
    /// It happens, and its answer is lost.
    AnswerLost,
    /// It does not happen, and nobody knows; a copy of a batch may come later.
    Lost,
    /// It is refused, or fails.
    Fails(SendFault),
}

pub(super) struct World {
    pub(super) config: Config,
    pub(super) now: Instant,
    pub(super) cluster: Cluster,
    pub(super) dispatch: Dispatch,
    pub(super) life: Incarnation,
    pub(super) out: Effects<Effect>,
    /// Operations that are not answered, in the order in which they were asked for.
    pub(super) running: Vec<(OpId, Operation)>,
    pub(super) notes: Vec<Note>,
    pub(super) cancelled: BTreeSet<OpId>,
    /// The ingress log by position.
    pub(super) ingress: BTreeMap<Seq, Stored>,
    pub(super) next: Seq,
    pub(super) checkpoint: Seq,
    /// Ranges beyond it that the durable checkpoint names.
    pub(super) beyond: Vec<Range<Seq>>,
    /// Positions whose bytes are damaged.
    pub(super) damaged: BTreeSet<Seq>,
    pub(super) logs: BTreeMap<PartitionId, Log>,
    /// Copies of batches that are still on the wire.
    pub(super) museum: Vec<Copy>,
    /// Every record that was acknowledged.
    pub(super) accepted: Vec<Waybill>,
    parcels: u64,
    pub(super) arrived: BTreeSet<RecordId>,
    /// Those that were to be sent to a sibling.
    strayed: BTreeSet<Parcel>,
    /// The checkpoint that was looked at last.
    seen: Seq,
    /// To which partition a record of this life is bound.
    bound: BTreeMap<Parcel, PartitionId>,
    pub(super) sends: u64,
}

pub(super) fn config() -> Config {
    Config {
        send_records_max: 4,
        send_bytes_max: 400,
        sends_in_flight_max: 4,
        backlog_bytes_max: 100_000,
        backlog_records_max: 1_000,
        reroute_after: Duration::from_secs(20),
        ..Config::new(7)
    }
}

impl World {
    pub(super) fn new(topics: &[u32]) -> Self {
        Self::with(config(), topics)
    }

    pub(super) fn with(config: Config, topics: &[u32]) -> Self {
        let mut out = Effects::default();
        let life = Incarnation(1);
        let found = Found { next: Seq(0), waybills: [], closed: false };
        let dispatch = Dispatch::new(&config, ME, life, found, &mut out);
        let mut world = Self {
            config,
            now: Instant::ORIGIN,
            cluster: Cluster::new(topics),
            dispatch,
            life,
            out,
            running: Vec::new(),
            notes: Vec::new(),
            cancelled: BTreeSet::new(),
            ingress: BTreeMap::new(),
            next: Seq(0),
            checkpoint: Seq(0),
            beyond: Vec::new(),
            damaged: BTreeSet::new(),
            logs: BTreeMap::new(),
            museum: Vec::new(),
            accepted: Vec::new(),
            parcels: 0,
            arrived: BTreeSet::new(),
            strayed: BTreeSet::new(),
            seen: Seq(0),
            bound: BTreeMap::new(),
            sends: 0,
        };
        world.handle(Event::Restored);
        world
    }

    /// The topics that were made first, in their order.
    pub(super) fn topic(&self, which: usize) -> TopicId {
        self.cluster.truth.topics().nth(which).unwrap().id
    }

    pub(super) fn partition(&self, index: u32) -> PartitionId {
        PartitionId { topic: self.topic(0), index }
    }

    pub(super) fn handle(&mut self, event: Event) {
        self.dispatch.handle(self.now, &self.cluster.replica, event, &mut self.out);
        for effect in self.out.drain() {
            match effect {
                Effect::Run(op, operation) => self.running.push((op, operation)),
                Effect::Cancel(op) => assert!(self.cancelled.insert(op), "asked for once"),
                Effect::Note(note) => self.notes.push(note),
            }
        }
        self.check();
    }

    /// What holds after every event.
    fn check(&mut self) {
        let mut busy = BTreeSet::new();
        let mut at_node: BTreeMap<NodeId, u32> = BTreeMap::new();
        for (_, operation) in &self.running {
            if let Operation::Send { partition, to, records, .. } = operation {
                assert!(busy.insert(*partition), "one batch at a time for {partition:?}");
                *at_node.entry(*to).or_default() += 1;
                let limits = (self.config.send_records_max as usize, self.config.send_bytes_max);
                let bytes = records.iter().map(|seq| u64::from(self.ingress[&seq].waybill.bytes));
                assert!(records.count() <= limits.0);
                assert!(bytes.sum::<u64>() <= limits.1 || records.count() == 1);
            }
        }
        let most = self.config.sends_in_flight_max;
        assert!(busy.len() <= most as usize);
        assert!(most == 1 || at_node.values().all(|&held| held <= most / 2));
        let checkpoint = self.dispatch.checkpoint();
        if mem::replace(&mut self.seen, checkpoint) == checkpoint {
            return;
        }
        let lowest = self.waiting().next();
        assert!(checkpoint <= lowest.unwrap_or(self.next), "{checkpoint:?} passes {lowest:?}");
    }

    /// Positions of records that are in no log, nor anywhere behind in the ingress log.
    fn waiting(&self) -> impl Iterator<Item = Seq> {
        let last: BTreeMap<RecordId, Seq> =
            self.ingress.iter().map(|(&seq, stored)| (stored.parcel.record, seq)).collect();
        let gone = |topic| self.cluster.truth.topic(topic).is_none();
        let waiting = self.ingress.iter().filter(move |&(seq, stored)| {
            last[&stored.parcel.record] == *seq
                && !self.arrived.contains(&stored.parcel.record)
                && !gone(stored.waybill.topic)
        });
        let waiting: Vec<Seq> = waiting.map(|(&seq, _)| seq).collect();
        waiting.into_iter()
    }

    pub(super) fn arrived(&self) -> &BTreeSet<RecordId> {
        &self.arrived
    }

    /// Accepts records, and returns whether there was room.
    pub(super) fn accept(&mut self, topic: TopicId, route: Route, bytes: u32, count: u32) -> bool {
        let total = u64::from(bytes) * u64::from(count);
        if self.dispatch.admit(u64::from(count), total).is_err() {
            return false;
        }
        let mut waybills = Vec::new();
        for _ in 0..count {
            let waybill = Waybill { seq: self.next, topic, route, bytes };
            let parcel = self.parcel(self.accepted.len());
            self.ingress.insert(self.next, Stored { parcel, waybill });
            self.accepted.push(waybill);
            waybills.push(waybill);
            self.next = self.next.next();
        }
        self.handle(Event::Accepted(waybills));
        true
    }

    pub(super) fn produce(&mut self, route: Route) {
        let topic = self.topic(0);
        assert!(self.accept(topic, route, 100, 1));
    }

    /// Ends one of the running operations.
    pub(super) fn end(&mut self, which: usize, how: End) {
        let (op, operation) = self.running.remove(which);
        let outcome = match &operation {
            Operation::Send { records, .. } | Operation::Carry(records)
                if records.iter().any(|seq| self.damaged.contains(&seq)) =>
            {
                let lost = records.iter().filter(|seq| self.damaged.contains(seq));
                Outcome::Damaged(lost.collect())
            }
            Operation::Send { .. } => Outcome::Send(self.send(&operation, how)),
            Operation::Checkpoint(spent) => {
                Outcome::Checkpoint(self.end_checkpoint(spent.clone(), how))
            }
            Operation::Carry(seqs) => Outcome::Carry(self.end_carry(seqs, how)),
            Operation::Barrier if how == End::Well => {
                while let Some(changed) = self.cluster.apply_next() {
                    self.handle(Event::Applied(changed));
                }
                Outcome::Barrier(Ok(()))
            }
            Operation::Barrier => Outcome::Barrier(Err(NoBarrier)),
        };
        self.handle(Event::Done(op, outcome));
    }

    fn parcel(&mut self, record: RecordId) -> Parcel {
        self.parcels += 1;
        Parcel { n: self.parcels, record }
    }

    fn send(&mut self, operation: &Operation, how: End) -> Result<(), SendFault> {
        self.sends += 1;
        let Operation::Send { to, partition, epoch, batch, records } = operation else {
            unreachable!()
        };
        assert_eq!((batch.ingress, batch.life), (ME, self.life));
        assert!(records.iter().all(|seq| seq >= self.checkpoint), "what is sent is still there");
        let parcels: Vec<Parcel> = records.iter().map(|seq| self.ingress[&seq].parcel).collect();
        for &parcel in &parcels {
            assert_eq!(self.accepted[parcel.record].topic, partition.topic);
            self.assert_may_go(parcel, *partition);
        }
        let left = !matches!(how, End::Fails(fault) if !fault.left());
        if left {
            self.bound.extend(parcels.iter().map(|&parcel| (parcel, *partition)));
        }
        let (to, partition, epoch, batch) = (*to, *partition, *epoch, *batch);
        let copy = Copy { to, partition, epoch, batch, parcels };
        match how {
            End::Well => self.deliver(&copy),
            End::AnswerLost => {
                let _ = self.deliver(&copy);
                Err(SendFault::TimedOut)
            }
            End::Lost => {
                self.museum.push(copy);
                Err(SendFault::TimedOut)
            }
            // What an owner has taken it answers first, and then looks at anything else.
            End::Fails(SendFault::TooLarge)
                if self.logs.get(&partition).is_some_and(|log| log.remembers(batch)) =>
            {
                self.deliver(&copy)
            }
            End::Fails(fault) => {
                if fault == SendFault::TooLarge {
                    // Any other copy of it is as long.
                    self.museum.retain(|it| (it.partition, it.batch) != (partition, batch));
                }
                Err(fault)
            }
        }
    }

    /// Which partition a record belongs to.
    fn home(route: Route, partitions: u32) -> Option<u32> {
        match route {
            Route::Partition(index) => Some(index).filter(|&index| index < partitions),
            Route::Key(hash) => u32::try_from(hash % u64::from(partitions)).ok(),
            Route::Any => None,
        }
    }

    /// Whether a record may be sent to a partition at all.
    fn assert_may_go(&mut self, parcel: Parcel, to: PartitionId) {
        let bound = self.bound.get(&parcel);
        assert!(bound.is_none_or(|&bound| bound == to), "R36: {parcel:?} is bound to {bound:?}");
        let route = self.accepted[parcel.record].route;
        let partitions = self.cluster.replica.topic(to.topic).map_or(1, |topic| topic.partitions);
        match Self::home(route, partitions) {
            Some(home) if home != to.index => {
                assert!(matches!(route, Route::Key(_)), "H23: {route:?}, not {to:?}");
                self.strayed.insert(parcel);
            }
            Some(_) | None => {}
        }
    }

    /// A batch reaches its owner.
    pub(super) fn deliver(&mut self, copy: &Copy) -> Result<(), SendFault> {
        let Copy { to, partition, epoch, batch, parcels } = copy;
        let log = self.logs.entry(*partition).or_default();
        log.numbers_are_skipped = !self.damaged.is_empty();
        log.take(&self.cluster.truth, *to, *partition, *epoch, *batch, parcels)?;
        self.arrived.extend(parcels.iter().map(|parcel| parcel.record));
        Ok(())
    }

    fn end_checkpoint(&mut self, spent: Checkpoint, how: End) -> Result<(), LogFault> {
        let Checkpoint { below, beyond } = spent;
        let waiting = self.waiting().next();
        assert!(waiting.is_none_or(|waiting| below <= waiting), "{below:?} passes {waiting:?}");
        self.assert_well_formed(below, &beyond);
        if how == End::Well || how == End::AnswerLost {
            assert!(below >= self.checkpoint);
            self.checkpoint = below;
            self.ingress = self.ingress.split_off(&below);
            self.beyond = beyond;
            self.assert_nothing_is_skipped();
        }
        if how == End::Well { Ok(()) } else { Err(LogFault) }
    }

    fn assert_well_formed(&self, below: Seq, beyond: &[Range<Seq>]) {
        assert!(beyond.len() <= Checkpoint::RANGES_MAX);
        assert!(beyond.iter().all(|run| run.start > below && run.start < run.end));
        assert!(beyond.is_sorted_by(|a, b| a.end < b.start), "ascending and apart: {beyond:?}");
        assert!(beyond.last().is_none_or(|run| run.end <= self.next), "{beyond:?}");
    }

    /// S11: whatever has not arrived would be found again after a crash at this moment.
    fn assert_nothing_is_skipped(&self) {
        let found: BTreeSet<RecordId> =
            self.found().map(|(_, stored)| stored.parcel.record).collect();
        for (&seq, Stored { parcel, waybill }) in &self.ingress {
            let is_needed = !self.arrived.contains(&parcel.record)
                && !self.damaged.contains(&seq)
                && self.cluster.truth.topic(waybill.topic).is_some();
            let is_found = found.contains(&parcel.record);
            assert!(!is_needed || is_found, "{seq:?} is skipped: {:?}", self.beyond);
        }
    }

    /// What a restart finds in the ingress log.
    fn found(&self) -> impl Iterator<Item = (&Seq, &Stored)> {
        let is_spent = |seq: &Seq| self.beyond.iter().any(|run| run.contains(seq));
        let stored = self.ingress.range(self.checkpoint..);
        stored.filter(move |(seq, _)| !is_spent(seq) && !self.damaged.contains(seq))
    }

    fn end_carry(&mut self, seqs: &Seqs, how: End) -> Result<Seq, LogFault> {
        let first = self.next;
        if how == End::Well || how == End::AnswerLost {
            for seq in seqs.iter() {
                assert!(seq >= self.checkpoint, "{seq:?} is deleted");
                let Stored { mut parcel, mut waybill } = self.ingress[&seq];
                if how == End::AnswerLost {
                    parcel = self.parcel(parcel.record);
                }
                waybill.seq = self.next;
                self.ingress.insert(self.next, Stored { parcel, waybill });
                self.next = self.next.next();
            }
        }
        if how == End::Well { Ok(first) } else { Err(LogFault) }
    }

    /// The process ends and starts again: it finds what is durable.
    pub(super) fn crash(&mut self) {
        self.running.clear();
        self.cancelled.clear();
        self.bound.clear();
        self.life = self.life.next();
        self.now = Instant::ORIGIN;
        for stored in self.ingress.values_mut() {
            self.parcels += 1;
            stored.parcel.n = self.parcels;
        }
        self.assert_nothing_is_skipped();
        let waybills: Vec<Waybill> = self.found().map(|(_, stored)| stored.waybill).collect();
        let found = Found { next: self.next, waybills, closed: false };
        self.dispatch = Dispatch::new(&self.config, ME, self.life, found, &mut self.out);
        assert!(self.out.is_empty());
        self.handle(Event::Restored);
    }

    /// Asks the process to end, and lets so many of its operations end before it does.
    pub(super) fn stop(&mut self, endings: usize) {
        self.handle(Event::Stopping);
        for _ in 0..endings {
            if !self.running.is_empty() {
                self.end(0, End::Well);
            }
        }
    }

    pub(super) fn apply(&mut self) -> bool {
        let Some(changed) = self.cluster.apply_next() else { return false };
        self.handle(Event::Applied(changed));
        true
    }

    pub(super) fn apply_all(&mut self) {
        while self.apply() {}
    }

    /// Goes on to the next deadline.
    pub(super) fn wake(&mut self) -> bool {
        let Some(deadline) = self.dispatch.deadline() else { return false };
        self.now = self.now.max(deadline.at);
        self.handle(Event::Wake);
        let again = self.dispatch.deadline();
        let due = again.filter(|again| again.at <= self.now);
        assert!(due.is_none(), "{due:?} is due, and nothing is done about it");
        true
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.handle(Event::Wake);
    }

    /// Lets everything end well until nothing is under way.
    pub(super) fn settle(&mut self) {
        self.apply_all();
        for _ in 0..20_000 {
            if self.running.is_empty() {
                return;
            }
            self.end(0, End::Well);
        }
        panic!("it does not settle: {:?}, {:?}", self.running, self.dispatch.backlog());
    }

    /// Lets everything end well until nothing waits any more.
    pub(super) fn finish(&mut self) {
        for _ in 0..10_000 {
            self.settle();
            if self.dispatch.backlog().records == 0 {
                return;
            }
            assert!(self.wake(), "{:?} wait, and for nothing", self.dispatch.backlog());
        }
        panic!("it does not end: {:?}", self.dispatch.backlog());
    }

    /// What must have become of everything that was accepted (S11, R39).
    pub(super) fn assert_done(&self) {
        let arrived = &self.arrived;
        for (record, waybill) in self.accepted.iter().enumerate() {
            let gone = self.cluster.truth.topic(waybill.topic).is_none();
            assert!(gone || arrived.contains(&record), "{record} is lost: {waybill:?}");
        }
        for (partition, log) in &self.logs {
            let Some(topic) = self.cluster.truth.topic(partition.topic) else { continue };
            // What was on its way to a sibling, and never left, may come home late (R47).
            log.assert_in_order(|parcel| {
                let home = Self::home(self.accepted[parcel.record].route, topic.partitions);
                home == Some(partition.index) && !self.strayed.contains(&parcel)
            });
        }
    }

    // What befalls the cluster.
}
