//! Whose an answer is, and what the machines have to say to one another.

use super::salvage::Residue;
use super::{Ask, AskId, GatingOutcome, Node, Operation, Outcome, ShippingOutcome, StagingOutcome};
use crate::effects::{Effects, OpId};
use crate::freeze::handoff;
use crate::ids::{Incarnation, LogIndex, NodeId, PartitionId, ProposalId};
use crate::metastore::Applied;
use crate::peer::{Answer, RequestId};
use crate::proposals::Proposed;
use crate::{controller, dispatch, host, lease, mover};

/// Whose operation it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Route {
    Host(PartitionId, OpId),
    Handoff(PartitionId, OpId),
    /// What the mover asked for: the answers of several of its operations look alike.
    Mover(PartitionId, OpId, Awaited),
    Controller(OpId),
    Lease(OpId),
    /// A proposal on its way to the log.
    Submitted(ProposalId),
    /// A peer's proposal on its way to the log.
    Forwarded(RequestId),
    /// The barrier behind which a heartbeat is answered.
    Heartbeat(RequestId, NodeId, Incarnation),
    /// The barrier behind which a wish is judged.
    Ask(AskId, Ask),
    /// A look at the disk before a move begins.
    Inspect(PartitionId),
    /// A step of a sweep.
    Sweep(PartitionId),
    /// The watermarks of what moves away.
    Report,
    /// Closing accept, or opening it again.
    CloseAccept,
    OpenAccept,
    /// What the dispatch asked for.
    Dispatch(OpId),
    /// Consumers of an opened log go on.
    Resume,
    /// What consumers have acknowledged at a past owner, this node: collected, then sent.
    HandOver(PartitionId),
    ForwardAcks(PartitionId),
    /// What they have acknowledged at another one.
    TakeAcks(RequestId),
    /// Records that a flip has not captured are accepted once more.
    Salvage(PartitionId, Residue),
}

/// What a mover waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Awaited {
    Row,
    Leader,
    Listing,
    Capture,
    Renewal,
    Release,
    Disk,
}

/// Who proposed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ticket {
    Mover(PartitionId, OpId),
    Handoff(PartitionId, OpId),
    Controller(OpId),
    Lease(OpId),
    Ask(AskId),
    /// An operator's move: the partition is to be pinned next.
    Move(AskId, PartitionId),
    /// The pin of an operator's move, which has been planned.
    Pin(AskId, Applied),
    /// A node that wants to join, through this one.
    Join(RequestId),
    Report,
    DrainedOut,
    /// What a past reign has left on this disk is accepted.
    Reclaim(PartitionId, Residue),
}

/// What one part of the node has to say to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Internal {
    Host(PartitionId, host::Event),
    Handoff(PartitionId, handoff::Event),
    Mover(PartitionId, mover::Event),
    Lease(lease::Event),
    Controller(controller::Event),
    Dispatch(dispatch::Event),
    Proposed(Ticket, Proposed),
    /// The row of a partition, or what this node may do about it, has changed.
    Reconcile(PartitionId),
}

impl Node {
    /// Starts an operation and remembers whose it is.
    pub(super) fn run(&mut self, operation: Operation, route: Route) {
        let op = self.ops.mint();
        self.routes.insert(op, route);
        self.out.push(super::Effect::Run(op, operation));
    }

    /// Ends an operation early, if it is under way.
    pub(super) fn cancel(&mut self, is_it: impl Fn(&Route) -> bool) {
        let found = self.routes.iter().find(|(_, route)| is_it(route)).map(|(op, _)| *op);
        if let Some(op) = found {
            self.out.push(super::Effect::Cancel(op));
        }
    }

