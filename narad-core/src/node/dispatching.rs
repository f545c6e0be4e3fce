//! Binds the way of accepted records to this node's operations.

use super::routes::{Internal, Route};
use super::{Effect, Node, Note, Operation, Outcome, Shipping, ShippingOutcome};
use crate::dispatch::{self, Dispatch, NoBarrier, Waybill};
use crate::effects::{Effects, OpId};

impl Node {
    /// Gives the node what its driver has found in the ingress log. Comes before the first event;
    /// a node that accepts nothing goes without.
    ///
    /// # Panics
    ///
    /// If records were accepted already.
    pub fn resume_ingress<W: IntoIterator<Item = Waybill>>(
        &mut self,
        found: dispatch::Found<W>,
        out: &mut Effects<Effect>,
    ) {
        assert_eq!(self.dispatch.progress().accepted, 0, "an ingress log is found once");
        if found.closed {
            self.was_closed();
        }
        let mut first = Effects::default();
        self.dispatch =
            Dispatch::new(&self.config, self.me.node, self.incarnation, found, &mut first);
        self.dispatch_wants(&mut first);
        // It does not wait for a leader: the owners may be there all the same.
        self.inbox.push_back(Internal::Dispatch(dispatch::Event::Wake));
        self.settle();
        self.hand_out(out);
    }

    /// Whether everything that a [stop](super::Event::Stopping) waits for is done.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.dispatch.has_stopped()
    }

    pub(super) fn drive_dispatch(&mut self, event: dispatch::Event) {
        let mut out = Effects::default();
        self.dispatch.handle(self.now, &self.state, event, &mut out);
        self.dispatch_wants(&mut out);
    }

    fn dispatch_wants(&mut self, out: &mut Effects<dispatch::Effect>) {
        for effect in out.drain() {
            match effect {
                dispatch::Effect::Run(op, operation) => {
                    self.run(operation_of(operation), Route::Dispatch(op));
                }
                dispatch::Effect::Cancel(op) => self.cancel(|route| *route == Route::Dispatch(op)),
                dispatch::Effect::Note(note) => self.note(Note::Dispatch(note)),
            }
        }
    }

    pub(super) fn dispatch_done(&mut self, op: OpId, outcome: Outcome) {
        let outcome = if let Outcome::Barrier(index) = outcome {
            dispatch::Outcome::Barrier(index.map(|_| ()).ok_or(NoBarrier))
        } else if let Outcome::Ship(ShippingOutcome::Send(result)) = outcome {
            dispatch::Outcome::Send(result)
        } else if let Outcome::Ship(ShippingOutcome::Checkpoint(result)) = outcome {
            dispatch::Outcome::Checkpoint(result)
        } else if let Outcome::Ship(ShippingOutcome::Carry(result)) = outcome {
            dispatch::Outcome::Carry(result)
        } else if let Outcome::Ship(ShippingOutcome::Damaged(lost)) = outcome {
            dispatch::Outcome::Damaged(lost)
        } else {
            super::routes::mismatch(op, &outcome)
        };
        self.inbox.push_back(Internal::Dispatch(dispatch::Event::Done(op, outcome)));
    }

    /// Says what there is room for, once the log knows a life of this node: a member that it has never
    /// heard of may be taken out again, and must not have accepted anything (R86).
    pub(super) fn publish_room(&mut self) {
        let me = self.state.member(self.me.node);
        if me.is_none_or(|member| !member.has_lived()) {
            return;
        }
        let mut room = self.dispatch.room();
        room.draining |= self.is_closed();
        if self.room != Some(room) {
            self.room = Some(room);
            self.out.push(Effect::Room(room));
        }
    }
}

fn operation_of(operation: dispatch::Operation) -> Operation {
    match operation {
        dispatch::Operation::Send { to, partition, epoch, batch, records } => {
            Operation::Ship(Shipping::Send { to, partition, epoch, batch, records })
        }
        dispatch::Operation::Checkpoint(spent) => Operation::Ship(Shipping::Checkpoint(spent)),
        dispatch::Operation::Carry(records) => Operation::Ship(Shipping::Carry(records)),
        dispatch::Operation::Barrier => Operation::Barrier,
    }
}
