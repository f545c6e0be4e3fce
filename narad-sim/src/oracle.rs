//! Watches a world and says which invariant does not hold.
//!
//! The world tells an [`Oracle`] [`Fact`]s in the order in which they become true, and lets it
//! [`Look`] at disks and machines. Each invariant, S1 to S18 and L1 to L7, is a file of its own
//! that says what it checks; S17 (the same seed, the same trace) is the business of whoever runs a
//! world twice. Nothing here panics, draws or waits, and nothing that a machine says of itself is
//! believed where a log or a disk can be read.
//!
//! ```text
//!  world ── Fact ──▶ Oracle ──▶ Book: the committed log folded once more, lives, proposals
//!    ▲                 │         └ Part: one partition's reigns, records, captures, freezes
//!    └───── Look ◀─────┘──▶ s01 .. s18, l1 .. l7 ──▶ Violations, figures
//! ```
//!
//! A violation is told once per invariant and subject: what follows from it is not news.

mod book;
mod entries;
mod fact;
mod healing;
mod l1_moves;
mod l2_freezes;
mod l3_leaving;
mod l4_accept;
mod l5_serving;
mod l6_reclaim;
mod l7_balance;
mod look;
mod part;
mod s01_no_gap;
mod s02_single_writer;
mod s03_owner_has_data;
mod s04_hidden_tail;
mod s05_offset_stability;
mod s06_force_gate;
mod s07_position;
mod s08_flip;
mod s09_freeze_exclusion;
mod s10_proof;
mod s11_delivery;
mod s12_plans;
mod s14_in_flight;
mod s15_leaving;
mod s16_monotone;
mod s18_authority;
mod sets;
mod sink;
#[cfg(test)]
mod tests;

use std::time::Duration;

use narad_core::config::{Config, Policy};
use narad_core::freeze::gate::Standing;
use narad_core::ids::{Epoch, NodeId, Offset, PartitionId};
use narad_core::metastore::{Command, State};
use narad_core::mover;
use narad_core::node::Note;

pub use fact::{Directory, DiskChange, End, Fact, Origin, Read};
pub use look::{LogView, Look};

use crate::outcome::{Summary, Violation};
use book::{Asked, Book};
use part::{Acked, Try};
use s11_delivery::Deliveries;
use s12_plans::Plans;
use sink::{Cx, Sink};

/// What has been seen of one run, and what was wrong with it.
#[derive(Debug)]
pub struct Oracle {
    config: Config,
    book: Book,
    plans: Plans,
    deliveries: Deliveries,
    tally: Tally,
    sink: Sink,
}

/// Figures of a run that follow from facts.
#[derive(Debug, Default)]
struct Tally {
    acked: u64,
    planned: u64,
    done: u64,
    forced: u64,
    given_up: u64,
    copied_bytes: u64,
}

