//! Moves: planned, given up, flipped, resolved; freezes that are revoked; reports; salvage.

use narad_core::ids::{
    Attempt, Epoch, Generation, Incarnation, MoveId, NodeId, Offset, PartitionId, Token,
};
use narad_core::metastore::{Applied, Assignment, Expect, Fence, Reason, Reign, Residue, Status};

use super::{Case, Law, members};

/// Reigns that a row remembers.
const LINEAGE_MAX: usize = 64;
const REPORT_MAX: usize = 4096;

/// What a flip says of its copy.
#[derive(Clone, Copy)]
pub(super) struct Copy {
    pub(super) end: Offset,
    pub(super) hwm: Offset,
    pub(super) committed: Option<Offset>,
}

impl Law {
    pub(super) fn set_target(
        &mut self,
        case: &mut Case<'_>,
        partition: PartitionId,
        expect: Expect,
        to: NodeId,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        as_expected(row, expect)?;
        if self.status(row.owner) != Some(Status::Alive) {
            return Err(Reason::NodeDead);
        }
        if to == row.owner {
            return Err(Reason::AlreadyThere);
        }
        self.receiver(to)?;
        self.half_of_the_topic_stays(partition)?;
        let row = self.touch_row(case, partition);
        replan(row, Some(to));
        Ok(Applied::Planned(row.move_id))
    }

    /// Fewer than half of a topic is under way, the partition itself aside; a move whose end is dead
    /// does not count.
    fn half_of_the_topic_stays(&self, partition: PartitionId) -> Result<(), Reason> {
        let of = partition.topic;
        let lives = |node: NodeId| self.status(node) == Some(Status::Alive);
        let moves = |row: &Assignment| lives(row.owner) && row.target.is_some_and(lives);
        let others =
            self.rows.iter().filter(|(other, _)| other.topic == of && **other != partition);
        let moving = others.filter(|(_, row)| moves(row)).count();
        let size = self.topics.get(&of).map_or(1, |topic| topic.partitions);
        let most = usize::try_from(size / 2).unwrap_or(usize::MAX).max(1);
        if moving < most { Ok(()) } else { Err(Reason::TopicBusy) }
    }

    pub(super) fn clear_target(
        &mut self,
        case: &mut Case<'_>,
        partition: PartitionId,
        move_id: MoveId,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        if row.move_id != move_id {
            return Err(Reason::MoveChanged);
        }
        let row = self.touch_row(case, partition);
        replan(row, None);
        Ok(Applied::Planned(row.move_id))
    }

    pub(super) fn complete_move(
        &mut self,
        case: &mut Case<'_>,
        partition: PartitionId,
        (expect, attempt, fence): (Expect, Attempt, Fence),
        copy: Copy,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        let by = case.entry.by;
        if by != attempt.destination {
            return Err(Reason::NotYours);
        }
        if let Some(epoch) = won(row, attempt) {
            return Ok(Applied::Won(epoch));
        }
        if row.target != Some(by) {
            return Err(Reason::NotTarget);
        }
        as_expected(row, expect)?;
        if attempt.move_id != row.move_id {
            return Err(Reason::MoveChanged);
        }
        self.staying(by)?;
        if row.burned.is_some_and(|burned| burned >= attempt.no) {
            return Err(Reason::AttemptBurned);
        }
        let residue = match fence {
            Fence::Normal { token } => {
                let life = self.members.get(&row.owner).map(|owner| owner.incarnation);
                if token.epoch != row.epoch || life != Some(token.no.incarnation) {
                    return Err(Reason::TokenStale);
                }
                if row.revoked.is_some_and(|floor| floor >= token.no) {
                    return Err(Reason::TokenRevoked);
                }
                Residue::None
            }
            Fence::Forced { generation } => {
                if self.status(row.owner) != Some(Status::Dead(generation)) {
                    return Err(Reason::NotDead);
                }
                if row.reported_hwm.is_some_and(|seen| seen > copy.end) {
                    return Err(Reason::CopyBehind);
                }
                Residue::Pending
            }
        };
        if copy.hwm > copy.end || copy.committed.is_some_and(|committed| committed > copy.hwm) {
            return Err(Reason::OutOfRange);
        }
        if row.min_end > copy.end {
            return Err(Reason::CopyBehind);
        }
        let row = self.touch_row(case, partition);
        crown(row, (by, attempt, copy.end), residue);
        Ok(Applied::Won(row.epoch))
    }

    pub(super) fn resolve(
        &mut self,
        case: &mut Case<'_>,
        partition: PartitionId,
        attempt: Attempt,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        if case.entry.by != attempt.destination {
            return Err(Reason::NotYours);
        }
        if let Some(epoch) = won(row, attempt) {
            return Ok(Applied::Won(epoch));
        }
        let oldest = row.lineage.first().map(|reign| reign.data.move_id);
        if row.lineage_cut && oldest.is_some_and(|oldest| attempt.move_id < oldest) {
            return Err(Reason::Forgotten);
        }
        if attempt.move_id > row.move_id {
            return Err(Reason::MoveChanged);
        }
        let of_the_plan = row.move_id == attempt.move_id && row.target == Some(attempt.destination);
        if of_the_plan && row.burned.is_none_or(|burned| burned < attempt.no) {
            self.touch_row(case, partition).burned = Some(attempt.no);
        }
        Ok(Applied::Burned)
    }

    pub(super) fn revoke(
        &mut self,
        case: &mut Case<'_>,
        partition: PartitionId,
        token: Token,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        if case.entry.by != row.owner || token.epoch != row.epoch {
            return Err(Reason::NotOwner);
        }
        if row.revoked.is_none_or(|floor| floor < token.no) {
            self.touch_row(case, partition).revoked = Some(token.no);
        }
        Ok(Applied::Resumed)
    }

