//! Clusters of processes on loopback.

use std::collections::BTreeMap;
use std::time::Duration;

use narad_core::ids::{Epoch, Name};
use narad_runtime::client::{Client, ClientOptions};
use narad_runtime::service::{MemberStatus, MemberView, NewTopic, Read, Role, Route};
use tempfile::TempDir;

use super::http;
use super::node::{Node, free_port};

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(20);

/// Processes that share nothing but loopback.
pub(crate) struct Cluster {
    root: Option<TempDir>,
    more: String,
    pub(crate) nodes: BTreeMap<String, Node>,
}

impl Cluster {
    /// Founds a cluster of so many nodes, named `n1`, `n2`, …; `more` is added to the configuration
    /// of each.
    pub(crate) async fn of(nodes: usize, more: &str) -> Self {
        let root = Some(TempDir::new().unwrap());
        let mut cluster = Self { root, more: more.to_owned(), nodes: BTreeMap::new() };
        for node in 1..=nodes {
            cluster.join(&format!("n{node}")).await;
        }
        eventually("every node votes", async || {
            let votes = |member: &MemberView| member.role == Role::Voter;
            let members = cluster.members().await;
            members.len() == nodes && members.iter().all(votes)
        })
        .await;
        cluster
    }

    /// Takes a node for a cluster of its own.
    pub(crate) fn around(node: Node) -> Self {
        let nodes = BTreeMap::from([(node.name.clone(), node)]);
        Self { root: None, more: String::new(), nodes }
    }

    /// Starts a new node; the first one founds the cluster.
    pub(crate) async fn join(&mut self, name: &str) {
        self.join_at(name, (free_port(), free_port())).await;
    }

    /// The same on these ports, for peers and for HTTP.
    pub(crate) async fn join_at(&mut self, name: &str, ports: (u16, u16)) {
        let mut node = Node::at(self.root.as_ref().unwrap().path(), name, &self.more, ports);
        let peers = self.peers();
        if peers.is_empty() {
            node.start(&["--bootstrap"]);
        } else {
            node.start(&["--join", &peers]);
        }
        self.nodes.insert(name.to_owned(), node);
        self.ready(name).await;
    }

    /// The same on a disk of so many bytes, if this user may do that; returns whether it may.
    pub(crate) async fn join_on_small_disk(&mut self, name: &str, bytes: usize) -> bool {
        let mut node = Node::new(self.root.as_ref().unwrap().path(), name, &self.more);
        let is_small = node.start_on_small_disk(bytes, 1, &["--join", &self.peers()]);
        if !is_small {
            node.start(&["--join", &self.peers()]);
        }
        self.nodes.insert(name.to_owned(), node);
        self.ready(name).await;
        is_small
    }

