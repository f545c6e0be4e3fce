//! What only a member itself knows, from every member that answers.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use narad_core::ids::{ByteCount, Name};
use narad_core::metastore::Status;
use narad_core::node::Node;

use super::salvage::{client, store_error};
use super::{NodeService, blocking};
use crate::service::{HeldView, NodeView, Read, ServiceError};

/// How long another member may take to tell of itself.
const PATIENCE: Duration = Duration::from_secs(2);

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
            let told = match client(&addr, PATIENCE) {
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
        let store = self.store();
        let measured = move || {
            let free = store.free_bytes()?;
            let held = held.into_iter().filter_map(|(topic, partition, data)| {
                // It may have been given away, or not be opened yet.
                let bytes = store.data_bytes(partition, data).ok()?;
                Some(HeldView { topic, partition: partition.index, bytes })
            });
            Ok((free, held.collect()))
        };
        (view.free_bytes, view.partitions) =
            blocking(measured).await?.map_err(|error| store_error(&error))?;
        Ok(view)
    }
}
