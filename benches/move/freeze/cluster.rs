//! Three nodes of one process, on real files and sockets, and one partition that goes to and fro.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use narad_core::config::{Config, Policy};
use narad_core::ids::Name;
use narad_core::mover::Freeze;
use narad_runtime::server::{NodeService, Server, Start};
use narad_runtime::service::{NewTopic, Read, Record, Service};
use narad_runtime::settings::{Listen, Settings};
use tokio::task::JoinHandle;

pub(crate) type Failed = Box<dyn Error + Send + Sync>;

const TOPIC: &str = "bench";
const PATIENCE: Duration = Duration::from_mins(2);

/// The cluster.
pub(crate) struct Cluster {
    root: PathBuf,
    servers: Vec<Server>,
    owner: usize,
}

/// What is asked of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Bytes that one node copies per second; 0 is unlimited.
    pub(crate) copy_rate: u64,
    /// Passes after which the source is frozen anyway.
    pub(crate) passes_max: u32,
}

impl Cluster {
    /// Founds a cluster with one partition.
    pub(crate) async fn found(root: &Path, terms: Terms) -> Result<Self, Failed> {
        let mut servers: Vec<Server> = Vec::new();
        for name in ["n1", "n2", "n3"] {
            let start = match servers.first() {
                None => Start::Bootstrap,
                Some(first) => Start::Join(vec![first.peer_addr().to_string()]),
            };
            let settings = settings(root, name, terms)?;
            let server = Server::start(&settings, start).await?;
            server.ready(&settings).await?;
            servers.push(server);
        }
        let service = servers[0].service();
        let topic = NewTopic { name: Name::new(TOPIC)?, partitions: 1, parent: None };
        service.create_topic(topic).await?;
        let mut cluster = Self { root: root.to_owned(), servers, owner: 0 };
        let give_up = Instant::now() + PATIENCE;
        while cluster.find_owner().await.is_none() {
            if Instant::now() > give_up {
                return Err("the partition has no owner".into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The planner leaves alone what an operator has moved.
        let away = (cluster.owner + 1) % cluster.servers.len();
        cluster.move_to(away).await?;
        Ok(cluster)
    }

    /// Fills the partition up to a length.
    pub(crate) async fn fill(&self, bytes: u64) -> Result<(), Failed> {
        let value = Bytes::from(noise(1 << 20));
        let record = Record { value, ..Record::default() };
        let service = self.servers[self.owner].service();
        for _ in 0..bytes.div_ceil(8 << 20) {
            let records = vec![record.clone(); 8];
            service
                .produce(TOPIC, 0, records)
                .await
                .map_err(|error| format!("produce: {error}"))?;
        }
        Ok(())
    }

    /// Moves the partition between the two nodes that are not the leader, or to the other of any two;
    /// returns how its freeze went.
    pub(crate) async fn move_on(&mut self) -> Result<Freeze, Failed> {
        let to = if self.owner == 1 { 2 } else { 1 };
        self.move_to(to).await
    }

    async fn move_to(&mut self, to: usize) -> Result<Freeze, Failed> {
        let counters = self.servers[to].counters();
        let before = counters.freezes().len();
        let name = format!("n{}", to + 1);
        self.servers[to].service().move_partition(TOPIC, 0, &name).await?;
        let give_up = Instant::now() + PATIENCE;
        let freeze = loop {
            if let Some(freeze) = counters.freezes().get(before) {
                break *freeze;
            }
            if Instant::now() > give_up {
                let moves = self.servers[to].service().moves(Read::Stale).await;
                return Err(format!("the partition does not move to {name}: {moves:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        self.owner = to;
        Ok(freeze)
    }

    async fn find_owner(&mut self) -> Option<usize> {
        let routes = self.servers[0].service().routes(TOPIC).await.ok()?;
        let owner = routes.first()?.owner.to_string();
        self.owner = owner.strip_prefix('n')?.parse::<usize>().ok()? - 1;
        Some(self.owner)
    }

    /// Deletes what was set aside: a quarantine of a day would fill the disk.
    pub(crate) fn empty_trash(&self) {
        for node in ["n1", "n2", "n3"] {
            let trash = self.root.join(node).join(".trash");
            for entry in fs::read_dir(trash).into_iter().flatten().flatten() {
                // What is not deleted now is deleted after the next move.
                drop(fs::remove_dir_all(entry.path()));
            }
        }
    }

    /// Begins to write to the partition, wherever it is: so many bytes at once, as often as given.
    pub(crate) fn write(&self, bytes: usize, every: Duration) -> Writer {
        let services = self.servers.iter().map(Server::service).collect();
        let (done, gap_us) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let told = (Arc::clone(&done), Arc::clone(&gap_us));
        let task = tokio::spawn(write(services, self.owner, bytes, every, told));
        Writer { done, gap_us, task }
    }

    /// Stops all nodes.
    pub(crate) async fn stop(self) -> Result<(), Failed> {
        for server in self.servers {
            server.shutdown().await?;
        }
        Ok(fs::remove_dir_all(&self.root)?)
    }
}

/// Writes until it is stopped.
pub(crate) struct Writer {
    done: Arc<AtomicBool>,
    gap_us: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Writer {
    /// Returns the longest time between two acknowledgements since the last call, in seconds.
    pub(crate) fn longest_gap(&self) -> f64 {
        Duration::from_micros(self.gap_us.swap(0, Ordering::Relaxed)).as_secs_f64()
    }

    pub(crate) async fn stop(self) {
        self.done.store(true, Ordering::Relaxed);
        // A panic of its shows as records that are missing.
        drop(self.task.await);
    }
}

async fn write(
    services: Vec<Arc<NodeService>>,
    mut owner: usize,
    bytes: usize,
    every: Duration,
    (done, gap_us): (Arc<AtomicBool>, Arc<AtomicU64>),
) {
    let record = Record { value: Bytes::from(noise(bytes)), ..Record::default() };
    let mut pace = tokio::time::interval(every);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut last = Instant::now();
    while !done.load(Ordering::Relaxed) {
        if services[owner].produce(TOPIC, 0, vec![record.clone()]).await.is_ok() {
            let gap = u64::try_from(last.elapsed().as_micros()).unwrap_or(u64::MAX);
            gap_us.fetch_max(gap, Ordering::Relaxed);
            last = Instant::now();
            if !every.is_zero() {
                pace.tick().await;
            }
        } else {
            owner = owner % 2 + 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn settings(root: &Path, name: &str, terms: Terms) -> Result<Settings, Failed> {
    let mut settings = Settings {
        name: Some(Name::new(name)?),
        data_dir: root.join(name),
        listen: Listen { peer: "127.0.0.1:0".into(), http: "127.0.0.1:0".into() },
        ..Settings::default()
    };
    settings.policy = Policy { copy_rate_bytes_per_second: terms.copy_rate, ..Policy::default() };
    settings.node = Config {
        heartbeat_interval: Duration::from_millis(500),
        controller_interval: Duration::from_millis(200),
        passes_max: terms.passes_max,
        // Hundreds of moves in a minute are no accident here.
        freeze_duty_percent: 100,
        ..Config::new(7)
    };
    settings.raft.tick = Duration::from_millis(50);
    Ok(settings)
}

/// Bytes that do not compress.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..bytes).map(|_| next()).collect()
}
