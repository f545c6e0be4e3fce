//! The world: one queue of events, machines on a network, and everything that may go wrong.
//!
//! Every operation is begun at one event, performed at a later one and answered at a third; every
//! message is sent at one and arrives at another; a record is admitted, appended and acknowledged
//! at three. A crash can fall between any two. What happens is a function of scenario and seed.
//!
//! # Divergence from reality
//!
//! - A node is one thread that never waits: its disk work takes time, but two operations of one
//!   node never overlap within a step of the disk.
//! - A commit of Raft's own store is instantaneous.
//! - Connections are not simulated: a message is delivered, or not; who sent it is known.

pub(crate) mod act;
pub(crate) mod clients;
mod consumers;
mod copy;
mod deliver;
mod facts;
mod hand_out;
mod ingress;
pub(crate) mod judge;
mod log;
pub(crate) mod machine;
pub(crate) mod message;
pub(crate) mod observe;
mod oversight;
mod perform;
mod process;
mod producers;
pub(crate) mod queue;
mod records;
pub(crate) mod replica;
pub(crate) mod script;
mod serve;
pub(crate) mod setup;
mod skip;
mod traffic;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::time::Duration;

use narad_core::effects::OpId;
use narad_core::ids::{LogIndex, NodeId, PartitionId, ProposalId};
use narad_core::metastore::Entry;
use narad_core::node::{AskId, Effect, Event, Operation, Outcome};
use narad_runtime::replica::{Actions, Input, ReplicaError};

use self::clients::{ClientDue, Clients};
use self::machine::Machine;
use self::message::Message;
use self::observe::Recorder;
use self::queue::Queue;
use self::replica::Hearing;
use self::script::{Place, Script};
use self::setup::Setup;
use crate::metastore::{AbstractLog, Access};
use crate::net::{Net, Parcel};
use crate::oracle::Oracle;
use crate::outcome::Violation;
use crate::random::Random;
use crate::scenario::{Ending, Label};
use crate::time::Time;

/// Something that will happen.
#[derive(Clone, Debug)]
pub(crate) enum Due {
    /// At one process of a machine.
    Local { machine: usize, life: u64, what: Local },
    /// A message arrives.
    Arrive(Box<Message>),
    /// A message that was held up at its receiver is taken.
    Deliver(Box<Message>),
    /// The abstract log has something to say.
    Log,
    /// A producer or consumer does something.
    Client(ClientDue),
    /// A step of the scenario is taken.
    Step(usize, Place),
    /// An expectation is looked at.
    Look(usize),
    /// A machine that was to come back does.
    Start(usize),
    /// A pause or a suspension ends.
    GoOn(usize, Time),
    /// A machine that is no member asks to be admitted.
    Join(usize),
    /// A question is asked, or an entry appended, once more.
    Again { machine: usize, operation: Box<Operation> },
    /// Another leader is elected in the abstract log, by chance.
    Election,
    /// An operator asks again.
    Ask(Box<act::Asked>, Place),
    /// What a step brought about ends.
    Undo(Box<act::Undo>),
}

/// Something that will happen at one process.
#[derive(Clone, Debug)]
pub(crate) enum Local {
    /// Raft's clock ticks.
    Tick,
    /// The node wants to be woken.
    Wake,
    /// An operation that was held up is begun.
    Begin(OpId, Box<Operation>),
    /// An operation is carried out.
    Perform(OpId),
    /// Its outcome is about to be told.
    Done(OpId, Box<Outcome>),
    /// Its outcome, which was held up, is told.
    Told(OpId, Box<Outcome>),
    /// It has had no answer for too long.
    GiveUp(OpId),
    /// An admitted batch is written.
    Append(PartitionId),
    /// A written batch is judged.
    Recheck(PartitionId),
    /// What was handed in to the ingress log is written.
    WriteIngress,
    /// What has been written there is told.
    TellIngress,
    /// An ingress log whose disk has failed is opened again.
    ReopenIngress,
    /// Consumers' positions are made durable.
    Flush,
    /// The quarantine is emptied.
    Sweep,
    /// The node is told something.
    Tell(Box<Event>),
    /// What its throttle has held up goes on its way.
    Send(Box<Message>),
}

