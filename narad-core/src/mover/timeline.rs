//! When each step of a freeze ended.

use super::note::Steps;
use crate::time::Instant;

/// The course of one freeze; a step that has not ended yet ends with the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Timeline {
    /// When it was first asked for: the source has not been frozen for longer.
    pub(super) asked: Instant,
    frozen: Instant,
    drained: Instant,
    verified: Instant,
    installed: Instant,
}

impl Timeline {
    pub(super) const fn begin(now: Instant) -> Self {
        Self { asked: now, frozen: now, drained: now, verified: now, installed: now }
    }

    pub(super) const fn frozen(self, now: Instant) -> Self {
        Self { frozen: now, ..self }.drained(now)
    }

    pub(super) const fn drained(self, now: Instant) -> Self {
        Self { drained: now, ..self }.verified(now)
    }

    pub(super) const fn verified(self, now: Instant) -> Self {
        Self { verified: now, ..self }.installed(now)
    }

    pub(super) const fn installed(self, now: Instant) -> Self {
        Self { installed: now, ..self }
    }

    /// Returns how long each step took, if the flip is known now.
    pub(super) fn steps(self, now: Instant) -> Steps {
        Steps {
            prepare: self.frozen.since(self.asked),
            drain: self.drained.since(self.frozen),
            verify: self.verified.since(self.drained),
            install: self.installed.since(self.verified),
            flip: now.since(self.installed),
        }
    }
}
