//! Log lines. Topics and members are called by the names that people gave them, with the numbers that
//! the rest of the log knows them by beside.

use std::collections::BTreeMap;

use narad_core::controller::Change;
use narad_core::dispatch::SendFault;
use narad_core::ids::{MoveId, NodeId, PartitionId, TopicId};
use narad_core::metastore::State;
use narad_core::mover::Freeze;
use narad_core::node::{Node, Note};
use narad_core::{controller, dispatch, freeze, host, lease, mover};

/// Writes a line for each note that is worth one.
#[derive(Debug, Default)]
pub(in crate::node_loop) struct Lines {
    /// Whether it has been said that the leader takes this node for dead: it says so each time.
    is_dead: bool,
    /// Whether it has been said that this node was removed.
    is_removed: bool,
    /// The moves that a leader has told of, since they were not over.
    decided: BTreeMap<PartitionId, MoveId>,
}

impl Lines {
    /// Says what a node is from the start.
    pub(in crate::node_loop) fn begin(&mut self, node: &Node) {
        if node.is_retired() {
            self.removed();
        }
    }

    fn removed(&mut self) {
        if !std::mem::replace(&mut self.is_removed, true) {
            tracing::warn!("this node was removed from the cluster: it can be stopped and wiped");
        }
    }

    /// Tells on the leader which moves have been decided and which are over, each under its own id.
    pub(in crate::node_loop) fn applied(&mut self, node: &Node) {
        if node.leader() != Some(node.identity().node) {
            self.decided.clear();
            return;
        }
        let (state, names) = (node.state(), Names(node.state()));
        for id in state.targeted() {
            let Some(row) = state.assignment(id) else { continue };
            let known = self.decided.insert(id, row.move_id);
            let Some(to) = row.target.filter(|_| known != Some(row.move_id)) else { continue };
            names.in_move(id, || {
                tracing::info!(
                    partition = names.partition(id), %id, from = names.node(row.owner),
                    to = names.node(to), "a move is decided"
                );
            });
        }
        let is_over =
            |id: &PartitionId| state.assignment(*id).is_none_or(|row| row.target.is_none());
        for (id, move_id) in self.decided.extract_if(.., |id, _| is_over(id)) {
            let owner = state.assignment(id).map(|row| names.node(row.owner));
            move_span(&move_name(&names, id, move_id)).in_scope(|| {
                tracing::info!(
                    partition = names.partition(id), %id, owner, "a move is over"
                );
            });
        }
    }

    pub(in crate::node_loop) fn log(&mut self, note: &Note, node: &Node) {
        let names = Names(node.state());
        match note {
            Note::Mover(partition, note) => names.in_move(*partition, || {
                log_mover(&names, *partition, note);
            }),
            Note::Handoff(partition, note) => names.in_move(*partition, || {
                log_handoff(&names, *partition, note);
            }),
            Note::Host(id, host::Note::Unavailable(fault)) => tracing::error!(
                partition = names.partition(*id), %id, %fault,
                "a partition of this node cannot be served"
            ),
            Note::Host(id, note) => {
                tracing::debug!(partition = names.partition(*id), %id, ?note, "host");
            }
            Note::Controller(note) => log_controller(&names, note),
            Note::Lease(note) => self.log_lease(note, node),
            Note::Leader(Some(id)) => {
                tracing::info!(leader = names.node(*id), "the leader has changed");
            }
            Note::Leader(None) => tracing::info!("there is no leader at the moment"),
            Note::Dispatch(note) => log_dispatch(&names, note),
            Note::Salvaged { partition: id, epoch, salvaged } => tracing::warn!(
                partition = names.partition(*id), %id, %epoch, from = %salvaged.from,
                end = %salvaged.end, bytes = salvaged.bytes,
                "records that a promotion had not captured were accepted again"
            ),
            Note::AcksForwarded { partition: id, to } => tracing::debug!(
                partition = names.partition(*id), %id, to = names.node(*to),
                "the next owner knows what was acknowledged here"
            ),
            Note::SetAside(id, what) => tracing::info!(
                partition = names.partition(*id), %id, ?what, "set aside into quarantine"
            ),
            Note::Retired => self.removed(),
            Note::Stale(_) => tracing::trace!(?note, "stale"),
        }
    }

    fn log_lease(&mut self, note: &lease::Note, node: &Node) {
        match note {
            lease::Note::Superseded { by } => {
                tracing::error!(%by, "a later life of this node is registered: another process \
                    runs as this node, or an older disk image was put back; this one serves nothing");
            }
            lease::Note::Stale(_) => tracing::trace!(?note, "stale"),
            lease::Note::DeclaredDead => {
                // Whoever was removed has been told so, and is told it by the leader for ever.
                if !std::mem::replace(&mut self.is_dead, true) && !node.is_retired() {
                    tracing::info!("the leader takes this node for dead; it registers again");
                }
            }
            lease::Note::Registered(_) | lease::Note::NewLife(_) | lease::Note::Leased => {
                self.is_dead = false;
                tracing::info!(?note, "lease");
            }
            lease::Note::RegisterRejected(_) | lease::Note::DiskFault => {
                tracing::info!(?note, "lease");
            }
        }
    }
}