/// A deterministic world.
#[derive(Debug)]
pub struct World {
    pub(crate) now: Time,
    pub(crate) setup: Setup,
    pub(crate) queue: Queue<Due>,
    pub(crate) machines: Vec<Machine>,
    /// By machine: whether a process runs that is not paused.
    pub(crate) up: Vec<bool>,
    /// Which machine a node is, by its id.
    pub(crate) by_node: Vec<Option<usize>>,
    pub(crate) net: Net,
    pub(crate) log: Option<AbstractLog>,
    pub(crate) log_due: Time,
    pub(crate) script: Script,
    pub(crate) clients: Clients,
    pub(crate) oracle: Oracle,
    pub(crate) recorder: Recorder,
    pub(crate) chance: Random,
    /// Whether the world only heals from here on.
    pub(crate) is_live_phase: bool,
    /// The last entry that any replica has applied.
    pub(crate) committed: LogIndex,
    /// What waits on clogged links.
    pub(crate) clogged: BTreeMap<Parcel, Message>,
    /// What operators have asked, by the node's name for it.
    pub(crate) asked: BTreeMap<(usize, AskId), act::Asked>,
    pub(crate) next_ask: u64,
    /// How each labelled step of an operator was answered.
    pub(crate) replies: BTreeMap<Label, act::Answered>,
    /// What was proposed by hand, and by which step, until the log has decided.
    proposed: BTreeMap<ProposalId, Label>,
    pub(crate) expectations: Vec<judge::Expectation>,
    /// The machine that the last event was at.
    pub(crate) touched: Option<usize>,
    /// Machines whose power goes at a step of their disks.
    pub(crate) doomed: Vec<act::Doom>,
    /// How entries ended, the newest last.
    pub(crate) endings: VecDeque<(LogIndex, Ending)>,
    /// Freezes that go on, since when.
    pub(crate) frozen: BTreeMap<(usize, PartitionId), Time>,
    /// The longest freeze of each partition that is over.
    pub(crate) longest: BTreeMap<PartitionId, Duration>,
    /// What did not hold.
    pub(crate) violations: Vec<Violation>,
    /// How many of the oracle's findings are among them.
    judged: usize,
    /// Names what nobody waits for.
    pub(crate) nobody: OpId,
    actions: Actions,
}

impl World {
    /// How often a node may be woken in a row without time passing.
    const SPINS_MAX: u32 = 50;
    /// Violations after which a run ends.
    const VIOLATIONS_MAX: usize = 20;

    pub(crate) fn schedule(&mut self, at: Time, due: Due) {
        self.queue.push(at.max(self.now), due);
    }

    pub(crate) fn local(&mut self, machine: usize, at: Time, what: Local) {
        let life = self.machines[machine].life;
        self.schedule(at, Due::Local { machine, life, what });
    }

    /// Returns the machine of a node.
    pub(crate) fn machine_of(&self, node: NodeId) -> Option<usize> {
        self.by_node.get(usize::try_from(node.0).ok()?).copied().flatten()
    }

    /// Lets the next thing happen. Returns false if nothing ever will.
    pub(crate) fn step(&mut self, until: Time) -> bool {
        match self.queue.next_at() {
            Some(at) if at <= until => {}
            Some(_) | None => {
                self.now = until;
                return false;
            }
        }
        let (at, due) = self.queue.pop().expect("something is due");
        self.now = self.now.max(at);
        self.recorder.event(self.now);
        self.touched = match &due {
            Due::Local { machine, .. } => Some(*machine),
            Due::Arrive(message) | Due::Deliver(message) => Some(message.to),
            _ => None,
        };
        self.take_steps_before(self.recorder.events);
        self.happen(due);
        self.cut_powers();
        true
    }

    /// Takes the steps that are to be taken right before an event.
    fn take_steps_before(&mut self, event: u64) {
        if self.script.at_events.is_empty() {
            return;
        }
        for step in self.script.at_events.remove(&event).unwrap_or_default() {
            self.take_step(step, Place::default());
        }
    }

