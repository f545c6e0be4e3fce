//! What must hold in every state, and when something is done.

use narad_core::freeze::gate::Standing;
use narad_core::ids::{Attempt, Epoch, NodeId};
use narad_core::metastore::{
    Applied, Assignment, Command, Entry, Fence, Outcome as Folded, Reply, Residue, State, Status,
    Verdict,
};
use narad_core::mover::What;

use super::disk::Directory;
use super::world::{Captured, World};

impl World {
    /// Judges the state: S1, S2, S3, S4, S16.
    pub(super) fn check(&mut self) {
        self.check_writers();
        self.check_owner_has_data();
        self.check_acknowledged();
        self.check_watermarks();
    }

    /// S2: at most one node would acknowledge a record.
    fn check_writers(&mut self) {
        let declared = self.ghost.declared;
        let would = |id: &NodeId| {
            self.process(*id).is_some_and(|process| {
                let is_fenced = match process.gate.standing() {
                    Standing::Serving { epoch, .. } => epoch < declared,
                    Standing::Closed | Standing::Reading { .. } => true,
                };
                process.open.is_some()
                    && !is_fenced
                    && !process.gate.is_frozen()
                    && process.gate.may_ack(self.now, process.authority, None).is_ok()
            })
        };
        let writers: Vec<NodeId> = self.nodes().filter(would).collect();
        if writers.len() > 1 {
            self.violate("S2", format!("split brain: {writers:?} would all acknowledge a record"));
        }
    }

    /// S3: the owner has the directory that the row names, up to `min_end`.
    fn check_owner_has_data(&mut self) {
        let Some(row) = self.row() else { return };
        let found = self.machine(row.owner).area.installed.get(&row.data);
        let (owner, data, min_end) = (row.owner, row.data, row.min_end.0);
        match found.map(Directory::end) {
            None if row.data.no.incarnation.0 > 0 => {
                self.violate("S3", format!("{owner:?} owns the partition and has no {data:?}"));
            }
            Some(end) if end < min_end => {
                let text = format!("{owner:?}'s {data:?} ends at {end}, before {min_end}");
                self.violate("S3", text);
            }
            None | Some(_) => {}
        }
    }

    /// S1: whatever was acknowledged is in the live directory, in one that a forced flip has left
    /// to be salvaged, or was salvaged.
    fn check_acknowledged(&mut self) {
        let Some(row) = self.row() else { return };
        let is_lost = |content: u8| {
            let live = self.machine(row.owner).area.installed.get(&row.data);
            let is_live = live.is_some_and(|log| log.offset_of(content).is_some());
            !is_live && !self.is_residue(row, content) && !self.ghost.salvaged.contains(&content)
        };
        let lost = self.ghost.acked.iter().find(|acked| is_lost(acked.content)).copied();
        if let Some(acked) = lost {
            self.violate(
                "S1",
                format!(
                    "record r{}, acknowledged by {:?} in epoch {}, is nowhere",
                    acked.content, acked.owner, acked.epoch
                ),
            );
        }
    }

    /// Looks at the lineage itself: what the state makes of it is under test.
    fn is_residue(&self, row: &Assignment, content: u8) -> bool {
        let ended = row.lineage.iter().zip(row.lineage.iter().skip(1));
        let mut open = ended.filter(|(_, next)| next.residue == Residue::Pending);
        open.any(|(reign, _)| {
            let left = self.machine(reign.owner).area.installed.get(&reign.data);
            left.is_some_and(|log| log.offset_of(content).is_some())
        })
    }

    /// S4: no record becomes visible that nobody acknowledged. S16: what is visible stays so.
    fn check_watermarks(&mut self) {
        for id in self.nodes() {
            let Some((log, process)) = self.live(id).zip(self.process(id)) else { continue };
            let Standing::Serving { epoch, .. } = process.gate.standing() else {
                continue;
            };
            let (hwm, end) = (log.hwm, log.end());
            let visible = self.ghost.visible.get(&epoch).copied().unwrap_or(0);
            let shown = self.ghost.shown;
            if hwm > end {
                self.violate("S4", format!("{id:?} shows records up to {hwm}, but ends at {end}"));
            } else if hwm > visible {
                let text = format!("{id:?} shows records up to {hwm}, visible was {visible}");
                self.violate("S4", text);
            }
            match shown {
                Some((before, high)) if before == epoch && hwm < high => {
                    let text = format!("{id:?} hides records from {hwm} on, it showed {high}");
                    self.violate("S16", text);
                }
                Some((before, _)) if before > epoch => {}
                _ if shown != Some((epoch, hwm)) => self.ghost.edit().shown = Some((epoch, hwm)),
                _ => {}
            }
        }
    }

    /// Remembers how far a reign may show its records.
    pub(super) fn may_show(&mut self, epoch: Epoch, hwm: u64) {
        let visible = self.ghost.edit().visible.entry(epoch).or_default();
        *visible = hwm.max(*visible);
    }

