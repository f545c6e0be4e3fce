//! Nodes on loopback with short times.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use narad_core::config::{Config, Policy};
use narad_core::ids::{Name, Offset};
use narad_runtime::client::{Client, ClientOptions};
use narad_runtime::server::{Server, Start};
use narad_runtime::service::{NewTopic, Position, Read, Record, Service, ServiceError};
use narad_runtime::settings::{Listen, Settings};
use tempfile::TempDir;

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_mins(1);

/// Nodes that share nothing but loopback.
pub(crate) struct Cluster {
    root: TempDir,
    pub(crate) servers: BTreeMap<String, Server>,
    founder: String,
    adjust: fn(&mut Settings),
}

impl Cluster {
    /// Founds a cluster of so many nodes, named `n1`, `n2`, ….
    pub(crate) async fn of(nodes: usize) -> Self {
        Self::with(nodes, |_| {}).await
    }

    /// Founds a cluster with settings of its own.
    pub(crate) async fn with(nodes: usize, adjust: fn(&mut Settings)) -> Self {
        let (root, founder) = (TempDir::new().unwrap(), String::new());
        let mut cluster = Self { root, servers: BTreeMap::new(), founder, adjust };
        for node in 1..=nodes {
            cluster.join(&format!("n{node}")).await;
        }
        cluster
    }

    /// Starts a new node; the first one founds the cluster.
    pub(crate) async fn join(&mut self, name: &str) {
        let start = if self.servers.is_empty() && self.founder.is_empty() {
            Start::Bootstrap
        } else {
            let peers = self.servers.values().map(|server| server.peer_addr().to_string());
            Start::Join(peers.collect())
        };
        let settings = self.settings(name);
        let server = Server::start(&settings, start).await.unwrap();
        server.ready(&settings).await.unwrap();
        if self.founder.is_empty() {
            self.founder = server.peer_addr().to_string();
        }
        self.servers.insert(name.to_owned(), server);
    }

    /// Stops a node and starts it again, on its directory and at its addresses.
    pub(crate) async fn restart(&mut self, name: &str) {
        let server = self.servers.remove(name).unwrap();
        let (peer, http) = (server.peer_addr().to_string(), server.http_addr().to_string());
        server.shutdown().await.unwrap();
        self.start_again(name, peer, http).await;
    }

    /// Starts a node that was stopped, on its directory and at its addresses.
    pub(crate) async fn start_again(&mut self, name: &str, peer: String, http: String) {
        let mut settings = self.settings(name);
        settings.listen = Listen { peer, http };
        let server = Server::start(&settings, Start::Resume).await.unwrap();
        server.ready(&settings).await.unwrap();
        self.servers.insert(name.to_owned(), server);
    }

    /// Returns what a node is started with.
    pub(crate) fn settings(&self, name: &str) -> Settings {
        let mut settings = settings(self.root.path(), name);
        (self.adjust)(&mut settings);
        settings
    }

    /// Returns a client that knows every node.
    pub(crate) fn client(&self) -> Client {
        let seeds = self.servers.values().map(|server| server.http_addr().to_string());
        Client::new(seeds.map(|seed| seed.parse().unwrap()).collect(), ClientOptions::default())
    }

    /// Returns where a node keeps its data.
    pub(crate) fn data_dir(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) async fn create_topic(&self, name: &str, partitions: u32) {
        let any = self.servers.values().next().unwrap().service();
        let topic = NewTopic { name: Name::new(name).unwrap(), partitions, parent: None };
        any.create_topic(topic).await.unwrap();
        eventually("every partition has an owner", async || {
            any.routes(name).await.is_ok_and(|routes| routes.len() == partitions as usize)
        })
        .await;
    }

    /// Produces one record to a partition, wherever it is served, and returns its offset.
    pub(crate) async fn produce(&self, topic: &str, partition: u32, value: &str) -> Offset {
        let record =
            Record { value: Bytes::copy_from_slice(value.as_bytes()), ..Record::default() };
        let give_up = tokio::time::Instant::now() + PATIENCE;
        loop {
            for server in self.servers.values() {
                let produced =
                    server.service().produce(topic, partition, vec![record.clone()]).await;
                match produced {
                    Ok(produced) => return produced.first_offset,
                    Err(
                        ServiceError::NotOwner { .. }
                        | ServiceError::Frozen
                        | ServiceError::NotServing
                        | ServiceError::NoLease,
                    ) => {}
                    Err(error) => panic!("produce: {error}"),
                }
            }
            assert!(tokio::time::Instant::now() < give_up, "nobody takes {value}");
            tokio::task::yield_now().await;
        }
    }

    /// Reads a whole partition from whoever serves it.
    pub(crate) async fn read(&self, topic: &str, partition: u32) -> Vec<String> {
        for server in self.servers.values() {
            let from = Position::Offset { at: Offset(0), epoch: None };
            let fetched =
                server.service().fetch(topic, partition, from, 16 << 20, Duration::ZERO).await;
            if let Ok(fetched) = fetched {
                let text = |record: &Record| String::from_utf8(record.value.to_vec()).unwrap();
                return fetched.records.iter().map(|(_, record)| text(record)).collect();
            }
        }
        Vec::new()
    }

    /// Returns the samples that a node tells a Prometheus server.
    pub(crate) async fn scrape(&self, name: &str) -> BTreeMap<String, f64> {
        let text = self.servers[name].service().metrics().await.unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        samples.filter_map(sample).collect()
    }

    /// Returns how many partitions each node owns.
    pub(crate) async fn owned(&self) -> BTreeMap<String, u64> {
        for server in self.servers.values() {
            if let Ok(members) = server.service().members(Read::Barrier).await {
                let owned = |member: &narad_runtime::service::MemberView| {
                    (member.id.to_string(), member.owned_partitions)
                };
                return members.iter().map(owned).collect();
            }
        }
        BTreeMap::new()
    }
}

pub(crate) fn settings(root: &Path, name: &str) -> Settings {
    let mut settings = Settings {
        name: Some(Name::new(name).unwrap()),
        data_dir: root.join(name),
        listen: Listen { peer: "127.0.0.1:0".into(), http: "127.0.0.1:0".into() },
        ..Settings::default()
    };
    settings.policy = Policy {
        lease: Duration::from_millis(1500),
        lease_margin: Duration::from_millis(200),
        dead_timeout: Duration::from_secs(2),
        force_promote_after: Duration::from_secs(1),
        ..Policy::default()
    };
    settings.node = Config {
        heartbeat_interval: Duration::from_millis(200),
        controller_interval: Duration::from_millis(100),
        grace_after_election: Duration::from_secs(2),
        retry_max: Duration::from_secs(1),
        request_timeout: Duration::from_secs(2),
        ..Config::new(7)
    };
    settings.raft.tick = Duration::from_millis(20);
    settings
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let give_up = tokio::time::Instant::now() + PATIENCE;
    let mut pause = tokio::time::interval(Duration::from_millis(20));
    while !holds().await {
        assert!(tokio::time::Instant::now() < give_up, "not within {PATIENCE:?}: {what}");
        pause.tick().await;
    }
}
