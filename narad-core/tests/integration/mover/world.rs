//! A mover, a source, a disk and a row, and what may happen to them at each operation.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use narad_core::config::Config;
use narad_core::effects::{Effects, OpId};
use narad_core::ids::*;
use narad_core::metastore::*;
use narad_core::mover::Outcome;
use narad_core::mover::*;
use narad_core::partition::*;
use narad_core::peer::Refusal;
use narad_core::proposals::Proposed;
use narad_core::time::Instant;

use super::disk::{Directory, Disk};
use super::row::{A, B, C, PARTITION, Replicated};
use super::source::{RECORD, Source, checksum};

/// What happens at one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twist {
    /// It is not done, and its answer says so.
    Fail(Fault),
    /// It is done, and its answer is lost.
    LoseAnswer,
    /// Its answer is lost; if it is a proposal, it is applied much later.
    ApplyLate,
    /// The source starts again first.
    SourceRestart,
    /// The source dies first, for good.
    SourceDeath,
    /// The source dies first, and returns after a minute.
    SourceFlap,
    /// The plan is changed to another target first.
    Retarget,
    /// The plan is cancelled first.
    Cancel,
    /// The plan is cancelled and made again first.
    Replan,
    /// The topic is deleted first.
    Delete,
    /// Retention deletes a segment at the source first.
    Reap,
    /// Records are produced first.
    Produce(u64),
}

pub(super) struct World {
    pub(super) config: Config,
    pub(super) source: Source,
    pub(super) disk: Disk,
    pub(super) replicated: Replicated,
    pub(super) mover: Mover,
    pub(super) out: Effects<Effect>,
    pub(super) inbox: VecDeque<Event>,
    pub(super) now: Instant,
    pub(super) life: u64,
    pub(super) notes: Vec<Note>,
    /// Names of the operations of all lives, in order.
    pub(super) operations: Vec<&'static str>,
    pub(super) twists: BTreeMap<usize, Twist>,
    /// Proposals that were answered Unknown and may still be applied.
    pub(super) museum: Vec<Command>,
    /// So many flips get no answer and go to the museum.
    pub(super) lost_flips: u32,
    pub(super) acked: BTreeMap<u64, u64>,
    pub(super) copied_bytes: u64,
    /// Written at the source per hundred bytes copied.
    pub(super) write_percent: u64,
    pub(super) nanos_per_byte: u64,
    pub(super) promote_after: Duration,
    /// Tail of the last freeze, and whether every life's resumption is checked (R61).
    pub(super) frozen_tail: Option<u64>,
    pub(super) check_resume: bool,
    vouched: BTreeMap<Offset, u64>,
    written: u64,
    outstanding: BTreeSet<OpId>,
    flap_until: Option<Instant>,
    last_row: Option<Assignment>,
}

/// Small numbers, so that a few kilobytes make several passes and segments.
pub(super) fn config() -> Config {
    let mut config = Config::new(11);
    config.lag_bytes = 4 * RECORD;
    config.chunk_bytes_max = 100;
    config.chunks_in_flight_max = 3;
    config
}

impl World {
    pub(super) fn new(source: Source) -> Self {
        Self::with(config(), source)
    }

    pub(super) fn with(config: Config, source: Source) -> Self {
        let mut out = Effects::default();
        let me = Me { node: B, incarnation: Incarnation(1) };
        let now = Instant::ORIGIN;
        let mover = Mover::new(now, me, PARTITION, config.clone(), Recovered::default(), &mut out);
        let replicated = Replicated::new();
        let mut world = Self {
            config,
            last_row: replicated.row.clone(),
            source,
            disk: Disk::default(),
            replicated,
            mover,
            out,
            inbox: VecDeque::new(),
            now,
            life: 1,
            notes: vec![],
            operations: vec![],
            twists: BTreeMap::new(),
            museum: vec![],
            lost_flips: 0,
            acked: BTreeMap::new(),
            copied_bytes: 0,
            write_percent: 0,
            nanos_per_byte: 1_000,
            promote_after: Duration::from_secs(120),
            frozen_tail: None,
            check_resume: false,
            vouched: BTreeMap::new(),
            written: 0,
            outstanding: BTreeSet::new(),
            flap_until: None,
        };
        world.acknowledge();
        world.tell_health();
        world
    }

