//! A node accepts records for any partition: into its ingress log, and answers (L4, R46).
//!
//! The log is the real one on the machine's disk. Its write is two events: at the first the records
//! are durable, at the second the node is told and then the producers are, so that a crash can fall
//! between any two. Records that come while a write is under way share the next.
//!
//! # Divergence from reality
//!
//! One write takes one `sync` of `[disk]`, however much is in it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use narad_core::dispatch::{Found, Refused, Room, Route, Waybill};
use narad_core::effects::OpId;
use narad_core::ids::{Attempt, Offset, PartitionId, Seq, TopicId};
use narad_core::node::{Event, Outcome, Salvaged, ShippingOutcome};
use narad_runtime::disk::Disk;
use narad_runtime::ingress::{IngressError, IngressLog, Limits, Parcel, Ticket};
use narad_runtime::log::{LogLimits, scan};
use narad_runtime::store::log_dir;

use super::clients::RequestNo;
use super::message::{Message, Payload, Produced};
use super::records::id_of;
use super::script::{Moment, Verdict};
use super::{Due, Local, World};
use crate::oracle::{AcceptFault, Fact};
use crate::scenario::vocabulary::ACCEPT;
use crate::scenario::{Ending, Stage};
use crate::time::Time;
use crate::trace::Kind;

/// Where the log is on every disk.
pub(crate) const INGRESS: &str = "ingress";

/// Between two tries to open a log again whose disk failed.
const REOPEN_EVERY: Duration = Duration::from_millis(200);

/// A producer's records for a topic, at whatever node.
#[derive(Clone, Debug)]
pub(crate) struct Accept {
    pub(crate) request: RequestNo,
    pub(crate) parcels: Vec<Parcel>,
}

/// How a node accepts records.
#[derive(Debug)]
pub(crate) struct Accepting {
    pub(crate) log: Arc<IngressLog>,
    /// What is durable and has not been told to the node.
    durable: Arc<Mutex<Vec<Waybill>>>,
    /// The last that the node has published.
    room: Option<Room>,
    /// What was let in and has not been told to the node since.
    let_in: LetIn,
    is_closed: bool,
    waiting: Vec<Guest>,
    /// When the write under way began.
    writing: Option<Time>,
    /// How long writes took that have ended.
    wrote_for: Duration,
    /// Whoever waits until nothing is under way any more.
    closing: Option<OpId>,
    /// Whether the log is to be opened again, and when that is tried is scheduled.
    is_poisoned: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct LetIn {
    records: u64,
    bytes: u64,
}

/// Records on their way into the log.
#[derive(Debug)]
struct Guest {
    who: Whose,
    ids: Vec<u64>,
    topic: TopicId,
    route: Route,
    let_in: LetIn,
    ticket: Ticket,
    came: Time,
    /// How long writes had taken when it came, and processes had been paused.
    wrote_before: Duration,
    paused_before: Duration,
}

#[derive(Debug)]
enum Whose {
    Producer { machine: usize, request: RequestNo },
    Salvage { op: OpId, salvaged: Salvaged },
}

impl Accepting {
    /// Makes an empty log on a disk that no node has run on.
    pub(crate) fn create(disk: &dyn Disk) -> Result<(), IngressError> {
        IngressLog::create(disk, Path::new(INGRESS))
    }

