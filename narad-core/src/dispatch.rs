//! The way of an accepted record to the partition's owner.
//!
//! # Purpose
//!
//! A node accepts records of any topic into its ingress log, whatever the state of their partitions
//! (H23, L4). This machine brings each of them at least once to whoever owns its partition: in
//! batches, one at a time for each partition, so that they are appended in the order in which they
//! were accepted; each partition and each node by itself, so that what is stuck holds up nothing
//! else (cases R159, T29).
//!
//! # States
//!
//! Of a record:
//!
//! ```text
//!           its topic is known        batch sent            taken
//! unplaced ───────────────────▶ waiting ─────────▶ bound ─────────▶ arrived
//!    │                            │   ▲              │ ▲
//!    │                            │   └── not sent ──┘ └─ refused, or nobody knows:
//!    │                            │                       sent again, to the owner there is then
//!    │                            └── keyed, and its partition is shut: bound to a sibling
//!    └──────── the topic is gone, as a barrier shows: dropped ◀── waiting, bound
//! ```
//!
//! A partition is *shut* while it is frozen, while its owner is dead, and when it has taken nothing
//! for `reroute_after`.
//!
//! # Invariants
//!
//! 1. The checkpoint neither passes nor names a record that has not arrived, was not dropped and is
//!    not damaged (S11).
//! 2. A record that an owner may have, in whatever batch, stays with that partition: only there a
//!    second copy can be told from the first (R36, R37).
//! 3. One batch under way for each partition, and the same number for the same records until they
//!    are taken: within one reign, and while neither end restarts, a partition gets the records that
//!    are its own in the order of acceptance, once. A keyed one that was on its way to a sibling, which
//!    then could not be reached, may come home late: that is the seam of a shut partition (R47).
//! 4. Records asked for by number, and those of a topic with one partition, wait for it (H23).
//! 5. Records are dropped only if their topic was not there after a barrier that began after they
//!    were accepted (case R162).
//! 6. At most `sends_in_flight_max` batches are under way, and a node never has more of them than
//!    are left for others; one that does not answer has one. Each partition with something to send
//!    has its turn. At most [`Dispatch::EFFECTS_MAX`] effects of one event, and two for each batch
//!    that may be under way (asserted).
//! 7. A record that waits takes 12 bytes, or 16 while its topic is unknown, one more for each
//!    position from the checkpoint on, and some for each partition with something to send.
//! 8. It never gives up: every pause ends in another try (L1).
//!
//! # After a restart
//!
//! Everything that the last checkpoint does not name is waiting again and bound to nothing: what had
//! arrived since arrives a second time, what had not is not missed (R39, S11). Beyond the lowest
//! position that is needed a checkpoint names ranges, or one stuck record would have all that was
//! accepted since sent again; a clean stop makes a last one.
//!
//! # Example
//!
//! A record of a topic that this node's replica does not have: its absence is looked at behind a
//! barrier before anything is dropped.
//!
//! ```
//! use narad_core::config::Config;
//! use narad_core::dispatch::{Dispatch, Effect, Event, Found, Note, Operation, Outcome};
//! use narad_core::dispatch::{Route, Waybill};
//! use narad_core::effects::Effects;
//! use narad_core::ids::{Incarnation, NodeId, Seq, TopicId};
//! use narad_core::metastore::State;
//! use narad_core::time::Instant;
//!
//! let (now, state, mut out) = (Instant::ORIGIN, State::new(), Effects::default());
//! let found = Found { next: Seq(0), waybills: [], closed: false };
//! let mut dispatch =
//!     Dispatch::new(&Config::new(1), NodeId(4), Incarnation(1), found, &mut out);
//! assert!(dispatch.admit(1, 90).is_ok());
//! let waybill = Waybill { seq: Seq(0), topic: TopicId(7), route: Route::Any, bytes: 90 };
//! dispatch.handle(now, &state, Event::Accepted(vec![waybill]), &mut out);
//!
//! let effects: Vec<Effect> = out.drain().collect();
//! let [Effect::Run(op, Operation::Barrier)] = effects[..] else { panic!("{effects:?}") };
//! dispatch.handle(now, &state, Event::Done(op, Outcome::Barrier(Ok(()))), &mut out);
//! let dropped = Note::Dropped { topic: TopicId(7), records: 1, bytes: 90 };
//! assert!(out.as_slice().contains(&Effect::Note(dropped)));
//! assert_eq!(dispatch.backlog().records, 0);
//! ```

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use crate::config::Config;
use crate::effects::{Deadline, Effects, OpId, Ops};
use crate::ids::{Incarnation, NodeId, PartitionId, TopicId};
use crate::metastore::State;
use crate::pause::Pauses;
use crate::rate::Rate;
use crate::time::Instant;

