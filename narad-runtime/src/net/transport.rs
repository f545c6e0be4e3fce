//! The transport's face: one per node.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use narad_core::dispatch::SendFault;
use narad_core::ids::{NodeId, StoreUuid};
use narad_core::peer::{Answer, Request};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::accept;
use super::call::{Answered, CallError, ReplySender};
use super::link::{self, Batches, Control, Link, Talk};
use super::socket::TcpListener;
use super::strangers::{Refusals, Strangers};
use super::{Bulk, Deliveries, Delivery, DeliveryReply, Directory, Inbound, Settings, lock};
use crate::copy::Reach;
use crate::wire::frame::RECORDS_BYTES_MAX;
use crate::wire::handshake::{ClusterId, Hello, Purpose, VERSION_MAX, VERSION_MIN};

/// Who this node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its id.
    pub node: NodeId,
    /// The identity of its disk.
    pub store_uuid: StoreUuid,
}

impl Identity {
    /// Returns what this node says first on a connection, but for where it listens.
    pub fn hello(&self, purpose: Purpose) -> Hello {
        Hello {
            versions: (u32::from(VERSION_MIN), u32::from(VERSION_MAX)),
            cluster: Some(self.cluster),
            node: Some(self.node),
            store_uuid: self.store_uuid,
            purpose,
            listens_at: None,
        }
    }
}

/// What the transport is bound to.
#[derive(Clone)]
pub struct Seams {
    /// Who the others are.
    pub directory: Arc<dyn Directory>,
    /// Where their messages go.
    pub inbound: Arc<dyn Inbound>,
    /// Where bulk connections go; without it they are refused.
    pub bulk: Option<Arc<dyn Bulk>>,
    /// Where batches of accepted records go; without it they are refused.
    pub deliveries: Option<Arc<dyn Deliveries>>,
}

impl fmt::Debug for Seams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seams").field("bulk", &self.bulk.is_some()).finish_non_exhaustive()
    }
}

/// The connections of one node. Ends with its token, or when it is dropped.
#[derive(Debug)]
pub struct Transport {
    shared: Arc<Shared>,
}

type Links<T> = HashMap<NodeId, Arc<Link<T>>>;

/// What one permit of [`Shared::room`] stands for, in bytes.
pub(crate) const ROOM_BYTES: usize = 1024;

/// What the tasks of one transport have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) identity: Identity,
    pub(crate) settings: Settings,
    pub(crate) seams: Seams,
    pub(crate) cancel: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) strangers: Strangers,
    pub(crate) refusals: Refusals,
    pub(crate) joiners: Arc<Semaphore>,
    pub(crate) snapshots: Arc<Semaphore>,
    /// Room for batches that are arriving, in units of [`ROOM_BYTES`].
    pub(crate) room: Arc<Semaphore>,
    links: Mutex<Links<Control>>,
    deliveries: Mutex<Links<Batches>>,
    /// The one connection of each lasting kind that each peer may have to this node.
    accepted: Mutex<HashMap<(NodeId, Purpose), (u64, CancellationToken)>>,
    serial: AtomicU64,
    runtime: Handle,
}

impl Transport {
    /// Starts to accept connections, on the runtime that the caller runs on. `cancel` ends it.
    ///
    /// # Panics
    ///
    /// If the caller does not run on a tokio runtime.
    pub fn start(
        identity: Identity,
        listener: TcpListener,
        seams: Seams,
        settings: Settings,
        cancel: &CancellationToken,
    ) -> Self {
        let shared = Arc::new(Shared {
            strangers: Strangers::new(settings.strangers_max),
            refusals: Refusals::on("peer", settings.refused.clone()),
            joiners: Arc::new(Semaphore::new(settings.joiners_max)),
            snapshots: Arc::new(Semaphore::new(settings.snapshots_max)),
            room: Arc::new(Semaphore::new(
                settings.delivery_bytes_max.max(RECORDS_BYTES_MAX) / ROOM_BYTES,
            )),
            identity,
            settings,
            seams,
            cancel: cancel.child_token(),
            tasks: TaskTracker::new(),
            links: Mutex::default(),
            deliveries: Mutex::default(),
            accepted: Mutex::default(),
            serial: AtomicU64::new(0),
            runtime: Handle::current(),
        });
        shared.spawn(accept::run(Arc::clone(&shared), listener));
        Self { shared }
    }

    /// Sends a request and waits for its answer. A request to this node itself takes no detour
    /// over the network.
    ///
    /// # Errors
    ///
    /// Any [`CallError`] but `Refused`; [`CallError::outcome_is_unknown`] tells whether the request
    /// may have had an effect.
    pub async fn call(
        &self,
        to: NodeId,
        request: &Request,
        limit: Duration,
    ) -> Result<Answer, CallError> {
        Ok(self.call_with(to, request, None, limit).await?.answer)
    }

    /// As [`Self::call`]; a request to freeze may say how far its partition is copied, and what lies
    /// beyond may come with the answer.
    ///
    /// # Errors
    ///
    /// As [`Self::call`].
    pub async fn call_with(
        &self,
        to: NodeId,
        request: &Request,
        reach: Option<Reach>,
        limit: Duration,
    ) -> Result<Answered, CallError> {
        let outcome = async {
            if to == self.shared.identity.node {
                let (reply, answer) = ReplySender::local();
                self.shared.seams.inbound.request(Some(to), request.clone(), reply);
                return answer.await.unwrap_or(Err(CallError::Closed));
            }
            self.shared.link(to).call((request, reach), &self.shared.settings).await
        };
        tokio::time::timeout(limit, outcome).await.map_err(|_| CallError::TimedOut)?
    }

