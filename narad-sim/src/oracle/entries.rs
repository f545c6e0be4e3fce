//! What an entry of the committed log means for the invariants, when it is first applied.

use std::time::Duration;

use narad_core::ids::{LogIndex, NodeId, PartitionId};
use narad_core::metastore::{Applied, Command, Entry, Fence};

use super::book::Turn;
use super::part::{Began, Part, Reign};
use super::sink::Cx;
use super::{
    Oracle, Origin, l6_reclaim, s01_accepted, s04_hidden_tail, s06_force_gate, s06_reports,
    s07_position, s08_flip, s09_freeze_exclusion, s15_leaving, s18_authority,
};

impl Oracle {
    /// A node applies an entry.
    pub(super) fn applied(
        &mut self,
        node: NodeId,
        index: LogIndex,
        entry: &Entry,
        cx: &mut Cx<'_>,
    ) {
        let news = self.book.state().is_none_or(|state| index > state.applied());
        if news {
            self.before(entry, cx);
        }
        if let Some(turn) = self.book.applied(node, index, entry, cx) {
            s18_authority::took_effect(&turn, cx);
            self.took_effect(index, &turn, cx);
        }
    }

    /// Looks at what an entry is about to change.
    fn before(&mut self, entry: &Entry, cx: &mut Cx<'_>) {
        if let Command::DeclareLost { partition, .. } = &entry.command {
            // It excuses what is lost from then on.
            self.book.check_part(*partition, None, "all that came before it was given up", cx);
        }
        if let (Command::SetTarget { .. }, Some(state)) = (&entry.command, self.book.state()) {
            self.plans.prepare(state);
        }
    }

    fn took_effect(&mut self, index: LogIndex, turn: &Turn<'_>, cx: &mut Cx<'_>) {
        match &turn.entry.command {
            Command::CompleteMove { partition, fence, .. } => {
                let set = self.book.parts.get(partition).map(|part| part.plan.index);
                let forced = matches!(fence, Fence::Forced { .. });
                if forced || set.is_some_and(|set| self.plans.is_foreign(set)) {
                    self.plans.change(index);
                }
                self.flipped(*partition, turn, cx);
            }
            Command::DeclareLost { partition, to, data, end, .. } => {
                let Applied::Won(epoch) = turn.applied else { return };
                self.given(*to, "the heir of a partition", cx);
                self.plans.change(index);
                self.tally.given_up += u64::from(had_target(turn));
                if let Some(part) = self.book.part_mut(*partition) {
                    let mut reign = Reign::new(epoch, *end, *to, *data, Began::Declared, cx.now);
                    reign.visible = *end;
                    part.crowned(reign, cx.now);
                }
            }
            Command::AssignPartition { partition, node } => {
                self.given(*node, "an owner", cx);
                self.plans.change(index);
                let row = self.book.state().and_then(|state| state.assignment(*partition));
                if let Some(data) = row.map(|row| row.data) {
                    self.book.parts.insert(*partition, Part::born(*partition, *node, data, cx.now));
                }
            }
            Command::SetTarget { partition, to, .. } => {
                self.planned(index, *partition, *to, turn, cx);
            }
            Command::ClearTarget { partition, .. } => {
                self.plans.change(index);
                self.tally.given_up += u64::from(had_target(turn));
                if let Some(part) = self.book.part_mut(*partition) {
                    part.replanned(false, cx.now);
                }
            }
            Command::Revoke { partition, token } => {
                if let Some(part) = self.book.part_mut(*partition) {
                    s09_freeze_exclusion::revoked(part, *token);
                }
            }
            Command::ReclaimReady { partition, node, epoch } => {
                l6_reclaim::reclaimed(&self.book, (*node, *partition, *epoch), cx);
                if let Some(reign) =
                    self.book.part_mut(*partition).and_then(|part| part.reign_mut(*epoch))
                {
                    reign.reclaimed = true;
                }
                self.book.check_part(*partition, None, "its salvage", cx);
            }
            Command::Register { node, incarnation, .. } => {
                self.plans.change(index);
                let witness = self.book.nodes.entry(*node).or_default();
                witness.registered = Some(cx.now);
                if witness.died.take().is_some() {
                    witness.returned = Some(cx.now);
                }
                for part in self.book.parts.values_mut() {
                    s09_freeze_exclusion::registered(part, *node, *incarnation);
                }
            }
            Command::Report { node, hwms, .. } => {
                for (partition, epoch, hwm) in hwms {
                    let Some(part) = self.book.part_mut(*partition) else { continue };
                    s04_hidden_tail::says(part, *node, *epoch, *hwm, cx);
                    let reign = part.reign_mut(*epoch).filter(|reign| reign.owner == *node);
                    if let Some(reign) = reign {
                        reign.reported = reign.reported.max(*hwm);
                    }
                }
            }
            Command::Retire { receipt, .. } => {
                self.plans.change(index);
                if let (Some(member), Some(state)) = (&turn.member, self.book.state()) {
                    s15_leaving::retired(member, state, receipt.is_some(), cx);
                    if receipt.is_some() {
                        // The operator gives up whatever a dead node holds.
                        let node = member.id;
                        self.book.ingress.excuse(node);
                    } else if member.has_lived() {
                        s01_accepted::left(&self.book, member.id, "is retired", cx);
                    }
                }
            }
            Command::DeleteTopic { topic } => {
                self.plans.change(index);
                for part in self.book.parts.values_mut().filter(|part| part.id.topic == *topic) {
                    self.tally.given_up += u64::from(part.plan.since.is_some());
                    part.gone = true;
                    part.replanned(false, cx.now);
                }
            }
            Command::MarkDead { node, incarnation } => {
                self.plans.change(index);
                self.leases.died((*node, *incarnation), cx);
                let witness = self.book.nodes.entry(*node).or_default();
                (witness.died, witness.dead_from) = (Some(cx.now), index);
                self.book.ingress.death = cx.now;
            }
            Command::SetDraining { node, .. } => {
                self.plans.change(index);
                self.book.ingress.left.insert(*node, cx.now);
            }
            Command::CreateTopic { .. } | Command::SetPin { .. } => self.plans.change(index),
            Command::DrainedOut { node, .. } => {
                for part in self.book.parts.values() {
                    s15_leaving::drained(part, self.book.state(), *node, cx);
                }
                s01_accepted::left(&self.book, *node, "says that it is drained", cx);
            }
            Command::Join { .. }
            | Command::Resolve { .. }
            | Command::SetPolicy(_)
            | Command::RaiseVersion { .. } => {}
        }
    }