use lane::{Limits, Topic};
use ledger::Ledger;
use queue::Kind;
use stop::Stop;
use turns::{Peer, Stalled};
use upkeep::{Carrying, Chore, Noted};

pub use account::{Backlog, Progress, Refusals, Refused, Room};
pub use receiver::{Receipt, Receiver};

pub use interface::{
    BatchNo, Checkpoint, Effect, Event, Found, LogFault, NoBarrier, Note, Operation, Outcome,
    Route, SendFault, Seqs, Waybill, send_limit,
};

mod account;
mod answers;
mod carry;
mod damage;
mod interface;
mod lane;
mod ledger;
mod queue;
mod receiver;
mod rows;
mod stop;
mod turns;
mod upkeep;

/// Brings accepted records to their owners; see the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dispatch {
    me: NodeId,
    life: Incarnation,
    tuning: Tuning,
    ops: Ops,
    pauses: Pauses,
    ledger: Ledger,
    topics: BTreeMap<TopicId, Topic>,
    /// Batches under way.
    sends: BTreeMap<OpId, PartitionId>,
    peers: BTreeMap<NodeId, Peer>,
    /// Topics with something that may go anywhere, in turn.
    turns: VecDeque<TopicId>,
    /// Those of them that found no room.
    stalled: BTreeMap<TopicId, Stalled>,
    /// Whose turn was the last.
    last_served: NodeId,
    /// When which partition is to be looked at again.
    alarms: BTreeSet<(Instant, PartitionId)>,
    /// Topics that are not in the applied state, with something that waits.
    absent: BTreeSet<TopicId>,
    barrier: Chore<Vec<TopicId>>,
    checkpoint: Chore<Noted>,
    /// The last durable one.
    noted: Noted,
    carry: Chore<Carrying>,
    /// Whether the rows have been looked at in this life.
    has_looked: bool,
    is_draining: bool,
    stop: Stop,
    pace: Pace,
    progress: Progress,
}

/// What the machine is tuned by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tuning {
    batch: Limits,
    in_flight_max: usize,
    backlog_bytes_max: u64,
    backlog_records_max: u64,
    reroute_after: Duration,
    checkpoint_interval: Duration,
    retry_min: Duration,
    retry_max: Duration,
}

/// How fast records arrive at their owners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Pace {
    rate: Rate,
    since: Option<Instant>,
    bytes: u64,
}

impl Dispatch {
    /// Most effects of one event, besides two for each batch that may be under way.
    pub const EFFECTS_MAX: usize = 80;

    /// Starts a life with what is in the ingress log. It asks for nothing before its first event.
    ///
    /// # Panics
    ///
    /// If what was found is not ascending, or not before its end.
    pub fn new<W: IntoIterator<Item = Waybill>>(
        config: &Config,
        me: NodeId,
        life: Incarnation,
        found: Found<W>,
        _out: &mut Effects<Effect>,
    ) -> Self {
        let mut waybills = found.waybills.into_iter().peekable();
        let first = waybills.peek().map_or(found.next, |waybill| waybill.seq);
        let mut dispatch = Self {
            me,
            life,
            tuning: Tuning::new(config),
            ops: Ops::new(life),
            pauses: Pauses::new(config, !me.0),
            ledger: Ledger::new(first),
            topics: BTreeMap::new(),
            sends: BTreeMap::new(),
            peers: BTreeMap::new(),
            turns: VecDeque::new(),
            stalled: BTreeMap::new(),
            last_served: turns::LOOSE,
            alarms: BTreeSet::new(),
            absent: BTreeSet::new(),
            barrier: Chore::default(),
            checkpoint: Chore::default(),
            noted: Noted { below: first, arrived: 0 },
            carry: Chore::default(),
            has_looked: false,
            is_draining: false,
            stop: Stop::default(),
            pace: Pace::default(),
            progress: Progress::default(),
        };
        for waybill in waybills {
            assert!(waybill.seq < found.next, "{:?} lies before the end", waybill.seq);
            dispatch.take(waybill);
        }
        dispatch.ledger.advance(found.next);
        dispatch
    }

