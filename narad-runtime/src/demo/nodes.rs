//! The nodes of the demonstration: whole ones, in this process, on loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use narad_core::config::{Config, Policy};
use narad_core::ids::{Name, NodeId, PartitionId};
use narad_core::metastore::{Assignment, Status};
use narad_core::node::{Ask, AskError, Node};

use super::DemoError;
use crate::node_loop::{AskFault, Counters, NodeHandle};
use crate::server::{Server, ServerError, Start};
use crate::settings::Settings;
use crate::store::StoreError;

/// The nodes, by name.
#[derive(Debug)]
pub(super) struct Nodes {
    root: PathBuf,
    seed: u64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    running: BTreeMap<String, Server>,
    /// With the ports that each node got, so that it returns to them.
    settings: BTreeMap<String, Settings>,
    http: BTreeMap<String, String>,
    /// Of all lives of all nodes.
    counters: Vec<Arc<Counters>>,
}

/// What one node knows of the cluster.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) leader: Option<NodeId>,
    pub(super) members: Vec<MemberSeen>,
    pub(super) voters: BTreeSet<NodeId>,
    pub(super) rows: Vec<(PartitionId, Assignment)>,
}

/// One member.
#[derive(Clone, Debug)]
pub(super) struct MemberSeen {
    pub(super) id: NodeId,
    pub(super) name: String,
    pub(super) alive: bool,
    pub(super) registered: bool,
    pub(super) retired: bool,
}

impl View {
    fn of(node: &Node) -> Self {
        let state = node.state();
        let members = state.members().map(|member| MemberSeen {
            id: member.id,
            name: member.name.to_string(),
            alive: member.status == Status::Alive,
            registered: member.incarnation.0 > 0,
            retired: member.retired,
        });
        let configuration = state.configuration();
        let voters = configuration.voters.union(&configuration.voters_outgoing);
        Self {
            leader: node.leader(),
            members: members.collect(),
            voters: voters.copied().collect(),
            rows: state.assignments().map(|(id, row)| (id, row.clone())).collect(),
        }
    }

    pub(super) fn named(&self, name: &str) -> Option<&MemberSeen> {
        self.members.iter().find(|member| member.name == name)
    }

    pub(super) fn name_of(&self, id: NodeId) -> String {
        let member = self.members.iter().find(|member| member.id == id);
        member.map_or_else(|| format!("node {id}"), |member| member.name.clone())
    }

    pub(super) fn owned(&self, id: NodeId) -> usize {
        self.rows.iter().filter(|(_, row)| row.owner == id).count()
    }

    pub(super) fn moving(&self) -> usize {
        self.rows.iter().filter(|(_, row)| row.target.is_some()).count()
    }

    pub(super) fn row(&self, partition: PartitionId) -> Option<&Assignment> {
        self.rows.iter().find(|(id, _)| *id == partition).map(|(_, row)| row)
    }

    /// Returns the nodes that take part in the cluster.
    pub(super) fn present(&self) -> impl Iterator<Item = &MemberSeen> {
        self.members.iter().filter(|member| member.alive && member.registered && !member.retired)
    }

    pub(super) fn voter_names(&self) -> Vec<String> {
        self.voters.iter().map(|id| self.name_of(*id)).collect()
    }
}

impl Nodes {
    /// Longest wait for a killed node to let go of its directory and its ports.
    const RELEASE: Duration = Duration::from_secs(15);
    /// Longest wait for a node to stop.
    const STOP: Duration = Duration::from_secs(5);

    pub(super) fn new(root: &Path, seed: u64) -> Self {
        Self { root: root.to_owned(), seed, inner: Mutex::default() }
    }

    /// Starts a node for the first time; the first one founds the cluster.
    pub(super) async fn start(&self, name: &str) -> Result<(), DemoError> {
        let peers: Vec<String> =
            self.lock().running.values().map(|server| server.peer_addr().to_string()).collect();
        let start = if peers.is_empty() { Start::Bootstrap } else { Start::Join(peers) };
        let settings = settings(&self.root, name, self.seed)?;
        let server = Server::start(&settings, start).await.map_err(of(name))?;
        let settings = at_its_ports(settings, &server);
        self.run(name, settings, server).await
    }

