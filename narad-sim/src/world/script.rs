//! The scenario's steps: which of them an event sets off, and what they do to the event itself.

use std::collections::{BTreeMap, BTreeSet};

use narad_core::ids::{NodeId, PartitionId};
use narad_core::metastore::{Command, Entry, Fence};

use super::machine::Machine;
use super::{Due, World};
use crate::scenario::{Action, Ending, Expect, Failure, Filter, Keep, Label, On, Stage, Step, Who};
use crate::time::Time;

/// A point in the life of a message, a proposal or a work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) stage: Stage,
    pub(crate) name: &'static str,
    /// A second name: of the proposal that a message carries.
    pub(crate) also: &'static str,
    pub(crate) machine: usize,
    pub(crate) peer: Option<usize>,
    pub(crate) partition: Option<PartitionId>,
    pub(crate) entry: Option<&'a Entry>,
    pub(crate) ending: Option<Ending>,
    pub(crate) reason: &'static str,
}

impl Moment<'_> {
    pub(crate) const fn new(stage: Stage, name: &'static str, machine: usize) -> Self {
        Self {
            stage,
            name,
            also: "",
            machine,
            peer: None,
            partition: None,
            entry: None,
            ending: None,
            reason: "",
        }
    }
}

/// What becomes of what is on its way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Nothing.
    Pass,
    /// It is lost.
    Drop,
    /// It comes later.
    Later(Time),
    /// It is kept until a step releases it.
    Hold(Label),
    /// It comes now and once more.
    Twice(Time),
    /// It goes on, and a copy is kept.
    Record(Label),
    /// It arrives with other bytes.
    Corrupt,
    /// It ends so.
    Fail(Failure),
    /// The power goes within it.
    Crash(u64, Keep, Option<std::time::Duration>),
    /// The process that it was of has ended.
    Gone,
}

/// The steps of a scenario, and how far each has come.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
    states: Vec<State>,
    /// By stage: whether any step waits for an event of it.
    watched: [bool; Stage::ALL.len()],
    /// What was held back.
    kept: BTreeMap<Label, Vec<Due>>,
    /// What was copied.
    recorded: BTreeMap<Label, Due>,
    /// What was let go: from then on nothing more is held under these.
    released: BTreeSet<Label>,
    /// Steps that are taken right before the event of a number.
    pub(crate) at_events: BTreeMap<u64, Vec<usize>>,
    /// When each labelled step was first taken.
    pub(crate) taken: BTreeMap<Label, Time>,
}

#[derive(Clone, Debug, Default)]
struct State {
    occurrences: u32,
    pub(crate) taken: u32,
}

/// Where a step was set off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) here: Option<usize>,
    pub(crate) peer: Option<usize>,
}

impl Script {
    pub(crate) fn new(steps: Vec<Step>, expects: &[Expect]) -> Self {
        let mut watched = [false; Stage::ALL.len()];
        for stage in super::judge::watched(expects) {
            watched[stage as usize] = true;
        }
        for step in &steps {
            if let Some(on) = &step.when.on {
                watched[on.stage as usize] = true;
            }
        }
        let states = vec![State::default(); steps.len()];
        Self { steps, states, watched, ..Self::default() }
    }

    pub(crate) const fn watches(&self, stage: Stage) -> bool {
        self.watched[stage as usize]
    }

    pub(crate) fn keep(&mut self, label: Label, due: Due) {
        self.kept.entry(label).or_default().push(due);
    }

    pub(crate) fn record(&mut self, label: Label, due: Due) {
        self.recorded.insert(label, due);
    }

    pub(crate) fn release(&mut self, label: &Label) -> Vec<Due> {
        let kept = self.kept.remove(label).unwrap_or_default();
        if !kept.is_empty() {
            self.released.insert(label.clone());
        }
        kept
    }

    /// Whether a step no longer holds anything, because what it held was let go.
    fn holds_no_more(&self, step: &Step) -> bool {
        matches!(step.action, Action::Hold {})
            && step.label.as_ref().is_some_and(|label| self.released.contains(label))
    }

    pub(crate) fn release_all(&mut self) -> Vec<Due> {
        std::mem::take(&mut self.kept).into_values().flatten().collect()
    }

    pub(crate) fn recorded(&self, label: &Label) -> Option<&Due> {
        self.recorded.get(label)
    }

    /// Returns how often the steps of a label were taken.
    pub(crate) fn taken_of(&self, label: &Label) -> u64 {
        let of = |step: &Step| step.label.as_ref() == Some(label);
        let steps = self.steps.iter().zip(&self.states);
        steps.filter(|(step, _)| of(step)).map(|(_, state)| u64::from(state.taken)).sum()
    }

