//! One node's replica: its share of the Raft log, and the node machine that the log drives.
//!
//! Everything here is synchronous and decides nothing: it carries operations of the log from the
//! machine to Raft, and what Raft commits back to the machine. The node loop runs it on a thread of
//! its own; the simulator runs the very same code in virtual time.

mod committed;
mod pulse;
mod questions;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use narad_core::effects::{Deadline, Effects, OpId};
use narad_core::ids::{LogIndex, NodeId};
use narad_core::metastore::{Command, Entry, State};
use narad_core::node::{Effect, Event, Node, Operation, Outcome, Stop};
use narad_core::time::Instant;

use self::committed::event_of;
pub use crate::mind::{Input, Pulse};
use crate::raft::{
    OfferError, Outgoing, Output, Raft, RaftError, RaftStore, ReadId, Restored, Voice,
};
use crate::wire::{DecodeError, Wire};

/// What a replica asks of its driver.
#[derive(Debug, Default)]
pub struct Actions {
    /// Raft messages to send; any of them may be lost.
    pub messages: Vec<Outgoing>,
    /// Whether the driver wants to know what the log tells the machine. Default false.
    pub listens: bool,
    /// What the log has told the machine, for a driver that listens.
    pub told: Vec<Event>,
    /// Effects of the node machine; operations of the log are not among them, but for appends that
    /// the driver [carries](Replica::carry_appends).
    pub effects: Vec<Effect>,
}

impl Actions {
    fn hear(&mut self, event: &Event) {
        if self.listens {
            self.told.push(event.clone());
        }
    }
}