    /// Delivers one event, or waits for the next deadline; false if nothing would ever happen.
    pub(super) fn step(&mut self) -> bool {
        self.flush();
        if self.mover.deadline().is_some_and(|deadline| deadline.at <= self.now) {
            self.deliver(Event::Wake);
            let deadline = self.mover.deadline();
            assert!(deadline.is_none_or(|d| d.at > self.now), "it spins on {deadline:?}");
            return true;
        }
        let Some(event) = self.inbox.pop_front() else { return self.wait() };
        self.deliver(event);
        true
    }

    /// Runs until an operation of that name has been performed for the n-th time; its answer, and
    /// those of others that run beside it, are in the inbox.
    pub(super) fn until(&mut self, name: &str, n: usize) {
        loop {
            self.flush();
            if self.count(name) >= n {
                return;
            }
            assert!(self.step(), "no {name}: {:?}", self.mover.progress());
        }
    }

    pub(super) fn deliver(&mut self, event: Event) {
        if let Event::Done(op, _) = &event {
            assert!(self.outstanding.remove(op), "an operation has one answer");
        }
        let was_over = self.mover.is_over();
        self.mover.handle(self.now, event, &mut self.out);
        assert!(!was_over || self.out.is_empty(), "an ended move is quiet: {:?}", self.out);
        if self.mover.is_over() {
            assert!(self.outstanding.is_empty(), "over while {:?} run", self.outstanding);
        }
        self.check();
    }

    fn wait(&mut self) -> bool {
        let mut at = self.mover.deadline().map(|deadline| deadline.at);
        if let Some(flap) = self.flap_until {
            at = Some(at.map_or(flap, |at| at.min(flap)));
        }
        let Some(at) = at else { return false };
        self.now = self.now.max(at);
        self.tick();
        self.deliver(Event::Wake);
        true
    }

    /// Runs until the move is over or waits for something that will not come.
    pub(super) fn run(&mut self) {
        for _ in 0..40_000 {
            if self.mover.is_over() && self.inbox.is_empty() && self.out.is_empty() {
                let wanted = |row: &Assignment| row.target == Some(B);
                if !self.replicated.row.as_ref().is_some_and(wanted) {
                    return;
                }
                self.start(self.life);
            }
            if !self.step() {
                return;
            }
        }
        panic!("the move does not end: {:?} {:?}", self.mover.progress(), self.mover.deadline());
    }

    /// Ends the process: what was asked for last was either done (and its answer is lost) or not.
    pub(super) fn crash(&mut self, done: bool) {
        if done {
            self.flush();
        } else {
            self.out.drain().for_each(drop);
        }
        self.inbox.clear();
        self.outstanding.clear();
        self.disk.crash();
        let vouched = self.disk.recovered().staging.map(|manifest| manifest.extents);
        self.vouched = vouched
            .unwrap_or_default()
            .into_iter()
            .map(|staged| (staged.base, staged.bytes.0))
            .collect();
        self.start(self.life + 1);
    }

    fn start(&mut self, life: u64) {
        self.life = life;
        let me = Me { node: B, incarnation: Incarnation(life) };
        let found = self.disk.recovered();
        let config = self.config.clone();
        self.mover = Mover::new(self.now, me, PARTITION, config, found, &mut self.out);
        self.tell_health();
    }

    pub(super) fn tell_health(&mut self) {
        let health = match self.replicated.dead {
            Some(generation) => SourceHealth::Dead {
                generation,
                since: self.now,
                promote_after: self.promote_after,
            },
            None => {
                SourceHealth::Alive { incarnation: Incarnation(self.replicated.source_incarnation) }
            }
        };
        self.inbox.push_back(Event::Source(A, health));
    }