    /// Hands an answer to whoever asked.
    pub(super) fn done(&mut self, op: OpId, outcome: Outcome) {
        let Some(route) = self.routes.remove(&op) else {
            self.note(super::Note::Stale(op));
            return;
        };
        match route {
            Route::Host(partition, op) => {
                let Outcome::Host(outcome) = outcome else { mismatch(op, &outcome) };
                self.tell_host(partition, host::Event::Done(op, outcome));
            }
            Route::Handoff(partition, op) => self.handoff_done(partition, op, outcome),
            Route::Mover(partition, op, awaited) => {
                self.mover_done(partition, op, awaited, outcome);
            }
            Route::Controller(op) => self.controller_done(op, outcome),
            Route::Lease(op) => self.lease_done(op, outcome),
            Route::Submitted(proposal) => self.submitted(proposal, &outcome),
            Route::Forwarded(request) => {
                let handed = outcome == Outcome::Append(true);
                let answer = if handed { Answer::Accepted } else { self.not_leader() };
                self.answer(request, answer);
            }
            Route::Heartbeat(request, from, life) => {
                self.heartbeat_is_confirmed(request, from, life, &outcome);
            }
            Route::Ask(id, ask) => match barrier(op, &outcome) {
                Some(_) => self.ask_is_fresh(id, ask),
                None => self.reply(id, Err(super::AskError::NoLeader)),
            },
            Route::Inspect(partition) => self.inspected(partition, outcome),
            Route::Sweep(partition) => self.sweep_goes_on(partition, &outcome),
            Route::Report => {
                let Outcome::Watermarks(found) = outcome else { mismatch(op, &outcome) };
                self.watermarks_are_known(found);
            }
            Route::CloseAccept => {
                let Outcome::CloseAccept(empty) = outcome else { mismatch(op, &outcome) };
                self.accept_is_closed(empty);
            }
            Route::OpenAccept => self.accept_is_open(),
            Route::Dispatch(op) => self.dispatch_done(op, outcome),
            Route::Resume => {}
            Route::HandOver(partition) => {
                let Outcome::Gate(GatingOutcome::HandOver(acks)) = outcome else {
                    mismatch(op, &outcome)
                };
                self.acks_are_collected(partition, acks);
            }
            Route::ForwardAcks(partition) => {
                self.acks_are_answered(partition, noted(outcome).is_ok());
            }
            Route::TakeAcks(request) => {
                let Outcome::Gate(GatingOutcome::Take(taken)) = outcome else {
                    mismatch(op, &outcome)
                };
                self.acks_are_taken(request, taken);
            }
            Route::Salvage(partition, residue) => {
                let Outcome::Ship(ShippingOutcome::Salvage(salvaged)) = outcome else {
                    mismatch(op, &outcome)
                };
                self.residue_is_accepted(partition, residue, salvaged);
            }
        }
    }

    /// Hands one event to the machine that it is for.
    pub(super) fn pass_on(&mut self, internal: Internal) {
        match internal {
            Internal::Host(partition, event) => self.drive_host(partition, event),
            Internal::Handoff(partition, event) => self.drive_handoff(partition, event),
            Internal::Mover(partition, event) => self.drive_mover(partition, event),
            Internal::Lease(event) => self.drive_lease(event),
            Internal::Controller(event) => self.drive_controller(event),
            Internal::Dispatch(event) => self.drive_dispatch(event),
            Internal::Proposed(ticket, proposed) => self.proposed(&ticket, &proposed),
            Internal::Reconcile(partition) => self.reconcile(partition),
        }
    }

    fn controller_done(&mut self, op: OpId, outcome: Outcome) {
        let outcome = if let Outcome::Survey(found) = outcome {
            controller::Outcome::Survey(
                found
                    .map(|(barrier, matched)| controller::Survey::behind_barrier(barrier, matched)),
            )
        } else if let Outcome::Configure(handed) = outcome {
            controller::Outcome::Configure(handed)
        } else if outcome == Outcome::Transfer {
            controller::Outcome::Transfer
        } else {
            mismatch(op, &outcome)
        };
        self.inbox.push_back(Internal::Controller(controller::Event::Done(op, outcome)));
    }

    fn lease_done(&mut self, op: OpId, outcome: Outcome) {
        let unreachable = lease::HeartbeatFault::Unreachable;
        let outcome = if let Outcome::NextIncarnation(next) = outcome {
            lease::Outcome::NextIncarnation(next.ok_or(lease::DiskFault))
        } else if let Outcome::Barrier(confirmed) = outcome {
            let granted = self.may_lease_itself().map_err(lease::HeartbeatFault::Refused);
            let confirmed = confirmed.ok_or(unreachable);
            lease::Outcome::Heartbeat(confirmed.and_then(|index| granted.map(|()| index)))
        } else if let Outcome::Call(answer) = outcome {
            lease::Outcome::Heartbeat(match answer {
                Ok(Answer::Heartbeat { index }) => Ok(index),
                Ok(Answer::Refused(refusal)) => Err(lease::HeartbeatFault::Refused(refusal)),
                Ok(_) | Err(_) => Err(unreachable),
            })
        } else {
            mismatch(op, &outcome)
        };
        self.inbox.push_back(Internal::Lease(lease::Event::Done(op, outcome)));
    }

    fn drive_controller(&mut self, event: controller::Event) {
        let mut out = Effects::default();
        self.controller.handle(self.now, &self.state, event, &mut out);
        for effect in out.drain() {
            match effect {
                controller::Effect::Run(op, operation) => match operation {
                    controller::Operation::Survey => {
                        self.run(Operation::Survey, Route::Controller(op));
                    }
                    controller::Operation::Propose(command) => {
                        self.propose(command, Ticket::Controller(op));
                    }
                    controller::Operation::Configure(change) => {
                        self.run(Operation::Configure(change), Route::Controller(op));
                    }
                    controller::Operation::Transfer { to } => {
                        self.run(Operation::Transfer { to }, Route::Controller(op));
                    }
                },
                controller::Effect::Note(note) => self.note(super::Note::Controller(note)),
            }
        }
    }