/// What a replica is about to do with a command of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// It leads the log and appends the command.
    Appending(&'a Command),
    /// The command is committed, and the machine is told.
    Applying(&'a Command),
}

/// Why a replica cannot go on. The process ends with it.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// Raft, or the store under it, failed.
    #[error(transparent)]
    Raft(#[from] RaftError),
    /// A snapshot could not be read.
    #[error("the snapshot at entry {index} cannot be read: {reason}")]
    Snapshot {
        /// The last entry that it contains.
        index: LogIndex,
        /// What is wrong with it.
        reason: String,
    },
    /// The node machine stopped.
    #[error(transparent)]
    Stopped(#[from] Stop),
}

/// A Raft node and a node machine, bound to one another.
#[derive(Debug)]
pub struct Replica<S: RaftStore> {
    raft: Raft<S>,
    node: Node,
    /// How long a barrier may take before it counts as not reached.
    barrier_timeout: Duration,
    barriers: BTreeMap<ReadId, Barrier>,
    output: Output,
    watch: fn(Step<'_>),
    /// Whether appends are left to the driver.
    appends_carried: bool,
    /// When the machine, or a barrier, is to be looked at next.
    deadline: Option<Deadline>,
    /// Whether that may have changed: the machine was told something.
    deadline_is_stale: bool,
    /// Room for what one step of the machine asks for; empty in between.
    effects: Effects<Effect>,
    /// Commands that were appended here, and that were not.
    proposed: u64,
    refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Barrier {
    op: OpId,
    survey: bool,
    until: Instant,
}

impl<S: RaftStore> Replica<S> {
    /// Binds an opened Raft node to a node machine that was started on its snapshot; `first` is
    /// what the machine asked for when it started.
    ///
    /// # Errors
    ///
    /// As [`Replica::handle`].
    pub fn new(
        now: Instant,
        raft: Raft<S>,
        node: Node,
        barrier_timeout: Duration,
        first: &mut Effects<Effect>,
        out: &mut Actions,
    ) -> Result<Self, ReplicaError> {
        let barriers = BTreeMap::new();
        let output = Output::default();
        let watch = |_: Step<'_>| {};
        let appends_carried = false;
        let mut replica = Self {
            raft,
            node,
            barrier_timeout,
            barriers,
            output,
            watch,
            appends_carried,
            deadline: None,
            deadline_is_stale: true,
            effects: Effects::default(),
            proposed: 0,
            refused: 0,
        };
        replica.carry_out(now, first, out)?;
        replica.advance(now, out)?;
        Ok(replica)
    }

    /// Takes one input and does everything that follows from it.
    ///
    /// # Errors
    ///
    /// If the store fails, the log holds what this build does not know, or a snapshot cannot be
    /// read: all of these end the process.
    pub fn handle(
        &mut self,
        now: Instant,
        input: Input<'_>,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        let is_tick = matches!(input, Input::Tick);
        self.take(now, input, out)?;
        if is_tick && self.raft.is_idle() && self.barriers.is_empty() {
            return Ok(());
        }
        self.proceed(now, out)
    }

    /// Takes one input and leaves what follows from it in the log to [`Replica::proceed`]: whatever
    /// is taken in between becomes durable together.
    ///
    /// # Errors
    ///
    /// As [`Replica::handle`].
    pub fn take(
        &mut self,
        now: Instant,
        input: Input<'_>,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        match input {
            Input::Tick => self.raft.tick(),
            Input::Message { from, bytes } => {
                if let Err(error) = self.raft.step(from, bytes)
                    && !error.is_expected()
                {
                    tracing::warn!(%from, %error, "dropped a raft message");
                }
            }
            Input::Unreachable(peer) => self.raft.report_unreachable(peer),
            Input::SnapshotSent { to, arrived } => self.raft.report_snapshot(to, arrived),
            Input::Event(event) => self.tell(now, *event, out)?,
        }
        Ok(())
    }

    /// Does everything that follows from what was taken.
    ///
    /// # Errors
    ///
    /// As [`Replica::handle`].
    pub fn proceed(&mut self, now: Instant, out: &mut Actions) -> Result<(), ReplicaError> {
        self.give_up_barriers(now, out)?;
        self.advance(now, out)
    }

    /// Has Raft messages sent by a voice, as soon as they may be; none is among the
    /// [messages](Actions::messages) any more.
    pub fn speak_by(&mut self, voice: Voice) {
        self.raft.speak_by(voice);
    }

    /// Says what was left to say, if there is a voice. To be called when everything that was asked
    /// for is under way.
    pub fn speak(&mut self) {
        self.raft.speak();
    }

    /// Has every further step of a command told to somebody; tests stop a process there.
    pub fn watch(&mut self, watch: fn(Step<'_>)) {
        self.watch = watch;
    }

    /// Leaves it to the driver when an append of the machine reaches Raft: from now on
    /// `Effect::Run(op, Operation::Append(entry))` is among the [effects](Actions::effects), and the
    /// driver answers with [`Replica::append`].
    ///
    /// A driver that holds an entry back stands for a leader that is slow, and one that answers
    /// `Outcome::Append(true)` by itself for a leader whose log lost the entry with its reign. To be
    /// called before the first [`Replica::handle`]: before that nobody leads.
    pub const fn carry_appends(&mut self) {
        self.appends_carried = true;
    }

    /// Carries an append to Raft, tells the machine whether it was taken, and does everything that
    /// follows from it.
    ///
    /// # Errors
    ///
    /// As [`Replica::handle`].
    pub fn append(
        &mut self,
        now: Instant,
        op: OpId,
        entry: &Entry,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        let taken = self.propose(entry);
        self.tell(now, Event::Done(op, Outcome::Append(taken)), out)?;
        self.give_up_barriers(now, out)?;
        self.advance(now, out)
    }

    /// Hands the lead to another voter, on nobody's behalf: for drivers that let leadership change.
    ///
    /// # Errors
    ///
    /// As [`Replica::handle`].
    pub fn hand_over(
        &mut self,
        now: Instant,
        to: NodeId,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        if let Err(error) = self.raft.transfer_leadership(to) {
            tracing::debug!(%to, %error, "the lead was not handed over");
        }
        self.advance(now, out)
    }

    /// Returns the node machine, to look at.
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the Raft node, to look at.
    pub const fn raft(&self) -> &Raft<S> {
        &self.raft
    }

    /// Returns when the machine wants to be woken, ticks apart.
    pub const fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    fn find_deadline(&self) -> Option<Deadline> {
        let overdue = self.barriers.values().map(|barrier| barrier.until).min();
        let overdue = overdue.map(|at| Deadline { at, why: "a barrier is overdue" });
        Deadline::earlier(self.node.deadline(), overdue)
    }

    /// Runs Raft until it has nothing more to give.
    fn advance(&mut self, now: Instant, out: &mut Actions) -> Result<(), ReplicaError> {
        loop {
            self.raft.ready(&mut self.output)?;
            out.messages.append(&mut self.output.messages);
            let (more, quiet) = (self.output.more, is_quiet(&self.output));
            if !quiet {
                let mut output = mem::take(&mut self.output);
                self.take_output(now, &mut output, out)?;
                self.output = output;
            }
            if quiet && !more {
                if mem::take(&mut self.deadline_is_stale) {
                    self.deadline = self.find_deadline();
                }
                return Ok(());
            }
        }
    }

    fn take_output(
        &mut self,
        now: Instant,
        output: &mut Output,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        if let Some(restored) = output.restored.take() {
            let event = Event::Restored(Box::new(load(&restored)?));
            out.hear(&event);
            self.tell(now, event, out)?;
        }
        for committed in output.committed.drain(..) {
            let event = event_of(committed).map_err(Stop::from)?;
            if let Event::Committed { entry, .. } = &event {
                (self.watch)(Step::Applying(&entry.command));
            }
            out.hear(&event);
            self.tell(now, event, out)?;
        }
        if let Some(leadership) = output.leadership.take() {
            self.tell(now, Event::Leader(leadership.leader), out)?;
        }
        for (read, index) in output.reads.drain(..) {
            if let Some(barrier) = self.barriers.remove(&read) {
                self.passed(now, barrier, index, out)?;
            }
        }
        if output.wants_snapshot {
            self.offer_snapshot();
        }
        Ok(())
    }

    /// Hands Raft the state as it is, unless it has the like already.
    fn offer_snapshot(&mut self) {
        let state = self.node.state();
        let (index, bytes) = (state.applied(), state.to_parts().to_bytes());
        match self.raft.offer_snapshot(index, bytes) {
            Ok(()) | Err(OfferError::Outdated { .. } | OfferError::Stopped) => {}
            Err(error) => tracing::error!(%error, "the state cannot be kept as a snapshot"),
        }
    }

    fn tell(&mut self, now: Instant, event: Event, out: &mut Actions) -> Result<(), ReplicaError> {
        self.deadline_is_stale = true;
        let mut effects = mem::take(&mut self.effects);
        self.node.handle(now, event, &mut effects);
        let carried = self.carry_out(now, &mut effects, out);
        self.effects = effects;
        carried
    }

    /// Carries operations of the log to Raft and leaves the rest to the driver.
    fn carry_out(
        &mut self,
        now: Instant,
        effects: &mut Effects<Effect>,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        let mut done = Vec::new();
        for effect in effects.drain() {
            match effect {
                Effect::Run(op, operation) => {
                    if let Some(outcome) = self.run(now, op, operation, out) {
                        done.push((op, outcome));
                    }
                }
                Effect::Stop(stop) => return Err(stop.into()),
                effect => out.effects.push(effect),
            }
        }
        for (op, outcome) in done {
            self.tell(now, Event::Done(op, outcome), out)?;
        }
        Ok(())
    }

    /// Starts an operation. Returns its outcome, if it is known at once.
    fn run(
        &mut self,
        now: Instant,
        op: OpId,
        operation: Operation,
        out: &mut Actions,
    ) -> Option<Outcome> {
        match operation {
            Operation::Append(entry) if !self.appends_carried => {
                Some(Outcome::Append(self.propose(&entry)))
            }
            Operation::Barrier => self.begin_barrier(now, op, false),
            Operation::Survey => self.begin_barrier(now, op, true),
            Operation::Configure(change) => Some(Outcome::Configure(self.configure(change))),
            Operation::Transfer { to } => {
                if let Err(error) = self.raft.transfer_leadership(to) {
                    tracing::debug!(%to, %error, "the lead was not handed over");
                }
                Some(Outcome::Transfer)
            }
            operation => {
                out.effects.push(Effect::Run(op, operation));
                None
            }
        }
    }

    fn propose(&mut self, entry: &Entry) -> bool {
        (self.watch)(Step::Appending(&entry.command));
        let context = entry.proposal.to_bytes();
        match self.raft.propose(context, entry.to_bytes()) {
            Ok(()) => {
                self.proposed += 1;
                true
            }
            Err(error) => {
                self.refused += 1;
                tracing::debug!(proposal = ?entry.proposal, %error, "not appended");
                false
            }
        }
    }
}

/// Reads a state out of a snapshot.
///
/// # Errors
///
/// If the bytes are no state, or one that contradicts itself.
pub fn load(restored: &Restored) -> Result<State, ReplicaError> {
    let failed = |reason: String| ReplicaError::Snapshot { index: restored.index, reason };
    let parts =
        Wire::from_bytes(&restored.data).map_err(|error: DecodeError| failed(error.to_string()))?;
    State::from_parts(parts).map_err(|error| failed(error.to_string()))
}

fn is_quiet(output: &Output) -> bool {
    output.restored.is_none()
        && output.committed.is_empty()
        && output.leadership.is_none()
        && output.reads.is_empty()
        && !output.wants_snapshot
}