    pub(super) fn tell_row(&mut self) {
        if self.last_row != self.replicated.row {
            self.last_row.clone_from(&self.replicated.row);
            self.inbox.push_back(Event::Row(self.last_row.clone()));
        }
        let over =
            |row: &Assignment, attempt: Attempt| row.owner != A || row.move_id > attempt.move_id;
        let freeze = self.source.freeze.as_ref().map(|freeze| freeze.attempt);
        if let (Some(row), Some(attempt)) = (&self.replicated.row, freeze)
            && over(row, attempt)
        {
            self.source.freeze = None;
        }
    }

    /// Whatever consumers can see counts as acknowledged, and stays so.
    fn acknowledge(&mut self) {
        let hwm = self.source.hwm();
        for segment in &self.source.segments {
            for record in segment.bytes.chunks_exact(16) {
                let offset = u64::from_le_bytes(record[..8].try_into().unwrap());
                let content = u64::from_le_bytes(record[8..].try_into().unwrap());
                if offset < hwm {
                    let known = *self.acked.entry(offset).or_insert(content);
                    assert_eq!(known, content, "the source itself lost an acknowledged record");
                }
            }
        }
    }

    pub(super) fn produce(&mut self, records: u64) {
        let owned = self.replicated.row.as_ref().is_some_and(|row| row.owner == A);
        if owned && self.replicated.dead.is_none() {
            self.source.produce(records);
            self.acknowledge();
        }
    }

    /// Lets time-driven things happen.
    fn tick(&mut self) {
        if self.flap_until.is_some_and(|until| until <= self.now) {
            self.flap_until = None;
            self.restart_source();
        }
        let expired = |freeze: &super::source::Freeze| freeze.until <= self.now;
        if self.source.reachable && self.source.freeze.as_ref().is_some_and(expired) {
            self.revoke();
        }
    }

    fn revoke(&mut self) {
        if let Some(freeze) = self.source.freeze.take() {
            let command = Command::Revoke { partition: PARTITION, token: freeze.capture.token };
            self.replicated.apply(&command);
            self.tell_row();
        }
    }

    pub(super) fn restart_source(&mut self) {
        self.source.restart();
        self.replicated.register(self.source.incarnation);
        self.tell_health();
    }

    pub(super) fn kill_source(&mut self) {
        self.source.reachable = false;
        self.source.freeze = None;
        self.replicated.mark_dead();
        self.tell_health();
    }

    /// Applies a proposal that everybody had given up.
    pub(super) fn apply_late(&mut self, at: usize) {
        let command = self.museum.remove(at);
        self.replicated.apply(&command);
        self.tell_row();
        self.check();
    }

    /// Runs what was asked for; answers go to the inbox.
    pub(super) fn flush(&mut self) {
        for effect in self.out.drain().collect::<Vec<_>>() {
            match effect {
                Effect::Note(note) => self.notes.push(note),
                Effect::Cancel(op) => assert!(self.outstanding.contains(&op)),
                Effect::Run(op, operation) => {
                    self.outstanding.insert(op);
                    let outcome = self.perform(&operation);
                    self.inbox.push_back(Event::Done(op, outcome));
                    self.tell_row();
                }
            }
        }
    }

    fn perform(&mut self, operation: &Operation) -> Outcome {
        self.now = self.now.after(Duration::from_millis(1));
        self.tick();
        let index = self.operations.len();
        self.operations.push(name(operation));
        if self.lost_flips > 0
            && let Operation::Propose(command @ Command::CompleteMove { .. }) = operation
        {
            self.lost_flips -= 1;
            self.museum.push(command.clone());
            return Outcome::Propose(Proposed::Unknown);
        }
        match self.twists.get(&index).copied() {
            None => self.execute(operation),
            Some(Twist::Fail(fault)) => failed(operation, fault),
            Some(Twist::LoseAnswer) => {
                self.execute(operation);
                failed(operation, Fault::TimedOut)
            }
            Some(Twist::ApplyLate) => {
                if let Operation::Propose(command) = operation {
                    self.museum.push(command.clone());
                }
                failed(operation, Fault::TimedOut)
            }
            Some(twist) => {
                self.happen(twist);
                self.execute(operation)
            }
        }
    }

