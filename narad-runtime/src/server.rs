//! One whole node: a data directory, a replica, connections, the API.
//!
//! [`Server::start`] puts the parts together in the only order that is safe: the directory is
//! locked before anything is read, the next incarnation is durable before it is used, and nothing
//! listens before there is somebody to answer.

mod accepting;
mod book;
mod error;
mod history;
mod identity;
mod node_service;
mod notify;
mod opening;
mod pace;
mod policy;
mod rates;
mod receiving;
mod reload;
mod run;
mod securing;
mod sweeping;
mod topics;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use narad_core::effects::Effects;
use narad_core::ids::NodeId;
use narad_core::metastore::Addresses;
use narad_core::node::{Effect, Identity as NodeIdentity, Node};
use narad_core::peer::Request;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::broker::Broker;
use crate::clock::BootClock;
use crate::copy::LiveBytes;
use crate::foreground::Foreground;
use crate::http::{self, Access, Audit};
use crate::log::LogLimits;
use crate::metrics::Metrics;
use crate::net::{Identity, Seams, Transport};
use crate::node_loop::failpoint;
use crate::node_loop::{Counters, Ground, Hands, HandsSeams, NodeHandle, NodeLoop, Telemetry};
use crate::replica::{Actions, Replica, ReplicaError};
use crate::service::Service;
use crate::settings::Settings;
use crate::store::data_dir::DataDir;
use crate::store::{PartitionStore, SegmentStore};
use crate::tls::ClientTls;
use crate::transfer::{self, Client};
use crate::wire::handshake::ClusterId;

use accepting::Accepting;
use book::{Book, Clerk};
pub use error::ServerError;
use history::{History, Recorder};
pub use node_service::NodeService;
use node_service::Steering;
use opening::{open_raft, open_store};
use pace::Pace;
use policy::check_policy;
use rates::Rates;
use receiving::Receiving;
pub use reload::Reloaded;
pub use run::run;
use sweeping::sweep_trash;
use topics::Topics;

/// What a node does when its data directory is new. One that belongs to a cluster already goes on
/// in it, whatever is said here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Goes on; a new data directory is an error.
    Resume,
    /// Founds a cluster.
    Bootstrap,
    /// Joins the cluster that one of these nodes belongs to, given by their peer addresses. A node
    /// that has joined already looks for the others there if it knows nobody at such an address.
    Join(Vec<String>),
}

/// A running node.
pub struct Server {
    handle: NodeHandle,
    counters: Arc<Counters>,
    service: Arc<NodeService>,
    node: NodeId,
    peer_addr: SocketAddr,
    http_addr: SocketAddr,
    transport: Arc<Transport>,
    bulk: Arc<transfer::Server>,
    accepting: Option<Accepting>,
    cancel: CancellationToken,
    thread: Option<JoinHandle<Result<(), ReplicaError>>>,
    /// The same, once somebody waits for it.
    joining: Option<tokio::task::JoinHandle<std::thread::Result<Result<(), ReplicaError>>>>,
    http: tokio::task::JoinHandle<io::Result<()>>,
    access: Arc<Access>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { node, peer_addr, http_addr, .. } = self;
        f.debug_struct("Server")
            .field("node", node)
            .field("peer_addr", peer_addr)
            .field("http_addr", http_addr)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// How long a node that founds or joins a cluster waits for each answer.
    const ADMISSION_TIMEOUT: Duration = Duration::from_secs(10);

    /// Starts a node on the runtime that the caller runs on, and returns once it serves its API.
    /// Whether it takes part in the cluster yet is another matter; see [`Server::ready`].
    ///
    /// # Errors
    ///
    /// See [`ServerError`]; nothing is left running then.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn start(settings: &Settings, start: Start) -> Result<Self, ServerError> {
        failpoint::arm_from_environment()?;
        settings.node.check(&settings.policy)?;
        let name = settings.name.clone().ok_or(ServerError::Nameless)?;
        let tls = securing::open(settings, &name)?;
        let mut data_dir = DataDir::open(&settings.data_dir, &name)?;
        let peer = listen(&settings.listen.peer).await?;
        let http = listen(&settings.listen.http).await?;
        let addrs = addresses(settings, &peer, &http);
        let (listens, policy) = (peer.local_addr().ok(), &settings.policy);
        let admitted =
            identity::admit(&mut data_dir, &name, &addrs, listens, policy, &start, tls.as_ref())
                .await?;