    /// Returns where the nodes listen for peers that run, as `--join` takes it.
    fn peers(&self) -> String {
        let running = self.nodes.values().filter(|node| node.runs());
        running.map(|node| format!("127.0.0.1:{}", node.peer)).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn node(&mut self, name: &str) -> &mut Node {
        self.nodes.get_mut(name).unwrap()
    }

    /// Starts a node again that has ended, as it is.
    pub(crate) async fn restart(&mut self, name: &str) {
        self.node(name).start(&[]);
        self.ready(name).await;
    }

    /// Waits until a node takes part in the cluster.
    pub(crate) async fn ready(&mut self, name: &str) {
        let port = self.nodes[name].http;
        eventually(&format!("{name} is ready"), async || {
            let status = self.node(name).child.as_mut().unwrap().try_wait().unwrap();
            if let Some(status) = status {
                panic!("{name} ended: {status}");
            }
            http::ask(port, "GET", "/readyz", "").await.is_some_and(|answer| answer.status == 200)
        })
        .await;
    }

    /// Returns where every node serves HTTP, whether it runs or not, as `--admin` takes it.
    pub(crate) fn admin(&self) -> String {
        let addrs = self.nodes.values().map(|node| format!("127.0.0.1:{}", node.http));
        addrs.collect::<Vec<_>>().join(",")
    }

    pub(crate) fn client(&self) -> Client {
        let seeds = self.admin().split(',').map(|addr| addr.parse().unwrap()).collect();
        let options = ClientOptions {
            request_timeout: Duration::from_secs(5),
            retry_max: Duration::from_millis(100),
            ..ClientOptions::default()
        };
        Client::new(seeds, options)
    }

    /// Returns the members, as the log has them now; none if nobody can say.
    pub(crate) async fn members(&self) -> Vec<MemberView> {
        self.client().members(Read::Barrier).await.unwrap_or_default()
    }

    /// Waits until a node is declared dead.
    pub(crate) async fn buried(&self, name: &str) {
        eventually(&format!("{name} is declared dead"), async || {
            let dead = |member: &MemberView| {
                member.id.as_str() == name && member.status == MemberStatus::Dead
            };
            self.members().await.iter().any(dead)
        })
        .await;
    }

    /// Returns who leads.
    pub(crate) async fn leader(&self) -> String {
        let mut leader = None;
        eventually("somebody leads", async || {
            let members = self.members().await;
            leader = members.iter().find(|member| member.leader).map(|m| m.id.to_string());
            leader.is_some()
        })
        .await;
        leader.unwrap()
    }

    pub(crate) async fn create_topic(&self, name: &str, partitions: u32) {
        let topic = NewTopic { name: Name::new(name).unwrap(), partitions, parent: None };
        self.client().create_topic(&topic).await.unwrap();
        eventually("every partition is served", async || {
            let routes = self.routes(name).await;
            routes.len() == partitions as usize
                && self.served(name).await.len() == partitions as usize
        })
        .await;
    }

    /// Returns what every node that runs knows of a topic.
    async fn views(&self, topic: &str) -> BTreeMap<String, Vec<Route>> {
        let mut views = BTreeMap::new();
        for node in self.nodes.values().filter(|node| node.runs()) {
            let path = format!("/v1/topics/{topic}");
            let Some(answer) = http::ask(node.http, "GET", &path, "").await else { continue };
            let Ok(routes) = serde_json::from_value(answer.body["routes"].clone()) else {
                continue;
            };
            views.insert(node.name.clone(), routes);
        }
        views
    }

    /// Returns the owners of a topic's partitions, as the node knows them that has heard most.
    pub(crate) async fn routes(&self, topic: &str) -> BTreeMap<u32, (Epoch, String)> {
        let mut newest = BTreeMap::new();
        for route in self.views(topic).await.into_values().flatten() {
            let known = newest.entry(route.partition).or_insert((Epoch(0), String::new()));
            if route.epoch >= known.0 {
                *known = (route.epoch, route.owner.to_string());
            }
        }
        newest
    }

    /// Returns which nodes say that they serve which partition, in which reign.
    pub(crate) async fn served(&self, topic: &str) -> BTreeMap<u32, Vec<(Epoch, String)>> {
        let mut served: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (node, routes) in self.views(topic).await {
            for route in routes.iter().filter(|route| route.serving_here) {
                served.entry(route.partition).or_default().push((route.epoch, node.clone()));
            }
        }
        served
    }

    /// Begins the move of a partition.
    pub(crate) async fn begin_move(&self, topic: &str, partition: u32, to: &str) {
        let client = self.client();
        eventually(&format!("{topic}/{partition} is to move to {to}"), async || {
            if client.move_partition(topic, partition, to).await.is_ok() {
                return true;
            }
            let moves = client.moves(Read::Barrier).await.unwrap_or_default();
            moves.iter().any(|m| m.partition == partition && m.to.as_str() == to)
                || self.routes(topic).await.get(&partition).is_some_and(|(_, owner)| owner == to)
        })
        .await;
    }

    /// Waits until a node owns and serves a partition, as those know who answer; one stands still.
    pub(crate) async fn settled_but_for(
        &self,
        topic: &str,
        partition: u32,
        owner: &str,
        still: &str,
    ) {
        eventually(&format!("{topic}/{partition} is served by {owner}"), async || {
            let path = format!("/v1/topics/{topic}");
            for node in self.nodes.values().filter(|node| node.name != still) {
                let Some(answer) = http::ask(node.http, "GET", &path, "").await else { continue };
                let route = &answer.body["routes"][partition as usize];
                if node.name == owner && route["serving_here"] == true {
                    return true;
                }
            }
            false
        })
        .await;
    }

    /// Waits until a partition is owned and served by one node and nobody else, and nothing moves.
    pub(crate) async fn settled(&self, topic: &str, partition: u32, owner: &str) {
        let client = self.client();
        let what = format!("{topic}/{partition} is settled on {owner}");
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut pause = tokio::time::interval(LOOK);
        loop {
            pause.tick().await;
            let moves = client.moves(Read::Barrier).await;
            let (routes, served) = (self.routes(topic).await, self.served(topic).await);
            let row = routes.get(&partition);
            let settled = moves.as_ref().is_ok_and(Vec::is_empty)
                && row.is_some_and(|(_, name)| name == owner)
                && served.get(&partition).map(Vec::as_slice) == row.map(std::slice::from_ref);
            if settled {
                return;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "not within {PATIENCE:?}: {what}; moves {moves:?}, routes {routes:?}, \
                 served {served:?}"
            );
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The logs are printed while the files are still there; who wants to look further keeps
        // them.
        self.nodes.clear();
        if std::thread::panicking() && std::env::var_os("NARAD_KEEP").is_some() {
            let kept = self.root.take().map(TempDir::keep);
            println!("kept in {kept:?}");
        }
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let give_up = tokio::time::Instant::now() + PATIENCE;
    let mut pause = tokio::time::interval(LOOK);
    loop {
        pause.tick().await;
        if holds().await {
            return;
        }
        assert!(tokio::time::Instant::now() < give_up, "not within {PATIENCE:?}: {what}");
    }
}