    pub(super) fn happen(&mut self, twist: Twist) {
        match twist {
            Twist::Fail(_) | Twist::LoseAnswer | Twist::ApplyLate => unreachable!(),
            Twist::SourceRestart => self.restart_source(),
            Twist::SourceDeath => self.kill_source(),
            Twist::SourceFlap => {
                self.kill_source();
                self.flap_until = Some(self.now.after(Duration::from_secs(60)));
            }
            Twist::Retarget => self.replicated.set_target(Some(C)),
            Twist::Cancel => self.replicated.set_target(None),
            Twist::Replan => {
                self.replicated.set_target(None);
                self.replicated.set_target(Some(B));
            }
            Twist::Delete => self.replicated.row = None,
            Twist::Reap => self.source.reap(),
            Twist::Produce(records) => self.produce(records),
        }
        self.tell_row();
    }

    fn staging(&mut self) -> &mut Directory {
        self.disk.staging.get_or_insert_default()
    }

    fn execute(&mut self, operation: &Operation) -> Outcome {
        match operation {
            Operation::ReadRow => Outcome::ReadRow(Ok(self.replicated.row.clone())),
            Operation::List { check, move_id, .. } => {
                Outcome::List(self.ask_source(*move_id).map(|()| self.source.list(check)))
            }
            Operation::Copy { base, position, bytes, .. } => {
                Outcome::Copy(self.copy(*base, *position, *bytes))
            }
            Operation::Checkpoint(manifest) => {
                self.staging().checkpoint(manifest);
                Outcome::Checkpoint(Ok(()))
            }
            Operation::Trim { keep } => {
                self.staging().trim(keep);
                for (base, vouched) in &mut self.vouched {
                    let kept = keep.iter().find(|staged| staged.base == *base);
                    *vouched = (*vouched).min(kept.map_or(0, |staged| staged.bytes.0));
                }
                Outcome::Trim(Ok(()))
            }
            Operation::ReachLeader => Outcome::ReachLeader(Ok(())),
            Operation::Probe { .. } => Outcome::Probe(Ok(())),
            Operation::Prepare { attempt, .. } => {
                let (now, ttl) = (self.now, self.config.freeze_ttl);
                let capture = self
                    .ask_source(attempt.move_id)
                    .and_then(|()| self.source.prepare(*attempt, now, ttl));
                if let Ok(capture) = &capture {
                    self.frozen_tail = Some(self.tail(&capture.listing));
                }
                Outcome::Prepare(capture)
            }
            Operation::Renew { token, .. } => Outcome::Renew(self.renew(*token)),
            Operation::Release { token, .. } => {
                if self.source.freeze.as_ref().is_some_and(|f| f.capture.token == *token) {
                    self.revoke();
                }
                Outcome::Release(Ok(()))
            }
            Operation::Verify(boundary) => {
                Outcome::Verify(Ok(self.staging().verify(boundary.start)))
            }
            Operation::Install { attempt, sidecar, manifest } => {
                let mut staging = self.disk.staging.take().expect("installed from staging");
                staging.checkpoint(manifest);
                staging.sidecar = Some(sidecar.clone());
                assert!(self.disk.installed.insert(*attempt, staging).is_none());
                Outcome::Install(Ok(()))
            }
            Operation::Propose(command) => {
                let reply = self.replicated.apply(command);
                Outcome::Propose(Proposed::Replied(reply))
            }
            Operation::Restage { attempt } => {
                self.assert_not_live(*attempt);
                if let Some(directory) = self.disk.installed.remove(attempt) {
                    assert!(self.disk.staging.replace(directory).is_none());
                }
                Outcome::Restage(Ok(()))
            }
            Operation::SetAside(what) => {
                self.set_aside(*what);
                Outcome::SetAside(Ok(()))
            }
        }
    }

