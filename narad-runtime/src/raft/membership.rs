//! Who votes, who listens, and how that changes.

use ::raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};
use narad_core::ids::NodeId;
use std::collections::BTreeSet;

/// The members of the Raft group as of one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Configuration {
    /// The nodes whose majority decides; while joint, those of the new side.
    pub voters: BTreeSet<NodeId>,
    /// While joint, the old side, whose majority is needed too. Otherwise empty.
    pub voters_outgoing: BTreeSet<NodeId>,
    /// The nodes that receive the log and do not count.
    pub learners: BTreeSet<NodeId>,
    /// Old voters that become learners once the joint phase ends.
    pub learners_next: BTreeSet<NodeId>,
    /// Whether the leader ends the joint phase by itself. It may fail to if leadership changes
    /// just then; [`Raft::leave_joint`](super::Raft::leave_joint) is the way out.
    pub auto_leave: bool,
}

impl Configuration {
    /// Returns a configuration of voters only.
    pub fn of_voters(voters: impl IntoIterator<Item = NodeId>) -> Self {
        Self { voters: voters.into_iter().collect(), ..Self::default() }
    }

    /// Returns whether two majorities are needed at present.
    pub fn is_joint(&self) -> bool {
        !self.voters_outgoing.is_empty()
    }

    /// Returns whether a node votes, on either side.
    pub fn is_voter(&self, node: NodeId) -> bool {
        self.voters.contains(&node) || self.voters_outgoing.contains(&node)
    }

    /// Returns whether a node receives the log.
    pub fn is_member(&self, node: NodeId) -> bool {
        self.is_voter(node) || self.learners.contains(&node) || self.learners_next.contains(&node)
    }

    /// States why the library could not take this configuration over, if it could not.
    ///
    /// The library checks none of it and ends the process instead.
    pub(super) fn defect(&self) -> Option<&'static str> {
        let zero = NodeId(0);
        let all = [&self.voters, &self.voters_outgoing, &self.learners, &self.learners_next];
        if all.iter().any(|ids| ids.contains(&zero)) {
            return Some("names the node zero");
        }
        if self.voters.is_empty() {
            return Some("has no voters");
        }
        if self.learners.iter().any(|id| self.is_voter(*id)) {
            return Some("has a node that is voter and learner");
        }
        let next = &self.learners_next;
        if !next.is_subset(&self.voters_outgoing) || !next.is_disjoint(&self.voters) {
            return Some("has a next learner that is no leaving voter");
        }
        if self.auto_leave && !self.is_joint() {
            return Some("leaves a joint phase that it is not in");
        }
        None
    }

    /// Returns how many names it has, one node's on several lists counted as several.
    pub(super) fn count(&self) -> usize {
        let Self { voters, voters_outgoing, learners, learners_next, auto_leave: _ } = self;
        voters.len() + voters_outgoing.len() + learners.len() + learners_next.len()
    }

    /// Returns how many names the library's type has, repeated ones included.
    pub(super) fn names_in(state: &ConfState) -> usize {
        state.get_voters().len()
            + state.get_voters_outgoing().len()
            + state.get_learners().len()
            + state.get_learners_next().len()
    }

    pub(super) fn of_library(state: &ConfState) -> Self {
        let ids = |ids: &[u64]| ids.iter().copied().map(NodeId).collect();
        Self {
            voters: ids(state.get_voters()),
            voters_outgoing: ids(state.get_voters_outgoing()),
            learners: ids(state.get_learners()),
            learners_next: ids(state.get_learners_next()),
            auto_leave: state.get_auto_leave(),
        }
    }

    pub(super) fn for_library(&self) -> ConfState {
        let ids = |ids: &BTreeSet<NodeId>| ids.iter().map(|id| id.0).collect();
        let mut state = ConfState::default();
        state.set_voters(ids(&self.voters));
        state.set_voters_outgoing(ids(&self.voters_outgoing));
        state.set_learners(ids(&self.learners));
        state.set_learners_next(ids(&self.learners_next));
        state.set_auto_leave(self.auto_leave);
        state
    }
}

/// One step of a [`ConfigurationChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberChange {
    /// Adds a node that is no member, as a learner. It starts with an empty store and is fed by a
    /// snapshot.
    AddLearner(NodeId),
    /// Makes a learner a voter.
    Promote(NodeId),
    /// Removes a voter or learner. Its id never returns: a node that lost its log and came back
    /// under its old id would contradict what it acknowledged.
    Remove(NodeId),
}