    fn planned(
        &mut self,
        index: LogIndex,
        partition: PartitionId,
        to: NodeId,
        turn: &Turn<'_>,
        cx: &mut Cx<'_>,
    ) {
        self.tally.planned += 1;
        self.tally.given_up += u64::from(had_target(turn));
        self.given(to, "a target", cx);
        let by_hand = turn.asked.is_some_and(|asked| asked.origin != Origin::Node);
        if let Some(part) = self.book.part_mut(partition) {
            part.replanned(true, cx.now);
            (part.plan.by_hand, part.plan.index) = (by_hand, index);
        }
        if by_hand {
            self.plans.change(index);
            return;
        }
        let seen = turn.asked.map(|asked| asked.seen);
        self.plans.begun(index, seen, cx);
        self.book.check_slots(seen, self.hearsay(), cx);
    }

    /// Returns how old what a leader acts upon may be: what a mover said with its heartbeat, and
    /// the time that a command takes into the log.
    fn hearsay(&self) -> Duration {
        self.config.heartbeat_interval * 2 + self.config.request_timeout * 2
    }

    fn given(&self, node: NodeId, what: &str, cx: &mut Cx<'_>) {
        if let Some(state) = self.book.state() {
            s15_leaving::given(state, node, what, cx);
        }
    }

    fn flipped(&mut self, partition: PartitionId, turn: &Turn<'_>, cx: &mut Cx<'_>) {
        let Command::CompleteMove { attempt, fence, end, hwm, committed, digest, .. } =
            turn.entry.command
        else {
            return;
        };
        let (Applied::Won(epoch), Some(row)) = (turn.applied, &turn.row) else { return };
        let by = turn.entry.by;
        self.tally.done += 1;
        self.given(by, "an owner", cx);
        let Some(part) = self.book.parts.get(&partition) else { return };
        let copy = s08_flip::Copy { attempt, end, hwm, digest };
        let (began, hold) = match fence {
            Fence::Normal { token } => {
                (Began::Normal(token), s08_flip::normal(part, token, copy, cx))
            }
            Fence::Forced { generation } => {
                self.tally.forced += 1;
                s08_flip::forced(part, copy, cx);
                if let Some(state) = self.book.state() {
                    let asked = (attempt, generation, end);
                    s06_force_gate::flipped(part, row, state, by, asked, cx);
                    let of = (attempt.move_id, row.epoch, end);
                    s06_reports::promoted(part, (by, self.book.life(by)), of, cx);
                    let died = self.book.nodes.get(&row.owner).and_then(|owner| owner.died);
                    if let Some(died) = died.filter(|_| !self.book.clocks_wild) {
                        s06_force_gate::waited(part, row.owner, state, died, cx);
                    }
                }
                (Began::Forced(generation), None)
            }
        };
        s04_hidden_tail::flipped(part, row.epoch, hwm, cx);
        let Some(part) = self.book.part_mut(partition) else { return };
        let mut reign = Reign::new(epoch, end, attempt.destination, attempt, began, cx.now);
        reign.visible = hwm;
        reign.committed = hold.and_then(|hold| s07_position::flipped(part, &hold, committed, cx));
        part.crowned(reign, cx.now);
        self.book.check_part(partition, None, "a flip", cx);
    }
}

/// Whether the row that an entry changed had a target.
fn had_target(turn: &Turn<'_>) -> bool {
    turn.row.as_ref().is_some_and(|row| row.target.is_some())
}
