//! What each fact means for the invariants.

use std::time::Duration;

use narad_core::controller::Change;
use narad_core::dispatch;
use narad_core::freeze::gate::Standing;
use narad_core::freeze::handoff;
use narad_core::ids::{Epoch, NodeId, Offset, PartitionId, Token};
use narad_core::metastore::{Command, Entry, State};
use narad_core::mover;
use narad_core::node::Note;
use narad_core::partition::Capture;

use super::book::Asked;
use super::healing::Healed;
use super::part::{Acked, Try};
use super::sink::Cx;
use super::{Directory, DiskChange, End, Fact, Oracle, Origin};
use super::{
    l1_moves, l2_freezes, l2_renewals, l5_serving, l6_reclaim, s02_leases, s02_single_writer,
    s03_owner_has_data, s04_hidden_tail, s05_offset_stability, s06_reports, s07_position,
    s08_lives, s09_freeze_exclusion, s10_proof, s15_leaving, s16_monotone,
};

mod consumers;
mod ingress;

impl Oracle {
    pub(super) fn take_in(&mut self, fact: Fact<'_>, cx: &mut Cx<'_>) {
        match fact {
            Fact::Started { node, life } => {
                self.leases.begins(node);
                let runs = self.book.nodes.get(&node).is_some_and(|witness| witness.up);
                if let Some(log) = self.book.ingress.logs.get_mut(&node).filter(|_| !runs) {
                    log.begin_anew(life, cx.now);
                }
                self.book.started(node, life, cx);
            }
            Fact::Ended { node, how } => {
                self.leases.forget(node);
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
                        // A leader whose removal somebody else asked for was elected since.
                        let helpless = |node: &NodeId| {
                            let asker = self.book.nodes.get(node).and_then(|it| it.removal);
                            asker.is_some_and(|asker| asker != *node)
                        };
                        let leader = cx.look.leader().filter(|node| !helpless(node));
                        s15_leaving::configured(state, configuration, leader, cx);
                    }
                    self.book.configure(index, configuration);
                }
            }
            Fact::Skipped { node, index } => self.book.skipped(node, index, cx),
            Fact::Restored { node, state } => self.book.restored(node, state, cx),
            Fact::Configuring { node, change } => {
                if let Change::Remove(leaver) | Change::Replace { remove: leaver, .. } = change {
                    self.book.nodes.entry(leaver).or_default().removal = Some(node);
                }
                if let Some(leader) = cx.look.node(node) {
                    s15_leaving::configuring(leader.state(), change, cx);
                }
            }
            Fact::Noted(node, note) => self.noted(node, note, cx),

