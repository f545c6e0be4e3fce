//! Questions of peers.

use super::routes::{Internal, Route, Ticket};
use super::{Node, Operation, Outcome};
use crate::controller;
use crate::effects::OpId;
use crate::freeze::handoff::{self, HandoffRequest};
use crate::ids::{Incarnation, NodeId, PartitionId};
use crate::metastore::{Applied, Command, Reply, Status};
use crate::peer::{Answer, Refusal, Request, RequestId};
use crate::proposals::Proposed;

impl Node {
    pub(super) fn requested(&mut self, id: RequestId, from: Option<NodeId>, request: Request) {
        match (request, from) {
            (Request::Join { name, store_uuid, addrs }, _) => {
                let command = Command::Join { name, store_uuid, addrs };
                self.propose(command, Ticket::Join(id));
            }
            (Request::Heartbeat { incarnation }, Some(from)) => {
                self.heard(id, from, incarnation);
            }
            (Request::Propose(entry), Some(from)) => self.append_for(id, from, entry),
            (Request::List { partition, move_id, check }, Some(from)) => {
                self.asked_as_source(id, from, partition, HandoffRequest::List { move_id, check });
            }
            (Request::Prepare { partition, attempt }, Some(from)) => {
                self.asked_as_source(id, from, partition, HandoffRequest::Prepare { attempt });
            }
            (Request::Renew { partition, token, staged_bytes }, Some(from)) => {
                let request = HandoffRequest::Renew { token, staged_bytes };
                self.asked_as_source(id, from, partition, request);
            }
            (Request::Release { partition, token }, Some(from)) => {
                self.asked_as_source(id, from, partition, HandoffRequest::Release { token });
            }
            // A node without an id may only ask for one.
            (
                Request::Heartbeat { .. }
                | Request::Propose(_)
                | Request::List { .. }
                | Request::Prepare { .. }
                | Request::Renew { .. }
                | Request::Release { .. },
                None,
            ) => self.answer(id, Answer::Refused(Refusal::NotServing)),
        }
    }

    pub(super) fn join_is_decided(&mut self, id: RequestId, proposed: Proposed) {
        let answer = match proposed {
            Proposed::Replied(Reply::Applied(Applied::Joined(node))) => {
                let members = self.state.members();
                let peers = members.map(|member| (member.id, member.addrs.clone())).collect();
                Answer::Joined { node, peers, policy: self.state.policy().clone() }
            }
            Proposed::Replied(Reply::Rejected(reason)) => {
                Answer::Refused(Refusal::NotAdmitted(reason))
            }
            Proposed::Replied(Reply::Applied(_)) | Proposed::Unknown => {
                Answer::Refused(Refusal::Unknown)
            }
        };
        self.answer(id, answer);
    }

    /// Hears of a member; answers it behind a barrier that begins now, so that a deposed leader
    /// renews nobody's lease (H31).
    fn heard(&mut self, id: RequestId, from: NodeId, life: Incarnation) {
        if !self.leads() {
            let refused = self.not_leader();
            self.answer(id, refused);
            return;
        }
        if !self.is_alive_in(from, life) {
            self.answer(id, Answer::Refused(Refusal::AskerDead));
            return;
        }
        let heard = controller::Event::Heard { node: from, incarnation: life };
        self.inbox.push_back(Internal::Controller(heard));
        self.run(Operation::Barrier, Route::Heartbeat(id, from, life));
    }

    pub(super) fn heartbeat_is_confirmed(
        &mut self,
        id: RequestId,
        from: NodeId,
        life: Incarnation,
        outcome: &Outcome,
    ) {
        let answer = match outcome {
            Outcome::Barrier(Some(_)) if !self.is_alive_in(from, life) => {
                Answer::Refused(Refusal::AskerDead)
            }
            Outcome::Barrier(Some(index)) if self.leads() => Answer::Heartbeat { index: *index },
            _ => self.not_leader(),
        };
        self.answer(id, answer);
    }

    /// No lease while Dead (H32), nor for a life that is over.
    fn is_alive_in(&self, node: NodeId, life: Incarnation) -> bool {
        self.state.member(node).is_some_and(|member| {
            member.status == Status::Alive && member.incarnation == life && !member.retired
        })
    }

    /// Sends a heartbeat; a node that leads asks itself the same way.
    pub(super) fn beat(&mut self, op: OpId, to: NodeId, life: Incarnation) {
        if to != self.me.node {
            let request = Request::Heartbeat { incarnation: life };
            self.run(Operation::Call { to, request }, Route::Lease(op));
            return;
        }
        self.run(Operation::Barrier, Route::Lease(op));
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
        if self.handoffs.contains_key(&partition) && open {
            self.tell_handoff(partition, handoff::Event::Request(id, from, request));
            return;
        }
        let owner = self.state.assignment(partition).map(|row| row.owner);
        let refusal =
            if owner == Some(self.me.node) { Refusal::NotServing } else { Refusal::NotOwner };
        self.answer(id, Answer::Refused(refusal));
    }
}