    fn ask_source(&self, move_id: MoveId) -> Result<(), Fault> {
        if !self.source.reachable {
            return Err(Fault::Unreachable);
        }
        match &self.replicated.row {
            Some(row) if row.owner == A && row.target == Some(B) && row.move_id == move_id => {
                Ok(())
            }
            Some(_) | None => Err(Fault::Refused(Refusal::NoSuchMove)),
        }
    }

    fn copy(&mut self, base: Offset, position: u64, bytes: u64) -> Result<Copied, Fault> {
        if !self.source.reachable {
            return Err(Fault::Unreachable);
        }
        let data = self.source.read(base, position, bytes)?;
        if self.check_resume {
            let vouched = self.vouched.get(&base).copied().unwrap_or(0);
            assert!(position >= vouched, "{base:?} is copied from {position} again, not {vouched}");
        }
        let len = data.len() as u64;
        self.copied_bytes += len;
        self.now = self.now.after(Duration::from_nanos(len * self.nanos_per_byte));
        self.written += len * self.write_percent;
        let records = self.written / (100 * RECORD);
        self.written -= records * 100 * RECORD;
        self.produce(records);
        let staged = self.staging().write(base, position, &data);
        Ok(Copied { staged, throttled: Duration::ZERO })
    }

    fn renew(&mut self, token: Token) -> Result<(), Fault> {
        let until = self.now.after(self.config.freeze_ttl);
        match &mut self.source.freeze {
            _ if !self.source.reachable => Err(Fault::Unreachable),
            Some(freeze) if freeze.capture.token == token => {
                freeze.until = until;
                Ok(())
            }
            Some(_) | None => Err(Fault::Refused(Refusal::NoSuchFreeze)),
        }
    }

    fn tail(&self, listing: &Listing) -> u64 {
        let staged = |base: Offset| {
            let file = self.disk.staging.as_ref().and_then(|staging| staging.files.get(&base));
            file.map_or(0, |file| file.len() as u64)
        };
        let left = |extent: &Extent| extent.bytes.0.saturating_sub(staged(extent.base));
        listing.extents.iter().map(left).sum()
    }

    fn set_aside(&mut self, what: What) {
        let ours = self.replicated.row.as_ref().is_none_or(|row| row.owner == B);
        let safe = ours || self.replicated.dead.is_none();
        assert!(safe, "{what:?} is set aside while its source is dead (case C54)");
        match what {
            What::Staging => self.disk.staging = None,
            What::Installed(attempt) => {
                self.assert_not_live(attempt);
                self.disk.installed.remove(&attempt);
            }
        }
        self.disk.set_aside += 1;
    }

    /// No command that is still under way may make this directory live (H2).
    fn assert_not_live(&self, touched: Attempt) {
        let row = self.replicated.row.as_ref();
        assert!(row.is_none_or(|row| row.data != touched), "{touched:?} is live");
        for command in &self.museum {
            if let Command::CompleteMove { attempt, .. } = command
                && *attempt == touched
            {
                let reply = self.replicated.clone().apply(command);
                assert!(matches!(reply, Reply::Rejected(_)), "{touched:?} may still win");
            }
        }
    }

