//! A cluster in memory: several nodes over one state, without files and without a protocol.

mod consumers;
pub(crate) mod operate;
mod reads;
mod running;
mod salvage;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use narad_core::cursor::Cursor;
use narad_core::ids::{Epoch, Incarnation, Name, NodeId, Offset, TopicId};
use narad_runtime::http::{Access, HttpOptions, guarded, router};
use narad_runtime::service::{
    Accepted, AcceptedView, AckSet, Fetched, Handed, MemberStatus, MemberView, MoveView, NewLoss,
    NewTopic, OffsetsView, Position, Produced, Read, Readiness, ReceiptView, Record, Reserve, Role,
    Route, SalvageView, Service, ServiceError, Settle, Settled, Skip, Skipped, Ticket, TopicView,
    partition_of,
};
use tokio::sync::Notify;

pub(crate) use self::running::Running;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

pub(crate) fn record(value: &str) -> Record {
    Record { value: value.to_owned().into(), ..Record::default() }
}

/// What a node does with the next produce request instead of the usual.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Refuse(ServiceError),
    /// Appends the records, and never answers.
    WriteAndHang,
}

#[derive(Debug, Default)]
pub(crate) struct Partition {
    pub(crate) owner: String,
    pub(crate) epoch: u64,
    pub(crate) frozen: bool,
    pub(crate) records: Vec<Record>,
    pub(crate) committed: Option<u64>,
    /// What has been asked of it.
    pub(crate) fetches: u64,
    /// Where reigns began; at zero unless it is said here.
    pub(crate) reign_starts: BTreeMap<u64, u64>,
    /// Whose past reigns were.
    pub(crate) reigned: BTreeMap<u64, String>,
    /// Records that cannot be read: nothing else is left.
    pub(crate) damaged: Option<(u64, u64)>,
    cursor: Option<Cursor>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Requests to keep records longer.
    pub(crate) extended: u64,
    /// How far the clock of reservations has come.
    pub(crate) clock: Duration,
    pub(crate) members: Vec<MemberView>,
    pub(crate) moves: Vec<MoveView>,
    pub(crate) topics: BTreeMap<String, (TopicView, Vec<Partition>)>,
    pub(crate) addrs: BTreeMap<String, String>,
    pub(crate) dead: Vec<String>,
    pub(crate) salvage: SalvageView,
    pub(crate) shown: operate::Shown,
    pub(crate) leaderless: bool,
    pub(crate) unregistered: bool,
    /// Nodes that were taken out.
    pub(crate) removed: Vec<String>,
    /// What the next decommission is answered.
    pub(crate) decommission: Option<ServiceError>,
    pub(crate) faults: VecDeque<Fault>,
    /// Barriers that were asked for.
    pub(crate) barriers: u64,
    /// Produce requests held at once, and the most there were.
    pub(crate) producing: usize,
    pub(crate) producing_max: usize,
    /// Whether produce requests wait until somebody opens the gate.
    pub(crate) gate_shut: bool,
}

#[derive(Default)]
pub(crate) struct Cluster {
    state: Mutex<State>,
    changed: Notify,
}

/// One node of it.
pub(crate) struct Node {
    cluster: Arc<Cluster>,
    name: String,
}

