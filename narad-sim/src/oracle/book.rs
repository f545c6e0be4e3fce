//! What everybody agreed on: the log as it was first applied, folded once more.
//!
//! The first replica that applies an entry tells what was committed. The fold is the machines' own,
//! so that its fields say what the nodes believe; the invariants judge by what the entries say and
//! by the records kept here beside it.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use narad_core::ids::{Incarnation, LogIndex, NodeId, PartitionId, ProposalId};
use narad_core::metastore::{Applied, Assignment, Command, Entry, Member, Reply, State};

use super::ingress::Ingress;
use super::law::{Law, probe::Probes};
use super::part::Part;
use super::sink::{Cx, Subject};
use super::{End, Origin, s06_reports, s16_monotone};
use crate::time::Time;

/// The committed log, and what it is about.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// The reference fold; `None` until the first state is seen.
    state: Option<State>,
    /// What the fold must come to.
    law: Law,
    probes: Probes,
    /// How the newest entry ended.
    last: Option<(LogIndex, Reply)>,
    /// Fingerprints of the entries that were folded, from the one at `first` on.
    prints: Vec<u64>,
    first: u64,
    pub(super) parts: BTreeMap<PartitionId, Part>,
    pub(super) nodes: BTreeMap<NodeId, Witness>,
    /// What nodes have accepted.
    pub(super) ingress: Ingress,
    /// Proposals whose origin matters later.
    pub(super) asked: BTreeMap<ProposalId, Asked>,
    /// The last change of the most moves in flight, and what it was before (S14).
    pub(super) narrowed: Option<(Time, u32)>,
    /// Whether some clock's rate was ever out of bound.
    pub(super) clocks_wild: bool,
    /// How many flips the log refused.
    pub(super) flips_rejected: u64,
    /// Since when the world only heals.
    pub(super) healing: Option<Time>,
    /// When there was last nobody who led.
    pub(super) leaderless: Time,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Witness {
    pub(super) up: bool,
    pub(super) life: Incarnation,
    pub(super) applied: LogIndex,
    /// It has just been started: what it begins with may be told together with what it replays.
    fresh: bool,
    /// Which leader last asked for its removal.
    pub(super) removal: Option<NodeId>,
    /// When it was declared dead, if it is.
    pub(super) died: Option<Time>,
    /// The entry that last declared it dead.
    pub(super) dead_from: LogIndex,
    /// When it last came back from the dead.
    pub(super) returned: Option<Time>,
    /// When the log last began to know a life of it.
    pub(super) registered: Option<Time>,
    /// When it was last seen not to reach who leads, while the world heals.
    pub(super) apart: Time,
    /// When something was last seen to stand in the way of its leaving, or nobody to ask for it.
    pub(super) held: Time,
    /// Its disk is another one than in its last life, which may have counted less far.
    pub(super) other_disk: bool,
}

/// Who asked for an entry, really.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) by: NodeId,
    pub(super) origin: Origin,
    /// What the asker had applied.
    pub(super) seen: LogIndex,
}

/// One entry that took effect, and what was there before it.
pub(super) struct Turn<'a> {
    pub(super) entry: &'a Entry,
    pub(super) applied: Applied,
    /// The row before, of commands about one partition.
    pub(super) row: Option<Assignment>,
    /// The member before, of commands about one node.
    pub(super) member: Option<Member>,
    pub(super) asked: Option<Asked>,
}

impl Book {
    pub(super) fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    pub(super) fn part_mut(&mut self, partition: PartitionId) -> Option<&mut Part> {
        self.parts.get_mut(&partition)
    }

    pub(super) fn life(&self, node: NodeId) -> Incarnation {
        self.nodes.get(&node).map(|witness| witness.life).unwrap_or_default()
    }

    pub(super) fn started(&mut self, node: NodeId, life: Incarnation, cx: &mut Cx<'_>) {
        let witness = self.nodes.entry(node).or_default();
        let again = life == witness.life && !witness.up && life.0 > 0;
        if (life < witness.life || again) && !witness.other_disk {
            let last = witness.life;
            cx.breach("S16", node, || format!("it begins life {life} after life {last}"));
        }
        let (fresh, before) = (!witness.up, witness.life);
        *witness = Witness { up: true, life, fresh, other_disk: false, ..*witness };
        if !fresh {
            // The same process reads no more of its staging again than before.
            for part in self.parts.values_mut() {
                part.rotten
                    .entry(node)
                    .and_modify(|of| *of = if *of == before { life } else { *of });
            }
        }
    }

