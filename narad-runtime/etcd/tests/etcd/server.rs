//! One etcd of a test's own.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use etcd_client::Client;
use narad_etcd::{Builder, EtcdMetastore};
use tempfile::TempDir;

use crate::PATIENCE;

/// A server, on ports and in a directory of its own; killed when it is dropped.
pub(crate) struct Server {
    name: String,
    scheme: &'static str,
    /// All members of its cluster, as its arguments name them.
    cluster: String,
    dir: TempDir,
    client_port: u16,
    peer_port: u16,
    arguments: Vec<String>,
    process: Option<Child>,
}

impl Server {
    /// Starts one and waits until it answers.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts one with further arguments.
    pub(crate) async fn start_with(arguments: &[&str]) -> Self {
        let mut server = Self::new("one", "http", arguments);
        server.restart().await;
        server
    }

    /// Starts one whose clients need TLS; it is not waited for.
    #[cfg(feature = "tls")]
    pub(crate) fn spawn_secure(arguments: &[&str]) -> Self {
        let mut server = Self::new("one", "https", arguments);
        server.spawn();
        server
    }

    /// Starts three that are one cluster, and waits until it answers.
    pub(crate) async fn three() -> Vec<Self> {
        let mut servers: Vec<_> =
            ["one", "two", "three"].map(|name| Self::new(name, "http", &[])).into();
        let cluster: Vec<_> = servers.iter().map(|server| server.cluster.clone()).collect();
        for server in &mut servers {
            server.cluster = cluster.join(",");
            server.spawn();
        }
        Box::pin(servers[0].builder("probe").connect()).await.unwrap();
        servers
    }

    fn new(name: &str, scheme: &'static str, arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (client_port, peer_port) = (free_port(), free_port());
        let arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        let cluster = format!("{name}=http://127.0.0.1:{peer_port}");
        let name = name.to_owned();
        Self { name, scheme, cluster, dir, client_port, peer_port, arguments, process: None }
    }

    /// Starts it again and waits until it answers.
    pub(crate) async fn restart(&mut self) {
        self.spawn();
        if let Err(error) = Box::pin(self.builder("probe").connect()).await {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            panic!("etcd did not start: {error}\n{log}")
        }
    }

    /// Starts its process.
    pub(crate) fn spawn(&mut self) {
        self.kill();
        let log = File::options().create(true).append(true).open(self.dir.path().join("log"));
        let log = log.unwrap();
        let (client, peer) = (self.endpoint(), format!("http://127.0.0.1:{}", self.peer_port));
        let process = Command::new("etcd")
            .args(["--name", &self.name, "--data-dir"])
            .arg(Path::new(self.dir.path()).join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &self.cluster])
            // A killed process loses nothing that it has written.
            .args(["--unsafe-no-fsync", "--log-level", "error", "--logger", "zap"])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.process =
            Some(process.expect("etcd is installed (Debian: apt-get install etcd-server)"));
    }

    /// Kills it, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Has its process stand still, or go on.
    pub(crate) fn stand_still(&self, on: bool) {
        let pid = self.process.as_ref().unwrap().id().to_string();
        let signal = if on { "STOP" } else { "CONT" };
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    pub(crate) const fn port(&self) -> u16 {
        self.client_port
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.client_port)
    }

    /// Begins a metastore under a prefix that waits long for this server.
    pub(crate) fn builder(&self, prefix: &str) -> Builder {
        EtcdMetastore::builder([self.endpoint()]).prefix(prefix).patience(PATIENCE)
    }

    /// Connects a metastore under the prefix `narad`.
    pub(crate) async fn metastore(&self) -> EtcdMetastore {
        self.builder("narad").connect().await.unwrap()
    }

    /// Connects a client of etcd's own.
    pub(crate) async fn client(&self) -> Client {
        let options = narad_etcd::ConnectOptions::new().with_timeout(Duration::from_secs(20));
        Box::pin(Client::connect([self.endpoint()], Some(options))).await.unwrap()
    }

    /// Returns what is under a key.
    pub(crate) async fn value(&self, key: &str) -> Option<String> {
        let got = self.client().await.get(key, None).await.unwrap();
        got.kvs().first().map(|kv| kv.value_str().unwrap().to_owned())
    }

    /// Returns what this very member has under a key, if it answers.
    pub(crate) async fn value_there(&self, key: &str) -> Option<String> {
        let own = etcd_client::GetOptions::new().with_serializable();
        let options = narad_etcd::ConnectOptions::new().with_timeout(Duration::from_secs(1));
        let connecting = Box::pin(Client::connect([self.endpoint()], Some(options)));
        let got = connecting.await.ok()?.get(key, Some(own)).await.ok()?;
        got.kvs().first().map(|kv| kv.value_str().unwrap().to_owned())
    }

    /// Returns how many keys begin so.
    pub(crate) async fn count(&self, prefix: &str) -> i64 {
        let options = etcd_client::GetOptions::new().with_prefix().with_count_only();
        self.client().await.get(prefix, Some(options)).await.unwrap().count()
    }
}

/// Returns a port that nobody has, and that the system gives to nobody who connects somewhere: a server
/// that is started again finds it free.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 1000).unwrap() * 20;
    loop {
        let port = 11_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
