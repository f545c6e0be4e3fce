//! The thread that a node lives on: inbox, machine, operations, and back.
//!
//! ```text
//!  peers ──▶ inbox ──▶ Replica (Raft + Node) ──▶ Hands ──▶ disk, sockets, gates
//!              ▲                                   │
//!              └───────────── Done ◀───────────────┘
//! ```
//!
//! Nothing here decides anything about the protocol. The loop knows two seams: the [`Mind`] that it
//! drives, and the [`Surroundings`] that carry out what that asks for. A whole server has `Replica` and
//! `Hands` there, an embedded node what [`embed`](crate::embed) makes of the embedder's own parts.

#[cfg(feature = "net")]
mod bound;
#[cfg(feature = "net")]
pub mod failpoint;
#[cfg(feature = "net")]
mod hands;
mod inbox;
mod notes;
#[cfg(feature = "net")]
mod shipping;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use narad_core::dispatch::Room;
use narad_core::effects::OpId;
use narad_core::freeze::gate::Authority;
use narad_core::ids::LogIndex;
use narad_core::node::{AskId, Effect, Event, Node, Operation};
use narad_core::peer::{Answer, RequestId};
use narad_core::time::Instant;

use crate::clock::Clock;
#[cfg(feature = "net")]
use crate::ingress::Load;
use crate::mind::{Input, Mind, Pulse};

#[cfg(feature = "net")]
pub use hands::{Ground, Hands, HandsSeams, NextLife};
pub(crate) use inbox::Mailbox;
pub use inbox::{AskFault, Letter, NodeHandle, ReplyTo, Stopped};
use notes::Lines;
pub use notes::{Counters, Observer, Telemetry};
#[cfg(feature = "net")]
pub use shipping::{Ingress, NotAccepted};

/// Told whenever the replicated state may have changed.
pub trait Watcher: Send {
    /// Looks at the node; called on its own thread, so it must not block.
    fn changed(&mut self, node: &Node);
}

/// What carries out the operations of a node: its disk, its peers, its gates.
///
/// None of these may wait: the node's thread calls them.
pub trait Surroundings: Send + 'static {
    /// Starts an operation. Its outcome is posted to the inbox as [`Letter::Done`], exactly once.
    fn run(&self, op: OpId, operation: Operation);

    /// Ends an operation early, if it can be; its outcome is posted all the same.
    fn cancel(&self, op: OpId);

    /// Forgets an operation that has ended.
    fn forget(&self, op: OpId);

    /// Answers a peer.
    fn answer(&self, reply: ReplyTo, answer: Answer);

    /// Lets every gate know what the node may do.
    fn publish(&self, authority: Authority);

    /// Lets producers know how much may be accepted.
    fn room(&self, room: Room);

    /// Notes that the node knows of accepted records, and that its room is published.
    #[cfg(feature = "net")]
    fn heard(&self, load: Load);

    /// Ends whatever can be ended: the node is over.
    fn stop(&self);
}

/// A node on its thread.
pub struct NodeLoop<M: Mind, H: Surroundings> {
    mind: M,
    inbox: Receiver<Letter>,
    hands: H,
    clock: Arc<dyn Clock>,
    tick: Duration,
    next_tick: Instant,
    watcher: Box<dyn Watcher>,
    observer: Box<dyn Observer>,
    lines: Lines,
    seen: LogIndex,
    pulse: Pulse,
    /// When the thread ends, whatever is still under way: it has been asked to.
    ends_by: Option<Instant>,
    requests: BTreeMap<RequestId, ReplyTo>,
    asks: BTreeMap<AskId, inbox::AskReply>,
    next_id: u64,
}

