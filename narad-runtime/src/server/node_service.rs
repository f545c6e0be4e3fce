//! The API's view of a node: questions to the node machine, records to and from its logs.

mod advice;
mod consume;
mod damaged;
mod draining;
mod errors;
mod explain;
mod gather;
mod hand_out;
mod journal;
mod names;
mod operate;
mod place;
mod planning;
mod salvage;
mod status;
mod steering;
mod stopping;
mod views;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use narad_core::controller::verdict::is_full;
use narad_core::dispatch::Route as Way;
use narad_core::ids::{Epoch, NodeId, PartitionId};
use narad_core::metastore::Applied;
use narad_core::node::{Ask, AskError, Node, Said};

use super::book::Book;
use super::history::History;
use super::pace::Pace;
use super::rates::Rates;
use super::topics::{Known, Topics};
use crate::broker::{Broker, ProduceError, Seat};
use crate::client::{Client, ClientOptions};
use crate::clock::BootClock;
use crate::ingress::Parcel;
use crate::metrics::{Metrics, Sight};
use crate::node_loop::{AskFault, Ingress, NodeHandle, Stopped};
use crate::salvage::accept_again;
use crate::service::{
    Accepted, AcceptedView, AckSet, Fetched, Handed, MemberView, MoveView, NewLoss, NewTopic,
    OffsetsView, Position, Produced, Read, Readiness, ReceiptView, Record, Reserve, Route,
    SalvageView, Service, ServiceError, Settle, Settled, Skip, Skipped, Ticket, TopicView, hash_of,
};
use crate::store::{Kept, PartitionStore, Receipt};
use crate::tls::ClientTls;
use damaged::Damages;
pub(super) use gather::Sizes;
use place::{Place, place_of};
use views::{
    add_progress, member_view, moves_seen_from, removed, route, told_out, topic_view, waiting,
};

/// What the HTTP API asks of a running node.
#[derive(Debug)]
pub struct NodeService {
    handle: NodeHandle,
    broker: Arc<Broker>,
    store: Arc<dyn PartitionStore>,
    node: NodeId,
    /// Whose turn it is among the partitions that are consumed from.
    turn: AtomicU64,
    ingress: Arc<Ingress>,
    topics: Arc<Topics>,
    damages: Damages,
    steering: Steering,
}

/// What operators see and change of this node alone.
#[derive(Debug)]
pub(super) struct Steering {
    pub(super) clock: BootClock,
    pub(super) metrics: Arc<Metrics>,
    pub(super) rates: Rates,
    pub(super) history: Arc<History>,
    pub(super) pace: Arc<Pace>,
    pub(super) sizes: Arc<Sizes>,
    pub(super) book: Arc<Book>,
    /// How other nodes are asked.
    pub(super) tls: Option<ClientTls>,
}

impl NodeService {
    pub(super) fn new(
        handle: NodeHandle,
        broker: Arc<Broker>,
        store: Arc<dyn PartitionStore>,
        node: NodeId,
        ingress: Arc<Ingress>,
        topics: Arc<Topics>,
        steering: Steering,
    ) -> Self {
        let (turn, damages) = (AtomicU64::new(0), Damages::new());
        Self { handle, broker, store, node, turn, ingress, topics, damages, steering }
    }

    pub(super) const fn tls(&self) -> Option<&ClientTls> {
        self.steering.tls.as_ref()
    }

    fn store(&self) -> Arc<dyn PartitionStore> {
        Arc::clone(&self.store)
    }

    /// Accepts once more what lies in this node's quarantine.
    async fn accept_trashed(
        &self,
        partition: PartitionId,
        id: String,
        now_ms: i64,
    ) -> Result<Receipt, ServiceError> {
        let (store, ingress) = (self.store(), Arc::clone(&self.ingress));
        let accept = move || {
            let kept = Kept::Trashed(&id);
            let accept = &mut |parcels| ingress.accept_again(parcels);
            accept_again(&*store, partition, kept, None, now_ms, accept)
        };
        match blocking(accept).await? {
            Ok(Some(receipt)) => Ok(receipt),
            Ok(None) => Err(ServiceError::Busy),
            Err(error) => Err(salvage::store_error(&error)),
        }
    }

