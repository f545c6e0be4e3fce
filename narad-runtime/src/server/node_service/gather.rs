//! What only a member itself knows, from every member that answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use narad_core::ids::{Attempt, ByteCount, Name, PartitionId};
use narad_core::metastore::Status;
use narad_core::node::Node;

use super::salvage::{client, store_error};
use super::{NodeService, blocking};
use crate::service::{HeldView, NodeView, Read, ServiceError};

/// How long another member may take to tell of itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// The sizes of logs as they were a moment ago: whoever watches a node with many of them must not
/// keep its disk busy.
#[derive(Debug, Default)]
pub(in crate::server) struct Sizes(Mutex<BTreeMap<(PartitionId, Attempt), (Instant, ByteCount)>>);

impl Sizes {
    /// How long a size is good for.
    const GOOD_FOR: Duration = Duration::from_secs(3);

    /// Returns the size of a log, measured anew if it was not lately.
    fn of(
        &self,
        now: Instant,
        partition: PartitionId,
        data: Attempt,
        measure: impl FnOnce() -> Option<ByteCount>,
    ) -> Option<ByteCount> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = known.get(&(partition, data)) {
            return Some(*bytes);
        }
        let bytes = measure()?;
        known.insert((partition, data), (now, bytes));
        Some(bytes)
    }

    /// Forgets what is not good any more.
    fn forget(&self, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (at, _)| now.saturating_duration_since(*at) < Self::GOOD_FOR);
    }
}

/// What every member that answered has told of itself.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<Name, NodeView>);

impl FromIterator<NodeView> for Told {
    fn from_iter<I: IntoIterator<Item = NodeView>>(views: I) -> Self {
        Self(views.into_iter().map(|view| (view.member.clone(), view)).collect())
    }
}

impl Told {
    pub(super) fn of(&self, member: &Name) -> Option<&NodeView> {
        self.0.get(member)
    }

    /// Returns the bytes of a partition's log, if its owner has told.
    pub(super) fn bytes(&self, owner: &Name, topic: &Name, partition: u32) -> Option<u64> {
        let held = &self.of(owner)?.partitions;
        let found = held.iter().find(|held| held.topic == *topic && held.partition == partition);
        found.map(|held| held.bytes.0)
    }

    /// Returns the bytes of all logs of a member, if it has told.
    pub(super) fn bytes_of(&self, owner: &Name) -> Option<u64> {
        Some(self.of(owner)?.partitions.iter().map(|held| held.bytes.0).sum())
    }
}

impl NodeService {
    /// Asks every member that is alive, and this node.
    pub(super) async fn ask_all(&self) -> Result<Told, ServiceError> {
        let others = |node: &Node| {
            let me = node.identity().node;
            let alive = node.state().members().filter(move |member| {
                member.id != me && !member.retired && member.status == Status::Alive
            });
            let others = alive.map(|member| (member.name.clone(), member.addrs.http.clone()));
            others.collect::<Vec<_>>()
        };
        let others = self.look(Read::Stale, others).await?;
        let asked = others.into_iter().map(async |(name, addr)| {
            let told = match client(&addr, PATIENCE, self.tls()) {
                Some(client) => client.node().await.ok(),
                None => None,
            };
            Some((name, told?))
        });
        let (told, own) = futures_util::future::join(join_all(asked), self.own_view()).await;
        let own = own?;
        let others = told.into_iter().flatten().map(|(_, told)| told);
        Ok(others.chain([own]).collect())
    }

    /// Tells of this node alone.
    pub(super) async fn own_view(&self) -> Result<NodeView, ServiceError> {
        let look = |node: &Node| {
            let (state, me) = (node.state(), node.identity());
            let held = state.owned_by(me.node).filter_map(|partition| {
                let topic = state.topic(partition.topic)?.name.clone();
                Some((topic, partition, state.assignment(partition)?.data))
            });
            let backlog = node.backlog();
            let view = NodeView {
                member: me.name.clone(),
                leads: node.leader() == Some(me.node),
                free_bytes: ByteCount(0),
                backlog_records: backlog.records,
                backlog_bytes: backlog.bytes,
                left_behind: node.left_behind().count() as u64,
                copy_rate_bytes_per_second: 0,
                throttled: false,
                partitions: Vec::new(),
            };
            (view, held.collect::<Vec<_>>())
        };
        let (mut view, held) = self.look(Read::Stale, look).await?;
        (view.copy_rate_bytes_per_second, view.throttled) = self.steering.rates.now();
        let (store, sizes) = (self.store(), Arc::clone(&self.steering.sizes));
        let measured = move || {
            let free = store.free_bytes()?;
            let now = Instant::now();
            sizes.forget(now);
            let held = held.into_iter().filter_map(|(topic, partition, data)| {
                let measure = || store.data_bytes(partition, data).ok();
                // It may have been given away, or not be opened yet.
                let bytes = sizes.of(now, partition, data, measure)?;
                Some(HeldView { topic, partition: partition.index, bytes })
            });
            Ok((free, held.collect()))
        };
        (view.free_bytes, view.partitions) =
            blocking(measured).await?.map_err(|error| store_error(&error))?;
        Ok(view)
    }
}

#[cfg(test)]
mod tests {
    use narad_core::ids::{NodeId, TopicId};

    use super::*;

    #[test]
    fn a_size_is_measured_once_in_a_while() {
        let (sizes, now) = (Sizes::default(), Instant::now());
        let (p, data) = (PartitionId { topic: TopicId(1), index: 0 }, Attempt::birth(NodeId(1)));
        let mut measured = 0;
        let mut look = |after: Duration, bytes| {
            sizes.forget(now + after);
            sizes.of(now + after, p, data, || {
                measured += 1;
                bytes
            })
        };
        assert_eq!(look(Duration::ZERO, None), None, "what is not there is looked for again");
        assert_eq!(look(Duration::ZERO, Some(ByteCount(5))), Some(ByteCount(5)));
        assert_eq!(look(Duration::from_secs(1), Some(ByteCount(9))), Some(ByteCount(5)));
        assert_eq!(look(Sizes::GOOD_FOR, Some(ByteCount(9))), Some(ByteCount(9)));
        assert_eq!(measured, 3);
    }
}
