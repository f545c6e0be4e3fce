//! What one pass has decided, and how much of it there may be.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Controller, Note, Operation};
use crate::ids::PartitionId;
use crate::metastore::Command;

/// What one pass wants.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub(super) commands: Vec<Command>,
    pub(super) operations: Vec<Operation>,
    pub(super) notes: Vec<Note>,
    /// Partitions that a command of this pass is about already.
    pub(super) busy: BTreeSet<PartitionId>,
}

impl Decisions {
    /// Returns how many more commands the pass may have.
    pub(super) fn room(&self) -> usize {
        Controller::PASS_COMMANDS_MAX - self.commands.len()
    }

    /// Adds a command, unless the pass has as many as it may.
    pub(super) fn propose(&mut self, command: Command) -> bool {
        let fits = self.room() > 0;
        if fits {
            self.commands.push(command);
        }
        fits
    }
}
