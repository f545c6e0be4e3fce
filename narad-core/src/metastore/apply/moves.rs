//! Planning a move, flipping ownership, and what keeps a late flip from applying.

use super::{State, Turn};
use crate::ids::{Attempt, Epoch, Incarnation, MoveId, NodeId, Offset, PartitionId, Token};
use crate::metastore::assignment::{Assignment, Expect, Residue};
use crate::metastore::command::{Applied, Command, Fence, Reason};
use crate::metastore::member::Status;
use crate::planted::{Bug, is_planted};

/// What a `CompleteMove` says of its copy.
#[derive(Clone, Copy)]
pub(super) struct Copied {
    pub(super) end: Offset,
    pub(super) hwm: Offset,
    pub(super) committed: Option<Offset>,
}

impl State {
    pub(super) fn set_target(
        &mut self,
        turn: &mut Turn<'_>,
        partition: PartitionId,
        expect: Expect,
        to: NodeId,
    ) -> Result<Applied, Reason> {
        let stale = is_planted(Bug::StalePlanApplies);
        let row = if stale { self.row(partition) } else { self.expected_row(partition, expect) }?;
        // A new move needs a listing, which a dead owner cannot give (H46).
        if self.status(row.owner) != Some(Status::Alive) {
            return Err(Reason::NodeDead);
        }
        if to == row.owner {
            return Err(Reason::AlreadyThere);
        }
        self.receiver(to)?;
        if self.is_topic_busy(partition) {
            return Err(Reason::TopicBusy);
        }
        let planned = row.move_id.next();
        self.edit_row(turn, partition, |row| row.replan(Some(to)));
        Ok(Applied::Planned(planned))
    }

    /// Whether as many other partitions of its topic are on the move as may be frozen at once:
    /// half of them, but at least one. Every move freezes its partition at some time, whoever
    /// asked for it, so this is where half of a topic is kept writable (S14, H23). A move with a
    /// dead end freezes nothing and does not count (K101): a source refuses who is dead.
    fn is_topic_busy(&self, partition: PartitionId) -> bool {
        if is_planted(Bug::WholeTopicFreezes) {
            return false;
        }
        let topic = partition.topic;
        let size = self.topic(topic).map_or(1, |topic| topic.partitions);
        let moving = self.targeted_of_topic(topic).filter(|other| {
            let row = self.assignment(*other).filter(|_| *other != partition);
            row.is_some_and(|row| self.goes_on(row))
        });
        let half = if is_planted(Bug::HalfRoundedUp) { size.div_ceil(2) } else { size / 2 };
        let moving_max = usize::try_from(half.max(1)).unwrap_or(usize::MAX);
        moving.take(moving_max).count() >= moving_max
    }

    /// Whether both ends of a row's move are alive.
    fn goes_on(&self, row: &Assignment) -> bool {
        let alive = |node| self.status(node) == Some(Status::Alive);
        alive(row.owner) && row.target.is_some_and(alive)
    }

    pub(super) fn clear_target(
        &mut self,
        turn: &mut Turn<'_>,
        partition: PartitionId,
        move_id: MoveId,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        if row.move_id != move_id {
            return Err(Reason::MoveChanged);
        }
        // A row that has none gets a new id as well: a target that is still on its way is refused then.
        let planned = row.move_id.next();
        self.edit_row(turn, partition, |row| row.replan(None));
        Ok(Applied::Planned(planned))
    }

    /// The order of the checks decides what a loser is told: first whether the row is there at
    /// all, then whether this very attempt has won already (H3), then who asks, then whether the
    /// plan still stands, and only then what is wrong with the attempt itself.
    pub(super) fn complete_move(
        &mut self,
        turn: &mut Turn<'_>,
        partition: PartitionId,
        expect: Expect,
        attempt: Attempt,
        fence: Fence,
        copy: Copied,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        if turn.by != attempt.destination {
            return Err(Reason::NotYours);
        }
        if let Some(reign) = row.reign_of(attempt)
            && !is_planted(Bug::WinnerRefusedTwice)
        {
            return Ok(Applied::Won(reign.epoch));
        }
        if row.target != Some(turn.by) {
            return Err(Reason::NotTarget);
        }
        let any_move = is_planted(Bug::FlipOfAnyMove);
        let move_id = if any_move { row.move_id } else { expect.move_id };
        let row = self.expected_row(partition, Expect { move_id, ..expect })?;
        if attempt.move_id != row.move_id && !any_move {
            return Err(Reason::MoveChanged);
        }
        self.staying(turn.by)?;
        if row.burned.is_some_and(|burned| attempt.no <= burned)
            && !is_planted(Bug::BurnedAttemptWins)
        {
            return Err(Reason::AttemptBurned);
        }
        self.check_fence(row, fence, copy)?;
        if copy.end < copy.hwm || copy.committed.is_some_and(|committed| committed > copy.hwm) {
            return Err(Reason::OutOfRange);
        }
        if copy.end < row.min_end {
            return Err(Reason::CopyBehind);
        }
        let epoch = row.epoch.next();
        let residue = match fence {
            Fence::Normal { .. } => Residue::None,
            Fence::Forced { .. } => Residue::Pending,
        };
        self.edit_row(turn, partition, |row| {
            row.crown(attempt.destination, attempt, copy.end, residue);
        });
        Ok(Applied::Won(epoch))
    }