    /// Stops taking steps: from here on the world only heals.
    pub(crate) fn end(&mut self) {
        self.watched = [false; Stage::ALL.len()];
    }
}

impl World {
    /// Schedules the steps that are due at a time.
    pub(super) fn plan_steps(&mut self) {
        for (at, step) in self.script.steps.clone().into_iter().enumerate() {
            let when = &step.when;
            if let Some(event) = when.event {
                self.script.at_events.entry(event).or_default().push(at);
                continue;
            }
            if when.on.is_some() || when.since.is_some() {
                continue;
            }
            let due = Time::from_start(when.at.unwrap_or_default()).after(when.after);
            self.schedule(due, Due::Step(at, Place::default()));
        }
    }

    /// Tells the script of a moment; returns what becomes of what is on its way.
    pub(crate) fn meet(&mut self, moment: Moment<'_>) -> Verdict {
        if !self.script.watches(moment.stage) {
            return Verdict::Pass;
        }
        self.meet_watched(moment)
    }

    fn meet_watched(&mut self, moment: Moment<'_>) -> Verdict {
        self.expectations_meet(&moment);
        let mut verdict = Verdict::Pass;
        let life = self.machines[moment.machine].life;
        // All of them are found first: for a step that waits for another (`since`), the event that
        // sets the other off is not one that happens after it.
        let all = 0..self.script.steps.len();
        let set_off: Vec<usize> = all.filter(|at| self.sets_off(*at, &moment)).collect();
        for at in set_off {
            let step = &self.script.steps[at];
            let label = step.label.clone().unwrap_or_else(|| Label(format!("step {}", at + 1)));
            let now = self.now;
            let meddled = match &step.action {
                Action::Hold {} => Some(Verdict::Hold(label.clone())),
                Action::Record {} => Some(Verdict::Record(label.clone())),
                Action::Drop {} => Some(Verdict::Drop),
                Action::Duplicate { later } => Some(Verdict::Twice(now.after(*later))),
                Action::Delay { by } => Some(Verdict::Later(now.after(*by))),
                Action::Corrupt {} => Some(Verdict::Corrupt),
                Action::Fail { with } => Some(Verdict::Fail(*with)),
                Action::CrashWithin { disk_step, keep, lasting } => {
                    Some(Verdict::Crash(u64::from(*disk_step), *keep, *lasting))
                }
                _ => None,
            };
            if let Some(meddled) = meddled {
                self.mark_taken(at, &label);
                if verdict == Verdict::Pass {
                    verdict = meddled;
                }
                continue;
            }
            let place = Place { here: Some(moment.machine), peer: moment.peer };
            let after = step.when.after;
            if after.is_zero() {
                self.take_step(at, place);
            } else {
                self.schedule(now.after(after), Due::Step(at, place));
            }
        }
        if self.machines[moment.machine].life == life { verdict } else { Verdict::Gone }
    }

    /// Whether an event sets a step off; counts it.
    fn sets_off(&mut self, at: usize, moment: &Moment<'_>) -> bool {
        let step = &self.script.steps[at];
        let Some(on) = &step.when.on else { return false };
        if on.stage != moment.stage || (on.name != moment.name && on.name != moment.also) {
            return false;
        }
        if self.script.holds_no_more(step) {
            return false;
        }
        if step.when.at.is_some_and(|from| self.now < Time::from_start(from)) {
            return false;
        }
        if let Some(since) = &step.when.since
            && !self.script.taken.contains_key(since)
        {
            return false;
        }
        if !self.fits(on, moment) {
            return false;
        }
        let filter_counts = on.filter.clone();
        let state = &mut self.script.states[at];
        state.occurrences += 1;
        filter_counts.counts(state.occurrences)
    }

    pub(super) fn fits(&self, on: &On, moment: &Moment<'_>) -> bool {
        let Filter { node, peer, partition, by, about, outcome, forced, reason, .. } = &on.filter;
        let is = |who: &Option<Who>, machine: Option<usize>| match who {
            None => true,
            Some(who) => machine.is_some() && self.who(who, Place::default()) == machine,
        };
        let of = |node: Option<NodeId>| node.and_then(|node| self.machine_of(node));
        let command = moment.entry.map(|entry| &entry.command);
        is(node, Some(moment.machine))
            && is(peer, moment.peer)
            && partition.as_ref().is_none_or(|name| self.partition(name) == moment.partition)
            && is(by, of(moment.entry.map(|entry| entry.by)))
            && is(about, of(command.and_then(subject)))
            && outcome.is_none_or(|outcome| moment.ending == Some(outcome))
            && forced.is_none_or(|forced| command.and_then(is_forced) == Some(forced))
            && reason.as_ref().is_none_or(|reason| reason == moment.reason)
    }

