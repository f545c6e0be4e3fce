//! The topics as producers need them: found by name without a question to the node.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use narad_core::ids::TopicId;
use narad_core::metastore::State;

/// What a producer needs to know of a topic. Neither changes as long as there is the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) id: TopicId,
    pub(super) partitions: u32,
}

/// The topics that this node's replica has applied, by name.
#[derive(Debug, Default)]
pub(super) struct Topics(RwLock<BTreeMap<String, Known>>);

impl Topics {
    /// Takes over what the replicated state says.
    pub(super) fn learn(&self, state: &State) {
        let known = |name: &str| self.find(name);
        let mut topics = state.topics().map(|topic| {
            (topic.name.as_str(), Known { id: topic.id, partitions: topic.partitions })
        });
        let is_same = topics.by_ref().all(|(name, topic)| known(name) == Some(topic));
        let length = self.0.read().unwrap_or_else(PoisonError::into_inner).len();
        if is_same && state.topics().count() == length {
            return;
        }
        let fresh = state.topics().map(|topic| {
            let (name, id) = (topic.name.as_str().to_owned(), topic.id);
            (name, Known { id, partitions: topic.partitions })
        });
        let fresh: BTreeMap<String, Known> = fresh.collect();
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *known, fresh.clone());
        drop(known);
        tell(&before, &fresh);
    }

    pub(super) fn find(&self, name: &str) -> Option<Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }
}

/// Says what is new: the rest of the log calls topics by their numbers.
fn tell(before: &BTreeMap<String, Known>, after: &BTreeMap<String, Known>) {
    /// More at once are a node that has been away.
    const LINES_MAX: usize = 32;
    let fresh = || after.iter().filter(|(name, topic)| before.get(*name) != Some(topic));
    let gone = before.iter().filter(|(name, topic)| after.get(*name) != Some(topic));
    for (name, topic) in gone.take(LINES_MAX) {
        tracing::info!(topic = name, id = ?topic.id, "a topic was deleted");
    }
    if fresh().count() > LINES_MAX {
        tracing::info!(topics = after.len(), "topics; narad topic list tells their numbers");
        return;
    }
    for (name, topic) in fresh() {
        tracing::info!(topic = name, id = ?topic.id, partitions = topic.partitions, "a topic");
    }
}
