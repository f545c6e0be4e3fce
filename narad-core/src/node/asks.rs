//! What operators and clients may ask of a node, and how it answers.
//!
//! A question about the cluster is answered behind a barrier; a wish is looked at behind one,
//! refused with every reason at once if it cannot end, and proposed otherwise.

use alloc::string::String;
use alloc::vec::Vec;

use super::routes::{Route, Ticket};
use super::{AskId, Node, Operation};
use crate::config::Policy;
use crate::controller::preflight::{self, Blocker};
use crate::ids::{Attempt, Epoch, Generation, Name, NodeId, Offset, PartitionId, TopicId};
use crate::metastore::{Applied, Command, Member, Reason, Reply, Status};
use crate::proposals::Proposed;

/// A question of an operator or client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Ask {
    /// Be as fresh as the log: what is read after the answer is no older than the question.
    Barrier,
    /// Create a topic.
    CreateTopic {
        /// Its name.
        name: Name,
        /// How many partitions.
        partitions: u32,
        /// The topic that feeds it.
        parent: Option<TopicId>,
    },
    /// Delete a topic with all its data.
    DeleteTopic(TopicId),
    /// Drain a node off and remove it (R82).
    Decommission(NodeId),
    /// Cancel a decommission (R94).
    CancelDecommission(NodeId),
    /// Take a draining node out for good, although it is dead and so never says that nothing is left
    /// on it: what it had accepted and not passed on is given up. Never without an operator's word.
    Retire {
        /// The node.
        node: NodeId,
        /// The operator's word, for the log; not blank, at most [`Command::RECEIPT_MAX`] bytes.
        receipt: String,
    },
    /// Move a partition, and keep it there until it is unpinned.
    Move {
        /// The partition.
        partition: PartitionId,
        /// Where to.
        to: NodeId,
    },
    /// Give up the move of a partition.
    Abort(PartitionId),
    /// Let the planner have a partition again, or keep it from it.
    Pin {
        /// The partition.
        partition: PartitionId,
        /// Whether it is pinned.
        on: bool,
    },
    /// Replace the policy.
    SetPolicy(Policy),
    /// Accept that what only the dead owner of a partition holds may be lost, and have the partition
    /// served again, from an empty log at or past all that consumers may have seen. What the target
    /// of its move has copied is accepted once more; so is what the owner holds, should it ever come
    /// back. Never without an operator's word.
    DeclareLost {
        /// The partition.
        partition: PartitionId,
        /// The operator's word, for the log; not blank, at most [`Command::RECEIPT_MAX`] bytes.
        receipt: String,
    },
}

/// What [`Ask::DeclareLost`] would come to as things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Loss {
    /// The dead owner.
    pub from: NodeId,
    /// The certificate of its death.
    pub generation: Generation,
    /// The reign that would end.
    pub epoch: Epoch,
    /// Who would own the partition.
    pub to: NodeId,
    /// The first offset of the new reign: past all that consumers may have seen.
    pub end: Offset,
}

/// The answer to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    /// The log says so, or what was asked for is so now.
    Done(Applied),
    /// This node is as fresh as the log was when the question came.
    Fresh,
}

/// Why an [`Ask`] was not granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AskError {
    /// No leader confirmed anything in time; nothing was proposed.
    #[error("there is no leader: nothing was changed, try again")]
    NoLeader,
    /// It was proposed, and nobody can say what became of it.
    #[error("the outcome is unknown: look at the state, then ask again")]
    Unknown,
    /// The state forbids it.
    #[error("refused: {0}")]
    Rejected(Reason),
    /// It could not end as things are.
    #[error("it could not end as things are")]
    Blocked(Vec<Blocker>),
}

impl Node {
    /// Begins with a barrier, so that no wish is judged on a stale row.
    pub(super) fn asked(&mut self, id: AskId, ask: Ask) {
        self.run(Operation::Barrier, Route::Ask(id, ask));
    }

    /// Decides upon a wish on a state that is as fresh as the wish.
    pub(super) fn ask_is_fresh(&mut self, id: AskId, ask: Ask) {
        let ticket = if let Ask::Move { partition, .. } = &ask {
            Ticket::Move(id, *partition)
        } else {
            Ticket::Ask(id)
        };
        match self.command_for(ask) {
            Ok(Some(command)) => self.propose(command, ticket),
            Ok(None) => self.reply(id, Ok(Said::Fresh)),
            Err(error) => self.reply(id, Err(error)),
        }
    }

    /// Passes on what became of a proposed wish.
    pub(super) fn ask_is_decided(&mut self, id: AskId, proposed: &Proposed) {
        let answer = match proposed {
            Proposed::Replied(Reply::Applied(applied)) => Ok(Said::Done(*applied)),
            Proposed::Replied(Reply::Rejected(reason)) => Err(AskError::Rejected(*reason)),
            Proposed::Unknown => Err(AskError::Unknown),
        };
        self.reply(id, answer);
    }