    pub(super) fn mark_taken(&mut self, at: usize, label: &Label) {
        self.script.states[at].taken += 1;
        let now = self.now;
        self.recorder.step(now, at, &self.script.steps[at]);
        if self.script.taken.contains_key(label) {
            return;
        }
        self.script.taken.insert(label.clone(), now);
        self.expectations_since(label);
        // Steps that wait for nothing but this one.
        for (at, step) in self.script.steps.clone().into_iter().enumerate() {
            if step.when.since.as_ref() == Some(label) && step.when.on.is_none() {
                let from = step.when.at.map_or(now, Time::from_start).max(now);
                self.schedule(from.after(step.when.after), Due::Step(at, Place::default()));
            }
        }
    }

    /// Takes a step that is due.
    pub(super) fn take_step(&mut self, at: usize, place: Place) {
        if self.is_live_phase {
            return;
        }
        let step = self.script.steps[at].clone();
        let label = step.label.clone().unwrap_or_else(|| Label(format!("step {}", at + 1)));
        self.mark_taken(at, &label);
        if let Some(repeat) = &step.repeat
            && (repeat.times == 0 || self.script.states[at].taken < repeat.times)
            && step.when.on.is_none()
        {
            self.schedule(self.now.after(repeat.every), Due::Step(at, place));
        }
        self.act(&label, &step.action, place);
    }

    /// Returns the machine that somebody is at.
    pub(crate) fn who(&self, who: &Who, place: Place) -> Option<usize> {
        match who {
            Who::Node(machine) => {
                let at = usize::try_from(machine.0).ok()?.checked_sub(1)?;
                (at < self.machines.len()).then_some(at)
            }
            Who::Leader => self.leader(),
            Who::Follower => {
                let leader = self.leader();
                let voters = &self.newest()?.configuration().voters;
                let follows = |at: &usize| {
                    let it: &Machine = &self.machines[*at];
                    let is_voter = it.node.is_some_and(|node| voters.contains(&node));
                    is_voter && it.process.is_some() && Some(*at) != leader
                };
                (0..self.machines.len()).find(follows)
            }
            Who::Owner(partition) => {
                let partition = self.partition(partition)?;
                self.machine_of(self.newest()?.assignment(partition)?.owner)
            }
            Who::Target(partition) => {
                let partition = self.partition(partition)?;
                self.machine_of(self.newest()?.assignment(partition)?.target?)
            }
            Who::Here => place.here,
            Who::Peer => place.peer,
        }
    }

    /// Returns who leads; of several that believe so, the one with the highest term.
    pub(crate) fn leader(&self) -> Option<usize> {
        use crate::oracle::Look as _;
        self.machine_of(self.view().leader()?)
    }

    /// Returns a partition by its name, as the newest replica knows it.
    pub(crate) fn partition(&self, name: &crate::scenario::PartitionName) -> Option<PartitionId> {
        Some(PartitionId { topic: self.topic(&name.topic)?, index: name.index })
    }
}

/// The node that a command is about.
const fn subject(command: &Command) -> Option<NodeId> {
    match command {
        Command::Register { node, .. }
        | Command::MarkDead { node, .. }
        | Command::Report { node, .. }
        | Command::SetDraining { node, .. }
        | Command::DrainedOut { node, .. }
        | Command::Retire { node, .. }
        | Command::AssignPartition { node, .. }
        | Command::ReclaimReady { node, .. } => Some(*node),
        Command::SetTarget { to, .. } | Command::DeclareLost { to, .. } => Some(*to),
        Command::CompleteMove { attempt, .. } | Command::Resolve { attempt, .. } => {
            Some(attempt.destination)
        }
        Command::Join { .. }
        | Command::CreateTopic { .. }
        | Command::DeleteTopic { .. }
        | Command::ClearTarget { .. }
        | Command::Revoke { .. }
        | Command::SetPolicy(_)
        | Command::SetPin { .. }
        | Command::RaiseVersion { .. } => None,
    }
}

const fn is_forced(command: &Command) -> Option<bool> {
    match command {
        Command::CompleteMove { fence, .. } => Some(matches!(fence, Fence::Forced { .. })),
        _ => None,
    }
}
