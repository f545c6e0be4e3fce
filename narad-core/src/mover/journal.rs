//! What a mover was told, from its start: enough to drive the same machine again, anywhere.
//!
//! # Purpose
//!
//! A machine has no clock and no other input than its events, so that its whole course follows from
//! them. A [`Journal`] keeps them, with what each led to in short, so that whoever
//! [drives it again](Journal::replay) sees whether it is still the same course. Nothing here decides
//! anything.
//!
//! # Invariants
//!
//! 1. *Bounded.* A journal keeps its first [`Journal::WEIGHT_MAX`] of inputs, and counts those after
//!    them; [`Journals`] keeps [`Journals::LENGTH_MAX`] journals, those of moves under way first.
//! 2. *Off unless asked for.* A node keeps none unless its driver says so, and behaves the same then.
//!
//! # After a restart
//!
//! Journals are gone; the first input of the next one is what the restart has found.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::{Effect, Event, FreezeCost, Me, Mover, Operation, Outcome, Phase};
use crate::config::Config;
use crate::effects::Effects;
use crate::ids::PartitionId;
use crate::partition::Recovered;
use crate::time::Instant;

/// One input of a mover.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Input {
    /// It was told something.
    Event(Event),
    /// It learned what freezes cost on its node.
    Learned(FreezeCost),
}

/// One input with its time, and what the machine made of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Entry {
    /// When, on the clock of that node.
    pub at: Instant,
    /// What.
    pub input: Input,
    /// How many effects it had.
    pub effects: u32,
    /// Where the move was then.
    pub phase: Phase,
}

/// With what a mover was started.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Beginning {
    /// When, on the clock of that node.
    pub at: Instant,
    /// For whom.
    pub me: Me,
    /// The partition.
    pub partition: PartitionId,
    /// The node's configuration.
    pub config: Config,
    /// What was found on its disk.
    pub found: Recovered,
}

/// The inputs of one mover.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Journal {
    /// The first.
    pub beginning: Beginning,
    /// The others, in order.
    pub entries: Vec<Entry>,
    /// Inputs that were not kept, because there were too many.
    pub left_out: u64,
    weight: u32,
}

impl Journal {
    /// How much one journal keeps: an input counts one, and each extent that it names another one.
    pub const WEIGHT_MAX: u32 = 1 << 14;

    /// Begins with what a mover is started with.
    #[must_use]
    pub const fn new(beginning: Beginning) -> Self {
        Self { beginning, entries: Vec::new(), left_out: 0, weight: 0 }
    }

    /// Puts a journal together that was taken apart.
    #[must_use]
    pub const fn of(beginning: Beginning, entries: Vec<Entry>, left_out: u64) -> Self {
        Self { beginning, entries, left_out, weight: 0 }
    }

    /// Adds an input.
    pub fn add(&mut self, entry: Entry) {
        let weight = self.weight.saturating_add(weight(&entry.input));
        // One that is left out leaves out all that follow: a gap could not be driven over.
        if self.left_out > 0 || weight > Self::WEIGHT_MAX {
            self.left_out += 1;
            return;
        }
        self.weight = weight;
        self.entries.push(entry);
    }

    /// Drives a machine through the inputs; `see` is shown each of them, the machine after it and its
    /// effects, and ends it early by answering false. Returns how many inputs had the effects and
    /// phases that are in the journal, up to the first that had not.
    ///
    /// # Panics
    ///
    /// As [`Mover::handle`], if the journal is not of this machine.
    pub fn replay(&self, mut see: impl FnMut(&Entry, &Mover, &[Effect], bool) -> bool) -> usize {
        let Beginning { at, me, partition, config, found } = self.beginning.clone();
        let mut out = Effects::default();
        let mut mover = Mover::new(at, me, partition, config, found, &mut out);
        let mut same = 0;
        for entry in &self.entries {
            out = Effects::default();
            match entry.input.clone() {
                Input::Event(event) => mover.handle(entry.at, event, &mut out),
                Input::Learned(cost) => mover.learn(cost),
            }
            let effects = u32::try_from(out.as_slice().len()).unwrap_or(u32::MAX);
            let is_same = (effects, mover.phase()) == (entry.effects, entry.phase);
            same += usize::from(is_same);
            if !see(entry, &mover, out.as_slice(), is_same) || !is_same {
                break;
            }
        }
        same
    }
}

/// What an input costs to keep.
fn weight(input: &Input) -> u32 {
    let extents = match input {
        Input::Event(Event::Done(_, Outcome::List(Ok(listing)))) => listing.extents.len(),
        Input::Event(Event::Done(_, Outcome::Prepare(Ok(capture)))) => {
            capture.listing.extents.len()
        }
        Input::Event(Event::Row(Some(row))) => row.lineage.len(),
        Input::Event(Event::Wake | Event::Done(..) | Event::Row(None) | Event::Source(..))
        | Input::Learned(_) => 0,
    };
    u32::try_from(extents).unwrap_or(u32::MAX).saturating_add(1)
}

