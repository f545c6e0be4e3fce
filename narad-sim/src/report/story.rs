//! What the lines of a trace add up to: who was up, who led, who owned, moved and froze what.
//!
//! # Divergence from reality
//!
//! A trace tells what happened, not what was true throughout. A node counts as up from the start
//! unless the first that is heard of its process is that it starts; what was open when a process
//! went down, ends there; what is open at the end of the trace, ends there.

use std::collections::BTreeMap;

use crate::trace::{Kind, Line};

use super::read::Trace;
use super::words;

/// A stretch of time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from_us: u64,
    pub(super) to_us: u64,
}

impl Stretch {
    pub(super) const fn length_us(self) -> u64 {
        self.to_us.saturating_sub(self.from_us)
    }
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Up,
    Paused,
    Down,
}

/// A stretch in which something was so at a node: by its place in [`Story::nodes`].
#[derive(Clone, Debug)]
pub(super) struct AtNode<T> {
    pub(super) node: usize,
    pub(super) when: Stretch,
    pub(super) what: T,
}

/// A stretch of a partition, by its place in [`Story::partitions`].
#[derive(Clone, Debug)]
pub(super) struct AtPartition<T> {
    pub(super) partition: usize,
    /// The node that it is about: owner, destination, or who froze.
    pub(super) node: usize,
    pub(super) when: Stretch,
    pub(super) what: T,
    /// Place in the trace of the line that began it.
    pub(super) line: usize,
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Arrived {
        line: usize,
    },
    Lost {
        line: usize,
    },
    /// Nothing more was seen of it.
    Unseen,
}

/// A message, or one copy of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    /// Place in the trace of the line that sent it.
    pub(super) line: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) fate: Fate,
}

/// What the lines add up to.
#[derive(Clone, Debug, Default)]
pub(super) struct Story {
    pub(super) nodes: Vec<String>,
    pub(super) partitions: Vec<String>,
    pub(super) end_us: u64,
    pub(super) lives: Vec<AtNode<Life>>,
    pub(super) leaders: Vec<AtNode<()>>,
    /// Phases of moves, at their destination.
    pub(super) phases: Vec<AtPartition<String>>,
    pub(super) freezes: Vec<AtPartition<()>>,
    /// Who owned it, and in which epoch if the trace says so.
    pub(super) reigns: Vec<AtPartition<Option<u64>>>,
    pub(super) messages: Vec<Message>,
    /// Places in the trace of what was done to the world.
    pub(super) faults: Vec<usize>,
    /// Places in the trace of what did not hold.
    pub(super) violations: Vec<usize>,
}

/// Tells the story of a trace.
pub(super) fn story(trace: &Trace) -> Story {
    let mut teller = Teller::new(&trace.lines);
    for (place, line) in trace.lines.iter().enumerate() {
        teller.hear(place, line);
    }
    let last = trace.lines.last().map_or(0, |line| line.at_us);
    teller.end(last.max(trace.summary.simulated_us))
}

/// Returns what a process is after something was done to it, if that changes it.
fn life_after(fault: &str) -> Option<Life> {
    match fault {
        "start" | "restart" | "join" | "resume" | "up" => Some(Life::Up),
        "pause" | "suspend" => Some(Life::Paused),
        "kill" | "power-loss" | "stop" | "stopped" | "panic" | "halt" | "down" | "erase-disk" => {
            Some(Life::Down)
        }
        _ => None,
    }
}

/// Hears the lines one by one, and keeps what has begun and not ended.
struct Teller {
    story: Story,
    nodes: BTreeMap<String, usize>,
    partitions: BTreeMap<String, usize>,
    life: Vec<Option<(Life, u64)>>,
    leads_since: Vec<Option<u64>>,
    /// By partition and destination.
    phase: BTreeMap<(usize, usize), (String, u64, usize)>,
    /// By partition and owner.
    frozen: BTreeMap<(usize, usize), (u64, usize)>,
    /// Owner, epoch, since when, and by which line.
    reign: BTreeMap<usize, (usize, Option<u64>, u64, usize)>,
    /// The last entry of the log that anybody has applied.
    newest_entry: Option<u64>,
    /// By the number of the line that sent it; and whether anything became of it.
    underway: BTreeMap<u64, (Message, bool)>,
}

impl Teller {
    fn new(lines: &[Line]) -> Self {
        let nodes = names(lines, |line| [line.node.as_deref(), line.peer.as_deref()]);
        let partitions = names(lines, |line| [line.partition.as_deref(), None]);
        let places = |names: &[String]| {
            names.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect()
        };
        Self {
            nodes: places(&nodes),
            partitions: places(&partitions),
            life: vec![None; nodes.len()],
            leads_since: vec![None; nodes.len()],
            phase: BTreeMap::new(),
            frozen: BTreeMap::new(),
            reign: BTreeMap::new(),
            newest_entry: None,
            underway: BTreeMap::new(),
            story: Story { nodes, partitions, ..Story::default() },
        }
    }

