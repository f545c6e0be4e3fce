//! The listings that destinations have asked for.

use alloc::vec::Vec;
use core::mem;

use super::Handoff;
use crate::effects::OpId;
use crate::ids::{Incarnation, MoveId, NodeId};
use crate::partition::Staged;
use crate::peer::{Refusal, RequestId};

/// Listings on their way; at most [`Handoff::LISTINGS_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Listings {
    waiting: Vec<Asked>,
    running: Vec<Running>,
}

/// A listing that waits for the gate to note that the partition is in play.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) request: RequestId,
    pub(super) asker: NodeId,
    pub(super) move_id: MoveId,
    pub(super) life: Incarnation,
    check: Vec<Staged>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running {
    op: OpId,
    asked: Asked,
}

impl Listings {
    /// Takes a request; one too many is asked to come again.
    pub(super) fn ask(
        &mut self,
        request: RequestId,
        asker: NodeId,
        move_id: MoveId,
        life: Incarnation,
        check: Vec<Staged>,
    ) -> Result<(), Refusal> {
        if self.waiting.len() + self.running.len() >= Handoff::LISTINGS_MAX {
            return Err(Refusal::NotYet);
        }
        self.waiting.push(Asked { request, asker, move_id, life, check });
        Ok(())
    }

    /// Removes and returns what waits; each is then answered, begun, or put back.
    pub(super) fn waiting(&mut self) -> Vec<Asked> {
        mem::take(&mut self.waiting)
    }

    pub(super) fn wait(&mut self, asked: Asked) {
        self.waiting.push(asked);
    }

    /// Remembers the operation that lists, in the life in which it begins, and returns what it is
    /// to compare.
    pub(super) fn begin(&mut self, asked: Asked, life: Incarnation, op: OpId) -> Vec<Staged> {
        let mut asked = Asked { life, ..asked };
        let check = mem::take(&mut asked.check);
        self.running.push(Running { op, asked });
        check
    }

    pub(super) fn take(&mut self, op: OpId) -> Option<Asked> {
        let at = self.running.iter().position(|running| running.op == op)?;
        Some(self.running.remove(at).asked)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }
}