    /// S2: an acknowledgement names the reign of the node that gives it.
    pub(super) fn check_epoch_of_ack(&mut self, id: NodeId, epoch: Epoch) {
        let Some(row) = self.row() else { return };
        let reign = row.lineage.iter().find(|reign| reign.epoch == epoch);
        if reign.is_none_or(|reign| reign.owner != id) {
            self.violate(
                "S2",
                format!("{id:?} acknowledges in epoch {epoch}, which is not its own"),
            );
        }
    }

    /// S9: nothing is appended under a freeze on which a flip could still rest.
    pub(super) fn check_append(&mut self, id: NodeId, what: &str) {
        let open = self.ghost.captures.iter().find(|captured| self.could_flip(id, captured));
        if let Some(captured) = open {
            let text =
                format!("{id:?} {what} under freeze {:?}, which is not revoked", captured.token);
            self.violate("S9", text);
        }
    }

    pub(super) fn could_flip(&self, id: NodeId, captured: &Captured) -> bool {
        let Some(row) = self.row() else { return false };
        let life = self.member(id).map(|member| member.incarnation);
        captured.owner == id
            && row.owner == id
            && row.target.is_some()
            && row.epoch == captured.token.epoch
            && row.move_id == captured.move_id
            && life == Some(captured.token.no.incarnation)
            && row.revoked.is_none_or(|revoked| captured.token.no > revoked)
    }

    /// S4: only an owner that restarted, or took over from a dead one, exposes what is hidden.
    pub(super) fn check_expose(&mut self, id: NodeId, epoch: Epoch) {
        let Some(row) = self.row() else { return };
        let reign = row.lineage.iter().find(|reign| reign.epoch == epoch);
        let forced = reign.is_some_and(|reign| reign.residue != Residue::None);
        let served = self.live(id).and_then(|log| log.served);
        if !forced && served != Some(epoch) {
            self.violate("S4", format!("{id:?} exposes a hidden tail that it has only copied"));
        }
    }

    /// S6, S8, S16 and S18, when an entry is committed.
    pub(super) fn check_entry(&mut self, before: &State, entry: &Entry, folded: &Folded) {
        self.check_monotone(before);
        let Reply::Applied(applied) = folded.reply else { return };
        self.check_authority(before, entry);
        if let (Command::CompleteMove { attempt, fence, hwm, .. }, Applied::Won(epoch)) =
            (&entry.command, applied)
            && !folded.changed.partitions.is_empty()
            && let Some(old) = before.assignment(self.rules.partition)
        {
            self.may_show(epoch, hwm.0);
            match fence {
                Fence::Normal { .. } => self.check_flip(old, *attempt, &entry.command),
                Fence::Forced { .. } => self.check_promotion(before, old, &entry.command),
            }
        }
    }

    /// S16.
    fn check_monotone(&mut self, before: &State) {
        let state = &self.log.state;
        let partition = self.rules.partition;
        let row = before.assignment(partition).zip(state.assignment(partition));
        let row_falls = row.is_some_and(|(old, new)| {
            new.epoch < old.epoch
                || new.move_id < old.move_id
                || (new.move_id == old.move_id && new.burned < old.burned)
                || (new.epoch == old.epoch
                    && (new.revoked < old.revoked || new.reported_hwm < old.reported_hwm))
        });
        let member_falls = before.members().any(|old| {
            state
                .member(old.id)
                .is_none_or(|new| new.incarnation < old.incarnation || new.deaths < old.deaths)
        });
        if row_falls || member_falls {
            self.violate("S16", "a number of the replicated state went down".to_owned());
        }
    }

    /// S18.
    fn check_authority(&mut self, before: &State, entry: &Entry) {
        let owner = before.assignment(self.rules.partition).map(|row| row.owner);
        let wanted = match &entry.command {
            Command::CompleteMove { attempt, .. } | Command::Resolve { attempt, .. } => {
                Some(attempt.destination)
            }
            Command::Revoke { .. } => owner,
            Command::Register { node, .. } | Command::Report { node, .. } => Some(*node),
            _other => None,
        };
        if let Some(wanted) = wanted
            && entry.by != wanted
        {
            self.violate("S18", format!("the log obeys {:?} in the place of {wanted:?}", entry.by));
        }
    }

    /// S8: the copy is whole, durable, and all that there will be.
    fn check_flip(&mut self, old: &Assignment, attempt: Attempt, flip: &Command) {
        let Command::CompleteMove { end, hwm, .. } = flip else { return };
        let source = self.machine(old.owner).area.installed.get(&old.data).cloned();
        let copy = self.machine(attempt.destination).area.installed.get(&attempt).cloned();
        let (Some(source), Some(copy)) = (source, copy) else {
            return self.violate("S3", format!("a flip to {attempt:?}, which is not there"));
        };
        if (copy.start, copy.contents()) != (source.start, source.contents()) {
            let text = format!(
                "the copy is {:?} from {}, the source is {:?} from {}",
                copy.contents(),
                copy.start,
                source.contents(),
                source.start
            );
            return self.violate("S8", text);
        }
        if (copy.end(), copy.hwm) != (end.0, hwm.0) {
            self.violate("S8", "the flip says of the copy what it is not".to_owned());
        }
        let appending =
            self.process(old.owner).and_then(|process| process.append.as_ref()).is_some();
        if appending {
            self.violate("S9", format!("{:?} is appending while it is flipped away", old.owner));
        }
        // A record that was acknowledged at the source is visible there, so it must be in what the
        // flip says is visible.
        let mut acked = self.ghost.acked.iter();
        let hidden = acked
            .find(|acked| copy.offset_of(acked.content).is_some_and(|offset| offset >= copy.hwm));
        if let Some(acked) = hidden {
            let text = format!("record r{} was visible, the copy hides it", acked.content);
            self.violate("S8", text);
        }
    }

