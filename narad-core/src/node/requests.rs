//! Questions of peers.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::routes::{Internal, Route, Ticket};
use super::{Node, Operation, Outcome};
use crate::effects::OpId;
use crate::freeze::handoff::{self, HandoffRequest};
use crate::ids::{Incarnation, MoveId, NodeId, PartitionId};
use crate::metastore::{Applied, Command, Reply, Status};
use crate::peer::{Answer, Refusal, Request, RequestId};
use crate::planted::{Bug, is_planted};
use crate::proposals::Proposed;
use crate::{controller, lease};

impl Node {
    pub(super) fn requested(&mut self, id: RequestId, from: Option<NodeId>, request: Request) {
        match (request, from) {
            (Request::Join { name, store_uuid, addrs }, _) => {
                let command = Command::Join { name, store_uuid, addrs };
                self.propose(command, Ticket::Join(id));
            }
            (Request::Heartbeat { incarnation, stuck }, Some(from)) => {
                self.heard(id, from, incarnation, stuck);
            }
            (Request::Propose(entry), Some(from)) => self.append_for(id, from, entry),
            (Request::List { partition, move_id, check }, Some(from)) => {
                self.asked_as_source(id, from, partition, HandoffRequest::List { move_id, check });
            }
            (Request::Prepare { partition, attempt, .. }, Some(from)) => {
                self.asked_as_source(id, from, partition, HandoffRequest::Prepare { attempt });
            }
            (Request::Renew { partition, token, staged_bytes }, Some(from)) => {
                let request = HandoffRequest::Renew { token, staged_bytes };
                self.asked_as_source(id, from, partition, request);
            }
            (Request::Release { partition, token }, Some(from)) => {
                self.asked_as_source(id, from, partition, HandoffRequest::Release { token });
            }
            (Request::TakeAcks { partition, acks }, Some(_)) => {
                self.offered_acks(id, partition, acks);
            }
            // A node without an id may only ask for one.
            (
                Request::Heartbeat { .. }
                | Request::Propose(_)
                | Request::List { .. }
                | Request::Prepare { .. }
                | Request::Renew { .. }
                | Request::Release { .. }
                | Request::TakeAcks { .. },
                None,
            ) => self.answer(id, Answer::Refused(Refusal::NotServing)),
        }
    }

    pub(super) fn join_is_decided(&mut self, id: RequestId, proposed: &Proposed) {
        let answer = match proposed {
            Proposed::Replied(Reply::Applied(Applied::Joined(node))) => {
                let members = self.state.members();
                let peers = members.map(|member| (member.id, member.addrs.clone())).collect();
                Answer::Joined { node: *node, peers, policy: self.state.policy().clone() }
            }
            Proposed::Replied(Reply::Rejected(reason)) => {
                Answer::Refused(Refusal::NotAdmitted(*reason))
            }
            Proposed::Replied(Reply::Applied(_)) | Proposed::Unknown => {
                Answer::Refused(Refusal::Unknown)
            }
        };
        self.answer(id, answer);
    }

    /// Hears of a member; answers it behind a barrier that begins now, so that a deposed leader
    /// renews nobody's lease (H31).
    fn heard(
        &mut self,
        id: RequestId,
        from: NodeId,
        life: Incarnation,
        stuck: Vec<(PartitionId, MoveId)>,
    ) {
        if !self.leads() {
            let refused = self.not_leader();
            self.answer(id, refused);
            return;
        }
        if let Err(refusal) = self.may_be_leased(from, life) {
            self.answer(id, Answer::Refused(refusal));
            return;
        }
        self.controller_hears(from, life, stuck);
        if is_planted(Bug::LeaderTakenAtItsWord) {
            self.answer(id, Answer::Heartbeat { index: self.state.applied() });
            return;
        }
        self.run(Operation::Barrier, Route::Heartbeat(id, from, life));
    }

    fn controller_hears(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        stuck: Vec<(PartitionId, MoveId)>,
    ) {
        let stuck = stuck.into_iter().take(Request::STUCK_MAX).collect();
        let heard = controller::Event::Heard { node, incarnation, stuck };
        self.inbox.push_back(Internal::Controller(heard));
    }

    pub(super) fn heartbeat_is_confirmed(
        &mut self,
        id: RequestId,
        from: NodeId,
        life: Incarnation,
        outcome: &Outcome,
    ) {
        let answer = match (outcome, self.may_be_leased(from, life)) {
            (Outcome::Barrier(Some(_)), Err(refusal)) => Answer::Refused(refusal),
            (Outcome::Barrier(Some(index)), Ok(())) if self.leads() => {
                Answer::Heartbeat { index: *index }
            }
            _ => self.not_leader(),
        };
        self.answer(id, answer);
    }

