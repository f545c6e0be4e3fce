//! The barriered read of the row, with which every life and every change of plan begins.

use super::State;
use super::cx::Cx;
use super::note::Waiting;
use super::operation::{Operation, Outcome};
use super::pause::Then;
use super::settle::settle;
use crate::effects::OpId;

/// Reads the row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Locating {
    op: OpId,
}

impl Cx<'_> {
    /// Begins from the row.
    pub(super) fn locate(&mut self) -> State {
        State::Locating(Locating { op: self.run(Operation::ReadRow) })
    }
}

impl Locating {
    pub(super) fn done(self, op: OpId, outcome: Outcome, cx: &mut Cx<'_>) -> State {
        assert_eq!(op, self.op, "a read is all that runs");
        let Outcome::ReadRow(result) = outcome else { unreachable!("checked by the desk") };
        match result {
            // The desk has taken the row, unless a newer one was applied meanwhile.
            Ok(_) => settle(cx),
            Err(_) => cx.wait(Waiting::LeaderUnreachable, Then::Locate),
        }
    }
}