    /// Refuses to write more into the replicated log while this node's disk is full: a log that cannot
    /// be written ends the node.
    async fn check_room(&self) -> Result<(), ServiceError> {
        let store = self.store();
        let free = blocking(move || store.free_bytes()).await?;
        match free {
            Ok(free) if is_full(free) => Err(ServiceError::DiskFull),
            Ok(_) => Ok(()),
            Err(error) => Err(salvage::store_error(&error)),
        }
    }

    /// Finds a topic for a producer. Only one that this node has not heard of is a question to the
    /// log.
    async fn known_topic(&self, name: &str) -> Result<Known, ServiceError> {
        if let Some(known) = self.topics.find(name) {
            return Ok(known);
        }
        let wanted = name.to_owned();
        let find = move |node: &Node| {
            let topic = node.state().topic_named(&wanted)?;
            Some(Known { id: topic.id, partitions: topic.partitions })
        };
        let found = self.look(Read::Barrier, find).await?;
        found.ok_or_else(|| ServiceError::UnknownTopic(name.to_owned()))
    }

    async fn ask(&self, ask: Ask) -> Result<Applied, ServiceError> {
        match self.handle.ask(ask).await {
            Ok(Said::Done(applied)) => Ok(applied),
            Ok(Said::Fresh) => Ok(Applied::Done),
            // It may have been the last thing that it did.
            Err(AskFault::Stopped(_)) => Err(ServiceError::OutcomeUnknown),
            // Whoever has left hears of no leader, and never will.
            Err(AskFault::Refused(AskError::NoLeader)) if self.is_removed().await => {
                Err(ServiceError::Removed)
            }
            Err(AskFault::Refused(error)) => Err(error.into()),
        }
    }

    async fn is_removed(&self) -> bool {
        self.handle.query(Node::is_retired).await.unwrap_or(false)
    }

    /// Looks at the node once it is as fresh as was asked for.
    async fn look<T: Send + 'static>(
        &self,
        read: Read,
        look: impl FnOnce(&Node) -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        match read {
            Read::Barrier => {
                self.ask(Ask::Barrier).await?;
            }
            Read::Stale => {}
        }
        Ok(self.handle.query(look).await?)
    }

    async fn member(&self, name: &str) -> Result<NodeId, ServiceError> {
        let wanted = name.to_owned();
        let find = move |node: &Node| {
            let state = node.state();
            let retired = state.members().any(|one| one.retired && one.name.as_str() == wanted);
            (state.member_named(&wanted).map(|member| member.id), retired)
        };
        match self.look(Read::Barrier, find).await? {
            (Some(id), _) => Ok(id),
            (None, true) => Err(ServiceError::Rejected(format!(
                "{name} is retired for good; its process can be stopped and its disk wiped"
            ))),
            (None, false) => Err(ServiceError::UnknownMember(name.to_owned())),
        }
    }

    async fn topic(&self, name: &str, read: Read) -> Result<TopicView, ServiceError> {
        let wanted = name.to_owned();
        let find = move |node: &Node| {
            let state = node.state();
            state.topic_named(&wanted).map(|topic| topic_view(state, topic.id))
        };
        let found = self.look(read, find).await?;
        found.flatten().ok_or_else(|| ServiceError::UnknownTopic(name.to_owned()))
    }

    /// Finds a partition; if this node has not heard of the topic, it asks the log first.
    async fn place(&self, topic: &str, index: u32) -> Result<Place, ServiceError> {
        for read in [Read::Stale, Read::Barrier] {
            let wanted = topic.to_owned();
            let find = move |node: &Node| place_of(node, &wanted, index);
            match self.look(read, find).await? {
                Err(ServiceError::UnknownTopic(_) | ServiceError::NotServing)
                    if read == Read::Stale => {}
                found => return found,
            }
        }
        Err(ServiceError::UnknownTopic(topic.to_owned()))
    }

    /// Finds a partition for somebody who has been told of a reign; if this node has not heard of
    /// that one, it asks the log first.
    async fn place_in(&self, topic: &str, index: u32, epoch: Epoch) -> Result<Place, ServiceError> {
        let place = self.place(topic, index).await?;
        if epoch <= place.lineage.epoch() {
            return Ok(place);
        }
        let wanted = topic.to_owned();
        let place = self.look(Read::Barrier, move |node| place_of(node, &wanted, index)).await??;
        let present = place.lineage.epoch();
        if epoch > present {
            return Err(ServiceError::Invalid(format!(
                "the partition is in epoch {present}, and no epoch {epoch} has begun: give the \
                 epoch back that came with the records"
            )));
        }
        Ok(place)
    }

    async fn routes_of(&self, topic: &str) -> Result<Vec<Route>, ServiceError> {
        for read in [Read::Stale, Read::Barrier] {
            let wanted = topic.to_owned();
            let find = move |node: &Node| {
                let id = node.state().topic_named(&wanted)?.id;
                let rows = node.state().assignments_of_topic(id);
                Some(rows.filter_map(|(id, row)| route(node, id, row)).collect::<Vec<_>>())
            };
            if let Some(routes) = self.look(read, find).await? {
                return Ok(routes);
            }
        }
        Err(ServiceError::UnknownTopic(topic.to_owned()))
    }

    async fn moves_now(&self, read: Read) -> Result<Vec<MoveView>, ServiceError> {
        let pace = Arc::clone(&self.steering.pace);
        let (mut moves, elsewhere) =
            self.look(read, move |node| moves_seen_from(node, &pace)).await?;
        // A stale view is this node's own: so what a destination is asked ends there.
        if read == Read::Barrier {
            let asked = elsewhere
                .into_iter()
                .map(async |(to, addr)| (to, ask_moves(&addr, self.tls()).await));
            for (to, told) in join_all(asked).await {
                add_progress(&mut moves, &to, told.as_deref());
            }
        }
        Ok(moves)
    }

    /// Finds the seat of a partition that this node owns.
    fn seat(&self, place: &Place) -> Result<Seat, ServiceError> {
        if place.owner != self.node {
            return Err(ServiceError::NotOwner { owner: place.owner_http.clone() });
        }
        self.broker.find(place.partition).ok_or(ServiceError::NotServing)
    }
}

