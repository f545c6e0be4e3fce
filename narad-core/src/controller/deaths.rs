//! Who is dead: silence on the leader's own clock, counted from when it began to listen.

use super::{Controller, Decisions, Note};
use crate::metastore::{Command, State, Status};
use crate::time::Instant;

impl Controller {
    /// Declares those members dead of which this leader has heard nothing for `dead_timeout`.
    ///
    /// A new leader has heard nobody yet, so it waits for `grace_after_election` first (H19), and
    /// a leader that was itself asleep hears those who are alive before its next pass, since a
    /// pass begins with a barrier (case M137).
    pub(super) fn judge_deaths(
        &mut self,
        now: Instant,
        state: &State,
        since: Instant,
        decisions: &mut Decisions,
    ) {
        let timeout = state.policy().dead_timeout;
        for member in state.members() {
            if member.id == self.me || member.retired || member.status != Status::Alive {
                continue;
            }
            let silent_since = match self.heard.get(&member.id) {
                Some(heard) if heard.incarnation >= member.incarnation => heard.at,
                Some(_) | None => since,
            };
            let listened = now.since(since) >= self.config.grace_after_election;
            if listened && now.since(silent_since) >= timeout {
                let (node, incarnation) = (member.id, member.incarnation);
                if decisions.propose(Command::MarkDead { node, incarnation }) {
                    decisions.notes.push(Note::Silent { node });
                }
            }
        }
    }
}
