//! Starts a node: who it is, what the cluster agrees on, and the tasks that it consists of.

use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use narad_core::config::{Config, Policy};
use narad_core::effects::Effects;
use narad_core::freeze::gate::Authority;
use narad_core::ids::{Incarnation, LogIndex, Name, NodeId, Offset, ProposalId, StoreUuid};
use narad_core::metastore::{Addresses, Command, Entry, State};
use narad_core::node::{Identity, Node};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::error::StartError;
use super::follow::{Shared, follow, see_to_a_leader};
use super::hands::{Hands, Parts};
use super::ledger::Record;
use super::metastore::{Metastore, Proposed};
use super::names;
use super::narad::{Narad, Running, sweep};
use super::note::NodeNote;
use super::peer::{Inbound, Peer, Whom};
use super::seat::Ground;
use super::seats::Seats;
use super::service::{Service, blocking};
use super::store::{NOTE_BYTES_MAX, PartitionStore, RECORD_BYTES_MAX};
use super::thinker::Thinker;
use super::throttle::Throttle;
use super::vault::Vault;
use crate::clock::{BootClock, Clock};
use crate::node_loop::{Counters, NodeHandle, NodeLoop, Telemetry, Watcher};

/// Puts a node together; made by [`Narad::builder`].
#[derive(Default)]
#[must_use = "nothing runs before `start`"]
pub struct Builder {
    name: Option<Name>,
    address: String,
    store: Option<Arc<dyn PartitionStore>>,
    metastore: Option<Arc<dyn Metastore>>,
    peer: Option<Arc<dyn Peer>>,
    clock: Option<Arc<dyn Clock>>,
    config: Option<Config>,
    policy: Option<Policy>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Builder {
    /// Range of one copy request: what one message between nodes carries of a partition.
    const COPY_BYTES: u64 = 4 * RECORD_BYTES_MAX as u64;
    /// How long starting may wait for the metastore, in request timeouts.
    const START_PATIENCE: u32 = 6;

    /// What people call the node; unique in its cluster. Needed.
    pub fn name(mut self, name: Name) -> Self {
        self.name = Some(name);
        self
    }

    /// Where the node is to be reached, in words of its [`Peer`]; other nodes' peers are given it.
    /// At most 255 bytes. Empty by default, for transports that go by the name.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = address.into();
        self
    }

    /// Where records are kept. Needed. A store belongs to one node for ever: it says who the node is.
    pub fn store(mut self, store: impl PartitionStore) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// What decides. Needed; the same for all nodes of a cluster.
    pub fn metastore(mut self, metastore: impl Metastore) -> Self {
        self.metastore = Some(Arc::new(metastore));
        self
    }

    /// How other nodes are reached. Needed.
    pub fn peer(mut self, peer: impl Peer) -> Self {
        self.peer = Some(Arc::new(peer));
        self
    }

    /// What time it is. [`BootClock`] by default.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// What this node decides for itself. `Config::new` by default, seeded by the name.
    ///
    /// Whatever it says, a copy has one request under way at a time, of at most 4 MiB, since records are
    /// appended to the copy in their order.
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// What the cluster agrees on: taken by the first node of a cluster, and compared by all others.
    /// By default whatever the cluster has, and `Policy::default` for a new one.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Starts the node on the tokio runtime that the caller runs on, as a member of the cluster whose
    /// metastore it was given; the first one founds it. Whether it takes part yet is another matter,
    /// see [`Narad::ready`].
    ///
    /// # Errors
    ///
    /// See [`StartError`]; nothing is left running then.
    pub async fn start(self) -> Result<Narad, StartError> {
        let runtime = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let missing = |part| StartError::Missing { part };
        let name = self.name.ok_or(missing("name"))?;
        let store = self.store.ok_or(missing("store"))?;
        let metastore = self.metastore.ok_or(missing("metastore"))?;
        let peer = self.peer.ok_or(missing("peer"))?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(BootClock::new()));
        let mut config = self.config.unwrap_or_else(|| Config::new(seed(&name)));
        config.chunks_in_flight_max = 1;
        config.chunk_bytes_max = config.chunk_bytes_max.min(Self::COPY_BYTES);
        let policy = self.policy.clone().unwrap_or_default();
        config.check(&policy)?;
        policy.check()?;

