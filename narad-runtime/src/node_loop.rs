//! The thread that a node lives on: inbox, machine, operations, and back.
//!
//! ```text
//!  peers ──▶ inbox ──▶ Replica (Raft + Node) ──▶ Hands ──▶ disk, sockets, gates
//!              ▲                                   │
//!              └───────────── Done ◀───────────────┘
//! ```
//!
//! Nothing here decides anything about the protocol.

pub mod failpoint;
mod hands;
mod inbox;
mod notes;
mod shipping;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use narad_core::ids::LogIndex;
use narad_core::node::{AskId, Effect, Event, Node, Operation};
use narad_core::peer::RequestId;
use narad_core::time::Instant;

use crate::clock::BootClock;
use crate::ingress::Load;
use crate::raft::RaftStore;
use crate::replica::{Actions, Input, Pulse, Replica, ReplicaError};

pub use hands::{Ground, Hands, HandsSeams, NextLife};
pub use inbox::{AskFault, Letter, NodeHandle, Stopped};
use notes::Lines;
pub use notes::{Counters, Observer, Telemetry};
pub use shipping::{Ingress, NotAccepted};

/// Told whenever the replicated state may have changed.
pub trait Watcher: Send {
    /// Looks at the node; called on its own thread, so it must not block.
    fn changed(&mut self, node: &Node);
}

/// A node on its thread.
pub struct NodeLoop<S: RaftStore> {
    replica: Replica<S>,
    inbox: Receiver<Letter>,
    hands: Hands,
    clock: BootClock,
    tick: Duration,
    next_tick: Instant,
    watcher: Box<dyn Watcher>,
    observer: Box<dyn Observer>,
    lines: Lines,
    seen: LogIndex,
    pulse: Pulse,
    /// When the thread ends, whatever is still under way: it has been asked to.
    ends_by: Option<Instant>,
    requests: BTreeMap<RequestId, crate::net::ReplySender>,
    asks: BTreeMap<AskId, inbox::AskReply>,
    next_id: u64,
}

