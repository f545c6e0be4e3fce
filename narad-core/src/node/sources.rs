//! How the sources of moves to this node are.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::Node;
use crate::ids::{Generation, NodeId, PartitionId};
use crate::metastore::Status;
use crate::mover::{self, SourceHealth};
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

/// When this node learned of each death, on its own clock: what force-promote is counted from
/// (R63, H19).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Deaths {
    since: BTreeMap<NodeId, (Generation, Instant)>,
}

impl Node {
    /// Tells a mover how the source is.
    pub(super) fn tell_of_source(&mut self, partition: PartitionId) {
        let Some(owner) = self.state.assignment(partition).map(|row| row.owner) else { return };
        let Some(member) = self.state.member(owner) else { return };
        let health = match member.status {
            Status::Alive => SourceHealth::Alive { incarnation: member.incarnation },
            Status::Dead(generation) => {
                let (_, since) =
                    self.deaths.since.get(&owner).copied().unwrap_or((generation, self.now));
                let promote_after = self
                    .state
                    .promote_after(owner)
                    .unwrap_or(self.state.policy().force_promote_after);
                let at_once = is_planted(Bug::PromotedAtOnce);
                let promote_after = if at_once { Duration::ZERO } else { promote_after };
                SourceHealth::Dead { generation, since, promote_after }
            }
        };
        self.tell_mover(partition, mover::Event::Source(owner, health));
    }

    /// Takes note that a member has changed: the moves from it, and the copies of it, are looked
    /// at again.
    pub(super) fn member_changed(&mut self, node: NodeId) {
        let status = self.state.member(node).map(|member| member.status);
        match status {
            Some(Status::Dead(generation)) => {
                let known = self.deaths.since.get(&node).map(|(generation, _)| *generation);
                let counted = known.is_some() && is_planted(Bug::DeathCountedFromTheFirst);
                if known != Some(generation) && !counted {
                    self.deaths.since.insert(node, (generation, self.now));
                }
            }
            Some(Status::Alive) if is_planted(Bug::DeathCountedFromTheFirst) => {}
            Some(Status::Alive) | None => {
                self.deaths.since.remove(&node);
            }
        }
        let from_it = |partition: &&PartitionId| {
            self.state.assignment(**partition).is_some_and(|row| row.owner == node)
        };
        let moving: Vec<PartitionId> = self.movers.keys().filter(from_it).copied().collect();
        let kept: Vec<PartitionId> = self.sweeps.held.iter().filter(from_it).copied().collect();
        for partition in moving {
            self.tell_of_source(partition);
        }
        for partition in kept {
            self.touch(partition);
        }
    }

    /// How long a dead source is waited for may have changed (R63).
    pub(super) fn policy_changed(&mut self) {
        let moving: Vec<PartitionId> = self.movers.keys().copied().collect();
        for partition in moving {
            self.tell_of_source(partition);
        }
    }
}
