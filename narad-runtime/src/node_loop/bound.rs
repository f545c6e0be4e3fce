//! The loop over a share of the Raft log and a whole server's surroundings.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use narad_core::dispatch::Room;
use narad_core::effects::{Deadline, OpId};
use narad_core::freeze::gate::Authority;
use narad_core::node::{Effect, Node, Operation};
use narad_core::peer::Answer;
use narad_core::time::Instant;

use super::{Hands, Letter, NodeLoop, Observer, ReplyTo, Surroundings, Watcher, failpoint};
use crate::clock::BootClock;
use crate::ingress::Load;
use crate::mind::{Input, Mind, Pulse};
use crate::raft::RaftStore;
use crate::replica::{Actions, Replica, ReplicaError};

impl<S: RaftStore + 'static> NodeLoop<Replica<S>, Hands> {
    /// Binds a replica to its surroundings.
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
        Self::bind(replica, inbox, hands, Arc::new(clock), tick, watcher, observer)
    }

    /// Runs the node on a thread of its own; `first` is what its replica asked for when it started.
    ///
    /// # Errors
    ///
    /// If the system gives no thread.
    pub fn begin(self, first: Actions) -> std::io::Result<JoinHandle<Result<(), ReplicaError>>> {
        // What is said later has a voice.
        for message in first.messages {
            self.hands.send(message);
        }
        self.spawn(first.effects)
    }
}

impl<S: RaftStore + 'static> Mind for Replica<S> {
    type Error = ReplicaError;

    fn take(
        &mut self,
        now: Instant,
        input: Input<'_>,
        out: &mut Vec<Effect>,
    ) -> Result<(), ReplicaError> {
        let mut actions = Actions::default();
        let taken = Self::take(self, now, input, &mut actions);
        out.append(&mut actions.effects);
        taken
    }

    fn proceed(&mut self, now: Instant, out: &mut Vec<Effect>) -> Result<(), ReplicaError> {
        let mut actions = Actions::default();
        let proceeded = Self::proceed(self, now, &mut actions);
        out.append(&mut actions.effects);
        proceeded
    }

    fn speak(&mut self) {
        Self::speak(self);
    }

    fn deadline(&self) -> Option<Deadline> {
        Self::deadline(self)
    }

    fn node(&self) -> &Node {
        Self::node(self)
    }

    fn pulse(&self) -> Option<Pulse> {
        Some(Self::pulse(self))
    }
}

impl Surroundings for Hands {
    fn run(&self, op: OpId, operation: Operation) {
        failpoint::before(&operation);
        Self::run(self, op, operation);
    }

    fn cancel(&self, op: OpId) {
        Self::cancel(self, op);
    }

    fn forget(&self, op: OpId) {
        Self::forget(self, op);
    }

    fn answer(&self, reply: ReplyTo, answer: Answer) {
        match reply {
            ReplyTo::Connection(reply) => Self::answer(self, reply, answer),
            ReplyTo::Caller(reply) => drop(reply.send(answer)),
        }
    }

    fn publish(&self, authority: Authority) {
        Self::publish(self, authority);
    }

    fn room(&self, room: Room) {
        Self::room(self, room);
    }

    fn heard(&self, load: Load) {
        Self::heard(self, load);
    }

    fn stop(&self) {
        Self::stop(self);
    }
}