    /// Cuts the power of machines whose disks have made as many steps as they were to make.
    fn cut_powers(&mut self) {
        if self.doomed.is_empty() {
            return;
        }
        let due: Vec<act::Doom> = self
            .doomed
            .extract_if(.., |doom| self.machines[doom.machine].disk.steps() >= doom.at_step)
            .collect();
        for doom in due {
            self.lose_power(doom.machine, doom.keep, doom.lasting);
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Local { machine, life, what } => {
                if self.machines[machine].life != life || self.machines[machine].process.is_none() {
                    return;
                }
                if let Some(missed) = &mut self.machines[machine].paused {
                    missed.push_back(Due::Local { machine, life, what });
                    return;
                }
                self.happen_at(machine, what);
            }
            Due::Arrive(message) => {
                if let Some(missed) = &mut self.machines[message.to].paused {
                    missed.push_back(Due::Arrive(message));
                    return;
                }
                self.arrive(message);
            }
            Due::Deliver(message) => {
                if let Some(missed) = &mut self.machines[message.to].paused {
                    missed.push_back(Due::Deliver(message));
                    return;
                }
                self.deliver_now(*message);
            }
            Due::Log => self.poll_log(),
            Due::Client(what) => self.client(what),
            Due::Step(step, place) => self.take_step(step, place),
            Due::Look(at) => self.look_at(at),
            Due::Start(machine) => {
                if self.machines[machine].process.is_none() && self.machines[machine].wanted {
                    self.start(machine);
                }
            }
            Due::GoOn(machine, until) => {
                if self.machines[machine].stuck_until == until {
                    self.go_on(machine);
                }
            }
            Due::Join(machine) => self.ask_to_join(machine),
            Due::Again { machine, operation } => self.again(machine, *operation),
            Due::Election => self.change_leader(),
            Due::Ask(asked, place) => self.ask(*asked, place),
            Due::Undo(undo) => self.undo(*undo),
        }
    }

    fn happen_at(&mut self, machine: usize, what: Local) {
        match what {
            Local::Tick => {
                let cluster = &self.setup.scenario.cluster;
                let (tick, jitter) = (cluster.raft.tick, cluster.tick_jitter);
                let late = self.machines[machine].latency.duration(Duration::ZERO..=jitter);
                let next = self.in_local_time(machine, tick + late);
                self.local(machine, next, Local::Tick);
                self.feed(machine, Input::Tick);
            }
            Local::Wake => self.wake(machine),
            Local::Begin(op, operation) => self.begin_late(machine, op, *operation),
            Local::Perform(op) => self.perform(machine, op),
            Local::Done(op, outcome) => self.done(machine, op, *outcome),
            Local::Told(op, outcome) => self.told(machine, op, "held", *outcome),
            Local::GiveUp(op) => self.give_up(machine, op),
            Local::Append(partition) => self.append_batch(machine, partition),
            Local::Recheck(partition) => self.recheck_batch(machine, partition),
            Local::WriteIngress => self.write_ingress(machine),
            Local::TellIngress => self.tell_ingress(machine),
            Local::ReopenIngress => self.reopen_ingress(machine),
            Local::Flush => self.flush(machine),
            Local::Sweep => self.sweep(machine),
            Local::Tell(event) => self.tell_boxed(machine, event),
            Local::Send(message) => self.send(*message),
        }
    }

    /// Returns the true time at which a machine's clock shows so much more.
    pub(crate) fn in_local_time(&self, machine: usize, delay: Duration) -> Time {
        let clock = &self.machines[machine].clock;
        clock.when(clock.local(self.now).after(delay))
    }

    fn wake(&mut self, machine: usize) {
        let now = self.now;
        let it = &mut self.machines[machine];
        if it.wake_at != now {
            // Another wake was scheduled since; this one is stale.
            return;
        }
        it.wake_at = Time::NEVER;
        let local = it.clock.local(now);
        let process = it.process.as_mut().expect("a wake is of a running process");
        let due = process.replica.deadline().is_some_and(|deadline| deadline.at <= local);
        if !due {
            self.plan_wake(machine);
            return;
        }
        process.spins = if process.spins.0 == now { (now, process.spins.1 + 1) } else { (now, 0) };
        if process.spins.1 > Self::SPINS_MAX {
            let why = process.replica.deadline().map_or("", |deadline| deadline.why);
            self.violated("L1", format!("n{} is woken over and over again: {why}", machine + 1));
            return;
        }
        self.tell(machine, Event::Wake);
    }

