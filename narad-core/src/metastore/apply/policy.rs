//! What the whole cluster goes by.

use alloc::vec::Vec;

use super::{State, Turn};
use crate::config::{ConfigError, Policy};
use crate::ids::{Incarnation, NodeId};
use crate::metastore::command::{Applied, Reason};
use crate::metastore::member::Status;
use crate::planted::{Bug, is_planted};

impl State {
    /// A change of timing is safe at once, whichever nodes know of it: every death waits for the
    /// longest lease that the dead life may have been given (see `Timing`), so nothing has to run
    /// out before a new lease counts.
    pub(super) fn set_policy(
        &mut self,
        turn: &mut Turn<'_>,
        policy: &Policy,
    ) -> Result<Applied, Reason> {
        policy.check().map_err(|error| match error {
            ConfigError::OutOfRange { .. } => Reason::OutOfRange,
            ConfigError::UnsafeTiming { .. } => Reason::UnsafeTiming,
        })?;
        if self.policy == *policy || self.is_remembered(turn) {
            return Ok(Applied::Done);
        }
        self.remember(turn.proposal);
        self.policy = policy.clone();
        turn.changed.policy = true;
        if is_planted(Bug::LongerLeaseForgotten) {
            return Ok(Applied::Done);
        }
        let (reach, silence) = (policy.lease_reach(), policy.dead_timeout);
        // A dead life is given no lease any more, and learns of its death before of this policy.
        let leased: Vec<NodeId> = self
            .members()
            .filter(|member| member.status == Status::Alive && !member.retired)
            .filter(|member| member.incarnation > Incarnation(0))
            .filter(|member| reach > member.timing.reach || silence < member.timing.silence)
            .map(|member| member.id)
            .collect();
        for node in leased {
            self.edit_member(turn, node, |member| {
                member.timing.reach = member.timing.reach.max(reach);
                member.timing.silence = member.timing.silence.min(silence);
            });
        }
        Ok(Applied::Done)
    }

    /// Never lowers it; a version that this build does not have has halted before.
    pub(super) fn raise_version(&mut self, turn: &mut Turn<'_>, to: u32) -> Applied {
        turn.changed.version = to > self.version;
        self.version = self.version.max(to);
        Applied::Done
    }
}
