//! The names behind the numbers of a state.

use std::collections::BTreeMap;

use narad_core::ids::{Name, NodeId, PartitionId, TopicId};
use narad_core::metastore::State;

/// The names of members and topics as of one look at the state.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    members: BTreeMap<NodeId, Name>,
    topics: BTreeMap<TopicId, Name>,
}

impl Names {
    pub(super) fn of(state: &State) -> Self {
        Self {
            members: state.members().map(|one| (one.id, one.name.clone())).collect(),
            topics: state.topics().map(|topic| (topic.id, topic.name.clone())).collect(),
        }
    }

    /// Returns a member's name; one that is no member has its number.
    pub(super) fn member(&self, node: NodeId) -> Name {
        self.members.get(&node).cloned().unwrap_or_else(|| numbered("node", node.0))
    }

    pub(super) fn topic(&self, topic: TopicId) -> Name {
        self.topics.get(&topic).cloned().unwrap_or_else(|| numbered("topic", topic.0))
    }

    pub(super) fn known_topic(&self, topic: TopicId) -> Option<Name> {
        self.topics.get(&topic).cloned()
    }

    pub(super) fn place(&self, partition: PartitionId) -> String {
        format!("{}/{}", self.topic(partition.topic), partition.index)
    }
}

fn numbered(kind: &str, number: u64) -> Name {
    Name::new(format!("{kind}-{number}")).expect("a word and a number are a name")
}