    /// S1, S3, S4: whoever owns has the data.
    fn check(&self) {
        let Some(row) = &self.replicated.row else { return };
        if row.owner != B {
            return;
        }
        let directory = self.disk.installed.get(&row.data).expect("the owner has its directory");
        let sidecar = directory.sidecar.as_ref().expect("an installed copy has a sidecar");
        let verified = directory.verify(sidecar.start);
        assert!(verified.end >= sidecar.hwm && sidecar.hwm >= row.min_end);
        let forced = self.notes.iter().any(|note| matches!(note, Note::Moved { forced: true, .. }))
            || self.replicated.dead.is_some();
        for (&offset, &content) in self.acked.range(sidecar.start.0..) {
            match record(directory, offset) {
                Some(found) => assert_eq!(found, content, "offset {offset}"),
                None => assert!(forced, "acknowledged record {offset} is lost"),
            }
            assert!(forced || offset < sidecar.hwm.0, "record {offset} is hidden");
        }
        if !forced {
            let visible = self.acked.keys().next_back().map_or(sidecar.start.0, |last| last + 1);
            assert_eq!(sidecar.hwm.0, visible.max(sidecar.start.0), "the exact watermark (R41)");
        }
    }

    pub(super) fn assert_moved(&self) {
        let row = self.replicated.row.as_ref().expect("the partition exists");
        assert_eq!(row.owner, B, "{:?} {:?}", self.mover.progress(), self.notes);
        assert_eq!(self.replicated.flips, 1, "flipped exactly once");
        assert_eq!(self.disk.installed.len(), 1, "one directory, the live one");
        assert!(self.disk.staging.is_none());
        assert!(self.mover.is_over());
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.operations.iter().filter(|operation| **operation == name).count()
    }
}

fn record(directory: &Directory, offset: u64) -> Option<u64> {
    let (base, file) = directory.files.range(..=Offset(offset)).next_back()?;
    let at = usize::try_from((offset - base.0) * RECORD).unwrap();
    let record = file.get(at..at + 16)?;
    Some(u64::from_le_bytes(record[8..].try_into().unwrap()))
}

pub(super) fn name(operation: &Operation) -> &'static str {
    match operation {
        Operation::ReadRow => "read_row",
        Operation::List { .. } => "list",
        Operation::Copy { .. } => "copy",
        Operation::Checkpoint(_) => "checkpoint",
        Operation::Trim { .. } => "trim",
        Operation::ReachLeader => "reach_leader",
        Operation::Probe { .. } => "probe",
        Operation::Prepare { .. } => "prepare",
        Operation::Renew { .. } => "renew",
        Operation::Release { .. } => "release",
        Operation::Verify(_) => "verify",
        Operation::Install { .. } => "install",
        Operation::Propose(Command::Resolve { .. }) => "resolve",
        Operation::Propose(_) => "flip",
        Operation::Restage { .. } => "restage",
        Operation::SetAside(_) => "set_aside",
    }
}

pub(super) fn failed(operation: &Operation, fault: Fault) -> Outcome {
    match operation {
        Operation::ReadRow => Outcome::ReadRow(Err(fault)),
        Operation::List { .. } => Outcome::List(Err(fault)),
        Operation::Copy { .. } => Outcome::Copy(Err(fault)),
        Operation::Checkpoint(_) => Outcome::Checkpoint(Err(fault)),
        Operation::Trim { .. } => Outcome::Trim(Err(fault)),
        Operation::ReachLeader => Outcome::ReachLeader(Err(fault)),
        Operation::Probe { .. } => Outcome::Probe(Err(fault)),
        Operation::Prepare { .. } => Outcome::Prepare(Err(fault)),
        Operation::Renew { .. } => Outcome::Renew(Err(fault)),
        Operation::Release { .. } => Outcome::Release(Err(fault)),
        Operation::Verify(_) => Outcome::Verify(Err(fault)),
        Operation::Install { .. } => Outcome::Install(Err(fault)),
        Operation::Propose(_) => Outcome::Propose(Proposed::Unknown),
        Operation::Restage { .. } => Outcome::Restage(Err(fault)),
        Operation::SetAside(_) => Outcome::SetAside(Err(fault)),
    }
}

/// A checksum is what the source says of the same bytes.
#[test]
fn the_disk_and_the_source_agree_on_checksums() {
    let mut directory = Directory::default();
    let staged = directory.write(Offset(0), 0, &[1, 2, 3]);
    assert_eq!(staged.checksum, checksum(&[1, 2, 3]));
}