        let (inbox, letters) = std::sync::mpsc::channel();
        let handle = NodeHandle::new(inbox);
        let cancel = CancellationToken::new();
        // Whatever ends the start early ends what it has begun.
        let guard = cancel.clone().drop_guard();
        let shared = Arc::new(Shared::new(Arc::clone(&clock), config.request_timeout));
        let following =
            follow(Arc::clone(&shared), Arc::clone(&metastore), handle.mailbox(), cancel.clone());
        runtime.spawn(following);

        let starting = Starting {
            shared: &shared,
            metastore: &*metastore,
            patience: config.request_timeout * Self::START_PATIENCE,
        };
        starting.agree(&policy, self.policy.is_some()).await?;
        let opening = open_identity(Arc::clone(&store));
        let identity = blocking(&runtime, opening).await.ok_or(StartError::NoRuntime)??;
        let addrs = Addresses { peer: self.address.clone(), http: String::new() };
        let node = starting.join(&name, identity.store_uuid, &addrs).await?;
        let life = NodeNote { node, incarnation: identity.incarnation.next(), ..identity };
        let (kept, held) = (Arc::clone(&store), held_partitions(Arc::clone(&store)));
        let begin = async move {
            kept.write_note(names::NODE, life.encode()).await?;
            held.await
        };
        let held = blocking(&runtime, begin).await.ok_or(StartError::NoRuntime)??;

        let authority = RwLock::new(Authority::NONE);
        let ground = Arc::new(Ground { clock: Arc::clone(&clock), authority });
        let seats = Arc::new(Seats::new(ground, Arc::clone(&store)));
        let parts = Arc::new(Parts {
            me: node,
            vault: Vault::new(Arc::clone(&store)),
            store,
            metastore: Arc::clone(&metastore),
            peer: Arc::clone(&peer),
            seats: Arc::clone(&seats),
            shared: Arc::clone(&shared),
            throttle: Throttle::default(),
            identity: tokio::sync::Mutex::new(life),
            request_timeout: config.request_timeout,
        });
        let (mailbox, at) = (handle.mailbox(), runtime.clone());
        let service = Arc::new(Service::Node { mailbox, seats, runtime: at });
        let me = Whom { node, name: name.clone(), address: self.address };
        let inbound = Inbound { me, service: Arc::downgrade(&service) };
        peer.start(inbound).await.map_err(|reason| StartError::Peer { reason })?;

        let me = Identity { node, name, store_uuid: life.store_uuid, addrs };
        let mut first = Effects::default();
        let now = clock.now();
        // Everything that was decided so far waits in the inbox already.
        let state = State::new();
        let heartbeat = config.heartbeat_interval;
        let quarantine = config.quarantine;
        let machines = Node::new(now, me, life.incarnation, config, state, held, &mut first);
        let counters = Arc::new(Counters::default());
        let thread = NodeLoop::bind(
            Thinker { node: machines },
            letters,
            Hands::new(Arc::clone(&parts), handle.mailbox(), runtime.clone()),
            clock,
            Duration::from_secs(1),
            Box::new(Unwatched),
            Box::new(Telemetry::new(Arc::clone(&counters))),
        )
        .spawn(first.drain().collect())
        .map_err(|error| StartError::Thread { reason: error.to_string() })?;
        let leading = see_to_a_leader(shared, metastore, node, heartbeat, cancel.clone());
        runtime.spawn(leading);
        runtime.spawn(sweep(Arc::clone(&parts), runtime.clone(), quarantine, cancel.clone()));
        guard.disarm();
        Ok(Narad::new(Running { parts, handle, service, counters, cancel, runtime }, thread))
    }
}

/// What a start does with the metastore.
struct Starting<'a> {
    shared: &'a Shared,
    metastore: &'a dyn Metastore,
    patience: Duration,
}