impl<M: Mind, H: Surroundings> std::fmt::Debug for NodeLoop<M, H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeLoop").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl<M: Mind, H: Surroundings> NodeLoop<M, H> {
    /// Most letters that are taken from the inbox before what they have caused is made durable, and
    /// the deadlines are looked at again.
    const LETTERS_MAX: usize = 256;
    /// How long a node that is to finish may take to note what has arrived: twice what it waits for
    /// others, and the time of a disk that is slow.
    const FINISH_WAIT: Duration = Duration::from_secs(3);

    /// Binds a mind to its surroundings.
    pub fn bind(
        mind: M,
        inbox: Receiver<Letter>,
        hands: H,
        clock: Arc<dyn Clock>,
        tick: Duration,
        watcher: Box<dyn Watcher>,
        observer: Box<dyn Observer>,
    ) -> Self {
        let next_tick = clock.now().after(tick);
        Self {
            mind,
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

    /// Runs the node on a thread of its own until it is told to stop or cannot go on. `first` is what
    /// its mind asked for when it was made.
    ///
    /// # Errors
    ///
    /// If the system gives no thread.
    pub fn spawn(
        mut self,
        first: Vec<Effect>,
    ) -> std::io::Result<JoinHandle<Result<(), M::Error>>> {
        std::thread::Builder::new().name("narad-node".to_owned()).spawn(move || {
            self.lines.begin(self.mind.node());
            self.carry_out(first);
            let ended = self.run();
            if let Err(error) = &ended {
                tracing::error!(%error, "the node cannot go on");
            }
            self.hands.stop();
            ended
        })
    }

    fn run(&mut self) -> Result<(), M::Error> {
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
        self.ends_by.is_some_and(|by| self.mind.node().has_stopped() || by <= self.clock.now())
    }

    /// Returns how long nothing is to be done.
    fn pause(&self) -> Duration {
        let wake = self.mind.deadline().map_or(self.next_tick, |deadline| deadline.at);
        wake.min(self.next_tick).since(self.clock.now())
    }

    fn keep_time(&mut self) -> Result<(), M::Error> {
        let now = self.clock.now();
        let ticks = now >= self.next_tick;
        if ticks {
            // A thread that slept ticks once: Raft must not count sleep as silence of its peers.
            self.next_tick = now.after(self.tick);
            self.feed(Input::Tick)?;
        }
        let wakes = self.mind.deadline().is_some_and(|deadline| deadline.at <= now);
        if wakes {
            self.tell(Event::Wake)?;
        }
        if ticks || wakes { self.proceed() } else { Ok(()) }
    }

    fn open(&mut self, letter: Letter) -> Result<(), M::Error> {
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
            Letter::Event(event) => self.feed(Input::Event(event)),
            Letter::Poisoned(partition) => self.tell(Event::Poisoned(partition)),
            #[cfg(feature = "net")]
            Letter::Accepted(waybills) => {
                let load = Load::of_waybills(&waybills);
                let told = self.tell(Event::Accepted(waybills));
                self.hands.heard(load);
                told
            }
            Letter::Query(query) => {
                query(self.mind.node());
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

    fn tell(&mut self, event: Event) -> Result<(), M::Error> {
        self.feed(Input::Event(Box::new(event)))
    }

    /// Tells the replica something; what follows from it in the log comes with
    /// [`proceed`](Self::proceed).
    fn feed(&mut self, input: Input<'_>) -> Result<(), M::Error> {
        let mut effects = Vec::new();
        let fed = self.mind.take(self.clock.now(), input, &mut effects);
        self.carry_out(effects);
        fed
    }

    /// Makes durable what was taken in, in one go, and does what follows from it.
    fn proceed(&mut self) -> Result<(), M::Error> {
        let mut effects = Vec::new();
        let proceeded = self.mind.proceed(self.clock.now(), &mut effects);
        self.carry_out(effects);
        self.mind.speak();
        proceeded
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Run(op, operation) => self.hands.run(op, operation),
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
                    self.lines.log(&note, self.mind.node());
                    self.observer.note(&note);
                }
                // The mind turns it into its own error.
                Effect::Stop(_) => {}
            }
        }
    }

    /// Shows the watcher what has changed since it last looked.
    fn look(&mut self) {
        if let Some(pulse) = self.mind.pulse().filter(|pulse| *pulse != self.pulse) {
            self.pulse = pulse;
            self.observer.pulse(&pulse);
        }
        let applied = self.mind.node().state().applied();
        if applied != self.seen {
            self.seen = applied;
            self.watcher.changed(self.mind.node());
            self.lines.applied(self.mind.node());
        }
    }
}
