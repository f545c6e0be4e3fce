//! One node's part in the abstract log, in place of a replica of the real one.
//!
//! It carries operations of the log from the node machine to the
//! [`AbstractLog`](super::AbstractLog), and decides
//! nothing. What the log says comes back as events, by way of the world: see
//! [`Output::Tell`](super::Output::Tell).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use narad_core::effects::{Deadline, Effects, OpId};
use narad_core::ids::NodeId;
use narad_core::metastore::Entry;
use narad_core::node::{Effect, Event, Node, Operation, Outcome};
use narad_core::time::Instant;
use narad_runtime::replica::{Actions, Input, ReplicaError};

use super::Access;

/// A node machine that is bound to the abstract log.
#[derive(Clone, Debug)]
pub struct AbstractReplica {
    me: NodeId,
    node: Node,
    /// How long a barrier may take before it counts as not reached.
    barrier_timeout: Duration,
    barriers: BTreeMap<OpId, Barrier>,
    /// Whether the driver carries appends, by way of [`AbstractReplica::append`].
    hands_out_appends: bool,
    /// When the machine, or a barrier, is to be looked at next.
    deadline: Option<Deadline>,
    /// Room for what one step of the machine asks for; empty in between.
    effects: Effects<Effect>,
}

#[derive(Clone, Copy, Debug)]
struct Barrier {
    is_survey: bool,
    until: Instant,
}

impl AbstractReplica {
    /// Binds a node machine that was started on what [`AbstractLog::start`] returned; `first` is
    /// what it asked for when it started.
    ///
    /// # Errors
    ///
    /// As [`AbstractReplica::handle`].
    ///
    /// [`AbstractLog::start`]: super::AbstractLog::start
    pub fn new(
        now: Instant,
        me: NodeId,
        node: Node,
        barrier_timeout: Duration,
        first: &mut Effects<Effect>,
        access: &mut Access<'_>,
        out: &mut Actions,
    ) -> Result<Self, ReplicaError> {
        let barriers = BTreeMap::new();
        let (hands_out_appends, deadline, effects) = (false, None, Effects::default());
        let mut replica =
            Self { me, node, barrier_timeout, barriers, hands_out_appends, deadline, effects };
        replica.carry_out(now, first, access, out)?;
        replica.deadline = replica.find_deadline();
        Ok(replica)
    }

    /// From now on, has appends given to the driver, as an [`Effect::Run`] that is answered by
    /// [`append`](Self::append).
    pub const fn hand_out_appends(&mut self) {
        self.hands_out_appends = true;
    }

    /// Takes one input and does everything that follows from it. What is only of use to the real
    /// log does nothing.
    ///
    /// # Errors
    ///
    /// If the log holds what the machine does not know, which ends the process.
    pub fn handle(
        &mut self,
        now: Instant,
        input: Input<'_>,
        access: &mut Access<'_>,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        match input {
            Input::Tick
            | Input::Message { .. }
            | Input::Unreachable(_)
            | Input::SnapshotSent { .. } => {
                self.give_up_barriers(now, access, out)?;
                self.deadline = self.find_deadline();
                Ok(())
            }
            Input::Event(event) => self.tell(now, *event, access, out),
        }
    }

    /// Tells the machine something: [`handle`](Self::handle) of an event without a box.
    ///
    /// # Errors
    ///
    /// As [`AbstractReplica::handle`].
    pub fn tell(
        &mut self,
        now: Instant,
        event: Event,
        access: &mut Access<'_>,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        if let Event::Done(op, _) = &event {
            self.barriers.remove(op);
        }
        self.step(now, event, access, out)?;
        self.give_up_barriers(now, access, out)?;
        self.deadline = self.find_deadline();
        Ok(())
    }

    /// Carries an append to the log that the driver was given, and tells the machine of it.
    ///
    /// # Errors
    ///
    /// As [`AbstractReplica::handle`].
    pub fn append(
        &mut self,
        now: Instant,
        op: OpId,
        entry: Entry,
        access: &mut Access<'_>,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        let taken = access.log.append(access.now, self.me, entry, access.reach);
        self.tell(now, Event::Done(op, Outcome::Append(taken)), access, out)
    }

    /// Returns the node machine, to look at.
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// Returns when the machine wants to be woken, with [`Event::Wake`].
    pub const fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    fn find_deadline(&self) -> Option<Deadline> {
        let overdue = self.barriers.values().map(|barrier| barrier.until).min();
        let overdue = overdue.map(|at| Deadline { at, why: "a barrier is overdue" });
        Deadline::earlier(self.node.deadline(), overdue)
    }

    fn step(
        &mut self,
        now: Instant,
        event: Event,
        access: &mut Access<'_>,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        let mut effects = mem::take(&mut self.effects);
        self.node.handle(now, event, &mut effects);
        let carried = self.carry_out(now, &mut effects, access, out);
        self.effects = effects;
        carried
    }

    /// Carries operations of the log to it and leaves the rest to the driver.
    fn carry_out(
        &mut self,
        now: Instant,
        effects: &mut Effects<Effect>,
        access: &mut Access<'_>,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        let mut done = Vec::new();
        for effect in effects.drain() {
            match effect {
                Effect::Run(op, operation) => {
                    if let Some(outcome) = self.run(now, op, operation, access, out) {
                        done.push((op, outcome));
                    }
                }
                Effect::Stop(stop) => return Err(stop.into()),
                effect => out.effects.push(effect),
            }
        }
        for (op, outcome) in done {
            self.step(now, Event::Done(op, outcome), access, out)?;
        }
        Ok(())
    }

    /// Starts an operation. Returns its outcome, if it is known at once.
    fn run(
        &mut self,
        now: Instant,
        op: OpId,
        operation: Operation,
        access: &mut Access<'_>,
        out: &mut Actions,
    ) -> Option<Outcome> {
        let Access { now: at, log, reach } = access;
        match operation {
            Operation::Append(entry) if !self.hands_out_appends => {
                Some(Outcome::Append(log.append(*at, self.me, entry, *reach)))
            }
            Operation::Barrier | Operation::Survey => {
                let is_survey = operation == Operation::Survey;
                let until = now.after(self.barrier_timeout);
                self.barriers.insert(op, Barrier { is_survey, until });
                log.barrier(*at, self.me, op, is_survey);
                None
            }
            Operation::Configure(change) => {
                Some(Outcome::Configure(log.configure(*at, self.me, change, *reach)))
            }
            Operation::Transfer { to } => {
                log.transfer(*at, self.me, to);
                Some(Outcome::Transfer)
            }
            operation => {
                out.effects.push(Effect::Run(op, operation));
                None
            }
        }
    }

    fn give_up_barriers(
        &mut self,
        now: Instant,
        access: &mut Access<'_>,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        if self.barriers.values().all(|barrier| barrier.until > now) {
            return Ok(());
        }
        let overdue: Vec<_> =
            self.barriers.extract_if(.., |_, barrier| barrier.until <= now).collect();
        for (op, Barrier { is_survey, .. }) in overdue {
            access.log.cancel(self.me, op);
            let outcome = if is_survey { Outcome::Survey(None) } else { Outcome::Barrier(None) };
            self.step(now, Event::Done(op, outcome), access, out)?;
        }
        Ok(())
    }
}