        let audit = Audit::open(&settings.data_dir, name.as_str(), &settings.audit);
        let audit = audit.map_err(|source| ServerError::Audit { source })?;
        let access = Access::new(settings.auth.tokens.clone()).audited(Arc::new(audit));
        let access = Arc::new(access);

        let clock = BootClock::new();
        let has_started = data_dir.has_started()?;
        let me = NodeIdentity { node: admitted.node, name, store_uuid: admitted.store_uuid, addrs };
        let log = open_store(settings, &me, admitted.founder, has_started)?;
        if !has_started {
            accepting::create(&*data_dir.disk())?;
        }
        let life = data_dir.next_incarnation()?;
        let (raft, state) = open_raft(settings, admitted.node, life, log)?;
        let store: Arc<dyn PartitionStore> = Arc::new(SegmentStore::new(
            data_dir.disk(),
            LogLimits { segment_bytes: settings.log.segment_bytes, ..LogLimits::default() },
        )?);
        let found = store.recover()?;
        for problem in &found.problems {
            tracing::warn!(path = %problem.path.display(), problem.why, "left as it is");
        }
        let held = found.partitions.iter().map(|(partition, _)| *partition).collect();

        let book = Arc::new(Book::new(admitted.peers));
        book.learn(&state);
        let topics = Arc::new(Topics::default());
        topics.learn(&state);
        let disk = data_dir.disk();
        let data_dir = Arc::new(Mutex::new(data_dir));
        let (history, pace) = (Arc::new(History::default()), Arc::new(Pace::default()));
        let foreground = Arc::new(Foreground::default());
        let first = Some(Arc::clone(&foreground)).filter(|_| settings.transfer.yields_to_producers);
        let rates = Rates::new(admitted.node, &state, first);
        let ground = Arc::new(Ground::new(clock));
        let broker = Broker::with_limits(Arc::clone(&ground) as _, settings.consumers.limits());
        let broker = Arc::new(broker.timed_by(Arc::clone(&foreground)));
        let who = Identity {
            cluster: admitted.cluster,
            node: admitted.node,
            store_uuid: admitted.store_uuid,
        };

        let (inbox, letters) = std::sync::mpsc::channel();
        let handle = NodeHandle::new(inbox);
        let (accepting, waiting) = accepting::open(disk, settings, &handle, &foreground)?;
        let ingress = Arc::clone(&accepting.ingress);
        let cancel = CancellationToken::new();
        let transfer = transfer::Settings {
            handshake_timeout: settings.peers.handshake_timeout,
            tls: tls.clone(),
            ..transfer::Settings::default()
        };
        let bulk = Arc::new(transfer::Server::new(
            Arc::new(LiveBytes::new(Arc::clone(&broker))),
            Arc::clone(&rates.leaving),
            transfer.clone(),
        ));
        let seams = Seams {
            directory: Arc::clone(&book) as _,
            inbound: Arc::new(handle.clone()),
            bulk: Some(Arc::clone(&bulk) as _),
            deliveries: Some(Arc::new(Receiving::new(
                Arc::clone(&broker),
                handle.clone(),
                Handle::current(),
            ))),
        };
        let (counters, metrics) = (Arc::new(Counters::default()), Arc::new(Metrics::new()));
        let peer_addr = local(&peer)?;
        let net = crate::net::Settings {
            listens_at: Some(me.addrs.peer.clone()),
            congestion: settings.transfer.congestion(),
            handshake_timeout: settings.peers.handshake_timeout,
            strangers_max: usize::try_from(settings.peers.handshakes_max).unwrap_or(usize::MAX),
            idle_timeout: settings.peers.idle_timeout,
            tls: tls.clone(),
            refused: metrics.refused(),
            ..crate::net::Settings::default()
        };
        let transport = Arc::new(Transport::start(who, peer, seams, net, &cancel));
        let at = if let Start::Join(at) = start { at.clone() } else { Vec::new() };
        let (told, by) = (Arc::clone(&book), Arc::clone(&transport));
        let NodeIdentity { name, store_uuid, addrs, .. } = me.clone();
        let again = Request::Join { name, store_uuid, addrs };
        tokio::spawn(book::announce(at, again, told, by, handle.clone()));
        let client =
            Client::new(who, Arc::clone(&book) as _, Arc::clone(&rates.arriving), transfer);
        let hands = Hands::new(
            HandsSeams {
                transport: Arc::clone(&transport),
                client: Arc::new(client),
                store: Arc::clone(&store),
                broker: Arc::clone(&broker),
                ingress: Arc::clone(&ingress),
                ground,
                next_life: next_life(&data_dir),
                runtime: Handle::current(),
                request_timeout: settings.node.request_timeout,
            },
            &handle,
        );