    /// Brings a batch to the owner of its partition and waits for the answer, but not beyond `end`.
    /// A batch for this node itself takes no detour over the network.
    ///
    /// # Errors
    ///
    /// What the owner says; [`SendFault::Unreachable`] if nothing of the batch has left this node,
    /// [`SendFault::TimedOut`] if it may have been taken.
    pub async fn deliver(
        &self,
        to: NodeId,
        delivery: Delivery,
        end: impl Future<Output = ()>,
    ) -> Result<(), SendFault> {
        if to != self.shared.identity.node {
            let link = self.shared.delivery_link(to);
            return link.deliver(&delivery, &self.shared.settings, end).await;
        }
        let Some(deliveries) = &self.shared.seams.deliveries else {
            return Err(SendFault::NotServing);
        };
        let (reply, answer) = DeliveryReply::local();
        deliveries.deliver(delivery, reply);
        tokio::select! {
            biased;
            answered = answer => answered.unwrap_or(Err(SendFault::TimedOut)),
            () = end => Err(SendFault::TimedOut),
        }
    }

    /// Opens the connection to a peer if there is none, so that it hears where this node listens.
    pub fn open(&self, peer: NodeId) {
        if peer != self.shared.identity.node {
            self.shared.link(peer).open(&self.shared.settings);
        }
    }

    /// Finds out who listens at an address, and tells the directory on both sides. For a node that
    /// came back while nobody is where the others remember it.
    ///
    /// # Errors
    ///
    /// Why there was no handshake, for people: another cluster, a stranger, nobody.
    pub async fn meet(&self, address: &str) -> Result<NodeId, String> {
        let met = link::meet(&self.shared, address).await;
        met.map_err(|error| error.to_string())
    }

    /// Sends a Raft message, from any thread, without waiting. If it is lost on this side, the
    /// inbound seam hears that the peer is unreachable, or that the snapshot was not sent.
    pub fn send_raft(&self, to: NodeId, bytes: Bytes, is_snapshot: bool) {
        if to == self.shared.identity.node {
            return;
        }
        let link = self.shared.link(to);
        if is_snapshot {
            self.send_snapshot(&link, bytes);
        } else if !link.send_raft(bytes, &self.shared.settings) {
            self.shared.seams.inbound.unreachable(to);
        }
    }

    fn send_snapshot(&self, link: &Arc<Link>, bytes: Bytes) {
        // Raft sends one at a time to one peer; a second one means that it gave up the first.
        if link.begin_snapshot() {
            let shared = Arc::clone(&self.shared);
            self.shared.spawn(link::send_snapshot(shared, Arc::clone(link), bytes));
        } else {
            self.shared.seams.inbound.snapshot_sent(link.peer(), false);
        }
    }

    /// Ends the connections with a peer, for example because it has been removed. They come back
    /// if either side has something to say and the directory still admits it.
    pub fn disconnect(&self, peer: NodeId) {
        for purpose in [Purpose::Control, Purpose::Delivery] {
            if let Some((_, token)) = lock(&self.shared.accepted).remove(&(peer, purpose)) {
                token.cancel();
            }
        }
        if let Some(link) = lock(&self.shared.links).get(&peer) {
            link.reset();
        }
        if let Some(link) = lock(&self.shared.deliveries).get(&peer) {
            link.reset();
        }
    }

    /// Ends all connections and waits until every task has ended.
    pub async fn shutdown(&self) {
        self.shared.cancel.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.shared.cancel.cancel();
    }
}

impl Shared {
    /// Runs a task of this transport, from any thread.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// Returns the link to a peer, made at first use.
    fn link(self: &Arc<Self>, to: NodeId) -> Arc<Link> {
        self.link_of(&self.links, to)
    }

    /// Returns the link over which batches go to a peer, made at first use.
    fn delivery_link(self: &Arc<Self>, to: NodeId) -> Arc<Link<Batches>> {
        self.link_of(&self.deliveries, to)
    }

    fn link_of<T: Talk>(self: &Arc<Self>, links: &Mutex<Links<T>>, to: NodeId) -> Arc<Link<T>> {
        let mut links = lock(links);
        if let Some(link) = links.get(&to) {
            return Arc::clone(link);
        }
        let (link, queue) = Link::new(to, &self.settings);
        let link = Arc::new(link);
        links.insert(to, Arc::clone(&link));
        self.spawn(link::run(Arc::clone(self), Arc::clone(&link), queue));
        link
    }

    /// Notes a peer's new connection of a lasting kind, which ends its older one: a peer has one, so
    /// the older is dead whether or not this side has noticed.
    pub(crate) fn begin(&self, from: NodeId, purpose: Purpose) -> (u64, CancellationToken) {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let token = self.cancel.child_token();
        if let Some((_, older)) =
            lock(&self.accepted).insert((from, purpose), (serial, token.clone()))
        {
            older.cancel();
        }
        // Whoever dials us is up: no need to wait out a pause.
        if let Some(link) = lock(&self.links).get(&from) {
            link.wake();
        }
        if let Some(link) = lock(&self.deliveries).get(&from) {
            link.wake();
        }
        (serial, token)
    }

    /// Notes the end of such a connection.
    pub(crate) fn end(&self, from: NodeId, purpose: Purpose, serial: u64) {
        let mut accepted = lock(&self.accepted);
        if accepted.get(&(from, purpose)).is_some_and(|&(present, _)| present == serial) {
            accepted.remove(&(from, purpose));
        }
    }
}