    /// Pins the partition of an operator's move once it is planned: the planner leaves it alone
    /// meanwhile, since it moves.
    pub(super) fn move_is_decided(
        &mut self,
        id: AskId,
        partition: PartitionId,
        proposed: &Proposed,
    ) {
        if let Proposed::Replied(Reply::Applied(planned)) = proposed {
            let pin = Command::SetPin { partition, on: true };
            self.propose(pin, Ticket::Pin(id, *planned));
        } else {
            self.ask_is_decided(id, proposed);
        }
    }

    /// Answers an operator's move with the plan, once its pin is decided.
    pub(super) fn pin_is_decided(&mut self, id: AskId, planned: Applied, proposed: &Proposed) {
        if let Proposed::Replied(Reply::Applied(_)) = proposed {
            self.reply(id, Ok(Said::Done(planned)));
        } else {
            self.ask_is_decided(id, proposed);
        }
    }

    /// Returns the guarded command that a wish comes to; none if freshness was all.
    fn command_for(&self, ask: Ask) -> Result<Option<Command>, AskError> {
        let command = match ask {
            Ask::Barrier => return Ok(None),
            Ask::CreateTopic { name, partitions, parent } => {
                Command::CreateTopic { name, partitions, parent }
            }
            Ask::DeleteTopic(topic) => Command::DeleteTopic { topic },
            Ask::Decommission(node) => {
                let blockers = preflight::decommission(&self.state, node);
                if !blockers.is_empty() {
                    return Err(AskError::Blocked(blockers));
                }
                Command::SetDraining { node, on: true }
            }
            Ask::CancelDecommission(node) => Command::SetDraining { node, on: false },
            Ask::Retire { node, receipt } => Command::Retire { node, receipt: Some(receipt) },
            Ask::Move { partition, to } => {
                Command::SetTarget { partition, expect: self.row_of(partition)?.expect(), to }
            }
            Ask::Abort(partition) => {
                Command::ClearTarget { partition, move_id: self.row_of(partition)?.move_id }
            }
            Ask::Pin { partition, on } => Command::SetPin { partition, on },
            Ask::SetPolicy(policy) => Command::SetPolicy(policy),
            Ask::DeclareLost { partition, receipt } => self.declare_lost(partition, receipt)?,
        };
        Ok(Some(command))
    }

    fn declare_lost(&self, partition: PartitionId, receipt: String) -> Result<Command, AskError> {
        let Loss { generation, to, end, .. } = self.loss(partition)?;
        let row = self.row_of(partition)?;
        let data = Attempt { move_id: row.move_id, ..Attempt::birth(to) };
        let expect = row.expect();
        Ok(Command::DeclareLost { partition, expect, generation, to, data, end, receipt })
    }

    /// Returns what declaring a partition lost would come to, and changes nothing. The heir is the
    /// target of the move, which may hold a copy, or else the node that owns least.
    ///
    /// # Errors
    ///
    /// As [`Ask::DeclareLost`] is answered: its owner is not dead, or nobody could inherit it.
    pub fn loss(&self, partition: PartitionId) -> Result<Loss, AskError> {
        let row = self.row_of(partition)?;
        let owner = self.state.member(row.owner).map(|owner| owner.status);
        let Some(Status::Dead(generation)) = owner else {
            return Err(AskError::Rejected(Reason::NotDead));
        };
        let receives = |node: &NodeId| self.state.member(*node).is_some_and(Member::is_receiver);
        let least = || {
            let heirs = self.state.members().filter(|member| member.is_receiver());
            heirs.map(|heir| heir.id).min_by_key(|heir| self.state.owned_count(*heir))
        };
        let to = row.target.filter(receives).or_else(least);
        let to = to.ok_or(AskError::Rejected(Reason::NodeDead))?;
        let end = beyond(row.min_end.max(row.reported_hwm.unwrap_or_default()));
        Ok(Loss { from: row.owner, generation, epoch: row.epoch, to, end })
    }

    fn row_of(&self, partition: PartitionId) -> Result<&crate::metastore::Assignment, AskError> {
        self.state.assignment(partition).ok_or(AskError::Rejected(Reason::Gone))
    }
}

/// Returns where a reign begins that follows one of which nobody knows the end, so that no offset gets
/// a second record: at the next multiple of 2^44, since no owner tells the log of every record. A
/// million records a second reach that far in half a year, and offsets last for a million losses.
fn beyond(known: Offset) -> Offset {
    const STEP: u64 = 1 << 44;
    Offset(known.0.saturating_add(1).checked_next_multiple_of(STEP).unwrap_or(known.0))
}