        let now = clock.now();
        let (mut first, mut actions) = (Effects::default(), Actions::default());
        let mut node = Node::new(now, me, life, settings.node.clone(), state, held, &mut first);
        node.keep_journals();
        waiting.resume(&mut node, &mut first)?;
        let timeout = settings.node.request_timeout;
        let replica = Replica::new(now, raft, node, timeout, &mut first, &mut actions)?;
        // Nothing listens yet, but whoever starts a node may ask it at once.
        let room = actions.effects.iter().rev().find_map(|effect| match effect {
            Effect::Room(room) => Some(*room),
            _ => None,
        });
        if let Some(room) = room {
            ingress.door().publish(room);
        }
        let clerk = Clerk::new(
            Arc::clone(&book),
            Arc::clone(&topics),
            rates.clone(),
            Arc::clone(&history),
            Arc::clone(&data_dir),
        );
        let next = (Telemetry::new(Arc::clone(&counters)), Arc::clone(&metrics));
        let recorder = Recorder { history: Arc::clone(&history), next };
        let thread = NodeLoop::new(
            replica,
            letters,
            hands,
            clock,
            settings.raft.tick,
            Box::new(clerk),
            Box::new(recorder),
        )
        .begin(actions)
        .map_err(ServerError::Thread)?;

        let http_addr = local(&http)?;
        let refused = metrics.refused();
        let service = Arc::new(NodeService::new(
            handle.clone(),
            Arc::clone(&broker),
            Arc::clone(&store),
            admitted.node,
            Arc::clone(&ingress),
            topics,
            Steering {
                clock,
                metrics,
                rates,
                history,
                pace: Arc::clone(&pace),
                sizes: Arc::default(),
                book,
                tls: tls.as_ref().map(ClientTls::of_node),
            },
        ));
        let router = http::guarded(
            Arc::clone(&service) as Arc<dyn Service>,
            settings.http.clone(),
            Arc::clone(&access),
        );
        let connections =
            http::Connections { tls: tls.clone(), refused, ..settings.connections.clone() };
        let ended = cancel.clone().cancelled_owned();
        let http = tokio::spawn(http::serve(http, router, connections, ended));
        if let Some(tls) = tls.clone() {
            tokio::spawn(crate::tls::watch(tls, settings.tls.poll_interval, cancel.clone()));
        }
        tokio::spawn(ingress.keep_open(cancel.clone()));
        tokio::spawn(pace.watch(handle.clone(), cancel.clone()));
        tokio::spawn(sweep_trash(store, settings.node.quarantine, cancel.clone()));
        tokio::spawn(flush_positions(Arc::clone(&broker), cancel.clone()));

