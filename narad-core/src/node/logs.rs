//! Folds the replicated log into the state and tells the machines what has changed.

use super::routes::Internal;
use super::{Effect, Node, Note, Stop};
use crate::ids::{LogIndex, NodeId};
use crate::metastore::{Changed, Command, Configuration, Entry, Halt, State};
use crate::planted::{Bug, is_planted};
use crate::{controller, dispatch, lease};

impl Node {
    pub(super) fn committed(&mut self, index: LogIndex, entry: &Entry) {
        match self.state.apply(index, entry) {
            Ok(outcome) => {
                if let Some((ticket, proposed)) =
                    self.proposals.applied(entry.proposal, outcome.reply)
                {
                    self.inbox.push_back(Internal::Proposed(ticket, proposed));
                }
                let is_dirty = !outcome.changed.is_empty() && concerns_controller(&entry.command);
                self.changed(outcome.changed);
                if is_dirty {
                    self.inbox.push_back(Internal::Controller(controller::Event::Dirty));
                }
            }
            Err(halt) => self.halt(halt),
        }
    }

    pub(super) fn configured(&mut self, index: LogIndex, configuration: Configuration) {
        match self.state.configure(index, configuration) {
            Ok(changed) => {
                self.changed(changed);
                self.inbox.push_back(Internal::Controller(controller::Event::Dirty));
            }
            Err(halt) => self.halt(halt),
        }
    }

    pub(super) fn skipped(&mut self, index: LogIndex) {
        match self.state.skip(index) {
            Ok(()) => {
                self.controller.changed(index, &Changed::default());
                self.lease_looks();
            }
            Err(halt) => self.halt(halt),
        }
    }

    /// Takes a snapshot for the state: whatever was proposed may be in it (rule 5), and whatever
    /// concerns this node is looked at again, since nobody saw the entries in between (H27).
    pub(super) fn restored(&mut self, state: State) {
        self.state = state;
        self.news.members += 1;
        self.news.topics += 1;
        for (ticket, proposed) in self.proposals.restored() {
            self.inbox.push_back(Internal::Proposed(ticket, proposed));
        }
        let members: alloc::vec::Vec<NodeId> =
            self.state.members().map(|member| member.id).collect();
        for node in members {
            self.member_changed(node);
        }
        if !is_planted(Bug::RestoredUnseen) {
            self.everything_changed();
        }
        self.inbox.push_back(Internal::Controller(controller::Event::Dirty));
        self.inbox.push_back(Internal::Dispatch(dispatch::Event::Restored));
        self.lease_looks();
    }

    pub(super) fn leader_is(&mut self, leader: Option<NodeId>) {
        if self.leader == leader {
            return;
        }
        self.leader = leader;
        self.leaderships += u64::from(self.leads());
        self.note(Note::Leader(leader));
        self.inbox.push_back(Internal::Lease(lease::Event::Leader(leader)));
        let leading = controller::Event::Leading(self.leads());
        self.inbox.push_back(Internal::Controller(leading));
    }

    fn changed(&mut self, changed: Changed) {
        self.controller.changed(self.state.applied(), &changed);
        let members = changed.configuration || !changed.members.is_empty();
        self.news.members += u64::from(members);
        self.news.topics += u64::from(!changed.topics.is_empty());
        for node in &changed.members {
            self.member_changed(*node);
            if *node == self.me.node && self.state.member(*node).is_some_and(|me| me.retired) {
                self.note(Note::Retired);
            }
        }
        for partition in &changed.partitions {
            self.report_row(*partition);
            self.touch(*partition);
        }
        if changed.policy {
            self.policy_changed();
        }
        self.lease_looks();
        if !changed.is_empty() {
            self.inbox.push_back(Internal::Dispatch(dispatch::Event::Applied(changed)));
        }
    }

    /// Shows the lease what the log says of it.
    fn lease_looks(&mut self) {
        let member = self.state.member(self.me.node).map(lease::OwnRow::from);
        let lease = self.state.policy().lease;
        self.inbox.push_back(Internal::Lease(lease::Event::Applied { member, lease }));
    }

    /// Shows the lease how far this node has come, once every gate has come as far: an answer that
    /// counted earlier would let a gate go on with a reign that is over (S7, H8).
    pub(super) fn gates_stand(&mut self) {
        let applied = self.state.applied();
        if self.closing.is_empty() && self.stood < applied {
            self.stood = applied;
            self.inbox.push_back(Internal::Lease(lease::Event::Stood(applied)));
        }
    }

    fn halt(&mut self, halt: Halt) {
        self.out.push(Effect::Stop(Stop::Halted(halt)));
    }
}

/// Whether a pass of the controller may have something to do about it: what only a move's two ends
/// have to say to the log is nothing that a plan looks at.
const fn concerns_controller(command: &Command) -> bool {
    match command {
        Command::Report { .. }
        | Command::Resolve { .. }
        | Command::Revoke { .. }
        | Command::ReclaimReady { .. } => false,
        Command::Join { .. }
        | Command::Register { .. }
        | Command::MarkDead { .. }
        | Command::SetDraining { .. }
        | Command::DrainedOut { .. }
        | Command::Retire { .. }
        | Command::CreateTopic { .. }
        | Command::DeleteTopic { .. }
        | Command::AssignPartition { .. }
        | Command::SetTarget { .. }
        | Command::ClearTarget { .. }
        | Command::CompleteMove { .. }
        | Command::SetPolicy(_)
        | Command::SetPin { .. }
        | Command::DeclareLost { .. }
        | Command::RaiseVersion { .. } => true,
    }
}