    /// Advances the machine by one event; `state` is what the node's replica has applied.
    ///
    /// # Panics
    ///
    /// If a record is told twice, or lies below the checkpoint.
    pub fn handle(&mut self, now: Instant, state: &State, event: Event, out: &mut Effects<Effect>) {
        let before = out.as_slice().len();
        self.is_draining = state.member(self.me).is_some_and(|me| me.draining || me.retired);
        if !self.has_looked {
            self.has_looked = true;
            self.restored(now, state, out);
        }
        match event {
            Event::Wake => {}
            Event::Accepted(waybills) => self.accepted(now, state, waybills, out),
            Event::Applied(changed) => self.applied(now, state, &changed, out),
            Event::Restored => self.restored(now, state, out),
            Event::Stopping => self.stopping(now),
            Event::Done(op, outcome) => self.done(now, state, op, outcome, out),
        }
        if self.is_stopping() {
            self.wind_up(now, out);
        } else {
            self.ring(now, state, out);
            self.serve(now, state, out);
            self.keep_up(now, out);
        }
        self.pace.observe(now, self.ledger.waiting_records() > 0);
        let effects = out.as_slice().len() - before;
        let most = Self::EFFECTS_MAX + 2 * self.tuning.in_flight_max;
        assert!(effects <= most, "{effects} effects of one event");
    }

    /// Returns when the machine wants to be woken.
    pub fn deadline(&self) -> Option<Deadline> {
        if self.is_stopping() {
            return self.stop_deadline();
        }
        let alarm = self.alarms.first().map(|&(at, _)| at);
        let rest = self.peers.values().filter_map(|peer| peer.rests_until).min();
        let deadlines = [
            (alarm, "a partition that took nothing is looked at again"),
            (rest, "a node that did not answer is tried again"),
            (self.barrier.due_for(!self.absent.is_empty()), "a barrier is asked for again"),
            (self.checkpoint_due(), "a checkpoint is due"),
            (self.carry.due_for(self.is_pinned()), "records are to be carried"),
        ];
        let each = deadlines.into_iter();
        each.filter_map(|(at, why)| at.map(|at| Deadline { at, why })).min()
    }

    /// Says whether so much may be accepted now: see [`Room::admit`].
    ///
    /// # Errors
    ///
    /// If the log is full, or this node is being decommissioned.
    pub fn admit(&self, records: u64, bytes: u64) -> Result<(), Refused> {
        self.room().admit(records, bytes)
    }

    /// Returns what may be accepted now. The driver publishes it after every event, and counts off
    /// what it has let in since and not told yet.
    pub fn room(&self) -> Room {
        let Tuning { backlog_bytes_max, backlog_records_max, retry_min, retry_max, .. } =
            self.tuning;
        let soon = self.pace.rate.millis_for(backlog_bytes_max / 16);
        let soon = soon.map_or(retry_max, Duration::from_millis);
        Room {
            records: backlog_records_max.saturating_sub(self.ledger.span_records()),
            bytes: backlog_bytes_max.saturating_sub(self.ledger.span_bytes()),
            draining: self.is_draining,
            retry_after: soon.clamp(retry_min, retry_max),
            bytes_max: backlog_bytes_max,
        }
    }

