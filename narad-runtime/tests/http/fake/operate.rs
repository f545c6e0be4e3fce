//! What operators see of the made-up cluster, and what they have told it.

use async_trait::async_trait;
use narad_core::config::Policy;
use narad_core::ids::ByteCount;
use narad_runtime::service::{
    Abort, ClusterView, DrainView, ExplainView, HistoryView, MemberStatus, NodeView, Operate,
    PlanView, PolicyChange, PolicyView, PreflightView, QuorumView, Read, ServiceError, StopView,
    Verdict,
};

use super::{Node, name};

/// What operators are shown, as a test has put it there, and what they have said.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// Without one, a page of the members and moves.
    pub(crate) status: Option<ClusterView>,
    /// How the next looks at a drain end, the last one again and again.
    pub(crate) drains: Vec<Verdict>,
    pub(crate) preflight: Option<PreflightView>,
    pub(crate) plan: Option<PlanView>,
    pub(crate) explain: Option<ExplainView>,
    pub(crate) history: HistoryView,
    pub(crate) stop: Option<StopView>,
    pub(crate) policy: Policy,
    /// What was said, in order.
    pub(crate) said: Vec<String>,
}

pub(crate) fn preflight(members: &[String]) -> PreflightView {
    PreflightView {
        members: members.iter().map(|member| name(member)).collect(),
        possible: true,
        blockers: Vec::new(),
        warnings: Vec::new(),
        moves: Vec::new(),
        receivers: Vec::new(),
        bytes: 0,
        bytes_unknown: 0,
        estimated_ms: None,
    }
}

pub(crate) fn plan() -> PlanView {
    PlanView {
        planned_by: name("narad-1"),
        paused: false,
        moves_min: 0,
        waiting: 0,
        in_flight: 0,
        stuck: 0,
        conflicts: 0,
        members: Vec::new(),
        moves: Vec::new(),
        stays: Vec::new(),
        bytes: 0,
        bytes_unknown: 0,
        copy_rate_bytes_per_second: 200 << 20,
        estimated_ms: None,
    }
}

impl Node {
    fn say(&self, said: String) {
        self.cluster.change(|state| state.shown.said.push(said));
    }

    fn known(&self, member: &str) -> Result<(), ServiceError> {
        let state = self.cluster.state();
        let known = state.members.iter().any(|known| known.id.as_str() == member);
        if known { Ok(()) } else { Err(ServiceError::UnknownMember(member.to_owned())) }
    }
}

#[async_trait]
impl Operate for Node {
    async fn status(&self, read: Read) -> Result<ClusterView, ServiceError> {
        self.barrier(read)?;
        let state = self.cluster.state();
        Ok(state.shown.status.clone().unwrap_or_else(|| ClusterView {
            member: name(&self.name),
            leader: Some(name("narad-1")).filter(|_| !state.leaderless),
            quorum: QuorumView { voters: vec![name("narad-1")], alive: 1, needed: 1 },
            paused: state.shown.policy.paused,
            partitions: 4,
            unassigned: 0,
            unserved: 0,
            planned: 0,
            members: state.members.clone(),
            moves: state.moves.clone(),
            drains: Vec::new(),
            verdict: Verdict::Done { proof: "nothing moves".to_owned() },
            next: Vec::new(),
        }))
    }

    async fn node(&self) -> Result<NodeView, ServiceError> {
        Ok(NodeView {
            member: name(&self.name),
            leads: false,
            free_bytes: ByteCount(1 << 30),
            backlog_records: 0,
            backlog_bytes: 0,
            left_behind: 0,
            copy_rate_bytes_per_second: 200 << 20,
            throttled: false,
            partitions: Vec::new(),
        })
    }

    async fn drain(&self, member: &str) -> Result<DrainView, ServiceError> {
        self.barrier(Read::Barrier)?;
        self.known(member)?;
        let mut state = self.cluster.state();
        let known = state.members.iter().find(|known| known.id.as_str() == member).cloned();
        let known = known.expect("it is known");
        let verdict = match state.shown.drains.len() {
            _ if !known.draining => Verdict::Done { proof: String::new() },
            0 => Verdict::Done { proof: format!("{member} is out") },
            1 => state.shown.drains[0].clone(),
            _ => state.shown.drains.remove(0),
        };
        Ok(DrainView {
            member: known.id,
            status: if known.drained_out { MemberStatus::Retired } else { known.status },
            draining: known.draining,
            owned_partitions: known.owned_partitions,
            outbound_moves: 0,
            inbound_moves: 0,
            backlog_records: None,
            verdict: known.draining.then_some(verdict),
        })
    }