    /// No lease while Dead (H32), nor for a life that is over, nor while the log has yet to decide
    /// about a death: the wait before a promotion counts the silence that led to it. A life that
    /// this node has not heard of yet is asked to come again.
    fn may_be_leased(&self, node: NodeId, life: Incarnation) -> Result<(), Refusal> {
        let member = self.state.member(node).filter(|member| !member.retired);
        let Some(member) = member else { return Err(Refusal::AskerDead) };
        match (member.incarnation.cmp(&life), member.status) {
            (Ordering::Less, _) => Err(Refusal::NotYet),
            (Ordering::Equal, Status::Alive)
                if self.controller.condemns(node, life) && !is_planted(Bug::CondemnedLeased) =>
            {
                Err(Refusal::NotYet)
            }
            (Ordering::Equal, Status::Alive) => Ok(()),
            (Ordering::Equal, Status::Dead(_)) if is_planted(Bug::DeadGoesOn) => Ok(()),
            (Ordering::Equal, Status::Dead(_)) | (Ordering::Greater, _) => Err(Refusal::AskerDead),
        }
    }

    /// Sends a heartbeat; a node that leads asks itself the same way. One that has been told that it
    /// leads, by a node that is behind, does not: nobody who could judge a death would hear it (H31).
    pub(super) fn beat(&mut self, op: OpId, to: NodeId, life: Incarnation) {
        let stuck = self.stuck_moves();
        if to == self.me.node {
            if let Err(refusal) = self.may_lease_itself() {
                let refused = Err(lease::HeartbeatFault::Refused(refusal));
                let event = lease::Event::Done(op, lease::Outcome::Heartbeat(refused));
                self.inbox.push_back(Internal::Lease(event));
                return;
            }
            self.controller_hears(to, life, stuck);
            self.run(Operation::Barrier, Route::Lease(op));
            return;
        }
        let request = Request::Heartbeat { incarnation: life, stuck };
        self.run(Operation::Call { to, request }, Route::Lease(op));
    }

    /// What would be asked of any other node, too.
    pub(super) fn may_lease_itself(&self) -> Result<(), Refusal> {
        if !self.leads() && !is_planted(Bug::LeasedByItself) {
            let leader = self.leader.filter(|leader| *leader != self.me.node);
            return Err(Refusal::NotLeader { leader });
        }
        self.may_be_leased(self.me.node, self.lease.incarnation())
    }

    /// Returns the moves to this node that cannot go on (L1).
    fn stuck_moves(&self) -> Vec<(PartitionId, MoveId)> {
        let stuck = self.movers.iter().filter_map(|(partition, mover)| {
            let progress = mover.progress();
            let move_id = progress.move_id.filter(|_| !progress.holds_slot)?;
            Some((*partition, move_id))
        });
        stuck.take(Request::STUCK_MAX).collect()
    }

    /// Passes a destination's question to the hand-off of the partition. While the log is being
    /// opened again there is nothing to list or to freeze.
    fn asked_as_source(
        &mut self,
        id: RequestId,
        from: NodeId,
        partition: PartitionId,
        request: HandoffRequest,
    ) {
        let open = self.hosts.get(&partition).is_some_and(|host| host.open().is_some());
        if !self.handoffs.contains_key(&partition) || !open {
            let refusal = self.no_handoff(partition);
            self.answer(id, Answer::Refused(refusal));
        } else if matches!(request, HandoffRequest::Prepare { .. })
            && self.gave_its_place_away(from, partition)
        {
            self.answer(id, Answer::Refused(Refusal::AskerDead));
        } else if matches!(request, HandoffRequest::Prepare { .. })
            && self.too_many_frozen(partition)
        {
            let retry_after_ms =
                u64::try_from(self.config.retry_min.as_millis()).unwrap_or(u64::MAX);
            self.answer(id, Answer::Refused(Refusal::FrozenTooOften { retry_after_ms }));
        } else {
            self.tell_handoff(partition, handoff::Event::Request(id, from, request));
        }
    }

    /// Returns why there is nothing to hand off.
    pub(super) fn no_handoff(&self, partition: PartitionId) -> Refusal {
        let owner = self.state.assignment(partition).map(|row| row.owner);
        if owner == Some(self.me.node) { Refusal::NotServing } else { Refusal::NotOwner }
    }

    /// Whether a freeze is asked for by a node that this one holds for dead: a move with a dead end
    /// counts nowhere, so that another of its topic may have begun, at another source (S14, H23).
    /// It may ask again once its next life is registered. A freeze that there is goes on: only the
    /// same answer tells its destination of it (H41).
    fn gave_its_place_away(&self, asker: NodeId, partition: PartitionId) -> bool {
        let member = self.state.member(asker);
        let is_alive = member.is_some_and(|member| member.status == Status::Alive);
        !is_alive && !self.is_frozen(partition)
    }

    /// Whether a freeze would be one too many of its topic here: half of the partitions stay
    /// writable, whoever asked for the moves (S14, H23).
    fn too_many_frozen(&self, partition: PartitionId) -> bool {
        if self.is_frozen(partition) || is_planted(Bug::WholeTopicFreezes) {
            return false;
        }
        let topic = partition.topic;
        let partitions = self.state.topic(topic).map_or(1, |topic| topic.partitions);
        let first = PartitionId { topic, index: 0 };
        let last = PartitionId { topic, index: u32::MAX };
        let frozen = self.handoffs.range(first..=last).filter(|(_, held)| held.is_frozen());
        let frozen_max = usize::try_from((partitions / 2).max(1)).unwrap_or(usize::MAX);
        frozen.count() >= frozen_max
    }
}
