//! Freezes of a partition that moves away.

use narad_core::effects::OpId;
use narad_core::freeze::gate::Command;
use narad_core::ids::{Epoch, Incarnation, Token};

use super::{FreezeAnswer, Slot};

impl Slot {
    /// Freezes accept and commit and captures the boundary; waits for an append under way, until
    /// that ends or somebody [gives up](Self::give_up).
    ///
    /// # Errors
    ///
    /// If the gate does not freeze, or the log cannot be listed; then the freeze still holds.
    pub fn freeze(&self, ticket: OpId, epoch: Epoch, life: Incarnation) -> FreezeAnswer {
        self.begin_freeze(ticket, epoch, life);
        self.await_answer(ticket)
    }

    /// Waits for the answer of a freeze that was [begun](Self::begin_freeze).
    ///
    /// # Errors
    ///
    /// As [`freeze`](Self::freeze).
    pub fn await_answer(&self, ticket: OpId) -> FreezeAnswer {
        let mut inner = self.lock();
        loop {
            if let Some(answer) = inner.take_answer(ticket) {
                return answer;
            }
            inner = self.wait(inner);
        }
    }

    /// Asks for a freeze. Its answer is there at once, or when the append under way has ended, or
    /// when somebody [gives up](Self::give_up).
    pub fn begin_freeze(&self, ticket: OpId, epoch: Epoch, life: Incarnation) {
        let mut inner = self.lock();
        self.command(&mut inner, Command::Freeze { ticket, epoch, life });
    }

    /// Takes the answer of a freeze, if it is there. Each is given once.
    pub fn take_answer(&self, ticket: OpId) -> Option<FreezeAnswer> {
        self.lock().take_answer(ticket)
    }

    /// Gives up a freeze that still waits for an append (field fault 4).
    pub fn give_up(&self, ticket: OpId) {
        let mut inner = self.lock();
        self.command(&mut inner, Command::GiveUp { ticket });
        drop(inner);
        self.ended.notify_all();
    }

    /// Ends the freeze of a token.
    pub fn thaw(&self, token: Token) {
        let mut inner = self.lock();
        self.command(&mut inner, Command::Thaw { token });
    }
}