/// The span of one move. Its id is the same on source, destination and leader: the partition by name,
/// and the number of the plan.
fn move_span(id: &str) -> tracing::Span {
    tracing::info_span!("move", id)
}

fn move_name(names: &Names<'_>, partition: PartitionId, move_id: MoveId) -> String {
    format!("{}#{move_id}", names.partition(partition))
}

/// What ids are called.
struct Names<'a>(&'a State);

impl Names<'_> {
    fn topic(&self, id: TopicId) -> String {
        self.0.topic(id).map_or_else(|| format!("{id:?}"), |topic| topic.name.to_string())
    }

    fn partition(&self, id: PartitionId) -> String {
        format!("{}/{}", self.topic(id.topic), id.index)
    }

    /// Does something in the span of the move that a partition makes, or has just made.
    fn in_move(&self, id: PartitionId, work: impl FnOnce()) {
        let Some(row) = self.0.assignment(id) else { return work() };
        // What ends a move has counted its number up already.
        let passed = u64::from(row.target.is_none());
        let move_id = MoveId(row.move_id.0.saturating_sub(passed));
        move_span(&move_name(self, id, move_id)).in_scope(work);
    }

    fn node(&self, id: NodeId) -> String {
        match self.0.member(id) {
            Some(member) => format!("{} ({id:?})", member.name),
            None => format!("{id:?}"),
        }
    }

    fn change(&self, change: Change) -> String {
        match change {
            Change::AddLearner(node) => format!("{} follows without a vote", self.node(node)),
            Change::Promote(node) => format!("{} gets a vote", self.node(node)),
            Change::Remove(node) => format!("{} takes no part any more", self.node(node)),
            Change::Replace { add, remove } => {
                format!("{} votes in the place of {}", self.node(add), self.node(remove))
            }
            Change::LeaveJoint => "the change before is brought to its end".to_owned(),
        }
    }
}

fn log_controller(names: &Names<'_>, note: &controller::Note) {
    match note {
        controller::Note::Silent { node } => tracing::info!(
            member = names.node(*node),
            "a member is silent, and is being declared dead"
        ),
        controller::Note::Deaf => tracing::info!(
            "too many members are silent: the fault is on this side, and nobody is declared dead"
        ),
        controller::Note::Planned { started, deferred } => {
            tracing::info!(started, deferred, "moves are planned");
        }
        controller::Note::TargetGivenUp { partition: id, target } => tracing::info!(
            partition = names.partition(*id), %id, target = names.node(*target),
            "a move is given up: its target cannot take it"
        ),
        controller::Note::RetireBlocked { node, reason } => tracing::info!(
            member = names.node(*node), %reason, "a draining member cannot be taken out yet"
        ),
        controller::Note::Configuring(change) => {
            tracing::info!(change = names.change(*change), "the voters are being changed");
        }
        controller::Note::HandingOver { to } => {
            tracing::info!(to = names.node(*to), "the lead is handed over");
        }
        controller::Note::Outrun(reason) => tracing::debug!(%reason, "a plan was outrun"),
    }
}

fn log_handoff(names: &Names<'_>, id: PartitionId, note: &freeze::handoff::Note) {
    let partition = || names.partition(id);
    match note {
        freeze::handoff::Note::NotFrozen { .. }
        | freeze::handoff::Note::Revoking { .. }
        | freeze::handoff::Note::RevokeRejected { .. } => {
            tracing::info!(partition = partition(), %id, ?note, "hand-off");
        }
        freeze::handoff::Note::Frozen { .. }
        | freeze::handoff::Note::Thawed { .. }
        | freeze::handoff::Note::Stale(_) => {
            tracing::debug!(partition = partition(), %id, ?note, "hand-off");
        }
    }
}