    fn hear(&mut self, place: usize, line: &Line) {
        match line.kind {
            Kind::Send => self.send(place, line),
            Kind::Deliver => self.fate(line, Fate::Arrived { line: place }),
            Kind::Drop => self.fate(line, Fate::Lost { line: place }),
            Kind::Applied => self.applied(place, line),
            Kind::Note => self.note(line),
            Kind::Phase => self.phase(place, line),
            Kind::Freeze => self.freeze(place, line),
            Kind::Fault => self.fault(place, line),
            Kind::Violation => self.story.violations.push(place),
            Kind::Wake | Kind::Effect | Kind::Done | Kind::Ack | Kind::Read | Kind::Step => {}
        }
    }

    fn node(&self, line: &Line) -> Option<usize> {
        self.nodes.get(line.node.as_deref()?).copied()
    }

    fn peer(&self, line: &Line) -> Option<usize> {
        self.nodes.get(line.peer.as_deref()?).copied()
    }

    fn partition(&self, line: &Line) -> Option<usize> {
        self.partitions.get(line.partition.as_deref()?).copied()
    }

    fn send(&mut self, line: usize, sent: &Line) {
        if let (Some(from), Some(to)) = (self.node(sent), self.peer(sent)) {
            let message = Message { line, from, to, fate: Fate::Unseen };
            self.underway.insert(sent.n, (message, false));
        }
    }

    /// A delivery or a loss. A message may arrive twice: each copy has its fate.
    fn fate(&mut self, line: &Line, fate: Fate) {
        let Some((message, known)) = line.of.and_then(|of| self.underway.get_mut(&of)) else {
            return;
        };
        *known = true;
        self.story.messages.push(Message { fate, ..*message });
    }

    /// Only the first node that applies an entry tells something new.
    fn applied(&mut self, place: usize, line: &Line) {
        let entry = words::entry(line);
        if entry.is_some() && entry <= self.newest_entry {
            return;
        }
        self.newest_entry = entry.or(self.newest_entry);
        let Some(partition) = self.partition(line).filter(|_| !words::is_rejected(line)) else {
            return;
        };
        let expected = words::expected(line);
        let named = |name: &str| self.nodes.get(name).copied();
        if let Some((owner, epoch)) =
            expected.and_then(|(owner, epoch)| Some((named(owner)?, epoch)))
        {
            // Nobody was seen to give it to its first owner: it was so from the start.
            self.reign.entry(partition).or_insert((owner, Some(epoch), 0, place));
        }
        let owner = match words::value(line, "owner") {
            Some(name) => named(name),
            None if words::is_flip(line) => words::proposer(line).as_deref().and_then(named),
            None => None,
        };
        let after =
            || expected.filter(|_| words::is_flip(line)).map(|(_, epoch)| epoch.saturating_add(1));
        let epoch = words::number(line, "epoch").or_else(after);
        if let Some(owner) = owner {
            self.owned(partition, owner, epoch, (line.at_us, place));
        }
    }

    fn owned(&mut self, partition: usize, owner: usize, epoch: Option<u64>, at: (u64, usize)) {
        let (at_us, place) = at;
        if let Some((before, was, ..)) = self.reign.get(&partition) {
            let is_news = match (epoch, was) {
                (Some(epoch), Some(was)) => epoch > *was,
                _ => *before != owner,
            };
            if !is_news {
                return;
            }
        }
        self.end_reign(partition, at_us);
        self.reign.insert(partition, (owner, epoch, at_us, place));
    }

    /// A node says whom it takes for the leader: it leads while that is itself.
    fn note(&mut self, line: &Line) {
        let Some(node) = self.node(line).filter(|_| line.name == "leader") else { return };
        let leader = self.peer(line).or_else(|| self.nodes.get(words::leader(line)?).copied());
        if leader == Some(node) {
            self.leads_since[node].get_or_insert(line.at_us);
        } else {
            self.end_lead(node, line.at_us);
        }
    }

    fn phase(&mut self, place: usize, line: &Line) {
        let (Some(partition), Some(node)) = (self.partition(line), self.node(line)) else { return };
        self.end_phase((partition, node), line.at_us);
        if line.name != "over" {
            self.phase.insert((partition, node), (line.name.clone(), line.at_us, place));
        }
    }

