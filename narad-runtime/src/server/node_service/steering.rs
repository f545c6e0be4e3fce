//! What operators tell the cluster to do, or to leave alone.

use std::time::Duration;

use narad_core::config::Policy;
use narad_core::metastore::Status;
use narad_core::node::{Ask, Node};

use super::NodeService;
use crate::service::{Abort, PolicyChange, PolicyView, Read, ServiceError};

impl NodeService {
    pub(super) async fn give_up_move(
        &self,
        topic: &str,
        index: u32,
        how: Abort,
    ) -> Result<(), ServiceError> {
        let partition = self.place(topic, index).await?.partition;
        let look = move |node: &Node| {
            let state = node.state();
            let row = state.assignment(partition)?;
            let is_dead = state.member(row.owner).is_none_or(|one| one.status != Status::Alive);
            Some((row.target.is_some(), is_dead))
        };
        let Some((moves, owner_is_dead)) = self.look(Read::Barrier, look).await? else {
            return Err(ServiceError::UnknownTopic(topic.to_owned()));
        };
        if !moves {
            return Err(ServiceError::Rejected(format!("{topic}/{index} does not move")));
        }
        if owner_is_dead && !how.force {
            return Err(ServiceError::Rejected(format!(
                "the owner of {topic}/{index} is dead, and what the move has copied may be all that \
                 is left of it: insist if you mean it"
            )));
        }
        if how.pin {
            // First: the planner would plan the same move again at once.
            self.ask(Ask::Pin { partition, on: true }).await?;
        }
        self.ask(Ask::Abort(partition)).await.map(|_| ())
    }

    pub(super) async fn take_out(&self, member: &str, receipt: &str) -> Result<(), ServiceError> {
        let node = self.member(member).await?;
        let look = move |seen: &Node| {
            let found = seen.state().member(node)?;
            Some((found.status == Status::Alive, found.draining))
        };
        match self.look(Read::Stale, look).await? {
            None => Err(ServiceError::UnknownMember(member.to_owned())),
            Some((true, _)) => Err(ServiceError::Rejected(format!(
                "{member} is alive: decommission it, so that nothing on it is lost"
            ))),
            Some((false, draining)) => {
                if !draining {
                    self.ask(Ask::Decommission(node)).await?;
                }
                let receipt = receipt.to_owned();
                self.ask(Ask::Retire { node, receipt }).await.map(|_| ())
            }
        }
    }

    pub(super) async fn set_pin(
        &self,
        topic: &str,
        index: u32,
        on: bool,
    ) -> Result<(), ServiceError> {
        let partition = self.place(topic, index).await?.partition;
        self.ask(Ask::Pin { partition, on }).await.map(|_| ())
    }

    pub(super) async fn policy_now(&self, read: Read) -> Result<Policy, ServiceError> {
        self.look(read, |node| node.state().policy().clone()).await
    }

    pub(super) async fn set_policy(
        &self,
        change: &PolicyChange,
    ) -> Result<PolicyView, ServiceError> {
        let changed = change.apply(&self.policy_now(Read::Barrier).await?);
        // The log would only say that something is wrong.
        changed.check().map_err(|error| ServiceError::Invalid(error.to_string()))?;
        self.ask(Ask::SetPolicy(changed)).await?;
        Ok(PolicyView::from(&self.policy_now(Read::Stale).await?))
    }

    pub(super) async fn set_rate(
        &self,
        member: &str,
        rate: Option<u64>,
    ) -> Result<(), ServiceError> {
        const PATIENCE: Duration = Duration::from_secs(2);
        match self.elsewhere(member, PATIENCE).await? {
            None => {
                self.steering.rates.set(rate);
                Ok(())
            }
            Some(client) => client.throttle(member, rate).await.map_err(|error| {
                let refused = error.code().is_some();
                let told = || ServiceError::Rejected(error.to_string());
                if refused { told() } else { ServiceError::OutcomeUnknown }
            }),
        }
    }
}
