//! A node accepts records for any partition: into its ingress log, and answers (L4, R46).
//!
//! The log is the real one on the machine's disk. Its write is two events: at the first the records
//! are durable, at the second the node is told and then the producers are, so that a crash can fall
//! between any two. Records that come while a write is under way share the next.
//!
//! # Divergence from reality
//!
//! One write takes one `sync` of `[disk]`, however much is in it.

mod upkeep;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use narad_core::dispatch::{Found, Refused, Room, Route, Waybill};
use narad_core::effects::OpId;
use narad_core::ids::TopicId;
use narad_core::node::Event;
use narad_runtime::disk::Disk;
use narad_runtime::ingress::{Door, IngressError, IngressLog, Limits, Load, Parcel, Pass, Ticket};
use narad_runtime::log::LogLimits;

use super::clients::RequestNo;
use super::message::{Message, Payload, Produced};
use super::records::id_of;
use super::script::{Moment, Verdict};
use super::{Local, World};
use crate::oracle::{AcceptFault, Fact, IngressFact};
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
    door: Arc<Door>,
    /// What is durable and has not been told to the node.
    durable: Arc<Mutex<Vec<Waybill>>>,
    waiting: Vec<Guest>,
    /// When the write under way began.
    writing: Option<Time>,
    /// How long writes took that have ended.
    wrote_for: Duration,
    /// Whoever waits until nothing is under way any more.
    closing: Option<OpId>,
    /// Whether the log is to be opened again, and when that is tried is scheduled.
    is_poisoned: bool,
    /// Whether an earlier life had shut it.
    pub(crate) was_shut: bool,
}

/// Records on their way into the log.
#[derive(Debug)]
struct Guest {
    client: usize,
    request: RequestNo,
    ids: Vec<u64>,
    topic: TopicId,
    route: Route,
    load: Load,
    ticket: Ticket,
    /// Dropped when the producer is answered.
    pass: Pass,
    came: Time,
    /// How long writes had taken when it came, and processes had been paused.
    wrote_before: Duration,
    paused_before: Duration,
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
        let door = Arc::new(Door::default());
        let (tell, told) = (Arc::clone(&durable), Arc::clone(&door));
        let dispatcher = move |mut more: Vec<Waybill>| {
            told.tell(Load::of_waybills(&more));
            tell.lock().unwrap_or_else(PoisonError::into_inner).append(&mut more);
        };
        let (log, mut found) = IngressLog::open(disk, Path::new(INGRESS), limits, dispatcher)?;
        let waybills: Vec<Waybill> = found.waybills.by_ref().collect();
        found.waybills.finish()?;
        let this = Self {
            log: Arc::new(log),
            door,
            durable,
            waiting: Vec::new(),
            writing: None,
            wrote_for: Duration::ZERO,
            closing: None,
            is_poisoned: false,
            was_shut: found.shut,
        };
        Ok((this, Found { next: found.next, waybills, closed: found.shut }))
    }

    pub(crate) fn publish(&self, room: Room) {
        self.door.publish(room);
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

impl World {
    /// Records have reached a node that is to accept them.
    pub(super) fn accepts(&mut self, machine: usize, from: usize, accept: Accept) {
        let Accept { request, parcels } = accept;
        let load = Load::of(&parcels);
        let process = self.machines[machine].process.as_ref().expect("it runs");
        let refused = match process.accepting.door.enter(load) {
            Ok(pass) => self.hand_in(machine, (from, request), parcels, (load, pass)).err(),
            Err(Refused::Draining) => Some(AcceptFault::Closed),
            Err(Refused::Full { .. }) => Some(AcceptFault::Full),
            Err(Refused::TooLarge { .. }) => Some(AcceptFault::TooLarge),
        };
        if let Some(why) = refused {
            self.accept_refused(machine, (from, request), load, why);
        }
    }

    fn accept_refused(
        &mut self,
        machine: usize,
        (client, request): (usize, RequestNo),
        load: Load,
        why: AcceptFault,
    ) {
        self.recorder.count("accepts-refused");
        if let Some(node) = self.machines[machine].node {
            // What has been let in, and is not in the log yet, has its room already.
            let process = self.machines[machine].process.as_ref();
            let waiting = process.map_or(&[][..], |process| &process.accepting.waiting);
            let inside = |of: fn(&Load) -> u64| waiting.iter().map(|it| of(&it.load)).sum::<u64>();
            let records = load.records + inside(|load| load.records);
            let bytes = load.bytes + inside(|load| load.bytes);
            self.observe(Fact::Ingress(IngressFact::AcceptRefused { node, records, bytes, why }));
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
        (client, request): (usize, RequestNo),
        parcels: Vec<Parcel>,
        (load, pass): (Load, Pass),
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
        let wrote_before = it.wrote(now);
        it.waiting.push(Guest {
            client,
            request,
            ids,
            topic,
            route,
            load,
            ticket,
            pass,
            came: now,
            wrote_before,
            paused_before,
        });
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
        self.meet_write(Moment::new(stage, ACCEPT, machine), machine, at, next);
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
    pub(super) fn settle_ingress(&mut self, machine: usize) -> bool {
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
        let failed = ended.iter().find_map(|(_, answer)| answer.as_ref().err()).cloned();
        if let Some(node) = self.machines[machine].node {
            for (guest, answer) in &ended {
                let Ok(accepted) = answer else { continue };
                let Guest { ids, topic, route, load, .. } = guest;
                let (topic, route, first, bytes) = (*topic, *route, accepted.first, load.bytes);
                self.observe(Fact::Ingress(IngressFact::Ingested {
                    node,
                    topic,
                    route,
                    first,
                    ids,
                    bytes,
                }));
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
        if waybills.is_empty() {
            return;
        }
        let load = Load::of_waybills(&waybills);
        self.tell(machine, Event::Accepted(waybills));
        if let Some(process) = &self.machines[machine].process {
            process.accepting.door.heard(load);
        }
    }

    fn answer_guest(&mut self, machine: usize, guest: Guest, failed: Option<IngressError>) {
        let (now, Some(node)) = (self.now, self.machines[machine].node) else { return };
        let Guest { client, request, ids, topic, load, pass, came, .. } = guest;
        drop(pass);
        if failed.is_some() {
            let who = (client, request);
            return self.accept_refused(machine, who, load, AcceptFault::Disk);
        }
        let paused = self.machines[machine].paused_for.saturating_sub(guest.paused_before);
        let process = self.machines[machine].process.as_ref();
        let wrote = process.map_or(Duration::ZERO, |it| it.accepting.wrote(now));
        let disk = wrote.saturating_sub(guest.wrote_before) + paused;
        let took = now.since(came);
        self.observe(Fact::Ingress(IngressFact::Accepted { node, topic, ids: &ids, took, disk }));
        self.recorder.count_many("accepted", ids.len() as u64);
        self.reply_accept(machine, client, request, Produced::Acknowledged);
    }

    pub(super) fn ingress_is_poisoned(&mut self, machine: usize) {
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
}
