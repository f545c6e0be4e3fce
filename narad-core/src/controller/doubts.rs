//! Targets of which nobody knows whether they were set.
//!
//! A barrier shows what was committed before it began, and not what this leader has appended and
//! could not commit yet. A plan that is made behind it would give the place of such a target to
//! another move, and both would run (S14). So nothing is planned until each of them is settled, by its
//! row: the target is set, or the row has another id, under which a late target is refused. That does
//! not rest on the order in which a log takes what it is given.

use alloc::collections::BTreeMap;

use super::decisions::Decisions;
use super::{Asked, Controller};
use crate::ids::{MoveId, PartitionId};
use crate::metastore::{Command, State};

/// The rows whose target is in doubt, with the move id that the target was planned on.
///
/// No more than one pass has proposed: the next plan is made when there are none.
pub(super) type Doubts = BTreeMap<PartitionId, MoveId>;

impl Controller {
    /// Takes note that nobody knows what became of a target.
    pub(super) fn doubt(&mut self, partition: PartitionId, planned_on: MoveId) {
        self.doubts.insert(partition, planned_on);
    }

    /// Asks on about the targets in doubt; returns whether there are none.
    ///
    /// It asks by clearing the target of a move that, for all the row says, has none: either the target
    /// was set before, or it is refused from then on.
    pub(super) fn settle_doubts(&mut self, state: &State, decisions: &mut Decisions) -> bool {
        self.doubts.retain(|partition, planned_on| {
            let row = state.assignment(*partition);
            row.is_some_and(|row| row.move_id == *planned_on && row.target.is_none())
        });
        for (&partition, &move_id) in &self.doubts {
            decisions.propose(Command::ClearTarget { partition, move_id });
        }
        self.doubts.is_empty()
    }

    /// Returns what a command is for.
    pub(super) fn asked(&self, command: &Command) -> Asked {
        if let Command::Retire { node, .. } = command {
            Asked::Retire(*node)
        } else if let Command::SetTarget { partition, expect, .. } = command {
            Asked::Target(*partition, expect.move_id)
        } else if let Command::ClearTarget { partition, .. } = command
            && self.doubts.contains_key(partition)
        {
            Asked::Doubt(*partition)
        } else {
            Asked::Other
        }
    }
}