/// Asks another node how the moves to it are coming on; gives up soon, since it may be dead.
async fn ask_moves(addr: &str, tls: Option<&ClientTls>) -> Option<Vec<MoveView>> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let options = ClientOptions {
        connect_timeout: PATIENCE,
        request_timeout: PATIENCE,
        token: crate::http::presented(),
        tls: tls.cloned(),
        ..ClientOptions::default()
    };
    let client = Client::new(vec![addr.parse().ok()?], options);
    client.moves(Read::Stale).await.ok()
}

#[async_trait]
impl Service for NodeService {
    async fn readiness(&self) -> Readiness {
        match self.handle.query(|node| (node.is_registered(), node.is_retired())).await {
            Ok((_, true)) => removed(),
            // It was taken out while it was away, and its own replica never heard of that.
            Ok((false, _)) if self.steering.book.is_told_out() => told_out(),
            Ok((true, _)) => Readiness { ready: true, ..Readiness::default() },
            Ok((false, _)) => waiting("this node's registration has not been applied yet"),
            Err(Stopped) => waiting("the node has stopped"),
        }
    }

    async fn metrics(&self) -> Result<String, ServiceError> {
        let sight = self.handle.query(Sight::of).await?;
        Ok(self.steering.metrics.text(&sight, self.steering.clock.now()))
    }

    async fn members(&self, read: Read) -> Result<Vec<MemberView>, ServiceError> {
        self.look(read, |node| {
            let (state, leader) = (node.state(), node.leader());
            state.members().map(|member| member_view(state, leader, member)).collect()
        })
        .await
    }

    async fn moves(&self, read: Read) -> Result<Vec<MoveView>, ServiceError> {
        self.moves_now(read).await
    }

    async fn decommission(&self, member: &str, on: bool) -> Result<(), ServiceError> {
        let node = self.member(member).await?;
        let ask = if on { Ask::Decommission(node) } else { Ask::CancelDecommission(node) };
        self.ask(ask).await.map(|_| ())
    }

    async fn create_topic(&self, topic: NewTopic) -> Result<TopicView, ServiceError> {
        let NewTopic { name, partitions, parent } = topic;
        self.check_room().await?;
        let parent = match parent {
            Some(parent) => Some(self.topic(parent.as_str(), Read::Barrier).await?.id),
            None => None,
        };
        let ask = Ask::CreateTopic { name: name.clone(), partitions, parent };
        self.ask(ask).await?;
        self.topic(name.as_str(), Read::Stale).await
    }

