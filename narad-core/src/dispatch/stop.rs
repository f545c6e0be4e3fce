//! The end of a process that is asked to end: what has arrived is noted, and not sent again.

use core::time::Duration;

use super::{Dispatch, Effect};
use crate::effects::{Deadline, Effects};
use crate::time::Instant;

/// How far the end is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Stop {
    /// Nobody has asked for it.
    #[default]
    NotAsked,
    /// Nothing more is sent; the answers to what is under way are waited for, but not longer.
    Asked { by: Instant },
    /// The last checkpoint is being made.
    Noting,
    /// Nothing is waited for any more.
    Over,
}

impl Dispatch {
    pub(super) fn is_stopping(&self) -> bool {
        self.stop != Stop::NotAsked
    }

    /// How long a stop waits for the answers to what is under way. Longer spares more duplicates
    /// while an owner is slow, and holds up the end of the process.
    pub const STOP_WAIT: Duration = Duration::from_secs(1);

    /// Whether everything that a [stop](super::Event::Stopping) waits for is done. The process may
    /// end before that as well: all that costs is duplicates.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.stop == Stop::Over
    }

    pub(super) fn stopping(&mut self, now: Instant) {
        if self.stop == Stop::NotAsked {
            self.stop = Stop::Asked { by: now.after(Self::STOP_WAIT) };
        }
    }

    /// Makes a last checkpoint once nothing is under way, or has been for too long. One that fails is
    /// not tried again.
    pub(super) fn wind_up(&mut self, now: Instant, out: &mut Effects<Effect>) {
        if self.checkpoint.is_under_way() {
            return;
        }
        self.stop = match self.stop {
            Stop::Asked { by } => {
                let is_busy = !self.sends.is_empty() || self.carry.is_under_way();
                if is_busy && now < by {
                    return;
                }
                if self.checkpoint_due().is_some() {
                    self.begin_checkpoint(out);
                    Stop::Noting
                } else {
                    Stop::Over
                }
            }
            Stop::Noting | Stop::Over => Stop::Over,
            Stop::NotAsked => Stop::NotAsked,
        };
    }

    pub(super) fn stop_deadline(&self) -> Option<Deadline> {
        let Stop::Asked { by } = self.stop else { return None };
        let why = "the answers to what is under way are not waited for any longer";
        (!self.checkpoint.is_under_way()).then_some(Deadline { at: by, why })
    }
}