    pub(super) fn report(
        &mut self,
        case: &mut Case<'_>,
        node: NodeId,
        incarnation: Incarnation,
        hwms: &[(PartitionId, Epoch, Offset)],
    ) -> Result<Applied, Reason> {
        let life = self.staying(node)?.incarnation;
        if case.entry.by != node {
            return Err(Reason::NotYours);
        }
        if hwms.len() > REPORT_MAX {
            return Err(Reason::OutOfRange);
        }
        if life != incarnation {
            return Err(Reason::StaleIncarnation);
        }
        for (partition, epoch, hwm) in hwms {
            let known = self.rows.get(partition);
            let known = known.filter(|row| (row.owner, row.epoch) == (node, *epoch));
            if known.is_some_and(|row| row.reported_hwm < Some(*hwm)) {
                self.touch_row(case, *partition).reported_hwm = Some(*hwm);
            }
        }
        Ok(Applied::Done)
    }

    pub(super) fn set_pin(
        &mut self,
        case: &mut Case<'_>,
        partition: PartitionId,
        on: bool,
    ) -> Result<Applied, Reason> {
        if self.row(partition)?.pinned != on && !self.is_remembered(case) {
            self.remember(case.entry.proposal);
            self.touch_row(case, partition).pinned = on;
        }
        Ok(Applied::Done)
    }

    pub(super) fn reclaim_ready(
        &mut self,
        case: &mut Case<'_>,
        partition: PartitionId,
        node: NodeId,
        epoch: Epoch,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        if case.entry.by != node {
            return Err(Reason::NotYours);
        }
        if row.lineage_cut && row.lineage.first().is_some_and(|oldest| epoch <= oldest.epoch) {
            return Err(Reason::Forgotten);
        }
        let ended = row.lineage.windows(2).position(|pair| pair[1].epoch == epoch);
        let at = ended.ok_or(Reason::EpochChanged)?;
        if row.lineage[at].owner != node {
            return Err(Reason::NotOwner);
        }
        if row.lineage[at + 1].residue == Residue::Pending {
            self.touch_row(case, partition).lineage[at + 1].residue = Residue::Reclaimed;
        }
        Ok(Applied::Done)
    }

    pub(super) fn declare_lost(
        &mut self,
        case: &mut Case<'_>,
        partition: PartitionId,
        (expect, generation): (Expect, Generation),
        (to, data, start): (NodeId, Attempt, Offset),
        receipt: &str,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        if data.destination != to {
            return Err(Reason::NotTarget);
        }
        if let Some(epoch) = won(row, data) {
            return Ok(Applied::Won(epoch));
        }
        if !members::is_receipt(receipt) {
            return Err(Reason::OutOfRange);
        }
        as_expected(row, expect)?;
        if self.status(row.owner) != Some(Status::Dead(generation)) {
            return Err(Reason::NotDead);
        }
        self.receiver(to)?;
        if data.move_id != row.move_id {
            return Err(Reason::MoveChanged);
        }
        let is_copy = data.no.incarnation.0 > 0;
        if is_copy && row.burned.is_some_and(|burned| burned >= data.no) {
            return Err(Reason::AttemptBurned);
        }
        if start < row.min_end || row.reported_hwm.is_some_and(|seen| seen > start) {
            return Err(Reason::CopyBehind);
        }
        let row = self.touch_row(case, partition);
        crown(row, (to, data, start), Residue::Pending);
        Ok(Applied::Won(row.epoch))
    }

    fn row(&self, partition: PartitionId) -> Result<&Assignment, Reason> {
        self.rows.get(&partition).ok_or(Reason::Gone)
    }

    fn touch_row(&mut self, case: &mut Case<'_>, partition: PartitionId) -> &mut Assignment {
        case.touched.partitions.insert(partition);
        self.rows.get_mut(&partition).expect("whoever touches it has found it")
    }

    fn status(&self, node: NodeId) -> Option<Status> {
        self.members.get(&node).map(|member| member.status)
    }
}

fn as_expected(row: &Assignment, expect: Expect) -> Result<(), Reason> {
    if row.owner != expect.owner {
        Err(Reason::OwnerChanged)
    } else if row.epoch != expect.epoch {
        Err(Reason::EpochChanged)
    } else if row.move_id != expect.move_id {
        Err(Reason::MoveChanged)
    } else {
        Ok(())
    }
}

/// The reign that a try has won, now or ever.
fn won(row: &Assignment, attempt: Attempt) -> Option<Epoch> {
    row.lineage.iter().find(|reign| reign.data == attempt).map(|reign| reign.epoch)
}

/// A plan is made or is over: its number is never used again, and no try of it counts.
fn replan(row: &mut Assignment, target: Option<NodeId>) {
    row.target = target;
    row.move_id = MoveId(row.move_id.0 + 1);
    row.burned = None;
}

/// Somebody else owns it from now on, or the same in another epoch.
fn crown(row: &mut Assignment, (owner, data, start): (NodeId, Attempt, Offset), residue: Residue) {
    row.epoch = Epoch(row.epoch.0 + 1);
    let epoch = row.epoch;
    row.lineage.push(Reign { epoch, start, owner, data, residue });
    if row.lineage.len() > LINEAGE_MAX {
        row.lineage.remove(0);
        row.lineage_cut = true;
    }
    (row.owner, row.data) = (owner, data);
    row.min_end = Offset(row.min_end.0.max(start.0));
    (row.revoked, row.reported_hwm) = (None, None);
    replan(row, None);
}
