//! What the world tells of itself: to the oracle, to the trace, to the figures.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use narad_core::freeze::gate::Standing;
use narad_core::ids::PartitionId;
use narad_core::node::{Effect, Event};
use rustc_hash::FxHasher;

use crate::scenario::Step;
use crate::time::Time;
use crate::trace::{Kind, Line};

/// Takes the lines of a trace.
pub(crate) type Sink = Box<dyn FnMut(Line)>;

/// Writes down what happens, and sums it up.
pub(crate) struct Recorder {
    /// Events so far.
    pub(crate) events: u64,
    hash: FxHasher,
    lines: u64,
    sink: Option<Sink>,
    topics: BTreeMap<u64, String>,
    pub(crate) notes: BTreeMap<&'static str, u64>,
    noted: BTreeMap<(&'static str, usize, Option<PartitionId>), u64>,
    commands: BTreeMap<&'static str, u64>,
    counts: BTreeMap<&'static str, u64>,
    pub(crate) faults: BTreeMap<&'static str, u64>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("events", &self.events).finish_non_exhaustive()
    }
}

/// The places that something happened at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct At {
    pub(crate) machine: Option<usize>,
    pub(crate) peer: Option<usize>,
    pub(crate) partition: Option<PartitionId>,
    pub(crate) of: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

impl Recorder {
    pub(crate) fn new(sink: Option<Sink>) -> Self {
        Self {
            events: 0,
            hash: FxHasher::default(),
            lines: 0,
            sink,
            topics: BTreeMap::new(),
            notes: BTreeMap::new(),
            noted: BTreeMap::new(),
            commands: BTreeMap::new(),
            counts: BTreeMap::new(),
            faults: BTreeMap::new(),
        }
    }

    /// Returns what summarises every event so far (S17).
    pub(crate) fn trace_hash(&self) -> u64 {
        self.hash.finish()
    }

    pub(crate) fn is_traced(&self) -> bool {
        self.sink.is_some()
    }

    pub(crate) fn event(&mut self, now: Time) {
        self.events += 1;
        self.hash.write_u64(now.0);
    }

    pub(crate) fn name_topic(&mut self, topic: u64, name: &str) {
        self.topics.insert(topic, name.to_owned());
    }

    pub(crate) fn told(&mut self, machine: usize, event: &Event) {
        self.hash.write_usize(machine);
        event.hash(&mut self.hash);
    }

    pub(crate) fn effect(&mut self, machine: usize, effect: &Effect) {
        self.hash.write_usize(machine);
        effect.hash(&mut self.hash);
    }

    pub(crate) fn bytes(&mut self, machine: usize, bytes: &[u8]) {
        self.hash.write_usize(machine);
        self.hash.write(bytes);
    }

    /// Returns a partition as people call it.
    pub(crate) fn partition_name(&self, partition: PartitionId) -> String {
        let topic = self.topics.get(&partition.topic.0);
        let topic = topic.cloned().unwrap_or_else(|| partition.topic.to_string());
        format!("{topic}/{}", partition.index)
    }

    /// Passes over a line that nobody reads, and returns its number.
    pub(crate) const fn unwritten(&mut self) -> u64 {
        self.lines += 1;
        self.lines - 1
    }

    /// Writes a line, and returns its number.
    pub(crate) fn put(&mut self, now: Time, kind: Kind, name: &str, at: At, text: String) -> u64 {
        let n = self.lines;
        self.lines += 1;
        let Some(sink) = &mut self.sink else { return n };
        let node = |machine: usize| format!("n{}", machine + 1);
        let topics = &self.topics;
        let partition = at.partition.map(|partition| {
            let topic = topics.get(&partition.topic.0).cloned();
            let topic = topic.unwrap_or_else(|| partition.topic.to_string());
            format!("{topic}/{}", partition.index)
        });
        sink(Line {
            n,
            at_us: now.as_micros(),
            kind,
            name: name.to_owned(),
            node: at.machine.map(node),
            peer: at.peer.map(node),
            partition,
            of: at.of,
            bytes: at.bytes,
            text,
        });
        n
    }

    pub(crate) fn line(
        &mut self,
        now: Time,
        kind: Kind,
        name: &str,
        machine: Option<usize>,
        peer: Option<usize>,
        partition: Option<PartitionId>,
    ) -> u64 {
        self.put(now, kind, name, At { machine, peer, partition, ..At::default() }, String::new())
    }

    /// Writes a line with words; they are made only if anybody reads them.
    pub(crate) fn said(
        &mut self,
        now: Time,
        kind: Kind,
        name: &str,
        at: At,
        text: impl FnOnce() -> String,
    ) {
        let text = if self.sink.is_some() { text() } else { String::new() };
        self.put(now, kind, name, at, text);
    }

    /// Counts a note of a node.
    pub(crate) fn count_note(
        &mut self,
        name: &'static str,
        machine: usize,
        partition: Option<PartitionId>,
    ) {
        *self.notes.entry(name).or_default() += 1;
        *self.noted.entry((name, machine, partition)).or_default() += 1;
    }

    /// Returns how often a note was seen.
    pub(crate) fn notes_of(
        &self,
        name: &str,
        machine: Option<usize>,
        partition: Option<PartitionId>,
    ) -> u64 {
        let is = |(of, at, about): &(&'static str, usize, Option<PartitionId>)| {
            *of == name
                && machine.is_none_or(|machine| machine == *at)
                && (partition.is_none() || partition == *about)
        };
        self.noted.iter().filter(|(key, _)| is(key)).map(|(_, count)| *count).sum()
    }

    /// Counts an entry that was committed.
    pub(crate) fn count_command(&mut self, name: &'static str) {
        *self.commands.entry(name).or_default() += 1;
    }

    /// Returns how many entries of a command were committed.
    pub(crate) fn commands_of(&self, name: &str) -> u64 {
        self.commands.get(name).copied().unwrap_or(0)
    }

    /// Counts something else.
    pub(crate) fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    /// Counts so many of something else.
    pub(crate) fn count_many(&mut self, name: &'static str, count: u64) {
        *self.counts.entry(name).or_default() += count;
    }

    /// Returns how often something else happened.
    pub(crate) fn count_of(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Writes down that a step was taken.
    pub(crate) fn step(&mut self, now: Time, at: usize, step: &Step) {
        let text = || format!("step {}: {:?}", at + 1, step.action);
        self.said(now, Kind::Step, step.action.word(), At::default(), text);
    }

    /// Writes down that records were acknowledged, or delivered.
    pub(crate) fn records(
        &mut self,
        now: Time,
        kind: Kind,
        machine: usize,
        partition: PartitionId,
        records: usize,
    ) {
        let at = At { machine: Some(machine), partition: Some(partition), ..At::default() };
        let name = if kind == Kind::Ack { "ack" } else { "read" };
        self.said(now, kind, name, at, || format!("{records} records"));
    }

    pub(crate) fn count_fault(&mut self, name: &'static str) {
        *self.faults.entry(name).or_default() += 1;
    }
}

/// Returns how a gate stands, for people.
pub(super) fn standing_text(standing: Standing) -> String {
    match standing {
        Standing::Closed => "closed".to_owned(),
        Standing::Reading { epoch } => format!("reading, epoch {epoch}"),
        Standing::Serving { epoch, in_play, .. } => {
            format!("serving, epoch {epoch}{}", if in_play { ", in play" } else { "" })
        }
    }
}