    /// Opens the log on a disk; also returns what waits in it.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        segments: LogLimits,
    ) -> Result<(Self, Found<Vec<Waybill>>), IngressError> {
        let limits = Limits {
            log: segments,
            append_bytes_max: 64 << 10,
            waiting_bytes_max: 1 << 20,
            // Little enough that the disk is read, too.
            cache_bytes_max: 32 << 10,
        };
        let durable = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&durable);
        let (log, mut found) =
            IngressLog::open(disk, Path::new(INGRESS), limits, move |mut more: Vec<Waybill>| {
                tell.lock().unwrap_or_else(PoisonError::into_inner).append(&mut more);
            })?;
        let waybills: Vec<Waybill> = found.waybills.by_ref().collect();
        found.waybills.finish()?;
        let this = Self {
            log: Arc::new(log),
            durable,
            room: None,
            let_in: LetIn::default(),
            is_closed: false,
            waiting: Vec::new(),
            writing: None,
            wrote_for: Duration::ZERO,
            closing: None,
            is_poisoned: false,
        };
        Ok((this, Found { next: found.next, waybills }))
    }

    pub(crate) fn publish(&mut self, room: Room) {
        self.room = Some(room);
    }

    /// Says whether so much may be let in.
    fn admit(&self, more: LetIn) -> Result<(), Refused> {
        let Some(room) = self.room else { return Err(Refused::Draining) };
        if self.is_closed {
            return Err(Refused::Draining);
        }
        room.admit(self.let_in.records + more.records, self.let_in.bytes + more.bytes)
    }

    fn take_durable(&self) -> Vec<Waybill> {
        std::mem::take(&mut self.durable.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How long writes have taken by now, the one under way included.
    fn wrote(&self, now: Time) -> Duration {
        self.wrote_for + self.writing.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Whether everything that was handed in is durable, and told.
    fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.writing.is_none()
    }
}

fn size_of(parcels: &[Parcel]) -> LetIn {
    LetIn {
        records: parcels.len() as u64,
        bytes: parcels.iter().map(|parcel| parcel.encoded_bytes() as u64).sum(),
    }
}

impl World {
    /// Records have reached a node that is to accept them.
    pub(super) fn accepts(&mut self, machine: usize, from: usize, accept: Accept) {
        let Accept { request, parcels } = accept;
        let who = Whose::Producer { machine: from, request };
        let more = size_of(&parcels);
        let process = self.machines[machine].process.as_ref().expect("it runs");
        let refused = match process.accepting.admit(more) {
            Ok(()) => self.hand_in(machine, who, parcels, more).err(),
            Err(Refused::Draining) => Some(AcceptFault::Closed),
            Err(Refused::Full { .. }) => Some(AcceptFault::Full),
            Err(Refused::TooLarge { .. }) => Some(AcceptFault::TooLarge),
        };
        if let Some(why) = refused {
            self.accept_refused(machine, from, request, why);
        }
    }

    fn accept_refused(
        &mut self,
        machine: usize,
        client: usize,
        request: RequestNo,
        why: AcceptFault,
    ) {
        self.recorder.count("accepts-refused");
        if let Some(node) = self.machines[machine].node {
            self.observe(Fact::AcceptRefused { node, why });
        }
        self.reply_accept(machine, client, request, Produced::Refused);
    }

    fn reply_accept(
        &mut self,
        machine: usize,
        client: usize,
        request: RequestNo,
        outcome: Produced,
    ) {
        let life = self.machines[machine].life;
        let payload = Payload::AcceptAnswer { request, outcome };
        self.send(Message { from: machine, to: client, life, payload, line: 0 });
    }

    /// Hands records to the log, which writes them soon.
    fn hand_in(
        &mut self,
        machine: usize,
        who: Whose,
        parcels: Vec<Parcel>,
        let_in: LetIn,
    ) -> Result<(), AcceptFault> {
        let (now, paused_before) = (self.now, self.machines[machine].paused_for);
        let process = self.machines[machine].process.as_mut().expect("it runs");
        let it = &mut process.accepting;
        let ids = parcels.iter().map(|parcel| id_of(&parcel.record)).collect();
        let first = parcels.first().ok_or(AcceptFault::Busy)?;
        // All records of a batch go the same way.
        let (topic, route) = (first.topic, first.route);
        let ticket = it.log.submit(parcels).map_err(|error| match error {
            IngressError::TooLarge { .. } => AcceptFault::TooLarge,
            _ => AcceptFault::Busy,
        })?;
        it.let_in.records += let_in.records;
        it.let_in.bytes += let_in.bytes;
        let wrote_before = it.wrote(now);
        let came = now;
        let guest =
            Guest { who, ids, topic, route, let_in, ticket, came, wrote_before, paused_before };
        it.waiting.push(guest);
        self.write_ingress_soon(machine);
        Ok(())
    }

    /// Begins a write, unless one is under way or nothing waits.
    fn write_ingress_soon(&mut self, machine: usize) {
        let now = self.now;
        let disk = &self.setup.scenario.disk;
        let range = disk.sync.least..=disk.sync.most;
        let it = &mut self.machines[machine];
        let Some(process) = it.process.as_mut() else { return };
        if process.accepting.writing.is_some() || process.accepting.waiting.is_empty() {
            return;
        }
        process.accepting.writing = Some(now);
        let delay = it.slower_by + it.latency.duration(range);
        let at = self.after_disk(machine, delay);
        self.meet_accept(Stage::Effect, machine, at, Local::WriteIngress);
    }

    /// Goes on with a write, unless a step holds it up.
    fn meet_accept(&mut self, stage: Stage, machine: usize, at: Time, next: Local) {
        match self.meet(Moment::new(stage, ACCEPT, machine)) {
            Verdict::Gone => {}
            Verdict::Hold(label) => {
                let life = self.machines[machine].life;
                self.script.keep(label, Due::Local { machine, life, what: next });
            }
            Verdict::Later(later) => self.local(machine, later.max(at), next),
            Verdict::Pass
            | Verdict::Drop
            | Verdict::Twice(_)
            | Verdict::Record(_)
            | Verdict::Corrupt
            | Verdict::Fail(_)
            | Verdict::Crash(..) => self.local(machine, at, next),
        }
    }

    /// Writes what was handed in: from here on it is durable, and nobody knows.
    pub(super) fn write_ingress(&mut self, machine: usize) {
        let now = self.now;
        let it = &mut self.machines[machine];
        it.disk.set_now(it.clock.wall_ms(now));
        self.chance_of_error(machine);
        let it = &mut self.machines[machine];
        let process = it.process.as_mut().expect("it runs");
        process.accepting.log.commit_waiting();
        let pause = Duration::from_micros(1 + it.latency.below(20));
        self.meet_accept(Stage::Performed, machine, now.after(pause), Local::TellIngress);
    }

    /// Tells the node of what has become durable, then the producers.
    pub(super) fn tell_ingress(&mut self, machine: usize) {
        let now = self.now;
        let Some(process) = self.machines[machine].process.as_mut() else { return };
        let it = &mut process.accepting;
        if let Some(since) = it.writing.take() {
            it.wrote_for += now.since(since);
        }
        if !self.settle_ingress(machine) {
            return;
        }
        if self
            .meet(Moment { ending: Some(Ending::Ok), ..Moment::new(Stage::Done, ACCEPT, machine) })
            == Verdict::Gone
        {
            return;
        }
        self.write_ingress_soon(machine);
        self.ingress_is_closed(machine);
    }

    /// Tells of everything whose write has ended. Returns whether the process goes on.
    fn settle_ingress(&mut self, machine: usize) -> bool {
        let life = self.machines[machine].life;
        let Some(process) = self.machines[machine].process.as_mut() else { return false };
        let it = &mut process.accepting;
        let waybills = it.take_durable();
        let mut ended = Vec::new();
        let mut at = 0;
        while at < it.waiting.len() {
            if let Some(answer) = it.waiting[at].ticket.take() {
                ended.push((it.waiting.remove(at), answer));
            } else {
                at += 1;
            }
        }
        for (guest, _) in &ended {
            it.let_in.records -= guest.let_in.records;
            it.let_in.bytes -= guest.let_in.bytes;
        }
        let failed = ended.iter().find_map(|(_, answer)| answer.as_ref().err()).cloned();
        if let Some(node) = self.machines[machine].node {
            for (guest, answer) in &ended {
                let Ok(accepted) = answer else { continue };
                let Guest { ids, topic, route, let_in, .. } = guest;
                let (topic, route, first, bytes) = (*topic, *route, accepted.first, let_in.bytes);
                self.observe(Fact::Ingested { node, topic, route, first, ids, bytes });
            }
        }
        self.tell_of_waybills(machine, waybills);
        for (guest, answer) in ended {
            if self.machines[machine].life != life {
                return false;
            }
            self.answer_guest(machine, guest, answer.err());
        }
        if failed.is_some_and(|error| error.needs_reopening()) {
            self.ingress_is_poisoned(machine);
        }
        self.machines[machine].life == life
    }

    fn tell_of_waybills(&mut self, machine: usize, waybills: Vec<Waybill>) {
        if !waybills.is_empty() {
            self.tell(machine, Event::Accepted(waybills));
        }
    }

    fn answer_guest(&mut self, machine: usize, guest: Guest, failed: Option<IngressError>) {
        let (now, Some(node)) = (self.now, self.machines[machine].node) else { return };
        match (guest.who, failed) {
            (Whose::Producer { machine: client, request }, None) => {
                let paused = self.machines[machine].paused_for.saturating_sub(guest.paused_before);
                let process = self.machines[machine].process.as_ref();
                let wrote = process.map_or(Duration::ZERO, |it| it.accepting.wrote(now));
                let disk = wrote.saturating_sub(guest.wrote_before) + paused;
                let (ids, topic, took) = (&guest.ids, guest.topic, now.since(guest.came));
                self.observe(Fact::Accepted { node, topic, ids, took, disk });
                self.recorder.count_many("accepted", guest.ids.len() as u64);
                self.reply_accept(machine, client, request, Produced::Acknowledged);
            }
            (Whose::Producer { machine: client, request }, Some(_)) => {
                self.accept_refused(machine, client, request, AcceptFault::Disk);
            }
            (Whose::Salvage { op, salvaged }, failed) => {
                let salvaged = failed.is_none().then_some(salvaged);
                let outcome = Outcome::Ship(ShippingOutcome::Salvage(salvaged));
                self.performed(machine, op, outcome);
            }
        }
    }

    fn ingress_is_poisoned(&mut self, machine: usize) {
        let Some(process) = self.machines[machine].process.as_mut() else { return };
        if !std::mem::replace(&mut process.accepting.is_poisoned, true) {
            self.local(machine, self.now.after(REOPEN_EVERY), Local::ReopenIngress);
        }
    }

    /// Opens a log again whose disk has failed.
    pub(super) fn reopen_ingress(&mut self, machine: usize) {
        let now = self.now;
        let it = &mut self.machines[machine];
        it.disk.set_now(it.clock.wall_ms(now));
        let Some(process) = it.process.as_mut() else { return };
        if process.accepting.writing.is_some() || process.accepting.log.reopen().is_err() {
            return self.local(machine, now.after(REOPEN_EVERY), Local::ReopenIngress);
        }
        process.accepting.is_poisoned = false;
        let waybills = process.accepting.take_durable();
        self.recorder.line(now, Kind::Note, "ingress-reopened", Some(machine), None, None);
        // Nobody was told that these are here, and they are.
        self.tell_of_waybills(machine, waybills);
    }

    /// Accepts nothing more, and says so once what was let in is told.
    pub(super) fn close_accept(&mut self, machine: usize, op: OpId) -> Option<Outcome> {
        let process = self.machines[machine].process.as_mut()?;
        process.accepting.is_closed = true;
        if process.accepting.is_quiet() {
            return Some(Outcome::CloseAccept(true));
        }
        process.accepting.closing = Some(op);
        None
    }

    fn ingress_is_closed(&mut self, machine: usize) {
        let Some(process) = self.machines[machine].process.as_mut() else { return };
        if process.accepting.is_quiet()
            && let Some(op) = process.accepting.closing.take()
        {
            self.performed(machine, op, Outcome::CloseAccept(true));
        }
    }

    pub(super) fn open_accept(&mut self, machine: usize) {
        if let Some(process) = self.machines[machine].process.as_mut() {
            process.accepting.is_closed = false;
        }
    }

    /// Gives up what was brought to its owners.
    pub(super) fn checkpoint_ingress(
        &mut self,
        machine: usize,
        op: OpId,
        seq: Seq,
    ) -> Option<Outcome> {
        if let Some(node) = self.machines[machine].node {
            self.observe(Fact::Checkpointing { node, seq });
        }
        let process = self.machines[machine].process.as_ref()?;
        let crash = process.running.get(&op).and_then(|running| running.crash);
        self.arm(machine, crash);
        let log = Arc::clone(&self.machines[machine].process.as_ref()?.accepting.log);
        let done = log.checkpoint(seq);
        if self.crashed_within(machine, crash) {
            return None;
        }
        let done = done.map(|_| ()).map_err(|_| narad_core::dispatch::LogFault);
        Some(Outcome::Ship(ShippingOutcome::Checkpoint(done)))
    }

    /// Appends records that are here already once more.
    pub(super) fn carry(
        &mut self,
        machine: usize,
        op: OpId,
        seqs: &narad_core::dispatch::Seqs,
    ) -> Option<Outcome> {
        let process = self.machines[machine].process.as_ref()?;
        let crash = process.running.get(&op).and_then(|running| running.crash);
        self.arm(machine, crash);
        let log = Arc::clone(&self.machines[machine].process.as_ref()?.accepting.log);
        let carried = log.carry(seqs.iter());
        if self.crashed_within(machine, crash) {
            return None;
        }
        if let (Ok(carried), Some(node)) = (&carried, self.machines[machine].node) {
            let (seqs, first): (Vec<Seq>, _) = (seqs.iter().collect(), carried.first);
            self.observe(Fact::Carried { node, seqs: &seqs, first });
            self.recorder.count_many("carried", seqs.len() as u64);
        }
        let is_poisoned = carried.as_ref().err().is_some_and(IngressError::needs_reopening);
        let result =
            carried.map(|carried| carried.first).map_err(|_| narad_core::dispatch::LogFault);
        self.performed(machine, op, Outcome::Ship(ShippingOutcome::Carry(result)));
        // Whoever waited for the next write was written with it.
        if self.settle_ingress(machine) {
            self.ingress_is_closed(machine);
        }
        if is_poisoned {
            self.ingress_is_poisoned(machine);
        }
        None
    }

    /// Accepts once more what a flip has left in a directory.
    pub(super) fn salvage(
        &mut self,
        machine: usize,
        op: OpId,
        partition: PartitionId,
        data: Attempt,
        from: Offset,
    ) -> Option<Outcome> {
        let nothing = Some(Outcome::Ship(ShippingOutcome::Salvage(None)));
        let disk = &self.machines[machine].disk;
        let Ok(found) = scan(disk, &log_dir(partition, data)) else { return nothing };
        let from = from.max(found.start);
        let is_whole = found.damage.is_empty();
        let left: Vec<_> =
            found.records.into_iter().filter(|(offset, _)| *offset >= from).collect();
        let end = found.end.max(from);
        if !is_whole || left.len() as u64 != end.0 - from.0 {
            return nothing;
        }
        let route = Route::Partition(partition.index);
        let topic = partition.topic;
        let parcels: Vec<Parcel> =
            left.into_iter().map(|(_, record)| Parcel { topic, route, record }).collect();
        let more = size_of(&parcels);
        let salvaged = Salvaged { from, end, bytes: more.bytes };
        if parcels.is_empty() {
            return Some(Outcome::Ship(ShippingOutcome::Salvage(Some(salvaged))));
        }
        let process = self.machines[machine].process.as_ref()?;
        let room = process.accepting.room.map(|room| Room { draining: false, ..room });
        let let_in = process.accepting.let_in;
        let fits = room.is_some_and(|room| {
            room.admit(let_in.records + more.records, let_in.bytes + more.bytes).is_ok()
        });
        let who = Whose::Salvage { op, salvaged };
        if !fits || self.hand_in(machine, who, parcels, more).is_err() {
            return nothing;
        }
        None
    }
}
