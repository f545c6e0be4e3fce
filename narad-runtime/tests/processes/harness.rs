//! Processes of the `narad` binary on loopback, with short times.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use narad_core::ids::{Epoch, Name};
use narad_runtime::client::{Client, ClientOptions};
use narad_runtime::service::{MemberStatus, MemberView, NewTopic, Read, Role, Route};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::http;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(20);

/// Short times that a configuration is valid with. `force_promote_after` is longer than any test
/// lets a source be away: nothing here may rest on a promotion unless it says so.
const TIMES: &str = r#"
[timing]
heartbeat_interval = "200ms"
request_timeout = "2s"
grace_after_election = "3s"
controller_interval = "100ms"
retry_max = "500ms"

[freeze]
ttl = "1s"
max = "20s"
duty_percent = 100
admission_max = "1s"

[raft]
tick = "40ms"

[policy]
lease = "1500ms"
lease_margin = "200ms"
dead_timeout = "3s"
force_promote_after = "2min"
"#;

/// Returns a command of the binary, in an environment that holds nothing of the caller's.
pub(crate) fn narad() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narad"));
    command.env_clear().env("RUST_BACKTRACE", "1");
    command
}

/// Takes a port that nobody listens on and that the system hands to nobody: it stays free while its
/// node is down.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let own = u16::try_from(std::process::id() * 64 % 22_000).unwrap();
        let port = 10_000 + (own + NEXT.fetch_add(1, Ordering::Relaxed)) % 22_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// One node: its files outlive its processes.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) peer: u16,
    pub(crate) http: u16,
    child: Option<Child>,
}

impl Node {
    /// Makes the files of a node that has not run yet. `more` is added to its configuration.
    pub(crate) fn new(root: &Path, name: &str, more: &str) -> Self {
        let dir = root.join(name);
        fs::create_dir_all(&dir).unwrap();
        let (peer, http) = (free_port(), free_port());
        let data = dir.join("data");
        let config = format!(
            "name = \"{name}\"\ndata_dir = {data:?}\n[listen]\npeer = \"127.0.0.1:{peer}\"\n\
             http = \"127.0.0.1:{http}\"\n{TIMES}{more}"
        );
        fs::write(dir.join("narad.toml"), config).unwrap();
        Self { name: name.to_owned(), dir, peer, http, child: None }
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join("narad.toml")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Starts a process; what it says goes to a file.
    pub(crate) fn start(&mut self, arguments: &[&str]) {
        assert!(self.child.is_none(), "{} runs already", self.name);
        let log = File::options().create(true).append(true).open(self.dir.join("log")).unwrap();
        let child = narad()
            .arg("server")
            .arg("--config")
            .arg(self.config())
            .args(arguments)
            .env("NARAD_FAILPOINT_FILE", self.failpoints())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    pub(crate) fn runs(&self) -> bool {
        self.child.is_some()
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Kills the process, wherever it is.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        let status = self.child.take().unwrap().wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{} had ended: {status}", self.name);
    }

    /// Lets a process go on that stands still.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Tells the process to end in order.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        let mut status = None;
        eventually(&format!("{} ends", self.name), async || {
            status = child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    /// Waits until a failpoint has killed the process.
    pub(crate) async fn killed(&mut self) {
        let status = self.ended().await;
        assert_eq!(status.signal(), Some(9), "{}: {status}\n{}", self.name, self.tail(40));
        self.arm("");
    }

    /// Waits until a failpoint has stopped the process.
    pub(crate) async fn stopped(&self) {
        let stat = format!("/proc/{}/stat", self.child.as_ref().unwrap().id());
        eventually(&format!("{} stands still", self.name), async || {
            let stat = fs::read_to_string(&stat).unwrap();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        })
        .await;
        self.arm("");
    }

    fn failpoints(&self) -> PathBuf {
        self.dir.join("failpoints")
    }

    /// Arms failpoints in the process that runs, and in the next ones; none if the text is empty.
    pub(crate) fn arm(&self, text: &str) {
        let new = self.dir.join("failpoints.new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, self.failpoints()).unwrap();
    }

    /// Returns everything that the node's processes said.
    pub(crate) fn log(&self) -> String {
        fs::read(self.dir.join("log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Returns the last lines of the log.
    pub(crate) fn tail(&self, lines: usize) -> String {
        let log = self.log();
        let skip = log.lines().count().saturating_sub(lines);
        log.lines().skip(skip).collect::<Vec<_>>().join("\n")
    }

    /// Returns the numbers that a field of the log's lines had, for lines that contain `about`.
    pub(crate) fn logged(&self, about: &str, field: &str) -> Vec<u64> {
        let log = plain(&self.log());
        let key = format!(" {field}=");
        let number = |line: &str| {
            let rest = line.split(&key).nth(1)?;
            rest.split(' ').next()?.trim().parse().ok()
        };
        log.lines().filter(|line| line.contains(about)).filter_map(number).collect()
    }
}

/// Takes the colours out of a text.
pub(crate) fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
        if std::thread::panicking() {
            println!("---- {} in {}\n{}", self.name, self.dir.display(), self.tail(60));
        }
    }
}

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

    /// Starts a new node; the first one founds the cluster.
    pub(crate) async fn join(&mut self, name: &str) {
        let root = self.root.as_ref().unwrap().path();
        let mut node = Node::new(root, name, &self.more);
        let peers: Vec<_> =
            self.nodes.values().map(|node| format!("127.0.0.1:{}", node.peer)).collect();
        if peers.is_empty() {
            node.start(&["--bootstrap"]);
        } else {
            node.start(&["--join", &peers.join(",")]);
        }
        self.nodes.insert(name.to_owned(), node);
        self.ready(name).await;
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