    /// S6: a dead source, a session of this very move, and nothing that was ever reported missing.
    fn check_promotion(&mut self, before: &State, old: &Assignment, flip: &Command) {
        let Command::CompleteMove { attempt, fence, end, .. } = flip else { return };
        let Fence::Forced { generation } = fence else { return };
        let status = before.member(old.owner).map(|member| member.status);
        if status != Some(Status::Dead(*generation)) {
            self.violate("S6", format!("{:?} is not dead under this certificate", old.owner));
        }
        if !self.ghost.sessions.contains(&attempt.move_id) {
            self.violate("S6", "no session of this move has seen the source".to_owned());
        }
        if self.ghost.reported.is_some_and(|reported| *end < reported) {
            self.violate("S6", format!("the copy ends at {end}, before what was reported"));
        }
        let copy = self.machine(attempt.destination).area.installed.get(attempt);
        if copy.map(Directory::end) != Some(end.0) {
            self.violate("S6", "the flip says of the copy what it is not".to_owned());
        }
    }

    /// S10: nothing is set aside that is live, unresolved or missing elsewhere, nor what is staged
    /// from a source that is dead (C54).
    pub(super) fn check_set_aside(&mut self, id: NodeId, what: What) {
        let Some(row) = self.row().cloned() else { return };
        match what {
            What::Installed(attempt) => {
                let verdict = self.log.state.verdict(self.rules.partition, attempt);
                let open = self.process(id).and_then(|process| process.open);
                if verdict != Verdict::Dead
                    || Self::is_needed(&row, attempt)
                    || open == Some(attempt)
                {
                    let text = format!("{id:?} sets {attempt:?} aside, which is {verdict:?}");
                    self.violate("S10", text);
                }
            }
            What::Staging => {
                if row.target == Some(id) && self.is_dead(row.owner) {
                    let text = format!("{id:?} sets aside what may be the last copy");
                    self.violate("S10", text);
                }
            }
        }
    }

    /// S10, H2: a directory whose flip may have won is not used again.
    pub(super) fn check_restage(&mut self, id: NodeId, attempt: Attempt) {
        let Some(row) = self.row().cloned() else { return };
        if Self::is_needed(&row, attempt) {
            self.violate("S10", format!("{id:?} takes {attempt:?} apart, which is needed"));
        }
    }

    /// Whether a directory is live, or left to be salvaged, by the lineage alone.
    fn is_needed(row: &Assignment, attempt: Attempt) -> bool {
        let ended = row.lineage.iter().zip(row.lineage.iter().skip(1));
        let mut left = ended.filter(|(_, next)| next.residue == Residue::Pending);
        row.data == attempt || left.any(|(reign, _)| reign.data == attempt)
    }

    /// L1 and L2, where nothing goes on any more: everything is served, or says why not.
    pub(super) fn check_end(&mut self, came_to_rest: bool) {
        if self.broken.is_some() {
            return;
        }
        if !came_to_rest {
            return self.violate("L1", "nothing ends, however long one waits".to_owned());
        }
        let Some(row) = self.row().cloned() else { return };
        let owner = self.process(row.owner);
        if owner.is_some_and(|process| process.gate.is_frozen()) {
            return self.violate("L2", format!("{:?} stays frozen for good", row.owner));
        }
        let served = owner
            .is_some_and(|process| process.node.serving(self.rules.partition) == Some(row.epoch));
        if !served {
            return self.violate("L1", format!("{:?} does not serve what it owns", row.owner));
        }
        if let Some(target) = row.target {
            let reason = self
                .process(target)
                .and_then(|process| process.node.moves().find_map(|(_, move_)| move_.waiting));
            if reason.is_none() {
                self.violate("L1", format!("the move to {target:?} is stuck and says nothing"));
            }
        }
        self.check_everything_is_visible(&row);
    }

    /// The rest of S1: what was acknowledged can be read.
    fn check_everything_is_visible(&mut self, row: &Assignment) {
        let Some(log) = self.live(row.owner) else { return };
        let is_hidden = |content: u8| log.offset_of(content).is_some_and(|at| at >= log.hwm);
        let hidden = self.ghost.acked.iter().find(|acked| is_hidden(acked.content)).copied();
        if let Some(acked) = hidden {
            self.violate("S1", format!("record r{} stays hidden", acked.content));
        }
    }
}
