//! What must hold in every state of the walk, and at its end.

use super::*;

impl World {
    /// Safety: S9, S1, and no thaw but by the log.
    pub(in crate::freeze::model) fn violation(&self) -> Option<&'static str> {
        for (attempt, capture, _) in &self.told {
            if !self.could_flip(*attempt, capture) {
                continue;
            }
            if self.end != capture.listing.end.0 {
                return Some("S9: appended behind a capture that may still flip");
            }
            let same_life = capture.token.no.incarnation == self.life;
            if same_life && !self.gate.is_frozen() {
                return Some("thawed although a flip may still apply");
            }
        }
        let beyond = |flipped: &Capture| self.acked > flipped.listing.hwm.0;
        self.flipped.as_ref().is_some_and(beyond).then_some("S1: acknowledged, but not moved")
    }

    /// Liveness: what a schedule that has come to its end must look like (L1, L2, R40).
    pub(in crate::freeze::model) fn unfinished(&self) -> Option<&'static str> {
        let Some(handoff) = &self.handoff else { return None };
        if handoff.is_frozen() || self.gate.is_frozen() {
            return Some("L2: frozen for ever");
        }
        let ours = self.truth().owner == SOURCE;
        let closed = self.gate.standing() == Standing::Closed;
        (closed == ours || handoff.is_over() == ours).then_some("L1: not settled")
    }
}