impl Starting<'_> {
    const PAUSE: Duration = Duration::from_millis(100);

    /// Sees to it that the cluster is founded, and that it agrees with what was given.
    async fn agree(&self, policy: &Policy, is_given: bool) -> Result<(), StartError> {
        let until = tokio::time::Instant::now() + self.patience;
        let mut refused = None;
        loop {
            let reached = self.shared.barrier(self.metastore).await;
            if let Some(error) = self.shared.failed() {
                return Err(error.into());
            }
            match reached {
                Some(LogIndex(0)) => refused = self.propose(Record::Found(policy.clone())).await,
                Some(_) => break,
                None => {}
            }
            if tokio::time::Instant::now() >= until {
                return Err(gave_up(refused, "a barrier"));
            }
            tokio::time::sleep(Self::PAUSE).await;
        }
        let agreed = self.shared.ledger().state().policy().clone();
        if is_given && agreed != *policy { Err(StartError::PolicyDiffers) } else { Ok(()) }
    }

    /// Becomes a member, or finds the member that the store already is.
    async fn join(
        &self,
        name: &Name,
        store_uuid: StoreUuid,
        addrs: &Addresses,
    ) -> Result<NodeId, StartError> {
        let until = tokio::time::Instant::now() + self.patience;
        let mut refused = None;
        loop {
            if self.shared.barrier(self.metastore).await.is_some() {
                let found = {
                    let ledger = self.shared.ledger();
                    let state = ledger.state();
                    let own = state.member_of_store(store_uuid);
                    let taken = state.member_named(name.as_str()).is_some();
                    own.map(|own| (own.id, own.retired)).ok_or(taken)
                };
                match found {
                    Ok((node, true)) => return Err(StartError::Retired { node }),
                    Ok((node, false)) => return Ok(node),
                    Err(true) => return Err(StartError::NameTaken { name: name.clone() }),
                    Err(false) => {}
                }
                // Of nobody yet; which of two such entries is whose shows by the store.
                let sequence = u64::try_from(store_uuid.0 >> 65).unwrap_or_default();
                let (by, incarnation) = (NodeId(0), Incarnation(0));
                let proposal = ProposalId { node: by, incarnation, sequence };
                let (name, addrs) = (name.clone(), addrs.clone());
                let command = Command::Join { name, store_uuid, addrs };
                refused = self.propose(Record::Entry(Entry { proposal, by, command })).await;
            }
            if let Some(error) = self.shared.failed() {
                return Err(error.into());
            }
            if tokio::time::Instant::now() >= until {
                return Err(gave_up(refused, "a join"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Proposes something that may be proposed again. Returns why it was refused, if it was.
    async fn propose(&self, record: Record) -> Option<String> {
        let proposing = self.metastore.propose(record.to_bytes());
        match tokio::time::timeout(self.patience, proposing).await {
            Ok(Proposed::Applied(index)) => {
                self.shared.reached(index).await;
                None
            }
            Ok(Proposed::Rejected { reason }) => Some(reason),
            Ok(Proposed::Unknown) | Err(_) => None,
        }
    }
}

fn gave_up(refused: Option<String>, doing: &'static str) -> StartError {
    match refused {
        Some(reason) => StartError::Rejected { reason },
        None => StartError::NoMetastore { doing },
    }
}

/// Reads who the node is from its store, or makes it somebody new.
async fn open_identity(store: Arc<dyn PartitionStore>) -> Result<NodeNote, StartError> {
    if let Some(kept) = store.open(names::NODE).await? {
        return Ok(NodeNote::decode(&kept.note)?);
    }
    let mut bytes = [0; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(bytes.len()), "the kernel gives sixteen random bytes");
    let store_uuid = StoreUuid(u128::from_be_bytes(bytes));
    let new = NodeNote { store_uuid, node: NodeId(0), incarnation: Incarnation(0) };
    store.create(names::NODE, Offset(0), new.encode()).await?;
    Ok(new)
}

/// Returns the partitions of which anything is in the store.
async fn held_partitions(
    store: Arc<dyn PartitionStore>,
) -> Result<std::collections::BTreeSet<narad_core::ids::PartitionId>, StartError> {
    let of = |log: &String| {
        let attempt = names::attempt_of(log).map(|(partition, _)| partition);
        attempt.or_else(|| names::partition_of_staging(log))
    };
    Ok(store.list().await?.iter().filter_map(of).collect())
}

/// Every node needs jitter of its own.
fn seed(name: &Name) -> u64 {
    xxhash_rust::xxh3::xxh3_64(name.as_str().as_bytes())
}

struct Unwatched;

impl Watcher for Unwatched {
    fn changed(&mut self, _: &Node) {}
}

const _: () = assert!(NOTE_BYTES_MAX >= RECORD_BYTES_MAX, "a manifest is longer than a record");