    async fn delete_topic(&self, topic: &str) -> Result<(), ServiceError> {
        let found = self.topic(topic, Read::Barrier).await?;
        self.ask(Ask::DeleteTopic(found.id)).await.map(|_| ())
    }

    async fn topics(&self, read: Read) -> Result<Vec<TopicView>, ServiceError> {
        self.look(read, |node| {
            let state = node.state();
            state.topics().filter_map(|topic| topic_view(state, topic.id)).collect()
        })
        .await
    }

    async fn routes(&self, topic: &str) -> Result<Vec<Route>, ServiceError> {
        self.routes_of(topic).await
    }

    async fn move_partition(
        &self,
        topic: &str,
        partition: u32,
        to: &str,
    ) -> Result<(), ServiceError> {
        let to = self.member(to).await?;
        let partition = self.place(topic, partition).await?.partition;
        self.ask(Ask::Move { partition, to }).await?;
        self.ask(Ask::Pin { partition, on: true }).await.map(|_| ())
    }

    async fn declare_lost(&self, loss: NewLoss) -> Result<ReceiptView, ServiceError> {
        self.give_up(loss).await
    }

    async fn salvage(&self, read: Read) -> Result<SalvageView, ServiceError> {
        self.salvage_view(read).await
    }

    async fn restore(&self, member: &str, id: &str) -> Result<AcceptedView, ServiceError> {
        self.restore_from(member, id).await
    }

    async fn drop_quarantined(&self, member: &str, id: &str) -> Result<(), ServiceError> {
        self.drop_from(member, id).await
    }

    async fn accept(
        &self,
        topic: &str,
        partition: Option<u32>,
        records: Vec<Record>,
    ) -> Result<Accepted, ServiceError> {
        let Known { id, partitions } = self.known_topic(topic).await?;
        if let Some(partition) = partition.filter(|&partition| partition >= partitions) {
            let topic = topic.to_owned();
            return Err(ServiceError::UnknownPartition { topic, partition });
        }
        let accepted = records.len() as u64;
        let parcel = |record: Record| {
            let route = match (partition, &record.key) {
                (Some(index), _) => Way::Partition(index),
                (None, Some(key)) => Way::Key(hash_of(key)),
                (None, None) => Way::Any,
            };
            Parcel { topic: id, route, record }
        };
        self.ingress.accept(records.into_iter().map(parcel).collect()).await?;
        Ok(Accepted { accepted })
    }

    async fn produce(
        &self,
        topic: &str,
        partition: u32,
        records: Vec<Record>,
    ) -> Result<Produced, ServiceError> {
        let place = self.place(topic, partition).await?;
        let seat = self.seat(&place)?;
        let produced = blocking(move || seat.batcher.produce(records, None)).await?;
        match produced {
            Ok(done) => {
                Ok(Produced { first_offset: done.first, next_offset: done.end, epoch: done.epoch })
            }
            Err(error) => {
                if let ProduceError::Log(failed) = &error
                    && failed.needs_reopening()
                {
                    self.handle.poisoned(place.partition);
                }
                Err(error.into())
            }
        }
    }

    async fn fetch(
        &self,
        topic: &str,
        partition: u32,
        from: Position,
        bytes_max: u64,
        wait: Duration,
    ) -> Result<Fetched, ServiceError> {
        self.read(topic, partition, from, bytes_max, wait).await
    }

    async fn ack(
        &self,
        topic: &str,
        partition: u32,
        epoch: Epoch,
        acks: AckSet,
    ) -> Result<(), ServiceError> {
        self.acknowledge(topic, partition, epoch, acks).await
    }

    async fn reserve(&self, topic: &str, wanted: Reserve) -> Result<Handed, ServiceError> {
        self.hand_out(topic, wanted).await
    }

    async fn skip(&self, topic: &str, partition: u32, skip: Skip) -> Result<Skipped, ServiceError> {
        self.give_up_damaged(topic, partition, skip).await
    }

    async fn settle(
        &self,
        topic: &str,
        tickets: Vec<Ticket>,
        how: Settle,
    ) -> Result<Vec<Settled>, ServiceError> {
        self.settle_all(topic, tickets, how).await
    }

    async fn offsets(&self, topic: &str, read: Read) -> Result<Vec<OffsetsView>, ServiceError> {
        self.offsets_of(topic, read).await
    }
}

/// Runs something that waits for a disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ServiceError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ServiceError::Internal(error.to_string()))
}