impl MemberChange {
    fn node(self) -> NodeId {
        match self {
            Self::AddLearner(node) | Self::Promote(node) | Self::Remove(node) => node,
        }
    }

    fn for_library(self) -> ConfChangeSingle {
        let kind = match self {
            Self::AddLearner(_) => ConfChangeType::AddLearnerNode,
            Self::Promote(_) => ConfChangeType::AddNode,
            Self::Remove(_) => ConfChangeType::RemoveNode,
        };
        let mut single = ConfChangeSingle::default();
        single.set_node_id(self.node().0);
        single.set_change_type(kind);
        single
    }
}

/// A change of the members, all of it in one entry.
///
/// One step is done at once; more than one goes through a joint phase, in which both the old and
/// the new majority are needed and which the leader ends by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConfigurationChange {
    /// The steps; at least one, each node at most once.
    pub steps: Vec<MemberChange>,
    /// Comes back with the applied change, so that its proposer knows it again.
    pub context: Vec<u8>,
}

impl ConfigurationChange {
    /// States why the change makes no sense on top of a configuration, if it does not.
    pub(super) fn defect(&self, now: &Configuration) -> Option<&'static str> {
        if self.steps.is_empty() {
            return Some("it has no steps");
        }
        let nodes: BTreeSet<NodeId> = self.steps.iter().map(|step| step.node()).collect();
        if nodes.len() != self.steps.len() {
            return Some("it names a node twice");
        }
        self.steps.iter().find_map(|step| match *step {
            MemberChange::AddLearner(NodeId(0)) => Some("it names the node zero"),
            MemberChange::AddLearner(node) => {
                now.is_member(node).then_some("the node to add is a member already")
            }
            MemberChange::Promote(node) => (!now.learners.contains(&node))
                .then_some("only a learner can be promoted; add the node as one first"),
            MemberChange::Remove(node) => {
                (!now.is_member(node)).then_some("the node to remove is no member")
            }
        })
    }

    pub(super) fn for_library(&self) -> ConfChangeV2 {
        let mut change = ConfChangeV2::default();
        change.set_changes(self.steps.iter().map(|step| step.for_library()).collect());
        change.set_context(self.context.clone().into());
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Configuration {
        Configuration {
            learners: [NodeId(4)].into(),
            ..Configuration::of_voters((1..=3).map(NodeId))
        }
    }

    fn defect(steps: &[MemberChange]) -> Option<&'static str> {
        ConfigurationChange { steps: steps.to_vec(), context: Vec::new() }.defect(&three())
    }

    #[test]
    fn changes_without_sense_are_named() {
        use MemberChange::{AddLearner, Promote, Remove};
        assert_eq!(defect(&[Promote(NodeId(4)), Remove(NodeId(1))]), None);
        assert_eq!(defect(&[AddLearner(NodeId(5))]), None);
        assert!(defect(&[]).is_some());
        assert!(defect(&[AddLearner(NodeId(0))]).is_some());
        assert!(defect(&[AddLearner(NodeId(1))]).is_some());
        assert!(defect(&[Promote(NodeId(5))]).is_some());
        assert!(defect(&[Remove(NodeId(5))]).is_some());
        assert!(defect(&[Promote(NodeId(4)), Remove(NodeId(4))]).is_some());
    }

    #[test]
    fn a_configuration_survives_the_way_through_the_librarys_type() {
        let joint = Configuration {
            voters_outgoing: [NodeId(1), NodeId(9)].into(),
            learners_next: [NodeId(9)].into(),
            auto_leave: true,
            ..three()
        };
        assert_eq!(joint.defect(), None);
        assert_eq!(Configuration::of_library(&joint.for_library()), joint);
    }

    #[test]
    fn configurations_that_would_end_the_library_are_named() {
        let ids = |ids: &[u64]| ids.iter().copied().map(NodeId).collect::<BTreeSet<_>>();
        let with = |change: fn(&mut Configuration)| {
            let mut configuration = three();
            change(&mut configuration);
            configuration.defect()
        };
        assert_eq!(three().defect(), None);
        assert!(Configuration::default().defect().is_some());
        assert!(Configuration { voters: ids(&[0, 1]), ..three() }.defect().is_some());
        assert!(Configuration { learners: ids(&[1]), ..three() }.defect().is_some());
        assert!(Configuration { learners_next: ids(&[9]), ..three() }.defect().is_some());
        assert!(with(|c| c.auto_leave = true).is_some());
    }
}
