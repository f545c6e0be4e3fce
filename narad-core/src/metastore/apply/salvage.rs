//! What past owners still hold, and when a directory may be set aside.

use super::{State, Turn, members};
use crate::ids::{Attempt, Epoch, Generation, NodeId, Offset, PartitionId};
use crate::metastore::assignment::{Expect, Residue};
use crate::metastore::command::{Applied, Reason};
use crate::metastore::member::Status;
use crate::planted::{Bug, is_planted};

/// Who takes over a partition that was declared lost.
#[derive(Clone, Copy)]
pub(super) struct Heir {
    pub(super) node: NodeId,
    pub(super) data: Attempt,
    pub(super) start: Offset,
}

/// What the committed state says of one directory of a partition (S10).
///
/// Only [`Verdict::Dead`] allows to set it aside, and only behind a barrier: an old state calls
/// dead what has become live since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Verdict {
    /// It is what the owner serves.
    Live,
    /// It may still win, or this state is too old to know it: resolve the attempt first (H2, H27).
    Unresolved,
    /// It was live until a flip that did not capture all of it: what it holds from `start` on must
    /// be produced again first (H14).
    Residue {
        /// The reign that ended its own.
        epoch: Epoch,
        /// First offset that may not have been captured.
        start: Offset,
    },
    /// It is older than what is remembered: it is kept until a person decides.
    Forgotten,
    /// It can never be served again, and nothing in it is missing elsewhere.
    Dead,
}

impl State {
    pub(super) fn reclaim_ready(
        &mut self,
        turn: &mut Turn<'_>,
        partition: PartitionId,
        node: NodeId,
        epoch: Epoch,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        if turn.by != node {
            return Err(Reason::NotYours);
        }
        let oldest = row.lineage.first().map(|reign| reign.epoch);
        if row.lineage_cut && oldest.is_some_and(|oldest| epoch <= oldest) {
            return Err(Reason::Forgotten);
        }
        let Some(later) = row.lineage.iter().skip(1).position(|reign| reign.epoch == epoch) else {
            return Err(Reason::EpochChanged);
        };
        if row.lineage[later].owner != node {
            return Err(Reason::NotOwner);
        }
        if row.lineage[later + 1].residue == Residue::Pending {
            self.edit_row(turn, partition, |row| {
                row.lineage[later + 1].residue = Residue::Reclaimed;
            });
        }
        Ok(Applied::Done)
    }

    /// The certificate stands for the operator's word that the owner is off for good; a node that
    /// comes back all the same finds itself deposed, and salvages.
    pub(super) fn declare_lost(
        &mut self,
        turn: &mut Turn<'_>,
        partition: PartitionId,
        expect: Expect,
        generation: Generation,
        heir: Heir,
        receipt: &str,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        if heir.data.destination != heir.node {
            return Err(Reason::NotTarget);
        }
        if let Some(reign) = row.reign_of(heir.data) {
            return Ok(Applied::Won(reign.epoch));
        }
        if !members::is_receipt(receipt) {
            return Err(Reason::OutOfRange);
        }
        let row = self.expected_row(partition, expect)?;
        let owner = self.member(row.owner).map(|owner| owner.status);
        if owner != Some(Status::Dead(generation)) && !is_planted(Bug::LivingDeclaredLost) {
            return Err(Reason::NotDead);
        }
        self.receiver(heir.node)?;
        // The name must be of the present move: an older one may be that of a directory which
        // still lies on that disk, with something else in it.
        if heir.data.move_id != row.move_id {
            return Err(Reason::MoveChanged);
        }
        let tried = heir.data.no.incarnation.0 > 0;
        if tried && row.burned.is_some_and(|burned| heir.data.no <= burned) {
            return Err(Reason::AttemptBurned);
        }
        if heir.start < row.min_end.max(row.reported_hwm.unwrap_or_default()) {
            return Err(Reason::CopyBehind);
        }
        let epoch = row.epoch.next();
        self.edit_row(turn, partition, |row| {
            row.crown(heir.node, heir.data, heir.start, Residue::Pending);
        });
        Ok(Applied::Won(epoch))
    }

    /// Judges the directory that `attempt` names, on the disk of its destination.
    ///
    /// # Examples
    ///
    /// What this state has never heard of is not called dead:
    ///
    /// ```
    /// use narad_core::ids::{Attempt, NodeId, PartitionId, TopicId};
    /// use narad_core::metastore::{State, Verdict};
    ///
    /// let partition = PartitionId { topic: TopicId(7), index: 0 };
    /// let verdict = State::new().verdict(partition, Attempt::birth(NodeId(1)));
    /// assert_eq!(verdict, Verdict::Unresolved);
    /// ```
    pub fn verdict(&self, partition: PartitionId, attempt: Attempt) -> Verdict {
        let Some(row) = self.assignments.get(&partition) else {
            // A topic is named by the index of its creation, so what was applied tells a deleted
            // one from one that is yet to come.
            let deleted =
                !self.topics.contains_key(&partition.topic) && partition.topic.0 <= self.applied.0;
            return if deleted { Verdict::Dead } else { Verdict::Unresolved };
        };
        if row.data == attempt {
            return Verdict::Live;
        }
        if let Some(won) = row.lineage.iter().position(|reign| reign.data == attempt) {
            let next = &row.lineage[won + 1];
            return match next.residue {
                Residue::None | Residue::Reclaimed => Verdict::Dead,
                Residue::Pending if is_planted(Bug::ResidueCountsAsDead) => Verdict::Dead,
                Residue::Pending => Verdict::Residue { epoch: next.epoch, start: next.start },
            };
        }
        if row.has_forgotten(attempt) {
            return Verdict::Forgotten;
        }
        let can_win = attempt.move_id == row.move_id
            && row.target == Some(attempt.destination)
            && row.burned.is_none_or(|burned| attempt.no > burned);
        if can_win || attempt.move_id > row.move_id { Verdict::Unresolved } else { Verdict::Dead }
    }
}
