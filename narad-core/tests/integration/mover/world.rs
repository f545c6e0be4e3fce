//! A mover, a source, a disk and a row, and what may happen to them at each operation.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use narad_core::config::Config;
use narad_core::effects::{Effects, OpId};
use narad_core::ids::*;
use narad_core::metastore::*;
use narad_core::mover::*;
use narad_core::partition::*;
use narad_core::time::Instant;

use super::disk::Disk;
use super::row::{A, B, C, PARTITION, Replicated};
use super::source::{RECORD, Source};

mod check;
mod perform;

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
    /// The source dies first, and returns after so many seconds.
    SourceFlap(u64),
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
    /// How long the throttle is said to have held back each copy.
    pub(super) throttled: Duration,
    pub(super) nanos_per_byte: u64,
    pub(super) promote_after: Duration,
    /// Tail of the last freeze, and whether every life's resumption is checked (R61).
    pub(super) frozen_tail: Option<u64>,
    pub(super) check_resume: bool,
    /// Whether the mover has been told that its source is dead.
    knows_dead: bool,
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
            throttled: Duration::ZERO,
            nanos_per_byte: 1_000,
            promote_after: Duration::from_mins(2),
            frozen_tail: None,
            check_resume: false,
            knows_dead: false,
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
        if let Event::Source(_, health) = &event {
            self.knows_dead = matches!(health, SourceHealth::Dead { .. });
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
        self.knows_dead = false;
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

    pub(super) fn happen(&mut self, twist: Twist) {
        match twist {
            Twist::Fail(_) | Twist::LoseAnswer | Twist::ApplyLate => unreachable!(),
            Twist::SourceRestart => self.restart_source(),
            Twist::SourceDeath => self.kill_source(),
            Twist::SourceFlap(seconds) => {
                self.kill_source();
                self.flap_until = Some(self.now.after(Duration::from_secs(seconds)));
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
}