impl Cluster {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the state")
    }

    /// Changes the state and tells those who wait for it.
    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_waiters();
    }

    /// Waits until the state is as told.
    pub(crate) async fn until(&self, mut holds: impl FnMut(&State) -> bool) {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if holds(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    /// A topic whose partitions belong to these nodes.
    pub(crate) fn topic(&self, topic: &str, owners: &[&str]) {
        let partitions = owners.iter().map(|owner| Partition {
            owner: (*owner).to_owned(),
            epoch: 1,
            ..Partition::default()
        });
        let view = TopicView {
            name: name(topic),
            id: TopicId(7),
            partitions: u32::try_from(owners.len()).expect("few"),
            parent: None,
        };
        self.change(|state| drop(state.topics.insert(topic.into(), (view, partitions.collect()))));
    }

    pub(crate) fn partition<T>(
        &self,
        topic: &str,
        partition: usize,
        change: impl FnOnce(&mut Partition) -> T,
    ) -> T {
        let mut result = None;
        self.change(|state| {
            let (_, partitions) = state.topics.get_mut(topic).expect("the topic exists");
            result = Some(change(&mut partitions[partition]));
        });
        result.expect("it was changed")
    }

    /// The values of a partition, in order.
    pub(crate) fn values(&self, topic: &str, partition: usize) -> Vec<String> {
        self.partition(topic, partition, |partition| {
            let text = |record: &Record| String::from_utf8_lossy(&record.value).into_owned();
            partition.records.iter().map(text).collect()
        })
    }

    /// The API of one node, without a socket.
    pub(crate) fn router(self: &Arc<Self>, node: &str, options: HttpOptions) -> Router {
        router(Arc::new(Node { cluster: self.clone(), name: node.into() }), options)
    }

    /// The same for those whom `access` lets in.
    pub(crate) fn guarded(
        self: &Arc<Self>,
        node: &str,
        options: HttpOptions,
        access: Arc<Access>,
    ) -> Router {
        guarded(Arc::new(Node { cluster: self.clone(), name: node.into() }), options, access)
    }

    /// A node on a socket; it stops when what is returned is dropped.
    pub(crate) async fn start(self: &Arc<Self>, node: &str) -> Running {
        let running = self.start_router(self.router(node, HttpOptions::default())).await;
        self.change(|state| drop(state.addrs.insert(node.into(), running.addr.clone())));
        running
    }
}

pub(crate) fn member(id: &str, node: u64) -> MemberView {
    MemberView {
        id: name(id),
        node: NodeId(node),
        addr: format!("10.0.0.{node}:7401"),
        peer_addr: format!("10.0.0.{node}:7400"),
        status: MemberStatus::Alive,
        draining: false,
        drained_out: false,
        role: Role::Voter,
        leader: node == 1,
        incarnation: Incarnation(2),
        owned_partitions: 4,
        inbound_moves: 0,
        outbound_moves: 0,
        bytes: None,
        free_bytes: None,
    }
}

impl Node {
    fn barrier(&self, read: Read) -> Result<(), ServiceError> {
        if read == Read::Stale {
            return Ok(());
        }
        self.cluster.change(|state| state.barriers += 1);
        if self.cluster.state().leaderless { Err(ServiceError::NoLeader) } else { Ok(()) }
    }

    /// Does something with a partition, if this node owns it.
    fn owned<T>(
        &self,
        topic: &str,
        partition: u32,
        with: impl FnOnce(&mut Partition) -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        let mut state = self.cluster.state();
        let State { topics, addrs, .. } = &mut *state;
        let (_, partitions) =
            topics.get_mut(topic).ok_or_else(|| ServiceError::UnknownTopic(topic.into()))?;
        let unknown = || ServiceError::UnknownPartition { topic: topic.into(), partition };
        let row = partitions.get_mut(partition as usize).ok_or_else(unknown)?;
        if row.owner != self.name {
            return Err(ServiceError::NotOwner { owner: addrs.get(&row.owner).cloned() });
        }
        with(row)
    }

    /// Waits for the gate and returns what is to go wrong.
    async fn pass_gate(&self) -> Option<Fault> {
        self.cluster.change(|state| {
            state.producing += 1;
            state.producing_max = state.producing_max.max(state.producing);
        });
        self.cluster.until(|state| !state.gate_shut).await;
        self.cluster.change(|state| state.producing -= 1);
        self.cluster.state().faults.pop_front()
    }

    /// Brings records to their partitions, whoever owns them.
    fn dispatch(
        &self,
        topic: &str,
        partition: Option<u32>,
        records: Vec<Record>,
    ) -> Result<(), ServiceError> {
        let mut state = self.cluster.state();
        let (_, partitions) =
            state.topics.get_mut(topic).ok_or_else(|| ServiceError::UnknownTopic(topic.into()))?;
        let count = u32::try_from(partitions.len()).expect("few");
        if let Some(partition) = partition.filter(|&partition| partition >= count) {
            return Err(ServiceError::UnknownPartition { topic: topic.into(), partition });
        }
        for record in records {
            let by_key = || record.key.as_ref().map_or(0, |key| partition_of(key, count));
            let index = partition.unwrap_or_else(by_key);
            partitions[index as usize].records.push(record);
        }
        drop(state);
        self.cluster.changed.notify_waiters();
        Ok(())
    }

    fn append(
        &self,
        topic: &str,
        partition: u32,
        records: Vec<Record>,
    ) -> Result<Produced, ServiceError> {
        let produced = self.owned(topic, partition, |row| {
            if row.frozen {
                return Err(ServiceError::Frozen);
            }
            let first_offset = Offset(row.records.len() as u64);
            row.records.extend(records);
            let next_offset = Offset(row.records.len() as u64);
            Ok(Produced { first_offset, next_offset, epoch: Epoch(row.epoch) })
        });
        self.cluster.changed.notify_waiters();
        produced
    }
}

#[async_trait]
impl Service for Node {
    async fn readiness(&self) -> Readiness {
        let ready = !self.cluster.state().unregistered;
        let removed = self.cluster.state().removed.contains(&self.name);
        Readiness { ready, removed, waiting: (!ready).then(|| "waits for a leader".into()) }
    }

    async fn members(&self, read: Read) -> Result<Vec<MemberView>, ServiceError> {
        self.barrier(read)?;
        Ok(self.cluster.state().members.clone())
    }

    async fn moves(&self, read: Read) -> Result<Vec<MoveView>, ServiceError> {
        self.barrier(read)?;
        Ok(self.cluster.state().moves.clone())
    }

    async fn decommission(&self, member: &str, on: bool) -> Result<(), ServiceError> {
        self.barrier(Read::Barrier)?;
        let mut state = self.cluster.state();
        if let Some(error) = state.decommission.take() {
            return Err(error);
        }
        let known = state.members.iter_mut().find(|known| known.id.as_str() == member);
        known.ok_or_else(|| ServiceError::UnknownMember(member.into()))?.draining = on;
        Ok(())
    }

    async fn declare_lost(&self, loss: NewLoss) -> Result<ReceiptView, ServiceError> {
        self.give_up(loss)
    }

    async fn salvage(&self, read: Read) -> Result<SalvageView, ServiceError> {
        self.barrier(read)?;
        Ok(self.cluster.state().salvage.clone())
    }

    async fn restore(&self, member: &str, id: &str) -> Result<AcceptedView, ServiceError> {
        self.restore_from(member, id)
    }

    async fn drop_quarantined(&self, member: &str, id: &str) -> Result<(), ServiceError> {
        self.drop_from(member, id)
    }

    async fn create_topic(&self, topic: NewTopic) -> Result<TopicView, ServiceError> {
        self.barrier(Read::Barrier)?;
        if self.cluster.state().topics.contains_key(topic.name.as_str()) {
            return Err(ServiceError::Rejected("the name is taken".into()));
        }
        let owners = vec![self.name.as_str(); topic.partitions as usize];
        self.cluster.topic(topic.name.as_str(), &owners);
        let mut state = self.cluster.state();
        let (view, _) = state.topics.get_mut(topic.name.as_str()).expect("just created");
        view.parent = topic.parent;
        Ok(view.clone())
    }

    async fn delete_topic(&self, topic: &str) -> Result<(), ServiceError> {
        self.barrier(Read::Barrier)?;
        let gone = self.cluster.state().topics.remove(topic);
        gone.map(drop).ok_or_else(|| ServiceError::UnknownTopic(topic.into()))
    }

    async fn topics(&self, read: Read) -> Result<Vec<TopicView>, ServiceError> {
        self.barrier(read)?;
        Ok(self.cluster.state().topics.values().map(|(view, _)| view.clone()).collect())
    }

    async fn routes(&self, topic: &str) -> Result<Vec<Route>, ServiceError> {
        let state = self.cluster.state();
        let unknown = || ServiceError::UnknownTopic(topic.into());
        let (_, partitions) = state.topics.get(topic).ok_or_else(unknown)?;
        let routes = partitions.iter().zip(0..).map(|(row, partition)| Route {
            partition,
            owner: name(&row.owner),
            addr: state.addrs.get(&row.owner).cloned().unwrap_or_default(),
            epoch: Epoch(row.epoch),
            serving_here: row.owner == self.name,
            alive: !state.dead.contains(&row.owner),
            moving: false,
        });
        Ok(routes.collect())
    }

    async fn move_partition(
        &self,
        topic: &str,
        partition: u32,
        to: &str,
    ) -> Result<(), ServiceError> {
        self.barrier(Read::Barrier)?;
        if !self.cluster.state().members.iter().any(|member| member.id.as_str() == to) {
            return Err(ServiceError::UnknownMember(to.into()));
        }
        self.owned(topic, partition, |row| {
            row.reigned.insert(row.epoch, std::mem::replace(&mut row.owner, to.into()));
            row.epoch += 1;
            Ok(())
        })
    }

    async fn accept(
        &self,
        topic: &str,
        partition: Option<u32>,
        records: Vec<Record>,
    ) -> Result<Accepted, ServiceError> {
        let fault = self.pass_gate().await;
        let hangs = match fault {
            Some(Fault::Refuse(error)) => return Err(error),
            Some(Fault::WriteAndHang) => true,
            None => false,
        };
        let accepted = records.len() as u64;
        self.dispatch(topic, partition, records)?;
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(Accepted { accepted })
    }

    async fn produce(
        &self,
        topic: &str,
        partition: u32,
        records: Vec<Record>,
    ) -> Result<Produced, ServiceError> {
        match self.pass_gate().await {
            Some(Fault::Refuse(error)) => Err(error),
            Some(Fault::WriteAndHang) => {
                self.append(topic, partition, records)?;
                std::future::pending().await
            }
            None => self.append(topic, partition, records),
        }
    }

    async fn fetch(
        &self,
        topic: &str,
        partition: u32,
        from: Position,
        _bytes_max: u64,
        wait: Duration,
    ) -> Result<Fetched, ServiceError> {
        self.read(topic, partition, from, wait).await
    }

    async fn ack(
        &self,
        topic: &str,
        partition: u32,
        epoch: Epoch,
        acks: AckSet,
    ) -> Result<(), ServiceError> {
        self.owned(topic, partition, |row| {
            if row.epoch < epoch.0 {
                return Err(ServiceError::Invalid("no such epoch has begun".into()));
            }
            if row.epoch != epoch.0 {
                return Err(ServiceError::StaleEpoch);
            }
            let up_to = acks.up_to.map(|offset| offset.0);
            row.committed = row.committed.max(up_to);
            Ok(())
        })?;
        self.cluster.changed.notify_waiters();
        Ok(())
    }

    async fn reserve(&self, topic: &str, wanted: Reserve) -> Result<Handed, ServiceError> {
        self.hand_out(topic, wanted).await
    }

    async fn skip(&self, topic: &str, partition: u32, skip: Skip) -> Result<Skipped, ServiceError> {
        self.give_up_damaged(topic, partition, skip)
    }

    async fn settle(
        &self,
        topic: &str,
        tickets: Vec<Ticket>,
        how: Settle,
    ) -> Result<Vec<Settled>, ServiceError> {
        self.settle_all(topic, tickets, how)
    }

    async fn offsets(&self, topic: &str, read: Read) -> Result<Vec<OffsetsView>, ServiceError> {
        self.offsets_of(topic, read)
    }
}