    /// Whether no record can land behind the copy any more: the source is frozen, by a freeze
    /// that is neither revoked nor of another life (H1, H6, H33); or it is dead under the very
    /// certificate that the destination waited out (H10, H11), and everything that it ever
    /// reported visible has been copied (H12, H36).
    fn check_fence(&self, row: &Assignment, fence: Fence, copy: Copied) -> Result<(), Reason> {
        match fence {
            Fence::Normal { token } => {
                let life = self.member(row.owner).map(|owner| owner.incarnation);
                let of_this_life =
                    Some(token.no.incarnation) == life || is_planted(Bug::FreezeOutlivesItsLife);
                if token.epoch != row.epoch || !of_this_life {
                    Err(Reason::TokenStale)
                } else if row.revoked.is_some_and(|revoked| token.no < revoked)
                    || (row.revoked == Some(token.no) && !is_planted(Bug::RevokedTokenFlips))
                {
                    Err(Reason::TokenRevoked)
                } else {
                    Ok(())
                }
            }
            Fence::Forced { generation } => {
                let dead = match self.status(row.owner) {
                    Some(Status::Dead(present)) => {
                        present == generation || is_planted(Bug::AnyDeathCounts)
                    }
                    Some(Status::Alive) | None => false,
                };
                if !dead && !is_planted(Bug::ForcedOffTheLiving) {
                    Err(Reason::NotDead)
                } else if row.reported_hwm.is_some_and(|reported| copy.end < reported) {
                    Err(Reason::CopyBehind)
                } else {
                    Ok(())
                }
            }
        }
    }

    /// After this, the fate of the attempt is settled for good (H2, H35).
    pub(super) fn resolve(
        &mut self,
        turn: &mut Turn<'_>,
        partition: PartitionId,
        attempt: Attempt,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        if turn.by != attempt.destination {
            return Err(Reason::NotYours);
        }
        if let Some(reign) = row.reign_of(attempt) {
            return Ok(Applied::Won(reign.epoch));
        }
        if row.has_forgotten(attempt) {
            return Err(Reason::Forgotten);
        }
        if attempt.move_id > row.move_id {
            // No plan with that number has been made: the asker is not of this log.
            return Err(Reason::MoveChanged);
        }
        // Only the target's tries can win, so only they need burning; and only the target may
        // burn them, for `burned` does not say whose they are (S18).
        let can_win = attempt.move_id == row.move_id && row.target == Some(attempt.destination);
        if can_win && row.burned.is_none_or(|burned| attempt.no > burned) {
            self.edit_row(turn, partition, |row| row.burned = Some(attempt.no));
        }
        Ok(Applied::Burned)
    }

    /// The source goes on only once this is applied: whichever of this and the flip is first in
    /// the log wins (H1).
    pub(super) fn revoke(
        &mut self,
        turn: &mut Turn<'_>,
        partition: PartitionId,
        token: Token,
    ) -> Result<Applied, Reason> {
        let row = self.row(partition)?;
        // A freeze of an earlier reign of the same node ended with that reign.
        let owns = turn.by == row.owner || is_planted(Bug::RevokedByAnybody);
        if !owns || token.epoch != row.epoch {
            return Err(Reason::NotOwner);
        }
        if row.revoked.is_none_or(|revoked| token.no > revoked) {
            self.edit_row(turn, partition, |row| row.revoked = Some(token.no));
        }
        Ok(Applied::Resumed)
    }

    /// What a node says of partitions that it does not own, or not in that reign, is passed over:
    /// one entry speaks for all that move away from it, and some may have gone.
    pub(super) fn report(
        &mut self,
        turn: &mut Turn<'_>,
        node: NodeId,
        incarnation: Incarnation,
        hwms: &[(PartitionId, Epoch, Offset)],
    ) -> Result<Applied, Reason> {
        let member = self.staying(node)?;
        if turn.by != node {
            return Err(Reason::NotYours);
        }
        if hwms.len() > Command::REPORT_MAX {
            return Err(Reason::OutOfRange);
        }
        if member.incarnation != incarnation {
            return Err(Reason::StaleIncarnation);
        }
        for &(partition, epoch, hwm) in hwms {
            let news = self.assignment(partition).is_some_and(|row| {
                row.owner == node
                    && row.epoch == epoch
                    && row.reported_hwm.is_none_or(|reported| hwm > reported)
            });
            if news {
                self.edit_row(turn, partition, |row| row.reported_hwm = Some(hwm));
            }
        }
        Ok(Applied::Done)
    }

    pub(super) fn set_pin(
        &mut self,
        turn: &mut Turn<'_>,
        partition: PartitionId,
        on: bool,
    ) -> Result<Applied, Reason> {
        if self.row(partition)?.pinned == on || self.is_remembered(turn) {
            return Ok(Applied::Done);
        }
        self.remember(turn.proposal);
        self.edit_row(turn, partition, |row| row.pinned = on);
        Ok(Applied::Done)
    }

    fn status(&self, node: NodeId) -> Option<Status> {
        self.member(node).map(|member| member.status)
    }
}