        Ok(Self {
            handle,
            counters,
            service,
            node: admitted.node,
            peer_addr,
            http_addr,
            transport,
            bulk,
            accepting: Some(accepting),
            cancel,
            thread: Some(thread),
            joining: None,
            http,
            access,
        })
    }

    /// Waits until the node takes part in the cluster.
    ///
    /// # Errors
    ///
    /// If it ends before that, or its file's policy is not the cluster's.
    pub async fn ready(&self, settings: &Settings) -> Result<(), ServerError> {
        let tick = settings.raft.tick;
        while !self.handle.query(Node::is_registered).await? {
            tokio::time::sleep(tick).await;
        }
        let cluster = self.handle.query(|node| node.state().policy().clone()).await?;
        check_policy(&settings.policy, &cluster)
    }

    /// Returns the node's id.
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Returns where other nodes reach it.
    pub const fn peer_addr(&self) -> SocketAddr {
        self.peer_addr
    }

    /// Returns where operators and clients reach it.
    pub const fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Returns the way to ask the node.
    pub const fn handle(&self) -> &NodeHandle {
        &self.handle
    }

    /// Returns the node's service, for an API of the embedder's own.
    pub fn service(&self) -> Arc<NodeService> {
        Arc::clone(&self.service)
    }

    /// Returns what the node has done so far.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Waits until the node cannot go on, or was stopped. Never returns before that; whoever stops
    /// waiting may wait again.
    ///
    /// # Errors
    ///
    /// Why it cannot go on.
    ///
    /// # Panics
    ///
    /// If the node's thread did.
    pub async fn ended(&mut self) -> Result<(), ServerError> {
        if let Some(thread) = self.thread.take() {
            self.joining = Some(tokio::task::spawn_blocking(move || thread.join()));
        }
        let Some(joining) = &mut self.joining else { return Ok(()) };
        let ended = joining.await;
        self.joining = None;
        match ended {
            Ok(Ok(result)) => Ok(result?),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => Ok(()),
        }
    }

    /// Stops the node: no more requests, no more connections. Nothing is lost by it, and nothing
    /// by a stop without it.
    ///
    /// # Errors
    ///
    /// What the node ended with, if it could not go on before.
    pub async fn shutdown(mut self) -> Result<(), ServerError> {
        // While the way to the owners is open: what they answer now is not sent to them again.
        self.handle.finish();
        let ended = self.ended().await;
        self.cancel.cancel();
        self.transport.shutdown().await;
        let bulk = Arc::clone(&self.bulk);
        drop(tokio::task::spawn_blocking(move || bulk.stop()).await);
        // Requests under way are answered first.
        drop((&mut self.http).await);
        let access = Arc::clone(&self.access);
        drop(tokio::task::spawn_blocking(move || access.close()).await);
        // Nothing is acknowledged any more.
        self.service.store_positions().await;
        if let Some(accepting) = self.accepting.take() {
            drop(tokio::task::spawn_blocking(move || accepting.close()).await);
        }
        ended
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.handle.stop();
    }
}

fn next_life(data_dir: &Arc<Mutex<DataDir>>) -> crate::node_loop::NextLife {
    let data_dir = Arc::clone(data_dir);
    Arc::new(move || {
        let data_dir = data_dir.lock().unwrap_or_else(PoisonError::into_inner);
        let next = data_dir.next_incarnation();
        next.inspect_err(|error| tracing::error!(%error, "cannot begin the next life")).ok()
    })
}

/// Makes consumers' positions durable now and then; what a crash takes is delivered again (R53).
async fn flush_positions(broker: Arc<Broker>, cancel: CancellationToken) {
    const PAUSE: Duration = Duration::from_secs(1);
    while cancel.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
        let broker = Arc::clone(&broker);
        if tokio::task::spawn_blocking(move || broker.flush_positions()).await.is_err() {
            return;
        }
    }
}

async fn listen(address: &str) -> Result<TcpListener, ServerError> {
    let fail = |source| ServerError::Listen { address: address.to_owned(), source };
    TcpListener::bind(address).await.map_err(fail)
}

fn local(listener: &TcpListener) -> Result<SocketAddr, ServerError> {
    let fail = |source| ServerError::Listen { address: "a port".to_owned(), source };
    listener.local_addr().map_err(fail)
}

/// Returns what others are told: what the settings say, or where the node really listens.
fn addresses(settings: &Settings, peer: &TcpListener, http: &TcpListener) -> Addresses {
    let told = |wanted: &Option<String>, listener: &TcpListener| {
        let real = || listener.local_addr().map(|addr| addr.to_string()).unwrap_or_default();
        wanted.clone().unwrap_or_else(real)
    };
    Addresses {
        peer: told(&settings.advertise.peer, peer),
        http: told(&settings.advertise.http, http),
    }
}

/// Returns the cluster id that a founder draws.
fn draw_cluster() -> ClusterId {
    let mut bytes = [0; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(bytes.len()), "the kernel gives sixteen random bytes");
    ClusterId(u128::from_be_bytes(bytes))
}