    /// Ends a node as abruptly as a process can: nothing is finished, nobody is told.
    pub(super) fn kill(&self, name: &str) {
        let killed = self.lock().running.remove(name);
        drop(killed);
    }

    /// Starts a killed node again, on its directory and its ports.
    pub(super) async fn resume(&self, name: &str) -> Result<(), DemoError> {
        let settings = self.settings_of(name)?;
        let give_up = tokio::time::Instant::now() + Self::RELEASE;
        loop {
            match Server::start(&settings, Start::Resume).await {
                Ok(server) => return self.run(name, settings, server).await,
                Err(
                    ServerError::Store(StoreError::Locked { .. })
                    | ServerError::Listen { .. }
                    | ServerError::RaftStore { .. },
                ) if tokio::time::Instant::now() < give_up => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(of(name)(error)),
            }
        }
    }

    async fn run(&self, name: &str, settings: Settings, server: Server) -> Result<(), DemoError> {
        let handle = server.handle().clone();
        {
            let mut inner = self.lock();
            inner.counters.push(server.counters());
            inner.http.insert(name.to_owned(), server.http_addr().to_string());
            inner.settings.insert(name.to_owned(), settings);
            inner.running.insert(name.to_owned(), server);
        }
        let stopped = |_| DemoError::Server {
            node: name.to_owned(),
            source: Box::new(ServerError::Stopped(crate::node_loop::Stopped)),
        };
        while !handle.query(Node::is_registered).await.map_err(stopped)? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Stops a node in good order.
    pub(super) async fn stop(&self, name: &str) {
        let server = self.lock().running.remove(name);
        if let Some(server) = server {
            stop(name, server).await;
        }
    }

    /// Stops all nodes in good order.
    pub(super) async fn stop_all(&self) {
        let running = std::mem::take(&mut self.lock().running);
        let mut stopping = tokio::task::JoinSet::new();
        for (name, server) in running {
            stopping.spawn(async move { stop(&name, server).await });
        }
        stopping.join_all().await;
    }

    pub(super) fn settings_of(&self, name: &str) -> Result<Settings, DemoError> {
        self.lock().settings.get(name).cloned().ok_or(DemoError::NobodyLeft)
    }

    /// Returns the running nodes.
    pub(super) fn handles(&self) -> Vec<(String, NodeHandle)> {
        let inner = self.lock();
        let handle = |(name, server): (&String, &Server)| (name.clone(), server.handle().clone());
        inner.running.iter().map(handle).collect()
    }

    /// Returns where each node serves HTTP, by its name.
    pub(super) fn http(&self) -> BTreeMap<String, String> {
        self.lock().http.clone()
    }

    pub(super) fn counters(&self) -> Vec<Arc<Counters>> {
        self.lock().counters.clone()
    }

    /// Looks at the cluster with the eyes of the leader, or of whoever is there.
    pub(super) async fn view(&self) -> Result<View, DemoError> {
        let mut found: Option<View> = None;
        for (_, handle) in self.handles() {
            let look = |node: &Node| (node.identity().node, View::of(node));
            let Ok((me, view)) = handle.query(look).await else { continue };
            if view.leader == Some(me) {
                return Ok(view);
            }
            found = found.or(Some(view));
        }
        found.ok_or(DemoError::NobodyLeft)
    }

    /// Asks the cluster for something, until it says yes or no.
    pub(super) async fn ask(&self, what: &'static str, ask: Ask) -> Result<(), DemoError> {
        const TRIES: usize = 100;
        const PAUSE: Duration = Duration::from_millis(100);
        let mut last = None;
        for _ in 0..TRIES {
            for (_, handle) in self.handles() {
                match handle.ask(ask.clone()).await {
                    Ok(_) => return Ok(()),
                    // What is asked for here may be asked for twice.
                    Err(
                        source @ (AskFault::Stopped(_)
                        | AskFault::Refused(AskError::NoLeader | AskError::Unknown)),
                    ) => last = Some(source),
                    Err(source) => return Err(DemoError::Ask { what, source }),
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(last.map_or(DemoError::NobodyLeft, |source| DemoError::Ask { what, source }))
    }

    /// Says what moves wait for, a line for each.
    pub(super) async fn waiting(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, handle) in self.handles() {
            let look = |node: &Node| node.moves().collect::<Vec<_>>();
            let Ok(moves) = handle.query(look).await else { continue };
            lines.extend(moves.into_iter().map(|(partition, progress)| {
                let phase = progress.phase;
                let waiting = progress.waiting.map(|waiting| format!(": {waiting}"));
                format!(
                    "partition {} to {name}: {phase}{}",
                    partition.index,
                    waiting.unwrap_or_default()
                )
            }));
        }
        lines
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn stop(name: &str, server: Server) {
    match tokio::time::timeout(Nodes::STOP, server.shutdown()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(node = name, %error, "stopped with an error"),
        Err(_) => tracing::warn!(node = name, "did not stop in time"),
    }
}

fn of(name: &str) -> impl Fn(ServerError) -> DemoError {
    let node = name.to_owned();
    move |source| DemoError::Server { node: node.clone(), source: Box::new(source) }
}

/// Fixes the ports that the system chose.
fn at_its_ports(mut settings: Settings, server: &Server) -> Settings {
    settings.listen.peer = server.peer_addr().to_string();
    settings.listen.http = server.http_addr().to_string();
    settings
}

/// Returns the settings of one node: short times, everything else as usual.
fn settings(root: &Path, name: &str, seed: u64) -> Result<Settings, DemoError> {
    let parsed = Name::new(name).map_err(|error| DemoError::Internal(error.to_string()))?;
    let mut settings = Settings { name: Some(parsed), ..Settings::default() };
    settings.data_dir = root.join(name);
    "127.0.0.1:0".clone_into(&mut settings.listen.peer);
    "127.0.0.1:0".clone_into(&mut settings.listen.http);
    settings.policy = policy();
    let jitter = xxhash_rust::xxh3::xxh3_64_with_seed(name.as_bytes(), seed);
    settings.node = config(jitter);
    settings.raft.tick = Duration::from_millis(50);
    // A value may be as long as --value-bytes allows, and has a number beside it.
    settings.http.record_bytes_max += 4 << 10;
    Ok(settings)
}

/// Returns the policy of the demonstration.
pub(super) fn policy() -> Policy {
    Policy {
        lease: Duration::from_secs(2),
        lease_margin: Duration::from_millis(200),
        dead_timeout: Duration::from_secs(3),
        force_promote_after: Duration::from_secs(2),
        ..Policy::default()
    }
}

/// Returns the configuration of one node of the demonstration.
pub(super) fn config(jitter_seed: u64) -> Config {
    Config {
        heartbeat_interval: Duration::from_millis(250),
        controller_interval: Duration::from_millis(200),
        grace_after_election: Duration::from_secs(3),
        request_timeout: Duration::from_secs(3),
        retry_max: Duration::from_secs(1),
        pass_interval: Duration::from_millis(300),
        ..Config::new(jitter_seed)
    }
}

/// Says how the times differ from the usual ones.
pub(super) fn changed_times() -> String {
    let (ours, usual) = (policy(), Policy::default());
    let (own, normal) = (config(0), Config::new(0));
    let times = [
        ("lease", ours.lease, usual.lease),
        ("dead_timeout", ours.dead_timeout, usual.dead_timeout),
        ("force_promote_after", ours.force_promote_after, usual.force_promote_after),
        ("heartbeat_interval", own.heartbeat_interval, normal.heartbeat_interval),
        ("controller_interval", own.controller_interval, normal.controller_interval),
        ("pass_interval", own.pass_interval, normal.pass_interval),
    ];
    let times = times.map(|(name, ours, usual)| format!("{name} {ours:?} instead of {usual:?}"));
    format!(
        "times are shortened for the demonstration: {}; the last one is longer, so that there is \
         a moment at which a node can be killed in the middle of a move",
        times.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_safe() {
        let settings = settings(Path::new("x"), "n", 1).expect("a name");
        assert_eq!(settings.check(), Ok(()));
        assert!(changed_times().contains("dead_timeout 3s instead of 30s"));
    }
}