    /// Returns what has been accepted and not yet arrived.
    pub fn backlog(&self) -> Backlog {
        Backlog {
            records: self.ledger.waiting_records(),
            bytes: self.ledger.waiting_bytes(),
            span_bytes: self.ledger.span_bytes(),
        }
    }

    /// Returns what has been done in this life.
    pub const fn progress(&self) -> Progress {
        self.progress
    }

    /// Returns the lowest position that is still needed: what is below has arrived.
    pub fn checkpoint(&self) -> crate::ids::Seq {
        self.ledger.checkpoint()
    }

    /// Takes one record, and returns the partition that it waits for, if it is one.
    fn take(&mut self, waybill: Waybill) -> Option<PartitionId> {
        let Waybill { seq, topic: id, route, bytes } = waybill;
        let bytes = bytes.min(Waybill::BYTES_MAX);
        self.ledger.insert(seq, bytes);
        self.progress.accepted += 1;
        let (kind, route) = match route {
            Route::Partition(index) => (Kind::Numbered, u64::from(index)),
            Route::Key(hash) => (Kind::Keyed, hash),
            Route::Any => (Kind::Loose, 0),
        };
        let topic = self.topics.entry(id).or_insert_with(|| Topic::new(id));
        let index = topic.place(queue::low(seq), kind, route, bytes);
        index.map(|index| PartitionId { topic: id, index })
    }

    fn accepted(
        &mut self,
        now: Instant,
        state: &State,
        waybills: Vec<Waybill>,
        out: &mut Effects<Effect>,
    ) {
        for waybill in waybills {
            let is_new = !self.topics.contains_key(&waybill.topic);
            let partition = self.take(waybill);
            if is_new || state.topic(waybill.topic).is_none() {
                self.look_at_topic(now, state, waybill.topic, out);
            }
            match partition {
                Some(partition) => self.look(now, state, partition, out),
                None => self.give_turn(waybill.topic),
            }
        }
    }

    fn done(
        &mut self,
        now: Instant,
        state: &State,
        op: OpId,
        outcome: Outcome,
        out: &mut Effects<Effect>,
    ) {
        match outcome {
            Outcome::Send(result) if self.sends.contains_key(&op) => {
                self.answered(now, state, op, result, out);
            }
            Outcome::Checkpoint(result) if self.checkpoint.is(op) => {
                self.checkpoint_done(now, result, out);
            }
            Outcome::Barrier(result) if self.barrier.is(op) => {
                self.barrier_done(now, state, result, out);
            }
            Outcome::Carry(result) if self.carry.is(op) => {
                self.carry_done(now, state, result, out);
            }
            Outcome::Damaged(lost) if self.sends.contains_key(&op) || self.carry.is(op) => {
                self.damaged(now, state, op, &lost, out);
            }
            Outcome::Damaged(_)
            | Outcome::Send(_)
            | Outcome::Checkpoint(_)
            | Outcome::Barrier(_)
            | Outcome::Carry(_) => {
                out.push(Effect::Note(Note::Stale(op)));
            }
        }
    }
}

impl Tuning {
    fn new(config: &Config) -> Self {
        let size = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        Self {
            batch: Limits { records: size(config.send_records_max), bytes: config.send_bytes_max },
            in_flight_max: size(config.sends_in_flight_max),
            backlog_bytes_max: config.backlog_bytes_max,
            backlog_records_max: u64::from(config.backlog_records_max),
            reroute_after: config.reroute_after,
            checkpoint_interval: config.checkpoint_interval,
            retry_min: config.retry_min,
            retry_max: config.retry_max,
        }
    }
}

impl Pace {
    /// Over which time a rate is measured.
    const WINDOW: Duration = Duration::from_secs(1);

    fn observe(&mut self, now: Instant, is_busy: bool) {
        let Some(since) = self.since else {
            self.since = is_busy.then_some(now);
            self.bytes = 0;
            return;
        };
        let elapsed = now.since(since);
        if elapsed >= Self::WINDOW {
            self.rate.observe(self.bytes, elapsed);
            *self = Self { rate: self.rate, since: is_busy.then_some(now), bytes: 0 };
        }
    }
}
