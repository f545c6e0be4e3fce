//! What operators and clients may ask of a node, and how it answers.
//!
//! A question about the cluster is answered behind a barrier; a wish is looked at behind one,
//! refused with every reason at once if it cannot end, and proposed otherwise.

use alloc::vec::Vec;

use super::routes::{Route, Ticket};
use super::{AskId, Node, Operation};
use crate::config::Policy;
use crate::controller::preflight::{self, Blocker};
use crate::ids::{Name, NodeId, PartitionId, TopicId};
use crate::metastore::{Applied, Command, Reason, Reply};
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
            Ask::Move { partition, to } => {
                Command::SetTarget { partition, expect: self.row_of(partition)?.expect(), to }
            }
            Ask::Abort(partition) => {
                Command::ClearTarget { partition, move_id: self.row_of(partition)?.move_id }
            }
            Ask::Pin { partition, on } => Command::SetPin { partition, on },
            Ask::SetPolicy(policy) => Command::SetPolicy(policy),
        };
        Ok(Some(command))
    }

    fn row_of(&self, partition: PartitionId) -> Result<&crate::metastore::Assignment, AskError> {
        self.state.assignment(partition).ok_or(AskError::Rejected(Reason::Gone))
    }
}