/// The journals of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Journals {
    running: BTreeMap<PartitionId, Journal>,
    over: VecDeque<Journal>,
}

impl Journals {
    /// Most journals that are kept of moves that are over.
    pub const LENGTH_MAX: usize = 16;
    /// Most that are kept of moves under way.
    pub const RUNNING_MAX: usize = 64;

    /// Begins the journal of a mover.
    pub fn begin(&mut self, beginning: Beginning) {
        let partition = beginning.partition;
        self.end(partition);
        if self.running.len() < Self::RUNNING_MAX {
            self.running.insert(partition, Journal::new(beginning));
        }
    }

    /// Adds to it what the machine was told and what it did.
    pub fn add(&mut self, mover: &Mover, at: Instant, input: Input, effects: usize) {
        let Some(journal) = self.running.get_mut(&mover.partition()) else { return };
        let effects = u32::try_from(effects).unwrap_or(u32::MAX);
        journal.add(Entry { at, input, effects, phase: mover.phase() });
    }

    /// Closes the journal of a mover that is over.
    pub fn end(&mut self, partition: PartitionId) {
        let Some(journal) = self.running.remove(&partition) else { return };
        self.over.push_back(journal);
        if self.over.len() > Self::LENGTH_MAX {
            self.over.pop_front();
        }
    }

    /// Returns the newest journal of a partition.
    pub fn newest(&self, partition: PartitionId) -> Option<&Journal> {
        let is_of = |journal: &&Journal| journal.beginning.partition == partition;
        self.running.get(&partition).or_else(|| self.over.iter().rev().find(is_of))
    }
}

impl Operation {
    /// Returns the name of the operation, for people and programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Operation::ReadRow => "read-row",
            Self::List { .. } => "list",
            Self::Copy { .. } => "copy",
            Self::Checkpoint(_) => "checkpoint",
            Self::Trim { .. } => "trim",
            Self::ReachLeader => "reach-leader",
            Self::Probe { .. } => "probe",
            Self::Prepare { .. } => "prepare",
            Self::Renew { .. } => "renew",
            Self::Release { .. } => "release",
            Self::Verify(_) => "verify",
            Self::Install { .. } => "install",
            Self::Propose(_) => "propose",
            Self::Restage { .. } => "restage",
            Self::SetAside(_) => "set-aside",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Incarnation, NodeId, TopicId};

    fn partition(index: u32) -> PartitionId {
        PartitionId { topic: TopicId(1), index }
    }

    fn beginning(index: u32) -> Beginning {
        Beginning {
            at: Instant::ORIGIN,
            me: Me { node: NodeId(2), incarnation: Incarnation(1) },
            partition: partition(index),
            config: Config::new(7),
            found: Recovered::default(),
        }
    }

    fn wake(phase: Phase, effects: u32) -> Entry {
        Entry { at: Instant::ORIGIN, input: Input::Event(Event::Wake), effects, phase }
    }

    /// A journal drives the same machine through the same course, and a machine
    /// that has changed is found out.
    #[test]
    fn a_journal_is_driven_again_and_a_difference_is_seen() {
        let mut mover_effects = Effects::default();
        let Beginning { at, me, partition, config, found } = beginning(0);
        let mut mover = Mover::new(at, me, partition, config, found, &mut mover_effects);
        let mut journal = Journal::new(beginning(0));
        for _ in 0..3 {
            let mut out = Effects::default();
            mover.handle(at, Event::Wake, &mut out);
            let effects = u32::try_from(out.as_slice().len()).unwrap();
            journal.add(wake(mover.phase(), effects));
        }
        let mut seen = 0;
        let same = journal.replay(|_, _, _, same| {
            seen += 1;
            same
        });
        assert_eq!((same, seen), (3, 3));
        journal.entries[1].phase = Phase::Over;
        assert_eq!(journal.replay(|_, _, _, _| true), 1);
    }

    #[test]
    fn journals_are_bounded() {
        let mut journal = Journal::new(beginning(0));
        for _ in 0..=Journal::WEIGHT_MAX {
            journal.add(wake(Phase::Locate, 0));
        }
        journal.add(wake(Phase::Locate, 0));
        assert_eq!((journal.entries.len(), journal.left_out), (1 << 14, 2));
        let mut journals = Journals::default();
        for index in 0..100 {
            journals.begin(beginning(index));
            journals.end(partition(index));
        }
        assert!(journals.newest(partition(0)).is_none());
        assert!(journals.newest(partition(99)).is_some());
        assert_eq!(journals.over.len(), Journals::LENGTH_MAX);
        for index in 100..1000 {
            journals.begin(beginning(index));
        }
        assert_eq!(journals.running.len(), Journals::RUNNING_MAX);
    }
}