impl Oracle {
    /// Begins to watch a world whose nodes have this configuration, jitter aside.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            book: Book::default(),
            plans: Plans::default(),
            deliveries: Deliveries::default(),
            tally: Tally::default(),
            sink: Sink::default(),
        }
    }

    /// Takes in what has become true after event `event` of the run.
    pub fn observe(&mut self, event: u64, fact: Fact<'_>, look: &dyn Look) {
        let mut sink = std::mem::take(&mut self.sink);
        let mut cx = Cx { event, now: look.now(), look, sink: &mut sink };
        self.take_in(fact, &mut cx);
        self.sink = sink;
    }

    /// Judges what must hold after anything may have happened, before the world heals: that
    /// nothing is lost.
    pub fn finish_safety(&mut self, event: u64, look: &dyn Look) {
        let mut sink = std::mem::take(&mut self.sink);
        let mut cx = Cx { event, now: look.now(), look, sink: &mut sink };
        self.book.check_everything("everything that happened", &mut cx);
        self.sink = sink;
    }

    /// Judges what must hold once the world has healed and had its time. What needs time is judged
    /// only if [`Oracle::patience`] has passed since [`Fact::Liveness`], and since there was last
    /// nobody who led.
    pub fn finish_liveness(&mut self, event: u64, look: &dyn Look) {
        let mut sink = std::mem::take(&mut self.sink);
        let mut cx = Cx { event, now: look.now(), look, sink: &mut sink };
        self.book.watch(&self.config, &mut cx);
        self.book.check_everything("the world has healed", &mut cx);
        self.book.finish(&self.config, &self.deliveries, &mut cx);
        self.sink = sink;
    }

    /// Returns whether nothing is left to do: everything is served where it is to stay. A world
    /// may end its liveness phase then.
    pub fn is_settled(&self, look: &dyn Look) -> bool {
        let cx = Cx { event: 0, now: look.now(), look, sink: &mut Sink::default() };
        self.book.is_settled(&self.config, &cx)
    }

    /// Returns how long a liveness phase must be for everything to have had its time.
    pub fn patience(&self) -> Duration {
        let policy = self.book.state().map_or_else(Policy::default, |state| state.policy().clone());
        healing::patience(&policy, &self.config)
    }

    /// Returns what has not finished, with the reason that it reports.
    pub fn waiting(&self, look: &dyn Look) -> Vec<String> {
        let mut cx = Cx { event: 0, now: look.now(), look, sink: &mut Sink::default() };
        self.book.waiting(&self.config, &mut cx)
    }

    /// Returns the committed log's fold as far as any node has applied it; `None` before the first
    /// fact about it.
    pub fn state(&self) -> Option<&State> {
        self.book.state()
    }

    /// Returns what did not hold, in the order in which it was seen.
    pub fn violations(&self) -> &[Violation] {
        &self.sink.violations
    }

    /// Returns how many records that were acknowledged are nowhere any more, those that a stated
    /// exception excuses included; what retention took is not counted.
    pub fn lost(&self, look: &dyn Look) -> u64 {
        self.book.lost(&Cx { event: 0, now: look.now(), look, sink: &mut Sink::default() })
    }

    /// Returns how many flips the log refused.
    pub fn flips_rejected(&self) -> u64 {
        self.book.flips_rejected
    }

    /// Returns how many records of a partition consumers may see at least: the end of what was
    /// acknowledged or exposed in its present reign. `None` if nobody owns it.
    pub fn visible(&self, partition: PartitionId) -> Option<Offset> {
        Some(self.book.parts.get(&partition).filter(|part| !part.gone)?.last()?.visible)
    }

    /// Returns how long the freezes of a partition took that are over, in the order of their ends.
    pub fn freezes(&self, partition: PartitionId) -> &[Duration] {
        self.book.parts.get(&partition).map_or(&[], |part| &part.frozen_for)
    }

    /// Fills in the figures that follow from facts, and the violations.
    pub fn summarise(&self, summary: &mut Summary) {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let state = self.book.state();
        summary.partitions = count(state.map_or(0, |state| state.assignments().len()));
        summary.acked = self.tally.acked;
        summary.delivered = self.deliveries.delivered;
        summary.duplicates = self.deliveries.duplicates;
        summary.moves_planned = self.tally.planned;
        summary.moves_done = self.tally.done;
        summary.moves_forced = self.tally.forced;
        summary.moves_given_up = self.tally.given_up;
        summary.copied_bytes = self.tally.copied_bytes;
        let micros = |time: &Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let frozen = self.book.parts.values().flat_map(|part| &part.frozen_for);
        summary.freezes_us = frozen.map(micros).collect();
        summary.violations.extend_from_slice(&self.sink.violations);
    }

    fn take_in(&mut self, fact: Fact<'_>, cx: &mut Cx<'_>) {
        match fact {
            Fact::Started { node, life } => self.book.started(node, life, cx),
            Fact::Ended { node, how } => {
                self.book.ended(node, how, cx.now);
                if how == End::PowerLost {
                    self.book.check_disk(node, "a loss of power", cx);
                }
            }
            Fact::Disk { node, change } => self.disk_changes(node, change, cx),

            Fact::Proposed { node, entry, origin } => self.proposed(node, entry, origin, cx),
            Fact::Applied { node, index, entry } => self.applied(node, index, entry, cx),
            Fact::Configured { node, index, configuration } => {
                if self.book.configured(node, index, configuration, cx) {
                    if let Some(state) = self.book.state() {
                        s15_leaving::configured(state, configuration, cx);
                    }
                    self.book.configure(index, configuration);
                }
            }
            Fact::Skipped { node, index } => self.book.skipped(node, index, cx),
            Fact::Restored { node, state } => self.book.restored(node, state, cx),
            Fact::Configuring { node, change } => {
                if let Some(leader) = cx.look.node(node) {
                    s15_leaving::configuring(leader.state(), change, cx);
                }
            }
            Fact::Noted { node, note } => self.noted(node, note, cx),

            Fact::Authority { node, .. } => self.book.check_writers(node, cx),
            Fact::Stood { node, partition, standing } => self.stood(node, partition, standing, cx),
            Fact::Listed { node, partition, asker, move_id, listing } => {
                if let Some(part) = self.book.part_mut(partition) {
                    s04_hidden_tail::says(part, node, listing.epoch, listing.hwm, cx);
                    let present = part.last().map(|last| (last.owner, last.epoch));
                    if present == Some((node, listing.epoch)) {
                        part.sessions.insert((move_id, asker));
                    }
                }
            }
            Fact::Captured { node, partition, capture } => {
                self.captured(node, partition, capture, cx);
            }
            Fact::FrozeBlindly { node, partition, token } => {
                self.froze(node, partition, token, cx);
            }
            Fact::Thawed { node, partition, token } => {
                if let Some(part) = self.book.part_mut(partition) {
                    s09_freeze_exclusion::thawed(part, node, token, cx);
                    part.thaw(cx.now, |frozen| (frozen.node, frozen.token) == (node, token));
                }
                self.book.check_writers_of(partition, cx);
            }

            Fact::Creating { node, partition, data, start } => {
                if let Some(part) = self.book.parts.get(&partition) {
                    s03_owner_has_data::creates(part, node, data, start, cx);
                }
            }
            Fact::Opened { node, partition, data, end: _, hwm, position } => {
                let life = self.book.life(node);
                if let Some(part) = self.book.part_mut(partition) {
                    part.open.insert((node, data));
                    s04_hidden_tail::opened(part, node, data, hwm, cx);
                    s07_position::opened(part, node, life, (data, position, hwm), cx);
                }
                self.book.check_writers_of(partition, cx);
            }
            Fact::Closed { node, partition } => {
                if let Some(part) = self.book.part_mut(partition) {
                    part.open.retain(|(open, _)| *open != node);
                }
            }
            Fact::Exposed { node, partition, epoch, hwm } => {
                if let Some(part) = self.book.part_mut(partition) {
                    s04_hidden_tail::exposed(part, node, epoch, hwm, cx);
                }
            }
            Fact::SettingAside { node, partition, directory } => {
                self.sets_aside(node, partition, directory, cx);
            }
            Fact::Restaging { node, partition, data } => {
                if let (Some(part), Some(state)) =
                    (self.book.parts.get(&partition), self.book.state())
                {
                    s10_proof::restages(part, state, node, data, cx);
                }
            }
            Fact::Trimming { .. } | Fact::Installed { .. } => {}
            Fact::Retained { node, partition, start } => {
                if let Some(part) = self.book.part_mut(partition) {
                    if let Some(reign) = part.reigns.last_mut().filter(|last| last.owner == node) {
                        reign.floor = reign.floor.max(start);
                    }
                }
            }
            Fact::Copied { bytes, .. } => self.tally.copied_bytes += bytes,

            Fact::Accepted { node, ids, took, disk } => {
                self.deliveries.accepted.extend_from_slice(ids);
                l4_accept::accepted(node, took, disk, cx);
            }
            Fact::AcceptRefused { node, partition_state, closed } => {
                l4_accept::refused(node, partition_state, closed, cx);
            }
            Fact::Admitted { node, partition, epoch } => {
                if let Some(part) = self.book.part_mut(partition) {
                    s09_freeze_exclusion::appends(part, node, epoch, "admits an append", cx);
                    if let Some(reign) = part.reign_mut(epoch) {
                        reign.wrote = true;
                    }
                }
            }
            Fact::Appended { node, partition, epoch, .. } => {
                if let Some(part) = self.book.part_mut(partition) {
                    s09_freeze_exclusion::appends(part, node, epoch, "appends", cx);
                    if let Some(reign) = part.reign_mut(epoch) {
                        reign.wrote = true;
                    }
                }
            }
            Fact::Acknowledged { node, partition, epoch, first, ids } => {
                self.acknowledged(node, partition, epoch, (first, ids), cx);
            }
            Fact::AckRefused { .. } => {}

            Fact::Delivered { node, partition, epoch, first, ids, hwm, how } => {
                let life = self.book.life(node);
                if let Some(part) = self.book.part_mut(partition) {
                    let end = end_of(first, ids);
                    s04_hidden_tail::delivered(part, node, epoch, end, hwm, cx);
                    s05_offset_stability::visible(part, node, epoch, first, ids, cx);
                    s11_delivery::handed_out(
                        part,
                        (node, life, epoch),
                        (first, ids.len()),
                        how,
                        cx,
                    );
                }
                self.deliveries.delivered(ids);
            }
            Fact::ConsumerAck { node, partition, epoch, fetched, offset } => {
                let life = self.book.life(node);
                let limit = self.lease_limit(node);
                if let Some(part) = self.book.part_mut(partition) {
                    s05_offset_stability::consumed(part, node, epoch, fetched, offset, cx);
                    s07_position::taken(part, (node, life, epoch), offset, limit, cx);
                }
            }
            Fact::Position { node, partition, epoch, position, hwm } => {
                let life = self.book.life(node);
                if let Some(part) = self.book.part_mut(partition) {
                    s07_position::stands(part, (node, life, epoch), position, hwm, cx);
                }
            }
            Fact::ReadRefused { node, partition } => {
                if let Some(part) = self.book.parts.get(&partition) {
                    l5_serving::refused(part, node, cx);
                }
            }

            Fact::ClockBound(within) => self.book.clocks_wild |= !within,
            Fact::Liveness => self.book.healing = self.book.healing.or(Some(cx.now)),
            Fact::Tick => {
                if self.book.healing.is_some() {
                    self.book.watch(&self.config, cx);
                }
            }
        }
    }

    /// Damage excuses what is lost from then on, so whatever is there is checked before.
    fn disk_changes(&mut self, node: NodeId, change: DiskChange, cx: &mut Cx<'_>) {
        self.book.check_disk(node, "all that came before its disk was changed", cx);
        if let DiskChange::Lost | DiskChange::Replaced = change {
            self.book.nodes.entry(node).or_default().other_disk = true;
        }
        for part in self.book.parts.values_mut() {
            match change {
                DiskChange::Lost | DiskChange::Replaced => {
                    let held = cx.look.directories(node, part.id);
                    part.damaged.extend(held.into_iter().map(|directory| (node, directory)));
                }
                DiskChange::Rotted(partition, directory)
                | DiskChange::Erased(partition, directory) => {
                    if partition == part.id {
                        part.damaged.insert((node, directory));
                    }
                }
            }
        }
    }

    fn proposed(
        &mut self,
        node: NodeId,
        entry: &narad_core::metastore::Entry,
        origin: Origin,
        cx: &mut Cx<'_>,
    ) {
        let seen = cx.look.node(node).map(|node| node.state().applied());
        let seen = seen.or(self.book.state().map(State::applied)).unwrap_or_default();
        let asked = Asked { by: node, origin, seen };
        match &entry.command {
            Command::SetTarget { partition, to, .. } => {
                self.book.asked.entry(entry.proposal).or_insert(asked);
                if origin == Origin::Node {
                    self.plans.asked(node, *partition, *to, cx);
                }
            }
            Command::CompleteMove { partition, attempt, fence, end, .. } => {
                if let Some(part) = self.book.part_mut(*partition) {
                    let tries = part.tries.entry(*attempt).or_default();
                    let asked = Try { fence: *fence, end: *end };
                    if !tries.contains(&asked) {
                        tries.push(asked);
                    }
                }
            }
            _others_are_judged_when_applied => {}
        }
        if origin == Origin::Forged {
            self.book.asked.insert(entry.proposal, asked);
        }
    }

    fn noted(&mut self, node: NodeId, note: &Note, cx: &Cx<'_>) {
        let Note::Mover(partition, note) = note else { return };
        let target = self.book.state().and_then(|state| state.assignment(*partition)?.target);
        let Some(part) = self.book.part_mut(*partition).filter(|_| target == Some(node)) else {
            return;
        };
        if let mover::Note::Waiting(_) = note {
            part.plan.waiting = true;
        } else if let mover::Note::Resumed = note {
            part.plan.waiting = false;
            part.plan.resumed = Some(cx.now);
        }
    }

    fn stood(&mut self, node: NodeId, partition: PartitionId, standing: Standing, cx: &mut Cx<'_>) {
        let Some(part) = self.book.part_mut(partition) else { return };
        let before = part.serving.iter().find(|serving| serving.node == node);
        let before = before.map(|serving| serving.epoch);
        s02_single_writer::stood(part, node, standing);
        let reign = match standing {
            Standing::Closed | Standing::Reading { .. } => None,
            Standing::Serving { epoch, life, .. } => Some((epoch, life)),
        };
        part.thaw(cx.now, |frozen| {
            let of = (frozen.token.epoch, frozen.token.no.incarnation);
            frozen.node == node && Some(of) != reign
        });
        if let Some((epoch, _)) = reign.filter(|(epoch, _)| before != Some(*epoch)) {
            s03_owner_has_data::serves(part, node, epoch, cx);
        }
        self.book.check_writers_of(partition, cx);
    }

    fn captured(
        &mut self,
        node: NodeId,
        partition: PartitionId,
        capture: &narad_core::partition::Capture,
        cx: &mut Cx<'_>,
    ) {
        self.froze(node, partition, capture.token, cx);
        let present = self.book.state().and_then(|state| state.assignment(partition));
        let present = present.map(|row| row.move_id);
        let applied = cx.look.node(node).and_then(|node| node.state().assignment(partition));
        let move_id = applied.map(|row| row.move_id);
        let life = self.book.life(node);
        let Some(part) = self.book.part_mut(partition) else { return };
        let (epoch, hwm) = (capture.token.epoch, capture.listing.hwm);
        s04_hidden_tail::says(part, node, epoch, hwm, cx);
        if let Some(reign) = part.reign(epoch) {
            s16_monotone::says_visible(part, reign, node, hwm, cx);
        }
        s07_position::captured(part, (node, life, epoch), capture, cx);
        s09_freeze_exclusion::captured(part, node, life, move_id, present, capture);
    }

    fn froze(
        &mut self,
        node: NodeId,
        partition: PartitionId,
        token: narad_core::ids::Token,
        cx: &mut Cx<'_>,
    ) {
        let (life, wild) = (self.book.life(node), self.book.clocks_wild);
        if let Some(part) = self.book.part_mut(partition) {
            l2_freezes::begins(part, (node, life, token), &self.config, wild, cx);
        }
        self.book.check_frozen(partition, cx);
    }

    fn sets_aside(
        &mut self,
        node: NodeId,
        partition: PartitionId,
        directory: Directory,
        cx: &mut Cx<'_>,
    ) {
        let Some(state) = self.book.state() else { return };
        let part = self.book.parts.get(&partition);
        s10_proof::sets_aside(part, state, partition, node, directory, cx);
        if let Directory::Installed(_) = directory {
            let doomed = Some((node, directory));
            self.book.check_part(partition, doomed, "a directory is set aside", cx);
        }
    }

    fn acknowledged(
        &mut self,
        node: NodeId,
        partition: PartitionId,
        epoch: Epoch,
        (first, ids): (Offset, &[u64]),
        cx: &mut Cx<'_>,
    ) {
        self.tally.acked += ids.len() as u64;
        let Some(part) = self.book.part_mut(partition) else { return };
        s02_single_writer::acknowledged(part, node, epoch, cx);
        s05_offset_stability::visible(part, node, epoch, first, ids, cx);
        if let Some(reign) = part.reign_mut(epoch) {
            s04_hidden_tail::acknowledged(reign, end_of(first, ids));
        }
        let offsets = (first.0..).map(Offset);
        part.acked.extend(offsets.zip(ids).map(|(offset, id)| Acked { id: *id, offset, epoch }));
    }

    /// Returns how long after the end of its reign an owner may act, while clock rates are bounded.
    fn lease_limit(&self, node: NodeId) -> Option<Duration> {
        let state = self.book.state().filter(|_| !self.book.clocks_wild)?;
        let granted = state.member(node).map(|member| member.timing.reach).unwrap_or_default();
        Some(state.policy().lease_reach().max(granted))
    }
}

fn end_of(first: Offset, ids: &[u64]) -> Offset {
    Offset(first.0.saturating_add(ids.len() as u64))
}