fn log_dispatch(names: &Names<'_>, note: &dispatch::Note) {
    match note {
        dispatch::Note::Damaged { records, bytes } => tracing::error!(
            records,
            bytes,
            "accepted records are damaged in this node's ingress log, and lost: look at its disk"
        ),
        dispatch::Note::Dropped { topic: id, records, bytes } => tracing::warn!(
            topic = names.topic(*id),
            ?id,
            records,
            bytes,
            "accepted records of a topic that is no more were dropped"
        ),
        dispatch::Note::LogFault => {
            tracing::warn!("the ingress log could not be written; it is tried again");
        }
        // Nobody but an operator can end that.
        dispatch::Note::Held {
            partition: id,
            fault: fault @ (SendFault::DiskFull | SendFault::Disk | SendFault::TooLarge),
        } => tracing::warn!(
            partition = names.partition(*id), %id, %fault, "a partition takes nothing at the moment"
        ),
        dispatch::Note::Held { partition: id, fault } => tracing::info!(
            partition = names.partition(*id), %id, %fault, "a partition takes nothing at the moment"
        ),
        dispatch::Note::Resumed(id) => tracing::info!(
            partition = names.partition(*id), %id, "a partition takes records again"
        ),
        dispatch::Note::Rerouted { .. }
        | dispatch::Note::Carried { .. }
        | dispatch::Note::Stale(_) => tracing::debug!(?note, "dispatch"),
    }
}

fn log_mover(names: &Names<'_>, id: PartitionId, note: &mover::Note) {
    let partition = || names.partition(id);
    match note {
        mover::Note::NotConverged { tail_bytes, reason, passes } => tracing::warn!(
            partition = partition(), %id, tail_bytes, ?reason, passes,
            "non-converged cutover: the partition is written faster than it is copied, the \
             freeze will be longer"
        ),
        mover::Note::Waiting(reason) => {
            tracing::info!(partition = partition(), %id, %reason, "the move waits");
        }
        mover::Note::Frozen { token, tail_bytes } => tracing::info!(
            partition = partition(), %id, ?token, tail_bytes, "the source is frozen"
        ),
        mover::Note::Cutover { tail_bytes, predicted } => tracing::info!(
            partition = partition(), %id, tail_bytes, predicted_us = predicted.as_micros(),
            "the source is about to be frozen"
        ),
        mover::Note::Moved { attempt, copied_bytes, passes, freeze: None } => tracing::info!(
            partition = partition(), %id, %attempt, copied_bytes, passes,
            "the partition was promoted here, since its source is dead"
        ),
        mover::Note::Moved { attempt, copied_bytes, passes, freeze: Some(freeze) } => {
            let Freeze { tail_bytes, inline: _, predicted, lasted, steps } = freeze;
            tracing::info!(
                partition = partition(), %id, %attempt, copied_bytes, passes, tail_bytes,
                frozen_us = lasted.as_micros(), predicted_us = predicted.as_micros(), ?steps,
                "the partition has moved here"
            );
        }
        mover::Note::Stale(_) | mover::Note::PassEnded { .. } => {
            tracing::trace!(partition = partition(), %id, ?note, "move");
        }
        mover::Note::CopyUnverifiable(_)
        | mover::Note::ChecksumMismatch { .. }
        | mover::Note::FlipUnknown { .. } => {
            tracing::warn!(partition = partition(), %id, ?note, "move");
        }
        mover::Note::Resumed
        | mover::Note::Dropped { .. }
        | mover::Note::Released { .. }
        | mover::Note::FlipRejected { .. }
        | mover::Note::Resolved { .. }
        | mover::Note::AlreadyOwner { .. }
        | mover::Note::Cancelled { .. }
        | mover::Note::Gone => tracing::info!(partition = partition(), %id, ?note, "move"),
    }
}

#[cfg(test)]
mod tests {
    use narad_core::ids::{Incarnation, LogIndex, Name, ProposalId, StoreUuid};
    use narad_core::metastore::{Addresses, Command, Entry};

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    /// A member and a topic, which are the first of their kind.
    fn state() -> State {
        let mut state = State::new();
        let addrs = Addresses { peer: "a:1".into(), http: "a:2".into() };
        let commands = [
            Command::Join { name: name("narad-1"), store_uuid: StoreUuid(5), addrs },
            Command::CreateTopic { name: name("orders"), partitions: 2, parent: None },
        ];
        for (index, command) in (1..).zip(commands) {
            let (by, incarnation) = (NodeId(1), Incarnation(0));
            let proposal = ProposalId { node: by, incarnation, sequence: index };
            state.apply(LogIndex(index), &Entry { proposal, by, command }).expect("in order");
        }
        state
    }

    #[test]
    fn ids_have_the_names_that_people_gave() {
        let state = state();
        let topic = state.topics().next().expect("one").id;
        let names = Names(&state);
        assert_eq!(names.partition(PartitionId { topic, index: 1 }), "orders/1");
        assert_eq!(names.node(NodeId(1)), "narad-1 (n1)");
        let change = names.change(Change::Replace { add: NodeId(1), remove: NodeId(9) });
        assert_eq!(change, "narad-1 (n1) votes in the place of n9", "whoever is not known");
        let gone = PartitionId { topic: TopicId(99), index: 0 };
        assert_eq!(names.partition(gone), "t99/0");
    }
}
