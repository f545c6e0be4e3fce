//! What operators ask, each answered in a module of its own.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use narad_core::ids::Name;
use narad_core::metastore::Status;
use narad_core::node::{Ask, Node};

use super::NodeService;
use super::advice::cause_of;
use super::names::Names;
use super::planning::reasons;
use super::salvage::{PATIENCE, client};
use crate::server::history::Past;
use crate::service::{
    Abort, ClusterView, DrainView, ExplainView, HistoryView, NodeView, Operate, PastMove, PlanView,
    PolicyChange, PolicyView, PreflightView, Read, ServiceError, StopView,
};

#[async_trait]
impl Operate for NodeService {
    async fn status(&self, read: Read) -> Result<ClusterView, ServiceError> {
        self.cluster_view(read).await
    }

    async fn node(&self) -> Result<NodeView, ServiceError> {
        self.own_view().await
    }

    async fn drain(&self, member: &str) -> Result<DrainView, ServiceError> {
        self.drain_view(member).await
    }

    async fn preflight(&self, members: &[String]) -> Result<PreflightView, ServiceError> {
        self.preflight_view(members).await.map(|(view, _)| view)
    }

    async fn decommission_all(&self, members: &[String]) -> Result<PreflightView, ServiceError> {
        let (view, leaving) = self.preflight_view(members).await?;
        if !view.possible {
            return Err(ServiceError::Blocked(reasons(&view.blockers)));
        }
        for node in leaving {
            self.ask(Ask::Decommission(node)).await?;
        }
        Ok(view)
    }

    async fn forget(&self, member: &str, receipt: &str) -> Result<(), ServiceError> {
        self.take_out(member, receipt).await
    }

    async fn abort(&self, topic: &str, partition: u32, how: Abort) -> Result<(), ServiceError> {
        self.give_up_move(topic, partition, how).await
    }

    async fn pin(&self, topic: &str, partition: u32, on: bool) -> Result<(), ServiceError> {
        self.set_pin(topic, partition, on).await
    }

    async fn policy(&self, read: Read) -> Result<PolicyView, ServiceError> {
        Ok(PolicyView::from(&self.policy_now(read).await?))
    }

    async fn change_policy(&self, change: PolicyChange) -> Result<PolicyView, ServiceError> {
        self.set_policy(&change).await
    }

    async fn throttle(&self, member: &str, rate: Option<u64>) -> Result<(), ServiceError> {
        self.set_rate(member, rate).await
    }

    async fn plan(&self, read: Read) -> Result<PlanView, ServiceError> {
        self.plan_view(read).await
    }

    async fn explain(&self, topic: &str, partition: u32) -> Result<ExplainView, ServiceError> {
        self.explain_view(topic, partition).await
    }

    async fn journal(
        &self,
        topic: &str,
        partition: u32,
        read: Read,
    ) -> Result<String, ServiceError> {
        self.journal_text(topic, partition, read).await
    }

    async fn history(&self, read: Read) -> Result<HistoryView, ServiceError> {
        self.history_view(read).await
    }

    async fn safe_to_stop(&self, member: &str, for_good: bool) -> Result<StopView, ServiceError> {
        self.stop_view(member, for_good).await
    }
}

impl NodeService {
    async fn history_view(&self, read: Read) -> Result<HistoryView, ServiceError> {
        let look = |node: &Node| {
            let (state, me) = (node.state(), node.identity().node);
            let others = state.members().filter(|one| one.id != me && !one.retired);
            let others = others.map(|one| {
                let addr = Some(one.addrs.http.clone()).filter(|_| one.status == Status::Alive);
                (one.name.clone(), addr)
            });
            (Names::of(state), others.collect::<Vec<_>>())
        };
        let (names, others) = self.look(read, look).await?;
        let past = self.steering.history.past();
        let moves = past.into_iter().map(|past| past_view(&names, past));
        let mut view = HistoryView { moves: moves.collect(), silent: Vec::new() };
        // A stale view is this node's own: so what another is asked ends there.
        if read == Read::Stale {
            view.silent = others.into_iter().map(|(name, _)| name).collect();
            return Ok(view);
        }
        let asked = others.into_iter().map(async |(name, addr): (Name, Option<String>)| {
            let told = match addr.and_then(|addr| client(&addr, PATIENCE, self.tls())) {
                Some(client) => client.history(Read::Stale).await.ok(),
                None => None,
            };
            (name, told)
        });
        for (name, told) in join_all(asked).await {
            match told {
                Some(told) => view.moves.extend(told.moves),
                None => view.silent.push(name),
            }
        }
        view.moves.sort_by_key(|past| std::cmp::Reverse(past.ended_ms));
        Ok(view)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn past_view(names: &Names, past: Past) -> PastMove {
    PastMove {
        topic: names.known_topic(past.partition.topic),
        partition: past.partition.index,
        from: names.member(past.from),
        to: names.member(past.to),
        move_id: past.move_id,
        outcome: past.outcome,
        began_ms: past.began_ms,
        ended_ms: past.ended_ms,
        phases: past.phases,
        bytes: past.bytes,
        passes: past.passes,
        frozen_us: past.freeze.map_or(0, |freeze| micros(freeze.lasted)),
        predicted_us: past.freeze.map(|freeze| micros(freeze.predicted)),
        waits: past.waits,
        waited_for: past.waited_for.map(cause_of),
    }
}