    fn drive_lease(&mut self, event: lease::Event) {
        let mut out = Effects::default();
        self.lease.handle(self.now, event, &mut out);
        self.lease_wants(&mut out);
    }

    /// Carries out what the lease asks for.
    pub(super) fn lease_wants(&mut self, out: &mut Effects<lease::Effect>) {
        for effect in out.drain() {
            match effect {
                lease::Effect::Run(op, lease::Operation::Heartbeat { to, incarnation }) => {
                    self.beat(op, to, incarnation);
                }
                lease::Effect::Run(op, lease::Operation::Propose(command)) => {
                    self.propose(command, Ticket::Lease(op));
                }
                lease::Effect::Run(op, lease::Operation::NextIncarnation { .. }) => {
                    self.run(Operation::NextIncarnation, Route::Lease(op));
                }
                lease::Effect::Cancel(op) => self.cancel(|route| *route == Route::Lease(op)),
                lease::Effect::Note(note) => {
                    self.note(super::Note::Lease(note));
                    match note {
                        lease::Note::Registered(life) => self.life_is_registered(life),
                        lease::Note::NewLife(life) => self.life_begins(life),
                        lease::Note::RegisterRejected(_)
                        | lease::Note::DeclaredDead
                        | lease::Note::DiskFault
                        | lease::Note::Superseded { .. }
                        | lease::Note::Leased
                        | lease::Note::Stale(_) => {}
                    }
                }
            }
        }
    }

    fn mover_done(&mut self, partition: PartitionId, op: OpId, awaited: Awaited, outcome: Outcome) {
        let outcome = match awaited {
            Awaited::Row => mover::Outcome::ReadRow(match barrier(op, &outcome) {
                Some(_) => Ok(self.state.assignment(partition).cloned()),
                None => Err(mover::Fault::Unreachable),
            }),
            Awaited::Leader => mover::Outcome::ReachLeader(match barrier(op, &outcome) {
                Some(_) => Ok(()),
                None => Err(mover::Fault::Unreachable),
            }),
            Awaited::Listing => mover::Outcome::List(match called(outcome) {
                Ok(Answer::Listing(listing)) => Ok(listing),
                other => Err(fault_of(&other)),
            }),
            Awaited::Capture => mover::Outcome::Prepare(match called(outcome) {
                Ok(Answer::Capture(capture)) => Ok(capture),
                other => Err(fault_of(&other)),
            }),
            Awaited::Renewal => mover::Outcome::Renew(noted(outcome)),
            Awaited::Release => mover::Outcome::Release(noted(outcome)),
            Awaited::Disk => {
                let Outcome::Stage(staged) = outcome else { mismatch(op, &outcome) };
                staging(&staged)
            }
        };
        self.tell_mover(partition, mover::Event::Done(op, outcome));
    }
}

const fn staging(outcome: &StagingOutcome) -> mover::Outcome {
    match *outcome {
        StagingOutcome::Copy(result) => mover::Outcome::Copy(result),
        StagingOutcome::Checkpoint(result) => mover::Outcome::Checkpoint(result),
        StagingOutcome::Trim(result) => mover::Outcome::Trim(result),
        StagingOutcome::Probe(result) => mover::Outcome::Probe(result),
        StagingOutcome::Verify(result) => mover::Outcome::Verify(result),
        StagingOutcome::Install(result) => mover::Outcome::Install(result),
        StagingOutcome::Restage(result) => mover::Outcome::Restage(result),
        StagingOutcome::SetAside(result) => mover::Outcome::SetAside(result),
    }
}

fn called(outcome: Outcome) -> Result<Answer, mover::Fault> {
    let Outcome::Call(answer) = outcome else { panic!("a question was answered by {outcome:?}") };
    answer.map_err(|fault| match fault {
        super::CallFault::Unreachable => mover::Fault::Unreachable,
        super::CallFault::TimedOut => mover::Fault::TimedOut,
        super::CallFault::Malformed => mover::Fault::Malformed,
    })
}

fn barrier(op: OpId, outcome: &Outcome) -> Option<LogIndex> {
    let Outcome::Barrier(index) = outcome else { mismatch(op, outcome) };
    *index
}

/// A driver answers an operation by an outcome of its own kind (rule 4 of the crate).
pub(super) fn mismatch(op: OpId, outcome: &Outcome) -> ! {
    panic!("{op:?} was answered by the outcome of another kind, {outcome:?}")
}

fn noted(outcome: Outcome) -> Result<(), mover::Fault> {
    match called(outcome) {
        Ok(Answer::Noted) => Ok(()),
        other => Err(fault_of(&other)),
    }
}

/// Returns what an answer of another kind than the expected one means.
fn fault_of(answer: &Result<Answer, mover::Fault>) -> mover::Fault {
    match answer {
        Ok(Answer::Refused(refusal)) => mover::Fault::Refused(*refusal),
        Ok(_) => mover::Fault::Malformed,
        Err(fault) => *fault,
    }
}