    /// Sees to it that a node is woken when it wants to be.
    pub(crate) fn plan_wake(&mut self, machine: usize) {
        let it = &mut self.machines[machine];
        let Some(process) = &it.process else { return };
        let Some(deadline) = process.replica.deadline() else { return };
        let at = it.clock.when(deadline.at).max(self.now);
        if at < it.wake_at {
            it.wake_at = at;
            self.local(machine, at, Local::Wake);
        }
    }

    pub(crate) fn tell(&mut self, machine: usize, event: Event) {
        self.tell_boxed(machine, Box::new(event));
    }

    pub(crate) fn tell_boxed(&mut self, machine: usize, event: Box<Event>) {
        self.recorder.told(machine, &event);
        self.feed(machine, Input::Event(event));
    }

    /// Gives a process an input and carries out what it asks for.
    pub(crate) fn feed(&mut self, machine: usize, input: Input<'_>) {
        let now = self.now;
        let it = &mut self.machines[machine];
        let Some(process) = &mut it.process else { return };
        let local = it.clock.local(now);
        process.ground.set_now(local);
        let mut actions = mem::take(&mut self.actions);
        actions.listens = true;
        let hearing = Hearing { net: &self.net, up: &self.up, by_node: &self.by_node };
        let mut access = self.log.as_mut().map(|log| Access { now, log, reach: &hearing });
        let fed = process.replica.handle(local, input, access.as_mut(), &mut actions);
        self.after_feeding(machine, actions, fed);
    }

    /// Gives a process an entry to append.
    pub(crate) fn feed_append(&mut self, machine: usize, op: OpId, entry: &Entry) {
        let now = self.now;
        let it = &mut self.machines[machine];
        let Some(process) = &mut it.process else { return };
        let local = it.clock.local(now);
        let mut actions = mem::take(&mut self.actions);
        actions.listens = true;
        let hearing = Hearing { net: &self.net, up: &self.up, by_node: &self.by_node };
        let mut access = self.log.as_mut().map(|log| Access { now, log, reach: &hearing });
        let fed = process.replica.append(local, op, entry, access.as_mut(), &mut actions);
        self.after_feeding(machine, actions, fed);
    }

    fn after_feeding(
        &mut self,
        machine: usize,
        mut actions: Actions,
        fed: Result<(), ReplicaError>,
    ) {
        self.carry_out(machine, &mut actions);
        self.actions = actions;
        if let Err(error) = fed {
            // A step may have ended it already.
            if self.machines[machine].process.is_some() {
                self.end_by_itself(machine, &error.to_string());
            }
            return;
        }
        self.plan_wake(machine);
        self.plan_log();
        self.watch_phases(machine);
    }

    /// Carries out what a process asks for. What comes of one thing may end the process, and the
    /// rest with it.
    pub(crate) fn carry_out(&mut self, machine: usize, actions: &mut Actions) {
        let life = self.machines[machine].life;
        for told in actions.told.drain(..) {
            if self.machines[machine].life == life {
                self.applied(machine, told);
            }
        }
        for message in actions.messages.drain(..) {
            if self.machines[machine].life == life {
                self.send_raft(machine, message);
            }
        }
        for effect in actions.effects.drain(..) {
            if self.machines[machine].life != life {
                continue;
            }
            self.recorder.effect(machine, &effect);
            match effect {
                Effect::Run(op, operation) => self.begin(machine, op, operation),
                Effect::Cancel(op) => self.cancel(machine, op),
                Effect::Answer(request, answer) => self.answer(machine, request, answer),
                Effect::Reply(ask, said) => self.replied(machine, ask, &said),
                Effect::Authority(authority) => self.authorised(machine, authority),
                Effect::Note(note) => self.noted(machine, &note),
                Effect::Room(room) => {
                    if let Some(process) = self.machines[machine].process.as_mut() {
                        process.accepting.publish(room);
                    }
                }
                // The replica turns it into its own error.
                Effect::Stop(_) => {}
            }
        }
    }

    /// Links, pauses or processes are not as they were.
    pub(crate) fn reach_changed(&mut self) {
        for (at, machine) in self.machines.iter().enumerate() {
            self.up[at] = machine.process.is_some() && machine.paused.is_none();
        }
        let hearing = Hearing { net: &self.net, up: &self.up, by_node: &self.by_node };
        if let Some(log) = self.log.as_mut() {
            log.reach_changed(self.now, &hearing);
        }
        self.plan_log();
    }
}