    pub(super) fn ended(&mut self, node: NodeId, _how: End, now: Time) {
        let witness = self.nodes.entry(node).or_default();
        (witness.up, witness.applied) = (false, LogIndex(0));
        for part in self.parts.values_mut() {
            part.serving.retain(|serving| serving.node != node);
            part.open.retain(|(open, _)| *open != node);
            part.opened.remove(&node);
            part.thaw(now, |frozen| frozen.node == node);
            if part.consumers.life.is_some_and(|(owner, ..)| owner == node) {
                part.consumers.life = None;
            }
        }
    }

    /// A node's state was replaced, or is what it begins with.
    pub(super) fn restored(&mut self, node: NodeId, state: &State, cx: &mut Cx<'_>) {
        let applied = state.applied();
        let witness = self.nodes.entry(node).or_default();
        if applied < witness.applied {
            let before = witness.applied;
            cx.breach("S16", node, || format!("it goes back from entry {before} to {applied}"));
        }
        if !std::mem::take(&mut witness.fresh) {
            witness.applied = applied;
        }
        match &self.state {
            Some(known) if known.applied() == applied => {
                if known != state {
                    cx.breach("S16", node, || {
                        format!("its state of entry {applied} is not what the log comes to")
                    });
                }
            }
            Some(known) if known.applied() > applied => {}
            Some(_) | None => self.adopt(state, cx.now),
        }
    }

    /// Begins with a state whose past nobody has told of.
    fn adopt(&mut self, state: &State, now: Time) {
        for (partition, row) in state.assignments() {
            let known = self.parts.get(&partition).and_then(Part::last).map(|reign| reign.epoch);
            if known != Some(row.epoch) {
                self.parts.insert(partition, Part::adopted(partition, row, now));
            }
        }
        for (partition, part) in &mut self.parts {
            part.gone |= state.assignment(*partition).is_none();
        }
        self.prints.clear();
        self.first = state.applied().0 + 1;
        self.law = Law::of(state);
        self.state = Some(state.clone());
    }

    /// A node passes an index of the log. Returns whether it is the first.
    fn passes(
        &mut self,
        node: NodeId,
        index: LogIndex,
        print: impl FnOnce() -> u64,
        cx: &mut Cx<'_>,
    ) -> bool {
        let witness = self.nodes.entry(node).or_default();
        if index <= witness.applied {
            let before = witness.applied;
            cx.breach("S16", node, || format!("it applies entry {index} after entry {before}"));
        }
        witness.applied = witness.applied.max(index);
        let state = self.state.get_or_insert_with(|| {
            self.first = 1;
            State::new()
        });
        let known = state.applied();
        if index > known {
            // Entries that nobody was told of count as different from any other.
            let at = index.0.saturating_sub(self.first);
            let length =
                usize::try_from(at).unwrap_or(usize::MAX).min(self.prints.len() + (1 << 16));
            self.prints.resize(length, 0);
            self.prints.push(print());
            return true;
        }
        let at = index.0.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let first = at.and_then(|at| self.prints.get(at)).copied().unwrap_or_default();
        if first != 0 && first != print() {
            cx.breach("S16", Subject::Cluster, || {
                format!("{node:?} applies another entry {index} than was applied before")
            });
        }
        false
    }

