//! Three nodes whose decisions are kept in etcd, and a partition that moves while etcd is killed.
//!
//! `cargo run -p narad-etcd --example etcd_metastore` starts an etcd of its own, on loopback and in a
//! folder that is removed afterwards. With the address of a running one
//! (`-- http://127.0.0.1:2379`) it uses that, under a prefix of its own, and kills nothing.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::net::TcpListener;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use bytes::Bytes;
use narad_core::ids::{Name, Offset, PartitionId};
use narad_core::node::Ask;
use narad_etcd::EtcdMetastore;
use narad_runtime::embed::Narad;
use narad_runtime::embed::memory::{MemoryPeer, MemoryStore};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let given = std::env::args().nth(1);
    let mut own = if given.is_none() { Some(Etcd::start()?) } else { None };
    let endpoint = given.or_else(|| own.as_ref().map(Etcd::endpoint)).ok_or("no etcd")?;
    let prefix = format!("narad-example/{}", std::process::id());

    // One metastore for each node, as if they ran on machines of their own. Logs and connections are in
    // memory here: other examples show how to bring your own.
    let (network, mut nodes) = (MemoryPeer::default(), Vec::new());
    for name in ["narad-1", "narad-2", "narad-3"] {
        let metastore = EtcdMetastore::builder([endpoint.clone()]).prefix(&prefix);
        // Long enough for an etcd that is just starting.
        let metastore = metastore.patience(Duration::from_secs(20)).connect().await?;
        let node = Narad::builder()
            .name(Name::new(name)?)
            .store(MemoryStore::default())
            .metastore(metastore)
            .peer(network.another())
            .start()
            .await?;
        node.ready().await?;
        println!("{name} takes part");
        nodes.push(node);
    }

    let topic = nodes[0].create_topic(Name::new("orders")?, 1).await?;
    let orders = PartitionId { topic, index: 0 };
    let records: Vec<_> = (0..5_000).map(|n| Bytes::from(format!("order {n}"))).collect();
    nodes[0].append(orders, records.clone()).await?;

    let owner = nodes[0].owner(orders).ok_or("no owner")?;
    let to = nodes.iter().find(|node| node.node() != owner).ok_or("no other node")?;
    nodes[0].ask(Ask::Move { partition: orders, to: to.node() }).await?;
    if let Some(etcd) = &mut own {
        // In the midst of the move. Whatever was asked of it is asked again.
        etcd.kill_and_start()?;
        println!("etcd was killed, and started again");
    }
    to.until(move |node| node.serving(orders).is_some()).await?;

    let (mut read, (_, end)) = (Vec::new(), to.bounds(orders)?);
    while Offset(read.len() as u64) < end {
        let more = to.read(orders, Offset(read.len() as u64), 1 << 20).await?;
        read.extend(more.into_iter().map(|(_, record)| record));
    }
    assert_eq!(read, records, "nothing is lost, and nothing is there twice");

    // What people see with `etcdctl get --prefix narad-example/`.
    let mut etcd = etcd_client::Client::connect([&endpoint], None).await?;
    let row = etcd.get(format!("{prefix}/assignments/orders/0"), None).await?;
    let row = row.kvs().first().ok_or("no row")?.value_str()?.to_owned();
    println!("{prefix}/assignments/orders/0 {row}");
    assert!(row.contains("\"target\":null"), "the move is over");
    for node in nodes {
        node.shutdown().await?;
    }
    let everything = etcd_client::DeleteOptions::new().with_prefix();
    etcd.delete(format!("{prefix}/"), Some(everything)).await?;
    Ok(())
}

/// An etcd that ends with this program.
struct Etcd {
    folder: tempfile::TempDir,
    ports: [u16; 2],
    process: Child,
}

impl Etcd {
    fn start() -> Result<Self, Failure> {
        let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
        let ports = [listeners[0].local_addr()?.port(), listeners[1].local_addr()?.port()];
        drop(listeners);
        let folder = tempfile::tempdir()?;
        let process = Self::spawn(&folder, ports)?;
        Ok(Self { folder, ports, process })
    }

    fn spawn(folder: &tempfile::TempDir, ports: [u16; 2]) -> Result<Child, Failure> {
        let [client, peer] = ports.map(|port| format!("http://127.0.0.1:{port}"));
        let spawned = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--name", "example", "--initial-cluster", &format!("example={peer}")])
            .args(["--log-level", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        spawned.map_err(|error| {
            let how = "install it (Debian and Ubuntu: apt-get install etcd-server), or say where \
                       one runs: cargo run -p narad-etcd --example etcd_metastore -- http://HOST:2379";
            format!("the program `etcd` cannot be started ({error}): {how}").into()
        })
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    fn kill_and_start(&mut self) -> Result<(), Failure> {
        self.process.kill()?;
        self.process.wait()?;
        self.process = Self::spawn(&self.folder, self.ports)?;
        Ok(())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