            Fact::Authority { node, authority } => {
                self.leases.authorised(node, authority, cx);
                self.book.check_writers(node, cx);
            }
            Fact::Beats { node, op, at } => self.leases.asks(node, op, at),
            Fact::Beaten { node, op, index } => self.leases.answered(node, op, index),
            Fact::Grants { leader, node, life, received } => {
                self.leases.grants(leader, (node, life), received, cx);
                self.book.hears(node, cx);
            }
            Fact::Listing { node, partition } => {
                if let Some(part) = self.book.parts.get(&partition) {
                    s02_leases::lists(part, node, cx);
                }
            }
            Fact::Copies { node, partition } => {
                let life = self.book.life(node);
                if let Some(part) = self.book.parts.get(&partition) {
                    s08_lives::copies(part, (node, life), cx);
                }
            }
            Fact::Learned { node, partition, move_id, listing, compared } => {
                let life = self.book.life(node);
                if let Some(part) = self.book.part_mut(partition) {
                    s08_lives::learns(part, (node, life), listing, compared, cx);
                    let told = (move_id, listing.epoch, listing.hwm);
                    s06_reports::learns(part, (node, life), told);
                }
            }
            Fact::Prepared { node, partition, attempt, row } => {
                if let Some(part) = self.book.parts.get(&partition) {
                    s09_freeze_exclusion::prepared(part, node, attempt, row, cx);
                }
            }
            Fact::Renewed { node, partition, token, staged_bytes } => {
                if let Some(part) = self.book.part_mut(partition) {
                    let of = (node, token);
                    l2_renewals::renews(part, of, staged_bytes, &self.config, cx);
                }
            }
            Fact::Tries { node, partition, attempt } => {
                if let Some(asker) = cx.look.node(node) {
                    l1_moves::tries(asker.state(), node, partition, attempt, cx);
                }
            }
            Fact::Released { node, partition, token } => {
                if let Some(part) = self.book.parts.get(&partition) {
                    l2_renewals::acts_upon(part, (node, token), cx);
                }
            }
            Fact::GoesOn { node, partition, was, from } => {
                if let Some(part) = self.book.parts.get(&partition) {
                    s07_position::goes_on(part, node, was, from, cx);
                }
            }
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
            Fact::CaptureTold { node, partition, token } => {
                if let Some(part) = self.book.part_mut(partition) {
                    s09_freeze_exclusion::told(part, node, token, cx);
                }
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
            Fact::Opened { node, partition, data, end, hwm, position } => {
                let life = self.book.life(node);
                if let Some(part) = self.book.part_mut(partition) {
                    part.open.insert((node, data));
                    part.openings += 1;
                    part.opening.insert(node, part.openings);
                    let visible = part.last().map(|last| last.visible).unwrap_or_default();
                    let known = if visible == Offset(u64::MAX) { Offset(0) } else { visible };
                    part.opened.insert(node, (end, hwm, known));
                    s03_owner_has_data::opened(part, node, data, cx);
                    s04_hidden_tail::opened(part, node, data, hwm, cx);
                    s07_position::opened(part, (node, life), (data, position, hwm), cx);
                }
                self.book.check_writers_of(partition, cx);
            }
            Fact::Closed { node, partition } => {
                if let Some(part) = self.book.part_mut(partition) {
                    part.open.retain(|(open, _)| *open != node);
                    part.opened.remove(&node);
                }
            }
            Fact::Exposed { node, partition, epoch, hwm } => {
                if let Some(part) = self.book.part_mut(partition) {
                    s04_hidden_tail::exposed(part, node, epoch, hwm, cx);
                    if let Some(opened) = part.opened.get_mut(&node) {
                        opened.1 = opened.1.max(hwm);
                    }
                }
            }
            Fact::AskingAside(node, partition) => {
                if let Some(part) = self.book.part_mut(partition) {
                    part.asides.insert(node, cx.now);
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
                let life = self.book.life(node);
                if let Some(part) = self.book.part_mut(partition) {
                    part.restaged(node, life, data);
                }
            }
            Fact::Installed { node, partition, data } => {
                let life = self.book.life(node);
                if let Some(part) = self.book.part_mut(partition) {
                    part.installed(node, life, data);
                }
            }
            // Told for the trace and for invariants to come; nothing is judged by them.
            Fact::Trimming { .. } | Fact::AckRefused { .. } => {}
            Fact::Retained { node, partition, start } => {
                if let Some(part) = self.book.part_mut(partition) {
                    s09_freeze_exclusion::retains(part, node, cx);
                }
                let reign = self.book.part_mut(partition).and_then(|part| part.reigns.last_mut());
                if let Some(reign) = reign.filter(|last| last.owner == node) {
                    reign.floor = reign.floor.max(start);
                }
            }
            Fact::Copied { bytes, .. } => self.tally.copied_bytes += bytes,

            Fact::Ingress(fact) => self.take_in_ingress(fact, cx),
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

            Fact::Consumers(fact) => self.take_in_consumers(fact, cx),
            Fact::ReadRefused(node, partition) => {
                let healed = Healed::new(&self.book, &self.config, cx);
                if let (Some(part), Some(all)) = (self.book.parts.get(&partition), healed) {
                    l5_serving::refused(part, node, &all, cx);
                    if self.leases.may_serve(node, part, cx) {
                        let life = self.book.life(node);
                        l5_serving::refused_while_frozen(part, (node, life), cx);
                    }
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
            self.book.ingress.forget(node);
        }
        let life = self.book.life(node);
        for part in self.book.parts.values_mut() {
            match change {
                DiskChange::Lost | DiskChange::Replaced => {
                    for directory in cx.look.directories(node, part.id) {
                        part.damage(node, life, directory);
                    }
                }
                DiskChange::Rotted(partition, directory)
                | DiskChange::Erased(partition, directory) => {
                    if partition == part.id {
                        part.damage(node, life, directory);
                    }
                }
            }
        }
    }

    fn proposed(&mut self, node: NodeId, entry: &Entry, origin: Origin, cx: &mut Cx<'_>) {
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
            Command::ClearTarget { partition, .. } if origin == Origin::Node => {
                if let Some(leader) = cx.look.node(node) {
                    l1_moves::gives_up(leader.state(), node, *partition, cx);
                }
            }
            Command::MarkDead { node: dead, incarnation } if origin == Origin::Node => {
                let wild = self.book.clocks_wild;
                self.leases.condemns(node, (*dead, *incarnation), wild, cx);
            }
            Command::CompleteMove { partition, attempt, fence, end, .. } => {
                if let Some(asker) = cx.look.node(node).filter(|_| origin == Origin::Node) {
                    l1_moves::tries(asker.state(), node, *partition, *attempt, cx);
                }
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

    fn noted(&mut self, node: NodeId, note: &Note, cx: &mut Cx<'_>) {
        if let Note::Leader(leader) = note {
            self.leases.follows(node, *leader, cx);
        }
        if let Note::Handoff(partition, handoff::Note::Revoking { token, cause }) = note
            && let Some(part) = self.book.parts.get(partition)
        {
            l2_renewals::revokes(part, (node, *token), *cause, &self.config, cx);
        }
        if let Note::Dispatch(note) = note {
            self.dispatch_noted(node, *note, cx);
        }
        if let Note::Salvaged { partition, epoch, salvaged } = note {
            l6_reclaim::salvaged(&self.book, node, (*partition, *epoch), *salvaged, cx);
        }
        if let Note::Host(partition, narad_core::host::Note::Opened { epoch, .. }) = note
            && let Some(part) = self.book.part_mut(*partition)
        {
            s04_hidden_tail::reopened(part, node, *epoch, cx);
        }
        let Note::Mover(partition, note) = note else { return };
        let target = self.book.state().and_then(|state| state.assignment(*partition)?.target);
        let Some(part) = self.book.part_mut(*partition).filter(|_| target == Some(node)) else {
            return;
        };
        if let mover::Note::Waiting(_) = note {
            part.plan.waiting = true;
            l1_moves::waits(part.id, node, cx);
        } else if let mover::Note::Resumed = note {
            part.plan.waiting = false;
            part.plan.resumed = Some(cx.now);
        }
    }

    fn dispatch_noted(&mut self, node: NodeId, note: dispatch::Note, cx: &Cx<'_>) {
        let log = self.book.ingress.log_mut(node);
        match note {
            dispatch::Note::Held { partition, .. }
            | dispatch::Note::Rerouted { from: partition, .. } => {
                log.disturbed.insert(partition);
            }
            dispatch::Note::LogFault => log.faulty = Some(cx.now),
            dispatch::Note::Resumed(_)
            | dispatch::Note::Dropped { .. }
            | dispatch::Note::Carried { .. }
            | dispatch::Note::Damaged { .. }
            | dispatch::Note::Stale(_) => {}
        }
    }

    fn stood(&mut self, node: NodeId, partition: PartitionId, standing: Standing, cx: &mut Cx<'_>) {
        let Some(part) = self.book.part_mut(partition) else { return };
        let before = part.serving.iter().find(|serving| serving.node == node);
        let before = before.map(|serving| serving.epoch);
        s02_single_writer::stood(part, node, standing, cx.now);
        let reign = match standing {
            Standing::Closed | Standing::Reading { .. } => None,
            Standing::Serving { epoch, life, .. } => Some((epoch, life)),
        };
        part.thaw(cx.now, |frozen| {
            let of = (frozen.token.epoch, frozen.token.no.incarnation);
            frozen.node == node && Some(of) != reign
        });
        if let Some((epoch, _)) = reign.filter(|(epoch, _)| before != Some(*epoch)) {
            s04_hidden_tail::serves(part, node, epoch, cx);
            s03_owner_has_data::serves(part, node, epoch, cx);
        }
        self.book.check_writers_of(partition, cx);
    }

    fn captured(
        &mut self,
        node: NodeId,
        partition: PartitionId,
        capture: &Capture,
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

    fn froze(&mut self, node: NodeId, partition: PartitionId, token: Token, cx: &mut Cx<'_>) {
        let (life, wild) = (self.book.life(node), self.book.clocks_wild);
        if let Some(part) = self.book.part_mut(partition) {
            l2_freezes::begins(part, (node, life, token), &self.config, wild, cx);
            l2_renewals::begins(part, node, token, cx);
        }
        self.book.check_frozen(node, partition, cx);
    }

    fn sets_aside(
        &mut self,
        node: NodeId,
        partition: PartitionId,
        directory: Directory,
        cx: &mut Cx<'_>,
    ) {
        let asked = self.book.part_mut(partition).and_then(|part| part.asides.remove(&node));
        let Some(state) = self.book.state() else { return };
        let part = self.book.parts.get(&partition);
        let owner = state.assignment(partition).map(|row| row.owner);
        let died = owner.and_then(|owner| self.book.nodes.get(&owner)?.died);
        // What was known when it was asked for; a slow disk comes to it later.
        let known = died.map(|at| asked.unwrap_or(cx.now).since(at));
        s10_proof::sets_aside(part, state, partition, node, directory, known, cx);
        if directory == Directory::Staging {
            if let Some(part) = self.book.part_mut(partition) {
                part.rotten.remove(&node);
            }
        } else {
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
        self.leases.acknowledges("S2", part, node, cx);
        s06_reports::acknowledged(part, epoch, end_of(first, ids));
        s05_offset_stability::visible(part, node, epoch, first, ids, cx);
        if let Some(reign) = part.reign_mut(epoch) {
            s04_hidden_tail::acknowledged(reign, end_of(first, ids));
        }
        let offsets = (first.0..).map(Offset);
        part.grew = cx.now;
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