impl<S: RaftStore> std::fmt::Debug for NodeLoop<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeLoop").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl<S: RaftStore + 'static> NodeLoop<S> {
    /// Most letters that are taken from the inbox before what they have caused is made durable, and
    /// the deadlines are looked at again.
    const LETTERS_MAX: usize = 256;
    /// How long a node that is to finish may take to note what has arrived: twice what it waits for
    /// others, and the time of a disk that is slow.
    const FINISH_WAIT: Duration = Duration::from_secs(3);

    /// Binds a replica to its surroundings; `first` is what it asked for when it started.
    pub fn new(
        mut replica: Replica<S>,
        inbox: Receiver<Letter>,
        hands: Hands,
        clock: BootClock,
        tick: Duration,
        watcher: Box<dyn Watcher>,
        observer: Box<dyn Observer>,
    ) -> Self {
        replica.watch(failpoint::step);
        replica.speak_by(hands.voice());
        let next_tick = clock.now().after(tick);
        Self {
            replica,
            inbox,
            hands,
            clock,
            tick,
            next_tick,
            watcher,
            observer,
            lines: Lines::default(),
            seen: LogIndex(0),
            pulse: Pulse::default(),
            ends_by: None,
            requests: BTreeMap::new(),
            asks: BTreeMap::new(),
            next_id: 0,
        }
    }

    /// Runs the node on a thread of its own until it is told to stop or cannot go on.
    ///
    /// # Errors
    ///
    /// If the system gives no thread.
    pub fn spawn(
        mut self,
        first: Actions,
    ) -> std::io::Result<JoinHandle<Result<(), ReplicaError>>> {
        std::thread::Builder::new().name("narad-node".to_owned()).spawn(move || {
            self.lines.begin(self.replica.node());
            self.carry_out(first);
            let ended = self.run();
            if let Err(error) = &ended {
                tracing::error!(%error, "the node cannot go on");
            }
            self.hands.stop();
            ended
        })
    }

    fn run(&mut self) -> Result<(), ReplicaError> {
        loop {
            self.look();
            if self.is_at_its_end() {
                return Ok(());
            }
            let letter = match self.inbox.recv_timeout(self.pause()) {
                Ok(letter) => Some(letter),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let mut next = letter;
            for _ in 0..Self::LETTERS_MAX {
                let Some(letter) = next else { break };
                if matches!(letter, Letter::Stop) {
                    return Ok(());
                }
                self.open(letter)?;
                next = self.inbox.try_recv().ok();
            }
            let stops = matches!(next, Some(Letter::Stop));
            if let Some(letter) = next {
                self.open(letter)?;
            }
            self.proceed()?;
            if stops {
                return Ok(());
            }
            self.keep_time()?;
        }
    }

    /// Whether a node that is to finish has, or has had its time.
    fn is_at_its_end(&self) -> bool {
        self.ends_by.is_some_and(|by| self.replica.node().has_stopped() || by <= self.clock.now())
    }

    /// Returns how long nothing is to be done.
    fn pause(&self) -> Duration {
        let wake = self.replica.deadline().map_or(self.next_tick, |deadline| deadline.at);
        wake.min(self.next_tick).since(self.clock.now())
    }

    fn keep_time(&mut self) -> Result<(), ReplicaError> {
        let now = self.clock.now();
        let ticks = now >= self.next_tick;
        if ticks {
            // A thread that slept ticks once: Raft must not count sleep as silence of its peers.
            self.next_tick = now.after(self.tick);
            self.feed(Input::Tick)?;
        }
        let wakes = self.replica.deadline().is_some_and(|deadline| deadline.at <= now);
        if wakes {
            self.tell(Event::Wake)?;
        }
        if ticks || wakes { self.proceed() } else { Ok(()) }
    }

    fn open(&mut self, letter: Letter) -> Result<(), ReplicaError> {
        match letter {
            Letter::Raft { from, bytes } => self.feed(Input::Message { from, bytes: &bytes }),
            Letter::Unreachable(peer) => self.feed(Input::Unreachable(peer)),
            Letter::SnapshotSent { to, arrived } => self.feed(Input::SnapshotSent { to, arrived }),
            Letter::Done(op, outcome) => {
                self.hands.forget(op);
                self.tell(Event::Done(op, outcome))
            }
            Letter::Request { from, request, reply } => {
                let id = RequestId(self.mint());
                self.requests.insert(id, reply);
                self.tell(Event::Request { id, from, request })
            }
            Letter::Ask { ask, reply } => {
                let id = AskId(self.mint());
                self.asks.insert(id, reply);
                self.tell(Event::Ask { id, ask })
            }
            Letter::Poisoned(partition) => self.tell(Event::Poisoned(partition)),
            Letter::Accepted(waybills) => {
                let load = Load::of_waybills(&waybills);
                let told = self.tell(Event::Accepted(waybills));
                self.hands.heard(load);
                told
            }
            Letter::Query(query) => {
                query(self.replica.node());
                Ok(())
            }
            Letter::Finish => {
                self.ends_by = Some(self.clock.now().after(Self::FINISH_WAIT));
                self.tell(Event::Stopping)
            }
            Letter::Stop => Ok(()),
        }
    }

    fn mint(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn tell(&mut self, event: Event) -> Result<(), ReplicaError> {
        self.feed(Input::Event(Box::new(event)))
    }

    /// Tells the replica something; what follows from it in the log comes with
    /// [`proceed`](Self::proceed).
    fn feed(&mut self, input: Input<'_>) -> Result<(), ReplicaError> {
        let mut actions = Actions::default();
        let fed = self.replica.take(self.clock.now(), input, &mut actions);
        self.carry_out(actions);
        fed
    }

    /// Makes durable what was taken in, in one go, and does what follows from it.
    fn proceed(&mut self) -> Result<(), ReplicaError> {
        let mut actions = Actions::default();
        let proceeded = self.replica.proceed(self.clock.now(), &mut actions);
        self.carry_out(actions);
        proceeded
    }

    fn carry_out(&mut self, actions: Actions) {
        for message in actions.messages {
            self.hands.send(message);
        }
        for effect in actions.effects {
            match effect {
                Effect::Run(op, operation) => self.run_operation(op, operation),
                Effect::Cancel(op) => self.hands.cancel(op),
                Effect::Answer(id, answer) => {
                    if let Some(reply) = self.requests.remove(&id) {
                        self.hands.answer(reply, answer);
                    }
                }
                Effect::Reply(id, said) => {
                    if let Some(reply) = self.asks.remove(&id) {
                        // Whoever asked may be gone.
                        drop(reply.send(said));
                    }
                }
                Effect::Authority(authority) => self.hands.publish(authority),
                Effect::Room(room) => self.hands.room(room),
                Effect::Note(note) => {
                    self.lines.log(&note, self.replica.node());
                    self.observer.note(&note);
                }
                // The replica turns it into its own error.
                Effect::Stop(_) => {}
            }
        }
    }

    fn run_operation(&mut self, op: narad_core::effects::OpId, operation: Operation) {
        failpoint::before(&operation);
        self.hands.run(op, operation);
    }

    /// Shows the watcher what has changed since it last looked.
    fn look(&mut self) {
        let pulse = self.replica.pulse();
        if pulse != self.pulse {
            self.pulse = pulse;
            self.observer.pulse(&pulse);
        }
        let applied = self.replica.node().state().applied();
        if applied != self.seen {
            self.seen = applied;
            self.watcher.changed(self.replica.node());
            self.lines.applied(self.replica.node());
        }
    }
}
