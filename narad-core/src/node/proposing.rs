//! Proposals: each is submitted to whoever leads and decided when this node's own replica applies
//! it.

use super::routes::{Internal, Route, Ticket};
use super::{AskError, AskId, Effect, Node, Operation, Outcome, Said};
use crate::ids::{NodeId, ProposalId};
use crate::metastore::{Command, Entry};
use crate::peer::{Answer, Refusal, Request, RequestId};
use crate::proposals::Proposed;
use crate::{controller, freeze, lease, mover};

impl Node {
    /// Proposes a command; its ticket comes back with the outcome.
    pub(super) fn propose(&mut self, command: Command, ticket: Ticket) {
        match self.proposals.submit(self.now, ticket.clone(), command) {
            Ok(entry) => self.submit(entry),
            Err(_) => self.inbox.push_back(Internal::Proposed(ticket, Proposed::Unknown)),
        }
    }

    fn submit(&mut self, entry: Entry) {
        let proposal = entry.proposal;
        match self.leader {
            Some(leader) if leader == self.me.node => {
                self.run(Operation::Append(entry), Route::Submitted(proposal));
            }
            Some(to) => {
                let request = Request::Propose(entry);
                self.run(Operation::Call { to, request }, Route::Submitted(proposal));
            }
            None => self.give_up(proposal),
        }
    }

    /// Takes note of whether a proposal reached the log; its fate shows when it is applied.
    pub(super) fn submitted(&mut self, proposal: ProposalId, outcome: &Outcome) {
        let handed = matches!(outcome, Outcome::Append(true) | Outcome::Call(Ok(Answer::Accepted)));
        if !handed {
            self.give_up(proposal);
        }
    }

    fn give_up(&mut self, proposal: ProposalId) {
        if let Some((ticket, proposed)) = self.proposals.failed(proposal) {
            self.inbox.push_back(Internal::Proposed(ticket, proposed));
        }
    }

    /// Tells whoever proposed what became of it.
    pub(super) fn proposed(&mut self, ticket: &Ticket, proposed: &Proposed) {
        match *ticket {
            Ticket::Mover(partition, op) => {
                let outcome = mover::Outcome::Propose(proposed.clone());
                self.tell_mover(partition, mover::Event::Done(op, outcome));
            }
            Ticket::Handoff(partition, op) => {
                let outcome = freeze::handoff::Outcome::Propose(proposed.clone());
                self.tell_handoff(partition, freeze::handoff::Event::Done(op, outcome));
            }
            Ticket::Controller(op) => {
                let outcome = controller::Outcome::Propose(proposed.clone());
                self.inbox.push_back(Internal::Controller(controller::Event::Done(op, outcome)));
            }
            Ticket::Lease(op) => {
                let outcome = lease::Outcome::Propose(proposed.clone());
                self.inbox.push_back(Internal::Lease(lease::Event::Done(op, outcome)));
            }
            Ticket::Ask(id) => self.ask_is_decided(id, proposed),
            Ticket::Move(id, partition) => self.move_is_decided(id, partition, proposed),
            Ticket::Pin(id, planned) => self.pin_is_decided(id, planned, proposed),
            Ticket::Join(request) => self.join_is_decided(request, proposed),
            Ticket::Report => self.report_is_decided(proposed),
            Ticket::DrainedOut => self.drained_out_is_decided(),
            Ticket::Reclaim(partition, residue) => {
                self.residue_is_reclaimed(partition, residue, proposed);
            }
        }
    }

    /// Appends a peer's entry to the log, if this node leads and the entry is the peer's own
    /// (S18).
    pub(super) fn append_for(&mut self, id: RequestId, from: NodeId, entry: Entry) {
        let its_own = entry.by == from && entry.proposal.node == from;
        if its_own && self.leads() {
            self.run(Operation::Append(entry), Route::Forwarded(id));
        } else {
            let refused = self.not_leader();
            self.answer(id, refused);
        }
    }

    pub(super) fn not_leader(&self) -> Answer {
        let leader = self.leader.filter(|leader| *leader != self.me.node);
        Answer::Refused(Refusal::NotLeader { leader })
    }

    pub(super) fn leads(&self) -> bool {
        self.leader == Some(self.me.node)
    }

    pub(super) fn answer(&mut self, id: RequestId, answer: Answer) {
        self.out.push(Effect::Answer(id, answer));
    }

    pub(super) fn reply(&mut self, id: AskId, reply: Result<Said, AskError>) {
        self.out.push(Effect::Reply(id, reply));
    }
}
