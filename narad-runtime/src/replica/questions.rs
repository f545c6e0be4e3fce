//! What a node asks its log itself: barriers, surveys, changes of the membership.

use narad_core::controller::Change;
use narad_core::effects::OpId;
use narad_core::ids::LogIndex;
use narad_core::node::{Event, Outcome};
use narad_core::time::Instant;

use super::{Actions, Barrier, Replica, ReplicaError};
use crate::raft::{ConfigurationChange, MemberChange, RaftStore};

impl<S: RaftStore> Replica<S> {
    pub(super) fn begin_barrier(
        &mut self,
        now: Instant,
        op: OpId,
        survey: bool,
    ) -> Option<Outcome> {
        let read = self.raft.read_index();
        let until = now.after(self.barrier_timeout);
        self.barriers.insert(read, Barrier { op, survey, until });
        None
    }

    pub(super) fn passed(
        &mut self,
        now: Instant,
        barrier: Barrier,
        index: LogIndex,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        let outcome = if barrier.survey {
            let progress = self.raft.status().progress;
            let matched = progress.into_iter().map(|(node, peer)| (node, peer.matched)).collect();
            Outcome::Survey(Some((index, matched)))
        } else {
            Outcome::Barrier(Some(index))
        };
        self.tell(now, Event::Done(barrier.op, outcome), out)
    }

    pub(super) fn give_up_barriers(
        &mut self,
        now: Instant,
        out: &mut Actions,
    ) -> Result<(), ReplicaError> {
        if self.barriers.is_empty() || self.barriers.values().all(|barrier| barrier.until > now) {
            return Ok(());
        }
        let overdue: Vec<_> =
            self.barriers.extract_if(.., |_, barrier| barrier.until <= now).collect();
        for (read, barrier) in overdue {
            self.raft.cancel_read(read);
            let outcome =
                if barrier.survey { Outcome::Survey(None) } else { Outcome::Barrier(None) };
            self.tell(now, Event::Done(barrier.op, outcome), out)?;
        }
        Ok(())
    }

    pub(super) fn configure(&mut self, change: Change) -> bool {
        let steps = match change {
            Change::AddLearner(node) => vec![MemberChange::AddLearner(node)],
            Change::Promote(node) => vec![MemberChange::Promote(node)],
            Change::Remove(node) => vec![MemberChange::Remove(node)],
            Change::Replace { add, remove } => {
                vec![MemberChange::Promote(add), MemberChange::Remove(remove)]
            }
            Change::LeaveJoint => {
                let left = self.raft.leave_joint(Vec::new());
                return left.inspect_err(|error| tracing::debug!(%error, "still joint")).is_ok();
            }
        };
        let change = ConfigurationChange { steps, context: Vec::new() };
        let changed = self.raft.configure(&change);
        changed.inspect_err(|error| tracing::debug!(%error, ?change, "not configured")).is_ok()
    }
}