    fn freeze(&mut self, place: usize, line: &Line) {
        let (Some(partition), Some(node)) = (self.partition(line), self.node(line)) else { return };
        if line.name == "begin" {
            self.frozen.entry((partition, node)).or_insert((line.at_us, place));
        } else {
            self.end_freeze((partition, node), line.at_us);
        }
    }

    fn fault(&mut self, place: usize, line: &Line) {
        self.story.faults.push(place);
        let (Some(node), Some(next)) = (self.node(line), life_after(&line.name)) else { return };
        let begins = matches!(line.name.as_str(), "start" | "join" | "up");
        let before = self.life[node].unwrap_or((if begins { Life::Down } else { Life::Up }, 0));
        if before.0 == next && self.life[node].is_some() {
            return;
        }
        self.end_life(node, before, line.at_us);
        self.life[node] = Some((next, line.at_us));
        if next == Life::Down {
            self.process_ends(node, line.at_us);
        }
    }

    fn process_ends(&mut self, node: usize, at_us: u64) {
        self.end_lead(node, at_us);
        let moves: Vec<_> = self.phase.keys().copied().filter(|(_, at)| *at == node).collect();
        let frozen: Vec<_> = self.frozen.keys().copied().filter(|(_, at)| *at == node).collect();
        for key in moves {
            self.end_phase(key, at_us);
        }
        for key in frozen {
            self.end_freeze(key, at_us);
        }
    }

    fn end_life(&mut self, node: usize, (life, from_us): (Life, u64), to_us: u64) {
        if to_us > from_us {
            self.story.lives.push(AtNode { node, when: Stretch { from_us, to_us }, what: life });
        }
    }

    fn end_lead(&mut self, node: usize, to_us: u64) {
        if let Some(from_us) = self.leads_since[node].take() {
            self.story.leaders.push(AtNode { node, when: Stretch { from_us, to_us }, what: () });
        }
    }

    fn end_phase(&mut self, key: (usize, usize), to_us: u64) {
        if let Some((what, from_us, line)) = self.phase.remove(&key) {
            let (partition, node) = key;
            let when = Stretch { from_us, to_us };
            self.story.phases.push(AtPartition { partition, node, when, what, line });
        }
    }

    fn end_freeze(&mut self, key: (usize, usize), to_us: u64) {
        if let Some((from_us, line)) = self.frozen.remove(&key) {
            let (partition, node) = key;
            let when = Stretch { from_us, to_us };
            self.story.freezes.push(AtPartition { partition, node, when, what: (), line });
        }
    }

    fn end_reign(&mut self, partition: usize, to_us: u64) {
        if let Some((node, what, from_us, line)) = self.reign.remove(&partition) {
            let when = Stretch { from_us, to_us };
            self.story.reigns.push(AtPartition { partition, node, when, what, line });
        }
    }

    fn end(mut self, end_us: u64) -> Story {
        for node in 0..self.life.len() {
            let life = self.life[node].unwrap_or((Life::Up, 0));
            self.end_life(node, life, end_us);
            self.end_lead(node, end_us);
        }
        let moves: Vec<_> = self.phase.keys().copied().collect();
        for key in moves {
            self.end_phase(key, end_us);
        }
        let frozen: Vec<_> = self.frozen.keys().copied().collect();
        for key in frozen {
            self.end_freeze(key, end_us);
        }
        let owned: Vec<_> = self.reign.keys().copied().collect();
        for key in owned {
            self.end_reign(key, end_us);
        }
        let left = self.underway.into_values().filter(|(_, known)| !known);
        self.story.messages.extend(left.map(|(message, _)| message));
        self.story.end_us = end_us;
        self.story.phases.sort_by_key(|phase| phase.line);
        self.story.freezes.sort_by_key(|freeze| freeze.line);
        self.story.reigns.sort_by_key(|reign| reign.line);
        self.story.lives.sort_by_key(|life| (life.node, life.when.from_us));
        self.story.messages.sort_by_key(|message| message.line);
        self.story
    }
}

/// Returns every name that the lines use, `n2` before `n10`.
fn names<'a>(lines: &'a [Line], of: impl Fn(&'a Line) -> [Option<&'a str>; 2]) -> Vec<String> {
    let mut found: Vec<&str> =
        lines.iter().flat_map(|line| of(line).into_iter().flatten()).collect();
    found.sort_unstable();
    found.dedup();
    found.sort_by_cached_key(|name| natural(name));
    found.into_iter().map(str::to_owned).collect()
}

/// Cuts a name into words and the numbers behind them.
fn natural(name: &str) -> Vec<(&str, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(digits);
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(end);
        parts.push((word, number.parse().unwrap_or(u64::MAX)));
        rest = after;
    }
    parts
}
