//! Reads that see everything that was committed before they began.

use std::collections::BTreeMap;

use narad_core::effects::OpId;
use narad_core::ids::{LogIndex, NodeId};
use narad_core::node::{Event, Outcome};

use super::{AbstractLog, Due};
use crate::metastore::Reach;
use crate::time::Time;

/// A barrier that has not passed.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    op: OpId,
    is_survey: bool,
    /// What has to be applied first, once a leader has said so.
    index: Option<LogIndex>,
    /// Whether an answer is under way.
    is_asked: bool,
}

impl AbstractLog {
    /// A node begins a barrier, or a survey. [`Output::Tell`](super::Output::Tell) says when it
    /// has passed; nothing says that it does not.
    pub fn barrier(&mut self, now: Time, node: NodeId, op: OpId, is_survey: bool) {
        self.now = self.now.max(now);
        let Some(member) = self.members.get_mut(&node) else { return };
        member.barriers.push(Wait { op, is_survey, index: None, is_asked: false });
        self.ask_again(node);
    }

    /// A node gives a barrier up.
    pub fn cancel(&mut self, node: NodeId, op: OpId) {
        if let Some(member) = self.members.get_mut(&node) {
            member.barriers.retain(|wait| wait.op != op);
        }
    }

    /// Asks the leader for every barrier that it may not have heard of.
    pub(super) fn ask_again(&mut self, node: NodeId) {
        let Some(member) = self.members.get_mut(&node) else { return };
        let mut unasked = Vec::new();
        for wait in &mut member.barriers {
            if wait.index.is_none() && !wait.is_asked {
                wait.is_asked = true;
                unasked.push(wait.op);
            }
        }
        for op in unasked {
            if !self.fate.happens(self.faults.deaf) {
                let takes = self.hop() + self.hop();
                self.schedule(takes, Due::Confirm(node, op));
            }
        }
    }

    /// The answer of the leader's majority arrives.
    pub(super) fn confirm(&mut self, node: NodeId, op: OpId, reach: &dyn Reach) {
        let confirmed = self.is_settled && self.takes_part(node) && self.hears(node, reach);
        // A deposed leader asks its own followers, most of which follow another one by now.
        let deposed = self.believes(node) == Some(node) && self.leader() != Some(node);
        let confirmed = confirmed && !deposed;
        let last = self.last();
        let Some(member) = self.members.get_mut(&node) else { return };
        let Some(wait) = member.barriers.iter_mut().find(|wait| wait.op == op) else { return };
        wait.is_asked = false;
        if confirmed {
            wait.index = Some(last);
            self.activate(node);
        }
    }

    /// Returns that a barrier has passed, if one has whose index is applied.
    pub(super) fn passed_barrier(&mut self, node: NodeId) -> Option<Event> {
        let member = self.members.get_mut(&node)?;
        let applied = member.applied;
        let passed = |wait: &Wait| wait.index.is_some_and(|index| index <= applied);
        let at = member.barriers.iter().position(passed)?;
        let Wait { op, is_survey, index, .. } = member.barriers.remove(at);
        let index = index?;
        let outcome = if is_survey {
            Outcome::Survey(Some((index, self.matched(node))))
        } else {
            Outcome::Barrier(Some(index))
        };
        Some(Event::Done(op, outcome))
    }

    /// Returns how far each member has come; only a leader knows.
    pub(super) fn matched(&self, node: NodeId) -> BTreeMap<NodeId, LogIndex> {
        let configuration = self.state.configuration();
        let (leader, last) = (self.leader, self.last());
        let known = |(id, member): (&NodeId, &super::Member)| {
            let known = if leader == Some(*id) { last } else { member.durable.known };
            configuration.contains(*id).then_some((*id, known))
        };
        if leader == Some(node) {
            self.members.iter().filter_map(known).collect()
        } else {
            BTreeMap::new()
        }
    }
}
