//! Where breaches of invariants are collected.

use std::collections::BTreeSet;

use narad_core::ids::{NodeId, PartitionId};

use super::Look;
use crate::outcome::Violation;
use crate::time::Time;

/// What an invariant does not hold for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Partition(PartitionId),
    Node(NodeId),
    Cluster,
}

impl From<PartitionId> for Subject {
    fn from(partition: PartitionId) -> Self {
        Self::Partition(partition)
    }
}

impl From<NodeId> for Subject {
    fn from(node: NodeId) -> Self {
        Self::Node(node)
    }
}

/// The breaches so far: the first of each invariant and subject, since the others follow from it.
#[derive(Debug, Default)]
pub(super) struct Sink {
    pub(super) violations: Vec<Violation>,
    told: BTreeSet<(&'static str, Subject)>,
}

/// One fact being judged.
pub(super) struct Cx<'a> {
    pub(super) event: u64,
    pub(super) now: Time,
    pub(super) look: &'a dyn Look,
    pub(super) sink: &'a mut Sink,
}

impl Cx<'_> {
    /// Takes note of a breach. The text is made only if it is news.
    pub(super) fn breach(
        &mut self,
        invariant: &'static str,
        subject: impl Into<Subject>,
        text: impl FnOnce() -> String,
    ) {
        let subject = subject.into();
        if self.sink.told.insert((invariant, subject)) {
            let text = match subject {
                Subject::Partition(partition) => format!("{partition:?}: {}", text()),
                Subject::Node(node) => format!("{node:?}: {}", text()),
                Subject::Cluster => text(),
            };
            self.sink.violations.push(Violation {
                invariant: invariant.into(),
                at_us: self.now.as_micros(),
                event: self.event,
                text,
            });
        }
    }
}