    /// Folds an entry, unless somebody has applied it before. `None` if it changed nothing.
    pub(super) fn applied<'e>(
        &mut self,
        node: NodeId,
        index: LogIndex,
        entry: &'e Entry,
        cx: &mut Cx<'_>,
    ) -> Option<Turn<'e>> {
        if !self.passes(node, index, || fingerprint(entry), cx) {
            return None;
        }
        let state = self.state.as_mut()?;
        let row = entry.command.partition().and_then(|p| state.assignment(p)).cloned();
        let member = about_member(&entry.command).and_then(|n| state.member(n)).cloned();
        let policy = matches!(entry.command, Command::SetPolicy(_)).then(|| state.policy().clone());
        // An entry that halts the log halts every node alike.
        let outcome = state.apply(index, entry).ok()?;
        self.law.compare(index, entry, &outcome, state, cx);
        self.probes.follow(index, entry, (state, &self.law), cx);
        // An entry may be in the log twice, and the second may find what the first did not.
        let asked = self.asked.get(&entry.proposal).copied();
        self.last = Some((index, outcome.reply.clone()));
        let Reply::Applied(applied) = outcome.reply else {
            self.flips_rejected += u64::from(matches!(entry.command, Command::CompleteMove { .. }));
            return None;
        };
        if outcome.changed.is_empty() {
            return None;
        }
        let turn = Turn { entry, applied, row, member, asked };
        s16_monotone::folded(state, &turn, &outcome.changed, cx);
        if let Some(before) = policy.filter(|old| state.policy().max_in_flight < old.max_in_flight)
        {
            self.narrowed = Some((cx.now, before.max_in_flight));
        }
        Some(turn)
    }

    /// A node is heard, and answered, by the leader.
    pub(super) fn hears(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        let (Some(known), Some(own)) = (&self.state, cx.look.node(node)) else { return };
        for partition in known.outbound_of(node) {
            if let Some(part) = self.parts.get_mut(&partition) {
                s06_reports::heard(part, node, own.state(), known, cx);
            }
        }
    }

    /// Compares the whole of the fold with what it must come to.
    pub(super) fn check_fold(&self, cx: &mut Cx<'_>) {
        if let Some(state) = &self.state {
            self.law.compare_all(state, cx);
        }
    }

    /// Returns what the newest entry was answered.
    pub(super) fn reply(&self) -> Option<(LogIndex, &Reply)> {
        self.last.as_ref().map(|(index, reply)| (*index, reply))
    }

    /// Passes over an entry that says nothing.
    pub(super) fn skipped(&mut self, node: NodeId, index: LogIndex, cx: &mut Cx<'_>) {
        let first = self.passes(node, index, || 1, cx);
        if let Some(state) = self.state.as_mut().filter(|_| first) {
            // The index is past the last one: it was compared just now.
            let _ = state.skip(index);
        }
    }

    /// Takes over a configuration. Returns whether nobody has applied it before.
    pub(super) fn configured(
        &mut self,
        node: NodeId,
        index: LogIndex,
        configuration: &narad_core::metastore::Configuration,
        cx: &mut Cx<'_>,
    ) -> bool {
        // What a node is born with has no index of its own.
        if self.nodes.get(&node).is_some_and(|witness| witness.applied == index) {
            let first = self.state.as_ref().is_none_or(|known| {
                known.applied() == index && known.configuration().voters.is_empty()
            });
            if first {
                self.state.get_or_insert_with(State::new);
                self.first = self.first.max(1);
                self.configure(index, configuration);
            }
            return false;
        }
        self.passes(node, index, || fingerprint(configuration), cx)
    }

    /// Makes a configuration that was judged the present one.
    pub(super) fn configure(
        &mut self,
        index: LogIndex,
        configuration: &narad_core::metastore::Configuration,
    ) {
        if let Some(state) = self.state.as_mut() {
            let _ = state.configure(index, configuration.clone());
            self.law.configure(configuration);
        }
    }
}

/// Returns the node that a command is about, of those whose member before it matters.
fn about_member(command: &Command) -> Option<NodeId> {
    match command {
        Command::Register { node, .. }
        | Command::MarkDead { node, .. }
        | Command::SetDraining { node, .. }
        | Command::DrainedOut { node, .. }
        | Command::Retire { node, .. } => Some(*node),
        Command::Join { .. }
        | Command::Report { .. }
        | Command::CreateTopic { .. }
        | Command::DeleteTopic { .. }
        | Command::AssignPartition { .. }
        | Command::SetTarget { .. }
        | Command::ClearTarget { .. }
        | Command::CompleteMove { .. }
        | Command::Resolve { .. }
        | Command::Revoke { .. }
        | Command::ReclaimReady { .. }
        | Command::SetPolicy(_)
        | Command::SetPin { .. }
        | Command::DeclareLost { .. }
        | Command::RaiseVersion { .. } => None,
    }
}

/// Returns a number that tells two entries apart; the same on every machine, never zero.
fn fingerprint(of: &impl Hash) -> u64 {
    let mut print = Print(0x9e37_79b9_7f4a_7c15);
    of.hash(&mut print);
    print.0 | 2
}

/// A quick hash whose result does not depend on the machine: numbers are taken as 64 bits.
struct Print(u64);

impl Print {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Print {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.mix(u64::from_ne_bytes((number as i64).to_ne_bytes()));
    }
}