    async fn preflight(&self, members: &[String]) -> Result<PreflightView, ServiceError> {
        for member in members {
            self.known(member)?;
        }
        let shown = self.cluster.state().shown.preflight.clone();
        Ok(shown.unwrap_or_else(|| preflight(members)))
    }

    async fn decommission_all(&self, members: &[String]) -> Result<PreflightView, ServiceError> {
        self.barrier(Read::Barrier)?;
        let view = self.preflight(members).await?;
        let mut state = self.cluster.state();
        if let Some(error) = state.decommission.take() {
            return Err(error);
        }
        for known in &mut state.members {
            known.draining |= members.iter().any(|member| known.id.as_str() == member);
        }
        Ok(view)
    }

    async fn forget(&self, member: &str, receipt: &str) -> Result<(), ServiceError> {
        self.known(member)?;
        let state = self.cluster.state();
        let found = state.members.iter().find(|known| known.id.as_str() == member);
        if found.is_some_and(|known| known.status == MemberStatus::Alive) {
            return Err(ServiceError::Rejected(format!("{member} is alive")));
        }
        drop(state);
        self.say(format!("forget {member}: {receipt}"));
        Ok(())
    }

    async fn abort(&self, topic: &str, partition: u32, how: Abort) -> Result<(), ServiceError> {
        let moves = self.cluster.state().moves.clone();
        let moved = moves.iter().find(|one| one.place() == format!("{topic}/{partition}"));
        match moved {
            None => Err(ServiceError::Rejected("it does not move".to_owned())),
            Some(one) if one.source_dead && !how.force => {
                Err(ServiceError::Rejected("its owner is dead".to_owned()))
            }
            Some(one) => {
                self.say(format!("abort {} {how:?}", one.place()));
                Ok(())
            }
        }
    }

    async fn pin(&self, topic: &str, partition: u32, on: bool) -> Result<(), ServiceError> {
        if !self.cluster.state().topics.contains_key(topic) {
            return Err(ServiceError::UnknownTopic(topic.to_owned()));
        }
        self.say(format!("pin {topic}/{partition} {on}"));
        Ok(())
    }

    async fn policy(&self, read: Read) -> Result<PolicyView, ServiceError> {
        self.barrier(read)?;
        Ok(PolicyView::from(&self.cluster.state().shown.policy))
    }

    async fn change_policy(&self, change: PolicyChange) -> Result<PolicyView, ServiceError> {
        let mut state = self.cluster.state();
        let changed = change.apply(&state.shown.policy);
        changed.check().map_err(|error| ServiceError::Invalid(error.to_string()))?;
        state.shown.policy = changed;
        Ok(PolicyView::from(&state.shown.policy))
    }

    async fn throttle(&self, member: &str, rate: Option<u64>) -> Result<(), ServiceError> {
        self.known(member)?;
        self.say(format!("throttle {member} {rate:?}"));
        Ok(())
    }

    async fn plan(&self, read: Read) -> Result<PlanView, ServiceError> {
        self.barrier(read)?;
        Ok(self.cluster.state().shown.plan.clone().unwrap_or_else(plan))
    }

    async fn explain(&self, topic: &str, _: u32) -> Result<ExplainView, ServiceError> {
        let shown = self.cluster.state().shown.explain.clone();
        shown.ok_or_else(|| ServiceError::UnknownTopic(topic.to_owned()))
    }

    async fn history(&self, read: Read) -> Result<HistoryView, ServiceError> {
        self.barrier(read)?;
        Ok(self.cluster.state().shown.history.clone())
    }

    async fn safe_to_stop(&self, member: &str, for_good: bool) -> Result<StopView, ServiceError> {
        self.barrier(Read::Barrier)?;
        self.known(member)?;
        let shown = self.cluster.state().shown.stop.clone();
        Ok(shown.unwrap_or_else(|| StopView {
            member: name(member),
            for_good,
            safe: true,
            reasons: Vec::new(),
            notes: Vec::new(),
        }))
    }
}
